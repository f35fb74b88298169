//! Templates of the messages of the built-in scenarios.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;

use super::own_message::MessageStep as Step;
use super::scan::{Field, FieldParameters, Scan};
use super::session::changed;
use super::setup::Setup;
use super::template::{Hole, Template, TemplateError};
use super::text::put_unfolded;
use crate::dialog::LEAST_INTERVAL;
use crate::digits::Decimal;
use crate::sdp::MediaDirection;
use crate::{Message, Method, Status};

/// Requests of callers and registrants.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    pub(super) register: Template,
    /// Initial requests to the address of record of the peer.
    first: InitialRequests,
    elsewhere: InitialRequests,
    /// INVITE that refreshes the session with the same description.
    pub(super) refresh: Template,
    /// UPDATE that refreshes the session without a description.
    pub(super) update: Template,
    /// INVITE that puts the other side on hold.
    pub(super) hold: Template,
    /// INVITE that resumes the call.
    pub(super) resume: Template,
    pub(super) prack: Template,
    /// ACK of a 2xx.
    pub(super) acknowledge: Template,
    /// ACK of a 2xx, with the answer to its offer.
    pub(super) answer: Template,
    pub(super) bye: Template,
    /// SUBSCRIBE within the dialog.
    pub(super) resubscribe: Template,
}

/// Requests outside a dialog, with the CANCEL and the ACK of their transactions.
#[derive(Clone, Debug)]
pub(super) struct InitialRequests {
    pub(super) invite: Template,
    /// INVITE without an offer.
    pub(super) invite_bare: Template,
    /// INVITE that requires reliable provisional responses.
    pub(super) invite_reliably: Template,
    pub(super) cancel: Template,
    /// ACK of a final response other than 2xx, in the transaction of the INVITE.
    pub(super) refused: Template,
    pub(super) options: Template,
    pub(super) message: Template,
    pub(super) subscribe: Template,
}

/// Responses.
#[derive(Clone, Debug)]
pub(super) struct Responses {
    pub(super) ringing: Template,
    /// 183 with a session description.
    pub(super) progress: Template,
    /// Reliable 183 with a session description.
    pub(super) reliable: Template,
    /// 200 to an INVITE.
    pub(super) accepted: Template,
    /// 200 to an INVITE whose session is already described.
    pub(super) accepted_bare: Template,
    /// 200 to an INVITE that changes the session. The index is the direction of the media as this side sees it.
    pub(super) changed: [Template; 4],
    /// 200 to an UPDATE without an offer.
    pub(super) updated: Template,
    /// 422 to a request whose session interval is too small.
    pub(super) too_small: Template,
    /// 200 to any other request.
    pub(super) ok: Template,
    /// 200 to a SUBSCRIBE.
    pub(super) subscribed: Template,
    pub(super) busy: Template,
    pub(super) unavailable: Template,
    pub(super) terminated: Template,
    pub(super) unacknowledged: Template,
    pub(super) unknown: Template,
    pub(super) merged: Template,
    /// 200 to OPTIONS, with the capabilities of this side.
    pub(super) able: Template,
    pub(super) not_allowed: Template,
    pub(super) not_implemented: Template,
    /// 491 to an INVITE that crosses an INVITE of this side.
    pub(super) pending: Template,
    /// 488 to an offer.
    pub(super) not_acceptable: Template,
    pub(super) bad_event: Template,
    pub(super) out_of_order: Template,
    pub(super) full: Template,
}

/// Request-URI and `To` of a request template.
enum RequestTarget {
    /// A user of the domain, outside a dialog.
    Peer,
    /// A user of the domain at a contact of a 3xx: "It is RECOMMENDED that the UAC reuse the same To, From, and
    /// Call-ID used in the original redirected request" (RFC 3261 section 8.1.3.4).
    Elsewhere,
    /// `Peer` or `Elsewhere`, but with the `To` of the acknowledged response.
    Refusing { is_elsewhere: bool },
    /// The other side of a dialog.
    Dialog,
    /// The registrar.
    Domain,
}

/// Makes a template of a text. The text is a valid message if the domain is valid.
fn template(text: String) -> Result<Template, TemplateError> {
    template_of(text, |_| {})
}

