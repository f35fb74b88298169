//! Dialogs, against the rules of the RFCs.

use bytes::Bytes;
use netrig_core::{Duration, Instant, Seeds};

use super::*;
use crate::Message;
use crate::header::RAck;
use crate::transaction::Timing;

fn request(method: &str, more: &str) -> Request {
    let text = format!(
        "{method} sip:bob@biloxi.com SIP/2.0\r\nVia: SIP/2.0/UDP pc33.atlanta.com;branch=z9hG4bKnashds8\r\n\
         To: Bob <sip:bob@biloxi.com>\r\nFrom: Alice <sip:alice@atlanta.com>;tag=1928301774\r\nMax-Forwards: 70\r\n\
         Call-ID: a84b4c76e66710\r\nCSeq: 314159 {method}\r\nContact: <sip:alice@pc33.atlanta.com>\r\n{more}\r\n"
    );
    Message::parse(&Bytes::from(text)).unwrap().as_request().unwrap().clone()
}

fn response(to: &Request, code: u16, tag: &str, routes: &str) -> Response {
    let mut response = to.response(Status::new(code).unwrap());
    response.headers.set(Name::To, format!("Bob <sip:bob@biloxi.com>;tag={tag}"));
    response.headers.push(Name::Contact, format!("<sip:bob@{tag}.biloxi.com>"));
    if !routes.is_empty() {
        response.headers.push(Name::RecordRoute, routes);
    }
    response
}

fn random() -> Stream {
    Seeds::new(1).stream("dialog")
}

fn at(seconds: f64) -> Instant {
    Instant::ZERO + Duration::from_secs_f64(seconds)
}

/// Both sides of one dialog, confirmed.
fn pair(routes: &str) -> (Dialog, Dialog) {
    let record = if routes.is_empty() { String::new() } else { format!("Record-Route: {routes}\r\n") };
    let invite = request("INVITE", &record);
    let accepted = response(&invite, 200, "a6c85cf", routes);
    (Dialog::caller(&invite, &accepted).unwrap(), Dialog::callee(&invite, &accepted).unwrap())
}

fn routed(request: &Request) -> (String, Vec<String>) {
    let routes = request.headers.addresses(&Name::Route).unwrap();
    (request.uri.to_string(), routes.iter().map(ToString::to_string).collect())
}

#[test]
fn both_sides_have_the_same_dialog() {
    let (caller, callee) = pair("");
    assert_eq!((caller.state(), callee.state()), (DialogState::Confirmed, DialogState::Confirmed));
    assert_eq!(caller.id().call_id, callee.id().call_id);
    assert_eq!(
        (&caller.id().local_tag, &caller.id().remote_tag),
        (&callee.id().remote_tag, &callee.id().local_tag)
    );
    let (mut caller, mut callee) = (caller, callee);
    let bye = caller.request(Method::Bye).unwrap();
    assert_eq!(Message::from(bye.clone()).violations().len(), 1, "only the Via is missing");
    assert_eq!(DialogId::of_request(&bye).as_ref(), Some(callee.id()));
    assert_eq!(bye.headers.get(&Name::CSeq), Some("314160 BYE"));
    assert_eq!(bye.uri.to_string(), "sip:bob@a6c85cf.biloxi.com");
    callee.handle_request(&bye, &mut random()).unwrap();
    assert_eq!((caller.state(), callee.state()), (DialogState::Terminated, DialogState::Terminated));
    assert!(caller.request(Method::Info).is_err());
}

/// The example of RFC 3261 section 12.2.1.1, whose first router is strict.
#[test]
fn a_strict_router_gets_the_request_and_the_target_last() {
    let (_, mut callee) = pair("<sip:proxy1>,<sip:proxy2>,<sip:proxy3;lr>,<sip:proxy4>");
    let rest = ["<sip:proxy2>", "<sip:proxy3;lr>", "<sip:proxy4>", "<sip:alice@pc33.atlanta.com>"];
    let (uri, routes) = routed(&callee.request(Method::Bye).unwrap());
    assert_eq!((uri.as_str(), routes), ("sip:proxy1", rest.map(str::to_owned).to_vec()));
}

