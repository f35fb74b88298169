//! Data transfer without loss: windows, streams, fragments, acknowledgements (RFC 9260 section 6).

use netrig_core::{Data, Endpoint, Instant, Size, StreamId};
use netrig_transport::sctp::packet::{Chunk, chunk};
use netrig_transport::sctp::{ChunkCharge, Config, InitialCwnd, Scheduler};
use netrig_transport::{Connection, Control, PathId, Profile, Serial};

use super::pair::*;

fn bytes(n: u64) -> Size {
    Size::from_bytes(n)
}

/// Lengths of the client's IP packets that contain data.
fn data_lengths(pair: &Pair) -> Vec<u32> {
    pair.data_packets().map(|crossing| crossing.ip_len).collect()
}

#[test]
fn a_message_is_cut_to_the_mtu() {
    // 1500 = 20 bytes of IP header + 12 of common header + 16 of DATA header + 1452 user bytes.
    for (message, expected) in [
        (1, vec![52]),
        (4, vec![52]),
        (5, vec![56]),
        (1452, vec![1500]),
        (1453, vec![1500, 52]),
        (2904, vec![1500, 1500]),
        (2905, vec![1500, 1500, 52]),
    ] {
        let mut pair = Pair::connected(&rfc(), 1, ms(10));
        pair.fill(message);
        pair.run_for(s(5));
        assert_eq!(data_lengths(&pair), expected, "{message} B");
        assert_eq!(pair.server.bytes(), message);
    }
}

#[test]
fn max_chunk_bounds_chunks_and_bundling_fills_packets() {
    // 365 + 16 + 3 bytes of padding = 384. After three such chunks, 316 bytes remain, too few for a fourth.
    let config = Config { max_chunk: bytes(365), ..rfc() };
    let mut pair = Pair::connected(&config, 1, ms(10));
    pair.fill(3650);
    pair.run_for(s(5));
    let chunks: Vec<_> = pair.data_packets().map(|crossing| crossing.data().count()).collect();
    assert_eq!(chunks, [3, 3, 3, 1]);
    assert_eq!(data_lengths(&pair)[0], 32 + 3 * 384);

    let config = Config { bundling: false, ..config };
    let mut pair = Pair::connected(&config, 1, ms(10));
    pair.fill(3650);
    pair.run_for(s(5));
    assert!(pair.data_packets().all(|crossing| crossing.data().count() == 1));
    assert_eq!(pair.data_packets().count(), 10);
}

#[test]
fn message_size_cuts_what_the_user_gives() {
    let mut pair = Pair::connected(&Config { message_size: bytes(400), ..rfc() }, 1, ms(10));
    pair.fill(1000);
    pair.run_for(s(1));
    let data: Vec<_> = pair.data_packets().flat_map(Crossing::data).collect();
    let messages: Vec<_> =
        data.iter().map(|data| (data.ssn, data.beginning, data.ending, data.data.size())).collect();
    assert_eq!(messages, [(0, true, true, 400), (1, true, true, 400), (2, true, true, 200)]);
}

#[test]
fn joined_sends_make_full_messages() {
    let config = Config { message_size: bytes(1452), join_sends: true, ..rfc() };
    let mut pair = Pair::connected(&config, 1, ms(10));
    let now = pair.now;
    for _ in 0..30 {
        pair.client().send(now, StreamId(0), Data::Fill(1000));
    }
    pair.settle(Side::Client);
    pair.run_for(s(5));
    let lengths = data_lengths(&pair);
    assert_eq!(lengths.len(), 21, "30,000 B in messages of 1452 B");
    assert!(lengths[..20].iter().all(|len| *len == 1500));
}

/// RFC 9260 section 7.2.1: min(4 P, max(2 P, 4404)) with P = 1468 is three packets.
#[test]
fn the_first_window() {
    for (config, packets) in [
        (rfc(), 3),
        (Config::of(Profile::Ns2), 2),
        (Config { initial_cwnd: InitialCwnd::Size(bytes(10 * 1468)), max_burst: 0, ..rfc() }, 10),
        (Config { mtu: bytes(500), ..rfc() }, 4),
        (Config { mtu: bytes(9000), max_burst: 0, ..rfc() }, 2),
    ] {
        let mut pair = Pair::connected(&config, 1, ms(10));
        pair.fill(1_000_000);
        assert_eq!(pair.data_packets().count(), packets);
    }
    let mut pair = Pair::connected(&rfc(), 1, ms(10));
    assert_eq!(pair.status(0).cwnd, 4404);
}

