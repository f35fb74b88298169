//! The outstanding segments (RFC 6675 section 3).

use std::collections::VecDeque;

use netrig_core::Instant;

use crate::tcp::config::{Config, Recovery, WindowCounts};
use crate::tcp::ranges::Ranges;

/// The segment is selectively acknowledged.
const SACKED: u8 = 1;
/// The segment counts as lost.
const LOST: u8 = 2;
/// The last retransmission of the segment counts as in flight.
const RETRANSMISSION_IN_FLIGHT: u8 = 4;
/// The segment was sent more than once.
const RETRANSMITTED: u8 = 8;

/// An outstanding segment. It begins at the end of the preceding segment.
#[derive(Clone, Copy, Debug)]
struct SentSegment {
    end: u64,
    sent_at: Instant,
    len: u32,
    marks: u8,
}

impl SentSegment {
    const fn has(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }

    const fn awaits_retransmission(&self) -> bool {
        self.marks & (SACKED | LOST | RETRANSMISSION_IN_FLIGHT) == LOST
    }

    /// Number of copies in flight (RFC 6675 section 4, SetPipe).
    const fn copies(&self) -> u64 {
        if self.has(SACKED) { 0 } else { !self.has(LOST) as u64 + self.has(RETRANSMISSION_IN_FLIGHT) as u64 }
    }
}

/// The data that one acknowledgement reports as arrived.
#[derive(Clone, Debug)]
pub(crate) struct Delivered {
    /// Amount newly acknowledged, cumulatively or selectively, in the window's unit.
    pub amount: u64,
    /// Amount newly covered by the acknowledgement number, in the window's unit.
    pub acknowledged: u64,
    /// Whether the acknowledgement number covers a retransmitted segment.
    pub repeated: bool,
    /// Whether a selective acknowledgement covers a retransmitted segment.
    pub repeated_sacked: bool,
    /// Earliest send time of a newly acknowledged segment that was never retransmitted.
    pub earliest_original: Option<Instant>,
    /// The same as `earliest_original`, but only for segments that end after `timed_beyond`.
    pub timed: Option<Instant>,
    /// Smallest end of a newly acknowledged segment that was never retransmitted.
    pub original_end: u64,
    /// Send time and end of the newly acknowledged segment that was sent last. A segment is ignored if its last
    /// retransmission is more recent than the smallest round-trip time, because an earlier transmission must have
    /// arrived.
    pub latest: Option<(Instant, u64)>,
    /// Whether a newly acknowledged segment that was never retransmitted arrived after a segment with higher offsets.
    pub reordered: bool,
    /// A retransmitted segment counts in `latest` only if it was last sent at or before this time. `None` if losses are
    /// not detected by time; then `latest` and `reordered` are not set.
    plausible_until: Option<Instant>,
    /// A segment counts in `timed` only if it ends after this offset.
    timed_beyond: u64,
    /// The largest offset acknowledged before this acknowledgement.
    highest_before: Option<u64>,
}

impl Delivered {
    /// No data has arrived. The fields describe `plausible_until` and `timed_beyond`.
    pub fn new(plausible_until: Option<Instant>, timed_beyond: u64) -> Self {
        Self {
            amount: 0,
            acknowledged: 0,
            repeated: false,
            repeated_sacked: false,
            earliest_original: None,
            timed: None,
            original_end: u64::MAX,
            latest: None,
            reordered: false,
            plausible_until,
            timed_beyond,
            highest_before: None,
        }
    }

    #[inline]
    fn add(&mut self, sent: &SentSegment, amount: u64, highest: u64) {
        self.amount += amount;
        let repeated = sent.has(RETRANSMITTED);
        if !repeated {
            // The send time may decrease: selectively acknowledged segments are added before cumulatively acknowledged
            // segments with lower offsets.
            let earliest =
                |so_far: Option<Instant>| Some(so_far.map_or(sent.sent_at, |at| at.min(sent.sent_at)));
            self.earliest_original = earliest(self.earliest_original);
            if sent.end > self.timed_beyond {
                self.timed = earliest(self.timed);
            }
            self.original_end = self.original_end.min(sent.end);
        }
        let Some(plausible_until) = self.plausible_until else { return };
        if !repeated {
            // If one acknowledgement covers data below a gap and data beyond it, that is not reordering (Linux:
            // `prior_fack` in tcp_clean_rtx_queue, net/ipv4/tcp_input.c).
            self.reordered |= sent.end < *self.highest_before.get_or_insert(highest);
        }
        if !repeated || sent.sent_at <= plausible_until {
            self.latest = self.latest.max(Some((sent.sent_at, sent.end)));
        }
    }
}

