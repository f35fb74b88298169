//! Growth of the congestion window, compared with closed forms.

use netrig_core::{Data, Duration, Ecn};
use netrig_transport::tcp::{
    Config, Congestion, EcnMode, Flags, Growth, HyStart, IdleRestart, Limit, Recovery, SsthreshFrom,
    WindowCounts,
};
use netrig_transport::{Connection as _, Incident, PathId, Profile};

use super::pair::{Fate, MS, Pair, Side, at_ms, plain};

fn cwnd(pair: &Pair) -> u64 {
    pair.client.path_status(PathId(0)).expect("TCP's path").cwnd
}

fn bulk(config: &Config) -> Pair {
    let mut pair = Pair::new(config);
    pair.open();
    pair.send(Side::Client, Data::Fill(1 << 40));
    pair
}

/// RFC 6928: the initial window is ten segments. RFC 5681 section 3.1: the window grows by one segment for each segment
/// that is acknowledged.
#[test]
fn slow_start_doubles_every_round_trip() {
    let mut pair = bulk(&plain());
    pair.run(MS(790));
    assert_eq!(pair.per_round(at_ms(100), MS(100), 6), [10, 20, 40, 80, 160, 320]);
}

/// Every second segment is acknowledged. RFC 5681 adds one segment for each acknowledgement, so the window grows to w ·
/// 3/2 per round trip. RFC 3465 with L = 2 compensates for this.
#[test]
fn delayed_acknowledgements_slow_slow_start() {
    let delayed = Config { ack_every: 2, ..plain() };
    let mut pair = bulk(&delayed);
    pair.run(MS(590));
    let rounds = pair.per_round(at_ms(100), MS(100), 4);
    // Of 15 segments, seven pairs are acknowledged immediately. The last segment is acknowledged with the first of the
    // next round.
    assert_eq!(rounds, [10, 15, 21, 33]);
    let mut pair = bulk(&Config { slow_start_limit: Limit::Count(2), ..delayed });
    pair.run(MS(590));
    assert_eq!(pair.per_round(at_ms(100), MS(100), 4), [10, 20, 40, 80]);
}

/// FIN has a sequence number but is not data. It is sent with the last segment that the window allows.
#[test]
fn fin_needs_no_room_in_the_window() {
    let mut pair = Pair::new(&plain());
    pair.open();
    pair.send(Side::Client, Data::Fill(10_000));
    pair.close(Side::Client);
    pair.run(MS(190));
    let last = pair.sent(Side::Client, |sent| sent.number() == 10)[0];
    assert!(last.at == at_ms(100) && last.segment.flags.contains(Flags::FIN));
}

/// Reno's sawtooth over a path that loses every n-th data packet.
#[test]
fn the_sawtooth_is_that_of_the_finite_sum() {
    for n in [100u64, 300, 1000, 3000] {
        let config = Config {
            recovery: Recovery::Sack,
            prr: false,
            ssthresh_from: SsthreshFrom::Cwnd,
            window_counts: WindowCounts::Bytes,
            ..plain()
        };
        let mut pair = Pair::new(&config).with_network(move |sent| {
            let counted = sent.from == Side::Client && sent.segment.carries_data();
            if counted && sent.data_ordinal % n == 0 { Fate::Drop } else { Fate::Pass }
        });
        pair.open();
        pair.send(Side::Client, Data::Fill(1 << 40));
        pair.run_until(at_ms(100_000));
        let before = pair.received_len[1];
        pair.run(MS(1_000_000));
        let segments = (pair.received_len[1] - before) / 1000;
        let rounds = 10_000.0 * (n as f64 - 1.0) / segments as f64;
        let expected = sawtooth(n);
        // Here the packets of a round are sent in one burst. A loss in the middle of a burst is detected in the next
        // round.
        let late = rounds - expected;
        assert!((0.0..1.0).contains(&late), "1 in {n}: {rounds:.3} round trips for a cycle of {expected:.3}");
    }
}

/// Number of round trips in a cycle of additive increase and multiplicative decrease if every n-th data packet is lost,
/// summed window by window.
///
/// The loss is detected when W segments are outstanding. Recovery takes one round trip and acknowledges W segments. The
/// window is then W/2, and grows by one segment for each acknowledged window, until n − 1 − W more segments are
/// received and the next loss is detected (one of the n packets is the retransmission). The window counts bytes, 1000
/// per segment, but only whole segments are sent: a window of 7.5 segments makes rounds of 7.
fn sawtooth(n: u64) -> f64 {
    let (mut window, mut rounds, cycles) = (20_000u64, 0.0, 1000);
    for cycle in 0..2 * cycles {
        let acknowledgements = n - 1 - window / 1000;
        window /= 2;
        let (mut elapsed, mut credit) = (1.0, 0);
        for _ in 0..acknowledgements {
            elapsed += 1.0 / (window / 1000) as f64;
            credit += 1000;
            if credit >= window {
                credit -= window;
                window += 1000;
            }
        }
        if cycle >= cycles {
            rounds += elapsed;
        }
    }
    rounds / f64::from(cycles)
}

