//! The users of a domain, and their registration (RFC 3261 section 10.3).

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use netrig_core::{Duration, Instant, is_of_a_link};

use super::authentication::{Authenticator, CredentialsVerdict, unknown_options};
use super::bindings::{BindingChange, BindingConflict, Bindings, RegistrationOrigin, record_of};
use super::reply::{reply, unsupported};
use crate::digest::Secret;
use crate::header::{NameAddr, Transport};
use crate::{Host, Method, Name, Request, Response, SipUri, Status, Uri};

/// The option tag that registrations may require (RFC 3327).
pub(super) const EXTENSIONS: &str = "path";

/// The domain of a server.
#[derive(Clone, Debug)]
pub struct Domain {
    /// Names in addresses-of-record. The server uses the first for itself.
    pub names: Vec<Host>,
    /// Transports and addresses at which the server listens.
    pub listens: Vec<(Transport, SocketAddr)>,
}

/// The users of a domain.
#[derive(Clone, Debug, Default)]
pub enum DomainUsers {
    /// Any user.
    #[default]
    Anyone,
    /// Passwords by user name.
    Known(BTreeMap<String, String>),
}

/// The limits of a registrar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistrarPolicy {
    /// Shortest lifetime of a binding, at most an hour. A registration for a shorter time is refused with 423.
    pub least: Duration,
    /// Lifetime of a binding by default.
    pub usual: Duration,
    /// Longest lifetime of a binding.
    pub most: Duration,
}

impl Default for RegistrarPolicy {
    /// One minute, one hour, one hour.
    fn default() -> Self {
        let hour = Duration::from_secs(3600);
        Self { least: Duration::from_secs(60), usual: hour, most: hour }
    }
}

/// The users of a domain and their bindings.
#[derive(Debug)]
pub struct Registry {
    /// The domain.
    pub domain: Domain,
    /// The users.
    pub users: DomainUsers,
    /// The limits of registrations.
    pub policy: RegistrarPolicy,
    /// The bindings.
    pub bindings: Bindings,
    /// Authenticates users by the passwords of [`DomainUsers::Known`]; `None` trusts the sender.
    pub authenticator: Option<Authenticator>,
    /// Requests of any sender are forwarded to targets outside of the domain and its users. Such a proxy is an open relay.
    pub relays: bool,
    /// A request had valid credentials since the last [`Registry::take_proof`].
    has_proof: bool,
}

impl Domain {
    /// Whether a URI's host and port are this server's. Without a port, the default of the transport applies (RFC 3261
    /// section 19.1.2). The URI need not name the transport: a request over TLS may have `sip:192.0.2.1` or
    /// `sips:192.0.2.1`.
    pub fn is_own(&self, uri: &SipUri) -> bool {
        let meant = |transport: Transport| match uri.port {
            Some(port) => [port; 2],
            None => [transport.default_port(), Transport::Udp.default_port()],
        };
        let listens = |(transport, address): &(Transport, SocketAddr)| {
            uri.host == Host::Address(address.ip()) && meant(*transport).contains(&address.port())
        };
        let has_port = |port: u16| self.listens.iter().any(|(_, address)| address.port() == port);
        self.names.iter().any(|name| name.is_equivalent(&uri.host)) && uri.port.is_none_or(has_port)
            || self.listens.iter().any(listens)
    }

    /// Whether the server listens on a transport with TLS.
    pub(super) fn is_secure(&self) -> bool {
        self.listens.iter().any(|(transport, _)| transport.is_secure())
    }

    /// The address at which the server listens on `transport` for responses from `to`. It has the same version of IP,
    /// and is preferably a loopback or link-local address if `to` is such an address. `None` if there is none.
    pub fn listens_towards(&self, transport: Transport, to: Option<IpAddr>) -> Option<SocketAddr> {
        let of_transport = self.listens.iter().filter(|(own, _)| *own == transport);
        let fitting = of_transport
            .map(|(_, address)| *address)
            .filter(|own| to.is_none_or(|to| own.is_ipv4() == to.is_ipv4()));
        let is_on_link = |ip: IpAddr| matches!(ip, IpAddr::V6(ip) if is_of_a_link(&ip));
        let is_far = |own: &SocketAddr| {
            let own = own.ip();
            to.map(|to| (own.is_loopback() != to.is_loopback(), is_on_link(own) != is_on_link(to)))
        };
        // The first of several equally good addresses.
        fitting.min_by_key(is_far)
    }