/// RFC 9260 section 6.1 B: "the sender SHOULD exceed cwnd by up to (PMDCS - 1) bytes [...] The breach of cwnd MUST
/// constitute one packet only."
#[test]
fn one_packet_may_pass_the_window() {
    for (cwnd, packets) in [(9 * 1468, 9), (9 * 1468 + 1, 10), (10 * 1468 - 1, 10), (10 * 1468, 10)] {
        let config = Config { initial_cwnd: InitialCwnd::Size(bytes(cwnd)), max_burst: 0, ..rfc() };
        let mut pair = Pair::connected(&config, 1, ms(10));
        pair.fill(1_000_000);
        assert_eq!(pair.data_packets().count(), packets, "a window of {cwnd} B");
    }
}

/// Without delayed SACKs, slow start doubles the window in each round trip, until a Max.Burst of 4 limits the packets
/// per SACK.
#[test]
fn slow_start_doubles() {
    let config = Config { delayed_sack: false, ..rfc() };
    let mut pair = Pair::connected(&config, 1, ms(100));
    let start = pair.now;
    pair.fill(10_000_000);
    pair.run_for(ms(1000));
    let in_round = |n: u64| {
        let (from, to) = (start + ms(200 * n), start + ms(200 * (n + 1)));
        pair.data_packets().filter(|crossing| crossing.at >= from && crossing.at < to).count()
    };
    assert_eq!([0, 1, 2, 3].map(in_round), [3, 6, 12, 24]);
}

/// Section 7.2.2: one packet per round trip above ssthresh.
#[test]
fn congestion_avoidance_adds_a_packet_per_round_trip() {
    let config = Config {
        delayed_sack: false,
        initial_ssthresh: netrig_transport::sctp::InitialSsthresh::Size(bytes(6 * 1468)),
        ..rfc()
    };
    let mut pair = Pair::connected(&config, 1, ms(100));
    pair.fill(10_000_000);
    // After two round trips, the window exceeds the threshold by at most one packet.
    pair.run_for(ms(700));
    let mut before = pair.status(0).cwnd;
    for _ in 0..10 {
        pair.run_for(ms(200));
        let after = pair.status(0).cwnd;
        assert_eq!(after - before, 1468);
        before = after;
    }
}

#[test]
fn an_application_that_sends_little_gets_no_larger_window() {
    let mut pair = Pair::connected(&rfc(), 1, ms(10));
    let before = pair.status(0).cwnd;
    for _ in 0..100 {
        pair.fill(1000);
        pair.run_for(ms(500));
    }
    assert!(pair.status(0).cwnd <= before);
    assert_eq!(pair.server.bytes(), 100_000);
}

#[test]
fn max_burst_bounds_what_leaves_at_once() {
    let config = Config { initial_cwnd: InitialCwnd::Size(bytes(100_000)), max_burst: 4, ..rfc() };
    let mut pair = Pair::connected(&config, 1, ms(100));
    pair.fill(1_000_000);
    assert_eq!(pair.data_packets().count(), 4);
}

/// RFC 9260 section 5.1: the receiver "MUST immediately respond with a SACK chunk to acknowledge" the first DATA.
#[test]
fn the_first_data_is_acknowledged_at_once() {
    for profile in [Profile::Rfc, Profile::Linux] {
        let mut pair = Pair::connected(&Config::of(profile), 1, ms(100));
        let start = pair.now;
        pair.fill(100);
        pair.run_for(s(1));
        let sacks: Vec<_> = pair.sent_by(Side::Server).map(|crossing| crossing.at - start).collect();
        assert_eq!(sacks, [ms(100)], "{profile}");
    }
}

/// Both ends after the first data, which is acknowledged immediately. Nothing is in flight.
fn after_the_first_data() -> Pair {
    let mut pair = Pair::connected(&rfc(), 1, ms(100));
    pair.fill(100);
    pair.run_for(s(1));
    pair.log.clear();
    pair
}

