//! Detection and repair of losses as in the RFCs.

use netrig_core::{CloseReason, Data, Duration, Instant};
use netrig_transport::tcp::{
    BackoffSsthresh, Config, Congestion, IdleRestart, Limit, LimitedTransmit, NewrenoTimer, Recovery,
    SackBlocks, SsthreshFrom,
};
use netrig_transport::{Connection as _, Control, Incident, PathId, Profile, TimerWheel};

use super::pair::{Fate, MS, Pair, Side, at_ms, plain};

fn with(recovery: Recovery) -> Config {
    let sack = matches!(recovery, Recovery::Sack | Recovery::Rack);
    Config { recovery, sack, ..plain() }
}

fn transfer(config: &Config, bytes: u64, dropping: &'static [u64]) -> Pair {
    let mut pair = Pair::new(config).dropping(dropping);
    pair.open();
    pair.send(Side::Client, Data::Fill(bytes));
    pair.run_until(at_ms(100_000));
    assert_eq!(pair.received_len[1], bytes);
    pair
}

/// Numbers of the retransmitted segments, and their times.
fn repeated(pair: &Pair) -> Vec<(u64, Instant)> {
    let mut highest = 0;
    let mut again = Vec::new();
    for sent in pair.sent(Side::Client, |sent| sent.segment.carries_data()) {
        let n = sent.number();
        if n <= highest {
            again.push((n, sent.at));
        }
        highest = highest.max(n);
    }
    again
}

/// Reno and NewReno use duplicates only (RFC 5681 section 3.2, RFC 6582): selective acknowledgements have no effect.
/// Using both would count each packet that leaves the network twice, and send two for it.
#[test]
fn newreno_sends_the_same_whether_selective_acknowledgements_are_agreed_or_not() {
    for recovery in [Recovery::Reno, Recovery::Newreno] {
        let sent = |sack| {
            let config = Config { sack, ..with(recovery) };
            let pair = transfer(&config, 300_000, &[30, 33, 35, 60]);
            let data = pair.sent(Side::Client, |sent| sent.segment.carries_data());
            data.iter().map(|sent| (sent.at, sent.number())).collect::<Vec<_>>()
        };
        assert_eq!(sent(true), sent(false), "{recovery:?}");
    }
}

/// A recovery may last longer than its window: here the retransmission is lost too, and data beyond the gap is sent
/// until the timer expires. It neither raises the threshold nor opens the window at once. RFC 5681 section 4.3 halves
/// the threshold twice, and the acknowledgement of the filled gap grows the window by at most one round trip's growth
/// (section 3.1).
#[test]
fn what_waited_behind_a_gap_opens_no_window() {
    for recovery in [Recovery::Newreno, Recovery::Sack] {
        let config = Config { initial_ssthresh: Limit::Count(40), ..with(recovery) };
        let mut left = 2;
        let mut pair = Pair::new(&config).with_network(move |sent| {
            let hit =
                left > 0 && sent.from == Side::Client && sent.segment.carries_data() && sent.number() == 200;
            left -= i32::from(hit);
            if hit { Fate::Drop } else { Fate::Pass }
        });
        pair.open();
        pair.send(Side::Client, Data::Fill(1 << 40));
        // Slow start has ended at 40 segments when number 200 goes; its timer runs out a second after the recovery
        // began.
        pair.run(MS(2500));
        let windows = |pair: &Pair| pair.client.path_status(PathId(0)).expect("TCP's path");
        let ssthresh = windows(&pair).ssthresh / 1000;
        assert!((10..=12).contains(&ssthresh), "{recovery:?}: {ssthresh} of more than 40, halved twice");
        let before = windows(&pair).cwnd / 1000;
        pair.run(MS(1000));
        let grown = windows(&pair).cwnd / 1000 - before;
        assert!(grown <= 10, "{recovery:?}: {grown} segments in ten round trips");
    }
}

