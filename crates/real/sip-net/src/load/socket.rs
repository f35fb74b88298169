//! The UDP socket of one thread of a load.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use netrig_core::{Duration, Instant};
use netrig_sip::load::{DepartingMessage, MessageConnection, Outbox};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use smallvec::SmallVec;

use super::order::LoadError;
use super::tester::TesterSecond;
use crate::datagrams::{DatagramSocket, is_without_room};
use crate::send_batch::OutgoingDatagram;
use netrig_host::Clock;
use netrig_host::RealtimeOffset;
use netrig_host::socket::{LONGEST_DATAGRAM, is_loss, is_too_long};
use netrig_host::sys::{MESSAGES, ReceiveBatch};

/// Memory that the kernel charges for a SIP datagram in a socket, including its overhead, bytes.
const CHARGE: f64 = 2304.0;

/// Maximum number of datagrams that the tester receives for one call: the caller gets 100, 180, 200, and the 200 for
/// the BYE; the callee gets INVITE, ACK and BYE.
const PER_CALL: f64 = 7.0;

/// Duration of the traffic for which the receive buffer has room, because the thread reads only at intervals.
const ROOM: Duration = Duration::from_millis(250);

/// Lower and upper limit of that buffer, bytes.
const LEAST_ROOM: f64 = 1e6;
const MOST_ROOM: f64 = 256e6;

/// Number of sends per system call. The time stamp is taken before the call. It is therefore about 2 µs too early for
/// each send that precedes the datagram in the call.
const SENDS_PER_CALL: usize = 4;

/// Rate, calls/s, above which the socket has `UDP_GRO`. The datagrams of a coalesced group share one time stamp.
const COALESCED_ABOVE: f64 = 10_000.0;

/// How long datagrams wait for room in the send buffer before the first of them is dropped.
const PATIENCE: Duration = Duration::from_millis(200);

/// A bound UDP socket with time stamps, and its receive buffers.
pub(super) struct LoadSocket {
    socket: DatagramSocket,
    received: ReceiveBatch,
    /// The requested size of its receive buffer, bytes.
    wanted: u32,
    /// Whether ICMP reports may be waiting in the kernel.
    has_errors: bool,
}

/// The size of the receive buffer for this rate of calls, bytes.
fn room_for(calls_per_s: f64) -> u32 {
    (calls_per_s * PER_CALL * CHARGE * ROOM.as_secs_f64()).clamp(LEAST_ROOM, MOST_ROOM) as u32
}

impl LoadSocket {
    /// Opens the socket with a receive buffer for this rate of calls. The system may grant less.
    pub fn open(local: SocketAddr, calls_per_s: f64) -> Result<Self, LoadError> {
        let wanted = room_for(calls_per_s);
        let socket = DatagramSocket::open_with_errors(local, wanted, calls_per_s > COALESCED_ABOVE)?;
        Ok(Self { socket, received: ReceiveBatch::new(LONGEST_DATAGRAM), wanted, has_errors: false })
    }

    /// The local address.
    pub const fn local(&self) -> SocketAddr {
        self.socket.local()
    }

    /// The requested and the actual size of its receive buffer, bytes.
    pub const fn room(&self) -> (u32, u32) {
        (self.wanted, self.socket.room())
    }

