//! Schedulers compared with their guarantees: the fluid server, the bounds of the papers that define them, and the
//! per-hop behaviour of expedited forwarding.

use std::collections::BTreeMap;

use netrig_core::{
    Colour, Delivery, DropReason, Dscp, Duration, Fraction, Instant, Lane, Link, Rate, Seeds, Size,
};
use netrig_link::conditioning::{Bucket, ConditionAction, Match, Meter};
use netrig_link::queue::PerClass;
use netrig_link::queue::class::{Class, Phb};
use netrig_link::queue::drr::Drr;
use netrig_link::queue::wfq::{Weights, Wfq};
use netrig_link::{Condition, Framing, Line, LineCounters, LineSettings, Queue};
use proptest::prelude::*;

use crate::common;
use crate::common::{END, Packet, Record, at_ms, header, ms};
use crate::expedited::{self, ErrorTerms, ForwardedPacket};

/// 8 Mbit/s: a byte takes a microsecond.
const RATE: u64 = 8_000_000;
const NANOS_PER_BYTE: u64 = 1000;

/// A packet of the schedule.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: Instant,
    dscp: Dscp,
    ip_len: u32,
}

fn arrival(at: Instant, dscp: Dscp, ip_len: u32) -> Arrival {
    Arrival { at, dscp, ip_len }
}

/// A line of [`RATE`] without delay. Its queue has room for all packets.
fn settings(queue: Queue, classes: Vec<Class>) -> LineSettings {
    let reservable = Fraction::new(1.0).unwrap();
    let line = LineSettings::new(Rate::from_bits_per_s(RATE), Duration::ZERO, queue);
    LineSettings { classes, reservable, ..line }
}

const ROOM: PerClass = PerClass { packets: Some(100_000), bytes: None };

fn reserving(name: &str, dscp: Dscp, reserve: u64) -> Class {
    let reserve = Some(Rate::from_bits_per_s(reserve));
    Class { reserve, ..Class::new(name, Some(Match::dscp([dscp]))) }
}

/// Offers all packets and empties the line. Packet n belongs to the flow from source port `port(n)`.
fn run(settings: &LineSettings, arrivals: &[Arrival], port: impl Fn(usize) -> u16) -> (Record, LineCounters) {
    let mut line = Line::<Packet>::new(settings, &Seeds::new(1), "test/forward").unwrap();
    let mut obs = (Record::default(), LineCounters::new());
    for (id, Arrival { at, dscp, ip_len }) in arrivals.iter().enumerate() {
        let mut header = header(*ip_len);
        header.dscp = *dscp;
        header.flow.src_port = port(id);
        line.offer(*at, Lane::ONLY, Packet { header, id: id as u64 }, &mut obs);
    }
    while let Some(Delivery { .. }) = line.poll_deliver(END, &mut obs) {}
    obs.1.balance(line.inside(Lane::ONLY)).unwrap();
    obs
}

fn one_port(_: usize) -> u16 {
    1000
}

/// The time at which each packet has been sent completely, by packet number.
fn departures(record: &Record) -> BTreeMap<u64, Instant> {
    record.delivered.iter().map(|(at, id)| (*id, *at)).collect()
}

fn bytes_time(bytes: u32) -> Duration {
    Duration::from_nanos(u64::from(bytes) * NANOS_PER_BYTE)
}

/// Bursts of packets of these code points: many packets at the same moment, then a pause.
fn bursts(dscps: &'static [Dscp]) -> impl Strategy<Value = Vec<Arrival>> {
    let gap = prop_oneof![3 => Just(0u64), 3 => 0u64..1_500_000, 1 => 0u64..20_000_000];
    let packet = (gap, prop::sample::select(dscps), 40u32..1500);
    prop::collection::vec(packet, 1..120).prop_map(|packets| {
        let mut now = Instant::ZERO;
        let on_time = |(gap, dscp, ip_len)| {
            now += Duration::from_nanos(gap);
            arrival(now, dscp, ip_len)
        };
        packets.into_iter().map(on_time).collect()
    })
}

