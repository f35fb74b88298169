//! Reads captures that other programs wrote: pcap and pcapng (draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng), in
//! either byte order.
//!
//! Only the time stamps and the bytes of packets are read. All other blocks and options are skipped.

/// Error while a capture is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaptureError {
    /// The first bytes are not those of pcap or pcapng.
    #[error("this is not a capture: it begins neither as pcap nor as pcapng does")]
    Unknown,
    /// A length does not fit the following bytes.
    #[error("the capture is truncated or damaged at byte {0}")]
    Damaged(usize),
    /// A packet names an interface that the file does not describe.
    #[error("the packet at byte {0} names an interface that the capture does not describe")]
    Interface(usize),
}

/// A packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured<'a> {
    /// Time stamp, ns since 1970.
    pub at_ns: u64,
    /// Type of the link-layer header (`LINKTYPE_…`, 1 for Ethernet).
    pub link_type: u16,
    /// The kept bytes.
    pub bytes: &'a [u8],
    /// Length of the whole packet, bytes.
    pub original_len: u32,
}

impl<'a> Captured<'a> {
    /// The kept bytes of the IP packet, from the start of its header. `None` if it is not an IP packet.
    pub fn ip(&self) -> Option<&'a [u8]> {
        self.bytes.get(self.ip_starts()?..)
    }

    /// The length of the IP packet from its length field, bytes. `None` if it is not an IP packet or the field was not
    /// kept.
    pub fn ip_len(&self) -> Option<u32> {
        let ip = self.ip()?;
        let field = |at: usize| ip.get(at..at + 2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]])));
        match ip.first()? >> 4 {
            // Total Length (RFC 791 section 3.1).
            4 => field(2),
            // Payload Length, without the header of 40 bytes (RFC 8200 section 3).
            6 => field(4).map(|payload| payload + 40),
            _ => None,
        }
    }

    fn ip_starts(&self) -> Option<usize> {
        const NULL: u16 = 0;
        const ETHERNET: u16 = 1;
        const RAW: [u16; 4] = [12, 101, 228, 229];
        const LINUX_COOKED: u16 = 113;
        const LINUX_COOKED_2: u16 = 276;
        match self.link_type {
            ETHERNET => {
                let mut at = 12;
                // Tags of IEEE 802.1Q come before the type.
                while matches!(self.bytes.get(at..at + 2)?, [0x81, 0x00] | [0x88, 0xA8]) {
                    at += 4;
                }
                matches!(self.bytes.get(at..at + 2)?, [0x08, 0x00] | [0x86, 0xDD]).then_some(at + 2)
            }
            NULL => Some(4),
            LINUX_COOKED => Some(16),
            LINUX_COOKED_2 => Some(20),
            raw => RAW.contains(&raw).then_some(0),
        }
    }
}

/// Calls `each` for each packet of a capture, in the order of the file.
///
/// # Errors
/// If the file is not a capture, or damaged. `each` has been called for the packets before the damage.
pub fn read<'a>(file: &'a [u8], each: impl FnMut(Captured<'a>)) -> Result<(), CaptureError> {
    match file.first_chunk() {
        Some([0x0A, 0x0D, 0x0D, 0x0A]) => read_pcapng(file, each),
        Some(magic) => {
            let (order, nanos_per_unit) = match u32::from_le_bytes(*magic) {
                0xA1B2_C3D4 => (ByteOrder::Little, 1000),
                0xA1B2_3C4D => (ByteOrder::Little, 1),
                0xD4C3_B2A1 => (ByteOrder::Big, 1000),
                0x4D3C_B2A1 => (ByteOrder::Big, 1),
                _ => return Err(CaptureError::Unknown),
            };
            read_pcap(file, order, nanos_per_unit, each)
        }
        None => Err(CaptureError::Unknown),
    }
}

/// The byte order of a capture.
#[derive(Clone, Copy)]
enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    fn word(self, file: &[u8], at: usize) -> Result<u32, CaptureError> {
        let bytes = file.get(at..).and_then(|rest| rest.first_chunk()).ok_or(CaptureError::Damaged(at))?;
        Ok(match self {
            Self::Little => u32::from_le_bytes(*bytes),
            Self::Big => u32::from_be_bytes(*bytes),
        })
    }

    fn half(self, file: &[u8], at: usize) -> Result<u16, CaptureError> {
        let bytes = file.get(at..).and_then(|rest| rest.first_chunk()).ok_or(CaptureError::Damaged(at))?;
        Ok(match self {
            Self::Little => u16::from_le_bytes(*bytes),
            Self::Big => u16::from_be_bytes(*bytes),
        })
    }
}

