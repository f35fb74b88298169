//! The loop that lets a run's time pass for some of its ends.

use std::sync::mpsc::{SyncSender, TrySendError};

use netrig_core::{Duration, Instant, Note, Sample, Subject, quantity};

use crate::AgentError;
use crate::end::{EndReport, FlowEnd, Surroundings};
use crate::meter::{EndMeter, Samples};
use crate::order::{EndOrder, RunOrder};
use crate::side::Side;
use netrig_host::Precedence;
use netrig_host::RealtimeOffset;
use netrig_host::SPIN;
use netrig_host::{Clock, CpuLatencyLimit, Pacer, RunSignals};
use netrig_host::{InterruptionCounts, Interruptions};

/// Some ends of a run, driven by one thread.
pub(crate) struct EventLoop {
    ends: Vec<FlowEnd>,
    precise: bool,
    /// Share of its time that the loop is busy, about, if it has datagrams to send or to take, with which it must not be late:
    /// a precise one spins before each of them, another has as much to do as connections and others give it.
    busy: Option<f64>,
    until: Instant,
    grace: Duration,
    sample_every: Duration,
    /// Whether it runs as anybody's program does.
    constrained: bool,
}

/// What becomes known while a run lasts.
#[derive(Debug)]
pub enum Progress {
    /// What was measured.
    Samples(Samples),
    /// What happened, in words.
    Notes(Vec<Note>),
    /// An end has nothing more to do, or has again.
    Idle {
        /// The flow's place in the scenario.
        flow: u32,
        /// Which of its ends.
        side: Side,
        /// Whether it is so.
        idle: bool,
    },
}

/// Deliveries that may wait for whoever takes them.
pub(crate) const DELIVERIES: usize = 64;

/// Samples that a loop keeps to itself while those wait; then it waits too, and the run is late rather than the memory full.
const KEPT: usize = 1 << 20;

/// Share of its time that a loop of associations is taken to be busy: a packet takes it a few system calls, and lines of
/// real time carry a few thousand a second.
const ASSOCIATIONS: f64 = 0.1;

/// Between two looks for datagrams that come after the end of the run.
const LOOK_FOR_LATE: Duration = Duration::from_millis(5);

/// Delivers samples. While nobody takes them they are kept, up to a limit.
fn deliver(samples: &mut Samples, progress: &SyncSender<Progress>) {
    if samples.len() >= KEPT {
        // Nobody listens any more once the run was given up.
        let _ = progress.send(Progress::Samples(std::mem::take(samples)));
    } else if let Err(TrySendError::Full(Progress::Samples(kept))) =
        progress.try_send(Progress::Samples(std::mem::take(samples)))
    {
        *samples = kept;
    }
}

impl EventLoop {
    /// Opens the sockets of these ends. Sources of datagrams belong into one loop, which spins before its deadlines,
    /// associations into another, and all others into a third; neither of these ever does.
    ///
    /// # Errors
    /// If a socket cannot be had as it was asked for.
    pub fn open(run: &RunOrder, orders: Vec<EndOrder>) -> Result<Self, AgentError> {
        let sample_every = Duration::from_nanos(run.sample_every_ns);
        let until = Instant::from_nanos(run.duration_ns);
        let precise = orders.iter().any(FlowEnd::is_precise);
        let has_datagrams = orders.iter().any(|order| order.application.sends_datagrams());
        let pace: f64 = orders.iter().filter_map(EndOrder::pace).sum();
        let associations = orders.iter().any(FlowEnd::is_association);
        let busy = match (precise, associations, has_datagrams) {
            (true, ..) => Some(pace * SPIN.as_secs_f64()),
            (_, true, _) => Some(ASSOCIATIONS),
            (_, _, true) => Some(1.0),
            _ => None,
        };
        let open = |(order, place): (EndOrder, u32)| {
            let meter = EndMeter::new(order.flow, sample_every);
            FlowEnd::open(order, place, run.seed, until, meter)
        };
        let ends = orders.into_iter().zip(0..).map(open).collect::<Result<_, _>>()?;
        let grace = Duration::from_nanos(run.grace_ns);
        Ok(Self { ends, precise, busy, until, grace, sample_every, constrained: run.constrained })
    }

