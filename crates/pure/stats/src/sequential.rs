//! A sequential test of a proportion. After every trial the test decides or continues.
//!
//! Wald (1945), *Sequential tests of statistical hypotheses*, Annals of Mathematical Statistics 16(2). The log of the
//! likelihood ratio rises with every failure and falls with every success, until it leaves an interval. Of all tests
//! with the same error rates, this test needs the fewest trials on average at the good and at the bad share (Wald and
//! Wolfowitz 1948).

use libm::{exp, log};

use crate::error::{StatsError, check_open_unit};

/// Tests whether a share of failures is good or bad. Between the good and the bad share, in the region of indifference,
/// both decisions are acceptable.
///
/// ```
/// use netrig_stats::sequential::{Judgement, ProportionTest};
/// // Do at least 99.9 % of the trials succeed? About 3,000 trials without a failure show it.
/// let test = ProportionTest::new(0.0001, 0.001, 0.05, 0.05)?;
/// assert_eq!(test.fewest_clean(), 3270);
/// assert_eq!(test.judge(0, 3000), Judgement::Continue);
/// assert_eq!(test.judge(0, 3270), Judgement::Accept);
/// assert_eq!(test.judge(2, 500), Judgement::Reject);
/// # Ok::<(), netrig_stats::StatsError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProportionTest {
    /// Change of the log of the likelihood ratio after a failure. Positive.
    up: f64,
    /// Change of the log of the likelihood ratio after a success. Negative.
    down: f64,
    /// Lower bound of the log ratio: at or below it the test accepts. Negative.
    accept: f64,
    /// Upper bound of the log ratio: at or above it the test rejects. Positive.
    reject: f64,
}

/// The result of a test after some trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// The test decides that the share of failures is below the bad share.
    Accept,
    /// The test decides that the share of failures is above the good share.
    Reject,
    /// The test has not decided yet.
    Continue,
}

impl ProportionTest {
    /// A test that rejects with probability `alpha` if the share of failures is `good`, and accepts with probability
    /// `beta` if it is `bad`. Wald bounds the true probabilities by `alpha / (1 - beta)` and `beta / (1 - alpha)`, and
    /// their sum by `alpha + beta`.
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

    /// The log of the likelihood ratio of the bad share to the good share for these failures among `trials`.
    #[must_use]
    pub fn log_ratio(&self, failures: u64, trials: u64) -> f64 {
        failures as f64 * self.up + trials.saturating_sub(failures) as f64 * self.down
    }

    /// The lower and upper bound of [`log_ratio`](Self::log_ratio). Between them the test continues.
    #[must_use]
    pub const fn bounds(&self) -> (f64, f64) {
        (self.accept, self.reject)
    }

    /// The result after `trials`. A caller must stop at the first result that is not [`Judgement::Continue`]. Otherwise
    /// the error rates do not apply.
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

    /// Number of trials without a failure after which the test accepts.
    #[must_use]
    pub fn fewest_clean(&self) -> u64 {
        (self.accept / self.down).ceil() as u64
    }

    /// The operating characteristic: the probability of acceptance if the share of failures is `share`. This is Wald's
    /// approximation, which assumes that the log ratio ends exactly on a bound.
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
        // Both powers are divided by the larger one, so that neither overflows.
        let (a, b) = (h * self.reject, h * self.accept);
        let most = a.max(b).max(0.0);
        Ok((exp(a - most) - exp(-most)) / (exp(a - most) - exp(b - most)))
    }

    /// The mean number of trials before a decision, given that the share of failures is `share` (Wald's approximation).
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

    /// The h other than 0 for which the mean of exp(h z) is 1, where z is the change of the log ratio in a trial. h is
    /// 1 at the good share, -1 at the bad share, and 0 at the share at which the log ratio has no drift.
    fn conjugate(&self, share: f64) -> f64 {
        let drift = share * self.up + (1.0 - share) * self.down;
        let sign = if drift < 0.0 { 1.0 } else { -1.0 };
        let excess =
            |h: f64| share * exp(sign * h * self.up) + (1.0 - share) * exp(sign * h * self.down) - 1.0;
        // The function is convex. It is 0 at 0 and falls there. The other root is before the point at which it is
        // positive again.
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
