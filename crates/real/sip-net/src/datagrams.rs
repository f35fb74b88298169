//! A UDP socket for SIP messages or media. A server, a thread of a load, or a call uses it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netrig_core::{Duration, Instant};
use rustix::net::{SendFlags, SocketType, ipproto};

use super::send_batch::{OutgoingDatagram, SendBatch, SendOutcome};
use netrig_host::socket::{SocketBuilder, SocketError, TimestampMode, drops};
use netrig_host::sys::{Incoming, MESSAGES, ReceiveBatch};
use netrig_host::{Clock, RealtimeOffset};

/// Rate, datagrams/s, above which a socket sends datagrams of equal length in groups with `UDP_SEGMENT`. A capture on a
/// loopback or veth interface shows such a group as one datagram.
const HIGH_RATE: u32 = 30_000;

/// Length of the window in which sent datagrams are counted.
const WINDOW: Duration = Duration::from_millis(100);

/// How long a socket sends datagrams one by one after ICMP has reported one as undeliverable.
const UNSEGMENTED: Duration = Duration::from_secs(10);

/// The rate at which a socket sends datagrams.
struct SendRate {
    /// Start of the window, and the datagrams in it.
    since: Instant,
    count: u32,
    /// Whether the rate in the last window was above [`HIGH_RATE`].
    is_high: bool,
    /// False once the kernel has refused `UDP_SEGMENT` on this socket.
    can_segment: bool,
    /// Datagrams are sent one by one before this time, because ICMP has reported one as undeliverable.
    unsegmented_until: Instant,
}

impl Default for SendRate {
    fn default() -> Self {
        Self {
            since: Instant::ZERO,
            count: 0,
            is_high: false,
            can_segment: true,
            unsegmented_until: Instant::ZERO,
        }
    }
}

impl SendRate {
    /// Counts datagrams that are sent now. Returns whether they may be sent with `UDP_SEGMENT`.
    fn count_sent(&mut self, now: Instant, count: usize) -> bool {
        let window = now - self.since;
        if window >= WINDOW {
            self.is_high = f64::from(self.count) > f64::from(HIGH_RATE) * window.as_secs_f64()
                && now >= self.unsegmented_until;
            (self.since, self.count) = (now, 0);
        }
        self.count += count as u32;
        self.may_segment()
    }

    const fn may_segment(&self) -> bool {
        self.is_high && self.can_segment
    }
}

/// Buffers for received datagrams.
pub struct DatagramBatch {
    batch: ReceiveBatch,
    offset: RealtimeOffset,
}

impl DatagramBatch {
    /// Buffers that keep the first `keep` bytes of each datagram.
    pub fn new(keep: usize) -> Self {
        Self { batch: ReceiveBatch::new(keep), offset: RealtimeOffset::measure() }
    }

    /// The step of the wall clock since the last call, if it was stepped: see [`RealtimeOffset::take_step`].
    pub fn take_clock_step(&mut self) -> Option<Duration> {
        self.offset.take_step()
    }
}

/// A bound UDP socket.
pub struct DatagramSocket {
    socket: OwnedFd,
    local: SocketAddr,
    room: u32,
    drops: u32,
    sending: SendRate,
}

impl DatagramSocket {
    /// Binds the socket to this address; it is an error if another socket is bound to it. The socket requests a receive
    /// buffer of `room` bytes; the system may grant less.
    ///
    /// # Errors
    /// If the socket cannot be opened with these options.
    pub(super) fn open(
        address: SocketAddr,
        room: u32,
        stamped: Option<TimestampMode>,
    ) -> Result<Self, SocketError> {
        Self::made(
            SocketBuilder::open(SocketType::DGRAM, Some(ipproto::UDP), address)?,
            address,
            room,
            stamped,
        )
    }

    /// As [`DatagramSocket::open`], with `UDP_GRO`: one receive call may return several datagrams of one sender
    /// ([`Incoming::datagrams`]). With `is_shared` other sockets may be bound to the same address.
    ///
    /// # Errors
    /// If the socket cannot be opened with these options.
    pub(super) fn open_coalesced(
        address: SocketAddr,
        room: u32,
        is_shared: bool,
    ) -> Result<Self, SocketError> {
        let making = SocketBuilder::open(SocketType::DGRAM, Some(ipproto::UDP), address)?;
        making.coalesce_received()?;
        if is_shared {
            making.share_address()?;
        }
        Self::made(making, address, room, None)
    }

    /// As [`DatagramSocket::open`], with the kernel's time stamps on received datagrams.
    ///
    /// # Errors
    /// If the socket cannot be opened with these options.
    pub fn open_stamped(address: SocketAddr, room: u32) -> Result<Self, SocketError> {
        Self::open(address, room, Some(TimestampMode::Received))
    }

    /// Receives at most one batch of datagrams. Calls `each` with the sender, the bytes, and the time at which the
    /// kernel received the datagram. Returns whether more datagrams may be waiting.
    ///
    /// # Errors
    /// An error of the kernel, which may be ICMP's report on an earlier datagram.
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

