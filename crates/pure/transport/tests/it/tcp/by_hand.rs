//! One TCP endpoint with handmade segments that netrig's own peer would not send.

use std::net::{IpAddr, Ipv6Addr};

use netrig_core::{CloseReason, Data, Endpoint, FiveTuple, Instant, Size, StreamId};
use netrig_transport::tcp::{
    Config, Connection, Flags, LimitedTransmit, RttSampling, SackBlocks, Segment, TcpState, Timestamps,
};
use netrig_transport::{Connection as _, Packet, PathId, Payload, Serial};

use super::pair::{ISS, MS, at_ms, flow, plain};

/// The peer's initial sequence number.
pub(super) const PEER: Serial = Serial(7);

/// A client, and the segments that it has sent, in order.
pub(super) struct HandmadeClient {
    pub(super) connection: Connection,
    flow: FiveTuple,
    pub(super) now: Instant,
}

impl HandmadeClient {
    /// A client whose connection is established at 100 ms. The peer announces this MSS and this window.
    pub(super) fn opened(config: &Config, flow: FiveTuple, mss: Option<u16>, window: u16) -> Self {
        Self::answered(
            config,
            flow,
            &Segment { mss, ..segment(PEER, ISS.plus(1), Flags::SYN | Flags::ACK, window) },
        )
    }

    /// A client whose connection is established at 100 ms by this reply of the peer.
    pub(super) fn answered(config: &Config, flow: FiveTuple, answer: &Segment) -> Self {
        let mut client =
            Self { connection: Connection::connect(config.clone(), flow, ISS), flow, now: at_ms(0) };
        client.connection.open(client.now);
        client.sent();
        client.now = at_ms(100);
        client.take(answer);
        assert_eq!(client.connection.state(), TcpState::Established);
        client.sent();
        client
    }

    pub(super) fn take(&mut self, segment: &Segment) {
        let header = netrig_core::Header {
            flow: self.flow.reversed(),
            ip_len: 40,
            dscp: netrig_core::Dscp::BE,
            ecn: netrig_core::Ecn::NotEct,
        };
        self.connection.handle_packet(self.now, Packet { header, payload: Payload::Tcp(segment.clone()) });
    }

    /// Delivers an acknowledgement of the first `bytes` bytes of data, with this window.
    pub(super) fn acknowledge(&mut self, bytes: u32, window: u16) {
        self.take(&segment(PEER.plus(1), ISS.plus(1 + bytes), Flags::ACK, window));
    }

    pub(super) fn give(&mut self, bytes: u64) {
        self.connection.send(self.now, StreamId(0), Data::Fill(bytes));
    }

    /// Advances the time to `ms` milliseconds. Returns the segments sent until then.
    pub(super) fn until(&mut self, ms: u64) -> Vec<Segment> {
        let mut sent = self.sent();
        while let Some(at) = self.connection.poll_timeout().filter(|at| *at <= at_ms(ms)) {
            self.now = at;
            self.connection.handle_timeout(at);
            sent.extend(self.sent());
        }
        self.now = at_ms(ms);
        sent
    }

    /// The segments that the client sends at the current time.
    pub(super) fn sent(&mut self) -> Vec<Segment> {
        let mut sent = Vec::new();
        while let Some(packet) = self.connection.poll_transmit(self.now) {
            let Payload::Tcp(segment) = packet.payload else { panic!("a segment") };
            sent.push(segment);
        }
        sent
    }
}

pub(super) fn segment(seq: Serial, ack: Serial, flags: Flags, window: u16) -> Segment {
    Segment {
        seq,
        ack,
        flags,
        window,
        mss: None,
        window_scale: None,
        sack_permitted: false,
        timestamps: None,
        sack: SackBlocks::none(),
        data: Data::Fill(0),
    }
}

fn v6() -> FiveTuple {
    let [src, dst] = [1, 2].map(|n| IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n)));
    FiveTuple { src, dst, ..flow() }
}

