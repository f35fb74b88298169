//! Associations of netrig's own SCTP in real time over the loopback interface: encapsulated in UDP and, if the tests
//! run as root, directly over IP.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration as StdDuration;

use netrig_agent::{
    CarrierOptions, EndOrder, EndReport, PreparedRun, RunOrder, Samples, SctpOptions, SctpPath, TimedControl,
};
use netrig_core::{Dscp, Duration, Endpoint as _, Instant, Seeds, Subject, quantity};
use netrig_host::{Clock, RunSignals};
use netrig_test_support::{skip_unless, skipped};
use netrig_traffic::FlowSide;
use netrig_transport::sctp::{Association, Config, Encapsulation, Endpoints, LocalDrop, PathAddresses, wire};
use netrig_transport::{Connection as _, Control, PathId, Payload, Profile};

use crate::it::common::{self, PATIENCE, SEED, carry_out, sum, values};

const SERVER_PORT: u16 = 5001;

/// A path between two addresses of this host. Each test uses another `number`, so that tests do not share addresses.
fn path(number: u8) -> SctpPath {
    let [client, server] = [1, 2].map(|end| [127, 132, number, end].into());
    SctpPath { name: format!("path {number}"), client, server }
}

fn config(encapsulation: Encapsulation) -> Config {
    // Loopback is faster than any real link, so only the receive window limits the amount of data in flight.
    Config { encapsulation, ..Config::of(Profile::Rfc) }
}

fn end(side: FlowSide, application: &str, options: &SctpOptions) -> EndOrder {
    let SctpPath { client, server, .. } = options.paths[0];
    let (carrier, server) = (CarrierOptions::Sctp(Box::new(options.clone())), (server, SERVER_PORT).into());
    EndOrder { client, ..common::end(side, application, carrier, server, PATIENCE) }
}

fn order(ends: Vec<EndOrder>) -> RunOrder {
    common::order(PATIENCE, ends)
}

/// Runs both ends until `done` returns true for the samples so far.
fn both(
    application: &str,
    [client, server]: [&SctpOptions; 2],
    done: impl Fn(&Samples) -> bool,
) -> (Vec<EndReport>, Samples) {
    let ends = vec![end(FlowSide::Client, application, client), end(FlowSide::Server, application, server)];
    carry_out(order(ends), done)
}

fn is_closed(samples: &Samples) -> bool {
    !values(samples, &quantity::CLOSED).is_empty()
}

/// Checks that 300,000 B in messages of 1000 B arrive, in packets of the lengths that RFC 9260 specifies.
fn a_transfer(encapsulation: Encapsulation, path: SctpPath) {
    let ip_header = if path.client.is_ipv4() { 20.0 } else { 40.0 };
    let application = r#"{ "bulk": { "bytes": "300 KB", "message": "1000 B" } }"#;
    let config = Config { bundling: false, ..config(encapsulation) };
    let options = SctpOptions { config, paths: vec![path], controls: vec![] };
    let (reports, samples) = both(application, [&options; 2], is_closed);
    let [client, server] = &reports[..] else { panic!("{reports:?}") };
    assert_eq!((client.connections, client.failed), (1, 0), "{client:?}");
    assert_eq!((server.connections, server.failed), (1, 0), "{server:?}");
    assert_eq!(sum(&samples, &quantity::OFFERED_BYTES), 300_000.0);
    assert_eq!(sum(&samples, &quantity::RECEIVED_BYTES), 300_000.0);
    assert_eq!(values(&samples, &quantity::CLOSED), [0.0]);
    assert_eq!(values(&samples, &quantity::ESTABLISHED).len(), 1);
    // IP header, SCTP common header, DATA chunk header, user data, and the UDP header if there is one.
    let packet = ip_header + 12.0 + 16.0 + 1000.0 + f64::from(encapsulation.header_len());
    let packets = sum(&samples, &quantity::DATA_PACKETS_RECEIVED);
    assert!(packets >= 300.0);
    assert_eq!(sum(&samples, &quantity::WIRE_BYTES), packets * packet);
    assert_eq!(sum(&samples, &quantity::DATA_PACKETS_SENT), packets);
    assert!(sum(&samples, &quantity::PACKETS_SENT) > packets);
    let report = server.sctp.as_ref().unwrap();
    assert!(report.lateness.count() as f64 >= packets && report.socket_dropped == 0);
}

