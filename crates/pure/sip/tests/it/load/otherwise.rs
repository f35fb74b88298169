//! Requests that are sent to another contact (3xx), later (`Retry-After`), or over TCP because of their length.

use std::net::SocketAddr;

use netrig_sip::header::Transport;
use netrig_sip::load::{Broken, ConnectionScope, OwnMessage, Registrant, is_over_tcp};
use netrig_sip::settings::{LargeRequests, UserOptions};

use super::scenarios::HOLD;
use super::*;

const CALL_AND_LEAVE: Scenario = Scenario::Call { hold: Duration::ZERO };

/// One call to a server in a test.
struct Played {
    caller: Caller,
    out: LoadOutput,
}

/// A request: its destination, whether it goes over TCP, and its bytes.
type Asked = (SocketAddr, bool, Request);

fn asked(out: &mut LoadOutput) -> Vec<Asked> {
    let of = |bytes: &[u8]| Message::parse(&bytes.to_vec().into()).unwrap().as_request().cloned().unwrap();
    let all = out.messages.iter().map(|(to, bytes)| (to, is_over_tcp(bytes), of(bytes))).collect();
    out.messages.clear();
    all
}

fn response(request: &Request, status: u16, more: &[(Name, &str)]) -> bytes::Bytes {
    let mut response = request.response(Status::new(status).unwrap());
    let to = response.headers.get(&Name::To).unwrap().to_owned();
    if !to.contains(";tag=") {
        response.headers.set(Name::To, format!("{to};tag=server"));
    }
    more.iter().for_each(|(name, value)| response.headers.push(name.clone(), value));
    Message::from(response).to_bytes()
}

impl Played {
    fn start(setup: Setup, scenario: Scenario) -> Self {
        let names = Directory::pattern("user", 4);
        let mut caller = Caller::new(setup, names.clone(), Directory::Fixed(b"secret"[..].into())).unwrap();
        let mut out = LoadOutput::default();
        caller.start(ms(0), ms(0), scenario, (1, 2), None, &mut out).unwrap();
        Self { caller, out }
    }

    fn asked(&mut self) -> Vec<Asked> {
        asked(&mut self.out)
    }

    fn reply(&mut self, at: Instant, request: &Request, status: u16, more: &[(Name, &str)]) {
        let bytes = response(request, status, more);
        let scan = Scan::of(&bytes);
        let Some(Recipient::Response(token, transaction)) = Recipient::of(&scan, RUN, 0) else { panic!() };
        self.caller.handle_response(at, &scan, (token, transaction), &mut self.out);
    }

    /// Answers the call, and ends it.
    fn end(&mut self, at: Instant, invite: &Request) -> Record {
        self.reply(at, invite, 200, &[(Name::Contact, "<sip:bob@192.0.2.7>")]);
        let bye = self.asked().pop().unwrap().2;
        assert_eq!(bye.method.as_str(), "BYE");
        self.reply(at, &bye, 200, &[]);
        self.out.records[0]
    }
}

fn peer() -> SocketAddr {
    "192.0.2.9:5070".parse().unwrap()
}

fn following() -> Setup {
    Setup {
        peers: vec![peer()],
        options: UserOptions { follow_redirects: true, ..UserOptions::default() },
        ..setup()
    }
}

fn uri(request: &Request) -> String {
    request.uri.to_string()
}