fn template_of(text: String, change: impl FnOnce(&mut Message)) -> Result<Template, TemplateError> {
    let mut message = Message::parse(&Bytes::from(text)).map_err(|_| TemplateError::Domain)?;
    change(&mut message);
    Template::new(&message)
}

/// Makes a template of a text with the changes of the load's author.
fn own_template(setup: &Setup, step: Step, text: String) -> Result<Template, TemplateError> {
    template_of(text, |message| {
        let own = setup.options.messages.iter().filter(|own| own.step == step);
        own.for_each(|own| own.change(message, setup));
    })
}

fn request(
    setup: &Setup,
    (step, method): (Option<Step>, &Method),
    to: &RequestTarget,
    more: &str,
    body: &[u8],
) -> Result<Template, TemplateError> {
    let Setup { domain, local, transport, .. } = setup;
    let [user, peer, remote, target] = [Hole::User, Hole::Peer, Hole::Remote, Hole::Target].map(Hole::name);
    let routes = format!("Route: {}\r\n", Hole::Routes.name());
    let (uri, to, routes) = match to {
        RequestTarget::Peer => (format!("sip:{peer}@{domain}"), format!("<sip:{peer}@{domain}>"), ""),
        RequestTarget::Elsewhere => (target.to_owned(), format!("<sip:{peer}@{domain}>"), ""),
        RequestTarget::Refusing { is_elsewhere: false } => {
            (format!("sip:{peer}@{domain}"), remote.to_owned(), "")
        }
        RequestTarget::Refusing { is_elsewhere: true } => (target.to_owned(), remote.to_owned(), ""),
        RequestTarget::Dialog => (target.to_owned(), remote.to_owned(), routes.as_str()),
        RequestTarget::Domain => (format!("sip:{domain}"), format!("<sip:{user}@{domain}>"), ""),
    };
    let text = format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/{} {local};rport;branch={}\r\nMax-Forwards: 70\r\n{routes}\
         From: <sip:{user}@{domain}>;tag={}\r\nTo: {to}\r\nCall-ID: {}\r\nCSeq: {} {method}\r\n\
         Authorization: {}\r\n{more}Content-Length: {}\r\n\r\n{}",
        transport.name(),
        Hole::Branch.name(),
        Hole::Tag.name(),
        Hole::CallId.name(),
        Hole::CSeq.name(),
        Hole::Authorization.name(),
        body.len(),
        String::from_utf8_lossy(body),
    );
    match step {
        Some(step) => own_template(setup, step, text),
        None => template(text),
    }
}

const DESCRIPTION: &str = "Content-Type: application/sdp\r\n";

/// The methods that a user of a load accepts. Each INVITE and each 2xx to an INVITE lists them (RFC 3261 sections
/// 13.2.1 and 13.3.1.4).
const ALLOW: &str = "Allow: INVITE, ACK, CANCEL, BYE, OPTIONS, MESSAGE, PRACK, SUBSCRIBE, NOTIFY, UPDATE\r\n";

const SUPPORTED: &str = "Supported: 100rel, timer\r\n";

/// An INVITE without an offer does not support reliable responses: such a response would have the offer, and the PRACK
/// would have to answer it (RFC 3262 section 5).
const SUPPORTED_WITHOUT_OFFER: &str = "Supported: timer\r\n";

/// A placeholder line for the header fields of the session timer.
fn session() -> String {
    format!("X: {}\r\n", Hole::Session.name())
}

/// The event package of subscriptions.
const EVENT: &str = "Event: presence\r\nAccept: application/pidf+xml\r\n";

/// Header fields of a message with this session description.
fn described(more: &str, description: &[u8]) -> String {
    if description.is_empty() { more.to_owned() } else { format!("{more}{DESCRIPTION}") }
}