/// E_a and E_p of the expedited packets at the rate of the line.
fn error_terms(arrivals: &[Arrival], record: &Record) -> ErrorTerms {
    let departures = departures(record);
    let forward = |(id, packet): (usize, &Arrival)| ForwardedPacket {
        arrived: packet.at,
        departed: departures[&(id as u64)],
        bytes: packet.ip_len.into(),
    };
    let expedited = arrivals.iter().enumerate().filter(|(_, packet)| packet.dscp == Dscp::EF);
    let forwarded: Vec<ForwardedPacket> = expedited.map(forward).collect();
    expedited::error_terms(&forwarded, Rate::from_bits_per_s(RATE))
}

/// Sending time of the longest packet outside expedited forwarding. An expedited packet may find it on the line.
fn longest_other(arrivals: &[Arrival]) -> Duration {
    let others = arrivals.iter().filter(|packet| packet.dscp != Dscp::EF);
    bytes_time(others.map(|packet| packet.ip_len).max().unwrap_or(0))
}

/// Sending time of the longest packet.
fn longest(arrivals: &[Arrival]) -> Duration {
    bytes_time(arrivals.iter().map(|packet| packet.ip_len).max().unwrap_or(0))
}

const EF_AND_BE: &[Dscp] = &[Dscp::EF, Dscp::BE];

fn expedited_and_rest() -> Vec<Class> {
    let ef = Class {
        phb: Some(Phb::Ef),
        reserve: Some(Rate::from_bits_per_s(RATE / 2)),
        burst: Some(Size::from_bytes(1_000_000)),
        queue: Some(common::fifo(100_000)),
        ..Class::default()
    };
    vec![ef, Class::new("rest", None)]
}

proptest! {
    /// RFC 3247 section 5.1.1: the error term of strict priority is one packet of another class at the rate of the
    /// line, whatever the best-effort load. LLQ is strict priority while its policer has tokens.
    #[test]
    fn expedited_forwarding_waits_for_one_packet_of_best_effort(arrivals in bursts(EF_AND_BE)) {
        for queue in [Queue::Priority(ROOM), Queue::ClassWfq(ROOM)] {
            let (record, _) = run(&settings(queue, expedited_and_rest()), &arrivals, one_port);
            prop_assert!(record.dropped.is_empty());
            let terms = error_terms(&arrivals, &record);
            prop_assert!(terms.packet <= longest_other(&arrivals) && terms.aggregate == terms.packet, "{terms:?}");
        }
    }

    /// A packet that finds no expedited packet in the queue waits for the n packets in the ring and for the packet on
    /// the line. If all of these are expedited, it has the error of the previous packet (RFC 3246 section 2.2: F takes
    /// the earlier of departure and finish time). Otherwise one of the n + 1 packets is of another class. A packet that
    /// finds an expedited packet in the queue follows that packet without a gap.
    #[test]
    fn a_ring_adds_its_packets_to_the_wait(arrivals in bursts(EF_AND_BE), ring in 1u32..6) {
        let line = LineSettings { ring, ..settings(Queue::Priority(ROOM), expedited_and_rest()) };
        let (record, _) = run(&line, &arrivals, one_port);
        let other = longest_other(&arrivals);
        let error = if other.is_zero() { other } else { other + longest(&arrivals) * u64::from(ring) };
        prop_assert!(error_terms(&arrivals, &record).packet <= error);
    }
}

/// Three best-effort packets of 100 B, and among them one expedited packet of 1500 B. The third best-effort packet
/// enters the ring after the expedited packet and is sent before the next expedited packet. By hand:
/// F = max(201, 1501) + 40 us, and that packet departs at 1840 us.
#[test]
fn a_ring_lets_best_effort_in_behind_a_long_expedited_packet() {
    let at = |us: u64| Instant::ZERO + Duration::from_nanos(us * 1000);
    let arrivals = [
        arrival(at(0), Dscp::BE, 100),
        arrival(at(0), Dscp::BE, 100),
        arrival(at(1), Dscp::EF, 1500),
        arrival(at(2), Dscp::BE, 100),
        arrival(at(201), Dscp::EF, 40),
    ];
    let line = LineSettings { ring: 1, ..settings(Queue::Priority(ROOM), expedited_and_rest()) };
    let (record, _) = run(&line, &arrivals, one_port);
    assert_eq!(departures(&record)[&4], at(1840));
    assert_eq!(error_terms(&arrivals, &record).packet, bytes_time(1840 - 1541));
}

