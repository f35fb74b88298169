//! The sockets of one user agent: for requests to a server, for requests of peers, and for connections between them.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;

use bytes::Bytes;
use netrig_core::{Duration, Instant};
use netrig_sip::header::Transport;
use netrig_sip::{Framed, Message};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::SendFlags;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};

use super::datagrams::{DatagramBatch, DatagramSocket, is_without_room};
use super::ledger::{AmplificationLedger, Purse};
use super::point::source_towards;
use super::stream::{Bounds, SipStream, StreamError};
use netrig_host::RealtimeOffset;
use netrig_host::socket::{LONGEST_DATAGRAM, SocketError, is_loss};
use netrig_host::sys::MESSAGES;
use netrig_host::{Clock, HostAddress};

/// The path on which a message arrived. The answer takes the same path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalPath {
    /// A datagram from this address.
    Datagram(SocketAddr),
    /// A connection that the user agent opened, by its key.
    Own(u64, SocketAddr),
    /// A connection that the peer opened, by its number.
    Accepted(u64, SocketAddr),
}

impl ArrivalPath {
    /// The address of the peer.
    pub const fn peer(self) -> SocketAddr {
        match self {
            Self::Datagram(peer) | Self::Own(_, peer) | Self::Accepted(_, peer) => peer,
        }
    }
}

/// A message that has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrivedBytes {
    /// The time at which the kernel received the message; over a connection, its last part.
    pub at: Instant,
    /// The path from the sender; a response takes it too.
    pub path: ArrivalPath,
    /// The message.
    pub bytes: Bytes,
}

/// The TLS configuration of a connection, and the name that the server's certificate must have.
pub type LineTls = (Arc<ClientConfig>, ServerName<'static>);

/// The addresses of a server and of a user agent, and the options of the user agent's sockets.
#[derive(Clone, Debug)]
pub struct EndAddress {
    /// UDP, TCP or TLS.
    pub transport: Transport,
    /// The server.
    pub server: SocketAddr,
    /// Local address of the user agent.
    pub local: HostAddress,
    /// Local port; with 0 the system chooses one.
    pub port: u16,
    /// TLS to the server.
    pub tls: Option<LineTls>,
    /// TLS on connections that a peer opens. Without it they are plain TCP.
    pub server_tls: Option<Arc<ServerConfig>>,
    /// Requested size of the receive buffer over UDP, bytes.
    pub room: u32,
    /// Maximum number of simultaneous connections that peers have opened. With 0 the user agent does not listen, and
    /// its local address is that of its first connection.
    pub most_accepted: usize,
    /// Whether the user agent answers unvalidated addresses over UDP. An unvalidated address gets at most three times
    /// the bytes that it sent.
    pub answers_strangers: bool,
}

impl EndAddress {
    /// Size of the receive buffer of a user agent with one transaction at a time, bytes.
    const ROOM: u32 = 256 * 1024;

    /// Limit of the connections that a server may open to such a user agent.
    const MOST_ACCEPTED: usize = 16;

    /// The addresses of a user agent towards a server. Without `local`, the source address is the one that the system
    /// uses towards the server.
    ///
    /// # Errors
    /// If there is no route to the server.
    pub fn towards(
        server: SocketAddr,
        transport: Transport,
        local: Option<HostAddress>,
        tls: Option<LineTls>,
    ) -> io::Result<Self> {
        let local = match local {
            Some(local) => local,
            None => source_towards(server)?,
        };
        let (room, most_accepted) = (Self::ROOM, Self::MOST_ACCEPTED);
        let answers_strangers = false;
        Ok(Self {
            transport,
            server,
            local,
            port: 0,
            tls,
            server_tls: None,
            room,
            most_accepted,
            answers_strangers,
        })
    }
}

/// A connection of a user agent that has ended.
#[derive(Debug)]
pub struct EndedConnection {
    /// Its path.
    pub path: ArrivalPath,
    /// The reason.
    pub why: StreamError,
}

/// The sockets: a UDP socket; or a listening socket, connections to servers, and connections that peers open.
#[derive(Debug)]
pub struct UserAgentEnd {
    address: EndAddress,
    local: SocketAddr,
    offset: RealtimeOffset,
    way: EndWay,
}

#[derive(Debug)]
enum EndWay {
    Datagrams(Box<EndDatagrams>),
    Connections(EndConnections),
}

struct EndDatagrams {
    socket: DatagramSocket,
    batch: DatagramBatch,
    /// Datagrams that the kernel refused.
    unsent: u64,
    /// Byte accounts of unvalidated addresses; `None` if they are not answered.
    strangers: Option<StrangerAccounts>,
    /// Number of messages withheld because their unvalidated destinations had used up their bytes.
    withheld: u64,
}

/// Byte accounts of unvalidated addresses.
struct StrangerAccounts {
    clock: Clock,
    ledger: AmplificationLedger,
}

impl StrangerAccounts {
    fn receive(&mut self, from: SocketAddr, bytes: &Bytes) {
        let now = self.clock.now();
        self.ledger.receive(now, from, bytes.len());
        if let Ok(message) = Message::parse(bytes) {
            self.ledger.look(now, from, &message);
        }
    }

    /// Whether a message may be sent to an address.
    fn admits(&mut self, to: SocketAddr, bytes: &Bytes) -> bool {
        let now = self.clock.now();
        match Message::parse(bytes) {
            Ok(message) => self.ledger.admit(now, to, &message, (bytes.len(), false), &mut Purse::default()),
            // Bytes that do not parse have no tag by which the receiver could prove its address.
            Err(_) => self.ledger.charge(now, to, bytes.len()),
        }
    }
}

impl std::fmt::Debug for EndDatagrams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EndDatagrams").field("unsent", &self.unsent).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct EndConnections {
    listener: Option<TcpListener>,
    own: BTreeMap<u64, SipStream>,
    accepted: BTreeMap<u64, SipStream>,
    next: u64,
    ended: Vec<EndedConnection>,
}

