//! The TOML form: its tables and keys.

use netrig_core::Duration;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::super::action::{ScriptAction, ScriptDistribution, is_default};

/// The label of the step at which a call continues after an unexpected message.
pub(super) const UNEXPECTED: &str = "unexpected-message";

/// The jump target that ends the call.
pub(super) const END: &str = "end-of-call";

/// The name that stands for any process.
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
    pub(super) label: Option<String>,
    // The kind of the step is given by one of these keys. A step without any of them only runs its actions.
    pub(super) receive: Option<ReceiveForm>,
    pub(super) pause: Option<PauseForm>,
    pub(super) wait_for_repetitions: Option<PauseForm>,
    pub(super) receive_command: Option<String>,
    pub(super) send_command: Option<String>,
    pub(super) send: Option<String>,
    // Keys of steps that send a message.
    pub(super) repeat_after: Option<Duration>,
    pub(super) begins: Option<String>,
    pub(super) acknowledges: Option<String>,
    pub(super) to: Option<String>,
    // Keys of steps that receive a message.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) of: Vec<String>,
    pub(super) optional: Option<OptionalForm>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) stays: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) keeps_routes: bool,
    pub(super) transaction: Option<String>,
    // Keys of all steps.
    pub(super) timeout: Option<Duration>,
    pub(super) on_timeout: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) starts: Vec<String>,
    pub(super) ends: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) ends_again: bool,
    pub(super) counter: Option<String>,
    /// Share of the step's messages that are deliberately lost, 0 to 1.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) lost: f64,
    pub(super) only_if: Option<String>,
    pub(super) only_unless: Option<String>,
    pub(super) then: Option<String>,
    pub(super) then_if: Option<String>,
    /// The probability of `then`, 0 to 1.
    pub(super) then_chance: Option<f64>,
    pub(super) display: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) actions: Vec<ActionForm>,
}

/// An action whose variables are names and whose texts are unparsed.
pub(super) type ActionForm = ScriptAction<String, String>;

/// The expected status or method, or a pattern for either.
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
    Variable {
        variable: String,
    },
    /// A random time, ms.
    Drawn(ScriptDistribution),
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum PauseName {
    Default,
}