/// `len` bytes from `at` on.
fn slice(file: &[u8], at: usize, len: u32) -> Result<&[u8], CaptureError> {
    let end = usize::try_from(len).ok().and_then(|len| at.checked_add(len));
    end.and_then(|end| file.get(at..end)).ok_or(CaptureError::Damaged(at))
}

/// Reads a file header of 24 bytes, then each packet with a header of 16 bytes (draft-ietf-opsawg-pcap sections 4 and
/// 5).
fn read_pcap<'a>(
    file: &'a [u8],
    order: ByteOrder,
    nanos_per_unit: u64,
    mut each: impl FnMut(Captured<'a>),
) -> Result<(), CaptureError> {
    // The upper half of the word has other fields.
    let link_type = order.word(file, 20)? as u16;
    let mut at = 24;
    while at < file.len() {
        let [seconds, units, kept, original_len] = [0, 4, 8, 12].map(|field| order.word(file, at + field));
        let bytes = slice(file, at + 16, kept?)?;
        let at_ns = u64::from(seconds?) * 1_000_000_000 + u64::from(units?) * nanos_per_unit;
        each(Captured { at_ns, link_type, bytes, original_len: original_len? });
        at += 16 + bytes.len();
    }
    Ok(())
}

/// The used fields of an Interface Description Block.
struct InterfaceDescription {
    link_type: u16,
    resolution: TimeResolution,
}

/// The unit of an interface's time stamps (`if_tsresol`, draft-ietf-opsawg-pcapng section 4.2).
#[derive(Clone, Copy)]
enum TimeResolution {
    /// 10⁻ⁿ s for this value n.
    Decimal(u8),
    /// 2⁻ⁿ s for this value n.
    Binary(u8),
}

impl TimeResolution {
    fn of(option: u8) -> Self {
        if option & 0x80 == 0 { Self::Decimal(option) } else { Self::Binary(option & 0x7F) }
    }

    /// Converts a number of units to nanoseconds. If the result exceeds 64 bits, it is `u64::MAX`.
    fn nanos(self, units: u64) -> u64 {
        let nanos = match self {
            Self::Decimal(power @ 0..=9) => u128::from(units) * 10_u128.pow(9 - u32::from(power)),
            Self::Decimal(power) => {
                u128::from(units) / 10_u128.checked_pow(u32::from(power) - 9).unwrap_or(u128::MAX)
            }
            Self::Binary(power) => (u128::from(units) * 1_000_000_000) >> power.min(127),
        };
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }
}

/// Reads a sequence of blocks: type, length, body, and the length again (draft-ietf-opsawg-pcapng section 3.1).
fn read_pcapng<'a>(file: &'a [u8], mut each: impl FnMut(Captured<'a>)) -> Result<(), CaptureError> {
    const SECTION_HEADER: u32 = 0x0A0D_0D0A;
    const INTERFACE_DESCRIPTION: u32 = 1;
    const ENHANCED_PACKET: u32 = 6;
    let (mut order, mut interfaces) = (ByteOrder::Little, Vec::new());
    let mut at = 0;
    while at < file.len() {
        let kind = order.word(file, at)?;
        if kind == SECTION_HEADER {
            order = match ByteOrder::Little.word(file, at + 8)? {
                0x1A2B_3C4D => ByteOrder::Little,
                0x4D3C_2B1A => ByteOrder::Big,
                _ => return Err(CaptureError::Damaged(at + 8)),
            };
            interfaces.clear();
        }
        let len = order.word(file, at + 4)?;
        if len < 12 || !len.is_multiple_of(4) {
            return Err(CaptureError::Damaged(at + 4));
        }
        let block = slice(file, at, len)?;
        match kind {
            INTERFACE_DESCRIPTION => {
                interfaces.push(interface(block, order).ok_or(CaptureError::Damaged(at))?)
            }
            ENHANCED_PACKET => {
                let field = |place: usize| order.word(block, place).map_err(|_| CaptureError::Damaged(at));
                let number = usize::try_from(field(8)?).unwrap_or(usize::MAX);
                let interface = interfaces.get(number).ok_or(CaptureError::Interface(at))?;
                let units = u64::from(field(12)?) << 32 | u64::from(field(16)?);
                each(Captured {
                    at_ns: interface.resolution.nanos(units),
                    link_type: interface.link_type,
                    bytes: slice(block, 28, field(20)?).map_err(|_| CaptureError::Damaged(at))?,
                    original_len: field(24)?,
                });
            }
            _ => {}
        }
        at += block.len();
    }
    Ok(())
}