#[test]
fn every_second_packet_is_acknowledged_or_after_the_delay() {
    let mut pair = after_the_first_data();
    let start = pair.now;
    pair.fill(3 * 1452);
    pair.run_for(s(1));
    let sacks: Vec<_> = pair
        .sent_by(Side::Server)
        .map(|crossing| (crossing.at - start, crossing.sack().map(|s| s.cumulative_tsn)))
        .collect();
    let first = pair.data_packets().next().and_then(|crossing| crossing.data().next()).expect("data").tsn;
    // The packets arrive at 100 ms. The SACK for the third packet is delayed by 200 ms.
    assert_eq!(sacks, [(ms(100), Some(first.plus(1))), (ms(300), Some(first.plus(2)))]);
}

/// RFC 9260 section 6.2: a SACK is delayed by the configured time.
#[test]
fn a_sack_waits_as_long_as_it_may() {
    for delay in [50, 200, 500] {
        let mut pair = Pair::connected(&Config { sack_delay: ms(delay), ..rfc() }, 1, ms(100));
        pair.fill(100);
        pair.run_for(s(1));
        let start = pair.now;
        pair.log.clear();
        pair.fill(100);
        pair.run_for(s(1));
        let sacks: Vec<_> = pair.sent_by(Side::Server).map(|crossing| crossing.at - start).collect();
        assert_eq!(sacks, [ms(100 + delay)]);
    }
}

/// RFC 9260 section 6.2: a packet with only duplicate data is acknowledged immediately, and the SACK lists the
/// duplicates.
#[test]
fn a_duplicate_is_acknowledged_at_once() {
    let mut pair = after_the_first_data();
    pair.fill(100);
    let Chunk::Data(data) = pair.log[0].packet.chunks[0].clone() else { panic!("DATA") };
    pair.run_for(s(1));
    let (start, tag) = (pair.now, pair.server().local_tag());
    pair.log.clear();
    pair.deliver(Side::Server, forged(Side::Server, 0, tag, vec![Chunk::Data(data.clone())]));
    let [answer] = &pair.log[..] else { panic!("one SACK: {:?}", pair.log) };
    let sack = answer.sack().expect("a SACK");
    assert_eq!((answer.at, sack.cumulative_tsn, &sack.duplicates[..]), (start, data.tsn, &[data.tsn][..]));
}

/// RFC 9260 section 6.3.1 C4: data is measured once per round trip. In the first round trip the first packet is
/// measured, not the two that take 80 ms longer. In the second round trip, all packets take longer.
#[test]
fn each_round_trip_of_sctp_is_measured_once() {
    let config = Config { delayed_sack: false, heartbeats: false, ..rfc() };
    let mut pair = Pair::connected(&config, 1, ms(100));
    let mut count = 0;
    pair.rule(move |crossing| {
        count += u32::from(crossing.packet.carries_data());
        if crossing.packet.carries_data() && count > 1 { Verdict::Late(ms(80)) } else { Verdict::Pass }
    });
    pair.fill(3 * 1452);
    pair.run_for(ms(500));
    assert_eq!((pair.status(0).srtt, pair.server.bytes()), (Some(ms(200)), 3 * 1452));
    pair.fill(3 * 1452);
    pair.run_for(ms(500));
    // 7/8 · 200 + 1/8 · 280 ms.
    assert_eq!(pair.status(0).srtt, Some(ms(210)));
}

/// RFC 9260 sections 1.3 and 7.2: the outstanding size of a chunk includes its header of 16 bytes and its padding.
#[test]
fn a_chunk_counts_with_header_and_padding() {
    let mut pair = Pair::connected(&rfc(), 1, ms(100));
    pair.fill(365);
    assert_eq!(pair.status(0).flight, 16 + 365 + 3);
}

/// RFC 9260 section 6.5: the stream sequence number after 65535 is 0, and its message is delivered like any other.
#[test]
fn a_sender_s_stream_sequence_numbers_wrap() {
    let config = Config { message_size: bytes(1), ..rfc() };
    let mut pair = Pair::connected(&config, 1, ms(10));
    pair.fill(66_000);
    pair.run_for(s(100));
    assert_eq!(pair.server.bytes(), 66_000);
    let numbers = pair.data_packets().flat_map(Crossing::data).map(|data| data.ssn);
    assert!(numbers.eq((0..66_000_u32).map(|n| n as u16)));
}