    /// The descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.fd()
    }

    /// Receives at most `most` messages and at most one batch. Passes on each datagram with the local and the peer's
    /// address, and with the time at which the kernel received it. Returns whether more datagrams may be waiting.
    pub fn receive(
        &mut self,
        clock: &Clock,
        offset: &RealtimeOffset,
        most: usize,
        mut each: impl FnMut([SocketAddr; 2], &[u8], Instant),
    ) -> Result<bool, LoadError> {
        let local = self.local();
        let received = self.socket.receive(&mut self.received, most, |incoming| {
            let now = clock.now();
            let stamped = incoming.stamp.map(|ns| clock.instant(offset.monotonic(ns)));
            let at = stamped.unwrap_or(now).min(now);
            incoming.datagrams().for_each(|(bytes, _)| each([local, incoming.from], bytes, at));
        });
        match received {
            Err(error) if is_loss(&error) => {
                self.has_errors = true;
                Ok(true)
            }
            received => received.map_err(LoadError::kernel("recvmmsg")),
        }
    }

    /// Sends all messages of an outbox. For each message, calls `on_result` with its index, the message, the time at
    /// which it was passed to the kernel, and whether the kernel took it.
    pub fn send_all<'a>(
        &mut self,
        clock: &Clock,
        waiting: &'a Outbox,
        counts: &mut TesterSecond,
        mut on_result: impl FnMut(usize, DepartingMessage<'a>, Instant, bool),
    ) -> Result<(), LoadError> {
        let mut departing = waiting.departing().enumerate();
        loop {
            let messages: SmallVec<[_; MESSAGES]> = departing.by_ref().take(MESSAGES).collect();
            if messages.is_empty() {
                return Ok(());
            }
            let datagram = |&(_, (to, way, bytes, _)): &(usize, DepartingMessage<'a>)| OutgoingDatagram {
                to,
                bytes,
                order_key: order_key(way),
            };
            let datagrams: SmallVec<[_; MESSAGES]> = messages.iter().map(datagram).collect();
            self.send(clock, &datagrams, counts, |place, at, is_taken| {
                let (number, message) = messages[place];
                on_result(number, message, at, is_taken);
            })?;
        }
    }

    /// Sends at most [`MESSAGES`] datagrams. For each datagram, calls `on_result` with its index, the time at which it
    /// was passed to the kernel, and whether the kernel took it.
    pub fn send(
        &mut self,
        clock: &Clock,
        datagrams: &[OutgoingDatagram<'_>],
        counts: &mut TesterSecond,
        mut on_result: impl FnMut(usize, Instant, bool),
    ) -> Result<(), LoadError> {
        let (mut waited, mut retried) = (Duration::ZERO, None);
        let mut batch = self.socket.batch(clock.now(), datagrams);
        while let Some(first) = batch.next(1).first().copied() {
            let next: SmallVec<[u8; MESSAGES]> = batch.next(SENDS_PER_CALL).into();
            let at = clock.now();
            let error = match self.socket.send_next(&mut batch, SENDS_PER_CALL) {
                Ok(sent) => {
                    // The kernel stops at an error, which may be an ICMP report. Sending a split group has consumed the
                    // error.
                    self.has_errors |= sent < next.len();
                    counts.sent += sent as u64;
                    next[..sent].iter().for_each(|place| on_result(usize::from(*place), at, true));
                    continue;
                }
                Err(error) => error,
            };
            if is_without_room(&error) && waited < PATIENCE {
                counts.without_room += 1;
                waited += self.wait_for_room()?;
            } else if is_loss(&error) && retried != Some(first) {
                // The error may be an ICMP report on an earlier datagram. This datagram has then not been sent, and is
                // tried once more.
                (self.has_errors, retried) = (true, Some(first));
            } else if is_loss(&error) || is_without_room(&error) || is_too_long(&error) {
                // There is no route, the datagram is too long, or the send buffer had no room in time. The datagram is
                // treated as lost in the network.
                counts.unsent += 1;
                batch.skip().into_iter().for_each(|place| on_result(place, at, false));
            } else {
                return Err(LoadError::kernel("sendmmsg")(error));
            }
        }
        Ok(())
    }

    /// For each datagram that ICMP has reported as undeliverable since the last call, passes on its destination and its
    /// first bytes.
    pub fn take_undelivered(
        &mut self,
        clock: &Clock,
        mut each: impl FnMut(SocketAddr, &[u8]),
    ) -> Result<(), LoadError> {
        if !std::mem::take(&mut self.has_errors) {
            return Ok(());
        }
        loop {
            let count = match self.received.receive_errors(self.socket.fd()) {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted || is_loss(&error) => continue,
                Err(error) => return Err(LoadError::kernel("recvmmsg")(error)),
            };
            let undelivered = (0..count).filter_map(|at| self.received.undelivered(at));
            if undelivered.map(|(to, bytes)| each(to, bytes)).count() > 0 {
                self.socket.send_unsegmented(clock.now());
            }
        }
    }

    fn wait_for_room(&self) -> Result<Duration, LoadError> {
        let span = Duration::from_millis(1);
        let timeout = Timespec { tv_sec: 0, tv_nsec: span.as_nanos().cast_signed() };
        match poll(&mut [PollFd::from_borrowed_fd(self.fd(), PollFlags::OUT)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(span),
            Err(error) => Err(LoadError::kernel("ppoll")(error.into())),
        }
    }

    /// Number of datagrams that were dropped since the last call because the receive buffer was full.
    pub fn take_drops(&mut self) -> Result<u64, LoadError> {
        self.socket.take_drops().map_err(LoadError::kernel("SO_MEMINFO"))
    }
}

/// The order key of a request is its attempt. Responses have no order key, and keep their place in the order of all
/// messages.
fn order_key(way: MessageConnection) -> Option<u64> {
    match way {
        MessageConnection::Of { attempt, .. } => {
            Some(u64::from(attempt.key.generation) << 32 | u64::from(attempt.key.index))
        }
        MessageConnection::Back => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn what_reaches_nobody_is_told_and_stops_nothing() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let gone = UdpSocket::bind(host).unwrap().local_addr().unwrap();
            let peer = UdpSocket::bind(host).unwrap();
            let mut socket = LoadSocket::open(host.parse().unwrap(), 1.0).unwrap();
            let mut counts = TesterSecond::default();
            let clock = Clock::starting_in(Duration::ZERO);
            let said = [&b"one"[..], b"two", b"three"];
            let four = (peer.local_addr().unwrap(), &b"four"[..]);
            for (to, bytes) in said.map(|bytes| (gone, bytes)).into_iter().chain([four]) {
                let datagram = [OutgoingDatagram { to, bytes, order_key: None }];
                socket.send(&clock, &datagram, &mut counts, |_, _, is_taken| assert!(is_taken)).unwrap();
            }
            peer.send_to(b"five", socket.local()).unwrap();
            let mut heard = Vec::new();
            while heard.is_empty() {
                let each = |_, bytes: &[u8], _| heard.push(bytes.to_vec());
                socket.receive(&clock, &RealtimeOffset::measure(), 1, each).unwrap();
            }
            let mut undelivered = Vec::new();
            socket.take_undelivered(&clock, |to, bytes| undelivered.push((to, bytes.to_vec()))).unwrap();
            assert_eq!(undelivered, said.map(|bytes| (gone, bytes.to_vec())));
            assert_eq!((heard, counts.sent, counts.unsent), (vec![b"five".to_vec()], 4, 0));
            let mut buffer = [0; 8];
            assert_eq!(peer.recv(&mut buffer).unwrap(), 4);
        }
    }
}
