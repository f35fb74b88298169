//! Encoded packets, compared with layouts assembled by hand from RFC 9260 section 3.

use netrig_core::{Data, StreamId};
use netrig_transport::Serial;
use netrig_transport::sctp::packet::{Cause, Chunk, Chunks, Packet, Parameter, chunk};
use netrig_transport::sctp::wire::{self, Checksum, DecodeError};
use proptest::prelude::*;

fn packet(chunks: Vec<Chunk>) -> Packet {
    Packet {
        src_port: 0x1234,
        dst_port: 0x5678,
        verification_tag: 0x9ABC_DEF0,
        chunks: Chunks::from_vec(chunks),
    }
}

/// Common header (section 3.1) with a zero checksum.
const HEADER: [u8; 12] = [0x12, 0x34, 0x56, 0x78, 0x9A, 0xBC, 0xDE, 0xF0, 0, 0, 0, 0];

/// Checks that `chunks` are encoded to `body`, and that `body` is decoded to `chunks`.
fn both_ways(chunks: Vec<Chunk>, body: &[u8]) {
    let packet = packet(chunks);
    let bytes = wire::encode_with(&packet, Checksum::Zero);
    assert_eq!(bytes, [&HEADER, body].concat());
    assert_eq!(bytes.len() as u32, packet.wire_len());
    assert_eq!(wire::decode_with(&bytes, Checksum::Zero), Ok(packet.clone()));
    assert_eq!(wire::decode(&wire::encode(&packet)), Ok(packet));
}

#[test]
fn data() {
    let data = chunk::Data {
        tsn: Serial(0x0102_0304),
        stream: StreamId(0x0506),
        ssn: 0x0708,
        ppid: 0x090A_0B0C,
        unordered: true,
        beginning: true,
        ending: false,
        immediate: true,
        data: Data::Bytes((*b"hello").into()),
    };
    // Section 3.3.1: type 0, the flags I U B E are 1 1 1 0, and the length is 16 + 5 without padding.
    both_ways(
        vec![Chunk::Data(data)],
        &[0, 0b1110, 0, 21, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, b'h', b'e', b'l', b'l', b'o', 0, 0, 0],
    );
}