/// The lengths of the segments with data, bytes.
pub(super) fn lens(segments: &[Segment]) -> Vec<u64> {
    segments.iter().map(|segment| segment.data.size()).filter(|len| *len > 0).collect()
}

/// RFC 9293 section 3.7.1 (MUST-15, MUST-16): the MSS is 536 bytes over IPv4 and 1220 over IPv6 if the peer announces
/// none. Otherwise it is the smaller MSS of the two ends.
#[test]
fn segments_are_as_long_as_both_ends_take() {
    let config = Config { mss: Size::from_bytes(1460), ..plain() };
    for (flow, told, longest) in [
        (flow(), None, 536),
        (v6(), None, 1220),
        (flow(), Some(800), 800),
        (v6(), Some(800), 800),
        (flow(), Some(9000), 1460),
        (v6(), Some(9000), 1440),
    ] {
        let mut client = HandmadeClient::opened(&config, flow, told, 60_000);
        client.give(50_000);
        let sent = lens(&client.sent());
        assert_eq!(sent, [longest; 10], "{told:?} to {}", flow.dst);
    }
}

/// RFC 9293 section 3.7.1 (MUST-14, SHLD-5, MAY-3): SYN and SYN-ACK announce the MSS. It is 20 bytes smaller over IPv6.
#[test]
fn both_syns_tell_the_largest_segment() {
    let config = Config { mss: Size::from_bytes(1460), ..plain() };
    for (flow, longest) in [(flow(), 1460), (v6(), 1440)] {
        let mut client = Connection::connect(config.clone(), flow, ISS);
        client.open(at_ms(0));
        let syn = client.poll_transmit(at_ms(0)).expect("SYN");
        let mut server = Connection::accept(config.clone(), flow.reversed(), PEER);
        server.handle_packet(at_ms(50), syn.clone());
        let answer = server.poll_transmit(at_ms(50)).expect("SYN and ACK");
        for packet in [syn, answer] {
            let Payload::Tcp(segment) = packet.payload else { panic!("a segment") };
            assert_eq!(segment.mss, Some(longest), "{:?} to {}", segment.flags, flow.dst);
        }
    }
}

/// RFC 7323 sections 2.2, 2.3 and 3.2: a SYN-ACK has a window scale if the SYN had one, with the shift for this end's
/// own buffer, and timestamps if the SYN had them. An option that was not negotiated is not used. If only one end
/// offers a window scale, windows are not shifted.
#[test]
fn the_answer_to_a_syn_has_the_options_that_the_syn_had() {
    let config = Config {
        timestamps: true,
        receive_buffer: Size::from_bytes(1_000_000),
        initial_window: 16,
        tail_loss_probe: false,
        ..plain()
    };
    for (scale, stamps) in [(false, false), (true, false), (false, true), (true, true)] {
        let stamp = |value| stamps.then_some(Timestamps { value, echo: 0 });
        let mut server = Connection::accept(config.clone(), flow(), ISS);
        let mut exchange = |segment: Segment| {
            let header = netrig_core::Header {
                flow: flow().reversed(),
                ip_len: 40,
                dscp: netrig_core::Dscp::BE,
                ecn: netrig_core::Ecn::NotEct,
            };
            server.handle_packet(at_ms(100), Packet { header, payload: Payload::Tcp(segment) });
            server.send(at_ms(100), StreamId(0), Data::Fill(50_000));
            let answers = std::iter::from_fn(|| server.poll_transmit(at_ms(100)));
            answers
                .map(|packet| match packet.payload {
                    Payload::Tcp(segment) => segment,
                    _ => panic!("a segment"),
                })
                .collect::<Vec<_>>()
        };
        let syn = segment(PEER, Serial(0), Flags::SYN, 4000);
        let syn = Segment { window_scale: scale.then_some(2), timestamps: stamp(1), mss: Some(1000), ..syn };
        let answers = exchange(syn);
        let [answer] = &answers[..] else { panic!("one answer: {answers:?}") };
        assert_eq!(answer.flags, Flags::SYN | Flags::ACK);
        // A shift of 4 is the smallest with which the largest window, 65,535 · 2⁴, is at least a megabyte.
        assert_eq!(answer.window_scale, scale.then_some(4), "scale {scale}, stamps {stamps}");
        assert_eq!(answer.timestamps.map(|told| told.echo), stamps.then_some(1));
        // The window is 3000, or 3000 · 2² if scaling was negotiated.
        let ack = segment(PEER.plus(1), ISS.plus(1), Flags::ACK, 3000);
        let sent = exchange(Segment { timestamps: stamp(2), ..ack });
        let told = if scale { 12_000 } else { 3000 };
        let used = lens(&sent).iter().sum::<u64>();
        assert!(used <= told && used + 1000 > told, "{used} of {told}: scale {scale}, stamps {stamps}");
        let window = if scale { 62_500 } else { 65_535 };
        for segment in &sent {
            assert_eq!((segment.window, segment.window_scale), (window, None));
            assert_eq!(segment.timestamps.map(|told| told.echo), stamps.then_some(2));
        }
    }
}