    /// The host and port of the server in `Via`, `Record-Route` and `Contact`, for a peer that uses `transport`.
    pub(super) fn listens_at(&self, transport: Transport, to: Option<IpAddr>) -> (Host, Option<u16>) {
        let first = || self.listens.first().map(|(_, address)| *address);
        let any = || self.listens_towards(transport, None).or_else(first);
        match self.listens_towards(transport, to).or_else(any) {
            Some(address) => (Host::Address(address.ip()), Some(address.port())),
            None => (self.names.first().cloned().unwrap_or_else(|| Host::Name("localhost".into())), None),
        }
    }
}

impl DomainUsers {
    /// Whether a user of that name exists.
    pub fn has(&self, user: &str) -> bool {
        match self {
            Self::Anyone => true,
            Self::Known(users) => users.contains_key(user),
        }
    }

    fn password(&self, user: &str) -> Option<&str> {
        match self {
            Self::Anyone => None,
            Self::Known(users) => users.get(user).map(String::as_str),
        }
    }
}

/// The user part of a URI, without escapes.
pub(crate) fn user_of(uri: &Uri) -> String {
    uri.as_sip().and_then(|uri| uri.user.as_deref()).map(crate::grammar::unescaped).unwrap_or_default()
}

impl Registry {
    /// A registry of at most `most` users, which accepts any user.
    pub fn new(domain: Domain, most: usize) -> Self {
        Self {
            domain,
            users: DomainUsers::default(),
            policy: RegistrarPolicy::default(),
            bindings: Bindings::new(most),
            authenticator: None,
            relays: false,
            has_proof: false,
        }
    }

    /// Whether a URI belongs to the domain.
    pub fn is_own(&self, uri: &Uri) -> bool {
        uri.as_sip().is_some_and(|uri| self.domain.is_own(uri))
    }

    /// The authenticated user of a request; `None` if the registry does not authenticate.
    ///
    /// # Errors
    /// The challenge.
    pub fn authenticate(&mut self, now: Instant, request: &Request) -> Result<Option<String>, Box<Response>> {
        let is_registrar = request.method == Method::Register;
        let Self { users, authenticator: Some(authenticator), has_proof, .. } = self else { return Ok(None) };
        let (status, answer, challenge) = if is_registrar {
            (Status::UNAUTHORIZED, Name::Authorization, Name::WwwAuthenticate)
        } else {
            (Status::PROXY_AUTHENTICATION_REQUIRED, Name::ProxyAuthorization, Name::ProxyAuthenticate)
        };
        let (hash, realm) = (authenticator.hash(), authenticator.realm().to_owned());
        let secret =
            |user: &str| users.password(user).map(|password| Secret::new(hash, user, &realm, password));
        match authenticator.check(now, request, &answer, secret) {
            CredentialsVerdict::Proven(user) => {
                *has_proof = true;
                Ok(Some(user))
            }
            CredentialsVerdict::Challenge { stale } => {
                let mut response = reply(request, status);
                response.headers.push(challenge, authenticator.challenge(now, stale).write());
                Err(Box::new(response))
            }
        }
    }

    pub(super) const fn authenticates(&self) -> bool {
        self.authenticator.is_some()
    }

    /// Whether a request had valid credentials since the last call.
    pub(super) const fn take_proof(&mut self) -> bool {
        std::mem::replace(&mut self.has_proof, false)
    }

    /// The response to a REGISTER for this domain, by the steps of RFC 3261 section 10.3.
    pub fn register(&mut self, now: Instant, request: &Request) -> Response {
        match self.registered(now, request) {
            Ok(response) => response,
            Err(response) => *response,
        }
    }

