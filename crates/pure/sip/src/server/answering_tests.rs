//! Messages of an answering machine, with their times.

use netrig_core::Seeds;

use super::tests::{ALICE, at, domain, message, request, source, transmitted};
use super::*;
use crate::dialog::{ProvisionalKind, ProvisionalReceiver};
use crate::header::Transport;
use crate::sdp::SessionDescription;
use crate::transaction::Timing;
use crate::{Message, Method, Name, Request, Status};
use netrig_core::Duration;

fn manners() -> AnsweringPolicy {
    AnsweringPolicy::new("192.0.2.9:4000".parse().unwrap())
}

fn machine(manners: AnsweringPolicy) -> AnsweringMachine {
    AnsweringMachine::new(domain(), manners, 10, Timing::default(), Seeds::new(1).stream("machine"))
}

fn invite(number: u32, more: &str) -> Message {
    request("INVITE", "sip:bob@biloxi.com", ALICE, number, more)
}

/// Runs a machine up to its last deadline before `end` seconds: its messages with their times, ms.
fn run(machine: &mut AnsweringMachine, end: f64) -> Vec<(u64, Message)> {
    let mut all: Vec<(u64, Message)> =
        transmitted(machine).into_iter().map(|(_, message)| (0, message)).collect();
    while let Some(next) = machine.poll_timeout().filter(|next| *next < at(end)) {
        machine.handle_timeout(next);
        let now = next.as_nanos() / 1_000_000;
        all.extend(transmitted(machine).into_iter().map(|(_, message)| (now, message)));
    }
    all
}

fn words(all: &[(u64, Message)]) -> Vec<(u64, String)> {
    let word = |message: &Message| match message {
        Message::Request(request) => request.method.to_string(),
        Message::Response(response) => response.status.to_string(),
    };
    all.iter().map(|(now, message)| (*now, word(message))).collect()
}

/// A request of the caller within the dialog of `response`.
fn within(invite: &Message, response: &Message, method: Method, number: u32) -> Request {
    let (invite, response) = (invite.as_request().unwrap(), response.as_response().unwrap());
    let mut dialog = crate::dialog::Dialog::caller(invite, response).unwrap();
    let mut request = if method == Method::Ack {
        dialog.acknowledgement(invite)
    } else {
        dialog.request(method.clone()).unwrap()
    };
    if method != Method::Ack {
        request.headers.set(Name::CSeq, format!("{number} {method}"));
    }
    request.headers.push_front(Name::Via, format!("SIP/2.0/UDP {ALICE};branch=z9hG4bKw{number}{method}"));
    request
}

#[test]
fn it_rings_answers_holds_and_hangs_up() {
    let second = Duration::from_secs(1);
    let progress = |after, status, media| ProgressResponse { after, status, media };
    let mut machine = machine(AnsweringPolicy {
        progress: vec![
            progress(second, Status::RINGING, false),
            progress(second + second, Status::SESSION_PROGRESS, true),
        ],
        answer: Answer::Accept(Duration::from_secs(3)),
        hold: Some(Duration::from_secs(10)),
        ..manners()
    });
    let call = invite(1, "Record-Route: <sip:192.0.2.77;lr>\r\n");
    machine.handle(at(0.0), call.clone(), source(ALICE));
    let all = run(&mut machine, 3.1);
    let expected = [(200, "100"), (1000, "180"), (2000, "183"), (3000, "200")];
    assert_eq!(words(&all), expected.map(|(now, word)| (now, word.to_owned())).to_vec());
    let (early, accepted) = (&all[2].1, &all[3].1);
    for message in [early, accepted] {
        assert_eq!(message.violations(), []);
        assert_eq!(message.headers().get(&Name::RecordRoute), Some("<sip:192.0.2.77;lr>"));
        assert!(SessionDescription::parse(std::str::from_utf8(message.body()).unwrap()).is_ok());
    }
    machine.handle(at(3.1), within(&call, accepted, Method::Ack, 1).into(), source(ALICE));
    let all = run(&mut machine, 200.0);
    assert_eq!(words(&all)[0], (13100, "BYE".into()));
    assert_eq!(all[0].1.headers().get(&Name::Route), Some("<sip:192.0.2.77;lr>"));
    assert_eq!(all[0].1.violations(), []);
    assert_eq!((machine.calls(), machine.poll_timeout()), (0, None));
}