/// The bound is tight: if an expedited packet arrives when a best-effort packet of 1500 B has just started, both error
/// terms are exactly 1.5 ms with strict priority. With a single queue they are the sending time of all packets before
/// it.
#[test]
fn an_ideal_priority_server_errs_by_one_mtu_of_the_others() {
    let mut arrivals = vec![arrival(at_ms(0), Dscp::BE, 1500); 4];
    arrivals.extend([arrival(at_ms(0), Dscp::EF, 1000); 5]);
    arrivals.extend([arrival(at_ms(50), Dscp::EF, 200), arrival(at_ms(50), Dscp::BE, 1500)]);
    for (queue, others) in [(Queue::Priority(ROOM), 1500), (common::fifo(1000), 4 * 1500)] {
        let (record, _) = run(&settings(queue, expedited_and_rest()), &arrivals, one_port);
        let error = bytes_time(others);
        assert_eq!(error_terms(&arrivals, &record), ErrorTerms { aggregate: error, packet: error });
    }
}

/// RFC 2597 section 2: a node must not reorder packets of a microflow within one assured-forwarding class, whatever
/// their drop precedences.
#[test]
fn assured_forwarding_keeps_the_order_of_all_drop_precedences() {
    let class =
        |phb| Class { phb: Some(phb), reserve: Some(Rate::from_bits_per_s(RATE / 4)), ..Class::default() };
    let classes = vec![class(Phb::Af1), class(Phb::Af2), Class::new("rest", None)];
    let marks = [1, 2].map(|class| [1, 3, 2, 3, 1, 2].map(|precedence| Dscp::af(class, precedence))).concat();
    let packet = |n: usize| {
        let at = Instant::ZERO + Duration::from_micros(777 * n as u64);
        arrival(at, marks[n * 7 % marks.len()], 300 + (n * 389 % 1000) as u32)
    };
    // A packet of 800 B on average every 777 µs: 3 % more than the line can send.
    let arrivals: Vec<Arrival> = (0..20_000).map(packet).collect();
    let drr = Queue::Drr(Drr { packets: ROOM.packets, bytes: None, quantum: Size::from_bytes(1500) });
    for queue in [Queue::Priority(ROOM), Queue::ClassWfq(ROOM), drr] {
        let (record, _) = run(&settings(queue, classes.clone()), &arrivals, one_port);
        let early = record.dropped.iter().filter(|(_, _, why)| *why == DropReason::Early).count();
        assert!(early > 100, "WRED had nothing to do: {early}");
        for af in [1, 2] {
            let theirs = |id: &u64| arrivals[*id as usize].dscp.as_af().is_some_and(|(class, _)| class == af);
            let sent: Vec<u64> = record.served.iter().map(|(_, id, _)| *id).filter(theirs).collect();
            assert!(sent.len() > 50 && sent.is_sorted(), "class {af}: {sent:?}");
        }
        // A higher drop precedence loses more packets.
        let lost = [1, 2, 3].map(|precedence| {
            let theirs = |dscp: Dscp| dscp.as_af().is_some_and(|(_, drop)| drop == precedence);
            let all = arrivals.iter().filter(|packet| theirs(packet.dscp)).count();
            let gone = record.dropped.iter().filter(|(_, id, _)| theirs(arrivals[*id as usize].dscp)).count();
            gone as f64 / all as f64
        });
        assert!(lost[0] < lost[1] && lost[1] < lost[2], "{lost:?}");
    }
}

