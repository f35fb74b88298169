//! Error causes of ERROR and ABORT (RFC 9260 section 3.3.10).

use super::tlv::{DecodeError, FieldReader, TlvItems, TlvWriter};

/// Why a chunk was refused or an association aborted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// DATA on a stream that does not exist (1).
    InvalidStream(u16),
    /// Mandatory parameters that were not there, by type (2).
    MissingParameters(Vec<u16>),
    /// The cookie came too late by so many microseconds (3).
    StaleCookie(u32),
    /// No resources (4).
    OutOfResource,
    /// An address parameter, header included, that its receiver cannot use (5).
    UnresolvableAddress(Vec<u8>),
    /// A chunk, header included, whose type is unknown (6).
    UnrecognizedChunk(Vec<u8>),
    /// A mandatory parameter has an impossible value (7).
    InvalidParameter,
    /// Parameters of the INIT ACK, headers included, that are unknown (8).
    UnrecognizedParameters(Vec<u8>),
    /// DATA without user data, by its TSN (9).
    NoUserData(u32),
    /// COOKIE ECHO while shutting down (10).
    CookieWhileShuttingDown,
    /// A restart that would add these addresses, as parameters (11).
    RestartWithNewAddresses(Vec<u8>),
    /// The user aborted, and perhaps said why (12).
    UserAbort(Vec<u8>),
    /// The peer broke the protocol (13).
    ProtocolViolation(Vec<u8>),
    /// Anything else.
    Unknown {
        /// Cause code.
        code: u16,
        /// What came with it.
        value: Vec<u8>,
    },
}

impl Cause {
    /// So much is sent back of what was not understood, bytes. It must fit a packet with whatever else there is to
    /// say, and a peer that writes nonsense is not answered with more of it.
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

    /// Length with its header, without padding, bytes.
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
                // As many as are there: the count is the peer's word, the length a fact.
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

    /// All causes of a chunk.
    pub(crate) fn decode_all(bytes: &[u8]) -> Result<Vec<Self>, DecodeError> {
        TlvItems::new(bytes).map(|item| item.and_then(|(code, value)| Self::decode(code, value))).collect()
    }
}
