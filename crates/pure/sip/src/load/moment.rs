//! Times of arrival and of handling of a message.

use netrig_core::Instant;

/// Arrival and handling of a message. A received message is stamped with its arrival, and the messages that it causes
/// with the time of handling. The difference is the tester's own delay. No measured delay of the server includes it.
///
/// An [`Instant`] converts to a moment with both times the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Arrival of the message, by the time stamp of the kernel.
    pub arrived: Instant,
    /// When the message is handled.
    pub now: Instant,
}

impl From<Instant> for Moment {
    fn from(now: Instant) -> Self {
        Self { arrived: now, now }
    }
}
