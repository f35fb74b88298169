//! The output of programs.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use netrig_host::monotonic_nanos;

use crate::process::Process;

/// Maximum number of lines of a program's output that are kept, and maximum number of characters per line.
const LINES: usize = 1000;
const WIDTH: usize = 400;
/// How long reading may continue after the end of the program. Its descendants may keep the pipes open.
const LAST_LINES: Duration = Duration::from_millis(200);
/// Interval between checks whether the output has been read completely.
const LOOK: Duration = Duration::from_millis(5);

/// A function that gets each line of one program's output.
pub(super) type LineTap = Arc<dyn Fn(&str) + Send + Sync>;

/// The output of a program.
#[derive(Clone, Default)]
pub(super) struct ProgramOutput {
    /// The first lines, each with the time at which it was read (ns of `CLOCK_MONOTONIC`).
    lines: Arc<Mutex<Vec<(u64, String)>>>,
    /// Gets every line as soon as it is read.
    tap: Option<LineTap>,
}

/// The threads that read the output of one process.
pub(super) struct OutputReaders(Vec<JoinHandle<()>>);

impl OutputReaders {
    /// Waits until the output is read to its end, but at most for [`LAST_LINES`].
    pub fn await_end(&self) {
        let deadline = Instant::now() + LAST_LINES;
        while self.0.iter().any(|reader| !reader.is_finished()) && Instant::now() < deadline {
            std::thread::sleep(LOOK);
        }
    }
}

impl ProgramOutput {
    /// An empty output. `tap` gets every line as soon as it is read.
    pub fn with_tap(tap: Option<LineTap>) -> Self {
        Self { tap, ..Self::default() }
    }

    /// Starts threads that read both output pipes of a process, if the pipes have not been taken before.
    pub fn read_all(&self, process: &mut Process) -> OutputReaders {
        let readers = [
            process.stdout().map(|stream| self.read(stream)),
            process.stderr().map(|stream| self.read(stream)),
        ];
        OutputReaders(readers.into_iter().flatten().collect())
    }

    /// Reads a stream to its end, even if no more lines are kept, so that the program never blocks.
    fn read(&self, stream: impl Read + Send + 'static) -> JoinHandle<()> {
        let output = self.clone();
        std::thread::spawn(move || {
            let mut stream = BufReader::new(stream);
            let mut line = Vec::new();
            loop {
                line.clear();
                // A line that is too long is split.
                match (&mut stream).take(WIDTH as u64 * 4).read_until(b'\n', &mut line) {
                    Ok(0) | Err(_) => break,
                    Ok(_) => output.add(&line),
                }
            }
        })
    }

    fn add(&self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let text: String = text.trim_end().chars().filter(|c| !c.is_control()).take(WIDTH).collect();
        if text.is_empty() {
            return;
        }
        if let Some(tap) = &self.tap {
            tap(&text);
        }
        let mut lines = self.lines();
        if lines.len() < LINES {
            lines.push((monotonic_nanos(), text));
        }
    }

    pub fn has_written(&self, wanted: &str) -> bool {
        self.lines().iter().any(|(_, line)| line.contains(wanted))
    }

    pub fn last(&self) -> Option<String> {
        self.lines().last().map(|(_, line)| line.clone())
    }

    pub fn take(&self) -> Vec<(u64, String)> {
        std::mem::take(&mut *self.lines())
    }

    fn lines(&self) -> MutexGuard<'_, Vec<(u64, String)>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_kept_within_limits() {
        let output = ProgramOutput::default();
        let text = "\n".to_owned() + &"x".repeat(10_000) + "\nready \x1b[1m\n" + &"y\n".repeat(5_000);
        output.read(std::io::Cursor::new(text.into_bytes())).join().unwrap();
        assert!(output.has_written("ready") && !output.has_written("\x1b"));
        let lines = output.take();
        assert_eq!(lines.len(), LINES);
        assert!(lines.iter().all(|(_, line)| line.len() <= WIDTH));
    }
}
