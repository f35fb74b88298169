//! One socket for one user agent that a person controls.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use bytes::Bytes;
use netrig_core::{Duration, Instant};
use netrig_sip::Framed;
use netrig_sip::header::Transport;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use super::point::source_towards;
use super::stream::{Bounds, SipStream, StreamError};
use netrig_host::{Clock, HostAddress};

/// Longest time to establish a connection.
const CONNECTS_WITHIN: Duration = Duration::from_secs(10);

/// A path to a server and back, with a clock that starts when it is opened.
#[derive(Debug)]
pub struct Line {
    carrier: LineSocket,
    server: SocketAddr,
    local: SocketAddr,
    clock: Clock,
}

#[derive(Debug)]
enum LineSocket {
    Datagrams(UdpSocket),
    Connection(Box<SipStream>),
}

/// The TLS configuration of a connection, and the name that the server's certificate must have.
pub type LineTls = (Arc<ClientConfig>, ServerName<'static>);

impl Line {
    /// Opens the line from `local`, or from the address that the system chooses, over TLS if `tls` is given. A connection is
    /// established when it is returned.
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
        if transport == Transport::Udp {
            let local = match local {
                Some(local) => local,
                None => source_towards(server)?,
            };
            let socket = UdpSocket::bind(local.at(0))?;
            let local = socket.local_addr()?;
            return Ok(Self { carrier: LineSocket::Datagrams(socket), server, local, clock });
        }
        let from = local.unwrap_or_else(|| HostAddress::unspecified_for(server)).at(0);
        let tls = tls.as_ref().map(|(config, name)| (config, name.clone()));
        let mut stream = SipStream::connect(from, server, tls, Bounds::default())?;
        while !stream.is_established() {
            let left = clock.left_until(Instant::ZERO + CONNECTS_WITHIN);
            if left.is_zero() {
                return Err(io::Error::from(io::ErrorKind::TimedOut).into());
            }
            stream.flush()?;
            ready(&stream, left)?;
            stream.receive(true, |_, _| ())?;
        }
        let local = stream.local()?;
        Ok(Self { carrier: LineSocket::Connection(Box::new(stream)), server, local, clock })
    }

    /// The address that responses are sent to.
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// The time since the line was opened.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Sends a message. A datagram that the socket refuses is lost, as it could be in the network.
    ///
    /// # Errors
    /// If the connection has ended.
    pub fn send(&mut self, message: &Bytes) -> Result<(), StreamError> {
        match &mut self.carrier {
            LineSocket::Datagrams(socket) => {
                socket.send_to(message, self.server).map(drop).map_err(StreamError::Io)
            }
            LineSocket::Connection(stream) => {
                stream.queue(message.clone())?;
                stream.flush()
            }
        }
    }

    /// Waits at most `within` for messages. Returns each message with the time when it was read. Messages of other hosts than the
    /// server's are discarded.
    ///
    /// # Errors
    /// If the connection has ended.
    pub fn receive(&mut self, within: Duration) -> Result<Vec<(Instant, Bytes)>, StreamError> {
        let Self { carrier, server, clock, .. } = self;
        let mut came = Vec::new();
        match carrier {
            LineSocket::Datagrams(socket) => {
                let mut buffer = vec![0; 65_535];
                // A time-out of zero means no time-out to the socket.
                socket.set_read_timeout(Some(within.max(Duration::from_micros(1)).into()))?;
                match socket.recv_from(&mut buffer) {
                    Ok((length, from)) if from.ip() == server.ip() => {
                        came.push((clock.now(), Bytes::copy_from_slice(&buffer[..length])));
                    }
                    Ok(_) => {}
                    Err(error) if is_nothing(&error) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            LineSocket::Connection(stream) => {
                ready(stream, within)?;
                let received = stream.receive(true, |framed, _| {
                    if let Framed::Message(message) = framed {
                        came.push((clock.now(), message));
                    }
                });
                // Messages that arrived before the end are returned first; the next call returns the error again.
                match received {
                    Err(error) if came.is_empty() => return Err(error),
                    _ => {}
                }
                stream.flush()?;
            }
        }
        Ok(came)
    }
}

/// The wait timed out, or ICMP has reported an earlier datagram.
fn is_nothing(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionRefused, HostUnreachable, Interrupted, NetworkUnreachable, TimedOut, WouldBlock,
    };
    [ConnectionRefused, HostUnreachable, Interrupted, NetworkUnreachable, TimedOut, WouldBlock]
        .contains(&error.kind())
}

/// Waits until the connection can be read or, if it has data to send, written.
fn ready(stream: &SipStream, within: Duration) -> io::Result<()> {
    let what = if stream.has_unsent() || !stream.is_established() {
        PollFlags::IN | PollFlags::OUT
    } else {
        PollFlags::IN
    };
    let timeout = Timespec::try_from(std::time::Duration::from(within)).map_err(io::Error::other)?;
    match poll(&mut [PollFd::from_borrowed_fd(stream.fd(), what)], Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
