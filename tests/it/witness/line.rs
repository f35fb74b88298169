//! The fate of each packet on a line with a finite queue, computed from the packets at both ends.

use std::collections::{BTreeMap, VecDeque};

use netrig_core::{Direction, DropReason};
use netrig_tests::Seen;

/// The properties of a link in the experiment file.
pub struct Line {
    /// The indices of its nodes.
    pub ends: [u32; 2],
    pub nanos_per_byte: u64,
    /// One-way delay, ns.
    pub delay: u64,
    /// Number of packets that may wait, without the packet in transmission.
    pub room: usize,
    /// Ordinal numbers, from 1, of the packets that are dropped, in the order in which their transmission starts.
    pub listed: &'static [u64],
    /// Start and end of an outage, ns. The line then drops waiting packets, packets in transit, and offered packets.
    pub outage: Option<(u64, u64)>,
}

impl Line {
    /// The sending and the receiving node.
    pub fn towards(&self, direction: Direction) -> [u32; 2] {
        let [a, b] = self.ends;
        if direction == Direction::Forward { [a, b] } else { [b, a] }
    }

    /// Follows each packet that was offered in one direction. Returns the number of dropped packets by reason, and the
    /// number of packets that would have arrived after the end of the run, whose fate is unknown.
    ///
    /// A packet that is not dropped by the queue waits for earlier packets, is transmitted, and arrives after the
    /// delay, at exactly the computed nanosecond and unchanged, or is lost.
    pub fn replay(
        &self,
        offered: &[&Seen],
        arrived: &[&Seen],
        end: u64,
    ) -> (BTreeMap<&'static str, u64>, u64) {
        let (mut dropped, mut under_way) = (BTreeMap::new(), 0);
        let mut drop = |why: DropReason| *dropped.entry(why.name()).or_insert(0) += 1;
        let mut arrivals = arrived.iter().peekable();
        // The starts of the waiting packets, the time at which the line becomes free, and the number of started
        // packets.
        let (mut waiting, mut free_at, mut started) = (VecDeque::new(), 0, 0);
        let (down, up) = self.outage.unwrap_or((u64::MAX, u64::MAX));
        for packet in offered {
            let at = packet.at.as_nanos();
            if (down..up).contains(&at) {
                drop(DropReason::LinkDown);
                continue;
            }
            if at >= up && free_at < up {
                // The outage has cleared the line and its queue.
                (free_at, waiting) = (up, VecDeque::new());
            }
            while waiting.front().is_some_and(|start| *start <= at) {
                waiting.pop_front();
            }
            if waiting.len() >= self.room {
                drop(DropReason::QueueFull);
                continue;
            }
            let start = free_at.max(at);
            if start > at {
                waiting.push_back(start);
            }
            free_at = start + packet.bytes.len() as u64 * self.nanos_per_byte;
            let due = free_at + self.delay;
            if at < down && start >= down {
                drop(DropReason::LinkDown);
                continue;
            }
            started += 1;
            let arrives = |seen: &&&Seen| seen.at.as_nanos() == due && seen.bytes == packet.bytes;
            if due > end {
                under_way += 1;
                continue;
            }
            if arrivals.next_if(arrives).is_some() {
                continue;
            }
            let on_the_line = start < down && due > down;
            drop(match (self.listed.contains(&started), on_the_line) {
                (true, _) => DropReason::Listed,
                (false, true) => DropReason::LinkDown,
                (false, false) => DropReason::Loss,
            });
        }
        assert_eq!(arrivals.next(), None, "it arrived without having been sent, or at another time");
        (dropped, under_way)
    }
}
