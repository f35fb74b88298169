//! Random early detection compared with the formulas of Floyd and Jacobson (1993).

use netrig_core::{
    Backlog, Dequeue, DropReason, Ecn, Fraction, Header, Instant, QueueDiscipline, Rate, Seeds, Size,
};
use netrig_link::Framing;
use netrig_link::queue::QueueContext;
use netrig_link::queue::red::{Red, Thresholds};
use netrig_link::queue::wred::RedQueue;

use crate::common::{Packet, Record, at_ms, header, packet};

/// Thresholds and probability of the paper. The weight is 1, so that the average equals the current queue. With ECN,
/// marked packets can fill the queue at any average. The tests count dropped packets.
fn prompt() -> Red {
    Red {
        packets: Some(1000),
        bytes: None,
        thresholds: Thresholds::Packets { min: 5.0, max: 15.0 },
        max_p: Fraction::new(0.02).unwrap(),
        weight: 1.0,
        gentle: false,
        ecn: true,
        mean_packet: Size::from_bytes(1000),
    }
}

/// A queue in front of a line on which 1000 B take 1 ms.
fn queue(settings: &Red) -> RedQueue<Packet> {
    let seeds = Seeds::new(5);
    RedQueue::new(
        settings,
        &QueueContext::new(&seeds, "test/forward", Rate::from_bits_per_s(8_000_000), Framing::None),
    )
}

fn capable(id: u64, ip_len: u32) -> Packet {
    Packet { header: Header { ecn: Ecn::Ect0, ..header(ip_len) }, id }
}

/// Fills the queue with `backlog` packets of `ip_len` bytes, regardless of RED. Then offers `n` more packets and
/// removes one for each accepted packet. Returns the numbers of the dropped packets.
fn hold(red: &mut RedQueue<Packet>, backlog: usize, ip_len: u32, n: u64) -> Vec<u64> {
    while red.backlog().packets < backlog {
        red.enqueue(Instant::ZERO, capable(u64::MAX, ip_len), &mut ());
    }
    let mut record = Record::default();
    for id in 0..n {
        red.enqueue(Instant::ZERO, packet(id, ip_len), &mut record);
        if red.backlog().packets > backlog {
            assert!(matches!(red.dequeue(Instant::ZERO, &mut record), Dequeue::Packet(..)));
        }
    }
    assert!(record.dropped.iter().all(|(.., why)| *why == DropReason::Early));
    record.dropped.into_iter().map(|(_, id, _)| id).collect()
}

#[test]
fn the_average_approaches_a_constant_queue_geometrically() {
    // After n arrivals at a queue of q packets: avg = q·(1 − (1 − w)^n), from an average of zero.
    let mut red = queue(&Red { weight: 0.002, ..prompt() });
    while red.backlog().packets < 4 {
        red.enqueue(Instant::ZERO, packet(0, 1000), &mut ());
    }
    // The first three arrivals at a queue that was not empty found 1, 2 and 3 packets.
    let mut expected = (0.002 * 0.998 + 2.0 * 0.002) * 0.998 + 3.0 * 0.002;
    assert!((red.average() - expected).abs() < 1e-12);
    hold(&mut red, 4, 1000, 500);
    let decay: f64 = (0..500).fold(1.0, |p, _| p * 0.998);
    expected = 4.0 + (expected - 4.0) * decay;
    assert!((red.average() - expected).abs() < 1e-9);
}

#[test]
fn an_idle_time_ages_the_average_like_small_packets_would() {
    let mut red = queue(&Red { weight: 0.25, ..prompt() });
    hold(&mut red, 4, 1000, 100);
    let before = red.average();
    while let Dequeue::Packet(..) = red.dequeue(at_ms(10), &mut ()) {}
    // The queue has been empty since 10 ms. Later calls do not change this.
    assert_eq!(red.dequeue(at_ms(12), &mut ()), Dequeue::Empty);
    red.clear(at_ms(13), DropReason::LinkDown, &mut ());
    // Seven packet times of 1 ms have passed since the queue became empty: m = 7.
    red.enqueue(at_ms(17), packet(0, 1000), &mut ());
    let decay: f64 = (0..7).fold(1.0, |p, _| p * 0.75);
    assert!((red.average() - before * decay).abs() < 1e-9);
}

