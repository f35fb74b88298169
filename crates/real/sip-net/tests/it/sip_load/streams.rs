//! Loads over TCP and TLS.

use netrig_sip::settings::Connections;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use netrig_core::Duration;
use netrig_host::tls::{self, Identity, Trust};
use netrig_sip::index::Delay;
use netrig_sip::load::{Arrivals, CalleeOrder, Gaps, Pace, Scenario, What, Work};
use netrig_sip::server::{Answer, Role};
use netrig_sip_net::load::{Carrier, LoadOrder, LoadReport, LoadTls, run};
use netrig_sip_net::server::{Limits, SocketsOrder, Tally};
use rustls::RootCertStore;

use super::{CALL, answer_itself, assert_all_well, carried_out, manners, order, ordered, with};
use crate::it::sip_server::{Running, sockets};

const EACH: [Connections; 3] = [Connections::One, Connections::PerUser, Connections::PerAttempt];

/// TCP and TLS at ports that the system chooses.
const STREAMS: [&str; 2] = ["tcp:127.0.0.1:0", "tls:127.0.0.1:0"];

/// TLS to the server without a check of its certificate, and TLS for connections that the server opens.
fn in_tls(connecting: Connections) -> Carrier {
    let own = Identity::self_signed(vec!["127.0.0.1".into()]).unwrap();
    let client = tls::client(&Trust::Anyone, None).unwrap();
    let name = "127.0.0.1".try_into().unwrap();
    Carrier::Tls(connecting, LoadTls { client, name, server: Some(tls::server(&own, None).unwrap()) })
}

fn carriers(connecting: Connections) -> [Carrier; 2] {
    [Carrier::Tcp(connecting), in_tls(connecting)]
}

fn over(server: &Running, carrier: Carrier, work: Work, count: u64) -> LoadOrder {
    let target = server.address(carrier.transport());
    LoadOrder { carrier, ..order(target, work, count) }
}

fn started(role: Role) -> Running {
    Running::start(sockets(&STREAMS), ordered(role))
}

/// Numbers of connections that a server has accepted, and of connections that failed.
fn connections(tally: &Tally) -> (u64, u64) {
    (tally.connections.accepted, tally.connections.broken.0.values().sum())
}

#[test]
fn calls_share_connections_as_they_are_told_to() {
    for connecting in EACH {
        for carrier in carriers(connecting) {
            let server = started(Role::UserAgent(manners(Answer::Accept(Duration::from_millis(2)))));
            let report = carried_out(&over(&server, carrier, CALL, 120));
            assert_all_well(&report, What::Call, 120);
            // SIP retransmits nothing over a reliable transport.
            assert_eq!(report.repetitions.requests_again, 0);
            assert!(report.delay(Delay::Invite).unwrap().min_us >= 2000.0);
            // There are 2 threads, 40 users and 120 calls.
            let taken = match connecting {
                Connections::One => 2,
                Connections::PerUser => 40,
                Connections::PerAttempt => 120,
            };
            assert_eq!(connections(&server.finish()), (taken, 0), "{connecting:?}");
        }
    }
}

#[test]
fn users_register_along_connections_of_their_own() {
    for carrier in carriers(Connections::PerAttempt) {
        let server = started(Role::Registrar);
        let report = carried_out(&over(&server, carrier, Work::Register, 40));
        assert_all_well(&report, What::Register, 40);
        // Each user has one connection for the registration and one for its removal.
        assert_eq!(connections(&server.finish()), (80, 0));
    }
}

/// The server opens connections to the registered contacts of callees. Without Record-Route, further requests go
/// directly between caller and callee.
#[test]
fn peers_are_called_back() {
    for record_route in [true, false] {
        for carrier in carriers(Connections::PerUser) {
            let points = SocketsOrder { trust: Some(Trust::Anyone), ..sockets(&STREAMS) };
            let server = Running::start(points, ordered(Role::Proxy { record_route }));
            let callee = CalleeOrder::Own { ringing: Duration::from_millis(2) };
            let report = carried_out(&with(over(&server, carrier, CALL, 80), |plan| plan.callee = callee));
            assert_all_well(&report, What::Call, 80);
            assert_all_well(&report, What::Answer, 80);
            assert_eq!(report.delay(Delay::AnswerSignal).unwrap().n, 80);
        }
    }
}

fn only_failure(report: &LoadReport) -> (&str, &str, u64) {
    let [failure] = &report.failures[..] else { panic!("{:?}", report.failures) };
    (failure.kind.name(), &failure.why, failure.count)
}

#[test]
fn whoever_finds_nobody_fails_at_once_and_by_its_kind() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = nobody.local_addr().unwrap();
    drop(nobody);
    for connecting in EACH {
        let order = LoadOrder { carrier: Carrier::Tcp(connecting), ..order(target, CALL, 40) };
        let report = carried_out(&order);
        assert_eq!(only_failure(&report), ("connection", "the connection was refused", 40));
        // The refusal does not count as a limit of the tester: it had a port for each connection.
        let tester = &report.tester;
        assert_eq!((report.ratios.isa, tester.omitted, tester.unsent), (Some(1.0), 0, 0));
        assert!(
            report.faults.iter().all(|fault| !fault.contains("no port or descriptor")),
            "{:?}",
            report.faults
        );
    }
}

