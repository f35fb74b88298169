use netrig_core::Duration;
use proptest::prelude::*;

use super::*;
use crate::Profile;

fn board(recovery: Recovery, segments: u64) -> Scoreboard {
    let mut board = Scoreboard::new(&Config { recovery, ..Config::of(Profile::Rfc) }, 100, 0);
    (1..=segments).for_each(|n| board.push(at(n), 100 * n));
    board
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn news() -> Delivered {
    Delivered::new(Some(Instant::NEVER), 0)
}

/// RFC 6675 section 4: a segment is lost if three ranges, or more than two segments, above it have arrived.
#[test]
fn a_segment_is_lost_when_enough_above_it_arrived() {
    let mut board = board(Recovery::Sack, 10);
    board.sack(100, 300, &mut news());
    assert!(!board.judge_by_sacks(3, 100), "two segments are not more than two");
    board.sack(300, 400, &mut news());
    assert!(board.judge_by_sacks(3, 100));
    assert_eq!(board.next_lost(), Some((0, 100)));

    let mut board = self::board(Recovery::Sack, 10);
    for start in [350, 550, 750] {
        board.sack(start, start + 10, &mut news());
    }
    assert!(board.judge_by_sacks(3, 100), "three ranges, however small");
    assert_eq!(board.awaiting, 3);
}

/// One acknowledgement, caused by the arrival of the third of three segments, also covers the first.
#[test]
fn what_one_acknowledgement_tells_is_not_reordered() {
    let mut board = board(Recovery::Rack, 4);
    let mut delivered = news();
    board.sack(200, 300, &mut delivered);
    board.acknowledge(100, &mut delivered);
    assert!(!delivered.reordered);
    // The second segment arrives after the third, which had been acknowledged before.
    let mut delivered = news();
    board.acknowledge(200, &mut delivered);
    assert!(delivered.reordered);
}

/// One acknowledgement reports the third of three segments selectively and acknowledges the first.
#[test]
fn a_round_trip_begins_with_the_earliest_segment() {
    let mut board = board(Recovery::Sack, 3);
    let mut delivered = news();
    board.sack(200, 300, &mut delivered);
    board.acknowledge(100, &mut delivered);
    assert_eq!((delivered.earliest_original, delivered.timed), (Some(at(1)), Some(at(1))));
}

#[test]
fn pipe_counts_what_is_on_its_way() {
    let mut board = board(Recovery::Sack, 10);
    board.sack(200, 500, &mut news());
    board.judge_by_sacks(3, 100);
    // Two segments are lost, and three have arrived.
    assert_eq!((board.outstanding(), board.in_flight()), (1000, 500));
    assert_eq!(board.resend(at(20), 0), (0, 100));
    assert_eq!((board.in_flight(), board.next_lost()), (600, Some((1, 100))));
    board.acknowledge(500, &mut news());
    assert_eq!((board.outstanding(), board.in_flight(), board.awaits_retransmission()), (500, 500, false));
}

/// RFC 8985 section 6.2: a segment is lost only if it was sent before a segment that has arrived, and long enough ago.
#[test]
fn time_tells_what_is_lost() {
    let mut board = board(Recovery::Rack, 5);
    board.sack(200, 300, &mut news());
    let patience = Duration::from_millis(100);
    assert_eq!(board.judge_by_time(at(100), (at(3), 300), patience), (false, Some(at(101))));
    assert_eq!(board.judge_by_time(at(101), (at(3), 300), patience), (true, Some(at(102))));
    assert_eq!(board.judge_by_time(at(102), (at(3), 300), patience), (true, None));
    board.resend(at(110), 0);
    board.resend(at(111), 1);
    // The retransmission of the second segment arrived. The first segment is not acknowledged.
    board.sack(100, 200, &mut news());
    assert_eq!(board.judge_by_time(at(210), (at(111), 200), patience), (true, None));
    assert_eq!(board.next_lost(), Some((0, 100)));
}

/// A time-out was spurious: its segment had arrived. The other segments had not arrived, and are detected as lost
/// again, by time.
#[test]
fn what_was_forgiven_can_be_lost_again() {
    let mut board = board(Recovery::Rack, 5);
    let patience = Duration::from_millis(100);
    assert_eq!(board.judge_by_time(at(200), (Instant::NEVER, 0), patience), (true, None));
    assert_eq!(board.resend(at(200), 0), (0, 100));
    board.acknowledge(100, &mut news());
    board.forgive_losses();
    assert_eq!((board.in_flight(), board.next_lost()), (400, None));
    // A probe that retransmits the last segment arrives.
    board.resend(at(300), 3);
    board.sack(400, 500, &mut news());
    assert_eq!(board.judge_by_time(at(400), (at(300), 500), patience), (true, None));
    assert_eq!((board.in_flight(), board.awaiting), (0, 3));
}

proptest! {
    /// The running totals equal sums over all segments after any operations.
    #[test]
    fn totals_are_sums(ops in prop::collection::vec((0u8..9, 0u64..40), 1..120)) {
        let mut board = board(Recovery::Rack, 8);
        for (n, (op, k)) in ops.into_iter().enumerate() {
            let now = at(100 + n as u64);
            match op {
                0 | 1 => board.push(now, board.nxt() + 1 + k),
                2 => board.acknowledge((board.una() + 10 * k).min(board.nxt()), &mut news()),
                3 | 4 => {
                    let start = board.una() + 10 * k;
                    board.sack(start, start + 130, &mut news());
                }
                5 => {
                    board.judge_by_sacks(3, 100);
                }
                6 => {
                    if let Some((i, _)) = board.next_lost() {
                        board.resend(now, i);
                    }
                }
                7 => {
                    board.judge_by_time(now, (at(80 + n as u64), 0), Duration::from_millis(k));
                }
                _ if k == 0 => board.mark_all_lost(),
                _ if k == 1 => board.forgive_losses(),
                _ => board.mark_first_lost(),
            }
            let sum = |f: fn(&SentSegment) -> u64| board.sent.iter().map(f).sum::<u64>();
            prop_assert_eq!(board.outstanding, sum(|s| s.len.into()));
            prop_assert_eq!(board.in_flight, sum(|s| s.copies() * u64::from(s.len)));
            prop_assert_eq!(board.sacked_amount, sum(|s| if s.has(SACKED) { s.len.into() } else { 0 }));
            prop_assert_eq!(u64::from(board.sacked_segments), sum(|s| s.has(SACKED).into()));
            prop_assert_eq!(u64::from(board.awaiting), sum(|s| s.awaits_retransmission().into()));
            let first = board.sent.iter().position(SentSegment::awaits_retransmission);
            prop_assert_eq!(board.next_lost().map(|(i, _)| i), first);
        }
    }
}
