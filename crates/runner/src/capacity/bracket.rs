//! The search by ramp and bisection.
//!
//! The latest word on each rate counts. The capacity lies below the lowest rate that failed and not below the highest
//! under it that passed; what passes above a rate that fails is no capacity, but told. When the two ends are near
//! enough the upper one must fail again, for a test errs now and then, and the lower one must hold for long.
//! Whichever does not moves its end, and the search goes on. Once a rate has not held for long, what passed for seconds
//! says little of those below it: from there on every step is long, downwards in strides that double until one holds,
//! then between.

use super::decision::Reason;
use super::search::{Drain, Procedure, Purpose, Wanted};
use super::settings::{Sequential, Settings};
use super::verdict::{Capacity, Contradiction, Found, Verdict};

/// Repeats begin at this share of what was found before, each a little lower than the one before it: with the same
/// rates they would agree by construction.
const REPEAT: (f64, f64) = (0.75, 0.03);

#[derive(Debug)]
pub(super) struct Bracket {
    settings: Settings,
    sequential: Sequential,
    repeat: u32,
    start: f64,
    factor: f64,
    /// By rate.
    tried: Vec<Tried>,
    /// The lowest rate that failed, when it has failed again.
    rechecked: Option<f64>,
    /// The highest rate that passed, when it has held for long.
    confirmed: Option<f64>,
    /// How many rates in a row have not held for long. If any has not, only what does counts as passed.
    unheld: Option<u32>,
    recovering: Recovering,
    steps: u32,
    found: Vec<Found>,
    contradictions: Vec<Contradiction>,
    verdict: Option<Verdict>,
}

#[derive(Clone, Debug)]
struct Tried {
    rate: f64,
    word: Word,
    /// It was offered for as long as a capacity has to hold.
    is_long: bool,
}

/// The latest word on a rate.
#[derive(Clone, Debug, PartialEq)]
enum Word {
    Passed,
    Failed,
    /// The tester was the limit. The rate bounds the search, not the server.
    Limited(Reason),
}

/// What happens between a step that failed and the next.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Recovering {
    No,
    /// Nothing is offered.
    Rest {
        after: f64,
        span_s: f64,
        /// In all until it is over.
        spent_s: f64,
    },
    /// A few calls are.
    Probe {
        after: f64,
        span_s: f64,
        spent_s: f64,
    },
}

enum Aim {
    Step(f64, Purpose),
    Found(Found),
    End(Verdict),
}

impl Bracket {
    pub fn new(settings: &Settings, sequential: &Sequential) -> Self {
        Self {
            settings: settings.clone(),
            sequential: sequential.clone(),
            repeat: 1,
            start: settings.start,
            factor: sequential.factor,
            tried: Vec::new(),
            rechecked: None,
            confirmed: None,
            unheld: None,
            recovering: Recovering::No,
            steps: 0,
            found: Vec::new(),
            contradictions: Vec::new(),
            verdict: None,
        }
    }

    /// The highest rate that passed below the lowest that did not, and that one.
    fn ends(&self) -> (Option<f64>, Option<&Tried>) {
        let above = self.tried.iter().find(|tried| tried.word != Word::Passed);
        let is_below = |tried: &&Tried| above.is_none_or(|above| tried.rate < above.rate);
        let passed =
            self.tried.iter().rfind(|tried| is_below(tried) && (tried.is_long || self.unheld.is_none()));
        (passed.map(|tried| tried.rate), above)
    }

    /// The next lower rate after one that did not hold.
    fn stride_below(&self, rate: f64, unheld: u32) -> f64 {
        let strides = f64::from(1_u32 << unheld.saturating_sub(1).min(16));
        let stride = (1.0 + self.sequential.precision).powf(strides).min(self.factor);
        tidy(rate / stride).max(self.settings.lowest)
    }

