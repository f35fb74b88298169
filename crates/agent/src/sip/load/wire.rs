//! What a thread's messages come and go by.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use netrig_core::Instant;
use netrig_sip::load::{Outbox, Token};

use super::order::{Carrier, LoadError, Reconnecting};
use super::socket::LoadSocket;
use super::streams::{LoadStreams, Lost};
use super::tester::TesterSecond;
use crate::Clock;
use crate::clock::RealtimeOffset;

/// One socket for datagrams, or connections.
pub(super) enum Wire {
    Datagrams(Box<LoadSocket>),
    Streams(Box<LoadStreams>),
}

impl Wire {
    /// At `local`, with room for what comes of so many calls per second.
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

    /// Where it is reached.
    pub const fn local(&self) -> SocketAddr {
        match self {
            Self::Datagrams(socket) => socket.local(),
            Self::Streams(streams) => streams.local(),
        }
    }

    /// The size of its receive buffer that was asked for and that it has, bytes, if what finds no room there is lost.
    pub const fn room(&self) -> Option<(u32, u32)> {
        match self {
            Self::Datagrams(socket) => Some(socket.room()),
            Self::Streams(_) => None,
        }
    }

    /// A descriptor that can be read from while there is something to be received.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Datagrams(socket) => socket.fd(),
            Self::Streams(streams) => streams.fd(),
        }
    }

    /// Takes some of what has arrived, and gives each message with both ends, the own first, and when the kernel received it. Whether there
    /// may be more. Of datagrams, so many at most.
    pub fn receive(
        &mut self,
        clock: &Clock,
        offset: &RealtimeOffset,
        most: usize,
        each: impl FnMut([SocketAddr; 2], &[u8], Instant),
    ) -> Result<bool, LoadError> {
        match self {
            Self::Datagrams(socket) => socket.receive(clock, offset, most, each),
            Self::Streams(streams) => streams.receive(clock, offset, each),
        }
    }

    /// Sends all that waits.
    pub fn send(&mut self, waiting: &Outbox, counts: &mut TesterSecond) -> Result<(), LoadError> {
        match self {
            Self::Datagrams(socket) => {
                waiting.iter().try_for_each(|(to, bytes)| socket.send(to, bytes, counts).map(drop))?
            }
            Self::Streams(streams) => streams.send(waiting, counts, None),
        }
        Ok(())
    }

    /// Gives the datagrams that reached nobody, as the network has said since this was last asked: the destination and the
    /// beginning of each.
    pub fn take_undelivered(&mut self, each: impl FnMut(SocketAddr, &[u8])) -> Result<(), LoadError> {
        match self {
            Self::Datagrams(socket) => socket.take_undelivered(each),
            Self::Streams(_) => Ok(()),
        }
    }

    /// Connections that are gone since this was last asked.
    pub fn take_lost(&mut self) -> Vec<Lost> {
        match self {
            Self::Datagrams(_) => Vec::new(),
            Self::Streams(streams) => streams.take_lost(),
        }
    }

    /// An attempt has come to its end.
    pub fn release(&mut self, attempt: Token) {
        if let Self::Streams(streams) = self {
            streams.release(attempt);
        }
    }

    /// Datagrams that found no room since this was last asked.
    pub fn take_drops(&mut self) -> Result<u64, LoadError> {
        match self {
            Self::Datagrams(socket) => socket.take_drops(),
            Self::Streams(_) => Ok(0),
        }
    }
}
