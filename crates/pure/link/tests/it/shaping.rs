//! Shapers compared with virtual scheduling, and early detection by drop precedence.

use netrig_core::{
    Delivery, DropReason, Dscp, Duration, Fraction, Header, Instant, Lane, Link, QueueDiscipline, Rate,
    Seeds, Size,
};
use netrig_link::conditioning::{DscpSet, Layer, Match};
use netrig_link::queue::class::Class;
use netrig_link::queue::red::Thresholds;
use netrig_link::queue::shaped::Shaped;
use netrig_link::queue::wred::{DropCurve, RedQueue, Wred};
use netrig_link::queue::{PerClass, QueueContext};
use netrig_link::{Framing, Line, LineSettings, Queue};
use proptest::prelude::*;

use crate::common;
use crate::common::{END, Packet, Record, Step, at_ms, fifo, header};

fn shaped(rate: u64, burst: u64) -> Queue {
    Queue::Shaped(Shaped {
        rate: Rate::from_bits_per_s(rate),
        burst: Size::from_bytes(burst),
        layer: Layer::Ip,
        queue: Box::new(fifo(100_000)),
    })
}

/// A line on which a packet takes less than 1.5 ns.
const FAST: u64 = 8_000_000_000_000;

proptest! {
    /// Each packet leaves at the earliest moment at which the stream conforms, and none is lost. The moments are the
    /// theoretical arrival times of ITU-T I.371, here of packets.
    #[test]
    fn packets_leave_as_soon_as_they_conform(
        packets in prop::collection::vec((0u64..3_000_000, 40u32..1500), 1..80),
        rate in 100_000u64..50_000_000,
        burst in 1500u64..10_000,
    ) {
        let settings = LineSettings::new(Rate::from_bits_per_s(FAST), Duration::ZERO, shaped(rate, burst));
        let mut now = Instant::ZERO;
        let mut schedule = Vec::new();
        for (gap, ip_len) in &packets {
            now += Duration::from_nanos(*gap);
            schedule.push((now, Step::Offer(*ip_len)));
        }
        let (record, _) = common::play(&settings, &schedule, common::Polling::WhenAsked);
        prop_assert_eq!(record.served.len(), packets.len());
        // In billionths of a bit: the moment at which the bucket is full again, and the burst.
        let (mut full, burst) = (0u128, u128::from(burst) * 8_000_000_000);
        let mut left = 0u128;
        for ((at, step), (served, ..)) in schedule.iter().zip(&record.served) {
            let Step::Offer(ip_len) = step else { continue };
            let length = u128::from(*ip_len) * 8_000_000_000;
            let earliest = (full + length).saturating_sub(burst).div_ceil(u128::from(rate));
            left = left.max(earliest).max(at.as_nanos().into());
            // Packets that leave the shaper at the same moment are sent one after another.
            prop_assert!(u128::from(served.as_nanos()).abs_diff(left) <= 2 * packets.len() as u128);
            full = full.max(left * u128::from(rate)) + length;
        }
    }
}

