//! The servers, against the rules of the RFCs.

use bytes::Bytes;
use netrig_core::{Duration, Instant, Seeds};

use super::*;
use crate::digest::{Algorithm, DigestChallenge, DigestSession};
use crate::header::{NameAddr, Transport};
use crate::torture;
use crate::transaction::Timing;
use crate::{Host, Message, Method, Name, Response, SipUri, Status, Uri};

mod proxy;
mod registrar;

pub(super) const ALICE: &str = "192.0.2.1:5060";
pub(super) const BOB: &str = "192.0.2.2:5060";
pub(super) const CAROL: &str = "192.0.2.3:5062";
const SERVER: &str = "192.0.2.9:5060";

pub(super) fn at(seconds: f64) -> Instant {
    Instant::ZERO + Duration::from_secs_f64(seconds)
}

pub(super) fn source(address: &str) -> Source {
    Source { transport: Transport::Udp, address: address.parse().unwrap() }
}

pub(super) fn domain() -> Domain {
    Domain {
        names: vec![Host::Name("biloxi.com".into())],
        listens: vec![(Transport::Udp, SERVER.parse().unwrap())],
    }
}

pub(super) fn registry() -> Registry {
    Registry::new(domain(), 100)
}

pub(super) fn message(text: &str) -> Message {
    Message::parse(&Bytes::from(text.to_owned())).unwrap()
}

/// A request from `from` to `uri`, with further header fields, each with its line end.
pub(super) fn request(method: &str, uri: &str, from: &str, number: u32, more: &str) -> Message {
    let contact =
        if method == "INVITE" { format!("Contact: <sip:caller@{from}>\r\n") } else { String::new() };
    message(&format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {from};branch=z9hG4bK{number}\r\nMax-Forwards: 70\r\n\
         From: <sip:caller@elsewhere.com>;tag=1\r\nTo: <{uri}>\r\nCall-ID: c{number}\r\nCSeq: {number} {method}\r\n\
         {contact}{more}\r\n"
    ))
}

pub(super) fn register(user: &str, call_id: &str, number: u32, more: &str) -> Message {
    message(&format!(
        "REGISTER sip:biloxi.com SIP/2.0\r\nVia: SIP/2.0/UDP {BOB};branch=z9hG4bK{call_id}{number}\r\nMax-Forwards: 70\r\n\
         From: <sip:{user}@biloxi.com>;tag=2\r\nTo: <sip:{user}@biloxi.com>\r\nCall-ID: {call_id}\r\n\
         CSeq: {number} REGISTER\r\n{more}\r\n"
    ))
}

/// The messages of a server, with their destinations.
pub(super) fn transmitted(server: &mut impl Server) -> Vec<(Destination, Message)> {
    std::iter::from_fn(|| server.poll_transmit()).collect()
}

/// The only response to `message`.
pub(super) fn answer(server: &mut impl Server, now: Instant, message: Message) -> Response {
    server.handle(now, message, source(BOB));
    let mut all = transmitted(server);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0).1.as_response().unwrap().clone()
}

pub(super) fn code(server: &mut impl Server, now: f64, message: Message) -> u16 {
    answer(server, at(now), message).status.code()
}

pub(super) fn contacts(response: &Response) -> Vec<String> {
    response.headers.all(&Name::Contact).map(str::to_owned).collect()
}

pub(super) fn registrar() -> Registrar {
    Registrar::new(registry(), 100, Timing::default())
}

