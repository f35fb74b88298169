//! Parameters of INIT and INIT ACK (RFC 9260 sections 3.3.2 and 3.3.3).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::tlv::{DecodeError, TlvItems, TlvWriter, UnknownAction};

/// A variable-length parameter. The number in parentheses is its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// An address of the sender (types 5 and 6).
    Address(IpAddr),
    /// State cookie (type 7).
    Cookie(Vec<u8>),
    /// A parameter of the INIT that its receiver does not recognise, header included (type 8).
    Unrecognized(Vec<u8>),
    /// Requested extension of the cookie life, milliseconds (type 9).
    CookiePreservative(u32),
    /// A host name. It is deprecated, and the receiver aborts (type 11, RFC 9260 section 3.3.2.1.4).
    HostName(Vec<u8>),
    /// Address types that the sender supports: 5 for IPv4, 6 for IPv6 (type 12).
    SupportedAddressTypes(Vec<u16>),
    /// The sender supports ECN (type 0x8000, RFC 4960 appendix A; removed in RFC 9260).
    EcnCapable,
    /// Any other parameter.
    Unknown {
        /// Type.
        kind: u16,
        /// Value, without header and padding.
        value: Vec<u8>,
    },
}

const IPV4: u16 = 5;
const IPV6: u16 = 6;
const COOKIE: u16 = 7;
const UNRECOGNIZED: u16 = 8;
const COOKIE_PRESERVATIVE: u16 = 9;
const HOST_NAME: u16 = 11;
const SUPPORTED_ADDRESS_TYPES: u16 = 12;
const ECN_CAPABLE: u16 = 0x8000;

impl Parameter {
    /// Type of the parameter.
    pub const fn kind(&self) -> u16 {
        match self {
            Self::Address(IpAddr::V4(_)) => IPV4,
            Self::Address(IpAddr::V6(_)) => IPV6,
            Self::Cookie(_) => COOKIE,
            Self::Unrecognized(_) => UNRECOGNIZED,
            Self::CookiePreservative(_) => COOKIE_PRESERVATIVE,
            Self::HostName(_) => HOST_NAME,
            Self::SupportedAddressTypes(_) => SUPPORTED_ADDRESS_TYPES,
            Self::EcnCapable => ECN_CAPABLE,
            Self::Unknown { kind, .. } => *kind,
        }
    }

    /// The action for an unknown parameter. `None` if the parameter is known.
    pub const fn unknown_action(&self) -> Option<UnknownAction> {
        match self {
            Self::Unknown { kind, .. } => Some(UnknownAction::of_parameter(*kind)),
            _ => None,
        }
    }

    /// Length including the header and excluding the padding, bytes.
    pub(crate) fn len(&self) -> u32 {
        4 + match self {
            Self::Address(IpAddr::V4(_)) | Self::CookiePreservative(_) => 4,
            Self::Address(IpAddr::V6(_)) => 16,
            Self::Cookie(value)
            | Self::Unrecognized(value)
            | Self::HostName(value)
            | Self::Unknown { value, .. } => value.len() as u32,
            Self::SupportedAddressTypes(types) => 2 * types.len() as u32,
            Self::EcnCapable => 0,
        }
    }

    pub(crate) fn encode(&self, out: &mut TlvWriter) {
        out.item(self.kind(), |out| match self {
            Self::Address(IpAddr::V4(address)) => out.bytes(&address.octets()),
            Self::Address(IpAddr::V6(address)) => out.bytes(&address.octets()),
            Self::Cookie(value)
            | Self::Unrecognized(value)
            | Self::HostName(value)
            | Self::Unknown { value, .. } => out.bytes(value),
            Self::CookiePreservative(millis) => out.u32(*millis),
            Self::SupportedAddressTypes(types) => types.iter().for_each(|kind| out.u16(*kind)),
            Self::EcnCapable => {}
        });
    }

    /// The encoded parameter including its header, for a report to the peer.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = TlvWriter::default();
        self.encode(&mut out);
        out.into_bytes()
    }

    fn decode(kind: u16, value: &[u8]) -> Result<Self, DecodeError> {
        let malformed = DecodeError::Parameter { kind };
        Ok(match kind {
            IPV4 => {
                let octets: [u8; 4] = value.try_into().map_err(|_| malformed)?;
                Self::Address(Ipv4Addr::from(octets).into())
            }
            IPV6 => {
                let octets: [u8; 16] = value.try_into().map_err(|_| malformed)?;
                Self::Address(Ipv6Addr::from(octets).into())
            }
            COOKIE => Self::Cookie(value.to_vec()),
            UNRECOGNIZED => Self::Unrecognized(value.to_vec()),
            COOKIE_PRESERVATIVE => {
                Self::CookiePreservative(u32::from_be_bytes(value.try_into().map_err(|_| malformed)?))
            }
            HOST_NAME => Self::HostName(value.to_vec()),
            SUPPORTED_ADDRESS_TYPES => {
                let pairs = value.chunks_exact(2);
                if !pairs.remainder().is_empty() {
                    return Err(malformed);
                }
                Self::SupportedAddressTypes(
                    pairs.map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect(),
                )
            }
            ECN_CAPABLE => Self::EcnCapable,
            _ => Self::Unknown { kind, value: value.to_vec() },
        })
    }

    /// Decodes all parameters of a chunk, up to an unknown parameter whose type stops the processing.
    pub(crate) fn decode_all(bytes: &[u8]) -> Result<Vec<Self>, DecodeError> {
        let mut parameters = Vec::new();
        for item in TlvItems::new(bytes) {
            let (kind, value) = item?;
            let parameter = Self::decode(kind, value)?;
            let stop = parameter.unknown_action().is_some_and(|action| !action.skip);
            parameters.push(parameter);
            if stop {
                break;
            }
        }
        Ok(parameters)
    }
}
