//! Watches programs while a run lasts, on the run's own axis of time.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;

use netrig_agent::Clock;
use netrig_core::{Duration, Instant, Quantity, Sample, Sink, Subject, quantity};
use netrig_experiment::RunError;

use crate::counters::Counting;
use crate::router::Findings;
use crate::usage::{Family, Sockets};

/// The programs of a node.
pub(crate) struct WatchedNode {
    /// Its place.
    node: u32,
    /// Each with what came from it.
    pub families: Vec<Family>,
    /// Their sockets.
    sockets: Sockets,
    /// When it was last looked at.
    looked: Instant,
}

impl WatchedNode {
    /// A node without programs as yet.
    pub fn new(node: u32) -> Self {
        Self { node, families: Vec::new(), sockets: Sockets::default(), looked: Instant::ZERO }
    }

    /// Looks for the first time, from when all else is told.
    fn begin(&mut self, now: Instant) {
        let processes =
            self.families.iter_mut().flat_map(|family| family.look().processes).collect::<Vec<_>>();
        self.sockets.look(&processes);
        self.looked = now;
    }

    /// Tells what there was in the interval that ends at `at`, looked at `now`.
    fn tick(&mut self, at: Instant, now: Instant, sink: &mut dyn Sink) {
        let (mut processes, mut ran, mut memory) = (Vec::new(), 0, 0);
        for usage in self.families.iter_mut().map(Family::look) {
            processes.extend(usage.processes);
            ran += usage.ran;
            memory += usage.memory;
        }
        let (waiting, dropped) = self.sockets.look(&processes);
        let span = now.since(self.looked).as_nanos();
        self.looked = now;
        let subject = Subject::Node(self.node);
        let mut tell =
            |quantity: &'static Quantity, value| sink.sample(subject, Sample { at, quantity, value });
        if span > 0 {
            tell(&quantity::PROGRAM_CPU, ran as f64 / span as f64);
        }
        tell(&quantity::PROGRAM_MEMORY, memory as f64);
        tell(&quantity::PROGRAM_UDP_QUEUE, waiting as f64);
        tell(&quantity::PROGRAM_UDP_DROPS, dropped as f64);
    }
}

/// The threads that watch. They end with this value.
pub(crate) struct Watching {
    // Before the threads, for fields are dropped in their order: without it they end. Nothing is ever said.
    stop: Vec<SyncSender<()>>,
    threads: Vec<JoinHandle<Result<(), RunError>>>,
}

impl Watching {
    /// Looks at `nodes` each `every`, and reads `counting` as each asks, from the start of the run by `clock` until it ends at
    /// `end`.
    ///
    /// # Errors
    /// If there are no threads.
    pub fn start(
        mut nodes: Vec<WatchedNode>,
        counting: Vec<Counting>,
        (every, end): (Duration, Instant),
        clock: Clock,
        tell: &(impl Fn(Findings) + Clone + Send + 'static),
    ) -> Result<Self, RunError> {
        let mut watching = Self { stop: Vec::new(), threads: Vec::new() };
        if !nodes.is_empty() {
            let tell = tell.clone();
            watching.spawn(move |stopped| {
                if wait(clock, Instant::ZERO, &stopped) {
                    nodes.iter_mut().for_each(|node| node.begin(clock.now()));
                }
                at_ticks((every, end), clock, &stopped, |at| {
                    let mut findings = Findings::default();
                    nodes.iter_mut().for_each(|node| node.tick(at, clock.now(), &mut findings));
                    tell(findings);
                    Ok(())
                })
            })?;
        }
        for mut counting in counting {
            let tell = tell.clone();
            watching.spawn(move |stopped| {
                let every = counting.every().unwrap_or(Duration::MAX);
                at_ticks((every, end), clock, &stopped, |at| {
                    let mut findings = Findings::default();
                    counting.tick(at, &mut findings)?;
                    tell(findings);
                    Ok(())
                })?;
                let mut findings = Findings::default();
                counting.sum_up(clock.now().min(end), &mut findings);
                tell(findings);
                Ok(())
            })?;
        }
        Ok(watching)
    }

    fn spawn(
        &mut self,
        watch: impl FnOnce(Receiver<()>) -> Result<(), RunError> + Send + 'static,
    ) -> Result<(), RunError> {
        let (stop, stopped) = sync_channel(0);
        let thread = std::thread::Builder::new().name("watch".into()).spawn(move || watch(stopped));
        let failed = |error| RunError::Failed(format!("no thread to watch programs: {error}"));
        self.threads.push(thread.map_err(failed)?);
        self.stop.push(stop);
        Ok(())
    }

    /// Looks a last time, and ends.
    ///
    /// # Errors
    /// If counters could not be read.
    pub fn stop(mut self) -> Result<(), RunError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), RunError> {
        self.stop.clear();
        let gone = || Err(RunError::Failed("who watched the programs ended early".into()));
        let ended = self.threads.drain(..).map(|thread| thread.join().unwrap_or_else(|_| gone()));
        ended.fold(Ok(()), Result::and)
    }
}

impl Drop for Watching {
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
