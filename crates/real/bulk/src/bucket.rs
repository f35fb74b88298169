//! What may be carried at a rate.

use netrig_core::{Duration, Instant};

/// A token bucket: what may be carried grows with time, and of what nobody takes only so much is kept. Whoever rests may not
/// carry afterwards what it has left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// B/s.
    rate: f64,
    /// What it holds at most, bytes.
    depth: f64,
    /// What it held when it was looked at last, bytes; less than zero where more was carried than may be.
    holds: f64,
    looked: Instant,
    /// What had been carried then, bytes.
    carried: u64,
}

impl Bucket {
    /// The time of its rate that whoever reads or is given may make up for: a thread is kept away now and then.
    pub const AWAY: Duration = Duration::from_millis(100);

    /// Fills at so many bytes per second, begins with `ahead` bytes, and holds them and what comes in `span` at most.
    pub fn new(now: Instant, rate: f64, ahead: u64, span: Duration) -> Self {
        let ahead = ahead as f64;
        let depth = ahead + rate * span.as_secs_f64();
        Self { rate, depth, holds: ahead, looked: now, carried: 0 }
    }

    /// What may be carried beside so many bytes, which are all until now; less than zero where they were too many.
    ///
    /// What has been carried is taken out before anything runs over: whoever counts seldom loses nothing by that.
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