/// RFC 7323 section 2.4: if windows are advertised in units of eight bytes, a window may end before an earlier one did.
/// A segment within the earlier window is accepted.
#[test]
fn what_an_earlier_acknowledgement_allowed_is_taken() {
    let config = Config { receive_buffer: Size::from_bytes(300_000), ..plain() };
    let answer = segment(PEER, ISS.plus(1), Flags::SYN | Flags::ACK, 60_000);
    let answer = Segment { mss: Some(1000), window_scale: Some(0), ..answer };
    let mut client = HandmadeClient::answered(&config, flow(), &answer);
    client.connection.set_reading(false);
    let data = |offset: u32, len| {
        let place = segment(PEER.plus(1 + offset), ISS.plus(1), Flags::ACK, 60_000);
        Segment { data: Data::Fill(len), ..place }
    };
    let edge = |told: &Segment| told.ack.offset_from(PEER.plus(1)) as u32 + u32::from(told.window) * 8;
    client.take(&data(0, 8));
    assert_eq!(edge(client.sent().last().expect("an acknowledgement")), 300_000);
    client.take(&data(8, 3));
    assert_eq!(edge(client.sent().last().expect("an acknowledgement")), 299_995);
    client.take(&data(299_000, 1000));
    assert_eq!(client.connection.arrived(), 11 + 1000);
    client.take(&data(300_000, 1));
    assert_eq!(client.connection.arrived(), 11 + 1000, "nothing allowed this");
}

/// RFC 9293 section 3.8.6 (MUST-34, SHLD-15, SHLD-16): the right edge moves below data that was already sent. No new
/// data is sent until there is room again, and lost data within the window is retransmitted.
#[test]
fn a_window_that_shrinks_is_obeyed() {
    let config = Config { tail_loss_probe: false, limited_transmit: LimitedTransmit::Off, ..plain() };
    let mut client = HandmadeClient::opened(&config, flow(), Some(1000), 8000);
    client.give(6000);
    assert_eq!(lens(&client.sent()), [1000; 6]);
    client.now = at_ms(200);
    // Three segments have arrived. The window has room for two of the other three. The earlier window had room for two
    // more segments than were sent.
    client.acknowledge(3000, 2000);
    client.give(24_000);
    assert_eq!(lens(&client.sent()), [0_u64; 0]);
    let again = client.until(1300);
    assert_eq!(again.iter().map(|s| s.seq).collect::<Vec<_>>(), [ISS.plus(3001)], "the first goes again");
    // All six segments have arrived, and the window opens.
    client.acknowledge(6000, 3000);
    assert_eq!(lens(&client.sent())[..2], [1000, 1000]);
    assert_eq!(client.connection.state(), TcpState::Established);
}

