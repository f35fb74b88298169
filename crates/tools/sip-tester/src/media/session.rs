//! One end of the media of one call, without sockets.

use std::collections::BTreeMap;

use bytes::Bytes;
use netrig_core::{Duration, Instant};
use netrig_traffic::rtp::{Packet, SequenceExtender};
use netrig_traffic::{CallQuality, MediaArrival, Playout, Talk, Voice};

use super::codec::{MediaCodec, PACKET_MS};
use super::rtcp::{ReceptionBlock, RtcpPacket, SenderInfo, read_rtcp, write_rtcp};

/// Time between two reports (RFC 3550 section 6.2: the recommended minimum).
const REPORTS_EVERY: Duration = Duration::from_secs(5);

/// The largest number of received packets that are stored for a call, and the largest range of their numbers.
const MOST_RECEIVED: usize = 200_000;

/// Seconds from 1900, the NTP epoch, to 1970.
const NTP_EPOCH_S: u64 = 2_208_988_800;

/// The largest number of changes of the source that are accepted.
const MOST_CHANGES: u64 = 100;

/// A change of the transit time by more than this is ignored in the jitter, s.
const LONGEST_JUMP_S: f64 = 3600.0;

/// Results about the packets that one end sent and received.
#[derive(Clone, Debug, PartialEq)]
pub struct MediaResult {
    /// Packets sent.
    pub sent: u64,
    /// Packets received, each once.
    pub received: u64,
    /// Number of packets that the other side sent: from its last report, or from sequence numbers without such a
    /// report.
    pub expected: u64,
    /// Whether the other side reported how many packets it sent.
    pub is_reported: bool,
    /// Duplicate packets.
    pub copies: u64,
    /// Packets that arrived after one that was sent later.
    pub reordered: u64,
    /// How often the source (SSRC) of the other side changed.
    pub stream_changes: u64,
    /// Interarrival jitter at the end, s (RFC 3550 section 6.4.1).
    pub jitter_s: f64,
    /// Round-trip time from the last report, s; `None` if no report gave one.
    pub round_trip_s: Option<f64>,
    /// Packets of this end that the other side reports as lost, and the number of packets that it expected.
    pub lost_there: Option<(i64, u64)>,
    /// The quality of the call at this end; `None` if no packet arrived, or the E-model does not have the codec.
    pub quality: Option<CallQuality>,
}

impl MediaResult {
    /// Packets that did not reach this end.
    pub const fn lost(&self) -> u64 {
        self.expected.saturating_sub(self.received)
    }
}

#[derive(Clone, Copy, Debug)]
struct ReceivedPacket {
    timestamp: i64,
    at: Instant,
}

/// One end of the media of one call.
#[derive(Debug)]
pub struct MediaSession {
    codec: MediaCodec,
    /// Payloads of successive packets, repeated from the start.
    payloads: Vec<Bytes>,
    source: u32,
    first_sequence: u16,
    first_timestamp: u32,
    name: String,
    /// Wall-clock time at time zero of the clock, ns since 1970.
    epoch_ns: u64,
    began: Instant,
    next: Option<Instant>,
    sent: u64,
    bytes: u32,
    next_report: Option<Instant>,
    // State of the other side's stream.
    peer: Option<u32>,
    stream: CurrentStream,
    /// The first packet of another source. The source is accepted if a second packet follows in sequence (RFC 3550
    /// appendix A.1).
    candidate: Option<(Instant, Bytes)>,
    extender: SequenceExtender,
    received: BTreeMap<u64, ReceivedPacket>,
    timestamps: TimestampExtender,
    highest: u64,
    copies: u64,
    reordered: u64,
    /// Interarrival jitter, in time stamp units.
    jitter: f64,
    last_transit: Option<f64>,
    reported_at_end: Option<u32>,
    /// Middle 32 bits of the NTP time stamp of the last sender report, and the arrival time of that report.
    last_report: Option<(u32, Instant)>,
    /// Expected and received packets at the previous report of this end.
    reported: (u64, u64),
    lost_there: Option<(i64, u64)>,
    round_trip_s: Option<f64>,
}

