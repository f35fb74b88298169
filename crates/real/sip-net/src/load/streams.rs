//! The connections of a thread: those that it opens, and those that the server opens to it.

use netrig_sip::settings::Connections;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bytes::Bytes;
use netrig_core::{Duration, Instant};
use netrig_sip::header::Transport;
use netrig_sip::load::{
    Broken, ConnectionScope, Key, LONGEST_MESSAGE, MessageConnection, Outbox, Owner, TlsFault, Token,
};
use netrig_sip::{Framed, FramingError};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use slab::Slab;

use super::order::{LoadError, LoadTls, Reconnecting};
use super::source_ports::SourcePorts;
use super::tester::TesterSecond;
use crate::tap::StampedTap;
use crate::{Bounds, SipStream, StreamError, Turn};
use netrig_host::RealtimeOffset;
use netrig_host::socket::TcpOptions;
use netrig_host::socket::{SocketBuilder, TimestampMode};
use netrig_host::{Clock, HostAddress, Watch};

/// Backlog of the listening socket.
const BACKLOG: i32 = 4096;

/// Number of ports that are tried for a connection before the kernel chooses one.
const PORTS_TRIED: usize = 32;

/// Maximum number of sockets that one poll reports.
const REPORTS: usize = 64;

/// Each of these flags reports that the peer has closed its sending direction.
const ENDED: epoll::EventFlags =
    epoll::EventFlags::RDHUP.union(epoll::EventFlags::HUP).union(epoll::EventFlags::ERR);

/// The poller's key of the listening socket. The key of a connection is its index in `slots`.
const LISTENER: u64 = u64::MAX;

/// Memory limits of each connection, bytes. They are high because all calls of a thread may share one connection.
const BOUNDS: Bounds = Bounds { message: LONGEST_MESSAGE, unsent: 64 << 20 };

/// The set of requests that share a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Lane {
    All,
    User { registers: bool, user: u32 },
    Attempt { registers: bool, key: Key },
}

impl Lane {
    fn of(connecting: Connections, user: u32, attempt: Token) -> Self {
        let registers = attempt.owner == Owner::Registration;
        match connecting {
            // The callees of a thread, which send NOTIFY requests, share one connection.
            _ if attempt.owner == Owner::Callee => Self::All,
            Connections::One => Self::All,
            Connections::PerUser => Self::User { registers, user },
            Connections::PerAttempt => Self::Attempt { registers, key: attempt.key },
        }
    }
}

/// A lost connection, and the requests that it carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lost {
    /// Its destination.
    pub to: SocketAddr,
    /// True if the connection carried registrations, false if it carried the requests of callers, and `None` if both
    /// share it.
    pub registers: Option<bool>,
    pub whose: ConnectionScope,
    pub why: Broken,
}

struct LoadConnection {
    stream: SipStream,
    /// Its local address.
    local: SocketAddr,
    /// Destination, lane, and the value that reports the loss. `None` if the server opened the connection.
    of: Option<(SocketAddr, Lane, Lost)>,
    is_ready: bool,
    /// Whether the peer has closed its sending direction; its data is read to the end.
    has_ended: bool,
    is_dirty: bool,
    /// Whether the connection is closed as soon as all its data has been sent.
    is_done: bool,
    /// Messages that wait for the connection to be established.
    early: Vec<Bytes>,
}

/// A message that waited for its connection to be established and has been sent, with the local and the peer's address.
pub(super) type SentLater = ([SocketAddr; 2], Bytes);

/// All connections of a thread, and the listening socket for connections of the server. Its methods never block.
pub(super) struct LoadStreams {
    connecting: Connections,
    tls: Option<LoadTls>,
    listener: OwnedFd,
    local: SocketAddr,
    /// Source ports for new connections. Without them the kernel chooses the ports.
    ports: Option<SourcePorts>,
    sockets: OwnedFd,
    slots: Slab<Box<LoadConnection>>,
    by_lane: HashMap<(SocketAddr, Lane), usize>,
    /// The last connection to each peer.
    by_peer: HashMap<SocketAddr, usize>,
    /// Destinations of opened connections: the server, and addresses that its messages name.
    destinations: Vec<SocketAddr>,
    ready: Vec<usize>,
    dirty: Vec<usize>,
    accepts: bool,
    lost: Vec<Lost>,
    sent_later: Vec<SentLater>,
    reconnecting: Reconnecting,
    clock: Clock,
    /// Lanes whose connection was lost, with the time of the loss. Empty unless the loss prevents a new connection.
    gone: HashMap<(SocketAddr, Lane), Instant>,
}

