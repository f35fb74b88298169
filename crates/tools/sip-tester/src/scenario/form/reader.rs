//! Reads a scenario in this form.

use std::collections::BTreeMap;

use netrig_sip::load::with_line_ends;
use toml::Spanned;

use super::super::script::{
    CallScript, ExpectedMessage, LONGEST_TIME, MessagePresence, ReceiveStep, ScriptAction, ScriptArithmetic,
    ScriptDistribution, ScriptMedia, ScriptNumber, ScriptPause, ScriptStep, ScriptText, SearchPlace,
    SendStep, StepBranch, StepCondition, StepKind, place_of,
};
use super::super::template::{ScriptTemplate, ScriptWords};
use super::super::variables::{VariableId, VariableScope};
use super::document::{
    ANY_PROCESS, ActionForm, END, HeaderForm, NumberForm, OptionalForm, OptionalPlace, PauseForm, PauseName,
    PlaceForm, ReceiveForm, ScenarioForm, StepForm, TextForm, UNEXPECTED,
};

/// Why a file is not a scenario in this form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioFormError {
    /// It is not TOML, or has an unknown key; with the position and the line.
    #[error("{0}")]
    Toml(String),
    /// A value does not fit.
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

/// Reads a scenario in this form.
///
/// # Errors
/// If it is not one, with the position of the error.
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
                        .wrong(spanned, format!("receive: {status} is not a status, expected 100 to 699"));
                }
                ReceiveForm::Method(method) => ExpectedMessage::Request(method.clone()),
                ReceiveForm::Matching { matching } => ExpectedMessage::Matching(matching.clone()),
            };
            if form.stays && presence == MessagePresence::Mandatory {
                return self.wrong(spanned, "stays is for optional messages only");
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
            let from = (from != ANY_PROCESS).then(|| from.clone());
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
