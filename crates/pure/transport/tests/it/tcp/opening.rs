//! Handshake and closing (RFC 9293 sections 3.5 and 3.6).

use netrig_core::{CloseReason, Data, Duration, Endpoint, Instant};
use netrig_transport::tcp::{self, Config, Connection, Flags, Handshake, Limit, TcpState};
use netrig_transport::{Connection as _, Packet, PathId, Payload, Profile, Serial};

use super::pair::{Fate, ISS, MS, Pair, Side, at_ms, flow, plain};

fn flags(sent: &super::pair::Sent) -> Flags {
    sent.segment.flags
}

#[test]
fn three_segments_open_a_connection() {
    let mut pair = Pair::new(&plain());
    pair.connect();
    assert_eq!((pair.connected[0], pair.connected[1]), (Some(at_ms(100)), Some(at_ms(150))));
    let seen: Vec<_> = pair.log.iter().map(|sent| (sent.from, flags(sent))).collect();
    let expected =
        [(Side::Client, Flags::SYN), (Side::Server, Flags::SYN | Flags::ACK), (Side::Client, Flags::ACK)];
    assert_eq!(seen, expected);
    // RFC 9293 section 3.4: a SYN uses a sequence number, and the acknowledgement number is the next expected one.
    let numbers: Vec<_> = pair.log.iter().map(|sent| (sent.segment.seq, sent.segment.ack)).collect();
    assert_eq!(numbers, [(ISS, Serial(0)), (Serial(7), ISS.plus(1)), (ISS.plus(1), Serial(8))]);
}

/// The IP and TCP headers have 20 bytes each. The options have the lengths measured on Linux hosts: 20 bytes on a SYN
/// with all options, and 12 bytes on later segments.
#[test]
fn packets_are_as_long_as_on_the_wire() {
    let mut pair = Pair::new(&Config::of(Profile::Linux));
    pair.open();
    pair.send(Side::Client, Data::Fill(1448 + 100));
    pair.run(MS(1000));
    let lens: Vec<_> = pair.sent(Side::Client, |_| true).iter().take(4).map(|sent| sent.ip_len).collect();
    assert_eq!(lens, [60, 1500, 152, 52][..lens.len()]);
    assert_eq!(pair.received_len[1], 1548);

    let mut pair = Pair::new(&Config::of(Profile::Ns2));
    pair.open();
    pair.send(Side::Client, Data::Fill(1500));
    pair.run(MS(1000));
    let lens: Vec<_> = pair.log.iter().map(|sent| (sent.from, sent.ip_len)).collect();
    assert_eq!(lens[0], (Side::Client, 40));
    let data: Vec<_> =
        pair.sent(Side::Client, |sent| sent.segment.carries_data()).iter().map(|sent| sent.ip_len).collect();
    assert_eq!(data, [1040, 1040], "ns-2 sends whole packets");
    assert!(pair.sent(Side::Server, |_| true).iter().all(|sent| sent.ip_len == 40));
}

/// RFC 6298 sections 2.1 and 5.5: the time-out is 1 s and is doubled, so the SYN is retransmitted after 1, 3, 7, 15,
/// ... seconds.
#[test]
fn a_lost_syn_is_sent_again_ever_later() {
    let config = Config { syn_retries: Limit::Count(6), ..plain() };
    let mut pair = Pair::new(&config).with_network(|_| Fate::Drop);
    pair.open();
    pair.run(MS(300_000));
    let times: Vec<_> = pair.log.iter().map(|sent| sent.at.as_nanos() / 1_000_000_000).collect();
    assert_eq!(times, [0, 1, 3, 7, 15, 31, 63]);
    assert_eq!(pair.closed[0], Some((at_ms(123_000), CloseReason::TimedOut)));
}

/// The kernel's ip-sysctl documentation for tcp_syn_linear_timeouts = 4: the time-outs are 1, 1, 1, 1, 1, 2, 4, ...
/// seconds.
#[test]
fn the_first_retries_may_be_linear() {
    let config = Config { syn_linear_timeouts: 4, ..plain() };
    let mut pair = Pair::new(&config).with_network(|_| Fate::Drop);
    pair.open();
    pair.run(MS(20_000));
    let times: Vec<_> = pair.log.iter().map(|sent| sent.at.as_nanos() / 1_000_000_000).collect();
    assert_eq!(times, [0, 1, 2, 3, 4, 5, 7, 11]);
}