impl LoadStreams {
    /// Listens at `local`. Connections are opened later.
    pub fn open(
        local: SocketAddr,
        (connecting, reconnecting): (Connections, Reconnecting),
        tls: Option<LoadTls>,
    ) -> Result<Self, LoadError> {
        let making = SocketBuilder::tcp(&TcpOptions { no_delay: true, ..TcpOptions::default() }, 0, local)?;
        // Connections inherit the time stamps from the listening socket. As soon as one socket has requested time
        // stamps, the kernel makes them for all sockets.
        making.stamped(TimestampMode::Received)?;
        let listener = making.bound()?;
        rustix::net::listen(&listener, BACKLOG).map_err(kernel("listen"))?;
        let name = rustix::net::getsockname(&listener).map_err(kernel("getsockname"))?;
        let sockets = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(kernel("epoll_create"))?;
        watch(&sockets, listener.as_fd(), LISTENER).map_err(LoadError::kernel("epoll_ctl"))?;
        let local: SocketAddr = name.try_into().unwrap_or(local);
        Ok(Self {
            connecting,
            tls,
            local,
            ports: SourcePorts::new(local.port()),
            listener,
            sockets,
            slots: Slab::new(),
            by_lane: HashMap::new(),
            by_peer: HashMap::new(),
            destinations: Vec::new(),
            ready: Vec::new(),
            dirty: Vec::new(),
            accepts: false,
            lost: Vec::new(),
            sent_later: Vec::new(),
            reconnecting,
            clock: Clock::starting_in(Duration::ZERO),
            gone: HashMap::new(),
        })
    }

    /// The listening address.
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// TCP or TLS.
    pub const fn transport(&self) -> Transport {
        if self.tls.is_some() { Transport::Tls } else { Transport::Tcp }
    }

