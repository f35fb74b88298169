//! An SCTP association (RFC 9260) as a state machine without I/O.

mod acknowledge;
mod failover;
mod handshake;
mod heartbeat;
mod path;
mod receive;
mod send;
mod shutdown;
mod state_cookie;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use netrig_core::{CloseReason, ConnectionEvent, Data, Dscp, Duration, Endpoint, Instant, Stream, StreamId};

pub(super) use handshake::{InitAckBuilder, objection, own_init};
pub use path::PathAddresses;
pub(super) use state_cookie::{CookieError, CookieKey, StateCookie};

use self::path::AssociationPath;
use super::config::Config;
use super::packet::Chunk;
use super::packet::chunk::Init;
use super::rx::{Acknowledger, Delivery, MessageInbox, TsnArrivals};
use super::tx::{Outstanding, SendQueue};
use crate::connection::PLENTY;
use crate::{Connection, Control, Counters, Incident, PathId, PathStatus, Payload, Serial};

/// Ports and addresses of an association.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// This host's port.
    pub local_port: u16,
    /// The peer's port.
    pub remote_port: u16,
    /// Path 0: the initial primary path, used for the handshake.
    pub primary: PathAddresses,
    /// The other paths, numbered from 1. Paths after number 31 are not used.
    pub alternates: Vec<PathAddresses>,
    /// DiffServ code point of all packets.
    pub dscp: Dscp,
}

/// Largest number of paths of an association. It is bounded because a hostile peer may list any number of addresses.
pub(super) const MOST_PATHS: usize = 32;

/// State of an association (RFC 9260 section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AssociationState {
    /// Not yet opened.
    New,
    CookieWait,
    CookieEchoed,
    Established,
    ShutdownPending,
    ShutdownSent,
    ShutdownReceived,
    ShutdownAckSent,
    /// The association has ended.
    Closed,
}

impl AssociationState {
    /// Whether user data may be sent.
    const fn sends_data(self) -> bool {
        matches!(self, Self::Established | Self::ShutdownPending | Self::ShutdownReceived)
    }

    /// Whether user data is accepted.
    const fn takes_data(self) -> bool {
        matches!(self, Self::Established | Self::ShutdownPending | Self::ShutdownSent)
    }
}

/// The timer of a chunk that is retransmitted until it is answered: T1-init, T1-cookie or T2-shutdown.
#[derive(Clone, Copy, Debug)]
struct Retry {
    at: Instant,
    /// The duration to which it was last set.
    span: Duration,
    /// Number of retransmissions of the chunk.
    count: u32,
    /// The path over which the chunk was last sent.
    path: usize,
}

impl Retry {
    const OFF: Self = Self { at: Instant::NEVER, span: Duration::ZERO, count: 0, path: 0 };
}

/// Control chunks and packets that wait to be sent. They are sent before data.
#[derive(Debug)]
enum PendingControl {
    /// A control chunk for the path with this index. It may share a packet with other chunks.
    Chunk(usize, Chunk),
    /// A complete packet. It is not bundled because it has its own tag or must be alone.
    Packet(crate::Packet),
}

/// An endpoint of an SCTP association.
///
/// The active end creates it with [`Association::new`] and opens it with [`Connection::open`]. At the passive end, a
/// [`Listener`](super::Listener) creates it from a valid COOKIE ECHO.
#[derive(Debug)]
pub struct Association {
    config: Arc<Config>,
    random: Stream,
    cookie_key: CookieKey,
    state: AssociationState,
    dscp: Dscp,
    local_port: u16,
    remote_port: u16,
    local_tag: u32,
    peer_tag: u32,
    local_tsn: Serial,
    inbound_streams: u16,
    outbound_streams: u16,

    paths: Vec<AssociationPath>,
    primary: usize,
    /// The path for new data.
    data_path: usize,
    /// Whether the user has set a primary path that is not yet active.
    primary_awaited: bool,