/// RFC 5681 section 3.2: the third duplicate, not the second, and at once.
#[test]
fn the_third_duplicate_triggers_the_retransmission() {
    for recovery in [Recovery::Reno, Recovery::Newreno, Recovery::Sack, Recovery::Rack] {
        // Of ten segments the seventh is lost: three duplicates.
        let pair = transfer(&with(recovery), 10_000, &[7]);
        assert_eq!(repeated(&pair), [(7, at_ms(200))], "{recovery:?}");
        assert_eq!(pair.client.counters().timeouts, 0, "{recovery:?}");
        // The eighth: two duplicates only, so the timer, 1 s after it was restarted at 200 ms.
        let config =
            Config { tail_loss_probe: false, limited_transmit: LimitedTransmit::Off, ..with(recovery) };
        let pair = transfer(&config, 10_000, &[8]);
        if recovery == Recovery::Rack {
            // RFC 8985: a quarter of the smallest round-trip time later it counts as lost too.
            assert_eq!(repeated(&pair), [(8, at_ms(225))]);
        } else {
            assert_eq!(repeated(&pair), [(8, at_ms(1200))], "{recovery:?}");
        }
    }
}

/// RFC 3042: each of the first two duplicates allows a new segment. Their acknowledgements are the third and fourth
/// duplicate.
#[test]
fn limited_transmit_saves_the_timer() {
    let timeouts = |limited_transmit| {
        let config = Config { limited_transmit, initial_window: 3, ..with(Recovery::Newreno) };
        transfer(&config, 8_000, &[1]).client.counters().timeouts
    };
    assert_eq!(timeouts(LimitedTransmit::NewData), 0);
    assert_eq!(timeouts(LimitedTransmit::Off), 1);
}

/// The result of Fall and Floyd (1996, "Simulation-based comparisons of Tahoe, Reno, and SACK TCP"): with four losses
/// in a window Reno waits for its timer, NewReno repairs one per round trip, and SACK all at once.
#[test]
fn newreno_repairs_one_loss_per_round_trip_and_sack_all_at_once() {
    const LOST: &[u64] = &[30, 33, 36, 39];
    let newreno = transfer(&with(Recovery::Newreno), 100_000, LOST);
    assert_eq!(newreno.client.counters().timeouts, 0);
    let again = repeated(&newreno);
    assert_eq!(again.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [30, 33, 36, 39]);
    assert!(again.windows(2).all(|pair| pair[1].1 - pair[0].1 >= MS(99)), "{again:?}");

    for recovery in [Recovery::Sack, Recovery::Rack] {
        let sack = transfer(&with(recovery), 100_000, LOST);
        let again = repeated(&sack);
        assert_eq!(
            again.iter().map(|(n, _)| *n).collect::<Vec<_>>(),
            [30, 33, 36, 39],
            "{recovery:?}: only what was lost"
        );
        assert!(again[3].1 - again[0].1 < MS(100), "{recovery:?}: {again:?}");
        assert_eq!(sack.client.counters().timeouts, 0);
    }

    let reno = transfer(&with(Recovery::Reno), 100_000, LOST);
    assert!(reno.client.counters().timeouts + reno.client.counters().fast_recoveries > 1);
}

/// RFC 5681 section 3.2, steps 2 to 6 and RFC 6582: ssthresh is half of the outstanding data, and the window has this
/// size at the end.
#[test]
fn a_loss_halves_the_window() {
    let config = Config { initial_ssthresh: Limit::Count(40), ..with(Recovery::Newreno) };
    let pair = transfer(&config, 400_000, &[150]);
    let windows: Vec<_> = pair.incidents[0]
        .iter()
        .filter_map(|(_, incident)| match incident {
            Incident::FastRetransmit { cwnd, .. } | Incident::Recovered { cwnd, .. } => Some(*cwnd / 1000),
            _ => None,
        })
        .collect();
    // Rounds of 10, 20, 40 (slow start up to ssthresh), 41 and 42 segments: 150 is one of the last, and 42
    // segments are outstanding when its duplicates come. Half of them, plus three; half at the end.
    assert_eq!(windows, [24, 21]);
}