/// Ten best-effort packets and then one expedited packet. Without a ring the expedited packet is sent second. With a
/// ring of four it is sent after the first packet and the four packets in the ring.
#[test]
fn a_ring_hides_priority() {
    let mut arrivals = vec![arrival(at_ms(0), Dscp::BE, 1000); 10];
    arrivals.push(arrival(at_ms(0), Dscp::EF, 1000));
    let waited = |ring| {
        let line = LineSettings { ring, ..settings(Queue::Priority(ROOM), expedited_and_rest()) };
        let (record, counters) = run(&line, &arrivals, one_port);
        assert_eq!(counters.delivered.packets, 11);
        record.served.iter().find(|(_, id, _)| *id == 10).map(|(.., waited)| *waited)
    };
    assert_eq!(waited(0), Some(ms(1)));
    assert_eq!(waited(4), Some(ms(5)));
}

/// A low-latency class is policed to its reservation: its excess packets are dropped, and the other classes get the
/// remaining rate. With plain priority the other classes would get none.
#[test]
fn a_class_of_low_latency_cannot_starve_the_others() {
    // In each millisecond 1000 B of each class arrive, in total twice the rate of the line.
    let arrivals: Vec<_> = (0..2000)
        .flat_map(|n| [arrival(at_ms(n), Dscp::EF, 1000), arrival(at_ms(n), Dscp::BE, 1000)])
        .collect();
    let mut classes = expedited_and_rest();
    classes[0].burst = Some(Size::from_bytes(2000));
    let (record, counters) = run(&settings(Queue::ClassWfq(ROOM), classes), &arrivals, one_port);
    // Accepted: half the rate of the line, and the burst: 500 B/ms · 1999 ms + 2000 B.
    assert_eq!(counters.dropped(DropReason::Policed).packets, 2000 - 1001);
    assert!(!record.dropped.is_empty() && record.dropped.iter().all(|(_, id, _)| id % 2 == 0));
    let by = at_ms(2000);
    let sent = |ef: u64| record.delivered.iter().filter(|(at, id)| *at <= by && id % 2 == 1 - ef).count();
    assert!(sent(1).abs_diff(1001) <= 1 && sent(0).abs_diff(999) <= 1, "{} {}", sent(1), sent(0));
}

/// When the fluid server finishes each packet: it serves all backlogged sessions in parallel, in proportion to their
/// weights. Computed from event to event, without the arithmetic of the scheduler.
fn fluid_departures(arrivals: &[(f64, usize, f64)], weights: &[f64], bytes_per_s: f64) -> Vec<f64> {
    let mut done = vec![0.0; arrivals.len()];
    let mut waiting: Vec<Vec<(usize, f64)>> = vec![Vec::new(); weights.len()];
    let (mut now, mut next) = (0.0, 0);
    loop {
        let busy: f64 = (0..weights.len()).filter(|s| !waiting[*s].is_empty()).map(|s| weights[s]).sum();
        let speed = |session: usize| bytes_per_s * weights[session] / busy;
        let first_done = (0..weights.len())
            .filter_map(|session| Some((now + waiting[session].first()?.1 / speed(session), session)))
            .min_by(|a, b| a.0.total_cmp(&b.0));
        let arrives = arrivals.get(next).map(|(at, ..)| *at);
        let (until, finished) = match (first_done, arrives) {
            (Some((at, _)), Some(arrival)) if arrival < at => (arrival, None),
            (Some((at, session)), _) => (at, Some(session)),
            (None, Some(arrival)) => (arrival, None),
            (None, None) => return done,
        };
        for session in 0..weights.len() {
            if let Some((_, left)) = waiting[session].first_mut() {
                *left -= (until - now) * bytes_per_s * weights[session] / busy;
            }
        }
        now = until;
        match finished {
            Some(session) => done[waiting[session].remove(0).0] = now,
            None => {
                let (_, session, length) = arrivals[next];
                waiting[session].push((next, length));
                next += 1;
            }
        }
    }
}

