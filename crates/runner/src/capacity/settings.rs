//! What a search is told.

use netrig_stats::sequential::ProportionTest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The settings of a search. A journal carries them, and is continued with the same only.
///
/// Rates are per second, spans in seconds, shares 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// What is counted: `calls`, `registrations`, `redirects`.
    pub unit: String,
    /// How the rate is looked for.
    pub mode: Mode,
    /// The first rate.
    pub start: f64,
    /// A capacity below it is "less than" it.
    pub lowest: f64,
    /// No higher rate is ever asked for; a capacity that is not below it is "more than" it.
    pub highest: f64,
    /// What bounds delays. In the mode of RFC 7502 nothing does, and the design objective counts calls.
    pub thresholds: Vec<Threshold>,
    /// An open call is overdue when it lasts longer than it needs by itself and this: by then one that keeps its
    /// thresholds is over.
    pub patience_s: f64,
    /// How long a step's open calls are waited for after its last one began, beyond what one lasts by itself. A lost
    /// call is known after 64 T1, which is 32 s.
    pub linger_s: f64,
    /// How long nothing is offered after a step that failed, when its calls have ended.
    pub rest_s: f64,
    /// Steps, those that ask whether the server has recovered included, after which the search gives up.
    pub most_steps: u32,
}

/// How the rate is looked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Mode {
    /// An exponential ramp, then a curve fitted to all steps, each decided by a sequential test.
    Sequential(Sequential),
    /// The algorithm of RFC 7502, section 4.10.
    Rfc7502(Rfc7502),
    /// The design objective capacity of ETSI TS 186 008.
    DesignObjective(DesignObjective),
}

/// Settings of the search by ramp and fitted curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sequential {
    /// Each step of the ramp is so many times as fast as the one before; above 1.
    pub factor: f64,
    /// The search ends when the upper end of the capacity's interval is above the lower by no more than this share.
    pub precision: f64,
    /// What decides whether enough calls succeed.
    pub test: Evidence,
    /// No step is decided sooner, unless nothing that may come could mend it. A server that flushes every 60 s needs
    /// 180 s.
    pub least_s: f64,
    /// No step but a confirmation lasts longer, evidence or not.
    pub most_s: f64,
    /// How long the rate that was found must hold.
    pub confirm_s: f64,
    /// A step fails in which a larger share of all calls is overdue at once: of 0.05, E.721's 95 % of the users
    /// cannot be served in time any more.
    pub overdue: f64,
    /// A step fails in whose second half open calls grow by a larger share of those begun: the server does not keep up,
    /// however large its buffers.
    pub growth: f64,
    /// A step fails in which more requests had to be sent again than this share of the calls begun: where datagrams are lost a
    /// server does the same work twice, and a little later all of it.
    pub again: f64,
    /// No step begins if it would not end by then, counted from the first, s.
    pub within_s: f64,
    /// The confidence of its interval.
    pub confidence: f64,
    /// When a server is held for itself again after a step that failed.
    pub recovery: Recovery,
}

/// A sequential test of the share of calls that fail.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// A server that fails so much or less is good.
    pub good: f64,
    /// One that fails so much or more is bad; 0.001 where 99.9 % must succeed.
    pub bad: f64,
    /// The risk that a step of the good fails.
    pub alpha: f64,
    /// The risk that a step of the bad passes.
    pub beta: f64,
}

/// When a server is held for itself again.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recovery {
    /// It is asked at this share of the highest rate that passed.
    pub share: f64,
    /// So many calls, of which none may fail.
    pub calls: u64,
    /// If one does it is left alone twice as long as before, up to so long in all.
    pub most_s: f64,
}

/// Parameters of the algorithm of RFC 7502, by its names.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rfc7502 {
    /// `N`: sessions of each step.
    pub sessions: u64,
    /// `w`: by which share the rate rises; above 0, at most 1.
    pub increase: f64,
}

/// Settings of the search for the design objective capacity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DesignObjective {
    /// By how much the rate rises from step to step.
    pub increment: f64,
    /// How long each step lasts.
    pub step_s: f64,
    /// The share of scenarios handled inadequately must be below it.
    pub objective: f64,
}

/// What bounds a delay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Threshold {
    /// Which delay.
    pub delay: String,
    /// What of it is bound.
    pub statistic: Statistic,
    /// The most that it may be.
    pub most_s: f64,
}

/// What of a delay is held against its threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Statistic {
    /// The mean.
    Mean,
    /// The 95th percentile: ITU-T E.721 binds 95 % of the users.
    P95,
    /// The longest: each delay.
    Max,
}

/// Why settings make no search.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{what} must be {range}, not {value}")]
pub struct SettingsError {
    /// The setting.
    pub what: &'static str,
    /// The values it may take, in words.
    pub range: &'static str,
    /// The value that was given.
    pub value: f64,
}

impl Settings {
    /// A search by ramp and fitted curve from `start` for a server that is to answer `unit` within `thresholds`.
    pub fn sequential(unit: &str, start: f64, thresholds: Vec<Threshold>) -> Self {
        Self { thresholds, ..Self::by(unit, start, Mode::Sequential(Sequential::default())) }
    }

    /// The algorithm of RFC 7502 from the rate `start`.
    pub fn rfc7502(unit: &str, start: f64) -> Self {
        Self::by(unit, start, Mode::Rfc7502(Rfc7502::default()))
    }

    /// The search for the design objective capacity from the rate `start`, in steps of `increment`.
    pub fn design_objective(unit: &str, start: f64, increment: f64) -> Self {
        let objective = DesignObjective { increment, step_s: 1800.0, objective: 0.001 };
        Self::by(unit, start, Mode::DesignObjective(objective))
    }