#[test]
fn a_2xx_that_nobody_acknowledges_is_repeated_and_ended() {
    let mut machine = machine(manners());
    machine.handle(at(0.0), invite(1, ""), source(ALICE));
    let all = words(&run(&mut machine, 33.0));
    let times: Vec<u64> = all.iter().filter(|(_, word)| word == "200").map(|(now, _)| *now).collect();
    assert_eq!(times, [0, 500, 1500, 3500, 7500, 11500, 15500, 19500, 23500, 27500, 31500]);
    assert!(all.contains(&(32000, "BYE".into())));
}

/// The caller disappears without a message: the call ends nevertheless.
#[test]
fn no_call_lasts_longer_than_it_may() {
    let longest = Duration::from_secs(60);
    let mut talking = machine(AnsweringPolicy { longest, ..manners() });
    let call = invite(1, "");
    talking.handle(at(0.0), call.clone(), source(ALICE));
    let accepted = run(&mut talking, 0.1).remove(1).1;
    talking.handle(at(0.1), within(&call, &accepted, Method::Ack, 1).into(), source(ALICE));
    let all = words(&run(&mut talking, 200.0));
    assert_eq!((all[0].clone(), talking.calls()), ((60_000, "BYE".into()), 0));
    let mut ringing = machine(AnsweringPolicy { answer: Answer::Never, longest, ..manners() });
    ringing.handle(at(0.0), invite(1, ""), source(ALICE));
    assert_eq!(words(&run(&mut ringing, 60.1)), [(0, "180".into()), (60_000, "480".into())]);
    assert_eq!(ringing.calls(), 0);
    // "MUST NOT send a BYE on a confirmed dialog until it has received an ACK": a call without an ACK ends by itself.
    let mut unheard = machine(AnsweringPolicy { longest: Duration::from_secs(10), ..manners() });
    unheard.handle(at(0.0), invite(1, ""), source(ALICE));
    let all = words(&run(&mut unheard, 33.0));
    let byes: Vec<u64> = all.iter().filter(|(_, word)| word == "BYE").map(|(now, _)| *now).collect();
    assert_eq!(byes[0], 32_000);
}

#[test]
fn it_refuses_or_never_answers() {
    let after = Duration::from_secs(2);
    let mut busy = machine(AnsweringPolicy {
        progress: vec![],
        answer: Answer::Refuse(after, Status::BUSY_HERE),
        ..manners()
    });
    busy.handle(at(0.0), invite(1, ""), source(ALICE));
    assert_eq!(words(&run(&mut busy, 2.1)), [(200, "100".into()), (2000, "486".into())]);
    assert_eq!(busy.calls(), 0);
    let mut never = machine(AnsweringPolicy { answer: Answer::Never, ..manners() });
    never.handle(at(0.0), invite(1, ""), source(ALICE));
    // RFC 3261 section 13.3.1.1: once a minute, so that no proxy cancels it.
    let minutes: Vec<(u64, String)> = (0..9).map(|minute| (minute * 60_000, "180".into())).collect();
    assert_eq!(words(&run(&mut never, 500.0)), minutes);
    never.handle(at(500.0), request("CANCEL", "sip:bob@biloxi.com", ALICE, 1, ""), source(ALICE));
    let all = run(&mut never, 500.1);
    assert_eq!(words(&all), [(0, "487".into()), (0, "200".into())]);
    assert_eq!(all[0].1.headers().to(), all[1].1.headers().to());
    assert_eq!(never.calls(), 0);
    never.handle(at(500.1), invite(2, "Expires: 20\r\n"), source(ALICE));
    assert!(words(&run(&mut never, 521.0)).contains(&(520_100, "487".into())));
    never.handle(at(521.0), request("CANCEL", "sip:bob@biloxi.com", ALICE, 9, ""), source(ALICE));
    assert_eq!(words(&run(&mut never, 521.0))[..1], [(0, "481".into())]);
}