/// RFC 6928 section 3, RFC 5681 section 3.1: if more than one SYN was lost, the initial window is one segment.
#[test]
fn after_lost_syns_one_segment_goes_first() {
    for (lost, first) in [(0, 10), (1, 10), (2, 1)] {
        let mut pair = Pair::new(&plain())
            .with_network(move |sent| if sent.at < at_ms(900 * lost) { Fate::Drop } else { Fate::Pass });
        pair.connect();
        let opened = pair.now;
        pair.send(Side::Client, Data::Fill(30_000));
        pair.run(MS(99));
        let sent = pair.sent(Side::Client, |sent| sent.segment.carries_data() && sent.at >= opened);
        assert_eq!(sent.len(), first, "after {lost} lost SYNs");
    }
}

/// RFC 6298 section 5.7: after a lost SYN, the time-out for data is three seconds, unless a timestamp allowed a
/// measurement of the round-trip time.
#[test]
fn after_a_lost_syn_the_timer_is_three_seconds() {
    for (timestamps, rto) in [(false, 3000), (true, 1000)] {
        let config = Config { timestamps, tail_loss_probe: false, ..plain() };
        let mut pair = Pair::new(&config)
            .with_network(|sent| if sent.at < at_ms(500) { Fate::Drop } else { Fate::Pass });
        pair.connect();
        assert_eq!(pair.client.path_status(PathId(0)).expect("TCP's path").rto, MS(rto));
    }
}

#[test]
fn a_lost_answer_is_sent_again() {
    let mut pair = Pair::new(&plain()).with_network(|sent| {
        if sent.from == Side::Server && sent.ordinal == 1 { Fate::Drop } else { Fate::Pass }
    });
    pair.connect();
    // Both ends retransmit after a second. The client's SYN arrives 50 ms later and is answered immediately.
    assert!(pair.connected[0] <= Some(at_ms(1150)));
}

/// Simultaneous open (RFC 9293 section 3.5, figure 8).
#[test]
fn both_may_open_at_once() {
    let mut pair = Pair::new(&plain());
    pair.server = Connection::connect(plain(), flow().reversed(), Serial(7));
    pair.act(Side::Server, |server, now| server.open(now));
    pair.open();
    pair.send(Side::Client, Data::Fill(5000));
    pair.send(Side::Server, Data::Fill(3000));
    pair.run(MS(2000));
    assert_eq!([pair.client.state(), pair.server.state()], [TcpState::Established; 2]);
    assert_eq!(pair.received_len, [3000, 5000]);
}

/// The refusal (RFC 9293 section 3.10.7.1), and its effect on the client (section 3.10.7.3).
#[test]
fn a_host_without_a_listener_refuses() {
    let mut client = Connection::connect(plain(), flow(), Serial(5));
    client.open(Instant::ZERO);
    let syn = client.poll_transmit(Instant::ZERO).expect("a SYN");
    let reset = tcp::refuse(&syn).expect("a reset");
    client.handle_packet(at_ms(100), reset.clone());
    assert!(client.poll_transmit(at_ms(100)).is_none());
    assert_eq!(client.poll_event(), Some(netrig_core::ConnectionEvent::Closed(CloseReason::Refused)));
    assert!(client.is_over() && client.poll_timeout().is_none());
    assert!(tcp::refuse(&reset).is_none(), "a reset is never answered");
}

#[test]
fn without_a_handshake_data_go_at_once() {
    let config = Config { handshake: Handshake::None, ..Config::of(Profile::Ns2) };
    let mut pair = Pair::new(&config);
    pair.open();
    pair.send(Side::Client, Data::Fill(10_000));
    pair.run(MS(10_000));
    assert_eq!(pair.log[0].segment.flags, Flags::ACK);
    assert!(pair.log[0].segment.carries_data() && pair.log[0].at == Instant::ZERO);
    assert_eq!(pair.received_len[1], 10_000);
}

