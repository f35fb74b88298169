//! Responses that are wrong, truncated, late, or crossed by a CANCEL or BYE.

use super::scenarios::{HOLD, request_of};
use super::*;
use netrig_sip::settings::UserOptions;

/// A datagram that ends before the body does "is considered an error. If the message is a response, it MUST be discarded" (RFC 3261
/// section 18.3): its request is retransmitted, and the attempt has failed.
#[test]
fn a_response_that_is_cut_is_discarded_and_named() {
    let cut = |pair: &mut Pair<_>, asked: &Request, status: u16| {
        let mut response = asked.response(Status::new(status).unwrap());
        response.headers.set(Name::To, format!("{};tag=server", asked.headers.get(&Name::To).unwrap()));
        response.headers.push(Name::Contact, "<sip:bob@192.0.2.7>");
        let whole = Message::from(response).to_bytes();
        let text = String::from_utf8(whole.to_vec()).unwrap();
        pair.inject_bytes(text.replacen("Content-Length: 0", "Content-Length: 99999", 1).as_bytes());
    };
    let rule = Some(Failure::Rule("RFC 3261 section 18.3"));
    for (scenario, times) in [(CALL, [0, 500, 1500]), (Scenario::Options, [0, 500, 1500])] {
        let (mut pair, _, asked) = started(scenario);
        cut(&mut pair, &asked, 200);
        pair.run(ms(200_000));
        let method = asked.method.as_str();
        assert_eq!(request_of(&pair, method)[..3], times);
        assert_eq!(pair.sent.len(), request_of(&pair, method).len(), "nothing is acknowledged");
        let record = pair.record(Side::Caller);
        assert_eq!((record.failure, record.status), (rule, 0));
    }
    // The next response is complete.
    let (mut pair, _, asked) = registering(60);
    cut(&mut pair, &asked, 200);
    pair.run(ms(600));
    assert_eq!(request_of(&pair, "REGISTER"), [0, 500]);
    answer(&mut pair, &asked, 200, &[(Name::Contact, "<sip:user0003@192.0.2.1>;expires=60")]);
    pair.run(ms(700));
    assert_eq!((pair.record(Side::Registrant).failure, pair.registrant.registered()), (rule, 1));
}

/// Branch and method match a response to its request (RFC 3261 section 17.1.3). That its `From`, `Call-ID` and `CSeq`
/// "MUST equal" the request's is a separate rule (section 8.2.6.2), and not a reason to ignore the response.
#[test]
fn an_answer_that_copies_the_request_wrongly_is_named() {
    let rule = Some(Failure::Rule("RFC 3261 section 8.2.6.2"));
    for (name, value) in [
        (Name::From, "<sip:a@b>;tag=evil"),
        (Name::From, "<sip:a@b>"),
        (Name::CallId, "another"),
        (Name::CSeq, "99 INVITE"),
    ] {
        let (mut pair, seen, mut asked) = started(CALL);
        asked.headers.set(name.clone(), value);
        answer(&mut pair, &asked, 200, &[(Name::Contact, "<sip:bob@192.0.2.7>")]);
        pair.run(ms(10));
        let sent = seen.borrow().clone();
        let all: Vec<_> = sent.iter().map(|request| request.method.as_str()).collect();
        assert_eq!(all, ["INVITE", "ACK", "BYE"], "{name:?}");
        assert!(
            sent.iter()
                .all(|request| request.headers.get(&Name::CallId) == sent[0].headers.get(&Name::CallId))
        );
        assert_eq!(sent[1].headers.cseq().unwrap().unwrap().number, 1);
        let mut bye = sent[2].clone();
        if name == Name::CSeq {
            bye.headers.set(Name::CSeq, "7 BYE");
        }
        let mut response = bye.response(Status::OK);
        response.headers.set(Name::To, bye.headers.get(&Name::To).unwrap());
        pair.inject(&response.into());
        pair.run(ms(20));
        let record = pair.record(Side::Caller);
        assert_eq!((record.failure, record.status, record.stamps.ended), (rule, 200, ms(11)));
        assert_eq!(pair.caller.strays(), 0);
    }
    let (mut pair, _, mut asked) = registering(60);
    asked.headers.set(Name::From, "<sip:a@b>;tag=evil");
    answer(&mut pair, &asked, 200, &[(Name::Contact, "<sip:user0003@192.0.2.1>;expires=60")]);
    pair.run(ms(10));
    assert_eq!((pair.record(Side::Registrant).failure, pair.registrant.registered()), (rule, 1));
}

