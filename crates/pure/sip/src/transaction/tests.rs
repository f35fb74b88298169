//! Each transaction alone, against the times and rules of the RFCs.

use bytes::Bytes;
use netrig_core::{Duration, Endpoint, Instant};

use super::*;
use crate::{Message, Name, Status};

/// The output of a transaction with its times, until its last timer.
fn left_alone<E: Endpoint<Packet = Message, Event = TransactionEvent>>(
    transaction: &mut E,
) -> Vec<(u64, String)> {
    let mut done = Vec::new();
    let mut now = Instant::ZERO;
    loop {
        let at = now.since(Instant::ZERO).as_nanos() / 1_000_000;
        while let Some(message) = transaction.poll_transmit(now) {
            done.push((at, first_word(&message)));
        }
        while let Some(event) = transaction.poll_event() {
            done.push((at, described(&event)));
        }
        match transaction.poll_timeout() {
            Some(next) => now = next,
            None => return done,
        }
        transaction.handle_timeout(now);
    }
}

fn first_word(message: &Message) -> String {
    match message {
        Message::Request(request) => request.method.to_string(),
        Message::Response(response) => response.status.to_string(),
    }
}

fn described(event: &TransactionEvent) -> String {
    match event {
        TransactionEvent::Response(response) => format!("event {}", response.status),
        TransactionEvent::Request(request) => format!("event {}", request.method),
        TransactionEvent::TimedOut(timer) => format!("timer {timer:?}"),
        TransactionEvent::TransportFailed => "failed".into(),
        TransactionEvent::Ended => "ended".into(),
    }
}

/// The output of a transaction at this time.
fn output<E: Endpoint<Packet = Message, Event = TransactionEvent>>(
    transaction: &mut E,
    now: Instant,
) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(message) = transaction.poll_transmit(now) {
        all.push(first_word(&message));
    }
    while let Some(event) = transaction.poll_event() {
        all.push(described(&event));
    }
    all
}

fn request(method: &str) -> Request {
    let text = format!(
        "{method} sip:bob@biloxi.com SIP/2.0\r\nVia: SIP/2.0/UDP pc33.atlanta.com;branch=z9hG4bKkjshdyff\r\n\
         To: Bob <sip:bob@biloxi.com>\r\nFrom: Alice <sip:alice@atlanta.com>;tag=88sja8x\r\nMax-Forwards: 70\r\n\
         Route: <sip:p1.example.com;lr>\r\nCall-ID: 987asjd97y7atg\r\nCSeq: 986759 {method}\r\n\r\n"
    );
    Message::parse(&Bytes::from(text)).unwrap().as_request().unwrap().clone()
}

fn response(method: &str, code: u16) -> Response {
    let mut response = request(method).response(Status::new(code).unwrap());
    response.headers.set(Name::To, "Bob <sip:bob@biloxi.com>;tag=99sa0xk");
    response
}

fn at(seconds: f64) -> Instant {
    Instant::ZERO + Duration::from_secs_f64(seconds)
}

fn list(times: &[u64], what: &str) -> Vec<(u64, String)> {
    times.iter().map(|time| (*time, what.to_owned())).collect()
}

/// RFC 3261 section 17.1.1.2: seven INVITEs, the first two T1 apart, the others "with intervals that double after each
/// transmission", with a timeout after 64·T1.
#[test]
fn an_invite_that_nobody_answers() {
    let mut sent = list(&[0, 500, 1500, 3500, 7500, 15500, 31500], "INVITE");
    sent.extend([(32000, "timer B".to_owned()), (32000, "ended".to_owned())]);
    let invite =
        |reliable| InviteClientTransaction::new(at(0.0), request("INVITE"), reliable, Timing::default());
    assert_eq!(left_alone(&mut invite(false)), sent);
    sent.retain(|(time, what)| what != "INVITE" || *time == 0);
    assert_eq!(left_alone(&mut invite(true)), sent);
}

/// RFC 3261 section 17.1.2.2: "this results in intervals of 500 ms, 1 s, 2 s, 4 s, 4 s, 4 s, etc.": eleven requests.
#[test]
fn a_request_that_nobody_answers() {
    let times = [0, 500, 1500, 3500, 7500, 11500, 15500, 19500, 23500, 27500, 31500];
    let mut sent = list(&times, "OPTIONS");
    sent.extend([(32000, "timer F".to_owned()), (32000, "ended".to_owned())]);
    let mut options = ClientTransaction::new(at(0.0), request("OPTIONS"), false, Timing::default());
    assert_eq!(left_alone(&mut options), sent);
}

