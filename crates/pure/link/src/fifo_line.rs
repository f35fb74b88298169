//! A line with deterministic service: FIFO, a constant rate and one delay.
//!
//! Such a line decides the fate of a packet when it is offered. The packet starts when it is offered or when the line
//! has sent the previous packet, whichever is later (Lindley 1952). It arrives at the far end after its sending time
//! and the delay. No later packet changes this, so a driver may offer packets ahead of its own time, in the order in
//! which they reach the line. The counters are computed when they are read. Each reading must be at the time of the
//! previous reading or later.
//!
//! An outage drops all packets inside: it revokes the decisions about these packets. A line that has outages is never
//! offered packets ahead of the driver's time.
//!
//! [`Line`](crate::Line) is the general model. This line gives the same results at a fraction of the cost, for settings
//! that allow it.

use std::collections::VecDeque;

use netrig_core::{DropReason, Duration, Instant, Seeds, Sink, Size, quantity};

use crate::counters::{LineCounters, PacketTally};
use crate::pace::{LineRate, SendingTime};
use crate::queue::QueueContext;
use crate::queue::fifo::{Fifo, TimeRoom};
use crate::wire::{Waits, WireId};
use crate::{LineSettings, Queue, Service, SettingsError};

/// A header without options (RFC 791 section 3.1), bytes.
const SHORTEST_IP_PACKET: u32 = 20;

/// One packet that the line has accepted.
#[derive(Clone, Debug)]
struct PacketRecord<P> {
    offered: Instant,
    /// When its first bit is sent.
    start: Instant,
    arrives: Instant,
    ip_len: u32,
    /// The number that the driver gave with the packet.
    note: u32,
    /// None if the packet was forwarded ahead of time and is not delivered by this line.
    packet: Option<P>,
}

impl<P> PacketRecord<P> {
    const fn empty() -> Self {
        let zero = Instant::ZERO;
        Self { offered: zero, start: zero, arrives: zero, ip_len: 0, note: 0, packet: None }
    }
}

/// A packet that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FifoDelivery<P> {
    /// Arrival time.
    pub at: Instant,
    /// The packet.
    pub packet: P,
    /// Length of its IP packet, bytes.
    pub ip_len: u32,
    /// The number that the driver gave when it offered the packet.
    pub note: u32,
}

/// A packet that the line drops when it is offered.
#[derive(Clone, Copy, Debug)]
struct AheadDrop {
    at: Instant,
    ip_len: u32,
    undeliverable: bool,
}

/// The counters of a line at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FifoReading {
    /// Counters of the line's packets.
    pub counters: LineCounters,
    /// Time that the line has spent sending.
    pub busy: Duration,
    /// Packets that wait or are on the line.
    pub inside: usize,
}

/// A sum that may exceed 64 bits, with the alignment of 64 bits.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, packed(8))]
struct WideSum(u128);

/// A line with a closed form. See the [module](self).
///
/// The order of the fields is their order in memory. The fields that every packet needs come first and take two cache
/// lines, after 8 bytes of the caller. The fields that only a waiting packet needs come next.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct FifoLine<P> {
    /// Ring of 2ⁿ packet records, occupied from `head` to `tail`. The indices count from the start of the run.
    ring: Box<[PacketRecord<P>]>,
    head: usize,
    /// Packets before this index had started at the time of the last offer.
    started: usize,
    tail: usize,
    free_at: Instant,
    /// Packets that [`FifoLine::poll_deliver`] has returned.
    delivered: u64,
    delay: Duration,
    sending: SendingTime,
    /// `busy` and `bytes` are sums over all accepted packets, whether they have started or not.
    busy: u64,
    bytes: u64,
    /// Largest number of waiting packets. It is the only limit in the hot cache lines.
    most_packets: u32,
    /// Whether the queue has only a limit in packets, there is no MTU, and no waits are recorded. True for most lines.
    packet_limit_only: bool,
    /// The value of `packet_limit_only` while the line is up. While the line is down, `packet_limit_only` is false.
    packet_limit_only_when_up: bool,
    is_down: bool,
    /// Waiting bytes at the time of the last offer.
    waiting_bytes: u64,
    waited: WideSum,
    rate: LineRate,
    mtu: u32,
    /// Largest number of waiting bytes.
    most_bytes: u64,
    /// The limit in time, if the queue has one.
    room: Option<Box<TimeRoom>>,
    queue_full: PacketTally,
    undeliverable: PacketTally,
    /// Drops that may be later than the next reading.
    drops: VecDeque<AheadDrop>,
    waits: Waits,
    outages: Box<OutageLosses>,
}

