//! Read rate of a connection's receiving application.

use netrig_core::{Duration, Instant, Rate, Size};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SettingsError;

/// Interval between two reads of an application that reads at a rate.
const TICK: Duration = Duration::from_millis(10);

/// Read rate of the receiving application: a rate, `"2 Mbit/s"`, read every 10 ms, or steps, `{ bytes = "64 KB", every
/// = "500 ms" }`. The steps are counted from the establishment of the connection. The unused part of a step is not
/// carried over to the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "neither a rate nor a table of `bytes` and `every`")]
pub enum Reads {
    /// At this rate.
    AtRate(Rate),
    /// In steps.
    InSteps(ReadSteps),
}

/// Steps in which a receiving application reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadSteps {
    /// Most bytes read in a step, above zero.
    pub bytes: Size,
    /// Interval of the steps, above zero. The first step is after one interval.
    pub every: Duration,
}

impl Reads {
    /// Returns an error for settings that would never read anything.
    ///
    /// # Errors
    /// Names the key below `reads` (empty for a rate), and the reason.
    pub fn check(&self) -> Result<(), SettingsError> {
        let wrong = |field| Err(SettingsError::new(field, "it must be above zero, or nothing is ever read"));
        match self {
            Self::AtRate(rate) if rate.bits_per_s() == 0 => wrong(""),
            Self::InSteps(steps) if steps.bytes.bytes() == 0 => wrong("bytes"),
            Self::InSteps(steps) if steps.every.is_zero() => wrong("every"),
            _ => Ok(()),
        }
    }

    const fn every(&self) -> Duration {
        match self {
            Self::AtRate(_) => TICK,
            Self::InSteps(steps) => steps.every,
        }
    }

    /// Largest number of bytes that the first `steps` steps read in total.
    fn within(&self, steps: u64) -> u64 {
        match self {
            Self::AtRate(rate) => {
                let bits = u128::from(rate.bits_per_s()) * u128::from(steps) * u128::from(TICK.as_nanos());
                u64::try_from(bits / 8_000_000_000).unwrap_or(u64::MAX)
            }
            Self::InSteps(one) => one.bytes.bytes().saturating_mul(steps),
        }
    }
}

/// The times of the reads of one connection.
#[derive(Clone, Copy, Debug)]
pub struct ReadSchedule {
    reads: Reads,
    start: Instant,
    /// Number of steps taken so far.
    taken: u64,
}

impl ReadSchedule {
    /// The schedule for a connection that was established at `start`. The settings must have passed [`Reads::check`].
    pub const fn new(reads: Reads, start: Instant) -> Self {
        Self { reads, start, taken: 0 }
    }

    /// Time of the next step.
    pub fn next(&self) -> Instant {
        self.start + self.reads.every().saturating_mul(self.taken + 1)
    }

    /// Takes the steps that are due at `now`. Returns the largest number of bytes that they may read.
    pub fn take(&mut self, now: Instant) -> u64 {
        let due = now.since(self.start).as_nanos() / self.reads.every().as_nanos().max(1);
        let before = self.reads.within(self.taken);
        self.taken = self.taken.max(due);
        self.reads.within(self.taken) - before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Instant {
        Instant::from_nanos(n * 1_000_000)
    }

    fn steps(bytes: u64, every: u64) -> Reads {
        Reads::InSteps(ReadSteps { bytes: Size::from_bytes(bytes), every: Duration::from_millis(every) })
    }

    #[test]
    fn steps_come_one_after_the_other_and_none_is_lost() {
        let mut schedule = ReadSchedule::new(steps(100, 500), ms(20));
        assert_eq!((schedule.next(), schedule.take(ms(519))), (ms(520), 0));
        assert_eq!((schedule.take(ms(520)), schedule.take(ms(520)), schedule.next()), (100, 0, ms(1020)));
        assert_eq!((schedule.take(ms(2100)), schedule.next()), (300, ms(2520)), "a late one reads for all");
    }

    /// 1 kbit/s is 1.25 bytes per 10 ms.
    #[test]
    fn a_rate_loses_no_fraction_of_a_byte() {
        let mut schedule = ReadSchedule::new(Reads::AtRate(Rate::from_bits_per_s(1000)), ms(0));
        let read: Vec<u64> = (1..=8).map(|tick| schedule.take(ms(10 * tick))).collect();
        assert_eq!(read, [1, 1, 1, 2, 1, 1, 1, 2]);
    }

    #[test]
    fn who_would_never_read_is_refused() {
        assert_eq!(steps(0, 1).check().map_err(|error| error.field), Err("bytes"));
        assert_eq!(steps(1, 0).check().map_err(|error| error.field), Err("every"));
        assert!(Reads::AtRate(Rate::from_bits_per_s(0)).check().is_err());
        assert_eq!(steps(1, 1).check(), Ok(()));
    }
}