impl Requests {
    pub(super) fn new(setup: &Setup) -> Result<Self, TemplateError> {
        let Setup { description, .. } = setup;
        let own = own_contact(setup, 1);
        let within = |step, method: Method, more: &str, body: &[u8]| {
            request(setup, (Some(step), &method), &RequestTarget::Dialog, &described(more, body), body)
        };
        let updating = format!("{own}{ALLOW}{SUPPORTED}{}", session());
        let invite = |description: &[u8]| within(Step::ReInvite, Method::Invite, &updating, description);
        let places = (2..=setup.options.contacts).map(|place| own_contact(setup, place));
        let registering = places.fold(own.clone(), |lines, place| lines + &place) + &expires();
        let acknowledged = format!("RAck: {}\r\n", Hole::Reliable.name());
        Ok(Self {
            register: request(
                setup,
                (Some(Step::Register), &Method::Register),
                &RequestTarget::Domain,
                &registering,
                b"",
            )?,
            first: InitialRequests::new(setup, false)?,
            elsewhere: InitialRequests::new(setup, true)?,
            refresh: invite(description)?,
            update: within(Step::Update, Method::Update, &updating, b"")?,
            hold: invite(&changed(description, MediaDirection::SendOnly))?,
            resume: invite(&changed(description, MediaDirection::SendRecv))?,
            prack: within(Step::Prack, Method::Prack, &acknowledged, b"")?,
            acknowledge: within(Step::Ack, Method::Ack, "", b"")?,
            answer: within(Step::Ack, Method::Ack, "", description)?,
            bye: within(Step::Bye, Method::Bye, "", b"")?,
            resubscribe: within(Step::Subscribe, Method::Subscribe, &subscribing(setup), b"")?,
        })
    }

    /// The initial requests to the address of record of the peer, or to a contact of a 3xx.
    pub(super) const fn initial(&self, is_elsewhere: bool) -> &InitialRequests {
        if is_elsewhere { &self.elsewhere } else { &self.first }
    }
}

/// The `Contact` of requests that create or change a dialog.
fn own_contact(setup: &Setup, place: u8) -> String {
    format!("Contact: <{}>\r\n", setup.contact(Hole::User.name(), place))
}

fn expires() -> String {
    format!("Expires: {}\r\n", Hole::Expires.name())
}

fn subscribing(setup: &Setup) -> String {
    format!("{}{EVENT}{}", own_contact(setup, 1), expires())
}

impl InitialRequests {
    fn new(setup: &Setup, is_elsewhere: bool) -> Result<Self, TemplateError> {
        let Setup { description, .. } = setup;
        let to = if is_elsewhere { RequestTarget::Elsewhere } else { RequestTarget::Peer };
        let initial = |step, method: Method, more: &str, body: &[u8]| {
            request(setup, (Some(step), &method), &to, more, body)
        };
        let own = own_contact(setup, 1);
        let reliably = format!("{own}Require: 100rel\r\n");
        let invite = |more: &str, description: &[u8]| {
            let supported = if description.is_empty() { SUPPORTED_WITHOUT_OFFER } else { SUPPORTED };
            let more = format!("{more}{ALLOW}{supported}{}", session());
            initial(Step::Invite, Method::Invite, &described(&more, description), description)
        };
        Ok(Self {
            invite: invite(&own, description)?,
            invite_bare: invite(&own, b"")?,
            invite_reliably: invite(&reliably, description)?,
            cancel: initial(Step::Cancel, Method::Cancel, "", b"")?,
            refused: request(
                setup,
                (None, &Method::Ack),
                &RequestTarget::Refusing { is_elsewhere },
                "",
                b"",
            )?,
            options: initial(Step::Options, Method::Options, "", b"")?,
            message: initial(
                Step::Message,
                Method::Message,
                "Content-Type: text/plain\r\n",
                b"Watson, come here.",
            )?,
            subscribe: initial(Step::Subscribe, Method::Subscribe, &subscribing(setup), b"")?,
        })
    }
}

impl Responses {
    /// The response to a request that no scenario expects, and its status. The request changes no state.
    pub(super) fn unrequested(&self, method: &[u8]) -> (&Template, u16) {
        match method {
            b"OPTIONS" => (&self.able, 200),
            b"MESSAGE" => (&self.ok, 200),
            // A refused offer leaves the session as it was (RFC 3261 section 14.2).
            b"INVITE" | b"UPDATE" => (&self.not_acceptable, 488),
            // The INVITE, dialog, subscription or provisional response that the request refers to does not exist.
            b"CANCEL" | b"BYE" | b"NOTIFY" | b"PRACK" => (&self.unknown, 481),
            b"SUBSCRIBE" => (&self.bad_event, 489),
            // A known method that is not accepted: RFC 3261 section 8.2.1. An unknown method: section 21.5.2.
            _ if Method::known(method).is_some() => (&self.not_allowed, 405),
            _ => (&self.not_implemented, 501),
        }
    }

