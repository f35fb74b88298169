//! A search for a capacity: it says what to offer next, and is told what came of it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::decision::{Decision, Outcome, Reason};
use super::design_objective::Climb;
use super::estimation::Estimation;
use super::journal::{Entry, Journal, Record, ResumeError};
use super::judge::{Running, is_unanswered};
use super::observation::Seen;
use super::rfc7502::Converging;
use super::settings::{Mode, Sequential, Settings, SettingsError};
use super::verdict::Verdict;

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// Offer calls, tell what is [seen](Search::observe) about once a second until it is enough or the step is over,
    /// then wait for the open calls and [end](Search::end) the step.
    Step(Step),
    /// Offer nothing for a while, then [say so](Search::drained).
    Drain(Drain),
    /// The search is over.
    Finished(Verdict),
}

/// A step: calls at one rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Per second.
    pub rate: f64,
    /// Why this rate.
    pub purpose: Purpose,
    /// Whether it is another attempt, because the one before did not count.
    pub again: bool,
    /// It is not decided sooner, s.
    pub least_s: f64,
    /// It is over after so long, s.
    pub at_most_s: f64,
    /// It is over after so many calls, if it says so.
    pub calls: Option<u64>,
    /// How long open calls are waited for, beyond what one lasts by itself, if it is over without having been
    /// decided, s.
    pub linger_s: f64,
    /// What decides it.
    pub(super) criterion: Criterion,
}

/// Silence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Drain {
    /// How long, s.
    pub span_s: f64,
    /// The rate of the step after which it is wanted.
    pub after: f64,
}

/// Why a rate is offered.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// To find a rate that passes and one that fails.
    Ramp,
    /// In the middle of the interval that the steps so far leave.
    Between,
    /// To see whether the only rate that failed fails again.
    Recheck,
    /// To see whether the upper end of the interval fails.
    UpperEnd,
    /// To see whether a rate holds for long.
    Confirmation,
    /// To see whether the server has recovered.
    Recovery,
    /// RFC 7502: `send_traffic`.
    Traffic,
    /// TS 186 008: the next step of load.
    Load,
}

/// What decides a step.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Criterion {
    /// The sequential test, the thresholds, and whether the server keeps up.
    Sequential(Sequential),
    /// So many calls, all of which succeed.
    Clean {
        /// How many.
        calls: u64,
    },
    /// The share of what was handled inadequately is below this.
    Objective {
        /// The share.
        share: f64,
    },
}

/// What a driver does after an observation.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// It goes on.
    Continue,
    /// It begins no more calls, waits so long or until none is open, and ends the step.
    Enough {
        /// What was decided. What becomes of the open calls may still turn a pass into a failure.
        decision: Decision,
        /// How long to wait at most, beyond what a call lasts by itself, s.
        linger_s: f64,
    },
}

/// What a mode wants next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Wanted {
    /// A step.
    Step {
        /// Its rate.
        rate: f64,
        /// Why.
        purpose: Purpose,
    },
    /// Silence.
    Drain(Drain),
    /// It has found what it looked for.
    Finished(Verdict),
}

/// How a mode finds its way: each is told what became of what it wanted, and nothing else.
pub(super) trait Procedure: fmt::Debug + Send {
    /// The next.
    fn wanted(&self) -> Wanted;
    /// The step that was wanted passed or failed.
    fn decided(&mut self, passed: bool);
    /// The step that was wanted did not count, and is to be tried again; whether the procedure wants the server to recover before.
    fn spoilt(&mut self) -> bool {
        false
    }
    /// The step that was wanted did not count, however often it was tried.
    fn limited(&mut self, reason: &Reason);
    /// The silence that was wanted is over.
    fn drained(&mut self);
    /// The last step, attempt or pause has taken so long, s. It is told after what the step has shown.
    fn spent(&mut self, _span_s: f64) {}
    /// How much of the time for all steps is left, s; `None` if the time does not end the search.
    fn left_s(&self) -> Option<f64> {
        None
    }
}

