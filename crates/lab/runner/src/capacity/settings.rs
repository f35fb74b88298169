//! What a search is told.

use netrig_stats::sequential::ProportionTest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The settings of a search. A journal carries them, and is continued with the same only.
///
/// Rates are per second, spans in seconds, shares 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchSettings {
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

/// SearchSettings of the search by ramp and fitted curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sequential {
    /// Each step of the ramp is so many times as fast as the one before; above 1.
    pub factor: f64,
    /// The search ends when the upper end of the capacity's interval is above the lower by no more than this share.
    pub precision: f64,
    /// What decides whether enough calls succeed.
    pub test: FailureShareTest,
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
    pub recovery: RecoverySettings,
}

/// A sequential test of the share of calls that fail.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FailureShareTest {
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
pub struct RecoverySettings {
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

/// SearchSettings of the search for the design objective capacity.
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
    pub statistic: DelayStatistic,
    /// The most that it may be.
    pub most_s: f64,
}

/// What of a delay is held against its threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DelayStatistic {
    /// The mean.
    Mean,
    /// The 95th percentile: ITU-T E.721 binds 95 % of the users.
    P95,
    /// The longest: each delay.
    Max,
}

/// A setting that is outside its range.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}", self.sentence(str::to_owned))]
pub struct SearchSettingsError {
    /// The setting, by its place in [`SearchSettings`] as a journal has it: `within_s`, `recovery.most_s`.
    pub setting: &'static str,
    /// The value that was given.
    pub value: f64,
    /// The values it may have.
    pub expected: SettingRange,
}

