//! The receiving half: reassembly, the window, and acknowledgements.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use netrig_core::{ConnectionEvent, Data, Duration, Instant, StreamId};

use super::config::Config;
use super::ranges::Ranges;
use super::segment::SackBlocks;
use crate::{Counters, Serial, TimerWheel};

/// Segment size of the peer that is assumed before its first segment arrives, bytes (RFC 9293 section 3.7.1).
const DEFAULT_SEGMENT: u64 = 536;
/// After this time without data, the next acknowledgements are not delayed. Linux uses a retransmission time-out, which
/// the receiving half does not have.
const IDLE: Duration = Duration::from_secs(1);

/// Whether an acknowledgement is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PendingAck {
    No,
    /// With the next data segment, or in a segment without data at this time.
    By(Instant),
    /// Immediately, with data if there is any.
    Now,
    /// Immediately and without data, because the peer counts duplicates (RFC 5681 section 2).
    Alone,
}

/// The received stream. Positions are offsets: 0 is the peer's SYN, and its data begins at 1.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    /// The peer's initial sequence number.
    irs: Serial,
    /// RCV.NXT.
    next: u64,
    /// Received ranges beyond RCV.NXT, including the FIN. `content` has their bytes, by offset, except data without
    /// content.
    beyond: Ranges,
    content: BTreeMap<u64, Arc<[u8]>>,
    /// Offset of the peer's FIN, if it has arrived.
    fin_at: Option<u64>,

    buffer: u64,
    shift: u8,
    /// RCV.NXT + RCV.WND: the right edge of the advertised window.
    edge: u64,
    /// In-order data that the user has not yet read.
    unread: VecDeque<Data>,
    unread_len: u64,
    reading: bool,

    owed: PendingAck,
    unacknowledged: u64,
    largest_segment: u64,
    /// Number of data bytes received. Each byte is counted once.
    arrived: u64,
    ack_every: u64,
    ack_delay: Duration,
    quick_acks: u32,
    quick_left: u32,
    last_data: Instant,
    wheel: TimerWheel,

    sack: bool,
    dsack: bool,
    /// Offsets in the ranges that changed last, the most recent first (RFC 2018 section 4).
    recent: [u64; SackBlocks::MAX],
    /// A range that was received twice and must be reported once (RFC 2883 section 4).
    duplicate: Option<(u64, u64)>,

    /// Whether congestion was experienced and the peer has not yet confirmed a reduction (RFC 3168 section 6.1.3).
    pub echo_congestion: bool,
    /// TS.Recent and Last.ACK.sent (RFC 7323 section 4.3).
    recent_timestamp: u32,
    last_ack_sent: u64,

    /// Number of bytes without content received since the last `take_ignored`. `None` if such data raises events.
    pub ignored: Option<u64>,
}

impl Receiver {
    pub fn new(config: &Config) -> Self {
        Self {
            irs: Serial(0),
            next: 0,
            beyond: Ranges::default(),
            content: BTreeMap::new(),
            fin_at: None,
            buffer: config.receive_buffer.bytes().max(1),
            shift: 0,
            edge: 0,
            unread: VecDeque::new(),
            unread_len: 0,
            reading: true,
            owed: PendingAck::No,
            unacknowledged: 0,
            largest_segment: DEFAULT_SEGMENT.min(config.mss.bytes()),
            arrived: 0,
            ack_every: u64::from(config.ack_every.max(1)),
            ack_delay: config.ack_delay,
            quick_acks: config.quick_acks,
            quick_left: config.quick_acks,
            last_data: Instant::ZERO,
            wheel: config.timer_wheel,
            sack: false,
            dsack: config.dsack,
            recent: [0; SackBlocks::MAX],
            duplicate: None,
            echo_congestion: false,
            recent_timestamp: 0,
            last_ack_sent: 0,
            ignored: None,
        }
    }