#[test]
fn tahoe_begins_again_at_one_segment() {
    let config = Config {
        congestion: Congestion::Tahoe,
        limited_transmit: LimitedTransmit::Off,
        ..with(Recovery::Newreno)
    };
    let pair = transfer(&config, 100_000, &[30]);
    let (lost_at, _) =
        pair.incidents[0].iter().find(|i| matches!(i.1, Incident::FastRetransmit { .. })).expect("a loss");
    assert_eq!(pair.per_round(*lost_at, MS(100), 4)[..3], [1, 2, 4], "slow start from one segment");
}

/// Without duplicates the timer repairs the loss, and all outstanding data is retransmitted in slow start.
#[test]
fn without_fast_retransmit_the_timer_repairs() {
    let pair = transfer(&with(Recovery::None), 40_000, &[5]);
    let counters = pair.client.counters();
    assert_eq!((counters.timeouts, counters.fast_recoveries), (1, 0));
    assert_eq!(repeated(&pair)[0], (5, at_ms(1200)));
}

/// RFC 6298 (5.5): exactly doubled, from the minimum of a second, up to the maximum of a minute.
#[test]
fn the_timer_backs_off_exactly() {
    let config = Config {
        tail_loss_probe: false,
        data_retries: Limit::UNBOUNDED,
        frto: false,
        ..with(Recovery::Sack)
    };
    let mut pair = Pair::new(&config);
    pair.connect();
    pair.run_until(at_ms(1000));
    pair.network = Box::new(|_| Fate::Drop);
    pair.send(Side::Client, Data::Fill(1000));
    pair.run(MS(250_000));
    let timers: Vec<_> = pair.incidents[0]
        .iter()
        .filter_map(|(at, incident)| match incident {
            Incident::Timeout { rto, errors, cwnd, .. } => Some((
                at.since(at_ms(1000)).as_nanos() / 1_000_000_000,
                rto.as_nanos() / 1_000_000_000,
                *errors,
                *cwnd,
            )),
            _ => None,
        })
        .collect();
    let expected = [
        (1, 1, 1),
        (3, 2, 2),
        (7, 4, 3),
        (15, 8, 4),
        (31, 16, 5),
        (63, 32, 6),
        (123, 60, 7),
        (183, 60, 8),
        (243, 60, 9),
    ];
    assert_eq!(timers, expected.map(|(at, rto, errors)| (at, rto, errors, 1000)));
}

/// RFC 5681 section 3.1: ssthresh is reduced once, to half of the outstanding data; in ns-2 every time, down to two
/// segments.
#[test]
fn back_off_reduces_ssthresh_once_or_every_time() {
    let after = |backoff_ssthresh| {
        let config = Config {
            backoff_ssthresh,
            ssthresh_from: SsthreshFrom::Cwnd,
            frto: false,
            tail_loss_probe: false,
            ..with(Recovery::Sack)
        };
        let mut pair = Pair::new(&config);
        pair.open();
        pair.send(Side::Client, Data::Fill(1 << 30));
        pair.run_until(at_ms(450));
        pair.network = Box::new(|_| Fate::Drop);
        pair.run_until(at_ms(20_000));
        assert_eq!(pair.client.counters().timeouts, 4);
        pair.client.path_status(PathId(0)).expect("TCP's path").ssthresh
    };
    // Acknowledgements in flight at 450 ms still let the window grow from 80 to 160 segments.
    assert_eq!(after(BackoffSsthresh::Once), 80_000);
    assert_eq!(after(BackoffSsthresh::Every), 2_000);
}