/// Packets that outages have dropped.
#[derive(Clone, Copy, Debug, Default)]
struct OutageLosses {
    dropped: PacketTally,
    /// The dropped packets that had started.
    started: PacketTally,
    /// Waiting time, until they were dropped, of the packets that had not started, packets × nanoseconds.
    packet_nanos: u128,
}

impl LineSettings {
    /// The queue of a line that has a closed form; `None` if the line has no closed form.
    fn closed_form(&self) -> Option<&Fifo> {
        let Queue::Fifo(fifo) = &self.queue else { return None };
        // The pattern is exhaustive: a new setting requires a decision whether the line still has a closed form.
        let Self {
            rate: _,
            delay: _,
            framing: _,
            mtu: _,
            reservable: _,
            queue: _,
            service,
            condition,
            classes,
            ring,
            jitter,
            loss,
            duplicate,
            reorder,
            corrupt,
            drop,
        } = self;
        let is_deterministic = *service == Service::Constant
            && (condition.is_empty() && classes.is_empty() && *ring == 0)
            && (jitter.is_none() && loss.is_none() && duplicate.is_none())
            && (reorder.is_none() && corrupt.is_none() && drop.is_empty());
        is_deterministic.then_some(fifo)
    }
}

impl<P> FifoLine<P> {
    /// The line that `settings` describe; `None` if it has no closed form. The line records waits if `sink` wants them.
    ///
    /// # Errors
    /// As [`LineSettings::check`].
    pub fn new(
        id: WireId<'_>,
        settings: &LineSettings,
        seeds: &Seeds,
        sink: &dyn Sink,
    ) -> Result<Option<Self>, SettingsError> {
        settings.check()?;
        let Some(fifo) = settings.closed_form() else { return Ok(None) };
        let name = format!("{}/{}", id.name, id.direction);
        let context = QueueContext::new(seeds, &name, settings.rate, settings.framing);
        let waits = sink.wants(&quantity::WAITING_TIME);
        let packet_limit_only =
            fifo.bytes.is_none() && fifo.time.is_none() && settings.mtu.is_none() && !waits;
        let rate = LineRate::new(settings);
        Ok(Some(Self {
            ring: (0..4).map(|_| PacketRecord::empty()).collect(),
            head: 0,
            started: 0,
            tail: 0,
            free_at: Instant::ZERO,
            delivered: 0,
            delay: settings.delay,
            sending: SendingTime::new(&rate),
            busy: 0,
            bytes: 0,
            most_packets: fifo.packets.and_then(|most| u32::try_from(most).ok()).unwrap_or(u32::MAX),
            packet_limit_only,
            packet_limit_only_when_up: packet_limit_only,
            is_down: false,
            waiting_bytes: 0,
            waited: WideSum::default(),
            rate,
            mtu: u32::try_from(settings.mtu.map_or(u64::MAX, Size::bytes)).unwrap_or(u32::MAX),
            most_bytes: fifo.bytes.map_or(u64::MAX, Size::bytes),
            room: fifo.time.map(|time| Box::new(TimeRoom::new(time, &context))),
            queue_full: PacketTally::default(),
            undeliverable: PacketTally::default(),
            drops: VecDeque::new(),
            waits: Waits::new(waits, &[]),
            outages: Box::default(),
        }))
    }

    /// Offers a packet of `ip_len` bytes to the line at `at`, which must not be before the previous offer. Returns its arrival
    /// time, or `None` if the line drops it.
    ///
    /// If `packet` is given, [`FifoLine::poll_deliver`] returns it with the number that the driver gave. If not, the
    /// packet is forwarded ahead of time: the driver's time is `now`, and `at` may be later.
    #[inline(always)]
    pub fn offer(
        &mut self,
        now: Instant,
        at: Instant,
        ip_len: u32,
        packet: Option<(P, u32)>,
    ) -> Option<Instant> {
        if self.packet_limit_only {
            self.decide::<true>(now, at, ip_len, packet)
        } else {
            self.decide_with_all_limits(now, at, ip_len, packet)
        }
    }

