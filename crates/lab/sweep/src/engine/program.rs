//! Calls of an engine's programs.

use std::io::{self, Read};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::group;

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
    /// The system does not tell how it ended.
    #[error("the end of {program} cannot be awaited: {source}")]
    Wait {
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
    /// It was killed because netrig was interrupted.
    #[error("{program} was ended by the interruption")]
    Interrupted {
        /// The program.
        program: String,
    },
}

/// Runs programs of an engine, until netrig is interrupted.
#[derive(Clone, Debug, Default)]
pub(super) struct Programs {
    /// Set by another thread to end the program that runs.
    interrupted: Arc<AtomicBool>,
}

impl Programs {
    pub(super) const fn new(interrupted: Arc<AtomicBool>) -> Self {
        Self { interrupted }
    }

    /// Runs a program to its end; returns its standard output.
    pub(super) fn call(&self, program: &str, arguments: &[String]) -> Result<String, ProgramError> {
        call(program, arguments, PATIENCE, &self.interrupted)
    }
}

fn call(
    program: &str,
    arguments: &[String],
    patience: Duration,
    interrupted: &AtomicBool,
) -> Result<String, ProgramError> {
    let name = program.to_owned();
    let words: Vec<String> = [&name].into_iter().chain(arguments).cloned().collect();
    let started = match is_there(program) {
        true => group::start(&words, Stdio::piped(), Stdio::piped()),
        false => Err(Errno::NOENT.into()),
    };
    let mut child = started.map_err(|source| ProgramError::Start { program: name.clone(), source })?;
    // Threads read its output: a full pipe would block it.
    let (printed, said) = (child.stdout.take().map(reader), child.stderr.take().map(reader));
    let start = Instant::now();
    let status = loop {
        match group::has_ended(&child) {
            // What it has left behind could hold its output open.
            Ok(true) => break group::kill(&mut child),
            Ok(false) if start.elapsed() < patience && !interrupted.load(Ordering::Relaxed) => {
                thread::sleep(STEP)
            }
            ended => {
                // The status of a killed program says nothing about its work.
                let _ = group::kill(&mut child);
                return Err(match ended {
                    Err(source) => ProgramError::Wait { program: name, source },
                    Ok(_) if interrupted.load(Ordering::Relaxed) => {
                        ProgramError::Interrupted { program: name }
                    }
                    Ok(_) => ProgramError::Silent { program: name, patience },
                });
            }
        }
    };
    let status = status.map_err(|source| ProgramError::Wait { program: name.clone(), source })?;
    let text = |reader: Option<Receiver<String>>| {
        reader.and_then(|text| text.recv_timeout(PATIENCE).ok()).unwrap_or_default()
    };
    let (printed, said) = (text(printed), text(said));
    if status.success() {
        return Ok(printed);
    }
    let said = complaint(&said);
    let said = if said.is_empty() { status.to_string() } else { said };
    Err(ProgramError::Failed { program: name, said })
}

/// What a program printed on stderr, without the lines of its log: `kubectl` writes them before its message, each with the time
/// (`E1130 12:00:00.000000 …`).
fn complaint(said: &str) -> String {
    let is_log = |line: &&str| {
        let mut letters = line.bytes();
        letters.next().is_some_and(|letter| b"IWEF".contains(&letter))
            && (0..4).all(|_| letters.next().is_some_and(|digit| digit.is_ascii_digit()))
            && letters.next() == Some(b' ')
    };
    let lines: Vec<_> = said.lines().filter(|line| !is_log(line)).collect();
    lines.join("\n").trim().to_owned()
}

/// Reads a pipe to its end on a thread of its own.
fn reader(mut pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // The bytes read before an error are used.
        let _ = pipe.read_to_end(&mut bytes);
        // Without a receiver the text is not needed.
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

/// Whether a program is in PATH, or at the path that is given.
pub fn is_there(program: &str) -> bool {
    if program.contains('/') {
        return Path::new(program).is_file();
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, patience: Duration) -> Result<String, ProgramError> {
        call("sh", &["-c".to_owned(), script.to_owned()], patience, &AtomicBool::new(false))
    }

    #[test]
    fn an_interruption_ends_a_program_that_does_not_answer() {
        let interrupted = Arc::new(AtomicBool::new(false));
        let programs = Programs::new(Arc::clone(&interrupted));
        let setter = thread::spawn(move || {
            thread::sleep(STEP * 5);
            interrupted.store(true, Ordering::Relaxed);
        });
        let ended = programs.call("sleep", &["600".to_owned()]).unwrap_err();
        assert!(matches!(ended, ProgramError::Interrupted { .. }), "{ended}");
        setter.join().unwrap();
    }

    #[test]
    fn lines_of_a_log_are_no_part_of_a_message() {
        let said =
            "E1130 12:00:00.000001     77 memcache.go:265] \"Unhandled Error\"\nThe connection was refused\n";
        assert_eq!(complaint(said), "The connection was refused");
        assert_eq!(complaint("Error: no\nE113 such\n"), "Error: no\nE113 such");
    }

    #[test]
    fn what_a_program_prints_is_returned_and_what_it_complains_of_is_the_error() {
        assert_eq!(shell("echo 17; echo note >&2", PATIENCE).unwrap(), "17\n");
        let failed = shell("echo no such partition >&2; exit 3", PATIENCE).unwrap_err();
        assert_eq!(failed.to_string(), "sh failed: no such partition");
        assert_eq!(shell("exit 3", PATIENCE).unwrap_err().to_string(), "sh failed: exit status: 3");
        let long = shell("yes | head -c 300000", PATIENCE).unwrap();
        assert_eq!(long.len(), 300_000, "more than a pipe holds");
        let none = Programs::default().call("netrig-has-no-such-program", &[]).unwrap_err().to_string();
        assert!(none.starts_with("cannot start netrig-has-no-such-program: No such file"), "{none}");
    }

    #[test]
    fn a_program_that_does_not_answer_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let ended = folder.path().join("ended");
        // The shell waits for a process that it has started, and that process for its pipe to be closed.
        let script = format!("(sleep 600; touch {0}) & sleep 600; touch {0}", ended.display());
        let silent = shell(&script, Duration::from_millis(300)).unwrap_err();
        assert!(matches!(silent, ProgramError::Silent { .. }), "{silent}");
        let names_it = |entry: io::Result<std::fs::DirEntry>| {
            let line =
                entry.and_then(|entry| std::fs::read(entry.path().join("cmdline"))).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&*ended.to_string_lossy())
        };
        // The kernel ends killed processes one after the other.
        while std::fs::read_dir("/proc").unwrap().any(names_it) {
            thread::sleep(STEP);
        }
    }

    #[test]
    fn what_a_program_leaves_behind_does_not_hold_its_answer_up() {
        assert_eq!(shell("sleep 600 & echo 17", PATIENCE).unwrap(), "17\n");
    }
}
