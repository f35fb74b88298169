//! Loads against servers on real UDP sockets: every call is accounted for, and what fails fails by its kind.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a test of sockets has servers in threads and processes, and what cannot go on has failed"
)]

use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use bytes::Bytes;
use netrig_agent::sip_load::{
    Arrivals, CalleeOrder, Gaps, LoadError, LoadOrder, LoadReport, OutcomeRow, Pace, SecondRow, Work, answer,
    run,
};
use netrig_core::{Duration, Instant, Seeds};
use netrig_sip::digest::{Algorithm, Hash};
use netrig_sip::header::Transport;
use netrig_sip::index::Delay;
use netrig_sip::load::{Directory, Scenario, What};
use netrig_sip::server::{
    Answer, AnsweringMachine, Authenticator, Destination, Domain, Manners, Policy, Proxy, Registrar,
    Registry, Server, Source, Users,
};
use netrig_sip::transaction::Timing;
use netrig_sip::{Host, Message, Method, Status};
use netrig_traffic::SpanDistribution;

/// Short, so that what is given up is given up in seconds.
fn timing() -> Timing {
    Timing { t1: Duration::from_millis(50), t2: Duration::from_millis(400), t4: Duration::from_millis(500) }
}

/// A server in a thread of its own, until it is dropped.
struct Running {
    address: SocketAddr,
    /// It is dead: it still has its socket, and hears and says nothing.
    dead: Arc<AtomicBool>,
    /// INVITEs that it was kept from hearing.
    unheard: Arc<AtomicU64>,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// `make` gets the domain; of the INVITEs one in `deaf` is not heard, none if that is zero.
    fn start<S: Server>(make: impl FnOnce(Domain) -> S + Send + 'static, deaf: u64) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        // Nothing is lost here but what is meant to be, however long the thread is kept from looking.
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 16 << 20);
        let address = socket.local_addr().unwrap();
        let domain =
            Domain { names: vec![Host::Address(address.ip())], listens: vec![(Transport::Udp, address)] };
        let [dead, end] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let unheard = Arc::new(AtomicU64::new(0));
        let shared = (Arc::clone(&dead), Arc::clone(&end), Arc::clone(&unheard));
        let thread = std::thread::spawn(move || drive(&socket, &mut make(domain), deaf, &shared));
        Self { address, dead, unheard, end, thread: Some(thread) }
    }

    fn answering(answer: Answer) -> Self {
        let machine = move |domain| {
            let media = "127.0.0.1:9".parse().unwrap();
            let manners = Manners { answer, ..Manners::new(media) };
            AnsweringMachine::new(domain, manners, 100_000, timing(), Seeds::new(1).stream("server"))
        };
        Self::start(machine, 0)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        let joined = self.thread.take().unwrap().join();
        assert!(joined.is_ok() || std::thread::panicking());
    }
}

fn drive(
    socket: &UdpSocket,
    server: &mut impl Server,
    deaf: u64,
    (dead, end, unheard): &(Arc<AtomicBool>, Arc<AtomicBool>, Arc<AtomicU64>),
) {
    socket.set_read_timeout(Some(std::time::Duration::from_millis(1))).unwrap();
    let began = std::time::Instant::now();
    let mut invites = 0;
    let mut buffer = [0; 65_536];
    while !end.load(Ordering::Relaxed) {
        let received = socket.recv_from(&mut buffer);
        let now = Instant::ZERO + Duration::from_nanos(began.elapsed().as_nanos() as u64);
        if let Ok((len, from)) = received {
            let message = Message::parse(&Bytes::copy_from_slice(&buffer[..len])).unwrap();
            let is_invite = message.as_request().is_some_and(|request| request.method == Method::Invite);
            invites += u64::from(is_invite);
            let is_unheard = is_invite && deaf > 0 && invites.is_multiple_of(deaf);
            if is_unheard {
                unheard.fetch_add(1, Ordering::Relaxed);
            } else if !dead.load(Ordering::Relaxed) {
                server.handle(now, message, Source { transport: Transport::Udp, address: from });
            }
        }
        if server.poll_timeout().is_some_and(|at| at <= now) {
            server.handle_timeout(now);
        }
        while let Some((to, message)) = server.poll_transmit() {
            let Destination::Address(to) = to else { panic!("nothing here has a name: {to:?}") };
            if !dead.load(Ordering::Relaxed) {
                socket.send_to(&message.to_bytes(), to.address).unwrap();
            }
        }
    }
}

/// So many at a constant 200 per second.
fn order(target: SocketAddr, work: Work, count: u64) -> LoadOrder {
    let pace = Pace::Open(Arrivals::at(200.0, Gaps::Constant));
    let order = LoadOrder::new(target, work, pace, Duration::from_secs(60));
    LoadOrder { count: Some(count), timing: timing(), description: 300, shards: 2, users: 40, ..order }
}