    queue: SendQueue,
    outstanding: Outstanding,
    /// Window that the peer last advertised, bytes. Data in flight is not subtracted.
    peer_rwnd: u64,
    /// Whether the outstanding chunk is a probe of a closed window. Its time-outs are then not errors.
    window_closed: bool,
    /// Whether a probe of the closed window must be sent: T3-rtx expired while the peer had no room for the next chunk
    /// and nothing was outstanding.
    probe_due: bool,
    /// Whether a SACK was received since the last time-out.
    sack_since_timeout: bool,
    /// Fast recovery ends when this TSN is acknowledged (RFC 9260 section 7.2.4 (6)). `None` outside fast recovery.
    fast_recovery: Option<Serial>,
    /// The path for one packet of retransmissions that may be sent regardless of the window.
    retransmission_due: Option<usize>,
    /// Whether lost chunks wait for a SACK after a time-out (RFC 9260 section 6.3.3).
    retransmissions_held: bool,
    /// Number of packets with new data that may still be sent at the current time (Max.Burst).
    burst: u32,
    /// Whether the user has sent data at the current time.
    just_given: bool,
    /// Whether [`ConnectionEvent::Writable`] must be raised when there is room for more data.
    writable_owed: bool,
    close_requested: bool,
    /// Whether [`ConnectionEvent::Closed`] is pending. It is raised when all data has been read.
    finished: bool,
    /// Consecutive errors over all paths (RFC 9260 section 8.1).
    errors: u32,

    arrivals: TsnArrivals,
    inbox: MessageInbox,
    acknowledger: Acknowledger,

    retry: Retry,
    /// T5-shutdown-guard.
    guard: Instant,
    /// The cookie for COOKIE ECHO, while it may have to be retransmitted.
    cookie: Vec<u8>,

    outgoing: VecDeque<PendingControl>,
    events: VecDeque<ConnectionEvent>,
    incidents: VecDeque<Incident>,
    counters: Counters,
    /// Number of user bytes in all accepted chunks.
    arrived: u64,
    delivery: Delivery,
}

impl Association {
    /// An association for [`Connection::open`]. Tags, sequence numbers and heartbeat jitter are drawn from `random`.
    pub fn new(config: impl Into<Arc<Config>>, endpoints: &Endpoints, mut random: Stream) -> Self {
        let key = CookieKey::random(&mut random);
        let tag = nonzero_tag(&mut random);
        let tsn = Serial(random.label() as u32);
        let mut made = Self::with_key(config.into(), endpoints, random, key, (tag, tsn));
        made.paths.iter_mut().for_each(|path| path.by_user = true);
        made
    }

    /// Creates an association with this cookie key, local tag and initial TSN.
    fn with_key(
        config: Arc<Config>,
        endpoints: &Endpoints,
        random: Stream,
        cookie_key: CookieKey,
        (local_tag, local_tsn): (u32, Serial),
    ) -> Self {
        let ports = (endpoints.local_port, endpoints.remote_port);
        let paths = std::iter::once(&endpoints.primary)
            .chain(&endpoints.alternates)
            .take(MOST_PATHS)
            .map(|addresses| AssociationPath::new(*addresses, ports, &config))
            .collect();
        let outbound_streams = config.streams.max(1);
        Self {
            queue: SendQueue::new(&config),
            outstanding: Outstanding::new(local_tsn, config.chunk_charge),
            inbox: MessageInbox::new(&config),
            burst: u32::MAX,
            config,
            random,
            cookie_key,
            state: AssociationState::New,
            dscp: endpoints.dscp,
            local_port: endpoints.local_port,
            remote_port: endpoints.remote_port,
            local_tag,
            peer_tag: 0,
            local_tsn,
            inbound_streams: 0,
            outbound_streams,
            paths,
            primary: 0,
            data_path: 0,
            primary_awaited: false,
            peer_rwnd: 0,
            window_closed: false,
            probe_due: false,
            sack_since_timeout: false,
            fast_recovery: None,
            retransmission_due: None,
            retransmissions_held: false,
            just_given: false,
            writable_owed: false,
            close_requested: false,
            finished: false,
            errors: 0,
            arrivals: TsnArrivals::new(Serial(0)),
            acknowledger: Acknowledger::new(),
            retry: Retry::OFF,
            guard: Instant::NEVER,
            cookie: Vec::new(),
            outgoing: VecDeque::new(),
            events: VecDeque::new(),
            incidents: VecDeque::new(),
            counters: Counters::default(),
            arrived: 0,
            delivery: Delivery::Events,
        }
    }

    /// The verification tag of packets to this association. Together with the ports it identifies the association.
    pub fn local_tag(&self) -> u32 {
        self.local_tag
    }

