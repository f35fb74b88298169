//! The settings of a search.

use netrig_core::setting::{AboveZero, Seconds, Share};
use netrig_core::{choices, settings};
use netrig_sip::index::DelayStatistic;
use netrig_sip::load::PerSecond;
use netrig_stats::sequential::ProportionTest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

settings! {
    /// The settings of a search. A journal contains them, and can be resumed only with the same settings.
    ///
    /// Rates are per second, times in seconds, shares 0 to 1.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct SearchSettings {
        /// The name of what is counted: `calls`, `registrations`, `redirects`.
        unit: String;
        /// The mode of the search.
        mode: Mode;
        /// The first rate.
        start: f64 as PerSecond { heading: SEARCH };
        /// The lowest rate. If it fails, the verdict is "less than".
        lowest: f64 as PerSecond { heading: SEARCH };
        /// The highest rate. If it passes, the verdict is "more than".
        highest: f64 as PerSecond { heading: SEARCH };
        /// Thresholds of delays. The mode of RFC 7502 has none, and the design objective counts late calls instead.
        thresholds: Vec<Threshold>;
        /// An open call is overdue if it lasts longer than its own duration plus this time. A call that meets its thresholds has
        /// ended by then.
        patience_s: f64;
        /// How long to wait for a step's open calls after its last call started, beyond the duration of a call. A lost call is
        /// detected after 64 T1, which is 32 s.
        linger_s: f64;
        /// The pause after a failed step, when its calls have ended.
        rest_s: f64;
        /// The largest number of steps, including recovery checks, before the search gives up.
        most_steps: u32;
    }
}

/// Headings of help texts.
const SEARCH: &str = "Search";
const OF_SEQUENTIAL: &str = "Search, sequential";
const OF_RFC7502: &str = "Search, RFC 7502";
const OF_OBJECTIVE: &str = "Search, design objective";

choices! {
    /// How the capacity is searched for.
    #[derive(Default)]
    pub enum SearchMode {
        /// An exponential ramp, then a curve fitted to all steps. A sequential test decides each step.
        [default]
        Sequential = "sequential",
        /// The algorithm of RFC 7502, section 4.10.
        Rfc7502 = "rfc7502",
        /// The design objective capacity of ETSI TS 186 008.
        DesignObjective = "design-objective",
    }
}

settings! {
    /// The choice of the mode of a search.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct SearchChoice {
        /// The mode of the search.
        mode: SearchMode { heading: SEARCH };
    }
}

/// The mode of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Mode {
    /// An exponential ramp, then a curve fitted to all steps. A sequential test decides each step.
    Sequential(Sequential),
    /// The algorithm of RFC 7502, section 4.10.
    Rfc7502(Rfc7502),
    /// The design objective capacity of ETSI TS 186 008.
    DesignObjective(DesignObjective),
}

settings! {
    /// Settings of the search by ramp and fitted curve.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct Sequential {
        /// The ratio of a rate of the ramp to the previous one; above 1.
        factor: f64;
        /// The search ends when the upper end of the capacity's interval exceeds the lower end by no more than this share.
        precision: f64 as Share { heading: OF_SEQUENTIAL };
        /// The test of the share of failed calls.
        test: FailureShareTest;
        /// The shortest time before a decision, unless a failure is already certain. A server that flushes every 60 s needs 180 s.
        least_s: f64 as Seconds { flag: "least", heading: OF_SEQUENTIAL };
        /// The longest duration of a step, except for confirmations.
        most_s: f64 as Seconds { flag: "most", heading: OF_SEQUENTIAL };
        /// The duration of a confirmation, in which the found rate must hold.
        confirm_s: f64 as Seconds { flag: "confirm", heading: OF_SEQUENTIAL };
        /// A step fails if a larger share of all calls is overdue at the same time. Above 0.05, E.721's 95 % of the users can no
        /// longer be served in time.
        overdue: f64;
        /// A step fails if the growth of open calls in its second half is a larger share of the calls started in that half. The
        /// server then does not keep up, however large its buffers are.
        growth: f64;
        /// A step fails if the number of retransmitted requests is a larger share of the started calls. If datagrams are lost, the
        /// server does some work twice, and soon all of it.
        again: f64 as Share { heading: OF_SEQUENTIAL };
        /// The time limit, from the start of the first step. A step that would end later is not started.
        within_s: f64 as Seconds { flag: "within", heading: OF_SEQUENTIAL };
        /// The confidence of the capacity's interval.
        confidence: f64;
        /// The recovery check after a failed step.
        recovery: RecoverySettings;
    }
}

