//! A UDP socket that carries SIP messages or media: of a server, of a thread of a load, or of a call.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netrig_core::Instant;
use rustix::net::{SendFlags, SocketType, ipproto};

use crate::clock::{Clock, RealtimeOffset};
use crate::socket::{Making, SocketError, Stamped, drops};
use crate::sys::{Incoming, MESSAGES, Outgoing, ReceiveBatch, send_many};

/// Buffers for datagrams that come.
pub struct DatagramBatch {
    batch: ReceiveBatch,
    offset: RealtimeOffset,
}

impl DatagramBatch {
    /// Buffers that keep so many bytes of each datagram.
    pub fn new(keep: usize) -> Self {
        Self { batch: ReceiveBatch::new(keep), offset: RealtimeOffset::measure() }
    }
}

/// A bound UDP socket.
pub struct DatagramSocket {
    socket: OwnedFd,
    local: SocketAddr,
    room: u32,
    drops: u32,
}

impl DatagramSocket {
    /// Bound there, and nowhere else: an address that another one listens at is an error. It asks for a receive buffer of `room`
    /// bytes and gets as much of it as the system grants.
    ///
    /// # Errors
    /// It is not to be had as it was asked for.
    pub(super) fn open(
        address: SocketAddr,
        room: u32,
        stamped: Option<Stamped>,
    ) -> Result<Self, SocketError> {
        Self::made(Making::open(SocketType::DGRAM, Some(ipproto::UDP), address)?, address, room, stamped)
    }

    /// The same, whose datagrams the kernel stamps when they come.
    ///
    /// # Errors
    /// It is not to be had as it was asked for.
    pub fn open_stamped(address: SocketAddr, room: u32) -> Result<Self, SocketError> {
        Self::open(address, room, Some(Stamped::Received))
    }

    /// Takes what has arrived, no more than a batch, and gives the sender of each datagram, its bytes, and when the kernel received it.
    /// Whether there may be more.
    ///
    /// # Errors
    /// What the kernel answers; also what the network has said of a datagram that was sent.
    pub fn receive_stamped(
        &self,
        batch: &mut DatagramBatch,
        clock: &Clock,
        mut each: impl FnMut(SocketAddr, &[u8], Instant),
    ) -> io::Result<bool> {
        let DatagramBatch { batch, offset } = batch;
        self.receive(batch, MESSAGES, |incoming| {
            let now = clock.now();
            let at = incoming.stamp.map_or(now, |ns| clock.instant(offset.monotonic(ns)).min(now));
            each(incoming.from, incoming.head, at);
        })
    }

    /// Sends a datagram. Whether the kernel took it.
    pub fn send_one(&self, to: SocketAddr, bytes: &[u8]) -> bool {
        let sent = || rustix::net::sendto(&self.socket, bytes, SendFlags::DONTWAIT, &to);
        // The first error may be what ICMP has said of an earlier datagram.
        sent().or_else(|_| sent()).is_ok()
    }

    /// The same, with which the kernel keeps what ICMP says of what was sent: it is told by an error of the next call, and to
    /// be taken by [`ReceiveBatch::receive_errors`].
    ///
    /// # Errors
    /// It is not to be had as it was asked for.
    pub(super) fn open_told(
        address: SocketAddr,
        room: u32,
        stamped: Option<Stamped>,
    ) -> Result<Self, SocketError> {
        let making = Making::open(SocketType::DGRAM, Some(ipproto::UDP), address)?;
        making.told_of_errors()?;
        Self::made(making, address, room, stamped)
    }

    fn made(
        making: Making,
        address: SocketAddr,
        room: u32,
        stamped: Option<Stamped>,
    ) -> Result<Self, SocketError> {
        if let Some(which) = stamped {
            making.stamped(which)?;
        }
        making.receive_at_least(room as usize)?;
        // The kernel tells twice what was asked for, and counts its book-keeping against that.
        let room = making.receive_buffer()? / 2;
        let socket = making.bound_alone()?;
        let local = rustix::net::getsockname(&socket).ok().and_then(|name| name.try_into().ok());
        Ok(Self { socket, local: local.unwrap_or(address), room, drops: 0 })
    }

    /// Where it is bound.
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// The size of its receive buffer, bytes, as one asks for it.
    pub const fn room(&self) -> u32 {
        self.room
    }

    /// The descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Takes what has arrived, so many at most and no more than a batch. Whether there may be more.
    pub(super) fn receive(
        &self,
        batch: &mut ReceiveBatch,
        most: usize,
        mut each: impl FnMut(&Incoming<'_>),
    ) -> io::Result<bool> {
        let (count, has_more) = self.take(batch, most)?;
        (0..count).filter_map(|at| batch.get(at)).for_each(|incoming| each(&incoming));
        Ok(has_more)
    }

    /// Takes what has arrived into `batch`, so many at most and no more than a batch. How many, and whether there may be more.
    pub(super) fn take(&self, batch: &mut ReceiveBatch, most: usize) -> io::Result<(usize, bool)> {
        let most = most.min(MESSAGES);
        match batch.receive_up_to(most, &self.socket) {
            Ok(count) => Ok((count, count == most)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok((0, true)),
            Err(error) => Err(error),
        }
    }

    /// Sends datagrams, as many with a call as it takes. Of each that the kernel does not take `refused` is told why; it is not
    /// sent again.
    pub(super) fn send<'a>(
        &self,
        datagrams: impl IntoIterator<Item = (SocketAddr, &'a [u8])>,
        mut refused: impl FnMut(&'a [u8], io::Error),
    ) {
        let mut datagrams = datagrams.into_iter();
        loop {
            let mut batch: [(Option<SocketAddr>, &'a [u8]); MESSAGES] = [(None, &[]); MESSAGES];
            let mut count = 0;
            for (to, bytes) in datagrams.by_ref().take(MESSAGES) {
                batch[count] = (Some(to), bytes);
                count += 1;
            }
            self.send_batch(&batch[..count], &mut refused);
            if count < MESSAGES {
                return;
            }
        }
    }

    /// At most [`MESSAGES`].
    fn send_batch<'a>(
        &self,
        batch: &[(Option<SocketAddr>, &'a [u8])],
        refused: &mut impl FnMut(&'a [u8], io::Error),
    ) {
        let mut pieces = [IoSlice::new(&[]); MESSAGES];
        for (piece, (_, bytes)) in pieces.iter_mut().zip(batch) {
            *piece = IoSlice::new(bytes);
        }
        let messages: [Outgoing<'_>; MESSAGES] = std::array::from_fn(|at| Outgoing {
            to: batch.get(at).and_then(|(to, _)| *to),
            pieces: std::slice::from_ref(&pieces[at]),
            segment: None,
        });
        let mut next = 0;
        while next < batch.len() {
            match send_many(&self.socket, &messages[next..batch.len()]) {
                Ok(sent) => next += sent,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    refused(batch[next].1, error);
                    next += 1;
                }
            }
        }
    }

    /// Datagrams that reached this machine and for which there was no room, since this was last asked.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn take_drops(&mut self) -> io::Result<u64> {
        let all = drops(&self.socket)?;
        let new = all.wrapping_sub(self.drops);
        self.drops = all;
        Ok(new.into())
    }
}

/// Whether the kernel has no room for what is to be sent, for the moment.
pub(super) fn is_without_room(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS))
}