    /// Takes the initial sequence number and timestamp of the peer's SYN.
    pub fn synchronise(&mut self, irs: Serial, timestamp: u32) {
        (self.irs, self.next, self.edge) = (irs, 1, 1 + self.window());
        // Last.ACK.sent is after the SYN, because the SYN is acknowledged before any data.
        (self.recent_timestamp, self.last_ack_sent) = (timestamp, self.next);
    }

    /// Takes the negotiated options: this end's window scale, and whether SACK is used.
    pub fn agree(&mut self, shift: u8, sack: bool) {
        self.shift = shift;
        self.sack = sack;
        self.buffer = self.buffer.min(0xffff << shift);
        self.edge = self.next + self.window();
    }

    /// Number of data bytes received, in order or not. Each byte is counted once.
    #[inline]
    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    /// RCV.NXT as an offset.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// RCV.NXT as a sequence number.
    pub fn next_number(&self) -> Serial {
        self.number(self.next)
    }

    fn number(&self, offset: u64) -> Serial {
        self.irs.plus(offset as u32)
    }

    /// The offset of a sequence number: the one nearest to RCV.NXT. Negative if it is before the SYN.
    pub fn offset(&self, number: Serial) -> i64 {
        self.next as i64 + i64::from(number.offset_from(self.next_number()))
    }

    /// Whether the peer's FIN and all data before it have arrived.
    pub fn is_finished(&self) -> bool {
        self.fin_at.is_some_and(|fin| self.next > fin)
    }

    /// Whether the user has read all in-order data.
    pub fn is_read(&self) -> bool {
        self.unread.is_empty()
    }

    /// RFC 9293 section 3.10.7.4, first step: whether a segment of `len` sequence numbers overlaps the window.
    pub fn is_acceptable(&self, start: i64, len: u64) -> bool {
        let (next, edge) = (self.next as i64, self.edge as i64);
        let end = start + len as i64;
        match len {
            // A segment without data may be at the right edge: the peer has then used the whole window.
            0 => next <= start && start <= edge,
            // A FIN without data needs no room in the window.
            1 if start == next => true,
            _ => start < edge && end > next,
        }
    }

    /// Schedules an acknowledgement without delay, with data if there is any.
    pub fn owe(&mut self) {
        self.owed = match self.owed {
            PendingAck::Alone => PendingAck::Alone,
            _ => PendingAck::Now,
        };
    }

    /// Schedules an acknowledgement without delay and without data.
    pub fn owe_alone(&mut self) {
        self.owed = PendingAck::Alone;
    }

    /// Whether [`Receiver::accept_in_order`] can accept `data`: it has no content and fits the window, and no data
    /// beyond it has arrived.
    #[inline]
    pub fn is_next_in_order(&self, data: &Data) -> bool {
        let Data::Fill(len) = *data else { return false };
        len > 0 && self.fin_at.is_none() && self.beyond.is_empty() && self.next + len <= self.edge
    }

    /// Has the same effect as [`Receiver::accept`] for data that passed [`Receiver::is_next_in_order`].
    #[inline]
    pub fn accept_in_order(
        &mut self,
        now: Instant,
        len: u64,
        events: &mut VecDeque<ConnectionEvent>,
        counters: &mut Counters,
    ) {
        counters.data_packets_received += 1;
        self.largest_segment = self.largest_segment.max(len);
        self.arrived += len;
        self.next += len;
        self.hand_over(Data::Fill(len), events, counters);
        self.owe_for(now, len);
    }

