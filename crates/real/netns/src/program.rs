//! Third-party programs on nodes: starts them, checks their readiness, reads their output and ends them.

mod output;
mod placeholders;
mod planned;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use netrig_core::{Note, Sample, Sink, Subject, quantity};
use netrig_experiment::{Ready, RunError, Scenario, Unsupported};
use netrig_host::usage::ProcessFamily;
use netrig_host::{Clock, proc};
use netrig_sip_net as sip;
use netrig_sip_net::Transport;

use self::output::{LineTap, OutputReaders, ProgramOutput};
use self::placeholders::Placeholders;
pub(crate) use self::planned::PlannedProgram;
use self::planned::find;
use crate::counters::{CounterCommand, CounterWatch};
use crate::ftp;
use crate::hop_limits::HopLimitWatch;
use crate::host::ControlGroupReader;
use crate::process::Process;
use crate::ready::{ReadinessProbe, is_so_for};
use crate::router::ObservationBatch;
use crate::testbed::Testbed;
use crate::watch::{WatchThreads, WatchedHost, WatchedNode};

/// How long a program may take to become ready, and how long to answer SIP.
const PREPARATION: Duration = Duration::from_secs(20);
const ANSWERING: Duration = Duration::from_secs(15);
/// How long a command that runs before a program may take.
const PREPARING: Duration = Duration::from_secs(60);
/// How long one SIP request waits for an answer.
const ASKING: Duration = Duration::from_millis(20);
/// How long a program may take to end after SIGTERM.
const PARTING: Duration = Duration::from_secs(2);
/// Interval between checks whether a program is ready.
const LOOK: Duration = Duration::from_millis(5);

/// All programs of a scenario: those that the experiment file names, and the FTP servers of its flows.
///
/// # Errors
/// If a program is not on this machine.
pub(crate) fn planned_programs(scenario: &Scenario) -> Result<Vec<PlannedProgram>, Unsupported> {
    let mut planned_programs = programs_of_nodes(scenario)?;
    planned_programs.extend(ftp::servers(scenario)?);
    Ok(planned_programs)
}

/// The programs that the experiment file names.
///
/// # Errors
/// If a program is not on this machine.
pub(crate) fn programs_of_nodes(scenario: &Scenario) -> Result<Vec<PlannedProgram>, Unsupported> {
    let mut planned_programs = Vec::new();
    for (node, described) in scenario.nodes.iter().enumerate() {
        for program in &described.programs {
            planned_programs.push(PlannedProgram::new(scenario, node, program.clone())?);
        }
    }
    Ok(planned_programs)
}

/// A function that gets each line of a program's output as it is read. Its arguments are the node, the program and the
/// line.
pub(crate) type OutputTap = Arc<dyn Fn(&str, &str, &str) + Send + Sync>;

/// What is observed in addition to the counters of programs.
pub(crate) struct WatchOptions<'a> {
    /// Whether to report the resource usage of programs.
    pub programs: bool,
    /// Whether to report the resource usage of nodes as hosts.
    pub hosts: bool,
    /// Whether to report packets whose hop limit expires at a node.
    pub hop_limits: bool,
    /// The processes of netrig's agents, by the index of the node.
    pub agents: &'a BTreeMap<usize, u32>,
    /// The processes of loads, by the index of the node.
    pub loads: BTreeMap<usize, u32>,
    /// The testbed.
    pub testbed: &'a Testbed,
}

impl WatchOptions<'_> {
    /// The indices of the nodes whose usage as hosts is reported.
    fn hosts(&self) -> impl Iterator<Item = usize> {
        let nodes = 0..self.testbed.wiring().nodes.len();
        nodes.filter(|_| self.hosts)
    }

    /// Observers of expired hop limits, one per node; empty if they are not to be reported.
    fn hop_limits(&self) -> Result<Vec<HopLimitWatch>, RunError> {
        let nodes = 0..self.testbed.wiring().nodes.len();
        nodes.filter(|_| self.hop_limits).map(|node| HopLimitWatch::open(self.testbed, node)).collect()
    }

    fn group(&self, node: usize) -> ControlGroupReader {
        self.testbed.limited(node).unwrap_or_default()
    }
}

