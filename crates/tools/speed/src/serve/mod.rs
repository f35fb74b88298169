//! The server: one port for all protocols, and a limited number of concurrent sessions.
//!
//! One thread accepts connections, detects their protocol by the first bytes ([`pending`]), and receives datagrams that
//! do not belong to a session's own socket. Each session then has its own thread. [`AdmissionLimits`] bound their
//! number. A connection with an unsupported protocol is closed. Only an admitted session gets data, and its datagrams
//! go only to the host of its control connection.

mod echo;
mod http;
mod iperf3;
mod ndt7;
mod order;
mod pending;
mod registry;
mod response;
mod session;
mod shared;
mod slot;
mod tally;

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration as StdDuration;

use netrig_bulk as bulk;
use netrig_core::Duration;
use netrig_host::tls::{self, Identity};
use netrig_host::{Clock, DescriptorShortage, SlotLimits, ThreadSlotError, ThreadSlots, connections_within};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

pub use self::order::{ServerError, ServerOrder};
use self::pending::{OpeningError, PendingConnections, send_busy};
use self::registry::{SessionArrival, SessionRegistry, TestArrival, TestRegistry};
use self::shared::{AT_ONCE, ServedConnection, ServerShared};
pub use self::tally::{ClientProtocol, ServerActivity, ServerTally, ServiceFailure};
use crate::admission::{Admission, AdmissionLimits, HOUSEHOLDS_OF_A_SITE};
use crate::iperf3::{COOKIE_LEN, Cookie, Iperf3Code, Iperf3Refusal, TestState};
use crate::protocol::{ConnectionOpening, ECHO_LEN, MOST_PROBES, MOST_STREAMS, PREAMBLE_LEN};

/// Maximum wait before the stop flag is checked.
const LOOK: StdDuration = StdDuration::from_millis(50);

/// Maximum number of connections with a thread in addition to admitted and waiting sessions and their probes. They are
/// in a handshake or request counters.
const STRANGERS: usize = 64;

/// Maximum number of such connections from one household.
const STRANGERS_OF_ONE: usize = 16;

/// Pause after a failure to accept a connection, in which other connections may end.
const RESPITE: StdDuration = StdDuration::from_millis(1);

/// A control connection fails if the peer does not acknowledge data for this time (RFC 5482), ms.
const UNANSWERED_MS: u32 = 30_000;

/// A server with open sockets.
pub struct Server {
    listeners: Vec<(TcpListener, UdpSocket)>,
    shared: Arc<ServerShared>,
    /// The limits of connections whose protocol is not known yet.
    pending: SlotLimits,
    shortage: Option<DescriptorShortage>,
}

impl Server {
    /// Opens the sockets.
    ///
    /// # Errors
    /// If other hosts could reach the server without a key and `open` is false, or if a port is not available.
    pub fn open(order: ServerOrder) -> Result<Self, ServerError> {
        let addresses = order.addresses()?;
        let ServerOrder { settings, limits, connections, keys } = order;
        let identity = match settings.certificate.zip(settings.certificate_key) {
            Some((certificate, key)) => Identity::read(&certificate, &key)?,
            None => Identity::self_signed(vec!["localhost".to_owned()])?,
        };
        let listeners = addresses
            .into_iter()
            .map(|address| listen(address).map_err(|source| ServerError::Listen { address, source }));
        let listeners = listeners.collect::<Result<Vec<_>, _>>()?;
        let shared = ServerShared {
            keys,
            open: settings.open,
            origins: settings.allow_origin.iter().map(ToString::to_string).collect(),
            tls: tls::server(&identity, None)?,
            clock: Clock::starting_in(Duration::ZERO),
            limits,
            admission: Mutex::new(Admission::new(limits)),
            sessions: SessionRegistry::default(),
            tests: TestRegistry::default(),
            connections: AtomicUsize::new(0),
            callers: ThreadSlots::new(connections.of(slot_limits(&limits))),
            tally: ServerTally::default(),
            stop: AtomicBool::new(false),
        };
        let (pending, shortage) = descriptors(&limits, listeners.len());
        let pending =
            pending::limits(pending, connections.connections_per_address, connections.connections_per_group);
        Ok(Self { listeners, shared: Arc::new(shared), pending, shortage })
    }

    /// The shortage of file descriptors, if the system allows fewer descriptors than the limits require.
    pub const fn shortage(&self) -> Option<DescriptorShortage> {
        self.shortage
    }

