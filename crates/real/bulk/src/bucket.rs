//! A token bucket that limits the bytes of a transfer.

use netrig_core::{Duration, Instant};

/// A token bucket. Tokens accumulate at the rate up to the depth, which limits the burst after an idle period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// B/s.
    rate: f64,
    /// Bytes.
    depth: f64,
    /// Tokens at the last update, bytes; negative if the transfer exceeded the rate.
    holds: f64,
    /// Time of the last update.
    looked: Instant,
    /// Total bytes transferred until the last update.
    carried: u64,
}

impl Bucket {
    /// Depth as a time at the rate, so that a thread that was descheduled for this time can catch up.
    pub const AWAY: Duration = Duration::from_millis(100);

    /// A bucket that fills at `rate` bytes per second and initially contains `ahead` bytes. Its depth is `ahead` plus
    /// the bytes that arrive during `span`.
    pub fn new(now: Instant, rate: f64, ahead: u64, span: Duration) -> Self {
        let ahead = ahead as f64;
        let depth = ahead + rate * span.as_secs_f64();
        Self { rate, depth, holds: ahead, looked: now, carried: 0 }
    }

    /// Bytes that may still be transferred. `carried` is the total number of bytes transferred so far. The result is
    /// negative if they exceed the rate.
    ///
    /// Transferred bytes are subtracted before the depth limits the tokens, so no tokens are lost if calls are rare.
    pub fn left(&mut self, now: Instant, carried: u64) -> f64 {
        let came = self.rate * (now - self.looked).as_secs_f64();
        let taken = carried.saturating_sub(self.carried) as f64;
        self.holds = (self.holds + came - taken).min(self.depth);
        (self.looked, self.carried) = (now.max(self.looked), carried.max(self.carried));
        self.holds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn bucket() -> Bucket {
        Bucket::new(at(0), 1000.0, 500, Duration::from_millis(100))
    }

    #[test]
    fn who_keeps_to_the_rate_may_go_on_and_who_does_not_is_ahead() {
        let mut bucket = bucket();
        assert_eq!(bucket.left(at(0), 500), 0.0);
        for second in 1..100 {
            assert_eq!(bucket.left(at(1000 * second), 500 + 1000 * second), 0.0);
        }
        assert_eq!(bucket.left(at(99_000), 99_700), -200.0);
        assert_eq!(bucket.left(at(99_200), 99_700), 0.0, "and is not when its time has come");
    }

    #[test]
    fn who_rests_keeps_no_more_than_it_holds() {
        let mut bucket = bucket();
        assert_eq!(bucket.left(at(60_000), 0), 600.0);
        assert_eq!(bucket.left(at(60_000), 601), -1.0);
    }

    #[test]
    fn counts_and_times_that_run_backwards_take_and_give_nothing() {
        let mut bucket = bucket();
        assert_eq!(bucket.left(at(50), 100), 450.0);
        assert_eq!(bucket.left(at(40), 90), 450.0);
        assert_eq!(bucket.left(at(50), 100), 450.0);
    }
}
