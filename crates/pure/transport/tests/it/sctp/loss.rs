//! Loss, reordering and duplication of packets (RFC 9260 sections 6.3 and 7.2).

use netrig_core::{Data, Duration, Size, StreamId};
use netrig_transport::sctp::packet::{Chunk, chunk};
use netrig_transport::sctp::{Config, InitialCwnd, InitialSsthresh, RetransmitTo};
use netrig_transport::{Connection, Incident, Serial};

use super::pair::*;

/// Loses the data packets with these ordinals. Ordinals count first transmissions and retransmissions, from 0.
fn lose_data(pair: &mut Pair, ordinals: &'static [usize]) {
    let mut count = 0;
    pair.lose(move |crossing| {
        if !crossing.packet.carries_data() || crossing.from != Side::Client {
            return false;
        }
        count += 1;
        ordinals.contains(&(count - 1))
    });
}

/// An initial window of 20 packets, and a SACK for each packet.
fn wide() -> Config {
    Config {
        initial_cwnd: InitialCwnd::Size(Size::from_bytes(20 * 1468)),
        max_burst: 0,
        delayed_sack: false,
        ..rfc()
    }
}

fn tsns(crossing: &Crossing) -> Vec<Serial> {
    crossing.data().map(|data| data.tsn).collect()
}

/// The retransmission is sent at the third miss indication, not at the second, and immediately, although the halved
/// window is full.
#[test]
fn fast_retransmit_at_the_third_miss_indication() {
    let mut pair = Pair::connected(&wide(), 1, ms(100));
    let start = pair.now;
    pair.rate(0, 12_000_000);
    lose_data(&mut pair, &[0]);
    pair.fill(20 * 1452);
    pair.run_for(s(3));
    let lost = tsns(pair.data_packets().next().expect("data"));
    let again =
        pair.data_packets().find(|crossing| crossing.at > start && tsns(crossing) == lost).expect("rtx");
    // A packet takes 1 ms: the second to fourth packet arrive at 102, 103 and 104 ms. A SACK of 52 to 56 bytes takes
    // 666 ns per byte, and the third one arrives at the sender 100 ms later.
    let line = |bytes: u64| Duration::from_nanos(bytes * 666);
    let again_at = again.at;
    assert_eq!(again_at, start + line(4 * 1500) + ms(200) + line(52));
    assert_eq!(pair.client().counters().timeouts, 0);
    assert_eq!(pair.client().counters().fast_retransmissions, 1);
    assert_eq!(pair.server.bytes(), 29_040);
    // At that time, sixteen of twenty packets are in flight. The new window is half of 21 packets.
    let cuts = pair.incidents(|incident| match incident {
        Incident::FastRetransmit { cwnd, .. } => Some(*cwnd),
        _ => None,
    });
    assert_eq!(cuts, [(again_at, 21 * 1468 / 2)]);
}

/// RFC 9260 section 7.2.4, HTNA: a SACK gives no miss indication for TSNs above the highest TSN that it newly
/// acknowledges. Here three SACKs indicate that the first chunk is missing, but only one indicates the fourth.
#[test]
fn only_what_is_below_news_counts_as_missing() {
    let mut pair = Pair::connected(&wide(), 1, ms(100));
    pair.lose(|crossing| crossing.packet.carries_data());
    pair.fill(10 * 1452);
    let first = tsns(pair.data_packets().next().expect("data"))[0];
    let (before, tag) = (first.plus(u32::MAX), pair.client().local_tag());
    pair.log.clear();
    for gaps in [&[(5, 5)][..], &[(2, 2), (5, 5)], &[(2, 3), (5, 5)]] {
        let sack = chunk::Sack {
            cumulative_tsn: before,
            a_rwnd: 1_000_000,
            gaps: gaps.iter().map(|&(start, end)| chunk::GapBlock { start, end }).collect(),
            duplicates: Vec::new(),
        };
        pair.deliver(Side::Client, forged(Side::Client, 0, tag, vec![Chunk::Sack(sack)]));
    }
    let again: Vec<_> = pair.data_packets().flat_map(tsns).collect();
    assert_eq!(again, [first]);
}