#[test]
fn a_loose_route_is_in_the_order_of_its_side() {
    let (mut caller, mut callee) = pair("<sip:p2;lr>, <sip:p1;lr>");
    let (uri, routes) = routed(&caller.request(Method::Info).unwrap());
    assert_eq!(
        (uri.as_str(), routes),
        ("sip:bob@a6c85cf.biloxi.com", vec!["<sip:p1;lr>".into(), "<sip:p2;lr>".into()])
    );
    let (uri, routes) = routed(&callee.request(Method::Info).unwrap());
    assert_eq!(
        (uri.as_str(), routes),
        ("sip:alice@pc33.atlanta.com", vec!["<sip:p2;lr>".into(), "<sip:p1;lr>".into()])
    );
    let (mut caller, _) = pair("<sip:p1;method=INVITE?Subject=x>");
    assert_eq!(routed(&caller.request(Method::Info).unwrap()).0, "sip:p1");
}

#[test]
fn numbers_go_up() {
    let (mut caller, mut callee) = pair("");
    let mut numbered = |number: u32| {
        let mut info = caller.request(Method::Info).unwrap();
        info.headers.set(Name::CSeq, CSeq { number, method: Method::Info });
        callee.handle_request(&info, &mut random()).map_err(|refusal| refusal.status.code())
    };
    // "It is possible for the CSeq sequence number to be higher than the remote sequence number by more than one."
    assert_eq!(numbered(314_160), Ok(()));
    assert_eq!(numbered(314_170), Ok(()));
    assert_eq!(numbered(314_165), Err(500));
    assert_eq!(numbered(314_170), Err(500));
    assert_eq!(numbered(314_171), Ok(()));
    let mut first = callee.request(Method::Info).unwrap();
    assert_eq!(first.headers.get(&Name::CSeq), Some("1 INFO"));
    first.headers.remove(&Name::CSeq);
    assert_eq!(caller.handle_request(&first, &mut random()).unwrap_err().status, Status::BAD_REQUEST);
}

/// RFC 3261 section 14.
#[test]
fn invites_do_not_cross() {
    let (mut caller, mut callee) = pair("");
    let mine = caller.request(Method::Invite).unwrap();
    assert!(caller.request(Method::Invite).is_err());
    let other = callee.request(Method::Invite).unwrap();
    let refusal = caller.handle_request(&other, &mut random()).unwrap_err();
    assert_eq!((refusal.status, refusal.retry_after), (Status::REQUEST_PENDING, None));
    // After a 491 an INVITE is allowed again.
    callee.handle_response(&other.response(Status::REQUEST_PENDING));
    callee.handle_request(&mine, &mut random()).unwrap();
    assert!(callee.request(Method::Invite).is_err());
    let mut second = mine.clone();
    second.headers.set(Name::CSeq, "314161 INVITE");
    let refusal = callee.handle_request(&second, &mut random()).unwrap_err();
    assert_eq!(refusal.status, Status::SERVER_INTERNAL_ERROR);
    assert!(refusal.retry_after.is_some_and(|seconds| seconds <= 10));
    assert!(refusal.response(&second).headers.get(&Name::RetryAfter).is_some());
    callee.answered(&mine);
    callee.handle_request(&second, &mut random()).unwrap();
    let mut random = random();
    for _ in 0..1000 {
        let tens =
            |dialog: &Dialog, random: &mut Stream| dialog.pause_after_glare(random).as_nanos() / 10_000_000;
        assert!((210..=400).contains(&tens(&caller, &mut random)));
        assert!((0..=200).contains(&tens(&callee, &mut random)));
    }
}

#[test]
fn a_target_is_refreshed_by_what_may() {
    let (mut caller, mut callee) = pair("");
    let mut info = caller.request(Method::Info).unwrap();
    info.headers.push(Name::Contact, "<sip:alice@elsewhere>");
    callee.handle_request(&info, &mut random()).unwrap();
    assert_eq!(callee.target().to_string(), "sip:alice@pc33.atlanta.com");
    let mut update = caller.request(Method::Update).unwrap();
    update.headers.set(Name::Contact, "<sip:alice@elsewhere>");
    callee.handle_request(&update, &mut random()).unwrap();
    assert_eq!(callee.target().to_string(), "sip:alice@elsewhere");
    let mut answer = update.response(Status::OK);
    answer.headers.push(Name::Contact, "<sip:bob@moved>");
    caller.handle_response(&answer);
    assert_eq!(caller.target().to_string(), "sip:bob@moved");
    caller.handle_response(&update.response(Status::CALL_DOES_NOT_EXIST));
    assert_eq!(caller.state(), DialogState::Terminated);
}

