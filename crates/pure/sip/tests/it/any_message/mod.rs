//! The property of any bytes that are received as a SIP message. `fuzz/` searches for a counterexample, and the test
//! `message_corpus` replays the corpus.

use std::net::{IpAddr, Ipv4Addr};

use bytes::Bytes;
use netrig_core::{Duration, Instant, Seeds};
use netrig_sip::digest::{DigestChallenge, DigestCredentials, DigestSession, Hash, Secret};
use netrig_sip::header::Transport;
use netrig_sip::load::scan::{Address, Field, Scan, Start};
use netrig_sip::multipart::{SessionBody, session_body};
use netrig_sip::sdp::SessionDescription;
use netrig_sip::server::{AnsweringPolicy, Destination, PlainResponses, Role, Server, ServerOrder, Source};
use netrig_sip::transaction::Timing;
use netrig_sip::{Framed, Framer, FramingError, Headers, Message, Method, Name, Uri};

/// Longest message of a stream, bytes, below the length of random input.
const LONGEST: usize = 2048;

/// Nothing panics. The scanner reads a message as the strict parser does. Session descriptions, challenges and credentials are
/// written and read again. A stream has the same messages however it is cut. A user agent's responses of the fast path are those of
/// the strict model.
pub fn check(bytes: &[u8]) {
    plain(bytes);
    assert_eq!(framed(&[bytes]), framed(&bytes.chunks(1).collect::<Vec<_>>()));
    description(bytes);
    let scan = Scan::of(bytes);
    let routes = scan.record_routes().count() + scan.contacts().count() + scan.all(Field::Via).count();
    assert!(routes <= bytes.len(), "nothing is found twice");
    let Ok(message) = Message::parse(&Bytes::copy_from_slice(bytes)) else { return };
    let _ = (message.violations(), message.to_bytes());
    agree(&scan, &message);
    description(message.body());
    let kind = message.headers().get(&Name::ContentType).unwrap_or_default();
    if let SessionBody::Description(session) = session_body(kind, message.body()) {
        description(session);
        assert!(session.len() <= message.body().len());
    }
    proofs(message.headers(), message.body());
}

/// A user agent server at a fixed address.
fn user_agent() -> Box<dyn Server> {
    let media = (Ipv4Addr::LOCALHOST, 6000).into();
    let order = ServerOrder {
        role: Role::UserAgent(AnsweringPolicy::new(media)),
        domains: Vec::new(),
        users: None,
        contact: None,
        digest: None,
        realm: None,
        most_transactions: 64,
        most_users: 1,
        timing: Timing::default(),
        seeds: Seeds::new(1),
    };
    let listens = [(Transport::Udp, (Ipv4Addr::LOCALHOST, 5060).into())];
    order.server(&listens).expect("a user agent needs no users")
}

/// Responses without the random tag of a server.
fn without_tags(responses: impl Iterator<Item = (Destination, Bytes)>) -> Vec<(Destination, String)> {
    let without_tag = |bytes: Bytes| {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let tag =
            Message::parse(&bytes).ok().and_then(|own| own.headers().to().ok()??.tag().map(str::to_owned));
        tag.map_or(text.clone(), |tag| text.replace(&format!(";tag={tag}"), ";tag=T"))
    };
    responses.map(|(to, bytes)| (to, without_tag(bytes))).collect()
}

/// A request of the fast path can be parsed, and gets the responses of the strict model.
fn plain(bytes: &[u8]) {
    let (now, mut responses) = (Instant::ZERO + Duration::from_secs(1), PlainResponses::default());
    let from = Source { transport: Transport::Udp, address: (Ipv4Addr::LOCALHOST, 5070).into() };
    if user_agent().handle_plain(now, bytes, from, &mut responses).is_none() {
        return;
    }
    let message = Message::parse(&Bytes::copy_from_slice(bytes)).expect("what is plain is a message");
    let mut strict = user_agent();
    strict.handle(now, message, from);
    let strict = std::iter::from_fn(|| strict.poll_transmit()).map(|(to, message)| (to, message.to_bytes()));
    let plain = responses.iter().map(|own| (Destination::Address(own.to), Bytes::copy_from_slice(own.bytes)));
    assert_eq!(without_tags(plain), without_tags(strict));
}

/// The items of a stream that is received in these pieces, up to an error.
fn framed(pieces: &[&[u8]]) -> Vec<Result<Framed, FramingError>> {
    let mut framer = Framer::new(LONGEST);
    let mut found = Vec::new();
    for piece in pieces {
        framer.push(piece);
        while let Some(next) = framer.poll().transpose() {
            let is_end = next.is_err();
            found.push(next);
            if is_end {
                return found;
            }
        }
    }
    found
}

/// A body as a session description: its answer has the same number of media, and is a session description.
fn description(body: &[u8]) {
    let Some(offer) = std::str::from_utf8(body).ok().and_then(|text| SessionDescription::parse(text).ok())
    else {
        return;
    };
    assert_eq!(SessionDescription::parse(&offer.to_string()).as_ref(), Ok(&offer));
    let answer = offer.answer(IpAddr::V4(Ipv4Addr::LOCALHOST), 40_000, 1, &["0", "8"]);
    assert_eq!(answer.media.len(), offer.media.len());
    assert_eq!(SessionDescription::parse(&answer.to_string()), Ok(answer));
}