    /// Lets time pass until the end of the run or until it is told to end, and tells of it.
    ///
    /// # Errors
    /// If the kernel refuses what it always grants, or an application asks for what cannot be sent.
    pub fn run(
        mut self,
        clock: Clock,
        signals: &RunSignals,
        progress: &SyncSender<Progress>,
    ) -> Result<Vec<EndReport>, AgentError> {
        // Who waits for an answer or a window wakes up as often as who waits for its time.
        let awake = CpuLatencyLimit::keep();
        let tail = if self.precise && !self.constrained { SPIN } else { Duration::ZERO };
        let mut pacer = Pacer::new(clock, tail).map_err(AgentError::kernel("epoll_create"))?;
        let offset = RealtimeOffset::measure();
        self.ends.iter().try_for_each(|end| end.watch(&pacer))?;
        let precedence = match self.busy.filter(|_| !self.constrained) {
            Some(busy) => Precedence::take(busy),
            None => Precedence::None,
        };
        let before = InterruptionCounts::read();
        let mut samples = Samples::new();
        let mut tick = Instant::ZERO + self.sample_every;
        let mut ready = Vec::new();
        let mut now = Instant::ZERO;
        while !signals.has_ended() && now < self.until {
            let next = self.ends.iter().map(FlowEnd::next).fold(tick.min(self.until), Instant::min);
            ready.clear();
            ready.extend_from_slice(pacer.wait(next).map_err(AgentError::kernel("ppoll"))?);
            let mut around =
                Surroundings { clock: &clock, offset: &offset, pacer: &pacer, samples: &mut samples };
            for (key, _) in &ready {
                // A key is an end's place and its socket's.
                let (place, socket) = ((key >> 32) as usize, *key as u32);
                self.ends[place].ready(socket, &mut around)?;
            }
            now = clock.now().min(self.until);
            if now == Instant::ZERO {
                // The run has not begun.
                continue;
            }
            self.advance(now, &mut around, progress)?;
            while tick <= now {
                self.ends.iter_mut().try_for_each(|end| end.tick(tick, &mut samples))?;
                deliver(&mut samples, progress);
                tick += self.sample_every;
                self.tell_notes(progress);
            }
        }
        if now == Instant::ZERO {
            // It was given up before it began.
            self.ends.iter_mut().for_each(|end| end.stop(Instant::ZERO));
        }
        self.tell_notes(progress);
        self.linger(&clock, &offset, &mut pacer, signals)?;
        let interruptions = InterruptionCounts::read().since(&before, precedence, awake.is_some());
        let mut around =
            Surroundings { clock: &clock, offset: &offset, pacer: &pacer, samples: &mut samples };
        let reports = self.finish(interruptions, &mut around)?;
        let _ = progress.send(Progress::Samples(samples));
        Ok(reports)
    }

    /// Lets the ends do what is due at `now`, and tells of those that become idle or cease to be.
    fn advance(
        &mut self,
        now: Instant,
        around: &mut Surroundings,
        progress: &SyncSender<Progress>,
    ) -> Result<(), AgentError> {
        for end in &mut self.ends {
            end.advance(now, around)?;
            if let Some(idle) = end.becomes_idle() {
                let _ = progress.send(Progress::Idle { flow: end.flow(), side: end.side(), idle });
            }
        }
        Ok(())
    }

    /// Delivers what ends have to say in words, if they have.
    fn tell_notes(&mut self, progress: &SyncSender<Progress>) {
        let notes: Vec<_> = self.ends.iter_mut().flat_map(FlowEnd::take_notes).collect();
        if !notes.is_empty() {
            let _ = progress.send(Progress::Notes(notes));
        }
    }

    /// Takes the datagrams that were on their way at the end of the run, until it is told that there are no more.
    fn linger(
        &mut self,
        clock: &Clock,
        offset: &RealtimeOffset,
        pacer: &mut Pacer,
        signals: &RunSignals,
    ) -> Result<(), AgentError> {
        let until = self.until + self.grace;
        let mut samples = Samples::new();
        while self.ends.iter().any(FlowEnd::receives_datagrams)
            && !signals.has_ended()
            && !clock.left_until(until).is_zero()
        {
            let next = until.min(clock.now() + LOOK_FOR_LATE);
            pacer.wait(next).map_err(AgentError::kernel("ppoll"))?;
            let mut around = Surroundings { clock, offset, pacer, samples: &mut samples };
            let now = clock.now();
            self.ends.iter_mut().try_for_each(|end| end.take_late(now, &mut around))?;
        }
        Ok(())
    }

    /// The reports of all ends.
    fn finish(
        mut self,
        interruptions: Interruptions,
        around: &mut Surroundings,
    ) -> Result<Vec<EndReport>, AgentError> {
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
        if let Some(step) = RealtimeOffset::measure().stepped_since(around.offset) {
            let why = format!("the wall clock was stepped by {} s during the run", step.as_secs_f64());
            let stamped = reports.iter_mut().filter(|report| report.datagrams.is_some());
            stamped.for_each(|report| report.faults.push(why.clone()));
        }
        Ok(reports)
    }
}
