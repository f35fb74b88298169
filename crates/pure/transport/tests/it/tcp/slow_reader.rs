//! A user that does not read immediately: the window closes, is probed and opens again (RFC 9293 section 3.8.6).

use netrig_core::{Data, Seeds, Size};
use netrig_transport::tcp::{Config, Flags};
use netrig_transport::{Connection as _, Profile};
use proptest::prelude::*;

use super::pair::{Fate, ISS, MS, Pair, Side, at_ms, plain};

/// A connection with a receive buffer of `buffer` bytes. The server's user reads only when the test calls `read`.
fn paused(buffer: u64) -> Pair {
    let mut pair = Pair::new(&Config { receive_buffer: Size::from_bytes(buffer), ..plain() });
    pair.connect();
    pair.act(Side::Server, |server, _| server.set_reading(false));
    pair
}

/// Makes the server's user read `bytes` bytes `times` times, at intervals of `every` milliseconds.
fn read(pair: &mut Pair, bytes: u64, every: u64, times: u64) {
    for _ in 0..times {
        pair.run(MS(every));
        pair.act(Side::Server, |server, _| {
            server.read(bytes);
        });
    }
}

/// The windows that the server advertises: time (ms), right edge, and size (bytes).
fn windows(pair: &Pair) -> Vec<(u64, i64, u64)> {
    pair.sent(Side::Server, |sent| !sent.segment.flags.contains(Flags::SYN))
        .iter()
        .map(|sent| {
            let acknowledged = i64::from(sent.segment.ack.offset_from(ISS.plus(1)));
            let window = sent.segment.window;
            (sent.at.as_nanos() / 1_000_000, acknowledged + i64::from(window), window.into())
        })
        .collect()
}

/// RFC 9293 sections 3.8.6.2.1 and 3.8.6.2.2: if the user reads 100 bytes at a time, segments have 1000 bytes, and the
/// right edge moves by 1000 bytes.
#[test]
fn small_bites_make_no_small_segments() {
    let mut pair = paused(8000);
    pair.send(Side::Client, Data::Fill(100_000));
    read(&mut pair, 100, 10, 1500);
    assert_eq!(pair.received_len[1], 100_000);
    let data = pair.sent(Side::Client, |sent| sent.segment.carries_data());
    assert!(data.iter().all(|sent| sent.segment.data.size() == 1000), "{data:?}");
    let told = windows(&pair);
    let moves: Vec<_> = told.windows(2).map(|pair| pair[1].1 - pair[0].1).filter(|by| *by != 0).collect();
    assert!(moves.len() > 50 && moves.iter().all(|by| *by >= 1000), "{moves:?}");
}

/// If the buffer is smaller than two segments, the right edge moves by half of the buffer.
#[test]
fn half_of_a_small_buffer_is_no_silly_window() {
    let mut pair = paused(1000);
    pair.send(Side::Client, Data::Fill(20_000));
    read(&mut pair, 50, 10, 600);
    assert_eq!(pair.received_len[1], 20_000);
    let data = pair.sent(Side::Client, |sent| sent.segment.carries_data());
    assert!(data.iter().all(|sent| sent.segment.data.size() >= 500), "{data:?}");
}

/// RFC 9293 section 3.8.6.2.1, rule 4: a constant window of 632 bytes is used after the time-out, and is then closed.
#[test]
fn what_a_window_that_is_nearly_closed_takes_is_sent_after_the_time_out() {
    let mut pair = paused(8632);
    pair.send(Side::Client, Data::Fill(100_000));
    pair.run(MS(5000));
    let data = pair.sent(Side::Client, |sent| sent.segment.carries_data());
    let sizes: Vec<_> = data.iter().map(|sent| sent.segment.data.size()).collect();
    assert_eq!(sizes[..9], [1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 632]);
    assert!(sizes[9..].iter().all(|size| *size == 1), "{sizes:?}");
    assert_eq!(windows(&pair).last().map(|(.., window)| *window), Some(0));
}

/// Reading 5 KB every 20 ms is a rate of 2 Mbit/s. The line is unlimited. The buffer contains many reads or only one.
#[test]
fn a_transfer_is_as_fast_as_its_reader() {
    for buffer in [40_000, 65_000, 1_000_000] {
        let mut pair = paused(buffer);
        pair.send(Side::Client, Data::Fill(1 << 40));
        read(&mut pair, 5000, 20, 250);
        let before = pair.received_len[1];
        read(&mut pair, 5000, 20, 500);
        let rate = (pair.received_len[1] - before) as f64 / 10.0;
        assert!((rate / 250_000.0 - 1.0).abs() < 0.01, "{rate} B/s with {buffer} B");
    }
}

