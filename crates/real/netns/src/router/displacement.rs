//! The part of the waiting time on a link that the tester's lateness adds.
//!
//! A late packet itself does not wait less: it comes closer to the next packets, and these wait for it. The
//! line gives the amount. Let `f` be the time at which it has sent all earlier packets. A packet that arrives
//! at `a` starts at max(f, a). If it had arrived `l` earlier, and the line had been clear `d` earlier, it
//! would have started at max(f - d, a - l). The difference of the two is the `d` of the next packet, and this
//! packet waited d - l longer. This is Lindley's recursion, for the actual and for the intended arrivals. A
//! lateness that is equal for all packets adds nothing.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use netrig_core::{Duration, Instant, IpHeader};

use super::passage::SETTLING;

/// A mean that the tester moved by less than either is accepted. The studies state this agreement between two
/// runs of one seed.
const LEAST: Duration = Duration::from_micros(20);
const LEAST_SHARE: f64 = 0.1;

/// The studies' limit for rates. They depend on round trips, and so on the passage time of packets.
const LEAST_SHARE_OF_PASSAGE: f64 = 0.05;

/// The waiting time of fewer packets is no mean.
const FEW: u64 = 100;

/// How many packets a node may have received and not yet forwarded. Each is forgotten after [`SETTLING`].
const UNDERWAY: usize = 4096;

/// Actual and intended waiting in one direction of a link.
#[derive(Clone, Debug, Default)]
pub(crate) struct Displacement {
    /// How much later the line is clear than intended, ns.
    later: i64,
    packets: u64,
    /// Sum over all packets, ns.
    waited: i128,
    added: i128,
    /// How long the line sent them, ns.
    sent: i128,
}

impl Displacement {
    /// A packet arrives at `at`. The line has sent all earlier packets at `clear`, which may lie ahead.
    /// `late` is the packet's lateness, ns; if unknown, that of the line is used.
    pub fn arrives(&mut self, at: Instant, clear: Instant, late: Option<i64>) {
        if clear == Instant::NEVER {
            // The line stands still, so lateness has no effect.
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

    /// How long the line sends the packet, ns; 0 if the line drops it.
    pub fn is_sent(&mut self, takes: i64) {
        self.sent += i128::from(takes.max(0));
    }

    /// Packets whose waiting time is counted.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// The mean waiting time, and the tester's part of it (negative if packets waited less), s. `None` for
    /// too few packets.
    pub fn means(&self) -> Option<(f64, f64)> {
        let mean = |sum: i128| sum as f64 / self.packets as f64 / 1e9;
        (self.packets >= FEW).then(|| (mean(self.waited), mean(self.added)))
    }

    /// Why the waiting time on the link `name` is invalid, if the tester changed it.
    pub fn fault_of_waiting(&self, name: &str) -> Option<String> {
        let (waited, added) = self.means()?;
        self.fault(name, LEAST_SHARE, waited - added, "the punctual waiting time")
    }

    /// Why results of the link `name` are invalid: the tester changed the passage time of packets too much,
    /// and so the round trips of senders that wait for answers.
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

    /// Reports that the tester moved the mean waiting time by more than a share of `of`, s.
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

/// `a - b`, ns, limited to a quarter of the range.
pub(crate) fn difference(a: Instant, b: Instant) -> i64 {
    const FARTHEST: i128 = i64::MAX as i128 / 4;
    (i128::from(a.as_nanos()) - i128::from(b.as_nanos())).clamp(-FARTHEST, FARTHEST) as i64
}

/// Packets that a node received and must forward, in order of arrival.
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
    /// The node receives at `at` a packet that left its link at `left`. The difference is the router's
    /// lateness.
    pub fn enters(&mut self, packet: &IpHeader, left: Instant, at: Instant) {
        while self.0.front().is_some_and(|before| at.since(before.at) > SETTLING) || self.0.len() == UNDERWAY
        {
            self.0.pop_front();
        }
        self.0.push_back(HandedPacket { mark: mark(packet), left, at });
    }

    /// When the packet that the node forwards now had left its previous link, if known.
    pub fn leaves(&mut self, packet: &IpHeader) -> Option<Instant> {
        let mark = mark(packet);
        let place = self.0.iter().position(|handed| handed.mark == mark)?;
        self.0.remove(place).map(|handed| handed.left)
    }
}

/// A hash of the fields that a packet keeps on the next link.
fn mark(packet: &IpHeader) -> u64 {
    let IpHeader { src, dst, protocol, id, offset, len, .. } = packet;
    let mut hasher = DefaultHasher::new();
    (src, dst, protocol, id, offset, len).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
