//! RTP packets (RFC 3550 section 5.1).

/// The version number that RFC 3550 defines.
const VERSION: u8 = 2;
/// Length of the fixed header, bytes.
const HEADER: usize = 12;

/// A parsed packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Marker bit. For video, the last packet of a picture (RFC 6184 section 5.1). For voice, the first packet of a
    /// talk spurt.
    pub marker: bool,
    /// Payload type, below 128.
    pub payload_type: u8,
    /// Sequence number. It wraps around; see [`SequenceExtender`].
    pub sequence: u16,
    /// Sampling time, in units of the payload type's clock. It wraps around.
    pub timestamp: u32,
    /// Synchronisation source.
    pub source: u32,
    /// Payload without padding.
    pub payload: &'a [u8],
}

/// Reason why bytes are not an RTP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// Shorter than its header.
    #[error("the packet ends within its header")]
    Short,
    /// Another version.
    #[error("version {0} is not RTP's version 2")]
    Version(u8),
    /// Padding that is longer than the payload, or zero (section 5.1).
    #[error("the padding of {0} bytes does not fit the payload")]
    Padding(u8),
}

impl<'a> Packet<'a> {
    /// Parses a packet. Contributing sources and a header extension are skipped.
    ///
    /// # Errors
    /// If the bytes are not an RTP packet.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let (header, mut rest) = bytes.split_first_chunk::<HEADER>().ok_or(PacketError::Short)?;
        let version = header[0] >> 6;
        if version != VERSION {
            return Err(PacketError::Version(version));
        }
        let sources = usize::from(header[0] & 0x0F);
        rest = rest.get(4 * sources..).ok_or(PacketError::Short)?;
        if header[0] & 0x10 != 0 {
            // Section 5.3.1: 16 bits that the profile defines, then the length in 32-bit words.
            let words = rest.get(2..4).and_then(|length| length.first_chunk()).ok_or(PacketError::Short)?;
            rest = rest.get(4 + 4 * usize::from(u16::from_be_bytes(*words))..).ok_or(PacketError::Short)?;
        }
        if header[0] & 0x20 != 0 {
            let padding = rest.last().copied().unwrap_or(0);
            let kept = rest.len().checked_sub(padding.into()).filter(|_| padding > 0);
            rest = &rest[..kept.ok_or(PacketError::Padding(padding))?];
        }
        Ok(Self {
            marker: header[1] & 0x80 != 0,
            payload_type: header[1] & 0x7F,
            sequence: u16::from_be_bytes([header[2], header[3]]),
            timestamp: u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
            source: u32::from_be_bytes([header[8], header[9], header[10], header[11]]),
            payload: rest,
        })
    }

    /// Encodes the packet, without padding or extension.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + self.payload.len());
        bytes.push(VERSION << 6);
        bytes.push(u8::from(self.marker) << 7 | self.payload_type & 0x7F);
        bytes.extend(self.sequence.to_be_bytes());
        bytes.extend(self.timestamp.to_be_bytes());
        bytes.extend(self.source.to_be_bytes());
        bytes.extend(self.payload);
        bytes
    }
}

/// Extends 16-bit sequence numbers beyond their wrap-around (RFC 3550 Appendix A.1). Of all extended numbers that are
/// equal modulo 2^16, it chooses the one nearest to the highest number so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct SequenceExtender {
    highest: Option<u64>,
}

impl SequenceExtender {
    /// The extended number. The first extended number is at least 2^16, so that a packet sent before the first one can
    /// have a number too.
    pub fn extend(&mut self, sequence: u16) -> u64 {
        let Some(highest) = self.highest else {
            let first = 0x1_0000 + u64::from(sequence);
            self.highest = Some(first);
            return first;
        };
        let ahead = sequence.wrapping_sub(highest as u16).cast_signed();
        let extended = highest.saturating_add_signed(ahead.into());
        self.highest = Some(highest.max(extended));
        extended
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The header diagram of RFC 3550 section 5.1, filled in by hand: two contributing sources, an extension of one
    /// word, two bytes of padding.
    #[test]
    fn a_packet_with_everything() {
        let bytes = [
            0xB2,
            0x80 | 96,
            0x12,
            0x34,
            0,
            0,
            0,
            9,
            0xDE,
            0xAD,
            0xBE,
            0xEF, // header
            0,
            0,
            0,
            1,
            0,
            0,
            0,
            2, // contributing sources
            0xBE,
            0xDE,
            0,
            1,
            5,
            5,
            5,
            5, // extension
            7,
            8,
            0,
            2, // payload and padding
        ];
        let packet = Packet::parse(&bytes).unwrap();
        assert!(packet.marker);
        assert_eq!((packet.payload_type, packet.sequence, packet.timestamp), (96, 0x1234, 9));
        assert_eq!((packet.source, packet.payload), (0xDEAD_BEEF, &[7, 8][..]));
        for len in 0..28 {
            assert!(Packet::parse(&bytes[..len]).is_err() || len > 12, "{len}");
        }
        assert_eq!(Packet::parse(&[0x40; 12]), Err(PacketError::Version(1)));
        let mut padded = bytes;
        padded[31] = 9;
        assert_eq!(Packet::parse(&padded), Err(PacketError::Padding(9)));
        padded[31] = 0;
        assert_eq!(Packet::parse(&padded), Err(PacketError::Padding(0)));
    }

    /// Packets in changed order around the wrap-around, and a late packet with a number before the first.
    #[test]
    fn numbers_go_around() {
        let mut extender = SequenceExtender::default();
        let first = extender.extend(0xFFFE);
        let later = [0xFFFF, 1, 0, 0xFFFD, 2]
            .map(|sequence| extender.extend(sequence).cast_signed() - first.cast_signed());
        assert_eq!(later, [1, 3, 2, -1, 4]);
    }

    proptest! {
        #[test]
        fn an_rtp_packet_survives_the_way(
            marker: bool,
            payload_type in 0..128_u8,
            sequence: u16,
            timestamp: u32,
            source: u32,
            payload in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            let packet = Packet { marker, payload_type, sequence, timestamp, source, payload: &payload };
            let bytes = packet.encode();
            prop_assert_eq!(Packet::parse(&bytes), Ok(packet));
        }

        #[test]
        fn any_bytes_are_a_packet_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(packet) = Packet::parse(&bytes) {
                prop_assert!(packet.payload.len() <= bytes.len() - 12);
            }
        }
    }
}
