//! Chunks (RFC 9260 section 3.3), with one file per family.

mod control;
mod data;
mod init;
mod sack;

pub use control::{Abort, Heartbeat, Unknown};
pub use data::{DATA_HEADER, Data};
pub use init::Init;
pub use sack::{GapBlock, Sack};

use super::Cause;
use super::tlv::{DecodeError, FieldReader, TlvWriter, padded};
use crate::Serial;

/// Length of a chunk header (type, flags and length), bytes (RFC 9260 section 3.2).
pub const CHUNK_HEADER: u32 = 4;

/// A chunk. The number in parentheses is its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// User data (type 0).
    Data(Data),
    /// Opens an association (1).
    Init(Box<Init>),
    /// Answers INIT, with the state cookie (2).
    InitAck(Box<Init>),
    /// Acknowledges DATA (3).
    Sack(Sack),
    /// Probes a path (4).
    Heartbeat(Heartbeat),
    /// Answers HEARTBEAT with the same content (5).
    HeartbeatAck(Heartbeat),
    /// Ends the association immediately (6).
    Abort(Abort),
    /// The sender has no more data, and has received all TSNs up to and including this one (7).
    Shutdown(Serial),
    /// Answers SHUTDOWN (8).
    ShutdownAck,
    /// Reports an error that does not end the association (9).
    Error(Vec<Cause>),
    /// Returns the state cookie (10).
    CookieEcho(Vec<u8>),
    /// Answers COOKIE ECHO: the association is established (11).
    CookieAck,
    /// Congestion was experienced at or before this TSN (12).
    EcnEcho(Serial),
    /// The sender reduced its window because of the ECN echo for this TSN (13).
    Cwr(Serial),
    /// Answers SHUTDOWN ACK (14).
    ShutdownComplete {
        /// The T bit: the verification tag is copied from the packet to which the chunk replies.
        reflected: bool,
    },
    /// A chunk of any other type.
    Unknown(Unknown),
}

impl Chunk {
    /// Type of the chunk.
    pub const fn kind(&self) -> u8 {
        match self {
            Self::Data(_) => 0,
            Self::Init(_) => 1,
            Self::InitAck(_) => 2,
            Self::Sack(_) => 3,
            Self::Heartbeat(_) => 4,
            Self::HeartbeatAck(_) => 5,
            Self::Abort(_) => 6,
            Self::Shutdown(_) => 7,
            Self::ShutdownAck => 8,
            Self::Error(_) => 9,
            Self::CookieEcho(_) => 10,
            Self::CookieAck => 11,
            Self::EcnEcho(_) => 12,
            Self::Cwr(_) => 13,
            Self::ShutdownComplete { .. } => 14,
            Self::Unknown(unknown) => unknown.kind,
        }
    }

    /// Length on the wire including header and padding, bytes.
    pub fn padded_len(&self) -> u32 {
        padded(CHUNK_HEADER + self.value_len())
    }

    fn value_len(&self) -> u32 {
        match self {
            Self::Data(data) => data.value_len(),
            Self::Init(init) | Self::InitAck(init) => init.value_len(),
            Self::Sack(sack) => sack.value_len(),
            Self::Heartbeat(heartbeat) | Self::HeartbeatAck(heartbeat) => heartbeat.value_len(),
            Self::Abort(abort) => causes_len(&abort.causes),
            Self::Error(causes) => causes_len(causes),
            Self::CookieEcho(cookie) => cookie.len() as u32,
            Self::Shutdown(_) | Self::EcnEcho(_) | Self::Cwr(_) => 4,
            Self::ShutdownAck | Self::CookieAck | Self::ShutdownComplete { .. } => 0,
            Self::Unknown(unknown) => unknown.value.len() as u32,
        }
    }

    const fn flags(&self) -> u8 {
        match self {
            Self::Data(data) => data.flags(),
            Self::Abort(abort) => abort.reflected as u8,
            Self::ShutdownComplete { reflected } => *reflected as u8,
            Self::Unknown(unknown) => unknown.flags,
            _ => 0,
        }
    }

    pub(crate) fn encode(&self, out: &mut TlvWriter) {
        out.item(u16::from_be_bytes([self.kind(), self.flags()]), |out| match self {
            Self::Data(data) => data.encode(out),
            Self::Init(init) | Self::InitAck(init) => init.encode(out),
            Self::Sack(sack) => sack.encode(out),
            Self::Heartbeat(heartbeat) | Self::HeartbeatAck(heartbeat) => heartbeat.encode(out),
            Self::Abort(abort) => abort.causes.iter().for_each(|cause| cause.encode(out)),
            Self::Error(causes) => causes.iter().for_each(|cause| cause.encode(out)),
            Self::CookieEcho(cookie) => out.bytes(cookie),
            Self::Shutdown(tsn) | Self::EcnEcho(tsn) | Self::Cwr(tsn) => out.u32(tsn.0),
            Self::ShutdownAck | Self::CookieAck | Self::ShutdownComplete { .. } => {}
            Self::Unknown(unknown) => out.bytes(&unknown.value),
        });
    }

    pub(crate) fn decode(kind: u8, flags: u8, value: &[u8]) -> Result<Self, DecodeError> {
        let tsn = |name| FieldReader::new(value, name).u32().map(Serial);
        // The T bit (RFC 9260 section 8.5.1).
        let reflected = flags & 1 == 1;
        Ok(match kind {
            0 => Self::Data(Data::decode(flags, value)?),
            1 => Self::Init(Box::new(Init::decode(value, "INIT")?)),
            2 => Self::InitAck(Box::new(Init::decode(value, "INIT ACK")?)),
            3 => Self::Sack(Sack::decode(value)?),
            4 => Self::Heartbeat(Heartbeat::decode(value, "HEARTBEAT")?),
            5 => Self::HeartbeatAck(Heartbeat::decode(value, "HEARTBEAT ACK")?),
            6 => Self::Abort(Abort { reflected, causes: Cause::decode_all(value)? }),
            7 => Self::Shutdown(tsn("SHUTDOWN")?),
            8 => Self::ShutdownAck,
            9 => Self::Error(Cause::decode_all(value)?),
            10 => Self::CookieEcho(value.to_vec()),
            11 => Self::CookieAck,
            12 => Self::EcnEcho(tsn("ECNE")?),
            13 => Self::Cwr(tsn("CWR")?),
            14 => Self::ShutdownComplete { reflected },
            _ => Self::Unknown(Unknown { kind, flags, value: value.to_vec() }),
        })
    }
}

fn causes_len(causes: &[Cause]) -> u32 {
    // The length includes the padding between causes, but not the padding after the last one (RFC 9260 section 3.3.10).
    let (last, others) = match causes.split_last() {
        Some(split) => split,
        None => return 0,
    };
    others.iter().map(|cause| padded(cause.len())).sum::<u32>() + last.len()
}
