//! DATA chunks that were sent and that the cumulative TSN has not yet acknowledged.

use std::collections::VecDeque;

use smallvec::SmallVec;

use crate::sctp::config::ChunkCharge;
use crate::sctp::packet::chunk::{self, GapBlock};
use crate::{PathId, Serial};

/// How a loss was detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LossSign {
    /// T3-rtx expired.
    Timeout,
    /// The chunk was reported missing often enough.
    Missing,
}

/// State of a chunk at the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SentState {
    /// The chunk or its acknowledgement is in flight.
    InFlight,
    /// Acknowledged by a gap block. The receiver may revoke this.
    GapAcked,
    /// Lost, and waiting for retransmission.
    Lost(LossSign),
}

/// A DATA chunk that was sent.
#[derive(Clone, Debug)]
pub(crate) struct SentChunk {
    pub(crate) chunk: chunk::Data,
    /// The path over which it was last sent.
    pub(crate) path: PathId,
    pub(crate) state: SentState,
    /// Number of miss indications so far (RFC 9260 section 7.2.4).
    pub(crate) misses: u32,
    /// Whether it was retransmitted. It is then not used to measure the round-trip time (Karn's algorithm).
    pub(crate) retransmitted: bool,
    /// Whether it is no longer eligible for a fast retransmit (RFC 9260 section 7.2.4 (5)).
    pub(crate) fast_retransmitted: bool,
    /// Its size as counted in the congestion window, bytes.
    pub(crate) counted: u32,
    /// Its size as counted in the receiver's window, bytes.
    pub(crate) windowed: u32,
}

/// A run of indices in the queue: index of the first chunk, and one past the last.
type ChunkRun = (usize, usize);

/// All outstanding DATA chunks in the order of their TSNs. The chunk with TSN `cumulative + 1 + i` has index `i`.
#[derive(Debug)]
pub(crate) struct Outstanding {
    queue: VecDeque<SentChunk>,
    /// The Cumulative TSN Ack Point (RFC 9260 section 1.3).
    cumulative: Serial,
    /// Number of chunks in state `Lost`.
    lost: usize,
    /// All lost chunks have this TSN or a later one.
    lost_from: Serial,
    /// Runs that the gap blocks of the last SACK covered. They contain exactly the chunks in state `GapAcked`.
    acked: SmallVec<[ChunkRun; 4]>,
    /// Number of user bytes that are acknowledged neither cumulatively nor by gap blocks.
    user_bytes: u64,
    /// The rule for the size of a chunk in the send buffer.
    charge: ChunkCharge,
    /// Size of all chunks of the queue in the send buffer, bytes.
    charged: u64,
    /// Bytes in flight, counted like the receiver's window.
    in_flight: u64,
}