/// With every scheduler, the other classes are served while a shaped class waits for tokens.
#[test]
fn a_shaper_holds_its_own_class_only() {
    let gold = Class {
        reserve: Some(Rate::from_bits_per_s(4_000_000)),
        queue: Some(shaped(800_000, 1000)),
        ..Class::new("gold", Some(Match::dscp([Dscp::EF])))
    };
    let room = PerClass { packets: Some(100), bytes: None };
    let drr = serde_json::from_str(r#"{ "packets": 100 }"#).unwrap();
    for queue in [Queue::Priority(room.clone()), Queue::ClassWfq(room), Queue::Drr(drr)] {
        let settings = LineSettings {
            classes: vec![gold.clone(), Class::new("rest", None)],
            ..LineSettings::new(Rate::from_bits_per_s(8_000_000), Duration::ZERO, queue)
        };
        let mut line = Line::<Packet>::new(&settings, &Seeds::new(1), "test/forward").unwrap();
        let mut record = Record::default();
        for id in 0..20 {
            let dscp = if id < 4 { Dscp::EF } else { Dscp::BE };
            let header = Header { dscp, ..header(1000) };
            line.offer(at_ms(0), Lane::ONLY, Packet { header, id }, &mut record);
        }
        while let Some(Delivery { .. }) = line.poll_deliver(END, &mut record) {}
        let gold: Vec<_> = record.served.iter().filter(|(_, id, _)| *id < 4).map(|(at, ..)| *at).collect();
        // 1000 B every 10 ms. A packet may be 1 ms late, because a packet on the line is not interrupted.
        for (n, at) in (0..).zip(&gold) {
            assert!(*at >= at_ms(10 * n) && *at <= at_ms(10 * n + 1), "{gold:?}");
        }
        // The line was busy with the 16 other packets, 1 ms each, and with two packets of gold between them.
        assert_eq!(record.served.iter().filter(|(at, ..)| *at < at_ms(18)).count(), 18);
    }
}

#[test]
fn a_packet_that_is_longer_than_the_bucket_is_dropped() {
    let settings = LineSettings::new(Rate::from_bits_per_s(FAST), Duration::ZERO, shaped(1_000_000, 1000));
    let schedule = [(at_ms(0), Step::Offer(1001)), (at_ms(0), Step::Offer(1000))];
    let (record, _) = common::play(&settings, &schedule, common::Polling::WhenAsked);
    assert_eq!(record.dropped, [(at_ms(0), 0, DropReason::Policed)]);
    assert_eq!(record.delivered.len(), 1);
}

fn curve(dscp: Option<Dscp>, min: f64, max: f64) -> DropCurve {
    DropCurve {
        dscp: dscp.map(|dscp| DscpSet::from_iter([dscp])),
        thresholds: Thresholds::Packets { min, max },
        max_p: Fraction::new(0.1).unwrap(),
    }
}

/// With weight 1 the average is the queue that the packet finds at its arrival.
fn wred(curves: Vec<DropCurve>) -> Wred {
    Wred {
        packets: Some(100),
        bytes: None,
        curves,
        weight: 1.0,
        gentle: false,
        ecn: false,
        mean_packet: Size::from_bytes(500),
    }
}

fn wred_queue(settings: &Wred) -> RedQueue<Packet> {
    settings.check().unwrap();
    let seeds = Seeds::new(1);
    RedQueue::new(
        settings,
        &QueueContext::new(&seeds, "test", Rate::from_bits_per_s(8_000_000), Framing::None),
    )
}

/// Thresholds: 10 to 20 for drop precedence 3, 30 to 40 for 2, 50 to 60 for all other packets.
fn three_precedences() -> Wred {
    wred(vec![
        curve(Some(Dscp::af(1, 3)), 10.0, 20.0),
        curve(Some(Dscp::af(1, 2)), 30.0, 40.0),
        curve(None, 50.0, 60.0),
    ])
}

/// The share of early drops among 10,000 packets of this code point, if each finds `n` packets in the queue. `n` is at
/// most 50.
fn dropped_at(n: u64, dscp: Dscp) -> f64 {
    let mut queue = wred_queue(&three_precedences());
    let mut record = Record::default();
    let mut offer = |dscp, id| {
        let header = Header { dscp, ..header(500) };
        queue.enqueue(Instant::ZERO, Packet { header, id }, &mut record);
        if queue.backlog().packets as u64 > n {
            queue.dequeue(Instant::ZERO, &mut record);
        }
    };
    (0..n).for_each(|id| offer(Dscp::EF, id));
    (0..10_000).for_each(|id| offer(dscp, id));
    assert!(record.dropped.iter().all(|(.., why)| *why == DropReason::Early));
    record.dropped.len() as f64 / 10_000.0
}

/// RFC 2597 section 2: packets of a higher drop precedence are dropped at a shorter queue. Half-way between the
/// thresholds p_b is 5 %. RED spaces the drops evenly over 1 to 1/p_b − 1 packets: one in 10, with a standard error of
/// 0.0017.
#[test]
fn the_drop_precedence_decides_who_is_dropped_at_which_queue() {
    for (dscp, min) in [(Dscp::af(1, 3), 10), (Dscp::af(1, 2), 30)] {
        assert_eq!(dropped_at(min - 1, dscp), 0.0, "{dscp}");
        let half_way = dropped_at(min + 5, dscp);
        assert!((half_way - 0.1).abs() < 0.009, "{dscp}: {half_way}");
        assert_eq!(dropped_at(min + 10, dscp), 1.0, "{dscp}");
    }
    assert_eq!(dropped_at(49, Dscp::af(1, 1)), 0.0);
}

#[test]
fn impossible_settings_of_a_shaper_are_refused_by_field() {
    let field = |settings: Wred| settings.check().unwrap_err().field;
    let rest = || curve(None, 5.0, 15.0);
    assert_eq!(field(wred(vec![])), "curves");
    assert_eq!(field(wred(vec![curve(Some(Dscp::EF), 5.0, 15.0)])), "curves.0.dscp");
    assert_eq!(field(wred(vec![rest(), rest()])), "curves.0.dscp");
    assert_eq!(field(wred(vec![curve(Some(Dscp::EF), 15.0, 15.0), rest()])), "curves.0.thresholds.max");
    let in_bytes = Thresholds::Bytes { min: Size::from_bytes(1), max: Size::from_bytes(2) };
    let other = DropCurve { thresholds: in_bytes, ..rest() };
    assert_eq!(field(wred(vec![curve(Some(Dscp::EF), 5.0, 15.0), other])), "curves.1.thresholds");
    assert_eq!(field(Wred { packets: None, ..wred(vec![rest()]) }), "packets");
    let shaper = |rate, burst| shaped(rate, burst).check().unwrap_err().field;
    assert_eq!(shaper(0, 1), "rate");
    assert_eq!(shaper(1, 0), "burst");
    let nested = Queue::Shaped(Shaped {
        rate: Rate::from_bits_per_s(1),
        burst: Size::from_bytes(1),
        layer: Layer::Line,
        queue: Box::new(Queue::Priority(PerClass::default())),
    });
    assert_eq!(nested.check().unwrap_err().field, "queue");
}
