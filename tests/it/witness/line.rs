//! What a line with a queue of so many packets does to each of them, from the packets at both of its ends.

use std::collections::{BTreeMap, VecDeque};

use netrig_core::{Direction, DropReason};
use netrig_tests::Seen;

/// What the file says of a link.
pub struct Line {
    /// Its nodes.
    pub ends: [u32; 2],
    pub nanos_per_byte: u64,
    /// Nanoseconds.
    pub delay: u64,
    /// Packets that may wait, the one on the line not among them.
    pub room: usize,
    /// Lost by their ordinals, from 1, as they start onto the line.
    pub listed: &'static [u64],
    /// From when to when it is down, nanoseconds: then it drops what waits, what is on it, and what is offered.
    pub outage: Option<(u64, u64)>,
}

impl Line {
    /// The node that sends, and the one that receives.
    pub fn towards(&self, direction: Direction) -> [u32; 2] {
        let [a, b] = self.ends;
        if direction == Direction::Forward { [a, b] } else { [b, a] }
    }

    /// Follows each packet that was offered to one direction: how many were dropped, by the name of the reason, and how
    /// many would have arrived after the end of the run, of whom nobody knows.
    ///
    /// A packet that finds room waits for those before it, takes the time of its bytes and arrives a delay later, at
    /// that very nanosecond and with the same bytes, or was lost.
    pub fn replay(
        &self,
        offered: &[&Seen],
        arrived: &[&Seen],
        end: u64,
    ) -> (BTreeMap<&'static str, u64>, u64) {
        let (mut dropped, mut under_way) = (BTreeMap::new(), 0);
        let mut drop = |why: DropReason| *dropped.entry(why.name()).or_insert(0) += 1;
        let mut arrivals = arrived.iter().peekable();
        // When those that wait start; when the line is free; how many have started.
        let (mut waiting, mut free_at, mut started) = (VecDeque::new(), 0, 0);
        let (down, up) = self.outage.unwrap_or((u64::MAX, u64::MAX));
        for packet in offered {
            let at = packet.at.as_nanos();
            if (down..up).contains(&at) {
                drop(DropReason::LinkDown);
                continue;
            }
            if at >= up && free_at < up {
                // Nothing is left of what was there before.
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
