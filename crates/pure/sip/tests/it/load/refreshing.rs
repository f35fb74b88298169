//! Session timers (RFC 4028), on both sides of a call.

use netrig_core::{Duration, Instant, Seeds};
use netrig_sip::load::{
    Callee, CalleeAction, Failure, LoadOutput, Owner, Recipient, Record, Scan, Scenario, Setup, Side,
};
use netrig_sip::settings::UserOptions;
use netrig_sip::{Message, Name, Request, Response};

use super::pair::{Network, Pair, RUN, caller, here, lossy, perfect, setup, there};
use super::within::server_request;
use super::{CALL, RING, answer, ms, recorded};

fn held(seconds: u64) -> Scenario {
    Scenario::Call { hold: Duration::from_secs(seconds) }
}

/// Callers that ask for a session interval, s.
fn asking<N: Network>(network: N, session_expires: u32) -> Pair<N> {
    let mut pair = Pair::new(network, RING);
    pair.caller = caller(Setup {
        options: UserOptions {
            session_expires: Some(Duration::from_secs(session_expires.into())),
            ..UserOptions::default()
        },
        ..setup()
    });
    pair
}

fn times(sent: &[(u64, String)], what: &str) -> Vec<u64> {
    sent.iter().filter(|(_, own)| own == what).map(|(at, _)| at / 1000).collect()
}

/// RFC 4028 section 7.4 and 10: an UPDATE every 45 s, half of the interval of 90 s, and the session continues.
#[test]
fn a_caller_who_asks_for_a_session_timer_refreshes_the_session() {
    let mut pair = asking(perfect(), 90);
    pair.start(held(200));
    pair.run(ms(400_000));
    assert_eq!(times(&pair.sent, "UPDATE"), [45, 90, 135, 180]);
    assert_eq!(times(&pair.sent, "BYE"), [200]);
    let (caller, callee) = (pair.record(Side::Caller), pair.record(Side::Callee));
    assert_eq!((caller.failure, callee.failure), (None, None));
    assert_eq!((caller.counts.refreshes_sent, caller.counts.refreshes_answered), (4, 0));
    assert_eq!((callee.counts.refreshes_sent, callee.counts.refreshes_answered), (0, 4));
    assert!(pair.caller.is_empty() && pair.callee.is_empty(), "nothing is left");
}

/// Without a `Session-Expires` there is no refresh.
#[test]
fn a_call_without_a_session_timer_is_not_refreshed() {
    let mut pair = Pair::new(perfect(), RING);
    pair.start(held(200));
    pair.run(ms(250_000));
    assert_eq!((times(&pair.sent, "UPDATE").len(), pair.record(Side::Caller).failure), (0, None));
}

/// If the refreshes of one side are lost, the other side hangs up 30 s before the end of the 90 s. The first side would
/// do the same.
#[test]
fn a_session_that_is_not_refreshed_is_ended() {
    let deaf = |now: Instant, _: usize, message: &Message| {
        let method = message.headers().cseq().unwrap().unwrap().method;
        (method.as_str() != "UPDATE").then(|| now + Duration::from_millis(1))
    };
    let mut pair = asking(deaf, 90);
    pair.start(held(200));
    pair.run(ms(400_000));
    assert_eq!(times(&pair.sent, "UPDATE")[..3], [45, 45, 46]);
    assert_eq!(times(&pair.sent, "BYE")[0], 60);
    let failures = pair.records.iter().map(|record| record.failure).collect::<Vec<_>>();
    assert!(failures.contains(&Some(Failure::Unrefreshed)), "{failures:?}");
    assert!(pair.caller.is_empty() && pair.callee.is_empty(), "nothing is left");
}

/// No call hangs in its timers: over a network that loses a fifth of all messages every call ends, and its memory is freed.
#[test]
fn calls_with_session_timers_come_to_their_end_over_a_lossy_network() {
    let mut pair = asking(lossy(Seeds::new(4).stream("network/loss"), 0.2), 90);
    let reinvite = Scenario::Reinvite { hold: Duration::from_secs(100) };
    for round in 0..100 {
        pair.start(if round % 2 == 0 { held(150) } else { reinvite });
        pair.run(ms(100 * round));
    }
    pair.run(ms(2_000_000));
    assert!(pair.caller.is_empty() && pair.callee.is_empty(), "nothing is left");
    let of = |side| pair.records.iter().filter(move |record: &&Record| record.side == side);
    let sent: u32 = of(Side::Caller).map(|record| u32::from(record.counts.refreshes_sent)).sum();
    let well = of(Side::Caller).filter(|record| record.failure.is_none()).count();
    assert_eq!(of(Side::Caller).count(), 100);
    // Half of the calls are refreshed at 45, 90 and 135 s, without the last refresh if earlier ones were late. The
    // others are refreshed by INVITEs within the dialog.
    assert!((140..=150).contains(&sent) && well >= 90, "{sent} {well}");
}

