//! A test case: its user agents, the messages that they send and receive, and the evidence.

mod call;
mod exchange;
mod forwarding;
mod names;
mod registration;

use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::Bytes;
use netrig_core::{Duration, Instant, Seeds, Stream};
use netrig_host::{Clock, realtime_nanos};
use netrig_sip::digest::{DigestClient, NonceCounts};
use netrig_sip::header::{CSeq, MAGIC_COOKIE, NameAddr, Transport, Via};
use netrig_sip::sdp::SessionDescription;
use netrig_sip::{Host, Message, Method, Name, Request, Response, SipUri, Uri};
use netrig_sip_net::{ArrivalPath, ArrivedBytes, EndAddress, UserAgentEnd, wait_for_ends};

pub use self::call::TestCall;
pub(super) use self::exchange::T1;
use super::dialog::TestDialog;
use super::messages::{ArrivedMessage, EvidenceMessage, Forwarded, cancel_of};
use super::outcome::{PurposeOutcome, inconclusive, require};
use super::target::{ConformanceTarget, FIRST, TestAgent, TestUser};

/// The longest time between two reads of the sockets.
const LONGEST_POLL: Duration = Duration::from_millis(100);

/// The largest number of messages of a case. If the server sends more, the case ends without a verdict.
const MOST_MESSAGES: usize = 4096;

/// One of the user agents of a case.
struct CaseAgent {
    user: TestUser,
    end: Option<UserAgentEnd>,
    /// A second listening end, with its transport. If it is open, it sends all responses of the user agent.
    place: Option<(UserAgentEnd, Transport)>,
    inbox: VecDeque<ArrivedMessage>,
    digest: DigestClient,
    /// Call-ID of the user agent's registrations, and CSeq number of the last one; `None` before the first.
    registration: Option<(String, u32)>,
}

/// One test case.
pub struct TestCase<'a> {
    target: &'a ConformanceTarget,
    agents: [CaseAgent; 3],
    draws: Stream,
    counts: NonceCounts,
    clock: Clock,
    evidence: Vec<EvidenceMessage>,
    /// Dialogs that the tester ends after the case.
    open: Vec<TestDialog>,
    /// INVITEs that were forwarded to a user agent and have no final response.
    unanswered: Vec<Forwarded>,
    /// INVITEs that the first user agent sent and that have no final response.
    pending: Vec<Request>,
    /// The DNS questions for these names and addresses belong to the case.
    names: Vec<String>,
}

impl<'a> TestCase<'a> {
    /// A case with random identifiers, which depend on `seeds` and its name. `users` are the users of its three user
    /// agents.
    pub fn new(target: &'a ConformanceTarget, users: [TestUser; 3], seeds: &Seeds, name: &str) -> Self {
        let agents = users.map(|user| CaseAgent {
            user,
            end: None,
            place: None,
            inbox: VecDeque::new(),
            digest: DigestClient::default(),
            registration: None,
        });
        Self {
            target,
            agents,
            draws: seeds.stream(name),
            counts: NonceCounts::default(),
            clock: Clock::starting_in(Duration::ZERO),
            evidence: Vec::new(),
            open: Vec::new(),
            unanswered: Vec::new(),
            pending: Vec::new(),
            names: Vec::new(),
        }
    }