    fn aim(&self) -> Aim {
        let Settings { lowest, highest, .. } = self.settings;
        let aim = match self.ends() {
            (None, None) => Aim::Step(self.start, Purpose::Ramp),
            (Some(passed), None) if passed < highest => {
                Aim::Step(tidy(passed * self.factor).min(highest), Purpose::Ramp)
            }
            (Some(passed), None) if self.confirmed == Some(passed) => {
                Aim::End(Verdict::MoreThan { rate: passed })
            }
            (Some(passed), None) => Aim::Step(passed, Purpose::Confirmation),
            (None, Some(above)) if above.rate > lowest => match self.unheld {
                Some(unheld) => Aim::Step(self.stride_below(above.rate, unheld), Purpose::Confirmation),
                None => Aim::Step(tidy(above.rate / self.factor).max(lowest), Purpose::Ramp),
            },
            (None, Some(above)) => Aim::End(match &above.word {
                Word::Limited(reason) => tester_limit(above.rate, None, reason),
                _ => Verdict::LessThan { rate: above.rate },
            }),
            (Some(passed), Some(above)) => self.between(passed, above),
        };
        match aim {
            Aim::Step(..) if self.steps >= self.settings.most_steps => {
                let (passed, above) = self.ends();
                let failed = above.map(|above| above.rate);
                Aim::End(Verdict::Unsettled { passed, failed, steps: self.steps })
            }
            aim => aim,
        }
    }

    fn between(&self, passed: f64, above: &Tried) -> Aim {
        let middle = tidy((passed * above.rate).sqrt());
        let is_apart = above.rate > passed * (1.0 + self.sequential.precision);
        if is_apart && middle > passed && middle < above.rate {
            let purpose = match self.unheld {
                Some(_) => Purpose::Confirmation,
                None => Purpose::Bisection { passed, failed: above.rate },
            };
            return Aim::Step(middle, purpose);
        }
        match &above.word {
            Word::Limited(reason) => Aim::End(tester_limit(above.rate, Some(passed), reason)),
            _ if self.rechecked != Some(above.rate) => Aim::Step(above.rate, Purpose::Recheck),
            _ if self.confirmed != Some(passed) => Aim::Step(passed, Purpose::Confirmation),
            _ => Aim::Found(Found { passed, failed: Some(above.rate) }),
        }
    }

    /// Ends the repeat, or the search, if there is nothing left to try in it.
    fn settle(&mut self) {
        match self.aim() {
            Aim::Step(..) => {}
            Aim::End(verdict) => self.verdict = Some(verdict),
            Aim::Found(found) => {
                self.found.push(found);
                if self.repeat >= self.sequential.repeats {
                    let (found, contradictions) = (self.found.clone(), self.contradictions.clone());
                    let capacity = Capacity::of(found, contradictions, self.sequential.confidence);
                    self.verdict = Some(Verdict::Capacity(capacity));
                } else {
                    self.begin_again(found.passed);
                }
            }
        }
    }

    /// The next repeat knows nothing of the rates tried before, but begins near what was found.
    fn begin_again(&mut self, passed: f64) {
        let (share, less) = REPEAT;
        let start = passed * (share - less * f64::from((self.repeat - 1) % 8));
        self.start = tidy(start).max(self.settings.lowest);
        self.factor = self.sequential.factor.sqrt();
        self.repeat += 1;
        self.tried.clear();
        (self.rechecked, self.confirmed, self.unheld, self.steps) = (None, None, None, 0);
    }

    /// Notes the word on a rate, and what it contradicts. What passes for seconds and does not hold for long is none:
    /// that is what confirmations are for.
    fn note(&mut self, rate: f64, purpose: Purpose, word: Word) {
        let is_long = purpose == Purpose::Confirmation;
        let contradicts = |tried: &&Tried| match (&word, &tried.word) {
            (Word::Passed, Word::Failed) => tried.rate <= rate,
            (Word::Failed, Word::Passed) => tried.rate > rate || (tried.rate == rate && !is_long),
            _ => false,
        };
        let against: Vec<_> = self.tried.iter().filter(contradicts).map(|tried| tried.rate).collect();
        let against = against.into_iter().map(|other| match word {
            Word::Passed => Contradiction { passed: rate, failed: other },
            _ => Contradiction { passed: other, failed: rate },
        });
        for contradiction in against {
            if !self.contradictions.contains(&contradiction) {
                self.contradictions.push(contradiction);
            }
        }
        self.tried.retain(|tried| tried.rate != rate);
        let place = self.tried.partition_point(|tried| tried.rate < rate);
        self.tried.insert(place, Tried { rate, word, is_long });
    }

