//! Echo datagrams, which measure the delay of the path, idle and under load.

use super::{PREAMBLE_LEN, Preamble};

/// Length of an echo and of its answer, bytes. They are equal so that a server cannot be used for amplification.
pub const ECHO_LEN: usize = PREAMBLE_LEN + 32;

/// The stream number of echoes.
const ECHO: u32 = u32::MAX;

/// An echo request or its answer.
///
/// | bytes | content |
/// |---|---|
/// | 0–39 | the preamble, with 2³²−1 as the stream |
/// | 40–47 | the number, big-endian like all that follows |
/// | 48–55 | sending time of the client, ns by its clock |
/// | 56–63 | receiving time of the server, ns since 1970; zero in the request |
/// | 64–71 | sending time of the server, ns since 1970; zero in the request |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoDatagram {
    /// The session and the phase. The stream is ignored.
    pub preamble: Preamble,
    /// The number of the echo.
    pub number: u64,
    /// Sending time of the client, ns by its clock.
    pub sent_ns: u64,
    /// Receiving and sending times of the server, ns since 1970.
    pub there_ns: [u64; 2],
}

impl EchoDatagram {
    /// Encodes the datagram.
    pub fn encode(&self) -> [u8; ECHO_LEN] {
        let mut bytes = [0; ECHO_LEN];
        bytes[..PREAMBLE_LEN].copy_from_slice(&Preamble { stream: ECHO, ..self.preamble }.encode());
        let numbers = [self.number, self.sent_ns, self.there_ns[0], self.there_ns[1]];
        for (at, number) in numbers.into_iter().enumerate() {
            let from = PREAMBLE_LEN + 8 * at;
            bytes[from..from + 8].copy_from_slice(&number.to_be_bytes());
        }
        bytes
    }

    /// Decodes a datagram. `None` if it is not an echo.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let preamble = Preamble::decode(bytes).filter(|preamble| preamble.stream == ECHO)?;
        let number = |at: usize| {
            bytes.get(PREAMBLE_LEN + 8 * at..)?.first_chunk().map(|chunk| u64::from_be_bytes(*chunk))
        };
        (bytes.len() == ECHO_LEN).then_some(())?;
        Some(Self { preamble, number: number(0)?, sent_ns: number(1)?, there_ns: [number(2)?, number(3)?] })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::protocol::SessionToken;

    proptest! {
        #[test]
        fn echoes_survive_the_way(token: [u8; 16], phase: u32, number: u64, sent_ns: u64, there_ns: [u64; 2]) {
            let preamble = Preamble { token: SessionToken(token), phase, stream: ECHO };
            let echo = EchoDatagram { preamble, number, sent_ns, there_ns };
            prop_assert_eq!(EchoDatagram::decode(&echo.encode()), Some(echo));
            prop_assert_eq!(EchoDatagram::decode(&echo.encode()[..ECHO_LEN - 1]), None);
        }

        #[test]
        fn any_bytes_are_an_echo_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = EchoDatagram::decode(&bytes);
        }
    }
}