    /// Accepts the data and FIN of a segment that passed [`Receiver::is_acceptable`].
    pub fn accept(
        &mut self,
        now: Instant,
        start: i64,
        mut data: Data,
        fin: bool,
        events: &mut VecDeque<ConnectionEvent>,
        counters: &mut Counters,
    ) {
        let len = data.size();
        let end = (start + len as i64).max(0) as u64;
        if len > 0 {
            counters.data_packets_received += 1;
            self.largest_segment = self.largest_segment.max(len);
        }
        if fin && end <= self.edge && self.fin_at.is_none() {
            self.fin_at = Some(end);
        }
        if start == self.next as i64 && self.beyond.is_empty() && end <= self.edge {
            self.next = end;
            self.arrived += len;
            self.hand_over(data, events, counters);
            self.owe_for(now, len);
        } else if len > 0 {
            let before = (self.next as i64 - start).max(0) as u64;
            if before > 0 {
                self.note_duplicate(start.max(0) as u64, end.min(self.next));
                counters.bytes_duplicated += before.min(len);
                data.split_front(before);
            }
            let from = start.max(self.next as i64) as u64;
            let room = self.edge.saturating_sub(from);
            let data = if data.size() > room { data.split_front(room) } else { data };
            self.fill(from, data, events, counters);
        }
        match self.fin_at {
            Some(fin) if fin == self.next => {
                self.next += 1;
                self.beyond.remove_before(self.next);
                self.owe();
            }
            // A FIN has its own sequence number (RFC 9293 section 3.4), which SACK covers like any other.
            Some(fin) if fin > self.next && self.beyond.containing(fin).is_none() => {
                self.beyond.insert(fin, fin + 1, |_, _| {});
                self.note_recent(fin);
                self.owe_alone();
            }
            _ if fin && !self.is_finished() => self.owe_alone(),
            _ => {}
        }
    }

    /// Accepts data that is out of order or adjacent to data received out of order.
    fn fill(
        &mut self,
        from: u64,
        data: Data,
        events: &mut VecDeque<ConnectionEvent>,
        counters: &mut Counters,
    ) {
        let end = from + data.size();
        if from == end {
            // All data is duplicate: RFC 9293 section 3.10.7.4 requires an acknowledgement.
            self.owe_alone();
            return;
        }
        let content = &mut self.content;
        let mut fresh_len = 0;
        self.beyond.insert(from, end, |fresh, fresh_end| {
            fresh_len += fresh_end - fresh;
            if let Data::Bytes(bytes) = &data {
                let part = &bytes[(fresh - from) as usize..(fresh_end - from) as usize];
                content.insert(fresh, part.into());
            }
        });
        self.arrived += fresh_len;
        if fresh_len < end - from {
            counters.bytes_duplicated += end - from - fresh_len;
            if fresh_len == 0 {
                self.note_duplicate(from, end);
            }
        }
        self.note_recent(from);
        match self.beyond.first() {
            Some((start, end)) if start <= self.next => {
                self.release(end, events, counters);
                // RFC 5681 section 4.2: acknowledge without delay if a gap is filled, completely or in part.
                self.owe();
            }
            // RFC 5681 section 4.2: also acknowledge without delay if data is out of order.
            _ => self.owe_alone(),
        }
    }

    /// Delivers all data up to `end`, which is now in order.
    fn release(&mut self, end: u64, events: &mut VecDeque<ConnectionEvent>, counters: &mut Counters) {
        let end = self.fin_at.map_or(end, |fin| end.min(fin));
        while self.next < end {
            let next = self.next;
            let stored = self.content.first_key_value().map(|(start, bytes)| (*start, bytes.clone()));
            let data = match stored {
                Some((start, bytes)) if start == next => {
                    self.content.pop_first();
                    Data::Bytes(bytes)
                }
                Some((start, _)) if start < end => Data::Fill(start - next),
                _ => Data::Fill(end - next),
            };
            self.next += data.size();
            self.hand_over(data, events, counters);
        }
        self.beyond.remove_before(end);
    }

    #[inline]
    fn hand_over(&mut self, data: Data, events: &mut VecDeque<ConnectionEvent>, counters: &mut Counters) {
        let len = data.size();
        if len == 0 {
            return;
        }
        if self.reading {
            self.give(data, events, counters);
        } else {
            self.unread_len += len;
            self.unread.push_back(data);
        }
    }

