//! Programs of others on nodes: what is run, where, and what came of it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use netrig_agent::{Clock, monotonic_nanos};
use netrig_core::{Note, Sample, Sink, Subject, quantity};
use netrig_experiment::{Program, RunError, Scenario, Unsupported};
use sha2::{Digest, Sha256};

use crate::ftp;
use crate::orders::unsupported;
use crate::process::Process;
use crate::ready::is_so_for;
use crate::testbed::Testbed;

/// How long a program has to become ready.
const PREPARATION: Duration = Duration::from_secs(20);
/// How long it has to end when it was asked to.
const PARTING: Duration = Duration::from_secs(2);
/// Between two looks whether it is ready.
const LOOK: Duration = Duration::from_millis(5);
/// How long what it wrote last may take to be read after its end: what it left running may still hold its output.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Lines of a program's output that are kept, and characters of a line.
const LINES: usize = 1000;
const WIDTH: usize = 400;

/// Where programs are looked for, beside the folders of `PATH`: servers of Debian are where only root's path leads.
const FOLDERS: [&str; 4] = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin"];

/// A program that is to run on a node.
#[derive(Clone, Debug)]
pub(crate) struct Errand {
    /// The node, by its place in the scenario.
    pub node: usize,
    /// The program's file.
    pub executable: PathBuf,
    /// What is run, as the file has it.
    pub program: Program,
    /// Folders that it needs in its own, and files there of zeros, by their lengths in bytes.
    pub folders: Vec<&'static str>,
    pub zeros: Vec<(String, u64)>,
    /// The flow whose data it sends, by its number, and the user bytes of a full segment.
    pub sends: Option<(u32, u64)>,
}

impl Errand {
    /// Finds the program's file.
    ///
    /// # Errors
    /// If it is not on this machine: by name, with the packages that have it.
    pub fn new(scenario: &Scenario, node: usize, program: Program) -> Result<Self, Unsupported> {
        let Some(executable) = find(program.name()) else {
            let packages = program.packages.join(" ");
            let mends = match packages.is_empty() {
                true => String::new(),
                false => format!("; on Debian: apt-get install {packages}"),
            };
            return unsupported(format!(
                "node `{}` runs `{}`, which is not on this machine{mends}",
                scenario.nodes[node].name,
                program.name()
            ));
        };
        Ok(Self { node, executable, program, folders: Vec::new(), zeros: Vec::new(), sends: None })
    }

