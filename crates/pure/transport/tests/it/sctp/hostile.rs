//! Hostile peers: no input causes a panic, and the memory is bounded.

use netrig_core::{Data, StreamId};
use netrig_transport::sctp::Config;
use netrig_transport::sctp::packet::{Chunk, Parameter, chunk};
use netrig_transport::{Connection, Profile, Serial};
use proptest::prelude::*;

use super::pair::*;
use super::wire::any_chunk;

/// An arbitrary chunk, or a chunk with numbers close to the valid ones.
#[derive(Clone, Debug)]
enum Attack {
    Any(Chunk),
    /// DATA with a TSN at this distance from the next TSN.
    Data {
        distance: i32,
        stream: u16,
        ssn: u16,
        flags: u8,
        size: u64,
    },
    /// SACK at this distance from the cumulative TSN.
    Sack {
        distance: i32,
        a_rwnd: u32,
        gaps: Vec<(u16, u16)>,
    },
}

fn attack() -> impl Strategy<Value = Attack> {
    let data = (-3..40_i32, 0..12_u16, 0..6_u16, any::<u8>(), 0..2000_u64)
        .prop_map(|(distance, stream, ssn, flags, size)| Attack::Data { distance, stream, ssn, flags, size });
    let gaps = proptest::collection::vec((0..30_u16, 0..30_u16), 0..4);
    let sack = (-3..20_i32, prop_oneof![Just(0), any::<u32>()], gaps)
        .prop_map(|(distance, a_rwnd, gaps)| Attack::Sack { distance, a_rwnd, gaps });
    prop_oneof![1 => any_chunk().prop_map(Attack::Any), 3 => data, 6 => sack]
}

impl Attack {
    fn chunk(self, next: Serial, acknowledged: Serial) -> Chunk {
        let near = |base: Serial, distance: i32| base.plus(distance as u32);
        match self {
            Self::Any(chunk) => chunk,
            Self::Data { distance, stream, ssn, flags, size } => Chunk::Data(chunk::Data {
                tsn: near(next, distance),
                stream: StreamId(stream),
                ssn,
                ppid: 0,
                unordered: flags & 1 != 0,
                beginning: flags & 2 != 0,
                ending: flags & 4 != 0,
                immediate: flags & 8 != 0,
                data: Data::Fill(size),
            }),
            Self::Sack { distance, a_rwnd, gaps } => Chunk::Sack(chunk::Sack {
                cumulative_tsn: near(acknowledged, distance),
                a_rwnd,
                gaps: gaps.into_iter().map(|(start, end)| chunk::GapBlock { start, end }).collect(),
                duplicates: Vec::new(),
            }),
        }
    }
}

/// The initial TSN that an end announced in its INIT or INIT ACK.
fn initial_tsn(pair: &Pair, side: Side) -> Serial {
    pair.sent_by(side)
        .find_map(|crossing| match &crossing.packet.chunks[0] {
            Chunk::Init(init) | Chunk::InitAck(init) => Some(init.initial_tsn),
            _ => None,
        })
        .expect("a handshake")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn an_association_survives_whatever_its_peer_sends(
        profile in prop_oneof![Just(Profile::Rfc), Just(Profile::Linux), Just(Profile::Ns2)],
        attacks in proptest::collection::vec((attack(), 0..2000_u64, 0..2_usize), 1..60),
        established in any::<bool>(),
    ) {
        let mut pair = Pair::new(&Config::of(profile), 2, ms(20));
        pair.open();
        if established {
            pair.run_for(s(2));
        }
        pair.fill(200_000);
        // The real peer is cut off. The attacker uses its addresses and tags.
        pair.lose(|_| true);
        let own = initial_tsn(&pair, Side::Client);
        let peer = if established { initial_tsn(&pair, Side::Server) } else { Serial(0) };
        let tag = pair.client().local_tag();
        for (attack, after, path) in attacks {
            let chunk = attack.chunk(peer, own);
            let tag = if matches!(chunk, Chunk::Init(_)) { 0 } else { tag };
            pair.deliver(Side::Client, forged(Side::Client, path, tag, vec![chunk]));
            pair.run_for(ms(after));
        }
        pair.run_for(s(600));
        let left = pair.client().unacknowledged();
        prop_assert!(left <= 200_000);
    }
}

