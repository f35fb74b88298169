//! Transactions and the dialog of a manual client.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use netrig_core::{Duration, Endpoint as _, Instant, Stream};

use super::draft::{Draft, ManualClientConfig, RequestIdentity};
use super::step::Step;
use crate::dialog::{Dialog, DialogState, Invitation, InvitationEvent};
use crate::digest::{ChallengeError, DigestChallenge, DigestClient, NonceCounts, ServerProof};
use crate::transaction::{ClientKey, ClientTransaction, InviteClientTransaction, Timer, TransactionEvent};
use crate::{Message, Method, Name, ParseError, Request, Response, Status, Violation};

/// The most requests that wait for a response or its retransmission.
const MOST: usize = 64;

/// A user agent client whose requests a person sends.
#[derive(Debug)]
pub struct ManualClient {
    pub(super) party: ManualClientConfig,
    pub(super) random: Stream,
    pub(super) identities: BTreeMap<Step, RequestIdentity>,
    pub(super) digest: DigestClient,
    /// Why the last challenge cannot be answered.
    refusal: Option<ChallengeError>,
    pub(super) nonces: NonceCounts,
    /// The last request that was composed with credentials.
    pub(super) proving: Option<ClientKey>,
    open: Vec<OpenRequest>,
    invitation: Option<Invitation>,
    /// Remote tag of the dialog of the call.
    tag: Option<String>,
    /// The ACK that the person may send.
    due: Option<Request>,
    /// Sent ACKs, by remote tag and `CSeq`. Each is sent again for a retransmission of its 2xx.
    acknowledged: BTreeMap<(String, u32), Bytes>,
    /// The dialog before the last BYE, in case the BYE is challenged.
    before_bye: Option<Dialog>,
    events: VecDeque<ManualClientEvent>,
}

/// A request that was sent.
#[derive(Debug)]
struct OpenRequest {
    step: Step,
    key: Option<ClientKey>,
    request: Request,
    /// The sent bytes, valid or not.
    bytes: Bytes,
    since: Instant,
    machine: RequestTransaction,
    /// Number of transmissions.
    sent: u32,
    /// Whether retransmissions are suppressed.
    is_silent: bool,
    is_answered: bool,
    is_over: bool,
}

#[derive(Debug)]
enum RequestTransaction {
    Invite(InviteClientTransaction),
    Other(ClientTransaction),
}

/// Why a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendReason {
    /// The person sends the request.
    Person,
    /// A retransmission: timer A or E expired, or the message that it answers was retransmitted.
    Again,
    /// An ACK of a final response other than 2xx, or a response to a request of the other side.
    Itself,
}

/// An event of a manual client.
#[derive(Clone, Debug)]
pub enum ManualClientEvent {
    /// A message to be sent.
    Send {
        /// The bytes of the message.
        bytes: Bytes,
        /// The kind of request. `None` for an automatic message.
        step: Option<Step>,
        /// Why it is sent.
        why: SendReason,
    },
    /// A message was received.
    Received(Box<ReceivedMessage>),
    /// A request has timed out.
    TimedOut {
        /// The kind of request.
        step: Step,
        /// Timer B or F.
        timer: Timer,
    },
}

/// A received message.
#[derive(Clone, Debug)]
pub struct ReceivedMessage {
    /// The bytes of the message.
    pub bytes: Bytes,
    /// The result of the strict parser.
    pub message: Result<Message, ParseError>,
    /// The broken rules.
    pub violations: Vec<Violation>,
    /// The kind of request that it answers, and the time since the first transmission of that request.
    pub answers: Option<(Step, Duration)>,
    /// Whether it is a retransmission.
    pub is_again: bool,
}

impl ReceivedMessage {
    /// The status of a response.
    pub fn status(&self) -> Option<Status> {
        self.message.as_ref().ok()?.as_response().map(|response| response.status)
    }
}

