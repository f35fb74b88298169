//! Received messages of a call: the step that expects a message, and the response to an unexpected message.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use netrig_core::Instant;

use super::super::received::ReceivedText;
use super::super::run::{ScriptRun, compiled};
use super::super::script::{ExpectedMessage, MessagePresence, ReceiveStep, StepKind};
use super::super::values::ScriptValue;
use super::repetition::{KnownMessage, final_response, hash_of};
use super::{ScriptCall, ScriptFailure, ScriptOutput};

/// The largest number of received messages whose retransmissions a call recognises.
const MOST_KNOWN: usize = 64;

impl ScriptCall {
    /// Handles a message of the call, which arrived at the address `server` at the time `at`.
    pub fn receive(
        &mut self,
        run: &mut ScriptRun,
        (at, now): (Instant, Instant),
        bytes: &[u8],
        server: SocketAddr,
    ) {
        let message = ReceivedText::new(bytes);
        let hash = hash_of(&message.text);
        if let Some(known) = self.known.iter().find(|known| known.hash == hash) {
            if let Some(answer) = &known.answer {
                self.outputs.push_back(ScriptOutput::Send(answer.clone()));
            }
            for step in known.step.into_iter().chain(known.answered_by) {
                run.tallies[step].again += 1;
            }
            return;
        }
        let place = if self.is_over() { None } else { self.awaited(run, &message) };
        if place.is_none() && self.is_repeated(run, &message) {
            return;
        }
        // A deliberately lost message is treated as not received.
        let lost = place.and_then(|place| run.script.steps.get(place)).map_or(0.0, |step| step.lost);
        if lost > 0.0 && run.draws.chance(lost) {
            return;
        }
        self.note(&message, false);
        // A response ends the retransmission of its request, and an ACK ends the retransmission of a response.
        let is_of = |method: &str| self.repetition.as_ref().is_some_and(|sent| sent.method == method);
        let answers = match message.request() {
            Some((method, _)) => method == "ACK" && is_of("ACK"),
            None => message.cseq().is_some_and(|(_, method)| is_of(method)),
        };
        if answers {
            self.repetition = None;
        }
        if self.is_over() {
            return self.receive_late(run, now, &message);
        }
        (self.server, self.arrived) = (server, Some(at));
        match place {
            Some(place) => self.take(run, now, place, message),
            None => self.unexpected(run, now, message),
        }
        self.arrived = None;
    }

    /// If the message is a known final response with other bytes, sends its ACK again and returns true.
    fn is_repeated(&mut self, run: &mut ScriptRun, message: &ReceivedText) -> bool {
        let Some(response) = final_response(message) else { return false };
        let known = self.known.iter().find(|known| known.response.as_ref() == Some(&response));
        let Some((answer, known)) = known.and_then(|known| Some((known.answer.clone()?, known))) else {
            return false;
        };
        for step in known.step.into_iter().chain(known.answered_by) {
            if let Some(tally) = run.tallies.get_mut(step) {
                tally.again += 1;
            }
        }
        self.outputs.push_back(ScriptOutput::Send(answer));
        true
    }

    /// Handles a message after the end of the call.
    fn receive_late(&mut self, run: &ScriptRun, now: Instant, message: &ReceivedText) {
        match message.request() {
            Some(("ACK", _)) => {}
            Some(("BYE" | "CANCEL", _)) => self.reply(message, "200 OK"),
            Some(_) if message.tag_of("To").is_some() => {
                self.reply(message, "481 Call/Transaction Does Not Exist");
            }
            // A new request does not belong to this call.
            Some(_) => {}
            None => {
                self.know(message, None);
                self.end_session(run, now);
            }
        }
    }

    /// Handles a message from another process of the test.
    pub fn receive_command(&mut self, run: &mut ScriptRun, now: Instant, from: Option<&str>, text: &str) {
        if self.is_over() {
            return;
        }
        let script = Arc::clone(&run.script);
        let mut place = self.step;
        while let Some(step) = script.steps.get(place) {
            match &step.kind {
                StepKind::ReceiveCommand { from: wanted, is_optional } => {
                    if wanted.as_deref().is_none_or(|wanted| from.is_none_or(|from| from == wanted)) {
                        break;
                    }
                    if !is_optional {
                        return self.unexpected_command(run, now, text);
                    }
                }
                StepKind::Receive(ReceiveStep { presence, .. })
                    if *presence != MessagePresence::Mandatory => {}
                _ => return self.unexpected_command(run, now, text),
            }
            place += 1;
        }
        let Some(step) = script.steps.get(place) else { return self.unexpected_command(run, now, text) };
        self.last = Some(ReceivedText { text: text.to_owned() });
        self.due = None;
        self.step = place;
        run.tallies[place].done += 1;
        self.book(run, step, now);
        if self.act(run, now, step) {
            self.next(run, step);
            self.advance(run, now);
        }
    }

