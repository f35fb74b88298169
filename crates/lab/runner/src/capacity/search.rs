//! A search for a capacity: it says what to offer next, and is told what came of it.

use super::decision::{Decision, Outcome, Reason};
use super::design_objective::Climb;
use super::estimation::Estimation;
use super::journal::{Entry, Journal, Record, ResumeError};
use super::judge::{Running, is_unanswered};
use super::observation::Seen;
use super::procedure::{Procedure, Wanted};
use super::rfc7502::Converging;
use super::settings::{Mode, Settings, SettingsError};
use super::step::{Criterion, Drain, Purpose, Step, counted, spans};
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

/// A search for a capacity. It opens no socket, asks no clock and knows no SIP: whoever drives it carries its orders
/// out.
///
/// ```
/// use netrig_runner::capacity::{Counts, Order, Search, Seen, Settings, Verdict};
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
/// # Ok::<(), netrig_runner::capacity::SettingsError>(())
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
