//! Loss detection and repair, compared with the RFCs.

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

/// Numbers of the retransmitted segments, with their send times.
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

/// Reno and NewReno use duplicates only (RFC 5681 section 3.2, RFC 6582), and selective acknowledgements have no
/// effect. If both were used, each packet that leaves the network would count twice, and two packets would be sent for
/// it.
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

/// A recovery may last longer than one window. Here the retransmission is lost too, and data beyond the gap is sent
/// until the timer expires. This data neither raises the threshold nor opens the window at once. The threshold is
/// halved twice (RFC 5681 section 4.3). The acknowledgement of the filled gap grows the window by at most the growth of
/// one round trip (section 3.1).
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
        // Slow start has ended at 40 segments when segment 200 is sent. Its timer expires a second after the recovery
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

/// RFC 5681 section 3.2: the third duplicate causes the retransmission, not the second, and without delay.
#[test]
fn the_third_duplicate_triggers_the_retransmission() {
    for recovery in [Recovery::Reno, Recovery::Newreno, Recovery::Sack, Recovery::Rack] {
        // The seventh of ten segments is lost, so there are three duplicates.
        let pair = transfer(&with(recovery), 10_000, &[7]);
        assert_eq!(repeated(&pair), [(7, at_ms(200))], "{recovery:?}");
        assert_eq!(pair.client.counters().timeouts, 0, "{recovery:?}");
        // If the eighth is lost, there are only two duplicates, and the timer causes the retransmission, 1 s after it
        // was restarted at 200 ms.
        let config =
            Config { tail_loss_probe: false, limited_transmit: LimitedTransmit::Off, ..with(recovery) };
        let pair = transfer(&config, 10_000, &[8]);
        if recovery == Recovery::Rack {
            // RFC 8985: a quarter of the smallest round-trip time later, RACK counts the segment as lost.
            assert_eq!(repeated(&pair), [(8, at_ms(225))]);
        } else {
            assert_eq!(repeated(&pair), [(8, at_ms(1200))], "{recovery:?}");
        }
    }
}

/// RFC 3042: each of the first two duplicates allows a new segment. The acknowledgements of these segments are the
/// third and fourth duplicate.
#[test]
fn limited_transmit_saves_the_timer() {
    let timeouts = |limited_transmit| {
        let config = Config { limited_transmit, initial_window: 3, ..with(Recovery::Newreno) };
        transfer(&config, 8_000, &[1]).client.counters().timeouts
    };
    assert_eq!(timeouts(LimitedTransmit::NewData), 0);
    assert_eq!(timeouts(LimitedTransmit::Off), 1);
}

/// The result of Fall and Floyd (1996, "Simulation-based comparisons of Tahoe, Reno, and SACK TCP"): if four segments
/// of a window are lost, Reno waits for its timer, NewReno repairs one loss per round trip, and SACK repairs all at
/// once.
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

/// RFC 5681 section 3.2, steps 2 to 6, and RFC 6582: ssthresh is half of the outstanding data, and the window is
/// ssthresh at the end.
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
    // The rounds have 10, 20, 40 (slow start up to ssthresh), 41 and 42 segments. Segment 150 is one of the last, and
    // 42 segments are outstanding when its duplicates arrive. The window becomes half of them plus three, and half of
    // them at the end.
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

/// If there are no duplicates, the timer causes the repair, and all outstanding data is retransmitted in slow start.
#[test]
fn without_fast_retransmit_the_timer_repairs() {
    let pair = transfer(&with(Recovery::None), 40_000, &[5]);
    let counters = pair.client.counters();
    assert_eq!((counters.timeouts, counters.fast_recoveries), (1, 0));
    assert_eq!(repeated(&pair)[0], (5, at_ms(1200)));
}

/// RFC 6298 (5.5): the time-out is doubled exactly, from the minimum of a second to the maximum of a minute.
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

/// RFC 5681 section 3.1: ssthresh is reduced only once, to half of the outstanding data. In ns-2 it is reduced at every
/// time-out, down to two segments.
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
    // Before that, acknowledgements that were in flight at 450 ms let the window grow from 80 to 160 segments.
    assert_eq!(after(BackoffSsthresh::Once), 80_000);
    assert_eq!(after(BackoffSsthresh::Every), 2_000);
}

/// Delays some of the client's data packets by the number of milliseconds that `late` returns. The window is half of
/// the path's capacity, so that no queue adds further delay.
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

/// RFC 8985 section 6.2: after reordering has been seen, RACK waits for a quarter of the round-trip time of 100 ms.
/// Here a segment is 2 ms late, which is too little for three duplicates.
#[test]
fn rack_waits_for_reordered_segments() {
    let late = |n| if n == 15 { Some(2) } else { (n % 50 == 31).then_some(15) };
    assert_eq!(repeated(&reordering(&with(Recovery::Rack), late)), []);
    // If duplicates are counted, every such delay is mistaken for a loss.
    for recovery in [Recovery::Newreno, Recovery::Sack] {
        assert!(repeated(&reordering(&with(recovery), late)).len() >= 20, "{recovery:?}");
    }
}