#[derive(Default)]
pub(crate) struct Programs(Vec<RunningProgram>);

struct RunningProgram {
    planned: PlannedProgram,
    version: String,
    process: Process,
    folder: PathBuf,
    /// The node's first address.
    address: Option<IpAddr>,
    /// Output of the commands that ran before the program.
    before: ProgramOutput,
    /// Output of the program itself.
    output: ProgramOutput,
    readers: OutputReaders,
    counting: Option<CounterWatch>,
}

impl Programs {
    /// Starts the programs in the order of the experiment file. Each program must be ready before the next program
    /// starts.
    ///
    /// # Errors
    /// If a program cannot be started, ends, or does not become ready. [`RunError::Cancelled`] soon after `cancel`
    /// is set.
    pub fn start(
        testbed: &mut Testbed,
        scenario: &Scenario,
        planned_programs: Vec<PlannedProgram>,
        tap: Option<&OutputTap>,
        cancel: &AtomicBool,
    ) -> Result<Self, RunError> {
        let mut running = Vec::new();
        for (place, planned) in planned_programs.into_iter().enumerate() {
            if cancel.load(Ordering::Relaxed) {
                return Err(RunError::Cancelled);
            }
            let folder = testbed.folder()?.join(format!("program-{place}"));
            let mut program = RunningProgram::start(testbed, scenario, planned, tap, folder, cancel)?;
            program.await_ready(testbed, cancel)?;
            program.begin_counting(testbed, scenario)?;
            running.push(program);
        }
        Ok(Self(running))
    }

    /// Starts to observe the nodes during the run: usage and counters of the file's programs, usage of hosts, expired
    /// hop limits, and use of a node's own processors by other processes.
    ///
    /// # Errors
    /// If a thread cannot be started, or counters of a kernel cannot be read.
    pub fn watch(
        &mut self,
        scenario: &Scenario,
        clock: Clock,
        watched: &WatchOptions<'_>,
        emit: &(impl Fn(ObservationBatch) + Clone + Send + 'static),
    ) -> Result<WatchThreads, RunError> {
        let mut nodes: BTreeMap<usize, WatchedNode> = BTreeMap::new();
        let (mut numbered, mut counting) = (BTreeMap::new(), Vec::new());
        let new = |place: &usize| {
            let process = |list: &BTreeMap<usize, u32>| list.get(place).copied();
            WatchedNode::new(*place, process(watched.agents), process(&watched.loads))
        };
        for place in watched.hosts() {
            let host = WatchedHost::new(scenario.nodes[place].cpus.len(), watched.group(place));
            nodes.entry(place).or_insert_with_key(new).report_host(host);
        }
        for running in &mut self.0 {
            let place = running.planned.node;
            let described = &scenario.nodes[place];
            let named = described.programs.contains(&running.planned.program);
            let reported = named && watched.programs;
            if reported || !described.cpus.is_empty() || nodes.contains_key(&place) {
                let node = nodes.entry(place).or_insert_with_key(new);
                node.add(ProcessFamily::of(running.process.id()), reported);
                node.guard(scenario);
            }
            if let Some(mut own) = running.counting.take() {
                let next = numbered.entry(place).or_insert(0);
                *next = own.number_from(*next);
                counting.push(own);
            }
        }
        for (place, _) in scenario.nodes.iter().enumerate().filter(|(_, node)| node.host.is_constrained()) {
            nodes.entry(place).or_insert_with_key(new).guard(scenario);
        }
        let end = netrig_core::Instant::ZERO + scenario.duration;
        let nodes = nodes.into_values().collect();
        let every = scenario.sample_every;
        WatchThreads::start(nodes, counting, watched.hop_limits()?, (every, end), clock, emit)
    }

    /// The version of each program, with the index of its node.
    pub fn versions(&self) -> impl Iterator<Item = (usize, &str)> {
        self.0.iter().map(|running| (running.planned.node, running.version.as_str()))
    }

    /// Ends the programs, and passes their output to `sink` as notes of their nodes.
    ///
    /// # Errors
    /// If a program that must keep running ended by itself, or a program failed.
    pub fn end(self, clock: Clock, sink: &mut dyn Sink) -> Result<(), RunError> {
        let mut ended = Ok(());
        for program in self.0.into_iter().rev() {
            let outcome = program.end(clock, sink);
            ended = ended.and(outcome);
        }
        ended
    }
}

impl RunningProgram {
    fn start(
        testbed: &mut Testbed,
        scenario: &Scenario,
        planned: PlannedProgram,
        tap: Option<&OutputTap>,
        folder: PathBuf,
        cancel: &AtomicBool,
    ) -> Result<Self, RunError> {
        let version = planned.version()?;
        let names = Placeholders::of(scenario, planned.node, &folder);
        names.create_folder(&planned)?;
        let [before, output] = [(); 2].map(|()| {
            let (node, name) = (scenario.nodes[planned.node].name.clone(), planned.program.name().to_owned());
            let tap = tap.cloned();
            ProgramOutput::with_tap(
                tap.map(|tap| -> LineTap { Arc::new(move |line| tap(&node, &name, line)) }),
            )
        });
        for words in &planned.program.before {
            run_before(testbed, planned.node, words, &names, &before, cancel)?;
        }
        let command = names.command(&planned.executable, &planned.program.command)?;
        let address = names.own_address();
        let mut process = testbed.spawn(planned.node, command)?;
        let readers = output.read_all(&mut process);
        Ok(Self { planned, version, process, folder, address, before, output, readers, counting: None })
    }

