//! The exchange of messages between a user (or a script) and the server.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use netrig_core::{Duration, Instant, Seeds};
use netrig_host::HostAddress;
use netrig_sip::Status;
use netrig_sip::manual::{
    Draft, Flaw, ManualClient, ManualClientConfig, ManualClientEvent, MessageChange, Step,
};
use netrig_sip_net::Line;
use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode};

use super::ManualCallError;
use super::message_log::{ManualCallDocument, MessageLog, message_text};
use super::script::{AwaitedResponse, CourseAct};

/// The longest wait for the socket before keys and the interruption are checked.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManualCallEnd {
    /// Every awaited response arrived, and no request timed out.
    Held,
    /// The call failed, with the reason.
    Failed(String),
    /// The user interrupted it.
    Interrupted,
}

/// The responses to the last request.
#[derive(Clone, Debug)]
pub(super) struct LastRequest {
    pub step: Step,
    /// Statuses in order of arrival.
    statuses: Vec<Status>,
    pub timed_out: bool,
}

impl LastRequest {
    fn final_status(&self) -> Option<Status> {
        self.statuses.iter().copied().find(|status| status.is_final())
    }
}

/// The settings of a call, which apply to all its messages.
pub struct ManualCallOrder {
    /// The path to the server.
    pub line: Line,
    /// Changes of all messages.
    pub changes: Vec<MessageChange>,
    /// A deliberate defect of the messages.
    pub flaw: Option<Flaw>,
    /// How long to wait for a response.
    pub patience: Duration,
    /// Seed of tags and branches.
    pub seed: u64,
    /// The output to which messages are written.
    pub output: Box<dyn Write>,
    /// Set when the user interrupts the call.
    pub stop: Arc<AtomicBool>,
}

/// The raw mode of the terminal, which delivers keys one by one until this is dropped.
pub(super) struct RawKeys;

impl RawKeys {
    pub(super) fn begin() -> Result<Self, ManualCallError> {
        enable_raw_mode().map(|()| Self).map_err(ManualCallError::Keys)
    }
}

impl Drop for RawKeys {
    fn drop(&mut self) {
        // If the terminal is gone, nothing can be restored.
        let _ = disable_raw_mode();
    }
}

/// A call, its messages so far, and its state.
pub struct Conversation {
    pub(super) client: ManualClient,
    order: ManualCallOrder,
    log: MessageLog,
    has_credentials: bool,
    pub(super) raw_keys: Option<RawKeys>,
    pub(super) last: Option<LastRequest>,
}

impl Conversation {
    /// A call before its first message.
    pub fn new(party: ManualClientConfig, order: ManualCallOrder) -> Self {
        let has_credentials = party.credentials.is_some();
        let client = ManualClient::new(party, Seeds::new(order.seed).stream("sip/call"));
        Self { client, order, log: MessageLog::default(), has_credentials, raw_keys: None, last: None }
    }

