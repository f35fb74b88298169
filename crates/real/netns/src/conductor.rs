//! Executes a run on a testbed. Each node has an agent, the router connects the nodes, and all use the same clock.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::resume_unwind;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::{Duration, Instant};

use netrig_agent::control::{self, Column, ControlReply, ControlRequest, Epoch};
use netrig_agent::{EndRemark, EndReport, RunOrder};
use netrig_core::{Note, Quantity, Sink, Subject, quantity};
use netrig_experiment::{Host, Run, RunError, RunOutcome, RunRemark, Scenario};
use netrig_host::Clock;
use netrig_host::frames::{self, FrameError};
use netrig_traffic::FlowSide;

use crate::host::NodeLoads;
use crate::interfaces::{InterfaceEvents, InterfaceReport};
use crate::orders::grace;
use crate::process::Process;
use crate::program::{PlannedProgram, Programs, WatchOptions};
use crate::provenance;
use crate::router::{ObservationBatch, Recognition, Router, RouterReport, RouterThread, UNTAKEN};
use crate::testbed::Testbed;

/// How long agents may take to start and to open their sockets.
const PREPARATION: Duration = Duration::from_secs(20);
/// Time between the start request and the start of the run. The request must reach every agent before the start.
const LEAD: netrig_core::Duration = netrig_core::Duration::from_millis(100);
/// How long agents may take to report after the end of the run.
const REPORTING: Duration = Duration::from_secs(20);
/// Interval between checks of the flag that cancels the run.
const LOOK: Duration = Duration::from_millis(50);
/// Interval between checks whether the router has ended.
const LAST_LOOK: Duration = Duration::from_millis(5);
/// How long an agent may take to end after its last request.
const PARTING: Duration = Duration::from_secs(2);

/// Quantities of the resource usage of programs.
static TAKEN: [&Quantity; 4] = [
    &quantity::PROGRAM_CPU,
    &quantity::PROGRAM_MEMORY,
    &quantity::PROGRAM_UDP_QUEUE,
    &quantity::PROGRAM_UDP_DROPS,
];

/// Quantities of the resource usage of nodes as hosts.
static TAKEN_BY_HOSTS: [&Quantity; 5] = [
    &quantity::HOST_LOAD,
    &quantity::HOST_CPU,
    &quantity::HOST_CPU_WAIT,
    &quantity::HOST_THROTTLED,
    &quantity::HOST_MEMORY,
];

/// Input of the conductor during a run.
enum RunInput {
    /// A reply of the agent at this index; `None` at the end of its output.
    Agent(usize, Result<Option<ControlReply>, FrameError>),
    /// Observations of the router or of another observing thread.
    Router(ObservationBatch),
}

impl RunInput {
    /// Passes observations to `sink`. Replies of agents are ignored, because all agents have reported.
    fn send_to(self, sink: &mut dyn Sink) {
        if let Self::Router(observations) = self {
            observations.send_to(sink);
        }
    }
}

/// An input that is not an error.
enum AgentEvent {
    /// A reply of the agent at this index.
    Reply(usize, ControlReply),
    ObservationBatch(ObservationBatch),
}

/// The deadline for agents, and the error message if they miss it.
struct AgentDeadline {
    until: Instant,
    failure: String,
}

impl AgentDeadline {
    fn new(span: Duration, failure: &str, within: Duration) -> Self {
        Self { until: Instant::now() + span, failure: format!("{failure} within {} s", within.as_secs()) }
    }
}

/// Reports of agents during a run.
struct AgentReports {
    reports: Vec<EndReport>,
    /// The indices of the agents that have not yet reported.
    waiting: BTreeSet<usize>,
    /// Ends of flows that are still active. The run ends when this set becomes empty.
    busy: BTreeSet<(u32, FlowSide)>,
}

/// A running agent.
struct AgentHandle {
    place: usize,
    node: String,
    process: Process,
    stdin: ChildStdin,
}

