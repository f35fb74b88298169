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

/// Bytes that one turn of a connection reads at most, so that one does not starve the others.
const TURN: usize = 64 * 1024;

/// Messages that one call gives the kernel at most.
const PIECES: usize = 16;

/// The answer to a keep-alive (RFC 5626 section 4.4.1).
const PONG: &[u8] = b"\r\n";

/// Pongs that are given to the kernel at once.
const PONGS: usize = 256;

/// How much is kept for a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Of a message that comes in, bytes.
    pub message: usize,
    /// Of all that waits to be taken by the peer, bytes.
    pub unsent: usize,
}

impl Default for Bounds {
    /// 65,535 bytes in, 256 KiB out.
    fn default() -> Self {
        Self { message: 65_535, unsent: 256 * 1024 }
    }
}

/// Why a connection is over. The stream is of no use afterwards, but for [`StreamError::Closed`].
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The kernel says so.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The peer has said all that it will. It may still take what is sent to it.
    #[error("the peer has closed the connection")]
    Closed,
    /// What came cannot be cut into messages.
    #[error("what came is no SIP: {0}")]
    Framing(#[from] FramingError),
    /// The peers do not understand or do not trust each other.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The peer is slower than what is sent to it.
    #[error("{waiting} bytes wait for the peer to take them, where {most} may")]
    Full {
        /// Bytes.
        waiting: usize,
        /// Bytes.
        most: usize,
    },
    /// What waits for peers and what is incomplete, of all connections, is more than may be kept.
    #[error("all connections together would keep more than the {most} bytes that may be kept")]
    NoRoom {
        /// Bytes.
        most: usize,
    },
}

/// Whether a connection has more to do at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It waits for its peer.
    Waits,
    /// It was interrupted, and goes on when the others have had their turns.
    GoesOn,
}

/// A connection that carries SIP messages. It never blocks, and knows no time: who drives it watches its descriptor
/// ([`Watch::Both`](netrig_host::Watch::Both)), calls [`SipStream::receive`] and then [`SipStream::flush`] when it is ready, and
/// decides how long it may be silent.
///
/// Pings of the peer are answered here; they and messages that come are told alike.
#[derive(Debug)]
pub struct SipStream {
    socket: OwnedFd,
    peer: SocketAddr,
    bounds: Bounds,
    tls: Option<Box<Connection>>,
    connecting: bool,
    framer: Framer,
    /// Messages that the kernel, or TLS, has not yet taken as a whole.
    unsent: VecDeque<Bytes>,
    /// Of the first of them, how much has gone.
    gone: usize,
    waiting: usize,
    /// Pongs that are owed, beside those that are among the unsent: they are counted, so that pings take no room.
    pongs: u64,
    /// When the kernel received what was read last, ns of `CLOCK_REALTIME`.
    stamp: Option<u64>,
}

impl SipStream {
    /// A connection that was accepted; over TLS, if there is a configuration for it.
    ///
    /// # Errors
    /// If the options of the socket cannot be had, or those of TLS.
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

    /// Begins a connection from `local`, whose port the kernel chooses if it is 0; over TLS with a peer of that name, if there
    /// is a configuration for it. What is sent meanwhile waits until the connection stands.
    ///
    /// # Errors
    /// If the socket cannot be had, or the kernel knows at once that nobody is there.
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