/// The receiver has received nine of ten packets when the first one is retransmitted. When it arrives, all ten are
/// delivered.
#[test]
fn what_arrives_behind_a_missing_chunk_has_arrived() {
    let mut pair = Pair::connected(&wide(), 1, ms(100));
    lose_data(&mut pair, &[0]);
    pair.fill(10 * 1452);
    pair.run_for(ms(150));
    assert_eq!((pair.server.bytes(), pair.server().arrived()), (0, 9 * 1452));
    pair.run_for(s(3));
    assert_eq!((pair.server.bytes(), pair.server().arrived()), (10 * 1452, 10 * 1452));
}

#[test]
fn two_miss_indications_are_not_enough() {
    let mut pair = Pair::connected(&wide(), 1, ms(100));
    lose_data(&mut pair, &[0]);
    pair.fill(3 * 1452);
    pair.run_for(s(3));
    let counters = pair.client().counters();
    assert_eq!((counters.fast_retransmissions, counters.timeouts), (0, 1));
    assert_eq!(pair.server.bytes(), 3 * 1452);
}

/// HTNA: only TSNs below the highest newly acknowledged TSN count as missing. A SACK that acknowledges nothing new
/// gives no miss indication.
#[test]
fn repeated_sacks_are_no_miss_indications() {
    let mut pair = Pair::connected(&wide(), 1, ms(100));
    lose_data(&mut pair, &[0]);
    pair.fill(2 * 1452);
    pair.run_for(ms(250));
    let sack = pair.sent_by(Side::Server).find_map(Crossing::sack).expect("a SACK with a gap").clone();
    assert_eq!(sack.gaps.len(), 1);
    let tag = pair.client().local_tag();
    for _ in 0..10 {
        pair.deliver(Side::Client, forged(Side::Client, 0, tag, vec![Chunk::Sack(sack.clone())]));
    }
    assert_eq!(pair.client().counters().fast_retransmissions, 0);
}

/// Section 7.2.4: the window is halved once per recovery, even if several packets of the window are lost.
#[test]
fn one_halving_per_recovery() {
    let mut pair = Pair::connected(&wide(), 1, ms(100));
    lose_data(&mut pair, &[0, 3, 6, 9]);
    pair.fill(20 * 1452);
    pair.run_for(s(5));
    let cuts = pair.incidents(|incident| match incident {
        Incident::FastRetransmit { cwnd, .. } => Some(*cwnd),
        _ => None,
    });
    let cuts: Vec<_> = cuts.into_iter().map(|(_, cwnd)| cwnd).collect();
    // The first SACK found the window of 20 packets full and increased it to 21. The new window is half of that.
    assert_eq!(cuts, [21 * 1468 / 2]);
    let counters = pair.client().counters();
    assert_eq!((counters.fast_recoveries, counters.fast_retransmissions, counters.timeouts), (1, 4, 0));
    assert_eq!(pair.incidents(|i| matches!(i, Incident::Recovered { .. }).then_some(())).len(), 1);
    assert_eq!(pair.server.bytes(), 20 * 1452);
}

/// The retransmission itself is lost. The same TSN is not fast retransmitted a second time, but after a time-out.
#[test]
fn a_lost_retransmission_waits_for_the_timer() {
    let mut pair = Pair::connected(&wide(), 1, ms(100));
    let mut lost = None;
    let mut times = 0;
    pair.lose(move |crossing| {
        let Some(tsn) = crossing.data().next().map(|data| data.tsn) else { return false };
        let unlucky = *lost.get_or_insert(tsn) == tsn && times < 2;
        times += usize::from(unlucky);
        unlucky
    });
    let start = pair.now;
    pair.fill(40 * 1452);
    pair.run_for(s(5));
    let counters = pair.client().counters();
    assert_eq!((counters.fast_retransmissions, counters.timeouts), (1, 1));
    // RFC 9260 section 6.1: only the retransmission of the earliest chunk restarts T3-rtx.
    let expired = pair.incidents(|incident| matches!(incident, Incident::Timeout { .. }).then_some(()));
    assert_eq!(expired, [(start + ms(200) + s(1), ())]);
    assert_eq!(pair.server.bytes(), 40 * 1452);
}