    pub(super) fn new(setup: &Setup) -> Result<Self, TemplateError> {
        let text_of = |status: Status, more: &str, body: &[u8]| {
            format!(
                "SIP/2.0 {status} {}\r\nX: {}\r\n{more}Content-Length: {}\r\n\r\n{}",
                status.reason(),
                Hole::Copied.name(),
                body.len(),
                String::from_utf8_lossy(body),
            )
        };
        let response = |status: Status, more: &str, body: &[u8]| template(text_of(status, more, body));
        let description = setup.described_answer();
        let own = format!("Contact: <sip:{}{}>\r\n", setup.local, setup.transport_parameter());
        let within = |step, status, more: &str, description: &[u8]| {
            let more = described(&format!("{own}{more}"), description);
            own_template(setup, step, text_of(status, &more, description))
        };
        let reliably = format!("Require: 100rel\r\nRSeq: {}\r\n", Hole::Reliable.name());
        let expires = format!("Expires: {}\r\n", Hole::Expires.name());
        let plain = |status| response(status, "", b"");
        let accepting = |description: &[u8]| {
            within(Step::Answer, Status::OK, &format!("{ALLOW}{SUPPORTED}{}", session()), description)
        };
        let least = format!("Min-SE: {LEAST_INTERVAL}\r\n");
        Ok(Self {
            ringing: within(Step::Ringing, Status::RINGING, "", b"")?,
            progress: within(Step::Progress, Status::SESSION_PROGRESS, "", description)?,
            reliable: within(Step::Progress, Status::SESSION_PROGRESS, &reliably, description)?,
            accepted: accepting(description)?,
            accepted_bare: accepting(b"")?,
            changed: [
                accepting(&changed(description, MediaDirection::SendRecv))?,
                accepting(&changed(description, MediaDirection::SendOnly))?,
                accepting(&changed(description, MediaDirection::RecvOnly))?,
                accepting(&changed(description, MediaDirection::Inactive))?,
            ],
            updated: response(Status::OK, &format!("{own}{ALLOW}{SUPPORTED}{}", session()), b"")?,
            too_small: response(Status::SESSION_INTERVAL_TOO_SMALL, &least, b"")?,
            ok: plain(Status::OK)?,
            subscribed: response(Status::OK, &format!("{own}{expires}"), b"")?,
            busy: own_template(setup, Step::Refusal, text_of(Status::BUSY_HERE, "", b""))?,
            unavailable: plain(Status::TEMPORARILY_UNAVAILABLE)?,
            terminated: plain(Status::REQUEST_TERMINATED)?,
            unacknowledged: plain(Status::SERVER_TIMEOUT)?,
            unknown: plain(Status::CALL_DOES_NOT_EXIST)?,
            merged: plain(Status::LOOP_DETECTED)?,
            able: response(Status::OK, &format!("{ALLOW}{SUPPORTED}Accept: application/sdp\r\n"), b"")?,
            not_allowed: response(Status::METHOD_NOT_ALLOWED, ALLOW, b"")?,
            not_implemented: response(Status::NOT_IMPLEMENTED, ALLOW, b"")?,
            pending: plain(Status::REQUEST_PENDING)?,
            not_acceptable: plain(Status::NOT_ACCEPTABLE_HERE)?,
            bad_event: response(Status::BAD_EVENT, "Allow-Events: presence\r\n", b"")?,
            out_of_order: plain(Status::SERVER_INTERNAL_ERROR)?,
            full: plain(Status::SERVICE_UNAVAILABLE)?,
        })
    }
}

/// Requests of a callee within its dialog.
#[derive(Clone, Debug)]
pub(super) struct CalleeRequests {
    pub(super) notify: Template,
    /// UPDATE that refreshes the session without a description.
    pub(super) update: Template,
    /// INVITE that refreshes the session with the same description.
    pub(super) refresh: Template,
    /// ACK of the response to that INVITE.
    pub(super) acknowledge: Template,
    pub(super) bye: Template,
}

