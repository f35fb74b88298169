//! A dialog of the tester (RFC 3261 section 12).

use netrig_sip::header::{CSeq, NameAddr, Via};
use netrig_sip::{Headers, Method, Name, Request, Response, SipUri, Uri};

use super::outcome::{PurposeOutcome, failure};
use super::target::TestAgent;

/// One side's state of a dialog.
#[derive(Clone, Debug)]
pub struct TestDialog {
    /// The user agent of this side.
    pub agent: TestAgent,
    /// Call-ID.
    pub call_id: String,
    /// From of this side's requests, with the tag.
    pub local: NameAddr,
    /// To of this side's requests, with the tag.
    pub remote: NameAddr,
    /// The remote target: the Request-URI.
    pub target: Uri,
    /// The route set, in the order in which requests pass it.
    pub routes: Vec<NameAddr>,
    /// CSeq number of the last request in the dialog. Initially that of the INVITE.
    pub number: u32,
    /// CSeq number of the INVITE to which an ACK belongs.
    pub invite_number: u32,
    /// Whether requests carry credentials, as the INVITE did.
    pub has_credentials: bool,
}

impl TestDialog {
    /// The caller's side, from its INVITE and the 2xx (RFC 3261 section 12.1.2).
    ///
    /// # Errors
    /// If the response creates no dialog: it has no Contact, or no tag in To.
    pub fn of_caller(agent: TestAgent, request: &Request, response: &Response) -> PurposeOutcome<Self> {
        let local = address(&request.headers, &Name::From)?;
        let remote = address(&response.headers, &Name::To)?;
        if remote.tag().is_none() {
            return Err(failure!("the {} has no tag in To", response.status.code()));
        }
        let mut routes = routes(&response.headers)?;
        routes.reverse();
        Self::new(agent, &request.headers, &response.headers, (local, remote), routes)
    }

    /// The callee's side, from the INVITE as it arrived and the 2xx (RFC 3261 section 12.1.1).
    ///
    /// # Errors
    /// If the INVITE creates no dialog: it has no Contact, or no tag in From.
    pub fn of_callee(agent: TestAgent, arrived: &Request, response: &Response) -> PurposeOutcome<Self> {
        let local = address(&response.headers, &Name::To)?;
        let remote = address(&arrived.headers, &Name::From)?;
        let routes = routes(&arrived.headers)?;
        Self::new(agent, &arrived.headers, &arrived.headers, (local, remote), routes).map(|dialog| Self {
            number: 0,
            has_credentials: false,
            ..dialog
        })
    }

    fn new(
        agent: TestAgent,
        request: &Headers,
        with_contact: &Headers,
        (local, remote): (NameAddr, NameAddr),
        routes: Vec<NameAddr>,
    ) -> PurposeOutcome<Self> {
        let contacts = with_contact.addresses(&Name::Contact).unwrap_or_default();
        let target = contacts.into_iter().next().map(|contact| contact.uri);
        let target = target.ok_or_else(|| failure!("a message that creates a dialog has no Contact"))?;
        let call_id = request.get(&Name::CallId).unwrap_or_default().to_owned();
        let number = request.cseq().ok().flatten().map_or(1, |cseq| cseq.number);
        let has_credentials =
            [Name::Authorization, Name::ProxyAuthorization].iter().any(|name| request.get(name).is_some());
        Ok(Self {
            agent,
            call_id,
            local,
            remote,
            target,
            routes,
            number,
            invite_number: number,
            has_credentials,
        })
    }

    /// A request within the dialog (RFC 3261 section 12.2.1.1), also through strict routers.
    pub fn request(&mut self, method: Method, via: Via, contact: SipUri) -> Request {
        let number = match method {
            Method::Ack => self.invite_number,
            _ => {
                self.number += 1;
                self.number
            }
        };
        if method == Method::Invite {
            self.invite_number = number;
        }
        let is_strict =
            self.routes.first().is_some_and(|route| route.uri.as_sip().is_some_and(|uri| !uri.is_loose()));
        let (uri, routes) = if is_strict {
            let last = NameAddr::new(self.target.clone());
            (self.routes[0].uri.clone(), self.routes[1..].iter().cloned().chain([last]).collect())
        } else {
            (self.target.clone(), self.routes.clone())
        };
        let mut request = Request::new(method.clone(), uri);
        request.headers.push(Name::Via, via);
        for route in routes {
            request.headers.push(Name::Route, route);
        }
        request.headers.push(Name::MaxForwards, 70);
        request.headers.push(Name::From, &self.local);
        request.headers.push(Name::To, &self.remote);
        request.headers.push(Name::CallId, &self.call_id);
        request.headers.push(Name::CSeq, CSeq { number, method: method.clone() });
        if !matches!(method, Method::Ack | Method::Bye) {
            request.headers.push(Name::Contact, NameAddr::new(Uri::Sip(contact)));
        }
        request
    }
}

fn address(headers: &Headers, name: &Name) -> PurposeOutcome<NameAddr> {
    let found = headers.addresses(name).unwrap_or_default().into_iter().next();
    found.ok_or_else(|| failure!("{name} is missing, or breaks the grammar"))
}

fn routes(headers: &Headers) -> PurposeOutcome<Vec<NameAddr>> {
    let found = headers.addresses(&Name::RecordRoute);
    found.map_err(|error| failure!("Record-Route breaks the grammar: {error}"))
}