/// RFC 4028 section 7.3: after a 422 the request is sent again with the shortest interval that the other side accepts.
#[test]
fn a_session_interval_that_is_too_small_is_lengthened() {
    let (seen, network) = recorded();
    let mut pair = asking(network, 90);
    pair.start(CALL);
    let first = seen.borrow()[0].clone();
    assert_eq!(first.headers.get(&Name::SessionExpires), Some("90"));
    assert!(first.headers.has_token(&Name::Supported, "timer"));
    answer(&mut pair, &first, 422, &[(Name::MinSe, "600")]);
    pair.run(ms(5));
    let again = seen.borrow().last().cloned().unwrap();
    let field = |name: &Name| again.headers.get(name).unwrap().to_owned();
    assert_eq!((field(&Name::SessionExpires), field(&Name::MinSe)), ("600".into(), "600".into()));
    assert_eq!(again.headers.cseq().unwrap().unwrap().number, 2);
    // A second 422 with the same interval fails the request.
    answer(&mut pair, &again, 422, &[(Name::MinSe, "600")]);
    pair.run(ms(60_000));
    assert_eq!(pair.record(Side::Caller).failure, Some(Failure::Status(422)));
}

/// A caller whose call a test has answered with these fields.
fn answered(
    more: &[(Name, &str)],
) -> (Pair<impl Network + use<>>, std::rc::Rc<std::cell::RefCell<Vec<Request>>>, Request) {
    let (seen, network) = recorded();
    let mut pair = asking(network, 90);
    pair.start(held(200));
    let invite = seen.borrow()[0].clone();
    let contact = [(Name::Contact, "<sip:bob@192.0.2.2>")];
    answer(&mut pair, &invite, 200, &[&contact[..], more].concat());
    pair.run(ms(100));
    (pair, seen, invite)
}

/// If the other side does not support UPDATE, an INVITE with the same description refreshes the session, and its 2xx is
/// acknowledged. The same holds after an UPDATE that is refused with 405.
#[test]
fn a_session_is_refreshed_by_invite_where_no_update_is_taken() {
    let expires = (Name::SessionExpires, "90;refresher=uac");
    for allow in ["INVITE, ACK, BYE", "INVITE, ACK, BYE, UPDATE"] {
        let (mut pair, seen, invite) = answered(&[expires.clone(), (Name::Allow, allow)]);
        pair.run(ms(45_010));
        let mut refresh = seen.borrow().last().cloned().unwrap();
        if allow.contains("UPDATE") {
            assert_eq!((refresh.method.as_str(), refresh.body.len()), ("UPDATE", 0));
            answer(&mut pair, &refresh, 405, &[]);
            pair.run(ms(45_020));
            refresh = seen.borrow().last().cloned().unwrap();
        }
        assert_eq!((refresh.method.as_str(), &refresh.body), ("INVITE", &invite.body));
        assert_eq!(refresh.headers.get(&Name::SessionExpires), Some("90;refresher=uac"));
        assert!(refresh.headers.to().unwrap().unwrap().tag().is_some());
        let contact = (Name::Contact, "<sip:bob@192.0.2.2>");
        answer(&mut pair, &refresh, 200, &[contact, expires.clone()]);
        pair.run(ms(45_040));
        let ack = seen.borrow().last().cloned().unwrap();
        assert_eq!((ack.method.as_str(), ack.body.len()), ("ACK", 0));
        assert_eq!(
            ack.headers.cseq().unwrap().unwrap().number,
            refresh.headers.cseq().unwrap().unwrap().number
        );
        let before = seen.borrow().len();
        pair.run(ms(90_000));
        assert_eq!(seen.borrow().len(), before, "the next is due a half of 90 s later");
        pair.run(ms(90_100));
        assert_eq!(seen.borrow().len(), before + 1);
    }
}

