//! Counters of programs, which are read by running a command.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use netrig_core::{Instant, Note, Sample, Sink, Subject, quantity};
use netrig_experiment::{ProgramCounters, RunError};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::process::{MARK, ended_within};
use crate::sys::{die_with_starter, start_in};

/// How long a command may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum length of the output of a command, bytes, and maximum number of counters that are listed at the end of a
/// run.
const LONGEST: u64 = 1 << 20;
const MOST_COUNTERS: usize = 1000;

/// Values by counter name.
type CounterValues = BTreeMap<String, f64>;

/// The command that reads the counters of a program.
#[derive(Debug)]
pub(crate) struct CounterCommand {
    /// The program's name, for messages.
    pub program: String,
    /// The executable of the command.
    pub executable: PathBuf,
    /// The arguments of the command.
    pub arguments: Vec<String>,
    /// The working folder.
    pub folder: PathBuf,
    /// The network namespace of the node.
    pub namespace: File,
    /// The identity of the testbed.
    pub id: String,
}

impl CounterCommand {
    /// Runs the command and parses its output.
    fn read(&self) -> Result<CounterValues, RunError> {
        let failed = |what: String| {
            let Self { program, executable, .. } = self;
            RunError::Failed(format!("the counters of `{program}`: {} {what}", executable.display()))
        };
        let refused = |error: std::io::Error| failed(format!("cannot be run: {error}"));
        let mut command = Command::new(&self.executable);
        command.args(&self.arguments).current_dir(&self.folder).env(MARK, &self.id);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        die_with_starter(&mut command);
        start_in(&mut command, self.namespace.as_fd().try_clone_to_owned().map_err(refused)?);
        let mut child = command.spawn().map_err(refused)?;
        let stream = child.stdout.take();
        let reader = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // If reading fails, the output that has been read so far is used.
            let _ = stream.map(|stream| stream.take(LONGEST).read_to_end(&mut bytes));
            String::from_utf8_lossy(&bytes).into_owned()
        });
        // The child has not been waited for, so its process ID has not been reused.
        let handle = Pid::from_raw(child.id().cast_signed()).ok_or(rustix::io::Errno::SRCH);
        let handle = handle
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()))
            .map_err(|error| refused(error.into()));
        let in_time = handle.and_then(|handle| ended_within(&handle, PATIENCE).map_err(refused));
        if !matches!(in_time, Ok(true)) {
            let _ = child.kill();
        }
        let status = child.wait().map_err(refused)?;
        if !in_time? {
            return Err(failed(format!("did not end within {} s", PATIENCE.as_secs())));
        }
        if !status.success() {
            return Err(failed(format!("ended with {status}")));
        }
        let text = reader.join().map_err(|_| failed("could not be read".into()))?;
        Ok(values(&text))
    }
}

/// The counters of a program, from the start of a run to its end.
#[derive(Debug)]
pub(crate) struct CounterWatch {
    command: CounterCommand,
    spec: ProgramCounters,
    node: u32,
    /// The index of the program's first counter among the counters of the node.
    first: u16,
    begun: CounterValues,
    last: CounterValues,
}

impl CounterWatch {
    /// Reads the counters for the first time.
    ///
    /// # Errors
    /// If the counters cannot be read, or one of the requested counters is missing.
    pub fn begin(command: CounterCommand, spec: ProgramCounters, node: u32) -> Result<Self, RunError> {
        let begun = command.read()?;
        if let Some(missing) = spec.names.iter().find(|name| !begun.contains_key(*name)) {
            let known: Vec<_> = begun.keys().take(MOST_COUNTERS).map(String::as_str).collect();
            return Err(RunError::Failed(format!(
                "`{}` has no counter `{missing}`; it has: {}",
                command.program,
                known.join(", ")
            )));
        }
        Ok(Self { command, spec, node, first: 0, last: begun.clone(), begun })
    }

    /// Numbers the program's counters after the `before` counters of other programs of the same node. Returns the new
    /// total.
    pub fn number_from(&mut self, before: u16) -> u16 {
        self.first = before;
        // At most 64 programs with 64 names each.
        before + self.spec.names.len() as u16
    }

    /// The interval at which the counters are read, in addition to the start and the end of the run.
    pub fn every(&self) -> Option<netrig_core::Duration> {
        self.spec.every
    }

    /// Reads the counters at `at`, and reports the growth of the requested counters since the last reading.
    ///
    /// # Errors
    /// If the counters cannot be read.
    pub fn tick(&mut self, at: Instant, sink: &mut dyn Sink) -> Result<(), RunError> {
        let now = self.command.read()?;
        for (name, place) in self.spec.names.iter().zip(self.first..) {
            let of = |values: &CounterValues| values.get(name).copied();
            if let (Some(before), Some(value)) = (of(&self.last), of(&now)) {
                let sample = Sample { at, quantity: &quantity::COUNTER_GROWTH, value: value - before };
                sink.sample(Subject::Counter(self.node, place), sample);
            }
        }
        self.last = now;
        Ok(())
    }

    /// Passes a note to `sink` for every counter that has changed since the start of the run.
    pub fn sum_up(&self, at: Instant, sink: &mut dyn Sink) {
        let grown = self.last.iter().filter_map(|(name, value)| {
            let growth = value - self.begun.get(name).copied().unwrap_or(0.0);
            (growth != 0.0).then_some((name, growth, value))
        });
        for (name, growth, value) in grown.take(MOST_COUNTERS) {
            let text = format!("{}: {name} grew by {growth} to {value}", self.command.program);
            sink.note(Note { at, subject: Subject::Node(self.node), text });
        }
    }
}

/// Parses counters from lines of the form `name = value`, `name: value` or `name:value`. Other lines are ignored.
fn values(text: &str) -> CounterValues {
    let value = |line: &str| {
        // A name may contain colons. The last colon separates it from the value.
        let (name, value) = line.split_once('=').or_else(|| line.rsplit_once(':'))?;
        Some((name.trim().to_owned(), value.trim().parse::<f64>().ok().filter(|value| value.is_finite())?))
    };
    text.lines().filter_map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_in_all_forms() {
        let text = "{\n\tcore.rcv_requests: 12\n\tcore:drops = 3\nplain:4\nstate: up\nload = 0.25\n}\n";
        let expected = [("core.rcv_requests", 12.0), ("core:drops", 3.0), ("plain", 4.0), ("load", 0.25)];
        let expected: CounterValues = expected.map(|(name, value)| (name.to_owned(), value)).into();
        assert_eq!(values(text), expected);
    }

    fn command(script: &str) -> CounterCommand {
        CounterCommand {
            program: "x".into(),
            executable: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            folder: "/".into(),
            namespace: File::open("/proc/self/ns/net").unwrap(),
            id: "none".into(),
        }
    }

    #[test]
    fn a_command_that_fails_says_so() {
        if !crate::capabilities::missing_requirements().is_empty() {
            return;
        }
        let why = |script: &str, names: &[&str]| {
            let names = names.iter().map(ToString::to_string).collect();
            let spec = ProgramCounters { names, ..ProgramCounters::default() };
            CounterWatch::begin(command(script), spec, 0).unwrap_err().to_string()
        };
        assert!(why("exit 3", &[]).contains("the counters of `x`: /bin/sh ended with"));
        let missing = why("echo a = 1; echo b:2", &["c"]);
        assert!(missing.contains("`x` has no counter `c`; it has: a, b"), "{missing}");
    }
}
