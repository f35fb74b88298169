//! Meters compared with the rules of RFC 2697 and RFC 2698, by hand and by brute force. Random schedules check the
//! guarantee of every meter: at most rate × time + burst passes.

use Colour::{Green, Red, Yellow};
use netrig_core::{Colour, DropReason, Dscp, Duration, Instant, Rate, Size};
use netrig_link::conditioning::{
    Bucket, ConditionAction, Conditioner, Layer, Match, Meter, Metering, Srtcm, TokenBucket, Trtcm,
};
use netrig_link::{Condition, Framing};
use proptest::prelude::*;

use crate::common::{Packet, Record, at_ms, at_us, header};

fn rate(bits_per_s: u64) -> Rate {
    Rate::from_bits_per_s(bits_per_s)
}

fn bytes(n: u64) -> Size {
    Size::from_bytes(n)
}

/// A meter with a committed rate of 1 B/ms.
fn srtcm(cbs: u64, ebs: u64, colour_aware: bool) -> Metering {
    let settings = Meter::Srtcm(Srtcm { cir: rate(8000), cbs: bytes(cbs), ebs: bytes(ebs), colour_aware });
    settings.check().unwrap();
    Metering::new(&settings)
}

/// A meter with a committed rate of 1 B/ms and a peak rate of 2 B/ms.
fn trtcm(cbs: u64, pbs: u64, colour_aware: bool) -> Metering {
    let (cbs, pbs) = (bytes(cbs), bytes(pbs));
    let settings = Meter::Trtcm(Trtcm { cir: rate(8000), cbs, pir: rate(16_000), pbs, colour_aware });
    settings.check().unwrap();
    Metering::new(&settings)
}

/// The colours that the meter gives to best-effort packets with these arrival times (ms) and lengths (bytes).
fn colours(mut meter: Metering, packets: &[(u64, u64)]) -> Vec<Colour> {
    packets.iter().map(|(at, len)| meter.colour(at_ms(*at), *len, Dscp::BE)).collect()
}

/// At first Tc = 1000 and Te = 500. The first 600 B come from Tc, which leaves 400. The next 600 B fit into neither
/// bucket. 500 B come from Te, which leaves none. 400 B come from Tc. In 1300 ms Tc fills up to 1000, and then Te gets
/// 300.
#[test]
fn a_single_rate_has_a_committed_and_an_excess_burst() {
    let packets = [(0, 600), (0, 600), (0, 500), (0, 400), (0, 1), (1300, 1000), (1300, 300), (1300, 1)];
    let expected = [Green, Red, Yellow, Green, Red, Green, Yellow, Red];
    assert_eq!(colours(srtcm(1000, 500, false), &packets), expected);
}

/// RFC 2697 section 3, colour-aware: a yellow packet never takes tokens from Tc, and a red packet takes none.
#[test]
fn a_single_rate_that_sees_colours_gives_no_better_one() {
    let mut meter = srtcm(1000, 500, true);
    let mut colour = |len, dscp| meter.colour(Instant::ZERO, len, dscp);
    assert_eq!(colour(100, Dscp::af(1, 3)), Red);
    assert_eq!(colour(400, Dscp::af(1, 2)), Yellow);
    assert_eq!(colour(200, Dscp::af(1, 2)), Red);
    // Neither of these packets took tokens from Tc, and a green packet may take tokens from Te.
    assert_eq!(colour(1000, Dscp::af(1, 1)), Green);
    assert_eq!(colour(100, Dscp::af(1, 1)), Yellow);
    assert_eq!(colour(1, Dscp::EF), Red);
}

/// At first Tp = 1000 and Tc = 500. The first 500 B come from both. 400 B come from Tp only, which leaves 100. 200 B do
/// not fit. After 100 ms Tp = 300 and Tc = 100: 100 B come from both, 150 B from Tp.
#[test]
fn two_rates_have_two_buckets() {
    let packets = [(0, 500), (0, 400), (0, 200), (100, 100), (100, 150), (100, 51)];
    assert_eq!(colours(trtcm(500, 1000, false), &packets), [Green, Yellow, Red, Green, Yellow, Red]);
}

/// RFC 2698 section 3, colour-aware: a red packet takes no tokens, and a yellow packet takes none from Tc.
#[test]
fn two_rates_that_see_colours_give_no_better_one() {
    let mut meter = trtcm(500, 1000, true);
    let mut colour = |len, dscp| meter.colour(Instant::ZERO, len, dscp);
    assert_eq!(colour(1000, Dscp::af(4, 3)), Red);
    assert_eq!(colour(300, Dscp::af(4, 2)), Yellow);
    assert_eq!(colour(500, Dscp::af(4, 1)), Green);
    assert_eq!(colour(201, Dscp::af(4, 1)), Red);
    assert_eq!(colour(200, Dscp::af(4, 1)), Yellow);
}

