//! Error causes of ERROR and ABORT (RFC 9260 section 3.3.10).

use super::tlv::{DecodeError, FieldReader, TlvItems, TlvWriter};

/// Reason why a chunk was refused or an association aborted. The number in parentheses is the cause code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// DATA on a stream that does not exist (1).
    InvalidStream(u16),
    /// Types of the mandatory parameters that are missing (2).
    MissingParameters(Vec<u16>),
    /// The cookie is stale. The value is the time since the end of its life, microseconds (3).
    StaleCookie(u32),
    /// The sender has no resources (4).
    OutOfResource,
    /// An address parameter that the receiver cannot use, header included (5).
    UnresolvableAddress(Vec<u8>),
    /// A chunk of unknown type, header included (6).
    UnrecognizedChunk(Vec<u8>),
    /// A mandatory parameter has an invalid value (7).
    InvalidParameter,
    /// Parameters of the INIT ACK that are unknown to the receiver, headers included (8).
    UnrecognizedParameters(Vec<u8>),
    /// TSN of a DATA chunk without user data (9).
    NoUserData(u32),
    /// A COOKIE ECHO was received during the shutdown (10).
    CookieWhileShuttingDown,
    /// A restart with additional addresses. The value is these addresses as parameters (11).
    RestartWithNewAddresses(Vec<u8>),
    /// The user aborted, with an optional reason (12).
    UserAbort(Vec<u8>),
    /// The peer violated the protocol (13).
    ProtocolViolation(Vec<u8>),
    /// Any other cause.
    Unknown {
        /// Cause code.
        code: u16,
        /// Value, without header and padding.
        value: Vec<u8>,
    },
}

impl Cause {
    /// Largest number of bytes of unknown items that are returned to the peer. They must fit a packet together with
    /// other chunks, and a malformed packet must not cause a reply that is larger than itself.
    pub(crate) const MOST_RETURNED: usize = 1024;

    const fn code(&self) -> u16 {
        match self {
            Self::InvalidStream(_) => 1,
            Self::MissingParameters(_) => 2,
            Self::StaleCookie(_) => 3,
            Self::OutOfResource => 4,
            Self::UnresolvableAddress(_) => 5,
            Self::UnrecognizedChunk(_) => 6,
            Self::InvalidParameter => 7,
            Self::UnrecognizedParameters(_) => 8,
            Self::NoUserData(_) => 9,
            Self::CookieWhileShuttingDown => 10,
            Self::RestartWithNewAddresses(_) => 11,
            Self::UserAbort(_) => 12,
            Self::ProtocolViolation(_) => 13,
            Self::Unknown { code, .. } => *code,
        }
    }

    /// Length including the header and excluding the padding, bytes.
    pub(crate) fn len(&self) -> u32 {
        4 + match self {
            Self::OutOfResource | Self::InvalidParameter | Self::CookieWhileShuttingDown => 0,
            Self::InvalidStream(_) | Self::StaleCookie(_) | Self::NoUserData(_) => 4,
            Self::MissingParameters(kinds) => 4 + 2 * kinds.len() as u32,
            Self::UnresolvableAddress(value)
            | Self::UnrecognizedChunk(value)
            | Self::UnrecognizedParameters(value)
            | Self::RestartWithNewAddresses(value)
            | Self::UserAbort(value)
            | Self::ProtocolViolation(value)
            | Self::Unknown { value, .. } => value.len() as u32,
        }
    }

    pub(crate) fn encode(&self, out: &mut TlvWriter) {
        out.item(self.code(), |out| match self {
            Self::OutOfResource | Self::InvalidParameter | Self::CookieWhileShuttingDown => {}
            Self::InvalidStream(stream) => {
                out.u16(*stream);
                out.u16(0);
            }
            Self::StaleCookie(n) | Self::NoUserData(n) => out.u32(*n),
            Self::MissingParameters(kinds) => {
                out.u32(kinds.len() as u32);
                kinds.iter().for_each(|kind| out.u16(*kind));
            }
            Self::UnresolvableAddress(value)
            | Self::UnrecognizedChunk(value)
            | Self::UnrecognizedParameters(value)
            | Self::RestartWithNewAddresses(value)
            | Self::UserAbort(value)
            | Self::ProtocolViolation(value)
            | Self::Unknown { value, .. } => out.bytes(value),
        });
    }

    fn decode(code: u16, value: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = FieldReader::new(value, "error cause");
        Ok(match code {
            1 => Self::InvalidStream(reader.u16()?),
            2 => {
                let count = reader.u32()? as usize;
                // Only as many as are present, because the count that the peer sent may be wrong.
                let kinds = reader.rest().chunks_exact(2).take(count);
                Self::MissingParameters(kinds.map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect())
            }
            3 => Self::StaleCookie(reader.u32()?),
            4 => Self::OutOfResource,
            5 => Self::UnresolvableAddress(value.to_vec()),
            6 => Self::UnrecognizedChunk(value.to_vec()),
            7 => Self::InvalidParameter,
            8 => Self::UnrecognizedParameters(value.to_vec()),
            9 => Self::NoUserData(reader.u32()?),
            10 => Self::CookieWhileShuttingDown,
            11 => Self::RestartWithNewAddresses(value.to_vec()),
            12 => Self::UserAbort(value.to_vec()),
            13 => Self::ProtocolViolation(value.to_vec()),
            _ => Self::Unknown { code, value: value.to_vec() },
        })
    }

    /// Decodes all causes of a chunk.
    pub(crate) fn decode_all(bytes: &[u8]) -> Result<Vec<Self>, DecodeError> {
        TlvItems::new(bytes).map(|item| item.and_then(|(code, value)| Self::decode(code, value))).collect()
    }
}
