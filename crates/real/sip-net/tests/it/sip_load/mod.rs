//! Loads against servers on real sockets: every call is accounted for, and each failure has its kind.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a test of sockets needs threads, processes and clocks, and a test that panics has failed"
)]

mod names;
mod scenarios;
mod steering;
mod streams;

use netrig_sip::settings::Connections;
use std::collections::{BTreeSet, VecDeque};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use netrig_core::{Duration, Instant, Seeds, SpanDistribution};
use netrig_sip::digest::Algorithm;
use netrig_sip::header::Transport;
use netrig_sip::index::Delay;
use netrig_sip::load::{Arrivals, CalleeOrder, Directory, Gaps, Pace, Plan, Scenario, What, Work};
use netrig_sip::server::{
    Answer, AnsweringPolicy, Destination, Domain, Proxy, RegistrarPolicy, Registry, Role, Server,
    ServerOrder, Source, User,
};
use netrig_sip::transaction::Timing;
use netrig_sip::{Message, Method, Name, Status};
use netrig_sip_net::load::{
    Answering, Carrier, LoadError, LoadOrder, LoadReport, OutcomeRow, SecondRow, answer, run,
};
use netrig_sip_net::server::SocketsOrder;
use netrig_test_support::{has, skip_unless};

use crate::it::sip_server::{Running, server, sockets};

/// Short timers, so that time-outs take seconds.
fn timing() -> Timing {
    Timing { t1: Duration::from_millis(50), t2: Duration::from_millis(400), t4: Duration::from_millis(500) }
}

/// The listening address of servers.
const UDP: [&str; 1] = ["udp:127.0.0.1:0"];

/// The order of a server with short timers, and with room for the transactions of all attempts of a test.
fn ordered(role: Role) -> ServerOrder {
    ServerOrder { most_transactions: 100_000, timing: timing(), ..server(role) }
}

fn manners(answer: Answer) -> AnsweringPolicy {
    AnsweringPolicy { answer, ..AnsweringPolicy::new("127.0.0.1:9".parse().unwrap()) }
}

fn answering(answer: Answer) -> Running {
    Running::start(sockets(&UDP), ordered(Role::UserAgent(manners(answer))))
}

fn address(server: &Running) -> SocketAddr {
    server.address(Transport::Udp)
}

/// A server that ignores some received messages and can replace sent messages.
struct Between<H, S> {
    server: Box<dyn Server>,
    hears: H,
    says: S,
    said: VecDeque<(Destination, Message)>,
}

impl<H: FnMut(&Message) -> bool + Send, S: FnMut(Message) -> Vec<Message> + Send> Server for Between<H, S> {
    fn handle(&mut self, now: Instant, message: Message, from: Source) {
        if (self.hears)(&message) {
            self.server.handle(now, message, from);
        }
    }

    fn handle_failure(&mut self, now: Instant, message: &Message) {
        self.server.handle_failure(now, message);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.server.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.server.poll_timeout()
    }

    fn poll_transmit(&mut self) -> Option<(Destination, Message)> {
        if self.said.is_empty()
            && let Some((to, message)) = self.server.poll_transmit()
        {
            self.said.extend((self.says)(message).into_iter().map(|message| (to.clone(), message)));
        }
        self.said.pop_front()
    }
}

fn between(
    sockets: SocketsOrder,
    order: ServerOrder,
    hears: impl FnMut(&Message) -> bool + Send + 'static,
    says: impl FnMut(Message) -> Vec<Message> + Send + 'static,
) -> Running {
    Running::with(sockets, move |listens| {
        Box::new(Between { server: order.server(listens).unwrap(), hears, says, said: VecDeque::new() })
    })
}

/// Starts the server of an order so that it receives only selected messages.
fn deaf(
    sockets: SocketsOrder,
    order: ServerOrder,
    hears: impl FnMut(&Message) -> bool + Send + 'static,
) -> Running {
    between(sockets, order, hears, |message| vec![message])
}

/// The message, with a body of `len` bytes if it is a 200 response to an INVITE.
fn lengthened(mut message: Message, len: usize) -> Message {
    if let Message::Response(response) = &mut message
        && response.headers.cseq().unwrap().unwrap().method == Method::Invite
        && response.status == Status::OK
    {
        let mut body = response.body.to_vec();
        body.extend(b"a=x:");
        body.resize(len, b'y');
        response.headers.set(Name::ContentLength, body.len().to_string());
        response.body = body.into();
    }
    message
}

