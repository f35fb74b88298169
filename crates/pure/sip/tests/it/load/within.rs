//! Requests of the other side of a call that the scenario does not expect.

use netrig_core::{Duration, Instant};
use netrig_sip::index::Tally;
use netrig_sip::load::{Failure, LoadOutput, Scan, Scenario, Side};
use netrig_sip::{Message, Name, Status};

use super::pair::{Pair, here, perfect};
use super::{CALL, RING, answer, ms, recorded, started};

/// A request of the server within the dialog of the caller's INVITE; `more` are header lines.
pub(super) fn server_request(
    invite: &netrig_sip::Request,
    method: &str,
    number: u32,
    more: &str,
    body: &str,
) -> Vec<u8> {
    let own = |name: &Name| invite.headers.get(name).unwrap().to_owned();
    format!(
        "{method} sip:user0001@192.0.2.1 SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.2;branch=z9hG4bK{number}\r\nMax-Forwards: 70\r\n\
         From: {};tag=server\r\nTo: {}\r\nCall-ID: {}\r\nCSeq: {number} {method}\r\nContact: <sip:bob@192.0.2.2>\r\n{more}\
         Content-Length: {}\r\n\r\n{body}",
        own(&Name::To),
        own(&Name::From),
        own(&Name::CallId),
        body.len()
    )
    .into_bytes()
}

fn asked(invite: &netrig_sip::Request, method: &str, number: u32, body: &str) -> Vec<u8> {
    let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
    server_request(invite, method, number, kind, body)
}

const OFFER: &str = "v=0\r\no=- 9 9 IN IP4 192.0.2.2\r\ns=-\r\nt=0 0\r\nm=audio 6000 RTP/AVP 0\r\n";

/// 405 with Allow for a known method that is not supported (RFC 3261 section 8.2.1), 501 for an unknown one (section 21.5.2), 488 for
/// an offer (section 14.2), 481 for a PRACK or NOTIFY without its state (RFC 3262 section 3, RFC 6665 section 4.1.3), 489 for a
/// subscription (section 4.2.1.3).
#[test]
fn a_request_within_a_call_is_answered_by_its_method() {
    let (mut pair, seen, invite) = started(Scenario::Call { hold: Duration::from_secs(5) });
    let allow: Vec<&str> = invite.headers.all(&Name::Allow).collect();
    assert_eq!(allow, ["INVITE, ACK, CANCEL, BYE, OPTIONS, MESSAGE, PRACK, SUBSCRIBE, NOTIFY, UPDATE"]);
    assert_eq!(invite.headers.get(&Name::Supported), Some("100rel, timer"));
    answer(&mut pair, &invite, 200, &[(Name::Contact, "<sip:bob@192.0.2.2>")]);
    pair.run(ms(100));
    for (number, (method, body, status)) in (1..).zip([
        ("OPTIONS", "", 200),
        ("MESSAGE", "", 200),
        ("INFO", "", 405),
        ("UPDATE", OFFER, 488),
        ("REFER", "", 405),
        ("FOO", "", 501),
        ("INVITE", OFFER, 488),
        ("NOTIFY", "", 481),
        ("PRACK", "", 481),
        ("SUBSCRIBE", "", 489),
    ]) {
        pair.inject_bytes(&asked(&invite, method, number, body));
        pair.run(ms(100 + 10 * u64::from(number)));
        let answered = pair.last.as_response().unwrap();
        assert_eq!(answered.status.code(), status, "{method}");
        let allows = answered.headers.get(&Name::Allow).is_some();
        assert_eq!(allows, matches!(status, 405 | 501) || method == "OPTIONS", "{method}");
    }
    let counted: Vec<_> = pair.unrequested.drain(..).collect();
    assert_eq!((counted.len(), counted[5]), (10, ("other", 501)));
    // The call is unchanged.
    pair.run(ms(6_000));
    let bye = seen.borrow().last().cloned().unwrap();
    assert_eq!(bye.method.as_str(), "BYE");
    answer(&mut pair, &bye, 200, &[]);
    pair.run(ms(7_000));
    assert_eq!(pair.record(Side::Caller).failure, None);
    // A request of an unknown dialog.
    let bytes = asked(&invite, "INFO", 90, "");
    let mut out = LoadOutput::default();
    pair.callee.handle_request(pair.now, here(), &Scan::of(&bytes), &mut out);
    let (_, bytes) = out.messages.iter().next().unwrap();
    assert_eq!((Scan::of(bytes).status(), out.unrequested.len()), (Some(481), 0));
}

