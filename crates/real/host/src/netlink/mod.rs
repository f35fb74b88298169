//! Netlink with one request at a time (netlink(7)).

mod ethtool;
pub mod generic;
mod link;
mod radio;
mod sockets;

pub use ethtool::{Ethtool, RingSizes};
pub use link::{Interface, Links, Route};
pub use radio::{RadioLink, Radios};
pub use sockets::{BoundSocket, SocketList};

use std::fmt::Debug;
use std::io;

use netlink_packet_core::{
    DefaultNla, ErrorMessage, NLM_F_ACK, NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader, NetlinkMessage,
    NetlinkPayload, NetlinkSerializable, Nla, NlasIterator, Parseable,
};
use netlink_sys::{Socket, SocketAddr};

/// NLMSGERR_ATTR_MSG of Linux's `netlink.h`: the attribute with the kernel's text about an error.
const ERROR_WORDS: u16 = 1;
/// Length of a `nlmsghdr`.
const HEADER: usize = 16;

/// A netlink socket. It works in the network namespace in which it was opened.
#[derive(Debug)]
pub struct NetlinkSocket {
    socket: Socket,
    sequence: u32,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    /// The kernel refused the request.
    #[error(transparent)]
    Kernel(#[from] io::Error),
    /// The kernel's answer cannot be parsed.
    #[error("the kernel's answer cannot be read: {0}")]
    Unreadable(String),
}

impl NetlinkSocket {
    /// Opens a socket in the namespace of the calling thread.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn open(protocol: isize) -> Result<Self, NetlinkError> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        // With these options, errors contain the kernel's text, but no copy of the request.
        socket.set_ext_ack(true)?;
        socket.set_cap_ack(true)?;
        if !(socket.get_ext_ack()? && socket.get_cap_ack()?) {
            return Err(NetlinkError::Unreadable("NETLINK_EXT_ACK or NETLINK_CAP_ACK did not take".into()));
        }
        Ok(Self { socket, sequence: 0 })
    }

    /// Sends a request with additional `flags` and waits for the acknowledgement. Returns the messages that arrived
    /// before the acknowledgement.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn ask<M>(&mut self, message: M, flags: u16) -> Result<Vec<M>, NetlinkError>
    where
        M: NetlinkSerializable + NetlinkDeserializable + Debug,
    {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        header.sequence_number = self.sequence;
        let mut question = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        question.finalize();
        let mut bytes = vec![0; question.buffer_len()];
        question.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        self.read_answers()
    }

    fn read_answers<M: NetlinkDeserializable + Debug>(&self) -> Result<Vec<M>, NetlinkError> {
        let mut answers = Vec::new();
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                let answer = NetlinkMessage::<M>::deserialize(rest);
                let answer = answer.map_err(|error| NetlinkError::Unreadable(error.to_string()))?;
                let length = (answer.header.length as usize).next_multiple_of(4).max(HEADER);
                rest = rest.get(length..).unwrap_or_default();
                if answer.header.sequence_number != self.sequence {
                    continue;
                }
                match answer.payload {
                    NetlinkPayload::InnerMessage(message) => answers.push(message),
                    NetlinkPayload::Error(error) if error.code.is_some() => {
                        return Err(NetlinkError::Kernel(words(&error)));
                    }
                    NetlinkPayload::Error(_) | NetlinkPayload::Done(_) => return Ok(answers),
                    NetlinkPayload::Noop => {}
                    other => return Err(NetlinkError::Unreadable(format!("{other:?}"))),
                }
            }
        }
    }
}

/// Converts an error message to an error that includes the kernel's text, if there is one.
fn words(error: &ErrorMessage) -> io::Error {
    let number = error.to_io();
    let attributes = error.header.get(HEADER..).unwrap_or_default();
    let text = NlasIterator::new(attributes).flatten().find(|nla| nla.kind() == ERROR_WORDS);
    match text.and_then(|nla| String::from_utf8(nla.value().to_vec()).ok()) {
        Some(text) => io::Error::new(number.kind(), format!("{number}: {}", text.trim_end_matches('\0'))),
        None => number,
    }
}

/// Parses a list of attributes.
pub fn attributes(bytes: &[u8]) -> Vec<DefaultNla> {
    NlasIterator::new(bytes).flatten().filter_map(|nla| DefaultNla::parse(&nla).ok()).collect()
}

/// The value of an attribute.
pub fn value(attribute: &DefaultNla) -> Vec<u8> {
    let mut value = vec![0; attribute.value_len()];
    attribute.emit_value(&mut value);
    value
}