/// RFC 3261 section 8.1.3.4: the contacts of a 3xx are tried by `q`, each once, with the same To, From and Call-ID and a new CSeq.
/// If one fails, the next is tried; contacts of a later 3xx precede those of an earlier one. Only permitted targets are used.
#[test]
fn a_3xx_is_followed_from_place_to_place() {
    let mut played = Played::start(following(), CALL_AND_LEAVE);
    let (_, _, first) = played.asked().remove(0);
    let own = uri(&first);
    let contacts = format!(
        "<sip:c@198.51.100.7?Subject=x>;q=0.1, <sip:b@192.0.2.9:5070;method=BYE;lr>;q=0.9, <{own}>, <mailto:a@b>, <sip:B@192.0.2.9:5070>;q=0.3"
    );
    played.reply(ms(1), &first, 302, &[(Name::Contact, &contacts)]);
    let [(ack_to, _, ack), (to, _, second)] = played.asked().try_into().unwrap();
    assert_eq!((ack_to, uri(&ack), ack.method.as_str()), (there(), own.clone(), "ACK"));
    assert_eq!((to, uri(&second)), (peer(), "sip:b@192.0.2.9:5070;lr".to_owned()));
    let same = [Name::CallId, Name::From, Name::To];
    assert!(same.iter().all(|name| second.headers.get(name) == first.headers.get(name)));
    assert_eq!(second.headers.cseq().unwrap().unwrap().number, 2);
    // The 302 is retransmitted: its ACK has the destination of its INVITE.
    played.reply(ms(2), &first, 302, &[(Name::Contact, &contacts)]);
    let again = played.asked();
    assert_eq!((again.len(), again[0].0, uri(&again[0].2)), (1, there(), own));
    // That contact challenges, and refuses.
    let challenge = (Name::WwwAuthenticate, "Digest realm=\"a\", nonce=\"n\"");
    played.reply(ms(3), &second, 401, &[challenge]);
    let (to, _, second) = played.asked().pop().unwrap();
    let credentials = second.headers.get(&Name::Authorization).unwrap();
    assert!(to == peer() && credentials.contains("uri=\"sip:b@192.0.2.9:5070;lr\""), "{credentials}");
    played.reply(ms(4), &second, 302, &[(Name::Contact, "<sip:d@198.51.100.8>")]);
    let (to, _, third) = played.asked().pop().unwrap();
    assert_eq!(
        (to, uri(&third)),
        (there(), "sip:d@198.51.100.8".to_owned()),
        "the load was not told of this address"
    );
    assert!(third.headers.get(&Name::Authorization).is_none());
    // That contact does not respond.
    while played.asked().iter().all(|(.., request)| uri(request) == uri(&third)) {
        let due = played.caller.next_deadline().unwrap();
        played.caller.handle_timeout(due, &mut played.out);
        if due > ms(32_000) {
            break;
        }
    }
    let last = Played::asked(&mut played).pop();
    let (_, _, fourth) = last.unwrap_or_else(|| {
        let due = played.caller.next_deadline().unwrap();
        played.caller.handle_timeout(due, &mut played.out);
        played.asked().pop().unwrap()
    });
    assert_eq!(uri(&fourth), "sip:B@192.0.2.9:5070");
    let record = played.end(ms(40_000), &fourth);
    assert_eq!((record.failure, record.status, record.counts.redirected), (None, 200, 3));
}

