//! Sent messages of a call: their texts and retransmissions.

use bytes::Bytes;
use netrig_core::Instant;
use netrig_sip::header::{MAGIC_COOKIE, Transport};

use super::super::received::ReceivedText;
use super::super::render::render;
use super::super::run::ScriptRun;
use super::super::script::{ScriptStep, SendStep, StepKind};
use super::super::template::ScriptTemplate;
use super::super::variables::VariableScope;
use super::repetition::Repetition;
use super::{ScriptCall, ScriptFailure, ScriptOutput};

impl ScriptCall {
    pub(super) fn repeat(&mut self, run: &mut ScriptRun, now: Instant) {
        let Some(repetition) = &mut self.repetition else { return };
        if repetition.due > now {
            return;
        }
        let own = run.script.steps.get(repetition.step);
        if repetition.due >= repetition.gives_up {
            let on_timeout = own.and_then(|own| own.on_timeout);
            self.repetition = None;
            return match on_timeout.filter(|label| *label < run.script.steps.len()) {
                _ if self.is_over() => {}
                Some(label) => {
                    (self.step, self.due) = (label, None);
                    self.advance(run, now);
                }
                None => self.fail(run, now, ScriptFailure::NoAnswer),
            };
        }
        if let Some(tally) = run.tallies.get_mut(repetition.step) {
            tally.again += 1;
        }
        repetition.pause = repetition.pause.saturating_mul(2);
        if repetition.method != "INVITE" {
            repetition.pause = repetition.pause.min(run.settings.t2);
        }
        repetition.due = (now + repetition.pause).min(repetition.gives_up);
        let lost = own.map_or(0.0, |own| own.lost);
        if lost == 0.0 || !run.draws.chance(lost) {
            self.outputs.push_back(ScriptOutput::Send(repetition.bytes.clone()));
        }
    }

    pub(super) fn send(
        &mut self,
        run: &mut ScriptRun,
        now: Instant,
        step: &ScriptStep,
        send: &SendStep,
    ) -> Result<(), String> {
        let start = send.message.beginning();
        let is_response = start.starts_with("SIP/2.0");
        let method = start.split([' ', '\r']).next().unwrap_or_default().to_owned();
        if !is_response && method != "ACK" && method != "CANCEL" {
            self.cseq += 1;
        }
        if let Some(transaction) = send.begins {
            self.transactions.insert(transaction, branch(run, self.number, self.step as i64));
        }
        let text = self.text(run, &send.message, now, true)?;
        let message = ReceivedText { text: text.clone() };
        run.tallies[self.step].done += 1;
        let bytes = Bytes::from(text);
        let is_lost = step.lost > 0.0 && run.draws.chance(step.lost);
        // Of all requests, only the ACK answers a message: it is sent again for a retransmitted 2xx.
        if is_response || method == "ACK" {
            self.answered_by(&bytes, Some(self.step));
        }
        let is_over_datagrams = run.settings.transport == Transport::Udp;
        if let Some(pause) = send.again_after.filter(|_| is_over_datagrams && method != "ACK") {
            let method = if is_response { "ACK".to_owned() } else { method };
            let mut repetition = Repetition::new(bytes.clone(), self.step, method, pause, now);
            if let Some(timeout) = send.timeout {
                repetition.gives_up = now + timeout;
                repetition.due = repetition.due.min(repetition.gives_up);
            }
            self.repetition = Some(repetition);
        }
        if !is_lost {
            self.outputs.push_back(ScriptOutput::Send(bytes));
        }
        self.note(&message, true);
        self.sent = Some(message);
        Ok(())
    }

    /// The text of a template, with the current values of variables and keywords.
    pub(super) fn text(
        &mut self,
        run: &mut ScriptRun,
        template: &ScriptTemplate,
        now: Instant,
        is_message: bool,
    ) -> Result<String, String> {
        for scope in [VariableScope::Global, VariableScope::User] {
            let others = match (scope, self.user) {
                (VariableScope::Global, _) => Some(&run.globals),
                (_, Some(user)) => run.of_users.get(&user),
                _ => None,
            };
            if let Some(others) = others.cloned() {
                self.values.take_scope(&others, run.script.variables.iter(), scope);
            }
        }
        let (number, step, pid) = (self.number, self.step as i64, run.settings.run_number);
        let own = run.script.steps.get(self.step).and_then(|own| match &own.kind {
            StepKind::Send(send) => send.begins.or(send.acknowledges),
            _ => None,
        });
        let of_transaction = own.and_then(|transaction| self.transactions.get(&transaction)).cloned();
        let branch = move |offset: i64| match (&of_transaction, offset) {
            (Some(branch), 0) => branch.clone(),
            _ => format!("{MAGIC_COOKIE}-{pid}-{number}-{}", step + offset),
        };
        let mut digest = std::mem::take(&mut self.digest);
        let text = render(template, (self, &branch, now), run, is_message.then_some(&mut digest));
        self.digest = digest;
        text
    }
}

/// The branch of a step of a call.
fn branch(run: &ScriptRun, number: u64, step: i64) -> String {
    format!("{MAGIC_COOKIE}-{}-{number}-{step}", run.settings.run_number)
}
