//! A call that follows a script, without sockets: inputs are messages and times, outputs are messages and events.

mod actions;
mod receiving;
mod repetition;
mod sending;
mod session;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use netrig_core::{Duration, Instant};
use netrig_sip::digest::DigestClient;
use netrig_sip::header::{MAGIC_COOKIE, Transport};

use self::repetition::{FIRST_PAUSE, KnownMessage, Repetition, hash_of};
use self::session::ScriptSession;
use super::action::{MediaKind, ScriptMedia};
use super::distribution::drawn;
use super::received::ReceivedText;
use super::run::ScriptRun;
use super::script::{LONGEST_TIME, MediaEnds, ScriptPause, ScriptStep, StepKind};
use super::values::ScriptValues;

/// The largest number of steps of a call without a wait. A call with more is in a loop, and fails.
const MOST_STEPS_AT_ONCE: usize = 1000;

/// How long a call answers retransmissions after its end.
pub const LINGERS: Duration = Duration::from_secs(32);

/// A request of a call to its driver.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptOutput {
    /// Send a message.
    Send(Bytes),
    /// From now on, send the messages of the call to another destination.
    Destination {
        /// Address or name.
        host: String,
        /// Port.
        port: String,
        /// `udp`, `tcp` or `tls`.
        protocol: String,
    },
    /// Close the connection.
    CloseConnection,
    /// A line for the log.
    Log(String),
    /// A warning.
    Warn(String),
    /// A program to start.
    Command(String),
    /// Play media between these addresses.
    Media(ScriptMedia, Box<MediaEnds>),
    /// Start or stop sending received media back.
    Echo(bool),
    /// The session is established, and both sides have described their media addresses.
    SessionBegins(Box<MediaEnds>),
    /// The session has ended.
    SessionEnds,
    /// Send a message to another process.
    SendCommand {
        /// Name of the process.
        to: Option<String>,
        /// The message.
        text: String,
    },
    /// A response time was measured.
    ResponseTime {
        /// Index of its name.
        name: usize,
        /// The measured time.
        took: Duration,
    },
    /// Start no more calls.
    StopGracefully,
    /// End the run.
    StopNow(Option<String>),
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptOutcome {
    /// The call completed its last step.
    Succeeded,
    /// The call failed.
    Failed {
        /// The current step, from 0.
        step: usize,
        /// The reason.
        why: ScriptFailure,
    },
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptFailure {
    /// An unexpected message arrived, with this first line.
    #[error("{}", unexpected(.0))]
    Unexpected(String),
    /// An unexpected message from another process arrived, with this first line.
    #[error("an unexpected message of another process: {0}")]
    UnexpectedCommand(String),
    /// A connection ended or could not be opened, for this reason.
    #[error("{0}")]
    Disconnected(String),
    /// A message did not arrive in time.
    #[error("no expected message arrived in time")]
    Timeout,
    /// A message was not answered before its retransmissions ended.
    #[error("no answer after all retransmissions")]
    NoAnswer,
    /// A regular expression did not match although it had to, or matched although it had to fail.
    #[error("the regular expression `{0}` did not match as required")]
    Extraction(String),
    /// A test failed.
    #[error("a test of the scenario failed")]
    Test,
    /// The script, or the end of the load, ended the call.
    #[error("it was stopped before its last step")]
    Stopped,
    /// The script cannot be continued.
    #[error("{0}")]
    Script(String),
}

/// An unexpected message with this first line, in words.
fn unexpected(first: &str) -> String {
    match first.strip_prefix("SIP/2.0 ") {
        Some(status) => format!("an unexpected response {}", status.trim_end()),
        None => format!("an unexpected request {}", first.split(' ').next().unwrap_or_default()),
    }
}

/// A call.
#[derive(Debug)]
pub struct ScriptCall {
    /// Number of the call, from 1.
    pub number: u64,
    /// Its Call-ID, without a prefix that ends with `///`.
    pub call_id: String,
    /// Requests to the driver of the call, which removes them.
    pub outputs: VecDeque<ScriptOutput>,
    /// The outcome; `None` until the call ends.
    pub outcome: Option<ScriptOutcome>,
    pub(super) user: Option<usize>,
    pub(super) step: usize,
    pub(super) values: ScriptValues,
    pub(super) lines: BTreeMap<String, usize>,
    pub(super) cseq: u32,
    pub(super) last: Option<ReceivedText>,
    pub(super) last_request_uri: String,
    pub(super) server: SocketAddr,
    pub(super) peer_tag: Option<String>,
    pub(super) routes: Vec<String>,
    pub(super) next_url: String,
    digest: DigestClient,
    repetition: Option<Repetition>,
    known: VecDeque<KnownMessage>,
    session: Option<ScriptSession>,
    media: MediaEnds,
    has_media: bool,
    /// Branches of named transactions, by their index in the script.
    transactions: BTreeMap<usize, String>,
    /// The step to which an action jumps; `None` without a jump.
    jump: Option<usize>,
    /// The end of the step's pause or wait.
    due: Option<Instant>,
    /// The end of the pause to which the call returns.
    pause_ends: Option<Instant>,
    /// The start of the call. Response times whose start no step sets are measured from it.
    began_at: Instant,
    began: BTreeMap<usize, Instant>,
    /// The message that the step has sent, while the actions of the step run.
    sent: Option<ReceivedText>,
    /// Arrival time of the message that is handled.
    arrived: Option<Instant>,
    ended: Vec<usize>,
    /// Start of the run, ns since 1970.
    pub(super) began_ns: u64,
}

impl ScriptCall {
    /// A call before its first step.
    ///
    /// # Errors
    /// If an injection file has fewer lines than there are users.
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

    /// Whether the call has ended.
    pub const fn is_over(&self) -> bool {
        self.outcome.is_some()
    }

    /// Whether the call has already received this message.
    pub fn knows(&self, message: &ReceivedText) -> bool {
        let hash = hash_of(&message.text);
        self.known.iter().any(|known| known.hash == hash)
    }

    /// Frees the memory that an ended call no longer needs. The call still answers retransmissions.
    pub fn settle(&mut self) {
        self.last = None;
        self.values = ScriptValues::new(0);
        self.lines.clear();
        self.known.retain(|known| known.answer.is_some());
        if self.outcome == Some(ScriptOutcome::Succeeded) {
            self.session = None;
        }
    }

    /// Number of the user of the call, from 0.
    pub const fn user(&self) -> Option<usize> {
        self.user
    }

    /// Index of the current step.
    pub const fn step(&self) -> usize {
        self.step
    }

    /// Starts the call with its first step.
    pub fn begin(&mut self, run: &mut ScriptRun, now: Instant) {
        self.began_at = now;
        self.advance(run, now);
    }

    /// The time of the next event of the call.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let repetition = self.repetition.as_ref().map(|repetition| repetition.due);
        self.due.into_iter().chain(repetition).min()
    }

    /// Handles the events that are due.
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
                        // As in SIPp: a call that ends by a time-out has failed.
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

    /// Updates the session and its media addresses from a message.
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

    /// A connection of the call ended or could not be opened. If the call only waits for retransmissions, it has succeeded.
    pub fn disconnected(&mut self, run: &ScriptRun, now: Instant, why: String) {
        if self.is_waiting_for_repetitions(run) {
            self.end(ScriptOutcome::Succeeded);
        } else if !self.is_over() {
            self.fail(run, now, ScriptFailure::Disconnected(why));
        }
    }

    /// Whether the call only waits for retransmissions.
    pub fn is_waiting_for_repetitions(&self, run: &ScriptRun) -> bool {
        let step = run.script.steps.get(self.step);
        !self.is_over() && step.is_some_and(|step| matches!(step.kind, StepKind::TimeWait(_)))
    }

    /// Ends the call early. If it only waits for retransmissions, it has succeeded.
    pub fn stop(&mut self, run: &ScriptRun, now: Instant) {
        if self.is_waiting_for_repetitions(run) {
            self.end(ScriptOutcome::Succeeded);
        } else if !self.is_over() {
            self.fail(run, now, ScriptFailure::Stopped);
        }
    }

    /// Updates the counter and the response times of a step.
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

    /// Ends the session of a failed call.
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
            // An older entry without an answer would be found first, so it is removed.
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

    /// Selects the next step: the target of a jump, the target of the step's branch, or the following step.
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

    /// Runs steps until one waits or the call ends.
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
                    // The actions of the step refer to the message that it has sent.
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
        self.fail(run, now, ScriptFailure::Script("the scenario loops without a wait".to_owned()));
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
}