/// The values that a setting may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SettingRange {
    /// Above 0, and finite.
    Positive,
    /// 0 or above, and finite.
    NotNegative,
    /// Finite.
    Finite,
    /// Above a number, and finite.
    Above(f64),
    /// At least a number.
    AtLeast(f64),
    /// Above 0 and below 1.
    Share,
    /// Above 0 and at most 1.
    ShareOrAll,
    /// Above 0 and below another setting, with its value.
    Below(&'static str, f64),
    /// At least another setting, with its value, and finite.
    NotBelow(&'static str, f64),
    /// From one setting to another, with their values.
    Between([(&'static str, f64); 2]),
    /// A whole number of sessions per second (RFC 7502 section 4.10).
    Whole,
    /// So high that the traffic increase weight raises the rate, rounded down, by at least 1 per second (RFC 7502 section 4.10).
    Raised {
        /// The weight.
        increase: f64,
    },
}

impl SearchSettingsError {
    /// The error as a sentence, in which `name` gives the name of each setting: a flag, or its name in a journal.
    pub fn sentence(&self, name: impl Fn(&str) -> String) -> String {
        let of =
            |setting: &str, value: f64| format!("{}, which is {}", name(setting), with_unit(setting, value));
        let expected = match self.expected {
            SettingRange::Positive => "above 0 and finite".to_owned(),
            SettingRange::NotNegative => "at least 0 and finite".to_owned(),
            SettingRange::Finite => "finite".to_owned(),
            SettingRange::Above(bound) => format!("above {bound} and finite"),
            SettingRange::AtLeast(bound) => format!("at least {bound}"),
            SettingRange::Share => "above 0 and below 1".to_owned(),
            SettingRange::ShareOrAll => "above 0 and at most 1".to_owned(),
            SettingRange::Below(setting, value) => format!("above 0 and below {}", of(setting, value)),
            SettingRange::NotBelow(setting, value) => format!("finite and at least {}", of(setting, value)),
            SettingRange::Between([(low, least), (high, most)]) => {
                format!("between {}, and {}", of(low, least), of(high, most))
            }
            SettingRange::Whole => "a whole number of sessions per second".to_owned(),
            SettingRange::Raised { increase } => {
                format!("so high that {}, raises it by at least 1/s", of("increase", increase))
            }
        };
        format!("{} is {}; expected: {expected}", name(self.setting), with_unit(self.setting, self.value))
    }
}

/// A value with the unit of its setting.
fn with_unit(setting: &str, value: f64) -> String {
    match setting {
        "start" | "lowest" | "highest" | "increment" => format!("{value}/s"),
        span if span.ends_with("_s") => format!("{value} s"),
        _ => value.to_string(),
    }
}

impl SearchSettings {
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
    pub fn check(&self) -> Result<(), SearchSettingsError> {
        positive("lowest", self.lowest)?;
        within("highest", self.highest, self.highest.is_finite(), SettingRange::Finite)?;
        let order = SettingRange::Between([("lowest", self.lowest), ("highest", self.highest)]);
        within("start", self.start, (self.lowest..=self.highest).contains(&self.start), order)?;
        spans(&[("patience_s", self.patience_s), ("linger_s", self.linger_s), ("rest_s", self.rest_s)])?;
        within("most_steps", f64::from(self.most_steps), self.most_steps > 0, SettingRange::AtLeast(1.0))?;
        self.thresholds.iter().try_for_each(|threshold| positive("thresholds.most_s", threshold.most_s))?;
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
            test: FailureShareTest { good: 0.0001, bad: 0.001, alpha: 0.01, beta: 0.05 },
            least_s: 5.0,
            most_s: 10.0,
            confirm_s: 20.0,
            overdue: 0.05,
            growth: 0.01,
            again: 0.001,
            within_s: 165.0,
            confidence: 0.95,
            recovery: RecoverySettings { share: 0.2, calls: 20, most_s: 300.0 },
        }
    }
}

impl Sequential {
    fn check(&self) -> Result<(), SearchSettingsError> {
        within(
            "factor",
            self.factor,
            self.factor > 1.0 && self.factor.is_finite(),
            SettingRange::Above(1.0),
        )?;
        shares(&[("again", self.again)])?;
        shares(&[("precision", self.precision), ("overdue", self.overdue), ("growth", self.growth)])?;
        shares(&[("confidence", self.confidence), ("recovery.share", self.recovery.share)])?;
        spans(&[("least_s", self.least_s), ("confirm_s", self.confirm_s)])?;
        spans(&[("recovery.most_s", self.recovery.most_s)])?;
        for (setting, span) in [("most_s", self.most_s), ("within_s", self.within_s)] {
            let range = SettingRange::NotBelow("least_s", self.least_s);
            within(setting, span, span >= self.least_s && span.is_finite(), range)?;
        }
        let calls = self.recovery.calls;
        within("recovery.calls", calls as f64, calls > 0, SettingRange::AtLeast(1.0))?;
        self.test.check()
    }
}

impl FailureShareTest {
    fn check(self) -> Result<(), SearchSettingsError> {
        shares(&[("test.alpha", self.alpha), ("test.beta", self.beta), ("test.bad", self.bad)])?;
        let is_below = self.good > 0.0 && self.good < self.bad;
        within("test.good", self.good, is_below, SettingRange::Below("test.bad", self.bad))?;
        let least = 1.0 - self.alpha;
        within("test.beta", self.beta, self.beta < least, SettingRange::Below("1 - test.alpha", least))
    }

    /// The test; `None` of what [`SearchSettings::check`] refuses.
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
    fn check(&self, start: f64) -> Result<(), SearchSettingsError> {
        let w = self.increase;
        within("increase", w, w > 0.0 && w <= 1.0, SettingRange::ShareOrAll)?;
        within("sessions", self.sessions as f64, self.sessions > 0, SettingRange::AtLeast(1.0))?;
        within("start", start, start.floor() == start, SettingRange::Whole)?;
        // The RFC warns of it: the rate is rounded down after every rise.
        let rises = (start + w * start).floor() > start;
        within("start", start, rises, SettingRange::Raised { increase: w })
    }
}

impl DesignObjective {
    fn check(&self) -> Result<(), SearchSettingsError> {
        let Self { increment, step_s, objective } = *self;
        positive("increment", increment)?;
        positive("step_s", step_s)?;
        shares(&[("objective", objective)])
    }
}

impl DelayStatistic {
    /// As it stands in a table: `mean`, `p95`, `max`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::P95 => "p95",
            Self::Max => "max",
        }
    }
}

fn within(
    setting: &'static str,
    value: f64,
    holds: bool,
    expected: SettingRange,
) -> Result<(), SearchSettingsError> {
    if holds { Ok(()) } else { Err(SearchSettingsError { setting, value, expected }) }
}

fn positive(setting: &'static str, value: f64) -> Result<(), SearchSettingsError> {
    within(setting, value, value > 0.0 && value.is_finite(), SettingRange::Positive)
}

fn spans(spans: &[(&'static str, f64)]) -> Result<(), SearchSettingsError> {
    let is_span = |span: f64| span >= 0.0 && span.is_finite();
    spans
        .iter()
        .try_for_each(|(setting, span)| within(setting, *span, is_span(*span), SettingRange::NotNegative))
}

fn shares(shares: &[(&'static str, f64)]) -> Result<(), SearchSettingsError> {
    let is_share = |share: f64| share > 0.0 && share < 1.0;
    shares
        .iter()
        .try_for_each(|(setting, share)| within(setting, *share, is_share(*share), SettingRange::Share))
}