/// "The UAC core MUST generate an ACK request for each 2xx" (RFC 3261 section 13.2.2.4), even for a 2xx without a
/// contact or tag. The caller then hangs up at the destination of the call. A refusal after a 2xx is not acknowledged
/// (RFC 6026 section 7.2).
#[test]
fn what_is_accepted_wrongly_is_acknowledged_and_hung_up() {
    for (lacks, record_route) in
        [(Name::Contact, None), (Name::To, None), (Name::Contact, Some("<sip:p1;lr>"))]
    {
        let (mut pair, seen, invite) = started(CALL);
        let mut response = invite.response(Status::OK);
        let to = invite.headers.get(&Name::To).unwrap();
        if lacks == Name::Contact {
            response.headers.set(Name::To, format!("{to};tag=server"));
        } else {
            response.headers.set(Name::To, to);
            response.headers.push(Name::Contact, "<sip:bob@192.0.2.7>");
        }
        if let Some(route) = record_route {
            response.headers.push(Name::RecordRoute, route);
        }
        for at in [10, 20] {
            pair.inject(&response.clone().into());
            pair.run(ms(at));
        }
        let sent = seen.borrow().clone();
        let all: Vec<_> = sent.iter().map(|request| request.method.as_str()).collect();
        assert_eq!(all, ["INVITE", "ACK", "BYE", "ACK"], "{lacks:?}");
        let uri =
            if lacks == Name::Contact { invite.uri.to_string() } else { "sip:bob@192.0.2.7".to_owned() };
        for request in &sent[1..] {
            assert_eq!(
                (request.uri.to_string(), request.headers.get(&Name::Route)),
                (uri.clone(), record_route)
            );
            assert_eq!(request.headers.get(&Name::To), response.headers.get(&Name::To));
        }
        let mut done = sent[2].response(Status::OK);
        done.headers.set(Name::To, sent[2].headers.get(&Name::To).unwrap());
        pair.inject(&done.into());
        pair.run(ms(30));
        let record = pair.record(Side::Caller);
        assert_eq!((record.failure, record.status), (Some(Failure::Rule("RFC 3261 section 12.1.1")), 200));
    }
    let (mut pair, seen, invite) = started(CALL);
    answer(&mut pair, &invite, 200, &[(Name::Contact, "<sip:bob@192.0.2.7>")]);
    pair.run(ms(10));
    answer(&mut pair, &invite, 486, &[]);
    pair.run(ms(20));
    let sent: Vec<_> = seen.borrow().iter().map(|request| request.method.to_string()).collect();
    assert_eq!((sent, pair.caller.strays()), (vec!["INVITE".to_owned(), "ACK".to_owned()], 1));
}

