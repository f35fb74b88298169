//! IP packets and their transport payload, as a SIP trace needs them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Protocol numbers (IANA).
const TCP: u8 = 6;
const UDP: u8 = 17;

/// IPv6 extension headers that are skipped (RFC 8200 section 4.1), and the one that makes a fragment.
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;

/// The most incomplete datagrams. If another one starts, the oldest is dropped.
const MOST_INCOMPLETE: usize = 64;

/// The payload of one datagram or segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub carried: CapturedPayload,
}

/// A payload by its transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CapturedPayload {
    /// UDP.
    Datagram(Vec<u8>),
    /// TCP.
    Segment(CapturedSegment),
}

/// A TCP segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedSegment {
    /// Sequence number of the first byte of `data`, or of the SYN.
    pub sequence: u32,
    pub is_syn: bool,
    /// FIN or RST.
    pub ends: bool,
    pub data: Vec<u8>,
}

/// Reads IP packets, and reassembles fragments.
#[derive(Debug, Default)]
pub struct Reassembly {
    incomplete: BTreeMap<FragmentKey, Incomplete>,
    /// Number of started datagrams, to find the oldest.
    begun: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FragmentKey {
    from: IpAddr,
    to: IpAddr,
    identification: u32,
    protocol: u8,
}

/// A datagram with missing fragments.
#[derive(Debug, Default)]
struct Incomplete {
    number: u64,
    /// Fragments by offset, bytes.
    pieces: BTreeMap<usize, Vec<u8>>,
    /// Known once the last fragment was captured.
    length: Option<usize>,
}

/// A fragment, or a whole packet.
struct Part<'a> {
    key: FragmentKey,
    offset: usize,
    more: bool,
    bytes: &'a [u8],
}

impl Reassembly {
    /// The payload that this packet completes; `None` for fragments that complete nothing, for other protocols, and for packets that are
    /// not complete in the capture.
    pub fn push(&mut self, ip: &[u8]) -> Option<Payload> {
        let part = match ip.first()? >> 4 {
            4 => version_4(ip)?,
            6 => version_6(ip)?,
            _ => return None,
        };
        let FragmentKey { from, to, protocol, .. } = part.key;
        if part.offset == 0 && !part.more {
            return transport(from, to, protocol, part.bytes);
        }
        let whole = self.complete(part)?;
        transport(from, to, protocol, &whole)
    }

    fn complete(&mut self, part: Part<'_>) -> Option<Vec<u8>> {
        if !self.incomplete.contains_key(&part.key) && self.incomplete.len() >= MOST_INCOMPLETE {
            let oldest = self.incomplete.iter().min_by_key(|(_, one)| one.number).map(|(key, _)| *key)?;
            self.incomplete.remove(&oldest);
        }
        self.begun += 1;
        let number = self.begun;
        let known =
            self.incomplete.entry(part.key).or_insert_with(|| Incomplete { number, ..Incomplete::default() });
        if !part.more {
            known.length = Some(part.offset + part.bytes.len());
        }
        known.pieces.entry(part.offset).or_insert_with(|| part.bytes.to_vec());
        let length = known.length?;
        let mut whole = Vec::with_capacity(length);
        for (offset, piece) in &known.pieces {
            if *offset > whole.len() {
                return None;
            }
            // Fragments may overlap (RFC 791 section 3.2): the earlier bytes stay.
            let new = piece.get(whole.len() - offset..).unwrap_or_default();
            whole.extend_from_slice(new);
        }
        if whole.len() < length {
            return None;
        }
        self.incomplete.remove(&part.key);
        whole.truncate(length);
        Some(whole)
    }
}

/// RFC 791 section 3.1.
fn version_4(ip: &[u8]) -> Option<Part<'_>> {
    let header = usize::from(ip[0] & 0x0F) * 4;
    let length = usize::from(half(ip, 2)?);
    let fragment = half(ip, 6)?;
    let address = |at: usize| ip.get(at..)?.first_chunk::<4>().map(|four| IpAddr::V4(Ipv4Addr::from(*four)));
    let key = FragmentKey {
        from: address(12)?,
        to: address(16)?,
        identification: half(ip, 4)?.into(),
        protocol: *ip.get(9)?,
    };
    let (offset, more) = (usize::from(fragment & 0x1FFF) * 8, fragment & 0x2000 != 0);
    Some(Part { key, offset, more, bytes: ip.get(header.max(20)..length)? })
}

/// RFC 8200 sections 3 and 4.
fn version_6(ip: &[u8]) -> Option<Part<'_>> {
    let length = 40 + usize::from(half(ip, 4)?);
    let address = |at: usize| ip.get(at..)?.first_chunk::<16>().map(|all| IpAddr::V6(Ipv6Addr::from(*all)));
    let (from, to) = (address(8)?, address(24)?);
    let (mut next, mut at) = (*ip.get(6)?, 40);
    let (mut identification, mut offset, mut more) = (0, 0, false);
    loop {
        match next {
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => {
                next = *ip.get(at)?;
                at += 8 * (usize::from(*ip.get(at + 1)?) + 1);
            }
            FRAGMENT => {
                next = *ip.get(at)?;
                let field = half(ip, at + 2)?;
                (offset, more) = (usize::from(field & 0xFFF8), field & 1 != 0);
                identification = u32::from_be_bytes(*ip.get(at + 4..)?.first_chunk()?);
                at += 8;
            }
            protocol => {
                let key = FragmentKey { from, to, identification, protocol };
                return Some(Part { key, offset, more, bytes: ip.get(at..length)? });
            }
        }
    }
}

fn transport(from: IpAddr, to: IpAddr, protocol: u8, bytes: &[u8]) -> Option<Payload> {
    let (from, to) = (SocketAddr::new(from, half(bytes, 0)?), SocketAddr::new(to, half(bytes, 2)?));
    let carried = match protocol {
        // RFC 768.
        UDP => CapturedPayload::Datagram(bytes.get(8..usize::from(half(bytes, 4)?).max(8))?.to_vec()),
        // RFC 9293 section 3.1.
        TCP => {
            const FIN: u8 = 1;
            const SYN: u8 = 2;
            const RST: u8 = 4;
            let header = usize::from(bytes.get(12)? >> 4) * 4;
            let flags = *bytes.get(13)?;
            CapturedPayload::Segment(CapturedSegment {
                sequence: u32::from_be_bytes(*bytes.get(4..)?.first_chunk()?),
                is_syn: flags & SYN != 0,
                ends: flags & (FIN | RST) != 0,
                data: bytes.get(header.max(20)..)?.to_vec(),
            })
        }
        _ => return None,
    };
    Some(Payload { from, to, carried })
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|two| u16::from_be_bytes(*two))
}
