//! `netrig sip`: a folder for each of its verbs.

mod load;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::failure::Failure;

/// `netrig sip`.
#[derive(Debug, Args)]
pub struct Sip {
    /// What to do
    #[command(subcommand)]
    pub kind: Kind,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Kind {
    /// Put a load of calls or registrations on a server, and say what it makes of them
    Load(Box<load::Load>),
}

/// Tests SIP servers.
pub fn sip(arguments: &Sip) -> Result<ExitCode, Failure> {
    match &arguments.kind {
        Kind::Load(arguments) => load::load(arguments),
    }
}
