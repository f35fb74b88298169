//! A connection that carries SIP messages: over TCP, or over TLS on it (RFC 3261 section 18).

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

/// Most bytes that a connection reads in one turn, so that it does not starve the others.
const TURN: usize = 64 * 1024;

/// Most messages passed to the kernel in one call.
const PIECES: usize = 16;

/// The answer to a keep-alive (RFC 5626 section 4.4.1).
const PONG: &[u8] = b"\r\n";

/// Pongs passed to the kernel at once.
const PONGS: usize = 256;

/// Limits of the memory for a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Longest incoming message, bytes.
    pub message: usize,
    /// Most bytes that wait for the peer to receive them.
    pub unsent: usize,
}

impl Default for Bounds {
    /// 65,535 bytes in, 256 KiB out.
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

/// Whether a connection can continue at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It waits for its peer.
    Waits,
    /// It was interrupted, and continues after the turns of the others.
    GoesOn,
}

/// A connection that carries SIP messages. It never blocks and has no clock. The owner polls its descriptor
/// ([`Watch::Both`](netrig_host::Watch::Both)), calls [`SipStream::receive`] and then [`SipStream::flush`] when it is ready, and
/// decides how long it may be idle.
///
/// The stream answers pings of the peer. It passes them to the caller like messages.
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
    /// Number of pongs to be sent, beside those in the queue. Only their number is kept, so that pings take no memory.
    pongs: u64,
    /// When the kernel received the last bytes, ns of `CLOCK_REALTIME`.
    stamp: Option<u64>,
}

impl SipStream {
    /// An accepted connection; over TLS, if there is a configuration for it.
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

    /// Starts a connection from `local`, whose port the kernel chooses if it is 0; over TLS with a peer of that name, if there
    /// is a configuration for it. Messages are queued until the connection is established.
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

    /// Whether messages can pass: the TCP and TLS handshakes are done.
    pub fn is_established(&self) -> bool {
        !self.connecting && self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking())
    }

    /// Bytes of a message that is not yet complete.
    pub fn incomplete(&self) -> usize {
        self.framer.waiting()
    }

    /// Bytes that the peer has not received.
    pub const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether there are bytes that the kernel has not taken, including TLS's own records.
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

    /// Sends the close_notify alert on a TLS connection (RFC 8446 section 6.1). TCP's own end follows when the stream is
    /// dropped.
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
            // Bytes that TLS has taken count as sent. Before the handshake is done, it gets none.
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

    /// Reads received bytes, at most a turn's worth, to the end of the stream. Without a look for the end it reads until a read
    /// returns less than requested; the kernel reports later bytes again. Passes on each message. If the stream is
    /// [`stamped`](Self::stamped), the message has the time when the kernel received its end, ns of `CLOCK_REALTIME`. Messages
    /// that arrived close together have the stamp of the last one.
    ///
    /// # Errors
    /// If the connection has ended. Messages that arrived before are passed on first.
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
            // TLS may return less than it holds.
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

    /// Decrypted bytes, at least one; zero at the end.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, StreamError> {
        let mut wire = TlsTransport::new(&self.socket);
        let Some(tls) = &mut self.tls else {
            let count = wire.read(buffer)?;
            self.stamp = wire.stamp;
            return Ok(count);
        };
        loop {
            match tls.reader().read(buffer) {
                // A peer that closes without close_notify has closed all the same: a message has its own length.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Ok(read?),
            }
            // After the end there is nothing to process; the reader returns how it ended.
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

/// The socket as TLS reads and writes it.
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
