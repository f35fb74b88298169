//! Single rules of RFC 5681, 6298, 6675, 7323, 8985 and 9293, each checked with handmade segments.

use netrig_core::{CloseReason, ConnectionEvent, Data, Endpoint, Size, StreamId};
use netrig_transport::tcp::{
    Config, Congestion, Connection, Flags, LimitedTransmit, Recovery, RttSampling, SackBlocks, Segment,
    TcpState, Timestamps, refuse,
};
use netrig_transport::{Connection as _, Incident, Packet, PathId, Payload, Serial};

use super::by_hand::{HandmadeClient, PEER, lens, segment};
use super::pair::{ISS, MS, Pair, Side, at_ms, flow, plain};

/// The SYN-ACK of the peer.
fn answer(window: u16) -> Segment {
    Segment { mss: Some(1000), ..segment(PEER, ISS.plus(1), Flags::SYN | Flags::ACK, window) }
}

/// A client with negotiated timestamps. The first timestamp of the peer was 5000.
fn stamped() -> HandmadeClient {
    let config = Config { timestamps: true, tail_loss_probe: false, ..plain() };
    let timestamps = Some(Timestamps { value: 5000, echo: 0 });
    HandmadeClient::answered(&config, flow(), &Segment { timestamps, ..answer(60_000) })
}

/// A client with selective acknowledgements and ten outstanding segments. Its user has sent `given` bytes in total.
fn selective(config: &Config, given: u64) -> HandmadeClient {
    let agreed = Segment { sack_permitted: true, ..answer(60_000) };
    let mut client = HandmadeClient::answered(config, flow(), &agreed);
    client.give(given);
    assert_eq!(lens(&client.sent()), [1000; 10]);
    client
}

/// Delivers an acknowledgement of the first `bytes` bytes, and selectively of the segments `first` to `last`, counted
/// from 1.
fn arrived(client: &mut HandmadeClient, bytes: u32, first: u32, last: u32) {
    let mut sack = SackBlocks::none();
    sack.push(ISS.plus(1 + (first - 1) * 1000), ISS.plus(1 + last * 1000));
    client.take(&Segment { sack, ..segment(PEER.plus(1), ISS.plus(1 + bytes), Flags::ACK, 60_000) });
}

/// The numbers of the segments with data, counted from 1.
fn places(segments: &[Segment]) -> Vec<u32> {
    let data = segments.iter().filter(|segment| segment.data.size() > 0);
    data.map(|segment| segment.seq.0.wrapping_sub(ISS.0.wrapping_add(1)) / 1000 + 1).collect()
}

fn cwnd(client: &HandmadeClient) -> u64 {
    client.connection.path_status(PathId(0)).expect("TCP's path").cwnd
}

fn srtt(client: &HandmadeClient) -> netrig_core::Duration {
    client.connection.path_status(PathId(0)).expect("TCP's path").srtt.expect("a measurement")
}

fn packet(segment: Segment, flow: netrig_core::FiveTuple) -> Packet {
    let header =
        netrig_core::Header { flow, ip_len: 40, dscp: netrig_core::Dscp::BE, ecn: netrig_core::Ecn::NotEct };
    Packet { header, payload: Payload::Tcp(segment) }
}

fn syn_of(config: Config) -> Segment {
    let mut client = Connection::connect(config, flow(), ISS);
    client.open(at_ms(0));
    let Payload::Tcp(syn) = client.poll_transmit(at_ms(0)).expect("SYN").payload else { panic!("a segment") };
    syn
}

/// RFC 9293 section 3.10.7.4 (MUST-11): a reset refuses an active open. A passive end returns to LISTEN: its host may
/// drop the connection, and its listener remains.
#[test]
fn a_reset_during_the_handshake_depends_on_who_opened() {
    let syn = segment(PEER, Serial(0), Flags::SYN, 4000);
    let reset = segment(PEER.plus(1), Serial(0), Flags::RST, 0);
    let mut called = Connection::accept(plain(), flow(), ISS);
    let mut caller = Connection::connect(plain(), flow(), ISS);
    caller.open(at_ms(0));
    for (connection, reason) in [(&mut called, CloseReason::Aborted), (&mut caller, CloseReason::Refused)] {
        connection.handle_packet(at_ms(0), packet(syn.clone(), flow().reversed()));
        assert_eq!(connection.state(), TcpState::SynReceived);
        while connection.poll_transmit(at_ms(0)).is_some() {}
        connection.handle_packet(at_ms(1), packet(reset.clone(), flow().reversed()));
        assert_eq!(connection.poll_event(), Some(ConnectionEvent::Closed(reason)));
        assert!(connection.is_over() && connection.poll_transmit(at_ms(1)).is_none());
    }
}