    #[inline(never)]
    fn decide_with_all_limits(
        &mut self,
        now: Instant,
        at: Instant,
        ip_len: u32,
        packet: Option<(P, u32)>,
    ) -> Option<Instant> {
        self.decide::<false>(now, at, ip_len, packet)
    }

    /// [`FifoLine::offer`] with a limit in packets only, or with all limits.
    #[inline(always)]
    fn decide<const PACKET_LIMIT_ONLY: bool>(
        &mut self,
        now: Instant,
        at: Instant,
        ip_len: u32,
        packet: Option<(P, u32)>,
    ) -> Option<Instant> {
        self.start_by::<PACKET_LIMIT_ONLY>(at);
        if !PACKET_LIMIT_ONLY && self.is_down && ip_len <= self.mtu {
            self.outages.dropped.add_len(ip_len);
            return None;
        }
        let mut has_room = self.tail - self.started < self.most_packets as usize;
        if !PACKET_LIMIT_ONLY {
            has_room = has_room
                && self.waiting_bytes + u64::from(ip_len) <= self.most_bytes
                && self.room.as_ref().is_none_or(|room| room.has_room_for(ip_len))
                && ip_len <= self.mtu;
        }
        if !has_room {
            self.drop(now, at, ip_len);
            return None;
        }
        let start = at.max(self.free_at);
        if start == at {
            if start != self.free_at {
                self.sending.rest();
            }
            // The packet does not wait, so `start_by` can skip it.
            self.started += 1;
        } else {
            self.wait::<PACKET_LIMIT_ONLY>(at, start, ip_len);
        }
        if !PACKET_LIMIT_ONLY {
            self.waits.note(start, start.since(at));
        }
        let sending = self.sending.next(&self.rate, ip_len);
        self.busy += sending.as_nanos();
        self.bytes += u64::from(ip_len);
        self.free_at = start + sending;
        let arrives = self.free_at + self.delay;
        if self.tail - self.head == self.ring.len() {
            self.make_room(now);
        }
        let mask = self.ring.len() - 1;
        let (packet, note) = packet.unzip();
        let note = note.unwrap_or(0);
        self.ring[self.tail & mask] = PacketRecord { offered: at, start, arrives, ip_len, note, packet };
        self.tail += 1;
        Some(arrives)
    }

    /// Removes the packets that have started by `at` from the waiting packets.
    #[inline(always)]
    fn start_by<const PACKET_LIMIT_ONLY: bool>(&mut self, at: Instant) {
        let mask = self.ring.len() - 1;
        while self.started != self.tail {
            let record = &self.ring[self.started & mask];
            if record.start > at {
                break;
            }
            self.waiting_bytes -= u64::from(record.ip_len);
            if !PACKET_LIMIT_ONLY && let Some(room) = &mut self.room {
                room.leave(record.ip_len);
            }
            self.started += 1;
        }
    }

    /// Takes the line down at `now`. It drops all packets that wait or are on the line, and all packets that are
    /// offered until it is up again. Returns whether it dropped the next packet to be delivered, so that
    /// [`FifoLine::next_delivery`] has changed.
    ///
    /// The line must not have been offered packets ahead of `now`, and must not record the waits of single packets.
    pub fn go_down(&mut self, now: Instant) -> bool {
        self.start_by::<false>(now);
        let mask = self.ring.len() - 1;
        let first = (self.head != self.tail).then_some(self.head);
        while self.tail != self.head {
            let record = &mut self.ring[(self.tail - 1) & mask];
            if record.arrives <= now {
                break;
            }
            let PacketRecord { offered, start, ip_len, .. } = *record;
            let sending = record.sending_nanos(self.delay);
            record.packet = None;
            self.tail -= 1;
            self.bytes -= u64::from(ip_len);
            self.outages.dropped.add_len(ip_len);
            if start > now {
                self.busy -= sending;
                let wait = u128::from(start.since(offered).as_nanos());
                let past = u128::from(now.since(offered).as_nanos());
                self.waited.0 -= wait;
                self.outages.packet_nanos += past;
                self.waiting_bytes -= u64::from(ip_len);
                if let Some(room) = &mut self.room {
                    room.leave(ip_len);
                }
            } else {
                self.busy -= (start + Duration::from_nanos(sending)).since(now).as_nanos();
                self.outages.started.add_len(ip_len);
            }
        }
        self.started = self.started.min(self.tail);
        self.free_at = self.free_at.min(now);
        self.sending.rest();
        self.is_down = true;
        self.packet_limit_only = false;
        first == Some(self.tail)
    }

