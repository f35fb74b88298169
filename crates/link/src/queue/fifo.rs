//! First in, first out, with a limit in packets, in bytes or both: drop-tail.

use netrig_core::{Backlog, Dequeue, DropReason, Instant, Observer, PacketMeta, QueueDiscipline, Size};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Place;
use super::buffer::{Buffer, Limit};
use crate::SettingsError;
use crate::error::ensure;

/// A first-in, first-out queue. At least one limit must be given, or `unlimited = true`. No limit counts the
/// packet on the line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fifo {
    /// So many packets may wait, at least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// So many bytes of IP packets may wait, at least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Size>,
    /// Whatever comes may wait; then neither limit may be given.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unlimited: bool,
}

impl Fifo {
    /// Whether such a queue can be.
    ///
    /// # Errors
    /// Names the field that is out of range.
    pub fn check(&self) -> Result<(), SettingsError> {
        Limit::check(self.packets, self.bytes)?;
        let limited = self.packets.is_some() || self.bytes.is_some();
        ensure(limited || self.unlimited, "packets", "or `bytes` must be given, or `unlimited = true`")?;
        ensure(!(limited && self.unlimited), "unlimited", "excludes `packets` and `bytes`")
    }
}

/// A first-in, first-out queue at work.
#[derive(Clone, Debug)]
pub struct FifoQueue<P> {
    buffer: Buffer<P>,
}

impl<P: PacketMeta> FifoQueue<P> {
    /// An empty queue; it does not depend on its place.
    pub fn new(settings: &Fifo, _place: &Place<'_>) -> Self {
        Self { buffer: Buffer::new(Limit::new(settings.packets, settings.bytes)) }
    }
}

impl<P: PacketMeta> QueueDiscipline<P> for FifoQueue<P> {
    #[inline]
    fn enqueue(&mut self, now: Instant, packet: P, obs: &mut impl Observer<P>) {
        self.buffer.push(now, packet, obs);
    }

    #[inline]
    fn dequeue(&mut self, _now: Instant, _obs: &mut impl Observer<P>) -> Dequeue<P> {
        self.buffer.pop()
    }

    #[inline]
    fn pass(&mut self, now: Instant, packet: P, obs: &mut impl Observer<P>) -> Dequeue<P> {
        self.buffer.pass(now, packet, obs)
    }

    fn clear(&mut self, now: Instant, why: DropReason, obs: &mut impl Observer<P>) {
        self.buffer.clear(now, why, obs);
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        self.buffer.backlog()
    }
}