/// RFC 9438 section 4.2 in a complete connection: after one loss, the window follows C (t − K)³ + W_max.
#[test]
fn cubic_returns_to_its_old_window_after_k() {
    let config = Config {
        congestion: Congestion::Cubic,
        hystart: HyStart::Off,
        initial_ssthresh: Limit::Count(400),
        cubic_reno_friendly: false,
        prr: false,
        recovery: Recovery::Sack,
        ..plain()
    };
    let mut pair = bulk(&config);
    pair.run_until(at_ms(3_000));
    let w_max = cwnd(&pair) / 1000;
    let mut lost = false;
    pair.network = Box::new(move |sent| {
        let lose = !lost && sent.from == Side::Client && sent.segment.carries_data();
        lost |= lose;
        if lose { Fate::Drop } else { Fate::Pass }
    });
    pair.run(MS(400));
    // Section 4.6: at the start of recovery, the window and the threshold become 0.7 of the previous window.
    let reduced = pair.incidents[0].iter().find_map(|(_, incident)| match incident {
        Incident::FastRetransmit { cwnd, .. } => Some(*cwnd as f64 / 1000.0),
        _ => None,
    });
    let share = reduced.expect("a loss") / w_max as f64;
    assert!((0.695..=0.705).contains(&share), "{reduced:?} of {w_max}");
    let ssthresh = pair.client.path_status(PathId(0)).expect("TCP's path").ssthresh as f64 / 1000.0;
    assert_eq!(Some(ssthresh), reduced);
    let recovered =
        pair.incidents[0].iter().find(|i| matches!(i.1, Incident::Recovered { .. })).expect("a recovery").0;
    let k = libm::cbrt(w_max as f64 * 0.3 / 0.4);
    for fraction in [0.25, 0.5, 1.0, 1.3] {
        let t = fraction * k;
        pair.run_until(recovered + Duration::from_secs_f64(t));
        let expected = 0.4 * (t - k) * (t - k) * (t - k) + w_max as f64;
        let found = cwnd(&pair) as f64 / 1000.0;
        // The window lags by at most one round trip: the slope of the function times 0.1 s.
        let lag = 3.0 * 0.4 * (t - k) * (t - k) * 0.1 + 3.0;
        assert!((found - expected).abs() <= lag, "at {t:.2} s: {found:.1} for {expected:.1} (K = {k:.2} s)");
    }
}

/// RFC 5681 section 4.1: after more than a time-out without sending, at most one initial window is sent at once.
#[test]
fn after_idleness_the_window_starts_again() {
    let series = |idle_restart| {
        let mut pair = Pair::new(&Config { idle_restart, ..plain() });
        pair.open();
        pair.send(Side::Client, Data::Fill(150_000));
        pair.run_until(at_ms(10_000));
        pair.send(Side::Client, Data::Fill(150_000));
        pair.run(MS(99));
        pair.per_round(at_ms(10_000), MS(100), 1)[0]
    };
    assert_eq!(series(IdleRestart::InitialWindow), 10);
    assert!(series(IdleRestart::None) > 80);
    // 9 idle seconds are nine time-outs of a second, so the window is halved down to the initial window.
    assert_eq!(series(IdleRestart::Decay), 10);
}

/// If a sender uses only ten segments per round trip, it cannot know whether a larger window is possible.
#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let trickle = |congestion, growth| {
        let config = Config { congestion, growth, hystart: HyStart::Off, ..plain() };
        let mut pair = Pair::new(&config);
        pair.connect();
        for _ in 0..50 {
            pair.send(Side::Client, Data::Fill(10_000));
            pair.run(MS(100));
        }
        cwnd(&pair) / 1000
    };
    // In slow start the window grows to twice the used window (`when-limited`), or without limit (`always`).
    for congestion in [Congestion::Reno, Congestion::Cubic] {
        assert_eq!(trickle(congestion, Growth::WhenLimited), 20, "{congestion}");
        assert!(trickle(congestion, Growth::Always) > 400, "{congestion}");
    }
}

/// An object of 70 segments is sent every 100 ms over a round trip of 50 ms, and one segment is lost. When the window
/// is large enough for a whole object, it is no longer filled, and t of CUBIC's function does not advance. After half a
/// minute the round-trip time becomes 230 ms, and the window is too small. The function then continues from the value
/// that t had, not from the current time.
#[test]
fn cubic_does_not_leap_after_the_application_was_the_limit() {
    for profile in [Profile::Rfc, Profile::Linux] {
        let config = Config { congestion: Congestion::Cubic, ..Config::of(profile) };
        let mut pair = Pair::new(&config).with_delay(MS(25)).dropping(&[80]);
        pair.connect();
        let mut objects = |n| {
            for _ in 0..n {
                pair.send(Side::Client, Data::Fill(100_000));
                pair.run(MS(100));
            }
            let window = cwnd(&pair) / 1448;
            pair.lines.iter_mut().for_each(|line| line.delay = MS(115));
            window
        };
        let before = objects(300);
        assert!((69..=75).contains(&before), "{profile:?}: {before} segments");
        // After half a second and after a second, the window has grown by at most about one segment per round trip. If
        // the whole time had been counted, it would be 154 and 345 segments.
        let after = [(); 2].map(|()| objects(5));
        assert!(
            after[1] > before && after[1] <= before + 16,
            "{profile:?}: {before}, then {after:?} segments"
        );
    }
}

