//! The strict parser finds that messages from templates are correct, or have the intended fault only.
#![allow(clippy::unwrap_used, reason = "what cannot go on has failed")]

use bytes::Bytes;
use netrig_sip::fault::Fault;
use netrig_sip::load::{Hole, HoleValues, Scan, Template, TemplateError};
use netrig_sip::{Message, Name, ParseError};

/// An INVITE with a hole of every kind except `Copied`.
fn invite() -> Message {
    let hole = Hole::name;
    let body = format!("v=0\r\no={}\r\n", hole(Hole::Body));
    let text = format!(
        "INVITE {} SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK{};rport\r\nMax-Forwards: 70\r\n\
         Route: {}\r\nFrom: <sip:{}@example.com>;tag={}\r\nTo: <sip:{}@example.com>\r\nCall-ID: {}\r\n\
         CSeq: {} INVITE\r\nContact: <sip:{}@192.0.2.1:5060>\r\nAuthorization: {}\r\n\
         Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
        hole(Hole::Target),
        hole(Hole::Branch),
        hole(Hole::Routes),
        hole(Hole::User),
        hole(Hole::Tag),
        hole(Hole::Peer),
        hole(Hole::CallId),
        hole(Hole::CSeq),
        hole(Hole::User),
        hole(Hole::Authorization),
        body.len(),
    );
    Message::parse(&Bytes::from(text)).unwrap()
}

fn values() -> HoleValues<'static> {
    HoleValues::default()
        .with(Hole::Target, b"sip:bob@192.0.2.9:5070;transport=udp")
        .with(Hole::Branch, b"0001")
        .with(Hole::User, b"alice")
        .with(Hole::Peer, b"bob")
        .with(Hole::Tag, b"a1")
        .with(Hole::CallId, b"c1")
        .with(Hole::CSeq, b"17")
        .with(Hole::Body, b"- 1 1 IN IP4 192.0.2.1")
}

fn written(template: &Template, values: &HoleValues<'_>) -> Bytes {
    let mut out = b"before".to_vec();
    template.write(values, &mut out);
    Bytes::from(out).slice(6..)
}

#[test]
fn what_is_written_is_right() {
    let template = Template::new(&invite()).unwrap();
    let bytes = written(&template, &values());
    let message = Message::parse(&bytes).unwrap();
    assert_eq!(message.violations(), []);
    assert_eq!(message.to_bytes(), bytes, "nothing is there that the strict writer would not write");
    let headers = message.headers();
    assert_eq!((headers.get(&Name::Route), headers.get(&Name::Authorization)), (None, None));
    assert_eq!(headers.cseq().unwrap().unwrap().number, 17);
    assert_eq!(headers.get(&Name::Contact), Some("<sip:alice@192.0.2.1:5060>"));
    assert_eq!(message.body().as_ref(), b"v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\n");

    let lines = values()
        .with(Hole::Routes, b"Route: <sip:p1;lr>\r\nRoute: <sip:p2;lr>\r\n")
        .with(Hole::Authorization, b"Proxy-Authorization: Digest username=\"alice\"\r\n")
        .with(Hole::Body, b"");
    let message = Message::parse(&written(&template, &lines)).unwrap();
    assert_eq!(message.violations(), []);
    assert_eq!(message.headers().addresses(&Name::Route).unwrap().len(), 2);
    assert!(message.headers().get(&Name::ProxyAuthorization).is_some());
    assert_eq!(message.body().as_ref(), b"v=0\r\no=\r\n");
}

#[test]
fn holes_stand_where_they_can() {
    let mut message = invite();
    message.headers_mut().set(Name::Route, format!("<sip:x>, {}", Hole::Routes.name()));
    assert_eq!(Template::new(&message).unwrap_err(), TemplateError::NotALine(Hole::Routes.name()));
    let text = format!("BYE sip:a SIP/2.0\r\nl: 10\r\n\r\n{}", Hole::Tag.name());
    let message = Message::parse(&Bytes::from(text)).unwrap();
    assert_eq!(Message::parse(&message.to_bytes()).unwrap().body().len(), 10);
    let text = format!("BYE sip:a SIP/2.0\r\n\r\n{}", Hole::Routes.name());
    let message = Message::parse(&Bytes::from(text)).unwrap();
    assert_eq!(Template::new(&message).unwrap_err(), TemplateError::InTheBody(Hole::Routes.name()));
}

