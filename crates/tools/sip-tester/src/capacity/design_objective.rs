//! The design objective capacity of ETSI TS 186 008. The load rises in equal steps of equal duration. The capacity is the last
//! step before the first one in which the share of inadequately handled scenarios is too large.

use super::decision::StepReason;
use super::procedure::{NextAction, Procedure};
use super::settings::{DesignObjective, SearchSettings};
use super::step::StepPurpose;
use super::verdict::{CapacityEstimate, CapacityVerdict};

#[derive(Debug)]
pub(super) struct DesignObjectiveProcedure {
    settings: SearchSettings,
    increment: f64,
    rate: f64,
    met: Option<f64>,
    steps: u32,
    verdict: Option<CapacityVerdict>,
}

impl DesignObjectiveProcedure {
    pub fn new(settings: &SearchSettings, objective: DesignObjective) -> Self {
        let rate = settings.start;
        let increment = objective.increment;
        Self { settings: settings.clone(), increment, rate, met: None, steps: 0, verdict: None }
    }

    fn met(&mut self) -> Option<CapacityVerdict> {
        self.met = Some(self.rate);
        if self.rate >= self.settings.highest {
            return Some(CapacityVerdict::MoreThan { rate: self.rate });
        }
        self.rate = (self.rate + self.increment).min(self.settings.highest);
        let (passed, steps) = (self.met, self.steps);
        (steps >= self.settings.most_steps).then_some(CapacityVerdict::Unsettled {
            passed,
            failed: None,
            steps,
        })
    }

    fn missed(&self) -> CapacityVerdict {
        let Some(passed) = self.met else { return CapacityVerdict::LessThan { rate: self.rate } };
        CapacityVerdict::Capacity(CapacityEstimate::between(passed, Some(self.rate), u64::from(self.steps)))
    }
}

impl Procedure for DesignObjectiveProcedure {
    fn wanted(&self) -> NextAction {
        match &self.verdict {
            Some(verdict) => NextAction::Finished(verdict.clone()),
            None => NextAction::Step { rate: self.rate, purpose: StepPurpose::Load },
        }
    }

    fn decided(&mut self, passed: bool) {
        self.steps += 1;
        self.verdict = if passed { self.met() } else { Some(self.missed()) };
    }

    fn limited(&mut self, reason: &StepReason) {
        let why = reason.clone();
        self.verdict = Some(CapacityVerdict::TesterLimit { rate: self.rate, carried: self.met, why });
    }

    fn drained(&mut self) {}
}
