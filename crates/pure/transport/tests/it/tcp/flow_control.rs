//! The peer's window, small segments and delayed acknowledgements.

use netrig_core::{Data, Size};
use netrig_transport::tcp::{Config, LimitedTransmit, Nagle, Recovery};
use netrig_transport::{Connection as _, Profile};

use super::pair::{Fate, ISS, MS, Pair, Side, at_ms, plain};

fn data_times(pair: &Pair, after: netrig_core::Instant) -> Vec<(u64, u64)> {
    pair.sent(Side::Client, |sent| sent.segment.carries_data() && sent.at >= after)
        .iter()
        .map(|sent| (sent.at.as_nanos() / 1_000_000, sent.segment.data.size()))
        .collect()
}

/// The server's segments from 1 s on: the time, ms, and the number of bytes that they acknowledge.
fn acknowledged(pair: &Pair) -> Vec<(u64, i32)> {
    pair.sent(Side::Server, |sent| sent.at >= at_ms(1000))
        .iter()
        .map(|sent| (sent.at.as_nanos() / 1_000_000, sent.segment.ack.offset_from(ISS.plus(1))))
        .collect()
}

/// RFC 9293 section 3.8.6.1: the first probe is sent after the retransmission time-out (1 s), and the next ones at
/// exponentially growing intervals.
#[test]
fn a_closed_window_is_probed() {
    let config = Config { receive_buffer: Size::from_bytes(4000), ..plain() };
    let mut pair = Pair::new(&config);
    pair.connect();
    pair.act(Side::Server, |server, _| server.set_reading(false));
    pair.send(Side::Client, Data::Fill(10_000));
    pair.run_until(at_ms(20_000));
    let sent = data_times(&pair, at_ms(0));
    assert_eq!(sent[..4].iter().map(|(_, len)| len).sum::<u64>(), 4000);
    let probes = &sent[4..];
    assert!(probes.iter().all(|(_, len)| *len == 1), "{probes:?}");
    let gaps: Vec<_> = probes.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert_eq!(gaps, [2000, 4000, 8000]);
    // The window closes at 250 ms: data sent at 150 ms is acknowledged then. The first probe is sent a second later.
    assert_eq!(probes[0].0, 1250);
    pair.act(Side::Server, |server, _| server.set_reading(true));
    pair.run(MS(5_000));
    assert_eq!(pair.received_len[1], 10_000);
}

/// The window update is lost, so only a probe can detect the open window.
#[test]
fn a_lost_window_update_is_found_out() {
    let config = Config { receive_buffer: Size::from_bytes(4000), ..plain() };
    let mut pair = Pair::new(&config).with_network(|sent| {
        let update = sent.from == Side::Server && sent.at == at_ms(500);
        if update { Fate::Drop } else { Fate::Pass }
    });
    pair.connect();
    pair.act(Side::Server, |server, _| server.set_reading(false));
    pair.send_bytes(Side::Client, &[7; 10_000]);
    pair.run_until(at_ms(500));
    pair.act(Side::Server, |server, _| server.set_reading(true));
    pair.run(MS(30_000));
    assert!(pair.received[1] == [7; 10_000], "{} bytes", pair.received[1].len());
    assert_eq!(pair.client.unacknowledged(), 0);
}

/// With a window of w bytes and a round trip of 100 ms, the rate is w bytes per 100 ms, independent of the congestion
/// window.
#[test]
fn the_receive_buffer_bounds_the_rate() {
    for buffer in [10_000u64, 64_000, 1_000_000] {
        let config = Config { receive_buffer: Size::from_bytes(buffer), ..plain() };
        let mut pair = Pair::new(&config);
        pair.open();
        pair.send(Side::Client, Data::Fill(1 << 40));
        pair.run_until(at_ms(3_000));
        let before = pair.received_len[1];
        pair.run(MS(2_000));
        let per_round = (pair.received_len[1] - before) / 20;
        // A large window is advertised in units of 2^shift bytes (here 16), so the last segment may not fit.
        assert!(per_round <= buffer && per_round + 1000 > buffer, "{per_round} for {buffer}");
    }
}

/// Without window scaling the largest window is 65,535 bytes (RFC 9293 section 3.1).
#[test]
fn without_scaling_the_window_has_16_bits() {
    let config = Config { receive_buffer: Size::from_bytes(1_000_000), window_scaling: false, ..plain() };
    let mut pair = Pair::new(&config);
    pair.open();
    pair.send(Side::Client, Data::Fill(1 << 40));
    pair.run_until(at_ms(3_000));
    let before = pair.received_len[1];
    pair.run(MS(1_000));
    assert_eq!((pair.received_len[1] - before) / 10, 65_000);
    assert!(pair.log.iter().all(|sent| sent.segment.window_scale.is_none()));
}

