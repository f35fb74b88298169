//! The line compared with queueing theory, and the counters of the line.

use netrig_core::{DropReason, Duration, Instant, Lane, Link, Rate, Seeds};
use netrig_link::queue::fifo::Fifo;
use netrig_link::{Imbalance, LineCounters, LineSettings, PacketTally, Queue, Service};

use crate::common;
use crate::common::{END, Polling, Step, at_ms, fifo, line, ms, packet, plain, play};

/// Mean wait in the queue, in service times of 1 ms, for each of `batches` batches. Poisson arrivals at load `rho`,
/// lengths from `ip_len`, an unlimited queue.
fn mean_waits(rho: f64, batches: usize, service: Service, ip_len: impl Fn(f64) -> u32) -> Vec<f64> {
    let queue = Queue::Fifo(Fifo { unlimited: true, ..Fifo::default() });
    let settings = LineSettings::new(Rate::from_bits_per_s(8_000_000), Duration::ZERO, queue);
    let mut line = line(&LineSettings { service, ..settings });
    let (seeds, mut now, per_batch) = (Seeds::new(3), Instant::ZERO, 40_000u32);
    let (mut arrivals, mut sizes) = (seeds.stream("test/arrivals"), seeds.stream("test/sizes"));
    let mut batch = |line: &mut netrig_link::Line<common::Packet>| {
        let mut counters = LineCounters::new();
        for id in 0..per_batch {
            now += Duration::from_secs_f64(arrivals.exponential(0.001 / rho));
            let ip_len = ip_len(sizes.exponential(1.0));
            while line.poll_deliver(now, &mut counters).is_some() {}
            line.offer(now, Lane::ONLY, packet(u64::from(id), ip_len), &mut counters);
        }
        counters.waited().as_secs_f64() * 1000.0 / counters.served.packets as f64
    };
    batch(&mut line);
    (0..batches).map(|_| batch(&mut line)).collect()
}

/// The mean of these batches, and five standard errors of the mean.
fn mean_and_error(batches: &[f64]) -> (f64, f64) {
    let n = batches.len() as f64;
    let mean = batches.iter().sum::<f64>() / n;
    let variance = batches.iter().map(|b| (b - mean) * (b - mean)).sum::<f64>() / (n - 1.0);
    (mean, 5.0 * (variance / n).sqrt())
}

#[test]
fn poisson_arrivals_of_equal_packets_wait_as_in_m_d_1() {
    // Pollaczek-Khinchine: W = ρ·s/(2·(1 − ρ)).
    for rho in [0.3, 0.7] {
        let (mean, error) = mean_and_error(&mean_waits(rho, 20, Service::Constant, |_| 1000));
        let expected = rho / (2.0 * (1.0 - rho));
        assert!((mean - expected).abs() < error, "{mean} is not {expected} ± {error}");
        assert!(error < 0.1 * expected, "the test is sharp enough to see a service time of 5 % more");
    }
}

#[test]
fn poisson_arrivals_of_exponential_packets_wait_as_in_m_m_1() {
    // W = ρ·s/(1 − ρ). The lengths are exponential with mean 1000 B, rounded up to whole bytes. Their mean is 1/(1 −
    // e^(−1/1000)) = 1000.5 B.
    let rho = 0.6;
    let (mean, error) =
        mean_and_error(&mean_waits(rho, 20, Service::Constant, |x| (1000.0 * x).ceil() as u32));
    let expected = rho / (1.0 - rho);
    assert!((mean - expected).abs() < error, "{mean} is not {expected} ± {error}");
    assert!(error < 0.1 * expected);
}

#[test]
fn equal_packets_wait_as_in_m_m_1_if_their_times_are_random() {
    let rho = 0.6;
    let (mean, error) = mean_and_error(&mean_waits(rho, 20, Service::Exponential, |_| 1000));
    let expected = rho / (1.0 - rho);
    assert!((mean - expected).abs() < error, "{mean} is not {expected} ± {error}");
    assert!(error < 0.1 * expected);
}

#[test]
fn counters_count() {
    // Four packets of 1000 B arrive at the same time: one is on the line, two wait, and one is dropped. One more packet
    // arrives after 10 ms.
    let offer = Step::Offer(1000);
    let schedule =
        [(at_ms(0), offer), (at_ms(0), offer), (at_ms(0), offer), (at_ms(0), offer), (at_ms(10), offer)];
    let (_, counters) = play(&plain(ms(5), 2), &schedule, Polling::WhenAsked);
    let tally = |packets| PacketTally { packets, bytes: 1000 * packets };
    assert_eq!(counters.offered, tally(5));
    assert_eq!(counters.served, tally(4));
    assert_eq!(counters.delivered, tally(4));
    assert_eq!(counters.dropped(DropReason::QueueFull), tally(1));
    assert_eq!(counters.dropped_in_all(), tally(1));
    // Packets 1 and 2 wait 1 ms and 2 ms.
    assert_eq!(counters.waited(), ms(3));
    assert_eq!(counters.packet_nanos(END), 3_000_000);
}