    /// A rate that passed, now or in the repeat before.
    fn known_good(&self) -> Option<f64> {
        let above =
            self.tried.iter().position(|tried| tried.word != Word::Passed).unwrap_or(self.tried.len());
        let passed = self.tried[..above].last().map(|tried| tried.rate);
        passed.or_else(|| self.found.last().map(|found| found.passed))
    }

    /// After a probe.
    fn probed(&mut self, passed: bool) {
        let Recovering::Probe { after, span_s, spent_s } = self.recovering else { return };
        let span_s = 2.0 * span_s.max(0.5);
        self.recovering = if passed {
            Recovering::No
        } else if spent_s + span_s > self.sequential.recovery.most_s {
            self.verdict = Some(Verdict::NotRecovered { after, waited_s: spent_s });
            Recovering::No
        } else {
            Recovering::Rest { after, span_s, spent_s: spent_s + span_s }
        };
    }
}

impl Procedure for Bracket {
    fn wanted(&self) -> Wanted {
        if let Some(verdict) = &self.verdict {
            return Wanted::Finished(verdict.clone());
        }
        match (self.recovering, self.known_good()) {
            (Recovering::Rest { after, span_s, .. }, _) => return Wanted::Drain(Drain { span_s, after }),
            (Recovering::Probe { .. }, Some(good)) => {
                let rate = tidy(self.sequential.recovery.share * good).max(0.001);
                return Wanted::Step { rate, purpose: Purpose::Recovery };
            }
            _ => {}
        }
        match self.aim() {
            Aim::Step(rate, purpose) => Wanted::Step { rate, purpose },
            Aim::End(verdict) => Wanted::Finished(verdict),
            Aim::Found(found) => {
                let capacity = Capacity::of(vec![found], Vec::new(), self.sequential.confidence);
                Wanted::Finished(Verdict::Capacity(capacity))
            }
        }
    }

    fn decided(&mut self, passed: bool) {
        let Wanted::Step { rate, purpose } = self.wanted() else { return };
        self.steps += 1;
        if purpose.is_probe() {
            self.probed(passed);
            return;
        }
        match (purpose, passed) {
            (Purpose::Recheck, false) => self.rechecked = Some(rate),
            (Purpose::Confirmation, true) => {
                self.confirmed = Some(rate);
                self.unheld = self.unheld.map(|_| 0);
            }
            // What fails in a long step needs no second look.
            (Purpose::Confirmation, false) => {
                self.rechecked = Some(rate);
                self.unheld = Some(self.unheld.unwrap_or(0) + 1);
            }
            _ => {}
        }
        self.note(rate, purpose, if passed { Word::Passed } else { Word::Failed });
        if !passed {
            let span_s = self.settings.rest_s;
            self.recovering = Recovering::Rest { after: rate, span_s, spent_s: span_s };
        }
        self.settle();
    }

    fn limited(&mut self, reason: &Reason) {
        let Wanted::Step { rate, purpose } = self.wanted() else { return };
        self.steps += 1;
        if purpose.is_probe() {
            self.verdict = Some(tester_limit(rate, self.ends().0, reason));
            return;
        }
        self.note(rate, purpose, Word::Limited(reason.clone()));
        let span_s = self.settings.rest_s;
        self.recovering = Recovering::Rest { after: rate, span_s, spent_s: span_s };
        self.settle();
    }

    fn drained(&mut self) {
        let Recovering::Rest { after, span_s, spent_s } = self.recovering else { return };
        // What never passed cannot be asked whether it is as before.
        self.recovering = match self.known_good() {
            Some(_) => Recovering::Probe { after, span_s, spent_s },
            None => Recovering::No,
        };
    }

    fn repeat(&self) -> u32 {
        self.repeat
    }
}

fn tester_limit(rate: f64, carried: Option<f64>, reason: &Reason) -> Verdict {
    Verdict::TesterLimit { rate, carried, why: reason.clone() }
}

/// Rates for people: whole above 100 per second, with few digits below.
fn tidy(rate: f64) -> f64 {
    let unit = match rate {
        _ if rate >= 100.0 => 1.0,
        _ if rate >= 10.0 => 10.0,
        _ => 1000.0,
    };
    (rate * unit).round() / unit
}
