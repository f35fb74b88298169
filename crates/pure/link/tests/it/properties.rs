//! Properties of every line, for random settings, schedules and events.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use netrig_core::{
    Delivery, DropReason, Dscp, Duration, Fraction, Header, InFlight, Instant, Lane, Link, LinkEvent,
    Observer, PacketMeta, Prefix, Rate, Seeds, Size, Waiting,
};
use netrig_link::conditioning::{ConditionAction, Hosts, Layer, Match, Meter, Trtcm};
use netrig_link::queue::PerClass;
use netrig_link::queue::class::{Class, Phb};
use netrig_link::queue::codel::Codel;
use netrig_link::queue::drr::Drr;
use netrig_link::queue::fifo::Fifo;
use netrig_link::queue::fq_codel::FqCodel;
use netrig_link::queue::red::{Red, Thresholds};
use netrig_link::queue::shaped::Shaped;
use netrig_link::queue::wfq::{Weights, Wfq};
use netrig_link::queue::wred::{DropCurve, Wred};
use netrig_link::{
    Bernoulli, Bursts, Condition, Corruption, Framing, GilbertElliott, Jitter, Line, LineSettings, Loss,
    Pareto, Periodic, Queue, Reorder, Service, Shift, Spread,
};
use proptest::option;
use proptest::prelude::*;

use crate::common;
use crate::common::{END, Packet, Polling, Record, Step, header, play};

fn fraction(upto: f64) -> impl Strategy<Value = Fraction> {
    (0.0..=upto).prop_map(|value| Fraction::new(value).unwrap())
}

fn prefix() -> impl Strategy<Value = Prefix> {
    let v4 = (any::<u32>(), 0..=32_u32).prop_map(|(bits, length)| {
        let network =
            Ipv4Addr::from(bits.checked_shr(32 - length).unwrap_or(0).checked_shl(32 - length).unwrap_or(0));
        format!("{network}/{length}")
    });
    let v6 = (any::<u128>(), 0..=128_u32).prop_map(|(bits, length)| {
        let network = Ipv6Addr::from(
            bits.checked_shr(128 - length).unwrap_or(0).checked_shl(128 - length).unwrap_or(0),
        );
        format!("{network}/{length}")
    });
    prop_oneof![v4, v6].prop_map(|text| text.parse().unwrap())
}

fn span(upto_us: u64) -> impl Strategy<Value = Duration> {
    (0..=upto_us).prop_map(Duration::from_micros)
}

fn queue() -> impl Strategy<Value = Queue> {
    let limits = (option::of(1u64..20), option::of(1000u64..20_000), option::of(100u64..50_000));
    let fifo = limits.prop_map(|(packets, bytes, time)| {
        let (bytes, time) = (bytes.map(Size::from_bytes), time.map(Duration::from_micros));
        let unlimited = packets.is_none() && bytes.is_none() && time.is_none();
        Queue::Fifo(Fifo { packets, bytes, time, unlimited })
    });
    let red = (1u64..20, any::<[bool; 3]>(), 0.01f64..=1.0).prop_map(
        |(packets, [in_bytes, gentle, ecn], weight)| {
            let thresholds = if in_bytes {
                Thresholds::Bytes { min: Size::from_bytes(1000), max: Size::from_bytes(5000) }
            } else {
                Thresholds::Packets { min: 1.0, max: 6.0 }
            };
            let (max_p, mean_packet) = (Fraction::new(0.3).unwrap(), Size::from_bytes(500));
            Queue::Red(Red {
                packets: Some(packets),
                bytes: None,
                thresholds,
                max_p,
                weight,
                gentle,
                ecn,
                mean_packet,
            })
        },
    );
    let codel = (1u64..20, any::<bool>()).prop_map(|(packets, ecn)| {
        let (target, interval) = (Duration::from_millis(1), Duration::from_millis(5));
        Queue::Codel(Codel { packets: Some(packets), bytes: None, target, interval, ecn })
    });
    prop_oneof![2 => fifo, 1 => red, 1 => codel, 2 => of_conversations(), 2 => of_classes(), 1 => shaped()]
}

