//! A TCP connection: its handshake and states, and the composition of its segments.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use netrig_core::{
    CloseReason, ConnectionEvent, Data, Dscp, Ecn, Endpoint, FiveTuple, Header, Instant, StreamId,
};

use super::clock::timestamp;
use super::config::{Config, EcnMode, Framing, Handshake, OptionBytes};
use super::receiver::Receiver;
use super::segment::{Flags, HEADER_LEN, SackBlocks, Segment, TIMESTAMPS_LEN, Timestamps};
use super::sender::{PATH, Sender, Telemetry, Transmission};
use super::state::TcpState;
use crate::connection::PLENTY;
use crate::{Control, Counters, Incident, Packet, PathId, PathState, PathStatus, Payload, Serial};

/// The user receives [`ConnectionEvent::Writable`] if at most this number of bytes is unsent, or one congestion window
/// if that is larger.
const LITTLE: u64 = 65_536;

/// One end of a TCP connection. See the [module](super) for its use.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Five-tuple with this end as source.
    pub(super) flow: FiveTuple,
    /// DiffServ code point of all packets.
    pub(super) dscp: Dscp,
    /// MSS option of the SYN, if it differs from the MSS that this end sends.
    announced_mss: Option<u16>,
    pub(super) config: Arc<Config>,
    pub(super) state: TcpState,
    /// ISS: this end's initial sequence number.
    pub(super) iss: Serial,
    pub(super) opening: SynTransmission,
    pub(super) options: AgreedOptions,
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    pub(super) telemetry: Telemetry,
    pub(super) events: VecDeque<ConnectionEvent>,
    /// Replies outside the stream: resets.
    pub(super) replies: VecDeque<Packet>,
    /// Whether the user has sent data since the last [`ConnectionEvent::Writable`].
    gave_data: bool,
    /// Whether [`ConnectionEvent::PeerFinished`] is pending. It is raised when all data has been read.
    pub(super) peer_finished: bool,
    /// Whether [`ConnectionEvent::Closed`] with [`CloseReason::Finished`] is pending. It follows `peer_finished`.
    finished: bool,
    pub(super) time_wait_until: Instant,
    pub(super) opened_actively: bool,
}

/// Transmission state of the SYN or SYN-ACK, which has its own retransmission (RFC 6298 section 5.7).
#[derive(Clone, Copy, Debug)]
pub(super) struct SynTransmission {
    /// Whether a SYN or SYN-ACK must be sent now.
    pub due: bool,
    pub sent: u32,
    pub sent_at: Instant,
    pub again_at: Instant,
}

/// Negotiated options.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AgreedOptions {
    /// The MSS that the peer announced, bytes.
    pub peer_mss: Option<u16>,
    /// Window scale of the peer, and of this end.
    pub peer_shift: u8,
    pub shift: u8,
    pub scaling: bool,
    pub sack: bool,
    pub timestamps: bool,
    pub ecn: bool,
}

impl Connection {
    /// The active end. It sends the SYN when it is opened. `flow` has this end as source. `iss` is the initial sequence
    /// number of this end; it is ignored with `handshake = "none"`, where both ends start from zero.
    pub fn connect(config: impl Into<Arc<Config>>, flow: FiveTuple, iss: Serial) -> Self {
        Self::new(config.into(), flow, iss, true)
    }

    /// The passive end for one peer. The host creates it when a SYN for a listener arrives, and then passes the SYN to
    /// it like any other packet. `flow` has this end as source: it is the reversed flow of the SYN.
    pub fn accept(config: impl Into<Arc<Config>>, flow: FiveTuple, iss: Serial) -> Self {
        let mut connection = Self::new(config.into(), flow, iss, false);
        connection.state = TcpState::Listen;
        connection
    }

    /// Sets the DiffServ code point of all packets. The default is best effort.
    #[must_use]
    pub fn with_dscp(self, dscp: Dscp) -> Self {
        Self { dscp, ..self }
    }

