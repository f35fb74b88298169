//! Weighted fair queueing among flows (A. Demers, S. Keshav and S. Shenker, "Analysis and simulation of a fair queueing
//! algorithm", SIGCOMM 1989), in the order of the tags of the fluid server ([`fluid`](super::fluid)).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use netrig_core::{Backlog, Dequeue, DropReason, Instant, Observer, PacketMeta, QueueDiscipline, Size};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::buffer::QueueLimit;
use super::context::QueueContext;
use super::flows::FlowTable;
use super::fluid::{FluidClock, Tag};
use crate::SettingsError;
use crate::error::ensure;

/// Weighted fair queueing among flows, without classes. At least one limit must be given. Beyond it packets are dropped at the
/// tail of the flow with the most waiting bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wfq {
    /// Largest number of waiting packets in total, at least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// Largest number of waiting bytes of IP packets in total, at least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Size>,
    /// Number of queues over which a hash spreads the flows, 1 to 4096. 256 if not given.
    #[serde(default = "default_queues")]
    pub queues: u32,
    /// The weights of flows. `equal` if not given.
    #[serde(default)]
    pub weights: Weights,
}

/// The weights of flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Weights {
    /// All flows have the same weight.
    #[default]
    Equal,
    /// The IP precedence (the upper three bits of the code point) plus one: best effort 1, `ef` 6. Packets of different
    /// precedence then belong to different flows.
    Precedence,
}

fn default_queues() -> u32 {
    256
}

impl Wfq {
    /// Checks the settings.
    ///
    /// # Errors
    /// If a field is out of range. The error names it.
    pub fn check(&self) -> Result<(), SettingsError> {
        QueueLimit::check(self.packets, self.bytes)?;
        ensure(self.packets.is_some() || self.bytes.is_some(), "packets", "or `bytes` must be given")?;
        ensure((1..=4096).contains(&self.queues), "queues", "must be from 1 to 4096")
    }
}

/// A queue with weighted fair queueing.
#[derive(Clone, Debug)]
pub struct WfqQueue<P>(Box<WfqSessions<P>>);

#[derive(Clone, Debug)]
struct WfqSessions<P> {
    table: FlowTable,
    weights: Weights,
    limit: QueueLimit,
    /// The sessions that flows have used, in the order of the clock's sessions.
    sessions: Vec<WfqSession<P>>,
    clock: FluidClock,
    /// The tag of the oldest packet of each backlogged session, and the session.
    heads: BinaryHeap<Reverse<(Tag, usize)>>,
    /// Backlogged sessions, in no particular order.
    waiting: Vec<usize>,
    backlog: Backlog,
}

#[derive(Clone, Debug)]
struct WfqSession<P> {
    packets: VecDeque<(Tag, Instant, P)>,
    bytes: u64,
}

/// IP precedences (RFC 791).
const PRECEDENCES: usize = 8;

impl<P: PacketMeta> WfqQueue<P> {
    /// An empty queue. The salt of its hash comes from the stream `link/<line>/flows`.
    pub fn new(settings: &Wfq, context: &QueueContext<'_>) -> Self {
        let groups = if settings.weights == Weights::Equal { 1 } else { PRECEDENCES };
        Self(Box::new(WfqSessions {
            table: FlowTable::new(groups, settings.queues, context),
            weights: settings.weights,
            limit: QueueLimit::new(settings.packets, settings.bytes),
            clock: FluidClock::new(std::iter::empty(), context),
            sessions: Vec::new(),
            heads: BinaryHeap::new(),
            waiting: Vec::new(),
            backlog: Backlog::default(),
        }))
    }
}

impl<P: PacketMeta> WfqSessions<P> {
    fn session_of(&mut self, packet: &P) -> usize {
        let header = packet.header();
        let group = match self.weights {
            Weights::Equal => 0,
            Weights::Precedence => usize::from(header.dscp.precedence()) % PRECEDENCES,
        };
        let (number, is_new) = self.table.queue_of(group, &header.flow);
        if is_new {
            self.sessions.push(WfqSession { packets: VecDeque::new(), bytes: 0 });
            self.clock.add_session((group + 1) as f64);
        }
        number.into()
    }