/// Parses an Interface Description Block. An option gives the unit of its time stamps; the default is microseconds.
fn interface(block: &[u8], order: ByteOrder) -> Option<InterfaceDescription> {
    const TIME_RESOLUTION: u16 = 9;
    let link_type = order.half(block, 8).ok()?;
    let mut resolution = TimeResolution::Decimal(6);
    let mut at = 16;
    while at + 8 <= block.len() {
        let (code, len) = (order.half(block, at).ok()?, order.half(block, at + 2).ok()?);
        match code {
            0 => break,
            TIME_RESOLUTION => resolution = TimeResolution::of(*block.get(at + 4)?),
            _ => {}
        }
        at += 4 + usize::from(len).next_multiple_of(4);
    }
    Some(InterfaceDescription { link_type, resolution })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An IPv4 packet of 20 bytes in an Ethernet frame.
    const FRAME: [u8; 34] = {
        let mut frame = [0; 34];
        (frame[12], frame[13]) = (0x08, 0x00);
        (frame[14], frame[17]) = (0x45, 20);
        frame
    };

    fn all(file: &[u8]) -> Result<Vec<(u64, u32, Option<u32>)>, CaptureError> {
        let mut packets = vec![];
        read(file, |packet| packets.push((packet.at_ns, packet.original_len, packet.ip_len())))?;
        Ok(packets)
    }

    fn pcap(magic: u32, big: bool) -> Vec<u8> {
        let word = |word: u32| if big { word.to_be_bytes() } else { word.to_le_bytes() };
        let header = [magic, 0x0002_0004, 0, 0, 65535, 1].map(word).concat();
        let record = [7, 250, FRAME.len() as u32, 60].map(word).concat();
        [header, record, FRAME.to_vec()].concat()
    }

    #[test]
    fn pcap_is_read_in_both_byte_orders_and_both_units() {
        for big in [false, true] {
            assert_eq!(all(&pcap(0xA1B2_C3D4, big)).unwrap(), [(7_000_250_000, 60, Some(20))]);
            assert_eq!(all(&pcap(0xA1B2_3C4D, big)).unwrap(), [(7_000_000_250, 60, Some(20))]);
        }
    }

    #[test]
    fn what_netrig_writes_it_reads() {
        let mut file = vec![];
        crate::pcapng::section(&mut file, "netrig", "a test");
        let (link_type, named) = (crate::pcapng::LinkType::RawIp, ("client", "towards the server"));
        crate::pcapng::interface(&mut file, link_type, named, 0);
        for (ms, len) in [(5, 20), (9, 1500)] {
            let frame = crate::Frame {
                at: crate::Instant::ZERO + crate::Duration::from_millis(ms),
                node: 0,
                link: 0,
                heading: crate::Heading::Inbound,
                original_len: len,
                bytes: &FRAME[14..],
            };
            crate::pcapng::packet(&mut file, 0, 0, &frame);
        }
        assert_eq!(all(&file).unwrap(), [(5_000_000, 20, Some(20)), (9_000_000, 1500, Some(20))]);
    }

    #[test]
    fn times_are_in_the_interfaces_unit() {
        for (option, units, nanos) in [
            (6, 1, 1000),
            (9, 1, 1),
            (12, 2500, 2),
            (0, 3, 3_000_000_000),
            (0x80 | 10, 512, 500_000_000),
            (0x80 | 127, u64::MAX, 0),
            (127, u64::MAX, 0),
            (0, u64::MAX, u64::MAX),
        ] {
            assert_eq!(TimeResolution::of(option).nanos(units), nanos, "{option}");
        }
    }

    #[test]
    fn a_file_that_is_broken_off_says_where() {
        let whole = pcap(0xA1B2_C3D4, false);
        assert_eq!(all(&whole[..whole.len() - 1]), Err(CaptureError::Damaged(40)));
        assert_eq!(all(b"MZ"), Err(CaptureError::Unknown));
        assert_eq!(all(b"MZ..and more"), Err(CaptureError::Unknown));
    }

    proptest! {
        /// Any bytes after any valid beginning are either read to the end or refused.
        #[test]
        fn any_bytes_are_read_or_refused(kind in 0..5_usize, bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let beginnings: [&[u8]; 5] = [
                &[],
                &[0x0A, 0x0D, 0x0D, 0x0A, 28, 0, 0, 0, 0x4D, 0x3C, 0x2B, 0x1A],
                &[0xD4, 0xC3, 0xB2, 0xA1],
                &[0xA1, 0xB2, 0x3C, 0x4D],
                &[0x0A, 0x0D, 0x0D, 0x0A, 12, 0, 0, 0, 0x4D, 0x3C, 0x2B, 0x1A, 1, 0, 0, 0, 20, 0, 0, 0],
            ];
            let _ = all(&[beginnings[kind], &bytes].concat());
        }

        #[test]
        fn any_packet_has_a_length_or_none(link_type in 0..300_u16, bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let packet = Captured { at_ns: 0, link_type, bytes: &bytes, original_len: 80 };
            prop_assert!(packet.ip_len().is_none_or(|len| len <= 65_535 + 40));
        }
    }
}
