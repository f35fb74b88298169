//! The program, started as its users start it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test of a program starts it")]
#![allow(dead_code, reason = "each test uses a part")]

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
