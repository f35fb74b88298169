//! Parses the header of an IP packet.

use std::net::{IpAddr, Ipv6Addr};

use crate::{Dscp, Ecn};

/// The protocol number of the IPv6 fragment header (RFC 8200 section 4.5).
const FRAGMENT: u8 = 44;

/// The header of an IP packet (RFC 791 section 3.1, RFC 8200 section 3). Of IPv6's extension headers only a fragment
/// header is parsed, and only if it is the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpHeader {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// DiffServ code point.
    pub dscp: Dscp,
    /// ECN field.
    pub ecn: Ecn,
    /// Length of the packet, bytes.
    pub len: u32,
    /// Length of the header, bytes, with the options of IPv4 or the fragment header of IPv6.
    pub header_len: u32,
    /// IP protocol number of the payload.
    pub protocol: u8,
    /// IP protocol number in the fixed header: `protocol`, or 44 if an IPv6 fragment header follows.
    pub next: u8,
    /// The remaining hop limit (IPv4's time to live).
    pub hops: u8,
    /// Whether a router may fragment the packet.
    pub may_be_cut: bool,
    /// The identification, which all fragments of a datagram share.
    pub id: u32,
    /// Offset of the fragment in its datagram, bytes.
    pub offset: u32,
    /// Whether more fragments of the datagram follow.
    pub more: bool,
}

impl IpHeader {
    /// The header at the start of `packet`. The payload may be missing. `None` if there is no complete IP header.
    pub fn read(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => read_v4(packet),
            6 => read_v6(packet),
            _ => None,
        }
    }

    /// Whether it is the first or the only packet of its datagram.
    pub const fn is_first(&self) -> bool {
        self.offset == 0
    }

    /// Length of the payload, bytes. Fragmentation does not change the sum of these lengths.
    pub const fn payload_len(&self) -> u32 {
        self.len - self.header_len
    }
}

/// Whether the address has link-local scope, so that it is valid only together with an interface: link-local unicast
/// and multicast (RFC 4291 sections 2.5.6 and 2.7).
pub const fn is_of_a_link(ip: &Ipv6Addr) -> bool {
    ip.is_unicast_link_local() || ip.is_multicast() && ip.segments()[0] & 0xF == 2
}

fn read_v4(packet: &[u8]) -> Option<IpHeader> {
    let fixed: &[u8; 20] = packet.first_chunk()?;
    let header_len = u32::from(fixed[0] & 0x0f) * 4;
    let len = u16::from_be_bytes([fixed[2], fixed[3]]).into();
    if header_len < 20 || len < header_len || packet.len() < header_len as usize {
        return None;
    }
    let address = |at: usize| fixed[at..].first_chunk().map(|octets: &[u8; 4]| IpAddr::from(*octets));
    Some(IpHeader {
        src: address(12)?,
        dst: address(16)?,
        dscp: Dscp(fixed[1] >> 2),
        ecn: Ecn::from_bits(fixed[1]),
        len,
        header_len,
        protocol: fixed[9],
        next: fixed[9],
        hops: fixed[8],
        may_be_cut: fixed[6] & 0x40 == 0,
        id: u16::from_be_bytes([fixed[4], fixed[5]]).into(),
        // The field counts units of eight bytes.
        offset: u32::from(u16::from_be_bytes([fixed[6] & 0x1f, fixed[7]])) * 8,
        more: fixed[6] & 0x20 != 0,
    })
}

