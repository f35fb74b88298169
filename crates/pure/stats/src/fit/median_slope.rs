//! The slope of a line through points with outliers.

use crate::error::{StatsError, check_confidence, check_number, check_pairs};
use crate::interval::{EstimationMethod, Interval};

/// The median of the slopes between all pairs of points, in units of y per unit of x. Up to 29 % of the points may be
/// outliers. The ends of its interval are two of these slopes, by Kendall's exact distribution. They are `None` if there are
/// too few points for the confidence.
///
/// Source: Theil (1950), *A rank-invariant method of linear and polynomial regression analysis*; Sen (1968), *Estimates of the
/// regression coefficient based on Kendall's tau*.
///
/// # Errors
/// Fewer than two points, lengths that differ, a value that is not finite, two x values that are equal, or `confidence` not
/// strictly between 0 and 1.
pub fn median_slope(x: &[f64], y: &[f64], confidence: f64) -> Result<Interval, StatsError> {
    check_pairs(x, y, 2)?;
    check_confidence(confidence)?;
    let n = x.len();
    let mut slopes = Vec::with_capacity(n * (n - 1) / 2);
    for first in 0..n {
        for second in 0..first {
            let run = x[first] - x[second];
            if run == 0.0 {
                return Err(StatsError::NoSpread { what: "the slope" });
            }
            slopes.push((y[first] - y[second]) / run);
        }
    }
    for slope in &slopes {
        check_number("a slope", *slope)?;
    }
    slopes.sort_by(f64::total_cmp);
    let pairs = slopes.len();
    let middle = (slopes[(pairs - 1) / 2] + slopes[pairs / 2]) / 2.0;
    let out = ranks_outside(n, (1.0 - confidence) / 2.0);
    let low = out.checked_sub(1).map(|rank| slopes[rank]);
    let high = out.checked_sub(1).map(|rank| slopes[pairs - 1 - rank]);
    Ok(Interval { estimate: middle, low, high, n, confidence, method: EstimationMethod::MedianSlope })
}

/// The rank (from 1) of the slope that ends the interval, counted from either side; 0 if there are too few points. It
/// is the largest k for which the probability of fewer than k inversions, with `points` points in random order, is at
/// most `tail`.
fn ranks_outside(points: usize, tail: f64) -> usize {
    // In a random order of i points, the last point adds 0 to i - 1 inversions with equal probability.
    let mut chances = vec![1.0];
    for point in 2..=points {
        let mut next = vec![0.0; chances.len() + point - 1];
        for (inversions, chance) in chances.iter().enumerate() {
            for more in 0..point {
                next[inversions + more] += chance / point as f64;
            }
        }
        chances = next;
    }
    let mut sum = 0.0;
    // A sum that equals the tail must not count as larger because of rounding.
    chances
        .iter()
        .take_while(|chance| {
            sum += **chance;
            sum <= tail * (1.0 + 1e-12)
        })
        .count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_median_and_its_interval_are_slopes_between_points() {
        let x = [1.0, 2.0, 3.0, 4.0, 10.0, 12.0, 18.0];
        let y = [9.0, 15.0, 19.0, 20.0, 45.0, 55.0, 78.0];
        // The median of 21 slopes is the 11th, and the ends are the 4th from each side: at most 3 inversions have a
        // probability of 76/5040.
        let slope = median_slope(&x, &y, 0.96).unwrap();
        assert_eq!((slope.estimate, slope.low, slope.high), (4.0, Some(26.0 / 7.0), Some(35.0 / 8.0)));
    }

    /// The interval is tested over all orders of five errors. The share of orders in which it contains the true slope
    /// follows from Kendall's distribution.
    #[test]
    fn the_interval_holds_as_often_as_it_says() {
        let x = [1.0, 2.0, 3.0, 4.0, 5.0];
        let mut held = 0;
        let mut order = [0, 1, 2, 3, 4];
        permutations(&mut order, 0, &mut |order| {
            // The errors have different magnitudes, so that all slopes differ.
            let y: Vec<f64> = x
                .iter()
                .zip(order)
                .map(|(x, place)| 2.0 * x + [1e-3, 1e-2, 0.1, 1.0, 10.0][*place])
                .collect();
            let slope = median_slope(&x, &y, 0.95).unwrap();
            held += usize::from(slope.low.unwrap() <= 2.0 && 2.0 <= slope.high.unwrap());
        });
        // The interval misses the slope only if all errors rise or all errors fall: two of 120 orders.
        assert_eq!(held, 118);
    }

    fn permutations(order: &mut [usize; 5], from: usize, each: &mut impl FnMut(&[usize; 5])) {
        if from == order.len() {
            return each(order);
        }
        for other in from..order.len() {
            order.swap(from, other);
            permutations(order, from + 1, each);
            order.swap(from, other);
        }
    }

    /// Kendall's table: for 8 points the probability of a sum of 18 or more is 0.016. For 4 points the probability of
    /// the largest sum, 6, is 0.042.
    #[test]
    fn tails_are_those_of_kendalls_table() {
        assert_eq!(ranks_outside(8, 0.025), 6);
        assert_eq!((ranks_outside(4, 0.025), ranks_outside(4, 0.0417)), (0, 1));
        assert_eq!(ranks_outside(5, 0.025), 1);
        let few = median_slope(&[1.0, 2.0, 3.0, 4.0], &[1.0, 2.0, 3.0, 4.0], 0.95).unwrap();
        assert_eq!((few.estimate, few.low, few.high), (1.0, None, None));
    }

    #[test]
    fn two_places_that_are_one_have_no_slope() {
        assert!(median_slope(&[1.0, 1.0, 2.0], &[1.0, 2.0, 3.0], 0.95).is_err());
        assert!(median_slope(&[1.0], &[1.0], 0.95).is_err());
    }

    proptest! {
        /// If two of eight points are outliers, the slope is that of the other six.
        #[test]
        fn points_far_off_move_nothing(slope in -5.0..5.0f64, first in 0usize..8, second in 0usize..8, off in -1e3..1e3f64) {
            let x: Vec<f64> = (0..8).map(f64::from).collect();
            let mut y: Vec<f64> = x.iter().map(|x| 3.0 + slope * x).collect();
            y[first] += off;
            y[second] -= off;
            let found = median_slope(&x, &y, 0.95).unwrap();
            prop_assert!((found.estimate - slope).abs() < 1e-9, "{:?}", found);
        }
    }
}