/// Everything that exists during a run.
pub(crate) struct Conductor<'a> {
    run: &'a Run,
    // The agents, programs and loads are declared before the testbed, because fields are dropped in order.
    agents: Vec<AgentHandle>,
    programs: Programs,
    loads: NodeLoads,
    /// The ends of flows that agents run.
    ends: BTreeSet<(u32, FlowSide)>,
    testbed: Testbed,
    /// When the processor quotas of nodes are removed. This is the end of the run, because an agent with 1 % of a
    /// processor would need minutes to report. `None` before the run and after the quotas are removed.
    held_until: Option<Instant>,
    inputs: Receiver<RunInput>,
    input_sender: SyncSender<RunInput>,
}

impl<'a> Conductor<'a> {
    /// Starts the agents on `testbed`, lets them open their sockets, and starts the programs. The executable of the
    /// agents is `program`.
    ///
    /// # Errors
    /// If an agent cannot be started or cannot execute its order, or a program does not become ready.
    pub fn prepare(
        run: &'a Run,
        mut testbed: Testbed,
        program: &Path,
        orders: BTreeMap<usize, RunOrder>,
        planned_programs: Vec<PlannedProgram>,
        cancel: &AtomicBool,
    ) -> Result<Self, RunError> {
        let (input_sender, inputs) = mpsc::sync_channel(UNTAKEN);
        let mut agents = Vec::with_capacity(orders.len());
        let ends = orders.values().flat_map(|order| &order.ends).map(|end| (end.flow, end.side)).collect();
        for (node, order) in orders {
            let mut agent = AgentHandle::start(&mut testbed, node, program, agents.len(), &input_sender)?;
            agent.send(&ControlRequest::Hello { version: control::VERSION })?;
            control::order_frames(order).try_for_each(|request| agent.send(&request))?;
            agents.push(agent);
        }
        let (programs, loads) = (Programs::default(), NodeLoads::default());
        let held_until = None;
        let mut conductor =
            Self { run, agents, programs, loads, ends, testbed, held_until, inputs, input_sender };
        let deadline = AgentDeadline::new(PREPARATION, "did not open their sockets", PREPARATION);
        let mut waiting: BTreeSet<_> = (0..conductor.agents.len()).collect();
        while !waiting.is_empty() {
            if let AgentEvent::Reply(agent, ControlReply::Prepared { .. }) =
                conductor.next_event(&deadline, &waiting, cancel)?
            {
                waiting.remove(&agent);
            }
        }
        // The kernels of the nodes now have the settings of the run.
        conductor.programs =
            Programs::start(&mut conductor.testbed, &run.scenario, planned_programs, None, cancel)?;
        conductor.loads = NodeLoads::start(&mut conductor.testbed, &run.scenario, program)?;
        conductor.testbed.hold_to_quotas()?;
        Ok(conductor)
    }

