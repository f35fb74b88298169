//! What holds for any bytes that arrive as a SIP message: the property that `fuzz/` searches a counterexample of, and
//! that the test `message_corpus` replays.

use bytes::Bytes;
use netrig_sip::load::scan::{Address, Field, Scan, Start};
use netrig_sip::{Message, Name, Uri};

/// Nothing panics, and what the strict parser takes the scanner reads in the same way.
pub fn check(bytes: &[u8]) {
    let scan = Scan::of(bytes);
    let routes = scan.record_routes().count() + scan.contacts().count() + scan.all(Field::Via).count();
    assert!(routes <= bytes.len(), "nothing is found twice");
    let Ok(message) = Message::parse(&Bytes::copy_from_slice(bytes)) else { return };
    let _ = (message.violations(), message.to_bytes());
    agree(&scan, &message);
}

/// Whether both have read the same.
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
    // Not `top_via`, which does not look at what stands behind the first.
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

/// Lines that continue another are as one space (RFC 3261 section 7.3.1).
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
