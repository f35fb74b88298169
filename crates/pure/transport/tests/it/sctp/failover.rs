//! Paths that fail and recover (RFC 9260 sections 6.4, 8.1 to 8.3; RFC 7829).

use netrig_core::{CloseReason, Duration, Instant};
use netrig_transport::sctp::{Config, LocalDrop, RetransmitTo};
use netrig_transport::{Connection, Control, Incident, PathId, PathState, Profile, TimerWheel};

use super::pair::*;

/// Retransmissions stay on their path, and a failing path is used until it becomes inactive.
pub(super) fn stubborn(path_max_retrans: u32) -> Config {
    Config {
        path_max_retrans,
        association_max_retrans: 100,
        retransmit_to: RetransmitTo::SamePath,
        potentially_failed: false,
        ..rfc()
    }
}

/// A pair with two paths. Data is sent over path 0, and then path 0 fails.
pub(super) fn failing(config: &Config) -> Pair {
    let config = Config { receive_buffer: netrig_core::Size::from_bytes(20_000), ..config.clone() };
    let mut pair = Pair::connected(&config, 2, ms(100));
    pair.rate(0, 500_000);
    pair.rate(1, 500_000);
    pair.fill(1_000_000_000);
    pair.run_for(s(20));
    pair.cut(0);
    pair.log.clear();
    pair
}

fn paths_changed(pair: &Pair) -> Vec<(Instant, (u8, PathState))> {
    pair.incidents(|incident| match incident {
        Incident::PathChanged { path, state } => Some((path.0, *state)),
        _ => None,
    })
}

/// T3-rtx time-outs of the client: time, duration of the timer, and error count.
fn timeouts(pair: &Pair) -> Vec<(Instant, Duration, u32)> {
    pair.incidents(|incident| match incident {
        Incident::Timeout { rto, errors, .. } => Some((*rto, *errors)),
        _ => None,
    })
    .into_iter()
    .map(|(at, (rto, errors))| (at, rto, errors))
    .collect()
}

/// The duration of a fail-over: from the last start of T3-rtx, a path becomes inactive after the sum of min(RTO 2^i,
/// RTO.Max) over i = 0 .. Path.Max.Retrans. The link-down study uses it.
#[test]
fn fail_over_takes_the_sum_of_the_doubled_timers() {
    for path_max_retrans in 0..=8 {
        let config = Config { rto_max: s(30), ..stubborn(path_max_retrans) };
        let mut pair = failing(&config);
        pair.run_for(s(400));
        let all = timeouts(&pair);
        let (first, rto, _) = all[0];
        let started = Instant::from_nanos(first.as_nanos() - rto.as_nanos());
        let sum = (0..=path_max_retrans).fold(Duration::ZERO, |sum, i| sum + (rto * (1 << i)).min(s(30)));
        let (failed, _) = *paths_changed(&pair)
            .iter()
            .find(|(_, change)| *change == (0, PathState::Inactive))
            .expect("given up");
        assert_eq!(failed, started + sum, "Path.Max.Retrans {path_max_retrans}");
        // The first data packet over the other path is sent at that time, and none before.
        let moved = pair.data_packets().find(|crossing| crossing.path == 1).expect("moved");
        assert_eq!(moved.at, failed);
        let errors: Vec<_> =
            all.iter().map(|(_, _, errors)| *errors).take(path_max_retrans as usize + 1).collect();
        assert_eq!(errors, (1..=path_max_retrans + 1).collect::<Vec<_>>());
    }
}

/// With Path.Max.Retrans 5, the fail-over takes 63 RTOs, as in the study.
#[test]
fn the_default_is_sixty_three_timers() {
    let mut pair = failing(&Config { rto_max: s(1000), ..stubborn(5) });
    pair.run_for(s(200));
    let (first, rto, _) = timeouts(&pair)[0];
    let moved = pair.data_packets().find(|crossing| crossing.path == 1).expect("moved").at;
    assert_eq!(moved - Instant::from_nanos(first.as_nanos() - rto.as_nanos()), rto * 63);
}