/// A load of `count` attempts at a constant rate of 200/s.
fn order(target: SocketAddr, work: Work, count: u64) -> LoadOrder {
    let pace = Pace::Open(Arrivals::at(200.0, Gaps::Constant));
    let plan = Plan::new(work, pace, Duration::from_secs(60));
    let plan = Plan { count: Some(count), timing: timing(), description: 300, users: 40, ..plan };
    LoadOrder { shards: 2, ..LoadOrder::new(target, plan) }
}

/// The load with a changed plan.
fn with(order: LoadOrder, change: impl FnOnce(&mut Plan)) -> LoadOrder {
    let LoadOrder { mut plan, .. } = order;
    change(&mut plan);
    LoadOrder { plan, ..order }
}

fn carried_out(order: &LoadOrder) -> LoadReport {
    let mut seconds = 0;
    let report = run(order, &AtomicBool::new(false), |_| {}, |_, _| seconds += 1).unwrap();
    assert_eq!(seconds, report.seconds.len());
    assert!(report.seconds.iter().map(|second| second.second).eq(0..seconds as u64));
    // Each started attempt is in exactly one of the counts.
    for row in report.outcomes.iter().chain(&report.warm_up) {
        assert_eq!(
            row.counts.begun,
            row.counts.succeeded + row.counts.failed + row.counts.unlocated + row.open,
            "{row:?}"
        );
        let failures = report.failures.iter().filter(|failure| failure.what == row.what);
        let failed: u64 = failures.map(|failure| failure.count).sum();
        assert!(
            failed == row.counts.failed + row.counts.unlocated || report.warm_up.contains(row),
            "{row:?}"
        );
    }
    let own = |row: &&OutcomeRow| !matches!(row.what, "answer" | "notify");
    let all = report.outcomes.iter().chain(&report.warm_up);
    let begun: u64 = all.filter(own).map(|row| row.counts.begun).sum();
    assert_eq!(report.seconds.iter().map(|second| second.begun).sum::<u64>(), begun);
    report
}

const CALL: Work = Work::Call(Scenario::Call { hold: Duration::from_millis(20) });

#[track_caller]
fn assert_all_well(report: &LoadReport, what: What, count: u64) {
    let row = report.outcome(what).unwrap();
    assert_eq!(
        (row.counts.begun, row.counts.succeeded, row.counts.failed, row.open),
        (count, count, 0, 0),
        "{:?}",
        report.failures
    );
}

#[test]
fn calls_and_all_else_are_answered() {
    let server = answering(Answer::Accept(Duration::from_millis(5)));
    let report = carried_out(&order(address(&server), CALL, 100));
    assert_all_well(&report, What::Call, 100);
    for delay in [Delay::Connection, Delay::Disconnect, Delay::Total, Delay::SessionDuration] {
        assert_eq!(report.delay(delay).unwrap().n, 100, "{delay:?}");
    }
    // The callee rings immediately and answers 5 ms later.
    assert!(report.delay(Delay::Invite).unwrap().min_us >= 5000.0);
    assert!(report.delay(Delay::SessionDuration).unwrap().min_us >= 20_000.0);
    assert!(report.delay(Delay::AnswerSignal).is_none() && !report.notes.is_empty());
    assert_eq!((report.ratios.ser, report.ratios.scr, report.ratios.isa), (Some(1.0), Some(1.0), Some(0.0)));
    assert!(report.kept);
    for (scenario, what) in [(Scenario::Options, What::Options), (Scenario::Message, What::Message)] {
        let report = carried_out(&order(address(&server), Work::Call(scenario), 30));
        assert_all_well(&report, what, 30);
    }
}

#[test]
fn what_begins_in_the_warm_up_is_counted_apart() {
    let server = answering(Answer::Accept(Duration::ZERO));
    let order = with(order(address(&server), CALL, 0), |plan| {
        plan.warm_up = Duration::from_millis(200);
        plan.duration = Duration::from_millis(500);
        plan.count = None;
    });
    let report = carried_out(&order);
    // One call starts every 5 ms, the first at the start of the load.
    assert_eq!((report.warm_up[0].counts.begun, report.warm_up[0].open), (40, 0));
    assert_all_well(&report, What::Call, 60);
}

