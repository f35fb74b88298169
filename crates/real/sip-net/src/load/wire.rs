//! The sockets of a thread of a load.

use netrig_sip::settings::Connections;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use netrig_core::Instant;
use netrig_sip::header::Transport;
use netrig_sip::load::{Outbox, Token, is_over_tcp};
use rustix::event::epoll;
use rustix::io::Errno;

use super::order::{Carrier, LoadError, Reconnecting};
use super::socket::LoadSocket;
use super::streams::{LoadStreams, Lost, SentLater};
use super::tester::TesterSecond;
use crate::send_batch::OutgoingDatagram;
use netrig_host::Clock;
use netrig_host::RealtimeOffset;

/// Ports of the system's choice that are tried for both transports.
const PORTS_TRIED: usize = 16;

/// A UDP socket, or connections, or both.
pub(super) enum ShardSocket {
    Datagrams(Box<LoadSocket>),
    Streams(Box<LoadStreams>),
    /// UDP, and connections at the same address for requests that are too long for a datagram.
    Both(Box<BothWires>),
}

pub(super) struct BothWires {
    pub socket: LoadSocket,
    pub streams: LoadStreams,
    /// Readable while one of the two is.
    readiness: OwnedFd,
}

impl BothWires {
    fn open(socket: LoadSocket, reconnecting: Reconnecting) -> Result<Self, LoadError> {
        let streams = LoadStreams::open(socket.local(), (Connections::One, reconnecting), None)?;
        let refused = |errno: Errno| LoadError::kernel("epoll_create")(errno.into());
        let readiness = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(refused)?;
        for (fd, number) in [(socket.fd(), 0), (streams.fd(), 1)] {
            epoll::add(&readiness, fd, epoll::EventData::new_u64(number), epoll::EventFlags::IN)
                .map_err(|errno: Errno| LoadError::kernel("epoll_ctl")(errno.into()))?;
        }
        Ok(Self { socket, streams, readiness })
    }
}

impl ShardSocket {
    /// Opens the sockets at `local`, with room for the messages of this rate of calls.
    pub fn open(
        carrier: &Carrier,
        reconnecting: Reconnecting,
        local: SocketAddr,
        calls_per_s: f64,
    ) -> Result<Self, LoadError> {
        let (connecting, tls) = match carrier {
            Carrier::Udp => return LoadSocket::open(local, calls_per_s).map(Box::new).map(Self::Datagrams),
            Carrier::Tcp(connecting) => (*connecting, None),
            Carrier::Tls(connecting, tls) => (*connecting, Some(tls.clone())),
        };
        Ok(Self::Streams(Box::new(LoadStreams::open(local, (connecting, reconnecting), tls)?)))
    }

    /// Opens UDP, and connections for requests that are too long for it.
    pub fn open_both(
        reconnecting: Reconnecting,
        local: SocketAddr,
        calls_per_s: f64,
    ) -> Result<Self, LoadError> {
        let open = || BothWires::open(LoadSocket::open(local, calls_per_s)?, reconnecting);
        let mut both = open();
        // The system chooses a port that is free for UDP. The same number may be in use for TCP.
        for _ in 1..PORTS_TRIED {
            if local.port() != 0 || both.is_ok() {
                break;
            }
            both = open();
        }
        both.map(Box::new).map(Self::Both)
    }

    /// The local address.
    pub const fn local(&self) -> SocketAddr {
        match self {
            Self::Datagrams(socket) => socket.local(),
            Self::Streams(streams) => streams.local(),
            Self::Both(both) => both.socket.local(),
        }
    }

    /// The requested and the actual size of its receive buffer, bytes, if it can lose messages.
    pub const fn room(&self) -> Option<(u32, u32)> {
        match self {
            Self::Datagrams(socket) => Some(socket.room()),
            Self::Both(both) => Some(both.socket.room()),
            Self::Streams(_) => None,
        }
    }