    /// The backlogged session with the most waiting bytes.
    fn fattest(&self) -> Option<usize> {
        let sizes = self.waiting.iter().map(|number| (self.sessions[*number].bytes, Reverse(*number)));
        sizes.max().map(|(_, Reverse(number))| number)
    }

    /// Drops the last packet of a session.
    fn drop_last(&mut self, number: usize, now: Instant, obs: &mut impl Observer<P>) {
        let Some((_, _, packet)) = self.sessions[number].packets.pop_back() else { return };
        self.left(number, &packet);
        if self.sessions[number].packets.is_empty() {
            self.heads.retain(|Reverse((_, other))| *other != number);
        }
        self.clock.retract(number, self.sessions[number].packets.back().map(|(tag, ..)| *tag));
        obs.dropped(now, &packet, DropReason::QueueFull);
    }

    /// Updates the counts after a packet of this session has left.
    fn left(&mut self, number: usize, packet: &P) {
        let bytes = u64::from(packet.header().ip_len);
        let session = &mut self.sessions[number];
        session.bytes -= bytes;
        self.backlog.bytes -= bytes;
        self.backlog.packets -= 1;
        if session.packets.is_empty() {
            self.waiting.retain(|other| *other != number);
        }
    }

    /// Drops packets of sessions with more waiting bytes to make room for a packet of this session. Returns false if
    /// that is not enough.
    fn make_room(&mut self, number: usize, ip_len: u32, now: Instant, obs: &mut impl Observer<P>) -> bool {
        while !self.limit.has_room_for(self.backlog, ip_len) {
            let own = self.sessions[number].bytes + u64::from(ip_len);
            match self.fattest() {
                Some(fattest) if self.sessions[fattest].bytes > own => self.drop_last(fattest, now, obs),
                _ => return false,
            }
        }
        true
    }
}

impl<P: PacketMeta> QueueDiscipline<P> for WfqQueue<P> {
    fn enqueue(&mut self, now: Instant, packet: P, obs: &mut impl Observer<P>) {
        let sessions = &mut *self.0;
        let (number, ip_len) = (sessions.session_of(&packet), packet.header().ip_len);
        if !sessions.make_room(number, ip_len, now, obs) {
            return obs.dropped(now, &packet, DropReason::QueueFull);
        }
        let tag = sessions.clock.arrival(now, number, ip_len, sessions.backlog.packets);
        let session = &mut sessions.sessions[number];
        if session.packets.is_empty() {
            sessions.heads.push(Reverse((tag, number)));
            sessions.waiting.push(number);
        }
        session.bytes += u64::from(ip_len);
        session.packets.push_back((tag, now, packet));
        sessions.backlog.packets += 1;
        sessions.backlog.bytes += u64::from(ip_len);
    }

    fn dequeue(&mut self, now: Instant, _obs: &mut impl Observer<P>) -> Dequeue<P> {
        let sessions = &mut *self.0;
        let Some(Reverse((_, number))) = sessions.heads.pop() else { return Dequeue::Empty };
        let session = &mut sessions.sessions[number];
        let Some((_, since, packet)) = session.packets.pop_front() else { return Dequeue::Empty };
        if let Some((next, ..)) = session.packets.front() {
            sessions.heads.push(Reverse((*next, number)));
        }
        sessions.left(number, &packet);
        sessions.clock.departure(now, packet.header().ip_len);
        Dequeue::Packet(packet, since)
    }

    fn clear(&mut self, now: Instant, why: DropReason, obs: &mut impl Observer<P>) {
        let sessions = &mut *self.0;
        for number in std::mem::take(&mut sessions.waiting) {
            let session = &mut sessions.sessions[number];
            for (_, _, packet) in session.packets.drain(..) {
                obs.dropped(now, &packet, why);
            }
            session.bytes = 0;
        }
        sessions.backlog = Backlog::default();
        sessions.heads.clear();
        sessions.clock.clear();
    }

    fn backlog(&self) -> Backlog {
        self.0.backlog
    }
}