    /// All messages, and how the call ended.
    pub fn document<'a>(&'a self, target: &'a str, end: &'a ManualCallEnd) -> ManualCallDocument<'a> {
        ManualCallDocument {
            target,
            local: HostAddress::text_with_port(self.order.line.local()),
            held: *end == ManualCallEnd::Held,
            why: if let ManualCallEnd::Failed(why) = end { Some(why) } else { None },
            interrupted: *end == ManualCallEnd::Interrupted,
            messages: self.log.messages(),
        }
    }

    /// The bytes of the draft, with the changes of all messages and then with the changes in `more`.
    pub(super) fn changed(&self, draft: &Draft, more: &[MessageChange]) -> Bytes {
        let all = self.order.changes.iter().chain(more).filter(|change| change.is_of(draft.method()));
        let flaw = self.order.flaw.as_ref().filter(|flaw| flaw.is_of(draft.method()));
        let composed = flaw.map_or_else(|| draft.to_bytes(), |flaw| draft.spoiled(flaw.fault));
        all.fold(composed, |bytes, change| change.apply(&bytes))
    }

    /// Sends a draft as these bytes.
    pub(super) fn send(&mut self, draft: Draft, bytes: Bytes) -> Result<(), ManualCallError> {
        let step = draft.step;
        if step != Step::Ack {
            self.last = Some(LastRequest { step, statuses: Vec::new(), timed_out: false });
        }
        self.client.send(self.order.line.now(), draft, bytes);
        self.handle_events()
    }

    /// Waits for messages for at most `within`. Sends due retransmissions and responses.
    pub(super) fn poll(&mut self, within: Duration) -> Result<(), ManualCallError> {
        let now = self.order.line.now();
        let due = self.client.poll_timeout().map_or(within, |at| at - now.min(at));
        for (at, bytes) in self.order.line.receive(within.min(due))? {
            self.client.handle(at, &bytes);
            self.handle_events()?;
        }
        self.client.handle_timeout(self.order.line.now());
        self.handle_events()
    }

    /// Sends and shows the messages of the client.
    fn handle_events(&mut self) -> Result<(), ManualCallError> {
        while let Some(event) = self.client.poll() {
            let now = self.order.line.now();
            let text = match event {
                ManualClientEvent::Send { bytes, step, why } => {
                    self.order.line.send(&bytes)?;
                    self.log.sent(now, &bytes, step, why).text()
                }
                ManualClientEvent::Received(received) => {
                    if let (Some(status), Some((step, _)), Some(last)) =
                        (received.status(), received.answers, &mut self.last)
                        && last.step == step
                    {
                        last.statuses.push(status);
                    }
                    self.log.received(now, &received).text()
                }
                ManualClientEvent::TimedOut { step, timer } => {
                    if let Some(last) = self.last.as_mut().filter(|last| last.step == step) {
                        last.timed_out = true;
                    }
                    format!("{step} was not answered (timer {timer:?}, RFC 3261 section 17.1)")
                }
            };
            self.show(&text)?;
        }
        Ok(())
    }

    /// Writes text to the output. A terminal whose keys are read one by one needs a carriage return before each line.
    pub(super) fn show(&mut self, text: &str) -> Result<(), ManualCallError> {
        let text = text.trim_end();
        let output = &mut self.order.output;
        let written = if self.raw_keys.is_some() {
            writeln!(output, "{}\r", text.replace('\n', "\r\n"))
        } else {
            writeln!(output, "{text}")
        };
        written.map_err(ManualCallError::Output)
    }

    /// Composes a request with these changes and shows it. The inner error says why the request cannot be sent now.
    pub(super) fn draft(
        &mut self,
        step: Step,
        changes: &[MessageChange],
    ) -> Result<Result<(Draft, Bytes), String>, ManualCallError> {
        let draft = match self.client.compose(step) {
            Ok(draft) => draft,
            Err(violation) => return Ok(Err(format!("{step} cannot be sent: {violation}"))),
        };
        let bytes = self.changed(&draft, changes);
        self.show(&message_text(&bytes))?;
        Ok(Ok((draft, bytes)))
    }

    /// Performs a course. The call fails if an awaited response does not arrive.
    ///
    /// # Errors
    /// If the connection ends, or the messages cannot be shown.
    pub fn perform(&mut self, course: &[CourseAct]) -> Result<ManualCallEnd, ManualCallError> {
        let mut sent = None;
        for act in course {
            let end = match act {
                CourseAct::Send(step, changes) => {
                    if *step != Step::Ack {
                        sent = Some((*step, &**changes));
                    }
                    self.compose_and_send(*step, changes)?
                }
                CourseAct::Pause(span) => {
                    let end = self.order.line.now() + *span;
                    self.poll_until(end, |_| true)?
                }
                CourseAct::Wait(awaited) => self.wait(*awaited, sent)?,
            };
            if end != ManualCallEnd::Held {
                return Ok(end);
            }
        }
        // Outstanding messages are received, including a final response that the course does not await.
        let end = self.order.line.now() + self.order.patience;
        self.poll_until(end, ManualClient::waits)
    }

    /// Receives messages until `end`, or until `needs` returns false.
    fn poll_until(
        &mut self,
        end: Instant,
        needs: impl Fn(&ManualClient) -> bool,
    ) -> Result<ManualCallEnd, ManualCallError> {
        while needs(&self.client) && self.order.line.now() < end && !self.is_stopped() {
            let left = end - self.order.line.now().min(end);
            self.poll(left.min(LOOK))?;
        }
        Ok(if self.is_stopped() { ManualCallEnd::Interrupted } else { ManualCallEnd::Held })
    }

    fn compose_and_send(
        &mut self,
        step: Step,
        changes: &[MessageChange],
    ) -> Result<ManualCallEnd, ManualCallError> {
        match self.draft(step, changes)? {
            Ok((draft, bytes)) => self.send(draft, bytes).map(|()| ManualCallEnd::Held),
            Err(why) => Ok(ManualCallEnd::Failed(why)),
        }
    }

    /// Waits for a response. If the response is a challenge and there are credentials, the request is repeated with
    /// credentials for all challenged realms (RFC 3261 section 22.3).
    fn wait(
        &mut self,
        awaited: AwaitedResponse,
        sent: Option<(Step, &[MessageChange])>,
    ) -> Result<ManualCallEnd, ManualCallError> {
        let failed = |why: String| Ok(ManualCallEnd::Failed(why));
        let Some((step, changes)) = sent else {
            return failed("nothing was sent whose response could be waited for".to_owned());
        };
        let mut end = self.order.line.now() + self.order.patience;
        loop {
            let last = self.last.as_ref();
            let answer = last.and_then(LastRequest::final_status);
            let is_awaited = match awaited {
                AwaitedResponse::Final => answer.is_some(),
                AwaitedResponse::Status(status) => last.is_some_and(|last| last.statuses.contains(&status)),
            };
            let is_challenge = answer.is_some_and(|status| matches!(status.code(), 401 | 407));
            let can_answer = self.has_credentials && self.client.refusal().is_none();
            if is_challenge && can_answer && !(is_awaited && awaited != AwaitedResponse::Final) {
                let done = self.compose_and_send(step, changes)?;
                if done != ManualCallEnd::Held {
                    return Ok(done);
                }
                end = self.order.line.now() + self.order.patience;
                continue;
            }
            if is_awaited {
                return Ok(ManualCallEnd::Held);
            }
            if let Some(answer) = answer {
                let cause = match self.client.refusal() {
                    _ if !is_challenge => String::new(),
                    _ if !self.has_credentials => ": no password is given with --password-env".to_owned(),
                    refusal => refusal.map_or(String::new(), |refusal| format!(": {refusal}")),
                };
                return failed(format!("{step} was answered with {answer} {}{cause}", answer.reason()));
            }
            if last.is_some_and(|last| last.timed_out) || self.order.line.now() >= end {
                return failed(format!("{step} was not answered in time"));
            }
            if self.is_stopped() {
                return Ok(ManualCallEnd::Interrupted);
            }
            self.poll(LOOK)?;
        }
    }

    /// Whether the user has interrupted the call.
    pub(super) fn is_stopped(&self) -> bool {
        self.order.stop.load(Ordering::Relaxed)
    }
}