/// A search for a capacity. It opens no socket, asks no clock and knows no SIP: whoever drives it carries its orders
/// out.
///
/// ```
/// use crate::capacity::{Counts, Order, Search, Seen, Settings, Verdict};
/// let mut search = Search::new(Settings::rfc7502("calls", 100.0))?;
/// // A server that carries 460 calls per second: the RFC's own example, which finds 458.
/// let verdict = loop {
///     match search.next() {
///         Order::Step(step) => {
///             let n = step.calls.unwrap_or_default();
///             let good = if step.rate <= 460.0 { n } else { n / 2 };
///             let counts = Counts { begun: n, succeeded: good, failed: n - good, ..Counts::default() };
///             search.end(&Seen { span_s: n as f64 / step.rate, counts, ..Seen::default() });
///         }
///         Order::Drain(_) => search.drained(),
///         Order::Finished(verdict) => break verdict,
///     }
/// };
/// assert_eq!(verdict.rate(), Some(458.0));
/// # Ok::<(), crate::capacity::SettingsError>(())
/// ```
#[derive(Debug)]
pub struct Search {
    settings: Settings,
    procedure: Box<dyn Procedure>,
    entries: Vec<Entry>,
    running: Running,
    /// The step that the procedure wants did not count: it is tried again, after a pause.
    again: Again,
    /// Attempts at that step that did not count.
    attempts: u32,
    /// The server has never answered.
    unanswered: Option<Verdict>,
}

/// How often a step is tried that the tester spoils.
const ATTEMPTS: u32 = 3;

/// How often a step is tried that stalls of the machine spoil. They come by chance: the next attempt may have none.
const STALLED_ATTEMPTS: u32 = 6;

/// How long the open calls of a failed step are waited for in a mode that asks whether the server has recovered, s: after 7.5 s a
/// request has been sent again four times.
const OVERLOADED_LINGER_S: f64 = 8.0;

/// How far another attempt is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Again {
    /// None is wanted.
    No,
    /// Of a step at this rate, after a pause.
    Rest(f64),
    /// Of a step at this rate, now.
    Due(f64),
}