#[test]
fn a_file_arrives_in_udp() {
    a_transfer(Encapsulation::Udp, path(1));
}

#[test]
fn a_file_arrives_over_ip_itself() {
    skip_unless!(may_open_raw_sockets());
    a_transfer(Encapsulation::Ip, path(2));
    // Both ends have the same address, so each end must select its packets by port.
    let [client, server] = [[0, 0, 0, 0, 0, 0, 0, 1].into(); 2];
    a_transfer(Encapsulation::Ip, SctpPath { name: "six".into(), client, server });
}

/// Whether this process may open raw sockets. If not, a message is printed.
fn may_open_raw_sockets() -> bool {
    let config = config(Encapsulation::Ip);
    let options = SctpOptions { config, paths: vec![path(9)], controls: vec![] };
    let application = r#"{ "bulk": { "bytes": "1 B" } }"#;
    let may = PreparedRun::prepare(order(vec![end(FlowSide::Server, application, &options)])).is_ok();
    if !may {
        skipped("raw sockets (CAP_NET_RAW)");
    }
    may
}

/// The first packet equals byte for byte the first packet of an association with the same random stream in virtual
/// time.
#[test]
fn tags_and_numbers_are_those_of_virtual_time() {
    let SctpPath { client: local, server: remote, .. } = path(3);
    let config = config(Encapsulation::Udp);
    let options = SctpOptions { config: config.clone(), paths: vec![path(3)], controls: vec![] };
    let endpoints = Endpoints {
        local_port: 49_152,
        remote_port: SERVER_PORT,
        primary: PathAddresses { local, remote },
        alternates: vec![],
        dscp: Dscp(10),
    };
    let random = Seeds::new(SEED).stream("flow/flow/client/connection/0");
    let mut twin = Association::new(config, &endpoints, random);
    twin.open(Instant::ZERO);
    let Payload::Sctp(init) = twin.poll_transmit(Instant::ZERO).unwrap().payload else { panic!("SCTP") };
    let peer = UdpSocket::bind((remote, Encapsulation::UDP_PORT)).unwrap();
    peer.set_read_timeout(Some(StdDuration::from_secs(20))).unwrap();
    let application = r#"{ "bulk": { "bytes": "1 B" } }"#;
    let run = PreparedRun::prepare(order(vec![end(FlowSide::Client, application, &options)])).unwrap();
    let signals = RunSignals::default();
    std::thread::scope(|scope| {
        scope.spawn(|| run.run(Clock::starting_in(Duration::ZERO), &signals, |_| {}).unwrap());
        let mut buffer = [0; 2000];
        let (len, from) = peer.recv_from(&mut buffer).unwrap();
        signals.end();
        assert_eq!(from, SocketAddr::new(local, Encapsulation::UDP_PORT));
        assert_eq!(&buffer[..len], wire::encode(&init));
    });
}

