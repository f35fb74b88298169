//! Scenarios other than the plain call, message by message, and rules that the other side may break.

use netrig_sip::Method;
use netrig_sip::load::{AttemptCounts, ConnectionScope, Token};
use netrig_sip::settings::UserOptions;

use super::*;

pub const HOLD: Duration = Duration::from_millis(90);

pub fn request_of(pair: &Pair<impl Network>, method: &str) -> Vec<u64> {
    pair.sent.iter().filter(|(_, what)| what == method).map(|(at, _)| *at).collect()
}

/// A call of a scenario over a network without loss: all messages, and both records.
#[test]
fn each_scenario_without_loss() {
    let call = [(12, "ACK"), (102, "BYE"), (103, "200")];
    for (scenario, before) in [
        (Scenario::EarlyMedia { hold: HOLD }, vec![(0, "INVITE"), (1, "183"), (11, "200")]),
        (Scenario::DelayedOffer { hold: HOLD }, vec![(0, "INVITE"), (1, "180"), (11, "200")]),
        (
            Scenario::Prack { hold: HOLD },
            vec![(0, "INVITE"), (1, "183"), (2, "PRACK"), (3, "200"), (11, "200")],
        ),
    ] {
        let (sent, caller, callee) = played(perfect(), scenario);
        assert_eq!(sent, list(&[&before[..], &call].concat()), "{scenario:?}");
        assert_eq!((caller.failure, callee.failure, caller.what), (None, None, scenario.what()));
        assert_eq!((caller.counts, callee.counts), (AttemptCounts::default(), AttemptCounts::default()));
    }
    let (sent, caller, callee) = played(perfect(), Scenario::Reinvite { hold: HOLD });
    let expected = [
        (0, "INVITE"),
        (1, "180"),
        (11, "200"),
        (12, "ACK"),
        (42, "INVITE"),
        (43, "200"),
        (44, "ACK"),
        (74, "INVITE"),
        (75, "200"),
        (76, "ACK"),
        (106, "BYE"),
        (107, "200"),
    ];
    assert_eq!(sent, list(&expected));
    assert_eq!((caller.failure, callee.failure), (None, None));
    assert_eq!([caller.stamps.changing, caller.stamps.changed], [ms(42), ms(44)]);
    assert_eq!(callee.stamps.answered, ms(11), "the first answer is what is measured");
}

/// All answered scenarios end, whatever is lost.
#[test]
fn many_calls_of_all_scenarios_with_losses() {
    let luck = Seeds::new(2).stream("network/loss");
    let mut pair = Pair::new(lossy(luck, 0.15), RING);
    let scenarios = [
        Scenario::EarlyMedia { hold: HOLD },
        Scenario::DelayedOffer { hold: HOLD },
        Scenario::Prack { hold: HOLD },
        Scenario::Reinvite { hold: HOLD },
        Scenario::Subscribe { hold: Duration::from_secs(3), expires: 2 },
    ];
    for round in 0..500 {
        pair.start(scenarios[round % scenarios.len()]);
        pair.run(ms(10 * round as u64));
    }
    pair.run(ms(2_000_000));
    assert!(pair.caller.is_empty() && pair.callee.is_empty(), "nothing is left");
    let of = |side| pair.records.iter().filter(move |record: &&Record| record.side == side);
    assert_eq!(of(Side::Caller).count(), 500);
    let failed: Vec<_> = of(Side::Caller).filter(|record| record.failure.is_some()).collect();
    // An unreliable 183 may be lost, so that the call has no early media. A subscription that is renewed after its end does not
    // exist any more.
    for record in &failed {
        let excused = matches!(
            record.failure,
            Some(Failure::TimedOut(_) | Failure::Without("early media") | Failure::EndedByPeer)
        ) || record.what == What::Subscribe;
        assert!(excused, "{record:?}");
    }
    assert!(failed.len() < 120, "{}", failed.len());
}

