//! A socket for SIP over UDP.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bytes::Bytes;
use rustix::net::SocketType;

use crate::socket::{LONGEST_DATAGRAM, Making, SocketError, drops};
use crate::sys::{MESSAGES, Outgoing, ReceiveBatch, send_many};

/// The receive buffer that is asked for, bytes: as much of it as the system grants. A call is a few kilobytes there, so that
/// thousands may arrive while the server is busy with something else.
const RECEIVE_BUFFER: usize = 16 << 20;

/// A socket that a server listens at. What is sent is gathered, so that one call takes many datagrams.
pub(super) struct DatagramPoint {
    socket: OwnedFd,
    local: SocketAddr,
    /// There may be datagrams that were not taken.
    pub ready: bool,
    outgoing: Vec<(SocketAddr, Bytes)>,
}

impl DatagramPoint {
    /// Bound there, and nowhere else: an address that another one listens at is an error.
    pub fn open(address: SocketAddr) -> Result<Self, SocketError> {
        let making = Making::open(SocketType::DGRAM, Some(rustix::net::ipproto::UDP), address)?;
        making.receive_at_least(RECEIVE_BUFFER)?;
        let socket = making.bound_alone()?;
        let local = rustix::net::getsockname(&socket).ok().and_then(|name| name.try_into().ok());
        let local = local.unwrap_or(address);
        Ok(Self { socket, local, ready: true, outgoing: Vec::with_capacity(MESSAGES) })
    }

    /// Where it is bound.
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// The descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Space for what one call takes.
    pub fn batch() -> ReceiveBatch {
        ReceiveBatch::new(LONGEST_DATAGRAM)
    }

    /// Takes what has arrived, at most one batch.
    pub fn receive(
        &mut self,
        batch: &mut ReceiveBatch,
        mut each: impl FnMut(&[u8], SocketAddr),
    ) -> io::Result<()> {
        let count = batch.receive(&self.socket)?;
        self.ready = count == MESSAGES;
        for incoming in (0..count).filter_map(|at| batch.get(at)) {
            each(incoming.head, incoming.from);
        }
        Ok(())
    }

    /// Puts a datagram beside those that leave with the next [`DatagramPoint::flush`].
    pub fn queue(&mut self, to: SocketAddr, message: Bytes) {
        self.outgoing.push((to, message));
    }

    /// Whether so many wait that one call is full.
    pub const fn is_full(&self) -> bool {
        self.outgoing.len() >= MESSAGES
    }

    /// Sends what waits, and tells of each that the kernel refuses. It is not sent again.
    pub fn flush(&mut self, mut refused: impl FnMut(Bytes, io::Error)) {
        let mut outgoing = std::mem::take(&mut self.outgoing);
        let mut gone = 0;
        while gone < outgoing.len() {
            let left = &outgoing[gone..outgoing.len().min(gone + MESSAGES)];
            let pieces: Vec<[IoSlice<'_>; 1]> =
                left.iter().map(|(_, message)| [IoSlice::new(message)]).collect();
            let messages: Vec<Outgoing<'_>> = left
                .iter()
                .zip(&pieces)
                .map(|((to, _), pieces)| Outgoing { to: Some(*to), pieces, segment: None })
                .collect();
            match send_many(&self.socket, &messages) {
                Ok(sent) => gone += sent,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    refused(outgoing[gone].1.clone(), error);
                    gone += 1;
                }
            }
        }
        outgoing.clear();
        self.outgoing = outgoing;
    }

    /// Datagrams that reached this machine and for which there was no room.
    pub fn drops(&self) -> io::Result<u32> {
        drops(&self.socket)
    }
}
