//! Observes the programs and the hosts of nodes at regular times during a run.

use std::sync::atomic::AtomicBool;

use netrig_core::{Duration, Instant, Quantity, Sample, Sink, Subject, quantity};
use netrig_experiment::{RunError, Scenario};
use netrig_host::usage::{ProcessFamily, ProgramSockets, Usage};
use netrig_host::{Clock, StoppableThread, is_stopped_within};

use crate::counters::CounterWatch;
use crate::hop_limits::HopLimitWatch;
use crate::host::ControlGroupReader;
use crate::intrusion::OwnProcessors;
use crate::router::ObservationBatch;

/// A node and its processes.
pub(crate) struct WatchedNode {
    /// Index of the node.
    node: u32,
    /// The programs whose usage is reported, each with its descendants.
    reported: Vec<ProcessFamily>,
    /// Other processes of the run on the node.
    beside: Vec<ProcessFamily>,
    /// The process that loads the node's processors, if there is one.
    load: Option<ProcessFamily>,
    /// The sockets of the reported programs.
    sockets: ProgramSockets,
    /// The node's processors, if no other node has them and use by foreign processes is reported.
    processors: Option<OwnProcessors>,
    /// The usage of the node as a host, if it is reported.
    host: Option<WatchedHost>,
    /// Time of the last observation.
    looked: Instant,
}

/// The resource usage of a node as a host.
pub(crate) struct WatchedHost {
    /// Number of processors of the node.
    processors: usize,
    group: ControlGroupReader,
    /// Throttled time at the last observation, ns.
    throttled: u64,
}

impl WatchedHost {
    /// The host of a node with this number of processors, in this control group.
    pub fn new(processors: usize, group: ControlGroupReader) -> Self {
        Self { processors, group, throttled: 0 }
    }

    fn begin(&mut self) {
        self.throttled = self.group.throttled().unwrap_or(0);
    }

    /// Reports the usage in an interval of `span` ns: that of the load, and that of all other processes of the node
    /// (`own`).
    fn report(&mut self, [load, own]: [&Usage; 2], span: u64, emit: &mut impl FnMut(&'static Quantity, f64)) {
        if span > 0 {
            let share = |ns: u64| ns as f64 / span as f64;
            emit(&quantity::HOST_LOAD, share(load.ran) / self.processors.max(1) as f64);
            emit(&quantity::HOST_CPU, share(own.ran));
            emit(&quantity::HOST_CPU_WAIT, share(own.waited));
        }
        if let Some(throttled) = self.group.throttled() {
            let more = throttled.saturating_sub(self.throttled);
            self.throttled = throttled;
            emit(&quantity::HOST_THROTTLED, more as f64 / 1e9);
        }
        if let Some(memory) = self.group.memory() {
            emit(&quantity::HOST_MEMORY, memory as f64);
        }
    }
}

impl WatchedNode {
    /// A node without programs, with the process IDs of its agent and its load.
    pub fn new(place: usize, agent: Option<u32>, load: Option<u32>) -> Self {
        Self {
            node: place as u32,
            reported: Vec::new(),
            beside: agent.into_iter().map(ProcessFamily::of).collect(),
            load: load.map(ProcessFamily::of),
            sockets: ProgramSockets::default(),
            processors: None,
            host: None,
            looked: Instant::ZERO,
        }
    }

    /// Adds a program. Its usage is reported if `reported` is true.
    pub fn add(&mut self, family: ProcessFamily, reported: bool) {
        if reported { self.reported.push(family) } else { self.beside.push(family) }
    }

    /// From now on, reports the use of the node's processors by foreign processes, if no other node has these
    /// processors.
    pub fn guard(&mut self, scenario: &Scenario) {
        self.processors = OwnProcessors::of(scenario, self.node as usize);
    }

    /// From now on, reports the usage of the node as a host.
    pub fn report_host(&mut self, host: WatchedHost) {
        self.host = Some(host);
    }

    /// Reads the kernel's drop counters before the run. If they were first read during the run, a thread that wakes up
    /// late on a busy machine would miss early drops.
    fn prepare(&mut self) {
        let processes =
            self.reported.iter_mut().flat_map(|family| family.look().processes).collect::<Vec<_>>();
        self.sockets.look(&processes);
    }

    /// Makes the first observation. Usage is counted from this time.
    fn begin(&mut self, now: Instant) {
        let families = self.reported.iter_mut().chain(&mut self.beside).chain(&mut self.load);
        families.for_each(|family| drop(family.look()));
        self.looked = now;
        self.host.iter_mut().for_each(WatchedHost::begin);
        self.processors.iter_mut().for_each(OwnProcessors::begin);
    }

    /// Why the node's results are invalid, if foreign processes used its processors too much between the first and the
    /// last observation.
    fn fault(&self) -> Option<String> {
        self.processors.as_ref()?.fault(self.looked.since(Instant::ZERO).as_secs_f64())
    }

