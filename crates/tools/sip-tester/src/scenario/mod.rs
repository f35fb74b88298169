//! Scenarios: the messages of a call, step by step.
//!
//! [`CallScript`] is a parsed scenario. [`read_sipp_scenario`] reads SIPp scenarios, [`read_scenario_form`] those in netrig's
//! own form. [`ScriptCall`] runs a scenario without sockets, [`run_scenario`] over sockets.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a scenario load has sockets and plays files"
)]

mod action;
mod beginnings;
mod call;
mod calls;
mod captured;
mod distribution;
mod document;
mod form;
mod injection;
mod link;
mod load;
mod media;
mod programs;
mod read;
mod received;
mod render;
mod run;
mod script;
mod sipp;
mod template;
mod text;
mod values;
mod variables;
mod xml;

/// The built-in scenario of a call with media.
pub const OWN_CALL: &str = include_str!("own/call.xml");
/// The built-in scenario that answers a call with media.
pub const OWN_ANSWER: &str = include_str!("own/answer.xml");

pub use self::action::{
    MediaKind, ScriptAction, ScriptCalculation, ScriptCheck, ScriptComparison, ScriptDistribution,
    ScriptMedia, ScriptNumber, ScriptText, SearchPlace, SearchedHeader,
};
pub use self::call::{LINGERS, ScriptCall, ScriptFailure, ScriptOutcome, ScriptOutput};
pub use self::calls::{
    CallOutput, EndedCall, MeasuredTime, ScriptCalls, ScriptSide, ScriptTally, StrayMessage,
};
pub use self::captured::{CapturedScenarioError, CapturedSide, captured_scenario};
pub use self::document::{
    CounterRow, FailedCallRow, SCENARIO_FORMAT, ScenarioDocument, ScenarioSecond, ScriptFailureRow, StepRow,
};
pub use self::form::{ScenarioFormError, read_scenario_form, write_scenario_form};
pub use self::injection::{InjectionError, InjectionFile, InjectionOrder};
pub use self::link::LinkOrder;
pub use self::load::{
    ScenarioLoadError, ScenarioOrder, ScenarioWatch, ScriptConnections, run_scenario, run_scenario_by,
};
pub use self::media::ScriptMediaCounts;
pub use self::read::{ScenarioFileError, read_scenario};
pub use self::received::ReceivedText;
pub use self::run::{ScriptRun, ScriptSettings, StepTally};
pub use self::script::{
    CallScript, ExpectedMessage, MediaEnds, MessagePresence, ReceiveStep, ScriptPause, ScriptStep, SendStep,
    StepBranch, StepCondition, StepKind,
};
pub use self::sipp::{ScenarioError, read_sipp_scenario};
pub use self::template::{
    CredentialsKeyword, InjectedField, ScriptKeyword, ScriptPiece, ScriptTemplate, ScriptTemplateError,
    ScriptWords,
};
pub use self::values::{ScriptValue, ScriptValues};
pub use self::variables::{ScriptVariable, VariableId, VariableScope, VariableTable};
pub use self::xml::{LaxAttribute, LaxData, LaxElement, LaxXmlError, ScenarioWarning, read_lax_xml};