/// A reset may contain data (RFC 9293 section 3.5.3, SHLD-2).
#[test]
fn a_reset_may_carry_data() {
    let mut client = HandmadeClient::opened(&plain(), flow(), Some(1000), 4000);
    let reset = segment(PEER.plus(1), ISS.plus(1), Flags::RST | Flags::ACK, 0);
    client.take(&Segment { data: Data::Bytes((*b"out of memory").into()), ..reset });
    assert_eq!(client.connection.state(), TcpState::Closed);
    let events: Vec<_> = std::iter::from_fn(|| client.connection.poll_event()).collect();
    assert_eq!(events.last(), Some(&ConnectionEvent::Closed(CloseReason::Aborted)));
    assert!(!events.iter().any(|event| matches!(event, ConnectionEvent::Received { .. })), "{events:?}");
}

/// RFC 7323 sections 2.2 and 2.3: the offered shift is zero for a small buffer, and at most 14.
#[test]
fn the_offered_shift_is_zero_to_fourteen() {
    for (buffer, shift) in [(65_535, 0), (65_536, 1), (1 << 30, 14), (1 << 34, 14)] {
        let syn = syn_of(Config { receive_buffer: Size::from_bytes(buffer), ..plain() });
        assert_eq!(syn.window_scale, Some(shift), "{buffer} bytes");
        assert_eq!(u64::from(syn.window), buffer.min(65_535), "the window of a SYN is not scaled");
    }
}

/// RFC 7323 section 2.2: the window of a received SYN is not scaled. Section 2.3: a shift above 14 counts as 14.
#[test]
fn a_larger_shift_counts_as_fourteen() {
    let scaled = Segment { window_scale: Some(20), ..answer(3000) };
    let mut client = HandmadeClient::answered(&Config { initial_window: 40, ..plain() }, flow(), &scaled);
    client.give(100_000);
    assert_eq!(lens(&client.sent()), [1000; 3]);
    client.now = at_ms(200);
    client.acknowledge(3000, 1);
    assert_eq!(lens(&client.sent()).len(), 16, "the window holds 16384 bytes");
}

/// RFC 7323 section 3.2: in a segment without ACK, the echoed timestamp is zero.
#[test]
fn a_syn_echoes_nothing() {
    let syn = syn_of(Config { timestamps: true, ..plain() });
    assert_eq!(syn.timestamps.map(|timestamps| timestamps.echo), Some(0));
    assert!(!syn.flags.contains(Flags::ACK));
}

/// RFC 7323 section 3.2: if timestamps are negotiated, a segment without them is silently dropped, and the connection
/// continues.
#[test]
fn a_segment_without_the_agreed_timestamps_is_dropped() {
    let mut client = stamped();
    let bare = Segment { data: Data::Fill(500), ..segment(PEER.plus(1), ISS.plus(1), Flags::ACK, 60_000) };
    client.take(&bare);
    assert_eq!((client.connection.arrived(), client.sent().len()), (0, 0));
    client.take(&Segment { timestamps: Some(Timestamps { value: 5001, echo: 0 }), ..bare });
    assert_eq!(client.connection.arrived(), 500);
    assert_eq!(client.connection.state(), TcpState::Established);
}

/// RFC 7323 section 5.3: if a segment has an old timestamp, neither its data nor its acknowledgement is accepted. The
/// segment is acknowledged, and the connection continues.
#[test]
fn a_segment_with_an_old_timestamp_is_not_taken() {
    let mut client = stamped();
    client.give(900);
    assert_eq!(client.sent().len(), 1);
    let stamped_at = |value| Segment {
        data: Data::Fill(500),
        timestamps: Some(Timestamps { value, echo: 0 }),
        ..segment(PEER.plus(1), ISS.plus(901), Flags::ACK, 60_000)
    };
    client.take(&stamped_at(4999));
    let answers = client.sent();
    assert_eq!(answers.iter().map(|answer| answer.ack).collect::<Vec<_>>(), [PEER.plus(1)]);
    assert_eq!((client.connection.arrived(), client.connection.unacknowledged()), (0, 900));
    client.take(&stamped_at(5001));
    assert_eq!((client.connection.arrived(), client.connection.unacknowledged()), (500, 0));
}