#[test]
fn a_redirect_server_says_where() {
    let mut server = Redirect::new(registry(), 100, Timing::default());
    let ask =
        |number: u32, user: &str| request("INVITE", &format!("sip:{user}@biloxi.com"), ALICE, number, "");
    assert_eq!(code(&mut server, 0.0, ask(1, "bob")), 480);
    answer(&mut server, at(0.0), register("bob", "a", 1, "Contact: <sip:bob@h1>;q=0.1, <sip:bob@h2>\r\n"));
    let moved = answer(&mut server, at(1.0), ask(2, "bob"));
    let expected = ["<sip:bob@h2>;expires=3599", "<sip:bob@h1>;q=0.1;expires=3599"];
    assert_eq!(
        (moved.status, contacts(&moved)),
        (Status::MOVED_TEMPORARILY, expected.map(str::to_owned).to_vec())
    );
    assert_eq!(code(&mut server, 1.0, request("CANCEL", "sip:bob@biloxi.com", ALICE, 2, "")), 200);
    assert_eq!(code(&mut server, 1.0, request("CANCEL", "sip:bob@biloxi.com", ALICE, 77, "")), 481);
    assert_eq!(code(&mut server, 1.0, request("INVITE", "sip:bob@chicago.com", ALICE, 3, "")), 404);
    assert_eq!(code(&mut server, 1.0, request("INVITE", "tel:110", ALICE, 4, "")), 416);
    // "any unknown option tags in Require" are for the callee.
    assert_eq!(
        code(&mut server, 1.0, request("INVITE", "sip:bob@biloxi.com", ALICE, 5, "Require: x\r\n")),
        302
    );
    server.registry.users = DomainUsers::Known([].into());
    assert_eq!(code(&mut server, 1.0, ask(6, "bob")), 404);
}

/// RFC 3261 section 18.2.1 and RFC 3581.
#[test]
fn a_response_goes_where_its_request_came_from() {
    let mut server = registrar();
    let mut ask = |via: &str| {
        let text = register("bob", via, 1, "").to_string();
        let text = text.replace(&format!("UDP {BOB}"), &format!("UDP {via}"));
        let text = text
            .replace(&format!("Call-ID: {via}"), "Call-ID: x")
            .replace(&format!("z9hG4bK{via}"), "z9hG4bKx");
        server.handle(at(0.0), message(&text), source("198.51.100.7:9000"));
        let (to, response) = transmitted(&mut server).remove(0);
        (to, response.headers().top_via().unwrap().unwrap().to_string())
    };
    let to = |address: &str| Destination::Address(source(address));
    assert_eq!(ask("198.51.100.7:5062").0, to("198.51.100.7:5062"));
    let (there, via) = ask("host.example");
    assert_eq!(there, to("198.51.100.7:5060"));
    assert_eq!(via, "SIP/2.0/UDP host.example;branch=z9hG4bKx1;received=198.51.100.7");
    // No host gets a response that it did not ask for.
    assert_eq!(ask("198.51.100.7:5099;received=203.0.113.1").0, to("198.51.100.7:5099"));
    let (there, via) = ask("198.51.100.7;rport");
    assert_eq!(there, to("198.51.100.7:9000"));
    assert_eq!(via, "SIP/2.0/UDP 198.51.100.7;rport=9000;branch=z9hG4bKx1;received=198.51.100.7");
    // A datagram opens no connection, whatever its `Via`.
    let text =
        register("bob", "y", 1, "").to_string().replace(&format!("UDP {BOB}"), "TCP 198.51.100.7:5099");
    server.handle(at(0.0), message(&text), source("198.51.100.7:9000"));
    assert_eq!(transmitted(&mut server).remove(0).0, to("198.51.100.7:9000"));
}

/// A proxy with bindings of bob at both addresses.
pub(super) fn proxy() -> Proxy {
    let mut proxy = Proxy::new(registry(), true, 100, Timing::default(), Seeds::new(1).stream("proxy"));
    let contacts = format!("Contact: <sip:bob@{BOB}>, <sip:bob@{CAROL}>\r\n");
    proxy.handle(at(0.0), register("bob", "r", 1, &contacts), source(BOB));
    assert_eq!(transmitted(&mut proxy).len(), 1);
    // Most tests need a proxy that forwards to any target.
    proxy.registry.relays = true;
    proxy
}

/// Sends the response to a forwarded request.
pub(super) fn respond(proxy: &mut Proxy, now: f64, request: &Message, code: u16, tag: &str) {
    let mut response = request.as_request().unwrap().response(Status::new(code).unwrap());
    response.headers.set(Name::To, format!("<sip:bob@biloxi.com>;tag={tag}"));
    proxy.handle(at(now), response.into(), source(BOB));
}

pub(super) fn described(all: &[(Destination, Message)]) -> Vec<String> {
    let word = |message: &Message| match message {
        Message::Request(request) => request.method.to_string(),
        Message::Response(response) => response.status.to_string(),
    };
    all.iter().map(|(_, message)| word(message)).collect()
}