/// Section 6.4.1: retransmissions over the other path deliver data long before the first path becomes inactive.
#[test]
fn retransmissions_over_the_other_path_need_one_timer() {
    let config = Config { retransmit_to: RetransmitTo::AlternatePath, ..stubborn(5) };
    let mut pair = failing(&config);
    pair.run_for(s(100));
    let first = timeouts(&pair)[0].0;
    let moved = pair.data_packets().find(|crossing| crossing.path == 1).expect("moved");
    assert_eq!(moved.at, first);
    assert!(pair.data_packets().filter(|crossing| crossing.at > first).count() > 20);
}

/// RFC 7829 with its recommended threshold of 0: at the first time-out, all data moves to the other path.
#[test]
fn potentially_failed_moves_data_at_the_first_time_out() {
    // The threshold is that of the profile.
    let config = Config { potentially_failed: true, ..stubborn(5) };
    let mut pair = failing(&config);
    pair.run_for(s(10));
    let (first, _, _) = timeouts(&pair)[0];
    assert_eq!(paths_changed(&pair).last(), Some(&(first, (0, PathState::PotentiallyFailed))));
    assert!(pair.data_packets().filter(|crossing| crossing.at >= first).all(|crossing| crossing.path == 1));
    assert_eq!(timeouts(&pair).len(), 1);
    // The path is probed at doubled intervals until it answers or becomes inactive.
    let probes = pair.sent_by(Side::Client).filter(|c| c.path == 0 && c.has("HEARTBEAT")).count();
    assert!(probes >= 2, "{probes}");
    pair.mend(0);
    pair.run_for(s(60));
    assert_eq!(pair.status(0).state, PathState::Active);
    let last = pair.data_packets().last().expect("data").path;
    assert_eq!(last, 0, "back to the primary");
}

/// RFC 7829 section 3.2: if no path is active, data uses a potentially failed path and not an inactive one. Here the
/// first path is already inactive when the second path loses a packet.
#[test]
fn a_potentially_failed_path_goes_before_an_inactive_one() {
    let config = Config { potentially_failed: true, heartbeat_interval: s(100), ..stubborn(2) };
    let mut pair = failing(&config);
    pair.run_for(s(20));
    assert_eq!([0, 1].map(|path| pair.status(path).state), [PathState::Inactive, PathState::Active]);
    pair.cut(1);
    pair.run_while(at(s(100)), |pair| paths_changed(pair).last().is_none_or(|(_, (path, _))| *path == 0));
    assert_eq!(
        [0, 1].map(|path| pair.status(path).state),
        [PathState::Inactive, PathState::PotentiallyFailed]
    );
    pair.log.clear();
    pair.run_for(ms(2500));
    assert!(pair.data_packets().count() > 0 && pair.data_packets().all(|crossing| crossing.path == 1));
}

/// RFC 7829 section 3.2: "if the Path Heartbeat function is disabled for the destination address in question,
/// HEARTBEATs MUST NOT be sent".
#[test]
fn without_heartbeats_a_potentially_failed_path_is_not_probed() {
    let config = Config { potentially_failed: true, heartbeats: false, ..stubborn(5) };
    let mut pair = failing(&config);
    pair.run_for(s(60));
    assert_eq!(pair.status(0).state, PathState::PotentiallyFailed);
    assert!(pair.data_packets().last().is_some_and(|crossing| crossing.path == 1));
    assert!(!pair.sent_by(Side::Client).any(|crossing| crossing.has("HEARTBEAT")));
}

#[test]
fn a_higher_threshold_waits_for_more_time_outs() {
    for (threshold, timers) in [(0, 1), (1, 3), (2, 7)] {
        let config = Config { potentially_failed: true, pf_threshold: threshold, ..stubborn(5) };
        let mut pair = failing(&config);
        pair.run_for(s(60));
        let (first, rto, _) = timeouts(&pair)[0];
        let moved = pair.data_packets().find(|crossing| crossing.path == 1).expect("moved").at;
        assert_eq!(moved - Instant::from_nanos(first.as_nanos() - rto.as_nanos()), rto * timers);
    }
}

