//! Servers and unusual messages: rules that a peer may test.

use netrig_core::Seeds;

use super::tests::*;
use super::*;
use crate::digest::{Algorithm, DigestChallenge, DigestSession};
use crate::header::Transport;
use crate::transaction::Timing;
use crate::{Message, Method, Name, Status, Uri};

fn changed(message: &Message, from: &str, to: &str) -> Message {
    let text = message.to_string();
    assert!(text.contains(from), "{from} does not stand in {text}");
    self::message(&text.replacen(from, to, 1))
}

/// RFC 3261 section 9.1: a branch is cancelled once, whatever responses it sends until its end.
#[test]
fn a_branch_is_cancelled_once() {
    let mut proxy = proxy();
    let copies = invite(&mut proxy);
    respond(&mut proxy, 1.1, &copies[0], 180, "x");
    transmitted(&mut proxy);
    proxy.handle(at(1.2), request("CANCEL", "sip:bob@biloxi.com", ALICE, 7, ""), source(ALICE));
    assert_eq!(described(&transmitted(&mut proxy)), ["CANCEL", "200"]);
    for now in [1.3, 1.4] {
        respond(&mut proxy, now, &copies[0], 183, "x");
        assert_eq!(described(&transmitted(&mut proxy)), ["183"]);
    }
    while let Some(next) = proxy.poll_timeout().filter(|next| *next < at(200.0)) {
        proxy.handle_timeout(next);
    }
    assert!(
        described(&transmitted(&mut proxy)).contains(&"408".to_owned()),
        "nobody has answered the CANCEL"
    );
    assert_eq!((proxy.contexts.len(), proxy.owners.len(), proxy.due.len()), (0, 0, 0));
}

/// RFC 4320: the server sends 100 when the client retransmits every T2, no other response before the end of the
/// transaction, and no 408 at the end.
#[test]
fn a_request_that_is_no_invite_gets_no_408() {
    let mut proxy = proxy();
    proxy.handle(at(1.0), request("MESSAGE", "sip:bob@biloxi.com", ALICE, 7, ""), source(ALICE));
    let copies: Vec<Message> = transmitted(&mut proxy).into_iter().map(|(_, message)| message).collect();
    respond(&mut proxy, 1.1, &copies[0], 183, "x");
    assert_eq!(described(&transmitted(&mut proxy)), [""; 0]);
    let mut all = Vec::new();
    while let Some(next) = proxy.poll_timeout().filter(|next| *next < at(200.0)) {
        proxy.handle_timeout(next);
        if next == at(33.0) {
            proxy.handle(next, request("MESSAGE", "sip:bob@biloxi.com", ALICE, 7, ""), source(ALICE));
        }
        let answers = transmitted(&mut proxy).into_iter().map(|(_, message)| message);
        let answers = answers.filter_map(|message| message.as_response().map(|own| own.status.code()));
        all.extend(answers.map(|code| (next.as_nanos() / 1_000_000, code)));
    }
    // The retransmission gets the last response again.
    assert_eq!(all, [(4500, 100), (33_000, 100)]);
    assert_eq!((proxy.contexts.len(), proxy.owners.len(), proxy.due.len()), (0, 0, 0));
}

