//! All data is delivered over any network.

use netrig_core::{CloseReason, Seeds};
use netrig_transport::Profile;
use netrig_transport::tcp::{Config, Congestion, EcnMode, Nagle, Recovery};
use proptest::prelude::*;

use super::pair::{Fate, MS, Pair, Side};

const CONGESTIONS: [Congestion; 4] =
    [Congestion::Tahoe, Congestion::Reno, Congestion::Cubic, Congestion::Scalable];
const RECOVERIES: [Recovery; 5] =
    [Recovery::None, Recovery::Reno, Recovery::Newreno, Recovery::Sack, Recovery::Rack];

fn text(len: usize, seed: u64) -> Vec<u8> {
    let mut stream = Seeds::new(seed).stream("text");
    (0..len).map(|_| stream.bits() as u8).collect()
}

fn config(profile: Profile, congestion: Congestion, recovery: Recovery) -> Config {
    Config {
        congestion,
        recovery,
        sack: matches!(recovery, Recovery::Sack | Recovery::Rack),
        data_retries: netrig_transport::tcp::Limit::UNBOUNDED,
        syn_retries: netrig_transport::tcp::Limit::UNBOUNDED,
        ..Config::of(profile)
    }
}

/// Transfers data in both directions at the same time, in pieces of any length, over a network that loses, delays,
/// duplicates and marks packets.
fn everything_arrives(config: &Config, seed: u64, loss: f64, rate: bool) -> Result<(), TestCaseError> {
    let mut chance = Seeds::new(seed).stream("network");
    let mut pair = Pair::new(config).with_network(move |_| {
        let (lose, late, twice, mark) =
            (chance.chance(loss), chance.chance(0.05), chance.chance(0.02), chance.chance(0.02));
        let by = MS(chance.below(120));
        match () {
            () if lose => Fate::Drop,
            () if late => Fate::Late(by),
            () if twice => Fate::Twice,
            () if mark => Fate::Mark,
            () => Fate::Pass,
        }
    });
    if rate {
        pair = pair.with_rate("2 Mbit/s", 12);
    }
    let (there, back) = (text(60_000, seed), text(20_000, seed + 1));
    let mut sizes = Seeds::new(seed).stream("sizes");
    pair.open();
    let mut rest = &there[..];
    while !rest.is_empty() {
        let n = (1 + sizes.below(9000) as usize).min(rest.len());
        pair.send_bytes(Side::Client, &rest[..n]);
        rest = &rest[n..];
        pair.run(MS(sizes.below(60)));
    }
    pair.send_bytes(Side::Server, &back);
    while pair.received[0].len() < back.len() || pair.received[1].len() < there.len() {
        let until = pair.now + MS(4_000_000);
        prop_assert!(
            pair.step(until),
            "stuck at {} with {} and {}",
            pair.now,
            pair.received[0].len(),
            pair.received[1].len()
        );
    }
    pair.close(Side::Client);
    pair.run(MS(4_000_000));
    prop_assert_eq!(&pair.received[1], &there);
    prop_assert_eq!(&pair.received[0], &back);
    let reasons = pair.closed.map(|closed| closed.map(|(_, reason)| reason));
    // The server may not have received the last acknowledgement before TIME-WAIT ended (with ns-2's profile TIME-WAIT
    // has no duration).
    prop_assert_eq!(reasons[0], Some(CloseReason::Finished));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bytes_arrive_whatever_happens(
        profile in prop::sample::select(&Profile::ALL[..]),
        congestion in prop::sample::select(&CONGESTIONS[..]),
        recovery in prop::sample::select(&RECOVERIES[..]),
        seed in 0u64..1 << 40,
        loss in prop::sample::select(&[0.0, 0.01, 0.05, 0.2][..]),
        rate in any::<bool>(),
    ) {
        everything_arrives(&config(profile, congestion, recovery), seed, loss, rate)?;
    }
}

/// Each congestion control with each recovery. Every run of the tests covers each combination at least once.
#[test]
fn every_combination_delivers() {
    for profile in Profile::ALL {
        for congestion in CONGESTIONS {
            for recovery in RECOVERIES {
                for loss in [0.03, 0.15] {
                    let outcome = everything_arrives(&config(profile, congestion, recovery), 17, loss, true);
                    assert!(outcome.is_ok(), "{profile} {congestion:?} {recovery:?} {loss}: {outcome:?}");
                }
            }
        }
    }
}

/// An option that the other end does not support is not used.
#[test]
fn unequal_ends_understand_each_other() {
    let bare = Config {
        sack: false,
        timestamps: false,
        window_scaling: false,
        ecn: EcnMode::Off,
        nagle: Nagle::Off,
        ..Config::of(Profile::Rfc)
    };
    let full = Config::of(Profile::Linux);
    for (client, server) in [(&bare, &full), (&full, &bare)] {
        let mut pair = Pair::between(client, server).dropping(&[5, 6, 20]);
        pair.open();
        let text = text(200_000, 3);
        pair.send_bytes(Side::Client, &text);
        pair.run(MS(60_000));
        assert!(pair.received[1] == text);
        // The client's SYN may offer any option. The SYN-ACK and all later segments have none.
        let extras = |sent: &&super::pair::Sent| {
            let segment = &sent.segment;
            let offer = sent.from == Side::Client && sent.ordinal == 1;
            let options = segment.timestamps.is_some() || segment.window_scale.is_some();
            !offer && (options || segment.sack_permitted || !segment.sack.is_empty())
        };
        assert_eq!(pair.log.iter().filter(extras).count(), 0);
    }
}
