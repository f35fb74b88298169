//! The event loop of a thread, which runs some of the ends of a run.

use std::sync::mpsc::{SyncSender, TrySendError};

use netrig_core::{Duration, Instant, Note, Sample, Subject, quantity};
use netrig_host::{Clock, CpuLatencyLimit, Pacer, RunSignals};
use netrig_host::{InterruptionCounts, Interruptions, Precedence, RealtimeOffset, SPIN};
use netrig_traffic::FlowSide;

use crate::carrier::{EndContext, Samples};
use crate::end::FlowEnd;
use crate::order::{EndOrder, RunOrder};
use crate::report::EndReport;
use crate::{AgentError, AgentResult};

/// The ends of a run that one thread runs.
pub(crate) struct EventLoop {
    ends: Vec<FlowEnd>,
    precise: bool,
    /// Estimated share of time for which the loop is busy (0 to 1), from which the priority of the thread derives.
    /// `None` for a loop that has only TCP connections: it keeps the normal priority.
    busy: Option<f64>,
    until: Instant,
    grace: Duration,
    sample_every: Duration,
    /// Whether the thread runs with normal priority and without spinning.
    constrained: bool,
}

/// An intermediate result of a run in progress.
#[derive(Debug)]
pub enum Progress {
    /// Measured samples.
    Samples(Samples),
    /// Events, as sentences.
    Notes(Vec<Note>),
    /// An end has become idle, or is no longer idle.
    Idle {
        /// The flow's index in the scenario.
        flow: u32,
        /// Whether the end is the client or the server of the flow.
        side: FlowSide,
        /// Whether the end is idle now.
        idle: bool,
    },
}

/// Capacity of the queue for progress messages.
pub(crate) const DELIVERIES: usize = 64;

/// Maximum number of samples that a loop keeps while that queue is full. Then the loop waits: the run becomes late but
/// does not run out of memory.
const KEPT: usize = 1 << 20;

/// Estimated share of time for which a loop with associations is busy. A packet needs a few system calls, and links
/// emulated in real time carry a few thousand packets per second.
const ASSOCIATIONS: f64 = 0.1;

/// Interval between two reads of datagrams after the end of the run.
const LOOK_FOR_LATE: Duration = Duration::from_millis(5);

/// Sends the samples to the queue. If the queue is full, keeps them, up to [`KEPT`].
fn deliver(samples: &mut Samples, progress: &SyncSender<Progress>) {
    if samples.len() >= KEPT {
        // The receiver is closed once the run has been aborted.
        let _ = progress.send(Progress::Samples(std::mem::take(samples)));
    } else if let Err(TrySendError::Full(Progress::Samples(kept))) =
        progress.try_send(Progress::Samples(std::mem::take(samples)))
    {
        *samples = kept;
    }
}

/// Sends notes, if there are any.
fn send_notes(notes: &mut Vec<Note>, progress: &SyncSender<Progress>) {
    if !notes.is_empty() {
        let _ = progress.send(Progress::Notes(std::mem::take(notes)));
    }
}

impl EventLoop {
    /// Opens the sockets of these ends. Sources of datagrams, associations and all other ends each need a loop of their
    /// own. Only the loop of the sources spins before its deadlines.
    ///
    /// # Errors
    /// If a socket cannot be opened with its options.
    pub fn open(run: &RunOrder, orders: Vec<EndOrder>) -> AgentResult<Self> {
        let precise = orders.iter().any(EndOrder::is_precise);
        let has_datagrams = orders.iter().any(|order| order.application.sends_datagrams());
        let pace: f64 = orders.iter().filter_map(EndOrder::pace).sum();
        let associations = orders.iter().any(EndOrder::has_associations);
        let busy = match (precise, associations, has_datagrams) {
            (true, ..) => Some(pace * SPIN.as_secs_f64()),
            (_, true, _) => Some(ASSOCIATIONS),
            (_, _, true) => Some(1.0),
            _ => None,
        };
        let open = |(order, place)| FlowEnd::open(order, place, run);
        Ok(Self {
            ends: orders.into_iter().zip(0..).map(open).collect::<Result<_, _>>()?,
            precise,
            busy,
            until: Instant::from_nanos(run.duration_ns),
            grace: Duration::from_nanos(run.grace_ns),
            sample_every: run.sample_every(),
            constrained: run.constrained,
        })
    }

