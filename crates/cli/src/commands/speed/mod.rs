//! `netrig speed`: measures the speed of a line, serves measurements, and checks the settings of this host.

mod arguments;
mod measure;
mod serve;
mod tune;

use std::process::ExitCode;

use arguments::Kind;
pub use arguments::Speed;

use crate::commands::probe::Target;
use crate::failure::Failure;

/// Measures against a server, serves, or checks settings.
pub fn speed(arguments: &Speed) -> Result<ExitCode, Failure> {
    match (&arguments.kind, &arguments.target) {
        (Some(Kind::Serve(arguments)), _) => serve::serve(arguments),
        (Some(Kind::Tune(arguments)), _) => tune::tune(arguments),
        (None, Some(target)) => {
            let target = Target { target: target.clone(), version: arguments.version };
            measure::measure(&target, &arguments.measure)
        }
        (None, None) => {
            Err(Failure::request("expected the host of a server, `serve` or `tune`: netrig speed --help"))
        }
    }
}
