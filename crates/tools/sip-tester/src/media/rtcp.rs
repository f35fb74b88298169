//! The parts of RTCP that voice needs: sender and receiver reports, the canonical name, and the end of a source (RFC 3550
//! section 6).

/// Packet types (RFC 3550 section 12.1).
const SENDER_REPORT: u8 = 200;
const RECEIVER_REPORT: u8 = 201;
const SOURCE_DESCRIPTION: u8 = 202;
const GOODBYE: u8 = 203;

/// The type of the SDES item CNAME (RFC 3550 section 6.5.1).
const CNAME: u8 = 1;

/// The largest number of blocks in a report: the count has five bits.
const MOST_BLOCKS: usize = 31;

/// The sender information of a report (RFC 3550 section 6.4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderInfo {
    /// NTP time stamp.
    pub ntp: u64,
    /// RTP time stamp at the time of `ntp`.
    pub timestamp: u32,
    /// Number of packets sent.
    pub packets: u32,
    /// Bytes of payload sent.
    pub bytes: u32,
}

/// The report block for a source (RFC 3550 section 6.4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceptionBlock {
    /// SSRC of the source.
    pub source: u32,
    /// Share of packets lost since the previous report, in 256ths.
    pub fraction_lost: u8,
    /// Packets lost in all; negative if duplicates outnumber losses.
    pub lost: i32,
    /// Highest sequence number, with its number of cycles in the upper 16 bits.
    pub highest: u32,
    /// Interarrival jitter, in time stamp units.
    pub jitter: u32,
    /// Middle 32 bits of the NTP time stamp of the last sender report.
    pub last_report: u32,
    /// Delay since that report, in 65536ths of a second.
    pub delay: u32,
}

/// A packet of RTCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RtcpPacket {
    /// The report of a sender.
    SenderReport(u32, SenderInfo, Vec<ReceptionBlock>),
    /// The report of an end that only receives.
    ReceiverReport(u32, Vec<ReceptionBlock>),
    /// The canonical name of a source.
    Name(u32, String),
    /// Sources that have left.
    Goodbye(Vec<u32>),
    /// A packet of another type.
    Other(u8),
}

/// Why bytes are not RTCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RtcpError {
    /// A packet is longer than the remaining bytes.
    #[error("an RTCP packet ends too soon")]
    Short,
    /// A packet has another RTP version.
    #[error("version {0} is not RTP's version 2")]
    Version(u8),
    /// The length does not fit the type.
    #[error("an RTCP packet of type {0} is too short for its contents")]
    Length(u8),
}

fn word(bytes: &[u8], place: usize) -> Option<u32> {
    bytes.get(4 * place..4 * place + 4)?.try_into().ok().map(u32::from_be_bytes)
}

fn block(bytes: &[u8]) -> Option<ReceptionBlock> {
    let loss = word(bytes, 1)?;
    Some(ReceptionBlock {
        source: word(bytes, 0)?,
        fraction_lost: (loss >> 24) as u8,
        // A signed number of 24 bits.
        lost: ((loss << 8) as i32) >> 8,
        highest: word(bytes, 2)?,
        jitter: word(bytes, 3)?,
        last_report: word(bytes, 4)?,
        delay: word(bytes, 5)?,
    })
}

/// Reads a compound packet.
///
/// # Errors
/// If the bytes are not RTCP; packets before the fault are discarded.
pub fn read_rtcp(bytes: &[u8]) -> Result<Vec<RtcpPacket>, RtcpError> {
    let mut packets = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let header = rest.get(..4).ok_or(RtcpError::Short)?;
        let (version, count, kind) = (header[0] >> 6, usize::from(header[0] & 0x1F), header[1]);
        if version != 2 {
            return Err(RtcpError::Version(version));
        }
        let length = 4 * (usize::from(u16::from_be_bytes([header[2], header[3]])) + 1);
        let body = rest.get(4..length).ok_or(RtcpError::Short)?;
        rest = &rest[length..];
        packets.push(packet(kind, count, body).ok_or(RtcpError::Length(kind))?);
    }
    Ok(packets)
}

