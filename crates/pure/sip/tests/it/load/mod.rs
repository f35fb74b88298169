//! Both sides of calls over a network in memory: outcomes and retransmissions follow the timers of the RFC.
#![allow(clippy::unwrap_used, reason = "what cannot go on has failed")]

mod answers;
mod credentials;
mod otherwise;
mod pair;
mod refreshing;
mod scenarios;
mod within;

use std::cell::RefCell;
use std::rc::Rc;

use netrig_core::{Duration, Instant, Seeds};
use netrig_sip::load::{
    Arrivals, AttemptStart, Callee, CalleeAction, Caller, Directory, Failure, Gaps, LoadOutput, Moment, Pace,
    Part, Plan, Recipient, Record, Scan, Scenario, Setup, Side, Stamps, What, Work,
};
use netrig_sip::transaction::Timer;
use netrig_sip::{Message, Name, Request, Status};
use pair::{DELAY, Network, Pair, RUN, here, lossy, perfect, setup, there};

const RING: Duration = Duration::from_millis(10);

fn ms(n: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(n)
}

fn list(sent: &[(u64, &str)]) -> Vec<(u64, String)> {
    sent.iter().map(|(at, what)| (*at, (*what).to_owned())).collect()
}

/// All messages of a call, and no state after its end.
fn played(network: impl Network, scenario: Scenario) -> (Vec<(u64, String)>, Record, Record) {
    let mut pair = Pair::new(network, RING);
    pair.start(scenario);
    pair.run(ms(400_000));
    assert!(pair.caller.is_empty() && pair.callee.is_empty(), "nothing is left");
    assert_eq!(pair.caller.next_deadline(), None);
    let (caller, callee) = (pair.record(Side::Caller), pair.record(Side::Callee));
    assert_eq!(caller.token, callee.token, "both sides name the call alike");
    (pair.sent, caller, callee)
}

const CALL: Scenario = Scenario::Call { hold: Duration::from_millis(100) };

#[test]
fn a_call_that_loses_nothing_ends_well() {
    let (sent, caller, callee) = played(perfect(), CALL);
    let expected = [(0, "INVITE"), (1, "180"), (11, "200"), (12, "ACK"), (112, "BYE"), (113, "200")];
    assert_eq!(sent, list(&expected));
    assert_eq!((caller.failure, caller.status, callee.failure), (None, 200, None));
    let stamps = caller.stamps;
    assert_eq!([stamps.intended, stamps.request, stamps.ringing], [ms(0), ms(0), ms(2)]);
    assert_eq!([stamps.answered, stamps.acknowledged], [ms(12), ms(12)]);
    assert_eq!([stamps.ending, stamps.ended, stamps.trying], [ms(112), ms(114), Instant::NEVER]);
    // Answer-signal delay: from the sent 200 to its ACK.
    assert_eq!([callee.stamps.answered, callee.stamps.acknowledged], [ms(11), ms(13)]);
    assert_eq!(caller.counts, callee.counts);
}

#[test]
fn the_other_scenarios_without_loss() {
    let after = Duration::from_millis(50);
    for (scenario, expected) in [
        (
            Scenario::Cancel { after },
            vec![(0, "INVITE"), (1, "180"), (52, "CANCEL"), (53, "200"), (53, "487"), (54, "ACK")],
        ),
        (
            Scenario::NoAnswer { patience: after },
            vec![(0, "INVITE"), (1, "180"), (52, "CANCEL"), (53, "200"), (53, "487"), (54, "ACK")],
        ),
        (Scenario::Busy, vec![(0, "INVITE"), (1, "486"), (2, "ACK")]),
    ] {
        let (sent, caller, callee) = played(perfect(), scenario);
        assert_eq!(sent, list(&expected));
        assert_eq!((caller.failure, callee.failure), (None, None), "{scenario:?}");
    }
    for (scenario, method) in [(Scenario::Options, "OPTIONS"), (Scenario::Message, "MESSAGE")] {
        let mut pair = Pair::new(perfect(), RING);
        pair.start(scenario);
        pair.run(ms(60_000));
        assert_eq!(pair.sent, list(&[(0, method), (1, "200")]));
        let record = pair.record(Side::Caller);
        assert_eq!((record.failure, record.status, record.stamps.ended), (None, 200, ms(2)));
    }
}

