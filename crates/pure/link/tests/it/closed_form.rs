//! Compares a line with a closed form with the event-driven line.

use netrig_core::{
    Direction, DropReason, Duration, InFlight, Instant, Lane, Link, LinkEvent, Quantity, Rate, Sample, Seeds,
    Sink, Size, Subject, Waiting,
};
use netrig_link::queue::fifo::Fifo;
use netrig_link::{
    FifoDelivery, FifoLine, Framing, Line, LineCounters, LineSettings, Queue, Service, WireId,
};
use proptest::prelude::*;

use crate::common::{Packet, packet};

/// The counts of a line at one moment.
#[derive(Debug, PartialEq)]
struct LineAccount {
    counters: [(u64, u64); 6],
    waited: Duration,
    packet_nanos: u128,
    busy: Duration,
    inside: usize,
}

fn account(counters: &LineCounters, now: Instant, busy: Duration, inside: usize) -> LineAccount {
    let tallies = [
        counters.offered,
        counters.served,
        counters.delivered,
        counters.dropped(DropReason::QueueFull),
        counters.dropped(DropReason::Undeliverable),
        counters.dropped(DropReason::LinkDown),
    ];
    LineAccount {
        counters: tallies.map(|tally| (tally.packets, tally.bytes)),
        waited: counters.waited(),
        packet_nanos: counters.packet_nanos(now),
        busy,
        inside,
    }
}

/// The gap before each packet and its length, and the interval between readings. For each outage, the time from the end
/// of the previous outage to its start, and its duration. All times in nanoseconds.
#[derive(Clone, Debug)]
struct LineCase {
    settings: LineSettings,
    packets: Vec<(u64, u32)>,
    read_every: u64,
    outages: Vec<(u64, u64)>,
}

/// A step of the schedule.
#[derive(Clone, Copy, Debug)]
enum LineStep {
    Packet(u32),
    Down,
    Up,
}

fn courses() -> impl Strategy<Value = LineCase> {
    let fifo = (prop::option::of(1u64..8), prop::option::of(600u64..4000), prop::option::of(1u64..4_000_000));
    let line =
        (1_000_000u64..100_000_000, 0u64..3_000_000, prop::option::of(900u64..1400), any::<bool>(), fifo);
    // If a gap is a whole number of service times, a packet arrives at the moment at which another one starts.
    let gap = prop_oneof![Just(0), 0u64..400_000, (1u64..4).prop_map(|n| n * 80_000)];
    let packets = prop::collection::vec((gap, prop_oneof![Just(1000u32), 40u32..1500]), 1..80);
    (line, packets, 50_000u64..2_000_000).prop_map(|(line, packets, read_every)| {
        let (rate, delay, mtu, framed, (limit, bytes, time)) = line;
        let fifo = Fifo {
            packets: limit,
            bytes: bytes.map(Size::from_bytes),
            time: time.map(Duration::from_nanos),
            unlimited: limit.is_none() && bytes.is_none() && time.is_none(),
        };
        let rate = Rate::from_bits_per_s(if framed { rate } else { 100_000_000 });
        let line = LineSettings::new(rate, Duration::from_nanos(delay), Queue::Fifo(fifo));
        let framing = if framed { Framing::Ethernet } else { Framing::None };
        let settings = LineSettings { mtu: mtu.map(Size::from_bytes), framing, ..line };
        LineCase { settings, packets, read_every, outages: Vec::new() }
    })
}

/// The steps of the case and their times, in the order of time.
fn steps(case: &LineCase) -> Vec<(Instant, LineStep)> {
    let mut at = 0;
    let mut after = |gap: u64| {
        at += gap;
        Instant::from_nanos(at)
    };
    let mut steps = Vec::new();
    for (gap, lasts) in &case.outages {
        steps.push((after(*gap), LineStep::Down));
        steps.push((after(*lasts), LineStep::Up));
    }
    at = 0;
    for (gap, ip_len) in &case.packets {
        at += gap;
        steps.push((Instant::from_nanos(at), LineStep::Packet(*ip_len)));
    }
    steps.sort_by_key(|(at, _)| *at);
    steps
}

/// A sink that wants no quantities.
struct WantsNothing;

impl Sink for WantsNothing {
    fn sample(&mut self, _: Subject, _: Sample) {}
    fn wants(&self, _: &'static Quantity) -> bool {
        false
    }
}

fn closed(settings: &LineSettings) -> Option<FifoLine<u64>> {
    let id = WireId { link: 0, name: "test", direction: Direction::Forward };
    FifoLine::new(id, settings, &Seeds::new(1), &WantsNothing).unwrap()
}

/// The arrival time and number of each packet, and the counts at each reading.
type LineRun = (Vec<(Instant, u64)>, Vec<LineAccount>);

const READINGS: u64 = 40;