/// Session descriptions of a call: an answer in the ACK, a version for each change, the direction of hold.
#[test]
fn sessions_are_described_as_offer_and_answer() {
    let (seen, network) = copied();
    let mut pair = Pair::new(network, RING);
    pair.start(Scenario::Reinvite { hold: HOLD });
    pair.run(ms(60_000));
    let bodies: Vec<_> = seen
        .borrow()
        .iter()
        .filter(|message| !message.body().is_empty())
        .map(|message| String::from_utf8(message.body().to_vec()).unwrap())
        .collect();
    let said = |body: &String| {
        let version =
            body.lines().find(|line| line.starts_with("o=")).unwrap().split(' ').nth(2).unwrap().to_owned();
        let way = body.lines().rfind(|line| line.starts_with("a=")).map(str::to_owned);
        (version, way.unwrap_or_default())
    };
    let said: Vec<_> = bodies.iter().map(said).collect();
    let expected = [
        ("1", ""),
        ("1", ""),
        ("2", "a=sendonly"),
        ("2", "a=recvonly"),
        ("3", "a=sendrecv"),
        ("3", "a=sendrecv"),
    ];
    assert_eq!(said, expected.map(|(version, way)| (version.to_owned(), way.to_owned())));

    let (seen, network) = copied();
    let mut pair = Pair::new(network, RING);
    pair.start(Scenario::DelayedOffer { hold: HOLD });
    pair.run(ms(60_000));
    let with: Vec<_> = seen.borrow().iter().filter(|message| !message.body().is_empty()).map(start).collect();
    assert_eq!(with, ["200", "ACK"]);
}

fn start(message: &Message) -> String {
    match message {
        Message::Request(request) => request.method.to_string(),
        Message::Response(response) => response.status.to_string(),
    }
}

/// Delivers all messages, and keeps copies.
pub fn copied() -> (Rc<RefCell<Vec<Message>>>, impl Network) {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let own = Rc::clone(&seen);
    let network = move |now: Instant, _: usize, message: &Message| {
        own.borrow_mut().push(message.clone());
        Some(now + DELAY)
    };
    (seen, network)
}

/// "Reliable provisional responses are retransmitted by the TU with an exponential backoff." (RFC 3262 section 1) It begins with
/// T1 (section 3), PRACK has its own timer E, and a call without a PRACK is refused with 5xx.
#[test]
fn reliable_responses_come_again_until_they_are_acknowledged() {
    // The 183 is lost twice.
    let (sent, caller, callee) = played(losing(&[1, 2]), Scenario::Prack { hold: HOLD });
    assert_eq!(request_times(&sent, "PRACK").len(), 1, "{sent:?}");
    assert_eq!((caller.failure, callee.failure), (None, None));
    assert!(callee.counts.responses_again + callee.counts.repeated >= 1);

    // The PRACK, then its 200 are lost: the PRACK is retransmitted after T1, the provisional response is not.
    let (sent, caller, callee) = played(losing(&[2]), Scenario::Prack { hold: HOLD });
    assert_eq!(request_times(&sent, "PRACK"), [2, 502]);
    assert_eq!((caller.failure, callee.failure, caller.counts.requests_again), (None, None, 1));
    let (sent, caller, callee) = played(losing(&[3]), Scenario::Prack { hold: HOLD });
    assert_eq!(request_times(&sent, "PRACK").len(), 1 + usize::from(caller.counts.requests_again));
    assert_eq!((caller.failure, callee.failure), (None, None));

    let (sent, caller, callee) = played(deaf("PRACK"), Scenario::Prack { hold: HOLD });
    let rung: Vec<u64> = request_times(&sent, "183").iter().map(|at| at - 1).collect();
    assert_eq!(rung, [0, 500, 1500, 3500, 7500, 15500, 31500]);
    assert_eq!((caller.failure, caller.status), (Some(Failure::Status(504)), 504));
    assert_eq!(callee.failure, Some(Failure::Without("PRACK")));
}

fn request_times(sent: &[(u64, String)], what: &str) -> Vec<u64> {
    sent.iter().filter(|(_, own)| own == what).map(|(at, _)| *at).collect()
}

