//! One test case: its user agents, what they send and receive, and the evidence.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use bytes::Bytes;
use netrig_core::{Duration, Instant, Seeds, Stream};
use netrig_host::{Clock, HostAddress, random, realtime_nanos};
use netrig_sip::digest::{DigestChallenge, DigestClient, NonceCounts};
use netrig_sip::header::{CSeq, MAGIC_COOKIE, NameAddr, Transport, Via};
use netrig_sip::sdp::SessionDescription;
use netrig_sip::{Host, Message, Method, Name, Request, Response, SipUri, Uri};
use netrig_sip_net::dns::RecordedQuestion;
use netrig_sip_net::{ArrivalPath, ArrivedBytes, EndAddress, UserAgentEnd, wait_for_ends};

use super::dialog::TestDialog;
use super::messages::{
    AnsweredRequest, ArrivedMessage, EvidenceMessage, ForwardOutcome, Forwarded, TransactionName,
    ack_of_failure, call_id_tail, first_line, line_of, status, top,
};
use super::names::TesterNames;
use super::outcome::{PurposeEnd, as_inconclusive, ensure, require};
use super::target::{ConformanceTarget, TestAgent, TestUser};

/// The longest pause between two looks at the sockets.
const LONGEST_POLL: Duration = Duration::from_millis(100);

/// Challenges that one request answers at most.
const MOST_CHALLENGES: usize = 4;

/// Messages that one case keeps at most: a server that floods it ends it.
const MOST_MESSAGES: usize = 4096;

/// Why purposes with names are not carried out.
const NO_NAMES: &str =
    "the tester answers no DNS questions: give --dns-listen ADDRESS:PORT, and let the server ask there";

/// T1 of RFC 3261.
pub(super) const T1: Duration = Duration::from_millis(500);

/// One of the user agents.
struct CaseAgent {
    user: TestUser,
    end: Option<UserAgentEnd>,
    /// Another end where requests arrive, with its transport. Responses to requests go out by it if it is open.
    place: Option<(UserAgentEnd, Transport)>,
    inbox: VecDeque<ArrivedMessage>,
    digest: DigestClient,
    /// Call-ID and CSeq of its registrations.
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
    /// Dialogs that the tester has to end.
    open: Vec<TestDialog>,
    /// INVITEs that were forwarded to a user agent and have no final answer.
    unanswered: Vec<Forwarded>,
    /// INVITEs that the first user agent sent and that have no final response.
    pending: Vec<Request>,
    /// Names and addresses whose questions to the tester's DNS server belong to the case.
    names: Vec<String>,
}

impl<'a> TestCase<'a> {
    /// A case whose identifiers are drawn from `seeds` by its name. `users` are those of its three user agents.
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

    // What a case is about.

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

    /// A token that no other case of this run has: for branches, tags, Call-IDs and names.
    pub fn token(&mut self) -> String {
        format!("{:016x}", self.draws.bits())
    }

    /// A branch of RFC 3261.
    pub fn branch(&mut self) -> String {
        format!("{MAGIC_COOKIE}{}", self.token())
    }

    /// The address of record of a user agent's user.
    pub fn address_of_record(&self, agent: TestAgent) -> SipUri {
        self.uri_of_user(&self.agents[agent as usize].user.name)
    }

    /// The URI of a user of the server's domain, whether there is one or not.
    pub fn uri_of_user(&self, name: &str) -> SipUri {
        SipUri { user: Some(name.to_owned()), ..self.domain_uri() }
    }

    /// How long what has to come is waited for.
    pub const fn patience(&self) -> Duration {
        self.target.patience
    }

    /// The URI of the server's domain, without a user: the Request-URI of REGISTER.
    pub fn domain_uri(&self) -> SipUri {
        SipUri { port: self.target.domain_port, ..SipUri::new(self.target.domain.clone()) }
    }

    /// The URI that calls go to in the role `uas`.
    pub fn callee_uri(&self) -> Uri {
        self.target.callee.clone().unwrap_or_else(|| Uri::Sip(self.server_uri()))
    }

    /// The server by its address, port and transport.
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

    /// Where requests to a user agent go. Opens its sockets.
    ///
    /// # Errors
    /// The system refuses a socket.
    pub fn local(&mut self, agent: TestAgent) -> Result<SocketAddr, PurposeEnd> {
        self.end(agent).map(|end| end.local())
    }

    /// The Contact of a user agent.
    ///
    /// # Errors
    /// The system refuses a socket.
    pub fn contact(&mut self, agent: TestAgent) -> Result<SipUri, PurposeEnd> {
        let local = self.local(agent)?;
        let uri = SipUri::new(Host::Address(local.ip())).with_port(local.port());
        let uri = uri.with_user(&self.agents[agent as usize].user.name);
        // Of what the server opens itself no certificate is checked: it comes without TLS.
        Ok(if self.is_over_datagrams() { uri } else { uri.with_parameter("transport", Some("tcp")) })
    }

    fn end(&mut self, agent: TestAgent) -> Result<&mut UserAgentEnd, PurposeEnd> {
        let slot = &mut self.agents[agent as usize].end;
        if slot.is_none() {
            let opened = UserAgentEnd::open(&self.target.address);
            *slot = Some(opened.map_err(|error| PurposeEnd::Inconclusive(format!("no socket: {error}")))?);
        }
        // It was just opened if it was not there.
        slot.as_mut().ok_or_else(|| PurposeEnd::Inconclusive("no socket".to_owned()))
    }

    // Names.

