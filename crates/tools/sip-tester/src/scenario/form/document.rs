//! The TOML form: its tables and keys.

use netrig_core::Duration;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::super::action::{ScriptAction, ScriptDistribution, is_default};

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
    #[serde(skip_serializing_if = "is_default")]
    pub(super) stays: bool,
    #[serde(skip_serializing_if = "is_default")]
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
    #[serde(skip_serializing_if = "is_default")]
    pub(super) ends_again: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) counter: Option<String>,
    /// Share of its messages that are deliberately lost, 0 to 1.
    #[serde(skip_serializing_if = "is_default")]
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

/// An action with the names of its variables, and its texts as written.
pub(super) type ActionForm = ScriptAction<String, String>;

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
    Variable {
        variable: String,
    },
    /// In milliseconds.
    Drawn(ScriptDistribution),
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum PauseName {
    Default,
}