/// The received stream of the other side. If the source changes, extended numbers and time stamps continue from those
/// of the previous source.
#[derive(Debug, Default)]
struct CurrentStream {
    /// Number of changes.
    changes: u64,
    /// Offset that is added to the extended sequence numbers of the current source.
    number_offset: i64,
    timestamp_offset: i64,
    /// The lowest extended number of the current source.
    first: u64,
    /// Expected packets of the previous sources.
    expected_before: u64,
    received_before: u64,
}

/// Extends time stamps beyond their wrap-around.
#[derive(Debug, Default)]
struct TimestampExtender(Option<i64>);

impl TimestampExtender {
    fn extend(&mut self, timestamp: u32) -> i64 {
        let Some(last) = self.0 else {
            self.0 = Some(i64::from(timestamp));
            return i64::from(timestamp);
        };
        let ahead = timestamp.wrapping_sub(last as u32).cast_signed();
        let extended = last + i64::from(ahead);
        self.0 = Some(last.max(extended));
        extended
    }
}

impl MediaSession {
    /// A session that starts after a random part of the packet interval, so that calls do not send at the same times.
    /// `draw` is a random number, which differs between calls.
    pub fn new(codec: MediaCodec, payloads: Vec<Bytes>, draw: u64, epoch_ns: u64, now: Instant) -> Self {
        let packet = Duration::from_millis(PACKET_MS);
        let offset = Duration::from_nanos(draw % packet.as_nanos());
        let is_sending = !payloads.is_empty();
        Self {
            codec,
            payloads,
            source: (draw >> 32) as u32,
            first_sequence: (draw >> 16) as u16,
            first_timestamp: draw as u32,
            name: format!("netrig-{draw:016x}"),
            epoch_ns,
            began: now + offset,
            next: is_sending.then_some(now + offset),
            sent: 0,
            bytes: 0,
            next_report: Some(now + REPORTS_EVERY),
            peer: None,
            extender: SequenceExtender::default(),
            received: BTreeMap::new(),
            timestamps: TimestampExtender::default(),
            highest: 0,
            copies: 0,
            reordered: 0,
            jitter: 0.0,
            last_transit: None,
            stream: CurrentStream::default(),
            candidate: None,
            reported_at_end: None,
            last_report: None,
            reported: (0, 0),
            lost_there: None,
            round_trip_s: None,
        }
    }