/// The events that each scenario requires of the other side.
#[test]
fn rules_that_the_other_side_breaks_are_named() {
    let contact = (Name::Contact, "<sip:bob@192.0.2.7>");
    let sdp = "v=0\r\no=- 1 1 IN IP4 192.0.2.7\r\ns=-\r\nt=0 0\r\nm=audio 6000 RTP/AVP 0\r\n";
    let reliable = [(Name::Require, "100rel"), (Name::RSeq, "1")];
    let (reliably, hold) = (Scenario::Prack { hold: HOLD }, HOLD);
    for (scenario, provisional, body, failure) in [
        (Scenario::DelayedOffer { hold }, None, "", Failure::Rule("RFC 3261 section 13.2.1")),
        (Scenario::EarlyMedia { hold }, None, sdp, Failure::Without("early media")),
        (Scenario::Reinvite { hold }, None, "", Failure::Rule("RFC 3261 section 13.2.1")),
        (reliably, None, sdp, Failure::Without("a provisional response to acknowledge")),
        (reliably, Some(&[contact.clone()][..]), sdp, Failure::Rule("RFC 3262 section 3")),
        // An INVITE without an offer has no `Supported: 100rel`.
        (
            Scenario::DelayedOffer { hold },
            Some(&[contact.clone(), reliable[0].clone(), reliable[1].clone()]),
            sdp,
            Failure::Rule("RFC 3262 section 3"),
        ),
    ] {
        let (mut pair, seen, invite) = started(scenario);
        if let Some(more) = provisional {
            answer(&mut pair, &invite, 180, more);
            pair.run(ms(5));
        }
        let mut response = invite.response(Status::OK);
        response.headers.set(Name::To, format!("{};tag=server", invite.headers.get(&Name::To).unwrap()));
        response.headers.push(contact.0.clone(), contact.1);
        response.body = body.as_bytes().to_vec().into();
        pair.inject(&response.into());
        pair.run(ms(200_000));
        assert_eq!(pair.record(Side::Caller).failure, Some(failure), "{scenario:?}");
        let asked: Vec<_> = seen.borrow().iter().map(|request| request.method.to_string()).collect();
        assert!(asked.contains(&"ACK".to_owned()) && asked.contains(&"BYE".to_owned()), "{asked:?}");
    }
}

/// "another reliable provisional response [whose] RSeq value is not one higher [...] MUST NOT be acknowledged with a PRACK".
#[test]
fn only_the_next_reliable_response_is_acknowledged() {
    let (mut pair, seen, invite) = started(Scenario::Prack { hold: HOLD });
    let ring = |pair: &mut Pair<_>, rseq: &str| {
        let more = [(Name::Contact, "<sip:bob@192.0.2.7>"), (Name::Require, "100rel"), (Name::RSeq, rseq)];
        answer(pair, &invite, 180, &more);
        let until = pair.now + Duration::from_millis(5);
        pair.run(until);
    };
    ring(&mut pair, "7");
    let prack = seen.borrow()[1].clone();
    assert_eq!(
        (prack.headers.get(&Name::RAck), prack.uri.to_string().as_str()),
        (Some("7 1 INVITE"), "sip:bob@192.0.2.7")
    );
    ring(&mut pair, "7");
    assert_eq!(seen.borrow().len(), 2, "it is being acknowledged");
    answer(&mut pair, &prack, 200, &[]);
    pair.run(ms(20));
    ring(&mut pair, "9");
    assert_eq!(seen.borrow().len(), 2, "one is missing");
    ring(&mut pair, "8");
    assert_eq!(seen.borrow()[2].headers.get(&Name::RAck), Some("8 1 INVITE"));
}

/// Each 2xx of each dialog is acknowledged, and the surplus dialog is hung up at once (RFC 3261 section 13.2.2.4).
#[test]
fn of_two_answers_one_is_kept() {
    let (mut pair, seen, invite) = started(Scenario::Fork { hold: HOLD });
    let accept = |pair: &mut Pair<_>, tag: &str| {
        let mut response = invite.response(Status::OK);
        response.headers.set(Name::To, format!("{};tag={tag}", invite.headers.get(&Name::To).unwrap()));
        response.headers.push(Name::Contact, format!("<sip:{tag}@192.0.2.7>"));
        pair.inject(&response.into());
        let until = pair.now + Duration::from_millis(5);
        pair.run(until);
    };
    let asked = |from: usize| -> Vec<_> {
        seen.borrow()[from..]
            .iter()
            .map(|request| (request.method.to_string(), request.uri.to_string()))
            .collect()
    };
    let named = |all: &[(&str, &str)]| -> Vec<_> {
        all.iter().map(|(method, tag)| ((*method).to_owned(), format!("sip:{tag}@192.0.2.7"))).collect()
    };
    accept(&mut pair, "a");
    accept(&mut pair, "b");
    assert_eq!(asked(1), named(&[("ACK", "a"), ("ACK", "b"), ("BYE", "b")]));
    accept(&mut pair, "b");
    accept(&mut pair, "a");
    assert_eq!(asked(4), named(&[("ACK", "b"), ("ACK", "a")]), "what comes again is acknowledged again");
    let surplus = seen.borrow()[3].clone();
    // The first dialog continues until its planned end.
    pair.run(ms(120));
    assert_eq!(asked(6), named(&[("BYE", "a")]));
    let own = seen.borrow()[6].clone();
    for bye in [&own, &surplus] {
        let mut response = bye.response(Status::OK);
        response.headers.set(Name::To, bye.headers.get(&Name::To).unwrap());
        assert!(pair.records.is_empty(), "both are waited for");
        pair.inject(&response.into());
        let until = pair.now + Duration::from_millis(5);
        pair.run(until);
    }
    let record = pair.record(Side::Caller);
    assert_eq!((record.failure, record.counts.surplus, record.what), (None, 1, What::Fork));
    // Other 2xx may arrive for 64·T1 after the first.
    accept(&mut pair, "c");
    assert_eq!(asked(7), named(&[("ACK", "c"), ("BYE", "c")]));
    pair.run(ms(200_000));
    assert!(pair.caller.is_empty() && pair.records.len() == 1);
}