/// Loses the messages with these numbers, counted as they are sent.
fn losing(lost: &'static [usize]) -> impl Network {
    move |now: Instant, number: usize, _: &Message| (!lost.contains(&number)).then(|| now + DELAY)
}

/// Lost messages are retransmitted by timer A, the timer of the 2xx, and timer E.
#[test]
fn what_is_lost_is_sent_again() {
    let (sent, caller, _) = played(losing(&[0, 1]), CALL);
    assert_eq!(sent[..4], list(&[(0, "INVITE"), (500, "INVITE"), (1500, "INVITE"), (1501, "180")]));
    assert_eq!((caller.failure, caller.counts.requests_again), (None, 2));

    // The 486 is lost: the INVITE is retransmitted, and the callee recognises it.
    let (sent, _, callee) = played(losing(&[1, 2, 3]), Scenario::Busy);
    assert_eq!(sent[..4], list(&[(0, "INVITE"), (1, "486"), (500, "INVITE"), (501, "486")]));
    assert!(callee.counts.repeated >= 1);

    let (sent, caller, callee) = played(losing(&[2, 3]), CALL);
    assert_eq!(sent[2..5], list(&[(11, "200"), (511, "200"), (1511, "200")]));
    assert_eq!((caller.failure, callee.failure, callee.counts.responses_again), (None, None, 2));

    // The ACK is lost: the 2xx is retransmitted and acknowledged again.
    let long = Scenario::Call { hold: Duration::from_secs(10) };
    let (sent, caller, callee) = played(losing(&[3]), long);
    assert_eq!(sent[3..6], list(&[(12, "ACK"), (511, "200"), (512, "ACK")]));
    assert_eq!((caller.counts.acknowledgements_again, callee.stamps.acknowledged), (1, ms(513)));

    // The BYE, then its 200 are lost.
    let (sent, caller, _) = played(losing(&[4, 6]), CALL);
    assert_eq!(sent[4..], list(&[(112, "BYE"), (612, "BYE"), (613, "200"), (1612, "BYE"), (1613, "200")]));
    assert_eq!((caller.failure, caller.counts.requests_again), (None, 2));
}

fn deaf(method: &'static str) -> impl Network {
    move |now: Instant, _: usize, message: &Message| {
        let lost = message.headers().cseq().unwrap().unwrap().method.as_str() == method;
        (!lost).then(|| now + DELAY)
    }
}

/// Timers B and F.
#[test]
fn what_is_never_answered_is_given_up() {
    let mut pair = Pair::new(deaf("INVITE"), RING);
    pair.start(CALL);
    pair.run(ms(60_000));
    let times = [0, 500, 1500, 3500, 7500, 15500, 31500];
    assert_eq!(pair.sent, times.map(|at| (at, "INVITE".to_owned())));
    let record = pair.record(Side::Caller);
    assert_eq!((record.failure, record.status), (Some(Failure::TimedOut(Timer::B)), 0));

    let (sent, caller, callee) = played(deaf("BYE"), CALL_AND_LEAVE);
    let byes: Vec<u64> = sent.iter().filter(|(_, what)| what == "BYE").map(|(at, _)| at - 12).collect();
    assert_eq!(byes, [0, 500, 1500, 3500, 7500, 11500, 15500, 19500, 23500, 27500, 31500]);
    assert_eq!(caller.failure, Some(Failure::TimedOut(Timer::F)));
    let Stamps { ending, ended, unended, .. } = caller.stamps;
    assert_eq!([ending, ended, unended], [ms(12), Instant::NEVER, ms(12 + 32_000)]);
    assert_eq!(callee.failure, Some(Failure::LeftAlone));
}

