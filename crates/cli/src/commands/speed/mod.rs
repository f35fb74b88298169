//! `netrig speed`: how fast a line is, and the server for those who ask.

mod arguments;
mod iperf3;
mod measure;
mod serve;
mod show;

use std::process::ExitCode;

use arguments::Kind;
pub use arguments::Speed;

use crate::failure::Failure;

/// Measures against a server, or is one.
pub fn speed(arguments: &Speed) -> Result<ExitCode, Failure> {
    match (&arguments.kind, &arguments.target) {
        (Some(Kind::Serve(arguments)), _) => serve::serve(arguments),
        (None, Some(target)) => measure::measure(target, &arguments.measure),
        (None, None) => {
            Err(Failure::request("expected the host of a server, or `serve`: netrig speed --help"))
        }
    }
}
