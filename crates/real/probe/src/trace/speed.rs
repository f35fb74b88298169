//! Estimates the rates of links from the additional time that longer packets take to each hop.
//!
//! Each link up to a hop needs a transmission time proportional to the length of the packet. Of many packets of one
//! length, the fastest did not wait in a queue. The shortest round-trip times therefore lie on a line over the lengths.
//! The slope is the sum of the times per byte of all links up to the hop. The slope of the next hop is steeper by the
//! time per byte of the link between them (Jacobson 1997, Downey 1999). If all packets of a length waited, their point
//! lies above the line. The slope is therefore computed as the median of the slopes between all pairs of points, which
//! a few such points do not change. The answers must have the same length for all packets, so that their transmission
//! times do not contribute to the slope. A router quotes at most what fits into 576 B of IPv4 (RFC 1812 section
//! 4.3.2.3) or 1280 B of IPv6 (RFC 4443 section 3), so the packets are longer than that.

use std::collections::BTreeMap;

use netrig_stats::Interval;
use netrig_stats::fit::median_slope;

use super::super::error::ProbeResult;
use super::super::report::{CONFIDENCE, Measure};

/// Minimum length of packets whose answers have a constant length, octets of IPv4.
pub const SHORTEST_V4: usize = 576;
/// Minimum length of packets whose answers have a constant length, octets of IPv6.
pub const SHORTEST_V6: usize = 1280;

/// Minimum number of lengths for a confidence interval of the slope.
pub const LEAST_LENGTHS: usize = 5;

/// The packets that are sent to estimate rates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpeedPlan {
    /// Lengths of the packets in rising order, octets of IP.
    pub lengths: Vec<usize>,
    /// Number of packets of each length to each hop.
    pub each: u32,
}

impl SpeedPlan {
    /// Evenly spaced lengths from the shortest to the longest. `None` if the range contains too few lengths.
    pub fn new(shortest: usize, longest: usize, lengths: usize, each: u32) -> Option<Self> {
        let steps = lengths.checked_sub(1)?;
        let span = longest.checked_sub(shortest)?;
        if lengths < LEAST_LENGTHS || span < steps || each == 0 {
            return None;
        }
        let lengths = (0..lengths).map(|at| shortest + span * at / steps).collect();
        Some(Self { lengths, each })
    }

    /// The shortest and the longest packet length, octets of IP.
    pub fn ends(&self) -> [usize; 2] {
        // `new` creates at least [`LEAST_LENGTHS`] lengths.
        [self.lengths[0], self.lengths[self.lengths.len() - 1]]
    }

    /// Replaces the lengths by the same number of lengths up to `longest`. Returns false, and changes nothing, if the
    /// range contains too few lengths.
    pub fn shorten(&mut self, longest: usize) -> bool {
        let [shortest, _] = self.ends();
        Self::new(shortest, longest, self.lengths.len(), self.each).map(|plan| *self = plan).is_some()
    }
}

/// A packet that was sent to a hop, and its answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpeedSample {
    /// Length of the packet, octets of IP.
    pub length: usize,
    /// Round-trip time, s.
    pub round_trip: f64,
    /// Octets of the answer.
    pub answer: usize,
}

/// The time per byte up to a hop and, if known, the rate of the link before it.
#[derive(Clone, Debug, PartialEq)]
pub struct HopSpeed {
    /// Time per byte over all links up to the hop, s/B, named `time_per_byte`.
    pub per_byte: Measure,
    /// Rate of the link before the hop, bit/s, named `speed`.
    pub speed: Measure,
}

