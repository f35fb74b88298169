//! The messages of a test case: sent and received ones, and their relation.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::ops::Range;

use bytes::Bytes;
use netrig_core::Instant;
use netrig_sip::header::{CSeq, Transport};
use netrig_sip::{Headers, Message, Method, Name, Request, Response, Status};
use netrig_sip_net::ArrivalPath;

use super::outcome::{PurposeOutcome, ensured};
use super::target::TestAgent;

/// A message that a user agent received.
#[derive(Clone, Debug)]
pub struct ArrivedMessage {
    /// The time since the start of the case.
    pub at: Instant,
    /// The sender, and where a response goes.
    pub path: ArrivalPath,
    /// The bytes.
    pub bytes: Bytes,
    /// The message, unless it breaks the grammar.
    pub message: Option<Message>,
}

impl ArrivedMessage {
    /// The message, if it is a response.
    pub fn response(&self) -> Option<&Response> {
        self.message.as_ref().and_then(Message::as_response)
    }

    /// The message, if it is a request.
    pub fn request(&self) -> Option<&Request> {
        self.message.as_ref().and_then(Message::as_request)
    }
}

/// A message of a case, as evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvidenceMessage {
    /// ns since 1970.
    pub at_ns: u64,
    /// Whether the tester sent it.
    pub is_sent: bool,
    /// Address of the tester.
    pub local: SocketAddr,
    /// Address of the server.
    pub peer: SocketAddr,
    /// The transport.
    pub transport: Transport,
    /// The whole message.
    pub bytes: Bytes,
}

/// A request as last sent, and its final response.
#[derive(Clone, Debug)]
pub struct AnsweredRequest {
    /// The request, with credentials if the server asked for them.
    pub request: Request,
    /// The final response.
    pub response: Response,
    /// Provisional responses, in order.
    pub provisional: Vec<Response>,
}

/// A request that a proxy has forwarded.
#[derive(Clone, Debug)]
pub struct Forwarded {
    /// The request as sent by its user agent, with credentials if the server asked for them.
    pub sent: Request,
    /// The request as it arrived.
    pub arrived: Request,
    /// The path on which it arrived.
    pub path: ArrivalPath,
    /// The user agent that received it.
    pub at: TestAgent,
}

/// The result of sending a request that should be forwarded.
#[derive(Clone, Debug)]
pub enum ForwardOutcome {
    /// The request arrived at one of the user agents.
    Arrived(Box<Forwarded>),
    /// The server answered the request itself. If the server refused an INVITE, the ACK was sent.
    Answered(Box<Response>),
    /// The request did not arrive in time, and the server did not answer it.
    Silence,
}

/// Branch and method, by which a response is matched to a client transaction of the tester (RFC 3261 section 17.1.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TransactionName {
    branch: Option<String>,
    method: Method,
}

impl TransactionName {
    pub(super) fn of(request: &Request) -> Self {
        Self { branch: branch_of(&request.headers), method: request.method.clone() }
    }

    pub(super) fn fits(&self, response: &Response) -> bool {
        // A CANCEL has the branch of its INVITE, so the method distinguishes them. Other methods are not compared,
        // because a purpose may have changed the method of its request.
        let is_cancel = |method: &Method| *method == Method::Cancel;
        let method = response.headers.cseq().ok().flatten().map(|cseq| cseq.method);
        branch_of(&response.headers) == self.branch
            && method.is_none_or(|method| is_cancel(&method) == is_cancel(&self.method))
    }
}

/// The status with this code, which must be from 100 to 699.
pub(super) fn status(code: u16) -> Status {
    // Every code in the procedures is from 100 to 699.
    Status::new(code).unwrap_or_else(|| unreachable!("{code} is a status"))
}

/// The status line of a response, or words for its absence.
pub(super) fn line_or_silence(response: Option<&Response>) -> String {
    response.map_or_else(|| "no response".to_owned(), line_of)
}

/// The status line of a response, without its version.
pub(super) fn line_of(response: &Response) -> String {
    let mut line = response.status.code().to_string();
    if !response.reason.is_empty() {
        // Writing to a string does not fail.
        let _ = write!(line, " {}", response.reason);
    }
    line
}

/// Fails unless the status of a response is in a range. `what` names the request in the message.
pub(super) fn ensure_status(response: &Response, codes: Range<u16>, what: &str) -> PurposeOutcome {
    ensured!(codes.contains(&response.status.code()), "{what} was answered {}", line_of(response))
}

/// Fails unless a response has this status.
pub(super) fn ensure_code(response: &Response, code: u16, what: &str) -> PurposeOutcome {
    ensure_status(response, code..code + 1, what)
}

/// Fails unless a response is a 2xx.
pub(super) fn ensure_success(response: &Response, what: &str) -> PurposeOutcome {
    ensure_status(response, 200..300, what)
}

pub(super) fn first_line(bytes: &[u8]) -> String {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    String::from_utf8_lossy(&line[..line.len().min(60)]).trim_end().escape_debug().to_string()
}

/// The ACK of a failed INVITE (RFC 3261 section 17.1.1.3).
pub(super) fn ack_of_failure(request: &Request, response: &Response) -> Request {
    of_transaction(Method::Ack, request, &response.headers)
}

/// The CANCEL of a request (RFC 3261 section 9.1).
pub(super) fn cancel_of(request: &Request) -> Request {
    of_transaction(Method::Cancel, request, &request.headers)
}

/// An ACK or CANCEL with the branch of another request, and with the To of these header fields.
fn of_transaction(method: Method, request: &Request, with_to: &Headers) -> Request {
    let mut made = Request::new(method.clone(), request.uri.clone());
    if let Some(via) = request.headers.get(&Name::Via) {
        made.headers.push(Name::Via, top(via));
    }
    made.headers.push(Name::MaxForwards, 70);
    for name in [Name::Route, Name::From, Name::To, Name::CallId] {
        let headers = if name == Name::To { with_to } else { &request.headers };
        for value in headers.all(&name) {
            made.headers.push(name.clone(), value);
        }
    }
    let number = request.headers.cseq().ok().flatten().map_or(1, |cseq| cseq.number);
    made.headers.push(Name::CSeq, CSeq { number, method });
    made
}

/// The branch of the topmost Via.
pub(super) fn branch_of(headers: &Headers) -> Option<String> {
    headers.top_via().ok().flatten()?.branch().map(str::to_owned)
}

/// The tag in To.
pub(super) fn tag_of(response: &Response) -> Option<String> {
    response.headers.to().ok().flatten()?.tag().map(str::to_owned)
}

/// The first value of a Via header field. The tester's own values contain no comma.
fn top(via: &str) -> &str {
    via.split(',').next().unwrap_or(via)
}

pub(super) fn call_id_tail(request: &Request) -> String {
    let call_id = request.headers.get(&Name::CallId).unwrap_or_default();
    call_id.chars().filter(char::is_ascii_alphanumeric).take(16).collect()
}
