//! Registrations of the users of a case.

use netrig_host::{random, realtime_nanos};
use netrig_sip::header::{CSeq, NameAddr};
use netrig_sip::{Method, Name, Request, Uri};

use super::super::messages::ensure_success;
use super::super::outcome::{PurposeOutcome, as_inconclusive};
use super::super::target::TestAgent;
use super::TestCase;

impl TestCase<'_> {
    /// A REGISTER of a user agent's address of record with these Contact values. All REGISTERs of a user agent have one Call-ID
    /// and rising CSeq numbers.
    ///
    /// # Errors
    /// If the system refuses a socket.
    pub fn register_request(&mut self, agent: TestAgent, contacts: &[String]) -> PurposeOutcome<Request> {
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

    /// Registers the Contact of a user agent for its address of record, so that the server can reach it. It is removed at the
    /// end of the case.
    ///
    /// # Errors
    /// If the server refuses the registration, so that the purpose cannot be tried.
    pub fn register(&mut self, agent: TestAgent) -> PurposeOutcome {
        let contact = format!("{}", NameAddr::new(Uri::Sip(self.contact(agent)?)));
        self.register_contacts(agent, &[contact])
    }

    /// Registers these Contact values for the address of record of a user agent. They are removed at the end of the
    /// case.
    ///
    /// # Errors
    /// If the server refuses the registration, so that the purpose cannot be tried.
    pub fn register_contacts(&mut self, agent: TestAgent, contacts: &[String]) -> PurposeOutcome {
        self.clear_bindings(agent)?;
        let mut request = self.register_request(agent, contacts)?;
        request.headers.set(Name::Expires, 600);
        let answered = self.ask_of(agent, &request).map_err(as_inconclusive)?;
        ensure_success(&answered.response, "a necessary registration").map_err(as_inconclusive)
    }

    /// Removes all bindings of a user agent's address of record (RFC 3261 section 10.2.2), with a Call-ID that no earlier run
    /// has used.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn clear_bindings(&mut self, agent: TestAgent) -> PurposeOutcome {
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
}
