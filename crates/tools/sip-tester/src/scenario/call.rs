//! A call that follows a script, without sockets: messages and moments come in, messages and events go out.

mod actions;
mod repetition;
mod session;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use netrig_core::{Duration, Instant};
use netrig_sip::digest::DigestClient;
use netrig_sip::header::{MAGIC_COOKIE, Transport};

use self::repetition::{FIRST_PAUSE, KnownMessage, Repetition, final_response, hash_of};
use self::session::ScriptSession;
use super::distribution::drawn;
use super::received::ReceivedText;
use super::render::{RenderedCall, render};
use super::run::{ScriptRun, compiled};
use super::script::{
    ExpectedMessage, LONGEST_TIME, MediaEnds, MediaKind, MessagePresence, ReceiveStep, ScriptMedia,
    ScriptPause, ScriptStep, SendStep, StepKind,
};
use super::template::ScriptTemplate;
use super::values::{ScriptValue, ScriptValues};
use super::variables::VariableScope;

/// Steps that a call takes without waiting at most: beyond it is a loop.
const MOST_STEPS_AT_ONCE: usize = 1000;

/// Messages whose repetitions a call knows.
const MOST_KNOWN: usize = 64;

/// How long a call answers repetitions behind its end.
pub const LINGERS: Duration = Duration::from_secs(32);

