use std::net::Ipv4Addr;

use netrig_core::{
    Data, Dscp, Duration, Ecn, FiveTuple, Frame, Header, Heading, Instant, StreamId, protocol,
};
use netrig_transport::sctp;
use netrig_transport::sctp::packet::{Chunk, Chunks, chunk};
use netrig_transport::tcp::{Flags, SackBlocks, Segment};
use netrig_transport::{Packet, Payload, Serial};
use proptest::prelude::*;

use super::*;

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn flow(protocol: u8) -> FiveTuple {
    let [src, dst] = [1, 2].map(|host| Ipv4Addr::new(10, 0, 0, host).into());
    FiveTuple { src, dst, src_port: 49_152, dst_port: 5001, protocol }
}

fn take(reader: &mut SequenceReader, ms: u64, heading: Heading, payload: Payload) {
    let protocol = if matches!(payload, Payload::Tcp(_)) { protocol::TCP } else { protocol::SCTP };
    let flow = if heading == Heading::Outbound { flow(protocol) } else { flow(protocol).reversed() };
    let header = Header { flow, ip_len: 0, dscp: Dscp(0), ecn: Ecn::NotEct };
    let mut bytes = Vec::new();
    let original_len = Packet { header, payload }.encode(&mut bytes);
    reader.take(&Frame { at: at(ms), node: 0, link: 0, heading, bytes: &bytes, original_len });
}

fn segment(seq: u32, ack: u32, flags: Flags, len: u64) -> Segment {
    Segment {
        seq: Serial(seq),
        ack: Serial(ack),
        flags,
        window: 100,
        mss: None,
        window_scale: flags.contains(Flags::SYN).then_some(3),
        sack_permitted: false,
        timestamps: None,
        sack: SackBlocks::none(),
        data: Data::Fill(len),
    }
}

/// The numbers begin just below 2³² and wrap to 0. Three segments of 1000 B are sent, and the second is lost. The peer
/// reports the loss by SACK and receives a retransmission.
#[test]
fn a_loss_and_its_repair_over_tcp() {
    const ISN: u32 = u32::MAX - 999;
    let mut reader = SequenceReader::new(Instant::ZERO);
    let mut tcp = |ms, heading, segment| take(&mut reader, ms, heading, Payload::Tcp(segment));
    tcp(0, Heading::Outbound, segment(ISN, 0, Flags::SYN, 0));
    tcp(10, Heading::Inbound, segment(7, ISN.wrapping_add(1), Flags::SYN | Flags::ACK, 0));
    for (n, ms) in [(0, 10), (1, 11), (2, 12), (1, 30)] {
        tcp(ms, Heading::Outbound, segment(ISN.wrapping_add(1 + 1000 * n), 8, Flags::ACK, 1000));
    }
    let mut sack = SackBlocks::none();
    sack.push(Serial(ISN.wrapping_add(2001)), Serial(ISN.wrapping_add(3001)));
    tcp(22, Heading::Inbound, Segment { sack, ..segment(8, ISN.wrapping_add(1001), Flags::ACK, 0) });
    tcp(40, Heading::Inbound, segment(8, ISN.wrapping_add(3001), Flags::ACK, 0));
    let seen = reader.busiest().expect("data was sent");
    let data = |ms, from: u64| Numbered { at: at(ms), from, to: from + 1000 };
    assert_eq!(seen.numbers, Numbers::Bytes);
    assert_eq!(seen.ends[0], (Ipv4Addr::new(10, 0, 0, 1).into(), 49_152));
    assert_eq!(seen.sent, [data(10, 1), data(11, 1001), data(12, 2001)]);
    assert_eq!(seen.sent_again, [data(30, 1001)]);
    assert_eq!(seen.acknowledged, [(at(10), 1), (at(22), 1001), (at(40), 3001)]);
    assert_eq!(seen.sacked, [data(22, 2001)]);
    // RFC 7323 section 2.2: the window of the SYN is not scaled; later windows are multiplied by 2³.
    assert_eq!(seen.window, [(at(10), 101), (at(22), 1801), (at(40), 3801)]);
}

#[test]
fn windows_are_unknown_without_the_opening() {
    let mut reader = SequenceReader::new(Instant::ZERO);
    take(&mut reader, 0, Heading::Outbound, Payload::Tcp(segment(5000, 8, Flags::ACK, 1000)));
    take(&mut reader, 1, Heading::Inbound, Payload::Tcp(segment(8, 6000, Flags::ACK, 0)));
    let seen = reader.busiest().expect("data was sent");
    assert_eq!((seen.sent[0].from, seen.acknowledged[0].1, seen.window.len()), (0, 1000, 0));
}

/// Frames before the start of the reader give the initial numbers, and show that later frames are retransmissions.
#[test]
fn a_part_of_a_run_keeps_its_numbers() {
    let mut reader = SequenceReader::new(at(20));
    for (ms, n) in [(0, 0), (10, 1), (20, 2), (30, 1)] {
        let segment = segment(5000 + 1000 * n, 8, Flags::ACK, 1000);
        take(&mut reader, ms, Heading::Outbound, Payload::Tcp(segment));
    }
    let seen = reader.busiest().expect("data was sent");
    assert_eq!(seen.sent, [Numbered { at: at(20), from: 2000, to: 3000 }]);
    assert_eq!(seen.sent_again, [Numbered { at: at(30), from: 1000, to: 2000 }]);
}

