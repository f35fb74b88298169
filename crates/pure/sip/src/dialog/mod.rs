//! Dialogs: the shared state of two user agents, and the requests within a dialog (RFC 3261 section 12).
//!
//! Start from [`Dialog::caller`] or [`Dialog::callee`]. If proxies fork an INVITE, it makes several dialogs, which
//! [`Invitation`] keeps. A callee retransmits its 2xx by [`Acceptance`], and its provisional responses by [`ProvisionalSender`]
//! (RFC 3262). [`SessionTimer`] ends a session that is not refreshed (RFC 4028).

mod acceptance;
mod invitation;
mod provisional;
#[cfg(test)]
mod provisional_receiver;
mod session_timer;
#[cfg(test)]
mod tests;

use netrig_core::{Duration, Stream};

pub use acceptance::{Acceptance, AcceptanceOutcome};
pub use invitation::{Invitation, InvitationEvent, MOST_DIALOGS};
pub(crate) use provisional::RELIABLE;
pub use provisional::{MOST_WAITING, ProvisionalSender};
#[cfg(test)]
pub use provisional_receiver::{ProvisionalKind, ProvisionalReceiver};
pub use session_timer::{
    IntervalTooSmall, LEAST_INTERVAL, Refresher, SessionExpires, SessionTimer, TIMER, TimerEvent, TimerGrant,
};

use crate::header::{CSeq, MAGIC_COOKIE, NameAddr};
use crate::{Headers, Method, Name, Request, Response, Scheme, SipUri, Status, Uri, Violation};

/// Initial value of `Max-Forwards` (RFC 3261 section 8.1.1.6).
pub const MAX_FORWARDS: u32 = 70;

/// Identifier of a dialog, as one of its two sides sees it (RFC 3261 section 12).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DialogId {
    /// `Call-ID`, which all dialogs of a call share.
    pub call_id: String,
    /// Tag of this side. Empty means "a value of null".
    pub local_tag: String,
    /// Tag of the other side. Empty means "a value of null".
    pub remote_tag: String,
}

/// State of a dialog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DialogState {
    /// Established by a provisional response.
    Early,
    /// Established by a 2xx.
    Confirmed,
    /// The dialog has ended.
    Terminated,
}

/// A dialog, as one of its two sides sees it.
#[derive(Clone, Debug)]
pub struct Dialog {
    id: DialogId,
    state: DialogState,
    /// This side chose the Call-ID.
    is_caller: bool,
    local: NameAddr,
    remote: NameAddr,
    contact: NameAddr,
    local_sequence: Option<u32>,
    remote_sequence: Option<u32>,
    target: Uri,
    routes: Vec<NameAddr>,
    /// `CSeq` number of this side's INVITE without a final response.
    sent_invite: Option<u32>,
    /// `CSeq` number of the other side's INVITE without a final response.
    received_invite: Option<u32>,
}

/// The refusal of a request, with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRefusal {
    /// Status of the response.
    pub status: Status,
    /// `Retry-After`, in seconds.
    pub retry_after: Option<u32>,
    /// The violated rule.
    pub why: Violation,
}

impl RequestRefusal {
    pub(crate) fn new(
        status: Status,
        rule: &'static str,
        what: impl Into<std::borrow::Cow<'static, str>>,
    ) -> Self {
        Self { status, retry_after: None, why: Violation::new(rule, what) }
    }

    /// Adds a `Retry-After` of "a randomly chosen value of between 0 and 10 seconds".
    pub(crate) fn with_retry_after(self, random: &mut Stream) -> Self {
        Self { retry_after: u32::try_from(random.below(11)).ok(), ..self }
    }

    /// The response. The caller adds the tag of `To`.
    pub fn response(&self, request: &Request) -> Response {
        let mut response = request.response(self.status);
        if let Some(seconds) = self.retry_after {
            response.headers.push(Name::RetryAfter, seconds);
        }
        response
    }
}

impl DialogId {
    /// The identifier of the dialog of a received request: the `To` tag is the local tag. `None` outside a dialog, or
    /// if a field is missing.
    pub fn of_request(request: &Request) -> Option<Self> {
        let (call_id, from, to) = parties(&request.headers)?;
        let local_tag = to.tag()?.to_owned();
        Some(Self { call_id, local_tag, remote_tag: from.tag().unwrap_or_default().to_owned() })
    }
}

