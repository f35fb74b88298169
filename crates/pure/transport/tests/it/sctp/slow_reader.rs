//! A user that does not read immediately: a_rwnd falls to zero, is probed and rises again (RFC 9260 sections 6.1 and
//! 6.2).

use netrig_core::{CloseReason, Data, Seeds, Size};
use netrig_transport::Connection;
use netrig_transport::sctp::Config;
use proptest::prelude::*;

use super::pair::*;

/// An association with a delay of 100 ms in each direction, messages of one full chunk and a receive buffer of `buffer`
/// bytes. The server's user reads only when the test calls `read`.
fn paused(buffer: u64) -> Pair {
    let config = Config {
        receive_buffer: Size::from_bytes(buffer),
        message_size: Size::from_bytes(1452),
        heartbeats: false,
        ..rfc()
    };
    let mut pair = Pair::connected(&config, 1, ms(100));
    pair.act(Side::Server, |server, _| server.set_reading(false));
    pair
}

/// Makes the server's user read `bytes` bytes `times` times, at intervals of `every` milliseconds.
fn read(pair: &mut Pair, bytes: u64, every: u64, times: u64) {
    for _ in 0..times {
        pair.run_for(ms(every));
        pair.act(Side::Server, |server, _| {
            server.read(bytes);
        });
    }
}

/// Time and number of user bytes of each DATA chunk that the client sent after `after`.
fn data_since(pair: &Pair, after: netrig_core::Instant) -> Vec<(u64, u64)> {
    pair.data_packets()
        .filter(|crossing| crossing.at > after)
        .map(|crossing| {
            (
                crossing.at.since(after).as_nanos() / 1_000_000,
                crossing.data().map(|data| data.data.size()).sum(),
            )
        })
        .collect()
}

/// Section 6.1 A: the first probe is sent one RTO after the window has closed. Further probes follow at increasing
/// intervals, up to RTO.Max.
#[test]
fn the_first_probe_goes_after_rto_and_others_ever_later() {
    let mut pair = paused(8000);
    pair.fill(100_000);
    pair.run_for(s(1));
    assert_eq!(pair.server().unread(), 5 * 1452);
    let closed = pair.data_packets().last().expect("data").at;
    pair.run_for(s(200));
    let probes = data_since(&pair, closed);
    assert!(probes.iter().all(|(_, len)| *len == 1452), "{probes:?}");
    // The SACK for the last data arrived 200 ms after the data was sent, or later if it was delayed.
    assert!((1200..1401).contains(&probes[0].0), "{probes:?}");
    let gaps: Vec<_> = probes.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert_eq!(gaps[..6], [2000, 4000, 8000, 16_000, 32_000, 60_000], "{probes:?}");
    assert_eq!(pair.client.closed(), None);
    assert_eq!((pair.status(0).errors, pair.client().counters().window_probes), (0, 1));
    assert_eq!(pair.server().unread(), 5 * 1452);
}

/// A probe is outstanding, and its timer has backed off to 16 s. Its chunk is retransmitted as soon as the window has
/// room for it.
#[test]
fn an_open_window_does_not_wait_for_the_probe_s_timer() {
    let mut pair = paused(8000);
    pair.fill(30_000);
    pair.run_for(s(20));
    let now = pair.now;
    pair.act(Side::Server, |server, _| {
        server.read(u64::MAX);
    });
    pair.run_for(ms(150));
    assert_eq!(data_since(&pair, now).first(), Some(&(100, 1452)));
    read(&mut pair, u64::MAX, 50, 200);
    assert_eq!(pair.server.bytes(), 30_000);
}

/// Section 6.2: a_rwnd is the free space of the buffer. It falls with each unread chunk, and rises only when the user
/// reads. A remainder of 744 bytes is less than a chunk, and is advertised as zero.
#[test]
fn a_rwnd_is_what_the_buffer_has_left() {
    let mut pair = paused(8004);
    let mut told = Vec::new();
    for n in 1..=5 {
        pair.log.clear();
        pair.fill(1452);
        pair.run_for(s(1));
        let sacks: Vec<_> = pair.sent_by(Side::Server).filter_map(Crossing::sack).collect();
        told.extend(sacks.iter().map(|sack| sack.a_rwnd));
        assert_eq!(pair.server().unread(), n * 1452);
    }
    assert_eq!(told, [8004 - 1452, 8004 - 2 * 1452, 8004 - 3 * 1452, 8004 - 4 * 1452, 0]);
    pair.log.clear();
    pair.act(Side::Server, |server, _| assert_eq!(server.read(2000), 2000));
    let told: Vec<_> =
        pair.sent_by(Side::Server).filter_map(Crossing::sack).map(|sack| sack.a_rwnd).collect();
    assert_eq!(told, [8004 - 5 * 1452 + 2000]);
}

