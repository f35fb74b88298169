//! A client and a server of the meter, over loopback.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as StdDuration;

use netrig_bulk::LimitingFactor;
use netrig_core::{Duration, Rate};
use netrig_probe::stamp::HmacKey;
use netrig_speed::admission::AdmissionLimits;
use netrig_speed::measure::{MeasureOrder, MeasureProgress, MeasureTask, SpeedError, SpeedReport, measure};
use netrig_speed::protocol::{
    Carrier, DataDirection, DatagramLoad, EchoDatagram, MeasurementPhase, Preamble, SessionToken,
};
use netrig_speed::serve::{ClientProtocol, Server, ServerOrder};

use crate::common;

const KEY: &[u8] = b"0123456789abcdef";

fn key() -> Option<HmacKey> {
    HmacKey::new(KEY)
}

/// Runs a server until `with`, which gets its address, returns.
fn serving<T>(
    order: impl FnOnce(ServerOrder) -> ServerOrder,
    with: impl FnOnce(SocketAddr, &Server) -> T,
) -> T {
    common::serving(order(ServerOrder { keys: key().into(), ..common::order(4) }), with)
}

const fn phase(carrier: Carrier) -> MeasurementPhase {
    MeasurementPhase::new(carrier, Duration::from_millis(600), Duration::from_millis(50))
}

const fn tcp(way: DataDirection, streams: u16) -> Carrier {
    Carrier::Tcp { way, streams, congestion: None }
}

fn order(server: SocketAddr, tasks: Vec<MeasurementPhase>) -> MeasureOrder {
    MeasureOrder {
        call: common::call_order(server, key()),
        idle: Duration::from_millis(200),
        tasks: tasks.into_iter().map(MeasureTask::Carry).collect(),
        after: Duration::from_millis(100),
        echo_every: Duration::from_millis(10),
        responsive: true,
    }
}

fn measured(server: SocketAddr, phases: Vec<MeasurementPhase>) -> Result<SpeedReport, SpeedError> {
    measure(order(server, phases), &AtomicBool::new(false), &mut |_| {})
}

/// The loopback addresses of this host: that of IPv4, and that of IPv6 if the host has it.
fn loopback_addresses() -> Vec<IpAddr> {
    let v6 = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    if !v6 {
        eprintln!("skipped: needs IPv6 on loopback");
    }
    [Ipv4Addr::LOCALHOST.into()].into_iter().chain(v6.then_some(Ipv6Addr::LOCALHOST.into())).collect()
}

/// Runs a measurement with a server at this address. Returns its report.
fn measured_at(listen: IpAddr, phases: Vec<MeasurementPhase>) -> SpeedReport {
    let report = serving(
        |order| ServerOrder { settings: common::listening_at(listen), ..order },
        |server, _| measured(server, phases).unwrap(),
    );
    assert!(!report.partial);
    report
}

#[test]
fn connections_carry_data_each_way_and_both() {
    for listen in loopback_addresses() {
        let phases = vec![
            phase(tcp(DataDirection::Down, 1)),
            phase(tcp(DataDirection::Up, 4)),
            phase(tcp(DataDirection::Both, 2)),
        ];
        let report = measured_at(listen, phases);

        let ways: Vec<_> = report.phases.iter().map(|phase| phase.way).collect();
        assert_eq!(ways, [DataDirection::Down, DataDirection::Up, DataDirection::Down, DataDirection::Up]);
        for phase in &report.phases {
            let throughput = phase.throughput.unwrap_or_else(|| panic!("{phase:?}"));
            let layers = phase.layers.unwrap_or_else(|| panic!("{phase:?}"));
            assert!(
                throughput.bytes > 0 && layers.ip > layers.payload && layers.ethernet > layers.ip,
                "{phase:?}"
            );
            assert_eq!(phase.series.bytes.last(), Some(&throughput.bytes), "{phase:?}");
            let told = phase.series.connections.as_ref().unwrap_or_else(|| panic!("{phase:?}"));
            assert!(phase.loaded.is_some_and(|trips| trips.readings > 0 && trips.p50_s > 0.0), "{phase:?}");
            assert!(told.at_s.len() > 3 && told.cwnd.iter().any(Option::is_some), "{told:?}");
            assert!(phase.sender.segment.is_some_and(|segment| segment > 500), "{phase:?}");
        }
        // Echoes come back on the idle path and under load.
        assert!(report.idle.is_some_and(|idle| idle.sent > 5 && idle.lost == 0), "{:?}", report.idle);
        assert!(report.phases[0].delays.is_some_and(|delays| delays.p50_s.is_some_and(|took| took > 0.0)));
    }
}

