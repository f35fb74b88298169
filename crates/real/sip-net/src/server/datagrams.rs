//! A UDP socket of a server.

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

/// Requested receive buffer, bytes; the system may grant less. A call takes a few kilobytes, so the buffer holds the
/// messages of thousands of calls while the server is busy.
const RECEIVE_BUFFER: u32 = 16 << 20;

/// A UDP socket on which a server listens. Outgoing datagrams are queued, so that one system call sends many.
pub(super) struct DatagramPoint {
    socket: DatagramSocket,
    /// Whether there may be datagrams to read.
    pub ready: bool,
    /// The bytes of all queued datagrams, one after the other.
    outgoing: Vec<u8>,
    queued: Vec<QueuedDatagram>,
}

/// A queued datagram.
struct QueuedDatagram {
    to: SocketAddr,
    end: usize,
    /// A hash of the Call-ID, so that the messages of a call keep their order. If two calls have the same hash, all
    /// messages of both keep their order.
    order_key: Option<u64>,
}

impl DatagramPoint {
    /// Binds a socket to this address. With `is_shared`, other sockets may be bound to the same address.
    pub fn open(address: SocketAddr, is_shared: bool) -> Result<Self, SocketError> {
        let socket = DatagramSocket::open_coalesced(address, RECEIVE_BUFFER, is_shared)?;
        Ok(Self { socket, ready: true, outgoing: Vec::new(), queued: Vec::with_capacity(MESSAGES) })
    }

    /// The local address.
    pub const fn local(&self) -> SocketAddr {
        self.socket.local()
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.fd()
    }

    /// Buffers for one receive call.
    pub fn batch() -> ReceiveBatch {
        ReceiveBatch::new(LONGEST_DATAGRAM)
    }

    /// Receives at most one batch. Returns the number of messages, each of which may hold several datagrams.
    pub fn receive(&mut self, batch: &mut ReceiveBatch) -> io::Result<usize> {
        let (count, has_more) = match self.socket.take(batch, MESSAGES) {
            // An ICMP report on an earlier datagram is not an error of the socket.
            Err(error) if is_loss(&error) => (0, true),
            taken => taken?,
        };
        self.ready = has_more;
        Ok(count)
    }

    /// Queues a message with this Call-ID for the next [`DatagramPoint::flush`].
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

    /// Whether enough datagrams are queued for a full system call.
    pub const fn is_full(&self) -> bool {
        self.queued.len() >= MESSAGES
    }

    /// Sends the queue. Calls `refused` for each datagram that the kernel refuses; it is not sent again.
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

    /// Number of datagrams that were dropped since the last call because the receive buffer was full.
    pub fn take_drops(&mut self) -> io::Result<u64> {
        self.socket.take_drops()
    }
}