    /// Executes the run and returns its outcome and the reports of the ends.
    ///
    /// # Errors
    /// [`RunError::Cancelled`] soon after `cancel` is set; otherwise the first failure.
    pub fn carry_out(
        mut self,
        sink: &mut dyn Sink,
        cancel: &AtomicBool,
    ) -> Result<(RunOutcome, Vec<EndReport>), RunError> {
        let observations = self.input_sender.clone();
        let emit = move |found| {
            // If the receiver is closed, the run has been aborted.
            let _ = observations.send(RunInput::Router(found));
        };
        let router = Router::new(&self.testbed, self.run, sink, Box::new(emit.clone()))?;
        provenance::report(&self.run.scenario, sink);
        let clock = Clock::starting_in(LEAD);
        let interfaces = InterfaceEvents::start(
            &self.testbed,
            &self.run.scenario,
            clock,
            &router.down_interfaces(),
            &emit,
        )?;
        let wants = |quantities: &[&'static Quantity]| quantities.iter().any(|quantity| sink.wants(quantity));
        let watched = WatchOptions {
            programs: wants(&TAKEN),
            hosts: wants(&TAKEN_BY_HOSTS),
            hop_limits: wants(&[&quantity::HOP_LIMIT_DROPS]),
            agents: &self.agents.iter().map(|agent| (agent.place, agent.process.id())).collect(),
            loads: self.loads.processes().collect(),
            testbed: &self.testbed,
        };
        let watching = self.programs.watch(&self.run.scenario, clock, &watched, &emit)?;
        let routing = RouterThread::start(router, clock);
        let ends = match self.collect_reports(clock, sink, cancel) {
            Ok(ends) => ends,
            Err(error) => {
                // The receiver is dropped first: the threads that are joined next must not block on a full channel.
                drop(self.inputs);
                return Err(error);
            }
        };
        let scenario = &self.run.scenario;
        let end = clock.now().min(netrig_core::Instant::ZERO + scenario.duration);
        let (report, interfaces, watched) = std::thread::scope(|scope| {
            let ending = scope.spawn(|| (routing.stop(end), interfaces.stop(), watching.stop()));
            while !ending.is_finished() {
                self.inputs.recv_timeout(LAST_LOOK).into_iter().for_each(|message| message.send_to(sink));
            }
            ending.join().unwrap_or_else(|panic| resume_unwind(panic))
        });
        let report = report?;
        let intruded = watched?;
        self.inputs.try_iter().for_each(|message| message.send_to(sink));
        self.loads.end()?;
        self.agents.into_iter().try_for_each(AgentHandle::stop)?;
        self.programs.end(clock, sink)?;
        let diagnostics = end_diagnostics(scenario, &ends);
        if sink.wants_notes() {
            let of_ends =
                diagnostics.notes.into_iter().map(|(subject, text)| Note { at: end, subject, text });
            report.notes(end, &ends).into_iter().chain(of_ends).for_each(|note| sink.note(note));
        }
        self.testbed.remove()?;
        let lasted = end.since(netrig_core::Instant::ZERO);
        let lasted = Some(lasted).filter(|lasted| *lasted < scenario.duration);
        let faults = diagnostics.faults.into_iter().chain(intruded);
        let outcome = RunOutcome { lasted, ..outcome(&report, &interfaces, &ends, faults) };
        Ok((outcome, ends))
    }

    /// Starts the agents, and passes on their measurements until all of them have reported.
    fn collect_reports(
        &mut self,
        clock: Clock,
        sink: &mut dyn Sink,
        cancel: &AtomicBool,
    ) -> Result<Vec<EndReport>, RunError> {
        for agent in &mut self.agents {
            agent.send(&ControlRequest::Start { at: Epoch::Monotonic(clock.epoch_nanos()) })?;
        }
        let scenario = &self.run.scenario;
        let lasts = Duration::from_nanos((LEAD + scenario.duration + grace(scenario)).as_nanos());
        self.held_until = Some(Instant::now() + lasts);
        let deadline = AgentDeadline::new(lasts + REPORTING, "did not report the end of the run", REPORTING);
        let waiting = (0..self.agents.len()).collect();
        let mut reports = AgentReports { reports: Vec::new(), waiting, busy: self.awaited() };
        while !reports.waiting.is_empty() {
            let ends = match self.next_event(&deadline, &reports.waiting, cancel)? {
                AgentEvent::ObservationBatch(observations) if observations.is_drained() => true,
                AgentEvent::ObservationBatch(observations) => {
                    observations.send_to(sink);
                    false
                }
                AgentEvent::Reply(agent, reply) => self.handle_reply(agent, reply, &mut reports, sink)?,
            };
            if ends {
                self.agents.iter_mut().try_for_each(|agent| agent.send(&ControlRequest::Stop))?;
                self.held_until = Some(Instant::now());
            }
        }
        self.held_until = None;
        self.testbed.lift_quotas()?;
        Ok(reports.reports)
    }

    /// The ends of the flows after which the run ends.
    fn awaited(&self) -> BTreeSet<(u32, FlowSide)> {
        let awaited = |(flow, _): &&(u32, FlowSide)| self.run.scenario.ends_with.contains(&(*flow as usize));
        self.ends.iter().filter(awaited).copied().collect()
    }

    /// Handles a reply of the agent at this index. Returns whether the run ends with this reply.
    fn handle_reply(
        &self,
        agent: usize,
        reply: ControlReply,
        reports: &mut AgentReports,
        sink: &mut dyn Sink,
    ) -> Result<bool, RunError> {
        match reply {
            ControlReply::Samples { columns } => {
                for column in columns.into_iter().filter(|column| !self.is_seen_on_the_wire(column)) {
                    let samples = column.samples().map_err(RunError::because)?;
                    samples.into_iter().for_each(|(subject, sample)| sink.sample(subject, sample));
                }
            }
            ControlReply::Notes { lines } if sink.wants_notes() => {
                lines.into_iter().for_each(|line| sink.note(line.into()));
            }
            ControlReply::Report { end } => reports.reports.push(*end),
            ControlReply::Reported => {
                reports.waiting.remove(&agent);
            }
            ControlReply::Idle { flow, side, idle: true } => {
                return Ok(reports.busy.remove(&(flow, side)) && reports.busy.is_empty());
            }
            ControlReply::Idle { flow, side, idle: false }
                if self.run.scenario.ends_with.contains(&(flow as usize)) =>
            {
                reports.busy.insert((flow, side));
            }
            _ => {}
        }
        Ok(false)
    }

    /// Whether the router measures the quantity instead of the socket. A socket reports a segment only after all
    /// earlier segments have arrived.
    fn is_seen_on_the_wire(&self, column: &Column) -> bool {
        let flow = match column.subject {
            Subject::Flow(flow) => self.run.scenario.flows.get(flow as usize),
            _ => None,
        };
        let paused = [quantity::DATA_PAUSED.name, quantity::DATA_RESUMED.name];
        flow.is_some_and(|flow| Recognition::watches(&self.run.scenario, flow))
            && paused.contains(&column.quantity.as_str())
    }

    /// Waits for the next input. The agents at the indices `waiting` must meet the deadline.
    fn next_event(
        &mut self,
        deadline: &AgentDeadline,
        waiting: &BTreeSet<usize>,
        cancel: &AtomicBool,
    ) -> Result<AgentEvent, RunError> {
        loop {
            if cancel.load(Ordering::Relaxed) {
                return Err(RunError::Cancelled);
            }
            if self.held_until.take_if(|until| *until <= Instant::now()).is_some() {
                self.testbed.lift_quotas()?;
            }
            let (agent, words) = match self.inputs.recv_timeout(LOOK) {
                Ok(RunInput::Router(observations)) => return Ok(AgentEvent::ObservationBatch(observations)),
                Ok(RunInput::Agent(agent, words)) => (agent, words),
                Err(_) if Instant::now() < deadline.until => continue,
                Err(_) => {
                    let silent = waiting.iter().map(|place| format!("`{}`", self.agents[*place].node));
                    let silent = silent.collect::<Vec<_>>().join(", ");
                    return Err(RunError::Failed(format!(
                        "the agents at nodes {silent} {}",
                        deadline.failure
                    )));
                }
            };
            let node = &self.agents[agent].node;
            return match words {
                Ok(Some(ControlReply::Error { what })) => {
                    Err(RunError::Failed(format!("node `{node}`: {what}")))
                }
                Ok(Some(reply)) => Ok(AgentEvent::Reply(agent, reply)),
                Ok(None) => {
                    let group = self.testbed.limited(self.agents[agent].place).unwrap_or_default();
                    let why = match group.ended_for_memory() {
                        0 => "",
                        _ => ": its `memory` was exhausted",
                    };
                    Err(RunError::Failed(format!("the agent at node `{node}` ended before its run{why}")))
                }
                Err(error) => Err(RunError::Failed(format!("the agent at node `{node}`: {error}"))),
            };
        }
    }
}

impl AgentHandle {
    /// Starts an agent on a node. `place` is the index of the agent.
    fn start(
        testbed: &mut Testbed,
        node: usize,
        program: &Path,
        place: usize,
        emit: &SyncSender<RunInput>,
    ) -> Result<Self, RunError> {
        let mut command = Command::new(program);
        command.arg("agent").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = testbed.spawn(node, command)?;
        let (Some(words), Some(mut replies)) = (process.stdin(), process.stdout()) else {
            return Err(RunError::Failed("an agent has no pipes".into()));
        };
        let emit = emit.clone();
        std::thread::spawn(move || {
            loop {
                let reply = frames::read_frame(&mut replies);
                let last = !matches!(reply, Ok(Some(_)));
                if emit.send(RunInput::Agent(place, reply)).is_err() || last {
                    break;
                }
            }
        });
        Ok(Self { place: node, node: testbed.wiring().nodes[node].name.clone(), process, stdin: words })
    }

