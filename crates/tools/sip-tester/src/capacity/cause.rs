//! The cause that limits the server, from the kernel's counters of the server on this host in the failed steps.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::decision::{StepOutcome, StepReason};
use super::journal::{SearchJournal, StepRecord};
use super::observation::ServerReading;
use netrig_core::number::{counted, time};

/// A thread that runs for at least this share of a step counts as using a whole processor. The threads of the server
/// together count as using all processors on which they may run if they use this share of them.
const BUSY: f64 = 0.85;

/// If the busiest thread waits for a processor for at least this share of a step, other threads may be the cause.
const KEPT: f64 = 0.1;

/// If the control group throttles the server for at least this share of a step, the throttling is the cause.
const THROTTLED: f64 = 0.05;

/// If the fill of the receive buffer never falls below this share after the first drop, the server is always behind, and a larger
/// buffer would be full as well.
const BEHIND: f64 = 0.5;

/// Stalls are reported if they invalidated a step, or if they took more than this share of all steps.
const STALLED: f64 = 0.005;

/// The cause that limits a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CapacityCause {
    /// Its control group limited its processor time.
    Throttled {
        /// The share of the step in which the server was throttled, 0 to 1.
        share: f64,
    },
    /// Its busiest thread used a whole processor.
    Processor {
        /// The share of the step in which that thread ran, 0 to 1.
        share: f64,
    },
    /// Its threads together used all processors on which they may run.
    AllProcessors {
        /// The used share of these processors' time, 0 to 1.
        share: f64,
        /// The number of these processors.
        processors: u32,
    },
    /// Other threads on this host used the processor for which its busiest thread waited.
    Contention {
        /// The share of the step in which the busiest thread ran, 0 to 1.
        ran: f64,
        /// The share of the step in which it waited for a processor, 0 to 1.
        waited: f64,
    },
    /// Its UDP sockets dropped datagrams, although the server emptied them in between and its threads were not busy.
    ReceiveBuffer {
        /// The number of dropped datagrams.
        dropped: u64,
        /// The size of the receive buffer, bytes; 0 if unknown.
        size: u64,
    },
    /// The queue of its listening socket was full.
    ListenQueue {
        /// The number of connections that were dropped.
        overflows: u64,
    },
    /// None of the kernel's counters: the server waits for something else, or limits itself.
    Elsewhere {
        /// The share of the step in which its busiest thread ran, 0 to 1.
        busy: f64,
    },
    /// The cause cannot be determined on this host.
    Hidden {
        /// The reason, in words.
        why: String,
    },
    /// The whole machine stalled. Steps that did not pass because of it were repeated.
    Stalls {
        /// The number of stalls in all steps.
        count: u64,
        /// The longest stall, s.
        longest_s: f64,
        /// The number of steps that stalls invalidated.
        repeated: u64,
    },
}

/// A cause, and the step that shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CauseFound {
    /// The cause.
    pub cause: CapacityCause,
    /// The rate of the step, per second; `None` if the cause concerns all steps.
    pub rate: Option<f64>,
    /// Datagrams that the server's UDP sockets dropped in that step, for every cause.
    pub dropped: u64,
    /// The size of their receive buffer, bytes; 0 if unknown.
    pub receive_buffer: u64,
}

/// The causes that limited the server in the failed steps. The first is the most frequent one, with the lowest rate at which it
/// appears. Stalls of the machine follow if they are relevant.
pub fn causes(journal: &SearchJournal) -> Vec<CauseFound> {
    let failed = journal
        .steps()
        .filter(|step| step.decision.outcome == StepOutcome::Failed && !step.purpose.is_probe());
    let shown: Vec<_> =
        failed.filter_map(|step| Some((CapacityCause::of(step.server.as_ref()?), step))).collect();
    let alike = |one: &CapacityCause, other: &CapacityCause| {
        std::mem::discriminant(one) == std::mem::discriminant(other)
    };
    let often = |cause: &CapacityCause| shown.iter().filter(|(other, _)| alike(cause, other)).count();
    // Of two equally frequent causes, the one at the lower rate comes first.
    let by = |(one, a): &&(CapacityCause, &StepRecord), (other, b): &&(CapacityCause, &StepRecord)| {
        often(one).cmp(&often(other)).then(b.rate.total_cmp(&a.rate))
    };
    let main = shown.iter().max_by(by).map(|(cause, step)| {
        let seen = step.server.as_ref();
        let (dropped, receive_buffer) = seen.map_or((0, 0), |server| (server.dropped, server.receive_buffer));
        CauseFound { cause: cause.clone(), rate: Some(step.rate), dropped, receive_buffer }
    });
    main.into_iter().chain(stalls(journal)).collect()
}