/// Queues whose decisions depend on the headers of packets.
fn of_conversations() -> impl Strategy<Value = Queue> {
    let wfq = (1u64..20, any::<bool>()).prop_map(|(packets, weighted)| {
        let weights = if weighted { Weights::Precedence } else { Weights::Equal };
        Queue::Wfq(Wfq { packets: Some(packets), bytes: None, queues: 16, weights })
    });
    let fq_codel = (1u64..20, 500u64..3000, any::<bool>()).prop_map(|(packets, quantum, ecn)| {
        let (target, interval) = (Duration::from_millis(1), Duration::from_millis(5));
        let quantum = Size::from_bytes(quantum);
        Queue::FqCodel(FqCodel { packets, flows: 16, quantum, target, interval, ecn })
    });
    let wred = (1u64..20, 0.01f64..=1.0).prop_map(|(packets, weight)| {
        let curve = |dscp: Option<Dscp>, max| DropCurve {
            dscp: dscp.map(|dscp| [dscp].into_iter().collect()),
            thresholds: Thresholds::Packets { min: 1.0, max },
            max_p: Fraction::new(0.3).unwrap(),
        };
        Queue::Wred(Wred {
            packets: Some(packets),
            bytes: None,
            curves: vec![curve(Some(Dscp::af(1, 2)), 3.0), curve(None, 9.0)],
            weight,
            gentle: true,
            ecn: false,
            mean_packet: Size::from_bytes(500),
        })
    });
    prop_oneof![wfq, fq_codel, wred]
}

/// Queues for the classes that [`settings`] configures on a line.
fn of_classes() -> impl Strategy<Value = Queue> {
    (1u64..20, 300u64..3000, 0..3).prop_map(|(packets, quantum, kind)| {
        let room = PerClass { packets: Some(packets), bytes: None };
        match kind {
            0 => Queue::Priority(room),
            1 => Queue::ClassWfq(room),
            _ => Queue::Drr(Drr { packets: Some(packets), bytes: None, quantum: Size::from_bytes(quantum) }),
        }
    })
}

fn shaped() -> impl Strategy<Value = Queue> {
    let codel = Queue::Codel(Codel {
        packets: Some(10),
        bytes: None,
        target: Duration::from_millis(1),
        interval: Duration::from_millis(5),
        ecn: false,
    });
    (100_000u64..5_000_000, 1000u64..5000).prop_map(move |(rate, burst)| {
        Queue::Shaped(Shaped {
            rate: Rate::from_bits_per_s(rate),
            burst: Size::from_bytes(burst),
            layer: Layer::Ip,
            queue: Box::new(codel.clone()),
        })
    })
}

/// A rule whose meter gives a stream three colours, and three classes. The first class has low latency, the second may
/// be shaped, and the last takes all other packets.
fn conditioning(rate: Rate) -> impl Strategy<Value = (Vec<Condition>, Vec<Class>)> {
    let part = move |of: u64| Rate::from_bits_per_s(rate.bits_per_s() / of);
    (2u64..8, 500u64..3000, any::<bool>(), option::of(shaped())).prop_map(move |(of, burst, drops, queue)| {
        let burst = Size::from_bytes(burst);
        let meter = Trtcm { cir: part(2 * of), cbs: burst, pir: part(of), pbs: burst, colour_aware: false };
        let rule = Condition {
            meter: Some(Meter::Trtcm(meter)),
            yellow: Some(ConditionAction::Mark(Dscp::af(1, 2))),
            red: if drops { ConditionAction::Drop } else { ConditionAction::Pass },
            ..Condition::mark(Match::default(), Dscp::EF)
        };
        let ef = Class { phb: Some(Phb::Ef), reserve: Some(part(4)), burst: Some(burst), ..Class::default() };
        let af = Class { phb: Some(Phb::Af1), reserve: Some(part(8)), queue, ..Class::default() };
        (vec![rule], vec![ef, af, Class::new("rest", None)])
    })
}

fn loss() -> impl Strategy<Value = Loss> {
    prop_oneof![
        fraction(0.5).prop_map(|probability| Loss::Bernoulli(Bernoulli { probability })),
        (1u64..9).prop_map(|every| Loss::Periodic(Periodic { every, first: Some(1) })),
        [fraction(0.5), fraction(0.5), fraction(1.0), fraction(1.0)].prop_map(|[p, r, good, bad]| {
            Loss::GilbertElliott(GilbertElliott { p, r, loss_in_good: good, loss_in_bad: bad })
        }),
        (fraction(0.4), 1.0f64..5.0)
            .prop_map(|(mean_loss, mean_burst)| Loss::Bursts(Bursts { mean_loss, mean_burst })),
    ]
}