/// Estimates the rates along a path from the samples of each hop, in the order of the hops. If a hop does not answer,
/// the rate of the next hop is that of the path from the last hop that answered.
///
/// Fails if a sample is not a number.
pub fn along(hops: &[Vec<SpeedSample>]) -> ProbeResult<Vec<HopSpeed>> {
    let mut before = None;
    let mut speeds = Vec::with_capacity(hops.len());
    for samples in hops {
        speeds.push(match slope(samples)? {
            Err(why) => HopSpeed {
                per_byte: Measure::undefined("time_per_byte", "s/B", why),
                speed: Measure::undefined("speed", "bit/s", why),
            },
            Ok(slope) => {
                let speed = of_link(before.as_ref(), &slope);
                let per_byte =
                    Measure { n: samples.len(), ..Measure::interval("time_per_byte", "s/B", &slope) };
                before = Some(slope);
                HopSpeed { per_byte, speed: Measure { n: samples.len(), ..speed } }
            }
        });
    }
    Ok(speeds)
}

/// The slope of the shortest round-trip times over the lengths, or why there is no slope.
fn slope(samples: &[SpeedSample]) -> ProbeResult<Result<Interval, &'static str>> {
    let mut answers = BTreeMap::<usize, usize>::new();
    samples.iter().for_each(|sample| *answers.entry(sample.answer).or_default() += 1);
    // Only answers of the most frequent length are used: others take a different time to return.
    let Some((usual, _)) = answers.iter().max_by_key(|(_, count)| **count) else {
        return Ok(Err("it answered none of the packets for this"));
    };
    let mut least = BTreeMap::<usize, f64>::new();
    for sample in samples.iter().filter(|sample| sample.answer == *usual) {
        let known = least.entry(sample.length).or_insert(f64::INFINITY);
        *known = known.min(sample.round_trip);
    }
    if least.len() < LEAST_LENGTHS {
        let why = if answers.len() > LEAST_LENGTHS {
            "its answers are as long as the packets, and also take time on the way back"
        } else {
            "it answered packets of too few lengths"
        };
        return Ok(Err(why));
    }
    let (lengths, times): (Vec<f64>, Vec<f64>) =
        least.into_iter().map(|(length, time)| (length as f64, time)).unzip();
    Ok(Ok(median_slope(&lengths, &times, CONFIDENCE)?))
}

/// The rate of the link between two hops, from the times per byte up to each of them.
fn of_link(before: Option<&Interval>, here: &Interval) -> Measure {
    const ONE_WAY: f64 = 8.0;
    let Some(before) = before else { return Measure::rate("speed", ONE_WAY, here) };
    let below = |slope: &Interval| slope.low.map(|low| slope.estimate - low);
    let above = |slope: &Interval| slope.high.map(|high| high - slope.estimate);
    let both = |one: Option<f64>, other: Option<f64>| one.zip(other).map(|(a, b)| (a * a + b * b).sqrt());
    let estimate = here.estimate - before.estimate;
    let difference = Interval {
        estimate,
        low: both(below(here), above(before)).map(|error| estimate - error),
        high: both(above(here), below(before)).map(|error| estimate + error),
        ..*here
    };
    Measure::rate("speed", ONE_WAY, &difference)
}

#[cfg(test)]
mod tests {
    use netrig_core::Seeds;
    use proptest::prelude::*;

    use super::*;

    /// Samples over links with these rates. Each sample has a constant delay and a random waiting time, as in a queue
    /// that is often empty.
    fn samples(rates: &[f64], plan: &SpeedPlan, waits: f64, seed: u64) -> Vec<Vec<SpeedSample>> {
        let mut draws = Seeds::new(seed).stream("waits");
        let hop = |hops: usize, draws: &mut netrig_core::Stream| {
            let mut of_hop = Vec::new();
            for length in &plan.lengths {
                for _ in 0..plan.each {
                    let serialised: f64 = rates[..hops].iter().map(|rate| 8.0 * *length as f64 / rate).sum();
                    let waited = if draws.below(3) == 0 { 0.0 } else { draws.uniform() * waits };
                    let round_trip = serialised + 0.001 * hops as f64 + waited + draws.uniform() * 1e-6;
                    of_hop.push(SpeedSample { length: *length, round_trip, answer: 548 });
                }
            }
            of_hop
        };
        (1..=rates.len()).map(|hops| hop(hops, &mut draws)).collect()
    }

