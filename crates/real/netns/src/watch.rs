//! Watches what runs on nodes while a run lasts, on the run's own axis of time.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;

use netrig_core::{Duration, Instant, Quantity, Sample, Sink, Subject, quantity};
use netrig_experiment::{RunError, Scenario};
use netrig_host::Clock;
use netrig_host::usage::{Family, Sockets, Usage};

use crate::counters::CounterWatch;
use crate::hop_limits::HopLimitWatch;
use crate::host::ControlGroupReader;
use crate::intrusion::OwnProcessors;
use crate::router::ObservationBatch;

/// A node and what runs there.
pub(crate) struct WatchedNode {
    /// Its place.
    node: u32,
    /// Each program with what came from it, if what it takes is to be told.
    told: Vec<Family>,
    /// Whatever else of the run is on the node.
    beside: Vec<Family>,
    /// Its load.
    load: Option<Family>,
    /// The sockets of those that are told.
    sockets: Sockets,
    /// Its processors, if no other node has them and what else runs there is to be told.
    processors: Option<OwnProcessors>,
    /// What it is told of as a host, if it is.
    host: Option<WatchedHost>,
    /// When it was last looked at.
    looked: Instant,
}

/// What a node takes of what it may have of its machine.
pub(crate) struct WatchedHost {
    /// How many processors it has a load on.
    processors: usize,
    group: ControlGroupReader,
    /// For how long it had been kept from its processors when it was last looked at, ns.
    throttled: u64,
}

impl WatchedHost {
    /// That of a node with so many processors, in this group.
    pub fn new(processors: usize, group: ControlGroupReader) -> Self {
        Self { processors, group, throttled: 0 }
    }

    fn begin(&mut self) {
        self.throttled = self.group.throttled().unwrap_or(0);
    }

    /// Tells what the load and `own`, all else on the node, took in `span`, ns.
    fn tell(&mut self, [load, own]: [&Usage; 2], span: u64, tell: &mut impl FnMut(&'static Quantity, f64)) {
        if span > 0 {
            let share = |ns: u64| ns as f64 / span as f64;
            tell(&quantity::HOST_LOAD, share(load.ran) / self.processors.max(1) as f64);
            tell(&quantity::HOST_CPU, share(own.ran));
            tell(&quantity::HOST_CPU_WAIT, share(own.waited));
        }
        if let Some(throttled) = self.group.throttled() {
            let more = throttled.saturating_sub(self.throttled);
            self.throttled = throttled;
            tell(&quantity::HOST_THROTTLED, more as f64 / 1e9);
        }
        if let Some(memory) = self.group.memory() {
            tell(&quantity::HOST_MEMORY, memory as f64);
        }
    }
}

impl WatchedNode {
    /// The node at this place, without programs as yet, with the processes of its agent and its load.
    pub fn new(place: usize, agent: Option<u32>, load: Option<u32>) -> Self {
        Self {
            node: place as u32,
            told: Vec::new(),
            beside: agent.into_iter().map(Family::of).collect(),
            load: load.map(Family::of),
            sockets: Sockets::default(),
            processors: None,
            host: None,
            looked: Instant::ZERO,
        }
    }

    /// Watches a program of it, and tells what it takes if that is wanted.
    pub fn add(&mut self, family: Family, told: bool) {
        if told { self.told.push(family) } else { self.beside.push(family) }
    }

    /// Tells whether others run on its processors, if no other node has them.
    pub fn guard(&mut self, scenario: &Scenario) {
        self.processors = OwnProcessors::of(scenario, self.node as usize);
    }

    /// Tells what it takes as a host.
    pub fn tell_of(&mut self, host: WatchedHost) {
        self.host = Some(host);
    }

    /// Looks at what the kernel has dropped so far, before the run starts: a thread that wakes late on a busy machine would not tell
    /// what is dropped until then.
    fn prepare(&mut self) {
        let processes = self.told.iter_mut().flat_map(|family| family.look().processes).collect::<Vec<_>>();
        self.sockets.look(&processes);
    }

    /// Looks for the first time, from when all else is told.
    fn begin(&mut self, now: Instant) {
        let families = self.told.iter_mut().chain(&mut self.beside).chain(&mut self.load);
        families.for_each(|family| drop(family.look()));
        self.looked = now;
        self.host.iter_mut().for_each(WatchedHost::begin);
        self.processors.iter_mut().for_each(OwnProcessors::begin);
    }

    /// Why it must not be blamed for what it did between the first and the last look.
    fn fault(&self) -> Option<String> {
        self.processors.as_ref()?.fault(self.looked.since(Instant::ZERO).as_secs_f64())
    }