#[test]
fn init_with_parameters() {
    let init = chunk::Init {
        initiate_tag: 0xA1A2_A3A4,
        a_rwnd: 0x0001_0000,
        outbound_streams: 10,
        inbound_streams: 0xFFFF,
        initial_tsn: Serial(0xFFFF_FFFF),
        parameters: vec![
            Parameter::Address([192, 0, 2, 1].into()),
            Parameter::Address("2001:db8::1".parse().expect("an address")),
            Parameter::CookiePreservative(60_000),
            Parameter::SupportedAddressTypes(vec![5, 6, 5]),
            Parameter::EcnCapable,
            Parameter::Unknown { kind: 0xC000, value: vec![1] },
        ],
    };
    let body = [
        // Section 3.3.2: type 1. The length is 20 + 8 + 20 + 8 + 12 (10 and padding) + 4 + 5.
        &[1, 0, 0, 77][..],
        &[0xA1, 0xA2, 0xA3, 0xA4, 0, 1, 0, 0, 0, 10, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF],
        &[0, 5, 0, 8, 192, 0, 2, 1],
        &[0, 6, 0, 20, 0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
        &[0, 9, 0, 8, 0, 0, 0xEA, 0x60],
        &[0, 12, 0, 10, 0, 5, 0, 6, 0, 5, 0, 0],
        &[0x80, 0, 0, 4],
        &[0xC0, 0, 0, 5, 1, 0, 0, 0],
    ]
    .concat();
    both_ways(vec![Chunk::Init(Box::new(init.clone()))], &body);
    let mut ack = body;
    ack[0] = 2;
    both_ways(vec![Chunk::InitAck(Box::new(init))], &ack);
}

#[test]
fn init_ack_with_cookie() {
    let init = chunk::Init {
        initiate_tag: 1,
        a_rwnd: 1500,
        outbound_streams: 1,
        inbound_streams: 1,
        initial_tsn: Serial(2),
        parameters: vec![
            Parameter::Cookie(vec![0xC0, 0x0C, 0x1E]),
            Parameter::Unrecognized(vec![0xC0, 0, 0, 4]),
        ],
    };
    both_ways(
        vec![Chunk::InitAck(Box::new(init))],
        &[
            2, 0, 0, 36, 0, 0, 0, 1, 0, 0, 5, 0xDC, 0, 1, 0, 1, 0, 0, 0, 2, 0, 7, 0, 7, 0xC0, 0x0C, 0x1E, 0,
            0, 8, 0, 8, 0xC0, 0, 0, 4,
        ],
    );
}

#[test]
fn sack() {
    let sack = chunk::Sack {
        cumulative_tsn: Serial(12),
        a_rwnd: 4660,
        gaps: [chunk::GapBlock { start: 2, end: 3 }, chunk::GapBlock { start: 5, end: 5 }]
            .into_iter()
            .collect(),
        duplicates: vec![Serial(10)],
    };
    // The example of section 3.3.4, with an additional duplicate.
    both_ways(
        vec![Chunk::Sack(sack)],
        &[3, 0, 0, 28, 0, 0, 0, 12, 0, 0, 0x12, 0x34, 0, 2, 0, 1, 0, 2, 0, 3, 0, 5, 0, 5, 0, 0, 0, 10],
    );
}

#[test]
fn small_chunks() {
    let beat = || chunk::Heartbeat { info: vec![1, 2, 3, 4, 5] };
    let cases: Vec<(Chunk, &[u8])> = vec![
        (Chunk::Heartbeat(beat()), &[4, 0, 0, 13, 0, 1, 0, 9, 1, 2, 3, 4, 5, 0, 0, 0]),
        (Chunk::HeartbeatAck(beat()), &[5, 0, 0, 13, 0, 1, 0, 9, 1, 2, 3, 4, 5, 0, 0, 0]),
        (Chunk::Abort(chunk::Abort { reflected: true, causes: vec![] }), &[6, 1, 0, 4]),
        (Chunk::Shutdown(Serial(0xDEAD_BEEF)), &[7, 0, 0, 8, 0xDE, 0xAD, 0xBE, 0xEF]),
        (Chunk::ShutdownAck, &[8, 0, 0, 4]),
        (Chunk::CookieEcho(vec![1, 2, 3, 4, 5]), &[10, 0, 0, 9, 1, 2, 3, 4, 5, 0, 0, 0]),
        (Chunk::CookieAck, &[11, 0, 0, 4]),
        (Chunk::EcnEcho(Serial(1)), &[12, 0, 0, 8, 0, 0, 0, 1]),
        (Chunk::Cwr(Serial(1)), &[13, 0, 0, 8, 0, 0, 0, 1]),
        (Chunk::ShutdownComplete { reflected: true }, &[14, 1, 0, 4]),
        (
            Chunk::Unknown(chunk::Unknown { kind: 0xC1, flags: 0xAA, value: vec![7] }),
            &[0xC1, 0xAA, 0, 5, 7, 0, 0, 0],
        ),
    ];
    for (chunk, body) in cases {
        both_ways(vec![chunk], body);
    }
}

#[test]
fn causes() {
    let causes = vec![
        Cause::InvalidStream(7),
        Cause::MissingParameters(vec![7, 5, 6]),
        Cause::StaleCookie(1_000_000),
        Cause::OutOfResource,
        Cause::UnrecognizedChunk(vec![0xC1, 0, 0, 5, 1]),
        Cause::NoUserData(9),
        Cause::CookieWhileShuttingDown,
        Cause::UserAbort(b"why".to_vec()),
    ];
    let body = [
        &[9, 0, 0, 71][..],
        &[0, 1, 0, 8, 0, 7, 0, 0],
        &[0, 2, 0, 14, 0, 0, 0, 3, 0, 7, 0, 5, 0, 6, 0, 0],
        &[0, 3, 0, 8, 0, 0x0F, 0x42, 0x40],
        &[0, 4, 0, 4],
        &[0, 6, 0, 9, 0xC1, 0, 0, 5, 1, 0, 0, 0],
        &[0, 9, 0, 8, 0, 0, 0, 9],
        &[0, 10, 0, 4],
        &[0, 12, 0, 7, b'w', b'h', b'y', 0],
    ]
    .concat();
    both_ways(vec![Chunk::Error(causes)], &body);
}

/// Several chunks, each aligned to four bytes.
#[test]
fn bundles() {
    both_ways(
        vec![Chunk::CookieEcho(vec![9]), Chunk::CookieAck, Chunk::Shutdown(Serial(1))],
        &[10, 0, 0, 5, 9, 0, 0, 0, 11, 0, 0, 4, 7, 0, 0, 8, 0, 0, 0, 1],
    );
}

/// CRC32c of this packet, with the least significant byte first (appendix A).
#[test]
fn the_checksum_is_where_and_what_it_should_be() {
    let bytes = wire::encode(&packet(vec![Chunk::CookieAck]));
    let zeroed = [&HEADER[..], &[11, 0, 0, 4]].concat();
    assert_eq!(bytes[8..12], netrig_transport::sctp::crc32c(&zeroed).to_le_bytes());
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(matches!(wire::decode(&flipped), Err(DecodeError::Checksum { .. })), "bit {bit}");
    }
}

