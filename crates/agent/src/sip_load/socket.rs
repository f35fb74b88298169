//! A shard's socket.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netrig_core::{Duration, Instant};
use netrig_sip::load::Outbox;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SocketType, ipproto};

use super::order::LoadError;
use super::tester::TesterSecond;
use crate::Clock;
use crate::clock::RealtimeOffset;
use crate::socket::{LONGEST_DATAGRAM, Making, Stamped, drops, is_loss};
use crate::sys::{MESSAGES, Outgoing, ReceiveBatch, send_many};

/// What of a datagram is read: no message that a load has to understand is longer, but for its session description.
const KEPT: usize = 16 << 10;

/// What the kernel takes for a datagram of SIP in a socket, its own book-keeping included, bytes.
const CHARGE: f64 = 2304.0;

/// Datagrams that the tester receives at most for one call: 100, 180 and 200, the INVITE, the ACK and the BYE at the one who
/// is called, the 200 of the BYE.
const PER_CALL: f64 = 7.0;

/// There is room for what comes in so long a time, so that the thread may be kept from looking.
const ROOM: Duration = Duration::from_millis(250);

/// But for no less than this, bytes, and for no more.
const LEAST_ROOM: f64 = 1e6;
const MOST_ROOM: f64 = 256e6;

/// How long one waits for room to send before a datagram is given up.
const PATIENCE: Duration = Duration::from_millis(200);

/// A bound UDP socket, and what is received from it.
pub(super) struct LoadSocket {
    socket: OwnedFd,
    received: ReceiveBatch,
    /// The size of its receive buffer that was asked for and that it has, bytes.
    pub room: (u32, u32),
    drops: u32,
}

/// The receive buffer of a socket that so many calls per second come back to, bytes.
pub(super) fn room_for(calls_per_s: f64) -> u32 {
    (calls_per_s * PER_CALL * CHARGE * ROOM.as_secs_f64()).clamp(LEAST_ROOM, MOST_ROOM) as u32
}

impl LoadSocket {
    /// With a receive buffer for so many calls per second, as far as the system grants it.
    pub fn open(local: SocketAddr, calls_per_s: f64) -> Result<Self, LoadError> {
        let making = Making::open(SocketType::DGRAM, Some(ipproto::UDP), local)?;
        making.stamped(Stamped::Received)?;
        let wanted = room_for(calls_per_s);
        making.receive_at_least(wanted as usize)?;
        Ok(Self {
            // The kernel tells twice what was asked for, and counts its book-keeping against that: so does CHARGE.
            room: (wanted, making.receive_buffer()? / 2),
            socket: making.bound_alone()?,
            received: ReceiveBatch::new(KEPT.min(LONGEST_DATAGRAM)),
            drops: 0,
        })
    }

    /// The address that it is bound to.
    pub fn local(&self) -> Result<SocketAddr, LoadError> {
        let name = rustix::net::getsockname(&self.socket).map_err(io::Error::from);
        let address = name.and_then(|name| Ok(SocketAddr::try_from(name)?));
        address.map_err(LoadError::kernel("getsockname"))
    }

    /// The descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Takes what has arrived, at most one batch, and gives each datagram with its sender and when the kernel received it.
    /// Whether there may be more.
    pub fn receive(
        &mut self,
        clock: &Clock,
        offset: &RealtimeOffset,
        mut each: impl FnMut(SocketAddr, &[u8], Instant),
    ) -> Result<bool, LoadError> {
        let count = match self.received.receive(&self.socket) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted || is_loss(&error) => return Ok(true),
            Err(error) => return Err(LoadError::kernel("recvmmsg")(error)),
        };
        for incoming in (0..count).filter_map(|at| self.received.get(at)) {
            let now = clock.now();
            let stamped = incoming.stamp.map(|ns| clock.instant(offset.monotonic(ns)));
            each(incoming.from, incoming.head, stamped.unwrap_or(now).min(now));
        }
        Ok(count == MESSAGES)
    }

    /// Sends all that waits.
    pub fn send(&self, waiting: &Outbox, counts: &mut TesterSecond) -> Result<(), LoadError> {
        let mut datagrams = waiting.iter();
        loop {
            let mut addresses = [None; MESSAGES];
            let mut pieces = [IoSlice::new(&[]); MESSAGES];
            let mut count = 0;
            for (to, bytes) in datagrams.by_ref().take(MESSAGES) {
                (addresses[count], pieces[count]) = (Some(to), IoSlice::new(bytes));
                count += 1;
            }
            let messages: [Outgoing<'_>; MESSAGES] = std::array::from_fn(|at| Outgoing {
                to: addresses[at],
                pieces: std::slice::from_ref(&pieces[at]),
                segment: None,
            });
            self.send_batch(&messages[..count], counts)?;
            if count < MESSAGES {
                break;
            }
        }
        Ok(())
    }

    fn send_batch(&self, mut messages: &[Outgoing<'_>], counts: &mut TesterSecond) -> Result<(), LoadError> {
        let mut waited = Duration::ZERO;
        while !messages.is_empty() {
            match send_many(&self.socket, messages) {
                Ok(sent) => {
                    counts.sent += sent as u64;
                    messages = &messages[sent.min(messages.len())..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_without_room(&error) && waited < PATIENCE => {
                    counts.without_room += 1;
                    waited += self.wait_for_room()?;
                }
                // No way there, too long, or nobody takes it in time: as if the network had lost it.
                Err(error) if is_loss(&error) || is_without_room(&error) || is_too_long(&error) => {
                    counts.unsent += 1;
                    messages = &messages[1..];
                }
                Err(error) => return Err(LoadError::kernel("sendmmsg")(error)),
            }
        }
        Ok(())
    }

    fn wait_for_room(&self) -> Result<Duration, LoadError> {
        let span = Duration::from_millis(1);
        let timeout = Timespec { tv_sec: 0, tv_nsec: span.as_nanos().cast_signed() };
        match poll(&mut [PollFd::new(&self.socket, PollFlags::OUT)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(span),
            Err(error) => Err(LoadError::kernel("ppoll")(error.into())),
        }
    }

    /// Datagrams that the socket had no room for since this was last asked.
    pub fn take_drops(&mut self) -> Result<u64, LoadError> {
        let all = drops(&self.socket).map_err(LoadError::kernel("SO_MEMINFO"))?;
        let new = all.wrapping_sub(self.drops);
        self.drops = all;
        Ok(new.into())
    }
}

fn is_without_room(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS))
}

fn is_too_long(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE)
}