fn read_v6(packet: &[u8]) -> Option<IpHeader> {
    let fixed: &[u8; 40] = packet.first_chunk()?;
    let address = |at: usize| fixed[at..].first_chunk().map(|octets: &[u8; 16]| IpAddr::from(*octets));
    let class = fixed[0] << 4 | fixed[1] >> 4;
    let whole = IpHeader {
        src: address(8)?,
        dst: address(24)?,
        dscp: Dscp(class >> 2),
        ecn: Ecn::from_bits(class),
        len: u32::from(u16::from_be_bytes([fixed[4], fixed[5]])) + 40,
        header_len: 40,
        protocol: fixed[6],
        next: fixed[6],
        hops: fixed[7],
        // Only the source fragments an IPv6 packet (RFC 8200 section 5).
        may_be_cut: false,
        id: 0,
        offset: 0,
        more: false,
    };
    let fragment: &[u8; 8] = match packet[40..].first_chunk() {
        Some(fragment) if whole.next == FRAGMENT && whole.len >= 48 => fragment,
        _ => return Some(whole),
    };
    let place = u16::from_be_bytes([fragment[2], fragment[3]]);
    Some(IpHeader {
        header_len: 48,
        protocol: fragment[0],
        id: u32::from_be_bytes([fragment[4], fragment[5], fragment[6], fragment[7]]),
        offset: u32::from(place & !7),
        more: place & 1 != 0,
        ..whole
    })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;
    use crate::protocol;

    /// An IPv4 header of 24 bytes, and one byte of payload.
    const V4: [u8; 25] =
        [0x46, 0xbb, 0, 25, 0x12, 0x34, 0x40, 0, 63, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2, 1, 1, 1, 1, 9];

    /// An IPv6 header, then 8 bytes that are a fragment header if `next` is 44, then 16 bytes.
    fn v6(next: u8, fragment: [u8; 8]) -> Vec<u8> {
        let mut packet = vec![0x6b, 0xb0, 0, 0, 0, 24, next, 63];
        packet.extend(Ipv6Addr::LOCALHOST.octets());
        packet.extend(Ipv6Addr::UNSPECIFIED.octets());
        packet.extend(fragment);
        packet.extend([0; 16]);
        packet
    }

    #[test]
    fn a_header_of_ipv4_ends_behind_its_options() {
        let header = IpHeader::read(&V4).unwrap();
        let expected = IpHeader {
            src: Ipv4Addr::new(192, 0, 2, 1).into(),
            dst: Ipv4Addr::new(198, 51, 100, 2).into(),
            dscp: Dscp::EF,
            ecn: Ecn::Ce,
            len: 25,
            header_len: 24,
            protocol: protocol::UDP,
            next: protocol::UDP,
            hops: 63,
            may_be_cut: false,
            id: 0x1234,
            offset: 0,
            more: false,
        };
        assert_eq!((header, header.payload_len(), header.is_first()), (expected, 1, true));
        // The last of three flags, and an offset of 13 bits.
        let mut fragment = V4;
        fragment[6..8].copy_from_slice(&[0x3f, 0xff]);
        let fragment = IpHeader::read(&fragment).unwrap();
        let place = (fragment.offset, fragment.more, fragment.may_be_cut, fragment.is_first());
        assert_eq!(place, (0x1fff * 8, true, true, false));
    }

    #[test]
    fn a_fragment_of_ipv6_says_what_it_is_a_piece_of() {
        let header = IpHeader::read(&v6(protocol::UDP, [0; 8])).unwrap();
        assert_eq!((header.dscp, header.ecn, header.len, header.hops), (Dscp::EF, Ecn::Ce, 64, 63));
        assert_eq!((header.src, header.dst), (Ipv6Addr::LOCALHOST.into(), Ipv6Addr::UNSPECIFIED.into()));
        assert_eq!((header.protocol, header.next, header.payload_len()), (protocol::UDP, protocol::UDP, 24));
        assert!(header.is_first() && !header.more && !header.may_be_cut);
        let fragment = v6(FRAGMENT, [protocol::UDP, 0, 0x05, 0xa9, 1, 2, 3, 4]);
        let header = IpHeader::read(&fragment).unwrap();
        assert_eq!((header.protocol, header.next, header.payload_len()), (protocol::UDP, FRAGMENT, 16));
        assert_eq!((header.id, header.offset, header.more), (0x0102_0304, 0x05a8, true));
        // An incomplete fragment header is not parsed.
        let cut = IpHeader::read(&fragment[..47]).unwrap();
        assert_eq!((cut.protocol, cut.header_len, cut.is_first()), (FRAGMENT, 40, true));
    }

    #[test]
    fn what_is_no_header_is_none() {
        for at in 0..24 {
            assert_eq!(IpHeader::read(&V4[..at]), None, "{at} B");
        }
        for at in 0..40 {
            assert_eq!(IpHeader::read(&v6(protocol::UDP, [0; 8])[..at]), None, "{at} B");
        }
        // Version, words of the header, length of the packet.
        for (at, wrong) in [(0, 0x56), (0, 0x44), (3, 23)] {
            let mut packet = V4;
            packet[at] = wrong;
            assert_eq!(IpHeader::read(&packet), None, "{wrong} at {at}");
        }
    }

    proptest! {
        /// For any bytes, a parsed header lies within them and is no longer than its packet.
        #[test]
        fn any_bytes_are_a_header_or_none(bytes in prop::collection::vec(any::<u8>(), 0..60), version in 4..7_u8) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = *first & 0x0f | version << 4;
            }
            if let Some(header) = IpHeader::read(&bytes) {
                prop_assert!(header.header_len as usize <= bytes.len() && header.header_len <= header.len);
            }
        }
    }
}