#[test]
fn a_packet_that_passes_at_once_never_waits() {
    let schedule = [0, 1, 2].map(|t| (at_ms(t), Step::Offer(1000)));
    let (_, counters) = play(&plain(ms(5), 1), &schedule, Polling::WhenAsked);
    assert_eq!((counters.waited(), counters.packet_nanos(at_ms(3))), (Duration::ZERO, 0));
}

#[test]
fn utilisation_is_busy_time_over_time() {
    let mut line = line(&plain(ms(5), 50));
    for id in 0..3 {
        line.offer(at_ms(0), Lane::ONLY, packet(id, 1000), &mut ());
    }
    line.catch_up(at_ms(2), &mut ());
    assert_eq!(line.busy(at_ms(2)), ms(2));
    line.catch_up(at_ms(10), &mut ());
    assert_eq!(line.busy(at_ms(10)), ms(3));
}

#[test]
fn an_imbalance_tells_its_numbers() {
    let mut counters = LineCounters::new();
    let mut line = line(&LineSettings { queue: fifo(1), ..plain(ms(5), 1) });
    for id in 0..3 {
        line.offer(at_ms(0), Lane::ONLY, packet(id, 1000), &mut counters);
    }
    assert_eq!(counters.balance(line.inside(Lane::ONLY)), Ok(()));
    let error = counters.balance(7).unwrap_err();
    assert_eq!(error, Imbalance { offered: 3, duplicated: 0, delivered: 0, dropped: 1, inside: 7 });
    assert_eq!(
        error.to_string(),
        "packets do not balance: 3 offered and 0 duplicated, but 0 delivered, 1 dropped and 7 inside"
    );
}

/// Offers 100 packets at the same time to a line of 8 Mbit/s. Returns the number of accepted packets and the longest
/// wait.
fn rush(settings: &LineSettings, ip_len: u32) -> (usize, Duration) {
    let (mut line, mut record) = (line(settings), common::Record::default());
    (0..100).for_each(|id| line.offer(Instant::ZERO, Lane::ONLY, packet(id, ip_len), &mut record));
    while line.poll_deliver(END, &mut record).is_some() {}
    let waited = record.served.iter().map(|(_, _, waited)| *waited).fold(Duration::ZERO, Duration::max);
    assert!(record.dropped.iter().all(|(_, _, why)| *why == DropReason::QueueFull));
    (record.served.len(), waited)
}

fn for_time(time: Duration) -> Queue {
    Queue::Fifo(Fifo { time: Some(time), ..Fifo::default() })
}

/// In addition to the packet on the line, a limit of 10 ms accepts ten packets of 1 ms each. On ATM with LLC/SNAP 540 B
/// take 12 cells, 636 B, so that 10 ms accept 15 such packets.
#[test]
fn room_in_time_is_that_of_the_line_with_its_framing() {
    let settings = LineSettings { queue: for_time(ms(10)), ..plain(ms(1), 1) };
    assert_eq!(rush(&settings, 1000), (11, ms(10)));
    let settings = LineSettings { framing: netrig_link::Framing::AtmLlc, ..settings };
    assert_eq!(rush(&settings, 540), (16, Duration::from_nanos(15 * 636 * 1000)));
}

/// With a shaper of 4 Mbit/s a packet of 1000 B takes 2 ms, whatever the rate of the line: five packets wait after the
/// packet that is being sent.
#[test]
fn room_in_time_behind_a_shaper_is_that_of_the_shaper() {
    let shaped = netrig_link::queue::shaped::Shaped {
        rate: Rate::from_bits_per_s(4_000_000),
        burst: netrig_core::Size::from_bytes(1000),
        layer: netrig_link::conditioning::Layer::Ip,
        queue: Box::new(for_time(ms(10))),
    };
    let settings = LineSettings { queue: Queue::Shaped(shaped), ..plain(ms(1), 1) };
    let (served, _) = rush(&settings, 1000);
    assert_eq!(served, 1 + 5);
}

/// After some packets have left, a limit in time accepts the same packets as a limit in packets.
#[test]
fn room_in_time_is_given_back() {
    let settings = LineSettings { queue: for_time(ms(10)), ..plain(ms(1), 1) };
    let steps: Vec<_> = (0..400).map(|id| (at_ms(id / 2), Step::Offer(1000))).collect();
    let (in_time, _) = play(&settings, &steps, Polling::WhenAsked);
    let (in_packets, _) = play(&plain(ms(1), 10), &steps, Polling::WhenAsked);
    assert_eq!(in_time, in_packets);
    assert!(in_time.dropped.len() > 100);
}