#[test]
fn the_i_bit_is_obeyed() {
    let mut pair = Pair::connected(&rfc(), 1, ms(100));
    pair.fill(100);
    pair.act(Side::Client, |client, now| client.close(now));
    let data = pair.data_packets().count();
    assert_eq!(data, 1, "sent before the user closed");
    // If the user closes with unsent data, the bit is set on the last chunk.
    let mut pair = Pair::new(&rfc(), 1, ms(100));
    pair.open();
    pair.fill(100);
    pair.act(Side::Client, |client, now| client.close(now));
    pair.run_for(s(2));
    let last = pair.data_packets().next().expect("data");
    assert!(last.data().all(|data| data.immediate));
    let sack = pair.sent_by(Side::Server).find(|crossing| crossing.has("SACK")).expect("a SACK");
    assert_eq!(sack.at, last.at + ms(100), "at once");
    // The first data is acknowledged immediately in any case. For later data, only the bit makes a difference.
    for immediate in [true, false] {
        let mut pair = after_the_first_data();
        pair.lose(|_| true);
        pair.fill(100);
        let Chunk::Data(mut data) = pair.log[0].packet.chunks[0].clone() else { panic!("DATA") };
        data.immediate = immediate;
        let (tag, start) = (pair.server().local_tag(), pair.now);
        pair.log.clear();
        pair.deliver(Side::Server, forged(Side::Server, 0, tag, vec![Chunk::Data(data)]));
        pair.run_for(ms(300));
        let sacks: Vec<_> = pair.sent_by(Side::Server).map(|crossing| crossing.at - start).collect();
        assert_eq!(sacks, [ms(if immediate { 0 } else { 200 })]);
    }
}

#[test]
fn sacks_travel_with_data() {
    let mut pair = after_the_first_data();
    pair.fill(1000);
    pair.run_for(ms(150));
    pair.act(Side::Server, |server, now| server.send(now, StreamId(0), Data::Fill(1000)));
    let answer = pair.sent_by(Side::Server).next().expect("data").names();
    assert_eq!(answer, "SACK+DATA");
    // RFC 9260 section 6.9: in a packet with 1440 bytes of data there is no room for a SACK, because the packet would
    // exceed the MTU.
    pair.run_for(s(1));
    pair.fill(1000);
    pair.run_for(ms(150));
    pair.log.clear();
    pair.act(Side::Server, |server, now| server.send(now, StreamId(0), Data::Fill(1440)));
    let lens: Vec<_> = pair.log.iter().map(|crossing| (crossing.names(), crossing.ip_len)).collect();
    assert_eq!(lens, [("DATA".to_owned(), 32 + 16 + 1440)]);
}

#[test]
fn nagle_waits_for_more_while_something_is_outstanding() {
    let config = Config { nagle: true, ..rfc() };
    let mut pair = Pair::connected(&config, 1, ms(100));
    for _ in 0..5 {
        pair.fill(100);
    }
    pair.run_for(s(2));
    let chunks: Vec<_> = pair.data_packets().map(|crossing| crossing.data().count()).collect();
    assert_eq!(chunks, [1, 4]);
    let mut eager = Pair::connected(&rfc(), 1, ms(100));
    for _ in 0..5 {
        eager.fill(100);
    }
    eager.run_for(s(2));
    assert_eq!(eager.data_packets().count(), 5);
}

#[test]
fn no_more_is_outstanding_than_the_receiver_takes() {
    let config = Config { initial_cwnd: InitialCwnd::Size(bytes(1 << 20)), max_burst: 0, ..rfc() };
    let server = Config { receive_buffer: bytes(10_000), ..rfc() };
    let mut pair = Pair::with(&config, &server, 1, ms(100), 1);
    pair.open();
    pair.run_for(s(1));
    pair.fill(1_000_000);
    // Six chunks of 1452 bytes fit a window of 10,000 bytes.
    assert_eq!(pair.data_packets().count(), 6);
    pair.run_for(s(60));
    assert_eq!(pair.server.bytes(), 1_000_000);
}

