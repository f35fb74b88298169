//! The preamble: the first bytes of a data connection, or a datagram that requests datagrams.

use serde::{Deserialize, Serialize};

/// The magic bytes that distinguish a preamble from other protocols on the port.
const MAGIC: [u8; 16] = *b"netrig-speed/1 \n";

/// Length of a preamble, bytes.
pub const PREAMBLE_LEN: usize = 40;

/// Identifies a session on data connections and in datagrams. The token is random, and the server sends it only over
/// TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionToken(pub [u8; 16]);

/// Assigns a connection or an address to a phase of a session.
///
/// | bytes | content |
/// |---|---|
/// | 0–15 | `netrig-speed/1 ` and a line feed |
/// | 16–31 | the session's token |
/// | 32–35 | the phase's number, big-endian |
/// | 36–39 | the stream's number in the phase, big-endian; 0 for datagrams |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preamble {
    /// The session.
    pub token: SessionToken,
    /// The phase.
    pub phase: u32,
    /// The stream.
    pub stream: u32,
}

impl Preamble {
    /// Encodes the preamble.
    pub fn encode(&self) -> [u8; PREAMBLE_LEN] {
        let mut bytes = [0; PREAMBLE_LEN];
        bytes[..16].copy_from_slice(&MAGIC);
        bytes[16..32].copy_from_slice(&self.token.0);
        bytes[32..36].copy_from_slice(&self.phase.to_be_bytes());
        bytes[36..].copy_from_slice(&self.stream.to_be_bytes());
        bytes
    }

    /// Decodes the preamble at the start of these bytes. `None` if there is no preamble, or if there are too few bytes.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; PREAMBLE_LEN] = bytes.first_chunk()?;
        let (magic, rest) = bytes.split_first_chunk::<16>()?;
        let (token, rest) = rest.split_first_chunk::<16>()?;
        let (phase, stream) = rest.split_first_chunk::<4>()?;
        (*magic == MAGIC).then_some(Self {
            token: SessionToken(*token),
            phase: u32::from_be_bytes(*phase),
            stream: u32::from_be_bytes(*stream.first_chunk()?),
        })
    }

    /// Whether the bytes can be the start of a preamble.
    pub fn may_begin(bytes: &[u8]) -> bool {
        let len = bytes.len().min(MAGIC.len());
        bytes[..len] == MAGIC[..len]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn preambles_survive_the_way(token: [u8; 16], phase: u32, stream: u32) {
            let preamble = Preamble { token: SessionToken(token), phase, stream };
            let bytes = preamble.encode();
            prop_assert_eq!(Preamble::decode(&bytes), Some(preamble));
            prop_assert_eq!(Preamble::decode(&bytes[..PREAMBLE_LEN - 1]), None);
            prop_assert!((0..PREAMBLE_LEN).all(|len| Preamble::may_begin(&bytes[..len])));
        }

        #[test]
        fn other_bytes_are_none(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            prop_assume!(!bytes.starts_with(&MAGIC));
            prop_assert_eq!(Preamble::decode(&bytes), None);
        }
    }
}
