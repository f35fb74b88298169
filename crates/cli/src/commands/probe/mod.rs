//! `netrig probe`: a file for each probe, and one for the far end of all.

mod arguments;
mod media;
mod target;

use std::process::ExitCode;

use crate::failure::Failure;

use arguments::Kind;
pub use arguments::Probe;

/// The tester itself was the limit.
const TESTER: u8 = 3;

/// Measures a path, or is the far end of who does.
pub fn probe(arguments: &Probe) -> Result<ExitCode, Failure> {
    match &arguments.kind {
        Kind::Transfer(arguments) => media::transfer(arguments),
        Kind::Voice(arguments) => media::voice(arguments),
        Kind::Video(arguments) => media::video(arguments),
        Kind::Listen(arguments) => media::listen(arguments),
    }
}