/// RFC 7323 section 3.2: timestamps that were not negotiated are ignored.
#[test]
fn timestamps_that_were_not_agreed_are_ignored() {
    let config = Config { timestamps: true, ..plain() };
    let mut client = HandmadeClient::opened(&config, flow(), Some(1000), 60_000);
    for (n, value) in [(0, 5000), (1, 4000)] {
        let next = segment(PEER.plus(1 + 500 * n), ISS.plus(1), Flags::ACK, 60_000);
        let timestamps = Some(Timestamps { value, echo: 0 });
        client.take(&Segment { data: Data::Fill(500), timestamps, ..next });
    }
    assert_eq!(client.connection.arrived(), 1000, "the older one is no old duplicate");
    assert!(client.sent().iter().all(|segment| segment.timestamps.is_none()));
}

/// RFC 7323 section 4.1: an echoed timestamp is measured only if the segment acknowledges new data.
#[test]
fn an_echo_measures_only_with_new_data() {
    let mut client = stamped();
    client.give(900);
    let stamp = client.sent()[0].timestamps.expect("agreed").value;
    let again = client.until(1500);
    assert_eq!(again.len(), 1, "sent again after a second: only an echo can measure");
    let before = srtt(&client);
    let told = |bytes: u32| Segment {
        timestamps: Some(Timestamps { value: 5001, echo: stamp }),
        ..segment(PEER.plus(1), ISS.plus(1 + bytes), Flags::ACK, 60_000)
    };
    client.take(&told(0));
    assert_eq!(srtt(&client), before);
    client.take(&told(900));
    assert!(srtt(&client) > before);

    // A probe repeats the last of two segments, and is selectively acknowledged. Its timestamp would give a measurement
    // of 150 ms.
    let config = Config { timestamps: true, recovery: Recovery::Rack, tail_loss_probe: true, ..plain() };
    let timestamps = Some(Timestamps { value: 5000, echo: 0 });
    let agreed = Segment { timestamps, sack_permitted: true, ..answer(60_000) };
    let mut client = HandmadeClient::answered(&config, flow(), &agreed);
    client.give(1976);
    let sent = client.until(310);
    let probe = sent.last().expect("a probe").timestamps.expect("agreed").value;
    assert_eq!((lens(&sent), client.connection.counters().tail_loss_probes), (vec![988; 3], 1));
    client.now = at_ms(450);
    let before = srtt(&client);
    let mut sack = SackBlocks::none();
    sack.push(ISS.plus(1 + 988), ISS.plus(1 + 1976));
    let timestamps = Some(Timestamps { value: 5001, echo: probe });
    client.take(&Segment { sack, timestamps, ..segment(PEER.plus(1), ISS.plus(1), Flags::ACK, 60_000) });
    assert_eq!(srtt(&client), before);
}

/// RFC 7323 section 5.2: a reset in reply to a segment echoes the timestamp of that segment. A reset by the user has
/// the timestamps of the connection.
#[test]
fn resets_carry_timestamps() {
    let asks = Segment {
        timestamps: Some(Timestamps { value: 77, echo: 3 }),
        ..segment(PEER, Serial(0), Flags::SYN, 4000)
    };
    let refused = refuse(&packet(asks.clone(), flow())).expect("an answer");
    assert_eq!(refused.header.ip_len, refused.encode(&mut Vec::new()));
    let Payload::Tcp(reset) = refused.payload else { panic!("a segment") };
    assert_eq!(reset.timestamps, Some(Timestamps { value: 0, echo: 77 }));
    let bare = refuse(&packet(Segment { timestamps: None, ..asks }, flow())).expect("an answer");
    assert!(matches!(bare.payload, Payload::Tcp(reset) if reset.timestamps.is_none()));

    let mut client = stamped();
    client.connection.abort(client.now);
    let last = client.sent().pop().expect("RST");
    assert!(last.flags.contains(Flags::RST));
    assert_eq!(last.timestamps.map(|timestamps| timestamps.echo), Some(5000));
}

