//! What the threads of a server share.

use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use netrig_bulk as bulk;
use netrig_host::socket::Buffers;
use netrig_host::{Clock, SlotRefusal, ThreadSlot, ThreadSlotError, ThreadSlots};
use rustls::ServerConfig;

use super::booths::Booths;
use super::rooms::{Rooms, SessionArrival};
use super::tally::{ClientProtocol, ServerActivity, ServerTally};
use crate::admission::{Admission, AdmissionLimits, AdmissionRefusal};
use crate::iperf3::datagram;
use crate::protocol::{ECHO_LEN, EchoDatagram, Keyring, PREAMBLE_LEN, Preamble};

/// Connections, and datagrams, that are taken before the others are looked at again.
pub(super) const AT_ONCE: usize = 64;

/// What all threads of a server share.
pub(super) struct ServerShared {
    pub keys: Keyring,
    pub open: bool,
    pub origins: Vec<String>,
    pub tls: Arc<ServerConfig>,
    pub clock: Clock,
    pub limits: AdmissionLimits,
    pub admission: Mutex<Admission>,
    pub rooms: Rooms,
    pub booths: Booths,
    /// Connections that have a thread: threads that have not ended, and who has a slot.
    pub connections: AtomicUsize,
    pub callers: Arc<ThreadSlots>,
    pub tally: ServerTally,
    pub stop: AtomicBool,
}

/// A connection that has a thread, until it is dropped.
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

    /// The client has shown its key, or has asked a whole question: it does not give way to strangers any more.
    ///
    /// # Errors
    /// If there are as many such clients as there may be.
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
    /// Whether somebody who can prove no key may measure over this connection.
    pub(super) fn serves_strangers(&self, socket: &TcpStream) -> bool {
        self.open || socket.local_addr().is_ok_and(|local| local.ip().to_canonical().is_loopback())
    }

    pub(super) fn now(&self) -> ServerActivity {
        let (measuring, waiting) = self.admission().tally();
        ServerActivity { measuring, waiting, connections: self.connections.load(Ordering::Relaxed) }
    }

    /// A datagram has come that belongs to nobody yet.
    pub(super) fn hear(&self, bytes: &[u8], from: SocketAddr) {
        let own = |token, arrival| self.rooms.visit(token, from.ip(), arrival);
        let welcome = match (EchoDatagram::decode(bytes), Preamble::decode(bytes)) {
            (Some(echo), _) => own(echo.preamble.token, SessionArrival::Echo(from)),
            (None, Some(preamble)) if bytes.len() == PREAMBLE_LEN => {
                own(preamble.token, SessionArrival::Knock(preamble, from))
            }
            _ => match bytes.try_into() {
                Ok(words) if datagram::reply(bytes).is_some() => self.booths.knock(from, words),
                _ => false,
            },
        };
        // It is not answered: who sent it may have given another's address.
        if !welcome {
            self.tally.strays.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A socket for datagrams to and from one address.
    ///
    /// Between being bound and being connected it is taken for the listening one: what came from others meanwhile is heard as if
    /// it had come there.
    pub(super) fn datagram_socket(&self, local: SocketAddr, peer: SocketAddr) -> io::Result<UdpSocket> {
        let socket = bulk::datagram_socket(local, peer, Buffers::default()).map_err(io::Error::other)?;
        let mut buffer = [0; ECHO_LEN + 1];
        for _ in 0..AT_ONCE {
            match socket.recv_from(&mut buffer) {
                Ok((len, from)) if from != peer => self.hear(&buffer[..len], from),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        Ok(socket)
    }

    pub(super) fn admission(&self) -> MutexGuard<'_, Admission> {
        // A thread that panicked has left it whole: nothing in it is half done between two calls.
        self.admission.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn refuse(&self, protocol: ClientProtocol, refusal: AdmissionRefusal) -> AdmissionRefusal {
        self.tally.refused(protocol, refusal);
        refusal
    }
}