impl ManualClient {
    /// A client that has sent nothing. `random` supplies all random texts.
    pub fn new(party: ManualClientConfig, random: Stream) -> Self {
        Self {
            party,
            random,
            identities: BTreeMap::new(),
            digest: DigestClient::default(),
            refusal: None,
            nonces: NonceCounts::default(),
            proving: None,
            open: Vec::new(),
            invitation: None,
            tag: None,
            due: None,
            acknowledged: BTreeMap::new(),
            before_bye: None,
            events: VecDeque::new(),
        }
    }

    /// The requests that the rules permit now.
    pub fn choices(&self) -> Vec<Step> {
        let dialog = self.dialog().map(Dialog::state);
        let is_open = |step| self.open.iter().any(|open| open.step == step && !open.is_answered);
        let is_free = |step: &Step| match step {
            Step::Register | Step::Options | Step::Message => true,
            Step::Invite => {
                !is_open(Step::Invite) && dialog.is_none_or(|state| state == DialogState::Terminated)
            }
            Step::Ack => self.due.is_some(),
            Step::Cancel => self.cancelled().is_some(),
            Step::ReInvite => dialog == Some(DialogState::Confirmed) && !is_open(Step::ReInvite),
            Step::Bye => dialog == Some(DialogState::Confirmed),
        };
        Step::ALL.into_iter().filter(is_free).collect()
    }

    /// The dialog of the call.
    pub(super) fn dialog(&self) -> Option<&Dialog> {
        let tag = self.tag.as_ref()?;
        self.invitation.as_ref()?.dialogs().find(|dialog| dialog.id().remote_tag == *tag)
    }

    fn dialog_mut(&mut self) -> Option<&mut Dialog> {
        self.invitation.as_mut()?.dialog(self.tag.as_ref()?)
    }

    /// The ACK that is due.
    pub(super) fn acknowledgement(&self) -> Result<Request, Violation> {
        let none = || Violation::new("RFC 3261 section 13.2.2.4", "there is no 2xx to be acknowledged");
        self.due.clone().ok_or_else(none)
    }

    fn cancelled(&self) -> Option<&InviteClientTransaction> {
        self.open.iter().rev().find_map(|open| match &open.machine {
            RequestTransaction::Invite(invite) if invite.can_be_cancelled() => Some(invite),
            _ => None,
        })
    }

    pub(super) fn cancellation(&self) -> Result<Request, Violation> {
        let none =
            || Violation::new("RFC 3261 section 9.1", "there is no INVITE with only provisional responses");
        self.cancelled().map(InviteClientTransaction::cancellation).ok_or_else(none)
    }

    /// Sends these bytes for a draft. They may differ from the draft. If they can be parsed as a request of the same
    /// method, the transaction belongs to the parsed request.
    pub fn send(&mut self, now: Instant, draft: Draft, bytes: Bytes) {
        let Draft { step, request, dialog } = draft;
        let request = match Message::parse(&bytes) {
            Ok(Message::Request(changed)) if changed.method == request.method => changed,
            _ => request,
        };
        if step == Step::Ack {
            self.due = None;
            self.acknowledged.insert(place(&request), bytes.clone());
            self.events.push_back(ManualClientEvent::Send {
                bytes,
                step: Some(step),
                why: SendReason::Person,
            });
            return;
        }
        if let Some(dialog) = dialog {
            let before = self.dialog_mut().map(|own| std::mem::replace(own, dialog));
            if step == Step::Bye {
                self.before_bye = before;
            }
        }
        self.remember(step, &request);
        let (reliable, timing) = (self.party.transport.is_reliable(), self.party.timing);
        let machine = if request.method == Method::Invite {
            RequestTransaction::Invite(InviteClientTransaction::new(now, request.clone(), reliable, timing))
        } else {
            RequestTransaction::Other(ClientTransaction::new(now, request.clone(), reliable, timing))
        };
        if step == Step::Invite {
            (self.invitation, self.tag, self.due) =
                (Some(Invitation::new(request.clone(), timing)), None, None);
        }
        let key = ClientKey::of_answers_to(&request).ok().flatten();
        if self.open.len() == MOST {
            self.open.remove(0);
        }
        self.open.push(OpenRequest {
            step,
            key,
            request,
            bytes,
            since: now,
            machine,
            sent: 0,
            is_silent: false,
            is_answered: false,
            is_over: false,
        });
        self.drain(now, self.open.len() - 1);
    }