#[test]
fn users_of_a_closed_loop_come_again() {
    let server = answering(Answer::Accept(Duration::ZERO));
    let pace = Pace::Closed(SpanDistribution::Exponential(Duration::from_millis(20)));
    let order = with(order(address(&server), Work::Call(Scenario::Options), 90), |plan| {
        (plan.pace, plan.users) = (pace, 6);
    });
    assert_all_well(&carried_out(&order), What::Options, 90);
}

/// A lost INVITE is retransmitted, so no call fails.
#[test]
fn a_deaf_server_makes_retransmissions_and_no_failures() {
    let unheard = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&unheard);
    let mut invites = 0;
    let role = Role::UserAgent(manners(Answer::Accept(Duration::ZERO)));
    let server = deaf(sockets(&UDP), ordered(role), move |message| {
        let is_invite = message.as_request().is_some_and(|request| request.method == Method::Invite);
        invites += u32::from(is_invite);
        let is_heard = !is_invite || invites % 5 != 0;
        counted.fetch_add(u64::from(!is_heard), Ordering::Relaxed);
        is_heard
    });
    let report = carried_out(&order(address(&server), CALL, 100));
    assert_all_well(&report, What::Call, 100);
    let unheard = unheard.load(Ordering::Relaxed);
    assert!(
        unheard >= 20 && report.repetitions.requests_again >= unheard,
        "{unheard} {}",
        report.repetitions.requests_again
    );
}

#[test]
fn what_comes_twice_is_told() {
    let order_of_server = ordered(Role::UserAgent(manners(Answer::Accept(Duration::ZERO))));
    let server = between(sockets(&UDP), order_of_server, |_| true, |message| vec![message.clone(), message]);
    // Two of these responses together are less than three times as long as the request, so an unvalidated address gets
    // both.
    let report = carried_out(&order(address(&server), Work::Call(Scenario::Message), 40));
    assert_all_well(&report, What::Message, 40);
    let tester = &report.tester;
    // The load may end before the second response to the last request of each thread arrives. A retransmitted request
    // is answered twice more.
    let most = 40 + 2 * report.repetitions.requests_again;
    assert!((38..=most).contains(&tester.strays) && tester.foreign == 0, "{tester:?}");
}

/// A message may be as long as a datagram can be (RFC 3261 section 18.1.1). Over a connection it may be as
/// long as the limit of the tester for received messages.
#[test]
fn a_long_answer_is_read_whole() {
    let started = |points: &[&str], len| {
        let role = Role::UserAgent(manners(Answer::Accept(Duration::ZERO)));
        between(sockets(points), ordered(role), |_| true, move |message| vec![lengthened(message, len)])
    };
    let server = started(&UDP, 64_000);
    // The request is long, because an unvalidated address gets at most three times the bytes that it sent.
    let order_of_long = with(order(address(&server), CALL, 20), |plan| plan.description = 30_000);
    let report = carried_out(&order_of_long);
    assert_all_well(&report, What::Call, 20);
    // A warning before the load is part of its report.
    assert!(report.notes[0].starts_with("requests above 1300 bytes belong on TCP"), "{:?}", report.notes);
    drop(server);
    let over =
        |target| LoadOrder { carrier: Carrier::Tcp(Connections::PerAttempt), ..order(target, CALL, 20) };
    let server = started(&["tcp:127.0.0.1:0"], 200_000);
    assert_all_well(&carried_out(&over(server.address(Transport::Tcp))), What::Call, 20);
    // A longer message exceeds the tester's own limit, so the load is invalid.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap();
    let answering = std::thread::spawn(move || {
        for stream in listener.incoming().take(20) {
            let mut stream = stream.unwrap();
            while stream.read(&mut [0; 4096]).unwrap() == 0 {}
            stream.write_all(b"SIP/2.0 200 OK\r\nContent-Length: 2000000\r\n\r\n").unwrap();
        }
    });
    let report = carried_out(&over(target));
    answering.join().unwrap();
    let [failure] = &report.failures[..] else { panic!("{:?}", report.failures) };
    let why = "a message was longer than the tester reads from a connection (1024 KiB, of which 64 KiB are header fields)";
    assert_eq!((failure.why.as_str(), failure.count), (why, 20));
    assert!(
        report.faults.iter().any(|fault| fault.contains("longer than the tester reads")),
        "{:?}",
        report.faults
    );
}

