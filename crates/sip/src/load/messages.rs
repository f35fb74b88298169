//! The messages of the built-in scenarios, prepared.

use std::net::SocketAddr;

use bytes::Bytes;

use super::scan::{Field, Scan};
use super::setup::Setup;
use super::template::{Hole, Template, TemplateError};
use super::text::put_unfolded;
use crate::{Message, Method, Status};

/// What is asked.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    pub(super) register: Template,
    pub(super) invite: Template,
    pub(super) cancel: Template,
    /// For what is no 2xx: of the INVITE's transaction.
    pub(super) refused: Template,
    /// For a 2xx: within the dialog.
    pub(super) acknowledge: Template,
    pub(super) bye: Template,
    pub(super) options: Template,
    pub(super) message: Template,
}

/// What is answered.
#[derive(Clone, Debug)]
pub(super) struct Responses {
    pub(super) ringing: Template,
    /// To an INVITE.
    pub(super) accepted: Template,
    /// To any other request.
    pub(super) ok: Template,
    pub(super) busy: Template,
    pub(super) unavailable: Template,
    pub(super) terminated: Template,
    pub(super) unknown: Template,
    pub(super) not_acceptable: Template,
    pub(super) full: Template,
}

/// Where a request goes, as the template is made of it.
enum To {
    /// A user of the domain, in no dialog yet.
    Peer,
    /// The same, with the tag of the response that is acknowledged.
    Refusing,
    /// The other side of a dialog.
    Dialog,
    /// The registrar.
    Domain,
}

/// A text that is made here follows the grammar as long as the domain does.
fn template(text: String) -> Result<Template, TemplateError> {
    let message = Message::parse(&Bytes::from(text)).map_err(|_| TemplateError::Domain)?;
    Template::new(&message)
}

fn request(
    setup: &Setup,
    method: &Method,
    to: &To,
    more: &str,
    body: &[u8],
) -> Result<Template, TemplateError> {
    let Setup { domain, local, transport, .. } = setup;
    let [user, peer, remote, target] = [Hole::User, Hole::Peer, Hole::Remote, Hole::Target].map(Hole::text);
    let routes = format!("Route: {}\r\n", Hole::Routes.text());
    let (uri, to, routes) = match to {
        To::Peer => (format!("sip:{peer}@{domain}"), format!("<sip:{peer}@{domain}>"), ""),
        To::Refusing => (format!("sip:{peer}@{domain}"), remote.to_owned(), ""),
        To::Dialog => (target.to_owned(), remote.to_owned(), routes.as_str()),
        To::Domain => (format!("sip:{domain}"), format!("<sip:{user}@{domain}>"), ""),
    };
    let kind = if body.is_empty() { "" } else { more };
    template(format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/{} {local};rport;branch={}\r\nMax-Forwards: 70\r\n{routes}\
         From: <sip:{user}@{domain}>;tag={}\r\nTo: {to}\r\nCall-ID: {}\r\nCSeq: {} {method}\r\n{}\
         Authorization: {}\r\n{kind}Content-Length: {}\r\n\r\n{}",
        transport.name(),
        Hole::Branch.text(),
        Hole::Tag.text(),
        Hole::CallId.text(),
        Hole::CSeq.text(),
        if body.is_empty() { more.to_owned() } else { contact(setup, method) },
        Hole::Authorization.text(),
        body.len(),
        String::from_utf8_lossy(body),
    ))
}

/// An INVITE begins a dialog: where the other side finds this one.
fn contact(setup: &Setup, method: &Method) -> String {
    match method {
        Method::Invite => {
            format!("Contact: <sip:{}@{}{}>\r\n", Hole::User.text(), setup.local, setup.transport_parameter())
        }
        _ => String::new(),
    }
}

const DESCRIPTION: &str = "Content-Type: application/sdp\r\n";

