//! Detects whether missing answers are caused by a target that limits its rate of answers.
//!
//! A target with a token bucket answers the first packets, up to the depth of the bucket, and then one packet for each
//! token. From the first loss on, the answers are therefore spread more evenly over time than by chance. The measure of
//! their evenness is Kuiper's statistic of the times of the answered packets against a constant rate (Kuiper, 1960).

use super::schedule::Gaps;
use super::two_way::ProbeCourse;

/// Threshold of the evenness. By chance, fewer than 2 of 100 measurements are below it, for any number of packets and
/// share of losses.
const EVEN: f64 = 0.7;

/// Minimum number of answers after the first loss required to detect a limit.
const LEAST_ANSWERS: usize = 4;

/// Minimum share of losses required to detect a limit.
const LEAST_LOSS: f64 = 0.1;

/// A rate limit that was detected: the answers are spread evenly, at a lower rate than that of the packets sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LimitedRate {
    /// Packets sent per second.
    pub sent: f64,
    /// Packets answered per second, from the first loss on.
    pub answered: f64,
}

impl LimitedRate {
    /// The rate limit in the record of a measurement. `None` if the losses do not look like a limit.
    pub fn of(course: &ProbeCourse) -> Option<Self> {
        let packets: Vec<_> = course.sent.iter().map(|sent| (sent.at(), sent.answer.is_some())).collect();
        Self::of_packets(&packets, course.plan.gaps)
    }

    /// The rate limit in a list of packets in the order of sending. Each has its time, ns, and whether it was answered.
    fn of_packets(packets: &[(u64, bool)], gaps: Gaps) -> Option<Self> {
        let first_loss = packets.iter().position(|(_, is_answered)| !is_answered)?;
        let packets = &packets[first_loss..];
        let ((begin, _), (end, _)) = (packets.first()?, packets.last()?);
        let answers = packets.iter().filter(|(_, is_answered)| *is_answered).count();
        let sent = packets.len() - 1;
        let loss = 1.0 - answers as f64 / sent.max(1) as f64;
        if answers < LEAST_ANSWERS || loss < LEAST_LOSS || end <= begin {
            return None;
        }
        let (span, expected) = ((end - begin) as f64, answers as f64);
        let (mut counted, mut lowest, mut highest) = (0.0, 0.0_f64, 0.0_f64);
        for (at, is_answered) in packets {
            let even = expected * at.saturating_sub(*begin) as f64 / span;
            lowest = lowest.min(counted - even);
            counted += f64::from(u8::from(*is_answered));
            highest = highest.max(counted - even);
        }
        // Standard deviation of the count of answers if losses are random. For periodic gaps the answers are a random
        // sample of the packets; for exponential gaps they are at random times.
        let deviation = match gaps {
            Gaps::Periodic(_) => (expected * loss).sqrt(),
            Gaps::Poisson(_) => expected.sqrt(),
        };
        let per_s = |count: f64| count * 1e9 / span;
        let limited = Self { sent: per_s(sent as f64), answered: per_s(expected) };
        (highest - lowest < EVEN * deviation).then_some(limited)
    }
}

#[cfg(test)]
mod tests {
    use netrig_core::{Duration, Seeds, Stream};

    use super::*;

    fn moments(gaps: Gaps, count: usize, draws: &mut Stream) -> Vec<u64> {
        let mean = gaps.mean().as_nanos();
        let gap = |draws: &mut Stream| match gaps {
            Gaps::Periodic(_) => mean,
            Gaps::Poisson(_) => draws.exponential(mean as f64) as u64,
        };
        let mut at = 1_000_000_000;
        (0..count)
            .map(|_| {
                at += gap(draws);
                at
            })
            .collect()
    }

    /// Answers of a host with a token bucket that fills at `per_s` tokens per second and holds at most `depth` tokens.
    fn of_token_bucket(moments: &[u64], per_s: f64, depth: f64) -> Vec<(u64, bool)> {
        let (mut tokens, mut before) = (depth, moments[0]);
        let answered = |at: &u64| {
            tokens = (tokens + (at - before) as f64 / 1e9 * per_s).min(depth);
            before = *at;
            let is_answered = tokens >= 1.0;
            tokens -= f64::from(u8::from(is_answered));
            (*at, is_answered)
        };
        moments.iter().map(answered).collect()
    }