/// The outstanding segments and the state of each.
///
/// Most acknowledgements cost a binary search, and constant time for each segment that changes state. Functions that
/// may visit all outstanding segments are documented as such. They are for rare events, such as a time-out.
#[derive(Clone, Debug)]
pub(crate) struct Scoreboard {
    sent: VecDeque<SentSegment>,
    /// Number of the first segment in `sent`. Segments are counted from the start of the connection.
    first: u64,
    una: u64,
    nxt: u64,
    /// Weight of every segment if the window counts packets; `None` if it counts bytes.
    per_packet: Option<u64>,
    outstanding: u64,
    in_flight: u64,
    sacked: Ranges,
    sacked_segments: u32,
    sacked_amount: u64,
    /// Number of lost segments that have not been retransmitted.
    awaiting: u32,
    /// All segments that await retransmission have at least this number.
    resend_from: u64,
    /// All segments before this number have been checked against the selective acknowledgements above them.
    judged: u64,
    /// The largest acknowledged offset, cumulatively or selectively.
    highest: u64,
    /// Segment number and send time of each transmission, in the order of time. `None` if losses are not detected by
    /// time.
    order: Option<VecDeque<(u64, Instant)>>,
}

impl Scoreboard {
    /// An empty scoreboard; the next new byte has the offset `start`.
    pub fn new(config: &Config, smss: u64, start: u64) -> Self {
        Self {
            sent: VecDeque::new(),
            first: 0,
            una: start,
            nxt: start,
            per_packet: (config.window_counts == WindowCounts::Packets).then_some(smss),
            outstanding: 0,
            in_flight: 0,
            sacked: Ranges::default(),
            sacked_segments: 0,
            sacked_amount: 0,
            awaiting: 0,
            resend_from: 0,
            judged: 0,
            highest: start,
            order: (config.recovery == Recovery::Rack).then(VecDeque::new),
        }
    }

    /// SND.UNA: the oldest unacknowledged offset.
    pub fn una(&self) -> u64 {
        self.una
    }

    /// SND.NXT: the offset of the next new data.
    pub fn nxt(&self) -> u64 {
        self.nxt
    }

    /// Amount that is not cumulatively acknowledged: FlightSize (RFC 5681 section 2).
    pub fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// Amount that counts as in flight: pipe (RFC 6675 section 2).
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    pub fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// Number of outstanding segments.
    pub fn segments(&self) -> usize {
        self.sent.len()
    }

    /// Amount that is selectively acknowledged and still outstanding.
    pub fn sacked_amount(&self) -> u64 {
        self.sacked_amount
    }

    pub fn sacked_segments(&self) -> u32 {
        self.sacked_segments
    }

    /// Whether a lost segment has not been retransmitted.
    pub fn awaits_retransmission(&self) -> bool {
        self.awaiting > 0
    }

    /// Whether a segment that is not acknowledged counts as lost, retransmitted or not. May visit all segments.
    pub fn misses_any(&self) -> bool {
        self.sent.iter().any(|sent| sent.marks & (LOST | SACKED) == LOST)
    }

    /// Number of unacknowledged segments whose last retransmission counts as in flight, and the earliest send time of
    /// these retransmissions. Visits all segments.
    pub fn resent(&self) -> (u32, Option<Instant>) {
        let resent = || {
            self.sent
                .iter()
                .filter(|sent| sent.marks & (RETRANSMISSION_IN_FLIGHT | SACKED) == RETRANSMISSION_IN_FLIGHT)
        };
        (resent().count() as u32, resent().map(|sent| sent.sent_at).min())
    }

    /// Whether the peer has received data beyond a gap.
    pub fn has_gaps(&self) -> bool {
        self.sacked_segments > 0
    }

    /// Weight of a segment of `len` bytes in the window's unit.
    pub fn weight(&self, len: u64) -> u64 {
        self.per_packet.unwrap_or(len)
    }

    fn index(&self, number: u64) -> usize {
        number.saturating_sub(self.first) as usize
    }

    /// Records that a new segment from SND.NXT to `end` is sent.
    pub fn push(&mut self, now: Instant, end: u64) {
        let len = (end - self.nxt) as u32;
        let weight = self.weight(u64::from(len));
        if let Some(order) = &mut self.order {
            order.push_back((self.first + self.sent.len() as u64, now));
        }
        self.sent.push_back(SentSegment { end, sent_at: now, len, marks: 0 });
        self.nxt = end;
        self.outstanding += weight;
        self.in_flight += weight;
    }

