//! Requests that the server forwards to a user agent, and the responses to them.

use netrig_core::Duration;
use netrig_sip::header::NameAddr;
use netrig_sip::{Message, Method, Name, Request, Response, Uri};
use netrig_sip_net::ArrivalPath;

use super::super::messages::{ForwardOutcome, Forwarded, TransactionName, call_id_tail, line_of, status};
use super::super::outcome::{PurposeOutcome, ensure, failure, inconclusive};
use super::super::target::{FIRST, TestAgent};
use super::TestCase;
use super::exchange::{MOST_CHALLENGES, RepeatTimer};

impl TestCase<'_> {
    /// Sends a request of the first user agent, answers challenges, and returns the request as it arrives at another one.
    ///
    /// # Errors
    /// If the server answers it itself, or it does not arrive.
    pub fn forward(&mut self, request: &Request, at: TestAgent) -> PurposeOutcome<Forwarded> {
        self.forward_of(FIRST, request, at)
    }

    /// [`forward`](Self::forward) for any user agent.
    ///
    /// # Errors
    /// If the server answers it itself, or it does not arrive.
    pub fn forward_of(
        &mut self,
        agent: TestAgent,
        request: &Request,
        at: TestAgent,
    ) -> PurposeOutcome<Forwarded> {
        let (method, patience) = (&request.method, self.target.patience);
        match self.forward_to(agent, request, &[at], patience)? {
            ForwardOutcome::Arrived(forwarded) => Ok(*forwarded),
            ForwardOutcome::Answered(response) => {
                Err(failure!("the {method} was answered {} and not forwarded", line_of(&response)))
            }
            ForwardOutcome::Silence => {
                Err(failure!("the {method} did not arrive at its recipient within {patience}"))
            }
        }
    }

    /// Sends a request of a user agent, answers challenges, and waits until it arrives at one of the user agents `at`
    /// or has a final response.
    ///
    /// # Errors
    /// If the server refuses the credentials.
    pub fn forward_to(
        &mut self,
        agent: TestAgent,
        request: &Request,
        at: &[TestAgent],
        within: Duration,
    ) -> PurposeOutcome<ForwardOutcome> {
        let mut request = request.clone();
        // Opens the sockets of the recipients before the server can send to them.
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
        Err(inconclusive!("the server challenged the request more than {MOST_CHALLENGES} times"))
    }

    fn arrives_or_is_answered(
        &mut self,
        agent: TestAgent,
        request: &Request,
        at: &[TestAgent],
        within: Duration,
    ) -> PurposeOutcome<ForwardOutcome> {
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
    /// If the case has too many messages.
    pub fn arriving(
        &mut self,
        agent: TestAgent,
        method: &Method,
        within: Duration,
    ) -> PurposeOutcome<Option<(Request, ArrivalPath)>> {
        self.wait(agent, within, |arrival| {
            let request = arrival.request().filter(|request| request.method == *method)?;
            Some((request.clone(), arrival.path))
        })
    }

    /// A response of a user agent to a forwarded request, with a tag in To, and with a Contact if it creates a dialog.
    ///
    /// # Errors
    /// If the system refuses a socket.
    pub fn response_of(&mut self, forwarded: &Forwarded, code: u16) -> PurposeOutcome<Response> {
        let Forwarded { arrived, at, .. } = forwarded;
        let mut response = arrived.response(status(code));
        if response.reason.is_empty() {
            // Another purpose tests an empty reason phrase (RFC 4475 section 3.1.1.13).
            response.reason = "Unknown Status".to_owned();
        }
        if code > 100 {
            let to = arrived.headers.to().ok().flatten();
            if let Some(to) = to.filter(|to| to.tag().is_none()) {
                // All responses of one user agent to one request have the same tag.
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

    /// Answers a forwarded request. A 2xx to an INVITE has a session description.
    ///
    /// # Errors
    /// If the connection is closed.
    pub fn answer(&mut self, forwarded: &Forwarded, code: u16) -> PurposeOutcome<Response> {
        let mut response = self.response_of(forwarded, code)?;
        if forwarded.arrived.method == Method::Invite && (200..300).contains(&code) {
            response.body = self.description(forwarded.at)?;
            response.headers.set(Name::ContentType, "application/sdp");
        }
        self.answer_with(forwarded, &response)?;
        Ok(response)
    }

    /// Answers a forwarded request with this response.
    ///
    /// # Errors
    /// If the connection is closed.
    pub fn answer_with(&mut self, forwarded: &Forwarded, response: &Response) -> PurposeOutcome {
        if response.status.is_final() {
            let branch = forwarded.arrived.headers.get(&Name::Via).map(str::to_owned);
            self.unanswered.retain(|other| other.arrived.headers.get(&Name::Via) != branch.as_deref());
        }
        self.reply(forwarded.at, forwarded.path, response)
    }

    /// The final response that the first user agent receives to a forwarded request. Sends the ACK of a failed INVITE.
    ///
    /// # Errors
    /// If it does not arrive in time.
    pub fn final_of(&mut self, forwarded: &Forwarded) -> PurposeOutcome<Response> {
        let end = self.now() + self.target.patience;
        loop {
            let left = end.since(self.now());
            match self.response(FIRST, &forwarded.sent, left)? {
                None => {
                    return Err(failure!(
                        "the recipient's response did not arrive at the caller within {}",
                        self.target.patience
                    ));
                }
                Some(response) if response.status.is_final() => {
                    self.final_response(FIRST, &forwarded.sent, &response)?;
                    return Ok(response);
                }
                Some(_) => {}
            }
        }
    }

    /// Answers a forwarded request with 200, and returns the 2xx that the caller receives. `what` names the 200.
    ///
    /// # Errors
    /// If the caller receives something else.
    pub fn succeed(&mut self, forwarded: &Forwarded, what: &str) -> PurposeOutcome<Response> {
        self.answer(forwarded, 200)?;
        let response = self.final_of(forwarded)?;
        ensure!(response.status.is_success(), "{what} was received as {}", line_of(&response));
        Ok(response)
    }

    /// Answers a request that was only inspected. Another purpose tests how the response is forwarded.
    ///
    /// # Errors
    /// If the connection is closed.
    pub fn finish(&mut self, forwarded: &Forwarded, code: u16) -> PurposeOutcome {
        self.answer(forwarded, code)?;
        let _ = self.final_of(forwarded);
        Ok(())
    }

    /// Sends a response to the source address of its request, regardless of the Via of the response.
    ///
    /// # Errors
    /// If the connection is closed.
    pub fn reply_to_server(&mut self, forwarded: &Forwarded, response: &Response) -> PurposeOutcome {
        self.answer_by(forwarded.at, forwarded.path, forwarded.path.peer(), response)
    }

    /// Notes an INVITE that arrived at a user agent. If the purpose does not answer it, the case answers it at its end.
    pub fn note_unanswered(&mut self, forwarded: &Forwarded) {
        self.unanswered.push(forwarded.clone());
    }
}