impl UserAgentEnd {
    /// Opens the sockets. The first message to the server opens a connection to it.
    ///
    /// # Errors
    /// If the system refuses a socket.
    pub fn open(address: &EndAddress) -> Result<Self, SocketError> {
        let address = address.clone();
        let at = address.local.at(address.port);
        let offset = RealtimeOffset::measure();
        if address.transport == Transport::Udp {
            let socket = DatagramSocket::open_stamped(at, address.room)?;
            let local = socket.local();
            let batch = DatagramBatch::new(LONGEST_DATAGRAM);
            let accounts = || StrangerAccounts {
                clock: Clock::starting_in(Duration::ZERO),
                ledger: AmplificationLedger::default(),
            };
            let strangers = address.answers_strangers.then(accounts);
            let way = EndWay::Datagrams(Box::new(EndDatagrams {
                socket,
                batch,
                unsent: 0,
                strangers,
                withheld: 0,
            }));
            return Ok(Self { address, local, offset, way });
        }
        let refused = |source| SocketError::Refused { what: "listen", address: at, source };
        let (mut listener, mut local) = (None, at);
        if address.most_accepted > 0 {
            let opened = TcpListener::bind(at).map_err(refused)?;
            opened.set_nonblocking(true).map_err(refused)?;
            local = opened.local_addr().map_err(refused)?;
            listener = Some(opened);
        }
        let (own, accepted) = (BTreeMap::new(), BTreeMap::new());
        let way = EndWay::Connections(EndConnections { listener, own, accepted, next: 0, ended: Vec::new() });
        Ok(Self { address, local, offset, way })
    }

    /// The address at which this user agent receives requests. Its Contact and Via contain this address.
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// Sends a message to the server. Over TCP and TLS, a new connection is opened if the previous one has ended.
    ///
    /// # Errors
    /// If there is no route to the server.
    pub fn send(&mut self, bytes: &Bytes) -> Result<(), StreamError> {
        self.send_by(0, self.address.server, bytes)
    }