    /// The addresses at which the server listens: first those of its port, then those of its port for iperf3 clients.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|(listener, _)| listener.local_addr().ok()).collect()
    }

    /// The counters of the server.
    pub fn tally(&self) -> &ServerTally {
        &self.shared.tally
    }

    /// The current activity.
    pub fn now(&self) -> ServerActivity {
        self.shared.now()
    }

    /// Serves until `stop` is set and all sessions have ended.
    ///
    /// # Errors
    /// If a system call fails that normally succeeds.
    pub fn serve(&self, stop: &AtomicBool) -> Result<(), ServerError> {
        let served = self.serve_until(stop);
        self.shared.stop.store(true, Ordering::Relaxed);
        while self.shared.connections.load(Ordering::Relaxed) > 0 {
            std::thread::sleep(StdDuration::from_millis(5));
        }
        served
    }

    fn serve_until(&self, stop: &AtomicBool) -> Result<(), ServerError> {
        let kernel = |source| ServerError::Kernel { what: "poll", source };
        let mut pending = PendingConnections::new(self.pending);
        while !stop.load(Ordering::Relaxed) {
            let timeout =
                Timespec::try_from(pending.soon(LOOK)).map_err(|error| kernel(io::Error::other(error)))?;
            let listening = self.listeners.iter().flat_map(|(tcp, udp)| [tcp.as_fd(), udp.as_fd()]);
            let silent = pending.silent().map(|socket| socket.as_fd());
            let mut sockets: Vec<_> = listening
                .chain(silent)
                .map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN))
                .collect();
            match poll(&mut sockets, Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(kernel(error.into())),
            }
            for (listener, datagrams) in &self.listeners {
                self.accept(listener, &mut pending);
                self.receive_datagrams(datagrams);
            }
            for _ in 0..pending.take_gone() {
                self.shared.tally.failed(ClientProtocol::Unknown, &OpeningError::GaveWay);
            }
            for (socket, peer, told) in pending.known() {
                if let Err(error) = told.and_then(|opening| self.receive(socket, peer, opening)) {
                    self.shared.tally.failed(ClientProtocol::Unknown, &error);
                }
            }
        }
        Ok(())
    }

    fn accept(&self, listener: &TcpListener, pending: &mut PendingConnections) {
        for _ in 0..AT_ONCE {
            let entered = match listener.accept() {
                Ok((socket, peer)) => pending.enter(socket, peer),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    // Without a pause, the error would recur immediately, for example if there are too many open files.
                    std::thread::sleep(RESPITE);
                    Err(error.into())
                }
            };
            if let Err(error) = entered {
                self.shared.tally.failed(ClientProtocol::Unknown, &error);
            }
        }
    }

    /// Receives the first datagrams of sessions. Later datagrams arrive at a socket of the session.
    fn receive_datagrams(&self, datagrams: &UdpSocket) {
        let mut buffer = [0; ECHO_LEN + 1];
        for _ in 0..AT_ONCE {
            let Ok((len, from)) = datagrams.recv_from(&mut buffer) else { return };
            self.shared.receive_datagram(&buffer[..len], from);
        }
    }

    /// Handles a connection with a known protocol: a data connection goes to its session, other connections start a
    /// session.
    fn receive(
        &self,
        mut socket: TcpStream,
        peer: SocketAddr,
        opening: ConnectionOpening,
    ) -> Result<(), OpeningError> {
        let shared = &self.shared;
        let is_known = match opening {
            ConnectionOpening::Data(preamble) => {
                socket.read_exact(&mut [0; PREAMBLE_LEN])?;
                let arrival = SessionArrival::Stream(preamble, socket);
                shared.sessions.pass(&preamble.token, peer.ip(), arrival)
            }
            ConnectionOpening::Iperf3(cookie) => {
                socket.read_exact(&mut [0; COOKIE_LEN])?;
                if shared.tests.sessions.has(&cookie) {
                    shared.tests.sessions.pass(&cookie, peer.ip(), TestArrival::Stream(socket))
                } else {
                    return self.begin_iperf3(socket, peer, cookie);
                }
            }
            ConnectionOpening::Control => return self.begin(socket, peer, session::serve),
            ConnectionOpening::Http => return self.begin(socket, peer, http::serve),
            ConnectionOpening::More | ConnectionOpening::Unknown => return Err(OpeningError::Unknown),
        };
        if is_known { Ok(()) } else { Err(OpeningError::NoSession) }
    }

    fn begin_iperf3(
        &self,
        mut socket: TcpStream,
        peer: SocketAddr,
        cookie: Cookie,
    ) -> Result<(), OpeningError> {
        if !self.shared.serves_strangers(&socket) {
            let refusal = Iperf3Refusal::from(Iperf3Code::AUTHORIZATION);
            // The client prints that it is not authorized. If the client does not read, the error of the write is
            // ignored.
            let _ = socket.write_all(&[&[TestState::ServerError.byte()][..], &refusal.bytes()].concat());
            return Err(OpeningError::NoKey);
        }
        let arrivals = self.shared.tests.sessions.open(cookie, peer.ip(), 4 * crate::iperf3::MOST_STREAMS);
        let begun = self.begin(socket, peer, move |socket, peer, shared| {
            iperf3::serve(socket, peer, cookie, arrivals, shared);
        });
        begun.inspect_err(|_| self.shared.tests.close(peer.ip(), cookie))
    }

    /// Starts the thread of a session.
    fn begin(
        &self,
        socket: TcpStream,
        peer: SocketAddr,
        serve: impl FnOnce(TcpStream, SocketAddr, &ServedConnection) + Send + 'static,
    ) -> Result<(), OpeningError> {
        let caller = match ServedConnection::of(&self.shared, &socket, peer) {
            Ok(caller) => caller,
            Err(ThreadSlotError::Busy(busy)) => {
                send_busy(&socket, busy);
                return Err(busy.into());
            }
            Err(ThreadSlotError::Io(error)) => return Err(error.into()),
        };
        rustix::net::sockopt::set_tcp_user_timeout(&socket, UNANSWERED_MS).map_err(io::Error::from)?;
        let thread = std::thread::Builder::new().name("speed-session".to_owned());
        thread.spawn(move || serve(socket, peer, &caller))?;
        Ok(())
    }
}