#[test]
fn datagrams_are_counted_at_both_ends() {
    let udp = |way, load| phase(Carrier::Udp { way, size: 500, load });
    let fixed = DatagramLoad::Fixed { bits_per_s: 2_000_000 };
    let phases = vec![
        udp(DataDirection::Down, fixed),
        udp(DataDirection::Up, DatagramLoad::Poisson { bits_per_s: 2_000_000, seed: 3 }),
        udp(DataDirection::Both, fixed),
    ];
    let report = serving(|order| order, |server, _| measured(server, phases).unwrap());
    for phase in &report.phases {
        let (sent, came) = (phase.sender.datagrams.unwrap(), phase.receiver.datagrams.unwrap());
        assert!(sent.sent > 50, "{phase:?}");
        assert_eq!(came.received + came.lost, sent.sent, "{phase:?}");
        assert_eq!(phase.throughput.unwrap().bytes, 500 * came.received, "{phase:?}");
        assert_eq!(phase.series.bytes.last(), Some(&(500 * came.received)), "{:?}", phase.series);
        let added = phase.added_delay.unwrap_or_else(|| panic!("{phase:?}"));
        assert!(added.least_s >= 0.0 && added.mean_s > 0.0 && added.most_s > added.mean_s, "{added:?}");
        let told = phase.series.datagrams.as_ref().unwrap();
        assert_eq!((told.received.last(), told.lost.len()), (Some(&came.received), phase.series.at_s.len()));
        // Only a receiver of datagrams knows their jitter and their order.
        assert!(came.jitter_s > Some(0.0) && came.reordered.is_some(), "{came:?}");
        let receives_too = phase.carrier.way() == Some(DataDirection::Both);
        assert_eq!([sent.jitter_s.is_some(), sent.reordered.is_some()], [receives_too; 2], "{sent:?}");
    }
}

/// Associations work over IPv4 and IPv6. Each end uses one UDP socket.
#[test]
fn associations_carry_data_each_way_and_both() {
    for listen in loopback_addresses() {
        // If a busy machine loses a whole flight, it is sent again after RTO.Min, 1 s. Each half of the phase must be
        // longer than this.
        let sctp = |way, streams| MeasurementPhase {
            lasts_ns: 3_000_000_000,
            ..phase(Carrier::Sctp { way, streams, size: 1232 })
        };
        let phases =
            vec![sctp(DataDirection::Down, 1), sctp(DataDirection::Up, 3), sctp(DataDirection::Both, 2)];
        let report = measured_at(listen, phases);

        assert_eq!(report.phases.len(), 4);
        for phase in &report.phases {
            // A packet of 1232 B has a packet header of 12 B and a chunk header of 16 B.
            assert_eq!(phase.sender.segment, Some(1204), "{phase:?}");
            assert!(phase.throughput.unwrap_or_else(|| panic!("{phase:?}")).bytes > 0);
            let layers = phase.layers.unwrap();
            assert!((layers.transport / layers.payload - 1240.0 / 1204.0).abs() < 1e-9, "{layers:?}");
            let connections = phase.connections.unwrap_or_else(|| panic!("{phase:?}"));
            assert!(connections.cwnd.is_some() && connections.round_trip_s.is_some(), "{connections:?}");
        }
    }
}

/// A server with a rate limit reports the limit and applies it to connections and associations. The verdicts name the
/// server as the limit.
#[test]
fn who_is_held_to_a_rate_hears_that_it_is_the_servers() {
    let max_rate = Some(Rate::from_bits_per_s(40_000_000));
    let limits = |order: ServerOrder| {
        let limits = AdmissionLimits { sessions: 2, max_rate, ..order.limits };
        ServerOrder { limits, ..order }
    };
    let long = |carrier| MeasurementPhase { lasts_ns: 2_500_000_000, ..phase(carrier) };
    let tasks = vec![
        long(tcp(DataDirection::Down, 4)),
        long(tcp(DataDirection::Up, 4)),
        long(Carrier::Sctp { way: DataDirection::Down, streams: 2, size: 1232 }),
    ];
    let report = serving(limits, |server, _| measured(server, tasks).unwrap());
    assert_eq!(report.held_to, Some(20e6));
    for phase in &report.phases {
        let told = phase.throughput.unwrap_or_else(|| panic!("{phase:?}")).bits_per_s;
        assert!((18e6..23e6).contains(&told), "{told} {:?}", phase.carrier);
    }
    for verdict in &report.verdicts {
        assert!(matches!(verdict.limit, LimitingFactor::Server { .. }), "{verdict:?}");
    }
}

