//! Delay and loss as one quantity: a lost packet is infinitely late.

use crate::error::{StatsError, check_open_unit};
use crate::interval::{Interval, wilson};
use crate::quantile;
use crate::summary::mean;

/// Delays of a stream's packets, s. A lost packet counts as infinitely late.
///
/// The type represents one-way delay (RFC 7679) with loss (RFC 7680), and round-trip delay (RFC 2681) with two-way loss
/// (RFC 6673). The singleton is a delay or *undefined*, "informally, infinite".
#[derive(Debug, Clone, PartialEq)]
pub struct Delays {
    /// Delays of the packets that arrived, in rising order, s.
    arrived: Vec<f64>,
    lost: usize,
}

/// A quantile of delays, s, with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantile {
    /// The share of packets whose delay is at most `value`, 0 to 1.
    pub p: f64,
    /// The quantile; `None` if it is undefined because too many packets were lost.
    pub value: Option<f64>,
    /// The lower end of the interval. `None` if it is the rank of a lost packet, or if the sample cannot bound that
    /// side.
    pub low: Option<f64>,
    /// The upper end of the interval. `None` if it is the rank of a lost packet, or if the sample cannot bound that
    /// side.
    pub high: Option<f64>,
}

impl Delays {
    /// A sample of singletons. Each is a delay in seconds, or `None` for a lost packet.
    ///
    /// # Errors
    /// A delay that is not a finite number.
    pub fn new(singletons: impl IntoIterator<Item = Option<f64>>) -> Result<Self, StatsError> {
        let (mut arrived, mut lost) = (Vec::new(), 0);
        for (index, singleton) in singletons.into_iter().enumerate() {
            match singleton {
                Some(delay) if delay.is_finite() => arrived.push(delay),
                Some(_) => return Err(StatsError::NotFinite { index }),
                None => lost += 1,
            }
        }
        arrived.sort_by(f64::total_cmp);
        Ok(Self { arrived, lost })
    }

    /// Number of packets that were sent.
    #[must_use]
    pub fn sent(&self) -> usize {
        self.arrived.len() + self.lost
    }

    /// Number of packets that were lost.
    #[must_use]
    pub const fn lost(&self) -> usize {
        self.lost
    }

    /// The delays of the packets that arrived, in rising order, seconds.
    #[must_use]
    pub fn arrived(&self) -> &[f64] {
        &self.arrived
    }

    /// The share of packets that were lost, with Wilson's interval (Type-P-One-way-Packet-Loss-Ratio, RFC 7680
    /// section 4.1; RFC 6673 section 6 for both ways). The interval assumes independent losses. Losses in bursts are not
    /// independent: see [`LossPattern`](super::LossPattern).
    ///
    /// # Errors
    /// An empty sample, or a confidence that is not strictly between 0 and 1.
    pub fn loss_ratio(&self, confidence: f64) -> Result<Interval, StatsError> {
        wilson(self.lost, self.sent(), confidence)
    }

    /// The smallest delay (Type-P-One-way-Delay-Minimum, RFC 7679 section 4.3), s. Undefined if every packet was lost.
    #[must_use]
    pub fn minimum(&self) -> Option<f64> {
        self.arrived.first().copied()
    }

    /// The largest delay of a packet that arrived, s.
    #[must_use]
    pub fn maximum(&self) -> Option<f64> {
        self.arrived.last().copied()
    }

