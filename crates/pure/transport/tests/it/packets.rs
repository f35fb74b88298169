//! Encoded packets, checked by an independent decoder that implements the headers of the RFCs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netrig_core::{Data, Dscp, Ecn, FiveTuple, Header, Instant, protocol};
use netrig_transport::tcp::{Flags, SackBlocks, Segment, Timestamps};
use netrig_transport::{Datagram, Packet, Payload, Serial};
use proptest::prelude::*;

fn be16(bytes: &[u8]) -> u16 {
    u16::from_be_bytes([bytes[0], bytes[1]])
}

fn be32(bytes: &[u8]) -> u32 {
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// RFC 1071 section 1: if the checksum is correct, the sum of all words is 0xFFFF.
fn adds_up(parts: &[&[u8]]) -> bool {
    let mut sum = 0_u32;
    for word in parts.concat().chunks(2) {
        sum += u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0));
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum == 0xFFFF
}

/// The fields of an IP header, and the rest of the packet.
struct Ip<'a> {
    traffic_class: u8,
    protocol: u8,
    pseudo_header: Vec<u8>,
    body: &'a [u8],
}

/// Decodes the IP header (RFC 791 section 3.1, RFC 8200 sections 3 and 8.1).
fn ip(bytes: &[u8]) -> Ip<'_> {
    let (addresses, protocol, traffic_class, len, header) = match bytes[0] {
        0x45 => {
            assert!(adds_up(&[&bytes[..20]]), "the header's checksum");
            assert_eq!(be16(&bytes[6..]), 0x4000, "DF and no fragment");
            (&bytes[12..20], bytes[9], bytes[1], usize::from(be16(&bytes[2..])), 20)
        }
        first => {
            assert_eq!(first >> 4, 6);
            let len = 40 + usize::from(be16(&bytes[4..]));
            (&bytes[8..40], bytes[6], (be16(bytes) >> 4) as u8, len, 40)
        }
    };
    assert_eq!(len, bytes.len(), "length");
    let body = &bytes[header..];
    let len = (body.len() as u32).to_be_bytes();
    // The order of the words does not change the sum, so this pseudo-header is valid for both versions of IP.
    let pseudo_header = [addresses, &len, &[0, 0, 0, protocol]].concat();
    Ip { traffic_class, protocol, pseudo_header, body }
}

#[derive(Debug, Default, PartialEq)]
struct Options {
    mss: Option<u16>,
    window_scale: Option<u8>,
    sack_permitted: bool,
    timestamps: Option<(u32, u32)>,
    sack: Vec<(u32, u32)>,
}

/// RFC 9293 section 3.1: an option is a kind alone (0 ends the list, 1 is a no-operation), or kind, length and value.
fn options(mut bytes: &[u8]) -> Options {
    let mut found = Options::default();
    while let Some(kind) = bytes.first() {
        if *kind == 1 {
            bytes = &bytes[1..];
            continue;
        }
        let (option, rest) = bytes.split_at(usize::from(bytes[1]));
        let value = &option[2..];
        match (kind, value.len()) {
            (2, 2) => found.mss = Some(be16(value)),
            (3, 1) => found.window_scale = Some(value[0]),
            (4, 0) => found.sack_permitted = true,
            (5, _) => {
                found.sack = value.chunks_exact(8).map(|pair| (be32(pair), be32(&pair[4..]))).collect();
            }
            (8, 8) => found.timestamps = Some((be32(value), be32(&value[4..]))),
            other => panic!("option {other:?}"),
        }
        bytes = rest;
    }
    found
}

fn address(v6: bool) -> impl Strategy<Value = IpAddr> {
    any::<[u8; 16]>().prop_map(move |octets| match v6 {
        true => IpAddr::V6(Ipv6Addr::from(octets)),
        false => IpAddr::V4(Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3])),
    })
}

fn data() -> impl Strategy<Value = Data> {
    let bytes = proptest::collection::vec(any::<u8>(), 0..100);
    prop_oneof![(0..2000_u64).prop_map(Data::Fill), bytes.prop_map(|bytes| Data::Bytes(bytes.into()))]
}

fn header(protocol: u8) -> impl Strategy<Value = Header> {
    let ecn = prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect0), Just(Ecn::Ect1), Just(Ecn::Ce)];
    // The two addresses may have different IP versions: a peer may list any address as its own.
    let addresses = any::<[bool; 2]>().prop_flat_map(|v6| (address(v6[0]), address(v6[1])));
    (addresses, any::<u16>(), any::<u16>(), 0..64_u8, ecn).prop_map(
        move |((src, dst), src_port, dst_port, dscp, ecn)| Header {
            flow: FiveTuple { src, dst, src_port, dst_port, protocol },
            ip_len: 0,
            dscp: Dscp(dscp),
            ecn,
        },
    )
}