/// Delays some of the client's data packets by so many milliseconds. The window is half of what the path
/// holds, so that no queue adds delays of its own.
fn reordering(config: &Config, late: impl Fn(u64) -> Option<u64> + 'static) -> Pair {
    let config = Config { send_window: Limit::Count(60), ..config.clone() };
    let mut pair = Pair::new(&config).with_rate("10 Mbit/s", 1000).with_network(move |sent| {
        let carries = sent.from == Side::Client && sent.segment.carries_data();
        late(sent.data_ordinal).filter(|_| carries).map_or(Fate::Pass, |ms| Fate::Late(MS(ms)))
    });
    pair.open();
    pair.send(Side::Client, Data::Fill(2_000_000));
    pair.run_until(at_ms(60_000));
    assert_eq!(pair.received_len[1], 2_000_000);
    pair
}

/// RFC 8985 section 6.2: once reordering has been seen (a segment 2 ms late, too little for three
/// duplicates), a quarter of the round-trip time of 100 ms is waited.
#[test]
fn rack_waits_for_reordered_segments() {
    let late = |n| if n == 15 { Some(2) } else { (n % 50 == 31).then_some(15) };
    assert_eq!(repeated(&reordering(&with(Recovery::Rack), late)), []);
    // Counting duplicates mistakes every such delay for a loss.
    for recovery in [Recovery::Newreno, Recovery::Sack] {
        assert!(repeated(&reordering(&with(recovery), late)).len() >= 20, "{recovery:?}");
    }
}

/// RFC 8985 section 6.2: delays of 60 ms are more than a quarter of the round-trip time and less than three.
/// Each duplicate report (RFC 2883) adds a quarter.
#[test]
fn duplicate_reports_make_rack_wait_longer() {
    let late = |n| if n == 15 { Some(2) } else { (n % 50 == 31).then_some(60) };
    let pair = reordering(&with(Recovery::Rack), late);
    assert_eq!(repeated(&pair).len(), 2);
    assert_eq!(pair.server.counters().bytes_duplicated, 2000);
    let without = Config { dsack: false, ..with(Recovery::Rack) };
    assert!(repeated(&reordering(&without, late)).len() >= 20);
}

/// RFC 8985 section 7: the last segment is lost; a probe after two round-trip times (and the worst delay of
/// an acknowledgement if it is alone) repairs it, long before the timer.
#[test]
fn a_probe_repairs_a_lost_tail() {
    let pair = transfer(&with(Recovery::Rack), 10_000, &[10]);
    // Nine were acknowledged at 200 ms; one is outstanding: 2 · 100 ms + 200 ms.
    assert_eq!(repeated(&pair), [(10, at_ms(600))]);
    assert_eq!((pair.client.counters().tail_loss_probes, pair.client.counters().timeouts), (1, 0));

    // Nothing but the probe is acknowledged beyond the loss of the last two: the probe brings the news of the
    // ninth.
    let pair = transfer(&with(Recovery::Rack), 10_000, &[9, 10]);
    assert_eq!(repeated(&pair).iter().map(|(n, _)| *n).collect::<Vec<_>>(), [10, 9]);
    // Two are outstanding since 200 ms: 2 · 100 ms.
    assert_eq!(repeated(&pair)[0].1, at_ms(400));
    assert_eq!(pair.client.counters().timeouts, 0);

    let without = Config { tail_loss_probe: false, ..with(Recovery::Rack) };
    let pair = transfer(&without, 10_000, &[10]);
    assert_eq!(repeated(&pair), [(10, at_ms(1200))]);
}