/// Parekh and Gallager's theorem 1: no packet departs later than from the fluid server by more than the time of the
/// longest packet. The microsecond allows for rounding.
fn never_lags(
    arrivals: &[Arrival],
    record: &Record,
    framing: Framing,
    weights: &[f64],
    session: impl Fn(usize) -> usize,
) -> Result<(), TestCaseError> {
    let fluid: Vec<_> = arrivals
        .iter()
        .enumerate()
        .map(|(id, p)| (p.at.as_secs_f64(), session(id), framing.line_bytes(p.ip_len) as f64))
        .collect();
    let longest = fluid.iter().map(|(.., length)| *length).fold(0.0, f64::max) / (RATE as f64 / 8.0);
    let done = fluid_departures(&fluid, weights, RATE as f64 / 8.0);
    for (id, departed) in departures(record) {
        let lag = departed.as_secs_f64() - done[id as usize];
        prop_assert!(lag <= longest + 1e-6, "packet {} lags {} s, the longest takes {} s", id, lag, longest);
    }
    Ok(())
}

const FOUR: &[Dscp] = &[Dscp::af(1, 1), Dscp::af(2, 1), Dscp::af(3, 1), Dscp::BE];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Each class has its reservation as weight, and the last class has the remaining rate.
    #[test]
    fn classes_never_lag_the_fluid_server_by_more_than_a_packet(
        arrivals in bursts(FOUR),
        reserved in [100_000u64..2_000_000, 100_000u64..2_000_000, 100_000u64..2_000_000],
        cells in any::<bool>(),
    ) {
        let framing = if cells { Framing::AtmLlc } else { Framing::None };
        let mut classes: Vec<Class> =
            FOUR.iter().zip(reserved).map(|(dscp, rate)| reserving(&dscp.to_string(), *dscp, rate)).collect();
        classes.push(Class::new("rest", None));
        let line = LineSettings { framing, ..settings(Queue::ClassWfq(ROOM), classes) };
        let (record, _) = run(&line, &arrivals, one_port);
        prop_assert_eq!(record.delivered.len(), arrivals.len());
        let mut weights: Vec<f64> = reserved.iter().map(|rate| *rate as f64).collect();
        weights.push(RATE as f64 - weights.iter().sum::<f64>());
        let session = |id: usize| FOUR.iter().position(|dscp| *dscp == arrivals[id].dscp).unwrap();
        never_lags(&arrivals, &record, framing, &weights, session)?;
    }

    /// Flows in 4096 queues. These four flows do not collide. The weights are equal or follow the precedence.
    #[test]
    fn conversations_never_lag_the_fluid_server_by_more_than_a_packet(
        arrivals in bursts(FOUR),
        by_precedence in any::<bool>(),
    ) {
        let weights = if by_precedence { Weights::Precedence } else { Weights::Equal };
        let wfq = Wfq { packets: Some(100_000), bytes: None, queues: 4096, weights };
        let session = |id: usize| FOUR.iter().position(|dscp| *dscp == arrivals[id].dscp).unwrap();
        let (record, _) =
            run(&settings(Queue::Wfq(wfq), Vec::new()), &arrivals, |id| 5000 + session(id) as u16);
        // The weight is the IP precedence (1, 2, 3 and 0) plus one.
        let weights = if by_precedence { [2.0, 3.0, 4.0, 1.0] } else { [1.0; 4] };
        never_lags(&arrivals, &record, Framing::None, &weights, session)?;
    }

    /// Theorem 4 of Shreedhar and Varghese: while two classes are backlogged, the bytes that they have sent, divided by their
    /// shares, differ by at most the smallest quantum and twice the longest packet.
    #[test]
    fn deficit_round_robin_is_fair(
        lengths in prop::collection::vec((0usize..3, 40u32..=1500), 300),
        shares in [1u64..5, 1u64..5],
    ) {
        let unit = RATE / 20;
        let dscps = [FOUR[0], FOUR[1], Dscp::BE];
        let classes = vec![
            reserving("a", dscps[0], shares[0] * unit),
            reserving("b", dscps[1], shares[1] * unit),
            Class::new("rest", None),
        ];
        let shares = [shares[0], shares[1], 20 - shares[0] - shares[1]];
        let least = *shares.iter().min().unwrap() as f64;
        let quantum = Size::from_bytes(1500);
        let drr = Queue::Drr(Drr { packets: ROOM.packets, bytes: None, quantum });
        let arrivals: Vec<_> =
            lengths.iter().map(|(class, ip_len)| arrival(at_ms(0), dscps[*class], *ip_len)).collect();
        let (record, _) = run(&settings(drr, classes), &arrivals, one_port);
        let mut left = [0usize; 3];
        lengths.iter().for_each(|(class, _)| left[*class] += 1);
        // The first packet started before the others arrived.
        let mut sent = [0.0; 3];
        let mut seen: Vec<[f64; 3]> = vec![sent];
        for (_, id) in record.delivered.iter() {
            let (class, ip_len) = lengths[*id as usize];
            left[class] -= 1;
            sent[class] += f64::from(ip_len) * least / shares[class] as f64;
            if left.contains(&0) {
                break;
            }
            for before in &seen {
                for (a, b) in [(0, 1), (0, 2), (1, 2)] {
                    let difference = ((sent[a] - before[a]) - (sent[b] - before[b])).abs();
                    prop_assert!(difference <= 1500.0 + 2.0 * 1500.0, "{}", difference);
                }
            }
            seen.push(sent);
        }
    }
}