    /// Sets the MSS option of the SYN, bytes. It does not change the length of the segments that this end sends. The
    /// default is this end's MSS.
    #[must_use]
    pub fn with_announced_mss(self, bytes: Option<u16>) -> Self {
        Self { announced_mss: bytes, ..self }
    }

    fn new(config: Arc<Config>, flow: FiveTuple, iss: Serial, opened_actively: bool) -> Self {
        let iss = if config.handshake == Handshake::None { Serial(0) } else { iss };
        Self {
            flow,
            dscp: Dscp::BE,
            announced_mss: None,
            state: TcpState::Closed,
            iss,
            opening: SynTransmission {
                due: false,
                sent: 0,
                sent_at: Instant::ZERO,
                again_at: Instant::NEVER,
            },
            options: AgreedOptions::default(),
            sender: Sender::new(config.clone()),
            receiver: Receiver::new(&config),
            telemetry: Telemetry::default(),
            events: VecDeque::new(),
            replies: VecDeque::new(),
            gave_data: false,
            peer_finished: false,
            finished: false,
            time_wait_until: Instant::NEVER,
            opened_actively,
            config,
        }
    }

    /// State of the connection.
    pub fn state(&self) -> TcpState {
        self.state
    }

    /// Whether nothing more will be sent and no packet is expected. The host may then drop the connection. After
    /// [`ConnectionEvent::Closed`] it may still need the connection for a while, to acknowledge a retransmitted FIN.
    pub fn is_over(&self) -> bool {
        self.state == TcpState::Closed
            && self.replies.is_empty()
            && (!self.opened_actively || self.opening.sent > 0)
    }

    /// Raises the pending events about the end of the peer's data and of the connection, if all data has been read.
    pub(super) fn report_end(&mut self) {
        if !self.receiver.is_read() {
            return;
        }
        if std::mem::take(&mut self.peer_finished) {
            self.events.push_back(ConnectionEvent::PeerFinished);
        }
        if std::mem::take(&mut self.finished) {
            self.events.push_back(ConnectionEvent::Closed(CloseReason::Finished));
        }
    }

    /// The window scale that the receive buffer needs (RFC 7323 section 2.2: at most 14).
    pub(super) fn wanted_shift(&self) -> u8 {
        let mut shift = 0;
        while shift < 14 && self.config.receive_buffer.bytes() > 0xffff << shift {
            shift += 1;
        }
        shift
    }

    /// The largest segment that this end accepts. It is 20 bytes smaller over IPv6 (RFC 9293 section 3.7.1).
    pub(super) fn own_mss(&self) -> u64 {
        let extra = u64::from(self.flow.ip_header_len() - 20);
        self.config.mss.bytes().saturating_sub(extra).max(1)
    }

    /// Eff.snd.MSS (RFC 9293 section 3.7.1): the smaller MSS of the two ends, minus the options that every segment has.
    pub(super) fn effective_mss(&self) -> u64 {
        // RFC 9293 section 3.7.1: if the peer does not announce its MSS, it is 536 over IPv4 and 1220 over IPv6.
        let assumed = if matches!(self.flow.dst, IpAddr::V4(_)) { 536 } else { 1220 };
        let peer = self.options.peer_mss.map_or(assumed, u64::from);
        peer.min(self.own_mss()).saturating_sub(self.options_in_every_segment()).max(1)
    }

    fn options_in_every_segment(&self) -> u64 {
        let counted = self.options.timestamps && self.config.option_bytes == OptionBytes::Counted;
        if counted { u64::from(TIMESTAMPS_LEN) } else { 0 }
    }

    /// Reports the end of the connection to the user.
    pub(super) fn finish(&mut self, reason: CloseReason) {
        if reason == CloseReason::Finished {
            self.finished = true;
            self.report_end();
        } else {
            self.receiver.discard_unread();
            self.events.push_back(ConnectionEvent::Closed(reason));
        }
        self.telemetry.report(Incident::Closed(reason));
        self.gave_data = false;
    }

