//! The search that estimates the capacity from all steps together.
//!
//! Rates rise by a factor until one fails. That rate is offered again, because a step sometimes fails by chance. Then a
//! curve is fitted to all steps. It gives credible intervals of two rates: the rate at which 95 % of the steps pass,
//! and the rate at which half of them pass. The searched interval is from the lower bound of the 95 % rate to the upper
//! bound of the 50 % rate. The next rate is the geometric mean of both ends. When the interval is narrow enough, both
//! ends are checked: two failed rates must be at most the wanted precision above the upper end, and the lower end must
//! pass a long step.
//!
//! After two long steps have failed, short passes prove little: every further step is long, and short passes are
//! ignored. They count again if the time limit is reached before a long step has passed.

use netrig_stats::fit::pass_curve;

use super::decision::StepReason;
use super::procedure::{NextAction, Procedure};
use super::settings::{SearchSettings, Sequential};
use super::step::{StepPause, StepPurpose};
use super::verdict::{CapacityEstimate, CapacityVerdict, HeldRate};

/// Number of failed long steps after which short passes no longer count: the server sustains such rates for seconds only.
const FAILED_LONG_STEPS: usize = 2;

/// Number of rates that must have failed near the upper end of the interval: a single rate may fail twice by chance.
const FAILED_RATES: usize = 2;

/// The time that a step takes after its last call has started, s: for open calls, the pause and the recovery check.
const STEP_OVERHEAD_S: f64 = 5.0;

#[derive(Debug)]
pub(super) struct SequentialProcedure {
    settings: SearchSettings,
    sequential: Sequential,
    steps: Vec<CountedStep>,
    /// The lowest rate at which the tester was the limit, and why.
    ceiling: Option<(f64, StepReason)>,
    recovering: Recovering,
    count: u32,
    spent_s: f64,
    held: Option<HeldRate>,
    /// The next step, or the verdict, according to the steps so far.
    next: NextTrial,
}

/// A valid step.
#[derive(Clone, Copy, Debug)]
struct CountedStep {
    rate: f64,
    passed: bool,
    /// Whether it was a confirmation, which lasts as long as a capacity has to hold.
    is_long: bool,
}

/// The recovery phase between a step that failed, was invalid or showed the tester's limit, and the next step.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Recovering {
    No,
    /// Nothing is offered.
    Rest {
        /// Rate of the step before the pause, per second.
        last_rate: f64,
        span_s: f64,
        /// The sum of all pauses since that step, up to the end of this one.
        paused_s: f64,
    },
    /// A few calls are offered.
    Probe {
        last_rate: f64,
        span_s: f64,
        paused_s: f64,
    },
}

#[derive(Debug)]
enum NextTrial {
    Step(f64, StepPurpose),
    End(CapacityVerdict),
}

impl SequentialProcedure {
    pub fn new(settings: &SearchSettings, sequential: &Sequential) -> Self {
        Self {
            settings: settings.clone(),
            sequential: sequential.clone(),
            steps: Vec::new(),
            ceiling: None,
            recovering: Recovering::No,
            count: 0,
            spent_s: 0.0,
            held: None,
            next: NextTrial::Step(settings.start, StepPurpose::Ramp),
        }
    }

    /// Whether only long steps count as passed.
    fn is_long_only(&self) -> bool {
        self.steps.iter().filter(|step| step.is_long && !step.passed).count() >= FAILED_LONG_STEPS
    }

    /// The rates of the steps that the estimate uses, and whether they passed.
    fn counted(&self) -> Vec<(f64, bool)> {
        let is_long_only = self.is_long_only();
        let has_held = self.steps.iter().any(|step| step.is_long && step.passed);
        // If the time limit is reached before a long step has passed, only short passes are available.
        let is_long_only = is_long_only && (has_held || !self.is_budget_spent());
        let counts = |step: &&CountedStep| !(step.passed && is_long_only && !step.is_long);
        self.steps.iter().filter(counts).map(|step| (step.rate, step.passed)).collect()
    }

    /// Whether no further step is possible: the limit of steps is reached, or the remaining time is too short for a
    /// step and, if no rate has passed a long step yet, a confirmation.
    fn is_budget_spent(&self) -> bool {
        let confirmation_s =
            if self.held.is_none() { self.sequential.confirm_s + STEP_OVERHEAD_S } else { 0.0 };
        let step_s = if self.is_long_only() { self.sequential.confirm_s } else { self.sequential.most_s };
        self.count >= self.settings.most_steps
            || self.spent_s + step_s + STEP_OVERHEAD_S + confirmation_s > self.sequential.within_s
    }

    fn aim(&self) -> NextTrial {
        let counted = self.counted();
        let of = |passed: bool| counted.iter().filter(move |step| step.1 == passed).map(|step| step.0);
        let (highest_passed, lowest_failed) = (of(true).reduce(f64::max), of(false).reduce(f64::min));
        match (highest_passed, lowest_failed) {
            (None, None) if self.ceiling.is_none() => NextTrial::Step(self.settings.start, StepPurpose::Ramp),
            (Some(passed), None) => self.above(passed),
            (None, failed) => self.below(failed),
            (Some(passed), Some(_)) => self.between(&counted, passed),
        }
    }