/// The window update is lost. A probe detects the open window.
#[test]
fn a_lost_update_of_a_rwnd_is_found_out() {
    let mut pair = paused(8000);
    pair.fill(30_000);
    pair.run_for(s(5));
    pair.lose(first(|crossing| crossing.from == Side::Server && crossing.sack().is_some()));
    pair.act(Side::Server, |server, _| server.set_reading(true));
    pair.run_for(s(60));
    assert_eq!(pair.server.bytes(), 30_000);
}

/// Even if the user reads 100 bytes at a time, chunks are full, and a_rwnd is either zero or at least one chunk.
#[test]
fn small_bites_make_no_small_chunks() {
    let mut pair = paused(8000);
    pair.fill(1452 * 100);
    read(&mut pair, 100, 5, 2000);
    assert_eq!(pair.server.bytes(), 1452 * 100);
    assert!(pair.data_packets().flat_map(Crossing::data).all(|data| data.data.size() == 1452));
    let told: Vec<_> =
        pair.sent_by(Side::Server).filter_map(Crossing::sack).map(|sack| sack.a_rwnd).collect();
    assert!(told.len() > 50 && told.iter().all(|window| *window == 0 || *window >= 1452), "{told:?}");
}

/// Reading 5 KB every 20 ms is a rate of 250 kB/s.
#[test]
fn a_transfer_over_sctp_is_as_fast_as_its_reader() {
    for buffer in [100_000, 500_000] {
        let mut pair = paused(buffer);
        pair.fill(10_000_000);
        read(&mut pair, 5000, 20, 250);
        let before = pair.server.bytes();
        read(&mut pair, 5000, 20, 500);
        let rate = (pair.server.bytes() - before) as f64 / 10.0;
        assert!((rate / 250_000.0 - 1.0).abs() < 0.01, "{rate} B/s with {buffer} B");
    }
}

/// The association has ended for both ends. The user receives the data before the event that ends the association.
#[test]
fn the_end_of_an_association_is_told_behind_the_data() {
    let mut pair = paused(8000);
    pair.fill(3000);
    pair.act(Side::Client, |client, now| client.close(now));
    pair.run_for(s(3));
    assert_eq!((pair.client.closed(), pair.server.closed()), (Some(CloseReason::Finished), None));
    pair.act(Side::Server, |server, _| assert_eq!(server.read(2999), 2999));
    assert_eq!((pair.server.closed(), pair.server.bytes()), (None, 2999));
    pair.act(Side::Server, |server, _| assert_eq!(server.read(2999), 1));
    assert_eq!((pair.server.closed(), pair.server.bytes()), (Some(CloseReason::Finished), 3000));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 100, ..ProptestConfig::default() })]

    /// With any sequence of reads and losses, all bytes are delivered in order, and the buffer is never exceeded.
    #[test]
    fn whatever_the_reader_does_all_chunks_arrive_in_order(
        buffer in prop_oneof![Just(65_535), 3000..20_000_u64],
        bytes in 1..40_000_usize,
        reads in proptest::collection::vec((0..3000_u64, 1..900_u64), 1..60),
        loss in prop_oneof![Just(0.0), 0.0..0.1],
        seed in any::<u64>(),
    ) {
        let config = Config {
            receive_buffer: Size::from_bytes(buffer),
            association_max_retrans: 1000,
            init_max_retrans: 1000,
            rto_max: s(10),
            ..rfc()
        };
        let mut random = Seeds::new(seed).stream("loss");
        let mut pair = Pair::connected(&config, 1, ms(50));
        pair.rule(move |_| if random.chance(loss) { Verdict::Drop } else { Verdict::Pass });
        pair.act(Side::Server, |server, _| server.set_reading(false));
        let sent: Vec<u8> = (0..bytes).map(|i| (i * 31 + i / 256 * 7) as u8).collect();
        pair.send(0, Data::Bytes(sent.clone().into()));
        pair.act(Side::Client, |client, now| client.close(now));
        for (bytes, wait) in reads {
            pair.run_for(ms(wait));
            prop_assert!(pair.server().unread() <= buffer);
            pair.act(Side::Server, |server, _| {
                server.read(bytes);
            });
        }
        for _ in 0..5000 {
            if pair.server.closed().is_some() {
                break;
            }
            pair.run_for(s(2));
            prop_assert!(pair.server().unread() <= buffer);
            pair.act(Side::Server, |server, _| {
                server.read(5000);
            });
        }
        let pieces = pair.server.received.get(&0).map(Vec::as_slice).unwrap_or_default();
        let got: Vec<u8> = pieces.iter().flat_map(|piece| match piece {
            Data::Bytes(bytes) => bytes.to_vec(),
            Data::Fill(_) => Vec::new(),
        }).collect();
        prop_assert!(got == sent, "{} of {} bytes", got.len(), sent.len());
    }
}