/// "If Timer E fires while in the "Proceeding" state, the request MUST be passed to the transport layer for retransmission,
/// and Timer E MUST be reset with a value of T2 seconds." (RFC 3261 section 17.1.2.2)
#[test]
fn a_request_that_is_being_worked_on_is_repeated_each_t2() {
    let mut options = ClientTransaction::new(at(0.0), request("OPTIONS"), false, Timing::default());
    output(&mut options, at(0.0));
    options.handle_packet(at(0.1), response("OPTIONS", 100).into());
    let mut sent = vec![(0, "event 100".to_owned())];
    sent.extend(list(&[500, 4500, 8500, 12500, 16500, 20500, 24500, 28500], "OPTIONS"));
    sent.extend([(32000, "timer F".to_owned()), (32000, "ended".to_owned())]);
    assert_eq!(left_alone(&mut options), sent);
}

#[test]
fn a_request_that_is_answered_absorbs_repetitions_for_t4() {
    let mut options = ClientTransaction::new(at(0.0), request("OPTIONS"), false, Timing::default());
    output(&mut options, at(0.0));
    options.handle_packet(at(1.0), response("OPTIONS", 200).into());
    assert_eq!(output(&mut options, at(1.0)), ["event 200"]);
    options.handle_packet(at(2.0), response("OPTIONS", 200).into());
    assert_eq!(output(&mut options, at(2.0)), [""; 0]);
    assert_eq!(options.poll_timeout(), Some(at(6.0)));
    assert_eq!(left_alone(&mut options), [(6000, "ended".to_owned())]);

    let mut options = ClientTransaction::new(at(0.0), request("OPTIONS"), true, Timing::default());
    options.handle_packet(at(1.0), response("OPTIONS", 200).into());
    assert_eq!(output(&mut options, at(1.0)), ["OPTIONS", "event 200", "ended"]);
}

/// RFC 3261 section 17.1.1.3: the ACK has the branch, the `Route`s and the number of its INVITE, and the `To` of the response.
#[test]
fn an_invite_that_is_refused_is_acknowledged_each_time() {
    let mut invite = InviteClientTransaction::new(at(0.0), request("INVITE"), false, Timing::default());
    output(&mut invite, at(0.0));
    invite.handle_packet(at(0.1), response("INVITE", 180).into());
    assert!(invite.can_be_cancelled());
    assert_eq!((output(&mut invite, at(0.1)), invite.poll_timeout()), (vec!["event 180".to_owned()], None));
    invite.handle_packet(at(60.0), response("INVITE", 486).into());
    let acknowledgement = invite.poll_transmit(at(60.0)).unwrap();
    assert_eq!(acknowledgement.violations(), []);
    let headers = acknowledgement.headers();
    assert_eq!(headers.top_via().unwrap().unwrap().branch(), Some("z9hG4bKkjshdyff"));
    assert_eq!(headers.get(&Name::CSeq), Some("986759 ACK"));
    assert_eq!(headers.get(&Name::To), Some("Bob <sip:bob@biloxi.com>;tag=99sa0xk"));
    assert_eq!(headers.get(&Name::Route), Some("<sip:p1.example.com;lr>"));
    assert_eq!(output(&mut invite, at(60.0)), ["event 486"]);
    invite.handle_packet(at(61.0), response("INVITE", 486).into());
    assert_eq!(output(&mut invite, at(61.0)), ["ACK"]);
    assert_eq!(left_alone(&mut invite), [(92000, "ended".to_owned())]);
}

/// RFC 6026: each 2xx is reported to the user, for 64·T1.
#[test]
fn an_invite_that_is_accepted_tells_each_2xx() {
    let mut invite = InviteClientTransaction::new(at(0.0), request("INVITE"), false, Timing::default());
    output(&mut invite, at(0.0));
    for seconds in [1.0, 1.5, 2.5] {
        invite.handle_packet(at(seconds), response("INVITE", 200).into());
        assert_eq!(output(&mut invite, at(seconds)), ["event 200"]);
    }
    invite.handle_packet(at(3.0), response("INVITE", 486).into());
    assert_eq!(left_alone(&mut invite), [(33000, "ended".to_owned())]);
}