    /// The domain that the tester answers for as DNS server.
    ///
    /// # Errors
    /// It is no DNS server.
    pub fn names(&self) -> Result<&'a TesterNames, PurposeEnd> {
        let names = self.target.names.as_deref();
        names.ok_or_else(|| PurposeEnd::Inconclusive(NO_NAMES.to_owned()))
    }

    /// A name of the tester's domain that no other case has. It exists when records are added.
    ///
    /// # Errors
    /// The tester is no DNS server.
    pub fn draw_name(&mut self) -> Result<String, PurposeEnd> {
        let domain = self.names()?.domain();
        // A seed may be used again: a server may still know the names of the run before.
        let fresh = random().map(u64::from_le_bytes).unwrap_or_else(|_| realtime_nanos());
        let name = format!("n{:012x}.{domain}", fresh >> 16);
        self.names.push(name.clone());
        Ok(name)
    }

    /// Adds records in the form of a zone file, in which names are relative to `name`.
    ///
    /// # Errors
    /// The tester is no DNS server.
    pub fn add_records(&self, name: &str, records: &str) -> Result<(), PurposeEnd> {
        let added = self.names()?.add(name, records);
        added.map_err(|error| PurposeEnd::Inconclusive(format!("the records of {name}: {error}")))
    }

    /// Questions for an address belong to the case, too.
    pub fn watch_questions_for(&mut self, address: IpAddr) {
        self.names.push(address.to_string());
    }

    /// The questions that the tester's DNS server got for the names of the case.
    pub fn questions(&self) -> Vec<RecordedQuestion> {
        self.target.names.as_ref().map_or_else(Vec::new, |names| names.questions(&self.names))
    }

    /// Opens another end of a user agent, at this address of the tester; port 0 is one that the system chooses. What arrives there is the
    /// user agent's.
    ///
    /// # Errors
    /// The system refuses a socket.
    pub fn open_place(
        &mut self,
        agent: TestAgent,
        transport: Transport,
        host: HostAddress,
        port: u16,
    ) -> Result<SocketAddr, PurposeEnd> {
        let address = EndAddress { transport, local: host, port, tls: None, ..self.target.address.clone() };
        let end = UserAgentEnd::open(&address).map_err(|error| {
            PurposeEnd::Inconclusive(format!("the tester cannot listen at {}: {error}", host.at(port)))
        })?;
        let local = end.local();
        self.agents[agent as usize].place = Some((end, transport));
        Ok(local)
    }

    /// An address at which the tester can listen and, if it is reached by loopback, no other case does.
    pub fn draw_host(&mut self) -> HostAddress {
        let own = self.target.address.local;
        match own.at(0).ip() {
            IpAddr::V4(ip) if ip.is_loopback() => {
                let [_, low, middle, high] =
                    u32::try_from(self.draws.bits() >> 32).unwrap_or(1).to_be_bytes();
                // 127.0.0.0/9 has the addresses that others are likely to use.
                let ip = Ipv4Addr::new(127, low | 0x80, middle, high.clamp(1, 254));
                HostAddress::from(SocketAddr::from((ip, 0)))
            }
            _ => own,
        }
    }

    // What is sent.

    /// A request of the first user agent outside of a dialog, right in every respect: Via, Max-Forwards, From with a tag, To,
    /// Call-ID, CSeq 1 and Contact.
    ///
    /// # Errors
    /// The system refuses a socket.
    pub fn request(&mut self, method: Method, uri: impl Into<Uri>) -> Result<Request, PurposeEnd> {
        self.request_of(TestAgent::First, method, uri)
    }

    /// The same of any user agent.
    ///
    /// # Errors
    /// The system refuses a socket.
    pub fn request_of(
        &mut self,
        agent: TestAgent,
        method: Method,
        uri: impl Into<Uri>,
    ) -> Result<Request, PurposeEnd> {
        let uri = uri.into();
        let mut request = Request::new(method.clone(), uri.clone());
        request.headers.push(Name::Via, self.via(agent)?);
        request.headers.push(Name::MaxForwards, 70);
        let from = NameAddr::new(Uri::Sip(self.address_of_record(agent))).with_tag(&self.token());
        request.headers.push(Name::From, from);
        // RFC 3261 section 20.10: parameters of the Request-URI mean something in it only.
        request.headers.push(Name::To, NameAddr::new(uri));
        request.headers.push(Name::CallId, self.token());
        request.headers.push(Name::CSeq, CSeq { number: 1, method });
        request.headers.push(Name::Contact, NameAddr::new(Uri::Sip(self.contact(agent)?)));
        Ok(request)
    }

    /// A REGISTER of a user agent's address of record with these Contact values. Those of one user agent have one Call-ID and rising
    /// CSeq numbers.
    ///
    /// # Errors
    /// The system refuses a socket.
    pub fn register_request(&mut self, agent: TestAgent, contacts: &[String]) -> Result<Request, PurposeEnd> {
        let uri = self.domain_uri();
        let mut request = self.request_of(agent, Method::Register, Uri::Sip(uri))?;
        request.headers.set(Name::To, NameAddr::new(Uri::Sip(self.address_of_record(agent))));
        request.headers.remove(&Name::Contact);
        for contact in contacts {
            request.headers.push(Name::Contact, contact);
        }
        let call_id = request.headers.get(&Name::CallId).unwrap_or_default().to_owned();
        let (call_id, number) = match self.agents[agent as usize].registration.take() {
            Some((call_id, number)) => (call_id, number + 1),
            None => (call_id, 1),
        };
        request.headers.set(Name::CallId, &call_id);
        request.headers.set(Name::CSeq, CSeq { number, method: Method::Register });
        self.agents[agent as usize].registration = Some((call_id, number));
        Ok(request)
    }

    /// An INVITE of the first user agent with an offer.
    ///
    /// # Errors
    /// The system refuses a socket.
    pub fn invite_request(&mut self, uri: impl Into<Uri>) -> Result<Request, PurposeEnd> {
        let mut request = self.request(Method::Invite, uri)?;
        self.describe(TestAgent::First, &mut request)?;
        Ok(request)
    }

    /// Puts a session description into a request.
    ///
    /// # Errors
    /// The system refuses a socket.
    pub fn describe(&mut self, agent: TestAgent, request: &mut Request) -> Result<(), PurposeEnd> {
        request.body = self.description(agent)?;
        request.headers.set(Name::ContentType, "application/sdp");
        Ok(())
    }

    /// An audio description of a user agent. Nothing receives at its port.
    ///
    /// # Errors
    /// The system refuses a socket.
    pub fn description(&mut self, agent: TestAgent) -> Result<Bytes, PurposeEnd> {
        let ip = self.local(agent)?.ip();
        let id = self.draws.label() >> 32;
        Ok(Bytes::from(SessionDescription::audio(ip, 40_000, id).to_string()))
    }

    /// A Via of a user agent with a new branch. It asks for `rport` (RFC 3581).
    ///
    /// # Errors
    /// The system refuses a socket.
    pub fn via(&mut self, agent: TestAgent) -> Result<Via, PurposeEnd> {
        let local = self.local(agent)?;
        let branch = self.branch();
        let mut via =
            Via::new(self.target.address.transport, Host::Address(local.ip()), Some(local.port()), &branch);
        via.parameters.push("rport", None);
        Ok(via)
    }

    /// Gives a request a new branch, so that it begins a transaction of its own.
    ///
    /// # Errors
    /// The system refuses a socket.
    pub fn renew_branch(&mut self, agent: TestAgent, request: &mut Request) -> Result<(), PurposeEnd> {
        let vias: Vec<String> = request.headers.all(&Name::Via).skip(1).map(str::to_owned).collect();
        let via = self.via(agent)?.to_string();
        request.headers.set_all(&Name::Via, std::iter::once(via).chain(vias));
        Ok(())
    }

    /// Sends a request once.
    ///
    /// # Errors
    /// There is no way to the server.
    pub fn send(&mut self, request: &Request) -> Result<(), PurposeEnd> {
        self.send_of(TestAgent::First, request)
    }

    /// Sends a request of any user agent once.
    ///
    /// # Errors
    /// There is no way to the server.
    pub fn send_of(&mut self, agent: TestAgent, request: &Request) -> Result<(), PurposeEnd> {
        if request.method == Method::Invite
            && request.headers.to().ok().flatten().is_none_or(|to| to.tag().is_none())
        {
            self.pending.push(request.clone());
        }
        self.send_bytes(agent, &Message::Request(request.clone()).to_bytes())
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// There is no way to the server.
    pub fn send_bytes(&mut self, agent: TestAgent, bytes: &Bytes) -> Result<(), PurposeEnd> {
        let server = self.target.address.server;
        let end = self.end(agent)?;
        let local = end.local();
        let sent = end.send(bytes);
        sent.map_err(|error| PurposeEnd::Inconclusive(format!("there is no way to the server: {error}")))?;
        self.note(true, (local, self.target.address.transport), server, bytes)
    }

    /// Sends a response to a request that came on `path` (RFC 3261 section 18.2.2, RFC 3581 section 4).
    ///
    /// # Errors
    /// The connection is gone.
    pub fn reply(
        &mut self,
        agent: TestAgent,
        path: ArrivalPath,
        response: &Response,
    ) -> Result<(), PurposeEnd> {
        let mut to = path.peer();
        if let Ok(Some(via)) = response.headers.top_via()
            && via.rport().is_none()
        {
            to.set_port(via.port.unwrap_or(Transport::Udp.default_port()));
        }
        self.answer_by(agent, path, to, response)
    }

    /// Sends a response by the end that its request came to.
    fn answer_by(
        &mut self,
        agent: TestAgent,
        path: ArrivalPath,
        to: SocketAddr,
        response: &Response,
    ) -> Result<(), PurposeEnd> {
        let bytes = Message::Response(response.clone()).to_bytes();
        let usual = self.target.address.transport;
        self.local(agent)?;
        let CaseAgent { end, place, .. } = &mut self.agents[agent as usize];
        let place = place.as_mut().map(|(end, transport)| (end, *transport));
        let Some((end, transport)) = place.or_else(|| end.as_mut().map(|end| (end, usual))) else {
            return Ok(());
        };
        let (local, sent) = (end.local(), end.answer(path, to, &bytes));
        sent.map_err(|error| {
            PurposeEnd::Inconclusive(format!("there is no way back to the server: {error}"))
        })?;
        self.note(true, (local, transport), to, &bytes)
    }

    fn note(
        &mut self,
        is_sent: bool,
        (local, transport): (SocketAddr, Transport),
        peer: SocketAddr,
        bytes: &Bytes,
    ) -> Result<(), PurposeEnd> {
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

    /// Ends the connections of a user agent, so that the next request comes over a new one. Over UDP it does nothing.
    pub fn disconnect_if_over_connections(&mut self, agent: TestAgent) {
        if !self.is_over_datagrams() {
            self.disconnect(agent);
        }
    }

    /// Whether the connection of a user agent to the server stands.
    pub fn is_connected(&self, agent: TestAgent) -> bool {
        self.agents[agent as usize].end.as_ref().is_some_and(UserAgentEnd::is_connected)
    }

    // What comes.

    /// Waits until a user agent has received something that `pick` takes, and gives what it makes of it. Everything else stays for later.
    ///
    /// # Errors
    /// The case has more messages than it keeps.
    pub fn wait<T>(
        &mut self,
        agent: TestAgent,
        within: Duration,
        mut pick: impl FnMut(&ArrivedMessage) -> Option<T>,
    ) -> Result<Option<T>, PurposeEnd> {
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

    /// Waits so long, and lets everything that comes stay for later.
    ///
    /// # Errors
    /// The case has more messages than it keeps.
    pub fn pause(&mut self, time: Duration) -> Result<(), PurposeEnd> {
        self.wait(TestAgent::First, time, |_| None::<()>).map(drop)
    }

    /// How many messages have come to a user agent that nothing has taken yet and that `pick` wants.
    pub fn count(&self, agent: TestAgent, mut pick: impl FnMut(&ArrivedMessage) -> bool) -> usize {
        self.agents[agent as usize].inbox.iter().filter(|arrival| pick(arrival)).count()
    }

    /// Forgets what has come to a user agent so far.
    pub fn forget(&mut self, agent: TestAgent) {
        self.agents[agent as usize].inbox.clear();
    }

    /// Waits for the sockets, and puts what came into the inboxes.
    fn look(&mut self, within: Duration) -> Result<(), PurposeEnd> {
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

    // Exchanges.

    /// The next response to a request, by its branch and method; one that the RFC does not allow to be read as one ends the purpose.
    ///
    /// # Errors
    /// The server sent what is no SIP message.
    pub fn response(
        &mut self,
        agent: TestAgent,
        request: &Request,
        within: Duration,
    ) -> Result<Option<Response>, PurposeEnd> {
        let key = TransactionName::of(request);
        let found = self.wait(agent, within, |arrival| match &arrival.message {
            Some(Message::Response(response)) if key.fits(response) => Some(Ok(response.clone())),
            None if !arrival.bytes.iter().all(u8::is_ascii_whitespace) => Some(Err(arrival.bytes.clone())),
            _ => None,
        })?;
        match found {
            None => Ok(None),
            Some(Ok(response)) => Ok(Some(response)),
            Some(Err(bytes)) => Err(PurposeEnd::Fail(format!(
                "the server sent what is no SIP message: {}",
                first_line(&bytes)
            ))),
        }
    }

    /// Sends a request, again as RFC 3261 section 17.1 says, and waits for its final response. Challenges are not answered. The ACK of a
    /// failed INVITE is sent.
    ///
    /// # Errors
    /// No final response came in time.
    pub fn ask_plainly(
        &mut self,
        agent: TestAgent,
        request: &Request,
    ) -> Result<AnsweredRequest, PurposeEnd> {
        self.send_of(agent, request)?;
        let mut provisional = Vec::new();
        let end = self.now() + self.target.patience;
        let mut repeat = RepeatTimer::new(self.now(), self.is_over_datagrams());
        loop {
            let left = end.since(self.now());
            if left.is_zero() {
                return Err(PurposeEnd::Fail(self.silence_after(request, &provisional)));
            }
            let until = repeat.left(self.now()).min(left);
            match self.response(agent, request, until)? {
                Some(response) if response.status.is_final() => {
                    self.final_response(agent, request, &response)?;
                    return Ok(AnsweredRequest { request: request.clone(), response, provisional });
                }
                Some(response) => {
                    if request.method == Method::Invite {
                        repeat.stop();
                    }
                    provisional.push(response);
                }
                None => {
                    if repeat.is_due(self.now()) {
                        self.send_bytes(agent, &Message::Request(request.clone()).to_bytes())?;
                    }
                }
            }
        }
    }

    fn silence_after(&self, request: &Request, provisional: &[Response]) -> String {
        let Request { method, .. } = request;
        let patience = self.target.patience;
        match provisional.last() {
            None => format!("no response to the {method} within {patience}"),
            Some(last) => {
                format!("no final response to the {method} within {patience}; the last was {}", line_of(last))
            }
        }
    }

    /// Sends the ACK of a failed INVITE. For other requests it does nothing.
    ///
    /// # Errors
    /// There is no way to the server.
    pub fn acknowledge_failure(
        &mut self,
        agent: TestAgent,
        request: &Request,
        response: &Response,
    ) -> Result<(), PurposeEnd> {
        self.final_response(agent, request, response)
    }

    /// What a client transaction does with a final response: the ACK of a failed INVITE (RFC 3261 section 17.1.1.3).
    fn final_response(
        &mut self,
        agent: TestAgent,
        request: &Request,
        response: &Response,
    ) -> Result<(), PurposeEnd> {
        if request.method != Method::Invite {
            return Ok(());
        }
        let name = TransactionName::of(request);
        self.pending.retain(|pending| TransactionName::of(pending) != name);
        if response.status.is_success() {
            return Ok(());
        }
        let ack = ack_of_failure(request, response);
        self.send_bytes(agent, &Message::Request(ack).to_bytes())
    }

    /// [`ask_plainly`](Self::ask_plainly) for the first user agent, with credentials: a 401 or 407 is answered, and the final response to
    /// that is given.
    ///
    /// # Errors
    /// No final response came in time, or the server refuses the credentials.
    pub fn ask(&mut self, request: &Request) -> Result<AnsweredRequest, PurposeEnd> {
        self.ask_of(TestAgent::First, request)
    }

    /// The same for any user agent.
    ///
    /// # Errors
    /// No final response came in time, or the server refuses the credentials.
    pub fn ask_of(&mut self, agent: TestAgent, request: &Request) -> Result<AnsweredRequest, PurposeEnd> {
        let mut request = request.clone();
        for _ in 0..MOST_CHALLENGES {
            let answered = self.ask_plainly(agent, &request)?;
            match self.with_credentials(agent, &answered.request, &answered.response)? {
                None => return Ok(answered),
                Some(next) => request = next,
            }
        }
        Err(PurposeEnd::Inconclusive(format!(
            "the server challenged the request more than {MOST_CHALLENGES} times"
        )))
    }

    /// The request once more with credentials, if the response is a challenge; nothing if it is none.
    ///
    /// # Errors
    /// The challenge cannot be answered: there is no password, or the server refuses it.
    pub fn with_credentials(
        &mut self,
        agent: TestAgent,
        request: &Request,
        response: &Response,
    ) -> Result<Option<Request>, PurposeEnd> {
        if ![401, 407].contains(&response.status.code()) {
            self.agents[agent as usize].digest.accepted(response.status.is_final());
            return Ok(None);
        }
        let user = self.agents[agent as usize].user.clone();
        let Some(password) = &user.password else {
            return Err(PurposeEnd::Inconclusive(format!(
                "the server asks for credentials ({}), and the user {} has no password here",
                line_of(response),
                user.name
            )));
        };
        let digest = &mut self.agents[agent as usize].digest;
        digest
            .challenged(challenges(response), &user.name, password)
            .map_err(|error| PurposeEnd::Inconclusive(error.to_string()))?;
        let mut next = request.clone();
        self.renew_branch(agent, &mut next)?;
        self.raise_cseq(agent, &mut next);
        self.authorize(agent, &mut next);
        Ok(Some(next))
    }

    /// Forgets all challenges of a user agent: after credentials that were wrong on purpose the next request begins anew.
    pub fn renew_credentials(&mut self, agent: TestAgent) {
        self.agents[agent as usize].digest = DigestClient::default();
    }

    /// Puts the credentials of a user agent into a request, for all challenges so far. Those for other realms stay.
    pub fn authorize(&mut self, agent: TestAgent, request: &mut Request) {
        let cnonce = self.token();
        let uri = request.uri.to_string();
        let counts = (agent as u32, &mut self.counts);
        let digest = &mut self.agents[agent as usize].digest;
        let answers: Vec<_> = digest
            .answers(&request.method, &uri, &request.body, &cnonce, counts)
            .map(|(name, answer)| (name.clone(), answer))
            .collect();
        for (name, answer) in answers {
            let realm = format!("realm=\"{}\"", answer.realm);
            let others: Vec<String> = request
                .headers
                .all(&name)
                .filter(|value| !value.contains(&realm))
                .map(str::to_owned)
                .collect();
            let own = answer.write().to_string();
            request.headers.remove(&name);
            for value in std::iter::once(own).chain(others) {
                request.headers.push(name.clone(), value);
            }
        }
    }

    fn raise_cseq(&mut self, agent: TestAgent, request: &mut Request) {
        if let Ok(Some(CSeq { number, method })) = request.headers.cseq() {
            request.headers.set(Name::CSeq, CSeq { number: number + 1, method });
            if let Some((call_id, last)) = &mut self.agents[agent as usize].registration
                && request.method == Method::Register
                && request.headers.get(&Name::CallId) == Some(call_id)
            {
                *last = number + 1;
            }
        }
    }

    /// Registers the Contact of a user agent for its address of record, so that the server can reach it. It is removed when the case ends.
    ///
    /// # Errors
    /// The server does not take the registration: the purpose cannot be tried.
    pub fn register(&mut self, agent: TestAgent) -> Result<(), PurposeEnd> {
        let contact = format!("{}", NameAddr::new(Uri::Sip(self.contact(agent)?)));
        self.register_contacts(agent, &[contact])
    }

    /// The same with these Contact values.
    ///
    /// # Errors
    /// The server does not take the registration: the purpose cannot be tried.
    pub fn register_contacts(&mut self, agent: TestAgent, contacts: &[String]) -> Result<(), PurposeEnd> {
        self.clear_bindings(agent)?;
        let mut request = self.register_request(agent, contacts)?;
        request.headers.set(Name::Expires, 600);
        let answered = self.ask_of(agent, &request).map_err(as_inconclusive)?;
        let status = answered.response.status;
        require!(
            status.is_success(),
            "the registration that this needs was answered {}",
            line_of(&answered.response)
        );
        Ok(())
    }

    /// Removes all bindings of a user agent's address of record (RFC 3261 section 10.2.2), with a Call-ID that no run had before.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn clear_bindings(&mut self, agent: TestAgent) -> Result<(), PurposeEnd> {
        let mut request = self.register_request(agent, &["*".to_owned()])?;
        let fresh = random().map(u64::from_le_bytes).unwrap_or_else(|_| realtime_nanos());
        self.agents[agent as usize].registration = None;
        request.headers.set(Name::CallId, format!("{fresh:016x}"));
        request.headers.set(Name::CSeq, CSeq { number: 1, method: Method::Register });
        request.headers.set(Name::Expires, 0);
        let answered = self.ask_of(agent, &request).map_err(as_inconclusive);
        self.agents[agent as usize].registration = None;
        answered.map(drop)
    }

    /// Sends a request of the first user agent, answers challenges, and gives it as it arrives at another one.
    ///
    /// # Errors
    /// The server answers it itself, or it does not arrive.
    pub fn forward(&mut self, request: &Request, at: TestAgent) -> Result<Forwarded, PurposeEnd> {
        self.forward_of(TestAgent::First, request, at)
    }

    /// The same for any user agent.
    ///
    /// # Errors
    /// The server answers it itself, or it does not arrive.
    pub fn forward_of(
        &mut self,
        agent: TestAgent,
        request: &Request,
        at: TestAgent,
    ) -> Result<Forwarded, PurposeEnd> {
        let (method, patience) = (&request.method, self.target.patience);
        match self.forward_to(agent, request, &[at], patience)? {
            ForwardOutcome::Arrived(forwarded) => Ok(*forwarded),
            ForwardOutcome::Answered(response) => Err(PurposeEnd::Fail(format!(
                "the {method} was answered {} and not forwarded",
                line_of(&response)
            ))),
            ForwardOutcome::Silence => Err(PurposeEnd::Fail(format!(
                "the {method} did not arrive at its recipient within {patience}"
            ))),
        }
    }

    /// Sends a request of a user agent, answers challenges, and waits so long until it arrives at one of these or has a final response.
    ///
    /// # Errors
    /// The server refuses the credentials.
    pub fn forward_to(
        &mut self,
        agent: TestAgent,
        request: &Request,
        at: &[TestAgent],
        within: Duration,
    ) -> Result<ForwardOutcome, PurposeEnd> {
        let mut request = request.clone();
        // A server may look a Contact up after the first packet to it only.
        for at in at {
            self.local(*at)?;
        }
        for _ in 0..=MOST_CHALLENGES {
            self.send_of(agent, &request)?;
            match self.arrives_or_is_answered(agent, &request, at, within)? {
                ForwardOutcome::Answered(response) => {
                    match self.with_credentials(agent, &request, &response)? {
                        Some(next) => request = next,
                        None => return Ok(ForwardOutcome::Answered(response)),
                    }
                }
                ForwardOutcome::Silence => return Ok(ForwardOutcome::Silence),
                ForwardOutcome::Arrived(forwarded) => {
                    self.agents[agent as usize].digest.accepted(true);
                    if request.method == Method::Invite {
                        self.unanswered.push((*forwarded).clone());
                    }
                    return Ok(ForwardOutcome::Arrived(forwarded));
                }
            }
        }
        Err(PurposeEnd::Inconclusive(format!(
            "the server challenged the request more than {MOST_CHALLENGES} times"
        )))
    }

    fn arrives_or_is_answered(
        &mut self,
        agent: TestAgent,
        request: &Request,
        at: &[TestAgent],
        within: Duration,
    ) -> Result<ForwardOutcome, PurposeEnd> {
        let end = self.now() + within;
        let mut repeat = RepeatTimer::new(self.now(), self.is_over_datagrams());
        let call_id = request.headers.get(&Name::CallId).unwrap_or_default().to_owned();
        while self.now() < end {
            for at in at {
                let arrived = self.wait(*at, Duration::from_millis(10), |arrival| {
                    let found = arrival.request()?;
                    let fits =
                        found.method == request.method && found.headers.get(&Name::CallId) == Some(&call_id);
                    fits.then(|| (found.clone(), arrival.path))
                })?;
                if let Some((arrived, path)) = arrived {
                    let forwarded = Forwarded { sent: request.clone(), arrived, path, at: *at };
                    return Ok(ForwardOutcome::Arrived(Box::new(forwarded)));
                }
            }
            let key = TransactionName::of(request);
            let answered = self.wait(agent, Duration::ZERO, |arrival| {
                arrival
                    .response()
                    .filter(|response| response.status.is_final() && key.fits(response))
                    .cloned()
            })?;
            if let Some(response) = answered {
                self.final_response(agent, request, &response)?;
                return Ok(ForwardOutcome::Answered(Box::new(response)));
            }
            if repeat.is_due(self.now()) {
                let has_provisional =
                    self.count(agent, |arrival| arrival.response().is_some_and(|own| key.fits(own))) > 0;
                if has_provisional && request.method == Method::Invite {
                    repeat.stop();
                } else {
                    self.send_bytes(agent, &Message::Request(request.clone()).to_bytes())?;
                }
            }
        }
        Ok(ForwardOutcome::Silence)
    }

    /// The next request of this method that arrives at a user agent.
    ///
    /// # Errors
    /// The case has more messages than it keeps.
    pub fn arriving(
        &mut self,
        agent: TestAgent,
        method: &Method,
        within: Duration,
    ) -> Result<Option<(Request, ArrivalPath)>, PurposeEnd> {
        self.wait(agent, within, |arrival| {
            let request = arrival.request().filter(|request| request.method == *method)?;
            Some((request.clone(), arrival.path))
        })
    }

    /// The next request of the server within a dialog that arrives at a user agent, answered with 200; an ACK is not answered.
    ///
    /// # Errors
    /// The case has more messages than it keeps.
    pub fn request_within(
        &mut self,
        dialog: &TestDialog,
        agent: TestAgent,
        within: Duration,
    ) -> Result<Option<Request>, PurposeEnd> {
        let arrived = self.wait(agent, within, |arrival| {
            let is_within = |request: &&Request| request.headers.get(&Name::CallId) == Some(&*dialog.call_id);
            let request = arrival.request().filter(is_within)?;
            Some((request.clone(), arrival.path))
        })?;
        let Some((request, path)) = arrived else { return Ok(None) };
        if request.method != Method::Ack {
            self.reply(agent, path, &request.response(status(200)))?;
        }
        Ok(Some(request))
    }

    /// A response of a user agent to what was forwarded to it: with a tag in To, and with a Contact if it makes a dialog.
    ///
    /// # Errors
    /// The system refuses a socket.
    pub fn response_of(&mut self, forwarded: &Forwarded, code: u16) -> Result<Response, PurposeEnd> {
        let Forwarded { arrived, at, .. } = forwarded;
        let mut response = arrived.response(status(code));
        if response.reason.is_empty() {
            // An empty reason is another rule's affair (RFC 4475 section 3.1.1.13).
            response.reason = "Unknown Status".to_owned();
        }
        if code > 100 {
            let to = arrived.headers.to().ok().flatten();
            if let Some(to) = to.filter(|to| to.tag().is_none()) {
                // The same for all responses of one user agent to one request.
                let tag = format!("{}-{}", *at as u8, call_id_tail(arrived));
                response.headers.set(Name::To, to.with_tag(&tag));
            }
        }
        if arrived.method == Method::Invite && (101..300).contains(&code) {
            for route in arrived.headers.all(&Name::RecordRoute) {
                response.headers.push(Name::RecordRoute, route);
            }
            response.headers.push(Name::Contact, NameAddr::new(Uri::Sip(self.contact(*at)?)));
        }
        Ok(response)
    }

    /// Answers what was forwarded; a 2xx to an INVITE has a session description.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn answer(&mut self, forwarded: &Forwarded, code: u16) -> Result<Response, PurposeEnd> {
        let mut response = self.response_of(forwarded, code)?;
        if forwarded.arrived.method == Method::Invite && (200..300).contains(&code) {
            response.body = self.description(forwarded.at)?;
            response.headers.set(Name::ContentType, "application/sdp");
        }
        self.answer_with(forwarded, &response)?;
        Ok(response)
    }

    /// Answers what was forwarded with this response.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn answer_with(&mut self, forwarded: &Forwarded, response: &Response) -> Result<(), PurposeEnd> {
        if response.status.is_final() {
            let branch = forwarded.arrived.headers.get(&Name::Via).map(str::to_owned);
            self.unanswered.retain(|other| other.arrived.headers.get(&Name::Via) != branch.as_deref());
        }
        self.reply(forwarded.at, forwarded.path, response)
    }

    /// The final response at the first user agent to what was forwarded. A failed INVITE is acknowledged.
    ///
    /// # Errors
    /// It does not come in time.
    pub fn final_of(&mut self, forwarded: &Forwarded) -> Result<Response, PurposeEnd> {
        let end = self.now() + self.target.patience;
        loop {
            let left = end.since(self.now());
            match self.response(TestAgent::First, &forwarded.sent, left)? {
                None => {
                    return Err(PurposeEnd::Fail(format!(
                        "the response of the recipient did not come back within {}",
                        self.target.patience
                    )));
                }
                Some(response) if response.status.is_final() => {
                    self.final_response(TestAgent::First, &forwarded.sent, &response)?;
                    return Ok(response);
                }
                Some(_) => {}
            }
        }
    }

    /// A call of the first user agent to the second through the server: answered, and acknowledged. It is ended with the case, or by
    /// [`hang_up`](Self::hang_up). Gives the INVITE, the response, and the dialogs of both.
    ///
    /// # Errors
    /// There is no such call.
    pub fn call(&mut self) -> Result<TestCall, PurposeEnd> {
        let uri = self.address_of_record(TestAgent::Second);
        let request = self.invite_request(Uri::Sip(uri))?;
        self.call_with(&request)
    }

    /// The same with this INVITE.
    ///
    /// # Errors
    /// There is no such call.
    pub fn call_with(&mut self, request: &Request) -> Result<TestCall, PurposeEnd> {
        let forwarded = self.forward(request, TestAgent::Second)?;
        self.answer(&forwarded, 200)?;
        let response = self.final_of(&forwarded)?;
        ensure!(
            response.status.is_success(),
            "a call that was answered 200 came back as {}",
            line_of(&response)
        );
        let mut caller = TestDialog::of_caller(TestAgent::First, &forwarded.sent, &response)?;
        let callee = TestDialog::of_callee(TestAgent::Second, &forwarded.arrived, &response)?;
        let ack = self.acknowledge(&mut caller)?;
        let arrived = self.arriving(TestAgent::Second, &Method::Ack, self.target.patience)?;
        let Some((arrived_ack, _)) = arrived else {
            return Err(PurposeEnd::Fail("the ACK of the 200 did not arrive at the callee".to_owned()));
        };
        self.open.push(caller.clone());
        Ok(TestCall { forwarded, response, caller, callee, ack, arrived_ack })
    }

    /// A call of the first user agent to the server itself, for the role `uas`: answered, and acknowledged.
    ///
    /// # Errors
    /// There is no such call.
    pub fn call_server(&mut self) -> Result<(AnsweredRequest, TestDialog), PurposeEnd> {
        let uri = self.callee_uri();
        let request = self.invite_request(uri)?;
        self.call_server_with(&request)
    }

    /// The same with this INVITE.
    ///
    /// # Errors
    /// There is no such call.
    pub fn call_server_with(
        &mut self,
        request: &Request,
    ) -> Result<(AnsweredRequest, TestDialog), PurposeEnd> {
        let answered = self.ask(request)?;
        ensure!(
            answered.response.status.is_success(),
            "the INVITE was answered {}",
            line_of(&answered.response)
        );
        let mut dialog = TestDialog::of_caller(TestAgent::First, &answered.request, &answered.response)?;
        self.acknowledge(&mut dialog)?;
        self.open.push(dialog.clone());
        Ok((answered, dialog))
    }

    /// Sends the ACK of a 2xx (RFC 3261 section 13.2.2.4), and gives it.
    ///
    /// # Errors
    /// There is no way to the server.
    pub fn acknowledge(&mut self, dialog: &mut TestDialog) -> Result<Request, PurposeEnd> {
        let ack = self.within(dialog, Method::Ack)?;
        self.send_bytes(dialog.agent, &Message::Request(ack.clone()).to_bytes())?;
        Ok(ack)
    }

    /// A request within a dialog, with its next CSeq number; an ACK has that of the INVITE.
    ///
    /// # Errors
    /// The system refuses a socket.
    pub fn within(&mut self, dialog: &mut TestDialog, method: Method) -> Result<Request, PurposeEnd> {
        let via = self.via(dialog.agent)?;
        let contact = self.contact(dialog.agent)?;
        let mut request = dialog.request(method, via, contact);
        if dialog.has_credentials {
            self.authorize(dialog.agent, &mut request);
        }
        Ok(request)
    }

    /// Ends a call: a BYE, and its final response. The case does not end it again.
    ///
    /// # Errors
    /// The BYE is not answered.
    pub fn hang_up(&mut self, dialog: &mut TestDialog) -> Result<AnsweredRequest, PurposeEnd> {
        self.is_over(dialog);
        let bye = self.within(dialog, Method::Bye)?;
        self.ask_of(dialog.agent, &bye)
    }

    /// A dialog that the purpose leaves open: the case ends it.
    pub fn open_dialog(&mut self, dialog: &TestDialog) {
        self.open.push(dialog.clone());
    }

    /// An INVITE that arrived at another user agent, too: the case answers it if the purpose does not.
    pub fn is_to_answer(&mut self, forwarded: &Forwarded) {
        self.unanswered.push(forwarded.clone());
    }

    /// Sends a response to the server, whatever its Via says.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn reply_to_server(&mut self, forwarded: &Forwarded, response: &Response) -> Result<(), PurposeEnd> {
        self.answer_by(forwarded.at, forwarded.path, forwarded.path.peer(), response)
    }

    /// The purpose has ended this dialog itself.
    pub fn is_over(&mut self, dialog: &TestDialog) {
        self.open.retain(|open| open.call_id != dialog.call_id);
    }

    /// The CANCEL of a request (RFC 3261 section 9.1).
    pub fn cancel_of(&self, request: &Request) -> Request {
        let mut cancel = Request::new(Method::Cancel, request.uri.clone());
        if let Some(via) = request.headers.get(&Name::Via) {
            cancel.headers.push(Name::Via, top(via));
        }
        cancel.headers.push(Name::MaxForwards, 70);
        for name in [Name::Route, Name::From, Name::To, Name::CallId] {
            for value in request.headers.all(&name) {
                cancel.headers.push(name.clone(), value);
            }
        }
        let number = request.headers.cseq().ok().flatten().map_or(1, |cseq| cseq.number);
        cancel.headers.push(Name::CSeq, CSeq { number, method: Method::Cancel });
        cancel
    }

    /// Ends what a case has begun: calls that stand, INVITEs that wait, bindings. What the server makes of it is kept as evidence and
    /// decides nothing.
    pub fn clean_up(&mut self) {
        TestAgent::ALL.into_iter().for_each(|agent| self.renew_credentials(agent));
        for forwarded in std::mem::take(&mut self.unanswered) {
            if let Ok(response) = self.response_of(&forwarded, 480) {
                let _ = self.reply(forwarded.at, forwarded.path, &response);
            }
        }
        for request in std::mem::take(&mut self.pending) {
            let cancel = self.cancel_of(&request);
            let _ = self.send_bytes(TestAgent::First, &Message::Request(cancel).to_bytes());
            if let Ok(Some(response)) = self.response(TestAgent::First, &request, Duration::from_millis(50)) {
                let _ = self.final_response(TestAgent::First, &request, &response);
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

/// A call through a proxy.
#[derive(Clone, Debug)]
pub struct TestCall {
    /// The INVITE as it was sent and as it arrived.
    pub forwarded: Forwarded,
    /// The 2xx as it came back.
    pub response: Response,
    /// The first user agent's side.
    pub caller: TestDialog,
    /// The second user agent's side.
    pub callee: TestDialog,
    /// The ACK as it was sent.
    pub ack: Request,
    /// The ACK as it arrived.
    pub arrived_ack: Request,
}

/// When a request is sent again over UDP: after T1, and then after twice the pause before (RFC 3261 sections 17.1.1.2 and 17.1.2.2).
struct RepeatTimer {
    next: Option<Instant>,
    pause: Duration,
}

impl RepeatTimer {
    fn new(now: Instant, is_over_datagrams: bool) -> Self {
        Self { next: is_over_datagrams.then(|| now + T1), pause: T1 }
    }

    fn left(&self, now: Instant) -> Duration {
        self.next.map_or(LONGEST_POLL, |next| next.since(now))
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.next.is_some_and(|next| next <= now);
        if is_due {
            self.pause = self.pause.saturating_mul(2);
            self.next = Some(now + self.pause);
        }
        is_due
    }

    const fn stop(&mut self) {
        self.next = None;
    }
}

fn challenges(response: &Response) -> Vec<(Name, DigestChallenge)> {
    let known = [Name::WwwAuthenticate, Name::ProxyAuthenticate];
    let fields = response.headers.iter().filter(|(name, _)| known.contains(name));
    fields.filter_map(|(name, value)| Some((name.clone(), DigestChallenge::of_value(value)?))).collect()
}

const fn parameter(transport: Transport) -> &'static str {
    match transport {
        Transport::Tcp => "tcp",
        Transport::Tls => "tls",
        _ => "udp",
    }
}