fn parties(headers: &Headers) -> Option<(String, NameAddr, NameAddr)> {
    let call_id = headers.call_id().ok()??.to_owned();
    Some((call_id, headers.from().ok()??, headers.to().ok()??))
}

/// The fields that a message needs to make a dialog.
struct DialogParts {
    call_id: String,
    from: NameAddr,
    to: NameAddr,
    sequence: u32,
}

fn parts(headers: &Headers) -> Result<DialogParts, Violation> {
    let missing = |what: &'static str| Violation::new("RFC 3261 section 8.1.1", what);
    let (call_id, from, to) =
        parties(headers).ok_or_else(|| missing("Call-ID, From or To is missing or unreadable"))?;
    let cseq = headers.cseq().ok().flatten().ok_or_else(|| missing("CSeq is missing or unreadable"))?;
    Ok(DialogParts { call_id, from, to, sequence: cseq.number })
}

/// The only `Contact` of a message that makes a dialog or refreshes its target.
fn contact(headers: &Headers) -> Result<NameAddr, Violation> {
    let contacts = headers.addresses(&Name::Contact).unwrap_or_default();
    match <[NameAddr; 1]>::try_from(contacts) {
        Ok([contact]) => Ok(contact),
        Err(_) => Err(Violation::new("RFC 3261 section 12.1", "there is not exactly one Contact")),
    }
}

/// The remote target of a callee: the caller's `Contact`. An INVITE of RFC 2543, recognised by its branch, may have none: then
/// the target is its `From` (RFC 2543 section 6.13).
fn target_of(invite: &Request) -> Result<Uri, Violation> {
    let headers = &invite.headers;
    let branch = headers.top_via().ok().flatten().and_then(|via| via.branch().map(str::to_owned));
    let is_rfc_3261 = branch.is_some_and(|branch| branch.starts_with(MAGIC_COOKIE));
    match headers.from() {
        Ok(Some(from)) if !is_rfc_3261 && headers.get(&Name::Contact).is_none() => Ok(from.uri),
        _ => contact(headers).map(|contact| contact.uri),
    }
}

fn record_routes(headers: &Headers) -> Result<Vec<NameAddr>, Violation> {
    let routes = headers.addresses(&Name::RecordRoute);
    routes.map_err(|error| Violation::new("RFC 3261 section 20.30", format!("Record-Route: {error}")))
}

/// "If the request that initiated the dialog contained a SIPS URI in the Request-URI or in the top Record-Route header field
/// value, if there was any, or the Contact header field if there was no Record-Route header field, the Contact header field in
/// the response MUST be a SIPS URI" (RFC 3261 section 12.1.1).
pub(crate) fn needs_sips(request: &Request) -> bool {
    let routes = record_routes(&request.headers).unwrap_or_default();
    let last = routes.into_iter().next().or_else(|| contact(&request.headers).ok());
    is_sips(&request.uri) || last.is_some_and(|last| is_sips(&last.uri))
}

fn state_of(status: Status) -> DialogState {
    if status.is_success() { DialogState::Confirmed } else { DialogState::Early }
}

impl Dialog {
    /// The dialog of the side that sent `request` and received `response`, a 2xx or a provisional response with a tag.
    ///
    /// # Errors
    /// A message lacks a required field.
    pub fn caller(request: &Request, response: &Response) -> Result<Self, Violation> {
        let DialogParts { call_id, from, sequence, .. } = parts(&request.headers)?;
        let remote = parts(&response.headers)?.to;
        // "The route set MUST be set to the list of URIs in the Record-Route header field from the response, taken in reverse
        // order and preserving all URI parameters" (RFC 3261 section 12.1.2).
        let mut routes = record_routes(&response.headers)?;
        routes.reverse();
        let is_open = request.method == Method::Invite && !response.status.is_final();
        Ok(Self {
            id: DialogId {
                call_id,
                local_tag: from.tag().unwrap_or_default().to_owned(),
                remote_tag: remote.tag().unwrap_or_default().to_owned(),
            },
            state: state_of(response.status),
            is_caller: true,
            local: from,
            remote,
            contact: contact(&request.headers)?,
            local_sequence: Some(sequence),
            // "The remote sequence number MUST be empty".
            remote_sequence: None,
            target: contact(&response.headers)?.uri,
            routes,
            sent_invite: is_open.then_some(sequence),
            received_invite: None,
        })
    }