fn by_events(case: &LineCase) -> LineRun {
    let mut line: Line<Packet> = Line::new(&case.settings, &Seeds::new(1), "test/forward").unwrap();
    let (mut counters, mut arrivals, mut readings) = (LineCounters::new(), Vec::new(), Vec::new());
    let steps = steps(case);
    let mut next = 0;
    for reading in 1..=READINGS {
        let now = Instant::from_nanos(reading * case.read_every);
        while let Some((at, step)) = steps.get(next).filter(|(at, _)| *at <= now) {
            while let Some(delivery) = line.poll_deliver(*at, &mut counters) {
                arrivals.push((delivery.at, delivery.packet.id));
            }
            let down = LinkEvent::Down { queue: Waiting::Drop, in_flight: InFlight::Lose };
            match step {
                LineStep::Packet(ip_len) => {
                    line.offer(*at, Lane::ONLY, packet(next as u64, *ip_len), &mut counters);
                }
                LineStep::Down => line.apply(*at, Lane::ONLY, down, &mut counters),
                LineStep::Up => line.apply(*at, Lane::ONLY, LinkEvent::Up, &mut counters),
            }
            next += 1;
        }
        while let Some(delivery) = line.poll_deliver(now, &mut counters) {
            arrivals.push((delivery.at, delivery.packet.id));
        }
        readings.push(account(&counters, now, line.busy(now), line.inside(Lane::ONLY)));
    }
    (arrivals, readings)
}

/// Runs the line with a closed form. Without `ahead`, the driver takes packets at their arrival times. With `ahead` it
/// offers each packet that much ahead of its own time, and the line does not deliver packets.
fn in_closed_form(case: &LineCase, ahead: Option<Duration>) -> LineRun {
    let mut line = closed(&case.settings).unwrap();
    let (mut arrivals, mut readings) = (Vec::new(), Vec::new());
    let steps = steps(case);
    let of_packet = |delivery: FifoDelivery<u64>| {
        assert_eq!(u64::from(delivery.note), delivery.packet);
        assert!(matches!(steps[delivery.packet as usize].1, LineStep::Packet(len) if len == delivery.ip_len));
        (delivery.at, delivery.packet)
    };
    let mut next = 0;
    for reading in 1..=READINGS {
        let now = Instant::from_nanos(reading * case.read_every);
        while let Some((at, step)) = steps.get(next).filter(|(at, _)| *at <= now + ahead.unwrap_or_default())
        {
            let number = next as u64;
            next += 1;
            if let (Some(ahead), LineStep::Packet(ip_len)) = (ahead, step) {
                let driver = Instant::from_nanos(at.as_nanos().saturating_sub(ahead.as_nanos()));
                arrivals.extend(line.offer(driver, *at, *ip_len, None).map(|at| (at, number)));
                continue;
            }
            arrivals.extend(std::iter::from_fn(|| line.poll_deliver(*at)).map(of_packet));
            match step {
                LineStep::Packet(ip_len) => {
                    line.offer(*at, *at, *ip_len, Some((number, number as u32)));
                }
                LineStep::Down => {
                    let before = line.next_delivery();
                    let changed = line.go_down(*at);
                    assert_eq!(changed, before != line.next_delivery());
                }
                LineStep::Up => line.go_up(),
            }
        }
        arrivals.extend(std::iter::from_fn(|| line.poll_deliver(now)).map(of_packet));
        let reading = line.read(now);
        assert_eq!(reading.counters.balance(reading.inside), Ok(()));
        assert!(ahead.is_some() || reading.counters.delivered.packets == line.delivered());
        readings.push(account(&reading.counters, now, reading.busy, reading.inside));
    }
    (arrivals, readings)
}

proptest! {
    #[test]
    fn a_closed_form_says_what_the_line_does(case in courses(), ahead in 0u64..5_000_000) {
        let end = Instant::from_nanos(READINGS * case.read_every);
        let (arrivals, readings) = by_events(&case);
        let run = in_closed_form(&case, None);
        prop_assert_eq!(&run.0, &arrivals);
        prop_assert_eq!(&run.1, &readings);
        let run = in_closed_form(&case, Some(Duration::from_nanos(ahead)));
        let by_then: Vec<_> = run.0.iter().copied().filter(|(at, _)| *at <= end).collect();
        prop_assert_eq!(&by_then, &arrivals);
        prop_assert_eq!(&run.1, &readings);
    }
}

proptest! {
    #[test]
    fn an_outage_takes_back_what_was_decided(
        case in courses(),
        outages in prop::collection::vec((prop_oneof![0u64..8_000_000, (0u64..40).prop_map(|n| n * 80_000)], 0u64..4_000_000), 1..4),
    ) {
        let case = LineCase { outages, ..case };
        let (arrivals, readings) = by_events(&case);
        let run = in_closed_form(&case, None);
        prop_assert_eq!(&run.0, &arrivals);
        prop_assert_eq!(&run.1, &readings);
    }
}

#[test]
fn only_what_is_decided_when_it_comes_has_a_closed_form() {
    let plain = LineSettings::new(
        Rate::from_bits_per_s(8_000_000),
        Duration::ZERO,
        Queue::Fifo(Fifo { packets: Some(5), ..Fifo::default() }),
    );
    let has = |settings: &LineSettings| closed(settings).is_some();
    assert!(has(&plain));
    assert!(!has(&LineSettings { service: Service::Exponential, ..plain.clone() }));
    assert!(!has(&LineSettings { ring: 1, ..plain.clone() }));
    assert!(!has(&LineSettings { drop: vec![7], ..plain.clone() }));
    assert!(!has(&LineSettings { duplicate: Some("1 %".parse().unwrap()), ..plain.clone() }));
    let red = serde_json::json!({ "codel": { "packets": 100 } });
    assert!(!has(&LineSettings { queue: serde_json::from_value(red).unwrap(), ..plain }));
}