/// If no contact is left, the call fails with the last response.
#[test]
fn a_3xx_that_leads_nowhere_is_a_failure() {
    for (status, contacts) in [(302, ""), (301, "<mailto:a@b>"), (305, "*")] {
        let mut played = Played::start(following(), CALL_AND_LEAVE);
        let (_, _, first) = played.asked().remove(0);
        played.reply(ms(1), &first, status, &[(Name::Contact, contacts)]);
        assert_eq!(played.out.records[0].failure, Some(Failure::Status(status)), "{contacts}");
    }
    let mut played = Played::start(following(), CALL_AND_LEAVE);
    let (_, _, first) = played.asked().remove(0);
    played.reply(ms(1), &first, 300, &[(Name::Contact, "<sip:a@192.0.2.9:5070>, <sip:b@192.0.2.9:5070>")]);
    for (at, user) in [(2, "a"), (3, "b")] {
        let (_, _, request) = played.asked().pop().unwrap();
        assert_eq!(uri(&request), format!("sip:{user}@192.0.2.9:5070"));
        played.reply(ms(at), &request, 603, &[]);
    }
    assert_eq!(played.out.records[0].failure, Some(Failure::Status(603)));
    // A server may redirect in a loop, or without an end.
    let mut played = Played::start(following(), CALL_AND_LEAVE);
    for place in 0..20 {
        let Some((_, _, request)) = played.asked().pop() else { break };
        played.reply(ms(place), &request, 302, &[(Name::Contact, &format!("<sip:{place}@192.0.2.9:5070>"))]);
    }
    let record = played.out.records[0];
    assert_eq!((record.failure, record.counts.redirected), (Some(Failure::Status(302)), 8));
    // The redirect scenario succeeds with a 3xx. Any other call that does not follow it fails.
    for (setup, scenario, failure) in [
        (following(), Scenario::Redirect, None),
        (setup(), CALL_AND_LEAVE, Some(Failure::Status(302))),
        (setup(), Scenario::Options, Some(Failure::Status(302))),
    ] {
        let mut played = Played::start(setup, scenario);
        let (_, _, first) = played.asked().remove(0);
        played.reply(ms(1), &first, 302, &[(Name::Contact, "<sip:a@192.0.2.9:5070>")]);
        assert_eq!(played.out.records[0].failure, failure);
    }
    let mut played = Played::start(following(), Scenario::Options);
    let (_, _, first) = played.asked().remove(0);
    played.reply(ms(1), &first, 302, &[(Name::Contact, "<sip:a@192.0.2.9:5070>")]);
    let (to, _, second) = played.asked().pop().unwrap();
    assert_eq!((to, uri(&second)), (peer(), "sip:a@192.0.2.9:5070".to_owned()));
    played.reply(ms(2), &second, 200, &[]);
    assert_eq!((played.out.records[0].failure, played.out.records[0].counts.redirected), (None, 1));
}

/// RFC 3261 section 20.33: a number, with an optional comment and parameters. The server's delays do not include the time of a
/// `Retry-After`.
#[test]
fn what_is_refused_for_a_time_is_asked_again_after_it() {
    let own = Setup { options: UserOptions { retries: 2, ..UserOptions::default() }, ..setup() };
    for (scenario, status, value) in [
        (CALL_AND_LEAVE, 503, "2"),
        (CALL_AND_LEAVE, 486, "2 (at lunch)"),
        (Scenario::Options, 500, "2;duration=60"),
    ] {
        let mut played = Played::start(own.clone(), scenario);
        let (_, _, mut request) = played.asked().remove(0);
        for round in 0..2 {
            let at = ms(10 + 2010 * round);
            played.reply(at, &request, status, &[(Name::RetryAfter, value)]);
            let late = played.asked();
            assert!(late.iter().all(|(.., request)| request.method.as_str() == "ACK"), "{late:?}");
            assert_eq!(played.caller.next_deadline(), Some(at + Duration::from_secs(2)));
            // The refusal is retransmitted.
            played.reply(at, &request, status, &[(Name::RetryAfter, value)]);
            played.asked();
            played.caller.handle_timeout(at + Duration::from_secs(2), &mut played.out);
            request = played.asked().remove(0).2;
            assert_eq!(u64::from(request.headers.cseq().unwrap().unwrap().number), 2 + round);
        }
        played.reply(ms(5000), &request, status, &[(Name::RetryAfter, value)]);
        let record = played.out.records[0];
        assert_eq!((record.failure, record.counts.retried), (Some(Failure::Status(status)), 2));
        use netrig_sip::index::{Delay, Tally};
        let mut tally = Tally::default();
        tally.record(&record);
        assert_eq!([Delay::Invite, Delay::Options].map(|delay| tally.delay(delay).count()), [0, 0]);
    }
    // There is no retry without a time, with a time beyond the longest ringing time, or if the scenario expects a
    // refusal.
    let scenarios = [
        (CALL_AND_LEAVE, None),
        (CALL_AND_LEAVE, Some("181")),
        (CALL_AND_LEAVE, Some("x")),
        (Scenario::Busy, Some("2")),
    ];
    for (scenario, value) in scenarios {
        let mut played = Played::start(own.clone(), scenario);
        let (_, _, request) = played.asked().remove(0);
        let more = value.map(|value| (Name::RetryAfter, value));
        played.reply(ms(10), &request, 486, more.as_slice());
        assert_eq!((played.out.records.len(), played.out.records[0].counts.retried), (1, 0), "{value:?}");
    }
}