    fn await_ready(&mut self, testbed: &Testbed, cancel: &AtomicBool) -> Result<(), RunError> {
        let Some(ready) = self.planned.program.ready.clone() else { return Ok(()) };
        let patience = if matches!(ready, Ready::Sip { .. }) { ANSWERING } else { PREPARATION };
        let deadline = Instant::now() + patience;
        loop {
            if cancel.load(Ordering::Relaxed) {
                return Err(RunError::Cancelled);
            }
            if is_so_for(&ready, &ProgramProbe { program: self, testbed }).map_err(RunError::because)? {
                return Ok(());
            }
            if let Some(status) = self.process.wait(LOOK)? {
                self.readers.await_end();
                return Err(self.failed(&format!("ended with {status} before it was ready ({ready})")));
            }
            if Instant::now() >= deadline {
                let seconds = patience.as_secs();
                return Err(self.failed(&format!("was not ready ({ready}) after {seconds} s")));
            }
        }
    }

    /// If counters of the program are to be reported, reads them for the first time.
    fn begin_counting(&mut self, testbed: &Testbed, scenario: &Scenario) -> Result<(), RunError> {
        let Some(spec) = self.planned.program.counters.clone() else { return Ok(()) };
        let names = Placeholders::of(scenario, self.planned.node, &self.folder);
        let opened = File::open(format!("/proc/{}/ns/net", self.process.id()));
        let command = CounterCommand {
            program: self.planned.program.name().to_owned(),
            executable: executable(&names, &spec.command)?,
            arguments: names.arguments(&spec.command)?,
            folder: self.folder.clone(),
            namespace: opened.map_err(|error| self.failed(&format!("has no network namespace: {error}")))?,
            id: testbed.id().to_owned(),
        };
        self.counting = Some(CounterWatch::begin(command, spec, self.planned.node as u32)?);
        Ok(())
    }

    fn failed(&self, what: &str) -> RunError {
        let name = self.planned.program.name();
        let last = self.output.last().map(|line| format!("; its last line: {line}")).unwrap_or_default();
        RunError::Failed(format!("`{name}` {what}{last}"))
    }

