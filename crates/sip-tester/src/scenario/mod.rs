//! Scenarios: what a call does, message by message.
//!
//! [`CallScript`] is a scenario as it is carried out. [`read_sipp_scenario`] reads those of SIPp.

mod call;
mod injection;
mod received;
mod render;
mod run;
mod script;
mod sipp;
mod template;
mod values;
mod variables;
mod xml;

pub use self::call::{LINGERS, ScriptCall, ScriptFailure, ScriptOutcome, ScriptOutput};
pub use self::injection::{InjectionError, InjectionFile, InjectionOrder};
pub use self::received::ReceivedText;
pub use self::run::{ScriptRun, ScriptSettings};
pub use self::script::{
    CallScript, ExpectedMessage, MessagePresence, ReceiveStep, ScriptAction, ScriptArithmetic, ScriptCheck,
    ScriptComparison, ScriptDistribution, ScriptMedia, ScriptNumber, ScriptPause, ScriptStep, ScriptText,
    SearchPlace, SendStep, StepBranch, StepCondition, StepKind,
};
pub use self::sipp::{ScenarioError, read_sipp_scenario};
pub use self::template::{
    CredentialsKeyword, InjectedField, ScriptKeyword, ScriptPiece, ScriptTemplate, ScriptTemplateError,
    ScriptWords,
};
pub use self::values::{ScriptValue, ScriptValues};
pub use self::variables::{ScriptVariable, VariableId, VariableScope, VariableTable};
pub use self::xml::{LaxAttribute, LaxData, LaxElement, LaxXmlError, ScenarioWarning, read_lax_xml};
