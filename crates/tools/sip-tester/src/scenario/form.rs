//! Netrig's own form of scenarios: TOML, typed, with the keywords of [`ScriptTemplate`].

use std::collections::{BTreeMap, BTreeSet};

use netrig_core::Duration;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::script::{
    CallScript, ExpectedMessage, LONGEST_TIME, MediaKind, MessagePresence, ReceiveStep, ScriptAction,
    ScriptArithmetic, ScriptCheck, ScriptComparison, ScriptDistribution, ScriptMedia, ScriptNumber,
    ScriptPause, ScriptStep, ScriptText, SearchPlace, SendStep, StepBranch, StepCondition, StepKind,
};
use super::template::{ScriptTemplate, ScriptWords};
use super::variables::{VariableId, VariableScope, VariableTable};

/// A file that is no scenario of this form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioFormError {
    /// It is no TOML, or has what the form does not have: with the place and the line.
    #[error("{0}")]
    Toml(String),
    /// Something in it does not fit.
    #[error("line {line}, column {column}: {what}")]
    Place {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// What is wrong, and what was expected.
        what: String,
    },
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ScenarioForm {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    name: String,
    /// Variables of the whole run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    global: Vec<String>,
    /// Variables of each user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    user: Vec<String>,
    /// Steps before the first call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    opening: Vec<Spanned<StepForm>>,
    /// Steps of a call.
    #[serde(default)]
    step: Vec<Spanned<StepForm>>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct StepForm {
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    // What it does: one of these, or its actions only.
    #[serde(skip_serializing_if = "Option::is_none")]
    receive: Option<ReceiveForm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pause: Option<PauseForm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_for_repetitions: Option<PauseForm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    receive_command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    send_command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    send: Option<String>,
    // Of what is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    repeat_after: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    begins: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    acknowledges: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    // Of what is received.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    of: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    optional: Option<OptionalForm>,
    #[serde(skip_serializing_if = "is_false")]
    stays: bool,
    #[serde(skip_serializing_if = "is_false")]
    keeps_routes: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    transaction: Option<String>,
    // Of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_timeout: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    starts: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ends: Option<String>,
    #[serde(skip_serializing_if = "is_false")]
    ends_again: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    counter: Option<String>,
    /// Share of its messages that are lost on purpose, 0 to 1.
    #[serde(skip_serializing_if = "is_zero")]
    lost: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    only_if: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    only_unless: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    then: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    then_if: Option<String>,
    /// In this share of the cases, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    then_chance: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    display: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    actions: Vec<ActionForm>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives references")]
const fn is_false(value: &bool) -> bool {
    !*value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives references")]
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

/// A status, a method, or what a method or status fits.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum ReceiveForm {
    Status(u16),
    Method(String),
    Matching { matching: String },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum OptionalForm {
    Here(bool),
    Where(OptionalPlace),
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum OptionalPlace {
    Everywhere,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum PauseForm {
    Time(Duration),
    Named(PauseName),
    Variable { variable: String },
    Drawn(DistributionForm),
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum PauseName {
    Default,
}

/// Of pauses in milliseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum DistributionForm {
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
enum NumberForm {
    Number(f64),
    Variable { variable: String },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum TextForm {
    Text(String),
    Variable { variable: String },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum CheckForm {
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
enum PlaceForm {
    Message,
    Body,
    Variable(String),
    #[serde(untagged)]
    Header(HeaderForm),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct HeaderForm {
    header: String,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    occurrence: usize,
    #[serde(default, skip_serializing_if = "is_false")]
    any_case: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    at_line_start: bool,
}

const fn one() -> usize {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives references")]
const fn is_one(value: &usize) -> bool {
    *value == 1
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
enum ActionForm {
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
enum MediaKindForm {
    Audio,
    Video,
    Image,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum ComparisonForm {
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

/// Reads a scenario of this form.
///
/// # Errors
/// It is none, with the place of what is wrong.
pub fn read_scenario_form(text: &str, words: ScriptWords<'_>) -> Result<CallScript, ScenarioFormError> {
    let form: ScenarioForm =
        toml::from_str(text).map_err(|error| ScenarioFormError::Toml(error.to_string()))?;
    let mut reader =
        FormReader { text, words, script: CallScript { name: form.name, ..CallScript::default() } };
    for (names, scope) in [(&form.global, VariableScope::Global), (&form.user, VariableScope::User)] {
        for name in names {
            reader.script.variables.declared(name, scope);
        }
    }
    if form.step.is_empty() {
        return Err(ScenarioFormError::Place {
            line: 1,
            column: 1,
            what: "expected [[step]]: the scenario has none".to_owned(),
        });
    }
    let steps = reader.steps(&form.step)?;
    let opening = reader.steps(&form.opening)?;
    (reader.script.steps, reader.script.opening) = (steps, opening);
    let unexpected = form.step.iter().position(|step| step.get_ref().label.as_deref() == Some(UNEXPECTED));
    reader.script.on_unexpected = unexpected;
    if let Some((line, what)) = reader.script.wrong_pattern() {
        return Err(ScenarioFormError::Place { line, column: 1, what });
    }
    Ok(reader.script)
}

/// The label of the step that a message goes to which no step awaits.
const UNEXPECTED: &str = "unexpected-message";

struct FormReader<'a> {
    text: &'a str,
    words: ScriptWords<'a>,
    script: CallScript,
}

impl FormReader<'_> {
    fn wrong<T>(&self, step: &Spanned<StepForm>, what: impl Into<String>) -> Result<T, ScenarioFormError> {
        let (line, column) = self.place(step);
        Err(ScenarioFormError::Place { line, column, what: what.into() })
    }

    fn place(&self, step: &Spanned<StepForm>) -> (usize, usize) {
        let before = &self.text[..step.span().start.min(self.text.len())];
        let column = before.chars().rev().take_while(|letter| *letter != '\n').count() + 1;
        (before.matches('\n').count() + 1, column)
    }

    fn steps(&mut self, forms: &[Spanned<StepForm>]) -> Result<Vec<ScriptStep>, ScenarioFormError> {
        let mut labels = BTreeMap::new();
        for (place, form) in forms.iter().enumerate() {
            if let Some(label) = &form.get_ref().label
                && labels.insert(label.clone(), place).is_some()
            {
                return self.wrong(form, format!("the label {label} stands here for a second time"));
            }
        }
        forms.iter().map(|form| self.step(form, &labels, forms.len())).collect()
    }

    fn step(
        &mut self,
        spanned: &Spanned<StepForm>,
        labels: &BTreeMap<String, usize>,
        count: usize,
    ) -> Result<ScriptStep, ScenarioFormError> {
        let form = spanned.get_ref();
        let of_label = |label: &Option<String>| match label {
            None => Ok(None),
            Some(label) if label == END => Ok(Some(count)),
            Some(label) => match labels.get(label) {
                Some(place) => Ok(Some(*place)),
                None => self.wrong(spanned, format!("there is no label {label}")),
            },
        };
        let (then, on_timeout) = (of_label(&form.then)?, of_label(&form.on_timeout)?);
        for (name, share) in [("lost", Some(form.lost)), ("then-chance", form.then_chance)] {
            if share.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
                return self.wrong(spanned, format!("{name}: expected 0 to 1"));
            }
        }
        if then.is_none() && (form.then_if.is_some() || form.then_chance.is_some()) {
            return self.wrong(
                spanned,
                "then-if and then-chance say when `then` goes on at another step: expected then",
            );
        }
        let kind = self.kind(spanned)?;
        let variables = &mut self.script.variables;
        let condition = match (&form.only_if, &form.only_unless) {
            (Some(_), Some(_)) => {
                return self.wrong(spanned, "only-if and only-unless: expected one of them");
            }
            (Some(name), None) => Some(StepCondition { variable: variables.used(name), is_inverse: false }),
            (None, Some(name)) => Some(StepCondition { variable: variables.used(name), is_inverse: true }),
            (None, None) => None,
        };
        let branch = then.map(|to| StepBranch {
            to,
            test: form.then_if.as_ref().map(|name| variables.used(name)),
            chance: form.then_chance.unwrap_or(1.0),
        });
        let script = &mut self.script;
        let starts = form.starts.iter().map(|name| place_of(&mut script.response_times, name)).collect();
        let ends = form.ends.as_ref().map(|name| place_of(&mut script.response_times, name));
        let counter = form.counter.as_ref().map(|name| place_of(&mut script.counters, name));
        let mut actions = Vec::new();
        for action in &form.actions {
            actions.push(self.action(spanned, action)?);
        }
        Ok(ScriptStep {
            line: self.place(spanned).0,
            kind,
            starts,
            ends,
            ends_again: form.ends_again,
            counter,
            lost: form.lost,
            actions,
            condition,
            branch,
            on_timeout,
            display: form.display.clone(),
        })
    }

    fn kind(&mut self, spanned: &Spanned<StepForm>) -> Result<StepKind, ScenarioFormError> {
        let form = spanned.get_ref();
        let kinds = [
            form.send.is_some(),
            form.receive.is_some(),
            form.pause.is_some(),
            form.wait_for_repetitions.is_some(),
            form.send_command.is_some(),
            form.receive_command.is_some(),
        ];
        if kinds.iter().filter(|is_one| **is_one).count() > 1 {
            return self.wrong(
                spanned,
                "a step has one of send, receive, pause, wait-for-repetitions, send-command and receive-command",
            );
        }
        let presence = match &form.optional {
            None | Some(OptionalForm::Here(false)) => MessagePresence::Mandatory,
            Some(OptionalForm::Here(true)) => MessagePresence::Optional,
            Some(OptionalForm::Where(OptionalPlace::Everywhere)) => MessagePresence::OptionalEverywhere,
        };
        if let Some(message) = &form.send {
            let message = self.template(spanned, &with_line_ends(message))?;
            let mut place = |name: &Option<String>| {
                name.as_ref().map(|name| place_of(&mut self.script.transactions, name))
            };
            let (begins, acknowledges) = (place(&form.begins), place(&form.acknowledges));
            return Ok(StepKind::Send(SendStep {
                message,
                again_after: form.repeat_after,
                timeout: form.timeout,
                begins,
                acknowledges,
            }));
        }
        if let Some(receive) = &form.receive {
            let expected = match receive {
                ReceiveForm::Status(status @ 100..=699) => {
                    ExpectedMessage::Response(*status, form.of.clone())
                }
                ReceiveForm::Status(status) => {
                    return self
                        .wrong(spanned, format!("receive: {status} is no status, expected 100 to 699"));
                }
                ReceiveForm::Method(method) => ExpectedMessage::Request(method.clone()),
                ReceiveForm::Matching { matching } => ExpectedMessage::Matching(matching.clone()),
            };
            if form.stays && presence == MessagePresence::Mandatory {
                return self.wrong(spanned, "stays is of optional messages only");
            }
            let transaction =
                form.transaction.as_ref().map(|name| place_of(&mut self.script.transactions, name));
            return Ok(StepKind::Receive(ReceiveStep {
                expected,
                presence,
                moves_on: !form.stays,
                timeout: form.timeout,
                keeps_routes: form.keeps_routes,
                transaction,
            }));
        }
        if let Some(pause) = &form.pause {
            return Ok(StepKind::Pause(self.pause(pause)));
        }
        if let Some(pause) = &form.wait_for_repetitions {
            return Ok(StepKind::TimeWait(self.pause(pause)));
        }
        if let Some(message) = &form.send_command {
            let message = self.template(spanned, &with_line_ends(message))?;
            return Ok(StepKind::SendCommand { to: form.to.clone(), message });
        }
        if let Some(from) = &form.receive_command {
            let from = (from != ANYBODY).then(|| from.clone());
            return Ok(StepKind::ReceiveCommand {
                from,
                is_optional: presence != MessagePresence::Mandatory,
            });
        }
        Ok(StepKind::Nothing)
    }

    fn pause(&mut self, form: &PauseForm) -> ScriptPause {
        match form {
            PauseForm::Time(time) => ScriptPause::Drawn(ScriptDistribution::Fixed(
                (time.as_secs_f64() * 1000.0).min(LONGEST_TIME * 1000.0),
            )),
            PauseForm::Named(PauseName::Default) => ScriptPause::Default,
            PauseForm::Variable { variable } => ScriptPause::Variable(self.used(variable)),
            PauseForm::Drawn(distribution) => ScriptPause::Drawn((*distribution).into()),
        }
    }

    fn used(&mut self, name: &str) -> VariableId {
        self.script.variables.used(name)
    }

    fn template(
        &mut self,
        step: &Spanned<StepForm>,
        text: &str,
    ) -> Result<ScriptTemplate, ScenarioFormError> {
        let parsed = ScriptTemplate::parse(text, self.words, &mut self.script.variables);
        parsed.or_else(|error| self.wrong(step, error.to_string()))
    }

    fn number(&mut self, form: &NumberForm) -> ScriptNumber {
        match form {
            NumberForm::Number(number) => ScriptNumber::Value(*number),
            NumberForm::Variable { variable } => ScriptNumber::Variable(self.used(variable)),
        }
    }

    fn action(
        &mut self,
        step: &Spanned<StepForm>,
        form: &ActionForm,
    ) -> Result<ScriptAction, ScenarioFormError> {
        use ActionForm as F;
        use ScriptAction as A;
        Ok(match form {
            F::Extract { pattern, from, into, check } => {
                if let Err(error) = regex::Regex::new(pattern) {
                    return self.wrong(step, format!("extract: `{pattern}`: {error}"));
                }
                let place = match from {
                    PlaceForm::Message => SearchPlace::Message,
                    PlaceForm::Body => SearchPlace::Body,
                    PlaceForm::Variable(name) => SearchPlace::Variable(self.used(name)),
                    PlaceForm::Header(HeaderForm { header, occurrence, any_case, at_line_start }) => {
                        SearchPlace::Header {
                            name: header.clone(),
                            occurrence: *occurrence,
                            any_case: *any_case,
                            at_line_start: *at_line_start,
                        }
                    }
                };
                let into = into.iter().map(|name| self.used(name)).collect();
                A::Extract { pattern: pattern.clone(), place, into, check: (*check).into() }
            }
            F::Log(text) => A::Log(self.template(step, text)?),
            F::Warn(text) => A::Warn(self.template(step, text)?),
            F::Fail(text) => A::Fail(self.template(step, text)?),
            F::Assign { variable, value } => self.calculation(variable, ScriptArithmetic::Assign, value),
            F::Add { variable, value } => self.calculation(variable, ScriptArithmetic::Add, value),
            F::Subtract { variable, value } => self.calculation(variable, ScriptArithmetic::Subtract, value),
            F::Multiply { variable, value } => self.calculation(variable, ScriptArithmetic::Multiply, value),
            F::Divide { variable, value } => self.calculation(variable, ScriptArithmetic::Divide, value),
            F::Text { variable, value } => {
                let value = self.template(step, value)?;
                A::Text(self.used(variable), value)
            }
            F::TimeOfDay { seconds, microseconds } => {
                A::TimeOfDay(self.used(seconds), self.used(microseconds))
            }
            F::StepNumber(name) => A::StepNumber(self.used(name)),
            F::Jump(number) => A::Jump(self.number(number)),
            F::RestorePause(number) => A::RestorePause(self.number(number)),
            F::Sample { variable, distribution } => A::Sample(self.used(variable), (*distribution).into()),
            F::ToNumber { variable, from } => {
                A::ToNumber { into: self.used(variable), from: self.used(from) }
            }
            F::Test { into, variable, is, value, check } => A::Test {
                into: into.as_ref().map(|name| self.used(name)),
                left: self.used(variable),
                comparison: (*is).into(),
                right: self.number(value),
                check: (*check).into(),
            },
            F::CompareTexts { into, variable, value, check } => A::CompareTexts {
                into: into.as_ref().map(|name| self.used(name)),
                left: self.used(variable),
                right: match value {
                    TextForm::Text(text) => ScriptText::Value(text.clone()),
                    TextForm::Variable { variable } => ScriptText::Variable(self.used(variable)),
                },
                check: (*check).into(),
            },
            F::Trim(name) => A::Trim(self.used(name)),
            F::DecodeUrl(name) => A::DecodeUrl(self.used(name)),
            F::EncodeUrl(name) => A::EncodeUrl(self.used(name)),
            F::VerifyCredentials { into, username, password } => {
                let (username, password) = (self.template(step, username)?, self.template(step, password)?);
                A::VerifyCredentials { into: self.used(into), username, password }
            }
            F::Lookup { into, file, key } => {
                let (file, key) = (self.template(step, file)?, self.template(step, key)?);
                A::Lookup { into: self.used(into), file, key }
            }
            F::Insert { file, line } => A::Insert(self.template(step, file)?, self.template(step, line)?),
            F::Replace { file, place, line } => A::Replace(
                self.template(step, file)?,
                self.template(step, place)?,
                self.template(step, line)?,
            ),
            F::Destination { host, port, protocol } => A::Destination {
                host: self.template(step, host)?,
                port: self.template(step, port)?,
                protocol: self.template(step, protocol)?,
            },
            F::CloseConnection(_) => A::CloseConnection,
            F::Command(command) => A::Command(self.template(step, command)?),
            F::StopCall(_) => A::StopCall,
            F::StopGracefully(_) => A::StopGracefully,
            F::StopNow(_) => A::StopNow,
            F::PlayCapture { media, file } => A::Media(ScriptMedia::Capture((*media).into(), file.clone())),
            F::PlayStream(stream) => A::Media(ScriptMedia::Stream(stream.clone())),
            F::PlayDigits(digits) => A::Media(ScriptMedia::Digits(digits.clone())),
            F::ControlStream(word) => A::Media(ScriptMedia::Control(word.clone())),
            F::Echo(number) => A::Echo(self.number(number)),
        })
    }

    fn calculation(&mut self, variable: &str, how: ScriptArithmetic, value: &NumberForm) -> ScriptAction {
        ScriptAction::Calculate(self.used(variable), how, self.number(value))
    }
}

/// Goes behind the last step.
const END: &str = "end-of-call";

/// Messages of any process.
const ANYBODY: &str = "anybody";

/// Messages have CR LF, whatever the file has.
fn with_line_ends(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

fn place_of(names: &mut Vec<String>, name: &str) -> usize {
    names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    })
}

/// The text of a scenario in this form.
pub fn write_scenario_form(script: &CallScript) -> String {
    let names = FormWriter { variables: &script.variables, script };
    let of_scope = |scope| {
        let own = script.variables.iter().filter(move |variable| variable.scope == scope);
        own.map(|variable| variable.name.clone()).collect()
    };
    let spanned = |steps: &[ScriptStep], unexpected: Option<usize>| {
        names.steps(steps, unexpected).into_iter().map(|step| Spanned::new(0..0, step)).collect()
    };
    let form = ScenarioForm {
        name: script.name.clone(),
        global: of_scope(VariableScope::Global),
        user: of_scope(VariableScope::User),
        opening: spanned(&script.opening, None),
        step: spanned(&script.steps, script.on_unexpected),
    };
    // Each value of a script has its place in the form.
    toml::to_string_pretty(&form).unwrap_or_default()
}

struct FormWriter<'a> {
    variables: &'a VariableTable,
    script: &'a CallScript,
}

impl FormWriter<'_> {
    fn name(&self, id: VariableId) -> String {
        self.variables.iter().nth(id.0).map(|variable| variable.name.clone()).unwrap_or_default()
    }

    fn steps(&self, steps: &[ScriptStep], unexpected: Option<usize>) -> Vec<StepForm> {
        let targets: BTreeSet<usize> = steps
            .iter()
            .flat_map(|step| step.branch.map(|branch| branch.to).into_iter().chain(step.on_timeout))
            .collect();
        let label = |place: usize| match place {
            place if place >= steps.len() => END.to_owned(),
            place if Some(place) == unexpected => UNEXPECTED.to_owned(),
            place => format!("step-{}", place + 1),
        };
        let of = |(place, step): (usize, &ScriptStep)| {
            let mut form = self.step(step);
            let has_label = targets.contains(&place) || Some(place) == unexpected;
            form.label = has_label.then(|| label(place));
            form.then = step.branch.map(|branch| label(branch.to));
            form.on_timeout = step.on_timeout.map(label);
            form
        };
        steps.iter().enumerate().map(of).collect()
    }

    fn step(&self, step: &ScriptStep) -> StepForm {
        let time = |place: &usize| self.script.response_times[*place].clone();
        let transaction = |place: usize| self.script.transactions[place].clone();
        let mut form = StepForm {
            starts: step.starts.iter().map(time).collect(),
            ends: step.ends.as_ref().map(time),
            ends_again: step.ends_again,
            counter: step.counter.map(|place| self.script.counters[place].clone()),
            lost: step.lost,
            only_if: step
                .condition
                .filter(|condition| !condition.is_inverse)
                .map(|own| self.name(own.variable)),
            only_unless: step
                .condition
                .filter(|condition| condition.is_inverse)
                .map(|own| self.name(own.variable)),
            then_if: step.branch.and_then(|branch| branch.test).map(|test| self.name(test)),
            then_chance: step.branch.map(|branch| branch.chance).filter(|chance| *chance < 1.0),
            display: step.display.clone(),
            actions: step.actions.iter().map(|action| self.action(action)).collect(),
            ..StepForm::default()
        };
        match &step.kind {
            StepKind::Send(send) => {
                form.send = Some(self.text(&send.message).replace("\r\n", "\n"));
                (form.repeat_after, form.timeout) = (send.again_after, send.timeout);
                (form.begins, form.acknowledges) =
                    (send.begins.map(transaction), send.acknowledges.map(transaction));
            }
            StepKind::Receive(receive) => {
                form.receive = Some(match &receive.expected {
                    ExpectedMessage::Response(status, methods) => {
                        form.of.clone_from(methods);
                        ReceiveForm::Status(*status)
                    }
                    ExpectedMessage::Request(method) => ReceiveForm::Method(method.clone()),
                    ExpectedMessage::Matching(matching) => {
                        ReceiveForm::Matching { matching: matching.clone() }
                    }
                });
                form.optional = optional(receive.presence);
                form.stays = !receive.moves_on;
                form.keeps_routes = receive.keeps_routes;
                (form.timeout, form.transaction) = (receive.timeout, receive.transaction.map(transaction));
            }
            StepKind::Pause(pause) => form.pause = Some(self.pause(pause)),
            StepKind::TimeWait(pause) => form.wait_for_repetitions = Some(self.pause(pause)),
            StepKind::Nothing => {}
            StepKind::SendCommand { to, message } => {
                form.send_command = Some(self.text(message).replace("\r\n", "\n"));
                form.to.clone_from(to);
            }
            StepKind::ReceiveCommand { from, is_optional } => {
                form.receive_command = Some(from.clone().unwrap_or_else(|| ANYBODY.to_owned()));
                form.optional = is_optional.then_some(OptionalForm::Here(true));
            }
        }
        form
    }

    fn pause(&self, pause: &ScriptPause) -> PauseForm {
        match pause {
            ScriptPause::Default => PauseForm::Named(PauseName::Default),
            ScriptPause::Variable(variable) => PauseForm::Variable { variable: self.name(*variable) },
            ScriptPause::Drawn(ScriptDistribution::Fixed(milliseconds)) => {
                PauseForm::Time(Duration::from_secs_f64(milliseconds / 1000.0))
            }
            ScriptPause::Drawn(distribution) => PauseForm::Drawn((*distribution).into()),
        }
    }

    fn text(&self, template: &ScriptTemplate) -> String {
        template.to_text(&|id| self.name(id))
    }

    fn number(&self, number: ScriptNumber) -> NumberForm {
        match number {
            ScriptNumber::Value(value) => NumberForm::Number(value),
            ScriptNumber::Variable(variable) => NumberForm::Variable { variable: self.name(variable) },
        }
    }

    fn action(&self, action: &ScriptAction) -> ActionForm {
        use ActionForm as F;
        use ScriptAction as A;
        let name = |id: &VariableId| self.name(*id);
        match action {
            A::Extract { pattern, place, into, check } => F::Extract {
                pattern: pattern.clone(),
                from: match place {
                    SearchPlace::Message => PlaceForm::Message,
                    SearchPlace::Body => PlaceForm::Body,
                    SearchPlace::Variable(variable) => PlaceForm::Variable(name(variable)),
                    SearchPlace::Header { name, occurrence, any_case, at_line_start } => {
                        PlaceForm::Header(HeaderForm {
                            header: name.clone(),
                            occurrence: *occurrence,
                            any_case: *any_case,
                            at_line_start: *at_line_start,
                        })
                    }
                },
                into: into.iter().map(name).collect(),
                check: (*check).into(),
            },
            A::Log(text) => F::Log(self.text(text)),
            A::Warn(text) => F::Warn(self.text(text)),
            A::Fail(text) => F::Fail(self.text(text)),
            A::Calculate(variable, how, value) => {
                let (variable, value) = (name(variable), self.number(*value));
                match how {
                    ScriptArithmetic::Assign => F::Assign { variable, value },
                    ScriptArithmetic::Add => F::Add { variable, value },
                    ScriptArithmetic::Subtract => F::Subtract { variable, value },
                    ScriptArithmetic::Multiply => F::Multiply { variable, value },
                    ScriptArithmetic::Divide => F::Divide { variable, value },
                }
            }
            A::Text(variable, text) => F::Text { variable: name(variable), value: self.text(text) },
            A::TimeOfDay(seconds, microseconds) => {
                F::TimeOfDay { seconds: name(seconds), microseconds: name(microseconds) }
            }
            A::StepNumber(variable) => F::StepNumber(name(variable)),
            A::Jump(number) => F::Jump(self.number(*number)),
            A::RestorePause(number) => F::RestorePause(self.number(*number)),
            A::Sample(variable, distribution) => {
                F::Sample { variable: name(variable), distribution: (*distribution).into() }
            }
            A::ToNumber { into, from } => F::ToNumber { variable: name(into), from: name(from) },
            A::Test { into, left, comparison, right, check } => F::Test {
                into: into.as_ref().map(name),
                variable: name(left),
                is: (*comparison).into(),
                value: self.number(*right),
                check: (*check).into(),
            },
            A::CompareTexts { into, left, right, check } => F::CompareTexts {
                into: into.as_ref().map(name),
                variable: name(left),
                value: match right {
                    ScriptText::Value(text) => TextForm::Text(text.clone()),
                    ScriptText::Variable(variable) => TextForm::Variable { variable: name(variable) },
                },
                check: (*check).into(),
            },
            A::Trim(variable) => F::Trim(name(variable)),
            A::DecodeUrl(variable) => F::DecodeUrl(name(variable)),
            A::EncodeUrl(variable) => F::EncodeUrl(name(variable)),
            A::VerifyCredentials { into, username, password } => F::VerifyCredentials {
                into: name(into),
                username: self.text(username),
                password: self.text(password),
            },
            A::Lookup { into, file, key } => {
                F::Lookup { into: name(into), file: self.text(file), key: self.text(key) }
            }
            A::Insert(file, line) => F::Insert { file: self.text(file), line: self.text(line) },
            A::Replace(file, place, line) => {
                F::Replace { file: self.text(file), place: self.text(place), line: self.text(line) }
            }
            A::Destination { host, port, protocol } => {
                F::Destination { host: self.text(host), port: self.text(port), protocol: self.text(protocol) }
            }
            A::CloseConnection => F::CloseConnection(true),
            A::Command(command) => F::Command(self.text(command)),
            A::StopCall => F::StopCall(true),
            A::StopGracefully => F::StopGracefully(true),
            A::StopNow => F::StopNow(true),
            A::Media(ScriptMedia::Capture(kind, file)) => {
                F::PlayCapture { media: (*kind).into(), file: file.clone() }
            }
            A::Media(ScriptMedia::Stream(stream)) => F::PlayStream(stream.clone()),
            A::Media(ScriptMedia::Digits(digits)) => F::PlayDigits(digits.clone()),
            A::Media(ScriptMedia::Control(word)) => F::ControlStream(word.clone()),
            A::Echo(number) => F::Echo(self.number(*number)),
        }
    }
}

const fn optional(presence: MessagePresence) -> Option<OptionalForm> {
    match presence {
        MessagePresence::Mandatory => None,
        MessagePresence::Optional => Some(OptionalForm::Here(true)),
        MessagePresence::OptionalEverywhere => Some(OptionalForm::Where(OptionalPlace::Everywhere)),
    }
}

/// The same values under two names, both ways.
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

#[cfg(test)]
mod tests {
    use super::super::sipp::read_sipp_scenario;
    use super::*;

    const WORDS: ScriptWords<'_> = ScriptWords { keys: &[] };

    fn without_lines(mut script: CallScript) -> CallScript {
        script.steps.iter_mut().chain(&mut script.opening).for_each(|step| step.line = 0);
        // How often a variable is named is known of the file that was read.
        CallScript { variables: VariableTable::default(), ..script }
    }

    /// What is written is read as the same script.
    fn check(script: &CallScript) {
        let text = write_scenario_form(script);
        let read = read_scenario_form(&text, WORDS).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let again = write_scenario_form(&read);
        assert_eq!(text, again);
        // Variables may have other numbers: the texts have their names.
        assert_eq!(read.steps.len(), script.steps.len());
        assert_eq!(without_lines(read).response_times, script.response_times);
    }

    #[test]
    fn own_scenarios_are_written_and_read() {
        for text in [super::super::OWN_CALL, super::super::OWN_ANSWER] {
            let keys = [("caller".to_owned(), "netrig".to_owned())];
            check(&read_sipp_scenario(text, ScriptWords { keys: &keys }).unwrap().0);
        }
    }

    #[test]
    fn all_that_a_script_has_is_written_and_read() {
        let steps = "<Global variables=\"g\"/><User variables=\"u\"/>
            <init><nop><action><assign assign_to=\"g\" value=\"1\"/></action></nop></init>
            <label id=\"begin\"/>
            <send retrans=\"500\" timeout=\"3000\" start_txn=\"t\" lost=\"10\" start_rtd=\"a,b\" counter=\"c\"><![CDATA[
              INVITE sip:[field0 file=\"u.csv\" line=\"[$g]\"] SIP/2.0
              [last_Via:]
              Call-ID: a///[call_id]
              X: [cseq+3] [fill text=\"ab\" variable=\"g\"] [file name=\"x\"] \\x5Bno]
              [authentication username=[$u] password=y]

            ]]></send>
            <recv response=\"100\" optional=\"global\" response_txn=\"t\"/>
            <recv response=\"180\" optional=\"true\" advance_state=\"false\"/>
            <recv request=\"A.*\" regexp_match=\"true\" timeout=\"100\" ontimeout=\"begin\"/>
            <recv response=\"200\" rrs=\"true\" auth=\"true\" rtd=\"a\" repeat_rtd=\"true\" crlf=\"true\" next=\"begin\" test=\"g\" chance=\"0.25\">
             <action>
              <ereg regexp=\"a(b)\" search_in=\"hdr\" header=\"To:\" occurrence=\"2\" case_indep=\"true\" start_line=\"true\" check_it_inverse=\"true\" assign_to=\"g,u\"/>
              <ereg regexp=\"a\" search_in=\"body\" check_it=\"true\" assign_to=\"g\"/>
              <ereg regexp=\"a\" search_in=\"var\" variable=\"u\" assign_to=\"g\"/>
              <ereg regexp=\"a\" search_in=\"msg\" assign_to=\"g\"/>
              <log message=\"m [$g]\"/><warning message=\"w\"/><error message=\"e\"/>
              <subtract assign_to=\"g\" variable=\"u\"/><divide assign_to=\"g\" value=\"2\"/>
              <gettimeofday assign_to=\"g,u\"/><index assign_to=\"g\"/><jump value=\"1\"/>
              <sample assign_to=\"g\" distribution=\"gpareto\" shape=\"1\" scale=\"2\" location=\"3\"/>
              <todouble assign_to=\"g\" variable=\"u\"/><test assign_to=\"g\" variable=\"u\" compare=\"not_equal\" value=\"3\"/>
              <strcmp assign_to=\"g\" variable=\"u\" value=\"x\"/><trim assign_to=\"g\"/><urldecode variable=\"g\"/><urlencode variable=\"g\"/>
              <verifyauth assign_to=\"g\" username=\"a\" password=\"b\"/><lookup assign_to=\"g\" file=\"f\" key=\"[$u]\"/>
              <insert file=\"f\" value=\"v\"/><replace file=\"f\" line=\"1\" value=\"v\"/><setdest host=\"h\" port=\"p\" protocol=\"udp\"/>
              <closecon/><exec command=\"c\"/><exec int_cmd=\"stop_call\"/><exec int_cmd=\"stop_now\"/><exec int_cmd=\"stop_gracefully\"/>
              <exec play_pcap_video=\"v.pcap\"/><exec rtp_stream=\"a.wav,-1,8\"/><exec rtp_stream=\"pause\"/><exec play_dtmf=\"12#\"/>
              <rtp_echo value=\"1\"/>
             </action></recv>
            <pause/><pause milliseconds=\"20\"/><pause variable=\"g\"/><pause distribution=\"weibull\" lambda=\"1\" k=\"2\"/>
            <nop condexec=\"g\" condexec_inverse=\"true\" display=\"d\"/>
            <sendCmd dest=\"s1\"><![CDATA[
              Call-ID: [call_id]
            ]]></sendCmd>
            <recvCmd src=\"s1\"/><recvCmd/>
            <label id=\"_unexp.main\"/>
            <timewait milliseconds=\"4000\"/>";
        let text = format!("<?xml version=\"1.0\"?><scenario name=\"all\">{steps}</scenario>");
        let (script, _) = read_sipp_scenario(&text, WORDS).unwrap();
        check(&script);
    }

    #[test]
    fn what_is_wrong_has_its_place() {
        for (text, line, words) in [
            ("", 1, "expected [[step]]"),
            ("[[step]]\nsend = \"A\"\nreceive = 200\n", 1, "a step has one of"),
            ("[[step]]\nsend = \"A [what] B\"\n", 1, "no keyword [what]"),
            ("[[step]]\npause = \"1s\"\n[[step]]\nreceive = 99\n", 3, "99 is no status"),
            ("[[step]]\nreceive = 200\nthen = \"x\"\n", 1, "there is no label x"),
            ("[[step]]\nlabel = \"a\"\n[[step]]\nlabel = \"a\"\n", 3, "second time"),
            ("[[step]]\nreceive = 200\nthen-if = \"x\"\n", 1, "expected then"),
            ("[[step]]\nreceive = 200\nstays = true\n", 1, "optional messages only"),
            ("[[step]]\nreceive = 200\nlost = 2\n", 1, "expected 0 to 1"),
            ("[[step]]\nactions = [{ extract = { pattern = \"(\", from = \"body\" } }]\n", 1, "extract: `(`"),
        ] {
            let wrong = read_scenario_form(text, WORDS).unwrap_err();
            let ScenarioFormError::Place { line: found, what, .. } = &wrong else {
                panic!("{text}: {wrong}")
            };
            assert!(*found == line && what.contains(words), "{text}: {wrong}");
        }
        for (text, words) in [
            ("[[step]]\nsent = 1\n", "unknown field"),
            ("x", "line 1"),
            ("[[step]]\npause = true\n", "line 2"),
        ] {
            let wrong = read_scenario_form(text, WORDS).unwrap_err().to_string();
            assert!(wrong.contains(words), "{text}: {wrong}");
        }
    }
}