/// After a provisional response, a request is retransmitted at the scheduled time, then every T2.
#[test]
fn a_load_repeats_a_request_that_is_being_worked_on_each_t2() {
    let (mut pair, _, asked) = started(Scenario::Options);
    answer(&mut pair, &asked, 100, &[]);
    pair.run(ms(60_000));
    let times: Vec<u64> = pair.sent.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [0, 500, 4500, 8500, 12500, 16500, 20500, 24500, 28500]);
    let record = pair.record(Side::Caller);
    assert_eq!((record.failure, record.stamps.ended), (Some(Failure::TimedOut(Timer::F)), Instant::NEVER));
}

const CALL_AND_LEAVE: Scenario = Scenario::Call { hold: Duration::ZERO };

/// Timer H: a callee without an ACK retransmits its 2xx at "an interval that starts at T1 seconds and doubles for each
/// retransmission until it reaches T2 seconds" (RFC 3261 section 13.3.1.4).
#[test]
fn what_is_never_acknowledged_is_given_up() {
    let long = Scenario::Call { hold: Duration::from_secs(60) };
    let no_ack = |now: Instant, _: usize, message: &Message| {
        let is_ack = message.as_request().is_some_and(|request| request.method.as_str() == "ACK");
        (!is_ack).then(|| now + DELAY)
    };
    let (sent, caller, callee) = played(no_ack, long);
    let accepted: Vec<u64> = sent.iter().filter(|(_, what)| what == "200").map(|(at, _)| at - 11).collect();
    assert_eq!(accepted[..11], [0, 500, 1500, 3500, 7500, 11500, 15500, 19500, 23500, 27500, 31500]);
    assert_eq!(callee.failure, Some(Failure::TimedOut(Timer::H)));
    assert_eq!((caller.counts.acknowledgements_again, caller.failure), (10, None));
}

/// A 180 after its 200 is not a failure.
#[test]
fn an_overtaken_response_is_tolerated() {
    let late = |now: Instant, _: usize, message: &Message| {
        let is_ringing = message.as_response().is_some_and(|response| response.status == Status::RINGING);
        Some(now + if is_ringing { Duration::from_millis(40) } else { DELAY })
    };
    let (_, caller, _) = played(late, CALL);
    assert_eq!((caller.failure, caller.counts.reordered), (None, 1));
    assert_eq!(caller.stamps.ringing, Instant::NEVER);
}

/// Over a network that loses a fifth of all messages every call ends, by success or by the timer of a lost message.
#[test]
fn many_calls_with_losses() {
    let luck = Seeds::new(1).stream("network/loss");
    let mut pair = Pair::new(lossy(luck, 0.2), RING);
    let wait = Duration::from_millis(30);
    let scenarios = [
        CALL,
        Scenario::Busy,
        Scenario::Cancel { after: wait },
        Scenario::NoAnswer { patience: wait },
        Scenario::Options,
        CALL_AND_LEAVE,
        Scenario::Message,
    ];
    for round in 0..700 {
        pair.start(scenarios[round % scenarios.len()]);
        pair.run(ms(10 * round as u64));
    }
    pair.run(ms(1_000_000));
    assert!(pair.caller.is_empty() && pair.callee.is_empty(), "nothing is left");
    let of = |side| pair.records.iter().filter(move |record: &&Record| record.side == side);
    assert_eq!(of(Side::Caller).count(), 700);
    let failed: Vec<_> = of(Side::Caller).filter_map(|record| record.failure).collect();
    // A message times out if it or its response is lost seven times in a row (0.36^7 of the calls). A BYE times out
    // after eleven losses.
    assert!(failed.len() <= 7, "{failed:?}");
    assert!(failed.iter().all(|failure| matches!(failure, Failure::TimedOut(_))), "{failed:?}");
    let again: u32 = of(Side::Caller).map(|record| u32::from(record.counts.requests_again)).sum();
    assert!(again > 200);
}