/// A rule marks packets in profile and passes the others unchanged. The new code point selects the class.
#[test]
fn what_a_rule_marks_is_told_and_waits_in_its_new_class() {
    let meter =
        Meter::TokenBucket(Bucket { rate: Rate::from_bits_per_s(RATE), burst: Size::from_bytes(1000) });
    let rule = Condition {
        meter: Some(meter),
        red: ConditionAction::Pass,
        ..Condition::mark(Match::default(), Dscp::EF)
    };
    let settings =
        LineSettings { condition: vec![rule], ..settings(Queue::Priority(ROOM), expedited_and_rest()) };
    let mut line = Line::<Packet>::new(&settings, &Seeds::new(1), "test/forward").unwrap();
    let mut record = Record::default();
    for id in 0..2 {
        line.offer(at_ms(0), Lane::ONLY, Packet { header: header(1000), id }, &mut record);
    }
    let sent: Vec<_> = std::iter::from_fn(|| line.poll_deliver(END, &mut record))
        .map(|Delivery { packet, .. }| packet.header.dscp)
        .collect();
    assert_eq!(sent, [Dscp::EF, Dscp::BE]);
    assert_eq!(record.conditioned, [(at_ms(0), 0, 0, Colour::Green), (at_ms(0), 1, 0, Colour::Red)]);
    assert_eq!(record.classified, [(at_ms(0), 0, 0), (at_ms(0), 1, 1)]);
    let rule = *line.queue().port().unwrap().rules().next().unwrap();
    assert_eq!(Colour::ALL.map(|colour| rule.found(colour).packets), [1, 0, 1]);
}

/// Classes are served in their order, and the packets of a class in the order of arrival.
#[test]
fn strict_priority_goes_by_class_and_then_by_age() {
    let dscps = [Dscp::BE, Dscp::BE, Dscp::af(2, 1), Dscp::af(1, 1), Dscp::af(2, 1), Dscp::af(1, 1)];
    let arrivals = dscps.map(|dscp| arrival(at_ms(0), dscp, 1000));
    let classes = vec![
        Class::new("gold", Some(Match::dscp([Dscp::af(1, 1)]))),
        Class::new("silver", Some(Match::dscp([Dscp::af(2, 1)]))),
        Class::new("rest", None),
    ];
    let (record, _) = run(&settings(Queue::Priority(ROOM), classes), &arrivals, one_port);
    // The first packet started before the others arrived.
    assert_eq!(record.delivered.iter().map(|(_, id)| *id).collect::<Vec<_>>(), [0, 3, 5, 2, 4, 1]);
    let classified: Vec<_> = record.classified.iter().map(|(_, id, class)| (*id, *class)).collect();
    assert_eq!(classified, [(0, 2), (1, 2), (2, 1), (3, 0), (4, 1), (5, 0)]);
}

