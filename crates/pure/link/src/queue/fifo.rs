//! First in, first out (drop-tail), with limits in packets, in bytes and in time.

use netrig_core::{
    Backlog, Dequeue, DropReason, Duration, Instant, Observer, PacketMeta, QueueDiscipline, Size,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::buffer::{Buffer, QueueLimit};
use super::context::QueueContext;
use crate::error::ensure;
use crate::{Framing, SettingsError};

/// First in, first out. At least one limit must be given, or `unlimited = true`. The packet on the line does not count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fifo {
    /// Largest number of waiting packets, at least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// Largest number of waiting bytes of IP packets, at least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Size>,
    /// Limit in time, above zero: the queue holds as many bytes, framing included, as the line or the shaper behind it sends in
    /// this time at its initial rate. It is the longest wait, apart from the packet on the line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Duration>,
    /// The queue has no limit. Then no other limit may be given.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unlimited: bool,
}

impl Fifo {
    /// Checks the settings.
    ///
    /// # Errors
    /// If a field is out of range. The error names it.
    pub fn check(&self) -> Result<(), SettingsError> {
        QueueLimit::check(self.packets, self.bytes)?;
        ensure(self.time != Some(Duration::ZERO), "time", "must be above zero")?;
        let limited = self.packets.is_some() || self.bytes.is_some() || self.time.is_some();
        ensure(
            limited || self.unlimited,
            "packets",
            "or `bytes` or `time` must be given, or `unlimited = true`",
        )?;
        ensure(!(limited && self.unlimited), "unlimited", "excludes `packets`, `bytes` and `time`")
    }
}

/// A limit in time, converted to bytes on the line. A packet counts while it waits.
#[derive(Clone, Debug)]
pub(crate) struct TimeRoom {
    framing: Framing,
    taken: u64,
    limit: u64,
}

impl TimeRoom {
    pub(crate) fn new(time: Duration, context: &QueueContext<'_>) -> Self {
        let (rate, framing) = context.drain();
        // The product of up to 2⁶⁴ ns and 2⁶⁴ bit/s fits into 128 bits.
        let bytes = u128::from(time.as_nanos()) * u128::from(rate.bits_per_s()) / 8_000_000_000;
        Self { framing, taken: 0, limit: u64::try_from(bytes).unwrap_or(u64::MAX) }
    }

    #[inline]
    pub(crate) fn has_room_for(&self, ip_len: u32) -> bool {
        self.taken + self.framing.line_bytes(ip_len) <= self.limit
    }

    /// A packet of this IP length starts to wait.
    pub(crate) fn enter(&mut self, ip_len: u32) {
        self.taken += self.framing.line_bytes(ip_len);
    }

    /// A packet of this IP length leaves.
    pub(crate) fn leave(&mut self, ip_len: u32) {
        self.taken -= self.framing.line_bytes(ip_len);
    }
}

/// A FIFO queue.
#[derive(Clone, Debug)]
pub struct FifoQueue<P> {
    buffer: Buffer<P>,
    /// The limit in time, if there is one.
    room: Option<Box<TimeRoom>>,
}

impl<P: PacketMeta> FifoQueue<P> {
    /// An empty queue. A limit in time is converted with the rate and the framing of the line.
    pub fn new(settings: &Fifo, context: &QueueContext<'_>) -> Self {
        let room = settings.time.map(|time| Box::new(TimeRoom::new(time, context)));
        Self { buffer: Buffer::new(QueueLimit::new(settings.packets, settings.bytes)), room }
    }

    /// [`FifoQueue::enqueue`] with a limit in time.
    fn enqueue_into_room(&mut self, now: Instant, packet: P, obs: &mut impl Observer<P>) {
        let Some(room) = &mut self.room else { return };
        let ip_len = packet.header().ip_len;
        if !room.has_room_for(ip_len) {
            return obs.dropped(now, &packet, DropReason::QueueFull);
        }
        let before = self.buffer.backlog().packets;
        self.buffer.push(now, packet, obs);
        if self.buffer.backlog().packets > before {
            room.enter(ip_len);
        }
    }
}

impl<P: PacketMeta> QueueDiscipline<P> for FifoQueue<P> {
    #[inline]
    fn enqueue(&mut self, now: Instant, packet: P, obs: &mut impl Observer<P>) {
        if self.room.is_some() {
            self.enqueue_into_room(now, packet, obs);
        } else {
            self.buffer.push(now, packet, obs);
        }
    }

    #[inline]
    fn dequeue(&mut self, _now: Instant, _obs: &mut impl Observer<P>) -> Dequeue<P> {
        let next = self.buffer.pop();
        if let (Some(room), Dequeue::Packet(packet, _)) = (&mut self.room, &next) {
            room.leave(packet.header().ip_len);
        }
        next
    }

    #[inline]
    fn pass(&mut self, now: Instant, packet: P, obs: &mut impl Observer<P>) -> Dequeue<P> {
        if self.room.as_ref().is_some_and(|room| !room.has_room_for(packet.header().ip_len)) {
            obs.dropped(now, &packet, DropReason::QueueFull);
            return Dequeue::Empty;
        }
        self.buffer.pass(now, packet, obs)
    }

    fn clear(&mut self, now: Instant, why: DropReason, obs: &mut impl Observer<P>) {
        self.buffer.clear(now, why, obs);
        if let Some(room) = &mut self.room {
            room.taken = 0;
        }
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        self.buffer.backlog()
    }
}