/// RFC 7323 section 5.2: the timestamp of a reset is not checked.
#[test]
fn an_old_timestamp_does_not_stop_a_reset() {
    for timestamps in [Some(Timestamps { value: 1, echo: 0 }), None] {
        let mut client = stamped();
        client.take(&Segment { timestamps, ..segment(PEER.plus(1), ISS.plus(1), Flags::RST, 0) });
        assert_eq!(client.connection.state(), TcpState::Closed, "{timestamps:?}");
    }
}

/// RFC 5681 section 3.2, steps 1 to 5, without selective acknowledgements. The first two duplicates allow one new
/// segment each and do not change the window. Each duplicate after the third inflates the window by one segment. New
/// data is sent if both windows allow it.
#[test]
fn duplicates_let_out_what_both_windows_allow() {
    let config = Config {
        congestion: Congestion::Reno,
        recovery: Recovery::Newreno,
        sack: false,
        limited_transmit: LimitedTransmit::NewData,
        tail_loss_probe: false,
        ..plain()
    };
    let mut client = HandmadeClient::opened(&config, flow(), Some(1000), 13_000);
    client.give(100_000);
    assert_eq!(lens(&client.sent()), [1000; 10]);
    client.now = at_ms(200);
    for place in [11, 12] {
        client.acknowledge(0, 13_000);
        assert_eq!((places(&client.sent()), cwnd(&client)), (vec![place], 10_000));
    }
    client.acknowledge(0, 13_000);
    // Half of the ten segments in flight, without the segments of limited transmit, plus three.
    assert_eq!((places(&client.sent()), cwnd(&client)), (vec![1], 8000));
    let mut let_out = Vec::new();
    for n in 1..=8 {
        client.acknowledge(0, 13_000);
        assert_eq!(cwnd(&client), 8000 + 1000 * n);
        let_out.extend(places(&client.sent()));
    }
    assert_eq!(let_out, [13], "the window of congestion has room for 16, the peer's for 13");
}

/// RFC 5681 section 3.2, step 1, and RFC 6675 section 5, step 3: with selective acknowledgements, a duplicate allows
/// new data only if it reports an arrival. It then allows as much as pipe and the unchanged window permit.
#[test]
fn with_sack_only_news_lets_something_out() {
    let config = Config { recovery: Recovery::Sack, limited_transmit: LimitedTransmit::NewData, ..plain() };
    let mut client = selective(&config, 100_000);
    client.now = at_ms(200);
    for _ in 0..5 {
        client.acknowledge(0, 60_000);
        assert_eq!(places(&client.sent()), [0_u32; 0], "nothing new");
    }
    for (last, place) in [(2, 11), (3, 12)] {
        arrived(&mut client, 0, 2, last);
        assert_eq!((places(&client.sent()), cwnd(&client)), (vec![place], 10_000));
    }
    arrived(&mut client, 0, 2, 4);
    assert_eq!(places(&client.sent())[0], 1, "three tell of a loss");
}

/// RFC 6675 section 4: data that is only selectively acknowledged stays in the send buffer.
#[test]
fn what_is_selectively_acknowledged_is_kept() {
    let mut client = selective(&Config { recovery: Recovery::Sack, ..plain() }, 10_000);
    client.now = at_ms(200);
    arrived(&mut client, 0, 2, 10);
    assert_eq!(client.connection.unacknowledged(), 10_000);
    client.acknowledge(10_000, 60_000);
    assert_eq!(client.connection.unacknowledged(), 0);
}

/// RFC 6675 section 4, NextSeg without new data: first lost segments (rule 1), then unacknowledged segments below an
/// acknowledged one (rule 3), then the last segment, once (rule 4). All are sent before the timer expires.
#[test]
fn without_new_data_what_is_missing_goes_again() {
    let congestion = Congestion::Reno;
    let config =
        Config { congestion, recovery: Recovery::Sack, prr: false, tail_loss_probe: false, ..plain() };
    let mut client = selective(&config, 10_000);
    client.now = at_ms(200);
    // The first, the seventh and the last segment are lost. At most one segment above the seventh has arrived at first,
    // so it does not yet count as lost.
    arrived(&mut client, 0, 2, 6);
    let mut again = places(&client.sent());
    arrived(&mut client, 0, 8, 8);
    again.extend(places(&client.sent()));
    arrived(&mut client, 0, 8, 9);
    again.extend(places(&client.sent()));
    assert_eq!(again, [1, 7, 10]);
    assert_eq!(places(&client.until(1000)), [0_u32; 0], "each once");
}

