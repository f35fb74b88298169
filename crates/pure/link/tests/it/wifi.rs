//! The shared medium compared with the standard: cycle times added up by hand, and the exact Markov chain of two
//! stations.

use std::collections::BTreeMap;

use netrig_core::{
    Delivery, DropReason, Duration, Instant, Lane, Link, LinkEvent, LinkObserver, Observer, Rate, Seeds,
    Waiting,
};
use netrig_link::queue::fifo::Fifo;
use netrig_link::wifi::{Aggregation, LaneSettings, Standard};
use netrig_link::{Bernoulli, LineCounters, Loss, Medium, Outage, Periodic, Queue, WifiSettings};

use crate::common::{Packet, packet};

/// The counters of each lane.
struct Lanes(Vec<LineCounters>);

impl LinkObserver<Packet> for Lanes {
    fn lane(&mut self, lane: Lane) -> &mut impl Observer<Packet> {
        &mut self.0[lane.0 as usize]
    }
}

fn settings(standard: Standard) -> WifiSettings {
    let queue = Queue::Fifo(Fifo { packets: Some(100), ..Fifo::default() });
    WifiSettings::new(standard, standard.rates()[7], queue)
}

/// A medium in which each lane has its own station.
fn medium(settings: &WifiSettings, stations: usize) -> Medium<Packet> {
    let names: Vec<String> = (0..stations).map(|n| format!("wifi#{n}/forward")).collect();
    let lanes: Vec<_> =
        names.iter().enumerate().map(|(station, name)| LaneSettings { station, name, settings }).collect();
    Medium::new(&lanes, &Seeds::new(7)).unwrap()
}

/// Keeps every lane backlogged until `end`, and returns the counters.
fn saturate(medium: &mut Medium<Packet>, lanes: u32, ip_len: u32, end: Instant) -> Lanes {
    let mut counters = Lanes(vec![LineCounters::new(); lanes as usize]);
    let mut id = 0;
    let mut now = Instant::ZERO;
    while now < end {
        for lane in (0..lanes).map(Lane) {
            while medium.backlog(lane).packets < 80 {
                id += 1;
                medium.offer(now, lane, packet(id, ip_len), &mut counters);
            }
        }
        now = medium.poll_timeout().unwrap();
        while medium.poll_deliver(now, &mut counters).is_some() {}
    }
    for lane in 0..lanes {
        assert_eq!(counters.0[lane as usize].balance(medium.inside(Lane(lane))), Ok(()));
    }
    counters
}

fn seconds(secs: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(secs)
}

/// The standard, the IP length, the exchange (data, SIFS and ACK) and the idle time before the slots, µs. For 1500 B
/// the exchange is 254 + 10 + 34 µs (802.11g) or 234 + 10 + 34 µs (802.11n).
const CYCLES: [(Standard, u32, u64, u64); 6] = [
    (Standard::G, 1500, 298, 28),
    (Standard::G, 770, 190, 28),
    (Standard::G, 405, 138, 28),
    (Standard::N, 1500, 278, 37),
    (Standard::N, 770, 186, 37),
    (Standard::N, 405, 142, 37),
];

/// The cycle of one station: DIFS or AIFS, a uniform backoff of 0 to 15 slots, the frame, its acknowledgement.
#[test]
fn one_station_cycles_as_the_standard_adds_up() {
    for (standard, ip_len, exchange, idle) in CYCLES {
        let counters = saturate(&mut medium(&settings(standard), 1), 1, ip_len, seconds(60));
        let cycle = (idle as f64 + 7.5 * 9.0 + exchange as f64) / 1e6;
        let n = counters.0[0].delivered.packets as f64;
        // The standard deviation of a backoff is 9·√((16² − 1)/12) = 41.5 µs. The bound is five standard errors of the
        // mean cycle.
        let error = 5.0 * 41.5e-6 / n.sqrt();
        assert!((60.0 / n - cycle).abs() < error, "{standard:?}, {ip_len} B: {} s for {cycle}", 60.0 / n);
        assert_eq!(counters.0[0].repeated.packets, 0);
    }
}

/// Exact results for two saturated stations: the share of accesses that collide, and the mean number of idle slots
/// before an access.
struct TwoStations {
    collisions: f64,
    idle_slots: f64,
}

