//! Calls of an engine's programs.

use std::io::{self, Read};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Time-out of a call. If the controller is down, its programs retry for tens of seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Interval of polls of a running program.
const STEP: Duration = Duration::from_millis(20);

/// A program of an engine failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// It cannot be started.
    #[error("cannot start {program}: {source}; is it installed, and in PATH?")]
    Start {
        /// The program.
        program: String,
        /// The error of the system.
        source: io::Error,
    },
    /// It ended with an error.
    #[error("{program} failed: {said}")]
    Failed {
        /// The program.
        program: String,
        /// What it printed on stderr, or its exit status.
        said: String,
    },
    /// It did not end in time, and was killed.
    #[error("{program} did not answer within {} s", .patience.as_secs())]
    Silent {
        /// The program.
        program: String,
        /// The time-out.
        patience: Duration,
    },
}

/// Runs a program to its end; returns its standard output.
pub(super) fn call(program: &str, arguments: &[String]) -> Result<String, ProgramError> {
    call_patiently(program, arguments, PATIENCE)
}

fn call_patiently(program: &str, arguments: &[String], patience: Duration) -> Result<String, ProgramError> {
    let name = program.to_owned();
    let started = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = started.map_err(|source| ProgramError::Start { program: name.clone(), source })?;
    // Threads read its output: a full pipe would block it.
    let printed = child.stdout.take().map(|pipe| thread::spawn(move || read(pipe)));
    let said = child.stderr.take().map(|pipe| thread::spawn(move || read(pipe)));
    let start = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if start.elapsed() < patience => thread::sleep(STEP),
            ended => {
                // It may have ended just now.
                let _ = child.kill();
                let _ = child.wait();
                return Err(match ended {
                    Err(source) => ProgramError::Start { program: name, source },
                    Ok(_) => ProgramError::Silent { program: name, patience },
                });
            }
        }
    };
    let text =
        |reader: Option<thread::JoinHandle<String>>| reader.and_then(|it| it.join().ok()).unwrap_or_default();
    let (printed, said) = (text(printed), text(said));
    if status.success() {
        return Ok(printed);
    }
    let said = if said.trim().is_empty() { status.to_string() } else { said.trim().to_owned() };
    Err(ProgramError::Failed { program: name, said })
}

fn read(mut pipe: impl Read) -> String {
    let mut bytes = Vec::new();
    // The bytes read before an error are used.
    let _ = pipe.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, patience: Duration) -> Result<String, ProgramError> {
        call_patiently("sh", &["-c".to_owned(), script.to_owned()], patience)
    }

    #[test]
    fn what_a_program_prints_is_returned_and_what_it_complains_of_is_the_error() {
        assert_eq!(shell("echo 17; echo note >&2", PATIENCE).unwrap(), "17\n");
        let failed = shell("echo no such partition >&2; exit 3", PATIENCE).unwrap_err();
        assert_eq!(failed.to_string(), "sh failed: no such partition");
        assert_eq!(shell("exit 3", PATIENCE).unwrap_err().to_string(), "sh failed: exit status: 3");
        let long = shell("yes | head -c 300000", PATIENCE).unwrap();
        assert_eq!(long.len(), 300_000, "more than a pipe holds");
        let none = call("netrig-has-no-such-program", &[]).unwrap_err().to_string();
        assert!(none.starts_with("cannot start netrig-has-no-such-program: No such file"), "{none}");
    }

    #[test]
    fn a_program_that_does_not_answer_is_ended() {
        let silent = shell("exec sleep 600", Duration::from_millis(100)).unwrap_err();
        assert!(matches!(silent, ProgramError::Silent { .. }), "{silent}");
    }
}
