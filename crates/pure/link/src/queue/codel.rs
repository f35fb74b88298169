//! Controlled delay (CoDel, RFC 8289): if waiting times stay above a target for an interval, packets are dropped when
//! they leave the queue.

use netrig_core::{
    Backlog, Dequeue, DropReason, Duration, Ecn, Instant, Observer, PacketMeta, QueueDiscipline, Size,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::buffer::{Buffer, QueueLimit};
use super::context::QueueContext;
use crate::SettingsError;
use crate::error::ensure;

/// Controlled delay. At least one limit must be given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Codel {
    /// Largest number of waiting packets, at least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// Largest number of waiting bytes of IP packets, at least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Size>,
    /// The acceptable wait. 5 ms if not given (RFC 8289 section 4).
    #[serde(default = "default_target")]
    pub target: Duration,
    /// The time for which waits must stay above the target before a packet is dropped. 100 ms if not given (RFC 8289 section
    /// 4: about the longest round trip of the traffic).
    #[serde(default = "default_interval")]
    pub interval: Duration,
    /// Whether packets of ECN-capable transports are marked instead of dropped. False if not given.
    #[serde(default)]
    pub ecn: bool,
}

pub(super) fn default_target() -> Duration {
    Duration::from_millis(5)
}

pub(super) fn default_interval() -> Duration {
    Duration::from_millis(100)
}

impl Codel {
    /// Checks the settings.
    ///
    /// # Errors
    /// If a field is out of range. The error names it.
    pub fn check(&self) -> Result<(), SettingsError> {
        QueueLimit::check(self.packets, self.bytes)?;
        ensure(self.packets.is_some() || self.bytes.is_some(), "packets", "or `bytes` must be given")?;
        ensure(self.target > Duration::ZERO, "target", "must be above zero")?;
        ensure(self.interval > self.target, "interval", "must be longer than `target`")
    }
}

/// A queue with controlled delay. The names are those of RFC 8289 section 5.
#[derive(Clone, Debug)]
pub struct CodelQueue<P> {
    buffer: Buffer<P>,
    control: Box<CodelControl>,
}

/// A packet at the head of the queue.
struct Head<P> {
    packet: P,
    since: Instant,
    may_drop: bool,
}

/// The state that decides which packets are dropped.
#[derive(Clone, Debug)]
struct CodelControl {
    settings: Codel,
    /// The largest packet up to now, bytes. A queue of at most this length is not controlled.
    maxpacket: u64,
    /// The time at which the wait will have been above the target for an interval. `None` while it is below the target.
    first_above_time: Option<Instant>,
    dropping: bool,
    drop_next: Instant,
    /// Packets dropped since dropping began.
    count: u32,
    /// The value of `count` when dropping began.
    lastcount: u32,
}

impl CodelControl {
    /// Whether a packet that leaves at `now` and has waited since `since` may be dropped. `left` is the number of bytes
    /// that remain in the queue.
    fn judge(&mut self, now: Instant, since: Instant, left: u64) -> bool {
        if now.since(since) < self.settings.target || left <= self.maxpacket {
            self.first_above_time = None;
            return false;
        }
        match self.first_above_time {
            Some(due) => now >= due,
            None => {
                self.first_above_time = Some(now + self.settings.interval);
                false
            }
        }
    }

    /// The next drop time after `moment`. The control law spaces drops by interval/√count.
    fn after(&self, moment: Instant) -> Instant {
        let interval = self.settings.interval.as_nanos() as f64;
        moment + Duration::from_nanos((interval / f64::from(self.count).sqrt()).round() as u64)
    }

    /// Starts dropping. If dropping stopped recently, it continues at nearly the previous drop rate.
    fn begin(&mut self, now: Instant) {
        let found = self.count.saturating_sub(self.lastcount);
        let recent = now.since(self.drop_next) < self.settings.interval * 16;
        self.dropping = true;
        self.count = if found > 1 && recent { found } else { 1 };
        self.lastcount = self.count;
        self.drop_next = self.after(now);
    }
}

impl<P: PacketMeta> CodelQueue<P> {
    /// An empty queue. It does not use the context.
    pub fn new(settings: &Codel, _context: &QueueContext<'_>) -> Self {
        Self::without_context(settings)
    }