/// "A UAS that receives an INVITE on a dialog while an INVITE it had sent on that dialog is in progress MUST return a 491" (RFC 3261
/// section 14.2). The side that owns the Call-ID tries again after 2.1 to 4 s (section 14.1).
#[test]
fn an_invite_that_crosses_another_is_sent_again_later() {
    let sdp = |way: &str| format!("{OFFER}a={way}\r\n");
    let (seen, network) = recorded();
    let mut pair = Pair::new(network, RING);
    let described = |pair: &mut Pair<_>, place: usize, way: &str| {
        let asked = seen.borrow()[place].clone();
        let mut response = asked.response(Status::OK);
        response.headers.set(Name::To, "<sip:user0002@192.0.2.2>;tag=server");
        response.headers.push(Name::Contact, "<sip:bob@192.0.2.2>");
        response.headers.push(Name::ContentType, "application/sdp");
        response.body = sdp(way).into();
        response.headers.set(Name::ContentLength, response.body.len().to_string());
        pair.inject(&response.into());
    };
    pair.start(Scenario::Reinvite { hold: Duration::from_millis(300) });
    described(&mut pair, 0, "sendrecv");
    pair.run(ms(150));
    let methods = |from: usize| -> Vec<String> {
        seen.borrow()[from..].iter().map(|request| request.method.to_string()).collect()
    };
    assert_eq!(methods(0), ["INVITE", "ACK", "INVITE"]);
    let invite = seen.borrow()[0].clone();
    pair.inject_bytes(&asked(&invite, "INVITE", 7, OFFER));
    let again = seen.borrow()[2].clone();
    pair.run(ms(152));
    assert_eq!(pair.last.as_response().unwrap().status.code(), 491);
    answer(&mut pair, &again, 491, &[]);
    let refused = pair.now;
    pair.run(refused + Duration::from_millis(2_090));
    assert_eq!(methods(3), ["ACK"]);
    pair.run(refused + Duration::from_millis(4_010));
    assert_eq!(methods(4)[0], "INVITE");
    let third = seen.borrow()[4].clone();
    assert!(third.headers.cseq().unwrap().unwrap().number > again.headers.cseq().unwrap().unwrap().number);
    described(&mut pair, 4, "recvonly");
    let now = pair.now;
    pair.run(now + Duration::from_millis(150));
    let place = seen.borrow().iter().rposition(|request| request.method.as_str() == "INVITE").unwrap();
    assert!(place > 4, "{:?}", methods(0));
    described(&mut pair, place, "sendrecv");
    let now = pair.now;
    pair.run(now + Duration::from_millis(150));
    let bye = seen.borrow().last().cloned().unwrap();
    assert_eq!(bye.method.as_str(), "BYE");
    answer(&mut pair, &bye, 200, &[]);
    let now = pair.now;
    pair.run(now + Duration::from_millis(50));
    let record = pair.record(Side::Caller);
    assert_eq!((record.failure, record.counts.pending), (None, 1));
    assert!(record.stamps.changed - record.stamps.changing < Duration::from_secs(4));
}

/// Answers INVITE with these responses, and CANCEL with 200 if requested.
fn working(statuses: &'static [u16], cancels: bool, scenario: Scenario) -> (Instant, Option<Failure>) {
    let (mut pair, seen, invite) = started(scenario);
    for status in statuses {
        answer(&mut pair, &invite, *status, &[]);
        let until = pair.now + Duration::from_millis(5);
        pair.run(until);
    }
    let is_cancel = |request: &netrig_sip::Request| request.method.as_str() == "CANCEL";
    let mut until = pair.now;
    while !seen.borrow().iter().any(is_cancel) {
        until += Duration::from_millis(10);
        pair.run(until);
    }
    let cancelled = pair.now;
    if cancels {
        let cancel = seen.borrow().iter().find(|request| is_cancel(request)).cloned().unwrap();
        answer(&mut pair, &cancel, 200, &[]);
    }
    pair.run(ms(400_000));
    (cancelled, pair.record(Side::Caller).failure)
}

#[test]
fn what_never_rang_did_not_ring_too_long() {
    let (cancelled, failure) = working(&[100], true, CALL);
    assert_eq!(failure, Some(Failure::OnlyTrying));
    assert_eq!(cancelled.as_nanos() / 1_000_000_000, 180);
    assert_eq!(working(&[100, 180], true, CALL).1, Some(Failure::RangTooLong));
    let cancel = Scenario::Cancel { after: Duration::from_millis(100) };
    assert_eq!(working(&[180], true, cancel).1, Some(Failure::NoFinal));
    let timer_f = Failure::TimedOut(netrig_sip::transaction::Timer::F);
    assert_eq!(working(&[180], false, cancel).1, Some(timer_f));
}

/// The callee receives retransmitted requests, and the caller receives retransmitted responses.
#[test]
fn what_comes_again_is_counted_by_what_it_is() {
    let mut pair = Pair::new(perfect(), RING);
    pair.start(CALL);
    pair.run(ms(1_000));
    let mut tally = Tally::default();
    for (side, times) in [(Side::Caller, 2), (Side::Callee, 3)] {
        let mut record = pair.record(side);
        record.counts.repeated = times;
        tally.record(&record);
    }
    let counted = tally.repetitions();
    assert_eq!((counted.responses_received_again, counted.received_again), (2, 3));
}

#[test]
fn who_is_called_answers_requests_within_its_dialog_too() {
    let mut pair = Pair::new(perfect(), Duration::ZERO);
    pair.start(Scenario::Call { hold: Duration::from_secs(5) });
    pair.run(ms(100));
    let ack = pair.last.as_request().cloned().unwrap();
    assert_eq!(ack.method.as_str(), "ACK");
    let mut status = |method: &str| {
        let text = Message::from(ack.clone()).to_string();
        let text =
            text.replacen("ACK ", &format!("{method} "), 1).replacen("1 ACK", &format!("2 {method}"), 1);
        let mut out = LoadOutput::default();
        pair.callee.handle_request(ms(200), here(), &Scan::of(text.as_bytes()), &mut out);
        let (_, bytes) = out.messages.iter().next().unwrap();
        (Scan::of(bytes).status().unwrap(), out.unrequested.len())
    };
    assert_eq!(["INFO", "BAR", "OPTIONS"].map(&mut status), [(405, 1), (501, 1), (200, 1)]);
}