    fn unexpected_command(&mut self, run: &mut ScriptRun, now: Instant, text: &str) {
        if let Some(tally) = run.tallies.get_mut(self.step) {
            tally.unexpected += 1;
        }
        let first = text.lines().next().unwrap_or_default();
        self.fail(run, now, ScriptFailure::UnexpectedCommand(first.to_owned()));
    }

    /// The step that expects a message: the current one or, after optional steps, a later one; otherwise an earlier
    /// optional step.
    fn awaited(&self, run: &ScriptRun, message: &ReceivedText) -> Option<usize> {
        let steps = &run.script.steps;
        for (place, step) in steps.iter().enumerate().skip(self.step) {
            let StepKind::Receive(receive) = &step.kind else { break };
            if self.fits(place, receive, message) {
                return Some(place);
            }
            if receive.presence == MessagePresence::Mandatory {
                break;
            }
        }
        let mut is_near = true;
        for (place, step) in steps.iter().enumerate().take(self.step).rev() {
            let StepKind::Receive(receive) = &step.kind else {
                is_near = false;
                continue;
            };
            is_near &= receive.presence != MessagePresence::Mandatory;
            let may_come = is_near || receive.presence == MessagePresence::OptionalEverywhere;
            if may_come && self.fits(place, receive, message) {
                return Some(place);
            }
        }
        None
    }

    fn fits(&self, place: usize, receive: &ReceiveStep, message: &ReceivedText) -> bool {
        match &receive.expected {
            ExpectedMessage::Response(status, methods) => {
                let is_of_transaction = match receive.transaction {
                    Some(transaction) => {
                        let branch = self.transactions.get(&transaction);
                        branch.is_some_and(|branch| message.branch() == Some(branch))
                    }
                    None => {
                        let method = message.cseq().map_or("", |(_, method)| method);
                        place == 0 || methods.is_empty() || methods.iter().any(|known| known == method)
                    }
                };
                message.status() == Some(*status) && is_of_transaction
            }
            ExpectedMessage::Request(method) => message.request().is_some_and(|(found, _)| found == method),
            ExpectedMessage::Matching(pattern) => {
                let found = message.request().map(|(method, _)| method.to_owned());
                let found =
                    found.or_else(|| message.status().map(|status| status.to_string())).unwrap_or_default();
                compiled(pattern).is_ok_and(|pattern| pattern.is_match(&found))
            }
        }
    }

    fn take(&mut self, run: &mut ScriptRun, now: Instant, place: usize, message: ReceivedText) {
        let script = Arc::clone(&run.script);
        let step = &script.steps[place];
        let StepKind::Receive(receive) = &step.kind else { return };
        run.tallies[place].done += 1;
        // As in SIPp: an expected message shows that the other side has received the response, even without an ACK.
        if self.repetition.as_ref().is_some_and(|sent| sent.method == "ACK") {
            self.repetition = None;
        }
        self.learn(&message, receive);
        self.know(&message, Some(place));
        self.last = Some(message);
        self.book(run, step, now);
        self.arrived = None;
        if !self.act(run, now, step) {
            return;
        }
        let is_optional = receive.presence != MessagePresence::Mandatory;
        let branches = step
            .branch
            .is_some_and(|branch| branch.test.is_none_or(|variable| self.values.get(variable).is_set()));
        let jumps = place >= self.step && receive.moves_on && (branches || self.jump.is_some());
        let mut awaited = script.steps.iter().skip(self.step).map_while(|step| match &step.kind {
            StepKind::Receive(receive) => Some(receive),
            _ => None,
        });
        let waits = awaited.any(|receive| receive.presence == MessagePresence::Mandatory);
        if is_optional && !jumps && (waits || !receive.moves_on) {
            // The call stays at its step: another optional message may arrive there.
            return self.wait_on(run, now, place);
        }
        if place < self.step {
            return;
        }
        self.due = None;
        self.step = place;
        self.next(run, step);
        self.advance(run, now);
    }