impl TwoStations {
    /// The stationary distribution of the states "one station has just sent, the other is at stage j with r slots
    /// left". The window starts at 16 and doubles up to six times, to 1024. The seventh attempt is the last. With
    /// `at_boundary` a frozen counter has counted the slot in which the other station started.
    fn new(at_boundary: bool) -> Self {
        const STAGES: usize = 7;
        let step = u32::from(at_boundary);
        let next = |stage: usize| (stage + 1) % STAGES;
        let mut waits = BTreeMap::from([((0, 1u32), 1.0)]);
        let mut fresh: BTreeMap<(usize, usize), f64> = BTreeMap::new();
        let (mut collisions, mut idle_slots) = (0.0, 0.0);
        for _ in 0..200 {
            let mut then = BTreeMap::new();
            let mut then_fresh = BTreeMap::new();
            (collisions, idle_slots) = (0.0, 0.0);
            let mut meet = |(i, a): (usize, u32), (j, b): (usize, u32), weight: f64| {
                idle_slots += weight * f64::from(a.min(b));
                match a.cmp(&b) {
                    std::cmp::Ordering::Less => *then.entry((j, b - a - step)).or_insert(0.0) += weight,
                    std::cmp::Ordering::Greater => *then.entry((i, a - b - step)).or_insert(0.0) += weight,
                    std::cmp::Ordering::Equal => {
                        collisions += weight;
                        *then_fresh.entry((next(i), next(j))).or_insert(0.0) += weight;
                    }
                }
            };
            for ((stage, left), weight) in &waits {
                (0..16).for_each(|a| meet((0, a), (*stage, *left), weight / 16.0));
            }
            for ((i, j), weight) in &fresh {
                let (windows_i, windows_j) = (16u32 << i, 16u32 << j);
                let each = weight / f64::from(windows_i * windows_j);
                for a in 0..windows_i {
                    (0..windows_j).for_each(|b| meet((*i, a), (*j, b), each));
                }
            }
            // States with such a small probability do not change the result.
            waits = then.into_iter().filter(|(_, weight)| *weight > 1e-12).collect();
            fresh = then_fresh.into_iter().filter(|(_, weight)| *weight > 1e-9).collect();
        }
        Self { collisions, idle_slots }
    }

    /// Packets per second of both stations together. `exchange` and `idle` (before the slots) are in µs.
    fn rate(&self, exchange: u64, idle: u64, response: u64) -> f64 {
        let (exchange, idle) = (exchange as f64, idle as f64);
        // After a collision: the frame, SIFS, a slot and a preamble for the missing response.
        let collision = exchange - response as f64 + 39.0;
        let success = 1.0 - self.collisions;
        let cycle = 9.0 * self.idle_slots + idle + success * exchange + self.collisions * collision;
        success / cycle * 1e6
    }
}

#[test]
fn two_stations_collide_and_share_as_the_exact_chain_says() {
    let [dcf, edca] = [false, true].map(TwoStations::new);
    for (standard, ip_len, exchange, idle) in CYCLES {
        let chain = if standard == Standard::G { &dcf } else { &edca };
        let theory = chain.rate(exchange, idle, 44);
        let counters = saturate(&mut medium(&settings(standard), 2), 2, ip_len, seconds(120));
        let [a, b] = [0, 1].map(|lane| counters.0[lane].delivered.packets as f64);
        let measured = (a + b) / 120.0;
        println!("{standard:?}, {ip_len} B: {measured:.1} packets/s, {theory:.1} by the chain");
        assert!((measured / theory - 1.0).abs() < 0.003, "{standard:?}, {ip_len} B: {measured} for {theory}");
        assert!((a / b - 1.0).abs() < 0.02, "{a} and {b}");
        // After each collision both stations retransmit.
        let collisions = counters.0.iter().map(|lane| lane.repeated.packets as f64).sum::<f64>() / 2.0;
        let share = collisions / (a + b + collisions);
        assert!((share / chain.collisions - 1.0).abs() < 0.03, "{share} for {}", chain.collisions);
    }
}

/// 28 MPDUs of 1538 B fill 5.484 ms at 65 Mbit/s: 27 subframes of 1544 B and one of 1542 B.
#[test]
fn an_aggregate_is_as_long_as_the_longest_frame() {
    let aggregation = Some(Aggregation::default());
    let counters = saturate(
        &mut medium(&WifiSettings { aggregation, ..settings(Standard::N) }, 1),
        1,
        1500,
        seconds(60),
    );
    // 43,230 B are (22 + 345,840) / 260 = 1331 symbols. A BlockAck takes 38 µs.
    let cycle = 37.0 + 67.5 + (36.0 + 1331.0 * 4.0 + 6.0) + 10.0 + 38.0;
    let rate = counters.0[0].delivered.packets as f64 / 60.0;
    assert!((rate / (28.0 / cycle * 1e6) - 1.0).abs() < 0.003, "{rate}");
}

