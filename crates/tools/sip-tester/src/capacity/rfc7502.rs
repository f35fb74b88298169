//! The benchmarking algorithm of RFC 7502, section 4.10: `max_sps`, step by step.
//!
//! The RFC's variables keep their names: `r` is the session attempt rate, `old_r` the highest rate that succeeded, `w` and `d`
//! the weights of increase and decrease, `count` the number of successes without a new highest rate. The pseudo-code does
//! not end if `r` leaves the allowed range. Here the search ends without a number when `r` falls below the lowest or rises
//! above the highest allowed rate.

use super::decision::StepReason;
use super::procedure::{NextAction, Procedure};
use super::settings::{Rfc7502, SearchSettings};
use super::step::{StepPause, StepPurpose};
use super::verdict::{CapacityEstimate, CapacityVerdict};

/// Successes without a new highest rate after which the search ends: "we've converged".
const CONVERGED: u32 = 10;

/// The lower limit of the weights: `max(0.10, ...)`.
const LEAST_WEIGHT: f64 = 0.10;

#[derive(Debug)]
pub(super) struct Rfc7502Procedure {
    settings: SearchSettings,
    r: f64,
    old_r: f64,
    w: f64,
    d: f64,
    count: u32,
    steps: u32,
    /// The failed rates.
    failed: Vec<f64>,
    /// The rate of a failed step, while the pause after it lasts.
    rest: Option<f64>,
    verdict: Option<CapacityVerdict>,
}

impl Rfc7502Procedure {
    pub fn new(settings: &SearchSettings, rfc: Rfc7502) -> Self {
        Self {
            settings: settings.clone(),
            r: settings.start,
            old_r: 0.0,
            w: rfc.increase,
            // d := max(0.10, w / 2)
            d: LEAST_WEIGHT.max(rfc.increase / 2.0),
            count: 0,
            steps: 0,
            failed: Vec::new(),
            rest: None,
            verdict: None,
        }
    }

    /// `s == n`: every session was set up.
    fn succeeded(&mut self) {
        if self.r > self.old_r {
            self.old_r = self.r;
        } else {
            self.count += 1;
            if self.count >= CONVERGED {
                // h := max(r, old_r)
                let h = self.r.max(self.old_r);
                let above = self.failed.iter().copied().filter(|failed| *failed > h).reduce(f64::min);
                let steps = u64::from(self.steps);
                self.verdict = Some(CapacityVerdict::Capacity(CapacityEstimate::between(h, above, steps)));
                return;
            }
        }
        // r := floor(r + (w * r))
        self.r = (self.r + self.w * self.r).floor();
        if self.r > self.settings.highest {
            self.verdict = Some(CapacityVerdict::MoreThan { rate: self.old_r });
        }
    }

    fn missed(&mut self) {
        self.failed.push(self.r);
        self.rest = Some(self.r);
        // r := floor(r - (d * r)), d := max(0.10, d / 2), w := max(0.10, w / 2)
        self.r = (self.r - self.d * self.r).floor();
        self.d = LEAST_WEIGHT.max(self.d / 2.0);
        self.w = LEAST_WEIGHT.max(self.w / 2.0);
        if self.r < self.settings.lowest.max(1.0) {
            let lowest = self.failed.iter().copied().reduce(f64::min).unwrap_or(self.settings.lowest);
            self.verdict = Some(CapacityVerdict::LessThan { rate: lowest });
        }
    }
}

impl Procedure for Rfc7502Procedure {
    fn wanted(&self) -> NextAction {
        match (&self.verdict, self.rest) {
            (Some(verdict), _) => NextAction::Finished(verdict.clone()),
            (None, Some(after)) => NextAction::Drain(StepPause { span_s: self.settings.rest_s, after }),
            (None, None) => NextAction::Step { rate: self.r, purpose: StepPurpose::Traffic },
        }
    }

    fn decided(&mut self, passed: bool) {
        self.steps += 1;
        if passed {
            self.succeeded();
        } else {
            self.missed();
        }
        if self.steps >= self.settings.most_steps && self.verdict.is_none() {
            let passed = (self.old_r > 0.0).then_some(self.old_r);
            let failed = self.failed.iter().copied().reduce(f64::min);
            self.verdict = Some(CapacityVerdict::Unsettled { passed, failed, steps: self.steps });
        }
    }

    fn limited(&mut self, reason: &StepReason) {
        let carried = (self.old_r > 0.0).then_some(self.old_r);
        self.verdict = Some(CapacityVerdict::TesterLimit { rate: self.r, carried, why: reason.clone() });
    }

    fn drained(&mut self) {
        self.rest = None;
    }
}