#[test]
fn a_call_is_ended_and_changed_by_its_caller() {
    let mut machine = machine(manners());
    let call = invite(1, "");
    machine.handle(at(0.0), call.clone(), source(ALICE));
    let accepted = run(&mut machine, 0.1).remove(1).1;
    machine.handle(at(0.1), within(&call, &accepted, Method::Ack, 1).into(), source(ALICE));
    let mut ask = |now: f64, request: Request| {
        machine.handle(at(now), request.into(), source(ALICE));
        let all: Vec<String> = words(&run(&mut machine, now)).into_iter().map(|(_, word)| word).collect();
        all.join(" ")
    };
    assert_eq!(ask(0.2, within(&call, &accepted, Method::Invite, 3)), "200");
    assert_eq!(ask(0.3, within(&call, &accepted, Method::Info, 4)), "405");
    assert_eq!(ask(0.3, within(&call, &accepted, Method::Update, 2)), "500", "out of order");
    assert_eq!(ask(0.4, within(&call, &accepted, Method::Prack, 5)), "481");
    assert_eq!(ask(0.5, within(&call, &accepted, Method::Bye, 6)), "200");
    assert_eq!(ask(0.6, within(&call, &accepted, Method::Bye, 7)), "481");
    assert_eq!(machine.calls(), 0);
}

/// RFC 3311 section 5.2 and RFC 3264 section 8.
#[test]
fn an_update_with_an_offer_is_answered() {
    let offer = SessionDescription::audio([192, 0, 2, 1].into(), 6000, 1).to_string();
    let mut machine =
        machine(AnsweringPolicy { answer: Answer::Accept(Duration::from_secs(5)), ..manners() });
    let described = |request: Request, offer: &str| {
        let mut request = request;
        request.headers.push(Name::ContentType, "application/sdp");
        request.body = offer.to_owned().into();
        Message::from(request)
    };
    let call = described(invite(1, "").as_request().unwrap().clone(), &offer);
    machine.handle(at(0.0), call.clone(), source(ALICE));
    let ringing = run(&mut machine, 0.1).remove(0).1;
    let update = |response: &Message, number| within(&call, response, Method::Update, number);
    machine.handle(at(0.2), described(update(&ringing, 2), &offer), source(ALICE));
    let refused = run(&mut machine, 0.3).remove(0).1;
    assert_eq!(refused.as_response().unwrap().status, Status::SERVER_INTERNAL_ERROR, "the INVITE's is open");
    assert!(refused.headers().get(&Name::RetryAfter).is_some());
    let accepted = run(&mut machine, 5.1).remove(0).1;
    machine.handle(at(5.1), within(&call, &accepted, Method::Ack, 1).into(), source(ALICE));
    let mut ask = |number: u32, offer: &str| {
        machine.handle(at(6.0), described(update(&accepted, number), offer), source(ALICE));
        run(&mut machine, 6.0).remove(0).1
    };
    let read =
        |message: &Message| SessionDescription::parse(std::str::from_utf8(message.body()).unwrap()).unwrap();
    let same = ask(3, &offer);
    assert_eq!(read(&same), read(&accepted));
    assert_eq!(same.headers().get(&Name::Contact), accepted.headers().get(&Name::Contact));
    let held = read(&ask(4, &(offer.clone() + "a=sendonly\r\n")));
    assert_eq!(held.media[0].direction(), Some(crate::sdp::MediaDirection::RecvOnly));
    assert_eq!(held.origin.version, read(&accepted).origin.version + 1);
    let refused = ask(5, &offer.replace("0 8 101", "96"));
    assert_eq!(refused.as_response().unwrap().status, Status::NOT_ACCEPTABLE_HERE);
}