#[test]
fn a_cancel_is_of_its_invite() {
    let invite = InviteClientTransaction::new(at(0.0), request("INVITE"), false, Timing::default());
    let cancel = invite.cancellation();
    assert_eq!(Message::from(cancel.clone()).violations(), []);
    let [own, other] = [&cancel, &request("INVITE")].map(|request| ServerKey::of(request).unwrap().unwrap());
    assert_ne!(own, other);
    assert_eq!(own.cancelled(), other);
}

/// RFC 3261 section 17.2.1: 100 after 200 ms, then the responses of the user.
#[test]
fn an_invite_that_is_worked_on_gets_100() {
    let mut server = InviteServerTransaction::new(at(0.0), &request("INVITE"), false, Timing::default());
    assert_eq!(left_alone(&mut server), [(200, "100".to_owned())]);
    server.handle_packet(at(0.5), request("INVITE").into());
    assert_eq!(output(&mut server, at(0.5)), ["100"]);
    server.respond(at(0.6), response("INVITE", 180));
    server.handle_packet(at(0.7), request("INVITE").into());
    assert_eq!(output(&mut server, at(0.7)), ["180", "180"]);
}

/// RFC 3261 section 8.2.6.1.
#[test]
fn a_100_has_the_timestamp_of_its_request() {
    let mut invite = request("INVITE");
    invite.headers.push(Name::Timestamp, "54.21");
    let mut server = InviteServerTransaction::new(at(0.0), &invite, false, Timing::default());
    server.handle_timeout(at(0.2));
    let trying = server.poll_transmit(at(0.2)).unwrap();
    assert_eq!(trying.headers().get(&Name::Timestamp), Some("54.21 0.200"));
}

/// RFC 4320 section 4.1: 100 when the client retransmits every T2, and not before.
#[test]
fn a_request_that_is_worked_on_for_long_gets_100() {
    for reliable in [false, true] {
        let mut server = ServerTransaction::new(at(0.0), &request("OPTIONS"), reliable, Timing::default());
        assert_eq!(left_alone(&mut server), [(3500, "100".to_owned())]);
        server.handle_packet(at(4.0), request("OPTIONS").into());
        server.respond(at(4.1), response("OPTIONS", 200));
        assert_eq!(output(&mut server, at(4.1))[..2], ["100", "200"]);
    }
    let slow = Timing { t1: Duration::from_secs(4), ..Timing::default() };
    assert_eq!(slow.until_e_is_t2(), Duration::from_secs(4));
    assert!(Timing { t1: Duration::ZERO, ..slow }.until_e_is_t2() > Duration::ZERO);
}

/// A server with the same T1 may retransmit its response for 64·T1, and the client acknowledges each.
#[test]
fn timer_d_is_as_long_as_timer_h() {
    let timing = Timing { t1: Duration::from_secs(1), ..Timing::default() };
    let mut invite = InviteClientTransaction::new(at(0.0), request("INVITE"), false, timing);
    invite.handle_packet(at(0.1), response("INVITE", 486).into());
    output(&mut invite, at(0.1));
    assert_eq!(left_alone(&mut invite), [(64_100, "ended".to_owned())]);
}

/// The final response is retransmitted after T1, then after doubled pauses up to T2, until 64·T1.
#[test]
fn a_refusal_that_nobody_acknowledges() {
    let mut server = InviteServerTransaction::new(at(0.0), &request("INVITE"), false, Timing::default());
    server.respond(at(0.0), response("INVITE", 486));
    let mut sent = list(&[0, 500, 1500, 3500, 7500, 11500, 15500, 19500, 23500, 27500, 31500], "486");
    sent.extend([(32000, "timer H".to_owned()), (32000, "ended".to_owned())]);
    assert_eq!(left_alone(&mut server), sent);
}

#[test]
fn a_refusal_that_is_acknowledged_absorbs_acks_for_t4() {
    let mut server = InviteServerTransaction::new(at(0.0), &request("INVITE"), false, Timing::default());
    server.respond(at(0.0), response("INVITE", 486));
    output(&mut server, at(0.0));
    server.handle_packet(at(0.1), request("ACK").into());
    server.handle_packet(at(0.2), request("ACK").into());
    server.handle_packet(at(0.3), request("INVITE").into());
    assert_eq!(output(&mut server, at(0.3)), [""; 0]);
    assert_eq!(left_alone(&mut server), [(5100, "ended".to_owned())]);
}

