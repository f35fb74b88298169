//! The `ns2` profile compared with results measured on ns-2 itself. The results of 2.29 and 2.35 are equal to the
//! packet.
//!
//! One Agent/TCP with window_ 45 and packetSize_ 1460 over 0.5 Mbit/s, with a one-way delay of 200 ms and a queue of 50
//! packets. The link goes down at 50 s and drops everything. The result is the number of data packets received in 100
//! s.

use netrig_core::{Data, Size};
use netrig_transport::Profile;
use netrig_transport::tcp::{Config, Congestion, Limit, Recovery};

use super::pair::{Fate, MS, Pair, Side, at_ms};

fn received(config: &Config, down_ms: u64, until_ms: u64) -> u64 {
    let mut pair =
        Pair::new(config).with_rate("0.5 Mbit/s", 50).with_delay(MS(200)).with_network(move |sent| {
            let down = sent.at >= at_ms(50_000) && sent.at < at_ms(50_000 + down_ms);
            if down { Fate::Drop } else { Fate::Pass }
        });
    pair.open();
    pair.send(Side::Client, Data::Fill(1460 * 100_000));
    pair.run_until(at_ms(until_ms.min(50_000)));
    if down_ms > 0 {
        pair.lose_everything();
    }
    pair.run_until(at_ms(until_ms));
    netrig_transport::Connection::counters(&pair.server).data_packets_received
}

fn study() -> Config {
    Config { send_window: Limit::Count(45), mss: Size::from_bytes(1460), ..Config::of(Profile::Ns2) }
}

#[test]
fn an_outage_costs_what_it_costs_in_ns2() {
    let measured = [(0, 4100), (5_000, 3594), (10_000, 3224), (20_000, 2484)];
    for (down, expected) in measured {
        let n = received(&study(), down, 100_000);
        assert!(n.abs_diff(expected) <= 2, "{down} ms: {n} for {expected}");
    }
}

/// The result is the same for all of ns-2's TCP classes, because no duplicate acknowledgements arrive.
#[test]
fn the_classes_agree() {
    for recovery in [Recovery::Reno, Recovery::Newreno, Recovery::Sack] {
        let sack = recovery == Recovery::Sack;
        let config = Config { congestion: Congestion::Reno, recovery, sack, ..study() };
        let n = received(&config, 10_000, 100_000);
        assert!(n.abs_diff(3224) <= 2, "{recovery:?}: {n}");
    }
}

#[test]
fn shorter_and_longer_runs_agree() {
    for (until, expected) in [(5_000, 142), (500_000, 20_767)] {
        let n = received(&study(), 0, until);
        assert!(n.abs_diff(expected) <= 2, "{until} ms: {n} for {expected}");
    }
}

/// The effect of each setting in ns-2, without an outage and with an outage of 20 s.
///
/// The clock ticks of ns-2 have a random phase. If round-trip times are not multiples of 10 ms, the phase may make the
/// timer one tick longer or shorter. Before the fifth retransmission there are 31 such ticks, the time of 13 packets of
/// 24 ms.
#[test]
fn settings_change_what_they_change_in_ns2() {
    let cases = [
        ("windowInit_ 1", Config { initial_window: 1, ..study() }, (4083, 2467), 2),
        ("window_ 20", Config { send_window: Limit::Count(20), ..study() }, (4100, 2579), 15),
        ("tcpTick_ 0.1", Config { rto_tick: MS(100), ..study() }, (4100, 3043), 2),
        ("minrto_ 1", Config { rto_min: MS(1000), ..study() }, (4100, 2484), 2),
        ("TCPSink/DelAck", Config { ack_every: 2, ..study() }, (4077, 2319), 15),
    ];
    for (name, config, measured, allowed) in cases {
        let (whole, interrupted) = (received(&config, 0, 100_000), received(&config, 20_000, 100_000));
        assert!(whole.abs_diff(measured.0) <= 2, "{name}: {whole} for {}", measured.0);
        assert!(interrupted.abs_diff(measured.1) <= allowed, "{name}: {interrupted} for {}", measured.1);
    }
}

/// Losses at a short queue: number of packets received in 100 s with ns-2's Tahoe, Reno, Newreno and Sack1. Unlike RFC
/// 6675, ns-2's Sack1 counts lost segments as in flight, so it is a little slower with many losses.
#[test]
fn senders_that_overflow_a_queue_carry_what_they_carry_in_ns2() {
    let senders = [
        (Congestion::Tahoe, Recovery::Newreno, 0.002),
        (Congestion::Reno, Recovery::Reno, 0.001),
        (Congestion::Reno, Recovery::Newreno, 0.001),
        (Congestion::Reno, Recovery::Sack, 0.02),
    ];
    // Rate, one-way delay (ms), queue (packets), window_, and ns-2's results for the four classes.
    let paths = [
        ("2 Mbit/s", 50, 10, 60, [13_772, 15_687, 15_718, 15_654]),
        ("1 Mbit/s", 100, 8, 100, [6_612, 7_496, 7_535, 7_518]),
        ("0.5 Mbit/s", 200, 20, 100, [3_682, 3_972, 3_996, 4_026]),
        ("5 Mbit/s", 20, 25, 200, [38_611, 41_430, 41_469, 41_526]),
    ];
    for (rate, delay, queue, window, measured) in paths {
        for ((congestion, recovery, allowed), measured) in senders.into_iter().zip(measured) {
            let sack = recovery == Recovery::Sack;
            let send_window = Limit::Count(window);
            let config = Config { congestion, recovery, sack, send_window, ..study() };
            // ns-2's DropTail drops the packet with which the queue would reach its limit.
            let mut pair = Pair::new(&config).with_rate(rate, queue - 1).with_delay(MS(delay));
            pair.open();
            pair.send(Side::Client, Data::Fill(1 << 40));
            pair.run_until(at_ms(100_000));
            let n = netrig_transport::Connection::counters(&pair.server).data_packets_received;
            let difference = n as f64 / f64::from(measured) - 1.0;
            assert!(difference.abs() <= allowed, "{rate} {congestion:?} {recovery:?}: {n} for {measured}");
        }
    }
}
