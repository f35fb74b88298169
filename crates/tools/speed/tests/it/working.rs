//! Tests of the measurements under load: delays in each direction, and responsiveness.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use netrig_core::Duration;
use netrig_host::socket::TcpOptions;
use netrig_host::tls::{self, Trust};
use netrig_speed::measure::{CallOrder, Latency, MeasureOrder, MeasureTask, Probing, SpeedCall, measure};
use netrig_speed::meter::{OneWay, clocks};
use netrig_speed::protocol::{Carrier, DataDirection, MeasurementPhase};
use netrig_speed::responsiveness::Responsiveness;
use netrig_speed::serve::{ClientProtocol, Server};

use crate::common;

/// Runs a server until `with`, which gets its address, returns.
fn serving(with: impl FnOnce(SocketAddr, &Server)) {
    common::serving(common::order(1), with);
}

#[test]
fn new_connections_and_loaded_ones_respond_while_data_flows() {
    serving(|server, has| {
        let tls = tls::client(&Trust::Anyone, None).unwrap();
        let name = server.ip().into();
        let order = CallOrder { server, name, tls, key: None, rate: None, options: TcpOptions::default() };
        let mut call = SpeedCall::connect(order.clone(), &AtomicBool::new(false), &mut |_, _| {}).unwrap();
        assert!(call.reads_our_clock(), "both are this process");
        let local = SocketAddr::new(call.ends()[0].ip(), 0);
        let latency = Latency::begin(local, server, call.budget().token, Duration::from_millis(10)).unwrap();
        let probing = Probing::begin(order).unwrap();
        probing.carries(DataDirection::Down, [1e9; 2]);
        let carrier = Carrier::Tcp { way: DataDirection::Down, streams: 2, congestion: None };
        let phase = MeasurementPhase::new(carrier, Duration::from_secs(2), Duration::from_millis(100));
        let carriage = call.carry(phase, &AtomicBool::new(false), &mut |_| {}).unwrap();
        let (probes, rounds) = (probing.end().unwrap(), latency.end().unwrap());
        let one_clock = call.reads_our_clock();
        call.close();
        let told = Responsiveness::of_phase(&probes, &carriage.far.counted, carriage.span, 0.2).unwrap();
        assert!(told.rpm.both.is_some() && told.rpm_p50.both.is_some(), "{told:?}");
        assert_eq!(told.connect.delays.lost, 0, "{told:?}");
        assert!(told.loaded.is_some_and(|loaded| loaded.delays.sent > 10), "{told:?}");
        // Each part takes time. The server does not count a probe as a session or as a failure.
        for part in [told.connect, told.secure, told.answer] {
            assert!(part.delays.least_s.is_some_and(|least| least > 0.0));
        }
        assert_eq!(has.tally().sessions(ClientProtocol::Netrig), 1, "probes are no sessions");
        assert!(has.tally().failures().is_empty(), "{:?}", has.tally().failures());
        let ways = OneWay::of(rounds.iter(), clocks(&rounds, one_clock)).unwrap();
        assert_eq!(ways.bound_s, 0.0);
        // Both ends read the same clock, so no one-way delay is negative.
        let sum = |of: fn(&OneWay) -> Option<f64>| of(&ways).unwrap();
        assert!(sum(|ways| ways.up.least_s) >= 0.0 && sum(|ways| ways.down.least_s) >= 0.0, "{ways:?}");
    });
}

/// Data is sent in both directions at the same time. The responsiveness of each direction has round-trip times of the
/// loading connections, from both ends, and of new connections.
#[test]
fn both_ways_at_once_have_their_responsiveness() {
    serving(|server, _| {
        let tls = tls::client(&Trust::Anyone, None).unwrap();
        let name = server.ip().into();
        let call = CallOrder { server, name, tls, key: None, rate: None, options: TcpOptions::default() };
        let carrier = Carrier::Tcp { way: DataDirection::Both, streams: 2, congestion: None };
        let order = MeasureOrder {
            call,
            idle: Duration::from_millis(300),
            tasks: vec![MeasureTask::Carry(MeasurementPhase::new(
                carrier,
                Duration::from_secs(2),
                Duration::from_millis(100),
            ))],
            after: Duration::ZERO,
            echo_every: Duration::from_millis(20),
            responsive: true,
        };
        let report = measure(order, &AtomicBool::new(false), &mut |_| {}).unwrap();
        assert_eq!(report.phases.len(), 2);
        for phase in &report.phases {
            let told = phase.responsiveness.as_ref().unwrap_or_else(|| panic!("{phase:?}"));
            assert!(told.rpm.both.is_some_and(|rpm| rpm > 0.0), "{told:?}");
            assert!(told.loaded.as_ref().is_some_and(|loaded| loaded.delays.sent > 10), "{told:?}");
        }
    });
}
