//! TCP and MPTCP connections over kernel sockets.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use netrig_bulk::tcp_connection::{ConnectionMode, TcpConnection, TurnOutcome};
use netrig_core::{CloseReason, ConnectionEvent, Instant, Quantity, Sample, Subject, quantity};
use netrig_host::socket::{SocketBuilder, SocketError, TcpOptions, refused};
use netrig_host::{HostAddress, Pacer, Subflow, TcpCounts, TcpInfo, Watch, quantity as own};
use netrig_traffic::{AppAction, AppEvent, ConnId, FlowSide, ReadSchedule, Reads};
use rustix::io::Errno;
use rustix::net::SocketFlags;

use crate::carrier::{EndContext, EndState, FIRST_SOCKET, FlowCarrier, Samples, TURNS};
use crate::order::EndOrder;
use crate::report::EndReport;
use crate::roster::{Named, Roster};
use crate::{AgentError, AgentResult};

/// Backlog of a listening socket; the kernel limits it to net.core.somaxconn.
const CALLS: i32 = 4096;

/// Bytes per read.
const READ: usize = 1 << 18;

/// The connections of one end.
pub(crate) struct TcpEnd {
    options: TcpOptions,
    dscp: u8,
    local: SocketAddr,
    /// Whether the application needs the contents of the received bytes. If not, they are only counted.
    reads: bool,
    /// Read schedule of the application. `None`: the application reads data as soon as it arrives.
    schedule: Option<Reads>,
    listener: Option<OwnedFd>,
    accepted: u32,
    connections: Roster<TcpConnection>,
    gone: TcpCounts,
    failed: u32,
    fallbacks: u32,
    /// The largest number of simultaneous subflows of a connection at any sampling tick.
    subflows: u32,
    reported: TcpCounts,
    events: Vec<ConnectionEvent>,
    buffer: Vec<u8>,
}

impl Named for TcpConnection {
    type Name = ConnId;

    fn name(&self) -> ConnId {
        self.id
    }
}

impl TcpEnd {
    /// Makes an end that opens connections. A server also listens and accepts connections.
    pub fn open(order: &EndOrder, options: TcpOptions) -> Result<Self, SocketError> {
        let (dscp, local, listens) = (order.dscp, order.local(), order.side == FlowSide::Server);
        // The peer may open subflows to other addresses of this host than that of the first subflow.
        let local = if options.multipath && listens { anywhere(local) } else { local };
        let making = SocketBuilder::tcp(&options, dscp, local)?;
        // The socket of a client is dropped. It is made only to find invalid options before the run starts.
        let listener = if listens {
            let socket = making.bound()?;
            rustix::net::listen(&socket, CALLS).map_err(|error| refused("listen", local, error))?;
            Some(socket)
        } else {
            None
        };
        Ok(Self {
            options,
            dscp,
            local,
            reads: !order.application.sends_fill_only(),
            schedule: order.reads,
            listener,
            accepted: 0,
            connections: Roster::default(),
            gone: TcpCounts::default(),
            failed: 0,
            fallbacks: 0,
            subflows: 0,
            reported: TcpCounts::default(),
            events: Vec::new(),
            buffer: vec![0; READ],
        })
    }

    /// Starts to open a connection and returns its index.
    fn connect(&mut self, id: ConnId, to: SocketAddr) -> Result<u32, SocketError> {
        let socket = SocketBuilder::tcp(&self.options, self.dscp, self.local)?.bound()?;
        // If `connect` fails immediately (no route, refused by this host), the application gets the same event as for a
        // connection that fails later.
        let failed = rustix::net::connect(&socket, &to).err();
        let failed = failed.filter(|error| !matches!(*error, Errno::INPROGRESS | Errno::INTR));
        Ok(self.enrol(id, socket, to, failed))
    }