    /// Delivers data to the user. The data must not be empty.
    #[inline]
    fn give(&mut self, data: Data, events: &mut VecDeque<ConnectionEvent>, counters: &mut Counters) {
        let len = data.size();
        counters.bytes_delivered += len;
        if let (Some(ignored), Data::Fill(_)) = (&mut self.ignored, &data) {
            *ignored += len;
            return;
        }
        if let (Some(ConnectionEvent::Received { data: Data::Fill(last), .. }), Data::Fill(more)) =
            (events.back_mut(), &data)
        {
            *last += more;
            return;
        }
        events.push_back(ConnectionEvent::Received { stream: StreamId(0), data });
    }

    /// Stops or resumes the delivery of data as events. When it is resumed, all unread data is delivered.
    pub fn set_reading(
        &mut self,
        reading: bool,
        events: &mut VecDeque<ConnectionEvent>,
        counters: &mut Counters,
    ) {
        self.reading = reading;
        if reading {
            self.read(u64::MAX, events, counters);
        }
    }

    /// Delivers up to `bytes` of unread data, and returns the number of bytes delivered. Schedules an acknowledgement
    /// if the window opens by enough to avoid the silly window syndrome.
    pub fn read(
        &mut self,
        bytes: u64,
        events: &mut VecDeque<ConnectionEvent>,
        counters: &mut Counters,
    ) -> u64 {
        let taken = bytes.min(self.unread_len);
        let mut left = taken;
        while left > 0
            && let Some(front) = self.unread.front_mut()
        {
            let data = front.split_front(left);
            if front.size() == 0 {
                self.unread.pop_front();
            }
            left -= data.size();
            self.give(data, events, counters);
        }
        self.unread_len -= taken;
        // After its FIN, the peer needs no window.
        let opens = self.next + self.window() >= self.edge + self.least_opening();
        if taken > 0 && opens && self.fin_at.is_none() {
            self.owe();
        }
        taken
    }

    /// Number of bytes that the user has not read.
    pub fn unread(&self) -> u64 {
        self.unread_len
    }

    /// Drops unread data.
    pub fn discard_unread(&mut self) {
        self.unread.clear();
        self.unread_len = 0;
    }

    /// Schedules the acknowledgement of `len` bytes of in-order data (RFC 9293 section 3.8.6.3, RFC 5681 section 4.2).
    fn owe_for(&mut self, now: Instant, len: u64) {
        if len == 0 {
            return;
        }
        if now.since(self.last_data) > IDLE {
            self.quick_left = self.quick_acks;
        }
        self.last_data = now;
        self.unacknowledged += len;
        if self.quick_left > 0 {
            self.quick_left -= 1;
            self.owe();
        } else if self.unacknowledged > (self.ack_every - 1) * self.largest_segment {
            self.owe();
        } else if self.owed == PendingAck::No {
            self.owed = PendingAck::By(self.wheel.fires(now, self.ack_delay));
        }
    }

    /// Records that all data of a segment of `len` bytes at `start` had already been received.
    pub fn report_duplicate(&mut self, start: i64, len: u64) {
        if let Ok(start) = u64::try_from(start) {
            self.note_duplicate(start, start + len);
        }
    }

    fn note_duplicate(&mut self, start: u64, end: u64) {
        self.owe_alone();
        if self.dsack && self.duplicate.is_none() {
            self.duplicate = Some((start, end));
        }
    }

    /// Puts `offset` at the front of `recent`, and removes the other offsets in the same range.
    fn note_recent(&mut self, offset: u64) {
        let range = self.beyond.containing(offset);
        let mut recent = [0; SackBlocks::MAX];
        recent[0] = offset;
        let others = self.recent.iter().filter(|other| self.beyond.containing(**other) != range);
        for (place, other) in recent[1..].iter_mut().zip(others) {
            *place = *other;
        }
        self.recent = recent;
    }

    /// The time at which a delayed acknowledgement is sent without data.
    pub fn deadline(&self) -> Instant {
        match self.owed {
            PendingAck::By(at) => at,
            _ => Instant::NEVER,
        }
    }

