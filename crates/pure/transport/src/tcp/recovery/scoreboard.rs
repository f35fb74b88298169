//! What was sent and is not yet acknowledged, segment by segment (RFC 6675 section 3).

use std::collections::VecDeque;

use netrig_core::Instant;

use crate::tcp::config::{Config, Recovery, WindowCounts};
use crate::tcp::ranges::Ranges;

/// The peer has it, out of order.
const SACKED: u8 = 1;
/// Deemed lost.
const LOST: u8 = 2;
/// Sent again, and the copy is deemed to be on its way.
const RESENT: u8 = 4;
/// Sent more than once.
const REPEATED: u8 = 8;

/// One segment as it was sent. It begins where the one before it ends.
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

    const fn awaits_resending(&self) -> bool {
        self.marks & (SACKED | LOST | RESENT) == LOST
    }

    /// How many copies are on their way (RFC 6675 section 4, SetPipe).
    const fn copies(&self) -> u64 {
        if self.has(SACKED) { 0 } else { !self.has(LOST) as u64 + self.has(RESENT) as u64 }
    }
}

/// What one acknowledgement tells of what arrived.
#[derive(Clone, Debug)]
pub(crate) struct Delivered {
    /// Newly known to have arrived, cumulatively or selectively, in the window's unit.
    pub amount: u64,
    /// Newly acknowledged by the acknowledgement number, in the window's unit.
    pub acknowledged: u64,
    /// Whether the acknowledgement number covers something that was sent more than once.
    pub repeated: bool,
    /// Whether a selective acknowledgement covers something that was sent more than once.
    pub repeated_sacked: bool,
    /// When the first of those that were sent once was sent.
    pub earliest_original: Option<Instant>,
    /// The same, but only if it lies beyond the segment that was timed last.
    pub timed: Option<Instant>,
    /// The smallest end of a segment that was sent once.
    pub original_end: u64,
    /// When the last of them was sent, and where it ends. A repeated segment that was sent less than the
    /// smallest round-trip time ago does not count: its first copy arrived.
    pub latest: Option<(Instant, u64)>,
    /// Whether something arrived that had been sent once, and before something known to have arrived earlier.
    pub reordered: bool,
    /// Repeated segments count in `latest` if they were sent at or before this. Nothing if losses are not found by time: then
    /// neither `latest` nor `reordered` is told.
    plausible_until: Option<Instant>,
    /// Segments that end at or before this do not count in `timed`.
    timed_beyond: u64,
    /// The largest offset that was known to have arrived before this acknowledgement.
    highest_before: Option<u64>,
}

impl Delivered {
    /// An empty account. See the fields for `plausible_until` and `timed_beyond`.
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
        let repeated = sent.has(REPEATED);
        if !repeated {
            // An acknowledgement may report what came out of order before it tells what it acknowledges below that.
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
            // One acknowledgement may tell of what waited for it and of what lies beyond a gap: that is no reordering
            // (Linux: `prior_fack` in tcp_clean_rtx_queue, net/ipv4/tcp_input.c).
            self.reordered |= sent.end < *self.highest_before.get_or_insert(highest);
        }
        if !repeated || sent.sent_at <= plausible_until {
            self.latest = self.latest.max(Some((sent.sent_at, sent.end)));
        }
    }
}

/// The outstanding segments and what is known of each.
///
/// Each segment is marked and unmarked a bounded number of times, so that an acknowledgement costs a search
/// in the worst case (logarithmic) and nothing in proportion to the window.
#[derive(Clone, Debug)]
pub(crate) struct Scoreboard {
    sent: VecDeque<SentSegment>,
    /// The number of the first record in `sent`, counted since the start of the connection.
    first: u64,
    una: u64,
    nxt: u64,
    /// What a segment of any length weighs, if packets are counted.
    per_packet: Option<u64>,
    outstanding: u64,
    in_flight: u64,
    sacked: Ranges,
    sacked_segments: u32,
    sacked_amount: u64,
    awaiting: u32,
    /// No record before this number awaits resending.
    resend_from: u64,
    /// Records before this number were judged by what is selectively acknowledged above them.
    judged: u64,
    /// The largest offset known to have arrived.
    highest: u64,
    /// Transmissions in order of time, if losses are found by time: number and moment.
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

    /// SND.UNA: the oldest offset that is not acknowledged.
    pub fn una(&self) -> u64 {
        self.una
    }

    /// SND.NXT: the offset of what is sent next for the first time.
    pub fn nxt(&self) -> u64 {
        self.nxt
    }

    /// All that is not acknowledged cumulatively: FlightSize (RFC 5681 section 2).
    pub fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// What is deemed to be on its way: pipe (RFC 6675 section 2).
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    pub fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// How many segments are outstanding.
    pub fn segments(&self) -> usize {
        self.sent.len()
    }

    /// Selectively acknowledged and still outstanding.
    pub fn sacked_amount(&self) -> u64 {
        self.sacked_amount
    }

    pub fn sacked_segments(&self) -> u32 {
        self.sacked_segments
    }

    /// Whether anything deemed lost waits to be sent again.
    pub fn has_losses(&self) -> bool {
        self.awaiting > 0
    }

    /// Whether anything is deemed lost that has not arrived since, sent again or not.
    pub fn misses_any(&self) -> bool {
        self.sent.iter().any(|sent| sent.marks & (LOST | SACKED) == LOST)
    }

    /// Segments that were sent again and have not arrived, and when the first of them was.
    pub fn resent(&self) -> (u32, Option<Instant>) {
        let resent = || self.sent.iter().filter(|sent| sent.marks & (RESENT | SACKED) == RESENT);
        (resent().count() as u32, resent().map(|sent| sent.sent_at).min())
    }

