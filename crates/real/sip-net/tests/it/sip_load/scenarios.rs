//! Scenarios beyond the plain call over real sockets: with netrig's proxy between caller and callee, with its user
//! agent, and with SIPp.

use netrig_sip::settings::Connections;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use netrig_core::{Duration, SpanDistribution};
use netrig_sip::header::Transport;
use netrig_sip::index::Delay;
use netrig_sip::load::{Arrivals, CalleeOrder, Gaps, Pace, Portion, Scenario, What, Work};
use netrig_sip::server::{Answer, AnsweringPolicy, ProgressResponse, Role};
use netrig_sip::{Status, transaction::Timing};
use netrig_sip_net::load::{Carrier, LoadOrder, Reconnecting, run};
use netrig_test_support::{has, skip_unless};

use super::{
    CALL, UDP, address, answering, assert_all_well, carried_out, manners, order, ordered, sipp, with,
};
use crate::it::sip_server::{Running, sockets};

const HOLD: Duration = Duration::from_millis(30);

const SUBSCRIBE: Scenario = Scenario::Subscribe { hold: HOLD, expires: 60 };

/// Scenarios, each with a delay that only this scenario has, if there is one.
const ANSWERED: [(Scenario, Option<Delay>); 5] = [
    (Scenario::EarlyMedia { hold: HOLD }, None),
    (Scenario::DelayedOffer { hold: HOLD }, None),
    (Scenario::Reinvite { hold: HOLD }, Some(Delay::Reinvite)),
    (Scenario::Prack { hold: HOLD }, Some(Delay::Prack)),
    (SUBSCRIBE, Some(Delay::Notification)),
];

fn proxy() -> Running {
    Running::start(sockets(&UDP), ordered(Role::Proxy { record_route: true }))
}

fn own(ringing: u64) -> CalleeOrder {
    CalleeOrder::Own { ringing: Duration::from_millis(ringing) }
}

#[test]
fn through_a_proxy_both_sides_keep_to_the_rules() {
    let server = proxy();
    for (scenario, delay) in ANSWERED {
        let order = with(order(address(&server), Work::Call(scenario), 40), |plan| plan.callee = own(3));
        let report = carried_out(&order);
        assert_all_well(&report, scenario.what(), 40);
        let far = if scenario == SUBSCRIBE { What::Notify } else { What::Answer };
        assert_all_well(&report, far, 40);
        if let Some(delay) = delay {
            assert_eq!(report.delay(delay).unwrap().n, 40, "{delay:?}");
        }
    }
}

#[test]
fn a_user_agent_keeps_to_the_rules() {
    let early = |reliable| {
        let media = ProgressResponse { after: Duration::ZERO, status: Status::SESSION_PROGRESS, media: true };
        let manners = manners(Answer::Accept(Duration::from_millis(5)));
        let manners = AnsweringPolicy { progress: vec![media], reliable, ..manners };
        Running::start(sockets(&UDP), ordered(Role::UserAgent(manners)))
    };
    for (scenario, server) in [
        (Scenario::EarlyMedia { hold: HOLD }, early(false)),
        (Scenario::Prack { hold: HOLD }, early(true)),
        (Scenario::DelayedOffer { hold: HOLD }, answering(Answer::Accept(Duration::ZERO))),
        (Scenario::Reinvite { hold: HOLD }, answering(Answer::Accept(Duration::ZERO))),
    ] {
        let report = carried_out(&order(address(&server), Work::Call(scenario), 30));
        assert_all_well(&report, scenario.what(), 30);
    }
    // This server rings without early media, and sends 180 reliably only if that is requested.
    let server = answering(Answer::Accept(Duration::from_millis(2)));
    let report = carried_out(&order(address(&server), Work::Call(Scenario::EarlyMedia { hold: HOLD }), 10));
    assert_eq!(
        (report.failures[0].kind.name(), &*report.failures[0].why),
        ("missing", "without early media")
    );
}

/// The proxy forks a call to three contacts. Two of them answer; the caller keeps one dialog. The branch to the third
/// is cancelled.
#[test]
fn a_forked_call_keeps_one_dialog() {
    let server = proxy();
    let forked = |scenario| {
        let order = with(order(address(&server), Work::Call(scenario), 30), |plan| {
            (plan.callee, plan.options.contacts) = (own(0), 3);
        });
        let report = carried_out(&order);
        assert_all_well(&report, scenario.what(), 30);
        assert_all_well(&report, What::Answer, 90);
        report
    };
    let report = forked(Scenario::Fork { hold: HOLD });
    assert_eq!((report.tolerated.surplus, report.delay(Delay::AnswerSignal).unwrap().n), (30, 60));
    // In another scenario only one contact answers.
    let report = forked(Scenario::Call { hold: HOLD });
    assert_eq!((report.tolerated.surplus, report.delay(Delay::AnswerSignal).unwrap().n), (0, 30));
    // Each contact sends several provisional responses, and the proxy forwards all of them.
    let order = with(order(address(&server), CALL, 20), |plan| {
        (plan.callee, plan.options.contacts, plan.options.provisionals) = (own(40), 2, 4);
    });
    assert_all_well(&carried_out(&order), What::Call, 20);
}

