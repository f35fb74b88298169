//! The servers, against the rules of the RFCs.

use bytes::Bytes;
use netrig_core::{Duration, Instant, Seeds};

use super::*;
use crate::digest::{Algorithm, DigestChallenge, DigestSession};
use crate::header::{NameAddr, Transport};
use crate::torture;
use crate::transaction::Timing;
use crate::{Host, Message, Method, Name, Response, SipUri, Status, Uri};

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
fn bindings_are_added_refreshed_and_removed() {
    let mut server = registrar();
    let response =
        answer(&mut server, at(0.0), register("bob", "a", 1, "Contact: <sip:bob@h1>;expires=100;q=0.5\r\n"));
    assert_eq!(
        (response.status, contacts(&response)),
        (Status::OK, vec!["<sip:bob@h1>;q=0.5;expires=100".into()])
    );
    assert!(response.headers.to().unwrap().unwrap().tag().is_some());
    let response =
        answer(&mut server, at(10.0), register("bob", "b", 1, "Contact: <sip:bob@h2>\r\nExpires: 200\r\n"));
    assert_eq!(contacts(&response), ["<sip:bob@h2>;expires=200", "<sip:bob@h1>;q=0.5;expires=90"]);
    // Without a contact it is a query.
    assert_eq!(contacts(&answer(&mut server, at(20.5), register("bob", "q", 1, ""))).len(), 2);
    // A contact with an equivalent URI is the same binding.
    let response =
        answer(&mut server, at(30.0), register("bob", "a", 2, "Contact: <sip:bob@H1>\r\nExpires: 9000\r\n"));
    assert_eq!(contacts(&response), ["<sip:bob@h2>;expires=180", "<sip:bob@H1>;expires=3600"]);
    let response =
        answer(&mut server, at(40.0), register("bob", "b", 2, "Contact: <sip:bob@h2>;expires=0\r\n"));
    assert_eq!(contacts(&response).len(), 1);
    assert_eq!(
        contacts(&answer(&mut server, at(41.0), register("bob", "a", 3, "Contact: *\r\nExpires: 0\r\n")))
            .len(),
        0
    );
    assert!(server.registry().bindings.is_empty());
}

#[test]
fn a_registration_is_done_wholly_or_not_at_all() {
    let mut server = registrar();
    let two = "Contact: <sip:bob@h1>, <sip:bob@h2>\r\n";
    assert_eq!(code(&mut server, 0.0, register("bob", "a", 5, two)), 200);
    assert_eq!(
        code(&mut server, 1.0, register("bob", "a", 5, &format!("{two}X: 1\r\n"))),
        200,
        "a repetition"
    );
    for (number, more, expected) in [
        (4, "Contact: <sip:bob@h3>, <sip:bob@h1>\r\n", 500),
        (3, "Contact: *\r\nExpires: 0\r\n", 500),
        (6, "Contact: *\r\nExpires: 1\r\n", 400),
        (7, "Contact: *\r\n", 400),
        (8, "Contact: *\r\nContact: <sip:bob@h1>\r\nExpires: 0\r\n", 400),
        (9, "Contact: <sip:bob@h3>, <sip:bob@h1>;expires=10\r\n", 423),
        (10, "Contact: sip:bob@h?x=y\r\n", 400),
        (11, "Contact: <sip:bob@h3>\r\nRequire: x\r\n", 420),
    ] {
        // Each request has its own transaction.
        let found = answer(&mut server, at(60.0 + f64::from(number)), register("bob", "a", number, more));
        assert_eq!(found.status.code(), expected, "{more}");
        assert_eq!(found.headers.get(&Name::MinExpires), (expected == 423).then_some("60"));
    }
    assert_eq!(server.registry().bindings.of_record(at(100.0), "bob@biloxi.com").len(), 2);
    let many: String = (0..=MOST_BINDINGS).map(|n| format!("Contact: <sip:bob@m{n}>\r\n")).collect();
    assert_eq!(code(&mut server, 200.0, register("bob", "z", 1, &many)), 503);
}

#[test]
fn who_is_not_of_here_is_not_found() {
    let mut server = registrar();
    let elsewhere = |text: Message, from: &str, to: &str| message(&text.to_string().replace(from, to));
    let bob = |call_id: &str| register("bob", call_id, 1, "");
    assert_eq!(code(&mut server, 0.0, elsewhere(bob("x"), "sip:biloxi.com", "sip:chicago.com")), 404);
    assert_eq!(
        code(&mut server, 40.0, elsewhere(bob("y"), "To: <sip:bob@biloxi.com>", "To: <sip:bob@x.com>")),
        404
    );
    assert_eq!(code(&mut server, 80.0, request("INVITE", "sip:bob@biloxi.com", BOB, 3, "")), 405);
    assert_eq!(code(&mut server, 120.0, elsewhere(bob("z"), "CSeq: 1 REGISTER", "CSeq: 1 INVITE")), 400);
    server.registry.users = DomainUsers::Known([("carol".to_owned(), "x".to_owned())].into());
    assert_eq!(code(&mut server, 160.0, register("bob", "n", 2, "Contact: <sip:a@b>\r\n")), 404);
    assert_eq!(code(&mut server, 160.0, register("c%61rol", "n", 3, "Contact: <sip:a@b>\r\n")), 200);
}