/// Every second frame is lost: the window doubles and is reset, and every packet arrives.
#[test]
fn a_frame_that_is_lost_is_sent_again_after_a_longer_backoff() {
    let frame_loss = Some(Loss::Periodic(Periodic { every: 2, first: Some(1) }));
    let mut medium = medium(&WifiSettings { frame_loss, ..settings(Standard::G) }, 1);
    let counters = saturate(&mut medium, 1, 1500, seconds(60));
    let lane = &counters.0[0];
    assert_eq!(lane.dropped_in_all().packets, 0);
    // The run may end after the next frame has been sent for the first time.
    assert!(lane.repeated.packets - lane.delivered.packets <= 1);
    // First attempt: DIFS, 7.5 slots, 254 µs, the timeout of 39 µs. Second attempt: DIFS, 15.5 slots, 254 µs, SIFS and
    // ACK.
    let cycle = (28.0 + 67.5 + 254.0 + 39.0) + (28.0 + 139.5 + 298.0);
    let rate = lane.delivered.packets as f64 / 60.0;
    assert!((rate / (1e6 / cycle) - 1.0).abs() < 0.005, "{rate}");
}

/// If half of the frames are lost, 1/128 of the packets are discarded. The far end waits for them until then.
#[test]
fn a_packet_is_given_up_after_seven_attempts() {
    let frame_loss = Some(Loss::Bernoulli(Bernoulli { probability: "50 %".parse().unwrap() }));
    for aggregation in [None, Some(Aggregation { packets: 8, ..Aggregation::default() })] {
        let settings = WifiSettings { frame_loss: frame_loss.clone(), aggregation, ..settings(Standard::N) };
        let counters = saturate(&mut medium(&settings, 1), 1, 1500, seconds(120));
        let lane = &counters.0[0];
        let lost = lane.dropped(DropReason::RetryLimit).packets as f64;
        let n = lane.delivered.packets as f64 + lost;
        let expected = n / 128.0;
        assert!((lost - expected).abs() < 5.0 * expected.sqrt(), "{lost} of {n}");
        let repeats = lane.repeated.packets as f64 / n;
        // Retransmissions per packet: 1/2 + 1/4 + … + 1/64.
        assert!((repeats - (0.5 - 1.0 / 128.0) / 0.5).abs() < 0.02, "{repeats}");
    }
}

/// Packets that an aggregate delivered wait for missing packets before them.
#[test]
fn packets_arrive_in_the_order_in_which_they_were_sent() {
    let frame_loss = Some(Loss::Bernoulli(Bernoulli { probability: "20 %".parse().unwrap() }));
    let settings =
        WifiSettings { frame_loss, aggregation: Some(Aggregation::default()), ..settings(Standard::N5Ghz) };
    let mut medium = medium(&settings, 1);
    let (mut sent, mut got) = (0, Vec::new());
    let mut now = Instant::ZERO;
    while got.len() < 20_000 {
        while medium.backlog(Lane(0)).packets < 80 {
            sent += 1;
            medium.offer(now, Lane(0), packet(sent, 1500), &mut ());
        }
        now = medium.poll_timeout().unwrap();
        while let Some(Delivery { at, packet, .. }) = medium.poll_deliver(now, &mut ()) {
            got.push((at, packet.id));
        }
    }
    assert!(got.is_sorted());
}

/// The access point has one transmitter: three stations that only receive share the rate of one station. A station that
/// sends gets as much as these three together.
#[test]
fn a_station_contends_once_however_many_it_sends_to() {
    let settings = settings(Standard::G);
    let names = ["a", "b", "c", "up"];
    let lanes: Vec<_> = names
        .iter()
        .zip([0, 0, 0, 1])
        .map(|(name, station)| LaneSettings { station, name, settings: &settings })
        .collect();
    let mut medium = Medium::new(&lanes, &Seeds::new(3)).unwrap();
    let mut counters = Lanes(vec![LineCounters::new(); 4]);
    let (mut now, mut id) = (Instant::ZERO, 0);
    while now < seconds(30) {
        for lane in [0, 1, 2, 3, 3, 3].map(Lane) {
            if medium.backlog(lane).packets < 30 {
                id += 1;
                medium.offer(now, lane, packet(id, 1500), &mut counters);
            }
        }
        now = medium.poll_timeout().unwrap();
        while medium.poll_deliver(now, &mut counters).is_some() {}
    }
    let got: Vec<f64> = counters.0.iter().map(|lane| lane.delivered.packets as f64).collect();
    let down: f64 = got[..3].iter().sum();
    assert!((down / got[3] - 1.0).abs() < 0.03, "{got:?}");
    let unlike =
        LaneSettings { station: 0, name: "d", settings: &WifiSettings { attempts: 4, ..settings.clone() } };
    let refused = Medium::<Packet>::new(&[lanes[0], unlike], &Seeds::new(3)).unwrap_err();
    assert!(refused.to_string().contains("`attempts` must be the same for all links"), "{refused}");
}