#[test]
fn no_more_is_outstanding_than_the_send_buffer_keeps() {
    let config =
        Config { send_buffer: bytes(5000), initial_cwnd: InitialCwnd::Size(bytes(1 << 20)), ..rfc() };
    let mut pair = Pair::connected(&config, 1, ms(100));
    pair.fill(100_000);
    assert_eq!(pair.data_packets().count(), 3);
    pair.run_for(s(30));
    assert_eq!(pair.server.bytes(), 100_000);
    // Messages enter the buffer as a whole. With 3,000 B outstanding, the second message starts; with 6,000 B, the
    // third does not.
    let mut pair = Pair::connected(&config, 1, ms(100));
    (0..4).for_each(|_| pair.fill(3000));
    let sent = pair.data_packets().flat_map(|crossing| crossing.data()).map(|chunk| chunk.data.size());
    assert_eq!(sent.sum::<u64>(), 6000);
}

/// Delivers a SACK with the server's window to the client.
fn window(pair: &mut Pair, cumulative_tsn: Serial, a_rwnd: u32) {
    let tag = pair.client().local_tag();
    let sack = chunk::Sack { cumulative_tsn, a_rwnd, gaps: Default::default(), duplicates: Vec::new() };
    pair.deliver(Side::Client, forged(Side::Client, 0, tag, vec![Chunk::Sack(sack)]));
}

/// Section 6.1 A: a closed window is probed without limit while SACKs arrive, and can open again.
#[test]
fn a_closed_window_is_probed_and_no_failure() {
    let mut pair = Pair::connected(&rfc(), 1, ms(100));
    pair.fill(1000);
    pair.run_for(s(1));
    let first = pair.data_packets().next().and_then(|crossing| crossing.data().next()).expect("data").tsn;
    window(&mut pair, first, 0);
    // The receiver behaves like one whose user does not read: it answers each probe and accepts none.
    pair.log.clear();
    pair.lose(|crossing| crossing.packet.carries_data());
    pair.fill(50_000);
    assert_eq!(pair.data_packets().count(), 0, "the first probe waits for RTO");
    for _ in 0..40 {
        let limit = pair.now + s(100);
        let probes = pair.data_packets().count();
        pair.run_while(limit, |pair| pair.data_packets().count() == probes);
        assert_eq!(pair.data_packets().count(), probes + 1, "a probe each time-out");
        window(&mut pair, first, 0);
    }
    assert_eq!(pair.client.closed(), None);
    assert_eq!(pair.status(0).errors, 0);
    pair.rule(|_| Verdict::Pass);
    window(&mut pair, first, 100_000);
    pair.run_for(s(200));
    assert_eq!(pair.server.bytes(), 51_000);
}

#[test]
fn a_probe_that_nobody_answers_is_a_failure() {
    let mut pair = Pair::connected(&rfc(), 1, ms(100));
    pair.fill(1000);
    pair.run_for(s(1));
    let first = pair.data_packets().next().and_then(|crossing| crossing.data().next()).expect("data").tsn;
    window(&mut pair, first, 0);
    pair.lose(|_| true);
    pair.fill(50_000);
    pair.run_for(s(1000));
    assert_eq!(pair.client.closed(), Some(netrig_core::CloseReason::TimedOut));
}

/// The memory that the kernel allocates counts. A chunk of 365 B with a header of 16 B and 320 B of `skb_shared_info`
/// takes a block of 1,024 B, plus 504 B of records: 100,000 / 1,528 = 65.4 chunks. A chunk of 730 B takes a block of
/// 2,048 B: 100,000 / 2,552 = 39.2 chunks.
#[test]
fn small_chunks_fill_the_send_buffer_sooner() {
    for (size, count) in [(365, 65), (730, 39)] {
        let config = Config {
            send_buffer: bytes(100_000),
            chunk_charge: ChunkCharge::KernelBuffer,
            max_chunk: bytes(size),
            message_size: bytes(size),
            initial_cwnd: InitialCwnd::Size(bytes(1 << 20)),
            max_burst: 0,
            ..rfc()
        };
        let mut pair = Pair::connected(&config, 1, ms(100));
        pair.fill(1_000_000);
        assert_eq!(pair.data_packets().flat_map(Crossing::data).count(), count, "chunks of {size} B");
    }
}