/// Four messages of 100 bytes, 10 ms apart, over a round trip of 100 ms.
#[test]
fn small_segments_wait_as_the_rule_says() {
    let sent = |nagle| {
        let mut pair = Pair::new(&Config { nagle, ..plain() });
        pair.connect();
        pair.run_until(at_ms(1000));
        for _ in 0..4 {
            pair.send(Side::Client, Data::Fill(100));
            pair.run(MS(10));
        }
        pair.run(MS(1000));
        data_times(&pair, at_ms(1000))
    };
    assert_eq!(sent(Nagle::Off), [(1000, 100), (1010, 100), (1020, 100), (1030, 100)]);
    // RFC 896: the other messages are sent when the first one is acknowledged.
    assert_eq!(sent(Nagle::Nagle), [(1000, 100), (1100, 300)]);
    assert_eq!(sent(Nagle::Minshall), [(1000, 100), (1100, 300)]);
}

/// Minshall's variant sends the last partial segment of a large message while only full segments are unacknowledged.
#[test]
fn the_tail_of_a_large_message_does_not_wait_for_minshall() {
    let tail = |nagle| {
        let mut pair = Pair::new(&Config { nagle, ..plain() });
        pair.connect();
        pair.run_until(at_ms(1000));
        pair.send(Side::Client, Data::Fill(2500));
        pair.run(MS(1000));
        data_times(&pair, at_ms(1000)).last().copied()
    };
    assert_eq!(tail(Nagle::Minshall), Some((1000, 500)));
    assert_eq!(tail(Nagle::Nagle), Some((1100, 500)));
}

/// RFC 9293 section 3.8.6.3: an acknowledgement is sent for every second full segment, or after the delay.
#[test]
fn acknowledgements_are_delayed_until_the_second_segment() {
    let config = Config { ack_every: 2, ack_delay: MS(200), ..plain() };
    let mut pair = Pair::new(&config);
    pair.connect();
    pair.run_until(at_ms(1000));
    pair.send(Side::Client, Data::Fill(3000));
    pair.run(MS(1000));
    assert_eq!(acknowledged(&pair), [(1050, 2000), (1250, 3000)]);
}

/// Linux acknowledges the first sixteen segments immediately, and later ones after 40 ms. Its timers fire on the next
/// tick of 4 ms.
#[test]
fn linux_acknowledges_quickly_at_first() {
    let mut pair = Pair::new(&Config::of(Profile::Linux));
    pair.connect();
    for n in 0..17u64 {
        pair.run_until(at_ms(1001 + 100 * n));
        pair.send(Side::Client, Data::Fill(100));
    }
    pair.run(MS(1000));
    let delays: Vec<_> = pair
        .sent(Side::Server, |sent| sent.at > at_ms(1000))
        .iter()
        .enumerate()
        .map(|(n, sent)| sent.at.since(at_ms(1051 + 100 * n as u64)).as_nanos() / 1_000_000)
        .collect();
    assert_eq!(delays[..16], [0; 16]);
    // 2651 ms is in jiffy 662 (of 4 ms). The timer fires 10 jiffies later, on the following tick: 673 · 4 = 2692 ms.
    assert_eq!(delays[16], 41);
}

/// A source that sends when it receives `ConnectionEvent::Writable` receives the event repeatedly, so the line is
/// always busy.
#[test]
fn a_source_that_waits_for_writable_keeps_the_line_busy() {
    let mut pair = Pair::new(&plain()).with_rate("8 Mbit/s", 200);
    pair.connect();
    pair.send(Side::Client, Data::Fill(30_000));
    let mut asked = 0;
    while pair.now < at_ms(10_000) {
        if pair.writable[0] > asked {
            asked = pair.writable[0];
            pair.send(Side::Client, Data::Fill(30_000));
            continue;
        }
        if !pair.step(at_ms(10_000)) {
            break;
        }
    }
    // A packet of 1040 bytes has 1000 data bytes, so at most 961,538 data bytes per second arrive.
    let before: u64 = pair.arrivals[1].iter().filter(|(at, _)| *at > at_ms(5_000)).map(|(_, n)| n).sum();
    assert!(before as f64 > 0.999 * 961_538.0 * 5.0, "{before}");
}