/// One-byte messages that are never delivered, because each follows a gap.
#[test]
fn a_peer_cannot_make_it_keep_more_than_its_buffer() {
    let mut pair = Pair::new(&rfc(), 1, ms(20));
    pair.open();
    pair.run_for(s(1));
    let (tag, tsn) = (pair.client().local_tag(), initial_tsn(&pair, Side::Server));
    pair.lose(|_| true);
    for i in 1..60_000_u32 {
        let chunk =
            Attack::Data { distance: 2 * i as i32 % 60_000, stream: 0, ssn: i as u16 | 1, flags: 2, size: 1 };
        pair.deliver(Side::Client, forged(Side::Client, 0, tag, vec![chunk.chunk(tsn, tsn)]));
    }
    let held = pair.sent_by(Side::Client).filter_map(Crossing::sack).last().map(|sack| 262_144 - sack.a_rwnd);
    assert!(held.is_some_and(|held| held <= 262_144 / 32 + 1), "{held:?}");
}

/// RFC 9260 section 12.4: no reply is longer than the MTU, even to ten thousand parameters, to ten thousand addresses,
/// or to an unknown chunk of 60 KB that must be reported.
#[test]
fn nonsense_is_not_answered_with_more_of_it() {
    let nonsense = || vec![Parameter::Unknown { kind: 0xC001, value: Vec::new() }; 10_000];
    let mut pair = Pair::new(&rfc(), 1, ms(20));
    pair.open();
    pair.run_for(s(1));
    let tag = pair.client().local_tag();
    let init = pair.log[0].packet.chunks[0].clone();
    let Chunk::Init(mut init) = init else { panic!("an association begins with INIT") };
    let mut crowd = init.clone();
    crowd.parameters.extend((1..10_000_u32).map(|n| Parameter::Address(std::net::Ipv4Addr::from(n).into())));
    init.parameters.extend(nonsense());
    pair.log.clear();
    // The receivers are a listener, an association, and an association that waits for an INIT ACK.
    let mut fresh = Pair::new(&rfc(), 1, ms(20));
    fresh.deliver(Side::Server, forged(Side::Server, 0, 0, vec![Chunk::Init(init.clone())]));
    pair.deliver(Side::Server, forged(Side::Server, 0, 0, vec![Chunk::Init(init.clone())]));
    pair.deliver(Side::Server, forged(Side::Server, 0, 0, vec![Chunk::Init(crowd.clone())]));
    fresh.deliver(Side::Server, forged(Side::Server, 0, 0, vec![Chunk::Init(crowd)]));
    let unknown = chunk::Unknown { kind: 0xC1, flags: 0, value: vec![0; 60_000] };
    pair.deliver(Side::Client, forged(Side::Client, 0, tag, vec![Chunk::Unknown(unknown)]));
    fresh.open();
    init.parameters.push(Parameter::Cookie(vec![1]));
    let tag = fresh.client().local_tag();
    fresh.deliver(Side::Client, forged(Side::Client, 0, tag, vec![Chunk::InitAck(init)]));
    let answers: Vec<_> =
        fresh.log.iter().chain(&pair.log).map(|answer| (answer.names(), answer.ip_len)).collect();
    let named = |name| answers.iter().filter(|(names, _)| names == name).count();
    assert_eq!((named("COOKIE ECHO+ERROR"), named("INIT ACK"), named("ABORT")), (1, 3, 1), "{answers:?}");
    assert!(answers.iter().all(|(_, ip_len)| *ip_len <= 1500), "{answers:?}");
}