#[test]
fn a_primary_that_works_again_gets_its_data_back_or_not() {
    for (return_to_primary, path) in [(true, 0), (false, 1)] {
        let mut pair = failing(&Config { return_to_primary, ..stubborn(0) });
        pair.run_for(s(10));
        assert_eq!(pair.status(0).state, PathState::Inactive);
        pair.mend(0);
        pair.run_for(s(120));
        assert_eq!(pair.status(0).state, PathState::Active);
        assert_eq!(pair.data_packets().last().expect("data").path, path);
    }
}

/// RFC 7829 section 5: after more than PSMR errors, the path that carries the data becomes the primary permanently.
/// PSMR can be PFMR (which is 0) or larger; without potentially failed paths, it can be PMR.
#[test]
fn primary_switchover() {
    for (potentially_failed, threshold) in [(true, 0), (true, 2), (false, 5)] {
        let config = Config {
            potentially_failed,
            primary_switchover: true,
            primary_switchover_threshold: threshold,
            ..stubborn(5)
        };
        let mut pair = failing(&config);
        let changed = |pair: &Pair| {
            pair.incidents(|incident| match incident {
                Incident::PrimaryChanged { path } => Some(*path),
                _ => None,
            })
        };
        pair.run_while(at(s(200)), |pair| changed(pair).is_empty());
        assert_eq!(pair.status(0).errors, threshold + 1);
        pair.run_for(s(10));
        assert_eq!(changed(&pair).iter().map(|(_, path)| *path).collect::<Vec<_>>(), [PathId(1)]);
        pair.mend(0);
        pair.run_for(s(200));
        assert_eq!(pair.status(0).state, PathState::Active);
        assert_eq!(pair.data_packets().last().expect("data").path, 1);
    }
}

#[test]
fn an_idle_path_that_fails_is_found_by_heartbeats() {
    let config = Config { path_max_retrans: 2, ..rfc() };
    let mut pair = Pair::connected(&config, 2, ms(100));
    pair.cut(1);
    pair.run_for(s(300));
    assert_eq!(pair.status(1).state, PathState::Inactive);
    assert_eq!(pair.status(0).state, PathState::Active);
    assert_eq!(pair.client.closed(), None);
    pair.mend(1);
    pair.run_for(s(300));
    assert_eq!(pair.status(1).state, PathState::Active);
}

/// Section 8.3: the interval is HB.interval plus one RTO ± 50 %.
#[test]
fn heartbeats_come_at_their_interval() {
    let mut pair = Pair::connected(&rfc(), 1, ms(100));
    pair.run_for(s(3600));
    let beats: Vec<_> = pair.sent_by(Side::Client).filter(|c| c.has("HEARTBEAT")).map(|c| c.at).collect();
    assert!(beats.len() > 100);
    let gaps: Vec<_> = beats.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // A heartbeat is scheduled when the answer to the previous one arrives, 200 ms after it was sent. The RTO is 1 s.
    assert!(gaps.iter().all(|gap| *gap >= ms(30_500) && *gap <= ms(31_700)), "{gaps:?}");
    assert!(gaps.iter().any(|gap| *gap < ms(30_900)) && gaps.iter().any(|gap| *gap > ms(31_300)));
}

/// RFC 9260 section 8.3: the answer to a heartbeat measures the round-trip time and clears the error count of the path.
#[test]
fn a_heartbeat_measures_its_path() {
    let mut pair = Pair::connected(&rfc(), 1, ms(100));
    assert_eq!(pair.status(0).srtt, None);
    pair.lose(|crossing| crossing.has("HEARTBEAT"));
    pair.run_for(s(34));
    assert_eq!((pair.status(0).srtt, pair.status(0).errors), (None, 1));
    assert_eq!(pair.status(0).rto, s(2), "doubled, for it was not answered");
    pair.rule(|_| Verdict::Pass);
    pair.run_for(s(34));
    assert_eq!((pair.status(0).srtt, pair.status(0).errors), (Some(ms(200)), 0));
}

