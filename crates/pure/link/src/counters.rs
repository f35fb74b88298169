//! The packets that a line has carried, and their balance.

use netrig_core::{Backlog, DropReason, Duration, Instant, Observer, PacketMeta};

/// A number of packets, and the sum of their IP lengths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketTally {
    /// Packets.
    pub packets: u64,
    /// Bytes of IP packets.
    pub bytes: u64,
}

impl PacketTally {
    #[inline]
    pub(crate) fn add(&mut self, packet: &impl PacketMeta) {
        self.add_len(packet.header().ip_len);
    }

    /// Adds a packet of this IP length.
    #[inline]
    pub(crate) fn add_len(&mut self, ip_len: u32) {
        self.packets += 1;
        self.bytes += u64::from(ip_len);
    }

    /// Subtracts a packet that was counted before it arrived.
    pub(crate) fn subtract(&mut self, ip_len: u32) {
        self.packets -= 1;
        self.bytes -= u64::from(ip_len);
    }
}

/// The packets of a line do not balance: a defect of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "packets do not balance: {offered} offered and {duplicated} duplicated, but {delivered} delivered, \
     {dropped} dropped and {inside} inside"
)]
pub struct Imbalance {
    /// Packets offered.
    pub offered: u64,
    /// Packets made by duplication.
    pub duplicated: u64,
    /// Packets delivered.
    pub delivered: u64,
    /// Packets dropped for all reasons together.
    pub dropped: u64,
    /// Packets that wait in the queue or are on the line.
    pub inside: u64,
}

/// Exact counters of a line's packets, in integer packets, bytes and nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineCounters {
    /// Packets that arrived at the near end.
    pub offered: PacketTally,
    /// Packets whose transmission started.
    pub served: PacketTally,
    /// Packets that arrived at the far end.
    pub delivered: PacketTally,
    /// Copies made by duplication.
    pub duplicated: PacketTally,
    /// Packets that the queue marked (ECN).
    pub marked: PacketTally,
    /// Retransmissions of the link layer.
    pub repeated: PacketTally,
    pub(crate) dropped: [PacketTally; DropReason::ALL.len()],
    pub(crate) waited_nanos: u128,
    /// The backlog since `since`.
    pub(crate) backlog: Backlog,
    pub(crate) since: Instant,
    /// Integral over time of the waiting packets, up to `since`.
    pub(crate) packet_nanos: u128,
}

impl LineCounters {
    /// All counters at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Packets dropped for this reason.
    pub fn dropped(&self, why: DropReason) -> PacketTally {
        self.dropped[why.index()]
    }

    /// Packets dropped for all reasons together.
    pub fn dropped_in_all(&self) -> PacketTally {
        let add = |sum: PacketTally, tally: &PacketTally| PacketTally {
            packets: sum.packets + tally.packets,
            bytes: sum.bytes + tally.bytes,
        };
        self.dropped.iter().fold(PacketTally::default(), add)
    }

    /// Sum of the waiting times of all served packets.
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(u64::try_from(self.waited_nanos).unwrap_or(u64::MAX))
    }

    /// Integral over time of the number of waiting packets until `now`, packets × nanoseconds (Little 1961). It is the
    /// sum of all waiting times, including those of packets that still wait and of packets that were dropped after
    /// waiting. The difference between two readings, divided by the time between them, is the mean queue in packets.
    pub fn packet_nanos(&self, now: Instant) -> u128 {
        self.packet_nanos + area(self.backlog.packets as u64, now.since(self.since))
    }

    /// Checks that every packet is accounted for: offered + duplicated = delivered + dropped + inside.
    ///
    /// # Errors
    /// If they do not balance. The error has the numbers.
    pub fn balance(&self, inside: usize) -> Result<(), Imbalance> {
        let account = Imbalance {
            offered: self.offered.packets,
            duplicated: self.duplicated.packets,
            delivered: self.delivered.packets,
            dropped: self.dropped_in_all().packets,
            inside: inside as u64,
        };
        let entered = account.offered + account.duplicated;
        if entered == account.delivered + account.dropped + account.inside { Ok(()) } else { Err(account) }
    }
}

fn area(level: u64, width: Duration) -> u128 {
    u128::from(level) * u128::from(width.as_nanos())
}

impl<P: PacketMeta> Observer<P> for LineCounters {
    #[inline]
    fn offered(&mut self, _at: Instant, packet: &P) {
        self.offered.add(packet);
    }

    #[inline]
    fn queued(&mut self, at: Instant, backlog: Backlog) {
        if at > self.since {
            self.packet_nanos += area(self.backlog.packets as u64, at.since(self.since));
            self.since = at;
        }
        self.backlog = backlog;
    }

    #[inline]
    fn marked(&mut self, _at: Instant, packet: &P) {
        self.marked.add(packet);
    }

    #[inline]
    fn served(&mut self, _at: Instant, packet: &P, waited: Duration) {
        self.served.add(packet);
        self.waited_nanos += u128::from(waited.as_nanos());
    }

    #[inline]
    fn delivered(&mut self, _at: Instant, packet: &P) {
        self.delivered.add(packet);
    }

    #[inline]
    fn dropped(&mut self, _at: Instant, packet: &P, why: DropReason) {
        self.dropped[why.index()].add(packet);
    }

    #[inline]
    fn duplicated(&mut self, _at: Instant, packet: &P) {
        self.duplicated.add(packet);
    }

    #[inline]
    fn repeated(&mut self, _at: Instant, packet: &P) {
        self.repeated.add(packet);
    }
}