/// A call to a dead server fails after 64·T1, which is 3.2 s here, and not before.
#[test]
fn a_dead_server_makes_failures_by_timer_b() {
    // The server has a socket, so ICMP reports nothing, but it does not respond.
    let dead = UdpSocket::bind("127.0.0.1:0").unwrap();
    let report = carried_out(&order(dead.local_addr().unwrap(), CALL, 40));
    let row = report.outcome(What::Call).unwrap();
    assert_eq!((row.counts.begun, row.counts.failed, row.open), (40, 40, 0));
    assert_eq!(report.failures.len(), 1);
    assert_eq!((report.failures[0].kind.name(), report.failures[0].why.contains("timer B")), ("timer", true));
    let failed = |second: &&SecondRow| second.failed > 0;
    assert!(report.seconds.iter().filter(failed).all(|second| second.second >= 3));
    // INVITE is retransmitted after T1, 2·T1 and so on: at 50, 150, 350, 750, 1550 and 3150 ms. The last retransmission
    // is missing if the tester is so late that the call fails before.
    assert!(
        (40 * 5..=40 * 6).contains(&report.repetitions.requests_again),
        "{}",
        report.repetitions.requests_again
    );
    assert_eq!((report.ratios.ser, report.ratios.isa, report.kept), (Some(0.0), Some(1.0), false));
}

#[test]
fn a_refusal_is_a_failure_by_its_status_unless_it_was_wanted() {
    let server = answering(Answer::Refuse(Duration::ZERO, Status::BUSY_HERE));
    let report = carried_out(&order(address(&server), CALL, 30));
    let failure = &report.failures[0];
    assert_eq!(
        (failure.kind.name(), failure.why.as_str(), failure.count),
        ("status", "answered with 486", 30)
    );
    assert_eq!((report.ratios.ser, report.ratios.seer, report.ratios.isa), (Some(0.0), Some(1.0), Some(0.0)));
    assert_all_well(&carried_out(&order(address(&server), Work::Call(Scenario::Busy), 30)), What::Busy, 30);
    drop(server);
    let server = answering(Answer::Refuse(Duration::ZERO, Status::new(302).unwrap()));
    let report = carried_out(&order(address(&server), Work::Call(Scenario::Redirect), 30));
    assert_all_well(&report, What::Redirect, 30);
    assert_eq!(report.delay(Delay::Redirect).unwrap().n, 30);
}

#[test]
fn calls_that_nobody_answers_are_taken_back() {
    let server = answering(Answer::Never);
    let wait = Duration::from_millis(10);
    for (scenario, what) in [
        (Scenario::Cancel { after: wait }, What::Cancel),
        (Scenario::NoAnswer { patience: wait }, What::NoAnswer),
    ] {
        let report = carried_out(&order(address(&server), Work::Call(scenario), 30));
        assert_all_well(&report, what, 30);
        assert_eq!(report.delay(Delay::Cancel).unwrap().n, 30);
    }
}

#[test]
fn users_register_with_their_passwords_and_no_others() {
    let named = |number| User { name: format!("user{number:06}"), password: "secret".into(), contact: None };
    let asking = ServerOrder {
        users: Some((0..40).map(named).collect()),
        digest: Some(Algorithm::MD5),
        realm: Some("example.com".into()),
        ..ordered(Role::Registrar)
    };
    let server = Running::start(sockets(&UDP), asking);
    let passwords = Directory::Fixed(b"secret"[..].into());
    let order = with(order(address(&server), Work::Register, 40), |plan| plan.passwords = passwords.clone());
    let report = carried_out(&order);
    assert_all_well(&report, What::Register, 40);
    assert_eq!((report.tolerated.challenges, report.delay(Delay::Registration).unwrap().n), (40, 40));
    for work in [Work::ReRegister, Work::Unregister] {
        let order = with(order.clone(), |plan| plan.work = work);
        assert_all_well(&carried_out(&order), work.what(), 40);
    }
    let wrong = with(order.clone(), |plan| plan.passwords = Directory::Fixed(b"wrong"[..].into()));
    let report = carried_out(&wrong);
    let failure = &report.failures[0];
    assert_eq!((failure.kind.name(), failure.count, report.ratios.ira), ("authentication", 40, Some(0.0)));
    let unprepared = with(wrong, |plan| plan.work = Work::ReRegister);
    let error = run(&unprepared, &AtomicBool::new(false), |_| {}, |_, _| {}).unwrap_err();
    assert!(
        matches!(&error, LoadError::Preparation { why, is_answered: true, .. } if why.contains("credentials")),
        "{error}"
    );
}