    /// Number of outbound and of inbound streams after negotiation. Data for a stream beyond the last is sent on the
    /// stream with its number modulo the number of streams.
    pub const fn streams(&self) -> (u16, u16) {
        (self.outbound_streams, self.inbound_streams)
    }

    /// The window that the peer last advertised (a_rwnd, RFC 9260 section 3.3.4), bytes.
    pub const fn peer_window(&self) -> u64 {
        self.peer_rwnd
    }

    /// Whether the peer's window is the only reason why new data is not sent (RFC 9260 section 6.1 A).
    pub fn is_held_by_window(&self) -> bool {
        let next = self.queue.unsent().min(self.most_user_bytes());
        let room = self.peer_rwnd.saturating_sub(self.outstanding.in_flight());
        self.state.sends_data() && next > room && self.paths[self.data_path].may_send_new(&self.config)
    }

    fn peer(&self) -> SocketAddr {
        SocketAddr::new(self.paths[self.primary].flow.dst, self.remote_port)
    }

    /// The index of the path of a packet that was sent from `remote` to `local`.
    #[inline]
    fn path_of(&self, remote: IpAddr, local: IpAddr) -> Option<usize> {
        let exact = self.paths.iter().position(|path| path.flow.dst == remote && path.flow.src == local);
        exact.or_else(|| self.paths.iter().position(|path| path.flow.dst == remote))
    }

    /// Queues a control chunk for `path`.
    fn send_chunk(&mut self, path: usize, chunk: Chunk) {
        self.outgoing.push_back(PendingControl::Chunk(path, chunk));
    }

    /// Ends the association.
    fn finish(&mut self, reason: CloseReason) {
        if self.state == AssociationState::Closed {
            return;
        }
        self.state = AssociationState::Closed;
        self.retry = Retry::OFF;
        self.guard = Instant::NEVER;
        self.acknowledger = Acknowledger::new();
        self.retransmission_due = None;
        // Waiting chunks are dropped. Waiting complete packets are still sent.
        self.outgoing.retain(|waiting| matches!(waiting, PendingControl::Packet(_)));
        for path in &mut self.paths {
            path.stop_t3();
            path.heartbeat_at = Instant::NEVER;
            path.beat_lost_at = Instant::NEVER;
        }
        if reason == CloseReason::Finished {
            self.finished = true;
            self.tell_finished();
        } else {
            self.delivery.discard();
            self.events.push_back(ConnectionEvent::Closed(reason));
        }
        self.incidents.push_back(Incident::Closed(reason));
    }

    /// Raises the pending event that the association is closed, if all data has been read.
    fn tell_finished(&mut self) {
        if self.delivery.unread() == 0 && std::mem::take(&mut self.finished) {
            self.events.push_back(ConnectionEvent::Closed(CloseReason::Finished));
        }
    }

    /// Permits Max.Burst packets again, because the time has advanced.
    fn refill_burst(&mut self) {
        self.just_given = false;
        self.burst = match self.config.max_burst {
            0 => u32::MAX,
            packets => packets,
        };
    }

    /// This end's INIT, or its INIT ACK without the cookie.
    fn own_init(&self, tag: u32, tsn: Serial) -> Init {
        own_init(&self.config, tag, tsn, self.paths.iter().map(|path| path.flow.src))
    }
}

/// RFC 9260 section 5.3.1: a tag is random and nonzero.
pub(super) fn nonzero_tag(random: &mut Stream) -> u32 {
    (random.label() as u32).max(1)
}

impl Endpoint for Association {
    type Packet = crate::Packet;
    type Event = ConnectionEvent;

