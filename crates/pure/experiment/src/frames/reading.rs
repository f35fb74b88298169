//! Reads the fields of packets that the figures need. It makes no assumption about the sender, so any bytes may occur.

use std::net::IpAddr;

use netrig_core::{IpHeader, protocol};

/// A packet of a transport protocol with sequence numbers.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PacketReading {
    pub ends: PacketEnds,
    pub body: PacketBody,
}

/// The protocol of a packet, and the address and port of its source and its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PacketEnds {
    pub protocol: u8,
    pub addresses: [IpAddr; 2],
    pub ports: [u16; 2],
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum PacketBody {
    Tcp(TcpReading),
    Sctp(Vec<ChunkReading>),
}

/// The fields of a TCP segment (RFC 9293 section 3.1).
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TcpReading {
    pub seq: u32,
    /// The acknowledgement number, if the ACK bit is set.
    pub ack: Option<u32>,
    pub syn: bool,
    pub fin: bool,
    pub window: u16,
    /// The shift count of the window scale option (RFC 7323 section 2), if the segment has it.
    pub window_scale: Option<u8>,
    /// The SACK blocks (RFC 2018 section 3): for each, its first number and the number after its last.
    pub sack: Vec<[u32; 2]>,
    /// Number of bytes of user data, whether captured or not.
    pub data: u32,
}

/// A chunk that contains TSNs (RFC 9260 section 3.3).
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChunkReading {
    /// INIT or INIT ACK.
    Opening {
        initial_tsn: u32,
    },
    Data(MessagePiece),
    Sack {
        cumulative: u32,
        /// For each gap ack block, its first TSN and the TSN after its last.
        gaps: Vec<[u32; 2]>,
    },
}

/// A DATA chunk: a message, or a fragment of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessagePiece {
    pub tsn: u32,
    pub stream: u16,
    pub unordered: bool,
    pub beginning: bool,
    pub ending: bool,
}

impl PacketEnds {
    pub const fn reversed(self) -> Self {
        let ([a, b], [p, q]) = (self.addresses, self.ports);
        Self { addresses: [b, a], ports: [q, p], ..self }
    }

    /// The key of a connection. For an association, which may have several addresses, the key has only the ports.
    pub fn key(self) -> Self {
        let nowhere = IpAddr::from([0; 4]);
        if self.protocol == protocol::SCTP { Self { addresses: [nowhere; 2], ..self } } else { self }
    }
}

/// Reads a packet that begins with its IP header. `None` for other protocols, for fragments after the first, and for
/// truncated headers.
pub(super) fn read(packet: &[u8]) -> Option<PacketReading> {
    let ip = IpHeader::read(packet).filter(IpHeader::is_first)?;
    let body = packet.get(ip.header_len as usize..)?;
    let ports = [be16(body, 0)?, be16(body, 2)?];
    // In an IPv6 fragment, `next` is the fragment header, so fragments of IPv6 are not read.
    let body = match ip.next {
        protocol::TCP => PacketBody::Tcp(tcp(body, ip.payload_len())?),
        protocol::SCTP => PacketBody::Sctp(sctp(body.get(12..)?)),
        _ => return None,
    };
    Some(PacketReading {
        ends: PacketEnds { protocol: ip.protocol, addresses: [ip.src, ip.dst], ports },
        body,
    })
}

fn tcp(segment: &[u8], len: u32) -> Option<TcpReading> {
    let header = usize::from(*segment.get(12)? >> 4) * 4;
    let flags = *segment.get(13)?;
    let data = len.checked_sub(header as u32).filter(|_| header >= 20)?;
    let mut reading = TcpReading {
        seq: be32(segment, 4)?,
        ack: be32(segment, 8).filter(|_| flags & 0x10 != 0),
        syn: flags & 0x02 != 0,
        fin: flags & 0x01 != 0,
        window: be16(segment, 14)?,
        data,
        ..TcpReading::default()
    };
    let mut options = segment.get(20..header.min(segment.len())).unwrap_or(&[]);
    while let Some(kind) = options.first().filter(|kind| **kind != 0) {
        if *kind == 1 {
            options = &options[1..];
            continue;
        }
        let Some(option) = options.get(1).and_then(|len| options.get(2..usize::from(*len))) else { break };
        match kind {
            3 => reading.window_scale = option.first().copied(),
            5 => {
                reading.sack =
                    option.chunks_exact(8).filter_map(|b| Some([be32(b, 0)?, be32(b, 4)?])).collect()
            }
            _ => {}
        }
        options = &options[2 + option.len()..];
    }
    Some(reading)
}

/// The chunks after the common header, up to the first truncated one.
fn sctp(mut chunks: &[u8]) -> Vec<ChunkReading> {
    let mut readings = Vec::new();
    while let (Some(kind), Some(len)) = (chunks.first(), be16(chunks, 2)) {
        let len = usize::from(len);
        readings.extend(chunk(*kind, chunks));
        match chunks.get(len.max(4).next_multiple_of(4)..) {
            Some(rest) => chunks = rest,
            None => break,
        }
    }
    readings
}

fn chunk(kind: u8, bytes: &[u8]) -> Option<ChunkReading> {
    match kind {
        0 => {
            let flags = *bytes.get(1)?;
            let [unordered, beginning, ending] = [4, 2, 1].map(|bit| flags & bit != 0);
            let (tsn, stream) = (be32(bytes, 4)?, be16(bytes, 8)?);
            Some(ChunkReading::Data(MessagePiece { tsn, stream, unordered, beginning, ending }))
        }
        1 | 2 => Some(ChunkReading::Opening { initial_tsn: be32(bytes, 16)? }),
        3 => {
            let (cumulative, count) = (be32(bytes, 4)?, usize::from(be16(bytes, 12)?));
            let gap = |n: usize| {
                let [start, end] = [be16(bytes, 16 + 4 * n)?, be16(bytes, 18 + 4 * n)?].map(u32::from);
                Some([cumulative.wrapping_add(start), cumulative.wrapping_add(end).wrapping_add(1)])
            };
            Some(ChunkReading::Sack { cumulative, gaps: (0..count).map_while(gap).collect() })
        }
        _ => None,
    }
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}