/// A fork with one answer is a failure.
#[test]
fn a_fork_needs_a_second_answer() {
    let mut pair = Pair::new(perfect(), RING);
    pair.start(Scenario::Fork { hold: HOLD });
    pair.run(ms(31_000));
    assert!(pair.records.iter().all(|record| record.side == Side::Callee), "it may come yet");
    pair.run(ms(400_000));
    assert_eq!(pair.record(Side::Caller).failure, Some(Failure::Without("a second answer")));
    assert!(pair.caller.is_empty() && pair.callee.is_empty());
}

/// Two contacts of a user answer if the caller requests it, and the others ring until they are cancelled. A request that reaches one
/// contact on two paths is refused once (RFC 3261 section 8.2.2.2).
#[test]
fn each_place_of_a_user_is_called_by_its_name() {
    let (_, _, invite) = started(Scenario::Fork { hold: HOLD });
    let invite = Message::from(invite).to_string();
    let far = Setup {
        local: there(),
        server: here(),
        options: UserOptions { contacts: 3, ..UserOptions::default() },
        ..setup()
    };
    let mut callee = Callee::new(far, CalleeAction::Answer, Duration::ZERO, [7; 16]).unwrap();
    let mut out = LoadOutput::default();
    for (place, branch) in [("", "1"), ("~2", "2"), ("~3", "3"), ("", "4")] {
        let uri = format!("INVITE sip:user0002{place}@192.0.2.2 ");
        let text = invite.replacen("INVITE sip:user0002@192.0.2.2 ", &uri, 1);
        let text =
            text.replacen("\r\n", &format!("\r\nVia: SIP/2.0/UDP 192.0.2.9;branch=z9hG4bK{branch}\r\n"), 1);
        callee.handle_request(ms(1), here(), &Scan::of(text.as_bytes()), &mut out);
    }
    let statuses: Vec<_> = out.messages.iter().filter_map(|(_, bytes)| Scan::of(bytes).status()).collect();
    assert_eq!(statuses, [200, 200, 180, 482]);
    let tags: std::collections::BTreeSet<_> =
        out.messages.iter().map(|(_, bytes)| Scan::of(bytes).to_tag.unwrap().to_vec()).collect();
    assert_eq!(tags.len(), 4);
    // Without `rport`, the response has the source address of the request (RFC 3261 section 18.2.1).
    let (_, first) = out.messages.iter().next().unwrap();
    assert_eq!(Scan::of(first).via, Some(&b"SIP/2.0/UDP 192.0.2.9;branch=z9hG4bK1;received=192.0.2.1"[..]));
}