    /// Over many traces, the intervals contain the true rate as often as the confidence level states. An estimate is
    /// far from the true rate only if its interval is wide.
    #[test]
    fn rates_of_links_come_back_from_the_times() {
        let plan = SpeedPlan::new(SHORTEST_V4, 1500, 8, 10).unwrap();
        let rates = [100e6, 10e6, 50e6];
        let (mut inside, mut near) = (0, 0);
        for seed in 0..50 {
            let speeds = along(&samples(&rates, &plan, 5e-3, seed)).unwrap();
            for (speed, rate) in speeds.iter().zip(rates) {
                let Measure { value, low, high, .. } = speed.speed;
                near += usize::from(value.is_some_and(|value| (value / rate - 1.0).abs() < 0.05));
                inside +=
                    usize::from(low.is_some_and(|low| low <= rate) && high.is_none_or(|high| rate <= high));
            }
        }
        // The expected number is 142, 95 % of 150. A number of 133 or less is more than three standard deviations below
        // it.
        assert!(inside > 133, "{inside} of 150 intervals hold the rate");
        assert!(near > 133, "{near} of 150 estimates are within a twentieth");
    }

    #[test]
    fn a_link_that_is_too_fast_is_told_to_be_at_least_so_fast() {
        let plan = SpeedPlan::new(SHORTEST_V4, 1500, 8, 10).unwrap();
        let speeds = along(&samples(&[10e6, 1e12], &plan, 1e-3, 1)).unwrap();
        assert!(speeds[0].speed.undefined.is_none());
        let fast = &speeds[1].speed;
        assert_eq!((fast.value, fast.high), (None, None));
        assert!(fast.low.is_none_or(|low| low > 10e6) && fast.undefined.is_some(), "{fast:?}");
    }

    #[test]
    fn a_hop_that_says_nothing_is_told_and_passed_over() {
        let plan = SpeedPlan::new(SHORTEST_V4, 1500, 5, 10).unwrap();
        let mut hops = samples(&[100e6, 10e6], &plan, 1e-3, 1);
        hops.insert(1, Vec::new());
        let speeds = along(&hops).unwrap();
        assert!(speeds[1].speed.undefined.as_ref().unwrap().contains("none of the packets"));
        assert!((speeds[2].speed.value.unwrap() / 10e6 - 1.0).abs() < 0.05);
    }

    #[test]
    fn answers_as_long_as_what_they_answer_tell_nothing() {
        let plan = SpeedPlan::new(SHORTEST_V4, 1500, 8, 10).unwrap();
        let mut hops = samples(&[10e6], &plan, 0.0, 1);
        hops[0].iter_mut().for_each(|sample| sample.answer = sample.length);
        assert!(along(&hops).unwrap()[0].speed.undefined.as_ref().unwrap().contains("as long as"));
    }

    proptest! {
        #[test]
        fn lengths_rise_from_the_shortest_to_the_longest(shortest in 1usize..2000, longest in 1usize..2000, lengths in 0usize..20) {
            if let Some(mut plan) = SpeedPlan::new(shortest, longest, lengths, 1) {
                prop_assert_eq!(plan.ends(), [shortest, longest]);
                prop_assert_eq!(plan.lengths.len(), lengths);
                prop_assert!(plan.lengths.windows(2).all(|pair| pair[0] < pair[1]));
                let shorter = usize::midpoint(shortest, longest);
                let expected = if plan.shorten(shorter) { shorter } else { longest };
                prop_assert_eq!(plan.ends(), [shortest, expected]);
            }
        }

        #[test]
        fn any_times_give_an_estimate(times in proptest::collection::vec((576usize..580, 0.0..1.0f64, 0usize..3), 0..40)) {
            let samples: Vec<_> = times
                .into_iter()
                .map(|(length, round_trip, answer)| SpeedSample { length, round_trip, answer })
                .collect();
            for speed in along(&[samples.clone(), samples]).unwrap() {
                let Measure { value, low, high, .. } = speed.speed;
                prop_assert!(value.is_none_or(|value| low.is_some_and(|low| low <= value)));
                prop_assert!(value.zip(high).is_none_or(|(value, high)| value <= high));
            }
        }
    }
}