fn carried_out(order: &LoadOrder) -> LoadReport {
    let mut seconds = 0;
    let report = run(order, &AtomicBool::new(false), |_| {}, |_| seconds += 1).unwrap();
    assert_eq!(seconds, report.seconds.len());
    assert!(report.seconds.iter().map(|second| second.second).eq(0..seconds as u64));
    // Nothing is lost on the way from the records to the sums.
    for row in report.outcomes.iter().chain(&report.warm_up) {
        assert_eq!(row.begun, row.succeeded + row.failed + row.open, "{row:?}");
        let failures = report.failures.iter().filter(|failure| failure.what == row.what);
        let failed: u64 = failures.map(|failure| failure.count).sum();
        assert!(failed == row.failed || report.warm_up.contains(row), "{row:?}");
    }
    let own = |row: &&OutcomeRow| row.what != "answer";
    let all = report.outcomes.iter().chain(&report.warm_up);
    let begun: u64 = all.filter(own).map(|row| row.begun).sum();
    assert_eq!(report.seconds.iter().map(|second| second.begun).sum::<u64>(), begun);
    report
}

const CALL: Work = Work::Call(Scenario::Call { hold: Duration::from_millis(20) });

#[track_caller]
fn assert_all_well(report: &LoadReport, what: What, count: u64) {
    let row = report.outcome(what).unwrap();
    assert_eq!(
        (row.begun, row.succeeded, row.failed, row.open),
        (count, count, 0, 0),
        "{:?}",
        report.failures
    );
}

#[test]
fn calls_and_all_else_are_answered() {
    let server = Running::answering(Answer::Accept(Duration::from_millis(5)));
    let report = carried_out(&order(server.address, CALL, 100));
    assert_all_well(&report, What::Call, 100);
    for delay in [Delay::Connection, Delay::Disconnect, Delay::Total, Delay::SessionDuration] {
        assert_eq!(report.delay(delay).unwrap().n, 100, "{delay:?}");
    }
    // It rings at once and is answered 5 ms later; nothing comes before it was sent.
    assert!(report.delay(Delay::Invite).unwrap().min_us >= 5000.0);
    assert!(report.delay(Delay::SessionDuration).unwrap().min_us >= 20_000.0);
    assert!(report.delay(Delay::AnswerSignal).is_none() && !report.notes.is_empty());
    assert_eq!((report.ratios.ser, report.ratios.scr, report.ratios.isa), (Some(1.0), Some(1.0), Some(0.0)));
    assert!(report.kept);
    for (scenario, what) in [(Scenario::Options, What::Options), (Scenario::Message, What::Message)] {
        let report = carried_out(&order(server.address, Work::Call(scenario), 30));
        assert_all_well(&report, what, 30);
    }
}

#[test]
fn what_begins_in_the_warm_up_is_counted_apart() {
    let server = Running::answering(Answer::Accept(Duration::ZERO));
    let order = LoadOrder {
        warm_up: Duration::from_millis(200),
        duration: Duration::from_millis(500),
        count: None,
        ..order(server.address, CALL, 0)
    };
    let report = carried_out(&order);
    // One each 5 ms, the first at once.
    assert_eq!((report.warm_up[0].begun, report.warm_up[0].open), (40, 0));
    assert_all_well(&report, What::Call, 60);
}

#[test]
fn users_of_a_closed_loop_come_again() {
    let server = Running::answering(Answer::Accept(Duration::ZERO));
    let pace = Pace::Closed(SpanDistribution::Exponential(Duration::from_millis(20)));
    let order = LoadOrder { pace, users: 6, ..order(server.address, Work::Call(Scenario::Options), 90) };
    assert_all_well(&carried_out(&order), What::Options, 90);
}

/// An INVITE that is not heard is sent again, and no call fails for it.
#[test]
fn a_deaf_server_makes_retransmissions_and_no_failures() {
    let media = "127.0.0.1:9".parse().unwrap();
    let machine = move |domain| {
        AnsweringMachine::new(domain, Manners::new(media), 1000, timing(), Seeds::new(1).stream("server"))
    };
    let server = Running::start(machine, 5);
    let report = carried_out(&order(server.address, CALL, 100));
    assert_all_well(&report, What::Call, 100);
    let unheard = server.unheard.load(Ordering::Relaxed);
    assert!(unheard >= 20 && report.requests_again >= unheard, "{unheard} {}", report.requests_again);
}