/// A refused refresh ends the call with the status of the refusal.
#[test]
fn a_refresh_that_is_refused_ends_the_call() {
    let (mut pair, seen, _) =
        answered(&[(Name::SessionExpires, "90;refresher=uac"), (Name::Allow, "INVITE, UPDATE")]);
    pair.run(ms(45_010));
    let update = seen.borrow().last().cloned().unwrap();
    answer(&mut pair, &update, 481, &[]);
    pair.run(ms(45_020));
    let bye = seen.borrow().last().cloned().unwrap();
    assert_eq!(bye.method.as_str(), "BYE");
    answer(&mut pair, &bye, 200, &[]);
    pair.run(ms(46_000));
    assert_eq!(pair.record(Side::Caller).failure, Some(Failure::Status(481)));
}

/// If the callee is the refresher, its UPDATE and INVITE are answered with 2xx and `Session-Expires`. Without them the caller
/// hangs up.
#[test]
fn a_caller_answers_refreshes_of_the_other_side() {
    let (mut pair, seen, invite) = answered(&[(Name::SessionExpires, "90;refresher=uas")]);
    let refresh = "Supported: timer\r\nSession-Expires: 90;refresher=uac\r\n";
    let last = |pair: &Pair<_>| -> Response { pair.last.as_response().unwrap().clone() };
    pair.run(ms(45_000));
    pair.inject_bytes(&server_request(&invite, "UPDATE", 1, refresh, ""));
    pair.run(ms(45_010));
    let response = last(&pair);
    assert_eq!(response.status.code(), 200);
    assert_eq!(response.headers.get(&Name::SessionExpires), Some("90;refresher=uac"));
    assert_eq!(response.headers.get(&Name::Require), Some("timer"));
    assert!(response.headers.get(&Name::Contact).is_some());
    // An INVITE: its 2xx describes the session, and is retransmitted until the ACK.
    let offer = std::str::from_utf8(&invite.body).unwrap();
    let kind = format!("{refresh}Content-Type: application/sdp\r\n");
    pair.run(ms(90_000));
    pair.inject_bytes(&server_request(&invite, "INVITE", 2, &kind, offer));
    pair.run(ms(90_010));
    let response = last(&pair);
    assert_eq!((response.status.code(), response.body == invite.body), (200, true));
    let accepted = pair.sent.len();
    pair.run(ms(90_600));
    assert_eq!(pair.sent.len(), accepted + 1, "it was not acknowledged");
    pair.inject_bytes(&server_request(&invite, "ACK", 2, "", ""));
    pair.run(ms(100_000));
    assert_eq!(pair.sent.len(), accepted + 1);
    // An interval that is too short.
    let brief = "Supported: timer\r\nSession-Expires: 30;refresher=uac\r\n";
    pair.inject_bytes(&server_request(&invite, "UPDATE", 3, brief, ""));
    pair.run(ms(100_010));
    let response = last(&pair);
    assert_eq!((response.status.code(), response.headers.get(&Name::MinSe)), (422, Some("90")));
    // Without further refreshes, the session ends 90 s minus a third after the INVITE.
    pair.run(ms(149_990));
    assert_ne!(seen.borrow().last().unwrap().method.as_str(), "BYE");
    pair.run(ms(150_100));
    let bye = seen.borrow().last().cloned().unwrap();
    assert_eq!(bye.method.as_str(), "BYE");
    answer(&mut pair, &bye, 200, &[]);
    pair.run(ms(151_000));
    let record = pair.record(Side::Caller);
    assert_eq!((record.failure, record.counts.refreshes_answered), (Some(Failure::Unrefreshed), 2));
    assert_eq!(record.counts.responses_again, 1);
}

/// A callee in a test, with its messages since the last check.
struct Called {
    callee: Callee,
    now: Instant,
    out: LoadOutput,
}

impl Called {
    fn new() -> Self {
        let far = Setup { local: there(), server: here(), ..setup() };
        let callee = Callee::new(far, CalleeAction::Answer, Duration::ZERO, [7; 16]).unwrap();
        Self { callee, now: Instant::ZERO, out: LoadOutput::default() }
    }

    fn said(&mut self) -> Vec<Message> {
        let read = |(_, bytes): (_, &[u8])| {
            let message = Message::parse(&bytes::Bytes::copy_from_slice(bytes)).unwrap();
            assert_eq!(message.violations(), [], "{message}");
            message
        };
        let all = self.out.messages.iter().map(read).collect();
        self.out.messages.clear();
        all
    }

