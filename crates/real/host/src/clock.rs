//! The machine's clocks, converted to the time of a run.

use netrig_core::{Duration, Instant};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// The clock of one run. It converts `CLOCK_MONOTONIC` to netrig's [`Instant`]s, which count from an epoch.
///
/// All processes of a host share `CLOCK_MONOTONIC`, in all network namespaces, so two agents with the same epoch have
/// exactly the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    epoch: u64,
}

impl Clock {
    /// A clock whose [`Instant::ZERO`] is `epoch_ns` on `CLOCK_MONOTONIC`.
    pub const fn starting_at(epoch_ns: u64) -> Self {
        Self { epoch: epoch_ns }
    }

    /// A clock whose [`Instant::ZERO`] is `span` from now.
    pub fn starting_in(span: Duration) -> Self {
        Self { epoch: monotonic_nanos().saturating_add(span.as_nanos()) }
    }

    /// The epoch on `CLOCK_MONOTONIC`, ns.
    pub const fn epoch_nanos(&self) -> u64 {
        self.epoch
    }

    /// The current time; [`Instant::ZERO`] before the epoch.
    pub fn now(&self) -> Instant {
        self.instant(monotonic_nanos())
    }

    /// Converts a reading of `CLOCK_MONOTONIC`, ns; [`Instant::ZERO`] before the epoch.
    pub const fn instant(&self, monotonic_ns: u64) -> Instant {
        Instant::from_nanos(monotonic_ns.saturating_sub(self.epoch))
    }

    /// Time left until `at`; zero if `at` has passed. Before the epoch, the time until the epoch is included.
    pub fn left_until(&self, at: Instant) -> Duration {
        let due = self.epoch.saturating_add(at.as_nanos());
        Duration::from_nanos(due.saturating_sub(monotonic_nanos()))
    }

    /// Spins until `at`.
    pub fn spin_until(&self, at: Instant) {
        while !self.left_until(at).is_zero() {
            std::hint::spin_loop();
        }
    }
}

/// `CLOCK_MONOTONIC` in nanoseconds.
pub fn monotonic_nanos() -> u64 {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// `CLOCK_REALTIME` in nanoseconds since 1970. The kernel's time stamps of packets use it.
pub fn realtime_nanos() -> u64 {
    nanos(clock_gettime(ClockId::Realtime))
}

/// Converts a time that is not negative to nanoseconds.
fn nanos(at: Timespec) -> u64 {
    at.tv_sec.unsigned_abs().saturating_mul(1_000_000_000).saturating_add(at.tv_nsec.unsigned_abs())
}

/// The offset between `CLOCK_REALTIME` and `CLOCK_MONOTONIC`.
///
/// Both clocks run at the same speed (they are slewed together), so the offset is constant until the wall clock is
/// stepped. [`RealtimeOffset::stepped_since`] detects a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RealtimeOffset {
    /// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC`, ns.
    ahead: i64,
    /// Maximum error of the offset.
    error: Duration,
}

impl RealtimeOffset {
    /// Number of readings of a measurement. The reading with the smallest error is used.
    const READINGS: usize = 32;

    /// Measures the offset. Each reading of the wall clock lies between two readings of the monotonic clock, so its
    /// error is at most half the time between these two. Of several readings, the one with the smallest error is used.
    pub fn measure() -> Self {
        let first = Self::glance();
        (1..Self::READINGS)
            .map(|_| Self::glance())
            .fold(first, |best, next| if next.error < best.error { next } else { best })
    }

    /// Measures the offset with a single reading, for callers that often check whether the wall clock was stepped.
    pub fn glance() -> Self {
        let (before, real, after) = (monotonic_nanos(), realtime_nanos(), monotonic_nanos());
        Self::between(before, real, after)
    }

    /// The offset from a reading `real` of the wall clock between the two readings `before` and `after` of the
    /// monotonic clock, all in ns.
    pub fn between(before: u64, real: u64, after: u64) -> Self {
        let span = after.saturating_sub(before);
        let middle = before + span / 2;
        Self { ahead: real.wrapping_sub(middle).cast_signed(), error: Duration::from_nanos(span.div_ceil(2)) }
    }

