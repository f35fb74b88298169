//! Exchanges: a request, its responses, and the answers to challenges.

use netrig_core::{Duration, Instant};
use netrig_sip::digest::{DigestChallenge, DigestClient};
use netrig_sip::header::CSeq;
use netrig_sip::{Message, Method, Name, Request, Response};

use super::super::messages::{AnsweredRequest, TransactionName, ack_of_failure, first_line, line_of};
use super::super::outcome::{PurposeEnd, PurposeOutcome, failure, inconclusive};
use super::super::target::{FIRST, TestAgent};
use super::{LONGEST_POLL, TestCase};

/// The largest number of challenges to one request that are answered.
pub(super) const MOST_CHALLENGES: usize = 4;

/// T1 of RFC 3261.
pub(in crate::conformance) const T1: Duration = Duration::from_millis(500);

impl TestCase<'_> {
    /// The next response to a request, matched by branch and method.
    ///
    /// # Errors
    /// If the server sends bytes that are not a SIP message.
    pub fn response(
        &mut self,
        agent: TestAgent,
        request: &Request,
        within: Duration,
    ) -> PurposeOutcome<Option<Response>> {
        let key = TransactionName::of(request);
        let found = self.wait(agent, within, |arrival| match &arrival.message {
            Some(Message::Response(response)) if key.fits(response) => Some(Ok(response.clone())),
            None if !arrival.bytes.iter().all(u8::is_ascii_whitespace) => Some(Err(arrival.bytes.clone())),
            _ => None,
        })?;
        match found {
            None => Ok(None),
            Some(Ok(response)) => Ok(Some(response)),
            Some(Err(bytes)) => {
                Err(failure!("the server sent bytes that are not a SIP message: {}", first_line(&bytes)))
            }
        }
    }

    /// Sends a request with the retransmissions of RFC 3261 section 17.1, and waits for its final response. Does not
    /// answer challenges. Sends the ACK of a failed INVITE.
    ///
    /// # Errors
    /// If no final response arrives in time.
    pub fn ask_plainly(&mut self, agent: TestAgent, request: &Request) -> PurposeOutcome<AnsweredRequest> {
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

    /// Handles a final response like a client transaction: sends the ACK of a failed INVITE (RFC 3261 section
    /// 17.1.1.3).
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub fn final_response(
        &mut self,
        agent: TestAgent,
        request: &Request,
        response: &Response,
    ) -> PurposeOutcome {
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

    /// [`ask_plainly`](Self::ask_plainly) for the first user agent, but answers a 401 or 407 with credentials, and
    /// returns the final response to the repeated request.
    ///
    /// # Errors
    /// If no final response arrives in time, or the server refuses the credentials.
    pub fn ask(&mut self, request: &Request) -> PurposeOutcome<AnsweredRequest> {
        self.ask_of(FIRST, request)
    }

    /// [`ask`](Self::ask) for any user agent.
    ///
    /// # Errors
    /// If no final response arrives in time, or the server refuses the credentials.
    pub fn ask_of(&mut self, agent: TestAgent, request: &Request) -> PurposeOutcome<AnsweredRequest> {
        let mut request = request.clone();
        for _ in 0..MOST_CHALLENGES {
            let answered = self.ask_plainly(agent, &request)?;
            match self.with_credentials(agent, &answered.request, &answered.response)? {
                None => return Ok(answered),
                Some(next) => request = next,
            }
        }
        Err(inconclusive!("the server challenged the request more than {MOST_CHALLENGES} times"))
    }

    /// If the response is a challenge: the request with credentials, as a new transaction. Otherwise `None`.
    ///
    /// # Errors
    /// If the challenge cannot be answered: there is no password, or the server refuses it.
    pub fn with_credentials(
        &mut self,
        agent: TestAgent,
        request: &Request,
        response: &Response,
    ) -> PurposeOutcome<Option<Request>> {
        if ![401, 407].contains(&response.status.code()) {
            self.agents[agent as usize].digest.accepted(response.status.is_final());
            return Ok(None);
        }
        let user = self.agents[agent as usize].user.clone();
        let Some(password) = &user.password else {
            return Err(inconclusive!(
                "the server asks for credentials ({}), but the user {} has no password here",
                line_of(response),
                user.name
            ));
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

    /// Discards all challenges of a user agent, so that earlier wrong credentials do not affect the next request.
    pub fn renew_credentials(&mut self, agent: TestAgent) {
        self.agents[agent as usize].digest = DigestClient::default();
    }

    /// Puts the credentials of a user agent for all challenges so far into a request. The request keeps its credentials
    /// for other realms.
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
}

/// The retransmission timer over UDP: T1, then twice the previous pause each time (RFC 3261 sections 17.1.1.2 and 17.1.2.2).
pub(super) struct RepeatTimer {
    next: Option<Instant>,
    pause: Duration,
}

impl RepeatTimer {
    pub(super) fn new(now: Instant, is_over_datagrams: bool) -> Self {
        Self { next: is_over_datagrams.then(|| now + T1), pause: T1 }
    }

    pub(super) fn left(&self, now: Instant) -> Duration {
        self.next.map_or(LONGEST_POLL, |next| next.since(now))
    }

    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.next.is_some_and(|next| next <= now);
        if is_due {
            self.pause = self.pause.saturating_mul(2);
            self.next = Some(now + self.pause);
        }
        is_due
    }

    pub(super) const fn stop(&mut self) {
        self.next = None;
    }
}

fn challenges(response: &Response) -> Vec<(Name, DigestChallenge)> {
    let known = [Name::WwwAuthenticate, Name::ProxyAuthenticate];
    let fields = response.headers.iter().filter(|(name, _)| known.contains(name));
    fields.filter_map(|(name, value)| Some((name.clone(), DigestChallenge::of_value(value)?))).collect()
}