fn packet(kind: u8, count: usize, body: &[u8]) -> Option<RtcpPacket> {
    let blocks = |from: usize| {
        (0..count).map(|place| block(body.get(4 * (from + 6 * place)..)?)).collect::<Option<Vec<_>>>()
    };
    Some(match kind {
        SENDER_REPORT => {
            let ntp = u64::from(word(body, 1)?) << 32 | u64::from(word(body, 2)?);
            let info =
                SenderInfo { ntp, timestamp: word(body, 3)?, packets: word(body, 4)?, bytes: word(body, 5)? };
            RtcpPacket::SenderReport(word(body, 0)?, info, blocks(6)?)
        }
        RECEIVER_REPORT => RtcpPacket::ReceiverReport(word(body, 0)?, blocks(1)?),
        SOURCE_DESCRIPTION if count > 0 => {
            let source = word(body, 0)?;
            let mut items = body.get(4..)?;
            let mut name = None;
            while let [kind, length, rest @ ..] = items {
                // The list of items ends with a zero.
                if *kind == 0 {
                    break;
                }
                let text = rest.get(..usize::from(*length))?;
                if *kind == CNAME {
                    name = Some(String::from_utf8_lossy(text).into_owned());
                }
                items = &rest[usize::from(*length)..];
            }
            RtcpPacket::Name(source, name.unwrap_or_default())
        }
        GOODBYE => RtcpPacket::Goodbye((0..count).map(|place| word(body, place)).collect::<Option<_>>()?),
        other => RtcpPacket::Other(other),
    })
}

/// Writes a compound packet. Blocks of a report and sources of a goodbye beyond the 31st, bytes of a name beyond the
/// 255th, and packets of other types are left out.
pub fn write_rtcp(packets: &[RtcpPacket]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for packet in packets {
        let (kind, count, body) = match packet {
            RtcpPacket::SenderReport(source, info, blocks) => {
                let mut body = Vec::new();
                body.extend(source.to_be_bytes());
                body.extend(info.ntp.to_be_bytes());
                [info.timestamp, info.packets, info.bytes]
                    .iter()
                    .for_each(|word| body.extend(word.to_be_bytes()));
                (SENDER_REPORT, write_blocks(blocks, &mut body), body)
            }
            RtcpPacket::ReceiverReport(source, blocks) => {
                let mut body = source.to_be_bytes().to_vec();
                (RECEIVER_REPORT, write_blocks(blocks, &mut body), body)
            }
            RtcpPacket::Name(source, name) => {
                let mut body = source.to_be_bytes().to_vec();
                let name = &name.as_bytes()[..name.len().min(255)];
                body.extend([CNAME, name.len() as u8]);
                body.extend(name);
                // The list of items ends with a zero, padded to a word (section 6.5).
                body.push(0);
                body.resize(body.len().next_multiple_of(4), 0);
                (SOURCE_DESCRIPTION, 1, body)
            }
            RtcpPacket::Goodbye(sources) => {
                let sources = &sources[..sources.len().min(MOST_BLOCKS)];
                (GOODBYE, sources.len(), sources.iter().flat_map(|source| source.to_be_bytes()).collect())
            }
            RtcpPacket::Other(_) => continue,
        };
        bytes.extend([2 << 6 | count as u8, kind]);
        bytes.extend((body.len() as u16 / 4).to_be_bytes());
        bytes.extend(body);
    }
    bytes
}

fn write_blocks(blocks: &[ReceptionBlock], body: &mut Vec<u8>) -> usize {
    let blocks = &blocks[..blocks.len().min(MOST_BLOCKS)];
    for block in blocks {
        let loss = u32::from(block.fraction_lost) << 24
            | (block.lost.clamp(-0x80_0000, 0x7F_FFFF) as u32 & 0xFF_FFFF);
        [block.source, loss, block.highest, block.jitter, block.last_report, block.delay]
            .iter()
            .for_each(|word| body.extend(word.to_be_bytes()));
    }
    blocks.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let block = ReceptionBlock {
            source: 7,
            fraction_lost: 128,
            lost: -3,
            highest: 70_000,
            jitter: 12,
            last_report: 0xABCD_EF01,
            delay: 65_536,
        };
        let info = SenderInfo { ntp: 1 << 40 | 5, timestamp: 160, packets: 9, bytes: 1440 };
        let packets = vec![
            RtcpPacket::SenderReport(1, info, vec![block]),
            RtcpPacket::Name(1, "tester@192.0.2.1".to_owned()),
            RtcpPacket::ReceiverReport(2, vec![block, ReceptionBlock { lost: 0x7F_FFFF, ..block }]),
            RtcpPacket::Goodbye(vec![1, 2]),
        ];
        let bytes = write_rtcp(&packets);
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(read_rtcp(&bytes), Ok(packets));
    }

    #[test]
    fn what_is_no_rtcp_says_why() {
        assert_eq!(read_rtcp(&[0x80]), Err(RtcpError::Short));
        assert_eq!(read_rtcp(&[0x40, 200, 0, 0]), Err(RtcpError::Version(1)));
        assert_eq!(read_rtcp(&[0x80, 200, 0, 9]), Err(RtcpError::Short));
        assert_eq!(read_rtcp(&[0x81, 201, 0, 1, 0, 0, 0, 1]), Err(RtcpError::Length(201)));
        assert_eq!(read_rtcp(&[0x80, 210, 0, 0]), Ok(vec![RtcpPacket::Other(210)]));
        assert_eq!(read_rtcp(&[]), Ok(Vec::new()));
    }
}