/// Section 6.3.3 E1 to E3: the window becomes one packet, the timer is doubled, and one packet with the earliest chunks
/// is sent.
#[test]
fn a_time_out_sends_one_packet_and_backs_off() {
    let config = Config { max_chunk: Size::from_bytes(700), ..wide() };
    let mut pair = Pair::connected(&config, 1, ms(100));
    let start = pair.now;
    pair.lose(|_| true);
    pair.fill(12 * 700);
    pair.run_for(ms(300));
    pair.fill(28 * 700);
    let sent = pair.data_packets().count();
    pair.run_for(ms(1100));
    // No SACK arrived. T3-rtx has run since the first packet was sent, because later packets did not restart it.
    let after: Vec<_> = pair.data_packets().skip(sent).collect();
    assert_eq!(after.len(), 1);
    assert_eq!(after[0].at, start + s(1));
    assert_eq!(after[0].data().count(), 2, "as many as fit a packet");
    let status = pair.status(0);
    assert_eq!((status.cwnd, status.ssthresh, status.rto), (1468, 10 * 1468, s(2)));
}

/// After a time-out, lost data is sent first and then new data. Nothing is retransmitted unnecessarily.
#[test]
fn a_lost_window_is_sent_again_once() {
    let mut pair = Pair::connected(&wide(), 1, ms(100));
    let mut count = 0;
    pair.lose(move |crossing| {
        count += usize::from(crossing.packet.carries_data());
        crossing.packet.carries_data() && count <= 20
    });
    pair.fill(60 * 1452);
    pair.run_for(s(20));
    let counters = pair.client().counters();
    assert_eq!(pair.server.bytes(), 60 * 1452);
    assert_eq!(counters.bytes_retransmitted, 20 * 1452);
    assert_eq!(pair.server().counters().bytes_duplicated, 0);
    assert_eq!(counters.timeouts, 1);
}

/// Karn's algorithm: retransmitted chunks are not measured. The doubled time-out is used until new data is
/// acknowledged.
#[test]
fn the_timer_stays_backed_off_until_new_data_is_measured() {
    // RFC 7829 is disabled, because its heartbeats would be measured too.
    let mut pair = Pair::connected(&Config { potentially_failed: false, ..wide() }, 1, ms(100));
    lose_data(&mut pair, &[0]);
    pair.fill(1000);
    pair.run_for(s(2));
    assert_eq!(pair.server.bytes(), 1000);
    assert_eq!(pair.status(0).rto, s(2));
    pair.fill(1000);
    pair.run_for(s(1));
    assert_eq!(pair.status(0).rto, s(1));
}

#[test]
fn sacks_name_gaps_and_duplicates() {
    let mut pair = Pair::connected(&wide(), 1, ms(100));
    let mut count = 0;
    pair.rule(move |crossing| {
        count += usize::from(crossing.packet.carries_data());
        match (crossing.packet.carries_data(), count) {
            (true, 2 | 5 | 6) => Verdict::Drop,
            (true, 7) => Verdict::Twice,
            _ => Verdict::Pass,
        }
    });
    pair.fill(8 * 1452);
    pair.run_for(ms(150));
    let last = pair.sent_by(Side::Server).filter_map(Crossing::sack).last().expect("SACKs");
    let gaps: Vec<_> = last.gaps.iter().map(|gap| (gap.start, gap.end)).collect();
    assert_eq!(gaps, [(2, 3), (6, 7)]);
    let duplicates: Vec<_> = pair
        .sent_by(Side::Server)
        .filter_map(Crossing::sack)
        .flat_map(|sack| sack.duplicates.clone())
        .collect();
    assert_eq!(duplicates, [last.cumulative_tsn.plus(6)]);
    assert_eq!(pair.server().counters().bytes_duplicated, 1452);
}

/// Section 6.2.1 D iii): a receiver may revoke an acknowledgement that it gave in a gap block.
#[test]
fn reneging_is_survived() {
    let mut pair = Pair::connected(&wide(), 1, ms(100));
    let first = pair.client().local_tag();
    lose_data(&mut pair, &[0]);
    pair.fill(3 * 1452);
    pair.run_for(ms(250));
    let acknowledged = pair.client().unacknowledged();
    assert_eq!(acknowledged, 1452);
    let mut sack = pair.sent_by(Side::Server).find_map(Crossing::sack).expect("SACK").clone();
    sack.gaps.clear();
    pair.deliver(Side::Client, forged(Side::Client, 0, first, vec![Chunk::Sack(sack)]));
    assert_eq!(pair.client().unacknowledged(), 3 * 1452);
    assert_eq!(pair.status(0).flight, 3 * 1468);
    pair.run_for(s(10));
    assert_eq!(pair.server.bytes(), 3 * 1452);
    assert_eq!(pair.client().unacknowledged(), 0);
}