    /// A descriptor that is readable while a socket has received data.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.sockets.as_fd()
    }

    /// Messages that waited for their connection to be established and have been sent since the last call.
    pub fn take_sent_later(&mut self) -> Vec<SentLater> {
        std::mem::take(&mut self.sent_later)
    }

    /// Connections that were lost since the last call.
    pub fn take_lost(&mut self) -> Vec<Lost> {
        std::mem::take(&mut self.lost)
    }

    /// Calls [`SipStream::receive`] once for each ready connection. Passes on each message with the local and the
    /// peer's address, and with the time at which the kernel received it. Returns whether more messages may be waiting.
    pub fn receive(
        &mut self,
        clock: &Clock,
        offset: &RealtimeOffset,
        mut each: impl FnMut([SocketAddr; 2], &[u8], Instant),
    ) -> Result<bool, LoadError> {
        let more = self.look()?;
        if std::mem::take(&mut self.accepts) {
            self.accept();
        }
        for place in std::mem::take(&mut self.ready) {
            let Some(connection) = self.slots.get_mut(place) else { continue };
            connection.is_ready = false;
            let ends = [connection.local, connection.stream.peer()];
            let turn = connection.stream.receive(connection.has_ended, |framed, stamp| {
                if let Framed::Message(bytes) = framed {
                    let now = clock.now();
                    let stamped = stamp.map(|ns| clock.instant(offset.monotonic(ns)));
                    each(ends, &bytes, stamped.unwrap_or(now).min(now));
                }
            });
            match turn {
                Ok(Turn::Waits) => {}
                Ok(Turn::GoesOn) => self.mark_ready(place),
                Err(error) => self.end(place, Some(broken(&error))),
            }
            self.mark_dirty(place);
        }
        self.flush();
        Ok(more || !self.ready.is_empty())
    }

    /// Polls the sockets. Returns whether more sockets may be ready.
    fn look(&mut self) -> Result<bool, LoadError> {
        let mut events = Vec::with_capacity(REPORTS);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let spare = rustix::buffer::spare_capacity(&mut events);
        match epoll::wait(&self.sockets, spare, Some(&at_once)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(kernel("epoll_wait")(error)),
        }
        for event in &events {
            match event.data.u64() {
                LISTENER => self.accepts = true,
                place => {
                    // The structure is packed, so its fields cannot be borrowed.
                    let flags = event.flags;
                    if let Some(connection) = self.slots.get_mut(place as usize) {
                        connection.has_ended |= flags.intersects(ENDED);
                    }
                    self.mark_ready(place as usize);
                }
            }
        }
        Ok(events.len() == REPORTS)
    }

    fn mark_ready(&mut self, place: usize) {
        if let Some(connection) = self.slots.get_mut(place)
            && !std::mem::replace(&mut connection.is_ready, true)
        {
            self.ready.push(place);
        }
    }

    fn mark_dirty(&mut self, place: usize) {
        if let Some(connection) = self.slots.get_mut(place)
            && !std::mem::replace(&mut connection.is_dirty, true)
        {
            self.dirty.push(place);
        }
    }

    /// Accepts connections of the server. Errors are ignored.
    fn accept(&mut self) {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        loop {
            match rustix::net::acceptfrom_with(&self.listener, flags) {
                Ok((socket, peer)) => {
                    let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
                    let tls = self.tls.as_ref().and_then(|tls| tls.server.as_ref());
                    if let Some(peer) = peer.filter(|_| self.tls.is_none() || tls.is_some()) {
                        let made = SipStream::accepted(socket, peer, tls, BOUNDS);
                        if let Ok(stream) = made.and_then(SipStream::stamped) {
                            let _taken = self.insert(stream, None);
                        }
                    }
                }
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(_) => return,
            }
        }
    }

    fn insert(&mut self, stream: SipStream, of: Option<(SocketAddr, Lane, Lost)>) -> io::Result<usize> {
        let place = self.slots.vacant_key();
        watch(&self.sockets, stream.fd(), place as u64)?;
        if let Some((to, lane, _)) = of {
            self.by_lane.insert((to, lane), place);
            if !self.destinations.contains(&to) {
                self.destinations.push(to);
            }
        }
        self.by_peer.insert(stream.peer(), place);
        let local = stream.local().unwrap_or(self.local);
        self.slots.insert(Box::new(LoadConnection {
            stream,
            local,
            of,
            is_ready: false,
            has_ended: false,
            is_dirty: false,
            is_done: false,
            early: Vec::new(),
        }));
        Ok(place)
    }

    /// Queues and sends all messages of `waiting`, and passes them to a tap with the time.
    pub fn send(
        &mut self,
        waiting: &Outbox,
        counts: &mut TesterSecond,
        mut tap: Option<(&mut StampedTap, Instant)>,
    ) {
        for (to, way, bytes) in waiting.along() {
            let tap = tap.as_mut().map(|(tap, at)| (&mut **tap, *at));
            self.queue((to, way), bytes, counts, tap);
        }
        self.flush();
    }

    /// Queues a message for the next [`LoadStreams::flush`], and passes it to a tap with the time.
    pub fn queue(
        &mut self,
        (to, way): (SocketAddr, MessageConnection),
        bytes: &[u8],
        counts: &mut TesterSecond,
        tap: Option<(&mut StampedTap, Instant)>,
    ) {
        let place = match way {
            // If the connection of a request has been closed, its response is dropped. RFC 3261 section 18.2.2 would
            // open a new connection, but a server that closes the connection of its own request does not expect a
            // response.
            MessageConnection::Back => self.by_peer.get(&to).copied(),
            MessageConnection::Of { user, attempt } => self.place_for(to, user, attempt, counts),
        };
        let transport = self.transport();
        let Some((place, connection)) =
            place.and_then(|place| self.slots.get_mut(place).map(|connection| (place, connection)))
        else {
            // The server has closed the connection of a response, and the call fails by a timer. The loss of a request
            // has already been reported.
            return;
        };
        let message = Bytes::copy_from_slice(bytes);
        match connection.stream.queue(message.clone()) {
            Ok(()) if !connection.stream.is_established() => {
                connection.early.push(message);
                self.mark_dirty(place);
            }
            Ok(()) => {
                counts.sent += 1;
                if let Some((tap, at)) = tap {
                    tap.message((at, transport), true, [connection.local, connection.stream.peer()], bytes);
                }
                self.mark_dirty(place);
            }
            Err(error) => self.end(place, Some(broken(&error))),
        }
    }

    /// The index of the connection of a user's request. The connection is opened if there is none.
    fn place_for(
        &mut self,
        to: SocketAddr,
        user: u32,
        attempt: Token,
        counts: &mut TesterSecond,
    ) -> Option<usize> {
        let lane = Lane::of(self.connecting, user, attempt);
        if let Some(place) = self.by_lane.get(&(to, lane)) {
            return Some(*place);
        }
        let whose = match lane {
            Lane::All => ConnectionScope::All,
            Lane::User { user, .. } => ConnectionScope::User(user),
            Lane::Attempt { .. } => ConnectionScope::Attempt(attempt),
        };
        let registers = (lane != Lane::All).then_some(attempt.owner == Owner::Registration);
        let lost = Lost { to, registers, whose, why: Broken::Closed };
        if !self.may_open(to, lane) {
            self.lost.push(lost);
            return None;
        }
        let made = self.connect(to).and_then(SipStream::stamped);
        let placed = made.and_then(|stream| Ok(self.insert(stream, Some((to, lane, lost)))?));
        counts.opened += 1;
        placed
            .inspect_err(|error| {
                let why = broken(error);
                counts.unopened += u64::from(why == Broken::Unopened);
                self.lost.push(Lost { why, ..lost });
            })
            .ok()
    }

    /// Opens a connection from the next free source port.
    fn connect(&mut self, to: SocketAddr) -> Result<SipStream, StreamError> {
        let Self { tls, ports, local, .. } = self;
        let begin = |port| {
            let tls = tls.as_ref().map(|tls| (&tls.client, tls.name.clone()));
            SipStream::connect(HostAddress::from(*local).at(port), to, tls, BOUNDS)
        };
        for _ in 0..PORTS_TRIED {
            let Some(port) = ports.as_mut().map(SourcePorts::take) else { break };
            match begin(port) {
                // Another socket uses the port, or a connection from the port to this server is open or in TIME-WAIT.
                Err(StreamError::Io(error))
                    if matches!(error.raw_os_error(), Some(libc::EADDRINUSE | libc::EADDRNOTAVAIL)) => {}
                made => return made,
            }
        }
        begin(0)
    }

    /// Whether a connection may be opened: no previous connection was lost, or the loss was long enough ago.
    fn may_open(&mut self, to: SocketAddr, lane: Lane) -> bool {
        let Some(since) = self.gone.get(&(to, lane)) else { return true };
        let may = match self.reconnecting {
            Reconnecting::Never => false,
            Reconnecting::After(pause) => self.clock.now() >= *since + pause,
        };
        if may {
            self.gone.remove(&(to, lane));
        }
        may
    }

    /// Records the end of an attempt, and closes its own connection.
    pub fn release(&mut self, attempt: Token) {
        if self.connecting != Connections::PerAttempt {
            return;
        }
        let lane = Lane::of(self.connecting, 0, attempt);
        for at in 0..self.destinations.len() {
            // The next attempt opens its own connection, even if this connection has data to send.
            let Some(place) = self.by_lane.remove(&(self.destinations[at], lane)) else { continue };
            if let Some(connection) = self.slots.get_mut(place) {
                connection.is_done = true;
            }
            self.mark_dirty(place);
        }
        self.flush();
    }

    /// Sends the queued data of each connection.
    pub fn flush(&mut self) {
        for place in std::mem::take(&mut self.dirty) {
            let Some(connection) = self.slots.get_mut(place) else { continue };
            connection.is_dirty = false;
            let flushed = connection.stream.flush();
            if flushed.is_ok() && connection.stream.is_established() {
                let ends = [connection.local, connection.stream.peer()];
                self.sent_later.extend(connection.early.drain(..).map(|message| (ends, message)));
            }
            match flushed {
                Ok(()) if connection.is_done && !connection.stream.has_unsent() => self.end(place, None),
                Ok(()) => {}
                Err(error) => self.end(place, Some(broken(&error))),
            }
        }
    }

    fn end(&mut self, place: usize, why: Option<Broken>) {
        let Some(mut connection) = self.slots.try_remove(place) else { return };
        if let Some((to, lane, lost)) = connection.of {
            if self.by_lane.get(&(to, lane)) == Some(&place) {
                self.by_lane.remove(&(to, lane));
            }
            if let Some(why) = why.filter(|_| !connection.is_done) {
                self.lost.push(Lost { why, ..lost });
                // The loss need not be recorded if no other attempt uses the connection.
                let is_kept = self.reconnecting != Reconnecting::default();
                if is_kept && !matches!(lane, Lane::Attempt { .. }) {
                    self.gone.insert((to, lane), self.clock.now());
                }
            }
        }
        let peer = connection.stream.peer();
        if self.by_peer.get(&peer) == Some(&place) {
            self.by_peer.remove(&peer);
        }
        if why.is_none() {
            connection.stream.say_goodbye();
        }
    }
}