    /// The dialog of the side that received `request` and sends `response`, a 2xx or a provisional response with its tag and
    /// `Contact`.
    ///
    /// # Errors
    /// A message lacks a required field, or the `Contact` must be a SIPS URI and is not.
    pub fn callee(request: &Request, response: &Response) -> Result<Self, Violation> {
        let DialogParts { call_id, from, sequence, .. } = parts(&request.headers)?;
        let (local, own_contact) = (parts(&response.headers)?.to, contact(&response.headers)?);
        if local.tag().is_none() {
            return Err(Violation::new("RFC 3261 section 12.1.1", "To of the response has no tag"));
        }
        // "taken in order and preserving all URI parameters" (RFC 3261 section 12.1.1).
        let routes = record_routes(&request.headers)?;
        let target = target_of(request)?;
        if needs_sips(request) && !is_sips(&own_contact.uri) {
            return Err(Violation::new(
                "RFC 3261 section 12.1.1",
                "Contact of the response is not a SIPS URI",
            ));
        }
        let is_open = request.method == Method::Invite && !response.status.is_final();
        Ok(Self {
            id: DialogId {
                call_id,
                local_tag: local.tag().unwrap_or_default().to_owned(),
                remote_tag: from.tag().unwrap_or_default().to_owned(),
            },
            state: state_of(response.status),
            is_caller: false,
            local,
            remote: from,
            contact: own_contact,
            // "The local sequence number MUST be empty."
            local_sequence: None,
            remote_sequence: Some(sequence),
            target,
            routes,
            sent_invite: None,
            received_invite: is_open.then_some(sequence),
        })
    }

    /// The identifier of the dialog.
    pub const fn id(&self) -> &DialogId {
        &self.id
    }

    /// The state of the dialog.
    pub const fn state(&self) -> DialogState {
        self.state
    }

    /// The remote target.
    pub const fn target(&self) -> &Uri {
        &self.target
    }

    /// Ends the dialog, because a BYE was sent or received.
    pub fn terminate(&mut self) {
        self.state = DialogState::Terminated;
    }

    /// Confirms the dialog, because this side sends the 2xx to the request that made it.
    pub fn accepted(&mut self) {
        self.received_invite = None;
        self.state = DialogState::Confirmed;
    }

    /// The next request within the dialog, without `Via` and body. [`Dialog::acknowledgement`] makes an ACK. The
    /// transaction of the INVITE makes a CANCEL.
    ///
    /// # Errors
    /// RFC 3261 section 14.1 or 15 forbids the request now.
    pub fn request(&mut self, method: Method) -> Result<Request, Violation> {
        if self.state == DialogState::Terminated {
            return Err(Violation::new("RFC 3261 section 12.3", "the dialog has ended"));
        }
        // "a UAC MUST NOT initiate a new INVITE transaction within a dialog while another INVITE transaction is in progress in
        // either direction."
        if method == Method::Invite && (self.sent_invite.is_some() || self.received_invite.is_some()) {
            return Err(Violation::new("RFC 3261 section 14.1", "another INVITE is in progress"));
        }
        // "the callee's UA MAY send a BYE on confirmed dialogs, but MUST NOT send a BYE on early dialogs".
        if method == Method::Bye && self.state == DialogState::Early && !self.is_caller {
            return Err(Violation::new(
                "RFC 3261 section 15",
                "a callee must not end an early dialog by BYE",
            ));
        }
        // "if the local sequence number is not empty, the value of the local sequence number MUST be incremented by one".
        let sequence = self.local_sequence.map_or(1, |last| last + 1);
        self.local_sequence = Some(sequence);
        if method == Method::Invite {
            self.sent_invite = Some(sequence);
        }
        if method == Method::Bye {
            self.state = DialogState::Terminated;
        }
        let mut request = self.within(method.clone(), sequence);
        if is_target_refresh(&method) {
            request.headers.push(Name::Contact, &self.contact);
        }
        Ok(request)
    }