    /// Remembers the identity that the next request of this kind continues.
    fn remember(&mut self, step: Step, request: &Request) {
        let headers = &request.headers;
        let sequence = headers.cseq().ok().flatten().map_or(0, |cseq| cseq.number);
        let tag = headers.from().ok().flatten().and_then(|from| from.tag().map(str::to_owned));
        let call_id = headers.call_id().ok().flatten().map(str::to_owned);
        let (Some(tag), Some(call_id)) = (tag, call_id) else { return };
        // All registrations of a client have one Call-ID (RFC 3261 section 10.2).
        self.identities
            .insert(step, RequestIdentity { call_id, tag, sequence, goes_on: step == Step::Register });
    }

    /// Handles a received message.
    pub fn handle(&mut self, now: Instant, bytes: &Bytes) {
        let message = Message::parse(bytes);
        let violations = message.as_ref().map(Message::violations).unwrap_or_default();
        let mut came =
            ReceivedMessage { bytes: bytes.clone(), message, violations, answers: None, is_again: false };
        // The event of the message comes before those of the messages that it causes.
        let place = self.events.len();
        match came.message.clone() {
            Ok(Message::Response(response)) => self.response(now, response, &mut came),
            Ok(Message::Request(request)) => return self.request(&request, came),
            Err(_) => {}
        }
        self.events.insert(place, ManualClientEvent::Received(Box::new(came)));
    }

    fn response(&mut self, now: Instant, response: Response, came: &mut ReceivedMessage) {
        let key = ClientKey::of_response(&response).ok().flatten();
        let Some(at) = self.open.iter().position(|open| key.is_some() && open.key == key) else {
            let what = "it answers nothing that was sent";
            came.violations.push(Violation::new("RFC 3261 section 17.1.3", what));
            return;
        };
        let open = &mut self.open[at];
        came.answers = Some((open.step, now - open.since));
        match &mut open.machine {
            RequestTransaction::Invite(machine) => machine.handle_packet(now, response.into()),
            RequestTransaction::Other(machine) => machine.handle_packet(now, response.into()),
        }
        let new = self.drain(now, at);
        came.is_again = new.is_empty();
        for response in new {
            let was_answered = std::mem::replace(&mut self.open[at].is_answered, response.status.is_final());
            came.is_again |= was_answered;
            came.violations.extend(self.proven(at, &response).filter(|_| !was_answered));
            if let Err(violation) = self.answered(now, at, &response, was_answered) {
                came.violations.push(violation);
            }
        }
    }

    /// Notes that the credentials were accepted, and checks the server's proof that it knows the password.
    fn proven(&mut self, at: usize, response: &Response) -> Option<Violation> {
        if matches!(response.status.code(), 100 | 401 | 407) {
            return None;
        }
        self.digest.accepted(response.status.is_final());
        // `rspauth` can be checked only for the request with the last credentials.
        let is_last = self.proving.is_some() && self.open[at].key == self.proving;
        let info = response.headers.authentication_info().ok().flatten().filter(|_| is_last)?;
        let is_wrong = self.digest.informed(&info, &response.body) == ServerProof::Wrong;
        let what = "`rspauth` is not that of a server that knows the password";
        is_wrong.then(|| Violation::new("RFC 7616 section 3.5", what))
    }

    /// Why the last challenge cannot be answered with the credentials. `None` if the next request of its kind answers
    /// it.
    pub const fn refusal(&self) -> Option<&ChallengeError> {
        self.refusal.as_ref()
    }

