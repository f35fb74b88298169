use super::*;

const US: i64 = 1000;

/// Simulates a link that needs the time `takes` to transmit each packet. `packets` contains the due time and the
/// lateness of each packet; all times are in ns. Returns the mean waiting time, and the part that lateness added.
fn line(takes: i64, packets: impl Iterator<Item = (i64, i64)>) -> (f64, f64, Displacement) {
    let (mut clear, mut displaced) = (0, Displacement::default());
    for (due, late) in packets {
        let at = due + late;
        let moment = |ns: i64| Instant::from_nanos(ns as u64);
        displaced.arrives(moment(at), moment(clear), Some(late));
        clear = clear.max(at) + takes;
    }
    let (waited, added) = displaced.means().unwrap();
    (waited, added, displaced)
}

/// The mean waiting time of a simulated queue is computed with punctual and with late packets. The difference between
/// the two is the added part, to the nanosecond.
#[test]
fn what_was_added_is_the_difference_to_what_would_have_been() {
    // The gaps are 20 to 420 µs, and the link transmits a packet in 200 µs. There is a stall of 3 ms in each second,
    // and some jitter.
    let gap = |n: i64| 20 * US + (n * 7919 % 401) * US;
    let dues: Vec<i64> = (0..5000)
        .scan(US, |at, n| {
            *at += gap(n);
            Some(*at)
        })
        .collect();
    let mut last = 0;
    let late: Vec<i64> = dues
        .iter()
        .map(|due| {
            let stalled = (3_000 * US - due % (1_000_000 * US)).max(0);
            // Packets do not overtake each other.
            last = (due + stalled.max((due / US * 31 % 40) * US)).max(last);
            last - due
        })
        .collect();
    let (waited, added, _) = line(200 * US, dues.iter().copied().zip(late.iter().copied()));
    let (in_time, none, _) = line(200 * US, dues.iter().map(|due| (*due, 0)));
    assert_eq!(none, 0.0);
    assert!(added > 1e-6 && (waited - in_time - added).abs() < 1e-9, "{waited} {in_time} {added}");
}

#[test]
fn a_lateness_that_is_the_same_for_all_adds_nothing() {
    let (waited, added, displaced) = line(150 * US, (1..1000).map(|n| (n * 100 * US, 500 * US)));
    assert!(waited > 1e-3);
    assert_eq!((added, displaced.fault_of_waiting("x")), (0.0, None));
}

/// After one stall of 14 ms in 2 s, 0.5 % of the packets are late, and the mean waiting time changes.
#[test]
fn one_stall_moves_a_mean_and_is_told() {
    let stalled =
        |due: i64| if (0..14_000 * US).contains(&(due - 1_000_000 * US)) { 1_014_000 * US - due } else { 0 };
    let dues = (1..10_000).map(|n| n * 200 * US);
    let (waited, added, displaced) = line(150 * US, dues.map(|due| (due, stalled(due))));
    assert!((waited - added).abs() < 1e-9, "nothing waits if all come in time: {waited} {added}");
    let fault = displaced.fault_of_waiting("link x (forward)").unwrap();
    assert!(
        fault.starts_with("9999 packets waited 0.1")
            && fault.ends_with("the limit is 10 % of the punctual waiting time, but at least 20 us"),
        "{fault}"
    );
}

#[test]
fn who_does_not_say_when_it_was_due_is_not_judged() {
    let mut displaced = Displacement::default();
    for n in 1..1000 {
        displaced.arrives(Instant::from_nanos(n * 1000), Instant::from_nanos(n * 990), None);
    }
    assert_eq!(displaced.means(), Some((0.0, 0.0)));
    displaced.arrives(Instant::from_nanos(1), Instant::NEVER, Some(7));
    assert_eq!(Displacement::default().means(), None);
}

#[test]
fn what_a_node_sends_on_is_known_again() {
    let packet = |id: u8, hops| {
        let bytes = [0x45, 0, 2, 16, 0, id, 0, 0, hops, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 6];
        IpHeader::read(&bytes).unwrap()
    };
    let mut underway = NodeTransit::default();
    for n in 1..=3 {
        underway.enters(&packet(n, 64), Instant::from_nanos(n.into()), Instant::ZERO);
    }
    let sent_on = packet(2, 63);
    assert_eq!(underway.leaves(&sent_on), Some(Instant::from_nanos(2)));
    assert_eq!(underway.leaves(&sent_on), None);
    // After a stall of the router, packets that it delivers late are still found, even if the links have delivered
    // other packets in the meantime.
    let late = Instant::ZERO + SETTLING;
    underway.enters(&packet(4, 64), Instant::from_nanos(4), late);
    underway.enters(&packet(5, 64), late, late);
    assert_eq!(underway.leaves(&packet(1, 64)), Some(Instant::from_nanos(1)));
    underway.enters(&packet(6, 64), late, late + Duration::from_millis(1));
    assert_eq!(underway.leaves(&packet(3, 64)), None, "it is lost");
    assert_eq!(underway.leaves(&packet(4, 64)), Some(Instant::from_nanos(4)));
}

/// A short stall changes the mean waiting time of an idle link by a large share, but the mean passage time (waiting and
/// transmission) by a small share.
#[test]
fn a_passage_is_moved_by_less_than_the_waiting_in_it() {
    let passes = |stall: i64| {
        let (mut clear, mut displaced) = (0, Displacement::default());
        for due in (1..2000).map(|n| n * 1000 * US) {
            let at = if (0..stall).contains(&(due - 1_000_000 * US)) { 1_000_000 * US + stall } else { due };
            let moment = |ns: i64| Instant::from_nanos(ns as u64);
            displaced.arrives(moment(at), moment(clear), Some(at - due));
            clear = clear.max(at) + 900 * US;
            displaced.is_sent(900 * US);
        }
        displaced
    };
    let short = passes(4_000 * US);
    assert!(short.fault_of_waiting("x").is_some(), "{short:?}");
    assert_eq!(short.fault_of_passage("x"), None, "{short:?}");
    let long = passes(40_000 * US);
    let fault = long.fault_of_passage("x").unwrap();
    assert!(
        fault.ends_with("the limit is 5 % of the punctual waiting and sending time, but at least 20 us"),
        "{fault}"
    );
}