fn watch(sockets: &OwnedFd, socket: BorrowedFd<'_>, key: u64) -> io::Result<()> {
    Ok(epoll::add(sockets, socket, epoll::EventData::new_u64(key), Watch::Both.flags())?)
}

fn kernel(what: &'static str) -> impl Fn(Errno) -> LoadError {
    move |error| LoadError::kernel(what)(error.into())
}

/// The kind of a TLS error.
fn tls_fault(error: &rustls::Error) -> TlsFault {
    use rustls::{AlertDescription, CertificateError, Error};

    match error {
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => TlsFault::Name,
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => TlsFault::Authority,
        Error::InvalidCertificate(
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. },
        ) => TlsFault::Time,
        Error::InvalidCertificate(_) | Error::NoCertificatesPresented => TlsFault::Certificate,
        Error::PeerIncompatible(_) | Error::AlertReceived(AlertDescription::ProtocolVersion) => {
            TlsFault::Version
        }
        Error::AlertReceived(alert) => TlsFault::Alert(alert.as_str().unwrap_or("of no known name")),
        Error::InvalidMessage(_) => TlsFault::Garbled,
        Error::PeerMisbehaved(_)
        | Error::InappropriateMessage { .. }
        | Error::InappropriateHandshakeMessage { .. }
        | Error::DecryptError
        | Error::PeerSentOversizedRecord => TlsFault::Misbehaved,
        _ => TlsFault::Other,
    }
}