/// If the peer never answers, the association fails after the configured number of INIT retransmissions and their
/// timeouts.
#[test]
fn an_opening_that_nobody_answers_is_given_up_by_the_constants() {
    let SctpPath { server: remote, .. } = path(4);
    let silent = UdpSocket::bind((remote, Encapsulation::UDP_PORT)).unwrap();
    let ms = Duration::from_millis;
    let config = Config {
        rto_initial: ms(20),
        rto_min: ms(20),
        rto_max: ms(60_000),
        init_max_retrans: 3,
        ..config(Encapsulation::Udp)
    };
    let options = SctpOptions { config, paths: vec![path(4)], controls: vec![] };
    let application = r#"{ "bulk": { "bytes": "1 KB" } }"#;
    let (reports, samples) = carry_out(order(vec![end(FlowSide::Client, application, &options)]), is_closed);
    assert_eq!((reports[0].connections, reports[0].failed), (1, 1));
    let closed = samples.iter().find(|(_, sample)| sample.quantity.name == "closed").unwrap().1;
    // Not before 20 + 40 + 80 + 160 ms. The value 2 stands for a timeout.
    assert!(closed.at >= Instant::ZERO + ms(300), "{}", closed.at);
    assert_eq!(closed.value, 2.0);
    silent.set_nonblocking(true).unwrap();
    let mut buffer = [0; 2000];
    let inits = std::iter::from_fn(|| silent.recv(&mut buffer).ok()).count();
    assert_eq!(inits, 4, "INIT and three retransmissions");
}

/// The times at which the sender changed the path for new data, each with the index of the new path.
fn data_paths(samples: &Samples) -> Vec<(Instant, f64)> {
    let moments = samples.iter().filter(|(_, sample)| sample.quantity.name == "data_path");
    moments.map(|(_, sample)| (sample.at, sample.value)).collect()
}

#[test]
fn the_user_and_the_interfaces_choose_the_path_at_their_times() {
    let ms = Duration::from_millis;
    let config = Config { local_drop: LocalDrop::FailOver, ..config(Encapsulation::Udp) };
    let at = |at: u64, control| TimedControl { at_ns: ms(at).as_nanos(), control };
    let controls = vec![at(150, Control::SetPrimary(PathId(1))), at(300, Control::InterfaceDown(PathId(1)))];
    let controlled = SctpOptions { config, paths: vec![path(5), path(6)], controls };
    let plain = SctpOptions { controls: vec![], ..controlled.clone() };
    let application =
        r#"{ "web": { "interarrival": { "constant": "5 ms" }, "size": { "constant": "500 B" } } }"#;
    let done = |samples: &Samples| data_paths(samples).len() >= 2;
    let (_, samples) = both(application, [&controlled, &plain], done);
    let [(first, to_second), (second, to_first), ..] = data_paths(&samples)[..] else {
        panic!("{:?}", data_paths(&samples))
    };
    assert_eq!((to_second, to_first), (1.0, 0.0));
    assert!(first >= Instant::ZERO + ms(150) && second >= Instant::ZERO + ms(300));
    let second_path = |(subject, _): &&_| *subject == Subject::Path(0, 1);
    let cwnd = samples.iter().filter(second_path).filter(|(_, sample)| sample.quantity.name == "cwnd");
    assert!(cwnd.count() > 0, "each path is traced");
    assert!(values(&samples, &quantity::OBJECTS_RECEIVED).len() > 10);
}

#[test]
fn constants_survive_the_control_protocol() {
    for profile in Profile::ALL {
        let config = Config { rto_min: Duration::from_nanos(1_234_567), ..Config::of(profile) };
        let options = SctpOptions { config, paths: vec![path(7)], controls: vec![] };
        let back: SctpOptions = serde_json::from_str(&serde_json::to_string(&options).unwrap()).unwrap();
        assert_eq!(back, options);
    }
}

#[test]
fn an_association_needs_a_path_and_carries_no_datagrams() {
    let options = SctpOptions { config: config(Encapsulation::Udp), paths: vec![path(8)], controls: vec![] };
    let why = |order| PreparedRun::prepare(order).err().unwrap().to_string();
    let datagrams = r#"{ "cbr": { "interval": "1 ms", "size": "100 B" } }"#;
    assert!(why(order(vec![end(FlowSide::Client, datagrams, &options)])).contains("sends datagrams"));
    let mut pathless = end(FlowSide::Client, r#"{ "bulk": {} }"#, &options);
    pathless.carrier = CarrierOptions::Sctp(Box::new(SctpOptions { paths: vec![], ..options }));
    assert!(why(order(vec![pathless])).contains("no path"));
}