    /// Ends the connection immediately.
    pub(super) fn end(&mut self, reason: CloseReason) {
        self.vanish();
        self.finish(reason);
    }

    pub(super) fn vanish(&mut self) {
        self.state = TcpState::Closed;
        self.sender.stop();
        self.opening.due = false;
        self.opening.again_at = Instant::NEVER;
        self.time_wait_until = Instant::NEVER;
    }

    /// Both SYNs are acknowledged, and the options are negotiated.
    pub(super) fn establish(&mut self) {
        self.state = TcpState::Established;
        self.opening.again_at = Instant::NEVER;
        self.opening.due = false;
        self.telemetry.report(Incident::Established);
        let peer = SocketAddr::new(self.flow.dst, self.flow.dst_port);
        self.events.push_back(ConnectionEvent::Connected { peer });
    }

    #[inline(always)]
    fn header(&self, segment: &Segment, ecn: Ecn) -> Header {
        let options = match self.config.option_bytes {
            OptionBytes::Counted => segment.options_len(),
            OptionBytes::Free => 0,
        };
        let len = self.flow.ip_header_len() + HEADER_LEN + options + segment.data.size() as u32;
        Header { flow: self.flow, ip_len: len, dscp: self.dscp, ecn }
    }

    fn packet(&mut self, segment: Segment, ecn: Ecn) -> Packet {
        let mut packet = Packet::empty();
        self.write(segment, ecn, &mut packet);
        packet
    }

    /// Writes a packet with `segment` to `place`.
    #[inline(always)]
    fn write(&mut self, segment: Segment, ecn: Ecn, place: &mut Packet) {
        self.telemetry.counters.packets_sent += 1;
        place.header = self.header(&segment, ecn);
        match &mut place.payload {
            // `place` usually contains an earlier segment. This arm drops it without a match on the other kinds of
            // payload.
            Payload::Tcp(before) => *before = segment,
            other => *other = Payload::Tcp(segment),
        }
    }

    /// A segment that starts at `offset` of this end's stream, with the current acknowledgement.
    #[inline(always)]
    fn segment(
        &mut self,
        now: Instant,
        offset: u64,
        flags: Flags,
        data: Data,
        room_for_sack: usize,
    ) -> Segment {
        let sack = self.receiver.sack_blocks(room_for_sack);
        let echo = if self.options.ecn && self.receiver.echo_congestion { Flags::ECE } else { Flags::NONE };
        let timestamps = self
            .options
            .timestamps
            .then(|| Timestamps { value: timestamp(now), echo: self.receiver.timestamp_echo() });
        Segment {
            seq: self.iss.plus(offset as u32),
            ack: self.receiver.next_number(),
            flags: flags | Flags::ACK | echo,
            window: self.receiver.acknowledge(),
            mss: None,
            window_scale: None,
            sack_permitted: false,
            timestamps,
            sack,
            data,
        }
    }