/// The line's delay, and jitter that is valid for this delay.
fn delay_and_jitter() -> impl Strategy<Value = (Duration, Option<Jitter>)> {
    let spread = prop_oneof![
        span(6_000).prop_map(Spread::Uniform),
        span(3_000).prop_map(Spread::Normal),
        span(3_000).prop_map(Spread::Exponential),
        span(3_000).prop_map(|mean| Spread::Pareto(Pareto { mean, shape: 1.5 })),
    ];
    let jitter = (spread, any::<bool>()).prop_map(|(spread, keep_order)| Jitter { spread, keep_order });
    (span(8_000), option::of(jitter)).prop_map(|(delay, jitter)| match jitter {
        Some(Jitter { spread: Spread::Uniform(around), .. }) => (delay.max(around), jitter),
        jitter => (delay, jitter),
    })
}

fn settings() -> impl Strategy<Value = LineSettings> {
    let framing = prop_oneof![
        Just(Framing::None),
        Just(Framing::Ethernet),
        Just(Framing::Ppp),
        Just(Framing::Atm),
        Just(Framing::AtmLlc),
    ];
    let service = prop_oneof![3 => Just(Service::Constant), 1 => Just(Service::Exponential)];
    let reorder = (fraction(0.5), span(9_000), any::<bool>()).prop_map(|(probability, by, earlier)| {
        Reorder { probability, by, shift: if earlier { Shift::Earlier } else { Shift::Later } }
    });
    let corruption = prop_oneof![
        fraction(0.3).prop_map(Corruption::Packets),
        fraction(0.0001).prop_map(Corruption::Bits),
    ];
    (
        (200_000u64..10_000_000, framing, service, queue(), option::of(1000u64..1500)),
        delay_and_jitter(),
        (option::of(loss()), option::of(fraction(0.3)), option::of(reorder), option::of(corruption)),
        prop::collection::vec(1u64..60, 0..6),
    )
        .prop_map(
            |(
                (rate, framing, service, queue, mtu),
                (delay, jitter),
                (loss, duplicate, reorder, corrupt),
                drop,
            )| {
                LineSettings {
                    framing,
                    service,
                    jitter,
                    loss,
                    duplicate,
                    reorder,
                    corrupt,
                    drop,
                    mtu: mtu.map(Size::from_bytes),
                    ..LineSettings::new(Rate::from_bits_per_s(rate), delay, queue)
                }
            },
        )
        .prop_flat_map(|line| (conditioning(line.rate), any::<bool>(), 0u32..4, Just(line)))
        .prop_map(|((condition, classes), conditioned, ring, line)| {
            let ring = if conditioned { ring } else { 0 };
            if conditioned || line.queue.is_of_classes() {
                LineSettings { condition, classes, ring, ..line }
            } else {
                line
            }
        })
}

fn event() -> impl Strategy<Value = LinkEvent> {
    let waiting = prop_oneof![Just(Waiting::Keep), Just(Waiting::Drop)];
    let in_flight = prop_oneof![Just(InFlight::Deliver), Just(InFlight::Lose)];
    prop_oneof![
        2 => (waiting, in_flight).prop_map(|(queue, in_flight)| LinkEvent::Down { queue, in_flight }),
        3 => Just(LinkEvent::Up),
        1 => (100_000u64..20_000_000).prop_map(|bits_per_s| LinkEvent::Rate { bits_per_s }),
        1 => span(12_000).prop_map(LinkEvent::Delay),
        1 => (0.0f64..0.5).prop_map(|probability| LinkEvent::Loss { probability }),
    ]
}

/// Arrivals and events in the order of time. One gap in five is zero, so that several steps happen at the same moment.
fn schedule(step: impl Strategy<Value = Step>) -> impl Strategy<Value = Vec<(Instant, Step)>> {
    let gap = prop_oneof![1 => Just(0u64), 4 => 0u64..4_000_000];
    prop::collection::vec((gap, step), 1..80).prop_map(|steps| {
        let mut now = Instant::ZERO;
        let on_time = |(gap, step)| {
            now += Duration::from_nanos(gap);
            (now, step)
        };
        steps.into_iter().map(on_time).collect()
    })
}

fn arrival() -> impl Strategy<Value = Step> {
    (40u32..1500).prop_map(Step::Offer)
}

fn anything() -> impl Strategy<Value = Step> {
    prop_oneof![9 => arrival(), 1 => event().prop_map(Step::Apply)]
}

