//! The TOML form: its tables and keys, and conversions between its values and those of a script.

use netrig_core::Duration;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::super::script::{MediaKind, ScriptCheck, ScriptComparison, ScriptDistribution};

/// The label of the step to which unexpected messages go.
pub(super) const UNEXPECTED: &str = "unexpected-message";

/// Jump target after the last step.
pub(super) const END: &str = "end-of-call";

/// Messages from any process.
pub(super) const ANY_PROCESS: &str = "anybody";

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ScenarioForm {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) name: String,
    /// Variables of the whole run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) global: Vec<String>,
    /// Variables of each user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) user: Vec<String>,
    /// Steps before the first call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) opening: Vec<Spanned<StepForm>>,
    /// Steps of a call.
    #[serde(default)]
    pub(super) step: Vec<Spanned<StepForm>>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct StepForm {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) label: Option<String>,
    // The kind of step: one of these, or only its actions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) receive: Option<ReceiveForm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pause: Option<PauseForm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) wait_for_repetitions: Option<PauseForm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) receive_command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) send_command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) send: Option<String>,
    // For sent messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) repeat_after: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) begins: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) acknowledges: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) to: Option<String>,
    // For received messages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) of: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) optional: Option<OptionalForm>,
    #[serde(skip_serializing_if = "is_false")]
    pub(super) stays: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub(super) keeps_routes: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) transaction: Option<String>,
    // For all steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timeout: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) on_timeout: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) starts: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ends: Option<String>,
    #[serde(skip_serializing_if = "is_false")]
    pub(super) ends_again: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) counter: Option<String>,
    /// Share of its messages that are deliberately lost, 0 to 1.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) lost: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) only_if: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) only_unless: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) then: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) then_if: Option<String>,
    /// The probability of `then`, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) then_chance: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) display: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) actions: Vec<ActionForm>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives references")]
