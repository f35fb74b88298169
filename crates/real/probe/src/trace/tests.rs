//! Traces over simulated paths, in virtual time.

use std::collections::BTreeMap;
use std::net::IpAddr;

use netrig_core::{Duration, Instant};
use proptest::prelude::*;

use super::super::flow::packet::AnswerKind;
use super::super::flow::{FlowResponse, ResponseKind};
use super::super::icmp_error::{IcmpError, Unreachable};
use super::course::{TraceCourse, TraceEnd, TracePlan, TraceProbe, TraceStep};
use super::speed::SpeedPlan;

const TARGET: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
const MS: u64 = 1_000_000;

fn plan() -> TracePlan {
    TracePlan {
        first: 1,
        last: 30,
        each: 3,
        length: 60,
        wait: Duration::from_millis(1000),
        gap: Duration::from_millis(10),
        in_flight: 8,
        speed: None,
    }
}

fn router(ttl: u8) -> IpAddr {
    [10, 0, 0, ttl].into()
}

fn expired(ttl: u8) -> (IpAddr, ResponseKind) {
    (router(ttl), ResponseKind::IcmpError(IcmpError::Expired))
}

const PORT: ResponseKind = ResponseKind::IcmpError(IcmpError::Unreachable(Unreachable::Port));

/// A simulated path: maps a packet to its response. A response has the round-trip time in milliseconds, the responding
/// address and the kind, and whether it identifies the packet. `None` if there is no response.
type TestPath<'a> = dyn FnMut(TraceProbe) -> Option<(u64, (IpAddr, ResponseKind), bool)> + 'a;

/// Runs a trace over a path. Returns the trace, and for each packet its sending time and the number of packets in
/// flight.
fn run(plan: TracePlan, path: &mut TestPath<'_>) -> (TraceCourse, Vec<(Instant, usize)>) {
    let mut course = TraceCourse::new(plan, TARGET);
    let mut now = Instant::ZERO;
    let mut coming = BTreeMap::<(Instant, u32), (TraceProbe, (IpAddr, ResponseKind), bool)>::new();
    let mut left = Vec::new();
    for _ in 0..1_000_000 {
        while let Some((at, _)) = coming.first_key_value().map(|(key, _)| *key).filter(|(at, _)| *at <= now) {
            let (_, (probe, (from, kind), named)) = coming.pop_first().unwrap();
            let response = FlowResponse {
                from,
                kind,
                at: at.as_nanos(),
                stamped: true,
                ttl: None,
                length: 28,
                labels: vec![],
            };
            if named {
                course.record(probe.number, response);
            } else {
                course.record_unnamed(now, response);
            }
        }
        match course.next(now, now.as_nanos()) {
            TraceStep::Send(probe) => {
                let wait = course.plan().wait;
                let open = course.sent().iter().filter(|sent| sent.response.is_none() && !sent.void);
                left.push((now, open.filter(|sent| sent.given + wait.as_nanos() > now.as_nanos()).count()));
                if let Some((ms, reply, named)) = path(probe) {
                    coming.insert((now + Duration::from_millis(ms), probe.number), (probe, reply, named));
                }
            }
            TraceStep::Wait(until) => {
                let next = coming.first_key_value().map_or(until, |((at, _), _)| until.min(*at));
                assert!(next > now, "{now:?}: it waits for what has been");
                now = next;
            }
            TraceStep::Over => return (course, left),
        }
    }
    panic!("it does not end");
}

fn responses_from(course: &TraceCourse, ttl: u8) -> Vec<Option<IpAddr>> {
    let of_hop = course.sent().iter().filter(|sent| sent.probe.ttl == ttl && !sent.void);
    of_hop.map(|sent| sent.response.as_ref().map(|response| response.from)).collect()
}

