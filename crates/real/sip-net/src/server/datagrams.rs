//! A socket at which a server is asked over UDP.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use netrig_core::Instant;
use smallvec::SmallVec;

use crate::datagrams::DatagramSocket;
use crate::send_batch::OutgoingDatagram;
use netrig_host::socket::{LONGEST_DATAGRAM, SocketError, is_loss};
use netrig_host::sys::{MESSAGES, ReceiveBatch};

/// The receive buffer that is asked for, bytes: as much of it as the system grants. A call is a few kilobytes there, so that
/// thousands may arrive while the server is busy with something else.
const RECEIVE_BUFFER: u32 = 16 << 20;

/// A socket that a server listens at. What is sent is gathered, so that one call takes many datagrams.
pub(super) struct DatagramPoint {
    socket: DatagramSocket,
    /// There may be datagrams that were not taken.
    pub ready: bool,
    /// All that waits, one behind the other, and of each where it goes and where it ends.
    outgoing: Vec<u8>,
    queued: Vec<QueuedDatagram>,
}

/// A datagram that waits.
struct QueuedDatagram {
    to: SocketAddr,
    end: usize,
    /// A hash of its Call-ID: the messages of a call keep their order. Equal hashes only keep two calls in order.
    order_key: Option<u64>,
}

impl DatagramPoint {
    /// Bound there and nowhere else. With `is_shared` other sockets may be bound there, too.
    pub fn open(address: SocketAddr, is_shared: bool) -> Result<Self, SocketError> {
        let socket = DatagramSocket::open_coalesced(address, RECEIVE_BUFFER, is_shared)?;
        Ok(Self { socket, ready: true, outgoing: Vec::new(), queued: Vec::with_capacity(MESSAGES) })
    }

    /// Where it is bound.
    pub const fn local(&self) -> SocketAddr {
        self.socket.local()
    }

    /// The descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.fd()
    }

    /// Space for what one call takes.
    pub fn batch() -> ReceiveBatch {
        ReceiveBatch::new(LONGEST_DATAGRAM)
    }

    /// Takes what has arrived, at most one batch; how many, of which each may be several datagrams.
    pub fn receive(&mut self, batch: &mut ReceiveBatch) -> io::Result<usize> {
        let (count, has_more) = match self.socket.take(batch, MESSAGES) {
            // What the network has to say of a datagram that was sent is no fault of the socket's.
            Err(error) if is_loss(&error) => (0, true),
            taken => taken?,
        };
        self.ready = has_more;
        Ok(count)
    }

    /// Puts a message with this Call-ID beside those that leave with the next [`DatagramPoint::flush`].
    pub fn queue(&mut self, to: SocketAddr, call_id: &str, message: &[u8]) {
        let hash = || {
            let mut hasher = DefaultHasher::new();
            call_id.hash(&mut hasher);
            hasher.finish()
        };
        let order_key = self.socket.may_reorder().then(hash);
        self.outgoing.extend_from_slice(message);
        self.queued.push(QueuedDatagram { to, end: self.outgoing.len(), order_key });
    }

    /// Whether so many wait that one call is full.
    pub const fn is_full(&self) -> bool {
        self.queued.len() >= MESSAGES
    }

    /// Sends what waits, and tells of each that the kernel refuses. It is not sent again.
    pub fn flush(&mut self, now: Instant, refused: impl FnMut(&[u8], io::Error)) {
        if self.queued.is_empty() {
            return;
        }
        let starts = std::iter::once(0).chain(self.queued.iter().map(|place| place.end));
        let waiting = starts.zip(&self.queued).map(|(start, place)| {
            let QueuedDatagram { to, end, order_key } = *place;
            OutgoingDatagram { to, bytes: &self.outgoing[start..end], order_key }
        });
        let datagrams: SmallVec<[_; MESSAGES]> = waiting.collect();
        self.socket.send(now, &datagrams, refused);
        drop(datagrams);
        self.outgoing.clear();
        self.queued.clear();
    }

    /// Datagrams that reached this machine and for which there was no room, since this was last asked.
    pub fn take_drops(&mut self) -> io::Result<u64> {
        self.socket.take_drops()
    }
}