/// Each scenario has its own row. The same arrivals start the same scenarios with one thread and with two.
#[test]
fn a_mix_is_the_same_for_any_number_of_threads() {
    let server = proxy();
    let wait = Duration::from_millis(5);
    let portion = |work, share| Portion { work, share };
    let mix = vec![
        portion(CALL, 0.5),
        portion(Work::Call(Scenario::Busy), 0.2),
        portion(Work::Call(Scenario::NoAnswer { patience: wait }), 0.1),
        portion(Work::Call(Scenario::Cancel { after: wait }), 0.1),
        portion(Work::Register, 0.1),
    ];
    let begun = |shards| {
        let order = with(order(address(&server), CALL, 200), |plan| {
            (plan.callee, plan.mix) = (own(2), mix.clone());
            plan.hold = Some(SpanDistribution::Exponential(Duration::from_millis(20)));
        });
        let report = carried_out(&LoadOrder { shards, ..order });
        let whats = [What::Call, What::Busy, What::NoAnswer, What::Cancel, What::Register];
        let rows = whats
            .map(|what| report.outcome(what).map_or((0, 0), |row| (row.counts.begun, row.counts.succeeded)));
        assert!(
            rows.iter().all(|(begun, succeeded)| begun == succeeded && *begun > 0),
            "{:?}",
            report.failures
        );
        assert_eq!(rows.iter().map(|(begun, _)| begun).sum::<u64>(), 200);
        assert!((report.per_user_and_hour * 40.0 - report.per_hour).abs() < 1e-6 * report.per_hour);
        rows
    };
    assert_eq!(begun(1), begun(2));
}

/// If a server is dead or full, or no server listens at an address, the tester tries the next server, whose delays are
/// reported separately.
#[test]
fn the_next_server_takes_over_from_one_that_is_gone() {
    let dead = UdpSocket::bind("127.0.0.1:0").unwrap();
    let full = answering(Answer::Refuse(Duration::ZERO, Status::SERVICE_UNAVAILABLE));
    let server = answering(Answer::Accept(Duration::ZERO));
    for (first, least) in [(dead.local_addr().unwrap(), 3_200_000.0), (address(&full), 0.0)] {
        for (work, what) in [(CALL, What::Call), (Work::Call(Scenario::Options), What::Options)] {
            // The full server refuses only calls, not OPTIONS.
            if least == 0.0 && what == What::Options {
                continue;
            }
            let order = LoadOrder { others: vec![address(&server)], ..order(first, work, 20) };
            let report = carried_out(&order);
            assert_all_well(&report, what, 20);
            let took = report.delay(Delay::FailOver).unwrap();
            assert!(took.n == 20 && took.min_us >= least, "{took:?}");
            assert_eq!(report.tolerated.failed_over, 20);
            assert!(report.delay(Delay::Connection).is_none() && report.delay(Delay::Options).is_none());
        }
    }
    // Registrations over connections that no server accepts.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let registrar = Running::start(sockets(&["tcp:127.0.0.1:0"]), ordered(Role::Registrar));
    for connecting in [Connections::One, Connections::PerUser, Connections::PerAttempt] {
        let others = vec![registrar.address(Transport::Tcp)];
        let domain = others[0].to_string();
        let order = with(order(nobody, Work::Register, 30), |plan| plan.domain = Some(domain));
        let report = carried_out(&LoadOrder { others, carrier: Carrier::Tcp(connecting), ..order });
        assert_all_well(&report, What::Register, 30);
        assert_eq!(report.tolerated.failed_over, 30);
    }
    // All servers are dead.
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    let order = order(dead.local_addr().unwrap(), CALL, 5);
    let report = carried_out(&LoadOrder { others: vec![other.local_addr().unwrap()], ..order });
    assert_eq!(
        (report.outcome(What::Call).unwrap().counts.failed, report.failures[0].kind.name()),
        (5, "timer")
    );
}