/// RFC 6675 section 4, NextSeg: new data (rule 2) is sent after lost segments (rule 1), and before unacknowledged
/// segments that do not count as lost (rule 3).
#[test]
fn new_data_goes_before_what_is_only_missing() {
    let config = Config {
        congestion: Congestion::Reno,
        recovery: Recovery::Sack,
        prr: false,
        limited_transmit: LimitedTransmit::Off,
        ..plain()
    };
    let mut client = selective(&config, 100_000);
    client.now = at_ms(200);
    // The first and the seventh segment are lost. The window is half of ten segments.
    let mut sent = Vec::new();
    for (first, last) in [(2, 6), (8, 8), (8, 9), (8, 10)] {
        arrived(&mut client, 0, first, last);
        sent.extend(places(&client.sent()));
    }
    assert_eq!(sent, [1, 11, 12, 7, 13]);
}

/// RFC 6675 section 5 and RFC 5681 section 3.2: an acknowledgement of new data resets the count of duplicates. Two
/// duplicates before it and two after it do not start recovery. The third one after it does.
#[test]
fn new_data_acknowledged_begins_the_count_of_duplicates_anew() {
    for recovery in [Recovery::Sack, Recovery::Newreno] {
        let sack = recovery == Recovery::Sack;
        let config = Config { recovery, sack, limited_transmit: LimitedTransmit::Off, ..plain() };
        let agreed = Segment { sack_permitted: sack, ..answer(60_000) };
        let mut client = HandmadeClient::answered(&config, flow(), &agreed);
        client.give(10_000);
        assert_eq!(lens(&client.sent()), [1000; 10]);
        client.now = at_ms(200);
        // The first segment arrives after the second and the third. The fourth segment is lost.
        let duplicate = |client: &mut HandmadeClient, bytes, last| {
            if sack {
                arrived(client, bytes, last, last);
            } else {
                client.acknowledge(bytes, 60_000);
            }
        };
        (2..=3).for_each(|last| duplicate(&mut client, 0, last));
        client.acknowledge(3000, 60_000);
        (5..=6).for_each(|last| duplicate(&mut client, 3000, last));
        assert_eq!(places(&client.sent()), [0_u32; 0], "{recovery:?}");
        duplicate(&mut client, 3000, 7);
        assert_eq!(places(&client.sent()), [4], "{recovery:?}");
    }
}

/// RFC 6675 section 5, step A: recovery ends when all data that was outstanding at its start is acknowledged, and not
/// before.
#[test]
fn recovery_ends_at_its_point() {
    let config = Config { recovery: Recovery::Sack, prr: false, ..plain() };
    let mut client = selective(&config, 10_000);
    let recovered = |client: &mut HandmadeClient| {
        let incidents = std::iter::from_fn(|| client.connection.poll_incident());
        incidents.filter(|incident| matches!(incident, Incident::Recovered { .. })).count()
    };
    client.now = at_ms(200);
    // The first and the seventh segment are lost.
    arrived(&mut client, 0, 2, 6);
    assert_eq!(places(&client.sent())[0], 1);
    client.now = at_ms(300);
    arrived(&mut client, 6000, 8, 10);
    assert_eq!(recovered(&mut client), 0, "six of ten");
    assert_eq!(places(&client.sent())[0], 7, "lost in the same window: the recovery goes on");
    client.acknowledge(9000, 60_000);
    assert_eq!(recovered(&mut client), 0, "nine of ten");
    client.acknowledge(10_000, 60_000);
    assert_eq!(recovered(&mut client), 1);
    assert_eq!(client.connection.counters().fast_recoveries, 1);
}

/// RFC 6675 section 5.1: a segment that is selectively acknowledged after a time-out is not retransmitted. All ten
/// segments were sent at 100 ms. The acknowledgements for the third to sixth segment were lost. The acknowledgement of
/// the retransmission reports them.
#[test]
fn selective_acknowledgements_after_a_time_out_are_used() {
    for recovery in [Recovery::Sack, Recovery::Rack] {
        let config = Config { recovery, frto: false, tail_loss_probe: false, ..plain() };
        let mut client = selective(&config, 10_000);
        assert_eq!(places(&client.until(1150)), [1], "{recovery:?}: the timer");
        client.now = at_ms(1200);
        arrived(&mut client, 1000, 3, 6);
        assert_eq!(places(&client.sent()), [2, 7], "{recovery:?}: slow start over what is missing");
        client.now = at_ms(1300);
        client.acknowledge(7000, 60_000);
        assert_eq!(places(&client.sent()), [8, 9, 10], "{recovery:?}");
        client.acknowledge(10_000, 60_000);
        assert_eq!(client.connection.counters().bytes_retransmitted, 6000, "{recovery:?}");
    }
}