/// RFC 9293 section 3.8.6.1: while the peer answers probes, the connection stays open (MUST-37). If the peer does not
/// answer, the connection fails.
#[test]
fn a_peer_that_answers_probes_is_not_given_up() {
    let config = Config { receive_buffer: Size::from_bytes(4000), ..plain() };
    for answers in [true, false] {
        let mut pair = Pair::new(&config);
        pair.connect();
        pair.act(Side::Server, |server, _| server.set_reading(false));
        pair.send(Side::Client, Data::Fill(10_000));
        pair.run_until(at_ms(1000));
        if !answers {
            pair.network = Box::new(|_| Fate::Drop);
        }
        pair.run(MS(3_600_000));
        let closed = pair.closed[0].map(|(_, reason)| reason);
        assert_eq!(closed, (!answers).then_some(netrig_core::CloseReason::TimedOut));
    }
}

/// RFC 5681 section 4.2: every segment above a gap or in it is acknowledged immediately, even if acknowledgements are
/// delayed otherwise. None is acknowledged twice.
#[test]
fn what_is_out_of_order_is_acknowledged_at_once() {
    let config = Config { ack_every: 2, ack_delay: MS(200), tail_loss_probe: false, ..plain() };
    let mut pair = Pair::new(&config).dropping(&[2]);
    pair.connect();
    pair.run_until(at_ms(1000));
    pair.send(Side::Client, Data::Fill(5000));
    pair.run(MS(500));
    // The first segment is acknowledged as soon as the third arrives. Segments 3, 4 and 5 are above the gap. The second
    // segment, retransmitted at 1100 ms, fills it.
    assert_eq!(acknowledged(&pair), [(1050, 1000), (1050, 1000), (1050, 1000), (1150, 5000)]);
}

/// RFC 5681 sections 3.2 and 4.2: a segment that fills only part of a gap is acknowledged immediately too. NewReno
/// retransmits the second segment at 1100 ms, and the third one round trip later. If their acknowledgements were
/// delayed, they would be sent 200 ms later.
#[test]
fn what_fills_a_part_of_a_gap_is_acknowledged_at_once() {
    let config = Config {
        ack_every: 2,
        ack_delay: MS(200),
        recovery: Recovery::Newreno,
        sack: false,
        limited_transmit: LimitedTransmit::Off,
        ..plain()
    };
    let mut pair = Pair::new(&config).dropping(&[2, 3]);
    pair.connect();
    pair.run_until(at_ms(1000));
    pair.send(Side::Client, Data::Fill(7000));
    pair.run(MS(500));
    let expected = [(1050, 1000), (1050, 1000), (1050, 1000), (1050, 1000), (1150, 2000), (1250, 7000)];
    assert_eq!(acknowledged(&pair), expected);
}

/// RFC 5681 section 4.2: at most one acknowledgement is sent for each segment that arrives. Section 2: no data is sent
/// beyond the peer's window.
#[test]
fn one_acknowledgement_for_each_segment_at_most() {
    let config = Config { receive_buffer: Size::from_bytes(8000), ..plain() };
    let mut pair = Pair::new(&config).with_network(|sent| match (sent.from, sent.data_ordinal % 23) {
        (Side::Client, 7) => Fate::Drop,
        (Side::Client, 15) => Fate::Late(MS(40)),
        (Side::Client, 19) => Fate::Twice,
        _ => Fate::Pass,
    });
    pair.connect();
    pair.send(Side::Client, Data::Fill(500_000));
    pair.run(MS(60_000));
    assert_eq!(pair.received_len[1], 500_000);
    let received = pair.server.counters().packets_received;
    assert!(pair.sent(Side::Server, |_| true).len() as u64 <= received);
    // The window is checked as the client sees it: an acknowledgement takes 50 ms to arrive.
    let (mut edge, mut full) = (0, 0);
    let mut told = pair.sent(Side::Server, |_| true).into_iter().peekable();
    for sent in pair.sent(Side::Client, |sent| sent.segment.carries_data()) {
        while let Some(answer) = told.next_if(|answer| answer.at + MS(50) <= sent.at) {
            let acknowledged = i64::from(answer.segment.ack.offset_from(ISS.plus(1)));
            edge = edge.max(acknowledged + i64::from(answer.segment.window));
        }
        let end = i64::from(sent.segment.seq.offset_from(ISS.plus(1))) + sent.segment.data.size() as i64;
        assert!(end <= edge, "{end} beyond {edge} at {}", sent.at);
        full += usize::from(end == edge);
    }
    assert!(full > 20, "the window is the limit {full} times");
}