    /// Has the kernel stamp what comes.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn stamped(self) -> Result<Self, StreamError> {
        stamp_received(&self.socket)?;
        Ok(self)
    }

    /// The descriptor, to be watched.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Who is at the other end.
    pub const fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The address of this end.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn local(&self) -> io::Result<SocketAddr> {
        Ok(rustix::net::getsockname(&self.socket)?.try_into()?)
    }

    /// Whether messages can pass: the handshakes of TCP and of TLS are done.
    pub fn is_established(&self) -> bool {
        !self.connecting && self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking())
    }

    /// Bytes of a message whose rest has not come.
    pub fn incomplete(&self) -> usize {
        self.framer.waiting()
    }

    /// Bytes that the peer has not taken.
    pub const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether there is anything that the kernel has not taken, TLS's own records included.
    pub fn has_unsent(&self) -> bool {
        self.waiting > 0 || self.pongs > 0 || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Puts a message behind those that wait. [`SipStream::flush`] sends them.
    ///
    /// # Errors
    /// More would wait than may.
    pub fn queue(&mut self, message: Bytes) -> Result<(), StreamError> {
        let waiting = self.waiting + message.len();
        // One alone may be as long as it likes.
        if waiting > self.bounds.unsent && self.waiting > 0 {
            return Err(StreamError::Full { waiting, most: self.bounds.unsent });
        }
        self.waiting = waiting;
        self.unsent.push_back(message);
        Ok(())
    }

    /// Messages that were not sent as a whole, for who wants to tell of them when the connection is over.
    pub fn into_unsent(self) -> impl Iterator<Item = Bytes> {
        self.unsent.into_iter().filter(|message| !message.starts_with(PONG))
    }

    /// Gives the kernel as much of what waits as it takes.
    ///
    /// # Errors
    /// The connection is over.
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

    /// Tells the peer of a connection in TLS that nothing follows (RFC 8446 section 6.1). TCP's own end is that of the
    /// stream.
    pub fn say_goodbye(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            // Who does not take it finds the end of the connection.
            let _ = tls.write_tls(&mut Wire::new(&self.socket));
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
                match tls.write_tls(&mut Wire::new(&self.socket)) {
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                    Err(error) => return Err(error.into()),
                }
            }
            // What TLS has taken is counted as sent: before it is ready to seal it, it is not given anything.
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

    /// Reads what has come, at most a turn's worth, to its end or, if that is not to be looked for, until less came than was
    /// asked for: whatever comes later is reported by the kernel again. Tells each message, with when the kernel received its
    /// end, ns of `CLOCK_REALTIME`, if the stream is [`stamped`](Self::stamped). Of messages that came close together the last
    /// one's stamp is told.
    ///
    /// # Errors
    /// The connection is over. What came before is told first.
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
            // What TLS has given may be less than it has.
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

    /// Bytes of SIP, at least one; none at the end.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, StreamError> {
        let mut wire = Wire::new(&self.socket);
        let Some(tls) = &mut self.tls else {
            let count = wire.read(buffer)?;
            self.stamp = wire.stamp;
            return Ok(count);
        };
        loop {
            match tls.reader().read(buffer) {
                // A peer that hangs up without saying so in TLS has hung up all the same: a message tells its length.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Ok(read?),
            }
            // After the end there is nothing to process, and the reader says how it ended.
            tls.read_tls(&mut wire)?;
            self.stamp = wire.stamp;
            let processed = tls.process_new_packets();
            // Its part of the handshake, or why there is none.
            let written = tls.write_tls(&mut wire);
            processed?;
            match written {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error.into()),
                _ => {}
            }
        }
    }

    /// Whether the connection stands.
    ///
    /// # Errors
    /// It could not be made.
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

/// The name that a certificate is to have, of a host of a URI. `None` if none can.
pub fn server_name(host: &Host) -> Option<ServerName<'static>> {
    match host {
        Host::Address(ip) => Some(ServerName::IpAddress((*ip).into())),
        Host::Name(name) => ServerName::try_from(name.clone()).ok(),
    }
}

/// What TLS reads from and writes to.
struct Wire<'a> {
    socket: BorrowedFd<'a>,
    /// Of what was read last.
    stamp: Option<u64>,
}

impl<'a> Wire<'a> {
    fn new(socket: &'a OwnedFd) -> Self {
        Self { socket: socket.as_fd(), stamp: None }
    }
}

impl io::Read for Wire<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (count, stamp) = receive_stamped(self.socket, buffer)?;
        self.stamp = stamp;
        Ok(count)
    }
}

impl io::Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        Ok(rustix::io::retry_on_intr(|| rustix::net::send(self.socket, bytes, flags))?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