    /// The next step if no counted step has failed above `passed`, the highest passed rate.
    fn above(&self, passed: f64) -> NextTrial {
        let highest = self.settings.highest;
        if let Some((ceiling, why)) = &self.ceiling {
            let middle = rounded((passed * ceiling).sqrt());
            let is_apart = *ceiling > passed * (1.0 + self.sequential.precision);
            let is_between = middle > passed && middle < *ceiling && is_apart;
            return match self.is_budget_spent() {
                false if is_between => NextTrial::Step(middle, StepPurpose::Between),
                _ => NextTrial::End(tester_limit(*ceiling, Some(passed), why)),
            };
        }
        match self.held {
            Some(held) if held.rate >= passed && passed >= highest => {
                NextTrial::End(CapacityVerdict::MoreThan { rate: passed })
            }
            _ if self.is_budget_spent() && passed < highest => NextTrial::End(self.unsettled()),
            _ if passed >= highest => NextTrial::Step(passed, StepPurpose::Confirmation),
            _ => NextTrial::Step(rounded(passed * self.sequential.factor).min(highest), StepPurpose::Ramp),
        }
    }

    /// The next step if no counted step has passed. If short passes are ignored, only long steps are counted as passed.
    fn below(&self, failed: Option<f64>) -> NextTrial {
        let lowest = self.settings.lowest;
        let bound = failed.into_iter().chain(self.ceiling.as_ref().map(|(rate, _)| *rate)).reduce(f64::min);
        let bound = bound.unwrap_or(self.settings.start);
        if bound <= lowest {
            return NextTrial::End(match &self.ceiling {
                Some((ceiling, why)) if failed.is_none() => tester_limit(*ceiling, None, why),
                _ => CapacityVerdict::LessThan { rate: bound },
            });
        }
        if self.is_budget_spent() {
            return NextTrial::End(self.unsettled());
        }
        match self.is_long_only() {
            true => {
                let rate = rounded(bound / (1.0 + self.sequential.precision / 2.0)).max(lowest);
                NextTrial::Step(rate, StepPurpose::Confirmation)
            }
            false => NextTrial::Step(rounded(bound / self.sequential.factor).max(lowest), StepPurpose::Ramp),
        }
    }

    /// The next step if some counted steps have passed and some have failed.
    fn between(&self, counted: &[(f64, bool)], passed: f64) -> NextTrial {
        let SearchSettings { lowest, highest, .. } = self.settings;
        let is_budget_spent = self.is_budget_spent();
        let failed: Vec<_> = counted.iter().filter(|step| !step.1).map(|step| step.0).collect();
        let highest_failed = failed.iter().copied().fold(0.0, f64::max);
        if !is_budget_spent && failed.len() == 1 && !self.is_long_only() {
            // A single failure may be due to chance: its rate is offered again, unless a step at that rate or a higher one has
            // passed.
            return match passed >= highest_failed {
                false => NextTrial::Step(highest_failed, StepPurpose::Recheck),
                true => self.above(passed),
            };
        }
        // The fit cannot fail here: rates are positive, and there are passes and failures.
        let Ok(curve) = pass_curve(counted, self.sequential.confidence) else {
            return NextTrial::End(self.unsettled());
        };
        let (low, high) = (curve.most.low, curve.half.high);
        let width = 1.0 + self.sequential.precision;
        let is_narrow = high <= low * width;
        let mut near: Vec<_> = failed.iter().copied().filter(|rate| *rate <= high * width).collect();
        near.sort_by(f64::total_cmp);
        near.dedup();
        let is_shown = near.len() >= FAILED_RATES;
        if !is_budget_spent && (!is_narrow || !is_shown) {
            let rate = rounded(if is_narrow { high } else { (low * high).sqrt() }).clamp(lowest, highest);
            let purpose = match () {
                () if self.is_long_only() => StepPurpose::Confirmation,
                () if is_narrow => StepPurpose::UpperEnd,
                () => StepPurpose::Between,
            };
            return match &self.ceiling {
                Some((ceiling, why)) if rate >= *ceiling => {
                    NextTrial::End(tester_limit(*ceiling, Some(passed), why))
                }
                _ => NextTrial::Step(rate, purpose),
            };
        }
        let is_late = self.spent_s + self.sequential.confirm_s > self.sequential.within_s;
        match self.held {
            None if !is_late && self.count < self.settings.most_steps => {
                NextTrial::Step(rounded(low).clamp(lowest, highest), StepPurpose::Confirmation)
            }
            held => NextTrial::End(CapacityVerdict::Capacity(CapacityEstimate {
                rate: curve.most.value,
                low,
                high,
                confidence: self.sequential.confidence,
                most: Some(curve.most.into()),
                half: Some(curve.half.into()),
                held,
                steps: counted.len() as u64,
            })),
        }
    }

    fn unsettled(&self) -> CapacityVerdict {
        let of =
            |passed: bool| self.steps.iter().filter(move |step| step.passed == passed).map(|step| step.rate);
        CapacityVerdict::Unsettled {
            passed: of(true).reduce(f64::max),
            failed: of(false).reduce(f64::min),
            steps: self.count,
        }
    }