    /// The ACK for the 2xx to `invite`, with the same number and credentials (RFC 3261 section 13.2.2.4), without `Via` and
    /// body. It has no transaction: it is sent again for each 2xx that is received.
    pub fn acknowledgement(&self, invite: &Request) -> Request {
        let number = invite.headers.cseq().ok().flatten().map_or(0, |cseq| cseq.number);
        let mut request = self.within(Method::Ack, number);
        // "The ACK MUST contain the same credentials as the INVITE."
        for name in [Name::Authorization, Name::ProxyAuthorization] {
            for value in invite.headers.all(&name) {
                request.headers.push(name.clone(), value);
            }
        }
        request
    }

    /// A request within the dialog (RFC 3261 section 12.2.1.1).
    fn within(&self, method: Method, number: u32) -> Request {
        let is_loose = |route: &NameAddr| route.uri.as_sip().is_some_and(SipUri::is_loose);
        let (uri, routes) = match self.routes.split_first() {
            None => (self.target.clone(), Vec::new()),
            Some((first, _)) if is_loose(first) => (self.target.clone(), self.routes.clone()),
            // "the UAC MUST place the first URI from the route set into the Request-URI, stripping any parameters that are not
            // allowed in a Request-URI. The UAC MUST add a Route header field containing the remainder of the route set ...
            // The UAC MUST then place the remote target URI into the Route header field as the last value."
            Some((first, rest)) => {
                let mut routes = rest.to_vec();
                routes.push(NameAddr::new(self.target.clone()));
                (allowed_in_request(first.uri.clone()), routes)
            }
        };
        let mut request = Request::new(method.clone(), uri);
        let headers = &mut request.headers;
        headers.push(Name::MaxForwards, MAX_FORWARDS);
        for route in routes {
            headers.push(Name::Route, route);
        }
        headers.push(Name::From, &self.local);
        headers.push(Name::To, &self.remote);
        headers.push(Name::CallId, &self.id.call_id);
        headers.push(Name::CSeq, CSeq { number, method });
        request
    }

    /// Handles a request of the other side with this dialog's [`DialogId`].
    ///
    /// # Errors
    /// The dialog refuses the request and is unchanged. `Retry-After` is drawn from `random`.
    pub fn handle_request(&mut self, request: &Request, random: &mut Stream) -> Result<(), RequestRefusal> {
        let broken = |why: Violation| RequestRefusal { status: Status::BAD_REQUEST, retry_after: None, why };
        let DialogParts { sequence, .. } = parts(&request.headers).map_err(broken)?;
        if matches!(request.method, Method::Ack | Method::Cancel) {
            // ACK and CANCEL have the `CSeq` number of their INVITE.
            return Ok(());
        }
        if self.state == DialogState::Terminated {
            return Err(RequestRefusal::new(
                Status::CALL_DOES_NOT_EXIST,
                "RFC 3261 section 12.2.2",
                "the dialog has ended",
            ));
        }
        // "the sequence number of the request is lower than the remote sequence number, the request is out of order and MUST be
        // rejected with a 500". The same number in another transaction is refused too.
        if let Some(last) = self.remote_sequence.filter(|last| sequence <= *last) {
            let what = format!("CSeq {sequence} comes after {last}");
            return Err(RequestRefusal::new(Status::SERVER_INTERNAL_ERROR, "RFC 3261 section 12.2.2", what));
        }
        if request.method == Method::Invite {
            self.refuse_overlapping_invite(random)?;
            self.received_invite = Some(sequence);
        }
        self.remote_sequence = Some(sequence);
        // "When a UAS receives a target refresh request, it MUST replace the dialog's remote target URI with the URI from the
        // Contact header field in that request, if present."
        if is_target_refresh(&request.method)
            && let Ok(contact) = contact(&request.headers)
        {
            self.target = contact.uri;
        }
        if request.method == Method::Bye {
            self.state = DialogState::Terminated;
        }
        Ok(())
    }