/// A class cannot use the queue space of another class.
#[test]
fn each_class_has_its_own_room() {
    let mut arrivals = vec![arrival(at_ms(0), Dscp::BE, 1000); 10];
    arrivals.push(arrival(at_ms(0), Dscp::EF, 1000));
    let room = PerClass { packets: Some(4), bytes: None };
    for queue in [Queue::Priority(room.clone()), Queue::ClassWfq(room.clone())] {
        let (record, _) = run(&settings(queue, expedited_and_rest()), &arrivals, one_port);
        // One packet is on the line, and four wait.
        assert_eq!(record.dropped.iter().map(|(_, id, _)| *id).collect::<Vec<_>>(), [5, 6, 7, 8, 9]);
    }
}

/// Above the limit, the last packet of the flow with the most waiting bytes is dropped, whichever packet arrives.
#[test]
fn fair_queueing_drops_from_the_greediest() {
    let arrivals: Vec<_> = (0..8).map(|_| arrival(at_ms(0), Dscp::BE, 1000)).collect();
    let wfq = Wfq { packets: Some(5), bytes: None, queues: 4096, weights: Weights::Equal };
    // Packets 0 to 5 belong to one flow, and packet 0 is on the line. Packets 6 and 7 belong to two other flows.
    let port = |id: usize| if id < 6 { 1 } else { id as u16 };
    let (record, _) = run(&settings(Queue::Wfq(wfq), Vec::new()), &arrivals, port);
    assert_eq!(record.dropped.iter().map(|(_, id, _)| *id).collect::<Vec<_>>(), [5, 4]);
    assert!(
        !record.dropped.is_empty() && record.dropped.iter().all(|(.., why)| *why == DropReason::QueueFull)
    );
}

/// The waits and backlogs of all classes add up to those of the line.
#[test]
fn the_counters_of_classes_add_up() {
    let arrivals: Vec<_> =
        (0..400).map(|n| arrival(at_ms(n / 2), FOUR[(n % 4) as usize], 400 + 10 * (n as u32 % 90))).collect();
    let mut classes: Vec<Class> =
        FOUR[..3].iter().map(|dscp| reserving(&dscp.to_string(), *dscp, RATE / 8)).collect();
    classes.push(Class::new("rest", None));
    let room = PerClass { packets: Some(20), bytes: None };
    for ring in [0, 3] {
        let line = LineSettings { ring, ..settings(Queue::ClassWfq(room.clone()), classes.clone()) };
        let mut line = Line::<Packet>::new(&line, &Seeds::new(1), "test/forward").unwrap();
        let mut counters = LineCounters::new();
        for (id, Arrival { at, dscp, ip_len }) in (0..).zip(&arrivals) {
            let mut header = header(*ip_len);
            header.dscp = *dscp;
            line.offer(*at, Lane::ONLY, Packet { header, id }, &mut counters);
        }
        let of_classes: Vec<&LineCounters> = line.queue().port().unwrap().classes().collect();
        assert!(counters.dropped(DropReason::QueueFull).packets > 0, "the queues were full");
        let now = arrivals[399].at;
        let sum = |of: &dyn Fn(&LineCounters) -> u128| of_classes.iter().map(|class| of(class)).sum::<u128>();
        let all: [&dyn Fn(&LineCounters) -> u128; 5] = [
            &|c| c.offered.bytes.into(),
            &|c| c.served.packets.into(),
            &|c| c.dropped(DropReason::QueueFull).bytes.into(),
            &|c| c.waited().as_nanos().into(),
            &|c| c.packet_nanos(now),
        ];
        for of in all {
            assert_eq!(sum(of), of(&counters));
        }
        let inside: u64 = of_classes
            .iter()
            .map(|c| c.offered.packets - c.delivered.packets - c.dropped_in_all().packets)
            .sum();
        assert_eq!(inside as usize, line.backlog().packets);
    }
}