#[test]
fn a_way_of_four_hops_is_found() {
    let (course, left) = run(plan(), &mut |probe| {
        let ttl = probe.ttl;
        Some((20 * u64::from(ttl.min(4)), if ttl < 4 { expired(ttl) } else { (TARGET, PORT) }, true))
    });
    assert_eq!(course.end(), Some((4, TraceEnd::Reached)));
    for ttl in 1..4 {
        assert_eq!(responses_from(&course, ttl), [Some(router(ttl)); 3]);
    }
    assert_eq!(responses_from(&course, 4), [Some(TARGET); 3]);
    assert!(left.windows(2).all(|pair| pair[1].0 - pair[0].0 >= Duration::from_millis(10)));
    assert!(left.iter().all(|(_, open)| *open <= 8));
    // Only a few packets with a TTL beyond the target were sent before the target answered.
    assert!(course.sent().len() <= 12 + 8, "{}", course.sent().len());
    let trip = course.sent()[3].round_trip(Duration::from_millis(1000)).unwrap();
    assert!((trip - 0.04).abs() < 1e-9, "{trip}");
}

#[test]
fn silent_hops_are_passed_over_and_a_way_without_end_ends() {
    let silent = TracePlan { last: 6, ..plan() };
    let (course, _) = run(silent, &mut |probe| (probe.ttl != 2).then(|| (5, expired(probe.ttl), true)));
    assert_eq!(course.end(), None);
    assert_eq!(responses_from(&course, 2), [None; 3]);
    assert_eq!(responses_from(&course, 6), [Some(router(6)); 3]);
    assert_eq!(course.sent().len(), 18);
    let (course, _) = run(plan(), &mut |_| None);
    assert_eq!((course.end(), course.sent().len()), (None, 90));
}

#[test]
fn who_says_that_there_is_no_way_ends_it() {
    let why = Unreachable::Host;
    let (course, _) = run(plan(), &mut |probe| match probe.ttl {
        1 => Some((5, expired(1), true)),
        _ => Some((5, (router(1), ResponseKind::IcmpError(IcmpError::Unreachable(why))), true)),
    });
    assert_eq!(course.end(), Some((2, TraceEnd::Unreachable(why))));
    // A router reports a closed port. This does not mean that the target was reached.
    let (course, _) = run(plan(), &mut |_| Some((5, (router(1), PORT), true)));
    assert_eq!(course.end(), Some((1, TraceEnd::Unreachable(Unreachable::Port))));
}

#[test]
fn an_answer_in_the_place_of_an_error_is_the_end() {
    let (course, _) = run(plan(), &mut |probe| match probe.ttl {
        1..3 => Some((5, expired(probe.ttl), true)),
        _ => Some((9, (TARGET, ResponseKind::Answer(AnswerKind::Echo)), true)),
    });
    assert_eq!(course.end(), Some((3, TraceEnd::Reached)));
}

/// Two routers quote too little to identify a packet. If several packets are in flight, such a response does not count,
/// and the packets are sent again one at a time.
#[test]
fn who_repeats_too_little_is_asked_one_packet_at_a_time() {
    let (course, left) = run(plan(), &mut |probe| match probe.ttl {
        ttl @ 1..6 => Some((20, expired(ttl), !matches!(ttl, 2 | 4))),
        _ => Some((20, (TARGET, PORT), true)),
    });
    assert_eq!(course.end(), Some((6, TraceEnd::Reached)));
    for ttl in 1..6 {
        let response = responses_from(&course, ttl);
        assert!(
            response.len() >= 3 && response.iter().all(|from| *from == Some(router(ttl))),
            "{ttl}: {response:?}"
        );
    }
    assert!(course.unnamed() >= 6);
    let voided = course.sent().iter().filter(|sent| sent.void).count();
    assert!(voided > 0 && voided <= 8, "{voided}");
    assert!(left.iter().skip(8).all(|(_, open)| *open == 1), "one of ours at a time: {left:?}");
}

fn fast(lengths: usize, each: u32) -> Option<SpeedPlan> {
    Some(SpeedPlan::new(576, 1500, lengths, each).unwrap())
}

#[test]
fn lengths_go_to_every_hop_one_after_the_other() {
    let (course, _) = run(TracePlan { speed: fast(5, 2), ..plan() }, &mut |probe| match probe.ttl {
        1..3 => Some((5, expired(probe.ttl), true)),
        _ => Some((9, (TARGET, PORT), true)),
    });
    let mut counts = BTreeMap::<(u8, usize), usize>::new();
    for sent in course.sent().iter().filter(|sent| sent.for_speed) {
        *counts.entry((sent.probe.ttl, sent.probe.length)).or_default() += 1;
    }
    let lengths = [576, 807, 1038, 1269, 1500];
    let expected: BTreeMap<_, _> = (1..=3).flat_map(|ttl| lengths.map(|length| ((ttl, length), 2))).collect();
    assert_eq!(counts, expected);
    let speed: Vec<_> = course.sent().iter().filter(|sent| sent.for_speed).collect();
    let overlap = speed.windows(2).any(|pair| {
        let done = pair[0].response.as_ref().map_or(u64::MAX, |response| response.at);
        pair[1].given < done
    });
    assert!(!overlap, "one is on its way at a time");
}