impl Search {
    /// A search from its beginning.
    ///
    /// # Errors
    /// Settings that make none.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        settings.check()?;
        let procedure: Box<dyn Procedure> = match &settings.mode {
            Mode::Sequential(sequential) => Box::new(Estimation::new(&settings, sequential)),
            Mode::Rfc7502(rfc) => Box::new(Converging::new(&settings, *rfc)),
            Mode::DesignObjective(objective) => Box::new(Climb::new(&settings, *objective)),
        };
        Ok(Self {
            settings,
            procedure,
            entries: Vec::new(),
            running: Running::default(),
            again: Again::No,
            attempts: 0,
            unanswered: None,
        })
    }

    /// A search that was interrupted: what its journal holds is taken as it stands, and the next order is the one
    /// after.
    ///
    /// # Errors
    /// Settings that are not the journal's, that make no search, or a journal that no search has written.
    pub fn resume(settings: Settings, journal: Journal) -> Result<Self, ResumeError> {
        if settings != journal.settings {
            return Err(ResumeError::OtherSettings);
        }
        let mut search = Self::new(settings)?;
        for (n, entry) in journal.entries.into_iter().enumerate() {
            let fits = match (&entry, search.next()) {
                (Entry::Step(record), Order::Step(step)) => record.is_of(&step),
                (Entry::Drain(drain), Order::Drain(wanted)) => *drain == wanted,
                _ => false,
            };
            if !fits {
                return Err(ResumeError::OtherOrder { entry: n + 1 });
            }
            search.take(entry);
        }
        Ok(search)
    }

    /// What is to be done now. It stays the same until that is done.
    pub fn next(&self) -> Order {
        if let Some(verdict) = &self.unanswered {
            return Order::Finished(verdict.clone());
        }
        if let Again::Rest(after) = self.again {
            return Order::Drain(Drain { span_s: self.settings.rest_s, after });
        }
        match self.procedure.wanted() {
            Wanted::Step { rate, purpose } => Order::Step(self.step(rate, purpose)),
            Wanted::Drain(drain) => Order::Drain(drain),
            Wanted::Finished(verdict) => Order::Finished(verdict),
        }
    }

    /// Tells what there is to see of the step that was ordered. Without such a step nothing happens.
    pub fn observe(&mut self, seen: &Seen) -> Progress {
        let Order::Step(step) = self.next() else { return Progress::Continue };
        let Some(decision) = self.running.observe(&self.settings, &step, seen).cloned() else {
            return Progress::Continue;
        };
        // After a pass only the young calls are of interest; after a failure the server is to get rid of all of them.
        let is_passed = decision.outcome == Outcome::Passed;
        let linger_s = match is_passed {
            true => self.settings.patience_s,
            // A server that does not answer at all will not answer the open calls.
            false if is_unanswered(seen) && !self.has_passed() => 0.0,
            // The server is asked whether it has recovered.
            false if matches!(self.settings.mode, Mode::Sequential(_)) => {
                self.settings.linger_s.min(OVERLOADED_LINGER_S)
            }
            false => self.settings.linger_s,
        };
        Progress::Enough { decision, linger_s }
    }

    /// Ends the step that was ordered: no call is begun any more, and the open ones have been waited for. Returns
    /// what is written down; `None` if no step was ordered.
    pub fn end(&mut self, seen: &Seen) -> Option<&Record> {
        let Order::Step(step) = self.next() else { return None };
        let (decision, part) = std::mem::take(&mut self.running).end(&self.settings, &step, seen);
        let seen = part.as_ref().unwrap_or(seen);
        self.take(Entry::Step(Box::new(Record::new(&self.settings, &step, seen, decision))));
        match self.entries.last() {
            Some(Entry::Step(record)) => Some(record),
            _ => None,
        }
    }

    /// The silence that was ordered is over.
    pub fn drained(&mut self) {
        if let Order::Drain(drain) = self.next() {
            self.take(Entry::Drain(drain));
        }
    }

    /// How much of the time for all steps is left, s; `None` if the time does not end the search.
    pub fn left_s(&self) -> Option<f64> {
        self.procedure.left_s()
    }

    /// How many steps there were, with attempts that did not count and questions whether the server has recovered.
    pub fn steps(&self) -> u64 {
        self.entries.iter().filter(|entry| matches!(entry, Entry::Step(_))).count() as u64
    }

    /// Everything so far.
    pub fn journal(&self) -> Journal {
        Journal { settings: self.settings.clone(), entries: self.entries.clone() }
    }

    /// Whether the server has carried any rate.
    pub fn has_passed(&self) -> bool {
        let is_passed = |entry: &Entry| matches!(entry, Entry::Step(record) if record.decision.outcome == Outcome::Passed);
        self.entries.iter().any(is_passed)
    }

    /// Goes on by what was written down.
    fn take(&mut self, entry: Entry) {
        match &entry {
            Entry::Drain(drain) => {
                match self.again {
                    Again::Rest(rate) => self.again = Again::Due(rate),
                    _ => self.procedure.drained(),
                }
                self.procedure.spent(drain.span_s);
            }
            // A question whether the server has recovered is answered by no other attempt.
            Entry::Step(record) if record.purpose.is_probe() => {
                self.procedure.decided(record.decision.outcome == Outcome::Passed);
                self.procedure.spent(record.took_s);
            }
            Entry::Step(record) => {
                self.again = Again::No;
                if let Reason::Unanswered { calls, why } = &record.decision.reason
                    && !self.has_passed()
                {
                    self.unanswered = Some(Verdict::Unanswered { calls: *calls, why: why.clone() });
                }
                let attempts = std::mem::take(&mut self.attempts) + 1;
                let most = match record.decision.reason {
                    Reason::Stalled { .. } => STALLED_ATTEMPTS,
                    _ => ATTEMPTS,
                };
                match record.decision.outcome {
                    Outcome::Passed => self.procedure.decided(true),
                    Outcome::Failed => self.procedure.decided(false),
                    Outcome::Invalid if attempts >= most => self.procedure.limited(&record.decision.reason),
                    Outcome::Invalid => {
                        self.attempts = attempts;
                        self.again = match self.procedure.spoilt() {
                            true => Again::Due(record.rate),
                            false => Again::Rest(record.rate),
                        };
                    }
                }
                self.procedure.spent(record.took_s);
            }
        }
        // When the time is up another attempt may not be wanted any more.
        if let (Again::Due(again), Wanted::Step { rate, purpose }) = (self.again, self.procedure.wanted())
            && !purpose.is_probe()
            && rate != again
        {
            (self.again, self.attempts) = (Again::No, 0);
        }
        self.entries.push(entry);
    }

    fn step(&self, rate: f64, purpose: Purpose) -> Step {
        let (least_s, at_most_s, calls, criterion) = match (&self.settings.mode, purpose) {
            (Mode::Sequential(sequential), Purpose::Recovery) => counted(rate, sequential.recovery.calls),
            (Mode::Sequential(sequential), _) => spans(sequential, rate, purpose),
            (Mode::Rfc7502(rfc), _) => counted(rate, rfc.sessions),
            (Mode::DesignObjective(objective), _) => {
                let criterion = Criterion::Objective { share: objective.objective };
                (objective.step_s, objective.step_s, None, criterion)
            }
        };
        Step {
            rate,
            purpose,
            again: matches!(self.again, Again::Due(_)) && !purpose.is_probe(),
            least_s,
            at_most_s,
            calls,
            linger_s: self.settings.linger_s,
            criterion,
        }
    }
}

