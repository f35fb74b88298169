//! Time since the start of a run, in whole nanoseconds.

use std::fmt;
use std::ops::{Add, AddAssign, Mul, Sub};

/// A time of a run: nanoseconds since its start. The pure crates use no other clock.
///
/// 64 bits of nanoseconds last 584 years, so arithmetic on times cannot overflow in practice. It saturates, so that
/// [`Instant::NEVER`] plus a duration is still `NEVER`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The start of the run.
    pub const ZERO: Self = Self(0);
    /// Later than any event: the deadline of a timer that does not run.
    pub const NEVER: Self = Self(u64::MAX);

    /// The time `nanos` nanoseconds after the start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the start.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Time from `earlier` to this time; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

/// A duration in nanoseconds. Unlike `std`'s it is one word, which makes the packet path faster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(u64);

impl Duration {
    /// The duration zero.
    pub const ZERO: Self = Self(0);
    /// The longest duration: "without limit".
    pub const MAX: Self = Self(u64::MAX);

    /// `n` nanoseconds.
    pub const fn from_nanos(n: u64) -> Self {
        Self(n)
    }

    /// `n` microseconds.
    pub const fn from_micros(n: u64) -> Self {
        Self(n.saturating_mul(1_000))
    }

    /// `n` milliseconds.
    pub const fn from_millis(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000))
    }

    /// `n` seconds.
    pub const fn from_secs(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000_000))
    }

    /// `seconds`, rounded to the nearest nanosecond. A negative number and NaN give zero, a number that is too large
    /// gives [`Duration::MAX`].
    pub fn from_secs_f64(seconds: f64) -> Self {
        // `as` saturates and converts NaN to zero, as documented.
        Self((seconds * 1e9 + 0.5) as u64)
    }

    /// Nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Whether the duration is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The duration times `factor`, at most [`Duration::MAX`].
    pub const fn saturating_mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }

    /// The duration less `other`, at least zero.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Rounds up to a multiple of `grain`, as a ticking timer does. A zero `grain` changes nothing.
    pub const fn round_up(self, grain: Self) -> Self {
        if grain.0 == 0 { self } else { Self(self.0.div_ceil(grain.0).saturating_mul(grain.0)) }
    }
}

impl From<Duration> for std::time::Duration {
    fn from(span: Duration) -> Self {
        Self::from_nanos(span.0)
    }
}

impl From<std::time::Duration> for Duration {
    fn from(span: std::time::Duration) -> Self {
        Self(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Sub for Instant {
    type Output = Duration;
    /// Like [`Instant::since`].
    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

impl Add for Duration {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Duration {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
}

impl Mul<u64> for Duration {
    type Output = Self;
    fn mul(self, factor: u64) -> Self {
        self.saturating_mul(factor)
    }
}

impl fmt::Display for Instant {
    /// Seconds with three decimals: `51.110 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} s", self.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_never_negative() {
        assert_eq!(Instant::from_nanos(3) - Instant::from_nanos(5), Duration::ZERO);
        assert_eq!(Duration::from_secs_f64(-1.0), Duration::ZERO);
        assert_eq!(Duration::from_secs_f64(f64::NAN), Duration::ZERO);
    }

    #[test]
    fn never_stays_never() {
        assert_eq!(Instant::NEVER + Duration::from_secs(1), Instant::NEVER);
    }

    #[test]
    fn a_ticking_timer_rounds_up() {
        let tick = Duration::from_millis(4);
        assert_eq!(Duration::from_millis(9).round_up(tick), Duration::from_millis(12));
        assert_eq!(Duration::from_millis(8).round_up(tick), Duration::from_millis(8));
        assert_eq!(Duration::from_millis(9).round_up(Duration::ZERO), Duration::from_millis(9));
    }
}
