//! A buffer of waiting packets and its limits, for disciplines.

use std::collections::VecDeque;

use netrig_core::{Backlog, Dequeue, DropReason, Instant, Observer, PacketMeta, Size};

use crate::SettingsError;
use crate::error::ensure;

/// The limits of a queue. They do not count the packet that is being sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueLimit {
    packets: usize,
    bytes: u64,
}

impl QueueLimit {
    /// Limits in packets and in bytes. `None` is no limit.
    pub(crate) fn new(packets: Option<u64>, bytes: Option<Size>) -> Self {
        Self {
            packets: packets.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX)),
            bytes: bytes.map_or(u64::MAX, Size::bytes),
        }
    }

    /// Whether a packet of this IP length may be added to the backlog.
    #[inline]
    pub(crate) fn has_room_for(self, backlog: Backlog, ip_len: u32) -> bool {
        backlog.packets < self.packets && backlog.bytes + u64::from(ip_len) <= self.bytes
    }

    /// Refuses a limit of zero.
    pub(crate) fn check(packets: Option<u64>, bytes: Option<Size>) -> Result<(), SettingsError> {
        const WHY: &str = "must be above zero: the packet on the line is not counted";
        ensure(packets != Some(0), "packets", WHY)?;
        ensure(bytes != Some(Size::default()), "bytes", WHY)
    }
}

/// Waiting packets, oldest first, each with the time at which its wait began.
#[derive(Clone, Debug)]
pub(crate) struct Buffer<P> {
    waiting: VecDeque<(Instant, P)>,
    bytes: u64,
    limit: QueueLimit,
}

impl<P: PacketMeta> Buffer<P> {
    pub(crate) fn new(limit: QueueLimit) -> Self {
        Self { waiting: VecDeque::new(), bytes: 0, limit }
    }

    #[inline]
    pub(crate) fn has_room_for(&self, packet: &P) -> bool {
        self.limit.has_room_for(self.backlog(), packet.header().ip_len)
    }

    /// Adds the packet, or drops it if there is no room.
    #[inline]
    pub(crate) fn push(&mut self, now: Instant, packet: P, obs: &mut impl Observer<P>) {
        if !self.has_room_for(&packet) {
            return obs.dropped(now, &packet, DropReason::QueueFull);
        }
        self.push_since(now, packet);
    }

    /// Adds a packet that has waited elsewhere since `since`, regardless of the limits.
    #[inline]
    pub(crate) fn push_since(&mut self, since: Instant, packet: P) {
        self.bytes += u64::from(packet.header().ip_len);
        self.waiting.push_back((since, packet));
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Dequeue<P> {
        let Some((since, packet)) = self.waiting.pop_front() else { return Dequeue::Empty };
        self.bytes -= u64::from(packet.header().ip_len);
        Dequeue::Packet(packet, since)
    }

    /// [`Buffer::push`] and [`Buffer::pop`] together, for a packet that arrives at an empty buffer.
    #[inline]
    pub(crate) fn pass(&mut self, now: Instant, packet: P, obs: &mut impl Observer<P>) -> Dequeue<P> {
        if self.has_room_for(&packet) {
            return Dequeue::Packet(packet, now);
        }
        obs.dropped(now, &packet, DropReason::QueueFull);
        Dequeue::Empty
    }

    pub(crate) fn clear(&mut self, now: Instant, why: DropReason, obs: &mut impl Observer<P>) {
        for (_, packet) in self.waiting.drain(..) {
            obs.dropped(now, &packet, why);
        }
        self.bytes = 0;
    }

    #[inline]
    pub(crate) fn backlog(&self) -> Backlog {
        Backlog { packets: self.waiting.len(), bytes: self.bytes }
    }
}