/// Over UDP, ICMP reports the missing listener long before a timer expires. The tester then tries the next server.
#[test]
fn a_datagram_that_reaches_nobody_is_a_failure_at_once() {
    let registrar = Running::start(sockets(&UDP), ordered(Role::Registrar));
    let callee = answering(Answer::Accept(Duration::ZERO));
    for (work, what, other) in [(CALL, What::Call, &callee), (Work::Register, What::Register, &registrar)] {
        let gone = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        // Timers B and F would be 32 s.
        let patient = |order: LoadOrder| {
            with(order, |plan| {
                (plan.timing, plan.domain) = (Timing::default(), Some(address(other).to_string()));
            })
        };
        let report = carried_out(&patient(order(gone, work, 20)));
        let [failure] = &report.failures[..] else { panic!("{:?}", report.failures) };
        assert_eq!(
            (failure.kind.name(), failure.count, report.repetitions.requests_again),
            ("unreachable", 20, 0)
        );
        assert_eq!(report.tester.unsent, 0);
        let others = vec![address(other)];
        let report = carried_out(&LoadOrder { others, ..patient(order(gone, work, 20)) });
        assert_all_well(&report, what, 20);
        assert_eq!((report.tolerated.failed_over, report.repetitions.requests_again), (20, 0));
    }
}

/// If the server dies during a load, the load continues or ends, as configured.
#[test]
fn a_load_ends_with_its_server_if_it_is_told_to() {
    for ends in [false, true] {
        let server = answering(Answer::Accept(Duration::ZERO));
        let quick = Timing { t1: Duration::from_millis(5), ..super::timing() };
        let order = with(order(address(&server), CALL, 10_000), |plan| {
            (plan.timing, plan.duration) = (quick, Duration::from_secs(5));
            plan.pace = Pace::Open(Arrivals::at(50.0, Gaps::Constant));
        });
        let order = LoadOrder { ends_without_server: ends, ..order };
        let mut running = Some(server);
        let report = run(&order, &AtomicBool::new(false), |_| {}, |_, _| running = None).unwrap();
        let row = report.outcome(What::Call).unwrap();
        assert!(row.counts.succeeded > 0 && row.counts.failed > 0, "{row:?}");
        assert_eq!(row.counts.begun < 200, ends, "{row:?}");
        assert_eq!(
            report.notes.iter().any(|note| note.contains("nothing was received from the server")),
            ends
        );
    }
}

/// If the server closes its connections, the next request opens another connection or fails, as configured.
#[test]
fn connections_are_opened_again_as_they_are_told_to() {
    for (reconnecting, again) in [
        (Reconnecting::default(), true),
        (Reconnecting::Never, false),
        (Reconnecting::After(Duration::from_secs(60)), false),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target: SocketAddr = listener.local_addr().unwrap();
        let (taken, done) = (AtomicU64::new(0), AtomicBool::new(false));
        listener.set_nonblocking(true).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    if let Ok((mut connection, _)) = listener.accept() {
                        taken.fetch_add(1, Ordering::Relaxed);
                        let _ = connection.read(&mut [0; 64]);
                    }
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            });
            let order = LoadOrder { shards: 1, ..order(target, CALL, 40) };
            let order = LoadOrder { reconnecting, carrier: Carrier::Tcp(Connections::One), ..order };
            let report = run(&order, &AtomicBool::new(false), |_| {}, |_, _| {});
            done.store(true, Ordering::Relaxed);
            let report = report.unwrap();
            assert_eq!(report.outcome(What::Call).unwrap().counts.failed, 40);
            assert!(
                report.failures.iter().all(|failure| failure.kind.name() == "connection"),
                "{:?}",
                report.failures
            );
        });
        assert_eq!(taken.load(Ordering::Relaxed) > 1, again, "{reconnecting:?}");
    }
}

/// SIPp answers the calls of these scenarios, and ends with status 0 only if each message was as expected.
#[test]
fn sipp_sees_what_it_expects() {
    skip_unless!(has("sipp"));
    for (name, scenario) in [
        ("reliable", Scenario::Prack { hold: HOLD }),
        ("delayed", Scenario::DelayedOffer { hold: HOLD }),
        ("held", Scenario::Reinvite { hold: HOLD }),
        ("notifier", SUBSCRIBE),
    ] {
        let file = format!("{}/tests/it/sip_load/sipp/{name}.xml", env!("CARGO_MANIFEST_DIR"));
        let (mut child, target) = sipp(&["-sf", &file, "-m", "50", "-timeout", "60"]);
        let order = with(order(target, Work::Call(scenario), 50), |plan| {
            plan.timing = Timing::default();
        });
        let report = run(&order, &AtomicBool::new(false), |_| {}, |_, _| {});
        let Ok(report) = report else {
            child.kill().unwrap();
            panic!("{report:?}");
        };
        let status = child.wait().unwrap();
        assert_all_well(&report, scenario.what(), 50);
        assert!(status.success(), "{name}: {status}");
    }
}
