//! Path MTU searches over simulated paths, in virtual time.

use std::net::IpAddr;

use netrig_core::{Duration, Instant, Seeds};
use proptest::prelude::*;

use super::MtuResponder;
use super::report::limit_note;
use super::search::{PathMtuPhase, PathMtuPlan, PathMtuSearch, PathMtuStep, TooLongReason};

const ROUTER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const TRIP: Duration = Duration::from_millis(40);
const HALF: Duration = Duration::from_millis(20);

fn plan() -> PathMtuPlan {
    PathMtuPlan::new(68, 1200, 9000, 3, Duration::from_secs(1)).unwrap()
}

/// What a simulated path does with a packet.
#[derive(Clone, Copy)]
enum Fate {
    Through,
    Vanishes,
    Told(u32),
    /// The interface of this host has this MTU.
    Here(u32),
}

/// Runs a search to its end. Returns the search, the number of packets and the duration.
fn run(plan: PathMtuPlan, path: impl FnMut(usize, u32) -> Fate) -> (PathMtuSearch, u32, Duration) {
    let mut path = path;
    let (mut search, mut now, mut sent) = (PathMtuSearch::new(plan), Instant::ZERO, 0);
    loop {
        match search.next(now) {
            PathMtuStep::Send { number, size } => {
                assert_eq!(number, sent);
                sent += 1;
                assert!(sent < 5000, "it does not end");
                match path(size, number) {
                    Fate::Through => {
                        now += TRIP;
                        assert!(search.answered(number, now));
                        assert!(!search.answered(number, now), "twice");
                    }
                    Fate::Told(mtu) => {
                        now += HALF;
                        search.too_long(number, mtu, ROUTER);
                    }
                    Fate::Here(mtu) => search.refused_here(number, mtu),
                    Fate::Vanishes => {}
                }
            }
            PathMtuStep::Wait(until) => {
                assert!(until > now);
                now = until;
            }
            PathMtuStep::Over => return (search, sent, now - Instant::ZERO),
        }
    }
}

#[test]
fn a_path_that_carries_what_the_interface_does_takes_few_packets() {
    let (search, sent, _) = run(plan(), |size, _| if size > 1500 { Fate::Here(1500) } else { Fate::Through });
    assert_eq!((search.confirmed(), search.refused()), (Some(1500), (1501, TooLongReason::Here)));
    assert_eq!((search.phase(), sent), (PathMtuPhase::SearchComplete, 3));
    let (search, sent, _) = run(plan(), |_, _| Fate::Through);
    assert_eq!((search.confirmed(), search.refused().1, sent), (Some(9000), TooLongReason::Untried, 2));
}

#[test]
fn what_a_router_says_is_tried_and_one_byte_more_too() {
    let (search, sent, _) = run(plan(), |size, _| if size > 1412 { Fate::Told(1412) } else { Fate::Through });
    let told = TooLongReason::Told { by: ROUTER, mtu: 1412 };
    assert_eq!((search.confirmed(), search.refused()), (Some(1412), (1413, told)));
    // Packets of four sizes are sent: the base, the largest size, the reported MTU, and the reported MTU plus 1.
    assert_eq!((sent, search.untrue()), (4, 0));
}

#[test]
fn a_black_hole_is_found_and_tried_once_more() {
    let (search, _, took) = run(plan(), |size, _| if size > 1400 { Fate::Vanishes } else { Fate::Through });
    assert_eq!((search.confirmed(), search.refused()), (Some(1400), (1401, TooLongReason::Vanished)));
    let tried = search.tried();
    assert_eq!((tried[&1401].answered, tried[&1401].sent), (0, 3 + 2));
    assert_eq!((tried[&1400].answered, tried[&1400].sent), (4, 4));
    assert!(took < Duration::from_secs(8), "{took:?}");
}

#[test]
fn who_does_not_say_how_much_is_believed_that_it_was_too_much() {
    let (search, ..) = run(plan(), |size, _| if size > 1300 { Fate::Told(0) } else { Fate::Through });
    assert_eq!(search.confirmed(), Some(1300));
    assert!(matches!(search.refused(), (1301, TooLongReason::Told { mtu: 0, .. })));
}

/// Reports that contradict received packets are ignored (RFC 8899 section 4.6.2).
#[test]
fn what_is_said_against_what_came_through_is_not_believed() {
    // The link carries 1400 B. The router reports 1000 B, although a packet of 1200 B arrived.
    let (search, ..) = run(plan(), |size, _| if size > 1400 { Fate::Told(1000) } else { Fate::Through });
    assert_eq!(search.confirmed(), Some(1400));
    assert!(search.untrue() > 0);
    for nonsense in [20, 9001] {
        let (search, ..) =
            run(plan(), |size, _| if size > 1400 { Fate::Told(nonsense) } else { Fate::Through });
        assert_eq!(
            (search.confirmed(), search.refused()),
            (Some(1400), (1401, TooLongReason::Vanished)),
            "{nonsense}"
        );
    }
    // The arrival of a packet overrides a report that it was too long.
    let mut search = PathMtuSearch::new(plan());
    let PathMtuStep::Send { number, .. } = search.next(Instant::ZERO) else { panic!() };
    search.answered(number, Instant::ZERO + TRIP);
    let PathMtuStep::Send { number, size: 9000 } = search.next(Instant::ZERO + TRIP) else { panic!() };
    search.too_long(number, 1300, ROUTER);
    assert!(search.answered(number, Instant::ZERO + TRIP * 2));
    assert_eq!(search.confirmed(), Some(9000));
}