#[test]
fn a_queue_that_is_cleared_is_idle_from_then_on() {
    let mut red = queue(&Red { weight: 0.25, ..prompt() });
    hold(&mut red, 4, 1000, 100);
    let before = red.average();
    let mut record = Record::default();
    red.clear(at_ms(10), DropReason::LinkDown, &mut record);
    assert_eq!((record.dropped.len(), red.backlog()), (4, Backlog::default()));
    red.enqueue(at_ms(12), packet(0, 1000), &mut ());
    assert!((red.average() - before * 0.75 * 0.75).abs() < 1e-9);
}

#[test]
fn an_idle_time_is_counted_once() {
    // All arrivals are dropped while the average is above the upper threshold, so the queue stays empty.
    let thresholds = Thresholds::Packets { min: 0.001, max: 0.002 };
    let mut red = queue(&Red { thresholds, weight: 0.25, ..prompt() });
    red.enqueue(at_ms(0), packet(0, 1000), &mut ());
    red.enqueue(at_ms(0), packet(1, 1000), &mut ());
    while let Dequeue::Packet(..) = red.dequeue(at_ms(0), &mut ()) {}
    let before = red.average();
    for t in [2, 3, 5] {
        red.enqueue(at_ms(t), packet(2, 1000), &mut ());
        assert_eq!(red.backlog().packets, 0);
    }
    let decay: f64 = (0..5).fold(1.0, |p, _| p * 0.75);
    assert!((red.average() - before * decay).abs() < 1e-12);
}

#[test]
fn nothing_is_dropped_early_below_the_lower_threshold_and_everything_from_the_upper_on() {
    assert!(hold(&mut queue(&prompt()), 4, 1000, 10_000).is_empty());
    assert_eq!(hold(&mut queue(&prompt()), 15, 1000, 100).len(), 100);
}

#[test]
fn drops_are_evenly_spaced() {
    // At an average of 10 packets p_b = 0.02·(10 − 5)/(15 − 5) = 1/100. The count of figure 2 starts at zero after a
    // drop and is incremented before it is used. So p_a = p_b/(1 − count·p_b) makes the distance between drops uniform
    // over 1, 2, .. 1/p_b − 1: P(X = n) = 1/99.
    let drops = hold(&mut queue(&prompt()), 10, 1000, 2_000_000);
    let distances: Vec<u64> = drops.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let n = distances.len() as f64;
    assert!(distances.iter().all(|d| (1..=99).contains(d)));
    // Mean 50, variance (99² − 1)/12.
    let mean = distances.iter().sum::<u64>() as f64 / n;
    assert!((mean - 50.0).abs() < 5.0 * (9800.0 / 12.0 / n).sqrt());
    // χ² over the 99 distances: 98 degrees of freedom, standard deviation √(2·98) = 14. The bound is five of them.
    let expected = n / 99.0;
    let chi2: f64 = (1..=99)
        .map(|d| distances.iter().filter(|x| **x == d).count() as f64)
        .map(|count| (count - expected) * (count - expected) / expected)
        .sum();
    assert!((chi2 - 98.0).abs() < 5.0 * 14.0, "χ² is {chi2}");
}

#[test]
fn the_drop_rate_is_the_curve() {
    // The mean of a uniform distance over 1 .. 1/p_b − 1 is 1/(2·p_b), so the drop rate is 2·p_b.
    for (backlog, p_b) in [(6usize, 0.002), (8, 0.006), (12, 0.014)] {
        let n = 1_000_000u64;
        let rate = hold(&mut queue(&prompt()), backlog, 1000, n).len() as f64 / n as f64;
        // A distance d has a standard deviation of mean/√3, so the count over n packets has √(n·2p_b/3).
        let error = (2.0 * p_b / 3.0 / n as f64).sqrt();
        assert!((rate - 2.0 * p_b).abs() < 5.0 * error, "{rate} at {backlog}");
    }
}