/// Received messages are stamped with their arrival, sent messages with their departure.
#[test]
fn the_time_that_a_message_waits_is_in_no_delay() {
    let (mut out, mut back) = (LoadOutput::default(), LoadOutput::default());
    let names = Directory::pattern("user", 4);
    let mut caller = Caller::new(setup(), names.clone(), names).unwrap();
    let far = Setup { local: there(), server: here(), ..setup() };
    let mut callee = Callee::new(far, CalleeAction::Answer, Duration::ZERO, [7; 16]).unwrap();
    caller.start(ms(0), ms(0), CALL_AND_LEAVE, (1, 2), None, &mut out).unwrap();
    let mut asked = |times: [u64; 2], out: &mut LoadOutput, back: &mut LoadOutput| {
        let [arrived, now] = times.map(ms);
        for (_, bytes) in out.messages.iter() {
            callee.handle_request(Moment { arrived, now }, here(), &Scan::of(bytes), back);
        }
        out.messages.clear();
    };
    let mut answered = |times: [u64; 2], back: &mut LoadOutput, out: &mut LoadOutput| {
        let [arrived, now] = times.map(ms);
        for (_, bytes) in back.messages.iter() {
            let scan = Scan::of(bytes);
            let Some(Recipient::Response(token, transaction)) = Recipient::of(&scan, RUN, 0) else {
                panic!()
            };
            caller.handle_response(Moment { arrived, now }, &scan, (token, transaction), out);
        }
        back.messages.clear();
    };
    asked([1, 3], &mut out, &mut back);
    // The 200: ACK and BYE leave at 7.
    answered([5, 7], &mut back, &mut out);
    asked([8, 9], &mut out, &mut back);
    answered([11, 20], &mut back, &mut out);
    let Stamps { request, answered, acknowledged, ending, ended, .. } = back.records[0].stamps;
    assert_eq!([request, answered, acknowledged, ending, ended], [1, 3, 8, 8, 9].map(ms));
    let Stamps { request, answered, acknowledged, ending, ended, .. } = out.records[0].stamps;
    assert_eq!([request, answered, acknowledged, ending, ended], [0, 5, 7, 7, 11].map(ms));
}

/// A 3xx is a success of the redirect scenario, and a failure of any other call.
#[test]
fn a_redirection_is_acknowledged_and_not_followed() {
    for (scenario, failure) in [(Scenario::Redirect, None), (CALL, Some(Failure::Status(302)))] {
        let (mut pair, _, invite) = started(scenario);
        answer(&mut pair, &invite, 302, &[(Name::Contact, "<sip:bob@192.0.2.9>")]);
        pair.run(ms(100));
        let record = pair.record(Side::Caller);
        assert_eq!((record.failure, record.status, record.what), (failure, 302, scenario.what()));
        assert_eq!(pair.sent.iter().map(|(_, what)| what.as_str()).collect::<Vec<_>>(), ["INVITE", "ACK"]);
    }
}

/// A network that drops all messages.
type Silence = Box<dyn FnMut(Instant, usize, &Message) -> Option<Instant>>;

/// Drops all messages, and keeps the requests.
fn recorded() -> (Rc<RefCell<Vec<Request>>>, Silence) {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let own = Rc::clone(&seen);
    let network = move |_: Instant, _: usize, message: &Message| {
        own.borrow_mut().extend(message.as_request().cloned());
        None
    };
    (seen, Box::new(network))
}

/// A pair whose messages are all dropped, the requests that it has sent, and the first of them.
type Unanswered = (Pair<Silence>, Rc<RefCell<Vec<Request>>>, Request);

fn unanswered(begin: impl FnOnce(&mut Pair<Silence>)) -> Unanswered {
    let (seen, network) = recorded();
    let mut pair = Pair::new(network, RING);
    begin(&mut pair);
    let first = seen.borrow()[0].clone();
    (pair, seen, first)
}

fn started(scenario: Scenario) -> Unanswered {
    unanswered(|pair| pair.start(scenario))
}

fn registering(expires: u32) -> Unanswered {
    unanswered(|pair| pair.register(expires))
}