/// A refused caller may call again with the same Call-ID and a higher CSeq: that is a new request (RFC 3261 section 8.1.3.5), and a
/// CANCEL ends the request with its branch.
#[test]
fn a_later_invite_of_the_same_name_begins_a_call() {
    let (_, _, invite) = started(CALL);
    let invite = Message::from(invite).to_string();
    let far = Setup { local: there(), server: here(), ..setup() };
    let mut callee = Callee::new(far, CalleeAction::Answer, Duration::from_secs(1), [7; 16]).unwrap();
    let mut statuses = |method: &str, branch: &str, number: u32| {
        let text = invite
            .replacen("INVITE sip:", &format!("{method} sip:"), 1)
            .replacen("CSeq: 1 INVITE", &format!("CSeq: {number} {method}"), 1)
            .replacen("\r\n", &format!("\r\nVia: SIP/2.0/UDP 192.0.2.9;branch=z9hG4bK{branch}\r\n"), 1);
        let mut out = LoadOutput::default();
        callee.handle_request(ms(1), here(), &Scan::of(text.as_bytes()), &mut out);
        Vec::from_iter(out.messages.iter().filter_map(|(_, bytes)| Scan::of(bytes).status()))
    };
    assert_eq!(statuses("INVITE", "1", 1), [180]);
    assert_eq!(statuses("CANCEL", "2", 1), [481], "nothing has this branch");
    assert_eq!(statuses("CANCEL", "1", 1), [200, 487]);
    assert_eq!(statuses("INVITE", "3", 2), [180]);
    assert_eq!(statuses("INVITE", "3", 2), [180], "it came twice");
    assert!(statuses("INVITE", "1", 1).is_empty(), "an old one that was long on its way");
    assert_eq!(statuses("CANCEL", "3", 2), [200, 487]);
}

/// Several provisional responses at even intervals, and at least one per minute (RFC 3261 section 13.3.1.1).
#[test]
fn who_rings_says_so_as_often_as_it_is_to() {
    for (ringing, provisionals, expected) in
        [(12, 3, vec![1, 5, 9]), (0, 2, vec![1, 1]), (150_000, 1, vec![1, 60_001, 120_001])]
    {
        let far = Setup {
            local: there(),
            server: here(),
            options: UserOptions { provisionals, ..UserOptions::default() },
            ..setup()
        };
        let mut pair = Pair::new(perfect(), RING);
        pair.callee =
            Callee::new(far, CalleeAction::Answer, Duration::from_millis(ringing), [7; 16]).unwrap();
        pair.start(CALL);
        pair.run(ms(400_000));
        assert_eq!(request_of(&pair, "180"), expected);
        assert_eq!(pair.record(Side::Caller).failure, None);
    }
}

/// A subscription is notified, renewed after nine tenths of its time and ended, with a last notification.
#[test]
fn a_subscription_from_its_beginning_to_its_end() {
    let mut pair = Pair::new(perfect(), RING);
    pair.start(Scenario::Subscribe { hold: Duration::from_secs(15), expires: 10 });
    pair.run(ms(400_000));
    let subscribe = request_of(&pair, "SUBSCRIBE");
    assert_eq!(subscribe, [0, 9002, 15_002]);
    assert_eq!(request_of(&pair, "NOTIFY"), [1, 9003, 15_003]);
    let (caller, callee) = (pair.record(Side::Caller), pair.record(Side::Callee));
    assert_eq!((caller.failure, callee.failure, caller.counts), (None, None, AttemptCounts::default()));
    assert_eq!((caller.what, callee.what), (What::Subscribe, What::Notify));
    let stamps = caller.stamps;
    assert_eq!([stamps.request, stamps.answered, stamps.changed], [ms(0), ms(2), ms(2)]);
    assert!(pair.caller.is_empty() && pair.callee.is_empty());

    // Without an unsubscription, the subscription ends when it expires.
    let mut pair = Pair::new(deaf("SUBSCRIBE"), RING);
    pair.start(Scenario::Subscribe { hold: Duration::from_secs(1), expires: 10 });
    pair.run(ms(400_000));
    assert_eq!(pair.record(Side::Caller).failure, Some(Failure::TimedOut(Timer::F)));

    // The NOTIFY is in transit for longer than the subscription: the subscriber waits for it.
    let slow = |now: Instant, _: usize, message: &Message| {
        let is_notify = message.as_request().is_some_and(|request| request.method == Method::Notify);
        Some(now + if is_notify { Duration::from_secs(3) } else { DELAY })
    };
    let (sent, caller, callee) =
        played(slow, Scenario::Subscribe { hold: Duration::from_secs(1), expires: 600 });
    let subscribed: Vec<_> = sent.iter().filter(|(_, what)| what == "SUBSCRIBE").map(|(at, _)| *at).collect();
    assert_eq!((subscribed, caller.failure, callee.failure), (vec![0, 3001], None, None));

    // Timer N: a 2xx without NOTIFY.
    let (mut pair, _, asked) = started(Scenario::Subscribe { hold: Duration::from_secs(100), expires: 600 });
    answer(&mut pair, &asked, 200, &[(Name::Contact, "<sip:bob@192.0.2.7>"), (Name::Expires, "600")]);
    pair.run(ms(400_000));
    assert_eq!(pair.record(Side::Caller).failure, Some(Failure::TimedOut(Timer::N)));
    // The granted interval is longer than the requested one.
    let (mut pair, _, asked) = started(Scenario::Subscribe { hold: Duration::from_secs(1), expires: 600 });
    answer(&mut pair, &asked, 200, &[(Name::Contact, "<sip:bob@192.0.2.7>"), (Name::Expires, "601")]);
    pair.run(ms(400_000));
    assert_eq!(pair.record(Side::Caller).failure, Some(Failure::Rule("RFC 6665 section 3.1.1")));
}

