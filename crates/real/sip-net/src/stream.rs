//! A TCP or TLS connection that carries SIP messages (RFC 3261 section 18).

use std::collections::VecDeque;
use std::io::{self, IoSlice, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use bytes::Bytes;
use netrig_sip::{Framed, Framer, FramingError, Host};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sockopt};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};

use netrig_host::socket::TcpOptions;
use netrig_host::socket::{SocketBuilder, SocketError};
use netrig_host::sys::{receive_stamped, stamp_received};

/// Maximum number of bytes read from a connection in one call of [`SipStream::receive`], so that it does not starve
/// other connections.
const TURN: usize = 64 * 1024;

/// Maximum number of messages passed to the kernel in one call.
const PIECES: usize = 16;

/// The answer to a keep-alive (RFC 5626 section 4.4.1).
const PONG: &[u8] = b"\r\n";

/// Maximum number of pongs passed to the kernel in one call.
const PONGS: usize = 256;

/// Memory limits of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Length limit of a received message, bytes.
    pub message: usize,
    /// Limit of the queued bytes that have not been sent.
    pub unsent: usize,
}

impl Default for Bounds {
    /// Received messages of at most 65,535 bytes, and at most 256 KiB of queued bytes.
    fn default() -> Self {
        Self { message: 65_535, unsent: 256 * 1024 }
    }
}

/// Why a connection has ended. The stream cannot be used afterwards, except after [`StreamError::Closed`].
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// An error of the kernel.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The peer has closed its sending direction. It may still receive.
    #[error("the peer has closed the connection")]
    Closed,
    /// The received bytes cannot be divided into messages.
    #[error("the received bytes are not SIP: {0}")]
    Framing(#[from] FramingError),
    /// The TLS handshake or a TLS record failed.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The peer receives more slowly than messages are sent to it.
    #[error("{waiting} bytes wait for the peer to take them, where {most} may")]
    Full {
        /// Bytes that wait.
        waiting: usize,
        /// Limit, bytes.
        most: usize,
    },
    /// Waiting and incomplete data of all connections exceeds the limit.
    #[error("all connections together would keep more than the {most} bytes that may be kept")]
    NoRoom {
        /// Limit, bytes.
        most: usize,
    },
}

/// Whether a connection may have more received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// All received bytes have been read.
    Waits,
    /// The limit of bytes per call was reached. The caller serves its other connections before it calls again.
    GoesOn,
}

/// A connection that carries SIP messages. It never blocks and has no clock. The owner polls its descriptor
/// ([`Watch::Both`](netrig_host::Watch::Both)), calls [`SipStream::receive`] and then [`SipStream::flush`] when it is
/// ready, and decides how long it may be idle.
///
/// The stream answers pings of the peer (RFC 5626 section 4.4.1), and also passes them to the caller.
#[derive(Debug)]
pub struct SipStream {
    socket: OwnedFd,
    peer: SocketAddr,
    bounds: Bounds,
    tls: Option<Box<Connection>>,
    connecting: bool,
    framer: Framer,
    /// Messages that the kernel, or TLS, has not yet taken completely.
    unsent: VecDeque<Bytes>,
    /// Bytes of the first message that have been sent.
    gone: usize,
    waiting: usize,
    /// Number of pongs to be sent that are not in the queue. Only their number is kept, so that pings take no memory.
    pongs: u64,
    /// When the kernel received the last bytes, ns of `CLOCK_REALTIME`.
    stamp: Option<u64>,
}

impl SipStream {
    /// An accepted connection. It uses TLS if `tls` is given.
    ///
    /// # Errors
    /// If the options of the socket cannot be set, or the TLS session cannot be made.
    pub fn accepted(
        socket: OwnedFd,
        peer: SocketAddr,
        tls: Option<&Arc<ServerConfig>>,
        bounds: Bounds,
    ) -> Result<Self, StreamError> {
        sockopt::set_tcp_nodelay(&socket, true).map_err(io::Error::from)?;
        let tls = match tls {
            None => None,
            Some(config) => Some(Box::new(ServerConnection::new(Arc::clone(config))?.into())),
        };
        Ok(Self::new(socket, peer, tls, false, bounds))
    }