impl Requests {
    pub(super) fn new(setup: &Setup) -> Result<Self, TemplateError> {
        let plain = |method, to: To| request(setup, &method, &to, "", b"");
        let own = contact(setup, &Method::Invite);
        let invite = if setup.description.is_empty() { own.as_str() } else { DESCRIPTION };
        let registering = format!("{own}Expires: {}\r\n", Hole::Expires.text());
        let text = "Content-Type: text/plain\r\n";
        Ok(Self {
            register: request(setup, &Method::Register, &To::Domain, &registering, b"")?,
            invite: request(setup, &Method::Invite, &To::Peer, invite, &setup.description)?,
            cancel: plain(Method::Cancel, To::Peer)?,
            refused: plain(Method::Ack, To::Refusing)?,
            acknowledge: plain(Method::Ack, To::Dialog)?,
            bye: plain(Method::Bye, To::Dialog)?,
            options: plain(Method::Options, To::Peer)?,
            message: request(setup, &Method::Message, &To::Peer, text, b"Watson, come here.")?,
        })
    }
}

impl Responses {
    pub(super) fn new(setup: &Setup) -> Result<Self, TemplateError> {
        let response = |status: Status, more: &str, body: &[u8]| {
            template(format!(
                "SIP/2.0 {status} {}\r\nX: {}\r\n{more}Content-Length: {}\r\n\r\n{}",
                status.reason(),
                Hole::Copied.text(),
                body.len(),
                String::from_utf8_lossy(body),
            ))
        };
        let own = format!("Contact: <sip:{}{}>\r\n", setup.local, setup.transport_parameter());
        let described = if setup.description.is_empty() { own.clone() } else { own.clone() + DESCRIPTION };
        Ok(Self {
            ringing: response(Status::RINGING, &own, b"")?,
            accepted: response(Status::OK, &described, &setup.description)?,
            ok: response(Status::OK, "", b"")?,
            busy: response(Status::BUSY_HERE, "", b"")?,
            unavailable: response(Status::TEMPORARILY_UNAVAILABLE, "", b"")?,
            terminated: response(Status::REQUEST_TERMINATED, "", b"")?,
            unknown: response(Status::CALL_DOES_NOT_EXIST, "", b"")?,
            not_acceptable: response(Status::NOT_ACCEPTABLE_HERE, "", b"")?,
            full: response(Status::SERVICE_UNAVAILABLE, "", b"")?,
        })
    }
}

/// What a response repeats of its request (RFC 3261 section 8.2.6.2, and 12.1.1 for `Record-Route`), as lines. `tag` is
/// put to `To` if that has none.
pub(super) fn copy_of(request: &Scan<'_>, from: SocketAddr, tag: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let mut line = |name: &[u8], value: &[u8], more: &[&[u8]]| {
        out.extend_from_slice(name);
        put_unfolded(value, out);
        more.iter().for_each(|more| out.extend_from_slice(more));
        out.extend_from_slice(b"\r\n");
    };
    for (place, via) in request.all(Field::Via).enumerate() {
        match memchr::memmem::find(via, b";rport").map(|at| via.split_at(at + b";rport".len())) {
            // RFC 3581 section 4: the port from which the request has come, and the address even if it is that of Via.
            Some((before, behind)) if place == 0 && !behind.starts_with(b"=") => {
                let port = super::digits::Decimal::new(from.port().into());
                let address = from.ip().to_string();
                let more: [&[u8]; 5] = [b"=", port.as_bytes(), b";received=", address.as_bytes(), behind];
                line(b"Via: ", before, &more);
            }
            _ => line(b"Via: ", via, &[]),
        }
    }
    for route in request.all(Field::RecordRoute) {
        line(b"Record-Route: ", route, &[]);
    }
    if let Some(from) = request.from {
        line(b"From: ", from, &[]);
    }
    if let Some(to) = request.to {
        let more: [&[u8]; 2] = [b";tag=", tag];
        line(b"To: ", to, if request.to_tag.is_none() { &more } else { &[] });
    }
    if let Some(call_id) = request.call_id {
        line(b"Call-ID: ", call_id, &[]);
    }
    for cseq in request.all(Field::CSeq).take(1) {
        line(b"CSeq: ", cseq, &[]);
    }
}
