//! Over any network, every byte is delivered exactly once and in order.

use netrig_core::{CloseReason, Data, Seeds, Size};
use netrig_transport::sctp::{ChunkCharge, Config, Counted, CwndUnit, IdleCwnd, RetransmitTo, Scheduler};
use netrig_transport::{Connection, Profile, TimerWheel};
use proptest::prelude::*;

use super::pair::*;

fn scheduler() -> impl Strategy<Value = Scheduler> {
    prop_oneof![
        Just(Scheduler::Fcfs),
        Just(Scheduler::RoundRobin),
        Just(Scheduler::RoundRobinPacket),
        Just(Scheduler::Priority),
        Just(Scheduler::Fair),
        Just(Scheduler::WeightedFair),
    ]
}

fn sizes() -> impl Strategy<Value = u64> {
    prop_oneof![Just(1), Just(3), Just(365), Just(1452), Just(1453), 1..5000_u64]
}

prop_compose! {
    fn sending()(
        profile in prop_oneof![Just(Profile::Rfc), Just(Profile::Linux), Just(Profile::Ns2)],
        scheduler in scheduler(),
        message_size in prop_oneof![Just(0), sizes()],
        max_chunk in prop_oneof![Just(65_519), 20..2000_u64],
        mtu in prop_oneof![Just(1500), 100..9000_u64],
        ordered in any::<bool>(),
        bundling in any::<bool>(),
        nagle in any::<bool>(),
        join_sends in any::<bool>(),
        stream_values in proptest::collection::vec(0..5_u16, 0..4),
    ) -> Config {
        Config {
            scheduler,
            message_size: Size::from_bytes(message_size),
            max_chunk: Size::from_bytes(max_chunk),
            mtu: Size::from_bytes(mtu),
            ordered,
            bundling,
            nagle,
            join_sends,
            stream_values,
            streams: 4,
            ..Config::of(profile)
        }
    }
}

prop_compose! {
    fn config()(
        config in sending(),
        retransmit_to in prop_oneof![
            Just(RetransmitTo::SamePath),
            Just(RetransmitTo::AlternatePath),
            Just(RetransmitTo::TimeoutsToAlternate),
        ],
        potentially_failed in any::<bool>(),
        return_to_primary in any::<bool>(),
        path_max_retrans in 0..6_u32,
        delayed_sack in any::<bool>(),
        receive_buffer in prop_oneof![Just(262_144), 2000..20_000_u64],
        max_burst in 0..5_u32,
        units in (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()),
        idle_cwnd in prop_oneof![Just(IdleCwnd::Keep), Just(IdleCwnd::HalvePerRto), Just(IdleCwnd::HalveAtHeartbeat)],
    ) -> Config {
        let counted = |user_data| if user_data { Counted::UserData } else { Counted::Chunks };
        Config {
            retransmit_to,
            potentially_failed,
            return_to_primary,
            path_max_retrans,
            delayed_sack,
            receive_buffer: Size::from_bytes(receive_buffer),
            max_burst,
            chunk_charge: if units.4 { ChunkCharge::KernelBuffer } else { ChunkCharge::UserBytes },
            counted: counted(units.0),
            window_counts: counted(units.1),
            cwnd_unit: if units.2 { CwndUnit::Mtu } else { CwndUnit::Pmdcs },
            lost_is_outstanding: units.3,
            timer_wheel: if units.3 { TimerWheel::Linux250 } else { TimerWheel::Exact },
            idle_cwnd,
            // High limits, so that random losses alone do not end the association.
            association_max_retrans: 1000,
            init_max_retrans: 1000,
            rto_max: s(10),
            ..config
        }
    }
}

/// A network that loses, delays and duplicates packets, each with a given probability.
#[derive(Clone, Copy, Debug)]
struct Weather {
    loss: f64,
    late: f64,
    twice: f64,
}

fn weather() -> impl Strategy<Value = Weather> {
    let share = || prop_oneof![Just(0.0), 0.0..0.3];
    (share(), share(), share()).prop_map(|(loss, late, twice)| Weather { loss, late, twice })
}

impl Weather {
    fn rule(self, seed: u64) -> impl FnMut(&Crossing) -> Verdict {
        let mut random = Seeds::new(seed).stream("weather");
        move |_| {
            let (lost, late, twice) =
                (random.chance(self.loss), random.chance(self.late), random.chance(self.twice));
            match (lost, late, twice) {
                (true, _, _) => Verdict::Drop,
                (_, true, _) => Verdict::Late(ms(random.below(300))),
                (_, _, true) => Verdict::Twice,
                _ => Verdict::Pass,
            }
        }
    }
}

/// Test data that differs by stream and position.
fn content(stream: u16, from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|i| (i * 31 + i / 256 * 7 + usize::from(stream) * 101) as u8).collect()
}

fn received(pair: &Pair, stream: u16) -> Vec<u8> {
    let pieces = pair.server.received.get(&stream).map(Vec::as_slice).unwrap_or_default();
    let mut all = Vec::new();
    for piece in pieces {
        let Data::Bytes(bytes) = piece else { panic!("bytes stay bytes") };
        all.extend_from_slice(bytes);
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_arrives_once_and_in_order(
        config in config(),
        weather in weather(),
        paths in 1..3_usize,
        seed in any::<u64>(),
        sends in proptest::collection::vec((0..4_u16, 1..3000_usize), 1..8),
        over_wire in any::<bool>(),
    ) {
        let mut pair = Pair::with(&config, &config, paths, ms(50), seed);
        pair.over_wire = over_wire;
        pair.rule(weather.rule(seed));
        pair.open();
        let mut sent: [Vec<u8>; 4] = Default::default();
        for (stream, len) in sends {
            let piece = content(stream, sent[usize::from(stream)].len(), len);
            sent[usize::from(stream)].extend_from_slice(&piece);
            pair.send(stream, Data::Bytes(piece.into()));
            pair.run_for(ms(len as u64 % 70));
        }
        let unfinished = |pair: &Pair| {
            pair.client.association.as_ref().is_some_and(|client| client.unacknowledged() > 0)
        };
        pair.run_while(at(s(100_000)), unfinished);
        pair.run_for(s(1));
        for (stream, sent) in (0..).zip(sent) {
            let mut got = received(&pair, stream);
            if config.ordered {
                prop_assert_eq!(got, sent, "stream {}", stream);
            } else {
                let mut sent = sent;
                got.sort_unstable();
                sent.sort_unstable();
                prop_assert_eq!(got, sent, "stream {}", stream);
            }
        }
        prop_assert_eq!(pair.client().unacknowledged(), 0);
        pair.rule(|_| Verdict::Pass);
        pair.act(Side::Client, |client, now| client.close(now));
        pair.run_for(s(100));
        prop_assert_eq!(pair.client.closed(), Some(CloseReason::Finished));
        prop_assert_eq!(pair.server.closed(), Some(CloseReason::Finished));
    }

    /// Two runs with the same seed are equal, packet by packet.
    #[test]
    fn the_same_seed_gives_the_same_packets(config in config(), weather in weather(), seed in any::<u64>()) {
        let run = || {
            let mut pair = Pair::with(&config, &config, 2, ms(50), seed);
            pair.rule(weather.rule(seed));
            pair.open();
            pair.fill(5_000);
            pair.run_for(s(60));
            pair.log.iter().map(|crossing| format!("{crossing:?}")).collect::<Vec<_>>()
        };
        prop_assert_eq!(run(), run());
    }
}