    /// An empty queue for any line.
    pub(super) fn without_context(settings: &Codel) -> Self {
        let control = CodelControl {
            settings: settings.clone(),
            maxpacket: 0,
            first_above_time: None,
            dropping: false,
            drop_next: Instant::ZERO,
            count: 0,
            lastcount: 0,
        };
        let buffer = Buffer::new(QueueLimit::new(settings.packets, settings.bytes));
        Self { buffer, control: Box::new(control) }
    }

    /// Drops the packet that has waited longest.
    pub(super) fn drop_first(&mut self, now: Instant, why: DropReason, obs: &mut impl Observer<P>) {
        if let Dequeue::Packet(packet, _) = self.buffer.pop() {
            obs.dropped(now, &packet, why);
        }
    }

    /// The next packet, and whether it may be dropped: `dodequeue` of the RFC.
    fn next(&mut self, now: Instant) -> Option<Head<P>> {
        let Dequeue::Packet(packet, since) = self.buffer.pop() else {
            self.control.first_above_time = None;
            return None;
        };
        let may_drop = self.control.judge(now, since, self.buffer.backlog().bytes);
        Some(Head { packet, since, may_drop })
    }

    /// Marks the packet if ECN allows it. Returns whether the packet is marked, and thus not dropped.
    fn marks(&self, now: Instant, packet: &mut P, obs: &mut impl Observer<P>) -> bool {
        // RFC 3168 section 5: a packet that carries ECT or CE belongs to an ECN-capable transport.
        let markable = self.control.settings.ecn && packet.header().ecn != Ecn::NotEct;
        if markable {
            packet.header_mut().ecn = Ecn::Ce;
            obs.marked(now, packet);
        }
        markable
    }

    /// The first drop after waiting times have been above the target for an interval.
    fn begin(&mut self, now: Instant, mut head: Head<P>, obs: &mut impl Observer<P>) -> Option<Head<P>> {
        self.control.begin(now);
        if self.marks(now, &mut head.packet, obs) {
            return Some(head);
        }
        obs.dropped(now, &head.packet, DropReason::Early);
        self.next(now)
    }

    /// Continues dropping while waiting times stay above the target, at the times that the control law gives.
    fn go_on(&mut self, now: Instant, head: Head<P>, obs: &mut impl Observer<P>) -> Option<Head<P>> {
        let mut next = Some(head);
        while let Some(mut head) = next {
            self.control.dropping = head.may_drop;
            if !head.may_drop || now < self.control.drop_next {
                return Some(head);
            }
            self.control.count += 1;
            if self.marks(now, &mut head.packet, obs) {
                self.control.drop_next = self.control.after(self.control.drop_next);
                return Some(head);
            }
            obs.dropped(now, &head.packet, DropReason::Early);
            next = self.next(now);
            if next.as_ref().is_some_and(|head| head.may_drop) {
                self.control.drop_next = self.control.after(self.control.drop_next);
            }
        }
        None
    }
}

impl<P: PacketMeta> QueueDiscipline<P> for CodelQueue<P> {
    fn enqueue(&mut self, now: Instant, packet: P, obs: &mut impl Observer<P>) {
        self.control.maxpacket = self.control.maxpacket.max(u64::from(packet.header().ip_len));
        self.buffer.push(now, packet, obs);
    }

    fn dequeue(&mut self, now: Instant, obs: &mut impl Observer<P>) -> Dequeue<P> {
        let goes = match self.next(now) {
            Some(head) if self.control.dropping => self.go_on(now, head, obs),
            Some(head) if head.may_drop => self.begin(now, head, obs),
            head => head,
        };
        self.control.dropping &= goes.is_some();
        goes.map_or(Dequeue::Empty, |head| Dequeue::Packet(head.packet, head.since))
    }

    fn clear(&mut self, now: Instant, why: DropReason, obs: &mut impl Observer<P>) {
        self.buffer.clear(now, why, obs);
        self.control.first_above_time = None;
        self.control.dropping = false;
    }

    fn backlog(&self) -> Backlog {
        self.buffer.backlog()
    }
}
