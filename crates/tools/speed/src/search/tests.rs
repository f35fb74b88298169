use std::collections::VecDeque;

use netrig_core::{Seeds, Stream};

use super::*;

/// A simulated line. It has a rate, `per_s` datagrams per second, and a queue of `queue` datagrams; or it is a policer,
/// a token bucket without a queue. After the line, the share `loss` of the datagrams is lost at random. The one-way
/// delay is `delay`, s.
struct Line {
    per_s: f64,
    queue: Option<f64>,
    bucket: f64,
    loss: f64,
    /// Mean number of consecutive datagrams that are lost.
    burst: f64,
    is_in_burst: bool,
    delay: f64,
    chance: Stream,
    /// Time at which the line has sent all queued datagrams, s.
    free: f64,
    tokens: f64,
    filled: f64,
}

impl Line {
    fn fifo(per_s: f64, queue: f64, loss: f64, delay: f64) -> Self {
        let chance = Seeds::new(1).stream("loss");
        Self {
            per_s,
            queue: Some(queue),
            bucket: 0.0,
            loss,
            burst: 1.0,
            is_in_burst: false,
            delay,
            chance,
            free: 0.0,
            tokens: 0.0,
            filled: 0.0,
        }
    }

    fn policer(per_s: f64, bucket: f64) -> Self {
        Self { queue: None, bucket, tokens: bucket, ..Self::fifo(per_s, 0.0, 0.0, 0.005) }
    }

    /// Arrival time, s, of a datagram that is sent at `at`. `None` if it is lost.
    fn carries(&mut self, at: f64) -> Option<f64> {
        let leaves = match self.queue {
            Some(queue) => {
                let start = self.free.max(at);
                if (start - at) * self.per_s >= queue {
                    return None;
                }
                self.free = start + 1.0 / self.per_s;
                self.free
            }
            None => {
                self.tokens = (self.tokens + (at - self.filled) * self.per_s).min(self.bucket);
                self.filled = at;
                if self.tokens < 1.0 {
                    return None;
                }
                self.tokens -= 1.0;
                at
            }
        };
        (!self.loses()).then_some(leaves + self.delay)
    }

    /// Whether a datagram is lost. Gilbert model: after each datagram of a burst, the burst ends with a fixed
    /// probability. Bursts start so often that the share of losses is `loss`.
    fn loses(&mut self) -> bool {
        if self.burst <= 1.0 {
            return self.chance.chance(self.loss);
        }
        let changes =
            if self.is_in_burst { 1.0 / self.burst } else { self.loss / (1.0 - self.loss) / self.burst };
        self.is_in_burst ^= self.chance.chance(changes);
        self.is_in_burst
    }
}

/// Runs a search over a line. The sender can send at most `sender` datagrams per second. Returns how long the search
/// took, s, and its result.
fn search(line: Line, sender: f64) -> (f64, FoundCapacity) {
    search_knowing(line, sender, None)
}

/// Like [`search`], with a rate that the line has carried before.
fn search_knowing(line: Line, sender: f64, known: Option<f64>) -> (f64, FoundCapacity) {
    search_until(120.0, line, sender, known)
}

/// Like [`search_knowing`], aborted after `until` seconds.
fn search_until(until: f64, line: Line, sender: f64, known: Option<f64>) -> (f64, FoundCapacity) {
    search_pausing(None, until, line, sender, known)
}

/// Like [`search_until`], with a sender that pauses. `pauses` has the interval between pauses and the duration of a
/// pause, s.
fn search_pausing(
    pauses: Option<[f64; 2]>,
    until: f64,
    mut line: Line,
    sender: f64,
    known: Option<f64>,
) -> (f64, FoundCapacity) {
    let order = SearchOrder {
        first: known.map_or(50.0, |known| 0.5 * known),
        most: 1e6,
        counts: Duration::from_secs(2),
        beneath: Duration::from_secs(1),
        known,
        round_trip: Duration::from_secs_f64(2.0 * line.delay),
    };
    let mut search = LineSearch::new(order);
    // The clocks of both ends differ by an hour.
    let skew = 3_600_000_000_000_i64;
    let (mut next, mut number) = (0.0, 0_u64);
    let mut underway: VecDeque<(f64, f64, u64)> = VecDeque::new();
    let mut rates = VecDeque::from([(0.0, search.rate())]);
    let mut sending = search.rate();
    let mut feedback = Feedback::default();
    let mut back = VecDeque::new();
    let mut tick = 0.05;
    while search.stage() != SearchStage::Over && tick < until {
        while next < tick {
            while rates.front().is_some_and(|(from, _)| *from <= next) {
                sending = rates.pop_front().unwrap().1;
            }
            if let Some(arrives) = line.carries(next) {
                underway.push_back((arrives, next, number));
            }
            number += 1;
            next += 1.0 / sending.min(sender);
            if let Some([every, lasts]) = pauses
                && next % every < lasts
            {
                next += lasts - next % every;
            }
        }
        feedback.least_passage_ns = None;
        while underway.front().is_some_and(|(arrives, ..)| *arrives <= tick) {
            let (arrives, sent, number) = underway.pop_front().unwrap();
            feedback.received += 1;
            feedback.expected = number + 1;
            feedback.last_arrival_ns = (arrives * 1e9) as u64;
            feedback.last_sent_ns = (sent * 1e9) as u64;
            let passage = ((arrives - sent) * 1e9) as i64 - skew;
            feedback.least_passage_ns =
                Some(feedback.least_passage_ns.map_or(passage, |least: i64| least.min(passage)));
        }
        back.push_back((tick + line.delay, feedback));
        while back.front().is_some_and(|(heard, _)| *heard <= tick) {
            let (_, feedback) = back.pop_front().unwrap();
            search.heard(feedback);
            rates.push_back((tick, search.rate()));
        }
        tick += 0.05;
    }
    (tick, *search.found())
}