/// A refusal goes to the source of the request, not to another host that the request names.
#[test]
fn a_refusal_goes_to_who_has_asked() {
    let from = source("198.51.100.7:9000");
    let via = |via: &str| {
        let register = register("bob", "a", 1, "");
        changed(&register, &format!("Via: SIP/2.0/UDP {BOB};"), &format!("Via: SIP/2.0/UDP {via};"))
    };
    let behind =
        |message: Message| changed(&message, "branch=z9hG4bKa1\r\n", "branch=z9hG4bKa1, what is this\r\n");
    let mut servers: [Box<dyn Server>; 2] =
        [Box::new(registrar()), Box::new(StatelessProxy::new(registry(), Seeds::new(1).stream("proxy")))];
    for server in &mut servers {
        let mut asked = |message: Message, from: Source| {
            server.handle(at(0.0), message, from);
            std::iter::from_fn(|| server.poll_transmit()).next().unwrap()
        };
        let (to, response) = asked(behind(via("203.0.113.1:53")), from);
        assert_eq!(response.as_response().unwrap().status, Status::BAD_REQUEST);
        assert_eq!(to, Destination::Address(source("198.51.100.7:53")));
        let (to, _) = asked(behind(via("203.0.113.2:53;rport")), from);
        assert_eq!(to, Destination::Address(from));
        // Over a stream the refusal returns on the connection, whatever the Via (RFC 3261 section 18.2.2).
        let stream = Source { transport: Transport::Tcp, ..from };
        let (to, _) = asked(behind(changed(&via("203.0.113.3:53"), "/UDP", "/TCP")), stream);
        assert_eq!(to, Destination::Address(stream));
    }
    let to = |via: &str| {
        let mut response = register("bob", "a", 1, "").as_request().unwrap().response(Status::OK);
        response.headers.set(Name::Via, via);
        Destination::of_response(&response)
    };
    assert_eq!(
        to("SIP/2.0/UDP h;received=198.51.100.7;maddr=203.0.113.1"),
        Some(Destination::Address(source("198.51.100.7:5060")))
    );
    assert_eq!(
        to("SIP/2.0/UDP h;received=198.51.100.7;maddr=224.0.1.75"),
        Some(Destination::Address(source("224.0.1.75:5060")))
    );
}

#[test]
fn a_full_server_says_so_along_the_stream() {
    let mut server = Registrar::new(registry(), 0, Timing::default());
    let stream = Source { transport: Transport::Tcp, ..source("198.51.100.7:9000") };
    server.handle(at(0.0), changed(&register("bob", "a", 1, ""), "/UDP", "/TCP"), stream);
    let (to, response) = transmitted(&mut server).remove(0);
    assert_eq!(response.as_response().unwrap().status, Status::SERVICE_UNAVAILABLE);
    assert_eq!(to, Destination::Address(stream));
}

#[test]
fn what_cannot_be_read_is_no_demand_that_is_met() {
    let mut server = registrar();
    for (number, more) in ["Require: a b\r\n", "Proxy-Require: @\r\n", "Require:\r\n"].into_iter().enumerate()
    {
        assert_eq!(code(&mut server, 0.0, register("bob", "a", number as u32, more)), 400, "{more}");
    }
    // RFC 4475 section 3.3.9.
    let twice = "Content-Length: 0\r\nContent-Length: 5\r\n";
    assert_eq!(code(&mut server, 0.0, register("bob", "l", 1, twice)), 400);
    let mut open = registry();
    open.relays = true;
    let mut proxy = StatelessProxy::new(open, Seeds::new(1).stream("proxy"));
    let mut sent = |method: &str, number: u32, more: &str| {
        proxy.handle(at(0.0), request(method, "sip:bob@192.0.2.2", ALICE, number, more), source(ALICE));
        described(&transmitted(&mut proxy))
    };
    assert_eq!(sent("INVITE", 1, "Route: what\r\n"), ["400"]);
    assert_eq!(sent("INVITE", 2, "Proxy-Require: x\r\n"), ["420"]);
    // RFC 3261 section 8.2.2.3: "These header fields MUST be ignored if they are present in these requests."
    assert_eq!(sent("CANCEL", 3, "Proxy-Require: x\r\n"), ["CANCEL"]);
    assert_eq!(sent("ACK", 4, "Proxy-Require: x\r\n"), ["ACK"]);
}

/// A request that ends here needs no further hop (RFC 3261 section 16.3 is about forwarded requests).
#[test]
fn the_last_hop_may_be_this_one() {
    let mut proxy = proxy();
    let last = |message: Message| changed(&message, "Max-Forwards: 70", "Max-Forwards: 0");
    assert_eq!(code(&mut proxy, 1.0, last(register("bob", "z", 1, ""))), 200);
    assert_eq!(code(&mut proxy, 1.0, last(request("INVITE", "sip:bob@biloxi.com", BOB, 9, ""))), 483);
    assert_eq!(code(&mut proxy, 1.0, last(request("CANCEL", "sip:bob@biloxi.com", BOB, 8, ""))), 481);
}