    /// The server and how it is reached.
    pub const fn target(&self) -> &'a ConformanceTarget {
        self.target
    }

    /// Time since the case began.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// All messages so far.
    pub fn evidence(&self) -> &[EvidenceMessage] {
        &self.evidence
    }

    /// A token that is unique in this run: for branches, tags, Call-IDs and names.
    pub fn token(&mut self) -> String {
        format!("{:016x}", self.draws.bits())
    }

    /// A branch with the magic cookie of RFC 3261.
    pub fn branch(&mut self) -> String {
        format!("{MAGIC_COOKIE}{}", self.token())
    }

    /// The address of record of a user agent's user.
    pub fn address_of_record(&self, agent: TestAgent) -> SipUri {
        self.uri_of_user(&self.agents[agent as usize].user.name)
    }

    /// The URI of a user of the server's domain, which need not exist.
    pub fn uri_of_user(&self, name: &str) -> SipUri {
        SipUri { user: Some(name.to_owned()), ..self.domain_uri() }
    }

    /// How long to wait for an expected message.
    pub const fn patience(&self) -> Duration {
        self.target.patience
    }

    /// The URI of the server's domain, without a user: the Request-URI of REGISTER.
    pub fn domain_uri(&self) -> SipUri {
        SipUri { port: self.target.domain_port, ..SipUri::new(self.target.domain.clone()) }
    }

    /// The URI that is called in the role `uas`.
    pub fn callee_uri(&self) -> Uri {
        self.target.callee.clone().unwrap_or_else(|| Uri::Sip(self.server_uri()))
    }

    /// The URI of the server's address, port and transport.
    pub fn server_uri(&self) -> SipUri {
        let EndAddress { transport, server, .. } = self.target.address;
        let uri = SipUri::new(Host::Address(server.ip())).with_port(server.port());
        if transport == Transport::Udp {
            uri
        } else {
            uri.with_parameter("transport", Some(parameter(transport)))
        }
    }

    /// Whether the server is reached over UDP.
    pub fn is_over_datagrams(&self) -> bool {
        self.target.address.transport == Transport::Udp
    }

    /// The address for requests to a user agent. Opens its sockets.
    ///
    /// # Errors
    /// If the system refuses a socket.
    pub fn local(&mut self, agent: TestAgent) -> PurposeOutcome<SocketAddr> {
        self.end(agent).map(|end| end.local())
    }

    /// The Contact of a user agent.
    ///
    /// # Errors
    /// If the system refuses a socket.
    pub fn contact(&mut self, agent: TestAgent) -> PurposeOutcome<SipUri> {
        let local = self.local(agent)?;
        let uri = SipUri::new(Host::Address(local.ip())).with_port(local.port());
        let uri = uri.with_user(&self.agents[agent as usize].user.name);
        // Connections that the server opens have no TLS, so no certificate is checked.
        Ok(if self.is_over_datagrams() { uri } else { uri.with_parameter("transport", Some("tcp")) })
    }

    fn end(&mut self, agent: TestAgent) -> PurposeOutcome<&mut UserAgentEnd> {
        let slot = &mut self.agents[agent as usize].end;
        if slot.is_none() {
            let opened = UserAgentEnd::open(&self.target.address);
            *slot = Some(opened.map_err(|error| inconclusive!("no socket: {error}"))?);
        }
        // The end exists, because it was opened above if necessary.
        slot.as_mut().ok_or_else(|| inconclusive!("no socket"))
    }

    /// A correct request of the first user agent outside a dialog: Via, Max-Forwards, From with a tag, To, Call-ID, CSeq 1 and
    /// Contact.
    ///
    /// # Errors
    /// If the system refuses a socket.
    pub fn request(&mut self, method: Method, uri: impl Into<Uri>) -> PurposeOutcome<Request> {
        self.request_of(FIRST, method, uri)
    }

    /// [`request`](Self::request) for any user agent.
    ///
    /// # Errors
    /// If the system refuses a socket.
    pub fn request_of(
        &mut self,
        agent: TestAgent,
        method: Method,
        uri: impl Into<Uri>,
    ) -> PurposeOutcome<Request> {
        let uri = uri.into();
        let mut request = Request::new(method.clone(), uri.clone());
        request.headers.push(Name::Via, self.via(agent)?);
        request.headers.push(Name::MaxForwards, 70);
        let from = NameAddr::new(Uri::Sip(self.address_of_record(agent))).with_tag(&self.token());
        request.headers.push(Name::From, from);
        // RFC 3261 section 20.10: some URI parameters are allowed in the Request-URI only.
        request.headers.push(Name::To, NameAddr::new(uri));
        request.headers.push(Name::CallId, self.token());
        request.headers.push(Name::CSeq, CSeq { number: 1, method });
        request.headers.push(Name::Contact, NameAddr::new(Uri::Sip(self.contact(agent)?)));
        Ok(request)
    }

    /// An INVITE of the first user agent with an offer.
    ///
    /// # Errors
    /// If the system refuses a socket.
    pub fn invite_request(&mut self, uri: impl Into<Uri>) -> PurposeOutcome<Request> {
        let mut request = self.request(Method::Invite, uri)?;
        self.describe(FIRST, &mut request)?;
        Ok(request)
    }

    /// A request of the first user agent to the user of another one. An INVITE has an offer.
    ///
    /// # Errors
    /// If the system refuses a socket.
    pub fn request_to(&mut self, agent: TestAgent, method: Method) -> PurposeOutcome<Request> {
        let uri = self.address_of_record(agent);
        let mut request = self.request(method, Uri::Sip(uri))?;
        if request.method == Method::Invite {
            self.describe(FIRST, &mut request)?;
        }
        Ok(request)
    }

    /// Puts a session description into a request.
    ///
    /// # Errors
    /// If the system refuses a socket.
    pub fn describe(&mut self, agent: TestAgent, request: &mut Request) -> PurposeOutcome {
        request.body = self.description(agent)?;
        request.headers.set(Name::ContentType, "application/sdp");
        Ok(())
    }

    /// A session description of a user agent with audio. The tester does not listen at its port.
    ///
    /// # Errors
    /// If the system refuses a socket.
    pub fn description(&mut self, agent: TestAgent) -> PurposeOutcome<Bytes> {
        let ip = self.local(agent)?.ip();
        let id = self.draws.label() >> 32;
        Ok(Bytes::from(SessionDescription::audio(ip, 40_000, id).to_string()))
    }

    /// A Via of a user agent with a new branch, and with the parameter `rport` (RFC 3581).
    ///
    /// # Errors
    /// If the system refuses a socket.
    pub fn via(&mut self, agent: TestAgent) -> PurposeOutcome<Via> {
        let local = self.local(agent)?;
        let branch = self.branch();
        let mut via =
            Via::new(self.target.address.transport, Host::Address(local.ip()), Some(local.port()), &branch);
        via.parameters.push("rport", None);
        Ok(via)
    }

    /// Gives a request a new branch, so that it starts a new transaction.
    ///
    /// # Errors
    /// If the system refuses a socket.
    pub fn renew_branch(&mut self, agent: TestAgent, request: &mut Request) -> PurposeOutcome {
        let vias: Vec<String> = request.headers.all(&Name::Via).skip(1).map(str::to_owned).collect();
        let via = self.via(agent)?.to_string();
        request.headers.set_all(&Name::Via, std::iter::once(via).chain(vias));
        Ok(())
    }

    /// Sends a request once.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub fn send(&mut self, request: &Request) -> PurposeOutcome {
        self.send_of(FIRST, request)
    }

    /// Sends a request of any user agent once.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub fn send_of(&mut self, agent: TestAgent, request: &Request) -> PurposeOutcome {
        if request.method == Method::Invite
            && request.headers.to().ok().flatten().is_none_or(|to| to.tag().is_none())
        {
            self.pending.push(request.clone());
        }
        self.send_bytes(agent, &Message::Request(request.clone()).to_bytes())
    }

    /// Sends bytes unchanged.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub fn send_bytes(&mut self, agent: TestAgent, bytes: &Bytes) -> PurposeOutcome {
        let server = self.target.address.server;
        let end = self.end(agent)?;
        let local = end.local();
        let sent = end.send(bytes);
        sent.map_err(|error| inconclusive!("the server cannot be reached: {error}"))?;
        self.note(true, (local, self.target.address.transport), server, bytes)
    }

    /// Sends a response to a request that arrived on `path` (RFC 3261 section 18.2.2, RFC 3581 section 4).
    ///
    /// # Errors
    /// If the connection is closed.
    pub fn reply(&mut self, agent: TestAgent, path: ArrivalPath, response: &Response) -> PurposeOutcome {
        let mut to = path.peer();
        if let Ok(Some(via)) = response.headers.top_via()
            && via.rport().is_none()
        {
            to.set_port(via.port.unwrap_or(Transport::Udp.default_port()));
        }
        self.answer_by(agent, path, to, response)
    }

    /// Sends a response from the second end of a user agent if it is open, else from the first.
    fn answer_by(
        &mut self,
        agent: TestAgent,
        path: ArrivalPath,
        to: SocketAddr,
        response: &Response,
    ) -> PurposeOutcome {
        let bytes = Message::Response(response.clone()).to_bytes();
        let usual = self.target.address.transport;
        self.local(agent)?;
        let CaseAgent { end, place, .. } = &mut self.agents[agent as usize];
        let place = place.as_mut().map(|(end, transport)| (end, *transport));
        let Some((end, transport)) = place.or_else(|| end.as_mut().map(|end| (end, usual))) else {
            return Ok(());
        };
        let (local, sent) = (end.local(), end.answer(path, to, &bytes));
        sent.map_err(|error| inconclusive!("a response cannot be sent to the server: {error}"))?;
        self.note(true, (local, transport), to, &bytes)
    }

    fn note(
        &mut self,
        is_sent: bool,
        (local, transport): (SocketAddr, Transport),
        peer: SocketAddr,
        bytes: &Bytes,
    ) -> PurposeOutcome {
        let bytes = bytes.clone();
        require!(self.evidence.len() < MOST_MESSAGES, "the server sent more than {MOST_MESSAGES} messages");
        self.evidence.push(EvidenceMessage {
            at_ns: realtime_nanos(),
            is_sent,
            local,
            peer,
            transport,
            bytes,
        });
        Ok(())
    }

    /// Ends the connections of a user agent.
    pub fn disconnect(&mut self, agent: TestAgent) {
        if let Some(end) = &mut self.agents[agent as usize].end {
            end.disconnect();
        }
    }

    /// Ends the connections of a user agent, so that the next request opens a new one. Does nothing over UDP.
    pub fn disconnect_if_over_connections(&mut self, agent: TestAgent) {
        if !self.is_over_datagrams() {
            self.disconnect(agent);
        }
    }

    /// Whether the connection of a user agent to the server is open.
    pub fn is_connected(&self, agent: TestAgent) -> bool {
        self.agents[agent as usize].end.as_ref().is_some_and(UserAgentEnd::is_connected)
    }

    /// Waits until a user agent has received a message for which `pick` returns a value, and returns that value. Other messages
    /// stay in the inbox.
    ///
    /// # Errors
    /// If the case has too many messages.
    pub fn wait<T>(
        &mut self,
        agent: TestAgent,
        within: Duration,
        mut pick: impl FnMut(&ArrivedMessage) -> Option<T>,
    ) -> PurposeOutcome<Option<T>> {
        let end = self.now() + within;
        let mut seen = 0;
        loop {
            let inbox = &mut self.agents[agent as usize].inbox;
            let found = inbox
                .iter()
                .enumerate()
                .skip(seen)
                .find_map(|(place, arrival)| Some((place, pick(arrival)?)));
            if let Some((place, found)) = found {
                inbox.remove(place);
                return Ok(Some(found));
            }
            seen = inbox.len();
            let left = end.since(self.now());
            if left.is_zero() {
                return Ok(None);
            }
            self.look(left.min(LONGEST_POLL))?;
        }
    }

    /// Waits for this time. Messages stay in the inbox.
    ///
    /// # Errors
    /// If the case has too many messages.
    pub fn pause(&mut self, time: Duration) -> PurposeOutcome {
        self.wait(FIRST, time, |_| None::<()>).map(drop)
    }

    /// The number of messages in a user agent's inbox that `pick` accepts.
    pub fn count(&self, agent: TestAgent, mut pick: impl FnMut(&ArrivedMessage) -> bool) -> usize {
        self.agents[agent as usize].inbox.iter().filter(|arrival| pick(arrival)).count()
    }

    /// Empties the inbox of a user agent.
    pub fn forget(&mut self, agent: TestAgent) {
        self.agents[agent as usize].inbox.clear();
    }

    /// Waits until a socket is readable, for at most `within`, and puts received messages into the inboxes.
    fn look(&mut self, within: Duration) -> PurposeOutcome {
        {
            let ends = self
                .agents
                .iter()
                .flat_map(|agent| agent.end.iter().chain(agent.place.as_ref().map(|(place, _)| place)));
            let watched: Vec<_> = ends.flat_map(UserAgentEnd::watched).collect();
            wait_for_ends(&watched, within);
        }
        for agent in TestAgent::ALL {
            let usual = self.target.address.transport;
            let CaseAgent { end, place, .. } = &mut self.agents[agent as usize];
            let ends = end.iter_mut().map(|end| (end, usual));
            let place = place.iter_mut().map(|(place, transport)| (place, *transport));
            let receive = |(end, transport): (&mut UserAgentEnd, Transport)| {
                let way = (end.local(), transport);
                end.receive(&self.clock).into_iter().map(move |arrived| (way, arrived))
            };
            let arrived: Vec<_> = ends.chain(place).flat_map(receive).collect();
            for (way, ArrivedBytes { at, path, bytes }) in arrived {
                self.note(false, way, path.peer(), &bytes)?;
                let message = Message::parse(&bytes).ok();
                let arrival = ArrivedMessage { at, path, bytes, message };
                self.agents[agent as usize].inbox.push_back(arrival);
            }
        }
        Ok(())
    }

    /// Ends calls, unanswered INVITEs and bindings of the case. The server's answers are kept as evidence, without effect on
    /// the verdict.
    pub fn clean_up(&mut self) {
        TestAgent::ALL.into_iter().for_each(|agent| self.renew_credentials(agent));
        for forwarded in std::mem::take(&mut self.unanswered) {
            if let Ok(response) = self.response_of(&forwarded, 480) {
                let _ = self.reply(forwarded.at, forwarded.path, &response);
            }
        }
        for request in std::mem::take(&mut self.pending) {
            let cancel = cancel_of(&request);
            let _ = self.send_bytes(FIRST, &Message::Request(cancel).to_bytes());
            if let Ok(Some(response)) = self.response(FIRST, &request, Duration::from_millis(50)) {
                let _ = self.final_response(FIRST, &request, &response);
            }
        }
        for mut dialog in std::mem::take(&mut self.open) {
            if let Ok(bye) = self.within(&mut dialog, Method::Bye) {
                let _ = self.send_bytes(dialog.agent, &Message::Request(bye).to_bytes());
            }
        }
        for agent in TestAgent::ALL {
            if self.agents[agent as usize].registration.is_some() {
                let _ = self.clear_bindings(agent);
            }
        }
    }

    /// All messages of the case.
    pub fn into_evidence(self) -> Vec<EvidenceMessage> {
        self.evidence
    }
}

const fn parameter(transport: Transport) -> &'static str {
    match transport {
        Transport::Tcp => "tcp",
        Transport::Tls => "tls",
        _ => "udp",
    }
}
