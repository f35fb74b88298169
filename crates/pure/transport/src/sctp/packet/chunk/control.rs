//! Small chunks: HEARTBEAT, ABORT, and chunks of unknown types.

use crate::sctp::packet::Cause;
use crate::sctp::packet::tlv::{DecodeError, TlvItems, TlvWriter, UnknownAction};

/// HEARTBEAT and HEARTBEAT ACK (RFC 9260 sections 3.3.5 and 3.3.6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Content that only the sender of the HEARTBEAT interprets. The peer returns it unchanged.
    pub info: Vec<u8>,
}

impl Heartbeat {
    /// Type of the "Heartbeat Info" parameter.
    const INFO: u16 = 1;

    pub(super) fn value_len(&self) -> u32 {
        4 + self.info.len() as u32
    }

    pub(super) fn encode(&self, out: &mut TlvWriter) {
        out.item(Self::INFO, |out| out.bytes(&self.info));
    }

    pub(super) fn decode(value: &[u8], chunk: &'static str) -> Result<Self, DecodeError> {
        match TlvItems::new(value).next() {
            Some(Ok((Self::INFO, info))) => Ok(Self { info: info.to_vec() }),
            Some(Err(error)) => Err(error),
            _ => Err(DecodeError::Chunk { chunk }),
        }
    }
}

/// ABORT (RFC 9260 section 3.3.7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abort {
    /// The T bit: the verification tag is copied from the packet to which the ABORT replies.
    pub reflected: bool,
    /// The causes.
    pub causes: Vec<Cause>,
}

/// A chunk of a type that is unknown to this endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// Type.
    pub kind: u8,
    /// Flags.
    pub flags: u8,
    /// Value, without header and padding.
    pub value: Vec<u8>,
}

impl Unknown {
    /// The action that the chunk type requires.
    pub const fn action(&self) -> UnknownAction {
        UnknownAction::of_chunk(self.kind)
    }
}