/// RFC 3261 section 8.2.3.
#[test]
fn an_encoding_that_is_not_understood_is_said() {
    let mut machine = machine(manners());
    let mut call = invite(1, "Content-Type: application/sdp\r\nContent-Encoding: gzip\r\n");
    let Message::Request(request) = &mut call else { panic!("it is a request") };
    request.body = vec![0x1f, 0x8b].into();
    machine.handle(at(0.0), call, source(ALICE));
    let refused = transmitted(&mut machine).remove(0).1;
    assert_eq!(refused.as_response().unwrap().status, Status::UNSUPPORTED_MEDIA_TYPE);
    assert_eq!(
        refused.headers().get(&Name::Accept),
        Some("application/sdp, multipart/mixed, multipart/alternative")
    );
    assert_eq!(refused.headers().get(&Name::new("Accept-Encoding")), Some("identity"));
}

/// RFC 3261 section 12.1.1.
#[test]
fn a_sips_call_has_a_sips_contact() {
    let call = || request("INVITE", "sips:bob@biloxi.com", ALICE, 1, "");
    let mut plain = machine(manners());
    plain.handle(at(0.0), call(), source(ALICE));
    assert_eq!(words(&run(&mut plain, 0.1)), [(0, "416".into())], "the machine does not listen over TLS");
    let mut domain = domain();
    domain.listens.push((Transport::Tls, "192.0.2.9:5061".parse().unwrap()));
    let random = Seeds::new(1).stream("machine");
    let mut secure = AnsweringMachine::new(domain, manners(), 10, Timing::default(), random);
    secure.handle(at(0.0), call(), source(ALICE));
    let all = run(&mut secure, 0.1);
    assert_eq!(words(&all), [(0, "180".into()), (0, "200".into())]);
    assert!(all.iter().all(|(_, own)| own.headers().get(&Name::Contact) == Some("<sips:192.0.2.9:5061>")));
}

/// RFC 3261 section 8.2.2.2: a forked request on two paths is one request.
#[test]
fn a_request_on_two_ways_is_taken_once() {
    let mut machine = machine(manners());
    let again = |branch: &str, message: Message| {
        let text =
            message.to_string().replace("branch=z9hG4bK1;", branch).replace("branch=z9hG4bK1\r", branch);
        self::message(&text)
    };
    machine.handle(at(0.0), invite(1, ""), source(ALICE));
    assert_eq!(words(&run(&mut machine, 0.1)), [(0, "180".into()), (0, "200".into())]);
    machine.handle(at(0.1), again("branch=z9hG4bKother\r", invite(1, "")), source(ALICE));
    assert_eq!(words(&run(&mut machine, 0.1)), [(0, "482".into())]);
    assert_eq!(machine.calls(), 1);
    // A new request of the same call is not merged. A request after the end of the first transaction is not merged
    // either.
    machine.handle(at(0.1), request("OPTIONS", "sip:bob@biloxi.com", ALICE, 1, ""), source(ALICE));
    assert_eq!(words(&run(&mut machine, 0.1)), [(0, "200".into())]);
    run(&mut machine, 200.0);
    machine.handle(at(200.0), again("branch=z9hG4bKlate\r", invite(1, "")), source(ALICE));
    assert_eq!(words(&run(&mut machine, 200.0)), [(0, "180".into()), (0, "200".into())]);
}

/// RFC 3262: the second response waits for the PRACK of the first, and the 2xx waits for the PRACK of the response with
/// a description.
#[test]
fn provisional_responses_arrive() {
    let mut machine = machine(AnsweringPolicy {
        progress: [Status::SESSION_PROGRESS, Status::RINGING]
            .map(|status| ProgressResponse {
                after: Duration::ZERO,
                status,
                media: status == Status::SESSION_PROGRESS,
            })
            .into(),
        reliable: true,
        ..manners()
    });
    let call = invite(1, "Supported: 100rel\r\n");
    machine.handle(at(0.0), call.clone(), source(ALICE));
    let first = run(&mut machine, 0.6);
    assert_eq!(words(&first), [(0, "183".into()), (500, "183".into())]);
    let mut receiver = ProvisionalReceiver::default();
    let mut prack = |machine: &mut AnsweringMachine, response: &Message, number: u32| {
        let ProvisionalKind::Reliable(rack) = receiver.handle_response(response.as_response().unwrap())
        else {
            panic!("it is reliable")
        };
        let request =
            ProvisionalReceiver::acknowledgement(within(&call, response, Method::Prack, number), &rack);
        machine.handle(at(0.6), request.into(), source(ALICE));
        run(machine, 0.6)
    };
    let all = prack(&mut machine, &first[0].1, 2);
    let found: Vec<String> = words(&all).into_iter().map(|(_, word)| word).collect();
    assert_eq!(found, ["180", "200", "200"], "the next, the INVITE's and the PRACK's");
    assert_eq!(all[1].1.body().len(), 0, "the answer was sent already");
}