#[test]
fn a_registration_is_asked_for_again_too() {
    let own = Setup { options: UserOptions { retries: 1, ..UserOptions::default() }, ..setup() };
    let names = Directory::pattern("user", 4);
    let mut registrant = Registrant::new(own, names.clone(), names, 1).unwrap();
    let mut out = LoadOutput::default();
    registrant.register(ms(0), ms(0), 0, 60, &mut out).unwrap();
    let reply = |registrant: &mut Registrant, at, request: &Request, status, out: &mut LoadOutput| {
        let bytes = response(request, status, &[(Name::RetryAfter, "3")]);
        let scan = Scan::of(&bytes);
        let Some(Recipient::Response(token, transaction)) = Recipient::of(&scan, RUN, 0) else { panic!() };
        registrant.handle_response(at, &scan, (token, transaction), out);
    };
    let first = asked(&mut out).remove(0).2;
    reply(&mut registrant, ms(1), &first, 503, &mut out);
    reply(&mut registrant, ms(2), &first, 503, &mut out);
    assert_eq!((registrant.next_deadline(), registrant.strays()), (Some(ms(3001)), 1));
    registrant.handle_timeout(ms(3001), &mut out);
    let second = asked(&mut out).remove(0).2;
    assert_eq!(second.headers.cseq().unwrap().unwrap().number, 2);
    reply(&mut registrant, ms(3002), &second, 200, &mut out);
    let record = out.records[0];
    assert_eq!((record.failure, record.counts.retried, registrant.registered()), (None, 1, 1));
}

fn long(step: &str) -> OwnMessage {
    let text = format!("{{ \"step\": \"{step}\", \"set\": {{ \"X-Long\": \"{}\" }} }}", "x".repeat(1300));
    serde_json::from_str(&text).unwrap()
}

fn with_long(steps: &[&str]) -> Setup {
    let messages = steps.iter().map(|step| long(step)).collect();
    Setup {
        options: UserOptions { messages, large_requests: LargeRequests::Tcp, ..UserOptions::default() },
        ..setup()
    }
}

fn via(request: &Request) -> Transport {
    request.headers.top_via().unwrap().unwrap().transport.unwrap()
}

/// RFC 3261 section 18.1.1: a request of more than 1300 bytes goes over TCP, as its topmost Via says, and is not retransmitted. ACK
/// for a response other than 2xx and CANCEL follow their INVITE (sections 17.1.1.2 and 9.1). Other requests depend on their length.
#[test]
fn what_is_too_long_for_a_datagram_goes_over_tcp() {
    let mut played = Played::start(with_long(&["invite"]), CALL_AND_LEAVE);
    let (to, is_tcp, invite) = played.asked().remove(0);
    assert_eq!((to, is_tcp, via(&invite)), (there(), true, Transport::Tcp));
    played.caller.handle_timeout(ms(31_000), &mut played.out);
    assert!(played.asked().is_empty(), "TCP sends again by itself");
    played.reply(ms(31_500), &invite, 200, &[(Name::Contact, "<sip:bob@192.0.2.7>")]);
    let [(_, ack_over_tcp, ack), (_, bye_over_tcp, bye)] = played.asked().try_into().unwrap();
    assert_eq!([ack.method.as_str(), bye.method.as_str()], ["ACK", "BYE"]);
    assert_eq!([ack_over_tcp, bye_over_tcp], [false; 2]);
    assert_eq!(via(&bye), Transport::Udp);
    played.caller.handle_timeout(ms(32_000), &mut played.out);
    assert_eq!(played.asked().len(), 1, "and a datagram may be lost");

    let mut played = Played::start(with_long(&["invite"]), CALL_AND_LEAVE);
    let invite = played.asked().remove(0).2;
    played.reply(ms(1), &invite, 486, &[]);
    let (_, is_tcp, ack) = played.asked().remove(0);
    assert_eq!((is_tcp, via(&ack), ack.method.as_str()), (true, Transport::Tcp, "ACK"));
    assert!(played.caller.is_empty(), "timer D is zero (section 17.1.1.2)");

    let after = Duration::from_millis(50);
    let mut played = Played::start(with_long(&["invite"]), Scenario::Cancel { after });
    let invite = played.asked().remove(0).2;
    played.reply(ms(1), &invite, 180, &[]);
    played.caller.handle_timeout(ms(51), &mut played.out);
    let (_, is_tcp, cancel) = played.asked().remove(0);
    assert_eq!((is_tcp, cancel.method.as_str()), (true, "CANCEL"));
    played.caller.handle_timeout(ms(2000), &mut played.out);
    assert!(played.asked().is_empty());

    // Short requests stay on UDP. Without the option all requests do.
    for (setup, is_over_tcp) in [
        (with_long(&["bye"]), false),
        (
            Setup {
                options: UserOptions { large_requests: LargeRequests::Udp, ..with_long(&["invite"]).options },
                ..with_long(&["invite"])
            },
            false,
        ),
    ] {
        let mut played = Played::start(setup, CALL_AND_LEAVE);
        let (_, is_tcp, invite) = played.asked().remove(0);
        assert_eq!((is_tcp, via(&invite)), (is_over_tcp, Transport::Udp));
    }
}

