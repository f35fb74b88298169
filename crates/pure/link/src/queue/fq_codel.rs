//! Flow queue CoDel (RFC 8290): conversations apart from each other by deficit round robin, sparse ones first, each with
//! a controlled delay.

use std::collections::VecDeque;

use netrig_core::{
    Backlog, Dequeue, DropReason, Duration, Instant, Observer, PacketMeta, QueueDiscipline, Size,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::codel::{Codel, CodelQueue};
use super::context::QueueContext;
use super::flows::FlowTable;
use crate::SettingsError;
use crate::error::ensure;

/// Flow queue CoDel, without classes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FqCodel {
    /// So many packets may wait in all, above zero; what is beyond is dropped at the head of the queue that has most
    /// bytes. 10,240 if not given.
    #[serde(default = "default_packets")]
    pub packets: u64,
    /// Queues that conversations are spread over by a hash, 1 to 65,535: 1024 if not given.
    #[serde(default = "default_flows")]
    pub flows: u16,
    /// Bytes of IP packets that a queue may send in a round, above zero; 1514 if not given.
    #[serde(default = "default_quantum")]
    pub quantum: Size,
    /// The wait that is put up with; 5 ms if not given.
    #[serde(default = "default_target")]
    pub target: Duration,
    /// How long waits must stay above the target before anything is dropped; 100 ms if not given.
    #[serde(default = "default_interval")]
    pub interval: Duration,
    /// Whether packets of ECN-capable transports are marked instead of dropped; not if not given.
    #[serde(default)]
    pub ecn: bool,
}

fn default_packets() -> u64 {
    10_240
}

fn default_flows() -> u16 {
    1024
}

fn default_quantum() -> Size {
    Size::from_bytes(1514)
}

fn default_target() -> Duration {
    Duration::from_millis(5)
}

fn default_interval() -> Duration {
    Duration::from_millis(100)
}

impl FqCodel {
    /// Whether such a queue can be.
    ///
    /// # Errors
    /// Names the field that is out of range.
    pub fn check(&self) -> Result<(), SettingsError> {
        ensure(self.packets > 0, "packets", "must be above zero: the packet on the line is not counted")?;
        ensure(self.flows > 0, "flows", "must be above zero")?;
        ensure(
            (1..=1 << 30).contains(&self.quantum.bytes()),
            "quantum",
            "must be above zero and at most 1 GiB",
        )?;
        self.codel().check()
    }

    /// What controls the delay of one queue. Its own room has no limit: that of all together has.
    fn codel(&self) -> Codel {
        let Self { packets, target, interval, ecn, .. } = *self;
        Codel { packets: Some(packets.saturating_add(1)), bytes: None, target, interval, ecn }
    }
}

/// Flow queue CoDel at work.
#[derive(Clone, Debug)]
pub struct FqCodelQueue<P>(Box<Flows<P>>);

#[derive(Clone, Debug)]
struct Flows<P> {
    table: FlowTable,
    codel: Codel,
    most: usize,
    quantum: i64,
    /// Those that have been used.
    flows: Vec<Flow<P>>,
    /// Queues that began to send since they were last empty: they go first.
    new: VecDeque<u16>,
    old: VecDeque<u16>,
    backlog: Backlog,
}

#[derive(Clone, Debug)]
struct Flow<P> {
    queue: CodelQueue<P>,
    /// Byte credits of RFC 8290 section 4.1.
    credits: i64,
    listed: bool,
}

impl<P: PacketMeta> FqCodelQueue<P> {
    /// An empty queue; the salt of its hash is the stream `link/<line>/flows`.
    pub fn new(settings: &FqCodel, context: &QueueContext<'_>) -> Self {
        Self(Box::new(Flows {
            table: FlowTable::new(1, settings.flows.into(), context),
            codel: settings.codel(),
            most: usize::try_from(settings.packets).unwrap_or(usize::MAX),
            quantum: settings.quantum.bytes() as i64,
            flows: Vec::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            backlog: Backlog::default(),
        }))
    }
}