#[test]
fn below_the_base_is_an_error_of_the_path_and_searched_all_the_same() {
    for fate in [Fate::Vanishes, Fate::Told(600)] {
        let (search, ..) = run(plan(), |size, _| if size > 600 { fate } else { Fate::Through });
        assert_eq!(search.confirmed(), Some(600));
    }
    let (search, sent, _) = run(plan(), |_, _| Fate::Vanishes);
    assert_eq!((search.confirmed(), search.phase(), sent), (None, PathMtuPhase::Error, 6));
}

#[test]
fn a_path_that_gets_narrower_is_searched_anew() {
    let (search, ..) = run(plan(), |size, number| {
        let mtu = if number < 2 { 9000 } else { 1280 };
        if size > mtu { Fate::Told(1280) } else { Fate::Through }
    });
    assert_eq!(search.confirmed(), Some(9000), "nothing was left to try");
    let (search, ..) = run(plan(), |size, number| match (size, number) {
        (2000.., _) => Fate::Vanishes,
        // From packet 20 on, the search verifies the confirmed and the refused size.
        (1281.., 20..) => Fate::Told(1280),
        _ => Fate::Through,
    });
    assert!(search.is_unsteady() && search.confirmed() == Some(1280), "{search:?}");
}

#[test]
fn a_plan_is_in_its_order() {
    let second = Duration::from_secs(1);
    assert!(PathMtuPlan::new(1, 1, 1, 1, second).is_some());
    for (least, base, most, probes) in [(0, 1, 1, 1), (2, 1, 3, 1), (1, 3, 2, 1), (1, 2, 3, 0)] {
        assert_eq!(PathMtuPlan::new(least, base, most, probes, second), None);
    }
    assert_eq!(PathMtuPlan::new(1, 2, 3, 1, Duration::ZERO), None);
}

proptest! {
    /// Every MTU is found exactly, with and without reports of routers.
    #[test]
    fn every_length_is_found(mtu in 68usize..10_000, says in 0u8..3) {
        let fate = match says {
            0 => Fate::Vanishes,
            1 => Fate::Told(mtu as u32),
            _ => Fate::Told(0),
        };
        let (search, ..) = run(plan(), |size, _| if size > mtu { fate } else { Fate::Through });
        prop_assert_eq!(search.confirmed(), Some(mtu.min(9000)));
        prop_assert_eq!(search.refused().0, mtu.min(9000) + 1);
    }

    /// With random loss, the result may be too small but is never too large.
    #[test]
    fn loss_by_chance_makes_nothing_longer(mtu in 1200usize..9000, loss in 0.0..0.9f64, seed: u64) {
        let mut draws = Seeds::new(seed).stream("loss");
        let (search, ..) = run(plan(), |size, _| {
            if size > mtu || draws.chance(loss) { Fate::Vanishes } else { Fate::Through }
        });
        prop_assert!(search.confirmed().is_none_or(|size| size <= mtu));
    }

    /// With 5 % random loss and five packets of each size, the MTU is found.
    #[test]
    fn some_loss_hides_no_length(mtu in 1200usize..1500, seed in 0u64..200) {
        let mut draws = Seeds::new(seed).stream("loss");
        let (search, ..) = run(PathMtuPlan::new(68, 1200, 1500, 5, Duration::from_secs(1)).unwrap(), |size, _| {
            if size > mtu || draws.chance(0.05) { Fate::Vanishes } else { Fate::Through }
        });
        prop_assert_eq!(search.confirmed(), Some(mtu));
    }

    /// For any reports about any packets, the search ends, and its result is a size that arrived.
    #[test]
    fn any_word_is_survived(words in proptest::collection::vec((0u8..5, any::<u32>(), 0u32..12_000), 1..60)) {
        let mut largest = 0;
        let (search, ..) = run(plan(), |size, number| {
            let (kind, _, mtu) = words[number as usize % words.len()];
            match kind {
                0 => { largest = largest.max(size); Fate::Through }
                1 | 2 => Fate::Told(mtu),
                3 => Fate::Here(mtu),
                _ => Fate::Vanishes,
            }
        });
        prop_assert!(search.confirmed().is_none_or(|size| size <= largest));
        let mut search = search;
        for (_, number, mtu) in words {
            search.too_long(number, mtu, ROUTER);
            search.refused_here(number, mtu);
        }
    }
}

/// A target that answers every fifth echo request looks like a path with a small MTU, which is noted. There is no note
/// if the target answers all requests that the path carries.
#[test]
fn echoes_without_an_answer_may_be_a_limit_of_the_target() {
    let told_or_through = |size, _| if size > 1500 { Fate::Told(1500) } else { Fate::Through };
    let (search, ..) = run(plan(), told_or_through);
    assert_eq!((search.confirmed(), limit_note(&MtuResponder::Echo(None), &search)), (Some(1500), None));
    let (search, ..) = run(plan(), |_, number| if number % 5 == 0 { Fate::Through } else { Fate::Vanishes });
    let note = limit_note(&MtuResponder::Echo(None), &search).unwrap();
    assert!(
        note.contains("a target that limits its ICMP messages looks like this") && note.contains("--probes"),
        "{note}"
    );
    assert_eq!(limit_note(&MtuResponder::FarEnd(None), &search), None);
    let (search, ..) = run(plan(), |size, _| if size > 1400 { Fate::Vanishes } else { Fate::Through });
    assert!(limit_note(&MtuResponder::Echo(None), &search).is_some(), "a black hole may be one");
}
