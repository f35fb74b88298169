//! The interval of a mean from equal values of a random response.
//!
//! A spread of 0 proves nothing: at a loss of 5 %, in one of eight experiments two runs of twenty packets have no loss.
//! The number of equal values bounds the probability of other values. Only the range of the response bounds their
//! distance.

use crate::compare::Alternative;
use crate::error::{StatsError, check_confidence, check_number};
use crate::interval::{EstimationMethod, Interval};

/// Equal values of a response that could have had other values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EqualValues {
    value: f64,
    n: usize,
    range: Option<[f64; 2]>,
}

impl EqualValues {
    /// `n` values that all equal `value`. `range` is the range of possible values in the same unit, or `None` if it is
    /// unknown.
    ///
    /// # Errors
    /// No value, or a value that is not finite. A range that does not contain the value is ignored.
    pub fn new(value: f64, n: usize, range: Option<[f64; 2]>) -> Result<Self, StatsError> {
        check_number("value", value)?;
        if n == 0 {
            return Err(StatsError::TooFew { needed: 1, got: 0 });
        }
        Ok(Self { value, n, range: range.filter(|[low, high]| (*low..=*high).contains(&value)) })
    }

    /// The value as the estimate of the mean. The interval contains the means at which some distribution within the
    /// range makes the sample likely enough. For a share with `n` values of 0 it is the interval of Clopper and Pearson
    /// (1934). Both ends are `None` without a range and at n = 1.
    ///
    /// # Errors
    /// `confidence` not strictly between 0 and 1.
    pub fn interval(&self, confidence: f64) -> Result<Interval, StatsError> {
        let tail = 0.5 * (1.0 - check_confidence(confidence)?);
        // At a mean that is this share of the distance to the end of the range, equal values are just likely enough.
        // All other values would have to be at the end of the range.
        let share = 1.0 - libm::pow(tail, 1.0 / self.n as f64);
        let end = |end: f64| self.value + share * (end - self.value);
        let ends = self.range.filter(|_| self.n > 1);
        Ok(Interval {
            estimate: self.value,
            low: ends.map(|range| end(range[0])),
            high: ends.map(|range| end(range[1])),
            n: self.n,
            confidence,
            method: EstimationMethod::EqualValues,
        })
    }

    /// The one-sided p-value of the test that the mean is beyond `null` on this side. It is the largest probability of
    /// the sample over all distributions within the range whose means are not beyond `null`. `None` without a range and
    /// at n = 1.
    #[must_use]
    pub fn p_value(&self, null: f64, side: Alternative) -> Option<f64> {
        let [low, high] = self.range.filter(|_| self.n > 1)?;
        // If the mean is at `null`, equal values are likeliest if all other values are at the end of the range.
        let towards = |end: f64| libm::pow(1.0 - (null - self.value) / (end - self.value), self.n as f64);
        Some(match side {
            Alternative::Greater if null >= self.value => 1.0,
            Alternative::Greater if null < low => 0.0,
            Alternative::Greater => towards(low),
            Alternative::Less if null <= self.value => 1.0,
            Alternative::Less if null > high => 0.0,
            Alternative::Less => towards(high),
            Alternative::TwoSided => 1.0,
        })
    }

    /// The number of equal values at which the one-sided p-value against `null` is at most `level`; `None` if there is no
    /// such number.
    #[must_use]
    pub fn needed(&self, null: f64, level: f64) -> Option<usize> {
        let [low, high] = self.range?;
        if null < low || null > high {
            return Some(2);
        }
        let end = if null < self.value { low } else { high };
        let share = (null - self.value) / (end - self.value);
        let n = (libm::log(level) / libm::log1p(-share)).ceil();
        (share > 0.0 && n.is_finite()).then_some((n as usize).max(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten runs without a loss: the upper end is 1 − 0.025^(1/10) = 0.3085 (Clopper and Pearson), and a mean loss of 0.3085
    /// is just rejected.
    #[test]
    fn ten_times_nothing_of_a_share() {
        let none = EqualValues::new(0.0, 10, Some([0.0, 1.0])).unwrap();
        let interval = none.interval(0.95).unwrap();
        assert_eq!((interval.estimate, interval.low), (0.0, Some(0.0)));
        let high = interval.high.unwrap();
        assert!((high - 0.308_497).abs() < 1e-6, "{high}");
        assert!((none.p_value(high, Alternative::Less).unwrap() - 0.025).abs() < 1e-12);
        assert_eq!(none.p_value(high, Alternative::Greater), Some(1.0));
        // 0.95^59 = 0.0485 and 0.95^58 = 0.0510.
        assert_eq!(none.needed(0.05, 0.05), Some(59));
        assert_eq!(none.needed(0.0, 0.05), None);
        // A mean outside of the range needs no proof.
        assert_eq!((none.p_value(-0.1, Alternative::Greater), none.needed(-0.1, 0.05)), (Some(0.0), Some(2)));
        assert_eq!(none.p_value(1.1, Alternative::Less), Some(0.0));
    }

    #[test]
    fn without_a_range_nothing_is_known() {
        for alike in [EqualValues::new(0.2, 10, None), EqualValues::new(1.2, 10, Some([0.0, 1.0]))] {
            let alike = alike.unwrap();
            assert_eq!((alike.interval(0.95).unwrap().high, alike.needed(0.5, 0.05)), (None, None));
            assert_eq!(alike.p_value(0.5, Alternative::Less), None);
        }
        assert!(EqualValues::new(0.0, 0, None).is_err() && EqualValues::new(f64::NAN, 2, None).is_err());
    }
}