    fn ask(&mut self, text: &str) -> Vec<Message> {
        self.callee.handle_request(self.now, here(), &Scan::of(text.as_bytes()), &mut self.out);
        self.said()
    }

    fn answer(&mut self, request: &Request, status: u16, more: &[(Name, &str)]) -> Vec<Message> {
        let mut response = request.response(netrig_sip::Status::new(status).unwrap());
        more.iter().for_each(|(name, value)| response.headers.push(name.clone(), value));
        let bytes = Message::from(response).to_bytes();
        let scan = Scan::of(&bytes);
        let Some(Recipient::Response(token, transaction)) = Recipient::of(&scan, RUN, 0) else { panic!() };
        assert_eq!(token.owner, Owner::Callee);
        self.callee.handle_response(self.now, &scan, (token, transaction), &mut self.out);
        self.said()
    }

    fn run(&mut self, end: Instant) -> Vec<Message> {
        while let Some(next) = self.callee.next_deadline().filter(|next| *next <= end) {
            self.now = next;
            self.callee.handle_timeout(next, &mut self.out);
        }
        self.now = end;
        self.said()
    }

    fn only(messages: &[Message]) -> Request {
        assert_eq!(messages.len(), 1, "{messages:?}");
        messages[0].as_request().unwrap().clone()
    }
}

