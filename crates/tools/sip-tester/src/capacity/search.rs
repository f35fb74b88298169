//! A search for a capacity: it orders the next step or pause, and receives the observations.

use super::decision::{StepDecision, StepOutcome, StepReason};
use super::design_objective::DesignObjectiveProcedure;
use super::estimation::SequentialProcedure;
use super::journal::{ResumeError, SearchEntry, SearchJournal, StepRecord};
use super::judge::{RunningStep, is_unanswered};
use super::observation::StepObservation;
use super::procedure::{NextAction, Procedure};
use super::rfc7502::Rfc7502Procedure;
use super::settings::{Mode, SearchSettings, SearchSettingsError};
use super::step::{Criterion, LoadStep, StepPause, StepPurpose, counted, spans};
use super::verdict::CapacityVerdict;

/// The next order to the driver.
#[derive(Clone, Debug, PartialEq)]
pub enum DriverOrder {
    /// Offer calls and [report](CapacitySearch::observe) about once a second until the step is decided or over. Then wait for
    /// the open calls and [end](CapacitySearch::end) the step.
    Step(LoadStep),
    /// Offer nothing for a time, then [report it](CapacitySearch::drained).
    Drain(StepPause),
    /// The search is over.
    Finished(CapacityVerdict),
}

/// What the driver does after an observation.
#[derive(Clone, Debug, PartialEq)]
pub enum StepProgress {
    /// Continue the step.
    Continue,
    /// Start no more calls, wait until none is open or `linger_s` has passed, and end the step.
    Enough {
        /// The decision. The open calls may still turn a pass into a failure.
        decision: StepDecision,
        /// The longest time to wait, beyond the duration of a call, s.
        linger_s: f64,
    },
}

/// A search for a capacity. A driver performs its orders: the search itself opens no socket, reads no clock and is
/// independent of SIP.
///
/// ```
/// use netrig_sip_tester::capacity::{CallCounts, DriverOrder, CapacitySearch, StepObservation, SearchSettings, CapacityVerdict};
/// let mut search = CapacitySearch::new(SearchSettings::rfc7502("calls", 100.0))?;
/// // A server that carries 460 calls per second: the RFC's own example, which finds 458.
/// let verdict = loop {
///     match search.next() {
///         DriverOrder::Step(step) => {
///             let n = step.calls.unwrap_or_default();
///             let good = if step.rate <= 460.0 { n } else { n / 2 };
///             let counts = CallCounts { begun: n, succeeded: good, failed: n - good, ..CallCounts::default() };
///             search.end(&StepObservation { span_s: n as f64 / step.rate, counts, ..StepObservation::default() });
///         }
///         DriverOrder::Drain(_) => search.drained(),
///         DriverOrder::Finished(verdict) => break verdict,
///     }
/// };
/// assert_eq!(verdict.rate(), Some(458.0));
/// # Ok::<(), netrig_sip_tester::capacity::SearchSettingsError>(())
/// ```
#[derive(Debug)]
pub struct CapacitySearch {
    settings: SearchSettings,
    procedure: Box<dyn Procedure>,
    entries: Vec<SearchEntry>,
    running: RunningStep,
    /// Whether the current step is repeated after an invalid attempt.
    again: Retry,
    /// Invalid attempts of the current step.
    attempts: u32,
    /// The verdict if the server has never answered.
    unanswered: Option<CapacityVerdict>,
}

/// The largest number of attempts of a step that faults of the tester invalidate.
const ATTEMPTS: u32 = 3;

/// The largest number of attempts of a step that stalls of the machine invalidate. Stalls are random: the next attempt
/// may have none.
const STALLED_ATTEMPTS: u32 = 6;

/// How long to wait for the open calls of a failed step in a mode that checks whether the server has recovered, s. After 7.5 s a
/// request has been retransmitted four times.
const OVERLOADED_LINGER_S: f64 = 8.0;

/// Whether and when the current step is repeated.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Retry {
    No,
    /// After a pause, at this rate (1/s).
    Rest(f64),
    /// In the next step, at this rate (1/s).
    Due(f64),
}