#[test]
fn a_dialog_needs_its_parts() {
    let invite = request("INVITE", "");
    let whole = response(&invite, 200, "x", "");
    for (name, value) in
        [(Name::Contact, None), (Name::Contact, Some("<sip:a@b>, <sip:c@d>")), (Name::CSeq, None)]
    {
        let mut broken = whole.clone();
        match value {
            None => broken.headers.remove(&name),
            Some(value) => broken.headers.set(name, value),
        }
        assert!(Dialog::caller(&invite, &broken).is_err());
        assert!(Dialog::callee(&invite, &broken).is_err());
    }
    let mut secure = invite.clone();
    secure.uri = "sips:bob@biloxi.com".parse().unwrap();
    assert!(Dialog::callee(&secure, &whole).is_err());
}

#[test]
fn a_forked_invite_makes_several_dialogs() {
    let invite = request("INVITE", "");
    let mut invitation = Invitation::new(invite.clone(), Timing::default());
    let mut handle = |seconds, code, tag, routes| {
        invitation.handle_response(at(seconds), &response(&invite, code, tag, routes)).unwrap()
    };
    assert_eq!(handle(0.0, 100, "x", ""), InvitationEvent::Trying);
    assert_eq!(handle(0.1, 180, "one", "<sip:early;lr>"), InvitationEvent::Early("one".into()));
    assert_eq!(handle(0.2, 183, "two", ""), InvitationEvent::Early("two".into()));
    assert_eq!(handle(0.3, 183, "one", ""), InvitationEvent::Early("one".into()));
    let acknowledged = |event| match event {
        InvitationEvent::Accepted(tag, ack) => (tag, ack),
        other => panic!("{other:?}"),
    };
    // "the route set for the dialog MUST be recomputed based on the 2xx response".
    let (tag, ack) = acknowledged(handle(1.0, 200, "one", "<sip:late;lr>"));
    assert_eq!((tag.as_str(), ack.headers.get(&Name::CSeq)), ("one", Some("314159 ACK")));
    assert_eq!(routed(&ack), ("sip:bob@one.biloxi.com".into(), vec!["<sip:late;lr>".into()]));
    assert_eq!(acknowledged(handle(1.5, 200, "one", "<sip:late;lr>")).1, ack);
    assert_eq!(acknowledged(handle(2.0, 200, "three", "")).0, "three");
    let states =
        |invitation: &Invitation| -> Vec<DialogState> { invitation.dialogs().map(Dialog::state).collect() };
    assert_eq!(states(&invitation), [DialogState::Confirmed, DialogState::Confirmed, DialogState::Early]);
    assert_eq!(invitation.poll_timeout(), Some(at(33.0)));
    invitation.handle_timeout(at(33.0));
    assert_eq!(
        states(&invitation),
        [DialogState::Confirmed, DialogState::Confirmed, DialogState::Terminated]
    );
    assert!(invitation.is_over());
}

#[test]
fn a_refused_invite_leaves_no_dialog() {
    let invite = request("INVITE", "");
    let mut invitation = Invitation::new(invite.clone(), Timing::default());
    invitation.handle_response(at(0.0), &response(&invite, 180, "one", "")).unwrap();
    assert_eq!(
        invitation.handle_response(at(1.0), &response(&invite, 486, "one", "")).unwrap(),
        InvitationEvent::Refused
    );
    assert_eq!(invitation.dialog("one").unwrap().state(), DialogState::Terminated);
    for tag in 0..MOST_DIALOGS + 1 {
        let event = invitation.handle_response(at(2.0), &response(&invite, 200, &format!("t{tag}"), ""));
        assert_eq!(event.is_err(), tag + 1 >= MOST_DIALOGS, "there is one dialog already");
    }
}