prop_compose! {
    /// SYNs with their options, and other segments with SACK blocks, up to 40 bytes of options.
    fn segment()(
        [seq, ack] in any::<[u32; 2]>(),
        syn in any::<bool>(),
        window in any::<u16>(),
        mss in proptest::option::of(any::<u16>()),
        window_scale in proptest::option::of(0..15_u8),
        sack_permitted in any::<bool>(),
        timestamps in proptest::option::of(any::<(u32, u32)>()),
        blocks in proptest::collection::vec(any::<(u32, u32)>(), 0..5),
        data in data(),
    ) -> Segment {
        let mut sack = SackBlocks::none();
        let most = if timestamps.is_some() { 3 } else { 4 };
        for (left, right) in blocks.into_iter().take(if syn { 0 } else { most }) {
            sack.push(Serial(left), Serial(right));
        }
        Segment {
            seq: Serial(seq),
            ack: Serial(ack),
            flags: if syn { Flags::SYN | Flags::ECE } else { Flags::ACK | Flags::PSH | Flags::CWR },
            window,
            mss: mss.filter(|_| syn),
            window_scale: window_scale.filter(|_| syn),
            sack_permitted: sack_permitted && syn,
            timestamps: timestamps.map(|(value, echo)| Timestamps { value, echo }),
            sack,
            data,
        }
    }
}

fn user_data(data: &Data) -> Vec<u8> {
    match data {
        Data::Fill(n) => vec![0; *n as usize],
        Data::Bytes(bytes) => bytes.to_vec(),
    }
}

proptest! {
    #[test]
    fn a_segment_can_be_read_by_those_who_know_the_rfc(header in header(protocol::TCP), segment in segment()) {
        let mut bytes = Vec::new();
        let packet = Packet { header, payload: Payload::Tcp(segment.clone()) };
        let len = packet.encode(&mut bytes);
        prop_assert_eq!(len as usize, bytes.len());
        let counted = header.flow.ip_header_len() + 20 + segment.options_len() + segment.data.size() as u32;
        prop_assert_eq!(len, counted, "what endpoints count");
        let ip = ip(&bytes);
        let ecn = match header.ecn { Ecn::NotEct => 0, Ecn::Ect1 => 1, Ecn::Ect0 => 2, Ecn::Ce => 3 };
        prop_assert_eq!((ip.traffic_class, ip.protocol), (header.dscp.0 * 4 + ecn, 6));
        prop_assert!(adds_up(&[&ip.pseudo_header, ip.body]), "the segment's checksum");
        let tcp = ip.body;
        prop_assert_eq!((be16(tcp), be16(&tcp[2..])), (header.flow.src_port, header.flow.dst_port));
        prop_assert_eq!((be32(&tcp[4..]), be32(&tcp[8..])), (segment.seq.0, segment.ack.0));
        let flags = if segment.flags.contains(Flags::SYN) { 0b0100_0010 } else { 0b1001_1000 };
        prop_assert_eq!((tcp[13], be16(&tcp[14..]), be16(&tcp[18..])), (flags, segment.window, 0));
        let header_len = usize::from(tcp[12] >> 4) * 4;
        prop_assert_eq!(&tcp[header_len..], user_data(&segment.data));
        let wanted = Options {
            mss: segment.mss,
            window_scale: segment.window_scale,
            sack_permitted: segment.sack_permitted,
            timestamps: segment.timestamps.map(|t| (t.value, t.echo)),
            sack: segment.sack.as_slice().iter().map(|(left, right)| (left.0, right.0)).collect(),
        };
        prop_assert_eq!(options(&tcp[20..header_len]), wanted);
    }

    #[test]
    fn a_datagram_can_be_read_by_those_who_know_the_rfc(header in header(protocol::UDP), data in data()) {
        let mut bytes = Vec::new();
        let datagram = Datagram { number: 0, sent: Instant::ZERO, answers: None, data: data.clone() };
        let len = Packet { header, payload: Payload::Udp(datagram) }.encode(&mut bytes);
        prop_assert_eq!(len, header.flow.ip_header_len() + 8 + data.size() as u32);
        let ip = ip(&bytes);
        prop_assert!(adds_up(&[&ip.pseudo_header, ip.body]), "the datagram's checksum");
        prop_assert_ne!(be16(&ip.body[6..]), 0, "there is a checksum");
        prop_assert_eq!((ip.protocol, usize::from(be16(&ip.body[4..]))), (17, ip.body.len()));
        prop_assert_eq!(&ip.body[8..], user_data(&data));
    }
}