/// Challenges and credentials are written and read again, and only the right password is proven.
fn proofs(headers: &Headers, body: &[u8]) {
    for name in [Name::WwwAuthenticate, Name::ProxyAuthenticate] {
        let found = headers.challenges(&name).unwrap_or_default();
        for challenge in found.iter().filter_map(|found| DigestChallenge::read(found).ok()) {
            assert_eq!(DigestChallenge::read(&challenge.write()).as_ref(), Ok(&challenge));
            let secret = Secret::new(challenge.algorithm.hash, "bob", &challenge.realm, "secret");
            let answer =
                DigestSession::new(challenge, "bob", "secret").answer(&Method::Invite, "sip:a", body, "c");
            assert!(answer.proves(&Method::Invite, body, &secret));
            assert_eq!(DigestCredentials::read(&answer.write()).as_ref(), Ok(&answer));
        }
    }
    for name in [Name::Authorization, Name::ProxyAuthorization] {
        let found = headers.credentials(&name).unwrap_or_default();
        for answer in found.iter().filter_map(|found| DigestCredentials::read(found).ok()) {
            assert_eq!(DigestCredentials::read(&answer.write()).as_ref(), Ok(&answer));
            let secret = Secret::new(Hash::Md5, "nobody", "nowhere", "a secret that nobody has told");
            assert!(!answer.proves(&Method::Invite, body, &secret));
        }
    }
}

/// Asserts that the scanner and the strict parser have read the same fields.
pub fn agree(scan: &Scan<'_>, message: &Message) {
    assert!(scan.is_complete);
    start(scan, message);
    let headers = message.headers();
    for (value, name) in [
        (scan.call_id, Name::CallId),
        (scan.from, Name::From),
        (scan.to, Name::To),
        (scan.www_authenticate, Name::WwwAuthenticate),
        (scan.proxy_authenticate, Name::ProxyAuthenticate),
    ] {
        assert_eq!(value.map(unfolded).as_deref(), headers.get(&name), "{name}");
    }
    for (number, name) in [
        (scan.rseq, Name::RSeq),
        (scan.expires, Name::Expires),
        (scan.min_expires, Name::MinExpires),
        (scan.content_length, Name::ContentLength),
    ] {
        if let Ok(strict) = headers.number(&name) {
            assert_eq!(number, strict, "{name}");
        }
    }
    // Not `top_via`, which reads only the first value.
    if let Some(via) = headers.vias().unwrap_or_default().first() {
        assert_eq!(scan.branch.map(unfolded).as_deref(), via.branch());
        assert!(scan.via.is_some());
    }
    if let Ok(Some(cseq)) = headers.cseq() {
        let own = scan.cseq.expect("the strict parser finds it");
        assert_eq!((own.number, own.method), (cseq.number, cseq.method.as_str().as_bytes()));
    }
    for (tag, address) in [(scan.from_tag, headers.from()), (scan.to_tag, headers.to())] {
        if let Ok(Some(address)) = address {
            assert_eq!(tag.map(unfolded).as_deref(), address.tag());
        }
    }
    if let Ok(required) = headers.tokens(&Name::Require) {
        let needed = required.iter().any(|tag| tag.eq_ignore_ascii_case("100rel"));
        assert_eq!(scan.requires_100rel, needed);
    }
    addresses(scan, message);
    assert_eq!(scan.body, message.body());
}

fn start(scan: &Scan<'_>, message: &Message) {
    match (scan.start.expect("the strict parser finds it"), message) {
        (Start::Status(code), Message::Response(response)) => assert_eq!(code, response.status.code()),
        (Start::Request { method, uri: own }, Message::Request(request)) => {
            assert_eq!(method, request.method.as_str().as_bytes());
            assert_eq!(uri(own), request.uri);
        }
        (start, message) => panic!("{start:?} is not {message:?}"),
    }
}

fn addresses(scan: &Scan<'_>, message: &Message) {
    let uris = |found: &mut dyn Iterator<Item = Address<'_>>| -> Vec<Uri> {
        found.map(|address| uri(address.uri)).collect()
    };
    if let Ok(contacts) = message.headers().addresses(&Name::Contact) {
        assert_eq!(scan.contact.map(uri).as_ref(), contacts.first().map(|contact| &contact.uri));
        if !contacts.is_empty() {
            assert_eq!(
                uris(&mut scan.contacts()),
                contacts.into_iter().map(|one| one.uri).collect::<Vec<_>>()
            );
        }
    }
    if let Ok(routes) = message.headers().addresses(&Name::RecordRoute)
        && message.headers().get(&Name::RecordRoute) != Some("*")
    {
        assert_eq!(
            uris(&mut scan.record_routes()),
            routes.into_iter().map(|one| one.uri).collect::<Vec<_>>()
        );
    }
}

fn uri(text: &[u8]) -> Uri {
    unfolded(text).parse().expect("the strict parser reads it")
}

/// Unfolds lines: a fold means one space (RFC 3261 section 7.3.1).
fn unfolded(value: &[u8]) -> String {
    let text = std::str::from_utf8(value).expect("the strict parser has seen it");
    let mut out = String::new();
    for line in text.split("\r\n").map(|line| line.trim_matches([' ', '\t'])) {
        if !out.is_empty() && !line.is_empty() {
            out.push(' ');
        }
        out.push_str(line);
    }
    out
}
