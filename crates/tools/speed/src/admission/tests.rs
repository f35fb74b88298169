use std::net::{IpAddr, Ipv4Addr};

use proptest::prelude::*;

use super::*;

fn from(last: u8) -> AdmissionClient {
    AdmissionClient { household: Household::of(IpAddr::V4(Ipv4Addr::new(192, 0, 2, last))), key: None }
}

fn keyed(last: u8, key: &str) -> AdmissionClient {
    AdmissionClient { key: Some(key.to_owned()), ..from(last) }
}

const fn at(seconds: u64) -> Instant {
    Instant::from_nanos(seconds * 1_000_000_000)
}

fn limits(sessions: usize) -> AdmissionLimits {
    AdmissionLimits { sessions, queue: 3, per_address: 1, queue_per_address: 1, ..AdmissionLimits::default() }
}

fn ticket(answer: AdmissionAnswer) -> Ticket {
    match answer {
        AdmissionAnswer::Admitted(ticket) | AdmissionAnswer::Waits(ticket) => ticket,
        AdmissionAnswer::Refused(why) => panic!("{why}"),
    }
}

#[test]
fn who_comes_first_is_served_first() {
    let mut admission = Admission::new(limits(1));
    let tickets = [1, 2, 3].map(|last| ticket(admission.ask(at(0), from(last), None)));
    assert_eq!(admission.place(tickets[0]), None);
    assert_eq!(admission.place(tickets[1]), Some((0, 2)));
    assert_eq!(admission.place(tickets[2]), Some((1, 2)));
    assert_eq!(admission.until(tickets[0]), Some(at(120)));
    assert_eq!(admission.until(tickets[1]), None, "its time does not pass while it waits");
    admission.leave(at(10), tickets[0]);
    assert_eq!(admission.place(tickets[2]), Some((0, 1)));
    assert_eq!(admission.until(tickets[1]), Some(at(130)));
}

#[test]
fn a_queue_has_an_end() {
    let mut admission = Admission::new(limits(1));
    for last in 1..=4 {
        ticket(admission.ask(at(0), from(last), None));
    }
    assert_eq!(admission.ask(at(0), from(5), None), AdmissionAnswer::Refused(AdmissionRefusal::Full));
    assert_eq!(admission.tally(), (1, 3));
}

#[test]
fn one_household_keeps_nobody_else_out() {
    let mut admission = Admission::new(limits(2));
    let first = ticket(admission.ask(at(0), from(1), None));
    let again = admission.ask(at(0), from(1), None);
    assert!(matches!(again, AdmissionAnswer::Waits(_)), "one of a household at a time");
    assert_eq!(
        admission.ask(at(0), from(1), None),
        AdmissionAnswer::Refused(AdmissionRefusal::TooManyFromThere)
    );
    // The second session waits only for its own household, so sessions of others need not wait for it.
    assert!(matches!(admission.ask(at(0), from(2), None), AdmissionAnswer::Admitted(_)));
    admission.leave(at(5), first);
    assert!(admission.until(ticket(again)).is_some());
}

/// A site with many IPv6 networks has no more places than its limit.
#[test]
fn one_site_keeps_nobody_else_out() {
    let at_network = |site: u16, network: u16| {
        let address = [0x2001, 0xdb8, site, network, 0, 0, 0, 1];
        AdmissionClient { household: Household::of(address.into()), key: None }
    };
    let mut admission = Admission::new(AdmissionLimits { queue: 100, ..limits(8) });
    let answers: Vec<_> = (0..20).map(|network| admission.ask(at(0), at_network(1, network), None)).collect();
    let count = |of: fn(&AdmissionAnswer) -> bool| answers.iter().filter(|answer| of(answer)).count();
    assert_eq!(count(|answer| matches!(answer, AdmissionAnswer::Admitted(_))), HOUSEHOLDS_OF_A_SITE);
    assert_eq!(count(|answer| matches!(answer, AdmissionAnswer::Waits(_))), HOUSEHOLDS_OF_A_SITE);
    assert!(matches!(admission.ask(at(0), at_network(2, 1), None), AdmissionAnswer::Admitted(_)));
}

#[test]
fn a_key_may_have_fewer_than_there_are() {
    let mut admission = Admission::new(AdmissionLimits { per_key: Some(1), ..limits(4) });
    assert!(matches!(admission.ask(at(0), keyed(1, "a"), None), AdmissionAnswer::Admitted(_)));
    assert!(matches!(admission.ask(at(0), keyed(2, "a"), None), AdmissionAnswer::Waits(_)));
    assert!(matches!(admission.ask(at(0), keyed(3, "b"), None), AdmissionAnswer::Admitted(_)));
    assert!(matches!(admission.ask(at(0), from(4), None), AdmissionAnswer::Admitted(_)));
}