/// If the server accepts connections and resets them, the attempts fail immediately and not by a timer.
#[test]
fn whoever_is_cut_off_fails_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap();
    let cutting = std::thread::spawn(move || {
        for stream in listener.incoming().take(40) {
            // Closing a socket with unread data resets the connection.
            let stream = stream.unwrap();
            while stream.peek(&mut [0]).unwrap() == 0 {}
        }
    });
    let order = LoadOrder { carrier: Carrier::Tcp(Connections::PerAttempt), ..order(target, CALL, 40) };
    let report = carried_out(&order);
    cutting.join().unwrap();
    assert_eq!(only_failure(&report), ("connection", "the connection was reset", 40));
    // 64·T1 would be 3.2 s.
    assert!(report.seconds.len() < 3, "{} s", report.seconds.len());
}

#[test]
fn whoever_does_not_trust_the_server_says_nothing_to_it() {
    let server = started(Role::UserAgent(manners(Answer::Accept(Duration::ZERO))));
    let Carrier::Tls(connecting, own) = in_tls(Connections::PerUser) else { panic!("it is TLS") };
    let nobody = Trust::Authorities(RootCertStore::empty().into());
    let tls = LoadTls { client: tls::client(&nobody, None).unwrap(), ..own };
    let report = carried_out(&over(&server, Carrier::Tls(connecting, tls), CALL, 40));
    let why = "the TLS handshake failed: the server's certificate is not signed by a trusted authority";
    assert_eq!(only_failure(&report), ("connection", why, 40));
}

/// The failure names the error in the certificate, or the alert.
#[test]
fn a_failure_of_tls_names_its_cause() {
    let identity = Identity::self_signed(vec!["right.test".into()]).unwrap();
    let mut own = RootCertStore::empty();
    own.add(identity.certificate().to_vec().into()).unwrap();
    let own = Arc::new(own);
    let client = tls::client(&Trust::Authorities(own.clone()), None).unwrap();
    let points = |clients| SocketsOrder { identity: Some(identity.clone()), clients, ..sockets(&STREAMS) };
    let role = || ordered(Role::UserAgent(manners(Answer::Accept(Duration::ZERO))));
    for (server, name, why) in [
        (
            Running::start(points(None), role()),
            "wrong.test",
            "the server's certificate is not for the name of the target",
        ),
        (
            Running::start(points(Some(own)), role()),
            "right.test",
            "the server sent the alert CertificateRequired",
        ),
    ] {
        let tls = LoadTls { client: client.clone(), name: name.try_into().unwrap(), server: None };
        let report = carried_out(&over(&server, Carrier::Tls(Connections::PerUser, tls), CALL, 40));
        let why = format!("the TLS handshake failed: {why}");
        assert_eq!(only_failure(&report), ("connection", &*why, 40));
    }
}

/// If the server dies during calls, they fail because their connections are lost. This does not count as a limit of the
/// tester.
#[test]
fn a_server_that_dies_is_not_the_testers_limit() {
    for connecting in EACH {
        let mut server = Some(started(Role::Proxy { record_route: true }));
        let callee = CalleeOrder::Own { ringing: Duration::from_millis(300) };
        let target = server.as_ref().unwrap().address(netrig_sip::header::Transport::Tcp);
        let order = LoadOrder { carrier: Carrier::Tcp(connecting), ..order(target, CALL, 400) };
        let order = with(order, |plan| plan.callee = callee);
        let report = run(&order, &AtomicBool::new(false), |_| {}, |_, _| drop(server.take())).unwrap();
        let calls = report.outcome(What::Call).unwrap();
        assert!(calls.counts.succeeded > 0 && calls.counts.failed > 100 && calls.open == 0, "{calls:?}");
        assert!(
            report.failures.iter().any(|failure| failure.kind.name() == "connection"),
            "{:?}",
            report.failures
        );
        assert_eq!((report.tester.unsent, report.tester.dropped, report.tester.omitted), (0, 0, 0));
    }
}

/// If the server closes a connection between two calls, the next call opens a new one.
#[test]
fn a_connection_that_was_closed_is_opened_again() {
    let limits = Limits { idle: Duration::from_millis(300), ..Limits::default() };
    let role = Role::UserAgent(manners(Answer::Accept(Duration::ZERO)));
    let server = Running::start(SocketsOrder { limits, ..sockets(&STREAMS) }, ordered(role));
    let pace = Pace::Open(Arrivals::at(0.5, Gaps::Constant));
    let work = Work::Call(Scenario::Options);
    let order = LoadOrder { shards: 1, ..over(&server, Carrier::Tcp(Connections::One), work, 3) };
    let order = with(order, |plan| plan.pace = pace);
    assert_all_well(&carried_out(&order), What::Options, 3);
    assert_eq!(connections(&server.finish()).0, 3);
}

#[test]
fn the_tester_answers_itself_along_connections() {
    for connecting in EACH {
        let change = |order| LoadOrder { carrier: Carrier::Tcp(connecting), ..order };
        answer_itself(Carrier::Tcp(Connections::One), "[::1]:0", change);
    }
}