    /// Sends a datagram. Returns whether the kernel took it.
    pub fn send_one(&self, to: SocketAddr, bytes: &[u8]) -> bool {
        let sent = || rustix::net::sendto(&self.socket, bytes, SendFlags::DONTWAIT, &to);
        // The first error may be ICMP's report on an earlier datagram.
        sent().or_else(|_| sent()).is_ok()
    }

    /// As [`DatagramSocket::open_stamped`]. The kernel also keeps ICMP's reports on sent datagrams. After a report the
    /// next system call on the socket returns an error, and [`ReceiveBatch::receive_errors`] reads the report. With
    /// `is_coalesced` the socket has `UDP_GRO`.
    ///
    /// # Errors
    /// If the socket cannot be opened with these options.
    pub(super) fn open_with_errors(
        address: SocketAddr,
        room: u32,
        is_coalesced: bool,
    ) -> Result<Self, SocketError> {
        let making = SocketBuilder::open(SocketType::DGRAM, Some(ipproto::UDP), address)?;
        making.report_errors()?;
        if is_coalesced {
            making.coalesce_received()?;
        }
        Self::made(making, address, room, Some(TimestampMode::Received))
    }

    fn made(
        making: SocketBuilder,
        address: SocketAddr,
        room: u32,
        stamped: Option<TimestampMode>,
    ) -> Result<Self, SocketError> {
        if let Some(which) = stamped {
            making.stamped(which)?;
        }
        making.receive_at_least(room as usize)?;
        // The kernel reports twice the requested size: the other half is for its overhead.
        let room = making.receive_buffer()? / 2;
        let socket = making.bound_alone()?;
        let local = rustix::net::getsockname(&socket).ok().and_then(|name| name.try_into().ok());
        Ok(Self { socket, local: local.unwrap_or(address), room, drops: 0, sending: SendRate::default() })
    }

    /// The local address.
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// The size of the receive buffer without the kernel's overhead, bytes.
    pub const fn room(&self) -> u32 {
        self.room
    }

    /// The descriptor of the socket.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Receives at most `most` datagrams and at most one batch. Returns whether more datagrams may be waiting.
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

    /// Receives at most `most` datagrams, and at most one batch, into `batch`. Returns their number, and whether more
    /// may be waiting.
    pub(super) fn take(&self, batch: &mut ReceiveBatch, most: usize) -> io::Result<(usize, bool)> {
        let most = most.min(MESSAGES);
        match batch.receive_up_to(most, &self.socket) {
            Ok(count) => Ok((count, count == most)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok((0, true)),
            Err(error) => Err(error),
        }
    }

    /// Prepares at most [`MESSAGES`] datagrams to be sent now. At a high rate it groups datagrams of equal length.
    pub(super) fn batch<'a>(&mut self, now: Instant, datagrams: &'a [OutgoingDatagram<'a>]) -> SendBatch<'a> {
        if self.sending.count_sent(now, datagrams.len()) {
            SendBatch::segmented(datagrams)
        } else {
            SendBatch::unsegmented(datagrams)
        }
    }

    /// Passes at most `most` sends of the batch to the kernel with [`SendBatch::send`]. Returns the number of datagrams
    /// that the kernel took.
    pub(super) fn send_next(&mut self, batch: &mut SendBatch<'_>, most: usize) -> io::Result<usize> {
        let sent = batch.send(&self.socket, most);
        if matches!(sent, Ok(SendOutcome::SegmentRefused)) {
            self.sending.can_segment = false;
        }
        sent.map(SendOutcome::count)
    }

    /// Sends datagrams one by one for some time, because ICMP has reported one that was sent in a group.
    pub(super) fn send_unsegmented(&mut self, now: Instant) {
        self.sending.unsegmented_until = now + UNSEGMENTED;
        self.sending.is_high = false;
    }

    /// Whether the next datagrams may leave in another order than that in which they are passed in. Their order keys
    /// matter only then.
    pub(super) const fn may_reorder(&self) -> bool {
        self.sending.may_segment()
    }

    /// Sends datagrams. Calls `refused` with the error for each datagram that the kernel refuses; it is not sent again.
    pub(super) fn send(
        &mut self,
        now: Instant,
        datagrams: &[OutgoingDatagram<'_>],
        mut refused: impl FnMut(&[u8], io::Error),
    ) {
        for datagrams in datagrams.chunks(MESSAGES) {
            let mut batch = self.batch(now, datagrams);
            while !batch.next(1).is_empty() {
                if let Err(error) = self.send_next(&mut batch, MESSAGES)
                    && let Some(place) = batch.skip()
                {
                    refused(datagrams[place].bytes, error);
                }
            }
        }
    }

    /// Number of datagrams that were dropped since the last call because the receive buffer was full.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn take_drops(&mut self) -> io::Result<u64> {
        let all = drops(&self.socket)?;
        let new = all.wrapping_sub(self.drops);
        self.drops = all;
        Ok(new.into())
    }
}

/// Whether the kernel has no room to send at the moment.
pub(super) fn is_without_room(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS))
}
