//! Flow queue CoDel (RFC 8290): deficit round robin among flows, sparse flows first, with controlled delay (CoDel) in
//! each.

use std::collections::VecDeque;

use netrig_core::{
    Backlog, Dequeue, DropReason, Duration, Instant, Observer, PacketMeta, QueueDiscipline, Size,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::codel::{self, Codel, CodelQueue};
use super::context::QueueContext;
use super::flows::FlowTable;
use crate::SettingsError;
use crate::error::ensure;

/// Flow queue CoDel, without classes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FqCodel {
    /// Largest number of waiting packets in total, above zero. Beyond it packets are dropped at the head of the queue with the
    /// most bytes. 10,240 if not given.
    #[serde(default = "default_packets")]
    pub packets: u64,
    /// Number of queues over which a hash spreads the flows, 1 to 65,535. 1024 if not given.
    #[serde(default = "default_flows")]
    pub flows: u16,
    /// Bytes of IP packets that a queue may send in a round, above zero. 1514 B if not given.
    #[serde(default = "default_quantum")]
    pub quantum: Size,
    /// The acceptable wait. 5 ms if not given.
    #[serde(default = "codel::default_target")]
    pub target: Duration,
    /// The time for which waits must stay above the target before a packet is dropped. 100 ms if not given.
    #[serde(default = "codel::default_interval")]
    pub interval: Duration,
    /// Whether packets of ECN-capable transports are marked instead of dropped. False if not given.
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

impl FqCodel {
    /// Checks the settings.
    ///
    /// # Errors
    /// If a field is out of range. The error names it.
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

    /// The CoDel settings of each queue. The limit of a single queue is never reached, because all queues share a
    /// common limit.
    fn codel(&self) -> Codel {
        let Self { packets, target, interval, ecn, .. } = *self;
        Codel { packets: Some(packets.saturating_add(1)), bytes: None, target, interval, ecn }
    }
}

/// A queue with flow queue CoDel.
#[derive(Clone, Debug)]
pub struct FqCodelQueue<P>(Box<FqCodelFlows<P>>);

#[derive(Clone, Debug)]
struct FqCodelFlows<P> {
    table: FlowTable,
    codel: Codel,
    most: usize,
    quantum: i64,
    /// The queues that flows have used.
    flows: Vec<FqCodelFlow<P>>,
    /// New queues of RFC 8290 section 4.2, which go first.
    new: VecDeque<u16>,
    old: VecDeque<u16>,
    backlog: Backlog,
}

#[derive(Clone, Debug)]
struct FqCodelFlow<P> {
    queue: CodelQueue<P>,
    /// Byte credits of the queue (RFC 8290 section 4.1).
    credits: i64,
    listed: bool,
}

impl<P: PacketMeta> FqCodelQueue<P> {
    /// An empty queue. The salt of its hash comes from the stream `link/<line>/flows`.
    pub fn new(settings: &FqCodel, context: &QueueContext<'_>) -> Self {
        Self(Box::new(FqCodelFlows {
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

impl<P: PacketMeta> FqCodelFlows<P> {
    /// Changes a queue, and updates the backlog.
    fn within<T>(&mut self, number: u16, change: impl FnOnce(&mut CodelQueue<P>) -> T) -> T {
        let queue = &mut self.flows[usize::from(number)].queue;
        let before = queue.backlog();
        let result = change(queue);
        let after = queue.backlog();
        self.backlog.packets = self.backlog.packets + after.packets - before.packets;
        self.backlog.bytes = self.backlog.bytes + after.bytes - before.bytes;
        result
    }

    /// RFC 8290 section 4.1: beyond the limit a packet is dropped from the head of the queue with the largest byte count.
    fn drop_from_fattest(&mut self, now: Instant, obs: &mut impl Observer<P>) {
        let sizes =
            self.new.iter().chain(&self.old).map(|n| (self.flows[usize::from(*n)].queue.backlog().bytes, *n));
        if let Some((_, fattest)) = sizes.max() {
            self.within(fattest, |queue| queue.drop_first(now, DropReason::QueueFull, obs));
        }
    }

    /// The next queue to serve, and whether it is new (RFC 8290 section 4.2). A queue without credits gets a quantum
    /// and goes to the end of the old queues.
    fn next_queue(&mut self) -> Option<(u16, bool)> {
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
            flows.flows.push(FqCodelFlow {
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
        while let Some((number, is_new)) = flows.next_queue() {
            let next = flows.within(number, |queue| queue.dequeue(now, obs));
            if let Dequeue::Packet(packet, since) = next {
                flows.flows[usize::from(number)].credits -= i64::from(packet.header().ip_len);
                return Dequeue::Packet(packet, since);
            }
            // RFC 8290 section 4.2: an empty old queue leaves the list, but an empty new queue first becomes an old
            // queue. Otherwise a flow could always be served first by sending a packet whenever its queue is empty.
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