/// A step of so many calls, with time to spare for arrivals that are left to chance.
fn counted(rate: f64, calls: u64) -> (f64, f64, Option<u64>, Criterion) {
    let span_s = calls as f64 / rate;
    (0.0, 2.0 * span_s + 10.0, Some(calls), Criterion::Clean { calls })
}

/// How long a sequential test may take: beyond the shortest span three times as many calls as it needs at best,
/// within the settings.
fn spans(sequential: &Sequential, rate: f64, purpose: Purpose) -> (f64, f64, Option<u64>, Criterion) {
    let clean = sequential.test.test().map_or(0, |test| test.fewest_clean()) as f64;
    let (least_s, most_s) = match purpose {
        Purpose::Confirmation => (sequential.confirm_s.max(sequential.least_s), sequential.most_s),
        // Most steps of a ramp are far from the capacity.
        Purpose::Ramp => (sequential.least_s, sequential.most_s / 2.0),
        _ => (sequential.least_s, sequential.most_s),
    };
    let at_most_s = (least_s + 3.0 * clean / rate).min(least_s.max(most_s));
    (least_s, at_most_s, None, Criterion::Sequential(sequential.clone()))
}

impl Purpose {
    /// Whether it asks whether the server has recovered.
    pub const fn is_probe(self) -> bool {
        matches!(self, Self::Recovery)
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ramp => f.write_str("ramp"),
            Self::Between => f.write_str("between the ends"),
            Self::Recheck => f.write_str("does it fail again?"),
            Self::UpperEnd => f.write_str("does the upper end fail?"),
            Self::Confirmation => f.write_str("does it hold for long?"),
            Self::Recovery => f.write_str("has the server recovered?"),
            Self::Traffic => f.write_str("send_traffic of RFC 7502"),
            Self::Load => f.write_str("step of load"),
        }
    }
}
