//! The datagram that opens a UDP stream, and the header of all other datagrams.
//!
//! | octets | 32-bit counter | 64-bit counter (`--udp-counters-64bit`) |
//! |---|---|---|
//! | 0–3 | second at which the datagram was sent, by the sender's clock | the same |
//! | 4–7 | microseconds of that second | the same |
//! | 8–11 | number of the datagram, from 1 | number of the datagram, from 1, in octets 8–15 |
//!
//! All numbers are big-endian, and the remaining octets are padding. The datagram that opens a stream has four bytes in
//! the byte order of its sender.

use netrig_core::Duration;

/// Minimum length of an iperf3 datagram, octets.
pub const LEAST: usize = 16;

/// Maximum length of an iperf3 datagram, octets.
pub const MOST: usize = 65_507;

/// The datagram that opens a UDP stream, since iperf3 3.12.
pub const CONNECT: [u8; 4] = 0x3637_3839_u32.to_le_bytes();

/// The datagram that opens a UDP stream, before iperf3 3.12.
pub const OLD_CONNECT: [u8; 4] = 123_456_789_u32.to_le_bytes();

const OLD_REPLY: [u8; 4] = 987_654_321_u32.to_le_bytes();

/// The answer of a server to a datagram that opens a stream. `None` for other datagrams. A host with the other byte
/// order sends and expects the bytes in reverse order.
pub fn reply(words: &[u8]) -> Option<[u8; 4]> {
    let words: [u8; 4] = words.try_into().ok()?;
    // The answer is the reversed request, so it has the byte order of the sender.
    if words == CONNECT || words == backwards(CONNECT) {
        Some(backwards(words))
    } else if words == OLD_CONNECT {
        Some(OLD_REPLY)
    } else if words == backwards(OLD_CONNECT) {
        Some(backwards(OLD_REPLY))
    } else {
        None
    }
}

/// Whether this is an answer to [`CONNECT`]. Servers before 3.12 send a different answer, and servers with the other
/// byte order reverse the bytes of their answer.
pub fn is_reply(words: &[u8]) -> bool {
    [backwards(CONNECT), CONNECT, OLD_REPLY, backwards(OLD_REPLY)].iter().any(|reply| words == reply)
}

fn backwards(mut words: [u8; 4]) -> [u8; 4] {
    words.reverse();
    words
}

/// Width of the number of a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CounterWidth {
    /// 32 bits, which suffice for 4 billion datagrams.
    #[default]
    Bits32,
    /// 64 bits.
    Bits64,
}

impl CounterWidth {
    /// Length of the header, octets.
    pub const fn header_len(self) -> usize {
        match self {
            Self::Bits32 => 12,
            Self::Bits64 => 16,
        }
    }
}

/// The header of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramHeader {
    /// Sending time by the sender's clock. It has a resolution of 1 µs on the wire.
    pub sent: Duration,
    /// The number, from 1.
    pub number: u64,
}

impl DatagramHeader {
    /// Writes the header. Returns false if the datagram is too short.
    pub fn write(&self, counter: CounterWidth, datagram: &mut [u8]) -> bool {
        let nanos = self.sent.as_nanos();
        // Seconds are truncated as in iperf3, whose clock usually starts at boot.
        let seconds = (nanos / 1_000_000_000) as u32;
        let micros = (nanos % 1_000_000_000 / 1_000) as u32;
        let Some(header) = datagram.get_mut(..counter.header_len()) else { return false };
        header[..4].copy_from_slice(&seconds.to_be_bytes());
        header[4..8].copy_from_slice(&micros.to_be_bytes());
        match counter {
            CounterWidth::Bits32 => header[8..].copy_from_slice(&(self.number as u32).to_be_bytes()),
            CounterWidth::Bits64 => header[8..].copy_from_slice(&self.number.to_be_bytes()),
        }
        true
    }

    /// Reads the header. `None` if the datagram is too short.
    pub fn read(counter: CounterWidth, datagram: &[u8]) -> Option<Self> {
        let header = datagram.get(..counter.header_len())?;
        let (seconds, rest) = header.split_first_chunk()?;
        let (micros, number) = rest.split_first_chunk()?;
        let number = match counter {
            CounterWidth::Bits32 => u32::from_be_bytes(*number.first_chunk()?).into(),
            CounterWidth::Bits64 => u64::from_be_bytes(*number.first_chunk()?),
        };
        let seconds = Duration::from_secs(u32::from_be_bytes(*seconds).into());
        let sent = seconds.as_nanos() + Duration::from_micros(u32::from_be_bytes(*micros).into()).as_nanos();
        Some(Self { sent: Duration::from_nanos(sent), number })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_that_open_a_stream_are_answered_in_the_order_of_their_host() {
        assert_eq!(CONNECT, *b"9876");
        assert_eq!(reply(b"9876"), Some(*b"6789"));
        assert_eq!(reply(b"6789"), Some(*b"9876"));
        assert_eq!(reply(&123_456_789_u32.to_le_bytes()), Some(987_654_321_u32.to_le_bytes()));
        assert_eq!(reply(&123_456_789_u32.to_be_bytes()), Some(987_654_321_u32.to_be_bytes()));
        for other in [&b"987"[..], b"98765", b"", b"\0\0\0\0", &987_654_321_u32.to_le_bytes()] {
            assert_eq!(reply(other), None, "{other:?}");
        }
        for answer in [*b"6789", *b"9876", 987_654_321_u32.to_le_bytes(), 987_654_321_u32.to_be_bytes()] {
            assert!(is_reply(&answer), "{answer:?}");
        }
        assert!(!is_reply(b"67890") && !is_reply(b"") && !is_reply(&OLD_CONNECT));
    }

    proptest! {
        #[test]
        fn a_header_is_read_as_it_was_written(
            seconds in any::<u32>(), micros in 0_u64..1_000_000, number in any::<u64>(), wide in any::<bool>()
        ) {
            let counter = if wide { CounterWidth::Bits64 } else { CounterWidth::Bits32 };
            let number = if wide { number } else { number & u64::from(u32::MAX) };
            let sent = Duration::from_nanos(u64::from(seconds) * 1_000_000_000 + micros * 1_000);
            let header = DatagramHeader { sent, number };
            let mut datagram = [0; LEAST];
            prop_assert!(header.write(counter, &mut datagram));
            prop_assert_eq!(DatagramHeader::read(counter, &datagram), Some(header));
            prop_assert!(!header.write(counter, &mut datagram[..counter.header_len() - 1]));
            prop_assert_eq!(DatagramHeader::read(counter, &datagram[..counter.header_len() - 1]), None);
        }
    }
}