    /// Whether an acknowledgement must be sent at `now`, with data if there is any.
    pub fn is_due(&self, now: Instant) -> bool {
        match self.owed {
            PendingAck::No => false,
            PendingAck::By(at) => at <= now,
            PendingAck::Now | PendingAck::Alone => true,
        }
    }

    /// Whether an acknowledgement must be sent immediately and without data.
    pub fn is_due_alone(&self) -> bool {
        self.owed == PendingAck::Alone
    }

    /// Records that a segment with the acknowledgement number RCV.NXT is sent. Returns its window field.
    pub fn acknowledge(&mut self) -> u16 {
        self.owed = PendingAck::No;
        self.unacknowledged = 0;
        self.last_ack_sent = self.next;
        let open = self.next + self.window();
        // RFC 9293 section 3.8.6.2.2: the right edge moves only by at least a segment or half of the buffer.
        if open >= self.edge + self.least_opening() {
            self.edge = open;
        }
        let window = self.edge.saturating_sub(self.next) >> self.shift;
        window.min(0xffff) as u16
    }

    /// The window field of a SYN, which is never scaled (RFC 7323 section 2.2).
    pub fn syn_window(&self) -> u16 {
        self.window().min(0xffff) as u16
    }

    fn window(&self) -> u64 {
        self.buffer.saturating_sub(self.unread_len)
    }

    fn least_opening(&self) -> u64 {
        // If there is no unread data, the window has its full size, and its right edge follows RCV.NXT.
        if self.unread_len == 0 && self.reading { 0 } else { self.largest_segment.min(self.buffer / 2) }
    }

    /// The blocks of the SACK option, at most `most`: first a duplicate, then the ranges that changed last (RFC 2018
    /// section 4, RFC 2883 section 4).
    #[inline]
    pub fn sack_blocks(&mut self, most: usize) -> SackBlocks {
        let nothing = self.beyond.is_empty() && self.duplicate.is_none();
        if nothing || !self.sack || most == 0 { SackBlocks::none() } else { self.take_sack_blocks(most) }
    }

    fn take_sack_blocks(&mut self, most: usize) -> SackBlocks {
        let mut blocks = SackBlocks::none();
        if let Some((start, end)) = self.duplicate.take() {
            blocks.push(self.number(start), self.number(end));
        }
        for offset in self.recent.into_iter().filter(|offset| *offset >= self.next) {
            if blocks.as_slice().len() == most {
                break;
            }
            if let Some((start, end)) = self.beyond.containing(offset) {
                blocks.push(self.number(start), self.number(end));
            }
        }
        blocks
    }

    /// Stores the peer's timestamp if the segment covers Last.ACK.sent and the timestamp is not older (RFC 7323 section
    /// 4.3, rule 2).
    pub fn note_timestamp(&mut self, start: i64, value: u32) {
        let newer = Serial(self.recent_timestamp).at_or_before(Serial(value));
        if newer && start <= self.last_ack_sent as i64 {
            self.recent_timestamp = value;
        }
    }

    /// Whether the timestamp is older than the stored one (PAWS, RFC 7323 section 5.2).
    pub fn is_outdated(&self, value: u32) -> bool {
        Serial(value).before(Serial(self.recent_timestamp))
    }

    /// The timestamp to echo.
    pub fn timestamp_echo(&self) -> u32 {
        self.recent_timestamp
    }
}

#[cfg(test)]
mod tests {
    use netrig_core::Size;

    use super::*;
    use crate::Profile;

    struct Peer {
        receiver: Receiver,
        events: VecDeque<ConnectionEvent>,
        counters: Counters,
    }

    impl Peer {
        fn new(config: &Config) -> Self {
            let mut receiver = Receiver::new(config);
            receiver.synchronise(Serial(u32::MAX), 0);
            receiver.agree(0, true);
            Self { receiver, events: VecDeque::new(), counters: Counters::default() }
        }

