//! Time arithmetic of a connection.

use netrig_core::{Duration, Instant};

/// The clock of the timestamps option. Its unit is a millisecond, which RFC 7323 section 5.4 allows.
pub(crate) fn timestamp(now: Instant) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}

/// The time `span` before `now`; the start of the run if that would be earlier.
pub(crate) fn ago(now: Instant, span: Duration) -> Instant {
    Instant::from_nanos(now.since(Instant::ZERO + span).as_nanos())
}