/// The link after the first router has an MTU of 1000 B, which the router reports. The link after the second has 800 B,
/// and the router reports no MTU.
#[test]
fn lengths_shrink_to_what_links_carry() {
    let (course, _) = run(TracePlan { speed: fast(5, 3), ..plan() }, &mut |probe| {
        let too_long = |mtu| ResponseKind::IcmpError(IcmpError::Unreachable(Unreachable::TooLong(mtu)));
        match (probe.ttl, probe.length) {
            (1, _) => Some((5, expired(1), true)),
            (_, 1001..) => Some((5, (router(1), too_long(1000)), true)),
            (2, _) => Some((5, expired(2), true)),
            (_, 801..) => Some((5, (router(2), too_long(0)), true)),
            _ => Some((5, (TARGET, PORT), true)),
        }
    });
    assert_eq!(course.end(), Some((3, TraceEnd::Reached)));
    let [shortest, longest] = course.plan().speed.as_ref().unwrap().ends();
    assert!(shortest == 576 && longest <= 800, "{longest}");
    let of_speed = course.sent().iter().filter(|sent| sent.for_speed && !sent.void);
    assert_eq!(of_speed.filter(|sent| sent.response.is_some()).count(), 3 * 5 * 3);
}

proptest! {
    /// For any responses, the trace ends. It keeps the minimum gap and the maximum number of packets in flight. It
    /// probes no TTL more often than planned, not counting packets with unidentified responses.
    #[test]
    fn any_path_comes_to_an_end(
        answers in proptest::collection::vec((0u8..6, 0u64..2500, any::<bool>()), 1..50),
        in_flight in 1usize..20,
        speed: bool,
    ) {
        let plan = TracePlan { last: 10, in_flight, speed: speed.then(|| fast(5, 2)).flatten(), ..plan() };
        let mut number = 0;
        let (course, left) = run(plan.clone(), &mut |probe| {
            let (kind, ms, named) = answers[number % answers.len()];
            number += 1;
            let unreachable = |why| ResponseKind::IcmpError(IcmpError::Unreachable(why));
            let reply = match kind {
                0 => return None,
                1 => (TARGET, PORT),
                2 => (router(probe.ttl), unreachable(Unreachable::Network)),
                3 => (router(probe.ttl), unreachable(Unreachable::TooLong(700))),
                _ => expired(probe.ttl),
            };
            Some((ms, reply, named))
        });
        prop_assert!(left.windows(2).all(|pair| pair[1].0 - pair[0].0 >= plan.gap));
        let of_way = course.sent().iter().zip(&left).filter(|(sent, _)| !sent.for_speed);
        prop_assert!(of_way.clone().all(|(_, (_, open))| *open <= in_flight));
        for ttl in 1..=10 {
            let asked = of_way.clone().filter(|(sent, _)| sent.probe.ttl == ttl && !sent.void).count();
            prop_assert!(asked <= 3, "{} packets with a TTL of {}", asked, ttl);
        }
    }
}

proptest! {
    /// Responses to packets that were never sent change nothing.
    #[test]
    fn what_nobody_was_asked_is_no_answer(numbers in proptest::collection::vec(any::<u32>(), 0..50)) {
        let mut course = TraceCourse::new(plan(), TARGET);
        let response = || FlowResponse { from: TARGET, kind: PORT, at: 0, stamped: false, ttl: None, length: 0, labels: vec![] };
        for number in numbers {
            prop_assert!(!course.record(number, response()));
            course.left(number, 1);
            course.is_too_long(number, 100);
        }
        let first = TraceStep::Send(TraceProbe { number: 0, ttl: 1, length: 60 });
        prop_assert_eq!(course.next(Instant::ZERO, MS), first);
    }
}