#[test]
fn data_given_before_the_handshake_go_with_its_end() {
    let mut pair = Pair::new(&plain());
    pair.open();
    pair.send_bytes(Side::Client, b"early");
    pair.run(MS(140));
    let third = &pair.log[2];
    assert!(third.segment.carries_data() && third.at == at_ms(100), "the acknowledgement goes with the data");
}

/// RFC 9293 section 3.6, figure 12: the end that closed first waits in TIME-WAIT, and the other end is done.
#[test]
fn four_segments_close_a_connection() {
    let mut pair = Pair::new(&plain());
    pair.connect();
    pair.run_until(at_ms(1000));
    pair.close(Side::Client);
    assert_eq!(pair.client.state(), TcpState::FinWait1);
    pair.run(MS(1000));
    assert_eq!([pair.client.state(), pair.server.state()], [TcpState::TimeWait, TcpState::Closed]);
    assert_eq!(
        pair.closed,
        [Some((at_ms(1100), CloseReason::Finished)), Some((at_ms(1150), CloseReason::Finished))]
    );
    assert!(pair.server.is_over() && !pair.client.is_over());
    // TIME-WAIT lasts two segment lifetimes of two minutes after the peer's FIN, which arrived at 1100 ms.
    pair.run_until(at_ms(241_099));
    assert_eq!(pair.client.state(), TcpState::TimeWait);
    pair.run_until(at_ms(241_100));
    assert!(pair.client.is_over());
    assert!(pair.client.poll_timeout().is_none() && pair.server.poll_timeout().is_none());
}

/// Simultaneous close (RFC 9293 section 3.6, figure 13).
#[test]
fn both_may_close_at_once() {
    let mut pair = Pair::new(&plain());
    pair.connect();
    pair.run_until(at_ms(1000));
    pair.close(Side::Client);
    pair.close(Side::Server);
    pair.run(MS(75));
    assert_eq!([pair.client.state(), pair.server.state()], [TcpState::Closing; 2]);
    pair.run(MS(1000));
    assert_eq!([pair.client.state(), pair.server.state()], [TcpState::TimeWait; 2]);
    assert_eq!(pair.closed.map(|closed| closed.map(|(_, reason)| reason)), [Some(CloseReason::Finished); 2]);
}

#[test]
fn what_was_given_arrives_before_the_end() {
    let mut pair = Pair::new(&plain()).dropping(&[3, 17]);
    pair.open();
    pair.send(Side::Client, Data::Fill(100_000));
    pair.close(Side::Client);
    pair.run(MS(5000));
    assert_eq!(pair.received_len[1], 100_000);
    assert_eq!(pair.closed.map(|closed| closed.map(|(_, reason)| reason)), [Some(CloseReason::Finished); 2]);
}

/// RFC 9293 section 3.6: a half-closed connection can still transfer data in the other direction.
#[test]
fn a_half_closed_connection_carries_an_answer() {
    let mut pair = Pair::new(&plain());
    pair.follows = false;
    pair.connect();
    pair.send_bytes(Side::Client, b"question");
    pair.close(Side::Client);
    pair.run(MS(1000));
    assert_eq!(pair.finished, [false, true]);
    assert_eq!([pair.client.state(), pair.server.state()], [TcpState::FinWait2, TcpState::CloseWait]);
    pair.send_bytes(Side::Server, b"answer");
    pair.close(Side::Server);
    pair.run(MS(1000));
    assert_eq!((pair.received[0].as_slice(), pair.finished), (&b"answer"[..], [true, true]));
    assert_eq!(pair.closed.map(|closed| closed.map(|(_, reason)| reason)), [Some(CloseReason::Finished); 2]);
}