/// RFC 8985 section 6.2: a delay of 60 ms is more than one quarter of the round-trip time, and less than three. Each
/// DSACK (RFC 2883) adds a quarter.
#[test]
fn duplicate_reports_make_rack_wait_longer() {
    let late = |n| if n == 15 { Some(2) } else { (n % 50 == 31).then_some(60) };
    let pair = reordering(&with(Recovery::Rack), late);
    assert_eq!(repeated(&pair).len(), 2);
    assert_eq!(pair.server.counters().bytes_duplicated, 2000);
    let without = Config { dsack: false, ..with(Recovery::Rack) };
    assert!(repeated(&reordering(&without, late)).len() >= 20);
}

/// RFC 8985 section 7: the last segment is lost. A probe repairs the loss long before the timer would. It is sent after
/// two round-trip times, plus the largest delay of an acknowledgement if only one segment is outstanding.
#[test]
fn a_probe_repairs_a_lost_tail() {
    let pair = transfer(&with(Recovery::Rack), 10_000, &[10]);
    // Nine segments were acknowledged at 200 ms, and one is outstanding: 2 · 100 ms + 200 ms later.
    assert_eq!(repeated(&pair), [(10, at_ms(600))]);
    assert_eq!((pair.client.counters().tail_loss_probes, pair.client.counters().timeouts), (1, 0));

    // If the last two segments are lost, only the probe is acknowledged beyond the gap. This acknowledgement shows that
    // the ninth segment is lost.
    let pair = transfer(&with(Recovery::Rack), 10_000, &[9, 10]);
    assert_eq!(repeated(&pair).iter().map(|(n, _)| *n).collect::<Vec<_>>(), [10, 9]);
    // Two segments have been outstanding since 200 ms: 2 · 100 ms later.
    assert_eq!(repeated(&pair)[0].1, at_ms(400));
    assert_eq!(pair.client.counters().timeouts, 0);

    let without = Config { tail_loss_probe: false, ..with(Recovery::Rack) };
    let pair = transfer(&without, 10_000, &[10]);
    assert_eq!(repeated(&pair), [(10, at_ms(1200))]);
}

/// RFC 8985 section 7.4: a loss that the probe repaired is a congestion signal. An unnecessary probe is not.
#[test]
fn a_probe_that_repaired_a_loss_halves_the_window() {
    let pair = transfer(&with(Recovery::Rack), 10_000, &[10]);
    // The acknowledgement of the probe alone does not show whether the probe was a duplicate. The acknowledgement of
    // the next data does.
    let mut pair = pair;
    pair.send(Side::Client, Data::Fill(1000));
    pair.run(MS(1000));
    let status = pair.client.path_status(PathId(0)).unwrap();
    assert_eq!((status.ssthresh, status.cwnd), (2_000, 2_000), "half of one segment, and two at least");

    // Here the acknowledgement is late, and the segment is not lost.
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

/// RFC 3522 and RFC 3708: a segment was only late, so its retransmission was spurious. Either the acknowledgement
/// echoes an earlier timestamp, or the peer reports a duplicate. The window is restored.
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
    // 60 segments are outstanding, so ssthresh is 30.
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

/// The loss of packet 200 halves the window. Packet 245 is in the same window. It is detected as lost one round trip
/// later, and recovery continues until it has arrived. Packet 250 is in the next window, but is detected as lost and
/// retransmitted in the same recovery. Its loss is nevertheless a separate loss, and halves the window again (RFC 6675
/// section 5, step 2). The acknowledgement of a segment that was retransmitted before that is no evidence that the
/// second reduction was spurious (RFC 3522).
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

/// RFC 9937: while the window is halved, one segment is sent for every two that arrive, evenly spread. Without PRR,
/// none is sent for half a round trip, and then many at once.
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

/// RFC 5682: a delay spike without loss. With F-RTO, one segment is retransmitted and the window is restored. Without
/// it, all data in flight is retransmitted.
#[test]
fn frto_undoes_a_spurious_time_out() {
    let spike = |frto, recovery| {
        let mut pair =
            Pair::new(&Config { frto, tail_loss_probe: false, ..with(recovery) }).with_network(|sent| {
                // The line is stalled: packets sent during the stall arrive after it, in order.
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

/// The loss of a whole window is not mistaken for a delay spike.
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

/// RFC 2018 section 3 and RFC 7323: a segment has at most three SACK blocks with timestamps, and four without. A
/// segment that would become longer than the MTU has fewer.
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

/// RFC 6582 section 4: with many losses, the impatient variant has a time-out, and the slow-but-steady variant repairs
/// them one by one.
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

/// The kernel's ip-sysctl documentation: fifteen retries take 924.6 seconds with the smallest time-out of 200 ms.
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