    /// Sends a message to `to` over the connection with this key. If there is none, or it leads to another peer, a new
    /// one is opened.
    ///
    /// # Errors
    /// If there is no route to `to`.
    pub fn send_by(&mut self, key: u64, to: SocketAddr, bytes: &Bytes) -> Result<(), StreamError> {
        self.flush_by(key, to, Some(bytes))
    }

    /// Opens the connection to the server and waits until it is established. Does nothing over UDP.
    ///
    /// # Errors
    /// If it is not established within this time.
    pub fn connect(&mut self, within: Duration) -> Result<(), StreamError> {
        let clock = Clock::starting_in(Duration::ZERO);
        while !self.is_established() {
            let left = clock.left_until(Instant::ZERO + within);
            if left.is_zero() {
                return Err(io::Error::from(io::ErrorKind::TimedOut).into());
            }
            self.flush_by(0, self.address.server, None)?;
            wait_for_ends(&self.watched(), left);
            self.receive(&clock);
            if let Some(EndedConnection { why, .. }) = self.take_ended().pop() {
                return Err(why);
            }
        }
        Ok(())
    }

    fn is_established(&self) -> bool {
        match &self.way {
            EndWay::Datagrams(_) => true,
            EndWay::Connections(EndConnections { own, .. }) => {
                own.get(&0).is_some_and(SipStream::is_established)
            }
        }
    }

    fn flush_by(&mut self, key: u64, to: SocketAddr, bytes: Option<&Bytes>) -> Result<(), StreamError> {
        let Self { address, local, way, .. } = self;
        match way {
            EndWay::Datagrams(datagrams) => bytes.map_or(Ok(()), |bytes| datagrams.send(bytes, to)),
            EndWay::Connections(EndConnections { own, listener, .. }) => {
                if own.get(&key).is_none_or(|stream| stream.peer() != to) {
                    let from = HostAddress::from(*local).at(0);
                    let tls = address.tls.as_ref().map(|(config, name)| (config, name.clone()));
                    let stream = SipStream::connect(from, to, tls, Bounds::default())?.stamped()?;
                    if listener.is_none() {
                        *local = stream.local()?;
                    }
                    own.insert(key, stream);
                }
                // The stream exists: a missing one was inserted above.
                let Some(stream) = own.get_mut(&key) else { return Ok(()) };
                let sent = bytes.map_or(Ok(()), |bytes| stream.queue(bytes.clone()));
                let sent = sent.and_then(|()| stream.flush());
                if sent.is_err() {
                    own.remove(&key);
                }
                sent
            }
        }
    }

    /// Sends the answer to a message that arrived on `path`. Over UDP it goes to `to`.
    ///
    /// # Errors
    /// If the connection has ended.
    pub fn answer(&mut self, path: ArrivalPath, to: SocketAddr, bytes: &Bytes) -> Result<(), StreamError> {
        match (&mut self.way, path) {
            (EndWay::Datagrams(datagrams), _) => datagrams.answer(bytes, to),
            (EndWay::Connections(EndConnections { accepted, .. }), ArrivalPath::Accepted(number, _)) => {
                let stream = accepted.get_mut(&number).ok_or(StreamError::Closed)?;
                stream.queue(bytes.clone())?;
                stream.flush()
            }
            (EndWay::Connections { .. }, ArrivalPath::Own(key, peer)) => self.send_by(key, peer, bytes),
            (EndWay::Connections { .. }, ArrivalPath::Datagram(_)) => Err(StreamError::Closed),
        }
    }

    /// Closes all connections: those to servers, and those that peers opened.
    pub fn disconnect(&mut self) {
        if let EndWay::Connections(EndConnections { own, accepted, .. }) = &mut self.way {
            own.clear();
            accepted.clear();
        }
    }

    /// Closes the connection to a server with this key, if there is one. [`UserAgentEnd::take_ended`] does not return
    /// it.
    pub fn close_own(&mut self, key: u64) {
        if let EndWay::Connections(EndConnections { own, .. }) = &mut self.way {
            own.remove(&key);
        }
    }