impl CapacitySearch {
    /// Starts a new search.
    ///
    /// # Errors
    /// If a setting is outside its range.
    pub fn new(settings: SearchSettings) -> Result<Self, SearchSettingsError> {
        settings.check()?;
        let procedure: Box<dyn Procedure> = match &settings.mode {
            Mode::Sequential(sequential) => Box::new(SequentialProcedure::new(&settings, sequential)),
            Mode::Rfc7502(rfc) => Box::new(Rfc7502Procedure::new(&settings, *rfc)),
            Mode::DesignObjective(objective) => {
                Box::new(DesignObjectiveProcedure::new(&settings, *objective))
            }
        };
        Ok(Self {
            settings,
            procedure,
            entries: Vec::new(),
            running: RunningStep::default(),
            again: Retry::No,
            attempts: 0,
            unanswered: None,
        })
    }

    /// Resumes an interrupted search. The entries of its journal are replayed, and the next order follows the last
    /// entry.
    ///
    /// # Errors
    /// If the settings differ from the journal's or are outside their range, or if a search with these settings does not
    /// produce the journal's entries.
    pub fn resume(settings: SearchSettings, journal: SearchJournal) -> Result<Self, ResumeError> {
        if settings != journal.settings {
            return Err(ResumeError::OtherSettings);
        }
        let mut search = Self::new(settings)?;
        for (n, entry) in journal.entries.into_iter().enumerate() {
            let fits = match (&entry, search.next()) {
                (SearchEntry::Step(record), DriverOrder::Step(step)) => record.is_of(&step),
                (SearchEntry::Drain(drain), DriverOrder::Drain(wanted)) => *drain == wanted,
                _ => false,
            };
            if !fits {
                return Err(ResumeError::OtherOrder { entry: n + 1 });
            }
            search.take(entry);
        }
        Ok(search)
    }

    /// The current order. It does not change until its result is reported.
    pub fn next(&self) -> DriverOrder {
        if let Some(verdict) = &self.unanswered {
            return DriverOrder::Finished(verdict.clone());
        }
        if let Retry::Rest(after) = self.again {
            return DriverOrder::Drain(StepPause { span_s: self.settings.rest_s, after });
        }
        match self.procedure.wanted() {
            NextAction::Step { rate, purpose } => DriverOrder::Step(self.step(rate, purpose)),
            NextAction::Drain(drain) => DriverOrder::Drain(drain),
            NextAction::Finished(verdict) => DriverOrder::Finished(verdict),
        }
    }

    /// Reports an observation of the current step. If no step is ordered, it is ignored.
    pub fn observe(&mut self, seen: &StepObservation) -> StepProgress {
        let DriverOrder::Step(step) = self.next() else { return StepProgress::Continue };
        let Some(decision) = self.running.observe(&self.settings, &step, seen).cloned() else {
            return StepProgress::Continue;
        };
        // After a pass only recent calls are still undecided; after a failure the server has to finish all open calls.
        let is_passed = decision.outcome == StepOutcome::Passed;
        let linger_s = match is_passed {
            true => self.settings.patience_s,
            // A server that has never answered will not answer the open calls.
            false if is_unanswered(seen) && !self.has_passed() => 0.0,
            // Recovery checks follow.
            false if matches!(self.settings.mode, Mode::Sequential(_)) => {
                self.settings.linger_s.min(OVERLOADED_LINGER_S)
            }
            false => self.settings.linger_s,
        };
        StepProgress::Enough { decision, linger_s }
    }

    /// Ends the current step. The driver starts no more calls and has waited for the open ones. Returns the step's record;
    /// `None` if no step is ordered.
    pub fn end(&mut self, seen: &StepObservation) -> Option<&StepRecord> {
        let DriverOrder::Step(step) = self.next() else { return None };
        let (decision, part) = std::mem::take(&mut self.running).end(&self.settings, &step, seen);
        let seen = part.as_ref().unwrap_or(seen);
        self.take(SearchEntry::Step(Box::new(StepRecord::new(&self.settings, &step, seen, decision))));
        match self.entries.last() {
            Some(SearchEntry::Step(record)) => Some(record),
            _ => None,
        }
    }