    fn by(unit: &str, start: f64, mode: Mode) -> Self {
        Self {
            unit: unit.to_owned(),
            mode,
            start,
            lowest: 1.0,
            highest: 1_000_000.0,
            thresholds: Vec::new(),
            patience_s: 2.5,
            linger_s: 33.0,
            rest_s: 1.0,
            most_steps: 100,
        }
    }

    /// Whether they make a search.
    ///
    /// # Errors
    /// The first setting that lies outside its range.
    pub fn check(&self) -> Result<(), SettingsError> {
        let positive = "positive and finite";
        within("lowest", self.lowest, self.lowest > 0.0 && self.lowest.is_finite(), positive)?;
        let order = "from the lowest to the highest rate";
        within("start", self.start, (self.lowest..=self.highest).contains(&self.start), order)?;
        within("highest", self.highest, self.highest.is_finite(), "finite")?;
        spans(&[("patience", self.patience_s), ("linger", self.linger_s), ("rest", self.rest_s)])?;
        within("most steps", f64::from(self.most_steps), self.most_steps > 0, "at least 1")?;
        for threshold in &self.thresholds {
            within("a threshold", threshold.most_s, threshold.most_s > 0.0, positive)?;
        }
        match &self.mode {
            Mode::Sequential(sequential) => sequential.check(),
            Mode::Rfc7502(rfc) => rfc.check(self.start),
            Mode::DesignObjective(objective) => objective.check(),
        }
    }
}

impl Default for Sequential {
    /// 99.9 % at risks of 1 % (a good server fails) and 5 % (a bad one passes), to within 25 % in less than three minutes.
    fn default() -> Self {
        Self {
            factor: 2.0,
            precision: 0.25,
            test: Evidence { good: 0.0001, bad: 0.001, alpha: 0.01, beta: 0.05 },
            least_s: 5.0,
            most_s: 10.0,
            confirm_s: 20.0,
            overdue: 0.05,
            growth: 0.01,
            again: 0.001,
            within_s: 165.0,
            confidence: 0.95,
            recovery: Recovery { share: 0.2, calls: 20, most_s: 300.0 },
        }
    }
}

impl Sequential {
    fn check(&self) -> Result<(), SettingsError> {
        within("factor", self.factor, self.factor > 1.0 && self.factor.is_finite(), "above 1 and finite")?;
        shares(&[("requests sent again", self.again)])?;
        shares(&[("precision", self.precision), ("overdue", self.overdue), ("growth", self.growth)])?;
        shares(&[("confidence", self.confidence), ("the share of recovery", self.recovery.share)])?;
        spans(&[("least span", self.least_s), ("confirmation", self.confirm_s)])?;
        spans(&[("most of recovery", self.recovery.most_s)])?;
        let longer = "at least the least span, and finite";
        within("most span", self.most_s, self.most_s >= self.least_s && self.most_s.is_finite(), longer)?;
        spans(&[("the time for all steps", self.within_s)])?;
        let fits = self.within_s >= self.least_s;
        within("the time for all steps", self.within_s, fits, "at least the least span")?;
        within("calls of recovery", self.recovery.calls as f64, self.recovery.calls > 0, "at least 1")?;
        self.test.check()
    }
}

impl Evidence {
    fn check(self) -> Result<(), SettingsError> {
        shares(&[("alpha", self.alpha), ("beta", self.beta), ("bad", self.bad)])?;
        within("good", self.good, self.good > 0.0 && self.good < self.bad, "above 0 and below bad")?;
        let risks = self.alpha + self.beta;
        within("alpha + beta", risks, risks < 1.0, "below 1")
    }

    /// The test; `None` of what [`Settings::check`] refuses.
    pub(super) fn test(self) -> Option<ProportionTest> {
        ProportionTest::new(self.good, self.bad, self.alpha, self.beta).ok()
    }
}

impl Default for Rfc7502 {
    /// The RFC's: `N = 50000`, `w = 0.10`.
    fn default() -> Self {
        Self { sessions: 50_000, increase: 0.10 }
    }
}

impl Rfc7502 {
    fn check(&self, start: f64) -> Result<(), SettingsError> {
        let w = self.increase;
        within("the traffic increase weight", w, w > 0.0 && w <= 1.0, "above 0 and at most 1")?;
        within("sessions", self.sessions as f64, self.sessions > 0, "at least 1")?;
        within("start", start, start.floor() == start, "a whole number of sessions per second")?;
        // The RFC warns of it: the rate is rounded down after every rise.
        let rises = (start + w * start).floor() > start;
        within("start", start, rises, "so high that the weight raises it by at least 1 per second")
    }
}

impl DesignObjective {
    fn check(&self) -> Result<(), SettingsError> {
        let Self { increment, step_s, objective } = *self;
        within("increment", increment, increment > 0.0 && increment.is_finite(), "positive and finite")?;
        within("step", step_s, step_s > 0.0 && step_s.is_finite(), "positive and finite")?;
        shares(&[("objective", objective)])
    }
}

impl Statistic {
    /// As it stands in a table: `mean`, `p95`, `max`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::P95 => "p95",
            Self::Max => "max",
        }
    }
}

fn within(what: &'static str, value: f64, holds: bool, range: &'static str) -> Result<(), SettingsError> {
    if holds { Ok(()) } else { Err(SettingsError { what, range, value }) }
}

fn spans(spans: &[(&'static str, f64)]) -> Result<(), SettingsError> {
    let range = "finite, and not negative";
    spans.iter().try_for_each(|(what, span)| within(what, *span, *span >= 0.0 && span.is_finite(), range))
}

fn shares(shares: &[(&'static str, f64)]) -> Result<(), SettingsError> {
    let range = "above 0 and below 1";
    shares.iter().try_for_each(|(what, share)| within(what, *share, *share > 0.0 && *share < 1.0, range))
}
