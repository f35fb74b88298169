//! SIP messages on the wire: read from captures (pcap, pcapng) and from message logs.

mod exported;
mod log;
mod packet;
mod stream;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use bytes::Bytes;
use netrig_core::capture::{self, CaptureError, Captured};
use netrig_core::pcapng::LinkType;
use netrig_sip::header::Transport;
use netrig_sip::load::Scan;

pub(crate) use self::exported::export;
use self::exported::exported;
pub use self::log::{LOG_HEADING, LogDirection, LogError, TracedMessage, write_entry};
use self::packet::{CapturedPayload, Payload, Reassembly};
use self::stream::{CapturedStream, Completed, is_start_line};

/// All messages of a file, in the order of their times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SipTrace {
    /// The messages, ordered by time.
    pub messages: Vec<TracedMessage>,
    /// Bytes of TCP streams with SIP that belong to no message, because the capture lacks earlier bytes.
    pub skipped_bytes: u64,
    /// Why the file was not read to its end.
    pub broken_off: Option<TraceDamage>,
}

/// Why a file cannot be read as a trace.
#[derive(Debug, thiserror::Error)]
pub enum SipTraceError {
    /// The file is not a capture or a message log.
    #[error("it is neither a capture (pcap, pcapng) nor a message log of netrig")]
    Unknown,
    /// The message log is damaged.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// Why a trace ends early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceDamage {
    /// The capture is damaged.
    #[error(transparent)]
    Capture(CaptureError),
    /// The log is truncated.
    #[error(transparent)]
    Log(LogError),
}

impl SipTrace {
    /// The gaps of the trace, in sentences.
    pub fn warnings(&self) -> Vec<String> {
        let broken = self
            .broken_off
            .as_ref()
            .map(|error| format!("the messages before the damage are shown: {error}"));
        let skipped = (self.skipped_bytes > 0).then(|| {
            format!(
                "{} B of TCP streams belong to no message: the capture lacks what was before them",
                self.skipped_bytes
            )
        });
        broken.into_iter().chain(skipped).collect()
    }

    /// Reads a capture or a message log. If the file is truncated or the capture is damaged, the messages before the
    /// damage are returned.
    ///
    /// # Errors
    /// If the file is not a capture or a message log, or the log is damaged.
    pub fn read(file: &[u8]) -> Result<Self, SipTraceError> {
        let mut trace = if file.starts_with(LOG_HEADING.as_bytes()) {
            let (messages, broken_off) = log::read(file)?;
            Self { messages, broken_off: broken_off.map(TraceDamage::Log), ..Self::default() }
        } else {
            let mut reader = CaptureReader::default();
            match capture::read(file, |packet| reader.push(&packet)) {
                Err(CaptureError::Unknown) => return Err(SipTraceError::Unknown),
                end => reader.finish(end.err().map(TraceDamage::Capture)),
            }
        };
        trace.messages.sort_by_key(|message| message.at_ns);
        Ok(trace)
    }
}

/// Collects the SIP messages of a capture.
#[derive(Default)]
struct CaptureReader {
    reassembly: Reassembly,
    /// Streams by sender and receiver.
    streams: BTreeMap<(SocketAddr, SocketAddr), CapturedStream>,
    messages: Vec<TracedMessage>,
}

impl CaptureReader {
    fn push(&mut self, packet: &Captured<'_>) {
        let at_ns = packet.at_ns;
        if packet.link_type == LinkType::ExportedPdu as u16 {
            let message = exported(packet.bytes).filter(|(.., bytes)| is_message(bytes));
            let message = message.map(|([from, to], transport, bytes)| TracedMessage {
                at_ns,
                from,
                to,
                transport,
                bytes: Bytes::copy_from_slice(bytes),
            });
            self.messages.extend(message);
            return;
        }
        let payload = packet.ip().and_then(|ip| self.reassembly.push(ip));
        let Some(Payload { from, to, carried }) = payload else { return };
        match carried {
            CapturedPayload::Datagram(bytes) => {
                let message = |bytes| TracedMessage { at_ns, from, to, transport: Transport::Udp, bytes };
                self.messages.extend(segments(bytes.into()).into_iter().map(message));
            }
            CapturedPayload::Segment(segment) => {
                let found = self.streams.entry((from, to)).or_default().push(at_ns, &segment);
                self.messages.extend(found.into_iter().map(|completed| over_tcp((from, to), completed)));
            }
        }
    }