    /// Runs the ends until the run ends or a signal ends it, and sends progress messages.
    ///
    /// # Errors
    /// If a system call fails that succeeds in normal operation, or an application asks for data that cannot be sent.
    pub fn run(
        mut self,
        clock: Clock,
        signals: &RunSignals,
        progress: &SyncSender<Progress>,
    ) -> AgentResult<Vec<EndReport>> {
        // Every loop keeps idle processors awake: a thread that waits for a packet of its peer wakes up as often as a
        // thread that waits for a deadline.
        let awake = CpuLatencyLimit::keep();
        let tail = if self.precise && !self.constrained { SPIN } else { Duration::ZERO };
        let pacer = Pacer::new(clock, tail).map_err(AgentError::kernel("epoll_create"))?;
        let offset = RealtimeOffset::measure();
        let (samples, notes) = (Samples::new(), Vec::new());
        let mut around = EndContext { clock, offset, pacer, samples, notes };
        self.ends.iter().try_for_each(|end| end.watch(&around.pacer))?;
        let precedence = match self.busy.filter(|_| !self.constrained) {
            Some(busy) => Precedence::take(busy),
            None => Precedence::None,
        };
        let before = InterruptionCounts::read();
        let mut tick = Instant::ZERO + self.sample_every;
        let mut ready = Vec::new();
        let mut now = Instant::ZERO;
        while !signals.has_ended() && now < self.until {
            let next = self.ends.iter().map(FlowEnd::next).fold(tick.min(self.until), Instant::min);
            ready.clear();
            ready.extend_from_slice(around.pacer.wait(next).map_err(AgentError::kernel("ppoll"))?);
            for (key, _) in &ready {
                // The key consists of the position of the end and the number of its socket.
                let (place, socket) = ((key >> 32) as usize, *key as u32);
                self.ends[place].ready(socket, &around)?;
            }
            now = clock.now().min(self.until);
            if now == Instant::ZERO {
                // The run has not started.
                continue;
            }
            self.advance(now, &mut around, progress)?;
            while tick <= now {
                self.ends.iter_mut().try_for_each(|end| end.tick(tick, &mut around.samples))?;
                deliver(&mut around.samples, progress);
                tick += self.sample_every;
                send_notes(&mut around.notes, progress);
            }
        }
        if now == Instant::ZERO {
            // The run was aborted before it started.
            self.ends.iter_mut().for_each(|end| end.stop(Instant::ZERO));
        }
        send_notes(&mut around.notes, progress);
        self.linger(&mut around, signals)?;
        let interruptions = InterruptionCounts::read().since(&before, precedence, awake.is_some());
        let reports = self.finish(interruptions, &mut around)?;
        let _ = progress.send(Progress::Samples(around.samples));
        Ok(reports)
    }

    /// Advances all ends to `now`, and reports changes of their idle state.
    fn advance(
        &mut self,
        now: Instant,
        around: &mut EndContext,
        progress: &SyncSender<Progress>,
    ) -> AgentResult {
        for end in &mut self.ends {
            end.advance(now, around)?;
            if let Some(idle) = end.becomes_idle() {
                let (flow, side) = end.identity();
                let _ = progress.send(Progress::Idle { flow, side, idle });
            }
        }
        Ok(())
    }

    /// Receives datagrams that were in flight at the end of the run, until a signal or the grace period ends.
    fn linger(&mut self, around: &mut EndContext, signals: &RunSignals) -> AgentResult {
        let until = self.until + self.grace;
        while self.ends.iter().any(FlowEnd::receives_datagrams)
            && !signals.has_ended()
            && !around.clock.left_until(until).is_zero()
        {
            let next = until.min(around.clock.now() + LOOK_FOR_LATE);
            around.pacer.wait(next).map_err(AgentError::kernel("ppoll"))?;
            let now = around.clock.now();
            self.ends.iter_mut().try_for_each(|end| end.take_late(now, around))?;
        }
        Ok(())
    }

    fn finish(
        mut self,
        interruptions: Interruptions,
        around: &mut EndContext,
    ) -> AgentResult<Vec<EndReport>> {
        let now = around.clock.now().min(self.until);
        let mut reports = Vec::with_capacity(self.ends.len());
        for end in &mut self.ends {
            reports.push(end.finish(now, interruptions, around)?);
        }
        let late =
            reports.iter().filter_map(|report| Some(report.source.as_ref()?.late_max)).fold(0.0, f64::max);
        if self.precise {
            around
                .samples
                .push((Subject::Run, Sample { at: now, quantity: &quantity::LATENESS, value: late }));
        }
        if let Some(step) = RealtimeOffset::measure().stepped_since(&around.offset) {
            let why = format!("the wall clock was stepped by {} s during the run", step.as_secs_f64());
            let stamped = reports.iter_mut().filter(|report| report.datagrams.is_some());
            stamped.for_each(|report| report.faults.push(why.clone()));
        }
        Ok(reports)
    }
}