    /// The highest passed rate below all failed rates. If no passed rate is below them, the lowest passed rate.
    fn known_good(&self) -> Option<f64> {
        let failed =
            self.steps.iter().filter(|step| !step.passed).map(|step| step.rate).fold(f64::INFINITY, f64::min);
        let passed = || self.steps.iter().filter(|step| step.passed).map(|step| step.rate);
        passed().filter(|rate| *rate < failed).reduce(f64::max).or_else(|| passed().reduce(f64::min))
    }

    /// Handles the result of a recovery check.
    fn probed(&mut self, passed: bool) {
        let Recovering::Probe { last_rate, span_s, paused_s } = self.recovering else { return };
        let span_s = 2.0 * span_s.max(0.5);
        let is_over = paused_s + span_s > self.sequential.recovery.most_s
            || self.spent_s + span_s > self.sequential.within_s;
        self.recovering = match passed {
            true => Recovering::No,
            false => Recovering::Rest { last_rate, span_s, paused_s: paused_s + span_s },
        };
        self.next = match !passed && is_over {
            true => NextTrial::End(CapacityVerdict::NotRecovered { after: last_rate, waited_s: paused_s }),
            false => self.aim(),
        };
    }

    fn rest(&mut self, last_rate: f64) {
        let span_s = self.settings.rest_s;
        self.recovering = Recovering::Rest { last_rate, span_s, paused_s: span_s };
    }
}

impl Procedure for SequentialProcedure {
    fn wanted(&self) -> NextAction {
        if let NextTrial::End(verdict) = &self.next {
            return NextAction::Finished(verdict.clone());
        }
        match (self.recovering, self.known_good()) {
            (Recovering::Rest { last_rate, span_s, .. }, _) => {
                return NextAction::Drain(StepPause { span_s, after: last_rate });
            }
            (Recovering::Probe { .. }, Some(good)) => {
                let rate = rounded(self.sequential.recovery.share * good).max(0.001);
                return NextAction::Step { rate, purpose: StepPurpose::Recovery };
            }
            _ => {}
        }
        match &self.next {
            NextTrial::Step(rate, purpose) => NextAction::Step { rate: *rate, purpose: *purpose },
            NextTrial::End(verdict) => NextAction::Finished(verdict.clone()),
        }
    }

    fn decided(&mut self, passed: bool) {
        let NextAction::Step { rate, purpose } = self.wanted() else { return };
        self.count += 1;
        if purpose.is_probe() {
            self.probed(passed);
            return;
        }
        let is_long = purpose == StepPurpose::Confirmation;
        self.steps.push(CountedStep { rate, passed, is_long });
        if is_long && passed {
            self.held =
                Some(HeldRate { rate, span_s: self.sequential.confirm_s.max(self.sequential.least_s) });
        }
        if passed && self.ceiling.as_ref().is_some_and(|(ceiling, _)| rate >= *ceiling) {
            self.ceiling = None;
        }
        if !passed {
            self.rest(rate);
        }
        self.next = self.aim();
    }

    fn spoilt(&mut self) -> bool {
        if let NextAction::Step { rate, .. } = self.wanted() {
            self.rest(rate);
        }
        true
    }

    fn limited(&mut self, reason: &StepReason) {
        let NextAction::Step { rate, .. } = self.wanted() else { return };
        self.count += 1;
        if self.ceiling.as_ref().is_none_or(|(ceiling, _)| rate < *ceiling) {
            self.ceiling = Some((rate, reason.clone()));
        }
        self.rest(rate);
        self.next = self.aim();
    }

    fn drained(&mut self) {
        let Recovering::Rest { last_rate, span_s, paused_s } = self.recovering else { return };
        // Without a passed rate there is no reference for a recovery check.
        self.recovering = match self.known_good() {
            Some(_) => Recovering::Probe { last_rate, span_s, paused_s },
            None => Recovering::No,
        };
    }

    fn spent(&mut self, span_s: f64) {
        let was_spent = self.is_budget_spent();
        self.spent_s += span_s;
        if self.is_budget_spent() != was_spent && matches!(self.next, NextTrial::Step(..)) {
            self.next = self.aim();
        }
    }

    fn left_s(&self) -> Option<f64> {
        let is_over = matches!(self.next, NextTrial::End(_));
        Some(if is_over { 0.0 } else { (self.sequential.within_s - self.spent_s).max(0.0) })
    }
}

fn tester_limit(rate: f64, carried: Option<f64>, reason: &StepReason) -> CapacityVerdict {
    CapacityVerdict::TesterLimit { rate, carried, why: reason.clone() }
}

/// Rounds a rate that is offered: to whole numbers per second from 100 on, to tenths from 10 on, to thousandths below.
fn rounded(rate: f64) -> f64 {
    let unit = match rate {
        _ if rate >= 100.0 => 1.0,
        _ if rate >= 10.0 => 10.0,
        _ => 1000.0,
    };
    (rate * unit).round() / unit
}