    /// Which program it is: its file and a hash of it, with the versions of its packages.
    pub fn version(&self) -> Result<String, RunError> {
        let bytes = std::fs::read(&self.executable).map_err(|error| {
            RunError::Failed(format!("cannot read {}: {error}", self.executable.display()))
        })?;
        let hash: String = Sha256::digest(&bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let packages: String = packages(&self.program.packages).into_iter().map(|one| one + ", ").collect();
        Ok(format!("{packages}{} (SHA-256 {hash}…)", self.executable.display()))
    }
}

/// All programs that the nodes of a scenario run: those that its file names, and servers of its flows.
///
/// # Errors
/// If one is not on this machine.
pub(crate) fn errands(scenario: &Scenario) -> Result<Vec<Errand>, Unsupported> {
    let mut errands = errands_of_nodes(scenario)?;
    errands.extend(ftp::servers(scenario)?);
    Ok(errands)
}

/// The programs that its file names.
///
/// # Errors
/// If one is not on this machine.
pub(crate) fn errands_of_nodes(scenario: &Scenario) -> Result<Vec<Errand>, Unsupported> {
    let mut errands = Vec::new();
    for (node, described) in scenario.nodes.iter().enumerate() {
        for program in &described.programs {
            errands.push(Errand::new(scenario, node, program.clone())?);
        }
    }
    Ok(errands)
}

/// The file of a program.
fn find(name: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let runs = |path: &PathBuf| {
        std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(runs);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(FOLDERS.map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(runs)
}

/// The packages of these names that Debian's list has as installed, with their versions.
fn packages(names: &[String]) -> Vec<String> {
    let list = std::fs::read_to_string("/var/lib/dpkg/status").unwrap_or_default();
    let field = |paragraph: &str, name: &str| {
        paragraph.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).map(str::to_owned)
    };
    let version = |name: &String| {
        let mut paragraphs = list.split("\n\n");
        let own = paragraphs.find(|paragraph| field(paragraph, "Package").as_ref() == Some(name))?;
        Some(format!("{name} {}", field(own, "Version")?))
    };
    names.iter().filter_map(version).collect()
}

/// Who hears the lines that programs write, as they are read: the node, the program and the line.
pub(crate) type OutputTap = Arc<dyn Fn(&str, &str, &str) + Send + Sync>;

/// Programs that have become ready.
#[derive(Default)]
pub(crate) struct Programs(Vec<Running>);

struct Running {
    errand: Errand,
    version: String,
    process: Process,
    output: Output,
    readers: Vec<JoinHandle<()>>,
}

impl Programs {
    /// Starts them in the order in which the file has them, each when the one before is ready.
    ///
    /// # Errors
    /// If one cannot be started, ends, or does not become ready; [`RunError::Cancelled`] soon after `cancel` was set.
    pub fn start(
        testbed: &mut Testbed,
        scenario: &Scenario,
        errands: Vec<Errand>,
        tap: Option<&OutputTap>,
        cancel: &AtomicBool,
    ) -> Result<Self, RunError> {
        let mut running = Vec::new();
        for (place, errand) in errands.into_iter().enumerate() {
            if cancel.load(Ordering::Relaxed) {
                return Err(RunError::Cancelled);
            }
            let folder = testbed.folder()?.join(format!("program-{place}"));
            let mut program = Running::start(testbed, scenario, errand, tap.cloned(), &folder)?;
            program.await_ready(cancel)?;
            running.push(program);
        }
        Ok(Self(running))
    }

    /// The place of the node that each runs on, and which program it is.
    pub fn versions(&self) -> impl Iterator<Item = (usize, &str)> {
        self.0.iter().map(|running| (running.errand.node, running.version.as_str()))
    }

    /// Ends them, and tells what they wrote as notes of their nodes.
    ///
    /// # Errors
    /// If one that was to listen has ended by itself, or one has failed.
    pub fn end(self, clock: Clock, sink: &mut dyn Sink) -> Result<(), RunError> {
        let mut ended = Ok(());
        for program in self.0.into_iter().rev() {
            let outcome = program.end(clock, sink);
            ended = ended.and(outcome);
        }
        ended
    }
}

impl Running {
    fn start(
        testbed: &mut Testbed,
        scenario: &Scenario,
        errand: Errand,
        tap: Option<OutputTap>,
        folder: &Path,
    ) -> Result<Self, RunError> {
        let version = errand.version()?;
        let names = Names::of(scenario, errand.node, folder);
        names.furnish(&errand)?;
        let mut command = Command::new(&errand.executable);
        let arguments = errand.program.command.iter().skip(1);
        command.args(arguments.map(|argument| names.put_into(argument)).collect::<Result<Vec<_>, _>>()?);
        command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = testbed.spawn(errand.node, command)?;
        let (node, name) = (scenario.nodes[errand.node].name.clone(), errand.program.name().to_owned());
        let heard = tap.map(|hears| -> LineTap { Arc::new(move |line| hears(&node, &name, line)) });
        let output = Output { heard, ..Output::default() };
        let readers = [
            process.stdout().map(|stream| output.read(stream)),
            process.stderr().map(|stream| output.read(stream)),
        ];
        Ok(Self { errand, version, process, output, readers: readers.into_iter().flatten().collect() })
    }

    fn await_ready(&mut self, cancel: &AtomicBool) -> Result<(), RunError> {
        let Some(ready) = self.errand.program.ready.clone() else { return Ok(()) };
        let deadline = Instant::now() + PREPARATION;
        loop {
            if cancel.load(Ordering::Relaxed) {
                return Err(RunError::Cancelled);
            }
            let has_said = |text: &str| self.output.has_said(text);
            if is_so_for(&ready, self.process.id(), has_said).map_err(RunError::because)? {
                return Ok(());
            }
            if let Some(status) = self.process.wait(LOOK)? {
                self.await_last_words();
                return Err(self.failed(&format!("ended with {status} before it was ready ({ready})")));
            }
            if Instant::now() >= deadline {
                let seconds = PREPARATION.as_secs();
                return Err(self.failed(&format!("was not ready ({ready}) after {seconds} s")));
            }
        }
    }

    fn failed(&self, what: &str) -> RunError {
        let name = self.errand.program.name();
        let last = self.output.last().map(|line| format!("; its last words: {line}")).unwrap_or_default();
        RunError::Failed(format!("`{name}` {what}{last}"))
    }

    fn end(mut self, clock: Clock, sink: &mut dyn Sink) -> Result<(), RunError> {
        let early = self.process.wait(Duration::ZERO)?;
        let subject = Subject::Node(self.errand.node as u32);
        let name = self.errand.program.name().to_owned();
        let note = |at, text| Note { at, subject, text };
        sink.note(note(netrig_core::Instant::ZERO, format!("runs {}", self.version)));
        if early.is_none() {
            if let (Some((flow, segment)), Some(again)) = (self.errand.sends, sent_again(self.process.id())) {
                let (quantity, value) = (&quantity::RETRANSMITTED_BYTES, (again * segment) as f64);
                sink.sample(Subject::Flow(flow), Sample { at: clock.now(), quantity, value });
            }
            let _status = self.ask_to_end()?;
        }
        self.await_last_words();
        for (at, line) in self.output.take() {
            sink.note(note(clock.instant(at), format!("{name}: {line}")));
        }
        match early {
            Some(status) if self.errand.program.ready.is_some() => {
                Err(RunError::Failed(format!("`{name}` ended with {status} before it was asked to")))
            }
            Some(status) if !status.success() => {
                Err(RunError::Failed(format!("`{name}` failed: it ended with {status}")))
            }
            _ => Ok(()),
        }
    }

    /// Waits until its output is read to its end.
    fn await_last_words(&self) {
        let deadline = Instant::now() + LAST_WORDS;
        while self.readers.iter().any(|reader| !reader.is_finished()) && Instant::now() < deadline {
            std::thread::sleep(LOOK);
        }
    }

    /// Asks the program to end, and kills it with all that it started if it does not.
    fn ask_to_end(&mut self) -> Result<std::process::ExitStatus, RunError> {
        Ok(self.process.ask_to_stop(PARTING)?)
    }
}

/// Segments that TCP has sent again in the namespace of a process, which is as old as the run (RFC 4022, tcpRetransSegs).
fn sent_again(pid: u32) -> Option<u64> {
    let table = std::fs::read_to_string(format!("/proc/{pid}/net/snmp")).ok()?;
    let mut tcp = table.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (tcp.next()?, tcp.next()?);
    let place = names.split_whitespace().position(|name| name == "RetransSegs")?;
    values.split_whitespace().nth(place)?.parse().ok()
}

/// Who hears the lines of one program.
type LineTap = Arc<dyn Fn(&str) + Send + Sync>;

/// What a program has written.
#[derive(Clone, Default)]
struct Output {
    /// The first lines, each with the moment at which it was read (ns of `CLOCK_MONOTONIC`).
    lines: Arc<Mutex<Vec<(u64, String)>>>,
    /// Who is told of every line at once.
    heard: Option<LineTap>,
}

impl Output {
    /// Reads a stream to its end, whatever of it is kept, so that the program is never kept waiting.
    fn read(&self, stream: impl Read + Send + 'static) -> JoinHandle<()> {
        let output = self.clone();
        std::thread::spawn(move || {
            let mut stream = BufReader::new(stream);
            let mut line = Vec::new();
            loop {
                line.clear();
                // What is longer than any line is cut, and goes on as another.
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
        if let Some(heard) = &self.heard {
            heard(&text);
        }
        let mut lines = self.lines();
        if lines.len() < LINES {
            lines.push((monotonic_nanos(), text));
        }
    }

    fn has_said(&self, wanted: &str) -> bool {
        self.lines().iter().any(|(_, line)| line.contains(wanted))
    }

    fn last(&self) -> Option<String> {
        self.lines().last().map(|(_, line)| line.clone())
    }

    fn take(&self) -> Vec<(u64, String)> {
        std::mem::take(&mut *self.lines())
    }

    fn lines(&self) -> MutexGuard<'_, Vec<(u64, String)>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What `{folder}` and `{address}` stand for.
struct Names<'a> {
    folder: &'a Path,
    own: Option<IpAddr>,
    addresses: BTreeMap<&'a str, IpAddr>,
}

impl<'a> Names<'a> {
    fn of(scenario: &'a Scenario, node: usize, folder: &'a Path) -> Self {
        let address = |node: usize| (0..scenario.links.len()).find_map(|link| scenario.address(node, link));
        let named = scenario.nodes.iter().enumerate();
        let addresses = named.filter_map(|(place, node)| Some((node.name.as_str(), address(place)?)));
        Self { folder, own: address(node), addresses: addresses.collect() }
    }

    fn put_into(&self, text: &str) -> Result<String, RunError> {
        let mut rest = text;
        let mut out = String::new();
        while let Some((before, after)) = rest.split_once('{') {
            out += before;
            let (name, behind) = after.split_once('}').unwrap_or((after, ""));
            let value = match (name, name.strip_prefix("address:")) {
                ("folder", _) => Some(self.folder.display().to_string()),
                ("address", _) => self.own.map(|address| address.to_string()),
                (_, Some(node)) => {
                    Some(self.addresses.get(node).map(IpAddr::to_string).ok_or_else(|| {
                        RunError::Failed(format!(
                            "`{{{name}}}` of a program: there is no node `{node}` with an address"
                        ))
                    })?)
                }
                _ => None,
            };
            match value {
                Some(value) => (out, rest) = (out + &value, behind),
                // A brace of the program's own.
                None => {
                    out.push('{');
                    rest = after;
                }
            }
        }
        Ok(out + rest)
    }

    /// Makes the program's folder with all that is to be in it.
    fn furnish(&self, errand: &Errand) -> Result<(), RunError> {
        let at = |name: &str| self.folder.join(name);
        let written = |path: PathBuf, made: std::io::Result<()>| {
            made.map_err(|error| RunError::Failed(format!("cannot write {}: {error}", path.display())))
        };
        written(self.folder.to_owned(), std::fs::create_dir(self.folder))?;
        for name in &errand.folders {
            written(at(name), std::fs::create_dir(at(name)))?;
        }
        for (name, text) in &errand.program.files {
            written(at(name), std::fs::write(at(name), self.put_into(text)?))?;
        }
        for (name, length) in &errand.zeros {
            let made = std::fs::File::create(at(name)).and_then(|file| file.set_len(*length));
            written(at(name), made)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Names<'_> {
        let address: IpAddr = [10, 0, 0, 2].into();
        Names { folder, own: Some(address), addresses: [("proxy", [10, 0, 0, 9].into())].into() }
    }

    #[test]
    fn what_stands_for_folders_and_addresses() {
        let folder = PathBuf::from("/tmp/x");
        let put = |text: &str| names(&folder).put_into(text).unwrap();
        assert_eq!(put("{folder}/a {address}:{address:proxy}"), "/tmp/x/a 10.0.0.2:10.0.0.9");
        // Braces of the program's own stay as they are.
        assert_eq!(put("route { drop; } {x} {"), "route { drop; } {x} {");
        assert!(names(&folder).put_into("{address:none}").is_err());
    }

    #[test]
    fn a_program_is_found_or_not() {
        assert!(find("sh").is_some_and(|path| path.is_absolute()));
        assert_eq!(find("/bin/sh"), Some("/bin/sh".into()));
        assert_eq!((find("no-such-program"), find("/etc/passwd")), (None, None));
    }

    #[test]
    fn the_kernel_tells_what_was_sent_again() {
        assert!(sent_again(std::process::id()).is_some());
        assert_eq!(sent_again(0), None);
    }

    #[test]
    fn output_is_kept_within_limits() {
        let output = Output::default();
        let text = "\n".to_owned() + &"x".repeat(10_000) + "\nready \x1b[1m\n" + &"y\n".repeat(5_000);
        output.read(std::io::Cursor::new(text.into_bytes())).join().unwrap();
        assert!(output.has_said("ready") && !output.has_said("\x1b"));
        let lines = output.take();
        assert_eq!(lines.len(), LINES);
        assert!(lines.iter().all(|(_, line)| line.len() <= WIDTH));
    }
}