/// The same with TSNs and over two paths. Gap ack blocks count from the cumulative TSN (RFC 9260 section 3.3.4).
#[test]
fn a_loss_and_its_repair_over_sctp() {
    let mut reader = SequenceReader::new(Instant::ZERO);
    let mut packet = |ms, heading, chunk| {
        let packet = sctp::Packet {
            src_port: if heading == Heading::Outbound { 49_152 } else { 5001 },
            dst_port: if heading == Heading::Outbound { 5001 } else { 49_152 },
            verification_tag: 1,
            chunks: Chunks::from_iter([chunk]),
        };
        take(&mut reader, ms, heading, Payload::Sctp(Box::new(packet)));
    };
    let data = |tsn: u32| {
        Chunk::Data(chunk::Data {
            tsn: Serial(u32::MAX.wrapping_add(tsn)),
            stream: StreamId(0),
            ssn: 0,
            ppid: 0,
            unordered: false,
            beginning: true,
            ending: true,
            immediate: false,
            data: Data::Fill(3),
        })
    };
    for (ms, tsn) in [(0, 0), (1, 1), (2, 2), (3, 3), (30, 1)] {
        packet(ms, Heading::Outbound, data(tsn));
    }
    let sack = chunk::Sack {
        cumulative_tsn: Serial(u32::MAX),
        a_rwnd: 1,
        gaps: [chunk::GapBlock { start: 2, end: 3 }].into_iter().collect(),
        duplicates: Vec::new(),
    };
    packet(20, Heading::Inbound, Chunk::Sack(sack));
    let seen = reader.busiest().expect("data was sent");
    let one = |ms, from| Numbered { at: at(ms), from, to: from + 1 };
    assert_eq!(seen.numbers, Numbers::Tsns);
    assert_eq!(seen.sent, [one(0, 0), one(1, 1), one(2, 2), one(3, 3)]);
    assert_eq!((seen.sent_again, seen.acknowledged), (vec![one(30, 1)], vec![(at(20), 1)]));
    assert_eq!(seen.sacked, [Numbered { at: at(20), from: 2, to: 4 }]);
}

/// There are two streams. The first message of stream 1 is lost, and its retransmission arrives at 200 ms. The second
/// message, in two fragments, waits for it. Stream 2 and unordered messages do not wait. One message never arrives, so
/// the later messages of its stream are not delivered.
#[test]
fn one_stream_waits_and_the_other_does_not() {
    let [mut near, mut far] = [Heading::Outbound, Heading::Inbound].map(DeliveryReader::new);
    // Stream, position of the fragment (beginning, ending), unordered, time of sending, time of arrival.
    let pieces = [
        (1, (true, true), false, 0, Some(200)),
        (1, (true, false), false, 10, Some(60)),
        (1, (false, true), false, 11, Some(61)),
        (2, (true, true), false, 20, Some(70)),
        (1, (true, true), true, 30, Some(80)),
        (1, (true, true), false, 40, None),
        (1, (true, true), false, 50, Some(100)),
    ];
    let frame_of = |n: u32, reader: &mut DeliveryReader, ms: u64, heading: Heading| {
        let (stream, (beginning, ending), unordered, ..) = pieces[n as usize];
        let data = chunk::Data {
            tsn: Serial((u32::MAX - 2).wrapping_add(n)),
            stream: StreamId(stream),
            ssn: 0,
            ppid: 0,
            unordered,
            beginning,
            ending,
            immediate: false,
            data: Data::Fill(3),
        };
        let chunks = Chunks::from_iter([Chunk::Data(data)]);
        let packet = sctp::Packet { src_port: 49_152, dst_port: 5001, verification_tag: 1, chunks };
        let header = Header { flow: flow(protocol::SCTP), ip_len: 0, dscp: Dscp(0), ecn: Ecn::NotEct };
        let mut bytes = Vec::new();
        let original_len = Packet { header, payload: Payload::Sctp(Box::new(packet)) }.encode(&mut bytes);
        reader.take(&Frame { at: at(ms), node: 0, link: 0, heading, bytes: &bytes, original_len });
    };
    for (n, (.., sent, _)) in (0..).zip(pieces) {
        frame_of(n, &mut near, sent, Heading::Outbound);
    }
    frame_of(0, &mut near, 150, Heading::Outbound);
    let mut arrivals: Vec<_> = (0..).zip(pieces).filter_map(|(n, (.., at))| Some((at?, n))).collect();
    arrivals.sort_unstable();
    for (ms, n) in arrivals {
        frame_of(n, &mut far, ms, Heading::Inbound);
    }
    let found: Vec<_> =
        near.deliveries(&far).iter().map(|d| (d.stream, d.sent, d.arrived, d.delivered)).collect();
    assert_eq!(
        found,
        [
            (1, at(0), at(200), at(200)),
            (1, at(10), at(61), at(200)),
            (2, at(20), at(70), at(70)),
            (1, at(30), at(80), at(80)),
        ]
    );
}

proptest! {
    /// Any bytes are accepted, also after valid headers, so that they reach the parsers of the transports.
    #[test]
    fn no_bytes_are_too_odd(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        protocol in prop_oneof![Just(protocol::TCP), Just(protocol::SCTP)],
        plain in any::<bool>(),
    ) {
        let mut bytes = bytes;
        if plain && bytes.len() >= 20 {
            (bytes[0], bytes[6], bytes[9]) = (0x45, 0x40, protocol);
        }
        let frame = Frame { at: at(0), node: 0, link: 0, heading: Heading::Inbound, bytes: &bytes, original_len: 0 };
        let mut reader = SequenceReader::new(Instant::ZERO);
        reader.take(&frame);
        reader.take(&Frame { heading: Heading::Outbound, ..frame });
        let _ = reader.busiest();
    }
}