    /// A descriptor that is readable while there is something to receive.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Datagrams(socket) => socket.fd(),
            Self::Streams(streams) => streams.fd(),
            Self::Both(both) => both.readiness.as_fd(),
        }
    }

    /// Receives messages, at most `most` datagrams. Passes on each message with both addresses, the local first, and the time when
    /// the kernel received it. Returns whether there may be more.
    pub fn receive(
        &mut self,
        clock: &Clock,
        offset: &RealtimeOffset,
        most: usize,
        mut each: impl FnMut(Transport, [SocketAddr; 2], &[u8], Instant),
    ) -> Result<bool, LoadError> {
        match self {
            Self::Datagrams(socket) => socket.receive(clock, offset, most, over(Transport::Udp, &mut each)),
            Self::Streams(streams) => {
                let transport = streams.transport();
                streams.receive(clock, offset, over(transport, &mut each))
            }
            Self::Both(both) => {
                let datagrams = both.socket.receive(clock, offset, most, over(Transport::Udp, &mut each))?;
                let streams = both.streams.receive(clock, offset, over(Transport::Tcp, &mut each))?;
                Ok(datagrams || streams)
            }
        }
    }

    /// Sends all queued messages.
    pub fn send(
        &mut self,
        clock: &Clock,
        waiting: &Outbox,
        counts: &mut TesterSecond,
    ) -> Result<(), LoadError> {
        match self {
            Self::Datagrams(socket) => socket.send_all(clock, waiting, counts, |_, _, _, _| ())?,
            Self::Streams(streams) => {
                streams.send(waiting, counts, None);
                counts.sent += streams.take_sent_later().len() as u64;
            }
            Self::Both(both) => {
                for (to, way, bytes) in waiting.along() {
                    if is_over_tcp(bytes) {
                        both.streams.queue((to, way), bytes, counts, None);
                    } else {
                        let datagram = OutgoingDatagram { to, bytes, order_key: None };
                        both.socket.send(clock, &[datagram], counts, |_, _, _| ())?;
                    }
                }
                both.streams.flush();
                counts.sent += both.streams.take_sent_later().len() as u64;
            }
        }
        Ok(())
    }

    /// Passes on the destination and the beginning of each datagram that ICMP has reported as undeliverable since the last call.
    pub fn take_undelivered(
        &mut self,
        clock: &Clock,
        each: impl FnMut(SocketAddr, &[u8]),
    ) -> Result<(), LoadError> {
        match self {
            Self::Datagrams(socket) => socket.take_undelivered(clock, each),
            Self::Both(both) => both.socket.take_undelivered(clock, each),
            Self::Streams(_) => Ok(()),
        }
    }

    /// Messages sent since the last call after their connection was established.
    pub fn take_sent_later(&mut self) -> Vec<SentLater> {
        match self {
            Self::Datagrams(_) => Vec::new(),
            Self::Streams(streams) => streams.take_sent_later(),
            Self::Both(both) => both.streams.take_sent_later(),
        }
    }

    /// Connections that have ended since the last call.
    pub fn take_lost(&mut self) -> Vec<Lost> {
        match self {
            Self::Datagrams(_) => Vec::new(),
            Self::Streams(streams) => streams.take_lost(),
            Self::Both(both) => both.streams.take_lost(),
        }
    }

    /// Records the end of an attempt.
    pub fn release(&mut self, attempt: Token) {
        match self {
            Self::Datagrams(_) => {}
            Self::Streams(streams) => streams.release(attempt),
            Self::Both(both) => both.streams.release(attempt),
        }
    }

    /// Datagrams without room in the receive buffer since the last call.
    pub fn take_drops(&mut self) -> Result<u64, LoadError> {
        match self {
            Self::Datagrams(socket) => socket.take_drops(),
            Self::Both(both) => both.socket.take_drops(),
            Self::Streams(_) => Ok(0),
        }
    }
}

/// Passes each message to `each`, with the transport over which it arrived.
fn over(
    transport: Transport,
    each: &mut impl FnMut(Transport, [SocketAddr; 2], &[u8], Instant),
) -> impl FnMut([SocketAddr; 2], &[u8], Instant) {
    move |ends, bytes, at| each(transport, ends, bytes, at)
}
