//! The sampling distributions: normal, Student t, chi-square, F and binomial.
//!
//! Each has `cdf` (probability of at most x) and `upper` (probability of more than x; it is precise far out in the
//! tail, where `1 - cdf` is not). All except the binomial have `quantile`. Source: Johnson, Kotz and Balakrishnan,
//! *Continuous Univariate Distributions*, 2nd ed.

use std::f64::consts::{PI, SQRT_2};

use crate::error::{StatsError, check_positive};
use crate::special::{beta_inc, beta_inc_both, ln_beta};

/// Checks that a probability lies in [0, 1].
fn check_probability(value: f64) -> Result<f64, StatsError> {
    let range = "between 0 and 1";
    if (0.0..=1.0).contains(&value) {
        Ok(value)
    } else {
        Err(StatsError::OutOfRange { what: "probability", range, value })
    }
}

/// The x >= 0 at which the falling function `upper` equals `q`, by Newton's method inside a bracket.
fn invert_upper(q: f64, start: f64, upper: impl Fn(f64) -> f64, density: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, f64::INFINITY);
    let mut x = start.clamp(f64::MIN_POSITIVE, f64::MAX);
    for _ in 0..2_000 {
        let excess = upper(x) - q;
        if excess > 0.0 {
            low = x
        } else {
            high = x
        }
        let newton = x + excess / density(x);
        let inside = newton > low && newton < high;
        // A step of Newton's method squares the relative error, so after such a small step the result is exact.
        if inside && (newton - x).abs() <= 1e-9 * x {
            return newton;
        }
        let next = match (inside, high == f64::INFINITY) {
            (true, _) => newton,
            (false, true) => 2.0 * x,
            (false, false) => 0.5 * (low + high),
        };
        if next == x {
            return x;
        }
        x = next;
    }
    x
}

/// The standard normal distribution: mean 0, standard deviation 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Normal;

impl Normal {
    /// The probability of at most `x`.
    #[must_use]
    pub fn cdf(self, x: f64) -> f64 {
        0.5 * libm::erfc(-x / SQRT_2)
    }

    /// The probability of more than `x`.
    #[must_use]
    pub fn upper(self, x: f64) -> f64 {
        0.5 * libm::erfc(x / SQRT_2)
    }

    /// The value that is not exceeded with probability `p` in [0, 1]; infinite at both ends.
    ///
    /// # Errors
    /// `p` outside [0, 1].
    pub fn quantile(self, p: f64) -> Result<f64, StatsError> {
        let p = check_probability(p)?;
        Ok(if p < 0.5 { -self.upper_quantile(p) } else { self.upper_quantile(1.0 - p) })
    }

    /// The x >= 0 that is exceeded with probability `q <= 1/2`: starts at a rational approximation (Abramowitz and
    /// Stegun 26.2.23, error 4.5e-4) and continues with Halley's method. Each step triples the number of correct
    /// digits.
    fn upper_quantile(self, q: f64) -> f64 {
        if q == 0.0 {
            return f64::INFINITY;
        }
        let t = (-2.0 * libm::log(q)).sqrt();
        let numerator = 2.515_517 + t * (0.802_853 + t * 0.010_328);
        let denominator = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
        let mut x = t - numerator / denominator;
        for _ in 0..3 {
            let density = libm::exp(-0.5 * x * x) / (2.0 * PI).sqrt();
            let step = (self.upper(x) - q) / density;
            x += step / (1.0 - 0.5 * step * x);
        }
        x
    }
}

/// Student's t with `df` degrees of freedom (any positive number; Welch's test needs fractions).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StudentT {
    df: f64,
}

impl StudentT {
    /// # Errors
    /// `df` that is not positive and finite.
    pub fn new(df: f64) -> Result<Self, StatsError> {
        check_positive("degrees of freedom", df).map(|df| Self { df })
    }

    /// The probability of at most `t`.
    #[must_use]
    pub fn cdf(self, t: f64) -> f64 {
        self.upper(-t)
    }

    /// The probability of more than `t`.
    #[must_use]
    pub fn upper(self, t: f64) -> f64 {
        if t.is_nan() {
            return f64::NAN;
        }
        let tail = 0.5 * self.both_tails(t);
        if t < 0.0 { 1.0 - tail } else { tail }
    }

    /// The probability of a value farther from 0 than `t`: the two-sided p-value.
    #[must_use]
    pub fn both_tails(self, t: f64) -> f64 {
        if t.is_infinite() {
            return 0.0;
        }
        let square = t * t;
        let whole = self.df + square;
        beta_inc_both(0.5 * self.df, 0.5, self.df / whole, square / whole)
    }

    fn density(self, t: f64) -> f64 {
        let ln_scale = -ln_beta(0.5, 0.5 * self.df) - 0.5 * libm::log(self.df);
        libm::exp(ln_scale - 0.5 * (self.df + 1.0) * libm::log1p(t * t / self.df))
    }

    /// The value that is not exceeded with probability `p` in [0, 1]; infinite at both ends.
    ///
    /// # Errors
    /// `p` outside [0, 1].
    pub fn quantile(self, p: f64) -> Result<f64, StatsError> {
        let p = check_probability(p)?;
        let q = p.min(1.0 - p);
        if q == 0.5 {
            return Ok(0.0);
        }
        let t = if q == 0.0 { f64::INFINITY } else { self.upper_quantile(q) };
        Ok(if p < 0.5 { -t } else { t })
    }

    /// Starts at the Cornish-Fisher expansion (Abramowitz and Stegun 26.7.5).
    fn upper_quantile(self, q: f64) -> f64 {
        let z = Normal.upper_quantile(q);
        let square = z * z;
        let first = (square + 1.0) * z / 4.0;
        let second = ((5.0 * square + 16.0) * square + 3.0) * z / 96.0;
        let start = z + (first + second / self.df) / self.df;
        invert_upper(q, start, |t| self.upper(t), |t| self.density(t))
    }
}

/// The binomial distribution: successes in `trials` independent trials of probability `p`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Binomial {
    trials: usize,
    p: f64,
}

impl Binomial {
    /// # Errors
    /// `p` outside [0, 1].
    pub fn new(trials: usize, p: f64) -> Result<Self, StatsError> {
        check_probability(p).map(|p| Self { trials, p })
    }

    /// The probability of at most `successes`.
    #[must_use]
    pub fn cdf(self, successes: usize) -> f64 {
        if successes >= self.trials {
            return 1.0;
        }
        beta_inc((self.trials - successes) as f64, successes as f64 + 1.0, 1.0 - self.p)
    }

    /// The probability of more than `successes`.
    #[must_use]
    pub fn upper(self, successes: usize) -> f64 {
        if successes >= self.trials {
            return 0.0;
        }
        beta_inc(successes as f64 + 1.0, (self.trials - successes) as f64, self.p)
    }
}
