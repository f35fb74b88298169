//! One user agent's sockets.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd as _, BorrowedFd};

use bytes::Bytes;
use netrig_sip::Framed;
use netrig_sip::header::Transport;

use super::call::LineTls;
use super::point::source_towards;
use super::stream::{Bounds, SipStream, StreamError};
use crate::HostAddress;

/// Connections that a server may have opened to one user agent at a time.
const MOST_ACCEPTED: usize = 16;

/// Where a message came from, and where its answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalPath {
    /// A datagram from this address.
    Datagram(SocketAddr),
    /// The connection that the user agent opened.
    Own(SocketAddr),
    /// A connection that the server opened, by its number.
    Accepted(u64, SocketAddr),
}

impl ArrivalPath {
    /// The address of the peer.
    pub const fn peer(self) -> SocketAddr {
        match self {
            Self::Datagram(peer) | Self::Own(peer) | Self::Accepted(_, peer) => peer,
        }
    }
}

/// How to reach the server.
#[derive(Clone, Debug)]
pub struct EndAddress {
    /// UDP, TCP or TLS.
    pub transport: Transport,
    /// The server.
    pub server: SocketAddr,
    /// Address to send from; its port is chosen by the system.
    pub local: HostAddress,
    /// For TLS.
    pub tls: Option<LineTls>,
}

impl EndAddress {
    /// To a server, from `local` or the address from which the system sends to it.
    ///
    /// # Errors
    /// There is no way to the server.
    pub fn towards(
        server: SocketAddr,
        transport: Transport,
        local: Option<HostAddress>,
        tls: Option<LineTls>,
    ) -> io::Result<Self> {
        let local = match local {
            Some(local) => local,
            None => source_towards(server)?,
        };
        Ok(Self { transport, server, local, tls })
    }
}

/// The sockets: a UDP socket; or a listening socket, a connection to the server, and connections that the server opens.
#[derive(Debug)]
pub struct TestEnd {
    address: EndAddress,
    local: SocketAddr,
    way: EndWay,
}

#[derive(Debug)]
enum EndWay {
    Datagrams(UdpSocket),
    Connections {
        listener: TcpListener,
        own: Option<Box<SipStream>>,
        accepted: Vec<(u64, SipStream)>,
        next: u64,
    },
}

impl TestEnd {
    /// Opens the sockets. A connection to the server is opened by the first message that is sent.
    ///
    /// # Errors
    /// The system refuses a socket.
    pub fn open(address: &EndAddress) -> io::Result<Self> {
        let address = address.clone();
        if address.transport == Transport::Udp {
            let socket = UdpSocket::bind(address.local.at(0))?;
            socket.set_nonblocking(true)?;
            let local = socket.local_addr()?;
            return Ok(Self { address, local, way: EndWay::Datagrams(socket) });
        }
        let listener = TcpListener::bind(address.local.at(0))?;
        listener.set_nonblocking(true)?;
        let local = listener.local_addr()?;
        Ok(Self {
            address,
            local,
            way: EndWay::Connections { listener, own: None, accepted: Vec::new(), next: 0 },
        })
    }

    /// Where requests to this user agent go: what its Contact and Via name.
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// Sends to the server. Over a connection that has ended, a new one is opened.
    ///
    /// # Errors
    /// There is no way to the server.
    pub fn send(&mut self, bytes: &Bytes) -> Result<(), StreamError> {
        let Self { address, local, way } = self;
        match way {
            EndWay::Datagrams(socket) => datagram(socket, bytes, address.server),
            EndWay::Connections { own, .. } => {
                if own.is_none() {
                    let from = HostAddress::from(*local).at(0);
                    let tls = address.tls.as_ref().map(|(config, name)| (config, name.clone()));
                    *own = Some(Box::new(SipStream::connect(from, address.server, tls, Bounds::default())?));
                }
                // It was just made if it was not there.
                let Some(stream) = own else { return Ok(()) };
                stream.queue(bytes.clone())?;
                let sent = stream.flush();
                if sent.is_err() {
                    *own = None;
                }
                sent
            }
        }
    }