    fn end(mut self, clock: Clock, sink: &mut dyn Sink) -> Result<(), RunError> {
        let early = self.process.wait(Duration::ZERO)?;
        let subject = Subject::Node(self.planned.node as u32);
        let name = self.planned.program.name().to_owned();
        let note = |at, text| Note { at, subject, text };
        sink.note(note(netrig_core::Instant::ZERO, format!("runs {}", self.version)));
        if early.is_none() {
            if let (Some((flow, segment)), Some(again)) = (self.planned.sends, sent_again(self.process.id()))
            {
                let (quantity, value) = (&quantity::RETRANSMITTED_BYTES, (again * segment) as f64);
                sink.sample(Subject::Flow(flow), Sample { at: clock.now(), quantity, value });
            }
            let _status = self.ask_to_end()?;
        }
        self.readers.await_end();
        let ended = match early {
            Some(status) if self.planned.program.ready.is_some() => {
                Err(self.failed(&format!("ended with {status} before it was asked to")))
            }
            Some(status) if !status.success() => Err(self.failed(&format!("failed: it ended with {status}"))),
            _ => Ok(()),
        };
        for (at, line) in self.before.take().into_iter().chain(self.output.take()) {
            sink.note(note(clock.instant(at), format!("{name}: {line}")));
        }
        ended
    }

    /// Sends SIGTERM to the program. If it does not end, kills it with its process group.
    fn ask_to_end(&mut self) -> Result<std::process::ExitStatus, RunError> {
        Ok(self.process.ask_to_stop(PARTING)?)
    }
}

/// The executable of a command, after placeholders are substituted.
fn executable(names: &Placeholders<'_>, words: &[String]) -> Result<PathBuf, RunError> {
    let name = names.substitute(words.first().map_or("", String::as_str))?;
    find(&name).ok_or_else(|| RunError::Failed(format!("`{name}` is not on this machine, or cannot be run")))
}

/// Runs a command to its end before a program starts.
fn run_before(
    testbed: &mut Testbed,
    node: usize,
    words: &[String],
    names: &Placeholders<'_>,
    output: &ProgramOutput,
    cancel: &AtomicBool,
) -> Result<(), RunError> {
    let executable = executable(names, words)?;
    let mut process = testbed.spawn(node, names.command(&executable, words)?)?;
    let readers = output.read_all(&mut process);
    let deadline = Instant::now() + PREPARING;
    let failed = |what: String| {
        readers.await_end();
        let last = output.last().map(|line| format!("; its last line: {line}")).unwrap_or_default();
        RunError::Failed(format!("`{}` {what}{last}", words.join(" ")))
    };
    loop {
        if cancel.load(Ordering::Relaxed) {
            return Err(RunError::Cancelled);
        }
        match process.wait(LOOK)? {
            Some(status) if status.success() => break,
            Some(status) => return Err(failed(format!("failed: it ended with {status}"))),
            None if Instant::now() < deadline => {}
            None => return Err(failed(format!("had not ended after {} s", PREPARING.as_secs()))),
        }
    }
    readers.await_end();
    Ok(())
}

/// Checks the readiness of a program.
struct ProgramProbe<'a> {
    program: &'a RunningProgram,
    testbed: &'a Testbed,
}

impl ReadinessProbe for ProgramProbe<'_> {
    fn pid(&self) -> u32 {
        self.program.process.id()
    }

    fn has_written(&self, text: &str) -> bool {
        self.program.output.has_written(text)
    }

    fn answers_sip(&self, port: u16, over_tcp: bool) -> io::Result<bool> {
        let Some(address) = self.program.address else { return Ok(false) };
        let at = SocketAddr::from((address, port));
        let transport = if over_tcp { Transport::Tcp } else { Transport::Udp };
        let asked =
            self.testbed.in_node(self.program.planned.node, move || sip::answers(transport, at, ASKING));
        asked.map_err(io::Error::other)?
    }
}

/// Number of segments that TCP has retransmitted in the namespace of a process, since the namespace was made (RFC
/// 4022, tcpRetransSegs).
fn sent_again(pid: u32) -> Option<u64> {
    proc::counter(&proc::text(format!("/proc/{pid}/net/snmp")), "Tcp", "RetransSegs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_what_was_sent_again() {
        assert!(sent_again(std::process::id()).is_some());
        assert_eq!(sent_again(0), None);
    }
}
