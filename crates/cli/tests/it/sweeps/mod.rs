//! Sweeps on many machines, as users start them: the same bytes as one process, whatever happens to chunks and engines.

mod cluster;
mod fake_slurm;
mod folders;
mod on_parallel;
mod on_slurm;

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use netrig_test_support::ExperimentText;

use crate::common::{machine, netrig, text};

/// Four points with six replications of some milliseconds each.
fn four_rates() -> String {
    ExperimentText::new("four-rates", "3 s")
        .table("replications", "count = 6")
        .table("factors", r#"rate = ["4 Mbit/s", "8 Mbit/s", "12 Mbit/s", "16 Mbit/s"]"#)
        .nodes("a b")
        .fifo("ab", "a b", ("${rate}", "5 ms", 30), r#"loss = { kind = "bernoulli", probability = "0.2 %" }"#)
        .flow("file", "a b", r#"transport = "tcp", application = { kind = "bulk" }"#)
        .table("transport.tcp", r#"kind = "tcp""#)
        .response("goodput", "flow.file", "goodput")
        .build()
}

const RUNS: usize = 24;

/// A folder with the experiment in `four.toml`, and what one process makes of it.
struct Lab {
    folder: tempfile::TempDir,
    alone: Output,
}

impl Lab {
    fn new() -> Self {
        let folder = machine::folder("four", &four_rates());
        let alone =
            netrig(folder.path(), &["run", "four.toml", "--store=alone.db", "--out=alone.csv", "--json"]);
        assert!(alone.status.success(), "{}", text(&alone.stderr));
        Self { folder, alone }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn netrig(&self, line: &str) -> Output {
        netrig(self.path(), &line.split(' ').collect::<Vec<_>>())
    }

    /// As [`Self::netrig`], and it succeeds.
    fn ok(&self, line: &str) -> String {
        let output = self.netrig(line);
        assert!(output.status.success(), "{line}: {}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout).to_owned()
    }

    /// The store has what one process makes, each run once, and nothing is left to run.
    fn is_as_alone(&self, store: &str) {
        let merged = self.ok(&format!("run four.toml --store={store} --out={store}.csv --json"));
        assert_eq!(merged, text(&self.alone.stdout), "the documents differ");
        let read = |name: &str| std::fs::read(self.path().join(name)).unwrap();
        assert_eq!(read("alone.csv"), read(&format!("{store}.csv")));
        let list = self.ok(&format!("list --store={store}"));
        assert!(list.contains(&format!("{RUNS} runs")), "{list}");
    }

    /// The names of the whole shards of a sweep.
    fn shards(&self, sweep: &str) -> Vec<String> {
        self.names(sweep, "shards")
    }

    /// The names of the files in a folder of a sweep.
    fn names(&self, sweep: &str, folder: &str) -> Vec<String> {
        let list = std::fs::read_dir(self.path().join(sweep).join(folder)).unwrap();
        let mut names: Vec<_> = list.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// A program that ends with the test.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        Self(command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap())
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    fn output(mut self) -> Output {
        let child = std::mem::replace(&mut self.0, Command::new("true").spawn().unwrap());
        child.wait_with_output().unwrap()
    }

    /// As [`Self::output`]. After five minutes, the program is ended, and the test fails with what it printed and what `evidence` says.
    fn output_within_minutes(self, evidence: impl FnOnce() -> String) -> Output {
        let pid = rustix::process::Pid::from_child(&self.0);
        let (ended, end) = std::sync::mpsc::channel();
        std::thread::spawn(move || ended.send(self.output()));
        end.recv_timeout(Duration::from_mins(5)).unwrap_or_else(|_| {
            let evidence = evidence();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            let output = end.recv().unwrap();
            panic!("it does not end:\n{}{}{evidence}", text(&output.stdout), text(&output.stderr));
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for something that takes at most a minute.
fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what} did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Processes whose command lines contain a text: the pid and the command line.
fn processes_with(part: &str) -> Vec<(i32, String)> {
    let list = std::fs::read_dir("/proc").unwrap().flatten();
    let read = |entry: std::fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        Some((pid, String::from_utf8_lossy(&line).replace('\0', " ")))
    };
    list.filter_map(read).filter(|(_, line)| line.contains(part)).collect()
}
