//! The server: one port for everything, and as many sessions at once as are allowed.
//!
//! Each connection has a thread of its own from when it comes; there are no more of them than [`Server`] allows, and whoever
//! says nothing that is spoken here is hung up on. Only a session that was let in may have data, and datagrams go to the host of
//! its control connection only.

mod echo;
mod rooms;
mod session;

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration as StdDuration, Instant as StdInstant};

use netrig_agent::Clock;
use netrig_agent::probe::stamp::Key;
use netrig_agent::tls::{self, Identity, TlsError};
use netrig_core::Duration;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::ServerConfig;

use self::rooms::{Arrival, Rooms};
use crate::admission::{Admission, Limits};
use crate::protocol::{ECHO_LEN, Echo, Opening, PREAMBLE_LEN, Preamble};
use crate::talk::PATIENCE;

/// How often it looks whether it is to end.
const LOOK: StdDuration = StdDuration::from_millis(50);

/// Connections beside those of sessions that were let in or wait: handshakes, and what turns out to be something else.
const STRANGERS: usize = 64;

/// What a server is to do.
#[derive(Debug)]
pub struct ServerOrder {
    /// Where it listens, with TCP and UDP.
    pub listen: Vec<SocketAddr>,
    /// The key that clients must have.
    pub key: Option<Key>,
    /// It may be reached from other hosts although it has no key.
    pub open: bool,
    /// As whom it answers; a new one that has signed itself if not given.
    pub identity: Option<Identity>,
    /// Whom it lets in.
    pub limits: Limits,
}

/// Why a server cannot be.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Anybody could use it.
    #[error(
        "{0} can be reached from other hosts: give a key that the clients have too, or say that anybody may measure (--open)"
    )]
    Open(IpAddr),
    /// A port cannot be had.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the kernel answered.
        source: io::Error,
    },
    /// No certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The kernel refuses what it always grants.
    #[error("{what}: {source}")]
    Kernel {
        /// What.
        what: &'static str,
        /// What it answered.
        source: io::Error,
    },
}

/// What a server has done so far.
#[derive(Debug, Default)]
pub struct Tally {
    /// Sessions that were let in.
    pub sessions: AtomicU64,
    /// Phases that were carried out.
    pub phases: AtomicU64,
    /// Bytes received and sent as data.
    pub bytes: [AtomicU64; 2],
    /// Connections that were hung up on, and sessions broken off, by the reason.
    failures: Mutex<BTreeMap<String, u64>>,
}

/// Reasons that are told apart.
const MOST_REASONS: usize = 64;

impl Tally {
    /// Something was broken off.
    pub fn failed(&self, why: &dyn std::fmt::Display) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let why = why.to_string();
        let known = failures.len() < MOST_REASONS || failures.contains_key(&why);
        *failures.entry(if known { why } else { "other reasons".to_owned() }).or_default() += 1;
    }

    /// What was broken off, by the reason.
    pub fn failures(&self) -> BTreeMap<String, u64> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What all threads of a server share.
struct Shared {
    key: Option<Key>,
    tls: Arc<ServerConfig>,
    clock: Clock,
    admission: Mutex<Admission>,
    rooms: Rooms,
    connections: AtomicUsize,
    most_connections: usize,
    tally: Tally,
    stop: AtomicBool,
}

/// A server whose sockets stand.
pub struct Server {
    listeners: Vec<(TcpListener, UdpSocket)>,
    shared: Arc<Shared>,
}

impl Server {
    /// Opens its sockets.
    ///
    /// # Errors
    /// If anybody could use it and nobody has said that they may, or a port cannot be had.
    pub fn open(order: ServerOrder) -> Result<Self, ServerError> {
        let reachable = order.listen.iter().find(|address| !address.ip().is_loopback());
        if let (Some(address), None, false) = (reachable, &order.key, order.open) {
            return Err(ServerError::Open(address.ip()));
        }
        let identity = match order.identity {
            Some(identity) => identity,
            None => Identity::self_signed(vec!["localhost".to_owned()])?,
        };
        let listeners = order.listen.iter().map(|address| {
            let failed = |source| ServerError::Listen { address: *address, source };
            listen(*address).map_err(failed)
        });
        let listeners = listeners.collect::<Result<Vec<_>, _>>()?;
        let limits = order.limits;
        let shared = Shared {
            key: order.key,
            tls: tls::server(&identity, None)?,
            clock: Clock::starting_in(Duration::ZERO),
            admission: Mutex::new(Admission::new(limits)),
            rooms: Rooms::default(),
            connections: AtomicUsize::new(0),
            most_connections: limits.sessions + limits.queue + STRANGERS,
            tally: Tally::default(),
            stop: AtomicBool::new(false),
        };
        Ok(Self { listeners, shared: Arc::new(shared) })
    }