/// What a call asks its driver to do.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptOutput {
    /// A message goes out.
    Send(Bytes),
    /// Messages go elsewhere from now on: host, port and transport in words.
    Destination {
        /// Address or name.
        host: String,
        /// Port.
        port: String,
        /// `udp`, `tcp` or `tls`.
        protocol: String,
    },
    /// The connection is closed.
    CloseConnection,
    /// A line for the log.
    Log(String),
    /// A warning.
    Warn(String),
    /// A program to start.
    Command(String),
    /// Media.
    Media(ScriptMedia, Box<MediaEnds>),
    /// Media are sent back, or not.
    Echo(bool),
    /// The session stands, and both sides have said where their media go.
    SessionBegins(Box<MediaEnds>),
    /// It is over.
    SessionEnds,
    /// A message to another process.
    SendCommand {
        /// Which.
        to: Option<String>,
        /// The message.
        text: String,
    },
    /// A response time was measured.
    ResponseTime {
        /// Which.
        name: usize,
        /// How long.
        took: Duration,
    },
    /// No more calls are to begin.
    StopGracefully,
    /// The run is to end.
    StopNow(Option<String>),
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptOutcome {
    /// It went through its last step.
    Succeeded,
    /// It did not.
    Failed {
        /// The step that it was at, from 0.
        step: usize,
        /// Why.
        why: ScriptFailure,
    },
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptFailure {
    /// A message came that no step awaits: its first line.
    Unexpected(String),
    /// A message of another process came that no step awaits: its first line.
    UnexpectedCommand(String),
    /// A connection of it ended, or could not be opened: why.
    Disconnected(String),
    /// A message did not come in time.
    Timeout,
    /// A request was sent as often as it may be, and nothing came.
    NoAnswer,
    /// A regular expression was not found, or was.
    Extraction(String),
    /// A test failed.
    Test,
    /// The script ended it.
    Stopped,
    /// The script cannot be carried out further.
    Script(String),
}

/// A call.
#[derive(Debug)]
pub struct ScriptCall {
    /// Number of the call, from 1.
    pub number: u64,
    /// Its Call-ID, without a prefix that ends with `///`.
    pub call_id: String,
    /// What it asks for; its driver takes them.
    pub outputs: VecDeque<ScriptOutput>,
    /// How it ended.
    pub outcome: Option<ScriptOutcome>,
    user: Option<usize>,
    step: usize,
    values: ScriptValues,
    lines: BTreeMap<String, usize>,
    cseq: u32,
    last: Option<ReceivedText>,
    last_request_uri: String,
    server: SocketAddr,
    peer_tag: Option<String>,
    routes: Vec<String>,
    next_url: String,
    digest: DigestClient,
    repetition: Option<Repetition>,
    known: VecDeque<KnownMessage>,
    session: Option<ScriptSession>,
    media: MediaEnds,
    has_media: bool,
    /// Branches of transactions by their places in the script, and of steps.
    transactions: BTreeMap<usize, String>,
    /// Where the call goes on by an action.
    jump: Option<usize>,
    /// When the pause or the wait of the step is over.
    due: Option<Instant>,
    /// When the pause ends that the call goes back to.
    pause_ends: Option<Instant>,
    /// When the call began: times that nothing starts begin there.
    began_at: Instant,
    began: BTreeMap<usize, Instant>,
    /// The message that the step has sent whose actions are carried out.
    sent: Option<ReceivedText>,
    /// When the message came that is being looked at.
    arrived: Option<Instant>,
    ended: Vec<usize>,
    /// ns since 1970 when the run began.
    began_ns: u64,
}

impl ScriptCall {
    /// A call before its first step.
    ///
    /// # Errors
    /// An injection file has fewer lines than there are users.
    pub fn new(
        run: &mut ScriptRun,
        number: u64,
        call_id: String,
        user: Option<usize>,
        began_ns: u64,
    ) -> Result<Self, super::injection::InjectionError> {
        let lines = run.lines_of_call(user)?;
        Ok(Self {
            number,
            call_id,
            outputs: VecDeque::new(),
            outcome: None,
            user,
            step: 0,
            values: ScriptValues::new(run.script.variables.iter().count()),
            lines,
            cseq: 0,
            last: None,
            last_request_uri: String::new(),
            server: run.settings.local,
            peer_tag: None,
            routes: Vec::new(),
            next_url: String::new(),
            digest: DigestClient::default(),
            repetition: None,
            known: VecDeque::new(),
            session: None,
            media: MediaEnds::new(run.settings.media),
            has_media: false,
            transactions: BTreeMap::new(),
            jump: None,
            due: None,
            pause_ends: None,
            began_at: Instant::ZERO,
            began: BTreeMap::new(),
            sent: None,
            arrived: None,
            ended: Vec::new(),
            began_ns,
        })
    }

    /// Whether it is over.
    pub const fn is_over(&self) -> bool {
        self.outcome.is_some()
    }

    /// Whether a message has come before.
    pub fn knows(&self, message: &ReceivedText) -> bool {
        let hash = hash_of(&message.text);
        self.known.iter().any(|known| known.hash == hash)
    }

    /// Gives back what a call that is over no longer needs: it still answers what comes again.
    pub fn settle(&mut self) {
        self.last = None;
        self.values = ScriptValues::new(0);
        self.lines.clear();
        self.known.retain(|known| known.answer.is_some());
        if self.outcome == Some(ScriptOutcome::Succeeded) {
            self.session = None;
        }
    }

    /// Its user, from 0.
    pub const fn user(&self) -> Option<usize> {
        self.user
    }

    /// Place of its step.
    pub const fn step(&self) -> usize {
        self.step
    }

    /// Begins it.
    pub fn begin(&mut self, run: &mut ScriptRun, now: Instant) {
        self.began_at = now;
        self.advance(run, now);
    }

    /// When it next wants to be told the time.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let repetition = self.repetition.as_ref().map(|repetition| repetition.due);
        self.due.into_iter().chain(repetition).min()
    }

    /// The time has come, or not.
    pub fn handle_timeout(&mut self, run: &mut ScriptRun, now: Instant) {
        self.repeat(run, now);
        if self.is_over() {
            self.due = None;
            return;
        }
        if self.due.is_some_and(|due| due <= now) && !self.is_over() {
            self.due = None;
            let script = Arc::clone(&run.script);
            let step = &script.steps[self.step];
            match &step.kind {
                StepKind::Receive(_) | StepKind::ReceiveCommand { .. } => {
                    run.tallies[self.step].timeouts += 1;
                    match step.on_timeout {
                        // As in SIPp: a call whose wait ends it has failed.
                        Some(label) if label >= script.steps.len() => {
                            self.fail(run, now, ScriptFailure::Timeout)
                        }
                        Some(label) => {
                            self.repetition = None;
                            self.step = label;
                            self.advance(run, now);
                        }
                        None => self.fail(run, now, ScriptFailure::Timeout),
                    }
                }
                _ => {
                    self.next(run, step);
                    self.advance(run, now);
                }
            }
        }
    }

    fn repeat(&mut self, run: &mut ScriptRun, now: Instant) {
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

    /// A message of the call has come to `server` at a moment, and is looked at now.
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
        // What is lost has never come.
        let lost = place.and_then(|place| run.script.steps.get(place)).map_or(0.0, |step| step.lost);
        if lost > 0.0 && run.draws.chance(lost) {
            return;
        }
        self.note(&message, false);
        // A response to a request ends its repetition, an ACK that of a response.
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

    /// Whether it is a final response that came before with other bytes; its ACK goes out again.
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

    /// What a message says of the session and of its media.
    fn note(&mut self, message: &ReceivedText, is_sent: bool) {
        self.media.learn(&message.text, is_sent);
        ScriptSession::note(&mut self.session, message, is_sent);
        let stands = self.session.as_ref().is_some_and(ScriptSession::is_accepted);
        if stands && !self.has_media && self.media.remote.contains_key(&MediaKind::Audio) {
            self.has_media = true;
            self.outputs.push_back(ScriptOutput::SessionBegins(Box::new(self.media.clone())));
        }
        if !stands {
            self.end_media();
        }
    }

    fn end_media(&mut self) {
        if std::mem::take(&mut self.has_media) {
            self.outputs.push_back(ScriptOutput::SessionEnds);
        }
    }

    /// A message behind the end of the call.
    fn receive_late(&mut self, run: &ScriptRun, now: Instant, message: &ReceivedText) {
        match message.request() {
            Some(("ACK", _)) => {}
            Some(("BYE" | "CANCEL", _)) => self.reply(message, "200 OK"),
            Some(_) if message.tag_of("To").is_some() => {
                self.reply(message, "481 Call/Transaction Does Not Exist");
            }
            // What begins something new is not this call's.
            Some(_) => {}
            None => {
                self.know(message, None);
                self.end_session(run, now);
            }
        }
    }

    /// A message of another process of the test has come.
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

    /// A connection of the call has ended, or could not be opened. One that only waits for repetitions has succeeded.
    pub fn disconnected(&mut self, run: &ScriptRun, now: Instant, why: String) {
        if self.is_waiting_for_repetitions(run) {
            self.end(ScriptOutcome::Succeeded);
        } else if !self.is_over() {
            self.fail(run, now, ScriptFailure::Disconnected(why));
        }
    }

    /// Whether it waits for nothing but messages that come again.
    pub fn is_waiting_for_repetitions(&self, run: &ScriptRun) -> bool {
        let step = run.script.steps.get(self.step);
        !self.is_over() && step.is_some_and(|step| matches!(step.kind, StepKind::TimeWait(_)))
    }

    /// Ends the call before its time. One that only waits for repetitions has succeeded.
    pub fn stop(&mut self, run: &ScriptRun, now: Instant) {
        if self.is_waiting_for_repetitions(run) {
            self.end(ScriptOutcome::Succeeded);
        } else if !self.is_over() {
            self.fail(run, now, ScriptFailure::Stopped);
        }
    }

    /// The step that awaits a message: from this one on over optional ones, then optional ones before it.
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
        // As in SIPp: who goes on has had the response, also without an ACK.
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
            // The call waits on where it was: another optional message of that place may come as well.
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

    /// The wait begins anew behind an optional message: as long as the next step says that has a time of its own.
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

    /// What a message tells for later ones.
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

    fn know(&mut self, message: &ReceivedText, step: Option<usize>) {
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
            // A provisional response that no step names does no harm (RFC 3261 section 13.2.2.1).
            None if message.status() == Some(100) => self.know(&message, None),
            None => {
                self.know(&message, None);
                self.fail(run, now, ScriptFailure::Unexpected(first));
            }
        }
    }

    /// A response that the script does not have.
    fn reply(&mut self, message: &ReceivedText, line: &str) {
        let names = ["Via", "From", "To", "Call-ID", "CSeq"];
        let fields: String =
            names.iter().flat_map(|name| message.lines_of(name)).map(|line| format!("{line}\r\n")).collect();
        let bytes = Bytes::from(format!("SIP/2.0 {line}\r\n{fields}Content-Length: 0\r\n\r\n"));
        self.know(message, None);
        self.answered_by(&bytes, None);
        self.outputs.push_back(ScriptOutput::Send(bytes));
    }

    /// What is sent answers the last message: it is sent again if that comes again.
    fn answered_by(&mut self, bytes: &Bytes, step: Option<usize>) {
        if let Some(known) = self.known.back_mut() {
            (known.answer, known.answered_by) = (Some(bytes.clone()), step);
        }
    }

    /// Times and counters of a step.
    fn book(&mut self, run: &mut ScriptRun, step: &ScriptStep, now: Instant) {
        if let Some(counter) = step.counter.and_then(|counter| run.counters.get_mut(counter)) {
            *counter += 1;
        }
        if let Some(name) = step.ends
            && let began = self.began.get(&name).copied().unwrap_or(self.began_at)
            && (step.ends_again || !self.ended.contains(&name))
        {
            self.outputs.push_back(ScriptOutput::ResponseTime {
                name,
                took: self.arrived.unwrap_or(now).since(began),
            });
            self.ended.push(name);
        }
        for name in &step.starts {
            self.began.insert(*name, now);
            self.ended.retain(|ended| ended != name);
        }
    }

    fn fail(&mut self, run: &ScriptRun, now: Instant, why: ScriptFailure) {
        self.end(ScriptOutcome::Failed { step: self.step, why });
        self.end_session(run, now);
    }

    /// Ends what a call that has failed has begun.
    fn end_session(&mut self, run: &ScriptRun, now: Instant) {
        let settings = &run.settings;
        let has_failed = matches!(self.outcome, Some(ScriptOutcome::Failed { .. }));
        let Some(session) = self.session.as_mut().filter(|_| settings.ends_sessions && has_failed) else {
            return;
        };
        let (transport, local, number) = (settings.transport.name(), settings.local, self.number);
        let via =
            format!("SIP/2.0/{transport} {local};branch={MAGIC_COOKIE}-{}-{number}-end", settings.run_number);
        let ended = session.end(&via);
        if let (Some(response), Some(acknowledgement)) = (ended.acknowledged, ended.messages.first()) {
            self.know(&response, None);
            self.answered_by(acknowledgement, None);
            // Of two entries the older one would be found.
            let hash = hash_of(&response.text);
            self.known.retain(|known| known.hash != hash || known.answer.is_some());
        }
        let last = ended.messages.last().filter(|_| settings.transport == Transport::Udp);
        self.repetition = last.and_then(|bytes| {
            let method = ["BYE", "CANCEL"].into_iter().find(|method| bytes.starts_with(method.as_bytes()))?;
            Some(Repetition::new(bytes.clone(), usize::MAX, method.to_owned(), FIRST_PAUSE, now))
        });
        self.outputs.extend(ended.messages.into_iter().map(ScriptOutput::Send));
    }

    fn end(&mut self, outcome: ScriptOutcome) {
        if self.outcome.is_none() {
            self.outcome = Some(outcome);
        }
        (self.due, self.repetition) = (None, None);
        self.end_media();
    }

    /// The step behind one, by its branch.
    fn next(&mut self, run: &mut ScriptRun, step: &ScriptStep) {
        self.step += 1;
        if let Some(to) = self.jump.take() {
            self.step = to;
            return;
        }
        if let Some(branch) = step.branch {
            let is_set = branch.test.is_none_or(|variable| self.values.get(variable).is_set());
            if is_set && (branch.chance >= 1.0 || run.draws.chance(branch.chance)) {
                self.step = branch.to;
            }
        }
    }

    /// Carries steps out until one waits.
    fn advance(&mut self, run: &mut ScriptRun, now: Instant) {
        for _ in 0..MOST_STEPS_AT_ONCE {
            if self.is_over() {
                return;
            }
            let script = Arc::clone(&run.script);
            let Some(step) = script.steps.get(self.step) else {
                return self.end(ScriptOutcome::Succeeded);
            };
            let is_carried_out = step
                .condition
                .is_none_or(|condition| self.values.get(condition.variable).is_set() != condition.is_inverse);
            if !is_carried_out {
                self.step += 1;
                continue;
            }
            match &step.kind {
                StepKind::Receive(receive) => {
                    let patience = receive.timeout.or(run.settings.patience);
                    self.due = patience.map(|patience| now + patience);
                    return;
                }
                StepKind::ReceiveCommand { .. } => {
                    self.due = run.settings.patience.map(|patience| now + patience);
                    return;
                }
                StepKind::Pause(_) | StepKind::TimeWait(_) if self.pause_ends.is_some() => {
                    self.due = self.pause_ends.take();
                    return;
                }
                StepKind::Pause(pause) | StepKind::TimeWait(pause) => {
                    run.tallies[self.step].done += 1;
                    self.book(run, step, now);
                    if !self.act(run, now, step) {
                        return;
                    }
                    let time = self.pause(run, pause);
                    self.due = Some(now + time);
                    return;
                }
                StepKind::Nothing => {
                    run.tallies[self.step].done += 1;
                    self.book(run, step, now);
                    if !self.act(run, now, step) {
                        return;
                    }
                    self.next(run, step);
                }
                StepKind::Send(send) => {
                    if let Err(why) = self.send(run, now, step, send) {
                        return self.fail(run, now, ScriptFailure::Script(why));
                    }
                    self.book(run, step, now);
                    // Actions of a message that is sent are about it.
                    let goes_on = self.act(run, now, step);
                    self.sent = None;
                    if !goes_on {
                        return;
                    }
                    self.next(run, step);
                }
                StepKind::SendCommand { to, message } => match self.text(run, message, now, false) {
                    Ok(text) => {
                        run.tallies[self.step].done += 1;
                        self.book(run, step, now);
                        self.outputs.push_back(ScriptOutput::SendCommand { to: to.clone(), text });
                        self.next(run, step);
                    }
                    Err(why) => return self.fail(run, now, ScriptFailure::Script(why)),
                },
            }
        }
        self.fail(
            run,
            now,
            ScriptFailure::Script("the scenario goes on without end, and never waits".to_owned()),
        );
    }

    fn pause(&self, run: &mut ScriptRun, pause: &ScriptPause) -> Duration {
        let milliseconds = match pause {
            ScriptPause::Default => return run.settings.pause,
            ScriptPause::Variable(variable) => self.values.get(*variable).to_number(),
            ScriptPause::Drawn(distribution) => drawn(*distribution, run),
        };
        let seconds = if milliseconds.is_finite() { milliseconds / 1000.0 } else { 0.0 };
        Duration::from_secs_f64(seconds.clamp(0.0, LONGEST_TIME))
    }

    fn send(
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
        // Of requests the ACK only: a 2xx that comes again is acknowledged again.
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

    /// The text of a template.
    fn text(
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
        let call = RenderedCall {
            number: self.number,
            call_id: &self.call_id,
            cseq: self.cseq,
            step: self.step,
            branch: &branch,
            last: self.last.as_ref(),
            last_request_uri: &self.last_request_uri,
            server: self.server,
            peer_tag: self.peer_tag.as_deref(),
            routes: &self.routes,
            next_url: &self.next_url,
            lines: &self.lines,
            user: self.user,
            values: &self.values,
            now,
            began_ns: self.began_ns,
        };
        let text = render(template, &call, run, is_message.then_some(&mut digest));
        self.digest = digest;
        text
    }
}

/// The branch of a step of a call.
fn branch(run: &ScriptRun, number: u64, step: i64) -> String {
    format!("{MAGIC_COOKIE}-{}-{number}-{step}", run.settings.run_number)
}

/// Values of a header field in the other order.
fn reversed(value: &str) -> String {
    let mut values: Vec<&str> = value.split(',').map(str::trim).collect();
    values.reverse();
    values.join(", ")
}