    /// When the next packet is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.next.into_iter().chain(self.next_report).min()
    }

    /// The next due RTP packet, with the time at which it was due.
    pub fn poll_packet(&mut self, now: Instant) -> Option<(Instant, Vec<u8>)> {
        let due = self.next.filter(|due| *due <= now)?;
        let payload = &self.payloads[(self.sent as usize) % self.payloads.len()];
        let units = self.units_of_packet();
        let packet = Packet {
            marker: self.sent == 0,
            payload_type: self.codec.payload_type(),
            sequence: self.first_sequence.wrapping_add(self.sent as u16),
            timestamp: self.first_timestamp.wrapping_add((self.sent as u32).wrapping_mul(units)),
            source: self.source,
            payload,
        };
        let bytes = packet.encode();
        self.sent += 1;
        self.bytes = self.bytes.wrapping_add(payload.len() as u32);
        self.next = Some(self.began + Duration::from_millis(PACKET_MS).saturating_mul(self.sent));
        Some((due, bytes))
    }

    /// The RTCP packet if it is due.
    pub fn poll_report(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.next_report.filter(|due| *due <= now)?;
        self.next_report = Some(now + REPORTS_EVERY);
        Some(self.report(now, false))
    }

    /// Stops sending. Returns the last RTCP packet.
    pub fn end(&mut self, now: Instant) -> Vec<u8> {
        (self.next, self.next_report) = (None, None);
        self.report(now, true)
    }

    const fn units_of_packet(&self) -> u32 {
        self.codec.clock_rate() / 1000 * PACKET_MS as u32
    }

    fn ntp(&self, now: Instant) -> u64 {
        let nanos = self.epoch_ns + now.as_nanos();
        let (seconds, rest) = (nanos / 1_000_000_000 + NTP_EPOCH_S, nanos % 1_000_000_000);
        (seconds << 32) | ((rest << 32) / 1_000_000_000)
    }

    fn report(&mut self, now: Instant, is_last: bool) -> Vec<u8> {
        let blocks: Vec<ReceptionBlock> = self.block(now).into_iter().collect();
        let since = now.since(self.began).as_secs_f64();
        let info = SenderInfo {
            ntp: self.ntp(now),
            timestamp: self.first_timestamp.wrapping_add((since * f64::from(self.codec.clock_rate())) as u32),
            packets: self.sent as u32,
            bytes: self.bytes,
        };
        let first = if self.sent > 0 {
            RtcpPacket::SenderReport(self.source, info, blocks)
        } else {
            RtcpPacket::ReceiverReport(self.source, blocks)
        };
        let mut packets = vec![first, RtcpPacket::Name(self.source, self.name.clone())];
        if is_last {
            packets.push(RtcpPacket::Goodbye(vec![self.source]));
        }
        write_rtcp(&packets)
    }

    /// The report block about the other side's stream.
    fn block(&mut self, now: Instant) -> Option<ReceptionBlock> {
        let (source, first) = (self.peer?, *self.received.first_key_value()?.0);
        let stream = &self.stream;
        let expected = self.highest - first + 1 - stream.expected_before;
        let received = self.received.len() as u64 - stream.received_before;
        let (was_expected, was_received) = std::mem::replace(&mut self.reported, (expected, received));
        let since = expected.saturating_sub(was_expected);
        let lost_since = since.saturating_sub(received.saturating_sub(was_received));
        let fraction = (lost_since * 256).checked_div(since).unwrap_or(0).min(255);
        let (last_report, delay) = self
            .last_report
            .map_or((0, 0), |(middle, at)| (middle, (now.since(at).as_secs_f64() * 65_536.0) as u32));
        Some(ReceptionBlock {
            source,
            fraction_lost: fraction as u8,
            lost: (expected as i64 - received as i64).clamp(-0x80_0000, 0x7F_FFFF) as i32,
            // Extended numbers start in cycle 1, not 0.
            highest: (self.highest.cast_signed() - stream.number_offset - 0x1_0000) as u32,
            jitter: self.jitter as u32,
            last_report,
            delay,
        })
    }

    /// Handles a received RTP packet. Bytes that are not RTP, packets of another payload type and packets of an
    /// unconfirmed source are ignored.
    pub fn receive_packet(&mut self, at: Instant, bytes: &[u8]) {
        let Ok(packet) = Packet::parse(bytes) else { return };
        // A packet with this end's SSRC was sent by this end and looped back (RFC 3550 section 8.2).
        if packet.payload_type != self.codec.payload_type() || packet.source == self.source {
            return;
        }
        if *self.peer.get_or_insert(packet.source) != packet.source {
            let Some((first_at, first)) = self.candidate.take() else {
                self.candidate = Some((at, Bytes::copy_from_slice(bytes)));
                return;
            };
            let is_second = Packet::parse(&first).is_ok_and(|first| {
                first.source == packet.source && packet.sequence == first.sequence.wrapping_add(1)
            });
            if !is_second || self.stream.changes == MOST_CHANGES {
                self.candidate = Some((at, Bytes::copy_from_slice(bytes)));
                return;
            }
            self.change_stream(packet.source, first_at, &first);
        }
        let number = self.extender.extend(packet.sequence).saturating_add_signed(self.stream.number_offset);
        let timestamp = self.timestamps.extend(packet.timestamp) + self.stream.timestamp_offset;
        if number < self.stream.first {
            return;
        }
        if self.received.len() >= MOST_RECEIVED
            || number.abs_diff(self.received.first_key_value().map_or(number, |(first, _)| *first))
                > MOST_RECEIVED as u64
        {
            return;
        }
        if self.received.contains_key(&number) {
            self.copies += 1;
            return;
        }
        if number < self.highest {
            self.reordered += 1;
        }
        self.highest = self.highest.max(number);
        self.received.insert(number, ReceivedPacket { timestamp, at });
        // RFC 3550 section 6.4.1 and Appendix A.8.
        let rate = f64::from(self.codec.clock_rate());
        let transit = at.since(Instant::ZERO).as_secs_f64() * rate - timestamp as f64;
        if let Some(last) = self.last_transit.replace(transit)
            && (transit - last).abs() < LONGEST_JUMP_S * rate
        {
            self.jitter += ((transit - last).abs() - self.jitter) / 16.0;
        }
    }

    /// Changes the source of the other side (RFC 3550 section 8). The first packet of the new source has the number
    /// after the highest one so far.
    fn change_stream(&mut self, source: u32, at: Instant, first: &[u8]) {
        let Ok(packet) = Packet::parse(first) else { return };
        self.peer = Some(source);
        (self.extender, self.timestamps) = (SequenceExtender::default(), TimestampExtender::default());
        let number = self.extender.extend(packet.sequence);
        let timestamp = self.timestamps.extend(packet.timestamp);
        let begins = self.received.first_key_value().map_or(self.highest, |(first, _)| *first);
        let stream = &mut self.stream;
        stream.changes += 1;
        stream.expected_before = self.highest + 1 - begins;
        stream.received_before = self.received.len() as u64;
        stream.first = self.highest + 1;
        stream.number_offset = stream.first.cast_signed() - number.cast_signed();
        let rate = f64::from(self.codec.clock_rate());
        stream.timestamp_offset = self
            .received
            .get(&self.highest)
            .map_or(0, |last| last.timestamp + (at.since(last.at).as_secs_f64() * rate) as i64 - timestamp);
        (self.last_transit, self.last_report, self.reported_at_end) = (None, None, None);
        self.reported = (0, 0);
        self.receive_packet(at, first);
    }

    /// Handles a received RTCP packet. Bytes that are not RTCP are ignored.
    pub fn receive_report(&mut self, at: Instant, bytes: &[u8]) {
        let Ok(packets) = read_rtcp(bytes) else { return };
        let has_ended = packets.iter().any(|packet| matches!(packet, RtcpPacket::Goodbye(_)));
        for packet in packets {
            let blocks = match packet {
                RtcpPacket::SenderReport(source, info, blocks) => {
                    if self.peer.is_none_or(|peer| peer == source) {
                        self.last_report = Some(((info.ntp >> 16) as u32, at));
                        if has_ended {
                            self.reported_at_end = Some(info.packets);
                        }
                    }
                    blocks
                }
                RtcpPacket::ReceiverReport(_, blocks) => blocks,
                _ => continue,
            };
            for block in blocks.iter().filter(|block| block.source == self.source) {
                let known = u64::from(block.highest.wrapping_sub(u32::from(self.first_sequence))) + 1;
                if known <= self.sent {
                    self.lost_there = Some((i64::from(block.lost), known));
                }
                if block.last_report != 0 {
                    let middle = (self.ntp(at) >> 16) as u32;
                    let took = middle.wrapping_sub(block.last_report).wrapping_sub(block.delay);
                    // A difference of hours shows that a clock was set meanwhile.
                    if took < 60 << 16 {
                        self.round_trip_s = Some(f64::from(took) / 65_536.0);
                    }
                }
            }
        }
    }

    /// The results so far.
    pub fn result(&self) -> MediaResult {
        let received = self.received.len() as u64;
        let range = self.received.first_key_value().map_or(0, |(first, _)| self.highest - first + 1);
        let reported = self.reported_at_end.map(|reported| u64::from(reported) + self.stream.expected_before);
        let reported = reported.filter(|reported| *reported >= received && *reported <= MOST_RECEIVED as u64);
        let expected = reported.unwrap_or(range).max(range);
        MediaResult {
            sent: self.sent,
            received,
            expected,
            is_reported: reported.is_some(),
            copies: self.copies,
            reordered: self.reordered,
            stream_changes: self.stream.changes,
            jitter_s: self.jitter / f64::from(self.codec.clock_rate()),
            round_trip_s: self.round_trip_s,
            lost_there: self.lost_there,
            quality: self.quality(expected),
        }
    }

    /// The quality according to the E-model. The one-way delay of the fastest packet is taken as half of the round-trip
    /// time.
    fn quality(&self, expected: u64) -> Option<CallQuality> {
        let codec = self.codec.voice_codec()?;
        let (first, first_packet) = self.received.first_key_value()?;
        let rate = f64::from(self.codec.clock_rate());
        let sent_s = |packet: &ReceivedPacket| (packet.timestamp - first_packet.timestamp) as f64 / rate;
        let transit = |packet: &ReceivedPacket| packet.at.since(Instant::ZERO).as_secs_f64() - sent_s(packet);
        let fastest = self.received.values().map(transit).fold(f64::INFINITY, f64::min);
        let base = self.round_trip_s.unwrap_or(0.0) / 2.0;
        let voice = Voice {
            codec,
            packet: Duration::from_millis(PACKET_MS),
            talk: Talk::Continuous,
            playout: Playout::default(),
        };
        let arrivals = self.received.iter().map(|(number, packet)| MediaArrival {
            number: *number,
            sent_s: sent_s(packet),
            delay_s: base + transit(packet) - fastest,
        });
        CallQuality::of(&voice, *first, expected, arrivals).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(draw: u64) -> MediaSession {
        let payloads = vec![Bytes::from(MediaCodec::Pcmu.silence())];
        MediaSession::new(MediaCodec::Pcmu, payloads, draw, 1_700_000_000_000_000_000, Instant::ZERO)
    }

    /// The results of two ends that exchange media for some seconds over a link with this delay. The link loses the
    /// packets for which `is_lost` returns true.
    fn exchange(seconds: u64, delay: Duration, is_lost: impl Fn(bool, u64) -> bool) -> [MediaResult; 2] {
        let mut ends = [session(0x1111_2222_FFF0_0000), session(0x3333_4444_0001_8000)];
        let mut wire: Vec<(Instant, usize, bool, Vec<u8>)> = Vec::new();
        let last = Instant::ZERO + Duration::from_secs(seconds);
        let mut now = Instant::ZERO;
        let mut counts = [0, 0];
        let mut has_ended = false;
        loop {
            for (own, end) in ends.iter_mut().enumerate() {
                while let Some((_, bytes)) = end.poll_packet(now) {
                    counts[own] += 1;
                    if !is_lost(own == 0, counts[own] - 1) {
                        wire.push((now + delay, 1 - own, true, bytes));
                    }
                }
                if let Some(bytes) = end.poll_report(now) {
                    wire.push((now + delay, 1 - own, false, bytes));
                }
            }
            if now >= last && !has_ended {
                has_ended = true;
                for (own, end) in ends.iter_mut().enumerate() {
                    let bytes = end.end(now);
                    wire.push((now + delay, 1 - own, false, bytes));
                }
            }
            let due =
                wire.iter().map(|(due, ..)| *due).chain(ends.iter().filter_map(MediaSession::poll_timeout));
            let due = if has_ended { due.min() } else { due.chain([last]).min() };
            let Some(due) = due else { break };
            now = due.max(now);
            while let Some(place) = wire.iter().position(|(due, ..)| *due <= now) {
                let (_, to, is_media, bytes) = wire.remove(place);
                if is_media {
                    ends[to].receive_packet(now, &bytes);
                } else {
                    ends[to].receive_report(now, &bytes);
                }
            }
        }
        ends.map(|end| end.result())
    }

    #[test]
    fn both_ends_count_and_judge_what_was_lost() {
        // Every 50th packet of the first end is lost, including its first packet. Sequence numbers wrap around
        // meanwhile.
        let [first, second] =
            exchange(20, Duration::from_millis(30), |is_first, number| is_first && number % 50 == 0);
        assert_eq!((first.sent, second.sent), (1000, 1000));
        assert_eq!(
            (second.expected, second.received, second.lost(), second.is_reported),
            (1000, 980, 20, true)
        );
        assert_eq!((first.lost(), first.copies, first.reordered), (0, 0, 0));
        let round_trip = first.round_trip_s.unwrap();
        assert!((round_trip - 0.06).abs() < 1e-3, "{round_trip}");
        // The receiver's count does not include the first packet, which was lost.
        let (lost, known) = first.lost_there.unwrap();
        assert!((lost - 19).abs() <= 1 && known >= 995, "{lost} of {known}");
        assert!(second.jitter_s < 1e-4, "{}", second.jitter_s);
        let (clear, lossy) = (first.quality.unwrap(), second.quality.unwrap());
        assert!((lossy.missing - 0.02).abs() < 1e-12, "{lossy:?}");
        // G.113: 95 · 2 / (2 / BurstR + 25.1) of R, BurstR = 0.98.
        let impairment = 95.0 * 2.0 / (2.0 / lossy.burst_ratio + 25.1);
        assert!((clear.rating - lossy.rating - impairment).abs() < 0.1, "{clear:?} {lossy:?}");
    }

    #[test]
    fn what_is_no_media_of_the_call_changes_nothing() {
        let mut end = session(1);
        let mut other = session(0x99 << 32);
        let (_, bytes) = other.poll_packet(Instant::ZERO + Duration::from_secs(1)).unwrap();
        end.receive_packet(Instant::ZERO, &bytes);
        end.receive_packet(Instant::ZERO, &bytes);
        let strange = Packet { source: 7, ..Packet::parse(&bytes).unwrap() }.encode();
        let video = Packet { payload_type: 96, ..Packet::parse(&bytes).unwrap() }.encode();
        for bytes in [&strange[..], &video, b"", b"garbage", &[0x80; 11]] {
            end.receive_packet(Instant::ZERO, bytes);
            end.receive_report(Instant::ZERO, bytes);
        }
        let result = end.result();
        assert_eq!((result.received, result.copies, result.expected), (1, 1, 1));
    }

    /// The source, sequence number and time stamp change, as when the called user answers after an announcement.
    #[test]
    fn a_stream_whose_source_changes_goes_on() {
        let mut end = session(1);
        let packet = |source, sequence, timestamp| {
            Packet { marker: false, payload_type: 0, sequence, timestamp, source, payload: &[] }.encode()
        };
        let at = |number: u64| Instant::ZERO + Duration::from_millis(20 * number);
        for number in 0..50_u16 {
            end.receive_packet(at(number.into()), &packet(7, number, u32::from(number) * 160));
        }
        // A single packet of another source changes nothing.
        end.receive_packet(at(50), &packet(9, 1, 1));
        for number in 0..150_u16 {
            if number % 2 == 0 || number < 2 {
                let bytes = packet(8, 60_000 + number, 5_000_000 + u32::from(number) * 160);
                end.receive_packet(at(50 + u64::from(number)), &bytes);
            }
        }
        let reported = RtcpPacket::SenderReport(
            8,
            SenderInfo { ntp: 0, timestamp: 0, packets: 150, bytes: 0 },
            Vec::new(),
        );
        let block = end.block(at(200)).unwrap();
        assert_eq!((block.source, block.highest, block.lost), (8, 60_148, 149 - 76));
        end.receive_report(at(200), &write_rtcp(&[reported, RtcpPacket::Goodbye(vec![8])]));
        let result = end.result();
        assert_eq!((result.received, result.expected, result.stream_changes), (126, 200, 1));
        assert!(result.jitter_s < 1e-6, "{result:?}");
        let missing = result.quality.unwrap().missing;
        assert!((missing - 74.0 / 200.0).abs() < 1e-9, "{missing}");
    }

    #[test]
    fn own_packets_that_come_back_are_nobodys() {
        let mut end = session(1);
        let (_, bytes) = end.poll_packet(Instant::ZERO + Duration::from_secs(1)).unwrap();
        end.receive_packet(Instant::ZERO, &bytes);
        assert_eq!(end.result().received, 0);
    }

    /// Sequence numbers that jump over the whole range do not enlarge the range of stored packets beyond its limit.
    #[test]
    fn numbers_that_leap_take_no_memory() {
        let mut end = session(1);
        for place in 0..1000_u32 {
            let sequence = (place * 30_000) as u16;
            let packet =
                Packet { marker: false, payload_type: 0, sequence, timestamp: 0, source: 5, payload: &[] };
            end.receive_packet(Instant::ZERO, &packet.encode());
        }
        assert!(end.result().expected <= MOST_RECEIVED as u64 + 1);
    }
}