    /// Records that all data before `ack` is acknowledged.
    pub fn acknowledge(&mut self, ack: u64, delivered: &mut Delivered) {
        while let Some(first) = self.sent.front().copied().filter(|first| first.end <= ack) {
            let weight = self.weight(u64::from(first.len));
            self.outstanding -= weight;
            self.in_flight -= first.copies() * weight;
            self.awaiting -= u32::from(first.awaits_retransmission());
            delivered.acknowledged += weight;
            delivered.repeated |= first.has(RETRANSMITTED);
            if first.has(SACKED) {
                self.sacked_segments -= 1;
                self.sacked_amount -= weight;
            } else {
                delivered.add(&first, weight, self.highest);
            }
            self.sent.pop_front();
            self.first += 1;
        }
        self.acknowledge_part(ack, delivered);
        if let Some(order) = &mut self.order {
            while order.front().is_some_and(|(number, _)| *number < self.first) {
                order.pop_front();
            }
        }
        self.una = ack;
        self.highest = self.highest.max(ack);
        self.sacked.remove_before(ack);
    }

    /// Handles an acknowledgement of part of the first segment.
    fn acknowledge_part(&mut self, ack: u64, delivered: &mut Delivered) {
        let Some(mut first) = self.sent.front().copied() else { return };
        let left = (first.end - ack).min(u64::from(first.len));
        if left == u64::from(first.len) {
            return;
        }
        let less = self.weight(u64::from(first.len)) - self.weight(left);
        self.outstanding -= less;
        self.in_flight -= first.copies() * less;
        if first.has(SACKED) {
            self.sacked_amount -= less;
        } else {
            delivered.amount += less;
        }
        delivered.acknowledged += less;
        first.len = left as u32;
        self.sent[0] = first;
    }

    /// Records that the peer has received `start..end`. Returns whether part of it is newly acknowledged.
    pub fn sack(&mut self, start: u64, end: u64, delivered: &mut Delivered) -> bool {
        let (start, end) = (start.max(self.una), end.min(self.nxt));
        if start >= end {
            return false;
        }
        let mut news: Option<u64> = None;
        let merged = self.sacked.insert(start, end, |fresh, _| {
            news.get_or_insert(fresh);
        });
        let Some(fresh) = news else { return false };
        let mut i = self.sent.partition_point(|sent| sent.end <= fresh);
        while let Some(sent) =
            self.sent.get(i).copied().filter(|sent| sent.end <= merged.1 && sent.end <= end)
        {
            if !sent.has(SACKED) && sent.end - u64::from(sent.len) >= merged.0 {
                self.mark_sacked(i, sent, delivered);
            }
            i += 1;
        }
        self.highest = self.highest.max(end);
        true
    }

    fn mark_sacked(&mut self, i: usize, sent: SentSegment, delivered: &mut Delivered) {
        let weight = self.weight(u64::from(sent.len));
        self.in_flight -= sent.copies() * weight;
        self.awaiting -= u32::from(sent.awaits_retransmission());
        self.sacked_segments += 1;
        self.sacked_amount += weight;
        delivered.add(&sent, weight, self.highest);
        delivered.repeated_sacked |= sent.has(RETRANSMITTED);
        self.sent[i].marks |= SACKED;
    }

    /// Marks the first outstanding segment as lost, including its last retransmission.
    pub fn mark_first_lost(&mut self) {
        if !self.sent.is_empty() {
            self.mark_lost(0);
        }
    }

    /// Returns false if the segment is acknowledged or already awaits retransmission.
    fn mark_lost(&mut self, i: usize) -> bool {
        let sent = self.sent[i];
        if sent.has(SACKED) || sent.awaits_retransmission() {
            return false;
        }
        let weight = self.weight(u64::from(sent.len));
        self.in_flight -= sent.copies() * weight;
        self.sent[i].marks = sent.marks & !RETRANSMISSION_IN_FLIGHT | LOST;
        self.awaiting += 1;
        self.resend_from = self.resend_from.min(self.first + i as u64);
        true
    }

    /// RFC 6675 section 4, IsLost: a segment is lost if at least `threshold` ranges above it, or more than (`threshold`
    /// − 1) SMSS above it, are selectively acknowledged. Marks all such segments. Returns whether any is newly marked.
    pub fn judge_by_sacks(&mut self, threshold: u32, smss: u64) -> bool {
        let mut bytes = 0;
        let mut bound = None;
        for (n, (start, end)) in self.sacked.iter().rev().enumerate() {
            bytes += end - start;
            if n as u32 + 1 >= threshold || bytes > u64::from(threshold - 1) * smss {
                bound = Some(start);
                break;
            }
        }
        let Some(bound) = bound else { return false };
        let mut any = false;
        let mut i = self.index(self.judged);
        while self.sent.get(i).is_some_and(|sent| sent.end <= bound) {
            any |= !self.sent[i].has(LOST) && self.mark_lost(i);
            i += 1;
        }
        self.judged = self.first + i as u64;
        any
    }