/// RFC 8985 section 7.4: a loss that the probe repaired is a congestion signal; an unneeded probe is none.
#[test]
fn a_probe_that_repaired_a_loss_halves_the_window() {
    let pair = transfer(&with(Recovery::Rack), 10_000, &[10]);
    // The acknowledgement of the probe alone does not distinguish it from a duplicate; that of the next data does.
    let mut pair = pair;
    pair.send(Side::Client, Data::Fill(1000));
    pair.run(MS(1000));
    let status = pair.client.path_status(PathId(0)).unwrap();
    assert_eq!((status.ssthresh, status.cwnd), (2_000, 2_000), "half of one segment, and two at least");

    // The acknowledgement is late, not the segment lost.
    let mut pair = Pair::new(&with(Recovery::Rack)).with_network(|sent| {
        let last = sent.from == Side::Server && sent.at == at_ms(150) && sent.ordinal == 11;
        if last { Fate::Late(MS(600)) } else { Fate::Pass }
    });
    pair.open();
    pair.send(Side::Client, Data::Fill(10_000));
    pair.run_until(at_ms(10_000));
    assert_eq!(pair.client.counters().tail_loss_probes, 1);
    assert_eq!(pair.client.path_status(PathId(0)).unwrap().ssthresh, u64::MAX);
}

/// RFC 3522 and RFC 3708: the retransmission of a late segment was spurious. Its acknowledgement echoes an earlier
/// timestamp, or its duplicate is reported, and the window is restored.
#[test]
fn a_needless_reduction_is_undone() {
    let windows = |undo, timestamps, dsack| {
        let config =
            Config { undo, timestamps, dsack, idle_restart: IdleRestart::None, ..with(Recovery::Sack) };
        let pair = reordering(&config, |n| (n == 500).then_some(15));
        assert_eq!(pair.client.counters().fast_retransmissions, 1);
        let (before, after) =
            pair.incidents[0].iter().fold((0, 0), |(before, _), (_, incident)| match incident {
                Incident::FastRetransmit { cwnd, .. } => (*cwnd, 0),
                Incident::Recovered { cwnd, .. } => (before, *cwnd),
                _ => (before, 0),
            });
        (before, after, pair.client.path_status(PathId(0)).expect("TCP's path").ssthresh)
    };
    // 60 segments are outstanding: half of them.
    assert_eq!(windows(false, false, true).2, 30_000);
    for (timestamps, dsack) in [(true, false), (false, true)] {
        let (_, after, ssthresh) = windows(true, timestamps, dsack);
        assert!(
            after > 59_000 && ssthresh > 59_000,
            "timestamps {timestamps}, dsack {dsack}: {after}, {ssthresh}"
        );
    }
    assert_eq!(windows(true, false, false).2, 30_000, "nothing tells");
}

/// Packet 245 is of the window that the loss of 200 halves, and is found lost a round trip later; until it has arrived
/// recovery goes on. 250 is of the next window, and is found lost and sent again in the same recovery. Its loss is one
/// of its own all the same, and halves the window again (RFC 6675 section 5, step 2); and the acknowledgement of what
/// was sent again before that tells nothing of whether it was needless (RFC 3522).
#[test]
fn a_loss_of_the_next_window_begins_recovery_anew() {
    for recovery in [Recovery::Sack, Recovery::Rack] {
        for undo in [false, true] {
            let initial_ssthresh = Limit::Count(40);
            let config = Config { undo, timestamps: true, dsack: true, initial_ssthresh, ..with(recovery) };
            let mut pair = Pair::new(&config).dropping(&[200, 245, 250, 256]).with_rate("30 Mbit/s", 1000);
            pair.open();
            pair.send(Side::Client, Data::Fill(1 << 30));
            pair.run_until(at_ms(1_200));
            let windows = pair.incidents[0].iter().filter_map(|incident| match incident.1 {
                Incident::FastRetransmit { cwnd, .. } => Some(cwnd / 1000),
                _ => None,
            });
            assert_eq!(windows.collect::<Vec<_>>(), [21, 10], "{recovery:?}, undo {undo}");
            assert_eq!(pair.client.counters().fast_retransmissions, 4);
            let status = pair.client.path_status(PathId(0)).expect("TCP's path");
            assert_eq!(status.ssthresh / 1000, 10, "{recovery:?}, undo {undo}");
        }
    }
}