    /// Accepts one pending connection, if there is one, and returns its index.
    fn accept(&mut self) -> io::Result<Option<u32>> {
        let Some(listener) = &self.listener else { return Ok(None) };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (socket, peer) = loop {
            match rustix::net::acceptfrom_with(listener, flags) {
                Ok((socket, peer)) => break (socket, peer),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(error) => return Err(error.into()),
            }
        };
        let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok()).unwrap_or(self.local);
        let id = ConnId::Accepted(self.accepted);
        self.accepted += 1;
        Ok(Some(self.enrol(id, socket, peer, None)))
    }

    fn enrol(&mut self, id: ConnId, socket: OwnedFd, peer: SocketAddr, failed: Option<Errno>) -> u32 {
        let (multipath, clamp) = (self.options.multipath, self.options.window_clamp);
        let manner = ConnectionMode { multipath, reads: self.reads, clamp };
        self.connections.enrol(TcpConnection::new(id, socket, peer, manner, failed))
    }

    /// Registers a new connection with the poller.
    fn watch_connection(&mut self, place: u32, end: &EndState, around: &EndContext) -> AgentResult {
        let Some(conn) = self.connections.get_mut(place) else { return Ok(()) };
        if let Some(reads) = self.schedule {
            conn.read_by(ReadSchedule::new(reads, around.clock.now()));
        }
        let watched = around.pacer.watch(conn.fd(), end.key(place + 1), Watch::Both);
        watched.map_err(AgentError::kernel("epoll_ctl"))
    }

    /// Reads the data that applications with a read schedule are due to read at `now`.
    fn take_steps(&mut self, now: Instant) {
        let mut due = Vec::new();
        for (place, conn) in self.connections.iter_mut() {
            if conn.reads_at().is_some_and(|at| at <= now) {
                conn.take_step(now);
                due.push(place);
            }
        }
        due.into_iter().for_each(|place| self.connections.queue_turn(place));
    }

    /// Reads, writes and passes on the events of the connection with the index `place`, if it still exists.
    fn take_turn(
        &mut self,
        now: Instant,
        place: u32,
        end: &mut EndState,
        around: &mut EndContext,
    ) -> AgentResult {
        let Some(conn) = self.connections.get_mut(place) else { return Ok(()) };
        let (id, mut events) = (conn.id, std::mem::take(&mut self.events));
        if conn.take_turn(&mut self.buffer, &mut events) == TurnOutcome::GoesOn {
            self.connections.queue_turn(place);
        }
        for event in events.drain(..) {
            end.connection_event(now, id, &event, &mut around.samples);
            match &event {
                ConnectionEvent::Received { .. } if !end.order.sends_data() => {
                    end.meter.data_arrived(now, &mut around.samples);
                }
                ConnectionEvent::Closed(reason) => self.forget(place, *reason),
                _ => {}
            }
            self.notify(now, AppEvent::Connection { conn: id, event }, end, around)?;
        }
        self.events = events;
        Ok(())
    }

    /// Removes a closed connection and keeps its counts.
    fn forget(&mut self, place: u32, reason: CloseReason) {
        self.failed += u32::from(reason != CloseReason::Finished);
        let Some(mut conn) = self.connections.remove(place) else { return };
        self.fallbacks += u32::from(conn.fell_back());
        self.gone += &conn.counts();
    }

    /// The counts of all connections, including closed ones.
    fn counts(&mut self) -> TcpCounts {
        let mut counts = self.gone;
        for conn in self.connections.members_mut() {
            counts += &conn.counts();
        }
        counts
    }

    /// The `TCP_INFO` of each path of the oldest connection that still exists, with the index of the path in the
    /// configured list.
    fn infos(&self) -> Vec<(u8, TcpInfo)> {
        let Some(conn) = self.connections.members().next() else { return Vec::new() };
        if !self.options.multipath {
            return TcpInfo::read(conn.fd()).ok().map(|info| (0, info)).into_iter().collect();
        }
        let place = |subflow: &Subflow| {
            let ends = (subflow.local.ip(), subflow.remote.ip());
            self.options
                .paths
                .iter()
                .position(|path| *path == ends)
                .and_then(|place| u8::try_from(place).ok())
        };
        let subflows = Subflow::all(conn.fd()).unwrap_or_default();
        let info = |subflow: &Subflow| Some((place(subflow)?, subflow.info));
        subflows.iter().filter_map(info).collect()
    }

    /// The largest number of established subflows among the existing connections. `None` if no connection uses
    /// Multipath TCP.
    fn subflows(&mut self) -> Option<u32> {
        let of = |conn: &TcpConnection| {
            let all = Subflow::all(conn.fd()).ok()?;
            Some(all.iter().filter(|subflow| subflow.info.is_established()).count() as u32)
        };
        let now = self.connections.members().filter(|conn| conn.is_multipath()).filter_map(of).max()?;
        self.subflows = self.subflows.max(now);
        Some(now)
    }
}

impl FlowCarrier for TcpEnd {
    fn watch(&self, end: &EndState, pacer: &Pacer) -> AgentResult {
        let Some(listener) = &self.listener else { return Ok(()) };
        pacer.watch(listener, end.key(FIRST_SOCKET), Watch::Both).map_err(AgentError::kernel("epoll_ctl"))
    }

    fn next(&self) -> Option<Instant> {
        if self.connections.has_turns() {
            return Some(Instant::ZERO);
        }
        self.schedule.and_then(|_| self.connections.members().filter_map(TcpConnection::reads_at).min())
    }