    fn registered(&mut self, now: Instant, request: &Request) -> Result<Response, Box<Response>> {
        let refuse = |status: Status| Box::new(reply(request, status));
        if !self.is_own(&request.uri) {
            return Err(refuse(Status::NOT_FOUND));
        }
        let unknown = unknown_options(request, &Name::Require, &[EXTENSIONS]);
        if !unknown.is_empty() {
            return Err(Box::new(unsupported(request, &unknown)));
        }
        let user = self.authenticate(now, request)?;
        let Ok(Some(to)) = request.headers.to() else { return Err(refuse(Status::BAD_REQUEST)) };
        let own = user_of(&to.uri);
        // "If the authenticated user is not authorized to modify bindings, the registrar MUST return a 403 (Forbidden)".
        if user.is_some_and(|user| user != own) {
            return Err(refuse(Status::FORBIDDEN));
        }
        // "If the address-of-record is not valid for the domain in the Request-URI, the registrar MUST send a 404".
        let Some(record) = record_of(&to.uri).filter(|_| self.is_own(&to.uri) && self.users.has(&own)) else {
            return Err(refuse(Status::NOT_FOUND));
        };
        self.update(now, request, &record)?;
        Ok(self.listing(now, request, &record))
    }

    fn update(&mut self, now: Instant, request: &Request, record: &str) -> Result<(), Box<Response>> {
        let refuse = |status: Status| Box::new(reply(request, status));
        let bad = || refuse(Status::BAD_REQUEST);
        let headers = &request.headers;
        let (Ok(Some(call_id)), Ok(Some(cseq))) = (headers.call_id(), headers.cseq()) else {
            return Err(bad());
        };
        let path = headers.addresses(&Name::Path).map_err(|_| bad())?;
        let origin = RegistrationOrigin { call_id: call_id.to_owned(), sequence: cseq.number, path };
        let done = if headers.all(&Name::Contact).any(|value| value == "*") {
            // "If the request has additional Contact fields or an expiration time other than zero, the request is invalid".
            let is_alone = headers.all(&Name::Contact).count() == 1;
            if !is_alone || headers.number(&Name::Expires) != Ok(Some(0)) {
                return Err(bad());
            }
            self.bindings.remove_all(now, record, &origin)
        } else {
            let contacts = headers.addresses(&Name::Contact).map_err(|_| bad())?;
            let changes = contacts.into_iter().map(|contact| self.change(request, contact));
            let changes = changes.collect::<Result<Vec<BindingChange>, _>>()?;
            self.bindings.change(now, record, &origin, &changes)
        };
        done.map_err(|conflict| match conflict {
            BindingConflict::OutOfOrder => refuse(Status::SERVER_INTERNAL_ERROR),
            BindingConflict::Full => refuse(Status::SERVICE_UNAVAILABLE),
            BindingConflict::TooLong => refuse(Status::REQUEST_ENTITY_TOO_LARGE),
        })
    }

    fn change(&self, request: &Request, mut contact: NameAddr) -> Result<BindingChange, Box<Response>> {
        let usual = self.policy.usual;
        // "Malformed values SHOULD be treated as equivalent to 3600" (RFC 3261 section 20.10).
        let read = |text: &str| Duration::from_secs(text.parse::<u32>().unwrap_or(3600).into());
        let in_field = contact.parameters.value("expires").map(read);
        let wanted = in_field.or_else(|| request.headers.get(&Name::Expires).map(read)).unwrap_or(usual);
        contact.parameters.remove("expires");
        // "If and only if the requested expiration interval is greater than zero AND smaller than one hour AND less than a
        // registrar-configured minimum, the registrar MAY reject the registration with a response of 423".
        let hour = Duration::from_secs(3600);
        if !wanted.is_zero() && wanted < hour && wanted < self.policy.least {
            let mut response = reply(request, Status::INTERVAL_TOO_BRIEF);
            let seconds = self.policy.least.as_nanos().div_ceil(1_000_000_000);
            response.headers.push(Name::MinExpires, seconds);
            return Err(Box::new(response));
        }
        Ok(BindingChange { contact, span: wanted.min(self.policy.most) })
    }

    /// "The registrar returns a 200 (OK) response. The response MUST contain Contact header field values enumerating all current
    /// bindings. Each Contact value MUST feature an "expires" parameter".
    fn listing(&self, now: Instant, request: &Request, record: &str) -> Response {
        let mut response = reply(request, Status::OK);
        for binding in self.bindings.of_record(now, record) {
            let mut contact = binding.contact.clone();
            contact.parameters.set("expires", Some(&binding.left(now).to_string()));
            response.headers.push(Name::Contact, contact);
        }
        // The response repeats the path for the user agent (RFC 3327 section 5.3).
        for path in request.headers.all(&Name::Path) {
            response.headers.push(Name::Path, path);
        }
        response
    }
}