    fn handle_packet(&mut self, now: Instant, mut packet: crate::Packet) {
        self.take_packet(now, &mut packet);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.refill_burst();
        if self.retry.at <= now {
            self.retry_expired(now);
        }
        if self.guard <= now {
            self.abandon_shutdown();
        }
        if self.acknowledger.deadline() <= now {
            self.acknowledger.timer_expired();
        }
        for path in 0..self.paths.len() {
            if self.paths[path].t3 <= now {
                self.t3_expired(now, path);
            }
            if self.paths[path].beat_lost_at <= now {
                self.heartbeat_lost(now, path);
            }
            if self.paths[path].heartbeat_at <= now {
                self.heartbeat_due(now, path);
            }
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let own = self.retry.at.min(self.guard).min(self.acknowledger.deadline());
        let at = self.paths.iter().fold(own, |at, path| at.min(path.deadline()));
        (at != Instant::NEVER).then_some(at)
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<crate::Packet> {
        let mut packet = crate::Packet::empty();
        self.write_packet(now, &mut packet).then_some(packet)
    }

    fn poll_event(&mut self) -> Option<ConnectionEvent> {
        self.events.pop_front()
    }
}

impl Connection for Association {
    fn take_packet(&mut self, now: Instant, packet: &mut crate::Packet) {
        let Payload::Sctp(sctp) = &mut packet.payload else { return };
        self.refill_burst();
        self.receive(now, &packet.header, sctp);
    }

    fn transmit_into(&mut self, now: Instant, place: &mut crate::Packet) -> bool {
        self.write_packet(now, place)
    }

    #[inline]
    fn ignores_more_data(&self, _now: Instant) -> bool {
        self.keeps_data_back()
    }

    fn has_plenty(&self) -> bool {
        self.queue.unsent() >= PLENTY && self.queue.is_in_order()
    }

    fn send_late(&mut self, _now: Instant, stream: StreamId, data: Data) {
        self.queue.push(StreamId(stream.0 % self.outbound_streams), data);
        self.writable_owed = true;
    }

    fn is_silent(&self, _now: Instant) -> bool {
        self.has_no_packet()
    }

    fn ignore_data(&mut self) {
        self.delivery.count();
    }

    #[inline]
    fn take_ignored(&mut self) -> u64 {
        self.delivery.take_counted()
    }

    fn set_reading(&mut self, reading: bool) {
        if reading {
            self.read(u64::MAX);
            self.delivery.go_on();
        } else {
            self.delivery.wait(self.free());
        }
    }

    fn read(&mut self, bytes: u64) -> u64 {
        let taken = self.delivery.read(bytes, &mut self.events);
        self.counters.bytes_delivered += taken;
        if self.state.takes_data() && self.delivery.opens(self.free(), self.least_window()) {
            self.acknowledger.window_opened();
        }
        self.tell_finished();
        taken
    }

    fn unread(&self) -> u64 {
        self.delivery.unread()
    }

    fn open(&mut self, now: Instant) {
        self.start_handshake(now);
    }

    fn send(&mut self, _now: Instant, stream: StreamId, data: Data) {
        // RFC 9260 section 9.2: "An endpoint SHOULD reject any new data request from its upper layer if it is in the
        // SHUTDOWN-PENDING, SHUTDOWN-SENT, SHUTDOWN-RECEIVED, or SHUTDOWN-ACK-SENT state".
        let open = matches!(
            self.state,
            AssociationState::New
                | AssociationState::CookieWait
                | AssociationState::CookieEchoed
                | AssociationState::Established
        );
        if !open || self.close_requested {
            return;
        }
        self.refill_burst();
        self.queue.push(StreamId(stream.0 % self.outbound_streams), data);
        self.just_given = true;
        self.writable_owed = true;
    }

    fn close(&mut self, now: Instant) {
        self.close_requested = true;
        self.continue_shutdown(now);
    }

    fn abort(&mut self, _now: Instant) {
        self.abort_with(super::packet::Cause::UserAbort(Vec::new()), CloseReason::Aborted);
    }

    fn control(&mut self, now: Instant, control: Control) {
        let (Control::SetPrimary(PathId(path))
        | Control::InterfaceDown(PathId(path))
        | Control::InterfaceUp(PathId(path))) = control;
        let path = usize::from(path);
        if self.paths.get(path).is_none_or(|path| path.foreign) {
            return;
        }
        match control {
            Control::SetPrimary(_) => self.set_primary(path),
            Control::InterfaceDown(_) => self.interface_down(now, path),
            Control::InterfaceUp(_) => self.interface_up(now, path),
        }
    }

    fn unacknowledged(&self) -> u64 {
        self.queue.unsent() + self.outstanding.user_bytes()
    }

    #[inline]
    fn arrived(&self) -> u64 {
        self.arrived
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn path_status(&self, path: PathId) -> Option<PathStatus> {
        self.paths.get(usize::from(path.0)).map(AssociationPath::status)
    }

    fn poll_incident(&mut self) -> Option<Incident> {
        self.incidents.pop_front()
    }
}