proptest! {
    /// `play` checks the balance at each step, and that no packet arrives early. It also checks that a line that is
    /// polled at its own deadlines is never late: a deadline is never after the next arrival.
    #[test]
    fn late_polling_changes_nothing(settings in settings(), schedule in schedule(anything()), nanos in 100_000u64..9_000_000) {
        let late = play(&settings, &schedule, Polling::AtTheEnd);
        let now_and_then = play(&settings, &schedule, Polling::Every(nanos));
        let asked = play(&settings, &schedule, Polling::WhenAsked);
        prop_assert_eq!(&late.1, &now_and_then.1);
        prop_assert_eq!(&late.1, &asked.1);
        let late = late.0.sorted();
        prop_assert_eq!(&late, &now_and_then.0.sorted());
        prop_assert_eq!(&late, &asked.0.sorted());
    }

    /// Text that [`Hosts`] writes is read back as the same addresses.
    #[test]
    fn hosts_are_read_as_they_are_written(prefixes in proptest::collection::vec(prefix(), 1..6)) {
        let hosts = Hosts::Prefixes(prefixes);
        let text = serde_json::to_string(&hosts).unwrap();
        prop_assert_eq!(serde_json::from_str::<Hosts>(&text).unwrap(), hosts, "{}", text);
    }

    #[test]
    fn the_same_seed_gives_the_same_run(settings in settings(), schedule in schedule(anything())) {
        prop_assert_eq!(play(&settings, &schedule, Polling::WhenAsked), play(&settings, &schedule, Polling::WhenAsked));
    }

    /// The balance of each single packet: the number of its deliveries is the number of offers and duplicates, minus
    /// its drops.
    #[test]
    fn every_packet_has_one_fate(settings in settings(), schedule in schedule(anything())) {
        let (record, _) = play(&settings, &schedule, Polling::AtTheEnd);
        let mut account = BTreeMap::<u64, i64>::new();
        for (_, id) in record.offered.iter().chain(&record.duplicated) {
            *account.entry(*id).or_default() += 1;
        }
        for id in record.delivered.iter().map(|d| d.1).chain(record.dropped.iter().map(|d| d.1)) {
            *account.entry(id).or_default() -= 1;
        }
        // The remaining packets are inside, because the line is down.
        prop_assert!(account.values().all(|left| (0..=1).contains(left)));
    }

    /// Without reordering, and with jitter that keeps the order, packets leave in the order of arrival, even if they
    /// arrive at the same moment.
    #[test]
    fn order_is_kept_when_asked(mut settings in settings(), schedule in schedule(arrival())) {
        settings.reorder = None;
        // Without rules, because marked packets of a better class overtake others.
        settings.condition.clear();
        settings.jitter = settings.jitter.map(|jitter| Jitter { keep_order: true, ..jitter });
        let (record, _) = play(&settings, &schedule, Polling::WhenAsked);
        prop_assert!(record.delivered.is_sorted_by_key(|(at, id)| (*at, *id)));
        prop_assert!(record.delivered.is_sorted_by_key(|(_, id)| *id));
    }

    /// Deliveries are reported in the order of time, even if packets overtake each other.
    #[test]
    fn time_never_runs_backwards(settings in settings(), schedule in schedule(anything())) {
        let (record, _) = play(&settings, &schedule, Polling::Every(1_000_000));
        prop_assert!(record.delivered.is_sorted_by_key(|(at, _)| *at));
        prop_assert!(record.served.is_sorted_by_key(|(at, ..)| *at));
        prop_assert!(record.queued.is_sorted_by_key(|(at, _)| *at));
    }

    /// Little's law, exactly: the integral of the queue over time is the sum of all waits. A wait ends when the packet
    /// is served or dropped, or when the run ends.
    #[test]
    fn the_queue_over_time_is_the_waiting_of_all_packets(
        settings in settings(),
        schedule in schedule(anything()),
    ) {
        let (record, counters) = play(&settings, &schedule, Polling::Every(3_000_000));
        let served: BTreeMap<_, _> = record.served.iter().map(|(at, id, _)| (*id, *at)).collect();
        let dropped: BTreeMap<_, _> = record.dropped.iter().map(|(at, id, _)| (*id, *at)).collect();
        let left = |id| *served.get(id).or(dropped.get(id)).unwrap_or(&END);
        let waited: u128 = record.offered.iter().map(|(at, id)| u128::from(left(id).since(*at).as_nanos())).sum();
        prop_assert_eq!(counters.packet_nanos(END), waited);
        let of_served: u64 = record.served.iter().map(|(.., waited)| waited.as_nanos()).sum();
        prop_assert_eq!(counters.waited().as_nanos(), of_served);
    }

    /// A line with rate and delay but without impairments, compared with the recursion of Lindley (1952).
    #[test]
    fn a_plain_line_is_lindleys_queue(
        rate in 200_000u64..10_000_000,
        delay in span(8_000),
        schedule in schedule(arrival()),
    ) {
        let queue = Queue::Fifo(Fifo { unlimited: true, ..Fifo::default() });
        let settings = LineSettings::new(Rate::from_bits_per_s(rate), delay, queue);
        let (record, _) = play(&settings, &schedule, Polling::WhenAsked);
        let (mut free, mut busy_since, mut bits) = (0u128, 0u128, 0u128);
        let mut expected = Vec::new();
        for (id, (at, step)) in schedule.iter().enumerate() {
            let Step::Offer(ip_len) = step else { continue };
            let at = u128::from(at.as_nanos());
            if at > free || id == 0 {
                (busy_since, bits) = (at, 0);
            }
            bits += 8 * u128::from(*ip_len);
            free = busy_since + bits * 1_000_000_000 / u128::from(rate);
            expected.push((Instant::from_nanos(free as u64) + delay, id as u64));
        }
        prop_assert_eq!(record.delivered, expected);
    }

    /// A frame (a header and a buffer slot) has the same times as a simulated packet. Every slot is released as often
    /// as it was taken, including duplicates.
    #[test]
    fn frames_and_packets_are_timed_alike(settings in settings(), schedule in schedule(anything())) {
        #[derive(Clone)]
        struct Frame(Header, u32);
        impl PacketMeta for Frame {
            fn header(&self) -> &Header { &self.0 }
            fn header_mut(&mut self) -> &mut Header { &mut self.0 }
        }
        #[derive(Default)]
        struct Slab(BTreeMap<u32, u32>);
        impl Slab {
            fn release(&mut self, slot: u32) {
                let holders = self.0.get_mut(&slot).unwrap();
                *holders = holders.checked_sub(1).unwrap();
            }
        }
        impl Observer<Frame> for Slab {
            fn offered(&mut self, _: Instant, frame: &Frame) { self.0.insert(frame.1, 1); }
            fn duplicated(&mut self, _: Instant, frame: &Frame) { *self.0.get_mut(&frame.1).unwrap() += 1; }
            fn delivered(&mut self, _: Instant, frame: &Frame) { self.release(frame.1); }
            fn dropped(&mut self, _: Instant, frame: &Frame, _: DropReason) { self.release(frame.1); }
        }
        let mut line = Line::<Frame>::new(&settings, &Seeds::new(1), "test/forward").unwrap();
        let (mut slab, mut slot, mut last) = (Slab::default(), 0, Instant::ZERO);
        for (now, step) in &schedule {
            last = *now;
            match step {
                Step::Offer(ip_len) => {
                    line.offer(*now, Lane::ONLY, Frame(header(*ip_len), slot), &mut slab);
                    slot += 1;
                }
                Step::Apply(event) => line.apply(*now, Lane::ONLY, *event, &mut slab),
            }
        }
        let mut frames = Vec::new();
        while let Some(Delivery { at, packet: frame, .. }) = line.poll_deliver(END, &mut slab) {
            frames.push((at, u64::from(frame.1)));
        }
        let (Record { delivered, .. }, _) = play(&settings, &schedule, Polling::AtTheEnd);
        prop_assert_eq!(frames, delivered);
        // When the line goes down, it drops the packets that still wait in front of it.
        line.apply(last.max(END), Lane::ONLY, LinkEvent::Down { queue: Waiting::Drop, in_flight: InFlight::Lose }, &mut slab);
        prop_assert!(slab.0.values().all(|holders| *holders == 0));
        prop_assert_eq!(line.inside(Lane::ONLY), 0);
    }
}

/// A packet above the MTU takes neither queue space nor sending time.
#[test]
fn too_long_a_packet_is_undeliverable() {
    let settings = LineSettings { mtu: Some(Size::from_bytes(1000)), ..common::plain(Duration::ZERO, 5) };
    let steps = [1001, 1000].map(|ip_len| (Instant::ZERO, Step::Offer(ip_len)));
    let (record, _) = play(&settings, &steps, Polling::AtTheEnd);
    assert_eq!(record.dropped, [(Instant::ZERO, 0, DropReason::Undeliverable)]);
    assert_eq!(record.delivered, [(common::at_ms(1), 1)]);
    let _: Packet = common::packet(0, 1);
}