pub(super) const fn is_false(value: &bool) -> bool {
    !*value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives references")]
pub(super) fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

/// A status, a method, or a pattern for them.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum ReceiveForm {
    Status(u16),
    Method(String),
    Matching { matching: String },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum OptionalForm {
    Here(bool),
    Where(OptionalPlace),
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum OptionalPlace {
    Everywhere,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum PauseForm {
    Time(Duration),
    Named(PauseName),
    Variable { variable: String },
    Drawn(DistributionForm),
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum PauseName {
    Default,
}

/// A distribution of pauses, in milliseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum DistributionForm {
    Fixed(f64),
    Uniform { least: f64, most: f64 },
    Normal { mean: f64, deviation: f64 },
    LogNormal { mean: f64, deviation: f64 },
    Exponential { mean: f64 },
    Weibull { scale: f64, shape: f64 },
    Pareto { shape: f64, least: f64 },
    GeneralizedPareto { shape: f64, scale: f64, location: f64 },
    Gamma { shape: f64, scale: f64 },
    NegativeBinomial { successes: f64, probability: f64 },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum NumberForm {
    Number(f64),
    Variable { variable: String },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum TextForm {
    Text(String),
    Variable { variable: String },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum CheckForm {
    #[default]
    Nothing,
    Holds,
    HoldsNot,
}

impl CheckForm {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives references")]
    fn is_nothing(&self) -> bool {
        *self == Self::Nothing
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum PlaceForm {
    Message,
    Body,
    Variable(String),
    #[serde(untagged)]
    Header(HeaderForm),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct HeaderForm {
    pub(super) header: String,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub(super) occurrence: usize,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) any_case: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) at_line_start: bool,
}

pub(super) const fn one() -> usize {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives references")]
pub(super) const fn is_one(value: &usize) -> bool {
    *value == 1
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
pub(super) enum ActionForm {
    Extract {
        pattern: String,
        from: PlaceForm,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        into: Vec<String>,
        #[serde(default, skip_serializing_if = "CheckForm::is_nothing")]
        check: CheckForm,
    },
    Log(String),
    Warn(String),
    Fail(String),
    Assign {
        variable: String,
        value: NumberForm,
    },
    Add {
        variable: String,
        value: NumberForm,
    },
    Subtract {
        variable: String,
        value: NumberForm,
    },
    Multiply {
        variable: String,
        value: NumberForm,
    },
    Divide {
        variable: String,
        value: NumberForm,
    },
    Text {
        variable: String,
        value: String,
    },
    TimeOfDay {
        seconds: String,
        microseconds: String,
    },
    StepNumber(String),
    Jump(NumberForm),
    RestorePause(NumberForm),
    Sample {
        variable: String,
        distribution: DistributionForm,
    },
    ToNumber {
        variable: String,
        from: String,
    },
    Test {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        into: Option<String>,
        variable: String,
        is: ComparisonForm,
        value: NumberForm,
        #[serde(default, skip_serializing_if = "CheckForm::is_nothing")]
        check: CheckForm,
    },
    CompareTexts {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        into: Option<String>,
        variable: String,
        value: TextForm,
        #[serde(default, skip_serializing_if = "CheckForm::is_nothing")]
        check: CheckForm,
    },
    Trim(String),
    DecodeUrl(String),
    EncodeUrl(String),
    VerifyCredentials {
        into: String,
        username: String,
        password: String,
    },
    Lookup {
        into: String,
        file: String,
        key: String,
    },
    Insert {
        file: String,
        line: String,
    },
    Replace {
        file: String,
        place: String,
        line: String,
    },
    Destination {
        host: String,
        port: String,
        protocol: String,
    },
    CloseConnection(bool),
    Command(String),
    StopCall(bool),
    StopGracefully(bool),
    StopNow(bool),
    PlayCapture {
        media: MediaKindForm,
        file: String,
    },
    PlayStream(String),
    PlayDigits(String),
    ControlStream(String),
    Echo(NumberForm),
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum MediaKindForm {
    Audio,
    Video,
    Image,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum ComparisonForm {
    #[serde(rename = "=")]
    Equal,
    #[serde(rename = "!=")]
    NotEqual,
    #[serde(rename = ">")]
    Greater,
    #[serde(rename = "<")]
    Less,
    #[serde(rename = ">=")]
    GreaterOrEqual,
    #[serde(rename = "<=")]
    LessOrEqual,
}

/// Conversions in both directions between enums with equal values.
macro_rules! same {
    ($form:ident, $script:ident: $($name:ident)+) => {
        impl From<$form> for $script {
            fn from(form: $form) -> Self {
                match form { $($form::$name => Self::$name,)+ }
            }
        }

        impl From<$script> for $form {
            fn from(script: $script) -> Self {
                match script { $($script::$name => Self::$name,)+ }
            }
        }
    };
}

same!(ComparisonForm, ScriptComparison: Equal NotEqual Greater Less GreaterOrEqual LessOrEqual);
same!(MediaKindForm, MediaKind: Audio Video Image);

impl From<CheckForm> for ScriptCheck {
    fn from(form: CheckForm) -> Self {
        match form {
            CheckForm::Nothing => Self::None,
            CheckForm::Holds => Self::Holds,
            CheckForm::HoldsNot => Self::HoldsNot,
        }
    }
}

impl From<ScriptCheck> for CheckForm {
    fn from(check: ScriptCheck) -> Self {
        match check {
            ScriptCheck::None => Self::Nothing,
            ScriptCheck::Holds => Self::Holds,
            ScriptCheck::HoldsNot => Self::HoldsNot,
        }
    }
}

impl From<DistributionForm> for ScriptDistribution {
    fn from(form: DistributionForm) -> Self {
        use DistributionForm as F;
        match form {
            F::Fixed(value) => Self::Fixed(value),
            F::Uniform { least, most } => Self::Uniform(least, most),
            F::Normal { mean, deviation } => Self::Normal(mean, deviation),
            F::LogNormal { mean, deviation } => Self::LogNormal(mean, deviation),
            F::Exponential { mean } => Self::Exponential(mean),
            F::Weibull { scale, shape } => Self::Weibull(scale, shape),
            F::Pareto { shape, least } => Self::Pareto(shape, least),
            F::GeneralizedPareto { shape, scale, location } => {
                Self::GeneralizedPareto(shape, scale, location)
            }
            F::Gamma { shape, scale } => Self::Gamma(shape, scale),
            F::NegativeBinomial { successes, probability } => Self::NegativeBinomial(successes, probability),
        }
    }
}

impl From<ScriptDistribution> for DistributionForm {
    fn from(distribution: ScriptDistribution) -> Self {
        use ScriptDistribution as D;
        match distribution {
            D::Fixed(value) => Self::Fixed(value),
            D::Uniform(least, most) => Self::Uniform { least, most },
            D::Normal(mean, deviation) => Self::Normal { mean, deviation },
            D::LogNormal(mean, deviation) => Self::LogNormal { mean, deviation },
            D::Exponential(mean) => Self::Exponential { mean },
            D::Weibull(scale, shape) => Self::Weibull { scale, shape },
            D::Pareto(shape, least) => Self::Pareto { shape, least },
            D::GeneralizedPareto(shape, scale, location) => {
                Self::GeneralizedPareto { shape, scale, location }
            }
            D::Gamma(shape, scale) => Self::Gamma { shape, scale },
            D::NegativeBinomial(successes, probability) => Self::NegativeBinomial { successes, probability },
        }
    }
}
