//! Peers that send anything at all: nothing panics, and what is kept stays small.

use netrig_core::{Data, StreamId};
use netrig_transport::sctp::Config;
use netrig_transport::sctp::packet::{Chunk, Parameter, chunk};
use netrig_transport::{Connection, Profile, Serial};
use proptest::prelude::*;

use super::pair::*;
use super::wire::any_chunk;

/// Any chunk, or one whose numbers lie near those that matter.
#[derive(Clone, Debug)]
enum Attack {
    Any(Chunk),
    /// DATA at this distance from the next TSN.
    Data {
        distance: i32,
        stream: u16,
        ssn: u16,
        flags: u8,
        size: u64,
    },
    /// SACK at this distance from what is acknowledged.
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

/// The TSN that an end announced in its INIT or INIT ACK.
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
        // The real peer is cut off and another one speaks in its name.
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

/// One-byte messages that wait for ever, each with a gap before it.
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

/// Ten thousand parameters and a chunk of 60 KB that the receiver should report: answers stay packets.
#[test]
fn nonsense_is_not_answered_with_more_of_it() {
    let nonsense = || vec![Parameter::Unknown { kind: 0xC001, value: Vec::new() }; 10_000];
    let mut pair = Pair::new(&rfc(), 1, ms(20));
    pair.open();
    pair.run_for(s(1));
    let tag = pair.client().local_tag();
    let init = pair.log[0].packet.chunks[0].clone();
    let Chunk::Init(mut init) = init else { panic!("an association begins with INIT") };
    init.parameters.extend(nonsense());
    pair.log.clear();
    // A listener answers, an association, and one that waits for the answer.
    let mut fresh = Pair::new(&rfc(), 1, ms(20));
    fresh.deliver(Side::Server, forged(Side::Server, 0, 0, vec![Chunk::Init(init.clone())]));
    pair.deliver(Side::Server, forged(Side::Server, 0, 0, vec![Chunk::Init(init.clone())]));
    let unknown = chunk::Unknown { kind: 0xC1, flags: 0, value: vec![0; 60_000] };
    pair.deliver(Side::Client, forged(Side::Client, 0, tag, vec![Chunk::Unknown(unknown)]));
    fresh.open();
    init.parameters.push(Parameter::Cookie(vec![1]));
    let tag = fresh.client().local_tag();
    fresh.deliver(Side::Client, forged(Side::Client, 0, tag, vec![Chunk::InitAck(init)]));
    let answers: Vec<_> =
        fresh.log.iter().chain(&pair.log).map(|answer| (answer.names(), answer.ip_len)).collect();
    assert!(answers.iter().any(|(names, _)| names == "COOKIE ECHO+ERROR"), "{answers:?}");
    assert!(answers.iter().filter(|(names, _)| names == "INIT ACK").count() == 2, "{answers:?}");
    assert!(answers.iter().all(|(_, ip_len)| *ip_len < 2_500), "{answers:?}");
}