#[test]
fn data_takes_the_place_of_heartbeats() {
    let mut pair = Pair::connected(&rfc(), 1, ms(100));
    for _ in 0..200 {
        pair.fill(1000);
        pair.run_for(s(5));
    }
    assert!(!pair.sent_by(Side::Client).any(|crossing| crossing.has("HEARTBEAT")));
}

#[test]
fn no_heartbeats_if_they_are_switched_off() {
    let mut pair = Pair::connected(&Config { heartbeats: false, ..rfc() }, 2, ms(100));
    pair.run_for(s(3600));
    assert_eq!(pair.log.len(), 0);
}

/// Section 8.1: Association.Max.Retrans is the limit for the errors of all paths together.
#[test]
fn the_association_ends_when_nobody_answers_on_any_path() {
    for limit in [3, 10] {
        let config = Config { association_max_retrans: limit, heartbeats: false, ..stubborn(100) };
        let mut pair = failing(&config);
        pair.cut(1);
        pair.run_for(s(2000));
        assert_eq!(pair.client.closed(), Some(CloseReason::TimedOut));
        assert_eq!(timeouts(&pair).len() as u32, limit + 1);
        let (first, rto, _) = timeouts(&pair)[0];
        let started = Instant::from_nanos(first.as_nanos() - rto.as_nanos());
        let sum = (0..=limit).fold(Duration::ZERO, |sum, i| sum + (rto * (1 << i)).min(s(60)));
        let closed = pair.client.events.last().map(|(at, _)| *at);
        assert_eq!(closed, Some(started + sum));
    }
}

/// A single path cannot fail over. After an outage within its error limits, the association continues. The acknowledged
/// data clears the error counts of path and association (RFC 9260 sections 8.1 and 8.2) and makes the path active (RFC
/// 7829 section 3.2); no heartbeat does so here. Each of two outages may therefore cause as many errors as a single
/// one.
#[test]
fn one_path_goes_on_after_an_outage() {
    for profile in Profile::ALL {
        for outage in [5, 20, 40] {
            let receive_buffer = netrig_core::Size::from_bytes(20_000);
            let config = Config { heartbeats: false, receive_buffer, ..Config::of(profile) };
            let mut pair = Pair::connected(&config, 1, ms(100));
            pair.rate(0, 1_000_000);
            pair.fill(5_000_000);
            for _ in 0..2 {
                pair.run_for(s(5));
                pair.cut(0);
                pair.run_for(s(outage));
                assert!(pair.status(0).errors > 0);
                let arrived = |pair: &Pair| pair.server.association.as_ref().map(|server| server.arrived());
                let before = arrived(&pair);
                pair.mend(0);
                pair.run_while(pair.now + s(60), |pair| arrived(pair) == before);
                pair.run_for(s(1));
                let status = pair.status(0);
                assert_eq!((status.state, status.errors), (PathState::Active, 0), "{profile}, {outage} s");
            }
            pair.run_for(s(300));
            assert_eq!(pair.server.bytes(), 5_000_000, "{profile}, {outage} s");
            let errors = timeouts(&pair).len() as u32;
            if outage == 40 {
                assert!(errors > config.association_max_retrans, "{profile}: {errors} in both outages");
            }
        }
    }
}