#[test]
fn impossible_meters_are_refused_by_field() {
    let field = |meter: Meter| meter.check().unwrap_err().field;
    let bucket = |bits, burst| Meter::TokenBucket(Bucket { rate: rate(bits), burst: bytes(burst) });
    assert_eq!(field(bucket(0, 1)), "rate");
    assert_eq!(field(bucket(1, 0)), "burst");
    assert_eq!(field(bucket(1, 2_000_000_001)), "burst");
    let single = |cir, cbs, ebs| {
        Meter::Srtcm(Srtcm { cir: rate(cir), cbs: bytes(cbs), ebs: bytes(ebs), colour_aware: false })
    };
    assert_eq!(field(single(0, 1, 1)), "cir");
    assert_eq!(field(single(1, 0, 0)), "cbs");
    assert_eq!(single(1, 0, 1).check(), Ok(()));
    let two = |cir, cbs, pir, pbs| {
        let (cir, pir) = (rate(cir), rate(pir));
        Meter::Trtcm(Trtcm { cir, cbs: bytes(cbs), pir, pbs: bytes(pbs), colour_aware: false })
    };
    assert_eq!(field(two(2, 1, 1, 1)), "pir");
    assert_eq!(field(two(1, 0, 1, 1)), "cbs");
    assert_eq!(field(two(1, 1, 1, 0)), "pbs");
}

/// A schedule of packets: arrival time, length and code point.
fn schedule() -> impl Strategy<Value = Vec<(Instant, u32, Dscp)>> {
    let gap = prop_oneof![1 => Just(0u64), 4 => 0u64..3_000_000, 1 => 0u64..100_000_000];
    let dscp = prop_oneof![Just(Dscp::BE), (1u8..=3).prop_map(|drop| Dscp::af(1, drop))];
    prop::collection::vec((gap, 20u32..1500, dscp), 1..100).prop_map(|packets| {
        let mut now = Instant::ZERO;
        let on_time = |(gap, len, dscp)| {
            now += Duration::from_nanos(gap);
            (now, len, dscp)
        };
        packets.into_iter().map(on_time).collect()
    })
}

/// Whether in every interval of the schedule at most `rate` × time + `burst` bytes of these packets pass, computed
/// exactly in billionths of a bit.
fn conforms(passed: &[(Instant, u32)], rate: u64, burst: u64) -> bool {
    (0..passed.len()).all(|first| {
        let mut sum = 0u128;
        passed[first..].iter().all(|(at, len)| {
            sum += u128::from(*len) * 8_000_000_000;
            let time = u128::from(at.since(passed[first].0).as_nanos());
            sum <= time * u128::from(rate) + u128::from(burst) * 8_000_000_000
        })
    })
}