/// Whoever calls a server that is dead gives up after 64·T1, which is 3.2 s here, and not before.
#[test]
fn a_dead_server_makes_failures_by_timer_b() {
    let server = Running::answering(Answer::Accept(Duration::ZERO));
    server.dead.store(true, Ordering::Relaxed);
    let report = carried_out(&order(server.address, CALL, 40));
    let row = report.outcome(What::Call).unwrap();
    assert_eq!((row.begun, row.failed, row.open), (40, 40, 0));
    assert_eq!(report.failures.len(), 1);
    assert_eq!((report.failures[0].kind, report.failures[0].why.contains("timer B")), ("timer", true));
    let failed = |second: &&SecondRow| second.failed > 0;
    assert!(report.seconds.iter().filter(failed).all(|second| second.second >= 3));
    // INVITE is sent again after T1, 2·T1 and so on: at 50, 150, 350, 750, 1550 and 3150 ms; the last not if the tester is
    // so late that the call is given up before.
    assert!((40 * 5..=40 * 6).contains(&report.requests_again), "{}", report.requests_again);
    assert_eq!((report.ratios.ser, report.ratios.isa, report.kept), (Some(0.0), Some(1.0), false));
}

#[test]
fn a_refusal_is_a_failure_by_its_status_unless_it_was_wanted() {
    let server = Running::answering(Answer::Refuse(Duration::ZERO, Status::BUSY_HERE));
    let report = carried_out(&order(server.address, CALL, 30));
    let failure = &report.failures[0];
    assert_eq!((failure.kind, failure.why.as_str(), failure.count), ("status", "answered with 486", 30));
    assert_eq!((report.ratios.ser, report.ratios.seer, report.ratios.isa), (Some(0.0), Some(1.0), Some(0.0)));
    assert_all_well(&carried_out(&order(server.address, Work::Call(Scenario::Busy), 30)), What::Busy, 30);
    drop(server);
    let server = Running::answering(Answer::Refuse(Duration::ZERO, Status::new(302).unwrap()));
    let report = carried_out(&order(server.address, Work::Call(Scenario::Redirect), 30));
    assert_all_well(&report, What::Redirect, 30);
    assert_eq!(report.delay(Delay::Redirect).unwrap().n, 30);
}

#[test]
fn calls_that_nobody_answers_are_taken_back() {
    let server = Running::answering(Answer::Never);
    let wait = Duration::from_millis(10);
    for (scenario, what) in [
        (Scenario::Cancel { after: wait }, What::Cancel),
        (Scenario::NoAnswer { patience: wait }, What::NoAnswer),
    ] {
        let report = carried_out(&order(server.address, Work::Call(scenario), 30));
        assert_all_well(&report, what, 30);
        assert_eq!(report.delay(Delay::Cancel).unwrap().n, 30);
    }
}

fn registry(domain: Domain) -> Registry {
    let users = (0..40).map(|user| (format!("user{user:06}"), "secret".to_owned()));
    let mut random = Seeds::new(1).stream("nonces");
    let authenticator =
        Authenticator::new("example.com", Algorithm { hash: Hash::Md5, session: false }, &mut random);
    Registry {
        users: Users::Known(users.collect()),
        authenticator: Some(authenticator),
        ..Registry::new(domain, 1000)
    }
}

#[test]
fn users_register_with_their_passwords_and_no_others() {
    let server = Running::start(|domain| Registrar::new(registry(domain), 10_000, timing()), 0);
    let passwords = Directory::Fixed(b"secret"[..].into());
    let order = LoadOrder { passwords: passwords.clone(), ..order(server.address, Work::Register, 40) };
    let report = carried_out(&order);
    assert_all_well(&report, What::Register, 40);
    assert_eq!((report.challenges, report.delay(Delay::Registration).unwrap().n), (40, 40));
    for work in [Work::ReRegister, Work::Unregister] {
        let order = LoadOrder { work, ..order.clone() };
        assert_all_well(&carried_out(&order), work.what(), 40);
    }
    let wrong = LoadOrder { passwords: Directory::Fixed(b"wrong"[..].into()), ..order.clone() };
    let report = carried_out(&wrong);
    let failure = &report.failures[0];
    assert_eq!((failure.kind, failure.count, report.ratios.ira), ("authentication", 40, Some(0.0)));
    let unprepared = LoadOrder { work: Work::ReRegister, ..wrong };
    let error = run(&unprepared, &AtomicBool::new(false), |_| {}, |_| {}).unwrap_err();
    assert!(matches!(&error, LoadError::Preparation { why, .. } if why.contains("credentials")), "{error}");
}