/// A sequential test of the share of calls that fail.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FailureShareTest {
    /// A server with at most this share of failures is good.
    pub good: f64,
    /// A server with at least this share of failures is bad; 0.001 if 99.9 % must succeed.
    pub bad: f64,
    /// The risk that a step of a good server fails.
    pub alpha: f64,
    /// The risk that a step of a bad server passes.
    pub beta: f64,
}

/// Settings of the recovery check: a few calls after a failed step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecoverySettings {
    /// The rate of the check, as a share of the highest rate that passed.
    pub share: f64,
    /// The number of calls, none of which may fail.
    pub calls: u64,
    /// If a call fails, the next pause is twice as long. This is the limit of the sum of the pauses.
    pub most_s: f64,
}

settings! {
    /// Parameters of the algorithm of RFC 7502, by its names.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct Rfc7502 {
        /// `N`: sessions in each step.
        sessions: u64 { heading: OF_RFC7502 };
        /// `w`: the share by which the rate rises; above 0, at most 1.
        increase: f64 as Share { heading: OF_RFC7502 };
    }
}

settings! {
    /// Settings of the search for the design objective capacity.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct DesignObjective {
        /// The increase of the rate from step to step.
        increment: f64 as AboveZero<PerSecond> { heading: OF_OBJECTIVE };
        /// The duration of each step.
        step_s: f64 as AboveZero<Seconds> { flag: "step", heading: OF_OBJECTIVE };
        /// A step passes if the share of inadequately handled scenarios is below this.
        objective: f64;
    }
}

/// An upper limit of a delay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Threshold {
    /// The name of the delay.
    pub delay: String,
    /// The statistic that is limited.
    pub statistic: DelayStatistic,
    /// The limit, s.
    pub most_s: f64,
}

/// A setting that is outside its range.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}", self.sentence(str::to_owned))]
pub struct SearchSettingsError {
    /// The path of the setting in [`SearchSettings`], as in a journal: `within_s`, `recovery.most_s`.
    pub setting: &'static str,
    /// The given value.
    pub value: f64,
    /// The allowed values.
    pub expected: SettingRange,
}

/// The allowed values of a setting.
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
    /// High enough that the traffic increase weight raises the rate, rounded down, by at least 1 per second (RFC 7502 section 4.10).
    Raised {
        /// The weight.
        increase: f64,
    },
}

impl SearchSettingsError {
    /// The error as a sentence. `name` maps the path of a setting to its name for the user: a flag, or the path itself.
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
                format!("high enough that {}, raises it by at least 1/s", of("increase", increase))
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
    /// Settings of a search by ramp and fitted curve from the rate `start`, with `thresholds` for delays.
    pub fn sequential(unit: &str, start: f64, thresholds: Vec<Threshold>) -> Self {
        Self { thresholds, ..Self::by(unit, start, Mode::Sequential(Sequential::default())) }
    }

    /// Settings of the algorithm of RFC 7502 from the rate `start`.
    pub fn rfc7502(unit: &str, start: f64) -> Self {
        Self::by(unit, start, Mode::Rfc7502(Rfc7502::default()))
    }

    /// Settings of the search for the design objective capacity from the rate `start`, in steps of `increment`.
    pub fn design_objective(unit: &str, start: f64, increment: f64) -> Self {
        let objective = DesignObjective { increment, ..DesignObjective::default() };
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

    /// Checks the ranges of all settings.
    ///
    /// # Errors
    /// The first setting that is outside its range.
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

impl Default for SearchSettings {
    /// A search for a capacity of calls, from 100 calls per second.
    fn default() -> Self {
        Self::sequential("calls", 100.0, Vec::new())
    }
}

impl Default for Sequential {
    /// 99.9 % must succeed, at risks of 1 % (a good server fails) and 5 % (a bad one passes). The interval is within 25 %, and the
    /// search takes less than three minutes.
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

    /// The test; `None` if [`SearchSettings::check`] refuses the settings.
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
        // The rate is rounded down after every increase, as the RFC warns.
        let rises = (start + w * start).floor() > start;
        within("start", start, rises, SettingRange::Raised { increase: w })
    }
}

impl Default for DesignObjective {
    /// From step to step 10/s more, for 30 min each, as in ETSI TS 186 008-2.
    fn default() -> Self {
        Self { increment: 10.0, step_s: 1800.0, objective: 0.001 }
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
