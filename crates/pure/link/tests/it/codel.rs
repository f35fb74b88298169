//! Controlled delay compared with the pseudo-code of RFC 8289 section 5, computed by hand.

use netrig_core::{Dequeue, DropReason, Ecn, Header, Instant, QueueDiscipline, Rate, Seeds};
use netrig_link::Framing;
use netrig_link::queue::QueueContext;
use netrig_link::queue::codel::{Codel, CodelQueue};

use crate::common::{Packet, Record, at_ms, header, ms};

/// A queue with the values that the RFC recommends.
fn queue(ecn: bool) -> CodelQueue<Packet> {
    let settings = Codel { packets: Some(100_000), bytes: None, target: ms(5), interval: ms(100), ecn };
    settings.check().unwrap();
    let seeds = Seeds::new(1);
    let rate = Rate::from_bits_per_s(8_000_000);
    CodelQueue::new(&settings, &QueueContext::new(&seeds, "test/forward", rate, Framing::None))
}

fn packet(id: u64, ecn: Ecn) -> Packet {
    Packet { header: Header { ecn, ..header(1000) }, id }
}

fn fill(codel: &mut CodelQueue<Packet>, now: Instant, n: u64) {
    (0..n).for_each(|id| codel.enqueue(now, packet(id, Ecn::NotEct), &mut ()));
}

/// Takes one packet per millisecond, at the milliseconds `first` to `last` − 1.
fn drain(codel: &mut CodelQueue<Packet>, first: u64, last: u64) -> Record {
    let mut record = Record::default();
    for n in first..last {
        assert!(matches!(codel.dequeue(at_ms(n), &mut record), Dequeue::Packet(..)), "at {n} ms");
    }
    record
}

fn millis(events: impl Iterator<Item = Instant>) -> Vec<u64> {
    events.map(|at| at.as_nanos() / 1_000_000).collect()
}

/// The first `n` drop times of the control law with I = 100 ms, rounded up to milliseconds: start, start + I/√k,
/// start + I/√k + I/√(k + 1), ..
fn law(start: u64, k: u32, n: usize) -> Vec<u64> {
    let mut moment = start as f64;
    let mut moments = vec![start];
    for count in k.. {
        if moments.len() == n {
            break;
        }
        moment += 100.0 / f64::from(count).sqrt();
        // The queue computes the control law in whole nanoseconds.
        moments.push((moment - 1e-4).ceil() as u64);
    }
    moments
}

/// 10,000 packets arrive at the same time, so the packet that leaves at n ms has waited n ms. From 5 ms on the wait is
/// above the target, and at 105 ms it has been above the target for an interval.
#[test]
fn drops_come_at_the_moments_of_the_control_law() {
    let mut codel = queue(false);
    fill(&mut codel, Instant::ZERO, 10_000);
    let record = drain(&mut codel, 1, 2000);
    assert!(!record.dropped.is_empty() && record.dropped.iter().all(|(.., why)| *why == DropReason::Early));
    let drops = millis(record.dropped.iter().map(|(at, ..)| *at));
    assert!(drops.len() > 80, "{drops:?}");
    assert_eq!(drops, law(105, 1, drops.len()));
    assert_eq!(drops[..5], [105, 205, 276, 334, 384]);
}

#[test]
fn packets_that_can_be_marked_are_marked_at_the_same_moments() {
    let mut codel = queue(true);
    (0..10_000).for_each(|id| codel.enqueue(Instant::ZERO, packet(id, Ecn::Ect0), &mut ()));
    let record = drain(&mut codel, 1, 2000);
    assert!(record.dropped.is_empty());
    let marks = millis(record.marked.iter().map(|(at, _)| *at));
    assert_eq!(marks, law(105, 1, marks.len()));
}

/// A wait of 4 ms is always below the target.
#[test]
fn a_queue_below_the_target_is_left_alone() {
    let mut codel = queue(false);
    let mut record = Record::default();
    for n in 0..10_000 {
        codel.enqueue(at_ms(n), packet(n, Ecn::NotEct), &mut record);
        if n >= 4 {
            let goes = codel.dequeue(at_ms(n), &mut record);
            assert_eq!(goes, Dequeue::Packet(packet(n - 4, Ecn::NotEct), at_ms(n - 4)));
        }
    }
    assert!(record.dropped.is_empty());
}

/// RFC 8289 section 4: a queue of at most one packet is not controlled.
#[test]
fn a_packet_with_no_more_than_one_behind_it_is_never_dropped() {
    let mut codel = queue(false);
    let mut record = Record::default();
    for n in 0..1000 {
        codel.enqueue(at_ms(20 * n), packet(n, Ecn::NotEct), &mut record);
        if n >= 1 {
            let goes = codel.dequeue(at_ms(20 * n), &mut record);
            assert_eq!(goes, Dequeue::Packet(packet(n - 1, Ecn::NotEct), at_ms(20 * (n - 1))));
        }
    }
    assert!(record.dropped.is_empty());
}

/// Ten drops, then an empty queue, then waits above the target again: dropping restarts with a count of 10 − 1.
#[test]
fn what_was_found_soon_before_is_not_searched_again() {
    let mut codel = queue(false);
    fill(&mut codel, Instant::ZERO, 10_000);
    let tenth = law(105, 1, 10)[9];
    assert_eq!(drain(&mut codel, 1, tenth + 1).dropped.len(), 10);
    codel.clear(at_ms(tenth), DropReason::LinkDown, &mut ());
    let again = tenth + 1;
    fill(&mut codel, at_ms(again), 10_000);
    let drops = millis(drain(&mut codel, again + 1, again + 600).dropped.iter().map(|(at, ..)| *at));
    assert_eq!(drops, law(again + 105, 9, drops.len()));
    assert_eq!(drops[1] - drops[0], 34);
}

/// After 16 intervals the count restarts at 1.
#[test]
fn what_was_found_long_before_is_forgotten() {
    let mut codel = queue(false);
    fill(&mut codel, Instant::ZERO, 10_000);
    let tenth = law(105, 1, 10)[9];
    drain(&mut codel, 1, tenth + 1);
    codel.clear(at_ms(tenth), DropReason::LinkDown, &mut ());
    fill(&mut codel, at_ms(5000), 10_000);
    let drops = millis(drain(&mut codel, 5001, 5600).dropped.iter().map(|(at, ..)| *at));
    assert_eq!(drops, law(5105, 1, drops.len()));
}

#[test]
fn impossible_settings_are_refused_by_field() {
    let whole = Codel { packets: Some(100), bytes: None, target: ms(5), interval: ms(100), ecn: false };
    for (settings, field) in [
        (Codel { packets: None, ..whole.clone() }, "packets"),
        (Codel { target: ms(0), ..whole.clone() }, "target"),
        (Codel { interval: ms(5), ..whole.clone() }, "interval"),
    ] {
        let error = settings.check().unwrap_err().to_string();
        assert!(error.contains(field), "{error}");
    }
}