    /// Tells what there was in the interval that ends at `at`, looked at `now`.
    fn tick(&mut self, at: Instant, now: Instant, sink: &mut dyn Sink) {
        let (mut processes, mut programs) = (Vec::new(), Usage::default());
        for usage in self.told.iter_mut().map(Family::look) {
            programs.add(&usage);
            processes.extend(usage.processes);
        }
        let (waiting, dropped) = self.sockets.look(&processes);
        let mut own = programs.clone();
        self.beside.iter_mut().for_each(|family| own.add(&family.look()));
        let load = self.load.as_mut().map(Family::look).unwrap_or_default();
        self.processors.iter_mut().for_each(|processors| processors.add(own.ran + load.ran));
        let span = now.since(self.looked).as_nanos();
        self.looked = now;
        let subject = Subject::Node(self.node);
        let mut tell =
            |quantity: &'static Quantity, value| sink.sample(subject, Sample { at, quantity, value });
        if let Some(host) = &mut self.host {
            host.tell([&load, &own], span, &mut tell);
        }
        if self.told.is_empty() {
            return;
        }
        if span > 0 {
            tell(&quantity::PROGRAM_CPU, programs.ran as f64 / span as f64);
        }
        tell(&quantity::PROGRAM_MEMORY, programs.memory as f64);
        tell(&quantity::PROGRAM_UDP_QUEUE, waiting as f64);
        tell(&quantity::PROGRAM_UDP_DROPS, dropped as f64);
    }
}

/// The threads that watch. They end with this value.
pub(crate) struct WatchThreads {
    // Before the threads, for fields are dropped in their order: without it they end. Nothing is ever said.
    stop: Vec<SyncSender<()>>,
    threads: Vec<JoinHandle<Result<Vec<String>, RunError>>>,
}

impl WatchThreads {
    /// Looks at `nodes` and `hop_limits` each `every`, and reads `counting` as each asks, from the start of the run by `clock`
    /// until it ends at `end`.
    ///
    /// # Errors
    /// If there are no threads.
    pub fn start(
        mut nodes: Vec<WatchedNode>,
        counting: Vec<CounterWatch>,
        mut hop_limits: Vec<HopLimitWatch>,
        (every, end): (Duration, Instant),
        clock: Clock,
        tell: &(impl Fn(ObservationBatch) + Clone + Send + 'static),
    ) -> Result<Self, RunError> {
        let mut watching = Self { stop: Vec::new(), threads: Vec::new() };
        if !nodes.is_empty() {
            let tell = tell.clone();
            nodes.iter_mut().for_each(WatchedNode::prepare);
            watching.spawn(move |stopped| {
                if wait(clock, Instant::ZERO, &stopped) {
                    nodes.iter_mut().for_each(|node| node.begin(clock.now()));
                }
                at_ticks((every, end), clock, &stopped, |at| {
                    let mut observations = ObservationBatch::default();
                    nodes.iter_mut().for_each(|node| node.tick(at, clock.now(), &mut observations));
                    tell(observations);
                    Ok(())
                })?;
                Ok(nodes.iter().filter_map(WatchedNode::fault).collect())
            })?;
        }
        if !hop_limits.is_empty() {
            let tell = tell.clone();
            watching.spawn(move |stopped| {
                at_ticks((every, end), clock, &stopped, |at| {
                    let mut observations = ObservationBatch::default();
                    hop_limits.iter_mut().try_for_each(|node| node.tick(at, &mut observations))?;
                    tell(observations);
                    Ok(())
                })?;
                Ok(Vec::new())
            })?;
        }
        for mut counting in counting {
            let tell = tell.clone();
            watching.spawn(move |stopped| {
                let every = counting.every().unwrap_or(Duration::MAX);
                at_ticks((every, end), clock, &stopped, |at| {
                    let mut observations = ObservationBatch::default();
                    counting.tick(at, &mut observations)?;
                    tell(observations);
                    Ok(())
                })?;
                let mut observations = ObservationBatch::default();
                counting.sum_up(clock.now().min(end), &mut observations);
                tell(observations);
                Ok(Vec::new())
            })?;
        }
        Ok(watching)
    }

    fn spawn(
        &mut self,
        watch: impl FnOnce(Receiver<()>) -> Result<Vec<String>, RunError> + Send + 'static,
    ) -> Result<(), RunError> {
        let (stop, stopped) = sync_channel(0);
        let thread = std::thread::Builder::new().name("watch".into()).spawn(move || watch(stopped));
        let failed = |error| RunError::Failed(format!("no thread to watch programs: {error}"));
        self.threads.push(thread.map_err(failed)?);
        self.stop.push(stop);
        Ok(())
    }

    /// Looks a last time, and ends: why what was measured of programs must not be trusted.
    ///
    /// # Errors
    /// If counters could not be read.
    pub fn stop(mut self) -> Result<Vec<String>, RunError> {
        self.end()
    }

    fn end(&mut self) -> Result<Vec<String>, RunError> {
        self.stop.clear();
        let gone = || Err(RunError::Failed("who watched the programs ended early".into()));
        let ended = self.threads.drain(..).map(|thread| thread.join().unwrap_or_else(|_| gone()));
        // All are waited for, whatever the first of them says.
        ended.collect::<Vec<_>>().into_iter().collect::<Result<Vec<_>, _>>().map(|faults| faults.concat())
    }
}

impl Drop for WatchThreads {
    fn drop(&mut self) {
        // Who drops it has another error to tell.
        let _ = self.end();
    }
}

/// Waits until `at`; false if it is over before.
fn wait(clock: Clock, at: Instant, stopped: &Receiver<()>) -> bool {
    let left = std::time::Duration::from_nanos(clock.left_until(at).as_nanos());
    stopped.recv_timeout(left) == Err(RecvTimeoutError::Timeout)
}

/// Calls `look` at the end of each interval until `end`, and once more when it is over. One that was missed is part of the
/// next.
fn at_ticks(
    (every, end): (Duration, Instant),
    clock: Clock,
    stopped: &Receiver<()>,
    mut look: impl FnMut(Instant) -> Result<(), RunError>,
) -> Result<(), RunError> {
    let mut last = Instant::ZERO;
    loop {
        let passed = clock.now().since(Instant::ZERO).as_nanos() / every.as_nanos().max(1);
        let next = Instant::ZERO + every.saturating_mul(passed + 1);
        if !wait(clock, if next > end { Instant::NEVER } else { next }, stopped) {
            break;
        }
        look(next)?;
        last = next;
    }
    let now = clock.now().min(end);
    if now > last { look(now) } else { Ok(()) }
}