    /// Linux's `icmp_global_allow`: credits are added every 20 ms, up to 50.
    fn of_linux(moments: &[u64], per_s: u64) -> Vec<(u64, bool)> {
        let (mut credit, mut stamp) = (50, moments[0]);
        let answered = |at: &u64| {
            let passed = at - stamp;
            if passed >= 20_000_000 {
                credit = (credit + per_s * passed.min(1_000_000_000) / 1_000_000_000).min(50);
                stamp = *at;
            }
            let is_answered = credit > 0;
            credit -= u64::from(is_answered);
            (*at, is_answered)
        };
        moments.iter().map(answered).collect()
    }

    const GAPS: [fn(Duration) -> Gaps; 2] = [Gaps::Periodic, Gaps::Poisson];

    #[test]
    fn answers_of_a_rate_limited_host_are_found_with_their_rate() {
        let mut draws = Seeds::new(1).stream("limited");
        for gaps in GAPS {
            for (count, gap_ms, per_s, depth) in
                [(100, 100, 1.0, 6.0), (100, 100, 1.0, 1.0), (200, 100, 5.0, 6.0), (1000, 1, 100.0, 10.0)]
            {
                let mut found = 0;
                for _ in 0..100 {
                    let gaps = gaps(Duration::from_millis(gap_ms));
                    let moments = moments(gaps, count, &mut draws);
                    let limited = LimitedRate::of_packets(&of_token_bucket(&moments, per_s, depth), gaps);
                    found += usize::from(limited.is_some());
                    let near = |rate: f64, truth: f64| (0.5..2.0).contains(&(rate / truth));
                    if let Some(limited) = limited {
                        let sent = 1000.0 / gap_ms as f64;
                        assert!(near(limited.answered, per_s) && near(limited.sent, sent), "{limited:?}");
                    }
                }
                assert!(found >= 90, "{found} of 100: {per_s}/s, {:?}", gaps(Duration::ZERO));
            }
            let gaps = gaps(Duration::from_micros(200));
            let moments = moments(gaps, 10_000, &mut draws);
            assert!(LimitedRate::of_packets(&of_linux(&moments, 1000), gaps).is_some(), "{gaps:?}");
        }
    }

    #[test]
    fn random_losses_are_seldom_taken_for_a_rate_limit() {
        let mut draws = Seeds::new(2).stream("random");
        for gaps in GAPS {
            let gaps = gaps(Duration::from_millis(100));
            for (count, answered) in [(20, 0.5), (50, 0.2), (100, 0.1), (100, 0.5), (100, 0.8), (500, 0.5)] {
                let taken = (0..1000).filter(|_| {
                    let moments = moments(gaps, count, &mut draws);
                    let packets: Vec<_> =
                        moments.into_iter().map(|at| (at, draws.uniform() < answered)).collect();
                    LimitedRate::of_packets(&packets, gaps).is_some()
                });
                let taken = taken.count();
                assert!(taken <= 25, "{taken} of 1000: {count} packets, {answered} answered, {gaps:?}");
            }
        }
    }

    #[test]
    fn few_losses_an_outage_and_no_answers_are_no_rate_limit() {
        let gaps = Gaps::Periodic(Duration::from_millis(100));
        let packets = |is_answered: fn(u64) -> bool| -> Vec<_> {
            (0..100).map(|number| (number * 100_000_000, is_answered(number))).collect()
        };
        let is_limited = |is_answered| LimitedRate::of_packets(&packets(is_answered), gaps).is_some();
        assert!(!is_limited(|_| true) && !is_limited(|_| false));
        assert!(!is_limited(|number| number % 20 != 0), "one of twenty");
        assert!(!is_limited(|number| number > 50), "an outage at the beginning");
        assert!(!is_limited(|number| !(30..60).contains(&number)), "an outage");
        assert!(!is_limited(|number| number < 6), "answers at the beginning alone");
        assert!(is_limited(|number| number < 6 || number % 10 == 0));
        assert_eq!(LimitedRate::of_packets(&[], gaps), None);
    }
}