    fn refuse_overlapping_invite(&self, random: &mut Stream) -> Result<(), RequestRefusal> {
        // "A UAS that receives an INVITE on a dialog while an INVITE it had sent on that dialog is in progress MUST return a 491
        // (Request Pending) response".
        if self.sent_invite.is_some() {
            let what = "an INVITE of this side is in progress";
            return Err(RequestRefusal::new(Status::REQUEST_PENDING, "RFC 3261 section 14.2", what));
        }
        // "A UAS that receives a second INVITE before it sends the final response to a first INVITE with a lower CSeq sequence
        // number on the same dialog MUST return a 500 ... and MUST include a Retry-After header field with a randomly chosen
        // value of between 0 and 10 seconds."
        if self.received_invite.is_some() {
            let what = "an earlier INVITE has no final response";
            let refusal = RequestRefusal::new(Status::SERVER_INTERNAL_ERROR, "RFC 3261 section 14.2", what);
            return Err(refusal.with_retry_after(random));
        }
        Ok(())
    }

    /// Records that this side has sent the final response to a request.
    pub fn answered(&mut self, request: &Request) {
        if request.method == Method::Invite {
            self.received_invite = None;
        }
    }

    /// Handles a response to a request of this side. The caller passes a timeout as a 408 response and a transport
    /// failure as a 503 response (RFC 3261 section 8.1.3.1).
    pub fn handle_response(&mut self, response: &Response) {
        let Ok(Some(CSeq { number, method })) = response.headers.cseq() else { return };
        if method == Method::Invite && response.status.is_final() && self.sent_invite == Some(number) {
            self.sent_invite = None;
        }
        // "When a UAC receives a 2xx response to a target refresh request, it MUST replace the dialog's remote target URI with
        // the URI from the Contact header field in that response, if present."
        if response.status.is_success()
            && is_target_refresh(&method)
            && let Ok(contact) = contact(&response.headers)
        {
            self.target = contact.uri;
        }
        // "If the response for a request within a dialog is a 481 ... or a 408 ..., the UAC SHOULD terminate the dialog."
        if matches!(response.status, Status::CALL_DOES_NOT_EXIST | Status::REQUEST_TIMEOUT) {
            self.state = DialogState::Terminated;
        }
    }

    /// Handles a 2xx to the INVITE that made the dialog: "the dialog MUST be transitioned to the "confirmed" state, and the
    /// route set for the dialog MUST be recomputed based on the 2xx response" (RFC 3261 section 13.2.2.4).
    fn confirm(&mut self, response: &Response) -> Result<(), Violation> {
        if self.state == DialogState::Early {
            let mut routes = record_routes(&response.headers)?;
            routes.reverse();
            self.routes = routes;
            self.state = DialogState::Confirmed;
        }
        self.handle_response(response);
        Ok(())
    }

    /// The pause before an INVITE that got 491 is sent again (RFC 3261 section 14.1).
    pub fn pause_after_glare(&self, random: &mut Stream) -> Duration {
        let tens = if self.is_caller {
            // "If the UAC is the owner of the Call-ID of the dialog ID ..., T has a randomly chosen value between 2.1 and 4
            // seconds in units of 10 ms."
            210 + random.below(191)
        } else {
            // "If the UAC is not the owner ..., T has a randomly chosen value of between 0 and 2 seconds in units of 10 ms."
            random.below(201)
        };
        Duration::from_millis(10 * tens)
    }
}

/// True for INVITE (RFC 3261 section 12.2), UPDATE (RFC 3311 section 5.1), SUBSCRIBE and NOTIFY (RFC 6665 section 4.4.1).
const fn is_target_refresh(method: &Method) -> bool {
    matches!(method, Method::Invite | Method::Update | Method::Subscribe | Method::Notify)
}

pub(crate) fn is_sips(uri: &Uri) -> bool {
    uri.as_sip().is_some_and(|uri| uri.scheme == Scheme::Sips)
}

/// Removes the components that a Request-URI must not have: header fields and `method` (RFC 3261 section 19.1.1, table 1).
pub(crate) fn allowed_in_request(mut uri: Uri) -> Uri {
    if let Uri::Sip(uri) = &mut uri {
        uri.headers.clear();
        uri.parameters.remove("method");
    }
    uri
}