/// "if the attempt to establish the connection [...] results in a TCP reset, the element SHOULD retry the request, using UDP" (RFC 3261
/// section 18.1.1). Requests over UDP are not affected.
#[test]
fn where_nobody_takes_the_connection_it_goes_in_datagrams() {
    let mut played = Played::start(with_long(&["invite", "bye"]), CALL_AND_LEAVE);
    let invite = played.asked().remove(0).2;
    played.caller.handle_disconnection(
        ms(1),
        (there(), ConnectionScope::All),
        Broken::Refused,
        &mut played.out,
    );
    let (_, is_tcp, again) = played.asked().remove(0);
    assert_eq!((is_tcp, via(&again)), (false, Transport::Udp));
    assert_eq!(again.headers.get(&Name::CallId), invite.headers.get(&Name::CallId));
    played.caller.handle_timeout(ms(501), &mut played.out);
    assert_eq!(played.asked().len(), 1);
    // The connection of another call is lost.
    played.caller.handle_disconnection(
        ms(502),
        (there(), ConnectionScope::All),
        Broken::Reset,
        &mut played.out,
    );
    assert!(played.asked().is_empty() && played.out.records.is_empty());
    played.reply(ms(600), &again, 200, &[(Name::Contact, "<sip:bob@192.0.2.7>")]);
    assert!(played.asked().iter().all(|(_, is_tcp, _)| !is_tcp), "the BYE goes over UDP, too");

    let mut played = Played::start(with_long(&["invite"]), CALL_AND_LEAVE);
    played.asked();
    played.caller.handle_disconnection(
        ms(1),
        (there(), ConnectionScope::All),
        Broken::Reset,
        &mut played.out,
    );
    assert_eq!(played.out.records[0].failure, Some(Failure::Connection(Broken::Reset)));
}

/// "The ACK MUST be sent to the same address, port, and transport to which the original request was sent" (RFC 3261 section
/// 17.1.1.2). After an INVITE over UDP the final response may be retransmitted during timer D, even if TCP was used since.
#[test]
fn timer_d_is_that_of_the_transport_of_the_invite() {
    let mut played = Played::start(with_long(&["prack"]), Scenario::Prack { hold: Duration::ZERO });
    let (_, is_tcp, invite) = played.asked().remove(0);
    assert!(!is_tcp);
    let reliably = [(Name::Contact, "<sip:bob@192.0.2.7>"), (Name::Require, "100rel"), (Name::RSeq, "1")];
    played.reply(ms(1), &invite, 183, &reliably);
    let (_, is_tcp, prack) = played.asked().remove(0);
    assert_eq!((is_tcp, prack.method.as_str()), (true, "PRACK"));
    for at in [2, 500] {
        played.reply(ms(at), &invite, 486, &[]);
        let (_, is_tcp, ack) = played.asked().remove(0);
        assert_eq!((is_tcp, ack.method.as_str()), (false, "ACK"));
    }
    assert_eq!(played.caller.strays(), 0);
}