#[test]
fn the_count_starts_anew_below_the_lower_threshold() {
    // A packet of 10 000 B that arrives at the empty queue resets the count. The next packet, of 1000 B, finds an
    // average half-way between the thresholds, p_b = 1/2. If the count were zero, it would certainly be dropped.
    let thresholds = Thresholds::Bytes { min: Size::from_bytes(5_000), max: Size::from_bytes(15_000) };
    let max_p = Fraction::new(1.0).unwrap();
    let mut red = queue(&Red { thresholds, max_p, ..prompt() });
    let mut record = Record::default();
    let n = 10_000;
    for id in 0..n {
        red.enqueue(at_ms(id), packet(id, 10_000), &mut record);
        red.enqueue(at_ms(id), packet(id, 1000), &mut record);
        while let Dequeue::Packet(..) = red.dequeue(at_ms(id), &mut record) {}
    }
    let share = record.dropped.len() as f64 / n as f64;
    assert!((share - 0.5).abs() < 5.0 * (0.25 / n as f64).sqrt(), "{share}");
}

#[test]
fn the_count_is_zero_behind_a_drop_above_the_upper_threshold() {
    // The next packet that finds 10 packets has p_b = 1/10, and is dropped with p_a = p_b/(1 − p_b) = 1/9.
    let mut red = queue(&Red { max_p: Fraction::new(0.2).unwrap(), ..prompt() });
    let (n, mut drops) = (20_000, 0);
    for round in 0..n {
        while let Dequeue::Packet(..) = red.dequeue(at_ms(round), &mut ()) {}
        let mut record = Record::default();
        hold(&mut red, 15, 1000, 0);
        red.enqueue(at_ms(round), packet(0, 1000), &mut record);
        assert_eq!(record.dropped.len(), 1);
        for _ in 0..5 {
            assert!(matches!(red.dequeue(at_ms(round), &mut ()), Dequeue::Packet(..)));
        }
        red.enqueue(at_ms(round), packet(1, 1000), &mut record);
        drops += record.dropped.len() - 1;
    }
    let share = drops as f64 / n as f64;
    assert!((share - 1.0 / 9.0).abs() < 5.0 * (8.0 / 81.0 / n as f64).sqrt(), "{share}");
}

#[test]
fn gentle_goes_on_from_max_p_to_one_at_twice_the_upper_threshold() {
    let gentle = Red { gentle: true, max_p: Fraction::new(0.1).unwrap(), ..prompt() };
    // At 21 packets, between 15 and 30, p_b = 0.1 + 0.9·6/15 = 0.46. So p_a is 0.46, then 0.46/0.54, and the third
    // packet in a row is certainly dropped: distances of 1 (p 0.46/0.54) or 2.
    let drops = hold(&mut queue(&gentle), 21, 1000, 100_000);
    let distances: Vec<u64> = drops.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let ones = distances.iter().filter(|d| **d == 1).count() as f64 / distances.len() as f64;
    let p = 0.46 / 0.54;
    assert!(distances.iter().all(|d| *d == 1 || *d == 2));
    assert!((ones - p).abs() < 5.0 * (p * (1.0 - p) / distances.len() as f64).sqrt());
    assert_eq!(hold(&mut queue(&gentle), 30, 1000, 100).len(), 100);
}

#[test]
fn in_bytes_long_packets_are_dropped_more_often() {
    let thresholds = Thresholds::Bytes { min: Size::from_bytes(5_000), max: Size::from_bytes(15_000) };
    let rate = |ip_len: u32, backlog| {
        hold(&mut queue(&Red { thresholds, ..prompt() }), backlog, ip_len, 1_000_000).len() as f64 / 1e6
    };
    // Ten thousand bytes wait in both cases, so p_b = 0.01·ip_len/1000.
    for (rate, p_b) in [(rate(1000, 10), 0.01), (rate(500, 20), 0.005)] {
        assert!((rate - 2.0 * p_b).abs() < 5.0 * (2.0 * p_b / 3.0 / 1e6f64).sqrt());
    }
}