        fn take(&mut self, ms: u64, start: i64, bytes: &[u8]) {
            let now = Instant::ZERO + Duration::from_millis(ms);
            let data = Data::Bytes(bytes.into());
            self.receiver.accept(now, start, data, false, &mut self.events, &mut self.counters);
        }

        fn blocks(&mut self) -> Vec<(u32, u32)> {
            self.receiver.sack_blocks(3).as_slice().iter().map(|(l, r)| (l.0, r.0)).collect()
        }
    }

    fn rfc() -> Config {
        Config::of(Profile::Rfc)
    }

    #[test]
    fn a_fin_beyond_a_gap_is_acknowledged_selectively() {
        let mut peer = Peer::new(&rfc());
        peer.take(0, 1, b"one");
        // `two` is lost. After the FIN, SND.NXT is 11. The first sequence number is u32::MAX.
        let data = Data::Bytes((*b"end").into());
        peer.receiver.accept(Instant::ZERO, 7, data, true, &mut peer.events, &mut peer.counters);
        assert_eq!(peer.blocks(), [(6, 10)]);
        assert_eq!(peer.receiver.next(), 4);
        peer.take(0, 4, b"two");
        assert!(peer.receiver.is_finished() && peer.blocks().is_empty());
        assert_eq!((peer.receiver.next(), peer.receiver.arrived()), (11, 9));
        assert_eq!((peer.counters.bytes_delivered, peer.counters.bytes_duplicated), (9, 0));
        // A FIN without data arrives before any data.
        let mut peer = Peer::new(&rfc());
        peer.receiver.accept(Instant::ZERO, 4, Data::Fill(0), true, &mut peer.events, &mut peer.counters);
        assert_eq!(peer.blocks(), [(3, 4)]);
        peer.take(0, 1, b"one");
        assert_eq!((peer.receiver.next(), peer.counters.bytes_delivered), (5, 3));
    }