impl<P: PacketMeta> Flows<P> {
    /// Changes a queue, and takes into account what that did.
    fn within<T>(&mut self, number: u16, change: impl FnOnce(&mut CodelQueue<P>) -> T) -> T {
        let queue = &mut self.flows[usize::from(number)].queue;
        let before = queue.backlog();
        let result = change(queue);
        let after = queue.backlog();
        self.backlog.packets = self.backlog.packets + after.packets - before.packets;
        self.backlog.bytes = self.backlog.bytes + after.bytes - before.bytes;
        result
    }

    /// RFC 8290 section 4.1: beyond the limit a packet is dropped from the head of the queue with the largest current byte
    /// count.
    fn drop_from_fattest(&mut self, now: Instant, obs: &mut impl Observer<P>) {
        let sizes =
            self.new.iter().chain(&self.old).map(|n| (self.flows[usize::from(*n)].queue.backlog().bytes, *n));
        if let Some((_, fattest)) = sizes.max() {
            self.within(fattest, |queue| queue.drop_first(now, DropReason::QueueFull, obs));
        }
    }

    /// The queue whose turn it is, and whether it is one of the new ones (RFC 8290 section 4.2): one without credits gets
    /// a quantum and goes to the end of the old ones.
    fn turn(&mut self) -> Option<(u16, bool)> {
        loop {
            let number = *self.new.front().or(self.old.front())?;
            let flow = &mut self.flows[usize::from(number)];
            let is_new = !self.new.is_empty();
            if flow.credits > 0 {
                return Some((number, is_new));
            }
            flow.credits += self.quantum;
            self.unlist(is_new);
            self.old.push_back(number);
        }
    }

    fn unlist(&mut self, is_new: bool) {
        if is_new {
            self.new.pop_front()
        } else {
            self.old.pop_front()
        };
    }
}

impl<P: PacketMeta> QueueDiscipline<P> for FqCodelQueue<P> {
    fn enqueue(&mut self, now: Instant, packet: P, obs: &mut impl Observer<P>) {
        let flows = &mut *self.0;
        let (number, is_new) = flows.table.queue_of(0, &packet.header().flow);
        if is_new {
            flows.flows.push(Flow {
                queue: CodelQueue::without_context(&flows.codel),
                credits: 0,
                listed: false,
            });
        }
        let flow = &mut flows.flows[usize::from(number)];
        if !flow.listed {
            flow.listed = true;
            flow.credits = flows.quantum;
            flows.new.push_back(number);
        }
        flows.within(number, |queue| queue.enqueue(now, packet, obs));
        while flows.backlog.packets > flows.most {
            flows.drop_from_fattest(now, obs);
        }
    }

    fn dequeue(&mut self, now: Instant, obs: &mut impl Observer<P>) -> Dequeue<P> {
        let flows = &mut *self.0;
        while let Some((number, is_new)) = flows.turn() {
            let next = flows.within(number, |queue| queue.dequeue(now, obs));
            if let Dequeue::Packet(packet, since) = next {
                flows.flows[usize::from(number)].credits -= i64::from(packet.header().ip_len);
                return Dequeue::Packet(packet, since);
            }
            // RFC 8290 section 4.2: an empty queue leaves the old ones, but a new one becomes old first, or a conversation
            // could stay ahead of all others by sending a packet whenever its queue ran empty.
            flows.unlist(is_new);
            if is_new {
                flows.old.push_back(number);
            } else {
                flows.flows[usize::from(number)].listed = false;
            }
        }
        Dequeue::Empty
    }

    fn clear(&mut self, now: Instant, why: DropReason, obs: &mut impl Observer<P>) {
        let flows = &mut *self.0;
        while let Some(number) = flows.new.pop_front().or_else(|| flows.old.pop_front()) {
            flows.within(number, |queue| queue.clear(now, why, obs));
            flows.flows[usize::from(number)].listed = false;
        }
    }

    fn backlog(&self) -> Backlog {
        self.0.backlog
    }
}