    /// A SYN or SYN-ACK, with the options that this end offers or accepts.
    fn syn(&mut self, now: Instant) -> Packet {
        let answering = self.state == TcpState::SynReceived;
        self.opening.due = false;
        self.opening.sent += 1;
        self.opening.sent_at = now;
        // RFC 6298 section 5.5. The first retransmissions may be without back-off (`syn_linear_timeouts`).
        let doublings = (self.opening.sent - 1).saturating_sub(self.config.syn_linear_timeouts).min(32);
        let rto = (self.config.rto_initial * (1 << doublings)).min(self.config.rto_max);
        self.opening.again_at = self.config.timer_wheel.fires(now, rto);
        let offered = |configured: bool, agreed: bool| if answering { agreed } else { configured };
        let scaling = offered(self.config.window_scaling, self.options.scaling);
        let timestamps = offered(self.config.timestamps, self.options.timestamps);
        let mut flags = Flags::SYN;
        if answering {
            flags |= Flags::ACK;
            // RFC 3168 section 6.1.1: ECE alone accepts ECN, ECE with CWR requests it.
            flags |= if self.options.ecn { Flags::ECE } else { Flags::NONE };
        } else if self.config.ecn == EcnMode::Request && self.opening.sent == 1 {
            flags |= Flags::ECE | Flags::CWR;
        }
        let segment = Segment {
            seq: self.iss,
            ack: if answering { self.receiver.next_number() } else { Serial(0) },
            flags,
            window: self.receiver.syn_window(),
            mss: Some(self.announced_mss.unwrap_or(self.own_mss().min(0xffff) as u16)),
            window_scale: scaling.then(|| self.wanted_shift()),
            sack_permitted: offered(self.config.sack, self.options.sack),
            timestamps: timestamps
                .then(|| Timestamps { value: timestamp(now), echo: self.receiver.timestamp_echo() }),
            sack: SackBlocks::none(),
            data: Data::Fill(0),
        };
        self.packet(segment, Ecn::NotEct)
    }

    /// Writes an acknowledgement without data.
    fn write_acknowledgement(&mut self, now: Instant, place: &mut Packet) {
        let most = if self.options.timestamps { SackBlocks::MAX - 1 } else { SackBlocks::MAX };
        let segment = self.segment(now, self.sender.nxt(), Flags::NONE, Data::Fill(0), most);
        self.write(segment, Ecn::NotEct, place);
    }

    fn write_data(&mut self, now: Instant, transmission: Transmission, place: &mut Packet) {
        let Transmission { start, end, fin, new } = transmission;
        self.telemetry.counters.data_packets_sent += u64::from(end > start);
        let data = self.sender.read(start, end);
        let mut flags = if end - start > 0 && self.sender.unsent() == 0 { Flags::PSH } else { Flags::NONE };
        let mut ecn = Ecn::NotEct;
        if fin {
            flags |= Flags::FIN;
            self.after_fin();
        }
        // RFC 3168 sections 6.1.2 and 6.1.5: probes and retransmissions are not ECN-capable.
        if self.options.ecn && new && end > start {
            ecn = Ecn::Ect0;
            if std::mem::take(&mut self.sender.cwr_pending) {
                flags |= Flags::CWR;
            }
        }
        // SACK blocks are added if the segment is partial and has room for them.
        let spare = self.sender.smss().saturating_sub(end - start);
        let room = (spare.saturating_sub(4) / 8).min(3) as usize;
        let segment = self.segment(now, start, flags, data, room);
        self.write(segment, ecn, place);
        if self.config.framing == Framing::WholePackets && end > start {
            place.header.ip_len += (self.sender.smss() - (end - start)) as u32;
        }
    }

    /// Changes the state after a FIN was sent or retransmitted.
    fn after_fin(&mut self) {
        self.state = match self.state {
            TcpState::Established => TcpState::FinWait1,
            TcpState::CloseWait => TcpState::LastAck,
            state => state,
        };
    }

    fn open_without_handshake(&mut self) {
        self.options = AgreedOptions {
            peer_mss: Some(self.own_mss().min(0xffff) as u16),
            peer_shift: self.wanted_shift(),
            shift: self.wanted_shift(),
            scaling: true,
            sack: self.config.sack,
            timestamps: self.config.timestamps,
            ecn: self.config.ecn != EcnMode::Off,
        };
        self.receiver.synchronise(Serial(0), 0);
        self.opening.sent = 1;
        self.agree(self.config.receive_buffer.bytes(), self.config.rto_initial);
        self.establish();
    }
}

impl Endpoint for Connection {
    type Packet = Packet;
    type Event = ConnectionEvent;