    /// After a time-out, counts all segments without selective acknowledgement as lost. RFC 6675 section 5.1 does not
    /// specify which of them are retransmitted; here, all of them are. Visits all segments.
    pub fn mark_all_lost(&mut self) {
        for i in 0..self.sent.len() {
            self.mark_lost(i);
        }
        self.judged = self.first + self.sent.len() as u64;
    }

    /// RFC 8985 section 6.2, step 5. `latest` is the send time and end of a transmission that is known to have arrived.
    /// `patience` is RACK.rtt + RACK.reo_wnd. A segment is lost if it was sent before `latest` and at least `patience`
    /// ago. Returns whether any segment is newly marked, and the time at which the next one will be lost.
    pub fn judge_by_time(
        &mut self,
        now: Instant,
        latest: (Instant, u64),
        patience: netrig_core::Duration,
    ) -> (bool, Option<Instant>) {
        let mut any = false;
        while let Some(&(number, at)) = self.order.as_ref().and_then(VecDeque::front) {
            let current = number
                .checked_sub(self.first)
                .and_then(|i| self.sent.get(i as usize))
                .filter(|sent| sent.sent_at == at && !sent.has(SACKED) && !sent.awaits_retransmission());
            if let Some(sent) = current {
                if (at, sent.end) >= latest {
                    break;
                }
                if at + patience > now {
                    return (any, Some(at + patience));
                }
                any |= self.mark_lost(self.index(number));
            }
            if let Some(order) = &mut self.order {
                order.pop_front();
            }
        }
        (any, None)
    }

    /// Index of the next segment to retransmit, for [`Scoreboard::resend`], and its length.
    pub fn next_lost(&mut self) -> Option<(usize, u64)> {
        if self.awaiting == 0 {
            return None;
        }
        let mut i = self.index(self.resend_from);
        while !self.sent.get(i)?.awaits_retransmission() {
            i += 1;
        }
        self.resend_from = self.first + i as u64;
        Some((i, u64::from(self.sent[i].len)))
    }

    /// Index and length of the first segment that ends after the offset `from` and is not selectively acknowledged,
    /// lost or retransmitted. It must end at or before the highest acknowledged offset. May visit all segments.
    pub fn first_missing(&self, from: u64) -> Option<(usize, u64)> {
        let start = self.sent.partition_point(|sent| sent.end <= from);
        let below = self.sent.range(start..).take_while(|sent| sent.end <= self.highest);
        let (i, sent) = (start..)
            .zip(below)
            .find(|(_, sent)| sent.marks & (SACKED | LOST | RETRANSMISSION_IN_FLIGHT) == 0)?;
        Some((i, u64::from(sent.len)))
    }

    /// Index and length of the last segment that is not selectively acknowledged. May visit all segments.
    pub fn last_missing(&self) -> Option<(usize, u64)> {
        let i = self.sent.iter().rposition(|sent| !sent.has(SACKED))?;
        Some((i, u64::from(self.sent[i].len)))
    }

    /// Records that the `i`-th outstanding segment is retransmitted. Returns its range of offsets.
    pub fn resend(&mut self, now: Instant, i: usize) -> (u64, u64) {
        let sent = self.sent[i];
        self.awaiting -= u32::from(sent.awaits_retransmission());
        if !sent.has(RETRANSMISSION_IN_FLIGHT) {
            self.in_flight += self.weight(u64::from(sent.len));
        }
        self.sent[i].marks |= RETRANSMISSION_IN_FLIGHT | RETRANSMITTED;
        self.sent[i].sent_at = now;
        if let Some(order) = &mut self.order {
            order.push_back((self.first + i as u64, now));
        }
        (sent.end - u64::from(sent.len), sent.end)
    }

    /// Handles spurious losses: lost segments count as in flight again. Visits all segments.
    pub fn forgive_losses(&mut self) {
        for i in 0..self.sent.len() {
            let sent = self.sent[i];
            if sent.has(LOST) && !sent.has(SACKED) {
                self.awaiting -= u32::from(sent.awaits_retransmission());
                self.in_flight += self.weight(u64::from(sent.len));
            }
            self.sent[i].marks &= !LOST;
        }
        self.resend_from = self.first + self.sent.len() as u64;
        self.order_anew();
    }

    /// Rebuilds `order`. A transmission is removed from `order` when it is judged. Transmissions that count as in
    /// flight again must be judged again.
    fn order_anew(&mut self) {
        let Some(order) = &mut self.order else { return };
        let missing = self.sent.iter().zip(self.first..).filter(|(sent, _)| !sent.has(SACKED));
        let mut anew: Vec<_> = missing.map(|(sent, number)| (number, sent.sent_at)).collect();
        anew.sort_by_key(|(number, at)| (*at, *number));
        *order = anew.into();
    }
}

#[cfg(test)]
mod tests;