impl CalleeRequests {
    pub(super) fn new(setup: &Setup) -> Result<Self, TemplateError> {
        let Setup { local, transport, .. } = setup;
        let description = setup.described_answer();
        let contact = format!("Contact: <sip:{local}{}>\r\n", setup.transport_parameter());
        let text_of = |method: Method, more: &str, body: &[u8]| {
            format!(
                "{method} {} SIP/2.0\r\nVia: SIP/2.0/{} {local};rport;branch={}\r\nMax-Forwards: 70\r\nRoute: {}\r\n\
                 From: {}\r\nTo: {}\r\nCall-ID: {}\r\nCSeq: {} {method}\r\n{more}Content-Length: {}\r\n\r\n{}",
                Hole::Target.name(),
                transport.name(),
                Hole::Branch.name(),
                Hole::Routes.name(),
                Hole::Local.name(),
                Hole::Remote.name(),
                Hole::CallId.name(),
                Hole::CSeq.name(),
                body.len(),
                String::from_utf8_lossy(body),
            )
        };
        let request = |method: Method, more: &str, body: &[u8]| template(text_of(method, more, body));
        let noticing = format!("{contact}X: {}\r\n", Hole::Copied.name());
        let refreshing = format!("{contact}{ALLOW}{SUPPORTED}{}", session());
        Ok(Self {
            notify: own_template(setup, Step::Notify, text_of(Method::Notify, &noticing, b""))?,
            update: request(Method::Update, &refreshing, b"")?,
            refresh: request(Method::Invite, &described(&refreshing, description), description)?,
            acknowledge: request(Method::Ack, "", b"")?,
            bye: request(Method::Bye, "", b"")?,
        })
    }
}