    fn finish(self, broken_off: Option<TraceDamage>) -> SipTrace {
        let Self { mut streams, mut messages, .. } = self;
        for (ends, stream) in &mut streams {
            messages.extend(stream.finish().into_iter().map(|completed| over_tcp(*ends, completed)));
        }
        let with_sip: BTreeSet<_> = messages.iter().map(|message| (message.from, message.to)).collect();
        let skipped = streams.iter().filter(|(ends, _)| with_sip.contains(*ends));
        let skipped_bytes = skipped.map(|(_, stream)| stream.skipped).sum();
        SipTrace { messages, skipped_bytes, broken_off }
    }
}

/// The payload of the UDP datagram in an unfragmented IP packet.
pub(crate) fn datagram_payload(ip: &[u8]) -> Option<Vec<u8>> {
    match Reassembly::default().push(ip)?.carried {
        CapturedPayload::Datagram(bytes) => Some(bytes),
        CapturedPayload::Segment(_) => None,
    }
}

fn over_tcp((from, to): (SocketAddr, SocketAddr), (at_ns, bytes): Completed) -> TracedMessage {
    TracedMessage { at_ns, from, to, transport: Transport::Tcp, bytes }
}

/// The messages of a captured datagram. On a sending host that uses `UDP_SEGMENT`, one captured datagram contains
/// several messages, each of which begins after the body of the previous one.
fn segments(mut datagram: Bytes) -> Vec<Bytes> {
    let mut messages = Vec::new();
    while is_message(&datagram) {
        let head = datagram.windows(4).position(|bytes| bytes == b"\r\n\r\n").map(|at| at + 4);
        let body = Scan::of(&datagram).content_length.and_then(|length| usize::try_from(length).ok());
        let end = head.zip(body).map(|(head, body)| head.saturating_add(body));
        let end = end.filter(|end| datagram.get(*end..).is_some_and(is_message));
        messages.push(datagram.split_to(end.unwrap_or(datagram.len())));
    }
    messages
}