    /// The mean delay of the packets that arrived, s. Lost packets are ignored.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (!self.arrived.is_empty()).then(|| mean(&self.arrived))
    }

    /// The median (Type-P-One-way-Delay-Median, RFC 7679 section 4.2). For an even count it is the mean of the two
    /// central values. Undefined if a central value is a lost packet.
    #[must_use]
    pub fn median(&self) -> Option<f64> {
        let n = self.sent();
        let upper = self.rank(n / 2);
        if n % 2 == 1 { upper } else { Some(0.5 * (self.rank((n / 2).checked_sub(1)?)? + upper?)) }
    }

    /// The percentile of RFC 2330 section 11.3 (Type-P-One-way-Delay-Percentile, RFC 7679 section 4.1): the smallest
    /// delay that at least the share `p` of all packets does not exceed. Undefined if this rank is a lost packet, or if
    /// the sample is empty.
    ///
    /// # Errors
    /// A `p` outside of 0 to 1.
    pub fn percentile(&self, p: f64) -> Result<Option<f64>, StatsError> {
        if !(0.0..=1.0).contains(&p) {
            return Err(StatsError::OutOfRange { what: "percentile", range: "between 0 and 1", value: p });
        }
        // If rounding has increased a whole rank, the rank must not become the next one.
        let rank = (p * self.sent() as f64 * (1.0 - f64::EPSILON)).ceil() as usize;
        Ok(self.rank(rank.saturating_sub(1)))
    }

    /// The percentile with an interval between two order statistics, valid for any distribution.
    ///
    /// # Errors
    /// A `p` or `confidence` that is not strictly between 0 and 1, or an empty sample.
    pub fn quantile(&self, p: f64, confidence: f64) -> Result<Quantile, StatsError> {
        check_open_unit("quantile", p)?;
        let (low, high) = quantile::ranks(self.sent(), p, confidence)?;
        Ok(Quantile {
            p,
            value: self.percentile(p)?,
            low: low.and_then(|rank| self.rank(rank)),
            high: high.and_then(|rank| self.rank(rank)),
        })
    }

    /// The delay at this rank, from 0. `None` for a lost packet.
    fn rank(&self, rank: usize) -> Option<f64> {
        self.arrived.get(rank).copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(singletons: &[Option<f64>]) -> Delays {
        Delays::new(singletons.iter().copied()).unwrap()
    }

    const LOST: Option<f64> = None;

    /// Ten delays, 11 to 20 ms. A percentile of RFC 2330 is always one of these delays. The median of RFC 7679 and the
    /// type 7 of [`quantile::quantile`] may lie between two of them.
    #[test]
    fn percentiles_of_a_path_are_delays_that_were_measured() {
        let delays: Vec<f64> = (11..=20).map(f64::from).collect();
        let path = of(&delays.iter().copied().map(Some).collect::<Vec<_>>());
        for (p, rfc_2330, type_7) in
            [(0.25, 13.0, 13.25), (0.5, 15.0, 15.5), (0.9, 19.0, 19.1), (0.95, 20.0, 19.55)]
        {
            assert_eq!(path.percentile(p).unwrap(), Some(rfc_2330), "{p}");
            assert!((quantile::quantile(&delays, p).unwrap() - type_7).abs() < 1e-12, "{p}");
        }
        assert_eq!(path.median(), Some(15.5));
    }

    #[test]
    fn a_percentile_counts_what_was_lost_as_later_than_all() {
        // The sample of RFC 7679 section 4.1, milliseconds: "the 50th percentile would be 110".
        let delays = of(&[Some(100.0), Some(110.0), LOST, Some(90.0), Some(500.0)]);
        assert_eq!(delays.percentile(0.5).unwrap(), Some(110.0));
        assert_eq!(delays.median(), Some(110.0));
        assert_eq!(delays.minimum(), Some(90.0));
        assert_eq!(delays.percentile(0.8).unwrap(), Some(500.0));
        assert_eq!(delays.percentile(0.81).unwrap(), None, "undefined, informally infinite");
    }

    #[test]
    fn a_median_of_an_even_count_is_the_mean_of_the_central_values() {
        // RFC 7679 section 4.2: "the median would be 105, the mean of 100 and 110, the two central values".
        let delays = of(&[Some(100.0), Some(110.0), LOST, Some(90.0)]);
        assert_eq!(delays.median(), Some(105.0));
        let half = of(&[Some(100.0), LOST, LOST, Some(90.0)]);
        assert_eq!(half.median(), None, "one of the two central values is a lost packet");
    }

    #[test]
    fn percentiles_are_those_of_the_empirical_distribution_function() {
        // RFC 2330 section 11.3: of -2, 7, 7, 4, 18, -5 "the 50th percentile is 4, since F(4) = 3/6 = 50 %", the
        // 25th -2, the 100th 18 and the 15th -5.
        let delays = of(&[-2.0, 7.0, 7.0, 4.0, 18.0, -5.0].map(Some));
        let at = |p| delays.percentile(p).unwrap().unwrap();
        assert_eq!([at(0.5), at(0.25), at(1.0), at(0.15)], [4.0, -2.0, 18.0, -5.0]);
        assert_eq!(delays.median(), Some(5.5));
    }

    #[test]
    fn of_nothing_everything_is_undefined() {
        let empty = of(&[]);
        assert_eq!((empty.median(), empty.minimum(), empty.mean()), (None, None, None));
        assert_eq!(empty.percentile(0.5).unwrap(), None);
        assert!(empty.quantile(0.5, 0.95).is_err() && empty.loss_ratio(0.95).is_err());
    }

    #[test]
    fn an_interval_that_reaches_into_the_lost_is_open() {
        // Of ten values, ranks 2 and 9 bound the median with 97.9 % (Conover, table A3: 0.0107 in each tail).
        let singletons: Vec<_> = (1..=8).map(|n| Some(f64::from(n))).chain([LOST, LOST]).collect();
        let median = of(&singletons).quantile(0.5, 0.95).unwrap();
        assert_eq!((median.value, median.low, median.high), (Some(5.0), Some(2.0), None));
    }

    proptest! {
        /// The percentile equals the result of counting.
        #[test]
        fn a_percentile_is_the_least_value_that_enough_packets_do_not_exceed(
            singletons in proptest::collection::vec(proptest::option::weighted(0.8, 0u32..50), 1..60),
            hundredths in 1u32..=100,
        ) {
            let p = f64::from(hundredths) / 100.0;
            let delays = of(&singletons.iter().map(|s| s.map(f64::from)).collect::<Vec<_>>());
            let n = singletons.len() as u32;
            let within = |limit: u32| singletons.iter().flatten().filter(|delay| **delay <= limit).count() as u32;
            // In integers: 100 · within ≥ hundredths · n.
            let expected = (0..50).find(|limit| 100 * within(*limit) >= hundredths * n);
            prop_assert_eq!(delays.percentile(p).unwrap(), expected.map(f64::from));
        }
    }
}