    /// The bound of the error of [`RealtimeOffset::monotonic`].
    pub const fn error(&self) -> Duration {
        self.error
    }

    /// Converts a time of `CLOCK_REALTIME` to `CLOCK_MONOTONIC`, both in ns.
    pub const fn monotonic(&self, realtime_ns: u64) -> u64 {
        realtime_ns.wrapping_sub(self.ahead.cast_unsigned())
    }

    /// Converts a time of `CLOCK_MONOTONIC` to `CLOCK_REALTIME`, both in ns.
    pub const fn realtime(&self, monotonic_ns: u64) -> u64 {
        monotonic_ns.wrapping_add(self.ahead.cast_unsigned())
    }

    /// The step of the wall clock between `earlier` and this measurement, if it exceeds the sum of both errors.
    pub fn stepped_since(&self, earlier: &Self) -> Option<Duration> {
        let step = Duration::from_nanos(self.ahead.abs_diff(earlier.ahead));
        (step > self.error + earlier.error).then_some(step)
    }

    /// The step of the wall clock since this measurement, if it was stepped. In that case, a new measurement replaces
    /// this one.
    pub fn take_step(&mut self) -> Option<Duration> {
        let now = Self::measure();
        let step = now.stepped_since(self)?;
        *self = now;
        Some(step)
    }
}

/// Whether this machine's wall clock is synchronised (NTP, PTP), according to the kernel.
pub fn wall_clock_is_synchronised() -> bool {
    crate::sys::KernelClock::read().synchronised
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_its_epoch_a_clock_shows_zero_and_knows_what_is_left() {
        let clock = Clock::starting_in(Duration::from_secs(3600));
        assert_eq!(clock.now(), Instant::ZERO);
        let left = clock.left_until(Instant::ZERO + Duration::from_secs(1));
        assert!(left > Duration::from_secs(3600) && left <= Duration::from_secs(3601));
    }

    #[test]
    fn clocks_of_one_epoch_agree() {
        let clock = Clock::starting_at(monotonic_nanos());
        let other = Clock::starting_at(clock.epoch_nanos());
        let (first, second, third) = (clock.now(), other.now(), clock.now());
        assert!(first <= second && second <= third);
    }

    #[test]
    fn the_wall_clock_lies_within_the_bound_of_the_error() {
        let offset = RealtimeOffset::between(1_000, 5_000_000_100, 1_201);
        // The wall clock was read at a monotonic time between 1000 and 1201.
        assert_eq!(offset.error(), Duration::from_nanos(101));
        let at = offset.monotonic(5_000_000_100);
        assert!(at.abs_diff(1_000) <= 101 && at.abs_diff(1_201) <= 101, "{at}");
    }

    #[test]
    fn a_measured_offset_maps_a_stamp_between_the_readings_around_it() {
        let offset = RealtimeOffset::measure();
        let (before, real, after) = (monotonic_nanos(), realtime_nanos(), monotonic_nanos());
        let at = offset.monotonic(real);
        let error = offset.error().as_nanos();
        assert!(before - error <= at && at <= after + error, "{before} {at} {after} ± {error}");
    }

    #[test]
    fn a_step_of_the_wall_clock_shows() {
        let earlier = RealtimeOffset::between(1_000, 2_000_000, 1_100);
        let slightly = RealtimeOffset::between(9_000, 2_008_020, 9_100);
        let stepped = RealtimeOffset::between(9_000, 3_008_000, 9_100);
        assert_eq!(slightly.stepped_since(&earlier), None);
        assert_eq!(stepped.stepped_since(&earlier), Some(Duration::from_millis(1)));
        let mut measured = RealtimeOffset::measure();
        measured.ahead += 5_000_000_000;
        let step = measured.take_step().expect("it is 5 s ahead");
        assert!(step.as_secs_f64() > 4.9 && step.as_secs_f64() < 5.1, "{step}");
        assert_eq!(measured.take_step(), None, "the step was taken");
    }
}