proptest! {
    /// The guarantee for the packets of each colour together with all better colours.
    #[test]
    fn no_more_passes_than_rate_times_time_and_burst(
        schedule in schedule(),
        cir in 1u64..20_000_000,
        more in 0u64..20_000_000,
        cbs in 1u64..20_000,
        other in 1u64..20_000,
        colour_aware in any::<bool>(),
    ) {
        let pir = cir + more;
        let (c, o) = (bytes(cbs), bytes(other));
        let bucket = Meter::TokenBucket(Bucket { rate: rate(cir), burst: c });
        let single = Meter::Srtcm(Srtcm { cir: rate(cir), cbs: c, ebs: o, colour_aware });
        let two = Meter::Trtcm(Trtcm { cir: rate(cir), cbs: c, pir: rate(pir), pbs: o, colour_aware });
        for (settings, yellow) in [(bucket, (cir, cbs)), (single, (cir, cbs + other)), (two, (pir, other))] {
            let mut meter = Metering::new(&settings);
            let found: Vec<_> =
                schedule.iter().map(|(at, len, dscp)| (meter.colour(*at, u64::from(*len), *dscp), *at, *len)).collect();
            let upto = |worst| -> Vec<(Instant, u32)> {
                found.iter().filter(|(colour, ..)| *colour <= worst).map(|(_, at, len)| (*at, *len)).collect()
            };
            prop_assert!(conforms(&upto(Green), cir, cbs));
            prop_assert!(conforms(&upto(Yellow), yellow.0, yellow.1));
        }
    }

    /// A token bucket decides as the generic cell rate algorithm (ITU-T I.371) in the form of virtual scheduling, with
    /// time in billionths of a bit. That algorithm has no tokens: it keeps the moment at which the bucket would be
    /// full.
    #[test]
    fn a_token_bucket_is_virtual_scheduling(
        schedule in schedule(),
        bits in 1u64..20_000_000,
        burst in 1u64..20_000,
    ) {
        let mut bucket = TokenBucket::new(rate(bits), bytes(burst));
        let mut theoretical = 0u128;
        for (at, len, _) in schedule {
            let now = u128::from(at.as_nanos()) * u128::from(bits);
            let full = theoretical.max(now) + u128::from(len) * 8_000_000_000;
            let conforming = full - now <= u128::from(burst) * 8_000_000_000;
            if conforming {
                theoretical = full;
            }
            prop_assert_eq!(bucket.pass(at, u64::from(len)), conforming);
        }
    }

    /// `ready` returns the first moment at which a packet passes. A nanosecond earlier it does not pass.
    #[test]
    fn a_bucket_knows_when_it_is_ready(bits in 1u64..20_000_000, burst in 1u64..5000, len in 1u64..5000) {
        let mut bucket = TokenBucket::new(rate(bits), bytes(burst));
        prop_assert!(bucket.pass(Instant::ZERO, burst));
        let ready = bucket.ready(Instant::ZERO, len);
        if len > burst {
            prop_assert_eq!(ready, Instant::NEVER);
            return Ok(());
        }
        let just_before = Instant::from_nanos(ready.as_nanos() - 1);
        prop_assert!(!bucket.clone().pass(just_before, len));
        prop_assert!(bucket.pass(ready, len));
    }

    /// RFC 2697 section 3 literally: CIR times per second Tc gets a token if it is not full, otherwise Te gets it if Te
    /// is not full. The rate is 8 Mbit/s, a byte per microsecond.
    #[test]
    fn a_single_rate_by_brute_force(
        packets in prop::collection::vec((0u64..400, 1u64..300, 0u8..4), 1..60),
        cbs in 0u64..600,
        ebs in 1u64..600,
        colour_aware in any::<bool>(),
    ) {
        let settings = Srtcm { cir: rate(8_000_000), cbs: bytes(cbs), ebs: bytes(ebs), colour_aware };
        let mut meter = Metering::new(&Meter::Srtcm(settings));
        let (mut tc, mut te, mut now) = (cbs, ebs, 0);
        for (gap, len, drop) in packets {
            for _ in 0..gap {
                if tc < cbs { tc += 1 } else if te < ebs { te += 1 }
            }
            now += gap;
            let dscp = if drop == 0 { Dscp::BE } else { Dscp::af(2, drop) };
            let before = match drop { 2 if colour_aware => Yellow, 3 if colour_aware => Red, _ => Green };
            let colour = if before == Green && tc >= len {
                tc -= len;
                Green
            } else if before != Red && te >= len {
                te -= len;
                Yellow
            } else {
                Red
            };
            prop_assert_eq!(meter.colour(at_us(now), len, dscp), colour);
        }
    }

    /// RFC 2698 section 3 literally, with one byte per microsecond committed and two bytes per microsecond at the peak.
    #[test]
    fn two_rates_by_brute_force(
        packets in prop::collection::vec((0u64..400, 1u64..300, 0u8..4), 1..60),
        cbs in 1u64..600,
        pbs in 1u64..600,
        colour_aware in any::<bool>(),
    ) {
        let (cir, pir) = (rate(8_000_000), rate(16_000_000));
        let settings = Trtcm { cir, cbs: bytes(cbs), pir, pbs: bytes(pbs), colour_aware };
        let mut meter = Metering::new(&Meter::Trtcm(settings));
        let (mut tc, mut tp, mut now) = (cbs, pbs, 0);
        for (gap, len, drop) in packets {
            for _ in 0..gap {
                tc = cbs.min(tc + 1);
                tp = pbs.min(tp + 2);
            }
            now += gap;
            let dscp = if drop == 0 { Dscp::BE } else { Dscp::af(2, drop) };
            let before = match drop { 2 if colour_aware => Yellow, 3 if colour_aware => Red, _ => Green };
            let colour = if before == Red || tp < len {
                Red
            } else if before == Yellow || tc < len {
                tp -= len;
                Yellow
            } else {
                tp -= len;
                tc -= len;
                Green
            };
            prop_assert_eq!(meter.colour(at_us(now), len, dscp), colour);
        }
    }
}

