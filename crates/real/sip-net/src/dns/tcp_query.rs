//! A query over a TCP connection. Each message is preceded by its length (RFC 1035 section 4.2.2).

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;

use crate::byte_stream::{flush_bytes, read_bytes};
use netrig_host::HostAddress;
use netrig_host::socket::SocketBuilder;
use netrig_host::socket::TcpOptions;

/// Length of the prefix of each message, bytes.
pub(super) const PREFIX: usize = 2;

/// The length of the longest message including its prefix, bytes.
const LONGEST: usize = PREFIX + u16::MAX as usize;

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
        flush_bytes(&mut self.stream, &mut self.unsent)?;
        if !self.unsent.is_empty() {
            return Ok(None);
        }
        let goes_on = read_bytes(&mut self.stream, &mut self.got, LONGEST);
        match first_framed(&self.got) {
            Some(message) => Ok(Some(message.to_vec())),
            None if goes_on? => Ok(None),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
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