/// RFC 9937: half as many segments go out as arrive while the window is halved, evenly spread, and not none
/// for half a round trip and then all at once.
#[test]
fn prr_spreads_what_recovery_sends() {
    let sent_in_recovery = |recovery, prr| {
        let config = Config { prr, initial_ssthresh: Limit::Count(40), ..with(recovery) };
        let mut pair = Pair::new(&config).dropping(&[300]).with_rate("3.3 Mbit/s", 1000);
        pair.open();
        pair.send(Side::Client, Data::Fill(1 << 30));
        pair.run_until(at_ms(20_000));
        let begin = pair.incidents[0]
            .iter()
            .find(|i| matches!(i.1, Incident::FastRetransmit { .. }))
            .expect("a loss")
            .0;
        let end =
            pair.incidents[0].iter().find(|i| matches!(i.1, Incident::Recovered { .. })).expect("its end").0;
        let times = pair
            .sent(Side::Client, |s| s.segment.carries_data() && s.at > begin && s.at < end)
            .iter()
            .map(|s| s.at)
            .collect::<Vec<_>>();
        let acks = pair.sent(Side::Server, |s| s.at + MS(50) > begin && s.at + MS(50) < end).len();
        let largest_gap = times.windows(2).map(|t| t[1] - t[0]).max().expect("segments");
        let first_gap = times[0] - begin;
        (times.len(), acks, largest_gap.max(first_gap))
    };
    for recovery in [Recovery::Sack, Recovery::Rack] {
        let (sent, acks, gap) = sent_in_recovery(recovery, true);
        let share = sent as f64 / acks as f64;
        assert!((0.42..0.6).contains(&share), "{recovery:?}: {sent} for {acks}");
        assert!(gap < MS(10), "{recovery:?}: {gap}");
        let (_, _, gap) = sent_in_recovery(recovery, false);
        assert!(gap > MS(30), "{recovery:?}: without PRR there is a pause: {gap}");
    }
}

/// RFC 5682: a delay spike without loss. With F-RTO one segment is retransmitted and the window is restored; without
/// it, the whole flight is retransmitted.
#[test]
fn frto_undoes_a_spurious_time_out() {
    let spike = |frto, recovery| {
        let mut pair =
            Pair::new(&Config { frto, tail_loss_probe: false, ..with(recovery) }).with_network(|sent| {
                // The line stops: packets sent meanwhile arrive after the stop, in order.
                let stalled = sent.from == Side::Client && sent.at >= at_ms(400) && sent.at < at_ms(1900);
                if stalled { Fate::Late(at_ms(1900) - sent.at) } else { Fate::Pass }
            });
        pair.open();
        pair.send(Side::Client, Data::Fill(1_000_000));
        pair.run_until(at_ms(60_000));
        assert_eq!(pair.received_len[1], 1_000_000);
        pair
    };
    for recovery in [Recovery::Newreno, Recovery::Sack, Recovery::Rack] {
        let with = spike(true, recovery);
        assert_eq!(with.client.counters().spurious_timeouts, 1, "{recovery:?}");
        assert_eq!(repeated(&with).len(), 1, "{recovery:?}");
        assert!(with.incidents[0].iter().any(|i| matches!(i.1, Incident::SpuriousTimeout { .. })));
        let without = spike(false, recovery);
        assert_eq!(without.client.counters().spurious_timeouts, 0);
        let finish = |pair: &Pair| pair.arrivals[1].last().expect("data").0;
        assert!(finish(&with) <= finish(&without), "{recovery:?}");
    }
    assert!(repeated(&spike(false, Recovery::Newreno)).len() > 10);
}

/// A real loss of a whole window is not mistaken for a delay spike.
#[test]
fn frto_believes_a_genuine_time_out() {
    for recovery in [Recovery::Newreno, Recovery::Sack, Recovery::Rack] {
        let mut pair = Pair::new(&Config { tail_loss_probe: false, ..with(recovery) }).with_network(|sent| {
            let lost = sent.from == Side::Client && sent.at >= at_ms(300) && sent.at < at_ms(310);
            if lost { Fate::Drop } else { Fate::Pass }
        });
        pair.open();
        pair.send(Side::Client, Data::Fill(300_000));
        pair.run_until(at_ms(60_000));
        let counters = pair.client.counters();
        assert_eq!((pair.received_len[1], counters.spurious_timeouts), (300_000, 0), "{recovery:?}");
        assert_eq!(counters.timeouts, 1, "{recovery:?}");
    }
}