    /// Takes the line up again.
    pub const fn go_up(&mut self) {
        self.is_down = false;
        self.packet_limit_only = self.packet_limit_only_when_up;
    }

    /// Counts a packet that waits from `at` until `start`.
    #[inline]
    fn wait<const PACKET_LIMIT_ONLY: bool>(&mut self, at: Instant, start: Instant, ip_len: u32) {
        let wait = u128::from(start.as_nanos() - at.as_nanos());
        self.waited.0 += wait;
        self.waiting_bytes += u64::from(ip_len);
        if !PACKET_LIMIT_ONLY && let Some(room) = &mut self.room {
            room.enter(ip_len);
        }
    }

    #[cold]
    #[inline(never)]
    fn drop(&mut self, now: Instant, at: Instant, ip_len: u32) {
        let undeliverable = ip_len > self.mtu;
        let tally = if undeliverable { &mut self.undeliverable } else { &mut self.queue_full };
        tally.add_len(ip_len);
        while self.drops.front().is_some_and(|drop| drop.at <= now) {
            self.drops.pop_front();
        }
        if at > now {
            self.drops.push_back(AheadDrop { at, ip_len, undeliverable });
        }
    }

    /// Memory that the records use, bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.ring[..]) + self.drops.len() * size_of::<AheadDrop>() + self.waits.bytes()
    }

    /// Forgets records that no reading from `now` on needs.
    pub(crate) fn settle(&mut self, now: Instant) {
        self.start_by::<false>(now);
        self.forget(now);
    }

    /// Forgets packets that were forwarded ahead of time and arrived by `now`.
    fn forget(&mut self, now: Instant) {
        let mask = self.ring.len() - 1;
        // A packet that is being offered has no record yet, but may already be counted as started.
        let started = self.started.min(self.tail);
        while self.head < started {
            let record = &self.ring[self.head & mask];
            if record.arrives > now || record.packet.is_some() {
                break;
            }
            self.head += 1;
        }
    }

    /// Forgets packets that were forwarded ahead of time and arrived by `now`. If more than seven eighths of the ring
    /// are still occupied, doubles the ring. So the ring uses little of the processor's cache.
    #[inline(never)]
    fn make_room(&mut self, now: Instant) {
        self.forget(now);
        let mask = self.ring.len() - 1;
        if 8 * (self.tail - self.head) <= 7 * self.ring.len() {
            return;
        }
        let mut ring: Box<[_]> = (0..2 * self.ring.len()).map(|_| PacketRecord::empty()).collect();
        let wider = ring.len() - 1;
        for place in self.head..self.tail {
            ring[place & wider] = std::mem::replace(&mut self.ring[place & mask], PacketRecord::empty());
        }
        self.ring = ring;
    }

    /// The next packet that has arrived by `now`.
    #[inline]
    pub fn poll_deliver(&mut self, now: Instant) -> Option<FifoDelivery<P>> {
        let mask = self.ring.len() - 1;
        while self.head != self.tail {
            let record = &mut self.ring[self.head & mask];
            if record.arrives > now {
                break;
            }
            let PacketRecord { arrives, ip_len, note, .. } = *record;
            let packet = record.packet.take();
            if self.started == self.head {
                self.started += 1;
                self.waiting_bytes -= u64::from(ip_len);
                if let Some(room) = &mut self.room {
                    room.leave(ip_len);
                }
            }
            self.head += 1;
            if let Some(packet) = packet {
                self.delivered += 1;
                return Some(FifoDelivery { at: arrives, packet, ip_len, note });
            }
        }
        None
    }

    /// Arrival time of the packet before the last accepted one. [`Instant::ZERO`] if the line has forgotten that
    /// packet.
    #[inline(always)]
    pub fn arrival_before_last(&self) -> Instant {
        if self.tail - self.head < 2 {
            return Instant::ZERO;
        }
        self.ring[(self.tail - 2) & (self.ring.len() - 1)].arrives
    }

    /// Whether the shortest IP packet takes at least a nanosecond to send. Then no two packets arrive at the same
    /// moment.
    pub fn takes_time(&self) -> bool {
        SendingTime::new(&self.rate).next(&self.rate, SHORTEST_IP_PACKET) >= Duration::from_nanos(1)
    }

    /// Packets that [`FifoLine::poll_deliver`] has not returned yet.
    pub fn held(&self) -> usize {
        let mask = self.ring.len() - 1;
        (self.head..self.tail).filter(|place| self.ring[place & mask].packet.is_some()).count()
    }

    /// Delay from the last bit of a packet on the line to its arrival.
    pub const fn delay(&self) -> Duration {
        self.delay
    }

    /// When to call [`FifoLine::poll_deliver`] next, and when the packet that is then delivered was offered.
    #[must_use]
    #[inline]
    pub fn next_delivery(&self) -> Option<(Instant, Instant)> {
        let first = &self.ring[self.head & (self.ring.len() - 1)];
        (self.head != self.tail).then_some((first.arrives, first.offered))
    }

    /// Packets that [`FifoLine::poll_deliver`] has returned.
    pub const fn delivered(&self) -> u64 {
        self.delivered
    }

    /// The waits of single packets, if they are recorded.
    pub(crate) const fn waits(&mut self) -> &mut Waits {
        &mut self.waits
    }

    /// The counters at `now`.
    pub fn read(&self, now: Instant) -> FifoReading {
        let accepted = PacketTally { packets: self.tail as u64, bytes: self.bytes };
        let mut counters = LineCounters {
            offered: accepted,
            served: accepted,
            delivered: accepted,
            waited_nanos: self.waited.0,
            packet_nanos: self.waited.0,
            since: now,
            ..LineCounters::default()
        };
        counters.served.packets += self.outages.started.packets;
        counters.served.bytes += self.outages.started.bytes;
        counters.packet_nanos += self.outages.packet_nanos;
        let (mut queue_full, mut undeliverable) = (self.queue_full, self.undeliverable);
        let (mut busy, mut inside) = (self.busy, 0);
        let mask = self.ring.len() - 1;
        let records = (self.head..self.tail).rev().map(|place| &self.ring[place & mask]);
        for record in records.take_while(|record| record.arrives > now) {
            counters.delivered.subtract(record.ip_len);
            if record.start > now {
                counters.served.subtract(record.ip_len);
                busy -= record.sending_nanos(self.delay);
                let wait = u128::from(record.start.since(record.offered).as_nanos());
                let past = u128::from(now.since(record.offered).as_nanos());
                counters.waited_nanos -= wait;
                counters.packet_nanos -= wait - past;
            } else {
                let sent = (record.start + Duration::from_nanos(record.sending_nanos(self.delay))).since(now);
                busy -= sent.as_nanos();
            }
            if record.offered > now {
                counters.offered.subtract(record.ip_len);
                continue;
            }
            inside += 1;
            if record.start > now {
                counters.backlog.packets += 1;
                counters.backlog.bytes += u64::from(record.ip_len);
            }
        }
        // An arrived packet counts as inside until it is polled.
        let records = (self.head..self.tail).map(|place| &self.ring[place & mask]);
        for record in
            records.take_while(|record| record.arrives <= now).filter(|record| record.packet.is_some())
        {
            counters.delivered.subtract(record.ip_len);
            inside += 1;
        }
        for drop in self.drops.iter().rev().take_while(|drop| drop.at > now) {
            let tally = if drop.undeliverable { &mut undeliverable } else { &mut queue_full };
            tally.subtract(drop.ip_len);
        }
        let dropped = [
            (DropReason::QueueFull, queue_full),
            (DropReason::Undeliverable, undeliverable),
            (DropReason::LinkDown, self.outages.dropped),
        ];
        for (why, tally) in dropped {
            counters.offered.packets += tally.packets;
            counters.offered.bytes += tally.bytes;
            counters.dropped[why.index()] = tally;
        }
        FifoReading { counters, busy: Duration::from_nanos(busy), inside }
    }
}

impl<P> PacketRecord<P> {
    /// Sending time of the packet, nanoseconds. `delay` is the delay of the line.
    fn sending_nanos(&self, delay: Duration) -> u64 {
        self.arrives.as_nanos() - delay.as_nanos() - self.start.as_nanos()
    }
}