    fn send(&mut self, request: &ControlRequest) -> Result<(), RunError> {
        let failed = |error| RunError::Failed(format!("the agent at node `{}`: {error}", self.node));
        frames::write_frame(&mut self.stdin, request).map_err(failed)
    }

    /// Sends the last request and ends the agent.
    fn stop(mut self) -> Result<(), RunError> {
        self.send(&ControlRequest::Bye)?;
        drop(self.stdin);
        Ok(self.process.stop(PARTING).map(drop)?)
    }
}

/// Faults and notes that the ends of flows reported.
struct EndDiagnostics {
    /// Why the run is invalid.
    faults: Vec<String>,
    notes: Vec<(Subject, String)>,
}

/// Separates faults from notes. If the experiment limits a host, the effects of these limits are results, so they
/// become notes.
fn end_diagnostics(scenario: &Scenario, ends: &[EndReport]) -> EndDiagnostics {
    let mut diagnostics = EndDiagnostics { faults: Vec::new(), notes: Vec::new() };
    for end in ends {
        let host = scenario.flows.get(end.flow as usize).map(|flow| match end.side {
            FlowSide::Client => &scenario.nodes[flow.from].host,
            FlowSide::Server => &scenario.nodes[flow.to].host,
        });
        diagnostics.faults.extend(end.faults.iter().cloned());
        let mut notes = end.notes.clone();
        if host.is_some_and(Host::is_constrained) {
            notes.extend(end.strains.iter().cloned());
        } else {
            diagnostics.faults.extend(end.strains.iter().cloned());
        }
        diagnostics.notes.extend(notes.into_iter().map(|text| (Subject::Flow(end.flow), text)));
    }
    diagnostics
}

/// All faults in one sentence, if there are any.
fn joined(faults: &[String]) -> Option<String> {
    (!faults.is_empty()).then(|| faults.join("; "))
}

/// Combines all reports to the outcome of the run.
fn outcome(
    router: &RouterReport,
    interfaces: &InterfaceReport,
    ends: &[EndReport],
    others: impl Iterator<Item = String>,
) -> RunOutcome {
    let mut faults = router.faults_of_run(ends);
    faults.extend(interfaces.faults.iter().cloned());
    faults.extend(others);
    let sources = ends.iter().filter_map(|end| end.source.as_ref());
    let late = sources.map(|source| netrig_core::Duration::from_secs_f64(source.late_max));
    let late = late.chain([interfaces.lateness.max().unwrap_or_default()]);
    RunOutcome {
        balance: router.balance,
        events: router.forwarded,
        lasted: None,
        lateness: late.fold(router.lateness.max().unwrap_or_default(), netrig_core::Duration::max),
        invalid: joined(&faults),
        moved: joined(&router.faults_of_times()),
        remarks: ends
            .iter()
            .flat_map(|end| end.remarks.iter().cloned())
            .map(|EndRemark { text, details }| RunRemark { text, details })
            .collect(),
        deterministic: false,
    }
}
