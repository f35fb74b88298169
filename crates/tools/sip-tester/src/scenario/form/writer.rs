//! Writes a script as a scenario in netrig's own form.

use std::collections::BTreeSet;
use std::convert::Infallible;

use netrig_core::Duration;
use toml::Spanned;

use super::super::action::{ActionConverter, ScriptAction, ScriptDistribution};
use super::super::script::{CallScript, ExpectedMessage, MessagePresence, ScriptPause, ScriptStep, StepKind};
use super::super::template::ScriptTemplate;
use super::super::variables::{VariableId, VariableScope, VariableTable};
use super::document::{
    ANY_PROCESS, ActionForm, END, OptionalForm, OptionalPlace, PauseForm, PauseName, ReceiveForm,
    ScenarioForm, StepForm, UNEXPECTED,
};

/// The text of a scenario in netrig's own form.
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
    // Every script can be serialised.
    toml::to_string_pretty(&form).unwrap_or_default()
}

#[derive(Clone, Copy)]
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
                form.send = Some(self.template(&send.message).replace("\r\n", "\n"));
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
                form.send_command = Some(self.template(message).replace("\r\n", "\n"));
                form.to.clone_from(to);
            }
            StepKind::ReceiveCommand { from, is_optional } => {
                form.receive_command = Some(from.clone().unwrap_or_else(|| ANY_PROCESS.to_owned()));
                form.optional = is_optional.then_some(OptionalForm::Here(true));
            }
        }
        form
    }

    fn action(mut self, action: &ScriptAction) -> ActionForm {
        action.convert(&mut self).unwrap_or_else(|never| match never {})
    }

    fn pause(&self, pause: &ScriptPause) -> PauseForm {
        match pause {
            ScriptPause::Default => PauseForm::Named(PauseName::Default),
            ScriptPause::Variable(variable) => PauseForm::Variable { variable: self.name(*variable) },
            ScriptPause::Drawn(ScriptDistribution::Fixed(milliseconds)) => {
                PauseForm::Time(Duration::from_secs_f64(milliseconds / 1000.0))
            }
            ScriptPause::Drawn(distribution) => PauseForm::Drawn(*distribution),
        }
    }

    fn template(&self, template: &ScriptTemplate) -> String {
        template.to_text(&|id| self.name(id))
    }
}

impl ActionConverter<VariableId, ScriptTemplate> for FormWriter<'_> {
    type Variable = String;
    type Text = String;
    type Error = Infallible;

    fn variable(&mut self, variable: &VariableId) -> String {
        self.name(*variable)
    }

    fn text(&mut self, text: &ScriptTemplate) -> Result<String, Infallible> {
        Ok(self.template(text))
    }
}

const fn optional(presence: MessagePresence) -> Option<OptionalForm> {
    match presence {
        MessagePresence::Mandatory => None,
        MessagePresence::Optional => Some(OptionalForm::Here(true)),
        MessagePresence::OptionalEverywhere => Some(OptionalForm::Where(OptionalPlace::Everywhere)),
    }
}