/// RFC 2018 section 3 and RFC 7323: three blocks beside timestamps, four without; never on a packet that they
/// make too long.
#[test]
fn no_segment_is_longer_than_the_mtu() {
    for timestamps in [false, true] {
        let config = Config { timestamps, mss: netrig_core::Size::from_bytes(1460), ..with(Recovery::Sack) };
        let mut pair = Pair::new(&config).with_network(|sent| {
            if sent.segment.carries_data()
                && (sent.data_ordinal % 7 < 2 || [3, 5, 9].contains(&sent.data_ordinal))
            {
                Fate::Drop
            } else {
                Fate::Pass
            }
        });
        pair.open();
        pair.send(Side::Client, Data::Fill(300_000));
        pair.send(Side::Server, Data::Fill(300_000));
        pair.run_until(at_ms(400_000));
        assert_eq!(pair.received_len, [300_000; 2]);
        assert!(pair.log.iter().all(|sent| sent.ip_len <= 1500));
        let most = pair.log.iter().map(|sent| sent.segment.sack.as_slice().len()).max();
        assert_eq!(most, Some(if timestamps { SackBlocks::MAX - 1 } else { SackBlocks::MAX }));
    }
}

/// RFC 6582 section 4: with many losses the impatient variant runs into a time-out, and the other repairs them one by
/// one.
#[test]
fn newreno_is_impatient_or_slow_but_steady() {
    const LOST: &[u64] = &[30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44];
    let timeouts = |newreno_timer| {
        transfer(&Config { newreno_timer, ..with(Recovery::Newreno) }, 200_000, LOST)
            .client
            .counters()
            .timeouts
    };
    assert_eq!(timeouts(NewrenoTimer::SlowButSteady), 0);
    assert!(timeouts(NewrenoTimer::Impatient) >= 1);
}

/// The kernel's ip-sysctl documentation: fifteen retries are 924.6 seconds, with the smallest timer of 200
/// ms.
#[test]
fn fifteen_retries_of_linux_are_924_6_seconds() {
    let config =
        Config { tail_loss_probe: false, timer_wheel: TimerWheel::Exact, ..Config::of(Profile::Linux) };
    let mut pair = Pair::new(&config).with_delay(Duration::from_nanos(1));
    pair.connect();
    pair.run_until(at_ms(1000));
    pair.network = Box::new(|_| Fate::Drop);
    pair.send(Side::Client, Data::Fill(100));
    pair.run(Duration::from_secs(2000));
    let (at, reason) = pair.closed[0].expect("an end");
    assert_eq!((at.since(at_ms(1000)).as_nanos() / 1_000_000, reason), (924_600, CloseReason::TimedOut));
}

/// Linux does not back off while its own interface is down: it retries every 500 ms.
#[test]
fn a_local_failure_is_probed_steadily() {
    let mut pair = Pair::new(&Config::of(Profile::Linux));
    pair.connect();
    pair.run_until(at_ms(1000));
    pair.act(Side::Client, |client, now| client.control(now, Control::InterfaceDown(PathId(0))));
    pair.network = Box::new(|_| Fate::Drop);
    pair.send(Side::Client, Data::Fill(1 << 20));
    pair.run(MS(10_000));
    let times: Vec<_> = pair.incidents[0]
        .iter()
        .filter(|(_, incident)| matches!(incident, Incident::Timeout { .. }))
        .map(|(at, _)| *at)
        .collect();
    assert!(times.len() > 15, "{times:?}");
    assert!(times.windows(2).all(|t| t[1] - t[0] <= Duration::from_millis(550)), "{times:?}");
}
