//! The fluid server that fair queueing follows: A. K. Parekh and R. G. Gallager, "A generalized processor sharing approach
//! to flow control in integrated services networks: the single-node case", IEEE/ACM Transactions on Networking 1(3), 1993;
//! here "the paper".
//!
//! The fluid server does as much work as the line, but on all sessions that have any at once, in proportion to their
//! weights. Its virtual time says how much it has done for each unit of weight; a packet's tag is the virtual time at
//! which the fluid server would be done with it. The packets that the line sends in the order of their tags are done no
//! later than by the fluid server, but for the time of one packet (the paper's theorem 1).

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use netrig_core::{Duration, Instant, Rate};

use super::context::QueueContext;
use crate::Framing;

/// A virtual time: when the fluid server is done with something, bytes for each unit of weight.
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
        // Tags are sums of lengths over weights above zero: never NaN.
        self.0.total_cmp(&other.0)
    }
}

/// The virtual time of the fluid server.
///
/// It goes by the line's work and not by the clock, so a line that is kept from sending, or sends other packets between,
/// stops it; only within a packet is the rate needed that the line had at the start.
#[derive(Clone, Debug)]
pub(super) struct FluidClock {
    rate: Rate,
    framing: Framing,
    virtual_time: f64,
    sessions: Vec<Session>,
    /// Weights of the sessions that the fluid server works on, added up.
    weights: f64,
    /// When it will be done with each of these sessions, as known when the session began; some have got more work since.
    ends: BinaryHeap<Reverse<(Tag, usize)>>,
    sending: Option<Sending>,
}

#[derive(Clone, Debug)]
struct Session {
    weight: f64,
    /// The tag of its last packet.
    last: Tag,
    /// Whether the fluid server works on it.
    busy: bool,
}

/// The packet that the line took last.
#[derive(Clone, Debug)]
struct Sending {
    since: Instant,
    takes: Duration,
    bytes: f64,
    /// How much of it the fluid server has done as well.
    counted: f64,
}

impl FluidClock {
    /// With sessions of these weights, all above zero, in front of this line.
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

    /// One more session, of this weight above zero.
    pub(super) fn add_session(&mut self, weight: f64) {
        self.sessions.push(Session { weight, last: Tag::default(), busy: false });
    }

    /// The tag of a packet of this IP length that comes to a session at `now`, and found `waiting` packets of all
    /// sessions.
    pub(super) fn arrival(&mut self, now: Instant, number: usize, ip_len: u32, waiting: usize) -> Tag {
        self.work_until(now, waiting);
        let length = self.framing.line_bytes(ip_len) as f64;
        let session = &mut self.sessions[number];
        // The paper's equation (10): S = max(F of the one before, V), F = S + L/φ.
        let start = if session.busy { session.last.0.max(self.virtual_time) } else { self.virtual_time };
        session.last = Tag(start + length / session.weight);
        if !session.busy {
            session.busy = true;
            self.weights += session.weight;
            self.ends.push(Reverse((session.last, number)));
        }
        session.last
    }

    /// The last packet of a session is taken back; the one before it, if it waits, has this tag.
    pub(super) fn retract(&mut self, number: usize, before: Option<Tag>) {
        let session = &mut self.sessions[number];
        session.last = before.unwrap_or(Tag(self.virtual_time)).min(session.last);
    }

    /// The line takes a packet of this IP length at `now`, done with the one before.
    pub(super) fn departure(&mut self, now: Instant, ip_len: u32) {
        self.finish_packet();
        let bytes = self.framing.line_bytes(ip_len);
        let takes = self.rate.time_for(bytes);
        self.sending = Some(Sending { since: now, takes, bytes: bytes as f64, counted: 0.0 });
    }

    /// Everything that waited is gone.
    pub(super) fn clear(&mut self) {
        self.virtual_time = 0.0;
        self.weights = 0.0;
        self.sending = None;
        for Reverse((_, number)) in self.ends.drain() {
            self.sessions[number].busy = false;
        }
    }

    /// Does what the line has done by `now`, of the packet that it sends.
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
                // The line had run empty, and so had the fluid server, which does the same work. Both begin anew.
                self.clear();
            }
            return;
        }
        // The line took at least a nanosecond, or the packet would be over.
        let share = passed.as_nanos() as f64 / sending.takes.as_nanos() as f64;
        let done = sending.bytes * share;
        let more = (done - sending.counted).max(0.0);
        sending.counted += more;
        self.work(more);
    }

    /// The line is done with the packet that it sent.
    fn finish_packet(&mut self) {
        if let Some(sending) = self.sending.take() {
            self.work(sending.bytes - sending.counted);
        }
    }

    /// The fluid server does so many bytes of work.
    fn work(&mut self, mut bytes: f64) {
        while let Some(Reverse((tag, number))) = self.ends.peek().copied() {
            let session = &mut self.sessions[number];
            if session.last != tag {
                // It has got more work since, or less.
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
        // Nothing is left of rounding once all sessions are done.
        self.weights = 0.0;
    }
}