    /// Closes the connection of a path. Does nothing over UDP.
    pub fn close(&mut self, path: ArrivalPath) {
        match (&mut self.way, path) {
            (_, ArrivalPath::Own(key, _)) => self.close_own(key),
            (EndWay::Connections(EndConnections { accepted, .. }), ArrivalPath::Accepted(number, _)) => {
                accepted.remove(&number);
            }
            _ => {}
        }
    }

    /// Whether there is a connection to the server. It may still be in the handshake. Always true over UDP.
    pub fn is_connected(&self) -> bool {
        match &self.way {
            EndWay::Datagrams(_) => true,
            EndWay::Connections(EndConnections { own, .. }) => own.contains_key(&0),
        }
    }

    /// Connections that the peer or an error has ended since the last call.
    pub fn take_ended(&mut self) -> Vec<EndedConnection> {
        match &mut self.way {
            EndWay::Datagrams(_) => Vec::new(),
            EndWay::Connections(EndConnections { ended, .. }) => std::mem::take(ended),
        }
    }

    /// Numbers of datagrams since the last call: those dropped because the receive buffer was full, and those that the
    /// kernel refused to send.
    ///
    /// # Errors
    /// If the kernel does not report the drops.
    pub fn take_losses(&mut self) -> io::Result<(u64, u64)> {
        match &mut self.way {
            EndWay::Datagrams(datagrams) => {
                Ok((datagrams.socket.take_drops()?, std::mem::take(&mut datagrams.unsent)))
            }
            EndWay::Connections { .. } => Ok((0, 0)),
        }
    }

    /// The step of the wall clock since the last call, if it was stepped. Messages that were received meanwhile may
    /// have wrong times.
    pub fn take_clock_step(&mut self) -> Option<Duration> {
        match &mut self.way {
            EndWay::Datagrams(datagrams) => datagrams.batch.take_clock_step(),
            EndWay::Connections { .. } => self.offset.take_step(),
        }
    }

    /// Number of messages withheld since the last call because their unvalidated destinations had used up their bytes.
    pub fn take_withheld(&mut self) -> u64 {
        match &mut self.way {
            EndWay::Datagrams(datagrams) => std::mem::take(&mut datagrams.withheld),
            EndWay::Connections { .. } => 0,
        }
    }

    /// Descriptors to poll. The flag is true if the descriptor is polled for writing too.
    pub fn watched(&self) -> Vec<(BorrowedFd<'_>, bool)> {
        match &self.way {
            EndWay::Datagrams(datagrams) => vec![(datagrams.socket.fd(), false)],
            EndWay::Connections(EndConnections { listener, own, accepted, .. }) => {
                let streams = own.values().chain(accepted.values());
                let streams =
                    streams.map(|stream| (stream.fd(), stream.has_unsent() || !stream.is_established()));
                listener.iter().map(|listener| (listener.as_fd(), false)).chain(streams).collect()
            }
        }
    }

    /// Returns the received messages with their times on `clock`. Does not block.
    pub fn receive(&mut self, clock: &Clock) -> Vec<ArrivedBytes> {
        let Self { address, offset, way, .. } = self;
        let at = |stamp: Option<u64>| {
            let now = clock.now();
            stamp.map_or(now, |ns| clock.instant(offset.monotonic(ns)).min(now))
        };
        let mut came = Vec::new();
        match way {
            EndWay::Datagrams(datagrams) => {
                let EndDatagrams { socket, batch, strangers, .. } = &mut **datagrams;
                loop {
                    let more = socket.receive_stamped(batch, clock, |from, bytes, at| {
                        let (path, bytes) = (ArrivalPath::Datagram(from), Bytes::copy_from_slice(bytes));
                        if let Some(strangers) = strangers {
                            strangers.receive(from, &bytes);
                        }
                        came.push(ArrivedBytes { at, path, bytes });
                    });
                    // An error is ICMP's report on an earlier datagram.
                    if came.len() >= MOST_AT_ONCE || !matches!(more, Ok(true)) {
                        break;
                    }
                }
            }
            EndWay::Connections(connections) => connections.receive(address, at, &mut came),
        }
        came
    }
}