/// Before the load, the users are registered. If one is refused while other registrations are not answered yet, the load
/// does not start, and all accepted registrations are removed.
#[test]
fn a_load_that_cannot_be_prepared_leaves_nobody_registered() {
    let known = |number| User { name: format!("user{number:06}"), password: "secret".into(), contact: None };
    let asking = ServerOrder {
        users: Some((1..40).map(known).collect()),
        digest: Some(Algorithm::MD5),
        realm: Some("example.com".into()),
        ..ordered(Role::Registrar)
    };
    let [came, went] = [(); 2].map(|()| Arc::new(Mutex::new(BTreeSet::new())));
    let told = [Arc::clone(&came), Arc::clone(&went)];
    let delayed = SocketsOrder { delay: Some("exponential:30 ms".parse().unwrap()), ..sockets(&UDP) };
    let server = deaf(delayed, asking, move |message| {
        let headers = message.headers();
        if headers.get(&Name::Authorization).is_some() {
            let goes = headers.get(&Name::Expires) == Some("0");
            let who = headers.get(&Name::To).unwrap().to_owned();
            told[usize::from(goes)].lock().unwrap().insert(who);
        }
        true
    });
    let passwords = Directory::Fixed(b"secret"[..].into());
    let order = with(order(address(&server), Work::ReRegister, 40), |plan| plan.passwords = passwords);
    let error = run(&order, &AtomicBool::new(false), |_| {}, |_, _| {}).unwrap_err();
    assert!(matches!(&error, LoadError::Preparation { user, .. } if user == "user000000"), "{error}");
    let [came, went] = [came, went].map(|who| who.lock().unwrap().clone());
    let left: Vec<_> = came.difference(&went).collect();
    assert!(came.len() > 1 && left.len() == 1 && left[0].contains("user000000"), "{left:?}");
}

/// Without a configured domain, the domain of the users is the server's address and port.
#[test]
fn users_belong_to_who_is_tested() {
    for point in ["udp:127.0.0.1:0", "udp:[::1]:0"] {
        let server = Running::start(sockets(&[point]), ordered(Role::Registrar));
        let report = carried_out(&order(address(&server), Work::Register, 20));
        assert_all_well(&report, What::Register, 20);
    }
}

/// Caller and callee belong to the tester, so delays are measured at both ends.
#[test]
fn calls_through_a_proxy_are_measured_at_both_ends() {
    let server = Running::start(sockets(&UDP), ordered(Role::Proxy { record_route: true }));
    let callee = CalleeOrder::Own { ringing: Duration::from_millis(2) };
    let report = carried_out(&with(order(address(&server), CALL, 100), |plan| plan.callee = callee));
    assert_all_well(&report, What::Call, 100);
    assert_all_well(&report, What::Answer, 100);
    assert_eq!(report.delay(Delay::AnswerSignal).unwrap().n, 100);
    assert!(report.notes.is_empty());
    for (scenario, what) in
        [(Scenario::Busy, What::Busy), (Scenario::Cancel { after: Duration::from_millis(5) }, What::Cancel)]
    {
        let order = with(order(address(&server), Work::Call(scenario), 30), |plan| plan.callee = callee);
        let report = carried_out(&order);
        assert_all_well(&report, what, 30);
        assert_all_well(&report, What::Answer, 30);
    }
}

/// Callees whose registrations expire after one second are called for 2.5 s. Their registrations are removed at the
/// end.
#[test]
fn registrations_are_kept_alive_and_taken_back() {
    let server = Running::with(sockets(&UDP), |listens| {
        let domain = Domain { names: Vec::new(), listens: listens.to_vec() };
        let policy = RegistrarPolicy { least: Duration::from_secs(1), ..RegistrarPolicy::default() };
        let mut registry = Registry::new(domain, 1000);
        registry.policy = policy;
        Box::new(Proxy::new(registry, true, 10_000, timing(), Seeds::new(1).stream("proxy")))
    });
    let order = with(order(address(&server), CALL, 50), |plan| {
        plan.callee = CalleeOrder::Own { ringing: Duration::ZERO };
        plan.pace = Pace::Open(Arrivals::at(20.0, Gaps::Constant));
        plan.expires = 1;
    });
    let report = carried_out(&order);
    assert_all_well(&report, What::Call, 50);
    let renewed = report.outcome(What::Renew).unwrap();
    assert!(renewed.counts.succeeded >= 40 && renewed.counts.failed == 0, "{renewed:?}");
    // No callee is registered any more: calls to the same users get a failure response.
    let foreign = with(order, |plan| plan.callee = CalleeOrder::Foreign);
    let failures = carried_out(&foreign).failures;
    let status = failures.iter().all(|failure| failure.kind.name() == "status");
    assert_eq!(
        (status, failures.iter().map(|failure| failure.count).sum::<u64>()),
        (true, 50),
        "{failures:?}"
    );
}