/// RFC 8985 section 9.3: segments that RACK marks as lost wait for the window. Seven of ten segments are marked at the
/// same time. Half a window of them is retransmitted; with PRR, only as much as was delivered.
#[test]
fn what_rack_finds_lost_waits_for_the_window() {
    for (prr, goes) in [(false, 5), (true, 3)] {
        let config = Config { recovery: Recovery::Rack, tail_loss_probe: false, prr, ..plain() };
        let mut client = selective(&config, 10_000);
        client.now = at_ms(200);
        arrived(&mut client, 0, 8, 10);
        let sent = places(&client.sent());
        assert_eq!(sent, (1..=goes).collect::<Vec<_>>(), "PRR {prr}");
        client.now = at_ms(300);
        client.acknowledge(goes * 1000, 60_000);
        assert_eq!(places(&client.sent()), (goes + 1..=7).collect::<Vec<_>>(), "PRR {prr}");
    }
}

/// RFC 6298 section 3: there is a measurement in each round trip, both if each acknowledgement is measured and if one
/// segment is timed.
#[test]
fn each_round_trip_is_measured() {
    for rtt_sampling in [RttSampling::PerAck, RttSampling::PerRound] {
        let mut pair = Pair::new(&Config { rtt_sampling, ..plain() });
        pair.open();
        pair.send(Side::Client, Data::Fill(1 << 30));
        pair.run(MS(150));
        pair.lines.iter_mut().for_each(|line| line.delay = MS(75));
        let srtt = |pair: &Pair| pair.client.path_status(PathId(0)).expect("TCP's path").srtt;
        pair.run(MS(120));
        let mut before = srtt(&pair);
        for round in 0..3 {
            pair.run(MS(150));
            assert!(srtt(&pair) > before, "{rtt_sampling:?}, round {round}");
            before = srtt(&pair);
        }
    }
}

/// RFC 8985 section 4: without selective acknowledgements, duplicates are used to detect losses, and no probe is sent.
#[test]
fn without_sack_nothing_is_told_by_time() {
    let config = Config { recovery: Recovery::Rack, tail_loss_probe: true, ..plain() };
    let mut client = HandmadeClient::opened(&config, flow(), Some(1000), 10_000);
    client.give(100_000);
    assert_eq!(lens(&client.sent()), [1000; 10]);
    assert_eq!(places(&client.until(1050)), [0_u32; 0], "no probe before the timer");
    for _ in 0..3 {
        client.acknowledge(0, 10_000);
    }
    assert_eq!(places(&client.sent()), [1]);
    assert_eq!(client.connection.counters().tail_loss_probes, 0);
}

/// RFC 8985 section 7.2: if the round-trip time has not been measured, a probe is scheduled after a second. Section
/// 7.3: no probe is sent then, and the retransmission timer is restarted. With `probe_needs_sample = false` the probe
/// is sent, as in Linux.
#[test]
fn the_first_probe_waits_for_a_second() {
    for probe_needs_sample in [false, true] {
        first_probe_without_a_measurement(probe_needs_sample);
    }
}

fn first_probe_without_a_measurement(probe_needs_sample: bool) {
    let config = Config { recovery: Recovery::Rack, tail_loss_probe: true, probe_needs_sample, ..plain() };
    let mut connection = Connection::connect(config, flow(), ISS);
    connection.open(at_ms(0));
    while connection.poll_transmit(at_ms(0)).is_some() {}
    connection.handle_timeout(at_ms(1000));
    assert!(connection.poll_transmit(at_ms(1000)).is_some(), "the second SYN: nothing will be measured");
    let now = at_ms(1100);
    let agreed = Segment { sack_permitted: true, ..answer(60_000) };
    connection.handle_packet(now, packet(agreed, flow().reversed()));
    assert_eq!(connection.path_status(PathId(0)).expect("TCP's path").srtt, None);
    connection.send(now, StreamId(0), Data::Fill(3000));
    while connection.poll_transmit(now).is_some() {}
    assert_eq!(connection.poll_timeout(), Some(at_ms(2100)));
    connection.handle_timeout(at_ms(2100));
    let sent = connection.poll_transmit(at_ms(2100));
    // A SYN was lost, so the time-out is three seconds.
    assert_eq!(connection.poll_timeout(), Some(at_ms(5100)));
    assert_eq!(connection.counters().tail_loss_probes, u64::from(!probe_needs_sample));
    match sent {
        None => assert!(probe_needs_sample),
        Some(Packet { payload: Payload::Tcp(probe), .. }) => assert_eq!(places(&[probe]), [3]),
        Some(_) => panic!("a segment"),
    }
}