/// RFC 3261 section 13.3.1.4.
#[test]
fn a_2xx_is_repeated_until_its_ack() {
    let invite = request("INVITE", "");
    let accepted = response(&invite, 200, "x", "");
    let mut acceptance = Acceptance::new(at(0.0), &invite, accepted.clone(), Timing::default());
    let mut sent = Vec::new();
    let mut now = at(0.0);
    loop {
        sent.extend(acceptance.poll_transmit().map(|_| now.as_nanos() / 1_000_000));
        let Some(next) = acceptance.poll_timeout() else { break };
        now = next;
        acceptance.handle_timeout(now);
    }
    assert_eq!(sent, [0, 500, 1500, 3500, 7500, 11500, 15500, 19500, 23500, 27500, 31500]);
    assert_eq!((now, acceptance.outcome()), (at(32.0), Some(AcceptanceOutcome::Unacknowledged)));

    let ack = Dialog::caller(&invite, &accepted).unwrap().acknowledgement(&invite);
    let mut acceptance = Acceptance::new(at(0.0), &invite, accepted, Timing::default());
    let mut other = ack.clone();
    other.headers.set(Name::CSeq, "1 ACK");
    assert!(!acceptance.handle_request(at(0.1), &other));
    assert!(acceptance.handle_request(at(0.2), &ack) && acceptance.handle_request(at(0.3), &ack));
    assert_eq!(acceptance.outcome(), Some(AcceptanceOutcome::Acknowledged(Duration::from_millis(200))));
    assert_eq!((acceptance.poll_transmit(), acceptance.poll_timeout()), (None, None));
}

#[test]
fn an_ack_has_the_credentials_of_its_invite() {
    let invite = request(
        "INVITE",
        "Proxy-Authorization: Digest username=\"a\"\r\nAuthorization: Digest username=\"b\"\r\n",
    );
    let ack = Dialog::caller(&invite, &response(&invite, 200, "x", "")).unwrap().acknowledgement(&invite);
    for name in [Name::Authorization, Name::ProxyAuthorization] {
        assert_eq!(ack.headers.get(&name), invite.headers.get(&name));
    }
}

/// RFC 3262 sections 3 and 4.
#[test]
fn a_reliable_response_waits_for_its_prack() {
    let invite = request("INVITE", "Supported: timer, 100rel\r\n");
    assert!(ProvisionalSender::new(&request("INVITE", ""), Timing::default(), &mut random()).is_none());
    let mut sender = ProvisionalSender::new(&invite, Timing::default(), &mut random()).unwrap();
    let mut receiver = ProvisionalReceiver::default();
    let mut progress = response(&invite, 183, "x", "");
    progress.body = Bytes::from_static(b"v=0");
    sender.send(at(0.0), progress);
    sender.send(at(0.0), response(&invite, 180, "x", ""));
    assert!(sender.holds_2xx_back());
    let first = sender.poll_transmit().unwrap();
    assert_eq!(sender.poll_transmit(), None, "the second waits");
    assert_eq!(sender.poll_timeout(), Some(at(0.5)));
    sender.handle_timeout(at(0.5));
    assert_eq!(sender.poll_transmit().as_ref(), Some(&first));
    let ProvisionalKind::Reliable(rack) = receiver.handle_response(&first) else { panic!("it is reliable") };
    assert_eq!(receiver.handle_response(&first), ProvisionalKind::Repeated);
    let mut dialog = Dialog::caller(&invite, &first).unwrap();
    let prack = |dialog: &mut Dialog, rack: &RAck| {
        ProvisionalReceiver::acknowledgement(dialog.request(Method::Prack).unwrap(), rack)
    };
    let wrong = RAck { response: rack.response + 1, ..rack.clone() };
    let refusal = sender.handle_request(at(0.6), &prack(&mut dialog, &wrong)).unwrap_err();
    assert_eq!(refusal.status, Status::CALL_DOES_NOT_EXIST);
    sender.handle_request(at(0.7), &prack(&mut dialog, &rack)).unwrap();
    assert!(!sender.holds_2xx_back());
    let second = sender.poll_transmit().unwrap();
    assert_eq!(second.headers.number(&Name::RSeq).unwrap(), Some(rack.response + 1));
    let mut later = second.clone();
    later.headers.set(Name::RSeq, rack.response + 2);
    assert_eq!(receiver.handle_response(&later), ProvisionalKind::TooEarly);
    assert!(matches!(receiver.handle_response(&second), ProvisionalKind::Reliable(_)));
    assert_eq!(receiver.handle_response(&response(&invite, 180, "x", "")), ProvisionalKind::Unreliable);
    // The pause doubles without a limit, for 64·T1.
    let mut count = 0;
    while let Some(next) = sender.poll_timeout() {
        sender.handle_timeout(next);
        count += usize::from(sender.poll_transmit().is_some());
    }
    assert_eq!((count, sender.has_given_up()), (6, true));
}