const OWN_OFFER: &str =
    "v=0\no=- 1 1 IN IP4 [local_ip]\ns=offer\nt=0 0\nm=audio 4000 RTP/AVP 8\nm=video 4002 RTP/AVP 31\n";
const OWN_ANSWER: &str =
    "v=0\no=- 1 1 IN IP4 [local_ip]\ns=answer\nt=0 0\nm=audio 5000 RTP/AVP 8\nm=video 0 RTP/AVP 31\n";

/// A load with its own session descriptions: the bodies of each side.
fn sessions_of(scenario: Scenario) -> Vec<(String, String)> {
    let own = |step: &str, text: &str| {
        let body = serde_json::json!({ "type": "application/sdp", "text": text });
        serde_json::from_value(serde_json::json!({ "step": step, "body": body })).unwrap()
    };
    let messages = vec![own("invite", OWN_OFFER), own("answer", OWN_ANSWER)];
    let pace = Pace::Open(Arrivals::at(1.0, Gaps::Constant));
    let plan = Plan {
        description: 300,
        options: UserOptions { messages, ..UserOptions::default() },
        ..Plan::new(Work::Call(scenario), pace, Duration::from_secs(1))
    };
    plan.check().unwrap();
    let setup = |local, server| plan.setup((RUN, 0), &[local], (server, Transport::Udp));
    let (seen, network) = scenarios::copied();
    let mut pair = Pair::new(network, RING);
    pair.caller = pair::caller(setup(here(), there()));
    pair.callee = Callee::new(setup(there(), here()), CalleeAction::Answer, RING, [7; 16]).unwrap();
    pair.start(scenario);
    pair.run(ms(60_000));
    assert_eq!(pair.record(Side::Caller).failure, None, "{scenario:?}");
    assert_eq!(pair.record(Side::Callee).failure, None, "{scenario:?}");
    let seen = seen.borrow();
    let described = seen.iter().filter(|message| !message.body().is_empty());
    described
        .map(|message| {
            let body = String::from_utf8(message.body().to_vec()).unwrap();
            let line = |start: &str| {
                body.lines().find(|line| line.starts_with(start)).unwrap_or_default().to_owned()
            };
            let start = match message {
                Message::Request(request) => request.method.to_string(),
                Message::Response(response) => response.status.code().to_string(),
            };
            let version = line("o=").split(' ').nth(2).unwrap().to_owned();
            (start, format!("{} {version} {}", line("s="), line("a=")).trim_end().to_owned())
        })
        .collect()
}

/// Each scenario uses the load's own offers and answers. An INVITE without an offer has none. A change of a session has a new
/// version and its direction. A session is described once.
#[test]
fn sessions_of_ones_own_follow_the_scenario() {
    let said = |scenario| -> Vec<String> {
        sessions_of(scenario).into_iter().map(|(start, session)| format!("{start} {session}")).collect()
    };
    let hold = Duration::from_millis(90);
    assert_eq!(said(Scenario::Call { hold }), ["INVITE s=offer 1", "200 s=answer 1"]);
    assert_eq!(said(Scenario::DelayedOffer { hold }), ["200 s=answer 1", "ACK s=offer 1"]);
    assert_eq!(said(Scenario::Prack { hold }), ["INVITE s=offer 1", "183 s=answer 1"]);
    assert_eq!(
        said(Scenario::Reinvite { hold }),
        [
            "INVITE s=offer 1",
            "200 s=answer 1",
            "INVITE s=offer 2 a=sendonly",
            "200 s=answer 2 a=recvonly",
            "INVITE s=offer 3 a=sendrecv",
            "200 s=answer 3 a=sendrecv"
        ]
    );
}

