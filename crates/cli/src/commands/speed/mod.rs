//! `netrig speed`: how fast a line is, the server for those who ask, and what the terminal is set to.

mod arguments;
mod measure;
mod serve;
mod tasks;
mod tune;

use std::process::ExitCode;

use arguments::Kind;
pub use arguments::Speed;

use crate::failure::Failure;

/// Measures against a server, or is one.
pub fn speed(arguments: &Speed) -> Result<ExitCode, Failure> {
    match (&arguments.kind, &arguments.target) {
        (Some(Kind::Serve(arguments)), _) => serve::serve(arguments),
        (Some(Kind::Tune(arguments)), _) => tune::tune(arguments),
        (None, Some(target)) => measure::measure(target, &arguments.measure),
        (None, None) => {
            Err(Failure::request("expected the host of a server, `serve` or `tune`: netrig speed --help"))
        }
    }
}