fn answer(pair: &mut Pair<impl Network>, request: &Request, status: u16, more: &[(Name, &str)]) {
    let mut response = request.response(Status::new(status).unwrap());
    let to = response.headers.get(&Name::To).unwrap().to_owned();
    if !to.contains(";tag=") {
        response.headers.set(Name::To, format!("{to};tag=server"));
    }
    for (name, value) in more {
        response.headers.push(name.clone(), value);
    }
    pair.inject(&response.into());
}

/// A strict router expects its URI in the Request-URI (RFC 3261 section 12.2.1.1).
#[test]
fn a_load_sends_a_strict_router_the_request_and_the_target_last() {
    let contact = "<sip:bob@192.0.2.7:5070>";
    for (record, uri, routes) in [
        (
            "<sip:p2;lr>, <sip:p1;transport=udp;LR>",
            "sip:bob@192.0.2.7:5070",
            vec!["<sip:p1;transport=udp;LR>", "<sip:p2;lr>"],
        ),
        ("<sip:p2;lr>, <sip:lr;x@p1>", "sip:lr;x@p1", vec!["<sip:p2;lr>", contact]),
    ] {
        let (mut pair, seen, invite) = started(CALL_AND_LEAVE);
        answer(&mut pair, &invite, 200, &[(Name::Contact, contact), (Name::RecordRoute, record)]);
        pair.run(ms(100));
        let sent = seen.borrow();
        assert_eq!(sent.len(), 3);
        for request in &sent[1..] {
            let own: Vec<&str> = request.headers.all(&Name::Route).collect();
            assert_eq!((request.uri.to_string().as_str(), &own), (uri, &routes), "{}", request.method);
        }
    }
}

/// A caller that ends a ringing call by BYE gets a response to both requests (RFC 3261 section 15.1.2).
#[test]
fn a_bye_ends_what_rings() {
    let mut pair = Pair::new(perfect(), Duration::from_secs(10));
    pair.start(CALL);
    pair.run(ms(1));
    assert_eq!(pair.sent[1].1, "180");
    let ringing = pair.last.to_string();
    let mut out = LoadOutput::default();
    let mut ask = |method: &str| {
        let start = format!("{method} sip:192.0.2.2 SIP/2.0");
        let text = ringing.replacen("SIP/2.0 180 Ringing", &start, 1).replacen(
            "1 INVITE",
            &format!("1 {method}"),
            1,
        );
        pair.callee.handle_request(ms(2), here(), &Scan::of(text.as_bytes()), &mut out);
    };
    ["BYE", "BYE", "ACK"].into_iter().for_each(&mut ask);
    let statuses: Vec<_> = out.messages.iter().filter_map(|(_, bytes)| Scan::of(bytes).status()).collect();
    assert_eq!(statuses, [200, 487, 200]);
    assert_eq!((out.records.len(), out.records[0].status), (1, 487));
}

/// Challenges of servers: a folded one, and several of which the first has an unknown scheme.
#[test]
fn a_challenge_in_several_lines_is_answered() {
    let (mut pair, seen, first) = registering(600);
    let unknown = "Digest realm=\"example.com\", nonce=\"x\", algorithm=SHA-999";
    let folded = "Digest realm=\"example.com\",\r\n\tnonce=\"abc\",\r\n algorithm=SHA-256, qop=\"auth\"";
    answer(&mut pair, &first, 401, &[(Name::WwwAuthenticate, unknown), (Name::WwwAuthenticate, folded)]);
    pair.run(ms(10));
    let answers = seen.borrow()[1].headers.credentials(&Name::Authorization).unwrap();
    let proof = netrig_sip::digest::DigestCredentials::read(&answers[0]).unwrap();
    assert_eq!((proof.nonce.as_str(), proof.algorithm), ("abc", netrig_sip::digest::Algorithm::SHA_256));
}