impl Outstanding {
    pub(crate) fn new(initial_tsn: Serial, charge: ChunkCharge) -> Self {
        Self {
            queue: VecDeque::new(),
            cumulative: initial_tsn.plus(u32::MAX),
            lost: 0,
            lost_from: initial_tsn,
            acked: SmallVec::new(),
            user_bytes: 0,
            charge,
            charged: 0,
            in_flight: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) const fn cumulative(&self) -> Serial {
        self.cumulative
    }

    /// TSN of the next new chunk.
    pub(crate) fn next_tsn(&self) -> Serial {
        self.cumulative.plus(self.queue.len() as u32 + 1)
    }

    /// Number of user bytes that are acknowledged neither cumulatively nor by gap blocks.
    pub(crate) const fn user_bytes(&self) -> u64 {
        self.user_bytes
    }

    /// Used bytes of the send buffer. Chunks that gap blocks acknowledge stay in it, because the receiver may revoke
    /// the acknowledgement.
    pub(crate) const fn charged(&self) -> u64 {
        self.charged
    }

    /// Bytes in flight. They are subtracted from the receiver's window (RFC 9260 section 6.2.1).
    pub(crate) const fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Whether any chunk is acknowledged by gap blocks only.
    pub(crate) fn has_gap_acked(&self) -> bool {
        !self.acked.is_empty()
    }

    pub(crate) fn push(&mut self, sent: SentChunk) {
        debug_assert_eq!(sent.chunk.tsn, self.next_tsn());
        self.user_bytes += sent.chunk.data.size();
        self.charged += self.charge.of(sent.chunk.data.size());
        self.in_flight += u64::from(sent.windowed);
        self.queue.push_back(sent);
    }

    /// The chunk with index `i`.
    pub(crate) fn get(&self, i: usize) -> Option<&SentChunk> {
        self.queue.get(i)
    }

    /// Removes all chunks up to and including `tsn`. Calls `acked` for each. The second argument is true if no gap
    /// block had acknowledged the chunk before.
    pub(crate) fn acknowledge_up_to(&mut self, tsn: Serial, mut acked: impl FnMut(&SentChunk, bool)) {
        let count = tsn.offset_from(self.cumulative).max(0) as usize;
        for sent in self.queue.drain(..count.min(self.queue.len())) {
            let newly = sent.state != SentState::GapAcked;
            self.charged -= self.charge.of(sent.chunk.data.size());
            if newly {
                self.user_bytes -= sent.chunk.data.size();
            }
            match sent.state {
                SentState::InFlight => self.in_flight -= u64::from(sent.windowed),
                SentState::Lost(_) => self.lost -= 1,
                SentState::GapAcked => {}
            }
            acked(&sent, newly);
        }
        self.cumulative = tsn;
        for (first, end) in &mut self.acked {
            (*first, *end) = (first.saturating_sub(count), end.saturating_sub(count));
        }
        self.acked.retain(|(first, end)| first < end);
    }

    /// Handles the gap blocks of a SACK. First calls `newly` for each chunk that they acknowledge for the first time,
    /// in ascending order and with its previous state. Then calls `reneged` for each chunk that they no longer
    /// acknowledge. Returns the runs of chunks below and between the blocks, which the SACK reports as missing.
    pub(crate) fn acknowledge_gaps(
        &mut self,
        gaps: &[GapBlock],
        mut newly: impl FnMut(&SentChunk),
        mut reneged: impl FnMut(&SentChunk),
    ) -> SmallVec<[ChunkRun; 4]> {
        let mut blocks: SmallVec<[ChunkRun; 4]> = SmallVec::new();
        let mut holes: SmallVec<[ChunkRun; 4]> = SmallVec::new();
        let mut covered = 0;
        for gap in gaps {
            // Distance 1 is the first chunk of the queue. Invalid blocks are ignored.
            let run = (usize::from(gap.start.max(1)) - 1, usize::from(gap.end).min(self.queue.len()));
            if run.0 < covered || run.0 >= run.1 {
                continue;
            }
            if run.0 > covered {
                holes.push((covered, run.0));
            }
            covered = run.1;
            blocks.push(run);
        }
        let before = std::mem::take(&mut self.acked);
        for run in without(&blocks, &before) {
            for sent in self.queue.range_mut(run.0..run.1) {
                newly(sent);
                self.user_bytes -= sent.chunk.data.size();
                match sent.state {
                    SentState::InFlight => self.in_flight -= u64::from(sent.windowed),
                    SentState::Lost(_) => self.lost -= 1,
                    SentState::GapAcked => {}
                }
                sent.state = SentState::GapAcked;
            }
        }
        for run in without(&before, &blocks) {
            for sent in self.queue.range_mut(run.0..run.1) {
                sent.state = SentState::InFlight;
                self.user_bytes += sent.chunk.data.size();
                self.in_flight += u64::from(sent.windowed);
                reneged(sent);
            }
        }
        self.acked = blocks;
        holes
    }

    /// Counts a miss indication for each chunk of `run` that is in flight. If the count of a chunk reaches `threshold`,
    /// marks the chunk as lost and calls `lost`.
    pub(crate) fn miss(&mut self, run: ChunkRun, threshold: u32, mut lost: impl FnMut(&SentChunk)) {
        for sent in self.queue.range_mut(run.0..run.1.max(run.0)) {
            if sent.state != SentState::InFlight || sent.fast_retransmitted {
                continue;
            }
            sent.misses += 1;
            if sent.misses >= threshold {
                sent.state = SentState::Lost(LossSign::Missing);
                sent.fast_retransmitted = true;
                self.lost += 1;
                self.in_flight -= u64::from(sent.windowed);
                if sent.chunk.tsn.before(self.lost_from) {
                    self.lost_from = sent.chunk.tsn;
                }
                lost(sent);
            }
        }
    }

    /// Marks all chunks in flight on `path` as lost (RFC 9260 section 6.3.3). Chunks of the path that miss indications
    /// marked as lost before now count as lost by time-out.
    pub(crate) fn time_out(&mut self, path: PathId) {
        for sent in self.queue.iter_mut().filter(|sent| sent.path == path) {
            match sent.state {
                SentState::GapAcked => continue,
                SentState::Lost(_) => {}
                SentState::InFlight => {
                    self.lost += 1;
                    self.in_flight -= u64::from(sent.windowed);
                }
            }
            sent.state = SentState::Lost(LossSign::Timeout);
            sent.misses = 0;
        }
        self.lost_from = self.cumulative.plus(1);
    }

    /// Whether a lost chunk has not yet been retransmitted.
    pub(crate) const fn has_lost(&self) -> bool {
        self.lost > 0
    }

    /// Index of the first lost chunk.
    pub(crate) fn first_lost(&mut self) -> Option<usize> {
        if self.lost == 0 {
            return None;
        }
        let from = self.lost_from.offset_from(self.cumulative.plus(1)).max(0) as usize;
        let place = (from..self.queue.len()).find(|i| matches!(self.queue[*i].state, SentState::Lost(_)));
        if let Some(place) = place {
            self.lost_from = self.queue[place].chunk.tsn;
        }
        place
    }

    /// Records that the lost chunk with index `place` is retransmitted over `path`.
    pub(crate) fn resend(&mut self, place: usize, path: PathId) -> Option<&SentChunk> {
        let sent = self.queue.get_mut(place)?;
        if let SentState::Lost(_) = sent.state {
            self.lost -= 1;
            self.in_flight += u64::from(sent.windowed);
        }
        sent.state = SentState::InFlight;
        sent.path = path;
        sent.misses = 0;
        sent.retransmitted = true;
        Some(sent)
    }
}

/// The parts of `runs` that are not in `others`. Both lists are ascending, and their runs do not overlap.
fn without(runs: &[ChunkRun], others: &[ChunkRun]) -> SmallVec<[ChunkRun; 4]> {
    let mut left = SmallVec::new();
    let mut others = others.iter().peekable();
    for &(mut first, end) in runs {
        while first < end {
            match others.peek() {
                Some(other) if other.1 <= first => {
                    others.next();
                }
                Some(other) if other.0 <= first => first = other.1,
                Some(other) if other.0 < end => {
                    left.push((first, other.0));
                    first = other.1;
                }
                _ => {
                    left.push((first, end));
                    first = end;
                }
            }
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_difference_of_runs_is_the_difference_of_their_members(
            a in proptest::collection::vec(any::<bool>(), 40),
            b in proptest::collection::vec(any::<bool>(), 40),
        ) {
            let left = without(&runs(&a), &runs(&b));
            let expected: Vec<bool> = a.iter().zip(&b).map(|(a, b)| *a && !*b).collect();
            prop_assert_eq!(members(&left), expected);
        }
    }

    fn runs(members: &[bool]) -> Vec<ChunkRun> {
        let mut runs: Vec<ChunkRun> = Vec::new();
        for (i, _) in members.iter().enumerate().filter(|(_, is)| **is) {
            match runs.last_mut() {
                Some(last) if last.1 == i => last.1 = i + 1,
                _ => runs.push((i, i + 1)),
            }
        }
        runs
    }

    fn members(runs: &[ChunkRun]) -> Vec<bool> {
        (0..40).map(|i| runs.iter().any(|run| (run.0..run.1).contains(&i))).collect()
    }
}