/// Whether a datagram is a SIP message by its start line.
fn is_message(datagram: &[u8]) -> bool {
    datagram.split(|byte| *byte == b'\n').next().is_some_and(is_start_line)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddrV4;

    use netrig_core::{Frame, Heading, Instant, pcapng};

    use super::*;

    const UDP: u8 = 17;
    const TCP: u8 = 6;
    const SYN: u8 = 2;
    const ACK: u8 = 16;

    fn request(number: u32, body: &str) -> Vec<u8> {
        let len = body.len();
        format!("OPTIONS sip:b@c SIP/2.0\r\nCall-ID: x\r\nCSeq: {number} OPTIONS\r\nContent-Length: {len}\r\n\r\n{body}").into_bytes()
    }

    /// An IPv4 packet, or its fragment from byte `offset` on (RFC 791 section 3.1). Checksums are zero, because the
    /// reader ignores them.
    fn ip(
        protocol: u8,
        [from, to]: [SocketAddrV4; 2],
        payload: &[u8],
        (offset, more): (usize, bool),
    ) -> Vec<u8> {
        let length = (20 + payload.len()) as u16;
        let fragment = (offset / 8) as u16 | if more { 0x2000 } else { 0 };
        let mut packet = vec![0x45, 0];
        packet.extend(length.to_be_bytes());
        packet.extend(7_u16.to_be_bytes());
        packet.extend(fragment.to_be_bytes());
        packet.extend([64, protocol, 0, 0]);
        packet.extend(from.ip().octets());
        packet.extend(to.ip().octets());
        packet.extend(payload);
        packet
    }

    fn udp([from, to]: [SocketAddrV4; 2], data: &[u8]) -> Vec<u8> {
        let head = [from.port(), to.port(), (8 + data.len()) as u16, 0].map(u16::to_be_bytes).concat();
        [&head, data].concat()
    }

    fn tcp([from, to]: [SocketAddrV4; 2], sequence: u32, flags: u8, data: &[u8]) -> Vec<u8> {
        let ports = [from.port(), to.port()].map(u16::to_be_bytes).concat();
        let numbers = [sequence, 0].map(u32::to_be_bytes).concat();
        [&ports[..], &numbers, &[0x50, flags, 0, 0, 0, 0, 0, 0], data].concat()
    }

    fn ends() -> [SocketAddrV4; 2] {
        ["192.0.2.1:5060", "192.0.2.2:5070"].map(|end| end.parse().unwrap())
    }

    /// A capture with these packets, a millisecond apart.
    fn capture(packets: &[Vec<u8>]) -> Vec<u8> {
        let mut file = Vec::new();
        pcapng::section(&mut file, "test", "");
        pcapng::interface(&mut file, LinkType::RawIp, ("eth", ""), 0);
        for (packet, at) in packets.iter().zip(0..) {
            let frame = Frame {
                at: Instant::from_nanos(at * 1_000_000),
                node: 0,
                link: 0,
                heading: Heading::Outbound,
                bytes: packet,
                original_len: packet.len() as u32,
            };
            pcapng::packet(&mut file, 0, 0, &frame);
        }
        file
    }

    fn read(packets: &[Vec<u8>]) -> SipTrace {
        SipTrace::read(&capture(packets)).unwrap()
    }

    fn texts(trace: &SipTrace) -> Vec<Vec<u8>> {
        trace.messages.iter().map(|message| message.bytes.to_vec()).collect()
    }

    #[test]
    fn messages_that_were_sent_with_segmentation_are_told_apart() {
        let [first, second] = [request(1, "body"), request(2, "")];
        let whole = [&first[..], &second, &first].concat();
        assert_eq!(segments(whole.into()), [first.clone(), second.clone(), first.clone()]);
        // A receiver discards bytes after a body that are not a message (RFC 3261 section 18.3). In a trace, they
        // belong to the message.
        let padded = [&first[..], b"\r\n"].concat();
        assert_eq!(segments(padded.clone().into()), [padded]);
        assert_eq!(segments(Bytes::from_static(b"no SIP")), [] as [Bytes; 0]);
    }

    #[test]
    fn datagrams_with_sip_are_messages_and_others_are_none() {
        let of = |data: &[u8]| ip(UDP, ends(), &udp(ends(), data), (0, false));
        let (first, second) = (request(1, ""), b"SIP/2.0 200 OK\r\nCall-ID: x\r\n\r\n".to_vec());
        let trace = read(&[of(&first), of(b"\x80\x00rtp"), of(b""), of(&second)]);
        assert_eq!(texts(&trace), [first, second]);
        let message = &trace.messages[1];
        assert_eq!((message.at_ns, message.transport), (3_000_000, Transport::Udp));
        assert_eq!([message.from, message.to], ends().map(SocketAddr::V4));
    }

    #[test]
    fn fragments_are_put_together_in_any_order() {
        let whole = request(1, &"x".repeat(3000));
        let datagram = udp(ends(), &whole);
        let part = |from: usize, to: usize| {
            ip(UDP, ends(), &datagram[from..to.min(datagram.len())], (from, to < datagram.len()))
        };
        let parts = [part(1480, 2960), part(0, 1480), part(2960, usize::MAX), part(0, 1480)];
        let trace = read(&parts);
        assert_eq!(texts(&trace), [whole]);
        assert!(texts(&read(&parts[..2])).is_empty(), "the last is missing");
    }

    /// Two messages in three segments, which are out of order, repeated, or overlapping.
    #[test]
    fn a_stream_is_read_in_its_order() {
        let (first, second) = (request(1, "hello"), request(2, ""));
        let stream = [first.clone(), second.clone()].concat();
        let of = |from: usize, to: usize| {
            ip(
                TCP,
                ends(),
                &tcp(ends(), 0xFFFF_FFF0_u32.wrapping_add(from as u32), ACK, &stream[from..to]),
                (0, false),
            )
        };
        let syn = ip(TCP, ends(), &tcp(ends(), 0xFFFF_FFEF, SYN, b""), (0, false));
        let end = stream.len();
        let trace = read(&[syn.clone(), of(30, 60), of(0, 30), of(20, 60), of(60, end), of(60, end)]);
        assert_eq!((texts(&trace), trace.skipped_bytes), (vec![first.clone(), second.clone()], 0));
        assert!(trace.messages.iter().all(|message| message.transport == Transport::Tcp));
        // If a capture begins within a message, the later messages are read.
        let trace = read(&[of(30, 60), of(60, end)]);
        assert_eq!((texts(&trace), trace.skipped_bytes), (vec![second.clone()], first.len() as u64 - 30));
        // If bytes are missing, reading resumes after them once the connection or the capture has ended.
        let fin =
            ip(TCP, ends(), &tcp(ends(), 0xFFFF_FFF0_u32.wrapping_add(end as u32), ACK | 1, b""), (0, false));
        let lacking = [syn, of(0, 30), of(first.len(), end), fin];
        for packets in [&lacking[..], &lacking[..3]] {
            let trace = read(packets);
            assert_eq!((texts(&trace), trace.skipped_bytes), (vec![second.clone()], first.len() as u64));
            assert_eq!(trace.messages[0].at_ns, 2_000_000, "when its segment was captured");
        }
    }

    #[test]
    fn a_capture_that_is_broken_off_gives_what_stands_before() {
        let of = |number: u32| ip(UDP, ends(), &udp(ends(), &request(number, "")), (0, false));
        let file = capture(&[of(1), of(2)]);
        let trace = SipTrace::read(&file[..file.len() - 4]).unwrap();
        assert_eq!(texts(&trace), [request(1, "")]);
        assert!(
            matches!(trace.broken_off, Some(TraceDamage::Capture(CaptureError::Damaged(_)))),
            "{trace:?}"
        );
        assert!(matches!(SipTrace::read(b"hello"), Err(SipTraceError::Unknown)));
    }

    #[test]
    fn a_log_gives_back_what_was_written() {
        let [from, to] = ends().map(SocketAddr::V4);
        let messages: Vec<_> = [request(1, "\n\n# not a heading\n"), request(2, "")]
            .into_iter()
            .zip(1..)
            .map(|(bytes, second)| TracedMessage {
                at_ns: second * 1_000_000_001,
                from,
                to,
                transport: Transport::Tls,
                bytes: bytes.into(),
            })
            .collect();
        let mut file = LOG_HEADING.as_bytes().to_vec();
        let mut heading_ends = 0;
        for message in &messages {
            heading_ends = file.len() + 20;
            write_entry(&mut file, LogDirection::Sent, message).unwrap();
        }
        assert_eq!(SipTrace::read(&file).unwrap().messages, messages);
        // An incomplete message, and an incomplete heading.
        for (bytes, words) in
            [(10, "line 13: the message has "), (file.len() - heading_ends, "line 13: expected a time")]
        {
            let trace = SipTrace::read(&file[..file.len() - bytes]).unwrap();
            assert_eq!(trace.messages, messages[..1]);
            let why = trace.broken_off.unwrap().to_string();
            assert!(why.starts_with(words), "{why}");
        }
        let spoilt = String::from_utf8(file).unwrap().replacen("TLS", "XYZ", 1);
        let error = SipTrace::read(spoilt.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("line 2: expected a time in seconds"), "{error}");
    }
}