fn premium() -> Condition {
    let meter = Meter::TokenBucket(Bucket { rate: rate(8_000_000), burst: bytes(2000) });
    let matches = Match { dst_port: Some("80".parse().unwrap()), ..Match::default() };
    Condition { meter: Some(meter), ..Condition::mark(matches, Dscp::EF) }
}

fn packet(id: u64, dst_port: u16) -> Packet {
    let mut header = header(1000);
    header.flow.dst_port = dst_port;
    Packet { header, id }
}

/// Two packets of 1000 B fit into the bucket, and the third does not. After a millisecond one more packet fits.
#[test]
fn a_policer_marks_drops_and_counts() {
    let mut conditioner = Conditioner::new(&[premium()], Framing::None);
    let mut record = Record::default();
    let mut treat =
        |at, id, port| conditioner.treat(at, packet(id, port), &mut record).map(|p| p.header.dscp);
    assert_eq!(treat(at_ms(0), 0, 80), Some(Dscp::EF));
    assert_eq!(treat(at_ms(0), 1, 80), Some(Dscp::EF));
    assert_eq!(treat(at_ms(0), 2, 80), None);
    assert_eq!(treat(at_ms(0), 3, 81), Some(Dscp::BE), "no rule is about it");
    assert_eq!(treat(at_ms(1), 4, 80), Some(Dscp::EF));
    assert_eq!(record.dropped, [(at_ms(0), 2, DropReason::Policed)]);
    assert_eq!(
        record.conditioned,
        [(0, 0, Green), (0, 1, Green), (0, 2, Red), (1, 4, Green)].map(|(at, id, colour)| (
            at_ms(at),
            id,
            0,
            colour
        ))
    );
    let account = conditioner.accounts().next().unwrap();
    let found = Colour::ALL.map(|colour| account.found(colour).packets);
    assert_eq!((found, account.dropped.bytes), ([3, 0, 1], 1000));
}

#[test]
fn the_first_rule_that_matches_holds() {
    let rest = Condition::mark(Match::default(), Dscp::cs(1));
    let mut conditioner = Conditioner::new(&[premium(), rest], Framing::None);
    let mut treat = |port| conditioner.treat(at_ms(0), packet(0, port), &mut ()).map(|p| p.header.dscp);
    assert_eq!(
        [treat(80), treat(81), treat(80), treat(80)],
        [Some(Dscp::EF), Some(Dscp::cs(1)), Some(Dscp::EF), None]
    );
}

#[test]
fn what_is_beyond_the_profile_may_go_on_unmarked_or_as_it_came() {
    for (red, expected) in [(ConditionAction::Mark(Dscp::BE), Dscp::BE), (ConditionAction::Pass, Dscp::cs(5))]
    {
        let mut conditioner = Conditioner::new(&[Condition { red, ..premium() }], Framing::None);
        let mut came = packet(0, 80);
        came.header.dscp = Dscp::cs(5);
        let mut last = None;
        for _ in 0..3 {
            last = conditioner.treat(at_ms(0), came.clone(), &mut ()).map(|p| p.header.dscp);
        }
        assert_eq!(last, Some(expected));
    }
}

/// An IP packet of 40 B takes a cell of 53 B on an ATM line. At 8 Mbit/s of bytes on the line this takes 53 µs.
#[test]
fn a_profile_may_count_what_the_line_spends() {
    let meter = Meter::TokenBucket(Bucket { rate: rate(8_000_000), burst: bytes(53) });
    let rule =
        Condition { meter: Some(meter), layer: Layer::Line, ..Condition::mark(Match::default(), Dscp::EF) };
    let mut conditioner = Conditioner::new(&[rule], Framing::Atm);
    let mut passes = |at| conditioner.treat(at_us(at), header(40), &mut ()).is_some();
    assert_eq!(
        [passes(0), passes(52), passes(53), passes(105), passes(106)],
        [true, false, true, false, true]
    );
}

#[test]
fn impossible_rules_are_refused_by_field() {
    let field = |rule: Condition| rule.check().unwrap_err().field;
    assert_eq!(premium().check(), Ok(()));
    assert_eq!(field(Condition { yellow: Some(ConditionAction::Pass), ..premium() }), "yellow");
    assert_eq!(field(Condition { meter: None, layer: Layer::Line, ..premium() }), "meter");
    assert_eq!(field(Condition { meter: None, red: ConditionAction::Pass, ..premium() }), "meter");
    let empty = Match { dscp: Some([].into_iter().collect()), ..Match::default() };
    assert_eq!(field(Condition { matches: empty, ..premium() }), "match.dscp");
}