#[test]
fn ecn_capable_packets_are_marked_instead() {
    let mut red = queue(&prompt());
    hold(&mut red, 10, 1000, 0);
    let mut record = Record::default();
    let mut out = Vec::new();
    for id in 0..4000 {
        let ecn = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce][id as usize % 4];
        let mut packet = packet(id, 1000);
        packet.header.ecn = ecn;
        red.enqueue(Instant::ZERO, packet, &mut record);
        if red.backlog().packets > 10
            && let Dequeue::Packet(packet, _) = red.dequeue(Instant::ZERO, &mut ())
        {
            out.push(packet);
        }
    }
    // 4000 packets, of which one in 50 is dropped or marked.
    let notified = record.dropped.len() + record.marked.len();
    assert!((60..=100).contains(&notified), "{notified}");
    assert!(record.dropped.iter().all(|(_, id, _)| id % 4 == 0));
    assert!(record.marked.iter().all(|(_, id)| id % 4 != 0));
    assert!(!record.dropped.is_empty() && !record.marked.is_empty());
    // A packet that leaves with CE arrived with CE or was marked. All other packets are unchanged.
    for packet in out.iter().filter(|packet| packet.id < 4000) {
        let marked = record.marked.iter().any(|(_, id)| *id == packet.id);
        let came_in = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce][packet.id as usize % 4];
        assert_eq!(packet.header.ecn, if marked { Ecn::Ce } else { came_in });
    }
    // Above the upper threshold ECN-capable packets are dropped, too.
    let mut red = queue(&prompt());
    for id in 0..20 {
        red.enqueue(Instant::ZERO, capable(id, 1000), &mut ());
    }
    assert_eq!(red.backlog().packets, 15);
}

#[test]
fn without_ecn_every_packet_is_dropped_rather_than_marked() {
    let mut red = queue(&Red { ecn: false, ..prompt() });
    let mut record = Record::default();
    for id in 0..1000 {
        red.enqueue(Instant::ZERO, capable(id, 1000), &mut record);
    }
    assert_eq!(record.marked, []);
    assert!(record.dropped.len() >= 985);
}

#[test]
fn the_limit_drops_what_the_average_is_too_slow_for() {
    let mut red = queue(&Red { packets: Some(20), weight: 0.002, ..prompt() });
    let mut record = Record::default();
    for id in 0..25 {
        red.enqueue(Instant::ZERO, packet(id, 1000), &mut record);
    }
    assert_eq!(
        record.dropped,
        (20..25).map(|id| (Instant::ZERO, id, DropReason::QueueFull)).collect::<Vec<_>>()
    );
}

#[test]
fn a_packet_without_room_is_not_marked() {
    let mut red = queue(&Red { packets: Some(10), ..prompt() });
    hold(&mut red, 10, 1000, 0);
    let mut record = Record::default();
    for id in 0..1000 {
        red.enqueue(Instant::ZERO, capable(id, 1000), &mut record);
    }
    assert_eq!(record.marked, []);
    assert!(
        !record.dropped.is_empty() && record.dropped.iter().all(|(.., why)| *why == DropReason::QueueFull)
    );
    assert_eq!(record.dropped.len(), 1000);
}

/// The name of the random stream is a contract. One number is drawn for each arrival, even if it is not used.
#[test]
fn chances_come_from_the_named_stream() {
    let settings = Red { max_p: Fraction::new(0.5).unwrap(), ..prompt() };
    for seed in 0..200 {
        let seeds = Seeds::new(seed);
        let context =
            QueueContext::new(&seeds, "test/forward", Rate::from_bits_per_s(8_000_000), Framing::None);
        let (mut red, mut record) = (RedQueue::new(&settings, &context), Record::default());
        let mut luck = seeds.stream("link/test/forward/red");
        for id in 0..6 {
            red.enqueue(Instant::ZERO, packet(id, 1000), &mut record);
            luck.uniform();
        }
        assert_eq!(record.dropped, []);
        // The seventh packet finds six packets: p_b = 0.05. Its count is 1, because the sixth packet found five packets
        // and had p_b = 0.
        red.enqueue(Instant::ZERO, packet(6, 1000), &mut record);
        assert_eq!(record.dropped.len(), usize::from(luck.uniform() < 0.05 / 0.95));
    }
}

#[test]
fn more_marking_marks_the_same_packets_as_long_as_their_history_is_the_same() {
    // The first drop happens at the first draw below p_a, so a higher probability cannot delay it.
    let first = |max_p| {
        let red = Red { max_p: Fraction::new(max_p).unwrap(), ..prompt() };
        hold(&mut queue(&red), 10, 1000, 10_000)[0]
    };
    assert!(first(0.1) <= first(0.02) && first(0.02) <= first(0.005));
}