/// The limits of connections that have a thread.
const fn slot_limits(limits: &AdmissionLimits) -> SlotLimits {
    let per_address = threads(limits.per_address, limits.queue_per_address, STRANGERS_OF_ONE);
    let strangers = STRANGERS.saturating_add(limits.sessions.saturating_mul(MOST_PROBES));
    let known = threads(limits.sessions, limits.queue, 0);
    SlotLimits {
        strangers,
        known,
        total: strangers.saturating_add(known),
        per_address,
        per_group: per_address.saturating_mul(HOUSEHOLDS_OF_A_SITE),
        on_loopback: false,
    }
}

/// File descriptors in addition to those of connections.
const OTHER_DESCRIPTORS: u64 = 32;

/// The limit of pending connections, and the shortage of file descriptors.
fn descriptors(limits: &AdmissionLimits, listeners: usize) -> (usize, Option<DescriptorShortage>) {
    let SlotLimits { strangers, known, .. } = slot_limits(limits);
    let data = (limits.sessions as u64).saturating_mul(2 * u64::from(MOST_STREAMS) + 4);
    let threads = 2 * strangers as u64 + known as u64;
    let others = OTHER_DESCRIPTORS + pending::MOST_TURNED_AWAY as u64 + 2 * listeners as u64;
    let others = others.saturating_add(threads).saturating_add(data);
    let (pending, shortage) = connections_within(pending::MOST, 1, others);
    // Some connections must be accepted even if the descriptors do not suffice for all sessions at the same time.
    let least = shortage.map_or(0, |shortage| shortage.allowed as usize / 4).min(pending::MOST);
    (
        pending.max(least),
        shortage.map(|shortage| DescriptorShortage { connections: pending.max(least), ..shortage }),
    )
}

/// Maximum number of connections with a thread, computed from the maximum numbers of sessions that measure, of sessions
/// that wait, and of connections without a session.
const fn threads(measuring: usize, waiting: usize, strangers: usize) -> usize {
    measuring.saturating_mul(1 + MOST_PROBES).saturating_add(waiting).saturating_add(strangers)
}

/// Opens a TCP and a UDP socket at one address and port. An IPv6 socket does not accept IPv4: IPv4 addresses have their
/// own sockets.
fn listen(address: SocketAddr) -> io::Result<(TcpListener, UdpSocket)> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, listen, socket_with, sockopt};
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    // Connections of an earlier server must not prevent the bind.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    let listener = TcpListener::from(socket);
    let datagrams = bulk::shared_datagram_socket(listener.local_addr()?).map_err(io::Error::other)?;
    Ok((listener, datagrams))
}

/// Length of the accept queue. The kernel limits it to net.core.somaxconn.
const BACKLOG: i32 = 4096;