/// RFC 8985 section 7.3: an acknowledged probe is not measured (Karn's algorithm). Until there is another measurement,
/// no probe is sent. When one is due, only the timer is restarted.
#[test]
fn a_probe_needs_a_measurement_since_the_last_one() {
    for (probe_needs_sample, probes, again) in [(true, 1, 1740), (false, 2, 740)] {
        let config =
            Config { recovery: Recovery::Rack, tail_loss_probe: true, probe_needs_sample, ..plain() };
        let agreed = Segment { sack_permitted: true, ..answer(60_000) };
        let mut client = HandmadeClient::answered(&config, flow(), &agreed);
        client.give(3000);
        // Two round-trip times of 100 ms later.
        assert_eq!(places(&client.until(310)), [1, 2, 3, 3]);
        client.now = at_ms(320);
        client.acknowledge(3000, 60_000);
        client.now = at_ms(340);
        // The peer reports a duplicate, which was caused by the probe.
        arrived(&mut client, 3000, 3, 3);
        client.give(1000);
        assert_eq!(places(&client.until(again - 1)), [4], "two round trips and 200 ms, for it is alone");
        assert_eq!(places(&client.until(again)), [4]);
        assert_eq!(client.connection.counters().tail_loss_probes, probes);
    }
}

/// RFC 8985 section 7.3: a probe consists of new data if there is any. It measures the round-trip time like any other
/// segment.
#[test]
fn a_probe_of_new_data_is_timed() {
    let rtt_sampling = RttSampling::PerAck;
    let config = Config { recovery: Recovery::Rack, tail_loss_probe: true, rtt_sampling, ..plain() };
    let mut client = selective(&config, 100_000);
    let probes = client.until(400);
    assert_eq!(places(&probes), [11], "beyond the window of congestion");
    assert_eq!(client.connection.counters().tail_loss_probes, 1);
    client.acknowledge(10_000, 60_000);
    let between = srtt(&client);
    client.now = at_ms(401);
    // The probe was sent two round-trip times after the other segments, at 300 ms.
    client.acknowledge(11_000, 60_000);
    let sample = MS(101);
    let expected = between.as_nanos() / 8 * 7 + sample.as_nanos() / 8;
    assert!(srtt(&client).as_nanos().abs_diff(expected) < 1_000_000, "{} of {sample}", srtt(&client));
}

/// RFC 9438 section 4.9.2: if a retransmission proves to be spurious when the window is already larger than it was
/// before the reduction, the window and its threshold do not change.
#[test]
fn a_late_undo_leaves_a_larger_window_alone() {
    let congestion = Congestion::Reno;
    let config = Config { congestion, recovery: Recovery::Sack, prr: false, undo: true, ..plain() };
    let mut client = selective(&config, 10_000_000);
    let status = |client: &HandmadeClient| client.connection.path_status(PathId(0)).expect("TCP's path");
    client.now = at_ms(200);
    arrived(&mut client, 0, 2, 4);
    let mut highest = places(&client.sent()).into_iter().max().expect("data").max(10);
    let reduced = status(&client).ssthresh;
    let mut now = 200;
    while status(&client).cwnd < 12_000 && now < 10_000 {
        now += 100;
        client.now = at_ms(now);
        client.acknowledge(highest * 1000, 60_000);
        highest = places(&client.sent()).into_iter().max().expect("data");
    }
    let larger = status(&client).cwnd;
    assert!(larger >= 12_000 && reduced < 10_000, "{larger}, {reduced}");
    let una = client.connection.counters().bytes_acknowledged as u32;
    arrived(&mut client, una, 1, 1);
    assert_eq!((status(&client).cwnd, status(&client).ssthresh), (larger, reduced));
}