    /// Sends the answer to what came on `path`; over UDP to `to`.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn answer(&mut self, path: ArrivalPath, to: SocketAddr, bytes: &Bytes) -> Result<(), StreamError> {
        match (&mut self.way, path) {
            (EndWay::Datagrams(socket), _) => datagram(socket, bytes, to),
            (EndWay::Connections { accepted, .. }, ArrivalPath::Accepted(number, _)) => {
                let found = accepted.iter_mut().find(|(own, _)| *own == number);
                let (_, stream) = found.ok_or(StreamError::Closed)?;
                stream.queue(bytes.clone())?;
                stream.flush()
            }
            (EndWay::Connections { .. }, _) => self.send(bytes),
        }
    }

    /// Ends the connection to the server, and all that it opened.
    pub fn disconnect(&mut self) {
        if let EndWay::Connections { own, accepted, .. } = &mut self.way {
            *own = None;
            accepted.clear();
        }
    }

    /// Whether the connection to the server stands. Always for UDP.
    pub fn is_connected(&self) -> bool {
        match &self.way {
            EndWay::Datagrams(_) => true,
            EndWay::Connections { own, .. } => own.is_some(),
        }
    }

    /// Descriptors to be watched, each with whether it waits to be written.
    pub fn watched(&self) -> Vec<(BorrowedFd<'_>, bool)> {
        match &self.way {
            EndWay::Datagrams(socket) => vec![(socket.as_fd(), false)],
            EndWay::Connections { listener, own, accepted, .. } => {
                let streams = own.iter().map(|own| &**own).chain(accepted.iter().map(|(_, stream)| stream));
                let streams =
                    streams.map(|stream| (stream.fd(), stream.has_unsent() || !stream.is_established()));
                std::iter::once((listener.as_fd(), false)).chain(streams).collect()
            }
        }
    }

    /// What has come. It does not wait.
    pub fn receive(&mut self) -> Vec<(ArrivalPath, Bytes)> {
        let mut came = Vec::new();
        match &mut self.way {
            EndWay::Datagrams(socket) => {
                let mut buffer = vec![0; 65_535];
                // An error is what the network has said of a datagram that was sent, or that nothing is there.
                while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                    came.push((ArrivalPath::Datagram(from), Bytes::copy_from_slice(&buffer[..length])));
                }
            }
            EndWay::Connections { listener, own, accepted, next } => {
                while let Ok((socket, peer)) = listener.accept() {
                    let _ = socket.set_nonblocking(true);
                    if let Ok(stream) = SipStream::accepted(socket.into(), peer, None, Bounds::default())
                        && accepted.len() < MOST_ACCEPTED
                    {
                        accepted.push((*next, stream));
                        *next += 1;
                    }
                }
                if let Some(stream) = own {
                    let path = ArrivalPath::Own(stream.peer());
                    if !turn(stream, path, &mut came) {
                        *own = None;
                    }
                }
                accepted.retain_mut(|(number, stream)| {
                    let path = ArrivalPath::Accepted(*number, stream.peer());
                    turn(stream, path, &mut came)
                });
            }
        }
        came
    }
}

/// Reads and writes what a connection has; false if it is over.
fn turn(stream: &mut SipStream, path: ArrivalPath, came: &mut Vec<(ArrivalPath, Bytes)>) -> bool {
    let flushed = stream.flush();
    let received = stream.receive(true, |framed, _| {
        if let Framed::Message(message) = framed {
            came.push((path, message));
        }
    });
    flushed.and(received).and_then(|_| stream.flush()).is_ok()
}

/// What a socket of datagrams does not take is lost as it could be on the way.
fn datagram(socket: &UdpSocket, bytes: &Bytes, to: SocketAddr) -> Result<(), StreamError> {
    match socket.send_to(bytes, to) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Err(error.into()),
        _ => Ok(()),
    }
}