#[test]
fn bindings_end_by_themselves() {
    let mut server = registrar();
    answer(
        &mut server,
        at(0.0),
        register("bob", "a", 1, "Contact: <sip:bob@h1>;expires=100, <sip:bob@h2>;expires=200\r\n"),
    );
    let bindings = &mut server.registry.bindings;
    assert_eq!(bindings.poll_timeout(), Some(at(100.0)));
    bindings.handle_timeout(at(100.0));
    assert_eq!((bindings.len(), bindings.poll_timeout()), (1, Some(at(200.0))));
    assert_eq!(bindings.of(at(150.0), &"sip:bob@BILOXI.com;user=phone".parse().unwrap()).len(), 1);
    bindings.handle_timeout(at(200.0));
    assert!(bindings.is_empty() && bindings.poll_timeout().is_none());
}

#[test]
fn so_many_users_and_transactions_and_no_more() {
    let mut server = Registrar::new(Registry::new(domain(), 2), 5, Timing::default());
    let statuses: Vec<u16> = (0..7)
        .map(|n| {
            code(&mut server, 0.0, register(&format!("u{n}"), &format!("c{n}"), 1, "Contact: <sip:a@b>\r\n"))
        })
        .collect();
    assert_eq!(statuses, [200, 200, 503, 503, 503, 503, 503]);
    assert_eq!(server.registry().bindings.len(), 2);
    server.handle_timeout(at(32.0));
    assert_eq!(code(&mut server, 32.0, register("u0", "c0", 2, "")), 200);
}