/// RFC 9293 section 3.8.6 (MAY-7): the right edge moves to the left end of the outstanding data. Lost data beyond the
/// edge is still retransmitted.
#[test]
fn data_beyond_a_window_that_shrank_is_retransmitted() {
    let config = Config { tail_loss_probe: false, limited_transmit: LimitedTransmit::Off, ..plain() };
    let mut client = HandmadeClient::opened(&config, flow(), Some(1000), 8000);
    client.give(8000);
    assert_eq!(lens(&client.sent()), [1000; 8]);
    client.now = at_ms(200);
    client.acknowledge(3000, 0);
    let again = client.until(1300);
    let again: Vec<_> = again.iter().map(|segment| (segment.seq, segment.data.size())).collect();
    assert_eq!(again, [(ISS.plus(3001), 1000)]);
    client.acknowledge(8000, 8000);
    assert_eq!(client.connection.state(), TcpState::Established);
}

/// RFC 9293 section 3.8.6.2.1 (MUST-38): a window of less than a segment and less than half of the largest window is
/// not used until the override timer expires.
#[test]
fn a_silly_window_is_not_filled() {
    let mut client = HandmadeClient::opened(&plain(), flow(), Some(1000), 4000);
    client.give(30_000);
    assert_eq!(lens(&client.sent()), [1000; 4]);
    client.now = at_ms(200);
    client.acknowledge(4000, 400);
    assert_eq!(lens(&client.sent()), [0_u64; 0]);
    client.acknowledge(4000, 2000);
    assert_eq!(lens(&client.sent()), [1000, 1000]);
}

/// RFC 9293 section 3.8.6.1 (MUST-66): a reset ends a connection even if its own receive window is closed.
#[test]
fn a_reset_is_heeded_while_the_window_is_closed() {
    let config = Config { receive_buffer: Size::from_bytes(1000), ..plain() };
    let mut client = HandmadeClient::opened(&config, flow(), Some(1000), 4000);
    client.connection.set_reading(false);
    client.take(&Segment { data: Data::Fill(1000), ..segment(PEER.plus(1), ISS.plus(1), Flags::ACK, 4000) });
    assert_eq!(client.sent().last().map(|told| told.window), Some(0));
    client.take(&segment(PEER.plus(1001), Serial(0), Flags::RST, 0));
    assert_eq!(client.connection.state(), TcpState::Closed);
    let mut events = std::iter::from_fn(|| client.connection.poll_event());
    assert!(events.any(|event| event == netrig_core::ConnectionEvent::Closed(CloseReason::Aborted)));
}

/// RFC 9293 section 3.9.1.2: if there is no push call, PSH is set on the last segment of the queued data (MUST-61).
/// Only a SYN has the MSS option (MUST-65).
#[test]
fn the_last_segment_of_what_was_given_is_pushed() {
    let mut client = HandmadeClient::opened(&plain(), flow(), Some(1000), 60_000);
    client.give(3500);
    client.now = at_ms(200);
    let mut sent = client.sent();
    client.acknowledge(3000, 60_000);
    sent.extend(client.sent());
    let pushed: Vec<_> = sent.iter().map(|segment| segment.flags.contains(Flags::PSH)).collect();
    assert_eq!((lens(&sent), pushed), (vec![1000, 1000, 1000, 500], vec![false, false, false, true]));
    assert!(sent.iter().all(|segment| segment.mss.is_none()));
}

/// RFC 6298 section 3 (Karn's algorithm): a retransmitted segment is not measured unless a timestamp identifies the
/// copy.
#[test]
fn what_was_sent_twice_measures_nothing() {
    for rtt_sampling in [RttSampling::PerAck, RttSampling::PerRound] {
        let config = Config { tail_loss_probe: false, frto: false, rtt_sampling, ..plain() };
        let mut client = HandmadeClient::opened(&config, flow(), Some(1000), 60_000);
        client.give(1000);
        assert_eq!(client.until(1500).len(), 2, "once, and again after a second");
        client.acknowledge(1000, 60_000);
        let status = client.connection.path_status(PathId(0)).expect("TCP's path");
        assert_eq!(status.srtt, Some(MS(100)), "that of the handshake");
    }
}