#[test]
fn a_local_drop_is_answered_as_the_profile_says() {
    let down = |local_drop| {
        let config = Config { local_drop, ..stubborn(5) };
        let mut pair = failing(&config);
        pair.act(Side::Client, |client, now| client.control(now, Control::InterfaceDown(PathId(0))));
        pair
    };
    // `BackOff`: the same as for a loss in the network.
    let mut pair = down(LocalDrop::BackOff);
    pair.run_for(s(100));
    assert!(timeouts(&pair).windows(2).take(3).all(|pair| pair[1].1 == pair[0].1 * 2));

    // `Probe`: retries every 500 ms, without back-off and without limit. No error is counted.
    let mut pair = down(LocalDrop::Probe);
    let start = pair.now;
    pair.run_for(s(20));
    let at: Vec<_> = timeouts(&pair).iter().map(|(at, _, errors)| (*at - start, *errors)).collect();
    let expected: Vec<_> = (1..=40).map(|i| (ms(500 * i), 0)).collect();
    assert_eq!(at, expected);
    pair.mend(0);
    pair.act(Side::Client, |client, now| client.control(now, Control::InterfaceUp(PathId(0))));
    let before = pair.server.bytes();
    // The time is enough for a retry and then for the delivery of a part of the message.
    pair.run_for(s(2));
    assert!(pair.server.bytes() > before, "goes on with the next probe");

    // `FailOver`: data is sent over the other path immediately.
    let mut pair = down(LocalDrop::FailOver);
    let start = pair.now;
    assert_eq!(pair.status(0).state, PathState::Inactive);
    pair.run_for(ms(1));
    let moved = pair.data_packets().find(|crossing| crossing.path == 1).expect("moved");
    assert_eq!(moved.at, start);
    pair.run_for(s(5));
    pair.mend(0);
    pair.act(Side::Client, |client, now| client.control(now, Control::InterfaceUp(PathId(0))));
    pair.run_for(s(1));
    assert_eq!(pair.status(0).state, PathState::Active);
}

/// The coarse timers of Linux: late by at most their granularity, and never early.
#[test]
fn a_coarse_timer_is_late_and_never_early() {
    let config = Config { timer_wheel: TimerWheel::Linux250, ..stubborn(3) };
    let mut pair = failing(&config);
    pair.run_for(s(60));
    let all = timeouts(&pair);
    for pair in all.windows(2).take(3) {
        let late = (pair[1].0 - pair[0].0) - pair[1].1;
        assert!(pair[1].0 - pair[0].0 >= pair[1].1 && late <= ms(256), "{late}");
    }
}

/// A HEARTBEAT ACK with a forged nonce confirms nothing (section 5.4).
#[test]
fn invented_heartbeat_acks_are_ignored() {
    let mut pair = Pair::new(&rfc(), 2, ms(100));
    pair.lose(|crossing| crossing.path == 1);
    pair.open();
    pair.run_for(s(1));
    let tag = pair.server().local_tag();
    for info in [vec![], vec![1], vec![1; 9], vec![77; 9]] {
        let ack = netrig_transport::sctp::packet::chunk::Heartbeat { info };
        let packet =
            forged(Side::Server, 1, tag, vec![netrig_transport::sctp::packet::Chunk::HeartbeatAck(ack)]);
        pair.deliver(Side::Server, packet);
    }
    let status = pair.server().path_status(PathId(1)).expect("two paths");
    assert_eq!(status.state, PathState::Unconfirmed);
}

/// If the user selects a primary path that does not work yet, data is sent over it as soon as it works.
#[test]
fn a_choice_is_obeyed_when_it_can_be() {
    let config = Config { return_to_primary: false, ..rfc() };
    let mut pair = Pair::new(&config, 2, ms(100));
    pair.lose(|crossing| crossing.path == 1);
    pair.open();
    pair.run_for(s(40));
    assert_eq!(pair.status(1).state, PathState::PotentiallyFailed, "a heartbeat was lost");
    pair.act(Side::Client, |client, now| client.control(now, Control::SetPrimary(PathId(1))));
    let errors = pair.status(1).errors;
    pair.fill(1000);
    assert_eq!(pair.data_packets().last().map(|crossing| crossing.path), Some(0));
    // RFC 7829 section 3.2: the selection changes neither the state nor the error count of the path.
    assert_eq!((pair.status(1).state, pair.status(1).errors), (PathState::PotentiallyFailed, errors));
    pair.rule(|_| Verdict::Pass);
    pair.run_for(s(120));
    assert_eq!(pair.status(1).state, PathState::Active);
    pair.fill(1000);
    assert_eq!(pair.data_packets().last().map(|crossing| crossing.path), Some(1));
}