/// A registrar in a test: a challenge, its response, a granted interval and the renewal before its end.
#[test]
fn a_registration_is_challenged_granted_and_renewed() {
    let (seen, network) = recorded();
    let mut pair = Pair::new(network, RING);
    let last = |place: usize| seen.borrow()[place].clone();
    pair.register(600);
    let challenge = "Digest realm=\"example.com\", nonce=\"abc\", qop=\"auth\", algorithm=MD5";
    answer(&mut pair, &last(0), 401, &[(Name::WwwAuthenticate, challenge)]);
    pair.run(ms(10));
    let again = last(1);
    assert_eq!(again.headers.cseq().unwrap().unwrap().number, 2);
    let answers = again.headers.credentials(&Name::Authorization).unwrap();
    let proof = netrig_sip::digest::DigestCredentials::read(&answers[0]).unwrap();
    let secret =
        netrig_sip::digest::Secret::new(netrig_sip::digest::Hash::Md5, "user0003", "example.com", "secret");
    assert!(proof.proves(&again.method, b"", &secret));
    let contact = again.headers.get(&Name::Contact).unwrap().to_owned() + ";expires=100";
    let others = "<sip:other@192.0.2.9>;expires=5";
    answer(&mut pair, &again, 200, &[(Name::Contact, others), (Name::Contact, &contact)]);
    pair.run(ms(20));
    let record = pair.record(Side::Registrant);
    assert_eq!((record.failure, record.status, record.counts.challenges), (None, 200, 1));
    assert_eq!((pair.registrant.registered(), seen.borrow().len()), (1, 2));
    pair.run(ms(90_011));
    assert_eq!((last(2).headers.cseq().unwrap().unwrap().number, seen.borrow().len()), (3, 3));
    // Refused again for the same reason: no endless loop.
    answer(&mut pair, &last(2), 401, &[(Name::WwwAuthenticate, challenge)]);
    pair.run(ms(90_020));
    answer(&mut pair, &last(3), 401, &[(Name::WwwAuthenticate, challenge)]);
    pair.run(ms(200_000));
    let whats: Vec<_> = pair.records.iter().map(|record| record.what).collect();
    assert_eq!(whats, [What::Register, What::Renew]);
    let failure = pair.records.last().unwrap().failure;
    assert_eq!((failure, pair.registrant.registered()), (Some(Failure::Authentication), 0));
    assert_eq!(seen.borrow().len(), 4);
}

/// A registrar lists all bindings of a user, including other contacts, in any order and with other escapes (RFC 3261 sections
/// 10.2.4 and 19.1.4).
#[test]
fn a_registration_is_renewed_by_the_time_of_its_own_contact() {
    for (own, other) in [
        ("<sip:user0003@192.0.2.1:5060>", "<sip:user0003@192.0.2.7:5060>"),
        ("<sip:user0003@192.0.2.1:5060>", "<sip:superuser0003@192.0.2.1:5060>"),
        ("<sip:%75ser0003@192.0.2.1:5060;ob>", "<sips:user0003@192.0.2.1:5060>"),
    ] {
        let (mut pair, seen, first) = registering(3600);
        let [own, other] = [format!("{own};expires=10"), format!("{other};expires=3600")];
        answer(&mut pair, &first, 200, &[(Name::Contact, &other), (Name::Contact, &own)]);
        pair.run(ms(8_900));
        assert_eq!(seen.borrow().len(), 1, "{own}");
        pair.run(ms(9_100));
        assert_eq!(seen.borrow().len(), 2, "{own}");
    }
}

/// If a registrar requires ever longer intervals, each registration asks once for the required one.
#[test]
fn a_registrar_that_always_wants_more_is_not_asked_for_ever() {
    let (seen, network) = recorded();
    let mut pair = Pair::new(network, RING);
    pair.register(60);
    let refuse = |pair: &mut Pair<_>, least: &str| {
        let last = seen.borrow().last().cloned().unwrap();
        answer(pair, &last, 423, &[(Name::MinExpires, least)]);
        let until = pair.now + Duration::from_millis(5);
        pair.run(until);
    };
    refuse(&mut pair, "90");
    refuse(&mut pair, "91");
    assert_eq!(pair.record(Side::Registrant).failure, Some(Failure::Status(423)));
    pair.register(60);
    refuse(&mut pair, "90");
    let asked: Vec<_> =
        seen.borrow().iter().map(|request| request.headers.number(&Name::Expires).unwrap()).collect();
    assert_eq!(asked, [60, 90, 60, 90].map(Some));
}