fn decode(body: &[u8]) -> Result<Packet, DecodeError> {
    wire::decode_with(&[&HEADER, body].concat(), Checksum::Zero)
}

#[test]
fn what_is_malformed_is_refused() {
    assert_eq!(decode(&[]), Err(DecodeError::TooShort(12)));
    assert_eq!(decode(&[11, 0, 0]), Err(DecodeError::TooShort(15)));
    // A length less than the header, and lengths beyond the packet.
    assert_eq!(decode(&[11, 0, 0, 3]), Err(DecodeError::Length { length: 3, left: 4 }));
    assert_eq!(decode(&[11, 0, 0, 0]), Err(DecodeError::Length { length: 0, left: 4 }));
    assert_eq!(decode(&[10, 0, 0, 9, 1, 2, 3, 4]), Err(DecodeError::Length { length: 9, left: 8 }));
    // Chunks that are too short for their fixed fields.
    assert_eq!(decode(&[7, 0, 0, 6, 0, 0, 0, 0]), Err(DecodeError::Chunk { chunk: "SHUTDOWN" }));
    assert_eq!(decode(&[4, 0, 0, 4]), Err(DecodeError::Chunk { chunk: "HEARTBEAT" }));
    // The number of gap blocks is larger than the number that is present.
    assert_eq!(
        decode(&[3, 0, 0, 16, 0, 0, 0, 12, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0]),
        Err(DecodeError::Chunk { chunk: "SACK" })
    );
    // An IPv4 address with three bytes.
    let init = [&[1, 0, 0, 27][..], &[0; 16], &[0, 5, 0, 7, 1, 2, 3, 0]].concat();
    assert_eq!(decode(&init), Err(DecodeError::Parameter { kind: 5 }));
}

#[test]
fn padding_is_ignored_and_may_be_missing_at_the_end() {
    let cookie = vec![Chunk::CookieEcho(vec![9])];
    assert_eq!(decode(&[10, 0, 0, 5, 9, 0xFF, 0xFF, 0xFF]).map(|p| p.chunks.to_vec()), Ok(cookie.clone()));
    assert_eq!(decode(&[10, 0, 0, 5, 9]).map(|p| p.chunks.to_vec()), Ok(cookie));
}