/// Each fault breaks the rule that it names and no other. Without a fault no rule is broken.
#[test]
fn each_fault_breaks_its_rule() {
    assert_eq!(broken_rules(&written(&Template::new(&invite()).unwrap(), &values())), [""; 0]);
    let right = Message::parse(&written(&Template::new(&invite()).unwrap(), &values())).unwrap();
    for fault in Fault::ALL {
        let bytes = fault.spoil(&right);
        let mut rules = broken_rules(&bytes);
        rules.retain(|rule| *rule != rule_of(Fault::OversizedHeader) || fault == Fault::OversizedHeader);
        rules.dedup();
        assert_eq!(rules, [rule_of(fault)], "{fault:?}: {}", String::from_utf8_lossy(&bytes));
        Scan::of(&bytes);
    }
}

/// Faults that a response can have.
#[test]
fn a_response_is_wrong_in_its_own_ways() {
    let request = Message::parse(&written(&Template::new(&invite()).unwrap(), &values())).unwrap();
    let response: Message = request.as_request().unwrap().response(netrig_sip::Status::OK).into();
    assert_eq!(broken_rules(&response.to_bytes()), [""; 0]);
    for fault in [
        Fault::MissingVia,
        Fault::RepeatedTo,
        Fault::LongContentLength,
        Fault::AnotherVersion,
        Fault::ShortStartLine,
        Fault::GarbledStartLine,
        Fault::BareLineFeeds,
        Fault::BinaryGarbage,
    ] {
        assert_eq!(broken_rules(&fault.spoil(&response)), [rule_of(fault)], "{fault:?}");
    }
    assert_eq!(Fault::MissingMaxForwards.spoil(&response), response.to_bytes());
}

/// The section with the rule that the fault breaks.
const fn rule_of(fault: Fault) -> &'static str {
    match fault {
        Fault::MissingVia
        | Fault::MissingFrom
        | Fault::MissingTo
        | Fault::MissingCallId
        | Fault::MissingCSeq => "RFC 3261 section 8.1.1",
        Fault::MissingMaxForwards => "RFC 3261 section 8.1.1.6",
        Fault::MissingContact => "RFC 3261 section 8.1.1.8",
        Fault::MissingFromTag => "RFC 3261 section 8.1.1.3",
        Fault::RepeatedFrom
        | Fault::RepeatedTo
        | Fault::RepeatedCallId
        | Fault::RepeatedCSeq
        | Fault::RepeatedContentLength
        | Fault::ManyHeaders
        | Fault::MissingColon
        | Fault::GarbledName => "RFC 3261 section 7.3.1",
        Fault::GarbledVia => "RFC 3261 section 20.42",
        Fault::GarbledFrom => "RFC 3261 section 20.20",
        Fault::GarbledTo => "RFC 3261 section 20.39",
        Fault::GarbledCallId => "RFC 3261 section 20.8",
        Fault::GarbledCSeq | Fault::LargeCSeq => "RFC 3261 section 20.16",
        Fault::GarbledContact => "RFC 3261 section 20.10",
        Fault::GarbledMaxForwards | Fault::NegativeContentLength => "RFC 3261 section 20",
        Fault::ManyForwards => "RFC 3261 section 20.22",
        Fault::CSeqOfAnotherMethod => "RFC 3261 section 8.1.1.5",
        Fault::BranchWithoutCookie | Fault::MissingBranch => "RFC 3261 section 8.1.1.7",
        Fault::LongContentLength => "RFC 3261 section 18.3",
        Fault::MissingContentType => "RFC 3261 section 7.4.1",
        Fault::OversizedHeader => "RFC 3261 section 18.1.1",
        Fault::AnotherVersion | Fault::ShortStartLine | Fault::GarbledStartLine => "RFC 3261 section 7.1",
        Fault::BareLineFeeds | Fault::MissingEmptyLine | Fault::BinaryGarbage => "RFC 3261 section 7",
    }
}

/// All rules that a datagram breaks for a strict reader. If it cannot be parsed, that is one rule. Otherwise the size limit of
/// UDP is checked too.
fn broken_rules(datagram: &Bytes) -> Vec<&'static str> {
    match Message::parse(datagram) {
        Err(ParseError { rule, .. }) => vec![rule],
        Ok(message) => {
            // "If a request is within 200 bytes of the path MTU, or if it is larger than 1300 bytes and the path MTU is
            // unknown, the request MUST be sent using an RFC 2914 [43] congestion controlled transport protocol, such as
            // TCP."
            let is_large = message.as_request().is_some() && datagram.len() > 1300;
            let own = message.violations().into_iter().map(|violation| violation.rule);
            own.chain(is_large.then_some(rule_of(Fault::OversizedHeader))).collect()
        }
    }
}
