//! The least-squares line through points.

use crate::distribution::StudentT;
use crate::error::{StatsError, check_confidence, check_number, check_pairs};
use crate::interval::{EstimationMethod, Interval, critical_t};
use crate::summary::mean_and_squares;

/// A least-squares line y = intercept + slope x.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FittedLine {
    /// Slope, in units of y per unit of x.
    pub slope: Interval,
    /// Value of the line at x = 0, in the unit of y.
    pub intercept: Interval,
    /// The standard deviation of y around the line, with n - 2 degrees of freedom; `None` at two points.
    pub residual_sd: Option<f64>,
    /// The share of y's variance that the line explains, in 0..=1. It is 1 if y does not vary.
    pub r_squared: f64,
    /// The two-sided p-value of the test that the slope is 0; `None` at two points.
    pub p_value: Option<f64>,
    mean_x: f64,
    squares_x: f64,
}

/// Fits a line by least squares. The intervals assume independent normal errors of equal variance.
/// Source: Draper and Smith, *Applied Regression Analysis*, 3rd ed., chapter 1.
///
/// # Errors
/// Fewer than two points, lengths that differ, a value that is not finite, x values that are all equal, or
/// `confidence` not strictly between 0 and 1.
pub fn line(x: &[f64], y: &[f64], confidence: f64) -> Result<FittedLine, StatsError> {
    check_pairs(x, y, 2)?;
    check_confidence(confidence)?;
    let n = x.len();
    let ((mean_x, squares_x), (mean_y, squares_y)) = (mean_and_squares(x), mean_and_squares(y));
    if squares_x == 0.0 {
        return Err(StatsError::NoSpread { what: "the slope" });
    }
    let products: f64 = x.iter().zip(y).map(|(a, b)| (a - mean_x) * (b - mean_y)).sum();
    let slope = products / squares_x;
    let residual = |(a, b): (&f64, &f64)| b - mean_y - slope * (a - mean_x);
    let squares: f64 = x.iter().zip(y).map(residual).map(|r| r * r).sum();
    let residual_sd = (n > 2).then(|| (squares / (n as f64 - 2.0)).sqrt());
    let mut fitted = FittedLine {
        slope: Interval::symmetric(slope, None, n, confidence, EstimationMethod::Regression),
        intercept: Interval::symmetric(
            mean_y - slope * mean_x,
            None,
            n,
            confidence,
            EstimationMethod::Regression,
        ),
        residual_sd,
        r_squared: if squares_y > 0.0 { 1.0 - squares / squares_y } else { 1.0 },
        p_value: None,
        mean_x,
        squares_x,
    };
    if let Some(sd) = residual_sd {
        let error = sd / squares_x.sqrt();
        let half_width = Some(critical_t(n as f64 - 2.0, confidence)? * error);
        fitted.slope = Interval::symmetric(slope, half_width, n, confidence, EstimationMethod::Regression);
        fitted.intercept = fitted.at(0.0)?;
        let t = if slope == 0.0 { 0.0 } else { slope / error };
        fitted.p_value = Some(StudentT::new(n as f64 - 2.0)?.both_tails(t));
    }
    Ok(fitted)
}

impl FittedLine {
    /// The value of the line at `x`, in the unit of y, with the interval of the mean response at `x`.
    ///
    /// # Errors
    /// `x` that is not finite.
    pub fn at(&self, x: f64) -> Result<Interval, StatsError> {
        check_number("x", x)?;
        let n = self.slope.n;
        let estimate = self.intercept.estimate + self.slope.estimate * x;
        let apart = x - self.mean_x;
        let half_width = match self.residual_sd {
            Some(sd) => {
                let error = sd * (1.0 / n as f64 + apart * apart / self.squares_x).sqrt();
                Some(critical_t(n as f64 - 2.0, self.slope.confidence)? * error)
            }
            None => None,
        };
        Ok(Interval::symmetric(estimate, half_width, n, self.slope.confidence, EstimationMethod::Regression))
    }
}