/// The one-way delay is 50 ms. The read at 7 s is advertised immediately, and the next data is sent at 7.05 s, long
/// before the probe that is due at 8.25 s.
#[test]
fn what_was_read_is_told_at_once() {
    let mut pair = paused(4000);
    pair.send(Side::Client, Data::Fill(10_000));
    pair.run_until(at_ms(7000));
    assert_eq!((pair.server.unread(), pair.received_len[1]), (4000, 0));
    pair.log.clear();
    pair.act(Side::Server, |server, _| assert_eq!(server.read(999), 999));
    pair.run_until(at_ms(7010));
    assert!(windows(&pair).is_empty(), "less than a segment");
    pair.act(Side::Server, |server, _| assert_eq!(server.read(2001), 2001));
    pair.run_until(at_ms(7060));
    assert_eq!(windows(&pair), [(7010, 7000, 3000)]);
    let sent = pair.sent(Side::Client, |sent| sent.segment.carries_data());
    assert_eq!(sent.iter().map(|sent| sent.at).collect::<Vec<_>>(), [at_ms(7060); 3]);
    pair.act(Side::Server, |server, _| assert_eq!(server.read(u64::MAX), 1000, "there is no more"));
}

/// Three probes: at 1250, 3250 and 7250 ms.
#[test]
fn probes_are_counted_and_take_nothing() {
    let mut pair = paused(4000);
    pair.send(Side::Client, Data::Fill(10_000));
    pair.run_until(at_ms(8000));
    assert_eq!((pair.client.counters().window_probes, pair.server.arrived()), (3, 4000));
    assert_eq!(pair.client.counters().timeouts, 0);
}

/// Both ends have closed, and all data is acknowledged but not read. The user receives the remaining data before the
/// event that ends the connection.
#[test]
fn the_end_is_told_behind_the_data() {
    let mut pair = paused(4000);
    pair.send(Side::Client, Data::Fill(3000));
    pair.close(Side::Client);
    pair.close(Side::Server);
    pair.run(MS(1000));
    assert!(pair.finished[0] && !pair.finished[1]);
    assert_eq!((pair.closed[1], pair.received_len[1]), (None, 0));
    pair.act(Side::Server, |server, _| {
        server.read(2999);
    });
    assert!(!pair.finished[1] && pair.closed[1].is_none());
    pair.act(Side::Server, |server, _| {
        server.read(1);
    });
    assert!(pair.finished[1] && pair.closed[1].is_some());
    assert_eq!(pair.received_len[1], 3000);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 100, ..ProptestConfig::default() })]

    /// With any sequence of reads and losses, all bytes are delivered in order, and the buffer is never exceeded. The
    /// right edge of the window never moves to the left (RFC 9293 section 3.8.6, SHLD-14).
    #[test]
    fn whatever_the_reader_does_all_bytes_arrive_in_order(
        profile in prop_oneof![Just(Profile::Rfc), Just(Profile::Linux)],
        // Larger windows would be advertised in units of several bytes, with an error of up to one unit.
        buffer in prop_oneof![Just(65_535), 500..20_000_u64],
        bytes in 1..40_000_usize,
        reads in proptest::collection::vec((0..3000_u64, 1..900_u64), 1..60),
        loss in prop_oneof![Just(0.0), 0.0..0.1],
        seed in any::<u64>(),
    ) {
        let config = Config { receive_buffer: Size::from_bytes(buffer), ..Config::of(profile) };
        let mut random = Seeds::new(seed).stream("loss");
        let mut pair = Pair::new(&config)
            .with_network(move |_| if random.chance(loss) { Fate::Drop } else { Fate::Pass });
        pair.open();
        pair.act(Side::Server, |server, _| server.set_reading(false));
        let sent: Vec<u8> = (0..bytes).map(|i| (i * 31 + i / 256 * 7) as u8).collect();
        pair.send_bytes(Side::Client, &sent);
        pair.close(Side::Client);
        let waits = |pair: &Pair| pair.server.arrived() - pair.server.counters().bytes_delivered;
        for (bytes, ms) in reads {
            pair.run(MS(ms));
            prop_assert!(waits(&pair) <= buffer && pair.server.unread() <= buffer);
            pair.act(Side::Server, |server, _| {
                server.read(bytes);
            });
        }
        for _ in 0..5000 {
            if pair.finished[1] {
                break;
            }
            pair.run(MS(2000));
            prop_assert!(waits(&pair) <= buffer);
            pair.act(Side::Server, |server, _| {
                server.read(5000);
            });
        }
        prop_assert_eq!(pair.received[1].len(), sent.len());
        prop_assert!(pair.received[1] == sent);
        prop_assert!(pair.finished[1]);
        let told = windows(&pair);
        for pair in told.windows(2) {
            prop_assert!(pair[1].1 >= pair[0].1, "{:?}", pair);
        }
    }
}