fn stalls(journal: &SearchJournal) -> Option<CauseFound> {
    let count = journal.steps().map(|step| step.stalls.count).sum();
    let longest_s = journal.steps().map(|step| step.stalls.longest_s).fold(0.0, f64::max);
    let is_spoilt = |step: &&StepRecord| matches!(step.decision.reason, StepReason::Stalled { .. });
    let repeated = journal.steps().filter(is_spoilt).count() as u64;
    let sum = |of: fn(&StepRecord) -> f64| journal.steps().map(of).sum::<f64>();
    let is_relevant = repeated > 0 || sum(|step| step.stalls.total_s) > STALLED * sum(|step| step.span_s);
    let cause = CapacityCause::Stalls { count, longest_s, repeated };
    (count > 0 && is_relevant).then_some(CauseFound { cause, rate: None, dropped: 0, receive_buffer: 0 })
}

impl CapacityCause {
    /// The cause in a failed step, from its counters.
    fn of(seen: &ServerReading) -> Self {
        if let Some(why) = &seen.hidden {
            return Self::Hidden { why: why.clone() };
        }
        let share = |span_s: f64| if seen.span_s > 0.0 { (span_s / seen.span_s).min(1.0) } else { 0.0 };
        let (ran, waited) = (share(seen.busiest_s), share(seen.busiest_waited_s));
        let (throttled, processors) = (share(seen.throttled_s), seen.processors);
        let all = share(seen.ran_s / f64::from(processors.max(1)));
        let is_emptied = seen.least_full.is_some_and(|least| least < BEHIND);
        match () {
            () if throttled >= THROTTLED => Self::Throttled { share: throttled },
            () if ran >= BUSY => Self::Processor { share: ran },
            () if processors > 0 && all >= BUSY => Self::AllProcessors { share: all, processors },
            () if ran + waited >= BUSY && waited >= KEPT => Self::Contention { ran, waited },
            () if seen.dropped > 0 && is_emptied => {
                Self::ReceiveBuffer { dropped: seen.dropped, size: seen.receive_buffer }
            }
            () if seen.overflows > 0 => Self::ListenQueue { overflows: seen.overflows },
            () => Self::Elsewhere { busy: ran },
        }
    }
}

impl fmt::Display for CauseFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per_cent = |share: &f64| format!("{:.0} %", 100.0 * share);
        match &self.cause {
            CapacityCause::Throttled { share } => write!(
                f,
                "the server's share of the processor: its control group throttled it for {} of the step",
                per_cent(share)
            )?,
            CapacityCause::Processor { share } => {
                write!(f, "the server's processor: its thread was busy for {} of the step", per_cent(share))?;
            }
            CapacityCause::AllProcessors { share, processors } => {
                let processors = counted((*processors).into(), "processor", "processors");
                write!(
                    f,
                    "the server's processors: its threads used {} of the {processors} on which they may run",
                    per_cent(share)
                )?;
            }
            CapacityCause::Contention { ran, waited } => write!(
                f,
                "this host's processors: the server's thread ran for {} of the step and waited for {}, while the tester and \
                 other programs ran",
                per_cent(ran),
                per_cent(waited)
            )?,
            CapacityCause::ReceiveBuffer { .. } => write!(f, "{}", self.drops())?,
            CapacityCause::ListenQueue { overflows } => write!(
                f,
                "the server's listening socket: its queue was full for {}",
                counted(*overflows, "connection", "connections")
            )?,
            CapacityCause::Elsewhere { busy } => {
                let sockets =
                    if self.dropped > 0 { "never emptied its socket" } else { "dropped no datagram" };
                write!(
                    f,
                    "the server itself: it was busy for only {} of the step and {sockets}, so it waits for something else or \
                     limits itself",
                    per_cent(busy)
                )?;
            }
            CapacityCause::Hidden { why } => write!(f, "unknown, because {why}")?,
            CapacityCause::Stalls { count, longest_s, repeated } => {
                let times = counted(*count, "time", "times");
                write!(f, "the whole machine stalled {times}, for up to {}", time(*longest_s))?;
                if *repeated > 0 {
                    let steps = counted(*repeated, "invalid step was", "invalid steps were");
                    write!(f, "; {steps} repeated")?;
                }
            }
        }
        if let Some(rate) = self.rate {
            write!(f, " (at {rate}/s)")?;
        }
        if self.dropped > 0 && !matches!(self.cause, CapacityCause::ReceiveBuffer { .. }) {
            write!(f, "; in that step {}", self.drops())?;
        }
        Ok(())
    }
}

impl CauseFound {
    fn drops(&self) -> String {
        let datagrams = counted(self.dropped, "datagram", "datagrams");
        let size = match self.receive_buffer {
            0 => String::new(),
            size => format!("; its receive buffer is {} KiB", size.div_ceil(1024)),
        };
        format!("the server's UDP socket dropped {datagrams}{size}")
    }
}
