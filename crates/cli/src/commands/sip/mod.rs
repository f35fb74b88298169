//! `netrig sip`: a file or a folder for each of its verbs.

mod arguments;
mod load;
mod serve;
mod show;
mod users;

use std::process::ExitCode;

use crate::failure::Failure;

use arguments::Kind;
pub use arguments::Sip;

/// SIP over real sockets.
pub fn sip(arguments: &Sip) -> Result<ExitCode, Failure> {
    match &arguments.kind {
        Kind::Serve(arguments) => serve::serve(&arguments.role),
        Kind::Load(arguments) => load::load(arguments),
    }
}