    /// Observes the node at `now`, and reports the interval that was due to end at `at`.
    fn tick(&mut self, at: Instant, now: Instant, sink: &mut dyn Sink) {
        let (mut processes, mut programs) = (Vec::new(), Usage::default());
        for usage in self.reported.iter_mut().map(ProcessFamily::look) {
            programs.add(&usage);
            processes.extend(usage.processes);
        }
        let (waiting, dropped) = self.sockets.look(&processes);
        let mut own = programs.clone();
        self.beside.iter_mut().for_each(|family| own.add(&family.look()));
        let load = self.load.as_mut().map(ProcessFamily::look).unwrap_or_default();
        self.processors.iter_mut().for_each(|processors| processors.add(own.ran + load.ran));
        let span = now.since(self.looked).as_nanos();
        self.looked = now;
        let subject = Subject::Node(self.node);
        let mut emit =
            |quantity: &'static Quantity, value| sink.sample(subject, Sample { at, quantity, value });
        if let Some(host) = &mut self.host {
            host.report([&load, &own], span, &mut emit);
        }
        if self.reported.is_empty() {
            return;
        }
        if span > 0 {
            emit(&quantity::PROGRAM_CPU, programs.ran as f64 / span as f64);
        }
        emit(&quantity::PROGRAM_MEMORY, programs.memory as f64);
        emit(&quantity::PROGRAM_UDP_QUEUE, waiting as f64);
        emit(&quantity::PROGRAM_UDP_DROPS, dropped as f64);
    }
}

/// The observing threads. They end when this value is dropped.
pub(crate) struct WatchThreads(Vec<StoppableThread<Result<Vec<String>, RunError>>>);

impl WatchThreads {
    /// Starts threads that observe from the start of the run (the epoch of `clock`) to `end`. They observe `nodes` and
    /// `hop_limits` at the interval `every`, and read each of the counters `counting` at its own interval.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(
        mut nodes: Vec<WatchedNode>,
        counting: Vec<CounterWatch>,
        mut hop_limits: Vec<HopLimitWatch>,
        (every, end): (Duration, Instant),
        clock: Clock,
        emit: &(impl Fn(ObservationBatch) + Clone + Send + 'static),
    ) -> Result<Self, RunError> {
        let mut watching = Self(Vec::new());
        if !nodes.is_empty() {
            let emit = emit.clone();
            nodes.iter_mut().for_each(WatchedNode::prepare);
            watching.spawn(move |stop| {
                if wait(clock, Instant::ZERO, stop) {
                    nodes.iter_mut().for_each(|node| node.begin(clock.now()));
                }
                at_ticks((every, end), clock, stop, |at| {
                    let mut observations = ObservationBatch::default();
                    nodes.iter_mut().for_each(|node| node.tick(at, clock.now(), &mut observations));
                    emit(observations);
                    Ok(())
                })?;
                Ok(nodes.iter().filter_map(WatchedNode::fault).collect())
            })?;
        }
        if !hop_limits.is_empty() {
            let emit = emit.clone();
            watching.spawn(move |stop| {
                at_ticks((every, end), clock, stop, |at| {
                    let mut observations = ObservationBatch::default();
                    hop_limits.iter_mut().try_for_each(|node| node.tick(at, &mut observations))?;
                    emit(observations);
                    Ok(())
                })?;
                Ok(Vec::new())
            })?;
        }
        for mut counting in counting {
            let emit = emit.clone();
            watching.spawn(move |stop| {
                let every = counting.every().unwrap_or(Duration::MAX);
                at_ticks((every, end), clock, stop, |at| {
                    let mut observations = ObservationBatch::default();
                    counting.tick(at, &mut observations)?;
                    emit(observations);
                    Ok(())
                })?;
                let mut observations = ObservationBatch::default();
                counting.sum_up(clock.now().min(end), &mut observations);
                emit(observations);
                Ok(Vec::new())
            })?;
        }
        Ok(watching)
    }

    fn spawn(
        &mut self,
        watch: impl FnOnce(&AtomicBool) -> Result<Vec<String>, RunError> + Send + 'static,
    ) -> Result<(), RunError> {
        let failed = |error| RunError::Failed(format!("cannot start a thread to observe programs: {error}"));
        self.0.push(StoppableThread::start("watch", watch).map_err(failed)?);
        Ok(())
    }

    /// Makes a last observation and ends the threads. Returns the reasons why results of programs are invalid.
    ///
    /// # Errors
    /// If counters could not be read.
    pub fn stop(self) -> Result<Vec<String>, RunError> {
        self.0.iter().for_each(StoppableThread::stop);
        let gone = || Err(RunError::Failed("a thread that observed programs panicked".into()));
        let ended = self.0.into_iter().map(|thread| thread.end().unwrap_or_else(gone));
        // All threads are joined, even if the first one failed.
        ended.collect::<Vec<_>>().into_iter().collect::<Result<Vec<_>, _>>().map(|faults| faults.concat())
    }
}

/// Waits until `at`. Returns false if the threads are stopped before that time.
fn wait(clock: Clock, at: Instant, stop: &AtomicBool) -> bool {
    !is_stopped_within(stop, clock.left_until(at).into())
}

/// Calls `look` at the end of each interval until `end`, and once more when the threads are stopped. If an interval is
/// missed, it becomes part of the next interval.
fn at_ticks(
    (every, end): (Duration, Instant),
    clock: Clock,
    stop: &AtomicBool,
    mut look: impl FnMut(Instant) -> Result<(), RunError>,
) -> Result<(), RunError> {
    let mut last = Instant::ZERO;
    loop {
        let passed = clock.now().since(Instant::ZERO).as_nanos() / every.as_nanos().max(1);
        let next = Instant::ZERO + every.saturating_mul(passed + 1);
        if !wait(clock, if next > end { Instant::NEVER } else { next }, stop) {
            break;
        }
        look(next)?;
        last = next;
    }
    let now = clock.now().min(end);
    if now > last { look(now) } else { Ok(()) }
}