    fn ready(&mut self, socket: u32, end: &EndState, around: &EndContext) -> AgentResult {
        if socket == FIRST_SOCKET {
            while let Some(place) = self.accept().map_err(AgentError::kernel("accept"))? {
                self.watch_connection(place, end, around)?;
            }
        } else if let Some(conn) = self.connections.get_mut(socket - 1) {
            conn.is_ready();
            self.connections.queue_turn(socket - 1);
        }
        Ok(())
    }

    fn advance(&mut self, now: Instant, end: &mut EndState, around: &mut EndContext) -> AgentResult {
        if self.schedule.is_some() {
            self.take_steps(now);
        }
        for _ in 0..TURNS {
            let Some(place) = self.connections.next_turn() else { break };
            self.take_turn(now, place, end, around)?;
        }
        Ok(())
    }

    fn carry(
        &mut self,
        _: Instant,
        action: AppAction,
        end: &mut EndState,
        around: &EndContext,
    ) -> AgentResult {
        let (id, data) = match action {
            AppAction::Open { conn, to } => {
                let place = self
                    .connect(conn, to)
                    .map_err(|source| AgentError::Socket { flow: end.order.name.clone(), source })?;
                return self.watch_connection(place, end, around);
            }
            AppAction::Send { conn, data, .. } => {
                end.offered(data.size());
                (conn, Some(data))
            }
            AppAction::Close { conn } => (conn, None),
            _ => return Ok(()),
        };
        if let Some(place) = self.connections.place_of(id)
            && let Some(conn) = self.connections.get_mut(place)
        {
            match data {
                Some(data) => conn.send(data),
                None => conn.close(),
            }
            self.connections.queue_turn(place);
        }
        Ok(())
    }

    fn tick(&mut self, at: Instant, end: &EndState, out: &mut Samples) -> AgentResult {
        let now = self.counts();
        let before = std::mem::replace(&mut self.reported, now);
        let sends = end.order.sends_data();
        let counts = REPORTED.iter().filter(|(_, sender, _)| sender.is_none_or(|sender| sender == sends));
        let counts = counts.map(|(quantity, _, of)| (*quantity, of(&now).saturating_sub(of(&before))));
        end.report_counts(at, counts, out);
        if sends {
            self.infos().iter().for_each(|(path, info)| trace(at, end.order.flow, *path, info, out));
        }
        if let Some(subflows) = self.subflows().filter(|_| sends) {
            end.meter.mark(at, &own::SUBFLOWS, subflows.into(), out);
        }
        Ok(())
    }

    fn report(&mut self, report: &mut EndReport, _: &EndState, _: &mut Samples) -> AgentResult {
        let falling = self.connections.members().filter(|conn| conn.fell_back()).count() as u32;
        (report.connections, report.failed) = (self.connections.made(), self.failed);
        (report.fallbacks, report.subflows) = (self.fallbacks + falling, self.subflows);
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.connections.is_over()
    }
}

/// Selects one counter.
type Count = fn(&TcpCounts) -> u64;

/// The kernel's counters, and which end reports each: `Some(true)`, the end that sends the flow's data; `Some(false)`,
/// the end that receives it; `None`, both.
static REPORTED: [(&Quantity, Option<bool>, Count); 5] = [
    (&quantity::PACKETS_SENT, None, |c| c.segments_sent),
    (&quantity::DATA_PACKETS_SENT, Some(true), |c| c.data_segments_sent),
    (&quantity::DATA_PACKETS_RECEIVED, Some(false), |c| c.data_segments_received),
    (&quantity::RETRANSMITTED_BYTES, Some(true), |c| c.bytes_retransmitted),
    (&quantity::TIMEOUTS, None, |c| c.timeouts),
];

/// Reports the state of the flow's connection on one path.
fn trace(at: Instant, flow: u32, path: u8, info: &TcpInfo, out: &mut Samples) {
    let levels = [
        (&quantity::CWND, Some(info.cwnd as f64)),
        (&quantity::SSTHRESH, info.ssthresh.map(|bytes| bytes as f64)),
        (&quantity::FLIGHT, Some(info.flight as f64)),
        (&quantity::RTO, Some(info.rto.as_secs_f64())),
        (&quantity::SRTT, info.srtt.map(|span| span.as_secs_f64())),
        (&own::MIN_RTT, info.min_rtt.map(|span| span.as_secs_f64())),
        (&own::PACING_RATE, info.pacing_rate.map(|rate| rate as f64)),
        (&own::DELIVERY_RATE, Some(info.delivery_rate as f64)),
    ];
    let known = levels.into_iter().filter_map(|(quantity, value)| Some((quantity, value?)));
    out.extend(known.map(|(quantity, value)| (Subject::Path(flow, path), Sample { at, quantity, value })));
}

/// The unspecified address of the same IP version, with the same port.
fn anywhere(at: SocketAddr) -> SocketAddr {
    HostAddress::unspecified_for(at).at(at.port())
}