    /// Handles a response that is new to its transaction, or a 2xx to an INVITE.
    fn answered(
        &mut self,
        now: Instant,
        at: usize,
        response: &Response,
        again: bool,
    ) -> Result<(), Violation> {
        let (step, request) = (self.open[at].step, self.open[at].request.clone());
        if !again && matches!(response.status.code(), 401 | 407) {
            self.challenged(step, response);
        }
        let acknowledgement = match step {
            Step::Invite => {
                let Some(invitation) = &mut self.invitation else { return Ok(()) };
                match invitation.handle_response(now, response)? {
                    InvitationEvent::Early(tag) => {
                        self.tag.get_or_insert(tag);
                        None
                    }
                    InvitationEvent::Accepted(tag, acknowledgement) => {
                        self.tag = Some(tag);
                        Some(*acknowledgement)
                    }
                    InvitationEvent::Trying => None,
                    InvitationEvent::Refused => {
                        self.tag = None;
                        None
                    }
                }
            }
            Step::ReInvite => {
                let Some(dialog) = self.dialog_mut() else { return Ok(()) };
                dialog.handle_response(response);
                response.status.is_success().then(|| dialog.acknowledgement(&request))
            }
            _ => None,
        };
        if let Some(acknowledgement) = acknowledgement {
            match self.acknowledged.get(&place(&acknowledgement)) {
                Some(bytes) => {
                    let bytes = bytes.clone();
                    self.events.push_back(ManualClientEvent::Send {
                        bytes,
                        step: Some(Step::Ack),
                        why: SendReason::Again,
                    });
                }
                None => self.due = Some(acknowledgement),
            }
        }
        Ok(())
    }

    /// Takes challenges, which the next request of this kind answers.
    fn challenged(&mut self, step: Step, response: &Response) {
        let challenges = [Name::WwwAuthenticate, Name::ProxyAuthenticate].into_iter().flat_map(|name| {
            let found = response.headers.all(&name).filter_map(DigestChallenge::of_value);
            found.map(|challenge| (name.clone(), challenge)).collect::<Vec<_>>()
        });
        if let Some((user, password)) = &self.party.credentials {
            self.refusal = self.digest.challenged(challenges.clone(), user, password).err();
            if self.refusal.is_some() {
                // The person decides whether to send the refused credentials once more.
                self.digest = DigestClient::default();
                let _unanswerable = self.digest.challenged(challenges, user, password);
            }
        }
        if let Some(identity) = self.identities.get_mut(&step) {
            identity.goes_on = true;
        }
        // A challenged BYE has not ended the call.
        if let Some(mut before) = self.before_bye.take().filter(|_| step == Step::Bye)
            && let Some(own) = self.dialog_mut()
        {
            // Skips the `CSeq` number that the challenged BYE has used.
            let _ = before.request(Method::Options);
            *own = before;
        }
    }

    /// Answers a request of the other side at once.
    fn request(&mut self, request: &Request, came: ReceivedMessage) {
        self.events.push_back(ManualClientEvent::Received(Box::new(came)));
        let is_of_the_call = self
            .dialog()
            .is_some_and(|dialog| crate::dialog::DialogId::of_request(request).as_ref() == Some(dialog.id()));
        let status = match request.method {
            Method::Ack => return,
            Method::Bye if is_of_the_call => {
                if let Some(dialog) = self.dialog_mut() {
                    dialog.terminate();
                }
                Status::OK
            }
            Method::Bye | Method::Cancel => Status::CALL_DOES_NOT_EXIST,
            Method::Options | Method::Notify | Method::Info | Method::Message => Status::OK,
            Method::Invite => Status::BUSY_HERE,
            _ => Status::NOT_IMPLEMENTED,
        };
        let mut response = request.response(status);
        if let Ok(Some(to)) = response.headers.to()
            && to.tag().is_none()
        {
            // The tag must be the same for retransmissions.
            let tag = request.headers.call_id().ok().flatten().map_or(0, |text| text.len());
            response.headers.set(Name::To, to.with_tag(&format!("manual{tag}")));
        }
        let bytes = Message::from(response).to_bytes();
        self.events.push_back(ManualClientEvent::Send { bytes, step: None, why: SendReason::Itself });
    }

