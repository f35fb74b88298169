//! When a message came, and when it is handled.

use netrig_core::Instant;

/// The time at which a message came and the time at which it is handled, which is when what it leads to is sent. The
/// time between the two is the tester's own: what was received is stamped with the one, what is sent with the other, so
/// that no delay of the server's has the tester's in it.
///
/// An [`Instant`] is both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// When the message came: the kernel's stamp.
    pub arrived: Instant,
    /// Now.
    pub now: Instant,
}

impl From<Instant> for Moment {
    fn from(now: Instant) -> Self {
        Self { arrived: now, now }
    }
}