/// Writes the header fields that a response copies from its request, as whole lines (RFC 3261 section 8.2.6.2, and
/// 12.1.1 for `Record-Route`). `To` gets `tag` if it has none.
pub(super) fn copy_of(request: &Scan<'_>, from: SocketAddr, tag: &[u8], out: &mut Vec<u8>) {
    out.clear();
    for (place, via) in request.all(Field::Via).enumerate() {
        let top = if place == 0 { request.via.map_or(0, <[u8]>::len) } else { 0 };
        out.extend_from_slice(b"Via: ");
        if top > 0 {
            put_stamped(&via[..top], from, out);
        }
        put_unfolded(&via[top..], out);
        out.extend_from_slice(b"\r\n");
    }
    let mut line = |name: &[u8], value: &[u8], more: &[&[u8]]| {
        out.extend_from_slice(name);
        put_unfolded(value, out);
        more.iter().for_each(|more| out.extend_from_slice(more));
        out.extend_from_slice(b"\r\n");
    };
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

/// Writes the topmost `Via` with the source of its request, as [`server::stamp`](crate::server) does.
fn put_stamped(via: &[u8], from: SocketAddr, out: &mut Vec<u8>) {
    let (sent_by, parameters) = via.split_at(memchr::memchr(b';', via).unwrap_or(via.len()));
    let mut asks = false;
    put_unfolded(sent_by, out);
    for parameter in FieldParameters(parameters) {
        if parameter.is(b"rport") {
            // RFC 3581 section 4: the source port of the request, and the source address even if `Via` has the same
            // address.
            asks = true;
            out.extend_from_slice(b";rport=");
            out.extend_from_slice(Decimal::new(from.port().into()).as_bytes());
        } else if !parameter.is(b"received") {
            put_unfolded(parameter.whole, out);
        }
    }
    // "If the host portion of the "sent-by" parameter contains a domain name, or if it contains an IP address that differs from
    // the packet source address, the server MUST add a "received" parameter to that Via header field value" (RFC 3261 section
    // 18.2.1). A `received` of the sender would send the response to a third party.
    if asks || host_of(sent_by) != Some(from.ip()) {
        out.extend_from_slice(b";received=");
        // Writing to memory does not fail.
        let _ = write!(out, "{}", from.ip());
    }
}

/// The IP address of a `Via` like `SIP/2.0/UDP 192.0.2.1:5060`, with optional white space. `None` if it has a host
/// name.
fn host_of(sent_by: &[u8]) -> Option<IpAddr> {
    let behind = sent_by.rsplit(|byte| *byte == b'/').next()?.trim_ascii_start();
    let text = std::str::from_utf8(behind).ok()?;
    let (_, host) = text.split_once(|sign: char| sign.is_ascii_whitespace())?;
    let host = host.trim_ascii_start();
    match host.strip_prefix('[') {
        Some(host) => host.split(']').next()?.parse().ok(),
        None => host.split(':').next()?.trim_ascii_end().parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::Request;
    use crate::header::Transport;
    use crate::server::{Source, stamp};
    use crate::torture;

    /// Requests of RFC 4475 with a readable `Via`.
    const CORPUS: [&str; 16] = [
        "wsinv",
        "intmeth",
        "esc01",
        "escnull",
        "esc02",
        "lwsdisp",
        "longreq",
        "dblreq",
        "semiuri",
        "transports",
        "unkscm",
        "bext01",
        "regaut01",
        "invut",
        "sdp01",
        "inv2543",
    ];

    fn request(bytes: &[u8]) -> Request {
        Message::parse(&Bytes::copy_from_slice(bytes)).unwrap().as_request().cloned().unwrap()
    }

    /// The servers and the load write the same source into `Via`, and copy the same fields.
    fn agree(bytes: &[u8], from: &str) {
        let from: SocketAddr = from.parse().unwrap();
        let mut lines = Vec::new();
        copy_of(&Scan::of(bytes), from, b"x", &mut lines);
        let text = [b"SIP/2.0 100 Trying\r\n", &lines[..], b"Content-Length: 0\r\n\r\n"].concat();
        let own = Message::parse(&Bytes::from(text)).unwrap();
        let mut request = request(bytes);
        stamp(&mut request, Source { transport: Transport::Udp, address: from });
        let strict = request.response(Status::TRYING);
        let shown = String::from_utf8_lossy(bytes);
        assert_eq!(own.headers().vias(), strict.headers.vias(), "{shown} from {from}");
        assert_eq!(own.headers().from(), strict.headers.from(), "{shown}");
        assert_eq!(own.headers().call_id(), strict.headers.call_id(), "{shown}");
        assert_eq!(own.headers().cseq(), strict.headers.cseq(), "{shown}");
    }

    #[test]
    fn where_a_request_has_come_from_is_said_as_a_server_says_it() {
        for name in CORPUS {
            let bytes = torture::message(name).unwrap().bytes;
            for from in ["192.0.2.2:5060", "192.0.2.1:6000", "[2001:db8::1]:5060"] {
                agree(bytes, from);
            }
        }
        let [own, other] = ["192.0.2.1", "192.0.2.9"];
        for (via, stamped) in [
            // Only the first value of a list is the sender's.
            (
                "U 192.0.2.9;branch=a, U h;rport;branch=b",
                "U 192.0.2.9;branch=a;received=192.0.2.1, U h;rport;branch=b",
            ),
            ("U p;branch=a, U h;rport=5060", "U p;branch=a;received=192.0.2.1, U h;rport=5060"),
            ("U 192.0.2.1;branch=a, U h;rport", "U 192.0.2.1;branch=a, U h;rport"),
            ("U 192.0.2.1;rport;branch=a", "U 192.0.2.1;rport=7;branch=a;received=192.0.2.1"),
            ("U 192.0.2.1;rport=9;branch=a", "U 192.0.2.1;rport=7;branch=a;received=192.0.2.1"),
            ("U 192.0.2.1;x-rport;rports=1", "U 192.0.2.1;x-rport;rports=1"),
            ("U h;x=\";rport\";branch=a", "U h;x=\";rport\";branch=a;received=192.0.2.1"),
            ("U 192.0.2.1;received=192.0.2.9;branch=a", "U 192.0.2.1;branch=a"),
            ("U [2001:db8::1]:5060;branch=a", "U [2001:db8::1]:5060;branch=a;received=192.0.2.1"),
            ("U 192.0.2.1 : 5060 ;branch=a", "U 192.0.2.1 : 5060 ;branch=a"),
        ] {
            let [via, stamped] = [via, stamped].map(|text| text.replace("U ", "SIP/2.0/UDP "));
            let text = format!(
                "OPTIONS sip:a@b SIP/2.0\r\nVia: {via}\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:c@b>\r\nCall-ID: 7\r\n\
                 CSeq: 3 OPTIONS\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
            );
            let mut lines = Vec::new();
            copy_of(&Scan::of(text.as_bytes()), format!("{own}:7").parse().unwrap(), b"", &mut lines);
            let first = String::from_utf8(lines).unwrap();
            assert_eq!(first.lines().next(), Some(&*format!("Via: {stamped}")));
            for from in [format!("{own}:7"), format!("{other}:5060")] {
                agree(text.as_bytes(), &from);
            }
        }
    }
}