    #[test]
    fn the_stream_comes_out_in_order() {
        let mut peer = Peer::new(&rfc());
        peer.take(0, 4, b"def");
        peer.take(0, 8, b"hi");
        peer.take(0, 3, b"cde");
        peer.take(0, 1, b"ab");
        peer.take(0, 6, b"fghij");
        let mut text = Vec::new();
        for event in &peer.events {
            match event {
                ConnectionEvent::Received { data: Data::Bytes(bytes), .. } => text.extend_from_slice(bytes),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(text, b"abcdefghij");
        assert_eq!(peer.receiver.next(), 11);
        assert_eq!((peer.counters.bytes_delivered, peer.counters.bytes_duplicated), (10, 5));
    }

    /// RFC 2018 section 4: the range that changed last is first. The initial sequence number is 2³² − 1, so offset n
    /// has sequence number n − 1.
    #[test]
    fn blocks_tell_the_latest_first() {
        let mut peer = Peer::new(&rfc());
        peer.take(0, 11, b"12345");
        peer.take(0, 21, b"12345");
        peer.take(0, 31, b"12345");
        assert_eq!(peer.blocks(), [(30, 35), (20, 25), (10, 15)]);
        peer.take(0, 16, b"12345");
        assert_eq!(peer.blocks(), [(10, 25), (30, 35)]);
    }

    /// RFC 2883 section 4.1, examples 1 and 3: a duplicate is reported once, before the other blocks.
    #[test]
    fn duplicates_are_told_once_and_first() {
        let mut peer = Peer::new(&rfc());
        peer.take(0, 1, b"12345");
        peer.take(0, 1, b"12345");
        assert!(peer.receiver.is_due_alone());
        assert_eq!(peer.blocks(), [(0, 5)]);
        assert_eq!(peer.blocks(), []);
        peer.take(0, 11, b"12345");
        peer.take(0, 11, b"12345");
        assert_eq!(peer.blocks(), [(10, 15), (10, 15)]);
    }

    #[test]
    fn every_second_segment_is_acknowledged() {
        let mut peer = Peer::new(&rfc());
        let segment = [0; 1000];
        peer.take(7, 1, &segment);
        assert_eq!(peer.receiver.deadline(), Instant::ZERO + Duration::from_millis(207));
        assert!(!peer.receiver.is_due(Instant::ZERO + Duration::from_millis(206)));
        assert!(peer.receiver.is_due(Instant::ZERO + Duration::from_millis(207)));
        peer.take(8, 1001, &segment);
        assert!(peer.receiver.is_due(Instant::ZERO + Duration::from_millis(8)));
    }

    #[test]
    fn linux_does_not_delay_the_first_sixteen() {
        let mut peer = Peer::new(&Config::of(Profile::Linux));
        for n in 0..16 {
            peer.take(0, 1 + 1000 * n, &[0; 1000]);
            assert!(peer.receiver.is_due(Instant::ZERO), "{n}");
            peer.receiver.acknowledge();
        }
        peer.take(0, 16_001, &[0; 1000]);
        assert!(!peer.receiver.is_due(Instant::ZERO));
    }

    /// RFC 7323 section 4.3: (A) delayed acknowledgements, (B) a gap, (C) the segment that fills the gap.
    #[test]
    fn the_earliest_unacknowledged_timestamp_is_echoed() {
        let mut peer = Peer::new(&rfc());
        let segment = [0; 1000];
        let mut arrives = |start: i64, value| {
            peer.receiver.note_timestamp(start, value);
            peer.take(0, start, &segment);
            let due = peer.receiver.is_due(Instant::ZERO);
            if due {
                peer.receiver.acknowledge();
            }
            due.then(|| peer.receiver.timestamp_echo())
        };
        assert_eq!(arrives(1, 10), None, "delayed");
        assert_eq!(arrives(1001, 11), Some(10));
        assert_eq!(arrives(3001, 13), Some(10), "2001 is missing");
        assert_eq!(arrives(4001, 14), Some(10));
        assert_eq!(arrives(2001, 15), Some(15), "sent again, it fills the gap");
    }

    /// RFC 7323 sections 5.2 and 5.3, with numbers that wrap.
    #[test]
    fn an_older_timestamp_is_outdated() {
        let mut receiver = Receiver::new(&rfc());
        receiver.synchronise(Serial(0), u32::MAX - 1);
        receiver.agree(0, true);
        receiver.acknowledge();
        receiver.note_timestamp(1, 3);
        assert_eq!([3, 4, 2, u32::MAX].map(|value| receiver.is_outdated(value)), [false, false, true, true]);
        receiver.note_timestamp(1, u32::MAX);
        assert_eq!(receiver.timestamp_echo(), 3, "it never goes back");
    }

    /// RFC 9293 section 3.8.6.2.2: the window does not open by less than one segment.
    #[test]
    fn a_silly_window_is_not_told() {
        let config = Config { receive_buffer: Size::from_bytes(4000), ..rfc() };
        let mut peer = Peer::new(&config);
        peer.receiver.set_reading(false, &mut peer.events, &mut peer.counters);
        peer.take(0, 1, &[0; 1000]);
        assert_eq!(peer.receiver.acknowledge(), 3000);
        peer.take(0, 1001, &[0; 1000]);
        peer.take(0, 2001, &[0; 1000]);
        peer.take(0, 3001, &[0; 1000]);
        assert_eq!(peer.receiver.acknowledge(), 0);
        assert!(!peer.receiver.is_acceptable(4001, 100));
        peer.receiver.read(900, &mut peer.events, &mut peer.counters);
        assert!(!peer.receiver.is_due(Instant::ZERO));
        assert_eq!(peer.receiver.acknowledge(), 0);
        peer.receiver.set_reading(true, &mut peer.events, &mut peer.counters);
        assert!(peer.receiver.is_due(Instant::ZERO));
        assert_eq!(peer.receiver.acknowledge(), 4000);
    }
}