#[test]
fn all_together_carry_no_more_than_the_line() {
    let mbit = |mbit: u64| Some(Rate::from_bits_per_s(mbit * 1_000_000));
    let mut admission = Admission::new(AdmissionLimits { max_rate: mbit(100), ..limits(4) });
    assert!(matches!(admission.ask(at(0), from(1), mbit(60)), AdmissionAnswer::Admitted(_)));
    let waits = ticket(admission.ask(at(0), from(2), mbit(50)));
    assert_eq!(admission.place(waits), Some((0, 1)));
    // There is room for this session, but it is queued after a session for which there is no room.
    let behind = ticket(admission.ask(at(0), from(3), mbit(40)));
    assert_eq!(admission.place(behind), Some((1, 2)));
    assert_eq!(admission.ask(at(0), from(4), mbit(101)), AdmissionAnswer::Refused(AdmissionRefusal::TooMuch));
    admission.leave(at(1), waits);
    assert!(admission.until(behind).is_some());
}

#[test]
fn who_leaves_before_it_is_let_in_never_is() {
    let mut admission = Admission::new(limits(1));
    let [first, second] = [1, 2].map(|last| ticket(admission.ask(at(0), from(last), None)));
    admission.leave(at(0), second);
    admission.leave(at(0), first);
    assert_eq!((admission.until(second), admission.tally()), (None, (0, 0)));
}

/// Two hundred sessions request admission, with a limit of twenty. All are served in the order of arrival.
#[test]
fn nobody_starves() {
    let limits = AdmissionLimits { sessions: 20, queue: 200, ..limits(20) };
    let mut admission = Admission::new(limits);
    let all: Vec<_> = (0..200).map(|last| ticket(admission.ask(at(0), from(last), None))).collect();
    let mut served: Vec<_> = all[..20].to_vec();
    let mut order = served.clone();
    for second in 1..=200 {
        let Some(over) = served.first().copied() else { break };
        served.remove(0);
        admission.leave(at(second), over);
        let let_in = |ticket: &&Ticket| admission.until(**ticket).is_some() && !order.contains(ticket);
        let next: Vec<_> = all.iter().filter(let_in).copied().collect();
        served.extend(&next);
        order.extend(&next);
    }
    assert_eq!(order, all);
}

proptest! {
    /// For any arrivals and departures, no limit is exceeded, no session is served twice, and a session waits only if a
    /// limit is reached.
    #[test]
    fn limits_hold(steps in proptest::collection::vec((any::<bool>(), 0..6u8, 0..40u64), 1..80)) {
        let limits = AdmissionLimits {
            sessions: 3,
            queue: 5,
            per_address: 2,
            queue_per_address: 3,
            max_rate: Some(Rate::from_bits_per_s(60)),
            ..AdmissionLimits::default()
        };
        let mut admission = Admission::new(limits);
        let mut known = Vec::new();
        for (comes, household, number) in steps {
            if comes {
                match admission.ask(at(0), from(household), Some(Rate::from_bits_per_s(number))) {
                    AdmissionAnswer::Admitted(ticket) | AdmissionAnswer::Waits(ticket) => known.push(ticket),
                    AdmissionAnswer::Refused(_) => {}
                }
            } else if let Some(ticket) = known.get(number as usize % known.len().max(1)).copied() {
                admission.leave(at(0), ticket);
            }
            let (served, waiting) = admission.tally();
            prop_assert!(served <= 3 && waiting <= 5);
            let taken: u64 = admission.served.iter().map(|session| session.needs.bits_per_s()).sum();
            prop_assert!(taken <= 60);
            // The first waiting session whose household and key have room waits only because a limit of the whole
            // server is reached.
            if let Some(first) = admission.waiting.iter().find(|session| admission.has_room_of_its_own(session)) {
                prop_assert!(!admission.has_room(first));
            }
        }
        let tickets = admission.served.iter().chain(&admission.waiting).map(|session| session.ticket.0);
        let unique: std::collections::BTreeSet<_> = tickets.clone().collect();
        prop_assert_eq!(unique.len(), tickets.count());
    }
}

/// The requested rate may be any number, and the sums of rates do not overflow.
#[test]
fn who_asks_for_more_than_there_can_be_waits_for_nobody() {
    for rate in [None, Some(Rate::from_bits_per_s(100_000_000))] {
        let mut admission = Admission::new(AdmissionLimits { max_rate: rate, ..limits(4) });
        for last in 1..=3 {
            let _ = admission.ask(at(0), from(last), Some(Rate::from_bits_per_s(u64::MAX)));
        }
        let (measuring, waiting) = admission.tally();
        assert!(measuring + waiting <= 3 && rate.is_none_or(|_| measuring <= 1), "{measuring} {waiting}");
    }
}
