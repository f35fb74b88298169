//! Writes a script as a scenario in this form.

use std::collections::BTreeSet;

use netrig_core::Duration;
use toml::Spanned;

use super::super::script::{
    CallScript, ExpectedMessage, MessagePresence, ScriptAction, ScriptArithmetic, ScriptDistribution,
    ScriptMedia, ScriptNumber, ScriptPause, ScriptStep, ScriptText, SearchPlace, StepKind,
};
use super::super::template::ScriptTemplate;
use super::super::variables::{VariableId, VariableScope, VariableTable};
use super::document::{
    ANY_PROCESS, ActionForm, END, HeaderForm, NumberForm, OptionalForm, OptionalPlace, PauseForm, PauseName,
    PlaceForm, ReceiveForm, ScenarioForm, StepForm, TextForm, UNEXPECTED,
};

/// Writes a scenario in this form.
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
    // Each value of a script can be written.
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
                form.receive_command = Some(from.clone().unwrap_or_else(|| ANY_PROCESS.to_owned()));
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
