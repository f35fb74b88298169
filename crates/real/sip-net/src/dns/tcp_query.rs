//! A query over a TCP connection: each message follows its length (RFC 1035 section 4.2.2).

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;

use netrig_host::HostAddress;
use netrig_host::is_transient;
use netrig_host::socket::SocketBuilder;
use netrig_host::socket::TcpOptions;

/// Length of the prefix of each message, bytes.
pub(super) const PREFIX: usize = 2;

/// Bytes per read.
const PIECE: usize = 4096;

/// A connection for one query and its response.
pub(super) struct TcpQuery {
    stream: TcpStream,
    unsent: Vec<u8>,
    got: Vec<u8>,
}

impl TcpQuery {
    /// Starts to connect. The query is sent once the connection is established.
    pub fn open(server: SocketAddr, message: &[u8]) -> io::Result<Self> {
        let any = HostAddress::unspecified_for(server).at(0);
        let made = SocketBuilder::tcp(&TcpOptions { no_delay: true, ..TcpOptions::default() }, 0, any);
        let socket =
            made.and_then(SocketBuilder::bound).map_err(|error| io::Error::other(error.to_string()))?;
        match rustix::net::connect(&socket, &server) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Self { stream: socket.into(), unsent: framed(message), got: Vec::new() })
    }

    /// The descriptor, to be polled.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Sends and receives without blocking. Returns the response once it is complete.
    pub fn go_on(&mut self) -> io::Result<Option<Vec<u8>>> {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_transient(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        let mut piece = [0; PIECE];
        loop {
            if let Some(message) = first_framed(&self.got) {
                return Ok(Some(message.to_vec()));
            }
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.got.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_transient(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }
}

/// A message with its length prefix.
pub(super) fn framed(message: &[u8]) -> Vec<u8> {
    // No message is longer than 64 KiB.
    let length = u16::try_from(message.len()).unwrap_or(u16::MAX);
    [&length.to_be_bytes(), &message[..usize::from(length)]].concat()
}

/// The first message of the received bytes, if it is complete.
pub(super) fn first_framed(got: &[u8]) -> Option<&[u8]> {
    let (length, rest) = got.split_first_chunk::<PREFIX>()?;
    rest.get(..usize::from(u16::from_be_bytes(*length)))
}