/// RFC 6026 section 7.1.
#[test]
fn an_accepted_invite_absorbs_its_repetitions() {
    let mut server = InviteServerTransaction::new(at(0.0), &request("INVITE"), false, Timing::default());
    for seconds in [0.0, 0.5] {
        server.respond(at(seconds), response("INVITE", 200));
        assert_eq!(output(&mut server, at(seconds)), ["200"]);
    }
    server.handle_packet(at(0.6), request("INVITE").into());
    assert_eq!(output(&mut server, at(0.6)), [""; 0]);
    server.handle_packet(at(0.7), request("ACK").into());
    assert_eq!(output(&mut server, at(0.7)), ["event ACK"]);
    server.respond(at(0.8), response("INVITE", 486));
    assert_eq!(left_alone(&mut server), [(32000, "ended".to_owned())]);
}

#[test]
fn a_request_that_comes_again_is_answered_as_before() {
    let mut server = ServerTransaction::new(at(0.0), &request("OPTIONS"), false, Timing::default());
    server.handle_packet(at(0.0), request("OPTIONS").into());
    assert_eq!(output(&mut server, at(0.0)), [""; 0]);
    server.respond(at(0.1), response("OPTIONS", 200));
    server.respond(at(0.2), response("OPTIONS", 500));
    server.handle_packet(at(0.3), request("OPTIONS").into());
    assert_eq!(output(&mut server, at(0.3)), ["200", "200"]);
    assert_eq!(left_alone(&mut server), [(32100, "ended".to_owned())]);
}

#[test]
fn a_network_that_refuses_ends_it() {
    let mut invite = InviteClientTransaction::new(at(0.0), request("INVITE"), true, Timing::default());
    invite.handle_transport_failure();
    invite.handle_transport_failure();
    assert_eq!(output(&mut invite, at(0.0)), ["INVITE", "failed", "ended"]);
    assert_eq!(invite.poll_timeout(), None);
}

/// RFC 3261 sections 17.1.3 and 17.2.3.
#[test]
fn a_message_is_of_its_transaction() {
    let key = |request: &Request| ServerKey::of(request).unwrap().unwrap();
    let invite = request("INVITE");
    assert_eq!(key(&invite), key(&request("ACK")));
    assert_ne!(key(&invite), key(&request("BYE")));
    let mut other = invite.clone();
    other.headers.set(Name::Via, "SIP/2.0/UDP pc34.atlanta.com;branch=z9hG4bKkjshdyff");
    assert_ne!(key(&invite), key(&other));
    other.headers.set(Name::Via, "SIP/2.0/UDP PC33.atlanta.com:5060;branch=Z9HG4BKkjshdyff");
    assert_ne!(key(&invite), key(&other), "the cookie has a case");
    other.headers.set(Name::Via, "SIP/2.0/UDP PC33.atlanta.com:5060;branch=z9hG4bKKJSHDYFF");
    assert_eq!(key(&invite), key(&other));
    let of_response = ClientKey::of_response(&response("INVITE", 200)).unwrap();
    assert_eq!(of_response, ClientKey::of_request(&invite).unwrap());
    assert_ne!(of_response, ClientKey::of_request(&request("CANCEL")).unwrap());
    let mut old = invite;
    old.headers.set(Name::Via, "SIP/2.0/UDP pc33.atlanta.com;branch=1");
    let mut newer = old.clone();
    assert_eq!(key(&old), key(&newer));
    newer.headers.set(Name::CSeq, "986760 INVITE");
    assert_ne!(key(&old), key(&newer));
}

/// RFC 3261 section 26.3.2.4: "forgoing the normal response retransmission algorithm".
#[test]
fn a_challenge_is_sent_once_and_again_only_when_it_is_asked_for() {
    for code in [401, 407] {
        let mut server = InviteServerTransaction::new(at(0.0), &request("INVITE"), false, Timing::default());
        server.respond(at(0.0), response("INVITE", code));
        assert_eq!(output(&mut server, at(0.0)), [code.to_string()]);
        server.handle_packet(at(0.3), request("INVITE").into());
        assert_eq!(output(&mut server, at(0.3)), [code.to_string()]);
        assert_eq!(left_alone(&mut server), [(32000, "timer H".to_owned()), (32000, "ended".to_owned())]);
    }
}
