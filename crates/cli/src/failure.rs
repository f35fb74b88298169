//! How the program ends if a request fails.

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;

/// A message for the user, and an exit code for scripts.
#[derive(Debug)]
pub enum Failure {
    /// The request was wrong: exit code 2.
    Request(String),
    /// Something failed during execution: exit code 1.
    Failed(String),
    /// The tester itself was the limit: exit code 3.
    Tester(String),
    /// The user interrupted the program before there was a result: exit code 130.
    Interrupted,
    /// The reader of the output closed the pipe: no message, exit code 0.
    BrokenPipe,
}

/// A claim was not supported, or a run failed.
pub const FAILED: u8 = 1;
/// The tester itself was the limit.
pub const TESTER: u8 = 3;
/// Interrupted by the user.
pub const INTERRUPTED: u8 = 130;

impl Failure {
    /// The request was wrong.
    pub fn request(why: impl Display) -> Self {
        Self::Request(why.to_string())
    }

    /// Something failed.
    pub fn failed(why: impl Display) -> Self {
        Self::Failed(why.to_string())
    }

    /// Prints the message on stderr, and returns the exit code.
    pub fn tell(&self) -> ExitCode {
        let (why, code) = match self {
            Self::Request(why) => (why.as_str(), 2),
            Self::Failed(why) => (why.as_str(), FAILED),
            Self::Tester(why) => (why.as_str(), TESTER),
            Self::Interrupted => ("interrupted before there was anything to show", INTERRUPTED),
            Self::BrokenPipe => return ExitCode::SUCCESS,
        };
        // Diagnostics of a file already begin with `error`. An interruption is not an error.
        let is_error = code != INTERRUPTED && !why.starts_with("error");
        let prefix = if is_error { "error: " } else { "" };
        // If even stderr is closed, nothing can be printed.
        let _ = writeln!(std::io::stderr(), "{prefix}{}", why.trim_end());
        ExitCode::from(code)
    }
}

/// Prints a line to stdout. The failure of a closed pipe is [`Failure::BrokenPipe`].
pub fn print(text: impl Display) -> Result<(), Failure> {
    writeln!(std::io::stdout().lock(), "{text}").map_err(|error| unwritten(&error))
}

/// Prints a document as JSON.
pub fn print_json(document: &impl Serialize) -> Result<(), Failure> {
    print(serde_json::to_string_pretty(document).map_err(Failure::failed)?)
}

/// Prints a document as JSON if `as_json` is true; otherwise prints its text.
pub fn print_report(
    as_json: bool,
    document: &impl Serialize,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    if as_json { print_json(document) } else { print(text().trim_end()) }
}

/// The exit code of a measurement: [`INTERRUPTED`], or [`TESTER`] if the measurement is not valid, or [`FAILED`] if the
/// result is not good.
pub fn exit_code(interrupted: bool, valid: bool, is_good: bool) -> ExitCode {
    match (interrupted, valid, is_good) {
        (true, ..) => ExitCode::from(INTERRUPTED),
        (_, false, _) => ExitCode::from(TESTER),
        (.., false) => ExitCode::from(FAILED),
        _ => ExitCode::SUCCESS,
    }
}

/// The failure of output that could not be written. A closed pipe needs no message.
pub fn unwritten(error: &std::io::Error) -> Failure {
    match error.kind() {
        std::io::ErrorKind::BrokenPipe => Failure::BrokenPipe,
        _ => Failure::failed(format!("cannot write to the output: {error}")),
    }
}
