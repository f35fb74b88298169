//! Packets of netrig's one-way streams, and of the exchanges that bound the clock offset.
//!
//! | octets | what |
//! |---|---|
//! | 0–3 | `nrp1` |
//! | 4 | 0 data, 1 a clock query, 2 its answer |
//! | 8–15 | the stream's token |
//! | 16–19 | the packet's number |
//! | 24–47 | in queries and answers: sent, received, answered; each in ns since 1970 by the clock of the end that sends or receives |
//!
//! All numbers are big-endian, all other octets are zero. A query is as long as its answer.

/// Octets of the shortest packet with data.
pub const LEAST: usize = 24;

/// Octets of a query or an answer.
const EXCHANGE: usize = 48;

const MAGIC: [u8; 4] = *b"nrp1";

/// A packet of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPacket {
    /// The stream's token.
    pub token: u64,
    /// Number among the packets of its kind.
    pub number: u32,
    /// Content of the packet.
    pub content: Content,
}

/// Content of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A measured packet.
    Data,
    /// A clock query, with the time of sending.
    Question(u64),
    /// The answer to a clock query: times of sending, reception and answering.
    Answer([u64; 3]),
}

impl StreamPacket {
    /// Encodes the packet. A data packet has `size` octets, at least [`LEAST`].
    pub fn encode(&self, size: usize) -> Vec<u8> {
        let (kind, len, times) = match self.content {
            Content::Data => (0, size.max(LEAST), [0; 3]),
            Content::Question(sent) => (1, EXCHANGE, [sent, 0, 0]),
            Content::Answer(times) => (2, EXCHANGE, times),
        };
        let mut bytes = vec![0; len];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = kind;
        bytes[8..16].copy_from_slice(&self.token.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.number.to_be_bytes());
        if kind != 0 {
            for (at, time) in times.iter().enumerate() {
                bytes[24 + at * 8..][..8].copy_from_slice(&time.to_be_bytes());
            }
        }
        bytes
    }

    /// Decodes a packet. `None` if the octets are not a packet of a stream.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        let content = match (bytes.get(..4)? == MAGIC, *bytes.get(4)?) {
            (true, 0) if bytes.len() >= LEAST => Content::Data,
            (true, 1) if bytes.len() == EXCHANGE => Content::Question(word(24)?),
            (true, 2) if bytes.len() == EXCHANGE => Content::Answer([word(24)?, word(32)?, word(40)?]),
            _ => return None,
        };
        let number = u32::from_be_bytes(*bytes.get(16..)?.first_chunk()?);
        Some(Self { token: word(8)?, number, content })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_packet_survives_the_way(token: u64, number: u32, times: [u64; 3], size in 0usize..2000) {
            for content in [Content::Data, Content::Question(times[0]), Content::Answer(times)] {
                let packet = StreamPacket { token, number, content };
                prop_assert_eq!(StreamPacket::decode(&packet.encode(size)), Some(packet));
            }
        }

        #[test]
        fn any_octets_are_a_packet_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = StreamPacket::decode(&bytes);
        }
    }

    #[test]
    fn an_answer_is_no_longer_than_its_question() {
        let packet = |content| StreamPacket { token: 1, number: 2, content }.encode(0).len();
        assert_eq!(packet(Content::Question(0)), packet(Content::Answer([0; 3])));
    }
}