#[test]
fn a_gigabyte_waits_in_one_record() {
    let mut pair = Pair::connected(&rfc(), 1, ms(1));
    pair.fill(1 << 30);
    assert_eq!(pair.client().unacknowledged(), 1 << 30);
    let size = format!("{:?}", pair.client()).len();
    assert!(size < 20_000, "{size} characters for what is kept");
}

#[test]
fn streams_beyond_those_negotiated_are_folded() {
    let few = Config { streams: 2, ..rfc() };
    let mut pair = Pair::new(&few, 1, ms(10));
    for stream in 0..10 {
        pair.send(stream, Data::Fill(100));
    }
    pair.open();
    pair.run_for(s(2));
    assert_eq!(pair.server.bytes(), 1000);
    assert!(pair.server.received.keys().all(|stream| *stream < 2));
}

#[test]
fn content_arrives_as_it_was_given() {
    let text: Vec<u8> = (0..100_000u32).map(|i| (i * 7 + i / 251) as u8).collect();
    let mut pair = Pair::connected(&rfc(), 1, ms(10));
    pair.over_wire = true;
    for piece in text.chunks(9999) {
        pair.send(3, Data::Bytes(piece.into()));
    }
    pair.run_for(s(20));
    let received: Vec<u8> = pair.server.received[&3]
        .iter()
        .flat_map(|data| match data {
            Data::Bytes(bytes) => bytes.to_vec(),
            Data::Fill(_) => panic!("bytes stay bytes"),
        })
        .collect();
    assert_eq!(received, text);
}

#[test]
fn writable_is_told_when_little_is_left() {
    let mut pair = Pair::connected(&Config { message_size: bytes(1000), ..rfc() }, 1, ms(10));
    pair.fill(100_000);
    let told = |pair: &Pair| {
        pair.client.events.iter().any(|(_, event)| *event == netrig_core::ConnectionEvent::Writable)
    };
    assert!(!told(&pair));
    pair.run_while(at(s(100)), |pair| !told(pair));
    assert!(told(&pair) && pair.server.bytes() > 30_000);
    pair.run_for(s(5));
    assert_eq!(pair.server.bytes(), 100_000);
}

#[test]
fn schedulers_share_the_line() {
    // Each of two streams has 40 messages of 400 B. The user sends all messages of the first stream and then those of
    // the second.
    for (scheduler, expected) in
        [(Scheduler::Fcfs, (40, 0)), (Scheduler::RoundRobin, (20, 20)), (Scheduler::Fair, (20, 20))]
    {
        let config = Config { scheduler, message_size: bytes(400), ..rfc() };
        let mut pair = Pair::connected(&config, 1, ms(10));
        let now = pair.now;
        pair.client().send(now, StreamId(0), Data::Fill(16_000));
        pair.client().send(now, StreamId(1), Data::Fill(16_000));
        pair.settle(Side::Client);
        pair.run_for(s(5));
        let streams: Vec<_> =
            pair.data_packets().flat_map(Crossing::data).map(|data| data.stream.0).collect();
        let first_half = &streams[..40];
        let of = |stream| first_half.iter().filter(|one| **one == stream).count();
        assert_eq!((of(0), of(1)), expected, "{scheduler:?}");
    }
}

#[test]
fn tsns_wrap_in_the_middle_of_a_transfer() {
    // Seeds are tried until the initial TSN is just before the wrap-around, which is what this test is about.
    let near = |pair: &Pair| match &pair.log[0].packet.chunks[0] {
        Chunk::Init(init) => init.initial_tsn.0 > u32::MAX - (1 << 22),
        _ => false,
    };
    let config = Config {
        receive_buffer: bytes(1 << 24),
        send_buffer: bytes(1 << 24),
        message_size: bytes(1),
        bundling: true,
        ..rfc()
    };
    let mut pair = (0..100_000)
        .map(|seed| {
            let mut pair = Pair::with(&config, &config, 1, ms(1), seed);
            pair.open();
            pair
        })
        .find(near)
        .expect("one in a thousand");
    let Chunk::Init(init) = pair.log[0].packet.chunks[0].clone() else { panic!("INIT") };
    let before_wrap = u64::from(u32::MAX - init.initial_tsn.0);
    pair.log.clear();
    // One chunk per byte: 72 chunks in a packet.
    let mut random = netrig_core::Seeds::new(1).stream("loss");
    pair.lose(move |crossing| crossing.packet.carries_data() && random.chance(0.001));
    pair.fill(before_wrap + 10_000);
    pair.run_for(s(3000));
    assert_eq!(pair.server.bytes(), before_wrap + 10_000);
}