/// RFC 791 section 3.1: the largest total length is 65,535 bytes.
#[test]
fn a_datagram_that_no_packet_can_hold_is_cut() {
    let flow = FiveTuple {
        src: Ipv4Addr::LOCALHOST.into(),
        dst: Ipv4Addr::LOCALHOST.into(),
        src_port: 1,
        dst_port: 2,
        protocol: protocol::UDP,
    };
    let header = Header { flow, ip_len: 0, dscp: Dscp(0), ecn: Ecn::NotEct };
    for (size, len) in [(65_507, 65_535), (65_508, 65_535), (1_000_000_000_000, 65_535)] {
        let datagram = Datagram { number: 0, sent: Instant::ZERO, answers: None, data: Data::Fill(size) };
        let mut bytes = Vec::new();
        let told = Packet { header, payload: Payload::Udp(datagram) }.encode(&mut bytes);
        assert_eq!(bytes.len(), len);
        assert_eq!(u64::from(told), (size + 28).min(u64::from(u32::MAX)));
        let ip = ip(&bytes);
        assert!(adds_up(&[&ip.pseudo_header, ip.body]));
    }
}

/// A complete association over UDP: each packet in either direction is a datagram from port 9899 to port 9899 (RFC 6951
/// section 5.2). It is not longer than the MTU, and data fills the room that the headers leave.
#[test]
fn sctp_in_udp_is_a_datagram_that_fits_the_mtu() {
    use netrig_core::{Endpoint as _, Seeds, StreamId};
    use netrig_transport::sctp::{
        self, Association, Config, Encapsulation, Endpoints, Listener, ListenerResponse,
    };
    use netrig_transport::{Connection as _, Profile};
    for (local, remote) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
        let [local, remote] = [local, remote].map(|address| address.parse::<IpAddr>().unwrap());
        let config = Config { encapsulation: Encapsulation::Udp, ..Config::of(Profile::Rfc) };
        let seeds = Seeds::new(1);
        let there = sctp::PathAddresses { local, remote };
        let back = sctp::PathAddresses { local: remote, remote: local };
        let endpoints = Endpoints {
            local_port: 49_152,
            remote_port: 5001,
            primary: there,
            alternates: vec![],
            dscp: Dscp(0),
        };
        let mut client = Association::new(config.clone(), &endpoints, seeds.stream("client"));
        let mut listener = Listener::new(config, 5001, vec![back], Dscp(0), seeds.stream("listener"));
        let mut server: Option<Box<Association>> = None;
        client.open(Instant::ZERO);
        client.send(Instant::ZERO, StreamId(0), Data::Fill(20_000));
        let mut longest = 0;
        let mut see = |packet: &Packet| {
            let mut bytes = Vec::new();
            let len = packet.encode(&mut bytes);
            assert_eq!((len as usize, len), (bytes.len(), packet.header.ip_len));
            let ip = ip(&bytes);
            assert_eq!((ip.protocol, be16(ip.body), be16(&ip.body[2..])), (17, 9899, 9899));
            assert_eq!(usize::from(be16(&ip.body[4..])), ip.body.len());
            assert!(adds_up(&[&ip.pseudo_header, ip.body]), "the datagram's checksum");
            let Payload::Sctp(body) = &packet.payload else { panic!("SCTP") };
            assert_eq!(sctp::wire::decode(&ip.body[8..]).unwrap().chunks.len(), body.chunks.len());
            longest = longest.max(len);
        };
        // Without losses the transfer takes a few round trips, each with no delay.
        for _ in 0..100 {
            while let Some(packet) = client.poll_transmit(Instant::ZERO) {
                see(&packet);
                let Some(server) = &mut server else {
                    match listener.handle_packet(Instant::ZERO, packet).unwrap() {
                        ListenerResponse::Reply(reply) => {
                            see(&reply);
                            client.handle_packet(Instant::ZERO, reply);
                        }
                        ListenerResponse::Accepted(accepted) => server = Some(accepted),
                    }
                    continue;
                };
                server.handle_packet(Instant::ZERO, packet);
            }
            while let Some(packet) = server.as_mut().and_then(|server| server.poll_transmit(Instant::ZERO)) {
                see(&packet);
                client.handle_packet(Instant::ZERO, packet);
            }
        }
        // The headers of IPv4, UDP, SCTP and the chunk have 56 B, with IPv6 76 B. Chunks are padded to multiples of
        // four bytes.
        assert_eq!((longest, client.unacknowledged()), (1500, 0), "{local}");
    }
}