/// If a server refuses TCP connections, the waiting request is sent over UDP at once, and so are later ones, in each phase of a call.
#[test]
fn a_call_that_stands_leaves_tcp_too() {
    let mut played = Played::start(with_long(&["ack", "bye"]), CALL);
    let invite = played.asked().remove(0).2;
    let contact = [(Name::Contact, "<sip:bob@192.0.2.7>")];
    played.reply(ms(1), &invite, 200, &contact);
    let (_, is_tcp, ack) = played.asked().remove(0);
    assert_eq!((is_tcp, ack.method.as_str()), (true, "ACK"));
    let next_hop = there();
    played.caller.handle_disconnection(
        ms(2),
        (next_hop, ConnectionScope::All),
        Broken::Refused,
        &mut played.out,
    );
    assert!(played.out.records.is_empty());
    // The 2xx is retransmitted, because the ACK was lost.
    played.reply(ms(500), &invite, 200, &contact);
    let (_, is_tcp, ack) = played.asked().remove(0);
    assert_eq!((is_tcp, ack.method.as_str()), (false, "ACK"));
    played.caller.handle_timeout(ms(600), &mut played.out);
    let (_, is_tcp, bye) = played.asked().remove(0);
    assert_eq!((is_tcp, bye.method.as_str()), (false, "BYE"));
    played.reply(ms(601), &bye, 200, &[]);
    assert_eq!(played.out.records[0].failure, None);
}

/// An INVITE with an offer has `Supported: 100rel`, so a server may send provisional responses reliably, and the caller
/// acknowledges them (RFC 3262 sections 3 and 4), in each scenario. An INVITE without an offer does not have it.
#[test]
fn reliable_ringing_is_acknowledged_in_each_scenario() {
    let hold = Duration::ZERO;
    let after = Duration::from_millis(50);
    let reliably = [(Name::Contact, "<sip:bob@192.0.2.7>"), (Name::Require, "100rel"), (Name::RSeq, "7")];
    for scenario in [
        CALL_AND_LEAVE,
        Scenario::Reinvite { hold: HOLD },
        Scenario::Fork { hold },
        Scenario::Cancel { after },
        Scenario::Busy,
    ] {
        let mut played = Played::start(setup(), scenario);
        let invite = played.asked().remove(0).2;
        assert!(invite.headers.has_token(&Name::Supported, "100rel"));
        played.reply(ms(1), &invite, 180, &reliably);
        let prack = played.asked().remove(0).2;
        assert_eq!(prack.headers.get(&Name::RAck), Some("7 1 INVITE"), "{scenario:?}");
        played.reply(ms(2), &prack, 200, &[]);
        if scenario == CALL_AND_LEAVE {
            let record = played.end(ms(3), &invite);
            assert_eq!((record.failure, record.stamps.changing), (None, Instant::NEVER));
        }
    }
    let mut played = Played::start(setup(), Scenario::DelayedOffer { hold });
    let invite = played.asked().remove(0).2;
    assert!(!invite.headers.has_token(&Name::Supported, "100rel"));
}

/// The event that a scenario expects must belong to the answered request, not to a redirected or retransmitted one.
#[test]
fn a_scenario_is_met_by_the_request_that_is_answered() {
    let hold = Duration::ZERO;
    let own = || Setup { options: UserOptions { retries: 1, ..following().options }, ..following() };
    let reliably = [(Name::Contact, "<sip:bob@192.0.2.7>"), (Name::Require, "100rel"), (Name::RSeq, "7")];
    let contact = [(Name::Contact, "<sip:bob@192.0.2.9:5070>")];
    for status in [302, 480] {
        let more = [(Name::Contact, "<sip:bob@192.0.2.9:5070>"), (Name::RetryAfter, "1")];
        let mut played = Played::start(own(), Scenario::Prack { hold });
        let first = played.asked().remove(0).2;
        played.reply(ms(1), &first, 180, &reliably);
        let prack = played.asked().remove(0).2;
        played.reply(ms(2), &prack, 200, &[]);
        played.reply(ms(3), &first, status, &more);
        played.caller.handle_timeout(ms(1100), &mut played.out);
        let second = played.asked().pop().unwrap().2;
        assert_eq!(second.method.as_str(), "INVITE", "{status}");
        played.reply(ms(1200), &second, 200, &contact);
        let bye = played.asked().pop().unwrap().2;
        played.reply(ms(1300), &bye, 200, &[]);
        let expected = Failure::Without("a provisional response to acknowledge");
        assert_eq!(played.out.records[0].failure, Some(expected), "{status}");
    }
}

