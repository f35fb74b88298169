//! The sockets of a thread of a load.

use netrig_sip::settings::Connections;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use netrig_core::Instant;
use netrig_sip::header::Transport;
use netrig_sip::load::{Outbox, Token};
use rustix::event::epoll;
use rustix::io::Errno;

use super::order::{Carrier, LoadError, Reconnecting};
use super::socket::LoadSocket;
use super::streams::{LoadStreams, Lost, SentLater};
use super::tester::TesterSecond;
use netrig_host::Clock;
use netrig_host::RealtimeOffset;

/// Maximum number of ports chosen by the system that are tried for UDP and TCP together.
const PORTS_TRIED: usize = 16;

/// A UDP socket, or connections, or both at the same address.
pub(super) struct ShardSocket {
    local: SocketAddr,
    pub socket: Option<Box<LoadSocket>>,
    /// The connections. Together with UDP, they carry requests that are too long for a datagram.
    pub streams: Option<Box<LoadStreams>>,
    /// A descriptor that is readable while a socket has received data.
    readiness: OwnedFd,
}

impl ShardSocket {
    /// Opens the sockets at `local`, with receive buffers for the messages at this rate of calls.
    pub fn open(
        carrier: &Carrier,
        reconnecting: Reconnecting,
        local: SocketAddr,
        calls_per_s: f64,
    ) -> Result<Self, LoadError> {
        let (connecting, tls) = match carrier {
            Carrier::Udp => {
                let socket = LoadSocket::open(local, calls_per_s)?;
                let (local, readiness) = (socket.local(), socket.fd().try_clone_to_owned());
                let readiness = readiness.map_err(LoadError::kernel("fcntl"))?;
                return Ok(Self { local, socket: Some(Box::new(socket)), streams: None, readiness });
            }
            Carrier::Tcp(connecting) => (*connecting, None),
            Carrier::Tls(connecting, tls) => (*connecting, Some(tls.clone())),
        };
        let streams = LoadStreams::open(local, (connecting, reconnecting), tls)?;
        let (local, readiness) = (streams.local(), streams.fd().try_clone_to_owned());
        let readiness = readiness.map_err(LoadError::kernel("fcntl"))?;
        Ok(Self { local, socket: None, streams: Some(Box::new(streams)), readiness })
    }

    /// Opens a UDP socket, and connections for requests that are too long for a datagram.
    pub fn open_both(
        reconnecting: Reconnecting,
        local: SocketAddr,
        calls_per_s: f64,
    ) -> Result<Self, LoadError> {
        let open = || Self::with_connections(LoadSocket::open(local, calls_per_s)?, reconnecting);
        let mut both = open();
        // The system chooses a port that is free for UDP. The same number may be in use for TCP.
        for _ in 1..PORTS_TRIED {
            if local.port() != 0 || both.is_ok() {
                break;
            }
            both = open();
        }
        both
    }

    fn with_connections(socket: LoadSocket, reconnecting: Reconnecting) -> Result<Self, LoadError> {
        let local = socket.local();
        let streams = LoadStreams::open(local, (Connections::One, reconnecting), None)?;
        let refused = |errno: Errno| LoadError::kernel("epoll_create")(errno.into());
        let readiness = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(refused)?;
        for (fd, number) in [(socket.fd(), 0), (streams.fd(), 1)] {
            epoll::add(&readiness, fd, epoll::EventData::new_u64(number), epoll::EventFlags::IN)
                .map_err(|errno: Errno| LoadError::kernel("epoll_ctl")(errno.into()))?;
        }
        Ok(Self { local, socket: Some(Box::new(socket)), streams: Some(Box::new(streams)), readiness })
    }

    /// The local address.
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// The requested and the actual size of the receive buffer over UDP, bytes; `None` without UDP.
    pub fn room(&self) -> Option<(u32, u32)> {
        self.socket.as_ref().map(|socket| socket.room())
    }

    /// A descriptor that is readable while a socket has received data.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.readiness.as_fd()
    }

    /// Receives messages, at most `most` datagrams. Passes on each message with the local and the peer's address, and
    /// with the time at which the kernel received it. Returns whether more messages may be waiting.
    pub fn receive(
        &mut self,
        clock: &Clock,
        offset: &RealtimeOffset,
        most: usize,
        mut each: impl FnMut(Transport, [SocketAddr; 2], &[u8], Instant),
    ) -> Result<bool, LoadError> {
        let mut has_more = false;
        if let Some(socket) = &mut self.socket {
            has_more |= socket
                .receive(clock, offset, most, |ends, bytes, at| each(Transport::Udp, ends, bytes, at))?;
        }
        if let Some(streams) = &mut self.streams {
            let transport = streams.transport();
            has_more |= streams.receive(clock, offset, |ends, bytes, at| each(transport, ends, bytes, at))?;
        }
        Ok(has_more)
    }

    /// Sends all queued messages over UDP or, without it, over connections.
    pub fn send(
        &mut self,
        clock: &Clock,
        waiting: &Outbox,
        counts: &mut TesterSecond,
    ) -> Result<(), LoadError> {
        match (&mut self.socket, &mut self.streams) {
            (Some(socket), _) => socket.send_all(clock, waiting, counts, |_, _, _, _| ())?,
            (None, streams) => streams.iter_mut().for_each(|streams| streams.send(waiting, counts, None)),
        }
        counts.sent += self.take_sent_later().len() as u64;
        Ok(())
    }

    /// For each datagram that ICMP has reported as undeliverable since the last call, passes on its destination and its
    /// first bytes.
    pub fn take_undelivered(
        &mut self,
        clock: &Clock,
        each: impl FnMut(SocketAddr, &[u8]),
    ) -> Result<(), LoadError> {
        self.socket.as_mut().map_or(Ok(()), |socket| socket.take_undelivered(clock, each))
    }

    /// Messages that waited for their connection to be established and have been sent since the last call.
    pub fn take_sent_later(&mut self) -> Vec<SentLater> {
        self.streams.as_mut().map(|streams| streams.take_sent_later()).unwrap_or_default()
    }

    /// Connections that have ended since the last call.
    pub fn take_lost(&mut self) -> Vec<Lost> {
        self.streams.as_mut().map(|streams| streams.take_lost()).unwrap_or_default()
    }

    /// Records the end of an attempt, whose own connection is then closed.
    pub fn release(&mut self, attempt: Token) {
        self.streams.iter_mut().for_each(|streams| streams.release(attempt));
    }

    /// Number of datagrams that were dropped since the last call because the receive buffer was full.
    pub fn take_drops(&mut self) -> Result<u64, LoadError> {
        self.socket.as_mut().map_or(Ok(0), |socket| socket.take_drops())
    }
}