/// After a pause a station sends immediately if the medium is idle (802.11g), or at the next slot with EDCA.
#[test]
fn who_has_been_silent_sends_at_once() {
    let arrival = Instant::ZERO + Duration::from_millis(10);
    for (standard, sent) in [(Standard::G, 254), (Standard::N, 234 + 9)] {
        let mut medium = medium(&settings(standard), 2);
        medium.offer(arrival, Lane(0), packet(1, 1500), &mut ());
        assert!(medium.poll_timeout().unwrap() > arrival);
        let Delivery { at, packet: got, .. } = medium.poll_deliver(seconds(1), &mut ()).unwrap();
        // 10 ms minus the AIFS of 37 µs are 1107 slots. The packet arrives at a slot boundary, too late to be sent
        // there.
        assert_eq!((at.since(arrival), got.id), (Duration::from_micros(sent), 1));
    }
}

/// If packets arrive at two idle stations at the same moment, both stations send immediately.
#[test]
fn what_comes_at_one_moment_collides() {
    let mut medium = medium(&settings(Standard::G), 2);
    let mut counters = Lanes(vec![LineCounters::new(); 2]);
    let arrival = Instant::ZERO + Duration::from_millis(10);
    for lane in [0, 1] {
        medium.offer(arrival, Lane(lane), packet(lane.into(), 1500), &mut counters);
        assert!(medium.poll_deliver(arrival, &mut counters).is_none());
    }
    while medium.poll_deliver(seconds(1), &mut counters).is_some() {}
    assert!(counters.0.iter().all(|lane| lane.repeated.packets >= 1 && lane.delivered.packets == 1));
}

/// When a medium is polled between two arrivals.
#[derive(Clone, Copy, Debug)]
enum Polling {
    /// At its own deadlines.
    Exactly,
    /// Every 7 µs.
    Often,
    /// At the next arrival.
    Late,
    /// Only at the end.
    AtTheEnd,
}

/// The result does not depend on when and how often the medium is polled.
#[test]
fn polling_late_or_often_changes_nothing() {
    let frame_loss = Some(Loss::Bernoulli(Bernoulli { probability: "10 %".parse().unwrap() }));
    let settings = WifiSettings { frame_loss, ..settings(Standard::G) };
    let run = |polling| {
        let mut medium = medium(&settings, 2);
        let mut got = Vec::new();
        let mut take = |medium: &mut Medium<Packet>, now| {
            let arrived = std::iter::from_fn(|| medium.poll_deliver(now, &mut ()));
            let before = got.len();
            got.extend(arrived.map(|delivery| (delivery.at, delivery.lane, delivery.packet.id)));
            got.len() - before
        };
        let (mut now, mut on_time) = (Instant::ZERO, 0);
        for n in 0..4000u64 {
            let next = Instant::ZERO + Duration::from_micros(n * 137);
            match polling {
                Polling::Exactly => {
                    while let Some(at) = medium.poll_timeout().filter(|at| *at < next) {
                        on_time += take(&mut medium, at);
                    }
                }
                Polling::Often => {
                    while now < next {
                        on_time += take(&mut medium, now);
                        now += Duration::from_micros(7);
                    }
                }
                Polling::Late => on_time += take(&mut medium, next),
                Polling::AtTheEnd => {}
            }
            let len = 200 + (n * 37 % 1300) as u32;
            medium.offer(next, Lane((n % 2) as u32), packet(n, len), &mut ());
            now = now.max(next);
        }
        assert_eq!(on_time > 0, !matches!(polling, Polling::AtTheEnd), "{polling:?}");
        take(&mut medium, seconds(60));
        got
    };
    let exactly = run(Polling::Exactly);
    for polling in [Polling::Often, Polling::Late, Polling::AtTheEnd] {
        assert_eq!(run(polling), exactly, "{polling:?}");
    }
}