/// A proxy MUST cancel its other branches after an answer (RFC 3261 section 16.7). Of the two contacts that must
/// answer, the second one answers nevertheless, whether the CANCEL arrives before or after the time of its answer. A
/// contact that is cancelled before any answer does not answer.
#[test]
fn the_second_place_answers_however_soon_it_is_cancelled() {
    let (_, _, invite) = started(Scenario::Fork { hold: HOLD });
    let invite = Message::from(invite).to_string();
    let far = Setup {
        local: there(),
        server: here(),
        options: UserOptions { contacts: 3, ..UserOptions::default() },
        ..setup()
    };
    for (first, second) in [("", "~2"), ("~2", "")] {
        let mut callee = Callee::new(far.clone(), CalleeAction::Answer, RING, [7; 16]).unwrap();
        let mut out = LoadOutput::default();
        let said = |out: &mut LoadOutput| -> Vec<_> {
            let said = out.messages.iter().map(|(_, bytes)| {
                let scan = Scan::of(bytes);
                (scan.status().unwrap(), String::from_utf8_lossy(scan.method().unwrap()).into_owned())
            });
            let said = said.collect();
            out.messages.clear();
            said
        };
        let text = |method: &str, place: &str| {
            let uri = format!("{method} sip:user0002{place}@192.0.2.2 ");
            let text = invite.replacen("INVITE sip:user0002@192.0.2.2 ", &uri, 1);
            let via = format!("\r\nVia: SIP/2.0/UDP 192.0.2.9;branch=z9hG4bK{place}\r\n");
            text.replacen("\r\n", &via, 1).replacen("1 INVITE", &format!("1 {method}"), 1)
        };
        let ask = |callee: &mut Callee, at: Instant, (method, place): (&str, &str), out: &mut LoadOutput| {
            callee.handle_request(at, here(), &Scan::of(text(method, place).as_bytes()), out);
            said(out)
        };
        let of = |all: &[(u16, &str)]| -> Vec<_> {
            all.iter().map(|(status, method)| (*status, (*method).to_owned())).collect()
        };
        ask(&mut callee, ms(1), ("INVITE", first), &mut out);
        for place in [second, "~3"] {
            assert_eq!(ask(&mut callee, ms(2), ("INVITE", place), &mut out), of(&[(180, "INVITE")]));
        }
        callee.handle_timeout(ms(11), &mut out);
        assert_eq!(out.messages.len(), 1, "the first is due");
        out.messages.clear();
        for (place, status) in [(second, 200), ("~3", 487)] {
            let answers = ask(&mut callee, ms(12), ("CANCEL", place), &mut out);
            assert_eq!(answers, of(&[(200, "CANCEL"), (status, "INVITE")]));
        }

        let mut callee = Callee::new(far.clone(), CalleeAction::Answer, RING, [7; 16]).unwrap();
        for place in [first, second] {
            ask(&mut callee, ms(1), ("INVITE", place), &mut out);
        }
        for place in [first, second] {
            let answers = ask(&mut callee, ms(2), ("CANCEL", place), &mut out);
            assert_eq!(answers, of(&[(200, "CANCEL"), (487, "INVITE")]));
        }
    }
}

/// If a 200 crosses the CANCEL, the caller acknowledges it and hangs up (RFC 3261 section 9.1). The session ends with that BYE, not
/// with the CANCEL.
#[test]
fn what_is_answered_in_spite_of_its_cancel_is_hung_up() {
    let (mut pair, seen, invite) = started(Scenario::Cancel { after: Duration::from_millis(50) });
    answer(&mut pair, &invite, 180, &[]);
    pair.run(ms(60));
    answer(&mut pair, &invite, 200, &[(Name::Contact, "<sip:bob@192.0.2.7>")]);
    pair.run(ms(70));
    let asked: Vec<_> = seen.borrow().iter().map(|request| request.method.to_string()).collect();
    assert_eq!(asked, ["INVITE", "CANCEL", "ACK", "BYE"]);
    let bye = seen.borrow()[3].clone();
    let mut response = bye.response(Status::OK);
    response.headers.set(Name::To, bye.headers.get(&Name::To).unwrap());
    pair.inject(&response.into());
    pair.run(ms(80));
    let record = pair.record(Side::Caller);
    assert_eq!((record.failure, record.status), (Some(Failure::Status(200)), 200));
    let Stamps { cancelling, answered, ending, ended, .. } = record.stamps;
    assert_eq!([cancelling, answered, ending, ended], [51, 61, 61, 71].map(ms));
}

/// A refused BYE is distinguished from an unanswered one.
#[test]
fn a_bye_that_is_refused_is_stamped() {
    let (mut pair, seen, invite) = started(CALL_AND_LEAVE);
    answer(&mut pair, &invite, 200, &[(Name::Contact, "<sip:bob@192.0.2.7>")]);
    pair.run(ms(10));
    let bye = seen.borrow()[2].clone();
    let mut response = bye.response(Status::new(500).unwrap());
    response.headers.set(Name::To, bye.headers.get(&Name::To).unwrap());
    pair.inject(&response.into());
    pair.run(ms(20));
    let record = pair.record(Side::Caller);
    assert_eq!(record.failure, Some(Failure::Status(500)));
    let Stamps { ended, unended, .. } = record.stamps;
    assert_eq!([ended, unended], [ms(11); 2]);
}