fn near(value: f64, expected: f64, within: f64) {
    assert!((value / expected - 1.0).abs() <= within, "{value} for {expected}");
}

/// The search finds the rate that a line delivers, for lines of 1 to 900 Mbit/s with short and long delays, with and
/// without random loss. A search that takes every loss for congestion would find a lower rate.
#[test]
fn a_line_is_found_whatever_is_lost_at_random() {
    for per_s in [104.0, 1040.0, 10_400.0, 93_600.0] {
        for delay in [0.001, 0.04] {
            for loss in [0.0, 0.01] {
                let (took, found) = search(Line::fifo(per_s, (0.05 * per_s).max(20.0), loss, delay), 1e9);
                assert!(found.saturated, "{per_s} {delay} {loss}: {found:?}");
                near(found.arrived, per_s * (1.0 - loss), 0.01);
                // With few datagrams, the measured share deviates from the random loss by chance.
                let chance = 4.0 * (loss * (1.0 - loss) / found.sent_beneath as f64).sqrt();
                assert!((found.loss_beneath.unwrap() - loss).abs() < chance.max(0.02), "{found:?}");
                assert!(took < 30.0, "{per_s} {delay} {loss}: {took} s");
            }
        }
    }
}

#[test]
fn a_queue_is_told_from_a_policer() {
    let (_, found) = search(Line::fifo(1000.0, 100.0, 0.0, 0.01), 1e9);
    near(found.queue_ns as f64, 0.1e9, 0.1);
    let (_, found) = search(Line::policer(1000.0, 50.0), 1e9);
    near(found.arrived, 1000.0, 0.01);
    assert!(found.saturated && found.queue_ns.abs() < 1_000_000, "{found:?}");
    assert_eq!(found.loss_beneath, Some(0.0));
}

/// The first burst of a token bucket is not the rate of the line.
#[test]
fn a_burst_is_not_taken_for_the_line() {
    let (_, found) = search(Line::policer(1000.0, 3000.0), 1e9);
    near(found.arrived, 1000.0, 0.02);
}

/// A queue of several seconds is emptied before the loss below the capacity is measured.
#[test]
fn a_deep_queue_is_emptied_first() {
    let (took, found) = search(Line::fifo(500.0, 2000.0, 0.0, 0.01), 1e9);
    near(found.arrived, 500.0, 0.01);
    assert_eq!(found.loss_beneath, Some(0.0), "{took}");
}

/// On a busy machine, the sender pauses for longer than it takes to empty the queue of 50 ms.
#[test]
fn a_sender_that_pauses_does_not_make_a_line_slower() {
    for lasts in [0.06, 0.08, 0.12] {
        for every in [0.6, 0.73, 1.1, 3.0] {
            let line = Line::fifo(1000.0, 50.0, 0.0, 0.01);
            let (took, found) = search_pausing(Some([every, lasts]), 120.0, line, 1e9, None);
            near(found.arrived, 1000.0, 0.001);
            assert!(found.saturated && took < 12.0, "{lasts} {every}: {took} {found:?}");
        }
    }
    // A sender that can send in less than three quarters of the time is at its own limit.
    let (_, found) = search_pausing(Some([0.4, 0.12]), 120.0, Line::fifo(1000.0, 50.0, 0.0, 0.01), 1e9, None);
    assert!(!found.saturated, "{found:?}");
}

#[test]
fn a_sender_at_its_limit_saturates_nothing() {
    let (_, found) = search(Line::fifo(10_000.0, 500.0, 0.01, 0.01), 4000.0);
    assert!(!found.saturated, "{found:?}");
    near(found.arrived, 4000.0 * 0.99, 0.05);
}