    fn handle_packet(&mut self, now: Instant, mut packet: Packet) {
        crate::Connection::take_packet(self, now, &mut packet);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.sender.reconsider_window();
        if self.opening.again_at <= now {
            self.opening.again_at = Instant::NEVER;
            let limit = self.config.syn_retries.count();
            if self.opening.sent > limit {
                self.end(CloseReason::TimedOut);
                return;
            }
            self.opening.due = true;
            self.telemetry.counters.timeouts += 1;
            let (rto, errors) = (now.since(self.opening.sent_at), self.opening.sent);
            self.telemetry.report(Incident::ControlTimeout { timer: "SYN", rto, errors, limit });
        }
        if self.time_wait_until <= now {
            self.vanish();
        }
        if self.sender.deadline() <= now && !self.sender.on_timer(now, &mut self.telemetry) {
            self.end(CloseReason::TimedOut);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let at = self.sender.deadline().min(self.receiver.deadline());
        let at = at.min(self.opening.again_at).min(self.time_wait_until);
        (at < Instant::NEVER).then_some(at)
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        let mut packet = Packet::empty();
        crate::Connection::transmit_into(self, now, &mut packet).then_some(packet)
    }

    fn poll_event(&mut self) -> Option<ConnectionEvent> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        let open =
            || matches!(self.state, TcpState::Established | TcpState::CloseWait) && !self.sender.is_closing();
        if self.gave_data && open() && self.sender.unsent() <= LITTLE.max(self.sender.cwnd()) {
            self.gave_data = false;
            return Some(ConnectionEvent::Writable);
        }
        None
    }
}

impl crate::Connection for Connection {
    // Takes the packet by reference: to move the segment would cost as much as all other checks.
    #[inline]
    fn take_packet(&mut self, now: Instant, packet: &mut Packet) {
        let Payload::Tcp(segment) = &mut packet.payload else { return };
        self.telemetry.counters.packets_received += 1;
        self.sender.reconsider_window();
        if self.state == TcpState::Listen && self.config.handshake == Handshake::None {
            self.open_without_handshake();
        }
        self.arrives(now, segment, packet.header.ecn);
    }

    #[inline]
    fn ignores_more_data(&self, now: Instant) -> bool {
        self.has_plenty() || self.sender.has_full_window() && self.is_silent(now)
    }

    #[inline]
    fn has_plenty(&self) -> bool {
        self.sender.unsent() >= PLENTY
    }

    #[inline]
    fn is_silent(&self, now: Instant) -> bool {
        self.sender.is_silent() && !self.receiver.is_due(now) && !self.opening.due && self.replies.is_empty()
    }

    fn transmit_into(&mut self, now: Instant, place: &mut Packet) -> bool {
        if let Some(reply) = self.replies.pop_front() {
            *place = reply;
        } else if self.opening.due {
            *place = self.syn(now);
        } else if !self.state.is_synchronised() {
            return false;
        } else if self.receiver.is_due_alone() {
            self.write_acknowledgement(now, place);
        } else if self.state.may_transmit()
            && let Some(transmission) = self.sender.transmit(now, &mut self.telemetry)
        {
            self.write_data(now, transmission, place);
        } else if self.receiver.is_due(now) {
            self.write_acknowledgement(now, place);
        } else {
            return false;
        }
        true
    }

    fn ignore_data(&mut self) {
        self.receiver.ignored.get_or_insert(0);
    }

    #[inline]
    fn take_ignored(&mut self) -> u64 {
        self.receiver.ignored.as_mut().map_or(0, std::mem::take)
    }

    fn set_reading(&mut self, reading: bool) {
        self.receiver.set_reading(reading, &mut self.events, &mut self.telemetry.counters);
        self.report_end();
    }

    fn read(&mut self, bytes: u64) -> u64 {
        let taken = self.receiver.read(bytes, &mut self.events, &mut self.telemetry.counters);
        self.report_end();
        taken
    }

    fn unread(&self) -> u64 {
        self.receiver.unread()
    }