/// A NOTIFY of another event package breaks one rule, and a NOTIFY without the state breaks another.
#[test]
fn notifications_that_break_a_rule() {
    for (field, value, rule) in [
        (Name::Event, Some("dialog"), "RFC 6665 section 3.2.1"),
        (Name::SubscriptionState, None, "RFC 6665 section 4.2.2"),
    ] {
        let mut pair = Pair::new(deaf("NOTIFY"), RING);
        pair.start(Scenario::Subscribe { hold: Duration::from_secs(1), expires: 600 });
        pair.run(ms(1));
        let mut notify = pair.last.as_request().cloned().unwrap();
        assert_eq!(notify.method, Method::Notify);
        notify.headers.remove(&field);
        if let Some(value) = value {
            notify.headers.push(field, value);
        }
        pair.inject(&notify.into());
        pair.run(ms(400_000));
        assert_eq!(pair.record(Side::Caller).failure, Some(Failure::Rule(rule)));
    }
}

/// RFC 3261 section 17.1.1.2: the timers of a request that leaves late start at its departure.
#[test]
fn the_timers_of_a_request_run_from_when_it_leaves() {
    for scenario in [CALL, Scenario::Options] {
        let names = Directory::pattern("user", 4);
        let (mut caller, mut out) =
            (Caller::new(setup(), names.clone(), names).unwrap(), LoadOutput::default());
        caller.start(ms(0), ms(0), scenario, (1, 2), None, &mut out).unwrap();
        let stamped = out.messages.departing().find_map(|(.., stamped)| stamped).unwrap();
        caller.handle_departure(ms(40), stamped);
        let (mut sent, mut now) = (Vec::new(), ms(0));
        while let Some(due) = caller.next_deadline() {
            (now, out.messages) = (due, Default::default());
            caller.handle_timeout(now, &mut out);
            sent.extend(out.messages.iter().map(|_| now));
        }
        assert_eq!(
            (out.records[0].stamps.request, sent[0], now),
            (ms(40), ms(540), ms(32_040)),
            "{scenario:?}"
        );
    }
}