/// Maximum number of datagrams received in one call. The caller handles timers between calls.
const MOST_AT_ONCE: usize = 4 * MESSAGES;

/// Maximum number of ended connections that are kept until [`UserAgentEnd::take_ended`] is called.
const MOST_ENDED: usize = 4096;

/// Waits at most `within` until one of these descriptors is ready.
pub fn wait_for_ends(watched: &[(BorrowedFd<'_>, bool)], within: Duration) {
    let flags = |writes: bool| if writes { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
    let mut polled: Vec<_> =
        watched.iter().map(|(fd, writes)| PollFd::from_borrowed_fd(*fd, flags(*writes))).collect();
    let timeout = Timespec::try_from(std::time::Duration::from(within)).ok();
    // A signal only shortens the wait.
    let _ = poll(&mut polled, timeout.as_ref());
}

impl EndDatagrams {
    /// Sends an answer, unless its unvalidated destination has used up its bytes.
    fn answer(&mut self, bytes: &Bytes, to: SocketAddr) -> Result<(), StreamError> {
        if self.strangers.as_mut().is_some_and(|strangers| !strangers.admits(to, bytes)) {
            self.withheld += 1;
            return Ok(());
        }
        self.send(bytes, to)
    }

    /// Sends a datagram. If the kernel refuses it, the datagram is counted and treated as lost in the network.
    fn send(&mut self, bytes: &Bytes, to: SocketAddr) -> Result<(), StreamError> {
        /// How long a datagram waits for room in the send buffer.
        const PATIENCE: Duration = Duration::from_millis(200);
        let deadline = Clock::starting_in(Duration::ZERO);
        let mut was_told = false;
        loop {
            let error = match rustix::net::sendto(self.socket.fd(), bytes, SendFlags::DONTWAIT, &to) {
                Ok(_) => return Ok(()),
                Err(error) => io::Error::from(error),
            };
            match error.kind() {
                io::ErrorKind::InvalidInput => return Err(error.into()),
                io::ErrorKind::Interrupted => {}
                _ if is_without_room(&error) && deadline.now() < Instant::ZERO + PATIENCE => {
                    let timeout = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
                    let _ = poll(
                        &mut [PollFd::from_borrowed_fd(self.socket.fd(), PollFlags::OUT)],
                        Some(&timeout),
                    );
                }
                // The error may be an ICMP report on an earlier datagram. This datagram has then not been sent, and is
                // tried once more.
                _ if is_loss(&error) && !was_told => was_told = true,
                _ => {
                    self.unsent += 1;
                    return Ok(());
                }
            }
        }
    }
}

impl EndConnections {
    fn receive(
        &mut self,
        address: &EndAddress,
        at: impl Fn(Option<u64>) -> Instant,
        came: &mut Vec<ArrivedBytes>,
    ) {
        while let Some(Ok((socket, peer))) = self.listener.as_ref().map(TcpListener::accept) {
            let _ = socket.set_nonblocking(true);
            let tls = address.server_tls.as_ref();
            let stream = SipStream::accepted(socket.into(), peer, tls, Bounds::default());
            if let Ok(stream) = stream.and_then(SipStream::stamped)
                && self.accepted.len() < address.most_accepted
            {
                self.accepted.insert(self.next, stream);
                self.next += 1;
            }
        }
        let Self { own, accepted, ended, .. } = self;
        let mut turn = |stream: &mut SipStream, path: ArrivalPath| {
            let flushed = stream.flush();
            let received = stream.receive(true, |framed, stamp| {
                if let Framed::Message(bytes) = framed {
                    came.push(ArrivedBytes { at: at(stamp), path, bytes });
                }
            });
            match flushed.and(received).and_then(|_| stream.flush()) {
                Ok(()) => true,
                Err(why) => {
                    if ended.len() < MOST_ENDED {
                        ended.push(EndedConnection { path, why });
                    }
                    false
                }
            }
        };
        own.retain(|key, stream| turn(stream, ArrivalPath::Own(*key, stream.peer())));
        accepted.retain(|number, stream| turn(stream, ArrivalPath::Accepted(*number, stream.peer())));
    }
}
