//! Computes how much the tester's lateness changes the waiting time of packets on a link.
//!
//! A late packet comes closer to the packets after it, and these wait for it. To compute the effect, let `f` be the
//! time at which the transmitter of the link has sent all earlier packets. A packet that arrives at `a` starts at
//! max(f, a). Assume that the packet was late by `l`, and that without any lateness the transmitter would have been
//! free `d` earlier. Without lateness, the packet would have started at max(f - d, a - l). The difference between the
//! two start times is the `d` of the next packet, and this packet waited longer by this difference minus `l`. This is
//! Lindley's recursion, for the actual and for the intended arrivals. If all packets are equally late, the lateness
//! adds nothing.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use netrig_core::{Duration, Instant, IpHeader};

use super::passage::SETTLING;

/// A change of the mean waiting time is accepted if it is below one of these limits: an absolute time, and a share of
/// the punctual mean. The studies state this agreement between two runs with the same seed.
const LEAST: Duration = Duration::from_micros(20);
const LEAST_SHARE: f64 = 0.1;

/// Limit of the change as a share of the passage time of packets (waiting and transmission). It is the studies' limit
/// for rates, which depend on round-trip times and therefore on the passage time.
const LEAST_SHARE_OF_PASSAGE: f64 = 0.05;

/// With fewer packets, the mean waiting time is not assessed.
const FEW: u64 = 100;

/// Maximum number of remembered packets that a node has received and not yet forwarded. Each is forgotten after
/// [`SETTLING`].
const UNDERWAY: usize = 4096;

/// Actual and intended waiting times in one direction of a link.
#[derive(Clone, Debug, Default)]
pub(crate) struct Displacement {
    /// How much later than intended the transmitter of the link is free, ns: the `d` of the recursion.
    later: i64,
    packets: u64,
    /// Sum of the actual waiting times of all packets, ns.
    waited: i128,
    /// Sum of the waiting times that lateness added, ns.
    added: i128,
    /// Sum of the transmission times of all packets, ns.
    sent: i128,
}

impl Displacement {
    /// Records a packet that arrives at `at`. At `clear`, which may be in the future, the link has sent all earlier
    /// packets. `late` is the packet's lateness, ns. If it is unknown, the lateness of the link is used.
    pub fn arrives(&mut self, at: Instant, clear: Instant, late: Option<i64>) {
        if clear == Instant::NEVER {
            // The link sends nothing, so lateness has no effect.
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

    /// Records the transmission time of the packet, ns; 0 if the link drops the packet.
    pub fn is_sent(&mut self, takes: i64) {
        self.sent += i128::from(takes.max(0));
    }

    /// Number of packets whose waiting time is included.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// The mean waiting time, and the part of it that lateness added (negative if packets waited less), s. `None` if
    /// there are too few packets.
    pub fn means(&self) -> Option<(f64, f64)> {
        let mean = |sum: i128| sum as f64 / self.packets as f64 / 1e9;
        (self.packets >= FEW).then(|| (mean(self.waited), mean(self.added)))
    }

    /// Why the waiting time on the link `name` is invalid, if the tester changed it too much.
    pub fn fault_of_waiting(&self, name: &str) -> Option<String> {
        let (waited, added) = self.means()?;
        self.fault(name, LEAST_SHARE, waited - added, "the punctual waiting time")
    }

    /// Why results of the link `name` are invalid, if the tester changed the passage time of packets too much. This
    /// also changes the round-trip times of senders that wait for answers.
    pub fn fault_of_passage(&self, name: &str) -> Option<String> {
        let (waited, added) = self.means()?;
        let sent = self.sent as f64 / self.packets as f64 / 1e9;
        self.fault(
            name,
            LEAST_SHARE_OF_PASSAGE,
            waited - added + sent,
            "the punctual waiting and sending time",
        )
    }

    /// Returns a sentence if the tester changed the mean waiting time by more than the given share of `of`, s.
    fn fault(&self, name: &str, share: f64, of: f64, what: &str) -> Option<String> {
        let (waited, added) = self.means()?;
        let moved = added.abs();
        let (ms, verb) = (1e3, if added > 0.0 { "more" } else { "less" });
        (moved > LEAST.as_secs_f64() && moved > share * of).then(|| {
            format!(
                "{} packets waited {:.3} ms on average on {name}, {:.3} ms {verb} than punctual packets; the limit \
                 is {:.0} % of {what}, but at least {LEAST}",
                self.packets,
                waited * ms,
                moved * ms,
                share * 100.0,
            )
        })
    }
}

/// The difference `a - b`, ns, limited to a quarter of the range of `i64`.
pub(crate) fn difference(a: Instant, b: Instant) -> i64 {
    const FARTHEST: i128 = i64::MAX as i128 / 4;
    (i128::from(a.as_nanos()) - i128::from(b.as_nanos())).clamp(-FARTHEST, FARTHEST) as i64
}

/// Packets that a node has received and must forward, in order of arrival.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeTransit(VecDeque<HandedPacket>);

#[derive(Clone, Copy, Debug)]
struct HandedPacket {
    mark: u64,
    /// When the link delivered it.
    left: Instant,
    /// When the node received it.
    at: Instant,
}

impl NodeTransit {
    /// Records that the node receives at `at` a packet that left its link at `left`. The difference is the router's
    /// lateness.
    pub fn enters(&mut self, packet: &IpHeader, left: Instant, at: Instant) {
        while self.0.front().is_some_and(|before| at.since(before.at) > SETTLING) || self.0.len() == UNDERWAY
        {
            self.0.pop_front();
        }
        self.0.push_back(HandedPacket { mark: mark(packet), left, at });
    }

    /// Removes the packet that the node forwards now, and returns when it left its previous link, if that is known.
    pub fn leaves(&mut self, packet: &IpHeader) -> Option<Instant> {
        let mark = mark(packet);
        let place = self.0.iter().position(|handed| handed.mark == mark)?;
        self.0.remove(place).map(|handed| handed.left)
    }
}

/// A hash of the header fields that do not change when a node forwards a packet.
fn mark(packet: &IpHeader) -> u64 {
    let IpHeader { src, dst, protocol, id, offset, len, .. } = packet;
    let mut hasher = DefaultHasher::new();
    (src, dst, protocol, id, offset, len).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