#[test]
fn who_has_not_the_key_measures_nothing() {
    serving(
        |order| order,
        |server, _| {
            let wrong = |key| {
                let mut order = order(server, Vec::new());
                order.call.key = key;
                measure(order, &AtomicBool::new(false), &mut |_| {}).unwrap_err().to_string()
            };
            assert!(wrong(None).contains("it requires a key"), "{}", wrong(None));
            assert!(wrong(HmacKey::new(b"another key of some length")).contains("its key is different"));
        },
    );
}

#[test]
fn a_server_for_anybody_must_be_told_so() {
    let order = ServerOrder { settings: common::listening_at(Ipv4Addr::UNSPECIFIED), ..common::order(1) };
    let error = Server::open(order).err().unwrap().to_string();
    assert!(error.starts_with("0.0.0.0 can be reached from other hosts: give a key"), "{error}");
}

/// The server serves one session at a time. The second client is informed of its position in the queue, and is served
/// after the first.
#[test]
fn who_comes_second_waits() {
    serving(
        |order| ServerOrder {
            limits: AdmissionLimits { sessions: 1, per_address: 1, ..order.limits },
            ..order
        },
        |server, tally| {
            let mut waited = Vec::new();
            std::thread::scope(|scope| {
                let first =
                    scope.spawn(|| measured(server, vec![phase(tcp(DataDirection::Down, 1))]).unwrap());
                while tally.tally().sessions(ClientProtocol::Netrig) == 0 {
                    std::thread::sleep(StdDuration::from_millis(1));
                }
                let second = order(server, vec![phase(tcp(DataDirection::Up, 1))]);
                let told = measure(second, &AtomicBool::new(false), &mut |progress| {
                    if let MeasureProgress::Waits { before, of } = progress {
                        waited.push((before, of));
                    }
                });
                assert!(!told.unwrap().partial);
                first.join().unwrap();
            });
            assert_eq!(waited.first(), Some(&(0, 1)));
        },
    );
}

#[test]
fn a_client_is_let_in_for_no_more_than_the_server_gives() {
    let rate = |mbit: u64| Some(Rate::from_bits_per_s(mbit * 1_000_000));
    serving(
        |order| ServerOrder { limits: AdmissionLimits { max_rate: rate(10), ..order.limits }, ..order },
        |server, _| {
            let mut order = order(server, Vec::new());
            order.call.rate = rate(11);
            let error = measure(order, &AtomicBool::new(false), &mut |_| {}).unwrap_err();
            assert!(error.to_string().contains("request a lower rate"), "{error}");
        },
    );
}

/// Other protocols, unknown tokens, and echo requests without a session get no answer. The server continues to serve
/// others.
#[test]
fn strangers_get_nothing() {
    use std::io::{Read as _, Write as _};
    serving(
        |order| order,
        |server, tally| {
            let preamble = Preamble { token: SessionToken([9; 16]), phase: 1, stream: 0 };
            for bytes in [&b"SSH-2.0-x\r\n"[..], &preamble.encode(), &[0x16, 3, 1, 0, 1, 0]] {
                let mut socket = TcpStream::connect(server).unwrap();
                socket.set_read_timeout(Some(StdDuration::from_secs(20))).unwrap();
                socket.write_all(bytes).unwrap();
                let mut answer = Vec::new();
                // The server closes the connection, perhaps with a TLS alert, but never sends data.
                let _ = socket.read_to_end(&mut answer);
                assert!(answer.len() < 64, "{answer:?}");
            }
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            socket.set_read_timeout(Some(StdDuration::from_millis(200))).unwrap();
            let echo = EchoDatagram { preamble, number: 0, sent_ns: 0, there_ns: [0; 2] };
            for bytes in [&echo.encode()[..], &preamble.encode(), b"x"] {
                socket.send_to(bytes, server).unwrap();
            }
            assert!(socket.recv(&mut [0; 100]).is_err(), "nobody answers them");
            assert!(!measured(server, vec![phase(tcp(DataDirection::Down, 1))]).unwrap().partial);
            assert_eq!(tally.tally().failures().values().sum::<u64>(), 3, "{:?}", tally.tally().failures());
        },
    );
}

#[test]
fn what_is_interrupted_is_told_as_partial() {
    serving(
        |order| order,
        |server, _| {
            let cancel = Arc::new(AtomicBool::new(false));
            let long = MeasurementPhase { lasts_ns: 60_000_000_000, ..phase(tcp(DataDirection::Down, 1)) };
            let mut readings = 0;
            let report = measure(order(server, vec![long]), &cancel, &mut |progress| {
                if matches!(progress, MeasureProgress::Arrived { .. }) {
                    readings += 1;
                    cancel.store(readings > 8, Ordering::Relaxed);
                }
            });
            let report = report.unwrap();
            assert!(report.partial && report.phases[0].throughput.is_some(), "{report:?}");
        },
    );
}