/// RFC 3261 section 11.2.
#[test]
fn options_tell_what_it_can() {
    let mut machine = machine(manners());
    machine.handle(at(0.0), request("OPTIONS", "sip:bob@biloxi.com", ALICE, 1, ""), source(ALICE));
    let all = run(&mut machine, 0.1);
    let listed = all[0].1.headers();
    assert!(listed.has_token(&Name::Allow, "UPDATE"));
    assert_eq!(listed.get(&Name::Accept), Some("application/sdp, multipart/mixed, multipart/alternative"));
    assert!(listed.has_token(&Name::Supported, "100rel") && listed.has_token(&Name::Supported, "timer"));
}

#[test]
fn what_it_cannot_do_is_said() {
    let mut machine = machine(manners());
    let mut ask = |message: Message| {
        machine.handle(at(0.0), message, source(ALICE));
        transmitted(&mut machine)
            .into_iter()
            .map(|(_, message)| message.as_response().unwrap().status.code())
            .collect::<Vec<_>>()
    };
    let body = |kind: &str, body: &str| {
        message(&format!("{}Content-Type: {kind}\r\n\r\n{body}", {
            let text = invite(u32::try_from(kind.len() * 100 + body.len()).unwrap(), "").to_string();
            text.trim_end().to_owned() + "\r\n"
        }))
    };
    assert_eq!(ask(body("application/unknown", "x")), [415]);
    assert_eq!(ask(body("application/unknown\r\nContent-Disposition: x;handling=optional", "x")), [180, 200]);
    assert_eq!(ask(body("application/sdp", "x")), [400]);
    let offer = SessionDescription::audio([192, 0, 2, 1].into(), 6000, 1).to_string();
    assert_eq!(ask(body("application/sdp", &offer.replace("0 8 101", "96"))), [488]);
    assert_eq!(ask(body("application/sdp; charset=x", &offer)), [180, 200]);
    let parts = |second: &str| {
        format!(
            "--x\r\nContent-Type: application/sdp\r\n\r\n{offer}\r\n--x\r\n{second}\r\n\r\ny\r\n--x--\r\n"
        )
    };
    let optional = "Content-Type: a/b\r\nContent-Disposition: x;handling=optional";
    assert_eq!(ask(body("multipart/mixed;boundary=x", &parts(optional))), [180, 200]);
    assert_eq!(ask(body("multipart/mixed;boundary=x", &parts("Content-Type: a/b"))), [415]);
    assert_eq!(ask(body("multipart/mixed;boundary=other", &parts(optional))), [400]);
    assert_eq!(ask(request("INFO", "sip:bob@biloxi.com", ALICE, 2, "")), [405]);
    assert_eq!(ask(request("OPTIONS", "sip:bob@biloxi.com", ALICE, 3, "")), [200]);
    assert_eq!(ask(request("BYE", "sip:bob@biloxi.com", ALICE, 4, "")), [481]);
    assert_eq!(ask(request("INVITE", "sip:bob@biloxi.com", ALICE, 5, "Require: x\r\n")), [420]);
    assert_eq!(ask(request("INVITE", "sip:bob@biloxi.com", ALICE, 6, "Contact: <sip:a@b>\r\n")), [400]);
    for number in 10..17 {
        assert_eq!(ask(invite(number, "")), [180, 200]);
    }
    assert_eq!(ask(invite(20, "")), [503]);
}