    fn open(&mut self, _now: Instant) {
        if !self.opened_actively || self.opening.sent > 0 || self.state != TcpState::Closed {
            return;
        }
        match self.config.handshake {
            Handshake::Full => {
                self.state = TcpState::SynSent;
                self.opening.due = true;
            }
            Handshake::None => self.open_without_handshake(),
        }
    }

    fn send(&mut self, _now: Instant, _stream: StreamId, data: Data) {
        if !self.sender.is_closing() {
            self.sender.push(data);
            self.gave_data = true;
        }
    }

    fn close(&mut self, _now: Instant) {
        self.sender.close();
    }

    fn abort(&mut self, now: Instant) {
        // RFC 9293 section 3.10.5.
        let sends_reset = self.state.is_synchronised() && self.state != TcpState::TimeWait
            || self.state == TcpState::SynReceived;
        if sends_reset {
            let segment = self.segment(now, self.sender.nxt(), Flags::RST, Data::Fill(0), 0);
            let reset = self.packet(segment, Ecn::NotEct);
            self.replies.push_back(reset);
        }
        match self.state {
            TcpState::Closed if self.opening.sent > 0 => {}
            TcpState::TimeWait => self.vanish(),
            _ => self.end(CloseReason::Aborted),
        }
    }

    fn control(&mut self, _now: Instant, control: Control) {
        self.sender.reconsider_window();
        match control {
            Control::InterfaceDown(PATH) => self.sender.interface_down = true,
            Control::InterfaceUp(PATH) => self.sender.interface_down = false,
            _ => {}
        }
    }

    fn unacknowledged(&self) -> u64 {
        self.sender.unacknowledged()
    }

    #[inline]
    fn arrived(&self) -> u64 {
        self.receiver.arrived()
    }

    fn counters(&self) -> Counters {
        self.telemetry.counters
    }

    fn path_status(&self, path: PathId) -> Option<PathStatus> {
        (path == PATH).then(|| PathStatus {
            state: PathState::Active,
            cwnd: self.sender.cwnd(),
            ssthresh: self.sender.ssthresh(),
            flight: self.sender.outstanding(),
            srtt: self.sender.srtt(),
            rto: self.sender.rto(),
            errors: self.sender.errors(),
        })
    }

    fn poll_incident(&mut self) -> Option<Incident> {
        self.telemetry.incidents.pop_front()
    }
}

/// The reply to a packet that belongs to no connection: a reset (RFC 9293 section 3.10.7.1). `None` if the packet is
/// itself a reset.
pub fn refuse(packet: &Packet) -> Option<Packet> {
    let Payload::Tcp(segment) = &packet.payload else { return None };
    if segment.flags.contains(Flags::RST) {
        return None;
    }
    let (seq, ack, flags) = if segment.flags.contains(Flags::ACK) {
        (segment.ack, Serial(0), Flags::RST)
    } else {
        (Serial(0), segment.seq.plus(segment.sequence_len() as u32), Flags::RST | Flags::ACK)
    };
    let flow = packet.header.flow.reversed();
    // RFC 7323 section 5.2: if the segment has timestamps, the reset in reply to it has them too, with TSval zero.
    let timestamps = segment.timestamps.map(|received| Timestamps { value: 0, echo: received.value });
    let reset = Segment {
        seq,
        ack,
        flags,
        window: 0,
        mss: None,
        window_scale: None,
        sack_permitted: false,
        timestamps,
        sack: SackBlocks::none(),
        data: Data::Fill(0),
    };
    let ip_len = flow.ip_header_len() + HEADER_LEN + reset.options_len();
    let header = Header { flow, ip_len, dscp: packet.header.dscp, ecn: Ecn::NotEct };
    Some(Packet { header, payload: Payload::Tcp(reset) })
}

/// Age of an echoed timestamp, milliseconds. `None` if the timestamp is in the future.
pub(super) fn echoed(now: Instant, echo: u32) -> Option<u32> {
    u32::try_from(Serial(timestamp(now)).offset_from(Serial(echo))).ok()
}
