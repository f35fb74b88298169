//! Reads a scenario in netrig's own form.

use std::collections::BTreeMap;

use netrig_sip::load::with_line_ends;
use toml::Spanned;

use super::super::action::{ActionConverter, ScriptAction, ScriptDistribution};
use super::super::script::{
    CallScript, ExpectedMessage, LONGEST_TIME, MessagePresence, ReceiveStep, ScriptPause, ScriptStep,
    SendStep, StepBranch, StepCondition, StepKind, place_of,
};
use super::super::template::{ScriptTemplate, ScriptWords};
use super::super::variables::{VariableId, VariableScope};
use super::document::{
    ANY_PROCESS, ActionForm, END, OptionalForm, OptionalPlace, PauseForm, PauseName, ReceiveForm,
    ScenarioForm, StepForm, UNEXPECTED,
};

/// Why a text is not a scenario in netrig's own form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioFormError {
    /// The text is not TOML, or has an unknown key. The message contains the position and the line.
    #[error("{0}")]
    Toml(String),
    /// A value is invalid.
    #[error("line {line}, column {column}: {what}")]
    Place {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// The error, and the expected value.
        what: String,
    },
}

/// Reads a scenario in netrig's own form.
///
/// # Errors
/// The first error, with its position.
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
                return self.wrong(form, format!("the label {label} is defined a second time"));
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
            return self.wrong(spanned, "then-if and then-chance are conditions of `then`: expected then");
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
        let presence = match &form.optional {
            None | Some(OptionalForm::Here(false)) => MessagePresence::Mandatory,
            Some(OptionalForm::Here(true)) => MessagePresence::Optional,
            Some(OptionalForm::Where(OptionalPlace::Everywhere)) => MessagePresence::OptionalEverywhere,
        };
        let mut place =
            |name: &Option<String>| name.as_ref().map(|name| place_of(&mut self.script.transactions, name));
        let StepForm { send, receive, pause, wait_for_repetitions, send_command, receive_command, .. } = form;
        Ok(match (send, receive, pause, wait_for_repetitions, send_command, receive_command) {
            (Some(message), None, None, None, None, None) => StepKind::Send(SendStep {
                begins: place(&form.begins),
                acknowledges: place(&form.acknowledges),
                message: self.template(spanned, &with_line_ends(message))?,
                again_after: form.repeat_after,
                timeout: form.timeout,
            }),
            (None, Some(receive), None, None, None, None) => {
                let transaction = place(&form.transaction);
                let expected = match receive {
                    ReceiveForm::Status(status @ 100..=699) => {
                        ExpectedMessage::Response(*status, form.of.clone())
                    }
                    ReceiveForm::Status(status) => {
                        let what = format!("receive: {status} is not a status, expected 100 to 699");
                        return self.wrong(spanned, what);
                    }
                    ReceiveForm::Method(method) => ExpectedMessage::Request(method.clone()),
                    ReceiveForm::Matching { matching } => ExpectedMessage::Matching(matching.clone()),
                };
                if form.stays && presence == MessagePresence::Mandatory {
                    return self.wrong(spanned, "stays is for optional messages only");
                }
                StepKind::Receive(ReceiveStep {
                    expected,
                    presence,
                    moves_on: !form.stays,
                    timeout: form.timeout,
                    keeps_routes: form.keeps_routes,
                    transaction,
                })
            }
            (None, None, Some(pause), None, None, None) => StepKind::Pause(self.pause(pause)),
            (None, None, None, Some(pause), None, None) => StepKind::TimeWait(self.pause(pause)),
            (None, None, None, None, Some(message), None) => StepKind::SendCommand {
                to: form.to.clone(),
                message: self.template(spanned, &with_line_ends(message))?,
            },
            (None, None, None, None, None, Some(from)) => StepKind::ReceiveCommand {
                from: (from != ANY_PROCESS).then(|| from.clone()),
                is_optional: presence != MessagePresence::Mandatory,
            },
            (None, None, None, None, None, None) => StepKind::Nothing,
            _ => {
                return self.wrong(
                    spanned,
                    "a step has one of send, receive, pause, wait-for-repetitions, send-command and receive-command",
                );
            }
        })
    }

    fn pause(&mut self, form: &PauseForm) -> ScriptPause {
        match form {
            PauseForm::Time(time) => ScriptPause::Drawn(ScriptDistribution::Fixed(
                (time.as_secs_f64() * 1000.0).min(LONGEST_TIME * 1000.0),
            )),
            PauseForm::Named(PauseName::Default) => ScriptPause::Default,
            PauseForm::Variable { variable } => ScriptPause::Variable(self.used(variable)),
            PauseForm::Drawn(distribution) => ScriptPause::Drawn(*distribution),
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

    fn action(
        &mut self,
        step: &Spanned<StepForm>,
        form: &ActionForm,
    ) -> Result<ScriptAction, ScenarioFormError> {
        if let ActionForm::Extract { pattern, .. } = form
            && let Err(error) = regex::Regex::new(pattern)
        {
            return self.wrong(step, format!("extract: `{pattern}`: {error}"));
        }
        form.convert(&mut ActionReader { reader: self, step })
    }
}

/// Converts the variables and texts of a step's action.
struct ActionReader<'a, 'b> {
    reader: &'a mut FormReader<'b>,
    step: &'a Spanned<StepForm>,
}

impl ActionConverter<String, String> for ActionReader<'_, '_> {
    type Variable = VariableId;
    type Text = ScriptTemplate;
    type Error = ScenarioFormError;

    fn variable(&mut self, name: &String) -> VariableId {
        self.reader.used(name)
    }

    fn text(&mut self, text: &String) -> Result<ScriptTemplate, ScenarioFormError> {
        self.reader.template(self.step, text)
    }
}
