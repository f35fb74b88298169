//! The fluid server that fair queueing follows: A. K. Parekh and R. G. Gallager, "A generalized processor sharing approach
//! to flow control in integrated services networks: the single-node case", IEEE/ACM Transactions on Networking 1(3), 1993;
//! called "the paper" here.
//!
//! The fluid server does the same work as the line, but serves all backlogged sessions in parallel, in proportion to
//! their weights. Its virtual time is the work done per unit of weight. The tag of a packet is the virtual time at
//! which the fluid server would finish it. If the line sends packets in the order of their tags, it finishes each
//! packet at most one packet time later than the fluid server (theorem 1 of the paper).

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use netrig_core::{Duration, Instant, Rate};

use super::context::QueueContext;
use crate::Framing;

/// A virtual time of the fluid server, bytes per unit of weight.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Tag(f64);

impl Eq for Tag {}

impl PartialOrd for Tag {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Tag {
    fn cmp(&self, other: &Self) -> Ordering {
        // Tags are sums of lengths divided by positive weights, so they are never NaN.
        self.0.total_cmp(&other.0)
    }
}

/// The virtual time of the fluid server.
///
/// It advances with the work of the line, not with the clock. While the line cannot send, or sends packets of no session
/// (of low-latency classes), the virtual time stops. The initial rate of the line is used only to interpolate within a packet.
#[derive(Clone, Debug)]
pub(super) struct FluidClock {
    rate: Rate,
    framing: Framing,
    virtual_time: f64,
    sessions: Vec<FluidSession>,
    /// Sum of the weights of the sessions that the fluid server serves.
    weights: f64,
    /// For each session that the fluid server serves: the virtual time at which its backlog is finished, and the
    /// session. An entry is out of date if packets of the session arrived or were retracted after it was computed.
    ends: BinaryHeap<Reverse<(Tag, usize)>>,
    sending: Option<PacketInService>,
}

#[derive(Clone, Debug)]
struct FluidSession {
    weight: f64,
    /// The tag of the last packet of the session.
    last: Tag,
    /// Whether the fluid server serves the session.
    busy: bool,
}

/// The last packet that the line started.
#[derive(Clone, Debug)]
struct PacketInService {
    since: Instant,
    takes: Duration,
    bytes: f64,
    /// Bytes of the packet that are already added to the work of the fluid server.
    counted: f64,
}

impl FluidClock {
    /// A clock for sessions of these weights, all above zero, in front of this line.
    pub(super) fn new(weights: impl Iterator<Item = f64>, context: &QueueContext<'_>) -> Self {
        let mut clock = Self {
            rate: context.rate(),
            framing: context.framing(),
            virtual_time: 0.0,
            sessions: Vec::new(),
            weights: 0.0,
            ends: BinaryHeap::new(),
            sending: None,
        };
        weights.for_each(|weight| clock.add_session(weight));
        clock
    }

    /// Adds a session of this weight, which must be above zero.
    pub(super) fn add_session(&mut self, weight: f64) {
        self.sessions.push(FluidSession { weight, last: Tag::default(), busy: false });
    }

    /// The tag of a packet of this IP length that arrives at a session at `now`. `waiting` is the number of packets
    /// that already wait, over all sessions.
    pub(super) fn arrival(&mut self, now: Instant, number: usize, ip_len: u32, waiting: usize) -> Tag {
        self.work_until(now, waiting);
        let length = self.framing.line_bytes(ip_len) as f64;
        let session = &mut self.sessions[number];
        // Equation (10) of the paper: S = max(F of the previous packet, V), F = S + L/φ.
        let start = if session.busy { session.last.0.max(self.virtual_time) } else { self.virtual_time };
        session.last = Tag(start + length / session.weight);
        if !session.busy {
            session.busy = true;
            self.weights += session.weight;
            self.ends.push(Reverse((session.last, number)));
        }
        session.last
    }

    /// Revokes the last packet of a session. `before` is the tag of the previous packet, if that packet still waits.
    pub(super) fn retract(&mut self, number: usize, before: Option<Tag>) {
        let session = &mut self.sessions[number];
        session.last = before.unwrap_or(Tag(self.virtual_time)).min(session.last);
    }

    /// Starts the packet of this IP length that the line takes at `now`. The previous packet is complete.
    pub(super) fn departure(&mut self, now: Instant, ip_len: u32) {
        self.finish_packet();
        let bytes = self.framing.line_bytes(ip_len);
        let takes = self.rate.time_for(bytes);
        self.sending = Some(PacketInService { since: now, takes, bytes: bytes as f64, counted: 0.0 });
    }

    /// Restarts the virtual time when all sessions are empty.
    pub(super) fn clear(&mut self) {
        self.virtual_time = 0.0;
        self.weights = 0.0;
        self.sending = None;
        for Reverse((_, number)) in self.ends.drain() {
            self.sessions[number].busy = false;
        }
    }

    /// Adds the work that the line has done by `now` on the current packet.
    fn work_until(&mut self, now: Instant, waiting: usize) {
        let Some(sending) = &mut self.sending else {
            if waiting == 0 {
                self.clear();
            }
            return;
        };
        let passed = now.since(sending.since);
        if passed >= sending.takes {
            self.finish_packet();
            if waiting == 0 {
                // The line has been idle, so the fluid server, which does the same work, has been idle too.
                self.clear();
            }
            return;
        }
        // The packet takes at least a nanosecond, or it would be finished.
        let share = passed.as_nanos() as f64 / sending.takes.as_nanos() as f64;
        let done = sending.bytes * share;
        let more = (done - sending.counted).max(0.0);
        sending.counted += more;
        self.work(more);
    }

    /// The line has finished the current packet.
    fn finish_packet(&mut self) {
        if let Some(sending) = self.sending.take() {
            self.work(sending.bytes - sending.counted);
        }
    }

    /// Advances the fluid server by this many bytes of work.
    fn work(&mut self, mut bytes: f64) {
        while let Some(Reverse((tag, number))) = self.ends.peek().copied() {
            let session = &mut self.sessions[number];
            if session.last != tag {
                // The work of the session has changed since.
                self.ends.pop();
                self.ends.push(Reverse((session.last, number)));
                continue;
            }
            let needed = ((tag.0 - self.virtual_time) * self.weights).max(0.0);
            if needed > bytes {
                self.virtual_time += bytes / self.weights;
                return;
            }
            bytes -= needed;
            self.virtual_time = self.virtual_time.max(tag.0);
            self.ends.pop();
            session.busy = false;
            self.weights -= session.weight;
        }
        // Sets the sum to exactly zero after all sessions have ended, which removes rounding errors.
        self.weights = 0.0;
    }
}