/// The kind of failure that ended a connection.
fn broken(error: &StreamError) -> Broken {
    let error = match error {
        StreamError::Io(error) => error,
        StreamError::Closed => return Broken::Closed,
        StreamError::Framing(FramingError::HeadTooLong | FramingError::TooLong { .. }) => {
            return Broken::TooLong;
        }
        StreamError::Framing(FramingError::NoLength(_)) => return Broken::Garbled,
        StreamError::Tls(error) => return Broken::Tls(tls_fault(error)),
        StreamError::Full { .. } | StreamError::NoRoom { .. } => return Broken::Stuck,
    };
    match error.raw_os_error() {
        Some(libc::ECONNREFUSED) => Broken::Refused,
        Some(libc::EADDRNOTAVAIL | libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => {
            Broken::Unopened
        }
        Some(libc::ETIMEDOUT | libc::EHOSTUNREACH | libc::ENETUNREACH) => Broken::Unreachable,
        _ => Broken::Reset,
    }
}

#[cfg(test)]
mod tests {
    use rustls::{
        AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible, PeerMisbehaved,
    };

    use super::*;

    #[test]
    fn a_port_with_a_connection_to_the_same_server_is_passed_over() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let to = server.local_addr().unwrap();
        // The first connection stays open, because the duration of TIME-WAIT depends on the host (`tcp_tw_reuse`).
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let first = SipStream::connect(free, to, None, BOUNDS).unwrap();
        let port = free.port();
        let connecting = (Connections::PerAttempt, Reconnecting::Never);
        let mut streams = LoadStreams::open("127.0.0.1:0".parse().unwrap(), connecting, None).unwrap();
        let Err(StreamError::Io(error)) =
            SipStream::connect(HostAddress::from(to).at(port), to, None, BOUNDS)
        else {
            panic!("the kernel has two connections between the same ends")
        };
        assert_eq!(error.raw_os_error(), Some(libc::EADDRNOTAVAIL));
        streams.ports = Some(SourcePorts::within(port..=port + 20, port - 1));
        let stream = streams.connect(to).unwrap();
        assert_ne!(stream.local().unwrap().port(), first.local().unwrap().port());
    }

    #[test]
    fn each_fault_of_tls_has_its_reason() {
        for (error, fault) in [
            (Error::InvalidCertificate(CertificateError::NotValidForName), TlsFault::Name),
            (Error::InvalidCertificate(CertificateError::UnknownIssuer), TlsFault::Authority),
            (Error::InvalidCertificate(CertificateError::Expired), TlsFault::Time),
            (Error::InvalidCertificate(CertificateError::NotValidYet), TlsFault::Time),
            (Error::InvalidCertificate(CertificateError::BadEncoding), TlsFault::Certificate),
            (Error::PeerIncompatible(PeerIncompatible::ServerDoesNotSupportTls12Or13), TlsFault::Version),
            (Error::AlertReceived(AlertDescription::ProtocolVersion), TlsFault::Version),
            (Error::AlertReceived(AlertDescription::HandshakeFailure), TlsFault::Alert("HandshakeFailure")),
            (Error::InvalidMessage(InvalidMessage::InvalidContentType), TlsFault::Garbled),
            (Error::PeerMisbehaved(PeerMisbehaved::TooMuchEarlyDataReceived), TlsFault::Misbehaved),
            (Error::General(String::new()), TlsFault::Other),
        ] {
            assert_eq!(tls_fault(&error), fault, "{error}");
        }
    }
}