/// Both sides are the tester's: what happens at who is called is measured there.
#[test]
fn calls_through_a_proxy_are_measured_at_both_ends() {
    let proxy = |domain| {
        Proxy::new(Registry::new(domain, 1000), true, 10_000, timing(), Seeds::new(1).stream("proxy"))
    };
    let server = Running::start(proxy, 0);
    let callee = CalleeOrder::Own { ringing: Duration::from_millis(2) };
    let report = carried_out(&LoadOrder { callee, ..order(server.address, CALL, 100) });
    assert_all_well(&report, What::Call, 100);
    assert_all_well(&report, What::Answer, 100);
    assert_eq!(report.delay(Delay::AnswerSignal).unwrap().n, 100);
    assert!(report.notes.is_empty());
    for (scenario, what) in
        [(Scenario::Busy, What::Busy), (Scenario::Cancel { after: Duration::from_millis(5) }, What::Cancel)]
    {
        let order = LoadOrder { callee, ..order(server.address, Work::Call(scenario), 30) };
        let report = carried_out(&order);
        assert_all_well(&report, what, 30);
        assert_all_well(&report, What::Answer, 30);
    }
}

/// Peers whose registrations last a second are called for two and a half, and are gone when it is over.
#[test]
fn registrations_are_kept_alive_and_taken_back() {
    let proxy = |domain| {
        let policy = Policy { least: Duration::from_secs(1), ..Policy::default() };
        let registry = Registry { policy, ..Registry::new(domain, 1000) };
        Proxy::new(registry, true, 10_000, timing(), Seeds::new(1).stream("proxy"))
    };
    let server = Running::start(proxy, 0);
    let order = LoadOrder {
        callee: CalleeOrder::Own { ringing: Duration::ZERO },
        pace: Pace::Open(Arrivals::at(20.0, Gaps::Constant)),
        expires: 1,
        ..order(server.address, CALL, 50)
    };
    let report = carried_out(&order);
    assert_all_well(&report, What::Call, 50);
    let renewed = report.outcome(What::Renew).unwrap();
    assert!(renewed.succeeded >= 40 && renewed.failed == 0, "{renewed:?}");
    // Nobody is there any more: the same users are called without peers, and not found.
    let foreign = LoadOrder { callee: CalleeOrder::Foreign, ..order };
    let failures = carried_out(&foreign).failures;
    let status = failures.iter().all(|failure| failure.kind == "status");
    assert_eq!(
        (status, failures.iter().map(|failure| failure.count).sum::<u64>()),
        (true, 50),
        "{failures:?}"
    );
}

#[test]
fn a_load_that_is_interrupted_tells_what_it_has_begun() {
    let server = Running::answering(Answer::Accept(Duration::ZERO));
    let stop = Arc::new(AtomicBool::new(false));
    let ender = Arc::clone(&stop);
    let order = order(server.address, CALL, 100_000);
    let report = run(&order, &stop, |_| {}, move |_| ender.store(true, Ordering::Relaxed)).unwrap();
    assert!(report.interrupted && report.outcome(What::Call).unwrap().succeeded > 0);
}

#[test]
fn a_port_that_is_taken_is_refused() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let local_port = taken.local_addr().unwrap().port();
    let order = LoadOrder { local_port, shards: 1, ..order(taken.local_addr().unwrap(), CALL, 1) };
    let error = run(&order, &AtomicBool::new(false), |_| {}, |_| {}).unwrap_err();
    assert!(matches!(&error, LoadError::Socket(_)) && error.to_string().contains("bind"), "{error}");
}

/// The tester against itself: what it is measured by before any server is.
#[test]
fn the_tester_answers_itself() {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop = &stop;
        let (told, heard) = std::sync::mpsc::channel();
        let answering = scope.spawn(move || {
            let local = "127.0.0.1:0".parse().unwrap();
            answer(local, Duration::from_millis(1), |at| told.send(at).unwrap(), stop)
        });
        let order = order(heard.recv().unwrap(), CALL, 100);
        let order = LoadOrder { timing: Timing::default(), ..order };
        let report = run(&order, &AtomicBool::new(false), |_| {}, |_| {});
        // Before anything can go wrong here: a scope waits for its threads.
        stop.store(true, Ordering::Relaxed);
        let (report, answered) = (report.unwrap(), answering.join().unwrap().unwrap());
        assert_all_well(&report, What::Call, 100);
        assert_eq!(report.delay(Delay::Connection).unwrap().n, 100);
        assert_eq!((answered.calls, answered.failed, answered.refused), (100, 0, 0));
    });
}

/// A peer that nobody here wrote.
#[test]
fn sipp_answers_calls() {
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let arguments = format!("-sn uas -i 127.0.0.1 -p {port} -nostdin");
    let child = Command::new("sipp")
        .args(arguments.split(' '))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else {
        eprintln!("skipped: sipp is not installed");
        return;
    };
    let target = SocketAddr::from(([127, 0, 0, 1], port));
    // Until it listens INVITEs are sent again.
    let order = LoadOrder { timing: Timing::default(), ..order(target, CALL, 200) };
    let report = run(&order, &AtomicBool::new(false), |_| {}, |_| {});
    child.kill().unwrap();
    child.wait().unwrap();
    assert_all_well(&report.unwrap(), What::Call, 200);
}