/// A late response to an attempt that timed out is counted as a stray message.
#[test]
fn what_comes_for_nobody_is_counted() {
    let pace = Pace::Open(Arrivals::at(1.0, Gaps::Constant));
    for (work, method) in [(Work::Call(CALL), "INVITE"), (Work::Register, "REGISTER")] {
        let plan = Plan::new(work, pace.clone(), Duration::from_secs(1));
        let mut part = Part::new(plan.into(), setup(), 1, [7; 16]).unwrap();
        part.start(ms(0));
        assert!(part.begin(ms(1000)).is_some());
        let (_, bytes) = part.out.messages.iter().next().unwrap();
        let asked = Message::parse(&bytes.to_vec().into()).unwrap().as_request().cloned().unwrap();
        assert_eq!(asked.method.as_str(), method);
        (1000..=33_100).step_by(100).for_each(|at| part.handle_timeout(ms(at)));
        let mut failures = Vec::new();
        part.settle(ms(33_100), |record| failures.push(record.failure));
        assert!(matches!(failures[..], [Some(Failure::TimedOut(_))]), "{failures:?}");
        assert_eq!(part.strays(), 0);
        let mut tell = |message: Message| {
            let bytes = message.to_bytes();
            assert!(part.handle(ms(33_200).into(), there(), &Scan::of(&bytes)), "it is of this run");
            part.strays()
        };
        let mut late = asked.response(Status::OK);
        late.headers.set(Name::To, "<sip:bob@192.0.2.2>;tag=server");
        assert_eq!([tell(late.clone().into()), tell(late.into())], [1, 2]);
    }
}

/// Users that wait for a server are skipped. That is not a limit of the tester as long as there are other users.
#[test]
fn who_waits_for_the_server_keeps_nobody_else_from_registering() {
    // Each of the ten users has its turn after 50 ms. A lost request is retransmitted after T1, 500 ms.
    let pace = Pace::Open(Arrivals::at(200.0, Gaps::Constant));
    let plan = Plan::new(Work::ReRegister, pace, Duration::from_secs(60));
    let plan = Plan { count: Some(400), users: 10, ..plan };
    let mut part = Part::new(plan.into(), setup(), 1, [7; 16]).unwrap();
    let (mut heard, mut unheard, mut registered) = (0, 0, 0);
    let (mut now, mut is_started) = (ms(0), false);
    part.prepare(now);
    loop {
        let asked: Vec<Message> = part
            .out
            .messages
            .iter()
            .map(|(_, bytes)| Message::parse(&bytes.to_vec().into()).unwrap())
            .collect();
        part.settle(now, |record| registered += u32::from(record.failure.is_none()));
        for message in asked {
            heard += 1;
            let request = message.as_request().unwrap();
            // Of every twenty requests, two consecutive ones are lost.
            if heard % 20 > 1 {
                let mut answer = request.response(Status::OK);
                answer.headers.set(Name::Contact, request.headers.get(&Name::Contact).unwrap());
                let bytes = Message::from(answer).to_bytes();
                assert!(part.handle(now.into(), there(), &Scan::of(&bytes)));
            } else {
                unheard += 1;
            }
        }
        part.settle(now, |record| registered += u32::from(record.failure.is_none()));
        if part.is_prepared() && !is_started {
            part.start(now);
            is_started = true;
        }
        if is_started && part.is_done() {
            break;
        }
        now += Duration::from_millis(1);
        part.handle_timeout(now);
        while let Some(begun) = part.begin(now) {
            assert!(matches!(begun, AttemptStart::At(_)), "{now:?}: {begun:?}");
        }
    }
    // Ten of these registrations precede the start of the load.
    assert_eq!(registered, 410);
    assert!(unheard >= 40, "{unheard}");
}