#[test]
fn a_load_that_is_interrupted_tells_what_it_has_begun() {
    let server = answering(Answer::Accept(Duration::ZERO));
    let stop = Arc::new(AtomicBool::new(false));
    let ender = Arc::clone(&stop);
    let order = order(address(&server), CALL, 100_000);
    let report = run(&order, &stop, |_| {}, move |_, _| ender.store(true, Ordering::Relaxed)).unwrap();
    assert!(report.interrupted && report.outcome(What::Call).unwrap().counts.succeeded > 0);
}

#[test]
fn a_port_that_is_taken_is_refused() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let local_port = taken.local_addr().unwrap().port();
    let order = LoadOrder { local_port, shards: 1, ..order(taken.local_addr().unwrap(), CALL, 1) };
    let error = run(&order, &AtomicBool::new(false), |_| {}, |_, _| {}).unwrap_err();
    assert!(matches!(&error, LoadError::Socket(_)) && error.to_string().contains("bind"), "{error}");
}

/// Runs 100 calls against the tester's own answering side, which listens at this address.
fn answer_itself(carrier: Carrier, local: &str, change: impl FnOnce(LoadOrder) -> LoadOrder) -> LoadReport {
    let (stop, local): (_, SocketAddr) = (AtomicBool::new(false), local.parse().unwrap());
    std::thread::scope(|scope| {
        let stop = &stop;
        let (told, heard) = std::sync::mpsc::channel();
        let answering = scope.spawn(move || {
            let calls = Answering::calls(Duration::from_millis(1));
            answer(&carrier, local, calls, |at| told.send(at).unwrap(), stop)
        });
        let order = change(order(heard.recv().unwrap(), CALL, 100));
        let report = run(&order, &AtomicBool::new(false), |_| {}, |_, _| {});
        // The flag is set before anything can panic here, because the scope waits for its threads.
        stop.store(true, Ordering::Relaxed);
        let (report, answered) = (report.unwrap(), answering.join().unwrap().unwrap());
        assert_all_well(&report, What::Call, 100);
        assert_eq!((answered.calls, answered.failed, answered.refused), (100, 0, 0));
        report
    })
}

/// The tester is measured against its own answering server.
#[test]
fn the_tester_answers_itself() {
    let change = |order| with(order, |plan| plan.timing = Timing::default());
    let report = answer_itself(Carrier::Udp, "127.0.0.1:0", change);
    assert_eq!(report.delay(Delay::Connection).unwrap().n, 100);
}

/// Starts SIPp with these arguments at a free port. Returns its address too. It listens already, because otherwise ICMP
/// would report to a load that nothing listens.
fn sipp(arguments: &[&str]) -> (Child, SocketAddr) {
    let target = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let port = target.port();
    let mut command = Command::new("sipp");
    command.args(["-i", "127.0.0.1", "-p", &port.to_string(), "-nostdin"]).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let listens = format!(" 0100007F:{port:04X} ");
    while !std::fs::read_to_string("/proc/net/udp").unwrap().contains(&listens) {
        assert!(child.try_wait().unwrap().is_none(), "SIPp has ended");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    (child, target)
}

/// The peer is SIPp, which is an independent implementation.
#[test]
fn sipp_answers_calls() {
    skip_unless!(has("sipp"));
    let (mut child, target) = sipp(&["-sn", "uas"]);
    let order = with(order(target, CALL, 200), |plan| plan.timing = Timing::default());
    let report = run(&order, &AtomicBool::new(false), |_| {}, |_, _| {});
    child.kill().unwrap();
    child.wait().unwrap();
    assert_all_well(&report.unwrap(), What::Call, 200);
}
