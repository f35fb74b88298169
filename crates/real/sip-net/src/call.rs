//! One socket for one user agent that a person controls.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use netrig_core::{Duration, Instant};
use netrig_sip::header::Transport;

use super::end::{EndAddress, LineTls, UserAgentEnd, wait_for_ends};
use super::stream::StreamError;
use netrig_host::{Clock, HostAddress};

/// Longest time to establish a connection.
const CONNECTS_WITHIN: Duration = Duration::from_secs(10);

/// The socket of one user agent towards one server, and a clock that starts at zero when the socket is opened.
#[derive(Debug)]
pub struct Line {
    end: UserAgentEnd,
    server: SocketAddr,
    clock: Clock,
}

impl Line {
    /// Opens the line from `local`, or from the address that the system chooses, over TLS if `tls` is given. Over TCP
    /// and TLS it returns after the connection is established.
    ///
    /// # Errors
    /// If the socket cannot be opened, or the connection is not established within ten seconds.
    pub fn open(
        transport: Transport,
        server: SocketAddr,
        local: Option<HostAddress>,
        tls: Option<LineTls>,
    ) -> Result<Self, StreamError> {
        let clock = Clock::starting_in(Duration::ZERO);
        let address = EndAddress::towards(server, transport, local, tls)?;
        let end = UserAgentEnd::open(&EndAddress { most_accepted: 0, ..address });
        let mut end = end.map_err(|error| io::Error::other(error.to_string()))?;
        end.connect(CONNECTS_WITHIN)?;
        Ok(Self { end, server, clock })
    }

    /// The local address. Contact and Via contain it.
    pub const fn local(&self) -> SocketAddr {
        self.end.local()
    }

    /// The current time.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Sends a message.
    ///
    /// # Errors
    /// If it cannot be sent.
    pub fn send(&mut self, message: &Bytes) -> Result<(), StreamError> {
        self.end.send(message)?;
        match self.end.take_losses()? {
            (_, 0) => Ok(()),
            _ => Err(io::Error::other("the kernel refuses the datagram").into()),
        }
    }

    /// Waits at most `within`. Returns the received messages with the times at which the kernel received them.
    /// Datagrams of other hosts are ignored.
    ///
    /// # Errors
    /// If the connection has ended, and all messages before its end have been returned.
    pub fn receive(&mut self, within: Duration) -> Result<Vec<(Instant, Bytes)>, StreamError> {
        wait_for_ends(&self.end.watched(), within);
        let arrived = self.end.receive(&self.clock).into_iter();
        let arrived = arrived.filter(|message| message.path.peer().ip() == self.server.ip());
        let arrived: Vec<_> = arrived.map(|message| (message.at, message.bytes)).collect();
        // Messages that arrived before the end are returned first.
        let ended = if arrived.is_empty() { self.end.take_ended().pop() } else { None };
        ended.map_or(Ok(arrived), |ended| Err(ended.why))
    }
}