fn asked(method: &str, to: &str, more: &str, body: &str) -> String {
    let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
    format!(
        "{method} sip:bob@192.0.2.2 SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\nMax-Forwards: 70\r\n\
         Record-Route: <sip:192.0.2.1;lr>\r\nFrom: <sip:a@192.0.2.1>;tag=1\r\nTo: {to}\r\nCall-ID: c\r\n\
         CSeq: 1 {method}\r\nContact: <sip:a@192.0.2.1>\r\n{more}{kind}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn invite(more: &str) -> String {
    let body = setup().description;
    asked("INVITE", "<sip:bob@192.0.2.2>", more, std::str::from_utf8(&body).unwrap())
}

/// Calls with these header fields, acknowledges the 2xx and returns it.
fn talking(more: &str) -> (Called, Response) {
    let mut called = Called::new();
    let accepted = called.ask(&invite(more)).pop().unwrap().as_response().unwrap().clone();
    assert_eq!(accepted.status.code(), 200);
    let to = accepted.headers.get(&Name::To).unwrap();
    let ack = asked("ACK", to, "", "");
    assert!(called.ask(&ack).is_empty());
    (called, accepted)
}

/// The callee refreshes if the INVITE requires it, or if the caller does not support timers and a proxy asks for a
/// timer. If the other side does not support UPDATE, it refreshes by INVITE.
#[test]
fn one_who_is_called_refreshes_the_session() {
    for (more, requires, method) in [
        (
            "Supported: timer\r\nSession-Expires: 90;refresher=uas\r\nAllow: INVITE, UPDATE\r\n",
            true,
            "UPDATE",
        ),
        ("x: 90\r\n", false, "INVITE"),
    ] {
        let (mut called, accepted) = talking(more);
        assert_eq!(accepted.headers.get(&Name::SessionExpires), Some("90;refresher=uas"));
        assert_eq!(accepted.headers.has_token(&Name::Require, "timer"), requires, "{more}");
        assert!(called.run(ms(44_900)).is_empty());
        let refresh = Called::only(&called.run(ms(45_100)));
        assert_eq!(refresh.method.as_str(), method);
        assert_eq!(refresh.headers.get(&Name::SessionExpires), Some("90;refresher=uac"));
        assert_eq!(refresh.headers.get(&Name::Route), Some("<sip:192.0.2.1;lr>"));
        assert_eq!(refresh.uri.to_string(), "sip:a@192.0.2.1");
        let expires = [(Name::SessionExpires, "90;refresher=uac")];
        let said = called.answer(&refresh, 200, &expires);
        if method == "INVITE" {
            assert_eq!(Called::only(&said).method.as_str(), "ACK");
            // The refresh is retransmitted, because the response was lost.
            assert_eq!(Called::only(&called.answer(&refresh, 200, &expires)).method.as_str(), "ACK");
        }
        // The second refresh gets no response. It is retransmitted, and the session ends 60 s after the first response.
        let all = called.run(ms(105_000));
        let methods: Vec<_> = all.iter().map(|one| one.as_request().unwrap().method.to_string()).collect();
        assert!(methods.len() > 3 && methods.iter().all(|own| own == method), "{methods:?}");
        let bye = Called::only(&called.run(ms(105_200)));
        assert_eq!(bye.method.as_str(), "BYE");
        called.answer(&bye, 200, &[]);
        called.run(ms(200_000));
        let record = called.out.records[0];
        assert_eq!((record.failure, record.counts.refreshes_sent), (Some(Failure::Unrefreshed), 2));
        assert!(called.callee.is_empty());
    }
}

/// The call ends even if its BYE is not answered.
#[test]
fn one_who_is_called_ends_a_session_that_is_not_refreshed() {
    let (mut called, accepted) = talking("Supported: timer\r\nSession-Expires: 90\r\n");
    assert_eq!(accepted.headers.get(&Name::SessionExpires), Some("90;refresher=uac"));
    assert!(called.run(ms(59_900)).is_empty());
    assert_eq!(Called::only(&called.run(ms(60_100))).method.as_str(), "BYE");
    called.run(ms(200_000));
    let record = called.out.records[0];
    assert_eq!(record.failure, Some(Failure::Unrefreshed));
    assert!(called.callee.is_empty());
}

/// RFC 4028 section 9.
#[test]
fn one_who_is_called_refuses_a_session_interval_that_is_too_small() {
    let mut called = Called::new();
    let said = called.ask(&invite("Supported: 100rel, timer\r\nSession-Expires: 89\r\n"));
    let refused = said[0].as_response().unwrap();
    assert_eq!((refused.status.code(), refused.headers.get(&Name::MinSe)), (422, Some("90")));
    assert!(called.callee.is_empty());
    // A caller without support for timers does not understand a 422.
    let (_, accepted) = talking("Session-Expires: 89\r\n");
    assert_eq!(accepted.headers.get(&Name::SessionExpires), None);
}

/// The side that does not own the Call-ID sends its refresh again within 2 s (RFC 3261 section 14.1).
#[test]
fn a_refresh_by_one_who_is_called_that_crosses_another_request_is_sent_again_soon() {
    let (mut called, _) = talking("x: 90\r\n");
    let refresh = Called::only(&called.run(ms(45_100)));
    assert_eq!(refresh.method.as_str(), "INVITE");
    assert_eq!(Called::only(&called.answer(&refresh, 491, &[])).method.as_str(), "ACK");
    // The refresh may have been retransmitted in this time.
    let all = called.run(ms(47_150));
    let again = all.first().expect("it is sent again").as_request().unwrap().clone();
    let numbers = [&refresh, &again].map(|request| request.headers.cseq().unwrap().unwrap().number);
    assert!(again.method.as_str() == "INVITE" && numbers[1] > numbers[0], "{again:?}");
    called.answer(&again, 200, &[(Name::SessionExpires, "90;refresher=uac")]);
    let bye = asked("BYE", again.headers.get(&Name::From).unwrap(), "", "").replace("CSeq: 1", "CSeq: 2");
    assert_eq!(called.ask(&bye)[0].as_response().unwrap().status.code(), 200);
    assert_eq!((called.out.records[0].failure, called.out.records[0].counts.pending), (None, 1));
}

/// RFC 3264 section 6.1.
#[test]
fn a_changed_session_is_answered_in_the_direction_that_its_offer_leaves() {
    let (mut called, accepted) = talking("");
    let to = accepted.headers.get(&Name::To).unwrap();
    let description = String::from_utf8(setup().description.to_vec()).unwrap();
    for (number, offered, answered) in [
        (2, "sendonly", "a=recvonly"),
        (3, "recvonly", "a=sendonly"),
        (4, "inactive", "a=inactive"),
        (5, "sendrecv", "a=sendrecv"),
    ] {
        let offer = format!("{description}a={offered}\r\n");
        let again = |method: &str, body: &str| {
            let text = asked(method, to, "", body).replace("CSeq: 1", &format!("CSeq: {number}"));
            text.replace("z9hG4bK1", &format!("z9hG4bK{number}"))
        };
        let said = called.ask(&again("INVITE", &offer));
        let response = said[0].as_response().unwrap();
        let body = String::from_utf8(response.body.to_vec()).unwrap();
        let says = body.lines().rfind(|line| line.starts_with("a="));
        assert_eq!((response.status.code(), says), (200, Some(answered)), "{offered}: {body}");
        called.ask(&again("ACK", ""));
    }
}