#[test]
fn a_lost_fin_is_sent_again() {
    let mut pair = Pair::new(&plain()).with_network(|sent| {
        let first_fin = sent.segment.flags.contains(Flags::FIN) && sent.at < at_ms(1500);
        if first_fin { Fate::Drop } else { Fate::Pass }
    });
    pair.connect();
    pair.run_until(at_ms(1000));
    pair.close(Side::Client);
    pair.run(MS(10_000));
    assert_eq!(pair.closed.map(|closed| closed.map(|(_, reason)| reason)), [Some(CloseReason::Finished); 2]);
}

/// RFC 9293 section 3.6.1, TIME-WAIT: if the last acknowledgement is lost, the peer retransmits its FIN.
#[test]
fn the_last_acknowledgement_is_repeated() {
    let mut dropped = false;
    let mut pair = Pair::new(&plain()).with_network(move |sent| {
        let last = sent.from == Side::Client && sent.at >= at_ms(1100) && !dropped;
        dropped |= last;
        if last { Fate::Drop } else { Fate::Pass }
    });
    pair.connect();
    pair.run_until(at_ms(1000));
    pair.close(Side::Client);
    pair.run(MS(10_000));
    assert_eq!(pair.server.state(), TcpState::Closed);
    assert_eq!(pair.closed[1].map(|(_, reason)| reason), Some(CloseReason::Finished));
}

#[test]
fn an_abort_ends_both() {
    let mut pair = Pair::new(&plain());
    pair.connect();
    pair.run_until(at_ms(1000));
    pair.act(Side::Client, |client, now| client.abort(now));
    pair.run(MS(1000));
    let reset = pair.sent(Side::Client, |sent| sent.segment.flags.contains(Flags::RST));
    assert_eq!((reset.len(), reset[0].ip_len), (1, 40));
    assert_eq!(
        pair.closed,
        [Some((at_ms(1000), CloseReason::Aborted)), Some((at_ms(1050), CloseReason::Aborted))]
    );
    assert!(pair.client.is_over() && pair.server.is_over());
}

/// RFC 5961 section 3.2: a RST in the window whose sequence number is not exactly the next one causes a challenge ACK.
#[test]
fn a_guessed_reset_is_challenged() {
    let mut pair = Pair::new(&plain());
    pair.connect();
    pair.run(MS(1000));
    let mut forged = tcp::refuse(&packet_of(&mut pair)).expect("a reset");
    let now = pair.now;
    if let Payload::Tcp(segment) = &mut forged.payload {
        segment.seq = Serial(8).plus(500);
        segment.flags = Flags::RST;
    }
    forged.header.flow = flow().reversed();
    pair.client.handle_packet(now, forged);
    let challenge = pair.client.poll_transmit(now).expect("a challenge");
    assert_eq!(pair.client.state(), TcpState::Established);
    let Payload::Tcp(segment) = challenge.payload else { panic!() };
    assert_eq!((segment.flags, segment.ack), (Flags::ACK, Serial(8)));
}

/// A data packet of the client.
fn packet_of(pair: &mut Pair) -> Packet {
    let now = pair.now;
    pair.client.send(now, netrig_core::StreamId(0), Data::Fill(1));
    pair.client.poll_transmit(now).expect("a packet")
}

/// RFC 9293 section 3.8.3: R2 for data. The RTO is 1 s (the minimum), doubled up to 60 s. The eighth time-out is after
/// 1 + 2 + 4 + 8 + 16 + 32 + 60 + 60 s.
#[test]
fn a_silent_peer_is_given_up() {
    let mut pair = Pair::new(&Config { tail_loss_probe: false, ..plain() });
    pair.connect();
    pair.run_until(at_ms(1000));
    pair.network = Box::new(|_| Fate::Drop);
    pair.send(Side::Client, Data::Fill(100));
    pair.run(MS(400_000));
    let times: Vec<_> = pair
        .sent(Side::Client, |sent| sent.segment.carries_data())
        .iter()
        .map(|sent| sent.at.since(at_ms(1000)).as_nanos() / 1_000_000_000)
        .collect();
    assert_eq!(times, [0, 1, 3, 7, 15, 31, 63, 123]);
    assert_eq!(pair.closed[0], Some((at_ms(1000) + Duration::from_secs(183), CloseReason::TimedOut)));
    assert!(pair.client.is_over());
}