#[test]
fn a_registration_may_name_an_address_twice() {
    let mut server = registrar();
    let twice = "Contact: <sip:bob@h1>;q=0.1, <sip:bob@H1>;q=0.2\r\n";
    let response = answer(&mut server, at(0.0), register("bob", "a", 1, twice));
    assert_eq!(
        (response.status, contacts(&response)),
        (Status::OK, vec!["<sip:bob@H1>;q=0.2;expires=3600".into()])
    );
    assert_eq!(code(&mut server, 1.0, register("bob", "a", 0, twice)), 500);
}

/// RFC 3261 section 8.2.2.2, for a registrar.
#[test]
fn a_registration_on_two_ways_is_taken_once() {
    let mut server = registrar();
    assert_eq!(code(&mut server, 0.0, register("bob", "a", 1, "Contact: <sip:a@b>\r\n")), 200);
    let other = changed(&register("bob", "a", 1, "Contact: <sip:c@d>\r\n"), "z9hG4bKa1", "z9hG4bKa2");
    assert_eq!(code(&mut server, 0.0, other), 482);
    assert_eq!(server.registry().bindings.of_record(at(1.0), "bob@biloxi.com").len(), 1);
}

/// RFC 3261 section 16.4.
#[test]
fn a_maddr_of_this_server_is_taken_off() {
    let mut proxy = proxy();
    let mut sent = |uri: &str, number| {
        proxy.handle(at(1.0), request("MESSAGE", uri, ALICE, number, ""), source(ALICE));
        transmitted(&mut proxy)
    };
    let own = sent("sip:bob@biloxi.com:5060;maddr=192.0.2.9;transport=udp;x=1", 1);
    assert_eq!(described(&own), ["MESSAGE", "MESSAGE"]);
    let all = sent("sip:dave@chicago.com;maddr=192.0.2.9", 2);
    let uris: Vec<String> = all.iter().map(|(_, own)| own.as_request().unwrap().uri.to_string()).collect();
    assert_eq!(uris, ["sip:dave@chicago.com"]);
    let (to, other) = sent("sip:bob@biloxi.com;maddr=192.0.2.77", 3).remove(0);
    assert_eq!(to, Destination::Address(source("192.0.2.77:5060")));
    assert_eq!(other.as_request().unwrap().uri.to_string(), "sip:bob@biloxi.com;maddr=192.0.2.77");
}

/// RFC 3261 sections 16.6 and 26.2.2.
#[test]
fn what_is_secure_stays_so() {
    let uri = |text: &str| match text.parse::<Uri>().unwrap() {
        Uri::Sip(uri) => uri,
        other => panic!("{other}"),
    };
    let plain = uri("sips:bob@192.0.2.2;transport=udp");
    assert_eq!(Destination::of_uri(&plain), Destination::Uri(Box::new(plain)));
    let mut proxy = proxy();
    let routed = request("INVITE", "sip:dave@chicago.com", ALICE, 7, "Route: <sips:192.0.2.7;lr>\r\n");
    proxy.handle(at(1.0), routed, source(ALICE));
    let (_, message) = transmitted(&mut proxy).remove(0);
    let recorded = message.headers().get(&Name::RecordRoute).unwrap();
    assert!(recorded.starts_with("<sips:192.0.2.9:5060;lr;dialog="), "{recorded}");
}

#[test]
fn a_domain_has_no_case_in_a_proof_either() {
    let mut server = registrar();
    server.registry.users = DomainUsers::Known([("bob".to_owned(), "zanzibar".to_owned())].into());
    let authenticator = Authenticator::new("biloxi.com", Algorithm::MD5, &mut Seeds::new(1).stream("nonces"));
    server.registry.authenticator = Some(authenticator);
    let challenged = answer(&mut server, at(0.0), register("bob", "a", 1, ""));
    let challenge = challenged.headers.challenges(&Name::WwwAuthenticate).unwrap().remove(0);
    let mut session = DigestSession::new(DigestChallenge::read(&challenge).unwrap(), "bob", "zanzibar");
    let proof = session.answer(&Method::Register, "sip:BILOXI.com", b"", "0a4f113b").write();
    assert_eq!(code(&mut server, 0.1, register("bob", "a", 2, &format!("Authorization: {proof}\r\n"))), 200);
}