    /// Whether the peer has something beyond what it is missing.
    pub fn has_gaps(&self) -> bool {
        self.sacked_segments > 0
    }

    /// What a segment of `len` weighs in the window's unit.
    pub fn weight(&self, len: u64) -> u64 {
        self.per_packet.unwrap_or(len)
    }

    fn index(&self, number: u64) -> usize {
        number.saturating_sub(self.first) as usize
    }

    /// A new segment from SND.NXT to `end` goes out.
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

    /// Everything before `ack` is acknowledged.
    pub fn acknowledge(&mut self, ack: u64, delivered: &mut Delivered) {
        while let Some(first) = self.sent.front().copied().filter(|first| first.end <= ack) {
            let weight = self.weight(u64::from(first.len));
            self.outstanding -= weight;
            self.in_flight -= first.copies() * weight;
            self.awaiting -= u32::from(first.awaits_resending());
            delivered.acknowledged += weight;
            delivered.repeated |= first.has(REPEATED);
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

    /// A part of the first segment may be acknowledged: one that was cut otherwise the first time.
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

    /// The peer has `start..end`. Tells whether any of it is news.
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
        self.awaiting -= u32::from(sent.awaits_resending());
        self.sacked_segments += 1;
        self.sacked_amount += weight;
        delivered.add(&sent, weight, self.highest);
        delivered.repeated_sacked |= sent.has(REPEATED);
        self.sent[i].marks |= SACKED;
    }

    /// Marks the first outstanding segment lost; a copy of it that was sent is lost too.
    pub fn mark_first_lost(&mut self) {
        if !self.sent.is_empty() {
            self.mark_lost(0);
        }
    }

    /// Returns whether the segment was not yet awaiting resending.
    fn mark_lost(&mut self, i: usize) -> bool {
        let sent = self.sent[i];
        if sent.has(SACKED) || sent.awaits_resending() {
            return false;
        }
        let weight = self.weight(u64::from(sent.len));
        self.in_flight -= sent.copies() * weight;
        self.sent[i].marks = sent.marks & !RESENT | LOST;
        self.awaiting += 1;
        self.resend_from = self.resend_from.min(self.first + i as u64);
        true
    }

    /// RFC 6675 section 4, IsLost: a segment is lost if `threshold` ranges above it, or more than
    /// (`threshold` − 1) SMSS, are selectively acknowledged. Marks all of them; tells whether there were any.
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

    /// RFC 6675 section 5.1: after a time-out all that is not selectively acknowledged is deemed lost.
    pub fn mark_all_lost(&mut self) {
        for i in 0..self.sent.len() {
            self.mark_lost(i);
        }
        self.judged = self.first + self.sent.len() as u64;
    }

    /// RFC 8985 section 6.2, step 5: what was sent before `latest` (a transmission known to have arrived) and
    /// more than `patience` ago is lost. Returns whether any was, and when the next one will be.
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
                .filter(|sent| sent.sent_at == at && !sent.has(SACKED) && !sent.awaits_resending());
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

    /// The next segment to send again: its place for [`Scoreboard::resend`] and its length.
    pub fn next_lost(&mut self) -> Option<(usize, u64)> {
        if self.awaiting == 0 {
            return None;
        }
        let mut i = self.index(self.resend_from);
        while !self.sent.get(i)?.awaits_resending() {
            i += 1;
        }
        self.resend_from = self.first + i as u64;
        Some((i, u64::from(self.sent[i].len)))
    }

    /// The first segment after the offset `from` that is neither known to have arrived nor deemed lost, while something beyond
    /// it has arrived: its place and its length.
    pub fn first_missing(&self, from: u64) -> Option<(usize, u64)> {
        let start = self.sent.partition_point(|sent| sent.end <= from);
        let below = self.sent.range(start..).take_while(|sent| sent.end <= self.highest);
        let (i, sent) = (start..).zip(below).find(|(_, sent)| sent.marks & (SACKED | LOST | RESENT) == 0)?;
        Some((i, u64::from(sent.len)))
    }

    /// The last segment that the peer is not known to have: its place and its length.
    pub fn last_missing(&self) -> Option<(usize, u64)> {
        let i = self.sent.iter().rposition(|sent| !sent.has(SACKED))?;
        Some((i, u64::from(self.sent[i].len)))
    }

    /// The `i`-th outstanding segment goes out again; returns the range of offsets that it takes.
    pub fn resend(&mut self, now: Instant, i: usize) -> (u64, u64) {
        let sent = self.sent[i];
        self.awaiting -= u32::from(sent.awaits_resending());
        if !sent.has(RESENT) {
            self.in_flight += self.weight(u64::from(sent.len));
        }
        self.sent[i].marks |= RESENT | REPEATED;
        self.sent[i].sent_at = now;
        if let Some(order) = &mut self.order {
            order.push_back((self.first + i as u64, now));
        }
        (sent.end - u64::from(sent.len), sent.end)
    }

    /// Nothing was lost after all: what waits to be sent again is on its way.
    pub fn forgive_losses(&mut self) {
        for i in 0..self.sent.len() {
            let sent = self.sent[i];
            if sent.has(LOST) && !sent.has(SACKED) {
                self.awaiting -= u32::from(sent.awaits_resending());
                self.in_flight += self.weight(u64::from(sent.len));
            }
            self.sent[i].marks &= !LOST;
        }
        self.resend_from = self.first + self.sent.len() as u64;
        self.order_anew();
    }

    /// Transmissions leave `order` when they are judged; what was forgiven is to be judged again.
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