/// ns-2's window_ limits the outstanding packets, independent of the congestion window.
#[test]
fn the_send_window_limits_what_is_outstanding() {
    let mut pair = bulk(&Config { send_window: Limit::Count(45), ..plain() });
    pair.run(MS(5_000));
    let rounds = pair.per_round(at_ms(2_000), MS(100), 20);
    assert!(rounds.iter().all(|n| *n == 45), "{rounds:?}");
}

/// RFC 3168 section 6.1: CE on data causes ECE on acknowledgements until a CWR arrives. The window is reduced once per
/// window of data.
#[test]
fn congestion_is_echoed_until_the_sender_reduces() {
    let config = Config { ecn: EcnMode::Request, prr: false, ..plain() };
    let mut pair = Pair::new(&config).with_network(|sent| {
        if sent.from == Side::Client && sent.data_ordinal == 25 && sent.segment.carries_data() {
            Fate::Mark
        } else {
            Fate::Pass
        }
    });
    pair.open();
    pair.send(Side::Client, Data::Fill(200_000));
    pair.run(MS(2000));
    let syn = &pair.log[0].segment;
    assert!(syn.flags.contains(Flags::SYN | Flags::ECE | Flags::CWR));
    let answer = &pair.sent(Side::Server, |_| true)[0].segment;
    assert!(answer.flags.contains(Flags::ECE) && !answer.flags.contains(Flags::CWR));
    assert!(pair.sent(Side::Client, |s| s.segment.carries_data()).iter().all(|s| s.ecn == Ecn::Ect0));
    assert!(
        pair.sent(Side::Server, |s| s.ordinal > 1).iter().all(|s| s.ecn == Ecn::NotEct),
        "pure acknowledgements"
    );

    let marked_at = pair.sent(Side::Client, |s| s.data_ordinal == 25)[0].at + MS(50);
    let echoes: Vec<_> = pair
        .sent(Side::Server, |s| s.segment.flags.contains(Flags::ECE) && s.ordinal > 1)
        .iter()
        .map(|s| s.at)
        .collect();
    let told = pair.sent(Side::Client, |s| s.segment.flags.contains(Flags::CWR) && s.ordinal > 1);
    assert_eq!(told.len(), 1, "one window, one reduction");
    assert_eq!(echoes[0], marked_at);
    assert!(*echoes.last().unwrap() <= told[0].at + MS(50), "no echo after CWR has arrived");
    let reductions: Vec<_> =
        pair.incidents[0].iter().filter(|i| matches!(i.1, Incident::EcnReduction { .. })).collect();
    assert_eq!(reductions.len(), 1);
    assert_eq!(pair.client.counters().ecn_reductions, 1);
    assert_eq!(pair.client.counters().bytes_retransmitted, 0);
}

/// RFC 3168 section 6.1.1: ECN is used only if both ends support it.
#[test]
fn ecn_needs_both_ends() {
    for (client, server, used) in [
        (EcnMode::Request, EcnMode::Accept, true),
        (EcnMode::Accept, EcnMode::Accept, false),
        (EcnMode::Request, EcnMode::Off, false),
        (EcnMode::Off, EcnMode::Request, false),
    ] {
        let mut pair = Pair::between(&Config { ecn: client, ..plain() }, &Config { ecn: server, ..plain() });
        pair.open();
        pair.send(Side::Client, Data::Fill(5000));
        pair.run(MS(1000));
        let capable = pair.sent(Side::Client, |s| s.ecn == Ecn::Ect0).len();
        assert_eq!(capable > 0, used, "{client:?} {server:?}");
    }
}

/// The path contains 83 packets of 1500 bytes in a round trip of 100 ms, and the queue 400. HyStart detects the growth
/// of the round-trip time when 320 packets are in flight, and ends slow start. HyStart++ grows at a quarter of the rate
/// of slow start for five more rounds, and exceeds the capacity of 483 packets. Without either, slow start doubles the
/// window to 640 packets.
#[test]
fn hystart_spares_the_queue() {
    let overshoot = |hystart| {
        let config = Config { hystart, congestion: Congestion::Cubic, ..Config::of(Profile::Linux) };
        let mut pair = Pair::new(&config).with_rate("10 Mbit/s", 400);
        pair.open();
        pair.send(Side::Client, Data::Fill(1 << 40));
        pair.run(MS(3000));
        pair.client.counters().bytes_retransmitted / 1448
    };
    let [off, linux, plus_plus] = [HyStart::Off, HyStart::Linux, HyStart::PlusPlus].map(overshoot);
    assert_eq!(linux, 0);
    assert!(off > 2 * plus_plus, "{off} and {plus_plus}");
}