/// The URI of the next hop names the transport (RFC 3263 section 4.1): requests within the dialog use it at any length.
#[test]
fn a_dialog_over_tcp_goes_on_over_tcp() {
    for (contact, is_over_tcp) in
        [("<sip:bob@192.0.2.7;transport=TCP>", true), ("<sip:bob@192.0.2.7;transport=udp>", false)]
    {
        let mut played = Played::start(with_long(&["invite"]), CALL_AND_LEAVE);
        let invite = played.asked().remove(0).2;
        played.reply(ms(1), &invite, 200, &[(Name::Contact, contact)]);
        let [(_, ack, _), (_, bye, request)] = played.asked().try_into().unwrap();
        assert_eq!([ack, bye], [is_over_tcp; 2], "{contact}");
        played.caller.handle_timeout(ms(600), &mut played.out);
        assert_eq!(played.asked().len(), usize::from(!is_over_tcp), "TCP sends again by itself: {request:?}");
    }
    // A load over UDP alone has no other transport.
    let mut played = Played::start(setup(), CALL_AND_LEAVE);
    let invite = played.asked().remove(0).2;
    played.reply(ms(1), &invite, 200, &[(Name::Contact, "<sip:bob@192.0.2.7;transport=tcp>")]);
    assert!(played.asked().iter().all(|(_, is_tcp, _)| !is_tcp));
}

/// A final response ends the effect of the provisional ones. Whatever the response to a pending PRACK, the call has one
/// record, and no state after timer D.
#[test]
fn an_answer_to_prack_behind_the_final_response_changes_nothing() {
    let reliably = [(Name::Contact, "<sip:bob@192.0.2.7>"), (Name::Require, "100rel"), (Name::RSeq, "7")];
    for scenario in [CALL_AND_LEAVE, Scenario::Prack { hold: Duration::ZERO }] {
        for answer in [200, 481] {
            let mut played = Played::start(setup(), scenario);
            let invite = played.asked().remove(0).2;
            played.reply(ms(1), &invite, 180, &reliably);
            let prack = played.asked().remove(0).2;
            played.reply(ms(2), &invite, 486, &[]);
            assert_eq!(played.asked().remove(0).2.method.as_str(), "ACK");
            played.reply(ms(3), &prack, answer, &[]);
            while let Some(due) = played.caller.next_deadline() {
                played.caller.handle_timeout(due, &mut played.out);
            }
            assert!(played.asked().is_empty() && played.caller.is_empty(), "{scenario:?} {answer}");
            let failures: Vec<_> = played.out.records.iter().map(|record| record.failure).collect();
            assert_eq!(failures, [Some(Failure::Status(486))], "{scenario:?} {answer}");
        }
    }
}

/// After an answer the other contacts of a 3xx are not used: a connection that is lost with the BYE on it begins no new call.
#[test]
fn a_call_that_was_answered_goes_to_no_other_contact() {
    let own = Setup { transport: Transport::Tcp, ..following() };
    let mut played = Played::start(own, CALL_AND_LEAVE);
    let first = played.asked().remove(0).2;
    let contacts = "<sip:a@192.0.2.9:5070>;q=0.9, <sip:b@192.0.2.9:5070>;q=0.1";
    played.reply(ms(1), &first, 302, &[(Name::Contact, contacts)]);
    let second = played.asked().pop().unwrap().2;
    played.reply(ms(2), &second, 200, &[(Name::Contact, "<sip:a@192.0.2.9:5070>")]);
    assert_eq!(played.asked().pop().unwrap().2.method.as_str(), "BYE");
    played.caller.handle_disconnection(ms(3), (peer(), ConnectionScope::All), Broken::Reset, &mut played.out);
    assert!(played.asked().is_empty());
    assert_eq!(played.out.records[0].failure, Some(Failure::Connection(Broken::Reset)));
}