/// RFC 9260 section 12.4: an INIT ACK contains only the necessary parts: 52 bytes of headers and fixed fields, the
/// cookie, the addresses if there are several, and a report of each parameter that must be reported. Here there are two
/// paths, and 28 bytes of such a parameter.
#[test]
fn an_init_ack_is_as_long_as_its_parts() {
    for (paths, addresses) in [(1, 0), (2, 2 * 8)] {
        for (unknown, reports) in [(None, 0), (Some(0x8001), 0), (Some(0xC001), 4 + 4 + 24)] {
            let mut pair = Pair::new(&rfc(), paths, ms(20));
            pair.open();
            let Chunk::Init(mut init) = pair.log[0].packet.chunks[0].clone() else { panic!("INIT") };
            let parameters = unknown.map(|kind| Parameter::Unknown { kind, value: vec![7; 24] });
            init.parameters.extend(parameters);
            pair.log.clear();
            pair.deliver(Side::Server, forged(Side::Server, 0, 0, vec![Chunk::Init(init)]));
            let Chunk::InitAck(ack) = &pair.log[0].packet.chunks[0] else { panic!("INIT ACK") };
            let cookie = ack.cookie().expect("a cookie").len() as u32;
            // The cookie contains times, ports, tags, numbers and counts (52 bytes), at most four addresses of 16
            // bytes, and the signature.
            assert!(cookie <= 52 + 16 * (2 + paths as u32) + 32, "{cookie} bytes");
            let len = 52 + addresses + 4 + cookie.next_multiple_of(4) + reports;
            assert_eq!(pair.log[0].ip_len, len, "{paths} paths, {unknown:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// RFC 9260 section 12.4: any packet causes at most one packet in reply, not counting DATA. The reply is not longer
    /// than the MTU unless the received packet is.
    #[test]
    fn one_packet_answers_a_packet(
        chunks in proptest::collection::vec(
            prop_oneof![
                any_chunk(),
                (0xC0..=0xFF_u8, 0..600_usize).prop_map(|(kind, len)| {
                    Chunk::Unknown(chunk::Unknown { kind, flags: 0, value: vec![1; len] })
                }),
                (0..600_usize).prop_map(|len| {
                    Chunk::Heartbeat(chunk::Heartbeat { info: vec![1; len] })
                }),
                (0..40_i32, 0..20_u16).prop_map(|(distance, stream)| {
                    let attack = Attack::Data { distance, stream, ssn: 0, flags: 6, size: 10 };
                    attack.chunk(Serial(0), Serial(0))
                }),
            ],
            1..12,
        ),
        stage in 0..5_u8,
        path in 0..2_usize,
    ) {
        let mut pair = Pair::new(&rfc(), 2, ms(20));
        // For the server, the second path stays unconfirmed.
        pair.lose(move |crossing| {
            crossing.path == 1 || stage == 0 || [1, 4].contains(&stage) && crossing.has("COOKIE ECHO")
        });
        pair.open();
        pair.run_for(ms(150));
        if stage == 3 {
            pair.act(Side::Server, |server, now| server.close(now));
        }
        // If the receiver is a listener, the chunks follow the COOKIE ECHO that creates the association.
        let echo = pair.log.iter().find(|crossing| crossing.has("COOKIE ECHO")).filter(|_| stage == 4);
        let echo = echo.map(|crossing| crossing.packet.clone());
        let (side, tag) = match (stage, &echo) {
            (0 | 1, _) => (Side::Client, pair.client().local_tag()),
            (_, Some(echo)) => (Side::Server, echo.verification_tag),
            _ => (Side::Server, pair.server().local_tag()),
        };
        let next = pair.sent_by(Side::Client).find_map(|crossing| match &crossing.packet.chunks[0] {
            Chunk::Init(init) => Some(init.initial_tsn),
            _ => None,
        });
        let next = next.expect("INIT");
        let chunks = chunks.into_iter().map(|chunk| match chunk {
            Chunk::Data(mut data) => {
                data.tsn = next.plus(data.tsn.0 % 64);
                Chunk::Data(data)
            }
            other => other,
        });
        pair.log.clear();
        let first = echo.into_iter().flat_map(|echo| echo.chunks);
        let packet = forged(side, path, tag, first.chain(chunks).collect());
        let asked = packet.header.ip_len;
        pair.deliver(side, packet);
        let other = |chunk: &Chunk| !matches!(chunk, Chunk::Data(_));
        let answers: Vec<_> =
            pair.sent_by(side).filter(|crossing| crossing.packet.chunks.iter().any(other)).collect();
        prop_assert!(answers.len() <= 1, "{answers:?}");
        prop_assert!(asked > 1500 || answers.iter().all(|answer| answer.ip_len <= 1500), "{answers:?}");
    }
}

/// RFC 9260 section 12.4: if many chunks must be reported, only as many reports are sent as fit one packet together
/// with the SACK for the data among them.
#[test]
fn answers_that_do_not_fit_one_packet_are_left_out() {
    let mut pair = Pair::connected(&rfc(), 1, ms(20));
    pair.fill(100);
    let Chunk::Data(data) = pair.log[0].packet.chunks[0].clone() else { panic!("DATA") };
    let tag = pair.server().local_tag();
    let unknown = |n| Chunk::Unknown(chunk::Unknown { kind: 0xC1, flags: n, value: vec![n; 496] });
    let chunks = [vec![Chunk::Data(data)], (0..10).map(unknown).collect()].concat();
    pair.log.clear();
    pair.deliver(Side::Server, forged(Side::Server, 0, tag, chunks));
    // An ERROR has 4 bytes, its cause 4 and the chunk 500. With the headers and a SACK of 16 bytes, two reports make
    // 1064 bytes, and three 1572.
    assert_eq!(pair.log.iter().map(Crossing::names).collect::<Vec<_>>(), ["ERROR+ERROR+SACK"]);
}