#[test]
fn a_user_proves_who_they_are() {
    let mut server = registrar();
    let users = ["bob", "carol"].map(|user| (user.to_owned(), "zanzibar".to_owned()));
    server.registry.users = DomainUsers::Known(users.into());
    let authenticator = Authenticator::new("biloxi.com", Algorithm::MD5, &mut Seeds::new(1).stream("nonces"));
    server.registry.authenticator = Some(authenticator);
    let challenged = answer(&mut server, at(0.0), register("bob", "a", 1, "Contact: <sip:a@b>\r\n"));
    assert_eq!(challenged.status, Status::UNAUTHORIZED);
    let challenge = challenged.headers.challenges(&Name::WwwAuthenticate).unwrap().remove(0);
    let mut session = DigestSession::new(DigestChallenge::read(&challenge).unwrap(), "bob", "zanzibar");
    let mut proof = || {
        let answer = session.answer(&Method::Register, "sip:biloxi.com", b"", "0a4f113b").write();
        format!("Authorization: {answer}\r\nContact: <sip:a@b>\r\n")
    };
    let first = proof();
    assert_eq!(code(&mut server, 0.1, register("bob", "a", 2, &first)), 200);
    let replayed = answer(&mut server, at(0.2), register("bob", "a", 3, &first));
    let challenge = replayed.headers.challenges(&Name::WwwAuthenticate).unwrap().remove(0);
    assert!(DigestChallenge::read(&challenge).unwrap().stale);
    assert_eq!(code(&mut server, 0.3, register("carol", "b", 1, &proof())), 403);
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

#[test]
fn who_speaks_for_a_user_of_here_proves_it() {
    let mut proxy = proxy();
    let users = ["bob", "carol"].map(|user| (user.to_owned(), "zanzibar".to_owned()));
    proxy.registry.users = DomainUsers::Known(users.into());
    let authenticator = Authenticator::new("biloxi.com", Algorithm::MD5, &mut Seeds::new(1).stream("nonces"));
    proxy.registry.authenticator = Some(authenticator);
    let mut ask = |number: u32, from: &str, more: &str| {
        let text = request("MESSAGE", "sip:bob@biloxi.com", ALICE, number, more).to_string();
        proxy.handle(at(1.0), message(&text.replace("caller@elsewhere.com", from)), source(ALICE));
        transmitted(&mut proxy).remove(0).1
    };
    assert!(ask(1, "dave@chicago.com", "").as_request().is_some(), "a user of another domain");
    let challenged = ask(2, "carol@biloxi.com", "");
    assert_eq!(challenged.as_response().unwrap().status, Status::PROXY_AUTHENTICATION_REQUIRED);
    let challenge = challenged.headers().challenges(&Name::ProxyAuthenticate).unwrap().remove(0);
    let mut session = DigestSession::new(DigestChallenge::read(&challenge).unwrap(), "carol", "zanzibar");
    let mut proof = || {
        let answer = session.answer(&Method::Message, "sip:bob@biloxi.com", b"", "0a4f113b").write();
        format!("Proxy-Authorization: {answer}\r\n")
    };
    assert!(ask(3, "carol@biloxi.com", &proof()).as_request().is_some());
    assert_eq!(ask(4, "bob@biloxi.com", &proof()).as_response().unwrap().status, Status::FORBIDDEN);
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
fn a_proxy_forks_to_all_and_cancels_who_was_late() {
    let mut proxy = proxy();
    let copies = invite(&mut proxy);
    let first = copies[0].as_request().unwrap();
    assert_eq!(first.uri.to_string(), format!("sip:bob@{BOB}"));
    assert_eq!(first.headers.get(&Name::MaxForwards), Some("69"));
    let route = first.headers.get(&Name::RecordRoute).unwrap();
    assert!(route.starts_with("<sip:192.0.2.9:5060;lr;dialog="), "{route}");
    assert_eq!((first.headers.vias().unwrap().len(), copies[0].violations()), (2, vec![]));
    respond(&mut proxy, 1.1, &copies[0], 100, "x");
    assert_eq!(described(&transmitted(&mut proxy)), [""; 0], "100 goes no further");
    respond(&mut proxy, 1.2, &copies[0], 180, "x");
    respond(&mut proxy, 1.2, &copies[1], 183, "y");
    let all = transmitted(&mut proxy);
    assert_eq!(described(&all), ["180", "183"]);
    assert_eq!(all[0].1.headers().vias().unwrap().len(), 1);
    respond(&mut proxy, 2.0, &copies[0], 200, "x");
    assert_eq!(described(&transmitted(&mut proxy)), ["200", "CANCEL"]);
    // A retransmitted 2xx is forwarded again, and so is the 2xx of another branch.
    respond(&mut proxy, 2.5, &copies[0], 200, "x");
    respond(&mut proxy, 2.5, &copies[1], 200, "y");
    assert_eq!(described(&transmitted(&mut proxy)), ["200", "200"]);
    let ack = request("ACK", &format!("sip:bob@{BOB}"), ALICE, 8, "Route: <sip:192.0.2.9:5060;lr>\r\n");
    proxy.handle(at(2.6), ack, source(ALICE));
    let all = transmitted(&mut proxy);
    assert_eq!((described(&all), &all[0].0), (vec!["ACK".to_owned()], &Destination::Address(source(BOB))));
    assert!(all[0].1.headers().get(&Name::Route).is_none());
    while let Some(next) = proxy.poll_timeout().filter(|next| *next < at(100.0)) {
        proxy.handle_timeout(next);
    }
    assert_eq!((proxy.contexts.len(), proxy.owners.len(), proxy.due.len()), (0, 0, 0));
}

#[test]
fn the_best_of_the_refusals_is_forwarded() {
    for (codes, expected) in [
        ([486, 404], 486),
        ([503, 480], 480),
        ([503, 503], 500),
        ([302, 404], 302),
        ([404, 407], 407),
        ([603, 200], 200),
        ([500, 404], 404),
    ] {
        let mut proxy = proxy();
        let copies = invite(&mut proxy);
        respond(&mut proxy, 1.1, &copies[0], codes[0], "x");
        assert_eq!(described(&transmitted(&mut proxy)), ["ACK"], "the others are waited for");
        respond(&mut proxy, 1.2, &copies[1], codes[1], "y");
        let all = described(&transmitted(&mut proxy));
        assert!(all.contains(&expected.to_string()), "{codes:?}: {all:?}");
    }
}

#[test]
fn a_6xx_ends_all_branches() {
    let mut proxy = proxy();
    let copies = invite(&mut proxy);
    respond(&mut proxy, 1.1, &copies[1], 180, "y");
    transmitted(&mut proxy);
    respond(&mut proxy, 1.2, &copies[0], 603, "x");
    assert_eq!(described(&transmitted(&mut proxy)), ["ACK", "CANCEL"]);
    respond(&mut proxy, 1.3, &copies[1], 487, "y");
    assert_eq!(described(&transmitted(&mut proxy)), ["ACK", "603"]);
}

#[test]
fn a_cancel_goes_to_each_branch_that_has_answered() {
    let mut proxy = proxy();
    let copies = invite(&mut proxy);
    respond(&mut proxy, 1.1, &copies[0], 180, "x");
    transmitted(&mut proxy);
    proxy.handle(at(1.2), request("CANCEL", "sip:bob@biloxi.com", ALICE, 7, ""), source(ALICE));
    assert_eq!(described(&transmitted(&mut proxy)), ["CANCEL", "200"]);
    // The other branch has no response: its CANCEL waits for one.
    respond(&mut proxy, 1.3, &copies[1], 100, "y");
    assert_eq!(described(&transmitted(&mut proxy)), ["CANCEL"]);
    respond(&mut proxy, 1.4, &copies[0], 487, "x");
    respond(&mut proxy, 1.4, &copies[1], 487, "y");
    assert_eq!(described(&transmitted(&mut proxy)), ["ACK", "ACK", "487"]);
    proxy.handle(at(1.5), request("CANCEL", "sip:bob@biloxi.com", ALICE, 99, ""), source(ALICE));
    assert_eq!(described(&transmitted(&mut proxy)), ["481"]);
}

/// Timer B ends a silent branch, timer C a ringing one.
#[test]
fn a_proxy_does_not_wait_for_ever() {
    let until_end = |proxy: &mut Proxy| {
        let mut all = Vec::new();
        while let Some(next) = proxy.poll_timeout().filter(|next| *next < at(1000.0)) {
            proxy.handle_timeout(next);
            let seconds = next.as_nanos() / 1_000_000_000;
            all.extend(described(&transmitted(proxy)).into_iter().map(|word| (seconds, word)));
        }
        all.retain(|(_, word)| word != "INVITE");
        all
    };
    let mut silent = proxy();
    invite(&mut silent);
    let all = until_end(&mut silent);
    assert_eq!(all[..2], [(1, "100".into()), (33, "408".into())]);
    let mut ringing = proxy();
    let copies = invite(&mut ringing);
    respond(&mut ringing, 2.0, &copies[0], 180, "x");
    respond(&mut ringing, 2.0, &copies[1], 486, "y");
    transmitted(&mut ringing);
    let all = until_end(&mut ringing);
    assert_eq!(all[0], (183, "CANCEL".into()));
    assert!(all.contains(&(215, "486".into())), "{all:?}");
    assert_eq!((ringing.contexts.len(), ringing.owners.len(), ringing.due.len()), (0, 0, 0));
}

#[test]
fn a_network_that_refuses_is_503_and_that_500() {
    let mut proxy = proxy();
    let copies = invite(&mut proxy);
    for copy in &copies {
        proxy.handle_failure(at(1.1), copy);
    }
    assert_eq!(described(&transmitted(&mut proxy)), ["500"]);
}

/// RFC 3261 section 16.3, with the messages of RFC 4475 for this section.
#[test]
fn what_is_not_fit_is_not_forwarded() {
    let mut server = proxy();
    let mut refused = |message: Message| {
        server.handle(at(50.0), message, source(ALICE));
        described(&transmitted(&mut server)).remove(0)
    };
    let torture = |name| Message::parse(&torture::message(name).unwrap().bytes.into()).unwrap();
    assert_eq!(refused(torture("zeromf")), "483");
    assert_eq!(refused(torture("unkscm")), "416");
    assert_eq!(refused(torture("novelsc")), "416");
    assert_eq!(refused(torture("bext01")), "420");
    assert_eq!(refused(torture("multi01")), "400");
    assert_eq!(refused(torture("insuf")), "400");
    assert_eq!(refused(torture("mismatch01")), "400");
    assert_eq!(refused(request("INVITE", "sip:nobody@biloxi.com", ALICE, 3, "")), "480");
    assert_eq!(refused(request("OPTIONS", "sip:biloxi.com", ALICE, 3, "")), "200");
}

#[test]
fn a_loop_is_found_and_a_spiral_is_none() {
    let mut proxy = proxy();
    let ask = request("INVITE", "sip:dave@chicago.com", ALICE, 7, "");
    proxy.handle(at(1.0), ask, source(ALICE));
    let (to, forwarded) = transmitted(&mut proxy).remove(0);
    assert_eq!(
        to,
        Destination::Uri(Box::new(SipUri::new(Host::Name("chicago.com".into())).with_user("dave")))
    );
    // The request returns unchanged: a loop.
    proxy.handle(at(1.1), forwarded.clone(), source(CAROL));
    assert_eq!(described(&transmitted(&mut proxy)), ["482"]);
    // The request returns with another Request-URI: a spiral.
    let mut spiral = forwarded.as_request().unwrap().clone();
    spiral.uri = "sip:bob@biloxi.com".parse().unwrap();
    spiral.headers.push_front(Name::Via, "SIP/2.0/UDP chicago.com;branch=z9hG4bKother");
    proxy.handle(at(1.2), spiral.into(), source(CAROL));
    assert_eq!(described(&transmitted(&mut proxy)), ["INVITE", "INVITE"]);
}

/// RFC 3261 section 16.12.1.
#[test]
fn routes_are_taken_off_and_strict_routers_served() {
    let uri = |message: &Message| message.as_request().unwrap().uri.to_string();
    let routes =
        |message: &Message| message.headers().all(&Name::Route).map(str::to_owned).collect::<Vec<_>>();
    let mut proxy = proxy();
    let mut forwarded = |uri: &str, number: u32, more: &str| {
        proxy.handle(at(1.0), request("BYE", uri, ALICE, number, more), source(ALICE));
        transmitted(&mut proxy).remove(0)
    };
    // A strict router has put this proxy into the Request-URI.
    let strict = "Route: <sip:192.0.2.7;lr>, <sip:dave@192.0.2.3:5062>\r\n";
    let (to, message) = forwarded("sip:192.0.2.9:5060;lr", 1, strict);
    assert_eq!(
        (uri(&message), routes(&message)),
        ("sip:dave@192.0.2.3:5062".into(), vec!["<sip:192.0.2.7;lr>".into()])
    );
    assert_eq!(to, Destination::Address(source("192.0.2.7:5060")));
    // The next hop is a strict router.
    let (to, message) = forwarded("sip:dave@h", 2, "Route: <sip:192.0.2.9;lr>, <sip:192.0.2.7>\r\n");
    assert_eq!((uri(&message), routes(&message)), ("sip:192.0.2.7".into(), vec!["<sip:dave@h>".into()]));
    assert_eq!(to, Destination::Address(source("192.0.2.7:5060")));
}

/// RFC 3327: a request to a binding first visits the proxies on its path.
#[test]
fn a_path_is_followed() {
    let mut proxy = proxy();
    let path = "Supported: path\r\nPath: <sip:192.0.2.50;lr>\r\nContact: <sip:eve@192.0.2.51>\r\n";
    let listing = answer(&mut proxy, at(0.0), register("eve", "p", 1, path));
    assert_eq!(listing.headers.get(&Name::Path), Some("<sip:192.0.2.50;lr>"));
    proxy.handle(at(1.0), request("MESSAGE", "sip:eve@biloxi.com", ALICE, 9, ""), source(ALICE));
    let (to, message) = transmitted(&mut proxy).remove(0);
    assert_eq!(to, Destination::Address(source("192.0.2.50:5060")));
    assert_eq!(message.as_request().unwrap().uri.to_string(), "sip:eve@192.0.2.51");
    assert_eq!(message.headers().get(&Name::Route), Some("<sip:192.0.2.50;lr>"));
}

#[test]
fn a_stateless_proxy_does_the_same_again() {
    let mut proxy = StatelessProxy::new(registry(), Seeds::new(1).stream("proxy"));
    let bob: Uri = format!("sip:bob@{BOB}").parse().unwrap();
    let register = register("bob", "a", 1, &format!("Contact: <{bob}>\r\n"));
    assert_eq!(proxy.registry_mut().register(at(0.0), register.as_request().unwrap()).status, Status::OK);
    let mut forwarded = |method: &str| {
        proxy.handle(at(1.0), request(method, "sip:bob@biloxi.com", ALICE, 7, ""), source(ALICE));
        transmitted(&mut proxy).remove(0)
    };
    let (to, first) = forwarded("INVITE");
    assert_eq!(to, Destination::Address(source(BOB)));
    assert_eq!(forwarded("INVITE").1, first);
    let branch =
        |message: &Message| message.headers().top_via().unwrap().unwrap().branch().unwrap().to_owned();
    for method in ["CANCEL", "ACK"] {
        assert_eq!(branch(&forwarded(method).1), branch(&first), "{method}");
    }
    let ringing = first.as_request().unwrap().response(Status::RINGING);
    proxy.handle(at(2.0), ringing.into(), source(BOB));
    let (to, back) = transmitted(&mut proxy).remove(0);
    assert_eq!((to, back.headers().vias().unwrap().len()), (Destination::Address(source(ALICE)), 1));
    // A response without this proxy's `Via` is dropped, and so is a response to a request that this proxy has not
    // forwarded.
    proxy.handle(at(2.0), back, source(BOB));
    assert_eq!(described(&transmitted(&mut proxy)), [""; 0]);
    let text = Message::from(first.as_request().unwrap().response(Status::RINGING)).to_string();
    for forged in [
        text.replacen(&branch(&first), "z9hG4bK0123456789abcdef", 1),
        text.replacen("SIP/2.0/UDP 192.0.2.1:5060", "SIP/2.0/UDP 192.0.2.99:5060", 1),
        text.replacen("SIP/2.0/UDP 192.0.2.1:5060", "SIP/2.0/TCP 192.0.2.1:5060", 1),
    ] {
        assert_ne!(forged, text);
        proxy.handle(at(2.0), message(&forged), source(BOB));
        assert_eq!(described(&transmitted(&mut proxy)), [""; 0], "{forged}");
    }
    proxy.handle(at(3.0), request("INVITE", "sip:nobody@biloxi.com", ALICE, 8, ""), source(ALICE));
    assert_eq!(described(&transmitted(&mut proxy)), ["480"]);
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

#[test]
fn a_user_may_have_an_address_that_does_not_end() {
    let mut registry = registry();
    let mut place = |own: &str| {
        let contact = NameAddr::new("sip:bob@192.0.2.7:5080".parse().unwrap());
        registry.bindings.place(&own.parse().unwrap(), contact)
    };
    assert!(place("sip:bob@biloxi.com"));
    assert!(!place("tel:+15551234"));
    let mut server = Redirect::new(registry, 10, Timing::default());
    let found = answer(&mut server, at(1e6), request("INVITE", "sip:bob@biloxi.com", BOB, 1, ""));
    assert_eq!(contacts(&found), ["<sip:bob@192.0.2.7:5080>;expires=4294967295"]);
}

#[test]
fn what_is_long_takes_the_room_of_several() {
    let mut server = Registrar::new(registry(), 3, Timing::default());
    let long = format!("X: {}\r\n", "x".repeat(8500));
    assert_eq!(code(&mut server, 0.0, register("bob", "a", 1, &long)), 200);
    assert_eq!(code(&mut server, 1.0, register("bob", "a", 2, "")), 503);
    server.handle_timeout(at(33.0));
    assert_eq!(code(&mut server, 33.0, register("bob", "a", 3, "")), 200);
    let contact = format!("Contact: <sip:{}@h>\r\n", "x".repeat(5000));
    assert_eq!(code(&mut server, 34.0, register("bob", "a", 4, &contact)), 413);
}

/// RFC 3261 section 10.3: the registrar chooses the interval and returns it in the response.
#[test]
fn no_binding_lasts_longer_than_its_most() {
    let mut server = registrar();
    for (number, expires) in
        (1..).zip(["3601", "4000000000", "4294967295", "4294967296", "99999999999999999999"])
    {
        for (user, more) in [
            ("bob", format!("Contact: <sip:bob@192.0.2.1>;expires={expires}\r\n")),
            ("carol", format!("Contact: <sip:carol@192.0.2.1>\r\nExpires: {expires}\r\n")),
        ] {
            let response = answer(&mut server, at(0.0), register(user, user, number, &more));
            assert_eq!(response.status.code(), 200);
            let listed = contacts(&response);
            assert!(listed.len() == 1 && listed[0].ends_with(";expires=3600"), "{listed:?} of {expires}");
        }
    }
    server.handle_timeout(at(3600.0));
    assert_eq!(server.registry().bindings.len(), 0);
}

/// The memory is bounded for bindings of any length and any number of users.
#[test]
fn bindings_take_no_more_bytes_than_they_may() {
    let mut bindings = Bindings::new(1000);
    let most = bindings.most_kept();
    assert_eq!(most, 1000 * 1024 + (1 << 20));
    let contact = |number: usize| -> NameAddr {
        let uri: Uri = format!("sip:{}{number}@192.0.2.1", "x".repeat(3800)).parse().unwrap();
        NameAddr::new(uri)
    };
    let user = |number: usize| -> Uri { format!("sip:user{number}@biloxi.com").parse().unwrap() };
    let (mut taken, mut refused) = (0, 0);
    for number in 0..1000 {
        for place in 0..2 {
            if bindings.place(&user(number), contact(place)) {
                taken += 1
            } else {
                refused += 1
            }
            assert!(bindings.kept() <= most, "{} of {most} bytes", bindings.kept());
        }
    }
    assert!(taken > 100 && refused > 1000, "{taken} taken, {refused} refused");
    // Freed memory is available again: ordinary users all find room in an empty table.
    let mut bindings = Bindings::new(1000);
    assert!((0..1000).all(|number| bindings.place(&user(number), NameAddr::new(user(number)))));
}

/// For each method, the proxy first validates the request, then removes its own routes, then answers the request itself
/// or selects the targets (RFC 3261 section 16).
#[test]
fn a_proxy_processes_each_method_in_one_order() {
    let mut proxy = Proxy::new(registry(), false, 10_000, Timing::default(), Seeds::new(1).stream("proxy"));
    let mut number = 0;
    let mut ask = |method: &str, uri: &str, more: &str| {
        number += 1;
        let text = request(method, uri, ALICE, number, more).to_string();
        let text = match more.split_once("Max-Forwards: 0") {
            Some(_) => text.replacen("Max-Forwards: 70\r\n", "", 1),
            None => text,
        };
        proxy.handle(at(f64::from(number)), message(&text), source(ALICE));
        described(&transmitted(&mut proxy))
    };
    let [domain, own] = ["sip:biloxi.com", "sip:192.0.2.9:5060"];
    for (method, uri, more, expected) in [
        // The proxy answers registrations and requests for itself without forwarding them: Max-Forwards may be 0.
        ("REGISTER", domain, "Max-Forwards: 0\r\n", "200"),
        ("OPTIONS", own, "Max-Forwards: 0\r\n", "200"),
        ("OPTIONS", own, "Route: <sip:192.0.2.9;lr>\r\n", "200"),
        ("OPTIONS", "sip:bob@biloxi.com", "Max-Forwards: 0\r\n", "483"),
        ("MESSAGE", "sip:bob@biloxi.com", "Max-Forwards: 0\r\n", "483"),
        // An unknown requirement is refused even if the proxy itself answers.
        ("REGISTER", domain, "Proxy-Require: foo\r\n", "420"),
        ("OPTIONS", own, "Proxy-Require: foo\r\n", "420"),
        ("MESSAGE", "sip:bob@biloxi.com", "Proxy-Require: foo\r\n", "420"),
        // Another proxy is on the route.
        ("REGISTER", domain, "Route: <sip:192.0.2.99;lr>\r\n", "403"),
        ("OPTIONS", own, "Route: <sip:192.0.2.99;lr>\r\n", "403"),
        ("REGISTER", "tel:1", "", "416"),
        ("OPTIONS", "tel:1", "", "416"),
    ] {
        assert_eq!(ask(method, uri, more), [expected], "{method} {uri} {more}");
    }
}

/// RFC 3261 section 16.3 leaves it to the proxy's policy: no open relay.
#[test]
fn a_proxy_sends_strangers_no_further_than_to_its_users() {
    let mut proxy = Proxy::new(registry(), true, 10_000, Timing::default(), Seeds::new(1).stream("proxy"));
    let contacts = format!("Contact: <sip:bob@{BOB}>, <sip:bob@{CAROL}>\r\n");
    proxy.handle(at(0.0), register("bob", "r", 1, &contacts), source(BOB));
    transmitted(&mut proxy);
    let users = ["bob", "carol"].map(|user| (user.to_owned(), "zanzibar".to_owned()));
    proxy.registry.users = DomainUsers::Known(users.into());
    let authenticator = Authenticator::new("biloxi.com", Algorithm::MD5, &mut Seeds::new(1).stream("nonces"));
    proxy.registry.authenticator = Some(authenticator);
    let over = |transport| Source { transport, address: ALICE.parse().unwrap() };
    let mut number = 10;
    for transport in [Transport::Udp, Transport::Tcp] {
        let mut ask = |proxy: &mut Proxy, method: &str, uri: &str, from: &str, more: &str| {
            number += 1;
            let text =
                request(method, uri, ALICE, number, more).to_string().replace("caller@elsewhere.com", from);
            proxy.handle(at(1.0), message(&text), over(transport));
            transmitted(proxy)
        };
        let stranger = "x@evil.example";
        for method in ["MESSAGE", "INVITE", "OPTIONS", "BYE", "FOO"] {
            for (uri, more) in [
                ("sip:y@192.0.2.99", ""),
                ("sip:y@192.0.2.99:25;transport=tcp", ""),
                ("sip:y@elsewhere.example", ""),
                ("sip:bob@biloxi.com;maddr=192.0.2.99", ""),
                ("sip:bob@biloxi.com", "Route: <sip:192.0.2.99;lr>\r\n"),
                ("sip:bob@biloxi.com", "Route: <sip:192.0.2.9;lr>, <sip:192.0.2.99>\r\n"),
                ("sip:192.0.2.9:5060;lr", "Route: <sip:y@192.0.2.99>\r\n"),
                ("sip:y@192.0.2.99", "Route: <sip:192.0.2.9;lr;dialog=0123456789abcdef>\r\n"),
            ] {
                let answers = described(&ask(&mut proxy, method, uri, stranger, more));
                assert_eq!(answers, ["403"], "{method} {uri} {more}");
            }
            // Requests reach its users by address-of-record or contact.
            assert_eq!(described(&ask(&mut proxy, method, "sip:bob@biloxi.com", stranger, "")), [method; 2]);
            assert_eq!(
                described(&ask(&mut proxy, method, &format!("sip:bob@{BOB}"), stranger, "")),
                [method]
            );
        }
        assert!(
            ask(&mut proxy, "ACK", "sip:y@192.0.2.99", stranger, "").is_empty(),
            "and there is no response"
        );
        // An authenticated user may reach any target.
        let challenged = ask(&mut proxy, "MESSAGE", "sip:y@192.0.2.99", "carol@biloxi.com", "").remove(0).1;
        let challenge = challenged.headers().challenges(&Name::ProxyAuthenticate).unwrap().remove(0);
        let mut session = DigestSession::new(DigestChallenge::read(&challenge).unwrap(), "carol", "zanzibar");
        let proof = session.answer(&Method::Message, "sip:y@192.0.2.99", b"", "0a4f113b").write();
        let proof = format!("Proxy-Authorization: {proof}\r\n");
        let sent = ask(&mut proxy, "MESSAGE", "sip:y@192.0.2.99", "carol@biloxi.com", &proof);
        assert_eq!(described(&sent), ["MESSAGE"]);
    }
    // A dialog with a user continues in both directions, by the proxy's `Record-Route`.
    let number = &mut 600;
    let mut within = |proxy: &mut Proxy, method: &str, from: &str, edits: [(&str, &str); 4]| {
        *number += 1;
        let [(uri, route), (tag, call_id), replaced, replacing] = edits;
        let text = request(method, uri, from, *number, &format!("Route: {route}\r\n")).to_string();
        let text = text.replace(&format!("Call-ID: c{number}"), &format!("Call-ID: {call_id}"));
        let text = text.replace(&format!("To: <{uri}>"), &format!("To: <{uri}>;tag={tag}"));
        let text = text.replace(replaced.0, replaced.1).replace(replacing.0, replacing.1);
        proxy.handle(at(3.0), message(&text), source(from));
        described(&transmitted(proxy))
    };
    let same = ("", "");
    let foreign = "192.0.2.77:5060";
    proxy.handle(at(2.0), request("INVITE", "sip:bob@biloxi.com", ALICE, 500, ""), source(ALICE));
    let invite = transmitted(&mut proxy).remove(0).1;
    let route_of =
        |message: &Message| message.headers().get(&Name::RecordRoute).unwrap_or_default().to_owned();
    let (contact, route) = (format!("sip:caller@{ALICE}"), route_of(&invite));
    assert_eq!(within(&mut proxy, "BYE", BOB, [(&contact, &route), ("1", "c500"), same, same]), ["BYE"]);
    // The same route is invalid for another call, another target, or a sender outside of the dialog.
    let way_on = format!("{route}, <sip:192.0.2.99;lr>");
    for edits in [
        [(contact.as_str(), route.as_str()), ("1", "c502"), same, same],
        [("sip:y@192.0.2.99", &route), ("1", "c500"), same, same],
        [(&contact, &way_on), ("1", "c500"), same, same],
        [(&contact, &route), ("2", "c500"), same, same],
        [(&contact, &route), ("1", "c500"), (";tag=1\r\nCall-ID", "\r\nCall-ID"), same],
    ] {
        assert_eq!(within(&mut proxy, "MESSAGE", BOB, edits), ["403"], "{edits:?}");
    }
    // A user of the domain is challenged, and the credentials replace the token.
    let user = ("caller@elsewhere.com", "carol@biloxi.com");
    let edits = [(contact.as_str(), way_on.as_str()), ("1", "c500"), user, same];
    assert_eq!(within(&mut proxy, "MESSAGE", BOB, edits), ["407"]);
    // The caller does not get the callee's token. A response that makes no dialog has no token for the caller.
    let answered = |proxy: &mut Proxy, invite: &Message, code: u16| {
        let mut response = invite.as_request().unwrap().response(Status::new(code).unwrap());
        response.headers.set(Name::To, "<sip:bob@biloxi.com>;tag=b");
        response.headers.push(Name::RecordRoute, route_of(invite));
        response.headers.push(Name::Contact, format!("<sip:bob@{foreign}>"));
        proxy.handle(at(2.5), response.into(), source(BOB));
        let output = transmitted(proxy);
        let is_it = |message: &&Message| message.as_response().is_some_and(|own| own.status.code() == code);
        output.iter().map(|(_, message)| message).find(is_it).map(route_of)
    };
    let told_with_200 = answered(&mut proxy, &invite, 200).unwrap();
    assert!(told_with_200.contains(";dialog=") && told_with_200 != route, "{told_with_200}");
    let callee = format!("sip:bob@{foreign}");
    assert_eq!(
        within(&mut proxy, "BYE", ALICE, [(&callee, &told_with_200), ("b", "c500"), same, same]),
        ["BYE"]
    );
    for edits in [
        [("sip:y@192.0.2.99", told_with_200.as_str()), ("b", "c500"), same, same],
        [(&callee, &told_with_200), ("c", "c500"), same, same],
        [(&contact, &told_with_200), ("1", "c500"), same, same],
    ] {
        assert_eq!(within(&mut proxy, "MESSAGE", ALICE, edits), ["403"], "{edits:?}");
    }
    proxy.handle(at(4.0), request("INVITE", &format!("sip:bob@{BOB}"), ALICE, 501, ""), source(ALICE));
    let invite = transmitted(&mut proxy).remove(0).1;
    assert_eq!(answered(&mut proxy, &invite, 486).unwrap(), "<sip:192.0.2.9:5060;lr>");
}