pub(super) fn invite(proxy: &mut Proxy) -> Vec<Message> {
    proxy.handle(at(1.0), request("INVITE", "sip:bob@biloxi.com", ALICE, 7, ""), source(ALICE));
    let all = transmitted(proxy);
    assert_eq!(described(&all), ["INVITE", "INVITE"]);
    let to = |address| Destination::Address(source(address));
    assert_eq!([&all[0].0, &all[1].0], [&to(BOB), &to(CAROL)]);
    all.into_iter().map(|(_, message)| message).collect()
}

#[test]
fn an_address_is_named_that_the_peer_can_answer() {
    let all = [
        (Transport::Udp, "127.0.0.1:5060"),
        (Transport::Udp, "192.0.2.9:5070"),
        (Transport::Udp, "[2001:db8::9]:5060"),
        (Transport::Udp, "[fe80::9%7]:5060"),
        (Transport::Tcp, "192.0.2.9:5080"),
    ];
    let listens = all.map(|(transport, address)| (transport, address.parse().unwrap())).to_vec();
    let domain = Domain { names: Vec::new(), listens };
    for (transport, to, expected) in [
        (Transport::Udp, "127.0.0.2", Some("127.0.0.1:5060")),
        (Transport::Udp, "192.0.2.1", Some("192.0.2.9:5070")),
        (Transport::Udp, "2001:db8::1", Some("[2001:db8::9]:5060")),
        (Transport::Udp, "fe80::1", Some("[fe80::9%7]:5060")),
        (Transport::Tcp, "127.0.0.2", Some("192.0.2.9:5080")),
        (Transport::Tcp, "2001:db8::1", None),
        (Transport::Tls, "192.0.2.1", None),
    ] {
        let found = domain.listens_towards(transport, Some(to.parse().unwrap()));
        assert_eq!(found, expected.map(|own| own.parse().unwrap()), "{transport:?} {to}");
    }
}

/// A message names no interface, and the response uses the interface of its request.
#[test]
fn an_answer_to_an_address_of_a_link_leaves_on_its_link() {
    let from = source("[fe80::1%7]:5060");
    let listens = vec![(Transport::Udp, "[fe80::9%7]:5060".parse().unwrap())];
    let domain = Domain { names: Vec::new(), listens };
    let mut server = Registrar::new(Registry::new(domain, 10), 10, Timing::default());
    server.handle(at(1.0), request("OPTIONS", "sip:[fe80::9]", "[fe80::1]:5060", 3, ""), from);
    let (to, answer) = transmitted(&mut server).remove(0);
    assert_eq!(to, Destination::Address(from));
    let text = String::from_utf8(answer.to_bytes().to_vec()).unwrap();
    assert!(text.starts_with("SIP/2.0 200 ") && !text.contains('%'), "{text}");
    let plain = source("[2001:db8::1]:5060").address;
    assert_eq!(on_link_of(plain, from.address), plain, "an address of no link has no interface");
}

/// RFC 3261 section 19.1.2: a URI without a port means port 5060, or 5061 over TLS.
#[test]
fn a_uri_without_a_port_is_for_who_listens_where_it_means() {
    for (transport, listens, uri, own) in [
        (Transport::Udp, "192.0.2.9:5060", "sip:192.0.2.9", true),
        (Transport::Udp, "192.0.2.9:5070", "sip:192.0.2.9", false),
        (Transport::Udp, "192.0.2.9:5070", "sip:192.0.2.9:5070", true),
        (Transport::Udp, "192.0.2.9:5061", "sip:192.0.2.9", false),
        (Transport::Tls, "192.0.2.9:5061", "sip:192.0.2.9", true),
        (Transport::Tls, "192.0.2.9:5060", "sip:192.0.2.9", true),
        (Transport::Tls, "192.0.2.9:5070", "sip:192.0.2.9", false),
        (Transport::Tls, "192.0.2.9:5060", "sip:192.0.2.8", false),
    ] {
        let domain = Domain { names: Vec::new(), listens: vec![(transport, listens.parse().unwrap())] };
        let uri: Uri = uri.parse().unwrap();
        assert_eq!(domain.is_own(uri.as_sip().unwrap()), own, "{transport:?} {listens} {uri:?}");
    }
}