    /// Starts a connection from `local`; with port 0 the kernel chooses the port. If `tls` is given, the connection
    /// uses TLS, and the peer's certificate must have the given name. Messages are queued until the connection is
    /// established.
    ///
    /// # Errors
    /// If the socket cannot be opened, or the kernel reports at once that the peer is unreachable.
    pub fn connect(
        local: SocketAddr,
        peer: SocketAddr,
        tls: Option<(&Arc<ClientConfig>, ServerName<'static>)>,
        bounds: Bounds,
    ) -> Result<Self, StreamError> {
        let options = TcpOptions { no_delay: true, ..TcpOptions::default() };
        let made = SocketBuilder::tcp(&options, 0, local).and_then(SocketBuilder::bound);
        let socket = made.map_err(|error| match error {
            SocketError::Refused { source, .. } => source,
            other => io::Error::other(other.to_string()),
        })?;
        let connecting = match rustix::net::connect(&socket, &peer) {
            Ok(()) => false,
            Err(Errno::INPROGRESS) => true,
            Err(error) => return Err(io::Error::from(error).into()),
        };
        let tls = match tls {
            None => None,
            Some((config, name)) => Some(Box::new(ClientConnection::new(Arc::clone(config), name)?.into())),
        };
        Ok(Self::new(socket, peer, tls, connecting, bounds))
    }

    fn new(
        socket: OwnedFd,
        peer: SocketAddr,
        mut tls: Option<Box<Connection>>,
        connecting: bool,
        bounds: Bounds,
    ) -> Self {
        if let Some(tls) = &mut tls {
            tls.set_buffer_limit(Some(bounds.unsent));
        }
        Self {
            socket,
            peer,
            bounds,
            tls,
            connecting,
            framer: Framer::new(bounds.message),
            unsent: VecDeque::new(),
            gone: 0,
            waiting: 0,
            pongs: 0,
            stamp: None,
        }
    }

    /// Enables the kernel's time stamps on received bytes.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn stamped(self) -> Result<Self, StreamError> {
        stamp_received(&self.socket)?;
        Ok(self)
    }

    /// The descriptor, to be polled.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The address of the peer.
    pub const fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The address of this end.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn local(&self) -> io::Result<SocketAddr> {
        Ok(rustix::net::getsockname(&self.socket)?.try_into()?)
    }

