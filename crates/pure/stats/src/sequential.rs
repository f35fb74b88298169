//! A sequential test of a proportion: after every trial, decide or go on.
//!
//! Wald (1945), *Sequential tests of statistical hypotheses*, Annals of Mathematical Statistics 16(2). The log of the
//! likelihood ratio walks up with every failure and down with every success, until it leaves an interval. Of all tests
//! with these error rates it needs the fewest trials in the mean at both of its shares (Wald and Wolfowitz 1948).

use libm::{exp, log};

use crate::error::{StatsError, check_open_unit};

/// Tells a share of failures that is good from one that is bad. Between the two either answer is right: the region of
/// indifference.
///
/// ```
/// use netrig_stats::sequential::{Judgement, ProportionTest};
/// // Is it 99.9 %? About 3,000 trials without a failure show it.
/// let test = ProportionTest::new(0.0001, 0.001, 0.05, 0.05)?;
/// assert_eq!(test.fewest_clean(), 3270);
/// assert_eq!(test.judge(0, 3000), Judgement::Continue);
/// assert_eq!(test.judge(0, 3270), Judgement::Accept);
/// assert_eq!(test.judge(2, 500), Judgement::Reject);
/// # Ok::<(), netrig_stats::StatsError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProportionTest {
    /// What a failure adds to the log of the likelihood ratio.
    up: f64,
    /// What a success adds: negative.
    down: f64,
    /// At or below it the share is held for good: negative.
    accept: f64,
    /// At or above it the share is held for bad.
    reject: f64,
}

/// What a test says about the trials so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// The share of failures is below the bad one.
    Accept,
    /// The share of failures is above the good one.
    Reject,
    /// Neither is shown yet.
    Continue,
}

impl ProportionTest {
    /// A test that rejects at most a share `alpha` of what fails with probability `good`, and accepts at most `beta`
    /// of what fails with probability `bad`; by Wald's bounds `alpha / (1 - beta)` and `beta / (1 - alpha)`, and no
    /// more than `alpha + beta` together.
    ///
    /// # Errors
    /// A parameter that is not strictly between 0 and 1, `good` not below `bad`, or `alpha + beta` not below 1.
    pub fn new(good: f64, bad: f64, alpha: f64, beta: f64) -> Result<Self, StatsError> {
        check_open_unit("the good share of failures", good)?;
        check_open_unit("the bad share of failures", bad)?;
        check_open_unit("alpha", alpha)?;
        check_open_unit("beta", beta)?;
        if good >= bad {
            let (what, range) = ("the good share of failures", "below the bad one");
            return Err(StatsError::OutOfRange { what, range, value: good });
        }
        if alpha + beta >= 1.0 {
            let (what, range) = ("alpha + beta", "below 1");
            return Err(StatsError::OutOfRange { what, range, value: alpha + beta });
        }
        Ok(Self {
            up: log(bad / good),
            down: libm::log1p(-bad) - libm::log1p(-good),
            accept: log(beta / (1.0 - alpha)),
            reject: log((1.0 - beta) / alpha),
        })
    }

    /// The log of how much likelier these failures among `trials` are at the bad share than at the good one.
    #[must_use]
    pub fn log_ratio(&self, failures: u64, trials: u64) -> f64 {
        failures as f64 * self.up + trials.saturating_sub(failures) as f64 * self.down
    }

    /// The two ends of the interval within which [`log_ratio`](Self::log_ratio) decides nothing.
    #[must_use]
    pub const fn bounds(&self) -> (f64, f64) {
        (self.accept, self.reject)
    }

    /// The decision after so many trials. A caller must stop at the first that is not [`Judgement::Continue`]: who
    /// goes on until it likes the answer has other error rates.
    #[must_use]
    pub fn judge(&self, failures: u64, trials: u64) -> Judgement {
        let ratio = self.log_ratio(failures, trials);
        if ratio <= self.accept {
            Judgement::Accept
        } else if ratio >= self.reject {
            Judgement::Reject
        } else {
            Judgement::Continue
        }
    }

    /// How many trials without a single failure are accepted.
    #[must_use]
    pub fn fewest_clean(&self) -> u64 {
        (self.accept / self.down).ceil() as u64
    }

    /// The probability that what fails with probability `share` is accepted, in Wald's approximation (the walk ends
    /// on its bounds, not beyond them): the operating characteristic.
    ///
    /// # Errors
    /// A share that is not in 0 to 1.
    pub fn acceptance(&self, share: f64) -> Result<f64, StatsError> {
        check_share(share)?;
        if share == 0.0 || share == 1.0 {
            return Ok(1.0 - share);
        }
        let h = self.conjugate(share);
        if h.abs() < 1e-6 {
            return Ok(self.reject / (self.reject - self.accept));
        }
        // Divided by the larger of the two powers, so that neither overflows.
        let (a, b) = (h * self.reject, h * self.accept);
        let most = a.max(b).max(0.0);
        Ok((exp(a - most) - exp(-most)) / (exp(a - most) - exp(b - most)))
    }

    /// How many trials it takes in the mean until what fails with probability `share` is decided, in Wald's
    /// approximation.
    ///
    /// # Errors
    /// A share that is not in 0 to 1.
    pub fn expected_trials(&self, share: f64) -> Result<f64, StatsError> {
        let accepted = self.acceptance(share)?;
        let drift = share * self.up + (1.0 - share) * self.down;
        if self.conjugate(share).abs() < 1e-6 {
            let square = share * self.up * self.up + (1.0 - share) * self.down * self.down;
            return Ok(-self.accept * self.reject / square);
        }
        Ok((accepted * self.accept + (1.0 - accepted) * self.reject) / drift)
    }

    /// The h other than 0 for which the mean of exp(h z) is 1, where z is what a trial adds: 1 at the good share, -1
    /// at the bad one, 0 where the walk does not drift.
    fn conjugate(&self, share: f64) -> f64 {
        let drift = share * self.up + (1.0 - share) * self.down;
        let sign = if drift < 0.0 { 1.0 } else { -1.0 };
        let excess =
            |h: f64| share * exp(sign * h * self.up) + (1.0 - share) * exp(sign * h * self.down) - 1.0;
        // Convex and 0 at 0, where it falls: the other root lies where it is positive again.
        let mut high = 1.0;
        while excess(high) <= 0.0 && high < 1e6 {
            high *= 2.0;
        }
        let mut low = 0.0;
        for _ in 0..100 {
            let middle = 0.5 * (low + high);
            if excess(middle) <= 0.0 {
                low = middle;
            } else {
                high = middle;
            }
        }
        sign * 0.5 * (low + high)
    }
}

fn check_share(share: f64) -> Result<(), StatsError> {
    let (what, range) = ("the share of failures", "between 0 and 1");
    if (0.0..=1.0).contains(&share) {
        Ok(())
    } else {
        Err(StatsError::OutOfRange { what, range, value: share })
    }
}