    /// Handles all timers that have expired by `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        for at in 0..self.open.len() {
            match &mut self.open[at].machine {
                RequestTransaction::Invite(machine) => machine.handle_timeout(now),
                RequestTransaction::Other(machine) => machine.handle_timeout(now),
            }
            self.drain(now, at);
        }
        self.open.retain(|open| !open.is_over);
    }

    /// The time at which to call [`ManualClient::handle_timeout`] next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let next = |open: &OpenRequest| match &open.machine {
            RequestTransaction::Invite(machine) => machine.poll_timeout(),
            RequestTransaction::Other(machine) => machine.poll_timeout(),
        };
        self.open.iter().filter_map(next).min()
    }

    /// The next event.
    pub fn poll(&mut self) -> Option<ManualClientEvent> {
        self.events.pop_front()
    }

    /// Stops all retransmissions. Pending requests still wait for their responses.
    pub fn stop_repeating(&mut self) {
        self.open.iter_mut().for_each(|open| open.is_silent = true);
    }

    /// Whether a pending request is retransmitted.
    pub fn repeats(&self) -> bool {
        let is_unreliable = !self.party.transport.is_reliable();
        is_unreliable && self.open.iter().any(|open| !open.is_answered && !open.is_silent)
    }

    /// Whether a request waits for its response.
    pub fn waits(&self) -> bool {
        self.open.iter().any(|open| !open.is_answered && !open.is_over)
    }

    /// Takes the messages and events of a transaction. Returns the responses that are new to it.
    fn drain(&mut self, now: Instant, at: usize) -> Vec<Response> {
        let Self { open, events, .. } = self;
        let OpenRequest { step, request, bytes, machine, sent, is_silent, is_over, .. } = &mut open[at];
        let mut new = Vec::new();
        loop {
            let transmit = match machine {
                RequestTransaction::Invite(machine) => machine.poll_transmit(now),
                RequestTransaction::Other(machine) => machine.poll_transmit(now),
            };
            let Some(message) = transmit else { break };
            let is_own = message.as_request().is_some_and(|own| own.method == request.method);
            let (bytes, step, why) = match (is_own, *sent) {
                (true, 0) => (bytes.clone(), Some(*step), SendReason::Person),
                (true, _) => (bytes.clone(), Some(*step), SendReason::Again),
                (false, _) => (message.to_bytes(), None, SendReason::Itself),
            };
            *sent += u32::from(is_own);
            if !(*is_silent && why == SendReason::Again) {
                events.push_back(ManualClientEvent::Send { bytes, step, why });
            }
        }
        loop {
            let event = match machine {
                RequestTransaction::Invite(machine) => machine.poll_event(),
                RequestTransaction::Other(machine) => machine.poll_event(),
            };
            match event {
                None => return new,
                Some(TransactionEvent::Response(response)) => new.push(response),
                Some(TransactionEvent::TimedOut(timer)) => {
                    events.push_back(ManualClientEvent::TimedOut { step: *step, timer })
                }
                Some(TransactionEvent::Ended) => *is_over = true,
                Some(TransactionEvent::Request(_) | TransactionEvent::TransportFailed) => {}
            }
        }
    }
}

/// Remote tag and `CSeq` of the 2xx of an ACK.
fn place(acknowledgement: &Request) -> (String, u32) {
    let headers = &acknowledgement.headers;
    let tag = headers.to().ok().flatten().and_then(|to| to.tag().map(str::to_owned)).unwrap_or_default();
    (tag, headers.cseq().ok().flatten().map_or(0, |cseq| cseq.number))
}