    /// Restarts the wait after an optional message, with the time limit of the next step that has one.
    fn wait_on(&mut self, run: &ScriptRun, now: Instant, place: usize) {
        if place < self.step {
            return;
        }
        let awaited = run.script.steps.iter().skip(place + 1).map_while(|step| match &step.kind {
            StepKind::Receive(receive) => Some(receive),
            _ => None,
        });
        let patience = awaited.into_iter().find_map(|receive| receive.timeout).or(run.settings.patience);
        self.due = patience.map(|patience| now + patience);
    }

    /// Stores the values of a message that later messages need.
    fn learn(&mut self, message: &ReceivedText, receive: &ReceiveStep) {
        let is_request = message.request().is_some();
        if let Some((_, uri)) = message.request() {
            self.last_request_uri = uri.to_owned();
        }
        let tag = message.tag_of(if is_request { "From" } else { "To" });
        if let Some(tag) = tag {
            self.peer_tag = Some(tag.to_owned());
        }
        if let Some(contact) = message.contact() {
            self.next_url = contact.to_owned();
        }
        if receive.keeps_routes {
            let lines = message.lines_of("Record-Route");
            let values = lines.iter().filter_map(|line| Some(line.split_once(':')?.1.trim().to_owned()));
            self.routes = values.collect();
            if !is_request {
                self.routes = self.routes.iter().rev().map(|value| reversed(value)).collect();
            }
        }
    }

    pub(super) fn know(&mut self, message: &ReceivedText, step: Option<usize>) {
        if self.known.len() == MOST_KNOWN {
            self.known.pop_front();
        }
        let (hash, response) = (hash_of(&message.text), final_response(message));
        self.known.push_back(KnownMessage { hash, response, step, answer: None, answered_by: None });
    }

    fn unexpected(&mut self, run: &mut ScriptRun, now: Instant, message: ReceivedText) {
        if let Some(label) = run.script.on_unexpected {
            self.know(&message, None);
            self.last = Some(message);
            let kind = run.script.steps.get(self.step).map(|step| &step.kind);
            let pause_ends =
                self.due.take().filter(|_| matches!(kind, Some(StepKind::Pause(_) | StepKind::TimeWait(_))));
            let milliseconds = pause_ends.map_or(0.0, |ends| ends.as_nanos() as f64 / 1e6);
            for (name, value) in [("_unexp.retaddr", self.step as f64), ("_unexp.pausedaddr", milliseconds)] {
                if let Some(variable) = run.script.variables.find(name) {
                    self.set(run, variable, ScriptValue::Number(value));
                }
            }
            self.step = label;
            return self.advance(run, now);
        }
        let first = message.text.lines().next().unwrap_or_default().to_owned();
        if let Some(tally) = run.tallies.get_mut(self.step)
            && !matches!(message.request(), Some(("ACK" | "PING", _)))
            && message.status() != Some(100)
        {
            tally.unexpected += 1;
        }
        match message.request() {
            Some(("ACK", _)) => {}
            Some((method, _))
                if run.settings.answers_by_itself
                    && ["INFO", "NOTIFY", "OPTIONS", "UPDATE"].contains(&method) =>
            {
                self.reply(&message, "200 OK");
            }
            Some(("PING", _)) => self.reply(&message, "200 OK"),
            Some(("BYE" | "CANCEL", _)) => {
                self.reply(&message, "200 OK");
                self.fail(run, now, ScriptFailure::Unexpected(first));
            }
            Some(_) => {
                self.reply(&message, "481 Call/Transaction Does Not Exist");
                self.fail(run, now, ScriptFailure::Unexpected(first));
            }
            // An unexpected 100 is ignored (RFC 3261 section 13.2.2.1).
            None if message.status() == Some(100) => self.know(&message, None),
            None => {
                self.know(&message, None);
                self.fail(run, now, ScriptFailure::Unexpected(first));
            }
        }
    }

    /// Sends a response that the script does not contain.
    fn reply(&mut self, message: &ReceivedText, line: &str) {
        let bytes = message.response(line, None);
        self.know(message, None);
        self.answered_by(&bytes, None);
        self.outputs.push_back(ScriptOutput::Send(bytes));
    }

    /// Stores a sent message as the answer to the last received one. If that message is retransmitted, the answer is
    /// sent again.
    pub(super) fn answered_by(&mut self, bytes: &Bytes, step: Option<usize>) {
        if let Some(known) = self.known.back_mut() {
            (known.answer, known.answered_by) = (Some(bytes.clone()), step);
        }
    }
}

/// The values of a header field in reverse order.
fn reversed(value: &str) -> String {
    let mut values: Vec<&str> = value.split(',').map(str::trim).collect();
    values.reverse();
    values.join(", ")
}
