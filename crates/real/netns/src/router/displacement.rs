//! What lateness of the tester adds to the waiting on a link.
//!
//! A packet that comes late does not wait the less for it: it comes closer to what is behind it, and those wait for it. How
//! much, a line tells by itself: with `f` the moment at which it has sent all that was before, a packet that comes at `a`
//! starts at max(f, a). Had it come `l` earlier, and the line been clear `d` earlier, it would have started at
//! max(f - d, a - l). The difference of the two is the `d` of the packet behind it, and has made this one wait d - l more:
//! Lindley's recursion, for what was and for what should have been. A lateness that is the same for all adds nothing.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use netrig_core::{Duration, Instant, IpHeader};

use super::passage::SETTLING;

/// A mean that the tester moved by less than either is taken for what it is: the agreement between two runs of one seed that
/// the studies state.
const LEAST: Duration = Duration::from_micros(20);
const LEAST_SHARE: f64 = 0.1;

/// And what the studies state for rates, which wait for answers as long as packets take there.
const LEAST_SHARE_OF_PASSAGE: f64 = 0.05;

/// The waiting of so few packets is no mean.
const FEW: u64 = 100;

/// So much of what a node was handed and has not sent on is remembered, and none of it for longer than [`SETTLING`].
const UNDERWAY: usize = 4096;

/// How the waiting on one way of a link would have been.
#[derive(Clone, Debug, Default)]
pub(crate) struct Displacement {
    /// By how much later the line is clear than it should have been, ns.
    later: i64,
    packets: u64,
    /// ns, of all packets.
    waited: i128,
    added: i128,
    /// For how long the line sent them, ns.
    sent: i128,
}

impl Displacement {
    /// A packet comes at `at`, when the line will have sent what was before, or has, at `clear`. `late` is how much later
    /// than it should have come that was; if nobody knows, as much as what was before it.
    pub fn comes(&mut self, at: Instant, clear: Instant, late: Option<i64>) {
        if clear == Instant::NEVER {
            // The line stands still, whoever is late.
            return;
        }
        let ahead = difference(clear, at);
        let late = late.unwrap_or(self.later);
        let should = (ahead - self.later).max(-late);
        self.later = ahead.max(0) - should;
        self.packets += 1;
        self.waited += i128::from(ahead.max(0));
        self.added += i128::from(self.later - late);
    }

    /// The line sends the packet for so long, ns; for no time if it does not take it.
    pub fn is_sent(&mut self, takes: i64) {
        self.sent += i128::from(takes.max(0));
    }

    /// Packets whose waiting is counted.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// The mean waiting, and what of it the tester added (less than nothing if packets waited less), s; nothing of too few.
    pub fn means(&self) -> Option<(f64, f64)> {
        let mean = |sum: i128| sum as f64 / self.packets as f64 / 1e9;
        (self.packets >= FEW).then(|| (mean(self.waited), mean(self.added)))
    }

    /// Why the waiting on the link `name` must not be trusted, if the tester moved it.
    pub fn fault_of_waiting(&self, name: &str) -> Option<String> {
        let (waited, added) = self.means()?;
        self.fault(name, LEAST_SHARE, waited - added, "of that")
    }

    /// Why nothing must be trusted of what passed the link `name`: the tester moved by too much the time that it took of packets
    /// there, and with it the round trips of those that wait for answers.
    pub fn fault_of_passage(&self, name: &str) -> Option<String> {
        let (waited, added) = self.means()?;
        let sent = self.sent as f64 / self.packets as f64 / 1e9;
        self.fault(
            name,
            LEAST_SHARE_OF_PASSAGE,
            waited - added + sent,
            "of that and of what it took to send them",
        )
    }

    /// That the tester moved the mean waiting by more than a share of `of`, s.
    fn fault(&self, name: &str, share: f64, of: f64, what: &str) -> Option<String> {
        let (waited, added) = self.means()?;
        let moved = added.abs();
        let (ms, verb) = (1e3, if added > 0.0 { "more" } else { "less" });
        (moved > LEAST.as_secs_f64() && moved > share * of).then(|| {
            format!(
                "{} packets waited {:.3} ms on average on {name}, {:.3} ms {verb} than if they had come in time; {:.0} % {what} \
                 and {LEAST} are the most",
                self.packets,
                waited * ms,
                moved * ms,
                share * 100.0,
            )
        })
    }
}

/// `a - b`, ns, as far as a run can last.
pub(crate) fn difference(a: Instant, b: Instant) -> i64 {
    const FARTHEST: i128 = i64::MAX as i128 / 4;
    (i128::from(a.as_nanos()) - i128::from(b.as_nanos())).clamp(-FARTHEST, FARTHEST) as i64
}

/// What a node was handed and is to send on, in this order.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeTransit(VecDeque<HandedPacket>);

#[derive(Clone, Copy, Debug)]
struct HandedPacket {
    mark: u64,
    /// When it left its link, by the link.
    left: Instant,
    /// When the node got it.
    at: Instant,
}

impl NodeTransit {
    /// The node is handed at `at` a packet that left its link at `left`: earlier, by as much as the router is late.
    pub fn enters(&mut self, packet: &IpHeader, left: Instant, at: Instant) {
        while self.0.front().is_some_and(|before| at.since(before.at) > SETTLING) || self.0.len() == UNDERWAY
        {
            self.0.pop_front();
        }
        self.0.push_back(HandedPacket { mark: mark(packet), left, at });
    }

    /// When what the node sends on now had left its last link, if it is known.
    pub fn leaves(&mut self, packet: &IpHeader) -> Option<Instant> {
        let mark = mark(packet);
        let place = self.0.iter().position(|handed| handed.mark == mark)?;
        self.0.remove(place).map(|handed| handed.left)
    }
}

/// What a packet has in common with itself on the next link, and with few others.
fn mark(packet: &IpHeader) -> u64 {
    let IpHeader { src, dst, protocol, id, offset, len, .. } = packet;
    let mut hasher = DefaultHasher::new();
    (src, dst, protocol, id, offset, len).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