#[test]
fn an_old_sack_changes_nothing() {
    let mut pair = Pair::connected(&wide(), 1, ms(100));
    pair.fill(10 * 1452);
    pair.run_for(s(1));
    let mut old = pair.sent_by(Side::Server).find_map(Crossing::sack).expect("SACK").clone();
    old.a_rwnd = 0;
    let tag = pair.client().local_tag();
    let before = (pair.status(0), pair.client().peer_window());
    pair.deliver(Side::Client, forged(Side::Client, 0, tag, vec![Chunk::Sack(old)]));
    assert_eq!((pair.status(0), pair.client().peer_window()), before);
    pair.fill(10 * 1452);
    pair.run_for(ms(150));
    assert_eq!(pair.server.bytes(), 20 * 1452, "TSNs go on where they were");
}

/// Streams are independent: a loss on one does not delay the others (section 6.6).
#[test]
fn no_head_of_line_blocking_across_streams() {
    let config = Config { message_size: Size::from_bytes(1000), bundling: false, ..wide() };
    let mut pair = Pair::connected(&config, 1, ms(100));
    let start = pair.now;
    lose_data(&mut pair, &[0]);
    for stream in 0..4 {
        pair.send(stream, Data::Fill(2000));
    }
    pair.run_for(s(3));
    let arrival = |stream: u16| {
        pair.server
            .events
            .iter()
            .filter_map(|(when, event)| match event {
                netrig_core::ConnectionEvent::Received { stream: of, .. } if *of == StreamId(stream) => {
                    Some(*when - start)
                }
                _ => None,
            })
            .next()
    };
    assert_eq!([1, 2, 3].map(arrival), [Some(ms(100)); 3]);
    // Stream 0 waits for the retransmission. The loss is detected at 200 ms, and the retransmission arrives at 300 ms.
    assert_eq!(arrival(0), Some(ms(300)));
}

#[test]
fn unordered_messages_do_not_wait_for_each_other() {
    let config = Config { ordered: false, message_size: Size::from_bytes(1000), bundling: false, ..wide() };
    let mut pair = Pair::connected(&config, 1, ms(100));
    lose_data(&mut pair, &[0]);
    pair.fill(5000);
    pair.run_for(ms(150));
    assert_eq!(pair.server.bytes(), 4000);
    pair.run_for(s(3));
    assert_eq!(pair.server.bytes(), 5000);
}

/// RFC 9260 section 6.7: while a TSN is missing, every packet is acknowledged immediately.
#[test]
fn gaps_are_reported_without_delay() {
    let mut pair = Pair::connected(&Config { delayed_sack: true, ..wide() }, 1, ms(100));
    lose_data(&mut pair, &[0]);
    pair.fill(6 * 1452);
    pair.run_for(ms(150));
    assert_eq!(pair.sent_by(Side::Server).count(), 5);
}

/// Depending on the policy, fast retransmits stay on their path or change it.
#[test]
fn where_fast_retransmits_go() {
    for (retransmit_to, path) in [
        (RetransmitTo::SamePath, 0),
        (RetransmitTo::AlternatePath, 1),
        (RetransmitTo::TimeoutsToAlternate, 0),
    ] {
        let mut pair = Pair::connected(&Config { retransmit_to, ..wide() }, 2, ms(100));
        lose_data(&mut pair, &[0]);
        pair.fill(10 * 1452);
        let lost = tsns(pair.data_packets().next().expect("data"));
        pair.run_for(s(3));
        let again = pair.data_packets().skip(1).find(|crossing| tsns(crossing) == lost).expect("rtx");
        assert_eq!(again.path, path, "{retransmit_to:?}");
    }
}

/// A SACK for data that was not sent ends the association without a panic.
#[test]
fn impossible_sacks_abort() {
    let mut pair = Pair::connected(&wide(), 1, ms(100));
    pair.fill(1000);
    let tag = pair.client().local_tag();
    let tsn = pair.data_packets().next().map(tsns).expect("data")[0];
    let sack = chunk::Sack {
        cumulative_tsn: tsn.plus(5),
        a_rwnd: 1000,
        gaps: Default::default(),
        duplicates: Vec::new(),
    };
    pair.deliver(Side::Client, forged(Side::Client, 0, tag, vec![Chunk::Sack(sack)]));
    assert!(pair.client.closed().is_some());
    assert_eq!(pair.log.last().map(Crossing::names).as_deref(), Some("ABORT"));
}