/// "a new request, which is identical to the previous, but has a different value of the Via branch ID than the previous" goes
/// to the next server after timer B, 503 and a lost connection (RFC 3263 section 4.3). A late response of the first
/// server is not taken for a response of the next one.
#[test]
fn the_next_server_takes_over() {
    let second: std::net::SocketAddr = "192.0.2.3:5060".parse().unwrap();
    let own = Setup { others: vec![second], ..setup() };
    let sent = |out: &LoadOutput| -> Vec<(std::net::SocketAddr, Request)> {
        let of =
            |bytes: &[u8]| Message::parse(&bytes.to_vec().into()).unwrap().as_request().cloned().unwrap();
        out.messages.iter().map(|(to, bytes)| (to, of(bytes))).collect()
    };
    let names = Directory::pattern("user", 4);
    for why in ["timer", "503", "connection"] {
        let mut caller = Caller::new(own.clone(), names.clone(), names.clone()).unwrap();
        let mut out = LoadOutput::default();
        let token: Token = caller.start(ms(0), ms(0), CALL_AND_LEAVE, (1, 2), None, &mut out).unwrap();
        let (to, first) = sent(&out).remove(0);
        assert_eq!(to, there());
        out.messages.clear();
        let at = ms(if why == "timer" { 32_000 } else { 10 });
        match why {
            "timer" => {
                caller.handle_timeout(at, &mut out);
            }
            "503" => reply(&mut caller, &first, 503, at, &mut out),
            _ => {
                let broken = netrig_sip::load::Broken::Reset;
                caller.handle_disconnection(at, (second, ConnectionScope::All), broken, &mut out);
                assert!(out.messages.is_empty(), "that is another's");
                caller.handle_disconnection(at, (there(), ConnectionScope::Attempt(token)), broken, &mut out);
            }
        }
        let asked = sent(&out);
        let (to, again) = asked.last().unwrap();
        assert_eq!(
            (*to, again.method.as_str(), again.headers.cseq()),
            (second, "INVITE", first.headers.cseq())
        );
        let branch = |request: &Request| request.headers.vias().unwrap()[0].branch().unwrap().to_owned();
        assert_ne!(branch(again), branch(&first));
        let same = [Name::CallId, Name::From, Name::To, Name::Contact];
        assert!(same.iter().all(|name| again.headers.get(name) == first.headers.get(name)));
        if why == "503" {
            assert_eq!((asked[0].0, asked[0].1.method.as_str()), (there(), "ACK"));
        }
        out.messages.clear();
        // The first server responds late, and is ignored.
        reply(&mut caller, &first, 180, ms(32_001), &mut out);
        reply(&mut caller, again, 200, ms(32_010), &mut out);
        let rest: Vec<_> =
            sent(&out).into_iter().map(|(to, request)| (to, request.method.to_string())).collect();
        assert_eq!(rest, [(second, "ACK".to_owned()), (second, "BYE".to_owned())]);
        let bye = sent(&out).remove(1).1;
        reply(&mut caller, &bye, 200, ms(32_020), &mut out);
        let record = out.records[0];
        assert_eq!((record.failure, record.counts.failed_over), (None, 1), "{why}");
        let mut tally = netrig_sip::index::Tally::default();
        tally.begun(record.what);
        tally.record(&record);
        use netrig_sip::index::Delay;
        assert_eq!(tally.delay(Delay::FailOver).max(), Some(Duration::from_millis(32_010)));
        assert_eq!([Delay::Invite, Delay::SessionRequest].map(|delay| tally.delay(delay).count()), [0, 0]);
    }
    // No server is left.
    let mut caller = Caller::new(own, names.clone(), names).unwrap();
    let mut out = LoadOutput::default();
    caller.start(ms(0), ms(0), CALL_AND_LEAVE, (1, 2), None, &mut out).unwrap();
    (1..=64_000).step_by(500).for_each(|at| caller.handle_timeout(ms(at), &mut out));
    caller.handle_timeout(ms(64_001), &mut out);
    let record = out.records[0];
    assert_eq!((record.failure, record.counts.failed_over), (Some(Failure::TimedOut(Timer::B)), 1));
}

/// A response of a server in a test.
fn reply(caller: &mut Caller, request: &Request, status: u16, at: Instant, out: &mut LoadOutput) {
    let mut response = request.response(Status::new(status).unwrap());
    if !request.headers.get(&Name::To).unwrap().contains(";tag=") {
        response.headers.set(Name::To, format!("{};tag=server", request.headers.get(&Name::To).unwrap()));
    }
    response.headers.push(Name::Contact, "<sip:bob@192.0.2.7>");
    let bytes = Message::from(response).to_bytes();
    let scan = Scan::of(&bytes);
    let Some(Recipient::Response(token, transaction)) = Recipient::of(&scan, RUN, 0) else { panic!() };
    caller.handle_response(at, &scan, (token, transaction), out);
}

/// A route set is kept complete even if it is longer than the part that needs no allocation.
#[test]
fn long_routes_are_kept_whole() {
    let (mut pair, seen, invite) = started(CALL_AND_LEAVE);
    let routes: Vec<_> = (0..40).map(|number| format!("<sip:p{number};lr>")).collect();
    let record = routes.join(", ");
    answer(&mut pair, &invite, 200, &[(Name::Contact, "<sip:bob@192.0.2.7>"), (Name::RecordRoute, &record)]);
    pair.run(ms(100));
    let sent = seen.borrow();
    let own: Vec<&str> = sent[1].headers.all(&Name::Route).collect();
    assert!(own.iter().rev().copied().eq(routes.iter().map(String::as_str)), "{own:?}");
}