    /// Whether the TCP and TLS handshakes are complete.
    pub fn is_established(&self) -> bool {
        !self.connecting && self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking())
    }

    /// Number of received bytes of an incomplete message.
    pub fn incomplete(&self) -> usize {
        self.framer.waiting()
    }

    /// Number of queued bytes that have not been sent.
    pub const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether there are bytes that the kernel has not taken, including TLS records without application data.
    pub fn has_unsent(&self) -> bool {
        self.waiting > 0 || self.pongs > 0 || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Queues a message. [`SipStream::flush`] sends it.
    ///
    /// # Errors
    /// If more bytes would wait than the limit.
    pub fn queue(&mut self, message: Bytes) -> Result<(), StreamError> {
        let waiting = self.waiting + message.len();
        // A single message may exceed the limit.
        if waiting > self.bounds.unsent && self.waiting > 0 {
            return Err(StreamError::Full { waiting, most: self.bounds.unsent });
        }
        self.waiting = waiting;
        self.unsent.push_back(message);
        Ok(())
    }

    /// Messages that were not sent completely, for a report after the end of the connection.
    pub fn into_unsent(self) -> impl Iterator<Item = Bytes> {
        self.unsent.into_iter().filter(|message| !message.starts_with(PONG))
    }

    /// Passes as much of the queue to the kernel as it takes.
    ///
    /// # Errors
    /// If the connection has ended.
    pub fn flush(&mut self) -> Result<(), StreamError> {
        if !self.is_connected()? {
            return Ok(());
        }
        loop {
            self.flush_queue()?;
            if self.pongs == 0 || !self.unsent.is_empty() {
                return Ok(());
            }
            let count = self.pongs.min(PONGS as u64) as usize;
            self.pongs -= count as u64;
            self.waiting += count * PONG.len();
            self.unsent.push_back(PONG.repeat(count).into());
        }
    }

    fn flush_queue(&mut self) -> Result<(), StreamError> {
        match self.tls.take() {
            None => self.flush_plain(),
            Some(mut tls) => {
                let flushed = self.flush_tls(&mut tls);
                self.tls = Some(tls);
                flushed
            }
        }
    }

    /// Sends the close_notify alert on a TLS connection (RFC 8446 section 6.1). The TCP connection is closed when the
    /// stream is dropped.
    pub fn say_goodbye(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            // A peer that misses the alert sees the end of the connection.
            let _ = tls.write_tls(&mut TlsTransport::new(&self.socket));
        }
    }

    fn flush_plain(&mut self) -> Result<(), StreamError> {
        while !self.unsent.is_empty() {
            let mut pieces = [IoSlice::new(&[]); PIECES];
            let mut skipped = self.gone;
            let mut count = 0;
            for (piece, message) in pieces.iter_mut().zip(&self.unsent) {
                *piece = IoSlice::new(&message[skipped..]);
                (skipped, count) = (0, count + 1);
            }
            let mut nothing = SendAncillaryBuffer::default();
            let sent = rustix::net::sendmsg(
                &self.socket,
                &pieces[..count],
                &mut nothing,
                SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
            );
            match sent {
                Ok(sent) => self.has_gone(sent),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
        Ok(())
    }

    fn has_gone(&mut self, bytes: usize) {
        self.waiting -= bytes;
        self.gone += bytes;
        while let Some(first) = self.unsent.front()
            && self.gone >= first.len()
        {
            self.gone -= first.len();
            self.unsent.pop_front();
        }
    }

    fn flush_tls(&mut self, tls: &mut Connection) -> Result<(), StreamError> {
        loop {
            while tls.wants_write() {
                match tls.write_tls(&mut TlsTransport::new(&self.socket)) {
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                    Err(error) => return Err(error.into()),
                }
            }
            // Bytes that the TLS session has taken count as sent. It gets none before the handshake is complete.
            if self.unsent.is_empty() || tls.is_handshaking() {
                return Ok(());
            }
            while let Some(first) = self.unsent.front() {
                let taken = tls.writer().write(&first[self.gone..])?;
                if taken == 0 {
                    break;
                }
                self.has_gone(taken);
            }
        }
    }

    /// Reads received bytes up to a limit, and calls `each` with every complete message. Without `to_the_end` it stops
    /// after a read that returns less than requested, and does not notice that the peer has closed its sending
    /// direction; the poller reports later bytes and the end again. If the stream is [`stamped`](Self::stamped), each
    /// message has the time at which the kernel received its end, ns of `CLOCK_REALTIME`. Messages that are read
    /// together have the time stamp of the last one.
    ///
    /// # Errors
    /// If the connection has ended. Messages that arrived before the end are passed on first.
    pub fn receive(
        &mut self,
        to_the_end: bool,
        mut each: impl FnMut(Framed, Option<u64>),
    ) -> Result<Turn, StreamError> {
        if !self.is_connected()? {
            return Ok(Turn::Waits);
        }
        let mut buffer = [0; 16 * 1024];
        let mut read = 0;
        while read < TURN {
            let count = match self.read(&mut buffer) {
                Ok(0) => return Err(StreamError::Closed),
                Ok(count) => count,
                Err(StreamError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Turn::Waits);
                }
                Err(error) => return Err(error),
            };
            read += count;
            self.framer.push(&buffer[..count]);
            self.cut(&mut each)?;
            // With TLS, a short read does not mean that all received bytes have been read.
            if count < buffer.len() && self.tls.is_none() && !to_the_end {
                return Ok(Turn::Waits);
            }
        }
        Ok(Turn::GoesOn)
    }

    fn cut(&mut self, each: &mut impl FnMut(Framed, Option<u64>)) -> Result<(), StreamError> {
        while let Some(framed) = self.framer.poll()? {
            if framed == Framed::Ping {
                self.pongs += 1;
            }
            each(framed, self.stamp);
        }
        Ok(())
    }

    /// Reads decrypted bytes. Returns their number, or 0 if the peer has closed its sending direction.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, StreamError> {
        let mut wire = TlsTransport::new(&self.socket);
        let Some(tls) = &mut self.tls else {
            let count = wire.read(buffer)?;
            self.stamp = wire.stamp;
            return Ok(count);
        };
        loop {
            match tls.reader().read(buffer) {
                // A missing close_notify is ignored: a truncated message is recognised by its Content-Length.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Ok(read?),
            }
            // After the end of the stream there is nothing to process, and the next read returns the cause.
            tls.read_tls(&mut wire)?;
            self.stamp = wire.stamp;
            let processed = tls.process_new_packets();
            // The next handshake message, or the alert.
            let written = tls.write_tls(&mut wire);
            processed?;
            match written {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error.into()),
                _ => {}
            }
        }
    }

    /// Whether the TCP connection is established.
    ///
    /// # Errors
    /// If the connection failed.
    fn is_connected(&mut self) -> Result<bool, StreamError> {
        if self.connecting {
            sockopt::socket_error(&self.socket).map_err(io::Error::from)?.map_err(io::Error::from)?;
            match rustix::net::getpeername(&self.socket) {
                Ok(_) => self.connecting = false,
                Err(Errno::NOTCONN) => {}
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
        Ok(!self.connecting)
    }
}

/// The name that a certificate must have for the host of a URI. `None` if no certificate can have it.
pub fn server_name(host: &Host) -> Option<ServerName<'static>> {
    match host {
        Host::Address(ip) => Some(ServerName::IpAddress((*ip).into())),
        Host::Name(name) => ServerName::try_from(name.clone()).ok(),
    }
}

/// The socket, from which the TLS session reads and to which it writes.
struct TlsTransport<'a> {
    socket: BorrowedFd<'a>,
    /// Time stamp of the last read.
    stamp: Option<u64>,
}

impl<'a> TlsTransport<'a> {
    fn new(socket: &'a OwnedFd) -> Self {
        Self { socket: socket.as_fd(), stamp: None }
    }
}

impl io::Read for TlsTransport<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (count, stamp) = receive_stamped(self.socket, buffer)?;
        self.stamp = stamp;
        Ok(count)
    }
}

impl io::Write for TlsTransport<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        Ok(rustix::io::retry_on_intr(|| rustix::net::send(self.socket, bytes, flags))?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