/// Section 3.2.1: the padding of parameters is ignored too. Here it is that of the first of two parameters in an INIT.
#[test]
fn the_padding_of_parameters_is_ignored() {
    let body = |padding: [u8; 3]| {
        [&[1, 0, 0, 32][..], &[1; 16], &[0xC0, 1, 0, 5, 9], &padding, &[0x80, 0, 0, 4]].concat()
    };
    let zeros = decode(&body([0; 3])).expect("well-formed");
    let Chunk::Init(init) = &zeros.chunks[0] else { panic!("INIT") };
    assert_eq!(init.parameters, [Parameter::Unknown { kind: 0xC001, value: vec![9] }, Parameter::EcnCapable]);
    assert_eq!(decode(&body([0xFF, 7, 1])), Ok(zeros));
}

/// Sections 3.3.2 and 3.3.3: the flags of INIT and INIT ACK are reserved and ignored.
#[test]
fn the_flags_of_init_and_init_ack_are_ignored() {
    for kind in [1, 2] {
        let body = |flags| [&[kind, flags, 0, 20][..], &[1; 16]].concat();
        let plain = decode(&body(0)).expect("well-formed");
        assert_eq!(decode(&body(0xFF)), Ok(plain));
    }
}

/// The two highest bits of the type of an unknown chunk (section 3.2).
#[test]
fn an_unknown_chunk_may_forbid_what_follows() {
    let kinds = |first: u8| {
        let packet = decode(&[first, 0, 0, 4, 11, 0, 0, 4]).expect("well-formed");
        packet.chunks.iter().map(Chunk::kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds(0x3F), [0x3F]);
    assert_eq!(kinds(0x7F), [0x7F]);
    assert_eq!(kinds(0xBF), [0xBF, 11]);
    assert_eq!(kinds(0xFF), [0xFF, 11]);
}

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..most)
}

fn parameter() -> impl Strategy<Value = Parameter> {
    prop_oneof![
        any::<std::net::IpAddr>().prop_map(Parameter::Address),
        bytes(40).prop_map(Parameter::Cookie),
        bytes(20).prop_map(Parameter::Unrecognized),
        any::<u32>().prop_map(Parameter::CookiePreservative),
        bytes(20).prop_map(Parameter::HostName),
        proptest::collection::vec(any::<u16>(), 0..4).prop_map(Parameter::SupportedAddressTypes),
        Just(Parameter::EcnCapable),
        (0xC001..=0xFFFF_u16, bytes(9)).prop_map(|(kind, value)| Parameter::Unknown { kind, value }),
    ]
}

fn cause() -> impl Strategy<Value = Cause> {
    prop_oneof![
        any::<u16>().prop_map(Cause::InvalidStream),
        proptest::collection::vec(any::<u16>(), 0..4).prop_map(Cause::MissingParameters),
        any::<u32>().prop_map(Cause::StaleCookie),
        Just(Cause::OutOfResource),
        bytes(20).prop_map(Cause::UnresolvableAddress),
        bytes(20).prop_map(Cause::UnrecognizedChunk),
        Just(Cause::InvalidParameter),
        bytes(20).prop_map(Cause::UnrecognizedParameters),
        any::<u32>().prop_map(Cause::NoUserData),
        Just(Cause::CookieWhileShuttingDown),
        bytes(20).prop_map(Cause::RestartWithNewAddresses),
        bytes(20).prop_map(Cause::UserAbort),
        bytes(20).prop_map(Cause::ProtocolViolation),
        (14..=u16::MAX, bytes(9)).prop_map(|(code, value)| Cause::Unknown { code, value }),
    ]
}

prop_compose! {
    fn init()(
        fixed in any::<(u32, u32, u16, u16, u32)>(),
        parameters in proptest::collection::vec(parameter(), 0..6),
    ) -> Box<chunk::Init> {
        Box::new(chunk::Init {
            initiate_tag: fixed.0,
            a_rwnd: fixed.1,
            outbound_streams: fixed.2,
            inbound_streams: fixed.3,
            initial_tsn: Serial(fixed.4),
            parameters,
        })
    }
}