/// RFC 9260 section 6.3.3: T3-rtx for a retransmission over another path uses the RTO of that path. Here the round-trip
/// time of the first path is measured, and the other path has RTO.Initial.
#[test]
fn the_timer_of_a_retransmission_is_that_of_its_path() {
    let config = Config {
        retransmit_to: RetransmitTo::AlternatePath,
        potentially_failed: false,
        heartbeats: false,
        rto_min: ms(200),
        ..rfc()
    };
    let mut pair = Pair::connected(&config, 2, ms(100));
    pair.fill(1000);
    pair.run_for(s(1));
    let [measured, initial] = [0, 1].map(|path| pair.status(path).rto);
    assert_eq!((measured, initial), (ms(600), s(1)));
    pair.lose(|_| true);
    let start = pair.now;
    pair.fill(1000);
    pair.run_for(ms(1650));
    let spans: Vec<_> = timeouts(&pair).iter().map(|(at, rto, _)| (*at - start, *rto)).collect();
    assert_eq!(spans, [(measured, measured), (measured + initial, initial)]);
    let paths: Vec<_> = pair.data_packets().skip(1).map(|crossing| crossing.path).collect();
    assert_eq!(paths[..2], [0, 1]);
}

/// A path still measures round-trip times after its timed chunk was retransmitted over the other path.
#[test]
fn a_path_measures_again_after_its_chunk_went_elsewhere() {
    let config = Config {
        retransmit_to: RetransmitTo::AlternatePath,
        potentially_failed: false,
        heartbeats: false,
        ..rfc()
    };
    let mut pair = Pair::connected(&config, 2, ms(100));
    pair.rule(|crossing| match crossing.packet.carries_data() && crossing.path == 0 {
        true => Verdict::Drop,
        false => Verdict::Pass,
    });
    pair.fill(1000);
    pair.run_for(s(3));
    assert_eq!(pair.status(0).rto, s(2));
    pair.rule(|_| Verdict::Pass);
    pair.fill(1000);
    pair.run_for(s(3));
    assert_eq!((pair.status(0).srtt, pair.status(0).rto), (Some(ms(100 + 100 + 200)), ms(400 + 4 * 200)));
}

/// On a single path that data keeps probing, each time-out counts once and doubles the timer once. The heartbeats of
/// RFC 7829 do not change this.
#[test]
fn a_single_path_counts_each_failure_once() {
    for profile in Profile::ALL {
        for potentially_failed in [false, true] {
            let config = Config {
                potentially_failed,
                heartbeats_beside_data: false,
                timer_wheel: TimerWheel::Exact,
                ..Config::of(profile)
            };
            let mut pair = Pair::connected(&config, 1, ms(100));
            pair.fill(2_000_000);
            pair.run_for(ms(500));
            pair.cut(0);
            pair.run_for(s(2000));
            let all = timeouts(&pair);
            let expected: Vec<_> = (1..=config.association_max_retrans + 1).collect();
            assert_eq!(all.iter().map(|(_, _, errors)| *errors).collect::<Vec<_>>(), expected, "{profile}");
            for pair in all.windows(2) {
                assert_eq!(pair[1].1, (pair[0].1 * 2).min(s(60)), "{profile}");
                assert_eq!(pair[1].0 - pair[0].0, pair[1].1, "{profile}");
            }
            assert_eq!(pair.client.closed(), Some(CloseReason::TimedOut));
        }
    }
}

/// RFC 9260 section 8.1: heartbeats that are not answered on a path without data "SHOULD NOT increment the association
/// error counter". Linux counts them.
#[test]
fn a_dead_spare_path_does_not_end_the_association() {
    for (profile, end) in [(Profile::Rfc, None), (Profile::Linux, Some(CloseReason::TimedOut))] {
        // The first error that counts ends the association.
        let config = Config { association_max_retrans: 0, ..Config::of(profile) };
        let mut pair = Pair::connected(&config, 2, ms(100));
        pair.cut(1);
        pair.run_for(s(300));
        assert_eq!(pair.client.closed(), end, "{profile}");
    }
}