#[test]
fn an_outage_drops_or_keeps_what_waits() {
    for (waiting, arrives) in [(Waiting::Drop, 0), (Waiting::Keep, 20)] {
        let mut medium = medium(&settings(Standard::G), 1);
        let mut counters = Lanes(vec![LineCounters::new()]);
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let outage = Outage { queue: waiting, ..Outage::default() };
        medium.apply(at(5), Lane(0), outage.down(), &mut counters);
        (0..20).for_each(|id| medium.offer(at(6), Lane(0), packet(id, 1500), &mut counters));
        assert_eq!(medium.poll_deliver(at(500), &mut counters), None);
        medium.apply(at(600), Lane(0), LinkEvent::Up, &mut counters);
        let first = medium.poll_deliver(seconds(1), &mut counters);
        assert_eq!(first.is_some(), arrives > 0);
        assert!(first.is_none_or(|first| first.at > at(600)));
        while medium.poll_deliver(seconds(1), &mut counters).is_some() {}
        assert_eq!(counters.0[0].delivered.packets, arrives);
        assert_eq!(counters.0[0].dropped(DropReason::LinkDown).packets, 20 - arrives);
        assert_eq!(counters.0[0].balance(medium.inside(Lane(0))), Ok(()));
    }
}

/// Packets that an access point drops for a lane that is down take no airtime. The other station sends as if these
/// packets did not exist, although both stations had counted down.
#[test]
fn what_is_dropped_unsent_delays_nobody() {
    let settings = settings(Standard::N);
    let arrivals = |disturbed: bool| {
        let lanes = [(0, "ap/a"), (1, "b/ap"), (0, "ap/b")].map(|(station, name)| LaneSettings {
            station,
            name,
            settings: &settings,
        });
        let mut medium = Medium::new(&lanes, &Seeds::new(7)).unwrap();
        let mut arrivals = Vec::new();
        for n in 0..500 {
            let at = Instant::ZERO + Duration::from_micros(1000 * n);
            // Two packets at a time, so that stations have a backoff to count down.
            (0..2).for_each(|i| medium.offer(at, Lane(1), packet(10 * n + i, 1500), &mut ()));
            if disturbed {
                let between = at + Duration::from_micros(300 + 7 * (n % 40));
                while let Some(delivery) = medium.poll_deliver(between, &mut ()) {
                    arrivals.push(delivery.at);
                }
                let outage = Outage { queue: Waiting::Drop, ..Outage::default() };
                medium.offer(between, Lane(0), packet(10 * n + 5, 1500), &mut ());
                medium.apply(between, Lane(0), outage.down(), &mut ());
            }
            while let Some(delivery) = medium.poll_deliver(at + Duration::from_micros(999), &mut ()) {
                arrivals.push(delivery.at);
            }
            medium.apply(at + Duration::from_micros(999), Lane(0), LinkEvent::Up, &mut ());
        }
        arrivals
    };
    let undisturbed = arrivals(false);
    assert_eq!(undisturbed.len(), 1000);
    assert_eq!(arrivals(true), undisturbed);
}

/// The airtime of a lane is the time of its frames and their responses only.
#[test]
fn the_air_of_a_lane_is_its_frames_and_answers() {
    let mut medium = medium(&settings(Standard::G), 1);
    for n in 0..10 {
        medium.offer(Instant::ZERO + Duration::from_millis(n), Lane(0), packet(n, 1500), &mut ());
    }
    while medium.poll_deliver(seconds(1), &mut ()).is_some() {}
    assert_eq!(medium.occupied(Lane(0), seconds(1)), Duration::from_micros(10 * 298));
}

#[test]
fn a_slower_rate_takes_longer_from_then_on() {
    let mut medium = medium(&settings(Standard::G), 1);
    let at = |ms| Instant::ZERO + Duration::from_millis(ms);
    medium.apply(
        at(5),
        Lane(0),
        LinkEvent::Rate { bits_per_s: Rate::from_bits_per_s(6_000_000).bits_per_s() },
        &mut (),
    );
    medium.offer(at(10), Lane(0), packet(1, 1500), &mut ());
    // An MPDU of 1536 B: (22 + 12288) bits in symbols of 24 bits, 513 symbols.
    let Delivery { at: arrival, .. } = medium.poll_deliver(seconds(1), &mut ()).unwrap();
    assert_eq!(arrival.since(at(10)), Duration::from_micros(20 + 513 * 4 + 6));
}
