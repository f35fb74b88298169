//! The program, started as its users start it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test of a program starts it")]

pub mod capture;
pub mod carried_out;
pub mod far_end;
pub mod free_port;
pub mod machine;
pub mod namespace;
pub mod path_lab;
pub mod sip_server;
pub mod speed_lab;
pub mod spoilt;
pub mod terminal;

use std::path::Path;
use std::process::{Command, Output};

/// Runs netrig in a folder until it ends.
pub fn netrig(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_netrig"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("netrig starts")
}

/// What it printed.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