    /// Reports that the ordered pause is over.
    pub fn drained(&mut self) {
        if let DriverOrder::Drain(drain) = self.next() {
            self.take(SearchEntry::Drain(drain));
        }
    }

    /// The remaining time for all steps, s; `None` if the mode has no time limit.
    pub fn left_s(&self) -> Option<f64> {
        self.procedure.left_s()
    }

    /// The number of steps so far, with invalid attempts and recovery checks.
    pub fn steps(&self) -> u64 {
        self.entries.iter().filter(|entry| matches!(entry, SearchEntry::Step(_))).count() as u64
    }

    /// All entries so far.
    pub fn journal(&self) -> SearchJournal {
        SearchJournal { settings: self.settings.clone(), entries: self.entries.clone() }
    }

    /// Whether a step has passed.
    pub fn has_passed(&self) -> bool {
        let is_passed = |entry: &SearchEntry| matches!(entry, SearchEntry::Step(record) if record.decision.outcome == StepOutcome::Passed);
        self.entries.iter().any(is_passed)
    }

    /// Applies an entry to the state of the search.
    fn take(&mut self, entry: SearchEntry) {
        match &entry {
            SearchEntry::Drain(drain) => {
                match self.again {
                    Retry::Rest(rate) => self.again = Retry::Due(rate),
                    _ => self.procedure.drained(),
                }
                self.procedure.spent(drain.span_s);
            }
            // An invalid recovery check counts as failed: the procedure orders the next check.
            SearchEntry::Step(record) if record.purpose.is_probe() => {
                self.procedure.decided(record.decision.outcome == StepOutcome::Passed);
                self.procedure.spent(record.took_s);
            }
            SearchEntry::Step(record) => {
                self.again = Retry::No;
                if let StepReason::Unanswered { calls, why } = &record.decision.reason
                    && !self.has_passed()
                {
                    self.unanswered = Some(CapacityVerdict::Unanswered { calls: *calls, why: why.clone() });
                }
                let attempts = std::mem::take(&mut self.attempts) + 1;
                let most = match record.decision.reason {
                    StepReason::Stalled { .. } => STALLED_ATTEMPTS,
                    _ => ATTEMPTS,
                };
                match record.decision.outcome {
                    StepOutcome::Passed => self.procedure.decided(true),
                    StepOutcome::Failed => self.procedure.decided(false),
                    StepOutcome::Invalid if attempts >= most => {
                        self.procedure.limited(&record.decision.reason)
                    }
                    StepOutcome::Invalid => {
                        self.attempts = attempts;
                        self.again = match self.procedure.spoilt() {
                            true => Retry::Due(record.rate),
                            false => Retry::Rest(record.rate),
                        };
                    }
                }
                self.procedure.spent(record.took_s);
            }
        }
        // If the time limit is reached, the procedure may no longer order the step that is to be repeated.
        if let (Retry::Due(again), NextAction::Step { rate, purpose }) = (self.again, self.procedure.wanted())
            && !purpose.is_probe()
            && rate != again
        {
            (self.again, self.attempts) = (Retry::No, 0);
        }
        self.entries.push(entry);
    }

    fn step(&self, rate: f64, purpose: StepPurpose) -> LoadStep {
        let (least_s, at_most_s, calls, criterion) = match (&self.settings.mode, purpose) {
            (Mode::Sequential(sequential), StepPurpose::Recovery) => counted(rate, sequential.recovery.calls),
            (Mode::Sequential(sequential), _) => spans(sequential, rate, purpose),
            (Mode::Rfc7502(rfc), _) => counted(rate, rfc.sessions),
            (Mode::DesignObjective(objective), _) => {
                let criterion = Criterion::Objective { share: objective.objective };
                (objective.step_s, objective.step_s, None, criterion)
            }
        };
        LoadStep {
            rate,
            purpose,
            again: matches!(self.again, Retry::Due(_)) && !purpose.is_probe(),
            least_s,
            at_most_s,
            calls,
            linger_s: self.settings.linger_s,
            criterion,
        }
    }
}
