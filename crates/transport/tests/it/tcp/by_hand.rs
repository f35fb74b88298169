//! One end against segments that are made by hand: what a peer of ours does not send.

use std::net::{IpAddr, Ipv6Addr};

use netrig_core::{CloseReason, Data, Endpoint, FiveTuple, Instant, Size, StreamId};
use netrig_transport::tcp::{Config, Connection, Flags, LimitedTransmit, SackBlocks, Segment, State};
use netrig_transport::{Connection as _, Packet, PathId, Payload, Serial};

use super::pair::{ISS, MS, at_ms, flow, plain};

/// The peer's initial sequence number.
pub(super) const PEER: Serial = Serial(7);

/// A client and what it sent, in order.
pub(super) struct HandmadeClient {
    pub(super) connection: Connection,
    flow: FiveTuple,
    pub(super) now: Instant,
}

impl HandmadeClient {
    /// Opened by a peer that tells this segment size and window at 100 ms.
    pub(super) fn opened(config: &Config, flow: FiveTuple, mss: Option<u16>, window: u16) -> Self {
        Self::answered(
            config,
            flow,
            &Segment { mss, ..segment(PEER, ISS.plus(1), Flags::SYN | Flags::ACK, window) },
        )
    }

    /// Opened by a peer that sends this answer at 100 ms.
    pub(super) fn answered(config: &Config, flow: FiveTuple, answer: &Segment) -> Self {
        let mut client =
            Self { connection: Connection::connect(config.clone(), flow, ISS), flow, now: at_ms(0) };
        client.connection.open(client.now);
        client.sent();
        client.now = at_ms(100);
        client.take(answer);
        assert_eq!(client.connection.state(), State::Established);
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

    /// An acknowledgement of so many bytes of data, with a window.
    pub(super) fn acknowledge(&mut self, bytes: u32, window: u16) {
        self.take(&segment(PEER.plus(1), ISS.plus(1 + bytes), Flags::ACK, window));
    }

    pub(super) fn give(&mut self, bytes: u64) {
        self.connection.send(self.now, StreamId(0), Data::Fill(bytes));
    }

    /// Lets time pass up to this moment.
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

    /// What it sends now.
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

/// Lengths of data in bytes.
pub(super) fn lens(segments: &[Segment]) -> Vec<u64> {
    segments.iter().map(|segment| segment.data.size()).filter(|len| *len > 0).collect()
}

/// RFC 9293 section 3.7.1 (MUST-15, MUST-16): 536 bytes over IPv4 and 1220 over IPv6 if the peer does not say; else the
/// smaller of what both take.
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

/// RFC 9293 section 3.8.6 (MUST-34, SHLD-15, SHLD-16): the right edge moves to the left behind what was sent. Nothing new is
/// sent until it has room again, and what is lost within the window goes again.
#[test]
fn a_window_that_shrinks_is_obeyed() {
    let config = Config { tail_loss_probe: false, limited_transmit: LimitedTransmit::Off, ..plain() };
    let mut client = HandmadeClient::opened(&config, flow(), Some(1000), 8000);
    client.give(30_000);
    assert_eq!(lens(&client.sent()), [1000; 8]);
    client.now = at_ms(200);
    // Three have arrived, and of the other five the window holds two.
    client.acknowledge(3000, 2000);
    assert_eq!(lens(&client.sent()), [0_u64; 0]);
    let again = client.until(1300);
    assert_eq!(again.iter().map(|s| s.seq).collect::<Vec<_>>(), [ISS.plus(3001)], "the first goes again");
    // All eight had arrived, and the window opens.
    client.acknowledge(8000, 3000);
    assert_eq!(lens(&client.sent())[..2], [1000, 1000]);
    assert_eq!(client.connection.state(), State::Established);
}

/// RFC 9293 section 3.8.6 (MAY-7): the right edge moves to the left end of what is outstanding. What is lost beyond the edge goes
/// again all the same.
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
    assert_eq!(client.connection.state(), State::Established);
}

/// RFC 9293 section 3.8.6.2.1 (MUST-38): a window of less than a segment and less than half of the largest one is not
/// filled, until the timer overrides.
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

/// RFC 9293 section 3.8.6.1 (MUST-66): a reset ends a connection whose own window is closed.
#[test]
fn a_reset_is_heeded_while_the_window_is_closed() {
    let config = Config { receive_buffer: Size::from_bytes(1000), ..plain() };
    let mut client = HandmadeClient::opened(&config, flow(), Some(1000), 4000);
    client.connection.set_reading(false);
    client.take(&Segment { data: Data::Fill(1000), ..segment(PEER.plus(1), ISS.plus(1), Flags::ACK, 4000) });
    assert_eq!(client.sent().last().map(|told| told.window), Some(0));
    client.take(&segment(PEER.plus(1001), Serial(0), Flags::RST, 0));
    assert_eq!(client.connection.state(), State::Closed);
    let mut events = std::iter::from_fn(|| client.connection.poll_event());
    assert!(events.any(|event| event == netrig_core::ConnectionEvent::Closed(CloseReason::Aborted)));
}

/// RFC 9293 section 3.9.1.2: without a call that pushes, the last segment of what was given has PSH (MUST-61), and MSS is told
/// with SYN only (MUST-65).
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

/// RFC 6298 section 3 (Karn): what was sent twice measures nothing, unless a timestamp tells which copy was meant.
#[test]
fn what_was_sent_twice_measures_nothing() {
    let config = Config { tail_loss_probe: false, frto: false, ..plain() };
    let mut client = HandmadeClient::opened(&config, flow(), Some(1000), 60_000);
    client.give(1000);
    assert_eq!(client.until(1500).len(), 2, "once, and again after a second");
    client.acknowledge(1000, 60_000);
    let status = client.connection.path_status(PathId(0)).expect("TCP's path");
    assert_eq!(status.srtt, Some(MS(100)), "that of the handshake");
}