/// RFC 9260 section 7.2.4, note: if a SACK also advances the Cumulative TSN Ack Point, the rules for growing the window
/// "MUST be applied first". Here the window first grows to 21 packets and is then halved.
#[test]
fn a_window_grows_before_the_same_sack_halves_it() {
    let config = Config {
        initial_cwnd: InitialCwnd::Size(Size::from_bytes(20 * 1468)),
        initial_ssthresh: InitialSsthresh::Size(Size::from_bytes(1468)),
        message_size: Size::from_bytes(1452),
        max_burst: 0,
        ..rfc()
    };
    let mut pair = Pair::connected(&config, 1, ms(100));
    pair.lose(|crossing| crossing.packet.carries_data());
    pair.fill(40 * 1452);
    let before = pair.data_packets().next().and_then(|c| c.data().next()).expect("data").tsn.plus(u32::MAX);
    let tag = pair.client().local_tag();
    let mut acknowledge = |cumulative: u32, gaps: &[(u16, u16)]| {
        let sack = chunk::Sack {
            cumulative_tsn: before.plus(cumulative),
            a_rwnd: 1_000_000,
            gaps: gaps.iter().map(|&(start, end)| chunk::GapBlock { start, end }).collect(),
            duplicates: Vec::new(),
        };
        pair.deliver(Side::Client, forged(Side::Client, 0, tag, vec![Chunk::Sack(sack)]));
    };
    // First the fifth and the tenth chunk are missing, then only the tenth. The third SACK is the third miss indication
    // for it. In the end 24 of 25 chunks are acknowledged.
    acknowledge(4, &[(2, 5), (7, 7)]);
    acknowledge(4, &[(2, 5), (7, 8)]);
    acknowledge(9, &[(2, 16)]);
    assert_eq!(pair.status(0).cwnd, 21 * 1468 / 2);
}

/// RFC 9260 section 6.3.1 C5: a chunk is not measured if a chunk with a lower TSN was retransmitted after it was sent.
#[test]
fn no_round_trip_is_measured_past_a_retransmission() {
    for (measures_past_retransmissions, expected) in
        [(false, ms(200)), (true, Duration::from_micros(218_750))]
    {
        let config = Config { measures_past_retransmissions, message_size: Size::from_bytes(1452), ..rfc() };
        let mut pair = Pair::connected(&config, 1, ms(100));
        let mut count = 0;
        pair.rule(move |crossing| {
            count += u32::from(crossing.packet.carries_data());
            match count {
                2 if crossing.packet.carries_data() => Verdict::Drop,
                4 if crossing.packet.carries_data() => Verdict::Late(ms(150)),
                _ => Verdict::Pass,
            }
        });
        // The second chunk is lost and retransmitted. The fourth chunk is timed from 210 ms, and acknowledged 350 ms
        // later.
        pair.fill(3 * 1452);
        pair.run_for(ms(210));
        assert_eq!(pair.status(0).srtt, Some(ms(200)));
        pair.fill(3 * 1452);
        pair.run_for(ms(600));
        assert_eq!(pair.client().counters().fast_retransmissions, 1);
        assert_eq!(pair.server.bytes(), 6 * 1452);
        assert_eq!(pair.status(0).srtt, Some(expected));
    }
}

/// RFC 9260 section 3.3.8: a SHUTDOWN has no gap blocks, and its receiver "MUST NOT interpret the lack of a Gap Ack
/// Block as a renege".
#[test]
fn a_shutdown_takes_no_gap_block_back() {
    let mut pair = Pair::connected(&wide(), 1, ms(100));
    let tag = pair.client().local_tag();
    lose_data(&mut pair, &[0]);
    pair.fill(3 * 1452);
    let first = tsns(pair.data_packets().next().expect("data"))[0];
    pair.run_for(ms(250));
    assert_eq!(pair.client().unacknowledged(), 1452);
    pair.deliver(Side::Client, forged(Side::Client, 0, tag, vec![Chunk::Shutdown(first.plus(u32::MAX))]));
    assert_eq!((pair.client().unacknowledged(), pair.status(0).flight), (1452, 1468));
    pair.run_for(s(3));
    assert_eq!(pair.client().counters().bytes_retransmitted, 1452);
}