#[test]
fn idle_for_an_hour_and_then_as_ever() {
    for profile in Profile::ALL {
        let mut pair = Pair::connected(&Config::of(profile), 2, ms(100));
        let mut total = 0;
        for _ in 0..3 {
            pair.fill(200_000);
            total += 200_000;
            pair.run_for(s(3600));
            assert_eq!(pair.server.bytes(), total, "{profile}");
            assert_eq!(pair.client.closed(), None);
        }
        assert_eq!(pair.client().counters().timeouts, 0, "{profile}");
    }
}

#[test]
fn the_idle_window_decays() {
    let mut pair = Pair::connected(&rfc(), 1, ms(100));
    pair.fill(400_000);
    pair.run_for(s(10));
    let grown = pair.status(0).cwnd;
    assert!(grown > 30 * 1468, "{grown}");
    pair.run_for(s(60));
    pair.fill(1000);
    let status = pair.status(0);
    assert_eq!((status.cwnd, status.ssthresh), (4 * 1468, grown));
}

#[test]
fn the_user_chooses_the_path_of_new_data() {
    let mut pair = Pair::connected(&rfc(), 2, ms(100));
    pair.fill(1000);
    pair.act(Side::Client, |client, now| client.control(now, Control::SetPrimary(PathId(1))));
    pair.fill(1000);
    pair.run_for(s(1));
    let paths: Vec<_> = pair.data_packets().map(|crossing| crossing.path).collect();
    assert_eq!(paths, [0, 1]);
    // SACKs are sent to the source of the data. RFC 9260 section 6.4 does not require this.
    let sacks: Vec<_> = pair.sent_by(Side::Server).filter(|c| c.has("SACK")).map(|c| c.path).collect();
    assert_eq!(sacks, [0, 1]);
}

#[test]
fn packets_count_as_they_should() {
    let mut pair = Pair::connected(&rfc(), 1, ms(10));
    pair.fill(10_000);
    pair.run_for(s(2));
    let (client, server) = (pair.client().counters(), pair.server().counters());
    assert_eq!(
        (client.bytes_sent, client.bytes_acknowledged, server.bytes_delivered),
        (10_000, 10_000, 10_000)
    );
    assert_eq!((client.data_packets_sent, server.data_packets_received), (7, 7));
    assert_eq!(client.packets_sent, server.packets_received + 1, "the listener took the INIT");
    assert_eq!(client.bytes_retransmitted + server.bytes_duplicated, 0);
    assert_eq!(pair.client().unacknowledged(), 0);
}

#[test]
fn calling_at_the_wrong_moment_does_nothing() {
    let mut pair = Pair::connected(&rfc(), 1, ms(10));
    let now = pair.now;
    pair.client().open(now);
    pair.client().handle_timeout(Instant::ZERO);
    pair.client().control(now, Control::SetPrimary(PathId(9)));
    pair.settle(Side::Client);
    assert!(pair.log.is_empty());
}

/// RFC 9260 section 6.2: "If such a DATA chunk is dropped, the receiver MUST immediately send back a SACK chunk".
#[test]
fn dropped_data_is_answered_at_once() {
    let mut pair = after_the_first_data();
    pair.fill(100);
    let tsn = pair.data_packets().next().and_then(|crossing| crossing.data().next()).expect("data").tsn;
    let (start, tag) = (pair.now, pair.server().local_tag());
    let data = chunk::Data { ssn: 9, unordered: false, ..message_chunk(tsn.plus(70_000), 100) };
    pair.deliver(Side::Server, forged(Side::Server, 0, tag, vec![Chunk::Data(data)]));
    let answer = pair.sent_by(Side::Server).next().expect("a SACK");
    assert_eq!((answer.at, answer.sack().map(|sack| sack.cumulative_tsn)), (start, Some(tsn.plus(u32::MAX))));
}