prop_compose! {
    fn data_chunk()(
        fixed in any::<(u32, u16, u16, u32)>(),
        flags in any::<(bool, bool, bool, bool)>(),
        data in bytes(100),
    ) -> chunk::Data {
        chunk::Data {
            tsn: Serial(fixed.0),
            stream: StreamId(fixed.1),
            ssn: fixed.2,
            ppid: fixed.3,
            unordered: flags.0,
            beginning: flags.1,
            ending: flags.2,
            immediate: flags.3,
            data: Data::Bytes(data.into()),
        }
    }
}

prop_compose! {
    fn sack_chunk()(
        fixed in any::<(u32, u32)>(),
        gaps in proptest::collection::vec(any::<(u16, u16)>(), 0..6),
        duplicates in proptest::collection::vec(any::<u32>(), 0..6),
    ) -> chunk::Sack {
        chunk::Sack {
            cumulative_tsn: Serial(fixed.0),
            a_rwnd: fixed.1,
            gaps: gaps.into_iter().map(|(start, end)| chunk::GapBlock { start, end }).collect(),
            duplicates: duplicates.into_iter().map(Serial).collect(),
        }
    }
}

pub fn any_chunk() -> impl Strategy<Value = Chunk> {
    let causes = || proptest::collection::vec(cause(), 0..5);
    let beat = || bytes(30).prop_map(|info| chunk::Heartbeat { info });
    let tsn = || any::<u32>().prop_map(Serial);
    prop_oneof![
        data_chunk().prop_map(Chunk::Data),
        init().prop_map(Chunk::Init),
        init().prop_map(Chunk::InitAck),
        sack_chunk().prop_map(Chunk::Sack),
        beat().prop_map(Chunk::Heartbeat),
        beat().prop_map(Chunk::HeartbeatAck),
        (any::<bool>(), causes())
            .prop_map(|(reflected, causes)| Chunk::Abort(chunk::Abort { reflected, causes })),
        tsn().prop_map(Chunk::Shutdown),
        Just(Chunk::ShutdownAck),
        causes().prop_map(Chunk::Error),
        bytes(50).prop_map(Chunk::CookieEcho),
        Just(Chunk::CookieAck),
        tsn().prop_map(Chunk::EcnEcho),
        tsn().prop_map(Chunk::Cwr),
        any::<bool>().prop_map(|reflected| Chunk::ShutdownComplete { reflected }),
        (0x80..=0xFF_u8, any::<u8>(), bytes(20))
            .prop_map(|(kind, flags, value)| Chunk::Unknown(chunk::Unknown { kind, flags, value })),
    ]
}

proptest! {
    #[test]
    fn any_packet_comes_back_as_it_was(chunks in proptest::collection::vec(any_chunk(), 1..6)) {
        let packet = packet(chunks);
        let bytes = wire::encode(&packet);
        prop_assert_eq!(bytes.len() as u32, packet.wire_len());
        prop_assert_eq!(wire::decode(&bytes), Ok(packet));
    }

    #[test]
    fn any_bytes_are_survived_and_what_is_understood_is_stable(body in bytes(200)) {
        let _ = wire::decode(&body);
        if let Ok(packet) = decode(&body) {
            let once = wire::encode(&packet);
            let again = wire::decode(&once);
            prop_assert_eq!(again.as_ref().map(wire::encode), Ok(once));
            prop_assert_eq!(again, Ok(packet));
        }
    }

    /// Packets that are changed in a few places, so that errors are deep inside.
    #[test]
    fn damaged_sctp_packets_are_survived(
        chunks in proptest::collection::vec(any_chunk(), 1..4),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = wire::encode_with(&packet(chunks), Checksum::Zero);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        if let Ok(packet) = wire::decode_with(&bytes, Checksum::Zero) {
            let once = wire::encode(&packet);
            prop_assert_eq!(wire::decode(&once).map(|packet| wire::encode(&packet)), Ok(once));
        }
    }
}