#[test]
fn a_line_on_which_nothing_comes_through_finds_nothing() {
    let (took, found) = search(Line::fifo(1000.0, 10.0, 1.0, 0.01), 1e9);
    assert_eq!((found, took > 100.0), (FoundCapacity::default(), true));
}

/// A line delivers ten datagrams per second and is first offered fifty. Most readings then have no new datagram.
#[test]
fn a_slow_line_is_not_flooded_until_the_end() {
    let (_, found) = search(Line::fifo(10.4, 4.0, 0.0, 0.01), 1e9);
    near(found.arrived, 10.4, 0.02);
    assert!(found.saturated && found.offered < 1.3 * found.arrived, "{found:?}");
    assert_eq!(found.loss_beneath, Some(0.0), "{found:?}");
}

/// The search finds the rate of a line for any random sequence of losses.
#[test]
fn chance_does_not_make_a_line_slower() {
    for seed in 0..50 {
        let line = Line { chance: Seeds::new(seed).stream("loss"), ..Line::fifo(800.0, 40.0, 0.01, 0.01) };
        let (_, found) = search(line, 1e9);
        near(found.arrived, 792.0, 0.012);
        assert!(found.saturated, "{seed}: {found:?}");
    }
}

/// The known rate is no longer valid: it was measured when a radio was closer or a token bucket was full.
#[test]
fn a_line_that_has_become_slower_is_found_as_it_is() {
    for known in [1500.0, 2500.0, 5000.0] {
        let (took, found) = search_knowing(Line::fifo(1000.0, 50.0, 0.0, 0.01), 1e9, Some(known));
        near(found.arrived, 1000.0, 0.01);
        assert!(found.saturated && took < 20.0, "{known}: {took} {found:?}");
        let (took, found) = search_knowing(Line::policer(1000.0, 50.0), 1e9, Some(known));
        near(found.arrived, 1000.0, 0.01);
        assert!(
            found.saturated && found.queue_ns.abs() < 1_000_000 && took < 20.0,
            "{known}: {took} {found:?}"
        );
        assert_eq!(found.loss_beneath, Some(0.0), "{known}");
    }
}

/// A burst of twenty or more losses is not taken for congestion.
#[test]
fn bursts_of_losses_do_not_make_a_line_slower() {
    for known in [None, Some(950.0)] {
        let mut wrong = 0;
        for seed in 0..60 {
            let chance = Seeds::new(seed).stream("loss");
            let line = Line { chance, burst: 20.0, ..Line::fifo(1000.0, 50.0, 0.02, 0.01) };
            let (took, found) = search_knowing(line, 1e9, known);
            assert!(found.saturated && took < 40.0, "{known:?} {seed}: {took} {found:?}");
            wrong += u32::from((found.arrived / 980.0 - 1.0).abs() > 0.05);
        }
        assert!(wrong <= 3, "{known:?}: {wrong}");
    }
}

/// A search on a slow line with a long queue is aborted at any time. The rate that it reports until then never exceeds
/// the rate of the line, even if a machine between the ends pauses and then passes all waiting datagrams at once.
#[test]
fn what_a_line_carries_at_least_is_never_more_than_it_carries() {
    for (per_s, queue) in [(10.4, 50.0), (5.2, 50.0), (85.0, 20.0), (1000.0, 100.0)] {
        let mut seen = 0.0_f64;
        for until in (1..=45).map(f64::from) {
            let (_, found) = search_until(until, Line::fifo(per_s, queue, 0.0, 0.02), 1e9, None);
            assert!(found.arrived <= per_s * 1.001, "{per_s} after {until} s: {found:?}");
            seen = seen.max(found.arrived);
        }
        assert!(seen > 0.95 * per_s, "{per_s}: {seen}");
    }
}

/// The receiver gets almost no datagrams for one second, and then all waiting datagrams within 10 ms.
#[test]
fn what_comes_at_once_behind_a_pause_is_no_rate() {
    let order = SearchOrder {
        first: 50.0,
        most: 1e6,
        counts: Duration::from_secs(1),
        beneath: Duration::from_secs(1),
        known: None,
        round_trip: Duration::from_millis(40),
    };
    let mut search = LineSearch::new(order);
    let ms = |ms: u64| ms * 1_000_000;
    let mut received = 0;
    let mut hear = |at_ms: u64, more: u64| {
        received += more;
        search.heard(Feedback {
            received,
            expected: received,
            last_arrival_ns: ms(at_ms),
            last_sent_ns: ms(at_ms) - ms(20),
            least_passage_ns: Some(20_000_000),
        });
        search.found().arrived
    };
    hear(50, 2);
    hear(1050, 1);
    assert!(hear(1060, 49) <= 50.0, "fifty in a second, however they come");
}