    /// Where it listens.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|(listener, _)| listener.local_addr().ok()).collect()
    }

    /// What it has done so far.
    pub fn tally(&self) -> &Tally {
        &self.shared.tally
    }

    /// Serves until `stop`, and until all that it has begun has ended.
    ///
    /// # Errors
    /// If the kernel refuses what it always grants.
    pub fn serve(&self, stop: &AtomicBool) -> Result<(), ServerError> {
        let served = self.serve_until(stop);
        self.shared.stop.store(true, Ordering::Relaxed);
        while self.shared.connections.load(Ordering::Relaxed) > 0 {
            std::thread::sleep(StdDuration::from_millis(5));
        }
        served
    }

    fn serve_until(&self, stop: &AtomicBool) -> Result<(), ServerError> {
        let kernel = |what| move |source| ServerError::Kernel { what, source };
        let timeout = Timespec::try_from(LOOK).map_err(|error| kernel("poll")(io::Error::other(error)))?;
        while !stop.load(Ordering::Relaxed) {
            let sockets = self
                .listeners
                .iter()
                .flat_map(|(tcp, udp)| [PollFd::new(tcp, PollFlags::IN), PollFd::new(udp, PollFlags::IN)]);
            let mut sockets: Vec<_> = sockets.collect();
            match poll(&mut sockets, Some(&timeout)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(kernel("poll")(error.into())),
            }
            for (listener, datagrams) in &self.listeners {
                self.accept(listener);
                self.hear_knocks(datagrams);
            }
        }
        Ok(())
    }

    /// Gives each connection that has come a thread of its own.
    fn accept(&self, listener: &TcpListener) {
        while let Ok((socket, peer)) = listener.accept() {
            let shared = Arc::clone(&self.shared);
            let connections = shared.connections.fetch_add(1, Ordering::Relaxed);
            let gone = Leaving(Arc::clone(&shared));
            if connections >= shared.most_connections {
                shared.tally.failed(&"more connections than are allowed");
                continue;
            }
            let serve = move || {
                let _gone = gone;
                if let Err(error) = receive(socket, peer, &shared) {
                    shared.tally.failed(&error);
                }
            };
            if let Err(error) = std::thread::Builder::new().name("speed-session".to_owned()).spawn(serve) {
                self.shared.tally.failed(&error);
            }
        }
    }

    /// Takes what comes for sessions by datagrams; each session has its own socket from then on.
    fn hear_knocks(&self, datagrams: &UdpSocket) {
        let mut buffer = [0; ECHO_LEN + 1];
        while let Ok((len, from)) = datagrams.recv_from(&mut buffer) {
            let bytes = &buffer[..len];
            let arrival = match (Echo::decode(bytes), Preamble::decode(bytes)) {
                (Some(echo), _) => Some((echo.preamble.token, Arrival::Echo(from))),
                (None, Some(preamble)) if len == PREAMBLE_LEN => {
                    Some((preamble.token, Arrival::Knock(preamble, from)))
                }
                _ => None,
            };
            // What belongs to no session is not answered: who sent it may have given another's address.
            if let Some((token, arrival)) = arrival {
                self.shared.rooms.visit(token, from.ip(), arrival);
            }
        }
    }
}

/// A connection that is over when it is dropped.
struct Leaving(Arc<Shared>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Sockets for both protocols at one address and port.
fn listen(address: SocketAddr) -> io::Result<(TcpListener, UdpSocket)> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let datagrams =
        netrig_agent::bulk::shared_datagram_socket(listener.local_addr()?).map_err(io::Error::other)?;
    Ok((listener, datagrams))
}

/// Finds out what a connection is, and serves it.
fn receive(mut socket: TcpStream, peer: SocketAddr, shared: &Arc<Shared>) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    let until = StdInstant::now() + PATIENCE;
    loop {
        let left = until.saturating_duration_since(StdInstant::now());
        if left.is_zero() || shared.stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("a connection that says nothing"));
        }
        socket.set_read_timeout(Some(left.min(LOOK)))?;
        let mut bytes = [0; PREAMBLE_LEN];
        let len = match socket.peek(&mut bytes) {
            Ok(0) => return Err(io::Error::other("a connection that ends before it says anything")),
            Ok(len) => len,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                continue;
            }
            Err(error) => return Err(error),
        };
        match Opening::of(&bytes[..len]) {
            Opening::More => std::thread::sleep(StdDuration::from_millis(1)),
            Opening::Control => return session::serve(socket, peer, shared).map_err(io::Error::other),
            Opening::Data(preamble) => {
                socket.read_exact(&mut bytes)?;
                let arrival = Arrival::Stream(preamble, socket);
                let welcome = shared.rooms.visit(preamble.token, peer.ip(), arrival);
                return if welcome {
                    Ok(())
                } else {
                    Err(io::Error::other("data that belongs to no session"))
                };
            }
            Opening::Iperf3 | Opening::Http | Opening::Unknown => {
                return Err(io::Error::other("a connection that says nothing that is spoken here"));
            }
        }
    }
}
