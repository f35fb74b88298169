//! The state that the threads of a server share.

use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use netrig_bulk as bulk;
use netrig_host::socket::Buffers;
use netrig_host::{Clock, SlotRefusal, ThreadSlot, ThreadSlotError, ThreadSlots};
use rustls::ServerConfig;

use super::registry::{SessionArrival, SessionRegistry, TestRegistry};
use super::tally::{ClientProtocol, ServerActivity, ServerTally};
use crate::admission::{Admission, AdmissionLimits, AdmissionRefusal};
use crate::iperf3::datagram;
use crate::protocol::{ECHO_LEN, EchoDatagram, Keyring, PREAMBLE_LEN, Preamble, SessionToken};

/// Maximum number of connections or datagrams that are taken from one socket before other sockets are polled again.
pub(super) const AT_ONCE: usize = 64;

/// State that all threads of a server share.
pub(super) struct ServerShared {
    pub keys: Keyring,
    pub open: bool,
    pub origins: Vec<String>,
    pub tls: Arc<ServerConfig>,
    pub clock: Clock,
    pub limits: AdmissionLimits,
    pub admission: Mutex<Admission>,
    pub sessions: SessionRegistry<SessionToken, SessionArrival>,
    pub tests: TestRegistry,
    /// Number of connections that have a thread.
    pub connections: AtomicUsize,
    pub callers: Arc<ThreadSlots>,
    pub tally: ServerTally,
    pub stop: AtomicBool,
}

/// A connection with a thread. Its slot becomes free when this value is dropped.
pub(super) struct ServedConnection {
    pub shared: Arc<ServerShared>,
    slot: ThreadSlot,
}

impl ServedConnection {
    pub(super) fn of(
        shared: &Arc<ServerShared>,
        socket: &TcpStream,
        peer: SocketAddr,
    ) -> Result<Self, ThreadSlotError> {
        let slot = shared.callers.enter(socket, peer.ip())?;
        shared.connections.fetch_add(1, Ordering::Relaxed);
        Ok(Self { shared: Arc::clone(shared), slot })
    }

    /// Records that the client has proved its key or sent a whole request. From then on, the connection is not closed
    /// to make room for unknown ones.
    ///
    /// # Errors
    /// If the limit of such clients is reached.
    pub(super) fn prove(&self) -> Result<(), SlotRefusal> {
        self.slot.prove()
    }
}

impl Deref for ServedConnection {
    type Target = ServerShared;

    fn deref(&self) -> &ServerShared {
        &self.shared
    }
}

impl Drop for ServedConnection {
    fn drop(&mut self) {
        self.shared.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ServerShared {
    /// Whether a client without a key may measure over this connection.
    pub(super) fn serves_strangers(&self, socket: &TcpStream) -> bool {
        self.open || socket.local_addr().is_ok_and(|local| local.ip().to_canonical().is_loopback())
    }

    pub(super) fn now(&self) -> ServerActivity {
        let (measuring, waiting) = self.admission().tally();
        ServerActivity { measuring, waiting, connections: self.connections.load(Ordering::Relaxed) }
    }

    /// Handles a datagram that arrived at the listening socket.
    pub(super) fn receive_datagram(&self, bytes: &[u8], from: SocketAddr) {
        let own = |token, arrival| self.sessions.pass(&token, from.ip(), arrival);
        let is_known = match (EchoDatagram::decode(bytes), Preamble::decode(bytes)) {
            (Some(echo), _) => own(echo.preamble.token, SessionArrival::Echo(from)),
            (None, Some(preamble)) if bytes.len() == PREAMBLE_LEN => {
                own(preamble.token, SessionArrival::Datagrams(preamble, from))
            }
            _ => match bytes.try_into() {
                Ok(payload) if datagram::reply(bytes).is_some() => self.tests.pass_datagram(from, payload),
                _ => false,
            },
        };
        // An unknown datagram is not answered, because its source address may be forged.
        if !is_known {
            self.tally.strays.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A UDP socket that is connected to `peer`.
    ///
    /// Between bind and connect, the new socket also receives datagrams for the listening socket. Datagrams from other
    /// addresses are handled as if they had arrived at the listening socket.
    pub(super) fn datagram_socket(&self, local: SocketAddr, peer: SocketAddr) -> io::Result<UdpSocket> {
        let socket = bulk::datagram_socket(local, peer, Buffers::default()).map_err(io::Error::other)?;
        let mut buffer = [0; ECHO_LEN + 1];
        for _ in 0..AT_ONCE {
            match socket.recv_from(&mut buffer) {
                Ok((len, from)) if from != peer => self.receive_datagram(&buffer[..len], from),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        Ok(socket)
    }

    pub(super) fn admission(&self) -> MutexGuard<'_, Admission> {
        // The state is consistent even after a panic in another thread, because no call leaves it half changed.
        self.admission.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn refuse(&self, protocol: ClientProtocol, refusal: AdmissionRefusal) -> AdmissionRefusal {
        self.tally.refused(protocol, refusal);
        refusal
    }
}
