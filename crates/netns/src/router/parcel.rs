//! A frame on its way through the router.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netrig_core::{Dscp, Ecn, FiveTuple, Header, PacketMeta, internet_checksum, protocol};
use netrig_link::wire::Numbered;

/// Length of an Ethernet header, bytes.
pub(crate) const ETHERNET: usize = 14;
/// EtherTypes (IANA).
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

/// A frame with what a link may know of its packet. A pointer, for queues and lines move it several times.
#[derive(Clone, Debug)]
pub(crate) struct Parcel(Box<Content>);

#[derive(Clone, Debug)]
struct Content {
    header: Header,
    /// The code point and ECN field that stand in the bytes.
    written: (Dscp, Ecn),
    number: u32,
    /// From the first byte of the Ethernet header.
    bytes: Vec<u8>,
}

impl Parcel {
    /// The frame of these bytes, the run's `number`-th; `None` if there is no IP packet in it. `room` is a parcel that is
    /// of no use any more, whose memory is taken again.
    pub fn read(bytes: &[u8], number: u32, room: Option<Self>) -> Option<Self> {
        let header = read_header(bytes)?;
        let written = (header.dscp, header.ecn);
        let Some(Self(mut content)) = room else {
            return Some(Self(Box::new(Content { header, written, number, bytes: bytes.to_vec() })));
        };
        (content.header, content.written, content.number) = (header, written, number);
        content.bytes.clear();
        content.bytes.extend_from_slice(bytes);
        Some(Self(content))
    }

    /// The frame as it leaves: what links changed of the header is written into it.
    pub fn finished(&mut self) -> &[u8] {
        let Content { header, written, bytes, .. } = &mut *self.0;
        if (header.dscp, header.ecn) != *written {
            *written = (header.dscp, header.ecn);
            write_class(&mut bytes[ETHERNET..], *header);
        }
        bytes
    }

    /// The packet's bytes as they came, or as they were written last.
    pub fn packet(&self) -> &[u8] {
        &self.0.bytes[ETHERNET..]
    }
}

impl PacketMeta for Parcel {
    #[inline]
    fn header(&self) -> &Header {
        &self.0.header
    }
    #[inline]
    fn header_mut(&mut self) -> &mut Header {
        &mut self.0.header
    }
}

impl Numbered for Parcel {
    #[inline]
    fn number(&self) -> u32 {
        self.0.number
    }
}

/// The header of the IP packet in an Ethernet frame, `None` if there is none or it is cut short.
fn read_header(frame: &[u8]) -> Option<Header> {
    let kind = u16::from_be_bytes(*frame.get(12..)?.first_chunk()?);
    let packet = frame.get(ETHERNET..)?;
    match kind {
        IPV4 => read_ipv4(packet),
        IPV6 => read_ipv6(packet),
        _ => None,
    }
}

/// Between which addresses the IP packet in an Ethernet frame goes, also if it is cut or altered.
pub(super) fn addresses(frame: &[u8]) -> Option<[IpAddr; 2]> {
    let kind = u16::from_be_bytes(*frame.get(12..)?.first_chunk()?);
    let packet = frame.get(ETHERNET..)?;
    let v4 = |at: usize| packet.get(at..)?.first_chunk().map(|octets: &[u8; 4]| IpAddr::from(*octets));
    let v6 = |at: usize| packet.get(at..)?.first_chunk().map(|octets: &[u8; 16]| IpAddr::from(*octets));
    match kind {
        IPV4 => Some([v4(12)?, v4(16)?]),
        IPV6 => Some([v6(8)?, v6(24)?]),
        _ => None,
    }
}

/// RFC 791 section 3.1.
fn read_ipv4(packet: &[u8]) -> Option<Header> {
    let fixed: &[u8; 20] = packet.first_chunk()?;
    let length = usize::from(fixed[0] & 0x0f) * 4;
    let total = u16::from_be_bytes([fixed[2], fixed[3]]);
    if fixed[0] >> 4 != 4 || length < 20 || usize::from(total) < length || usize::from(total) > packet.len() {
        return None;
    }
    let address =
        |at: usize| fixed[at..].first_chunk().map(|octets: &[u8; 4]| IpAddr::V4(Ipv4Addr::from(*octets)));
    // Only the first fragment has ports.
    let later = u16::from_be_bytes([fixed[6], fixed[7]]) & 0x1fff != 0;
    let (src_port, dst_port) = if later { (0, 0) } else { ports(fixed[9], &packet[length..]) };
    let flow = FiveTuple { src: address(12)?, dst: address(16)?, src_port, dst_port, protocol: fixed[9] };
    Some(Header { flow, ip_len: total.into(), dscp: Dscp(fixed[1] >> 2), ecn: ecn(fixed[1]) })
}

/// RFC 8200 section 3. Extension headers are not looked through: a packet with one has its first for a protocol and no
/// ports.
fn read_ipv6(packet: &[u8]) -> Option<Header> {
    let fixed: &[u8; 40] = packet.first_chunk()?;
    let payload = u16::from_be_bytes([fixed[4], fixed[5]]);
    if fixed[0] >> 4 != 6 || usize::from(payload) + 40 > packet.len() {
        return None;
    }
    let class = fixed[0] << 4 | fixed[1] >> 4;
    let address =
        |at: usize| fixed[at..].first_chunk().map(|octets: &[u8; 16]| IpAddr::V6(Ipv6Addr::from(*octets)));
    let (src_port, dst_port) = ports(fixed[6], &packet[40..]);
    let flow = FiveTuple { src: address(8)?, dst: address(24)?, src_port, dst_port, protocol: fixed[6] };
    let ip_len = u32::from(payload) + 40;
    Some(Header { flow, ip_len, dscp: Dscp(class >> 2), ecn: ecn(class) })
}

/// Source and destination port, which stand first in every transport header that has them.
fn ports(number: u8, transport: &[u8]) -> (u16, u16) {
    match transport.first_chunk() {
        Some([a, b, c, d]) if [protocol::TCP, protocol::UDP, protocol::SCTP].contains(&number) => {
            (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]))
        }
        _ => (0, 0),
    }
}

/// RFC 3168 section 5: the two lower bits of the traffic class.
const fn ecn(class: u8) -> Ecn {
    match class & 3 {
        0 => Ecn::NotEct,
        1 => Ecn::Ect1,
        2 => Ecn::Ect0,
        _ => Ecn::Ce,
    }
}

/// Writes code point and ECN field into an IP packet whose header was read.
fn write_class(packet: &mut [u8], header: Header) {
    let ecn = match header.ecn {
        Ecn::NotEct => 0,
        Ecn::Ect1 => 1,
        Ecn::Ect0 => 2,
        Ecn::Ce => 3,
    };
    let class = header.dscp.0 << 2 | ecn;
    if packet[0] >> 4 == 6 {
        packet[0] = packet[0] & 0xf0 | class >> 4;
        packet[1] = packet[1] & 0x0f | class << 4;
        return;
    }
    packet[1] = class;
    let length = usize::from(packet[0] & 0x0f) * 4;
    packet[10..12].fill(0);
    let sum = internet_checksum(&[&packet[..length]]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 115 B of UDP from 192.168.0.1 to 192.168.0.199, with a checksum that was reckoned by hand: 0xb861.
    fn frame() -> Vec<u8> {
        let mut frame = vec![0; ETHERNET + 115];
        frame[12..14].copy_from_slice(&IPV4.to_be_bytes());
        frame[ETHERNET..ETHERNET + 24].copy_from_slice(&[
            0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00, 0x01,
            0xc0, 0xa8, 0x00, 0xc7, 0x13, 0x89, 0xc0, 0x00,
        ]);
        frame
    }

    fn class_of(frame: &[u8]) -> (Dscp, Ecn) {
        let header = read_header(frame).unwrap();
        (header.dscp, header.ecn)
    }

    #[test]
    fn what_a_link_marks_leaves_with_the_frame_and_its_checksum_holds() {
        let mut parcel = Parcel::read(&frame(), 1, None).unwrap();
        assert_eq!(parcel.finished(), frame(), "nothing was changed");
        parcel.header_mut().dscp = Dscp(46);
        parcel.header_mut().ecn = Ecn::Ce;
        let out = parcel.finished().to_vec();
        assert_eq!(class_of(&out), (Dscp(46), Ecn::Ce));
        // With its field in it, the sum of a header that is whole is all ones (RFC 1071 section 1).
        assert_eq!(internet_checksum(&[&out[ETHERNET..ETHERNET + 20]]), 0);
        parcel.header_mut().dscp = Dscp(0);
        parcel.header_mut().ecn = Ecn::NotEct;
        assert_eq!(parcel.finished(), frame(), "and back, with the checksum that was there");
    }

    #[test]
    fn the_traffic_class_of_ipv6_lies_across_two_bytes() {
        let mut frame = vec![0; ETHERNET + 48];
        frame[12..14].copy_from_slice(&IPV6.to_be_bytes());
        let packet = &mut frame[ETHERNET..];
        (packet[0], packet[1], packet[5], packet[6]) = (0x60, 0x0a, 8, protocol::UDP);
        packet[40..44].copy_from_slice(&[0x13, 0x89, 0xc0, 0x00]);
        let mut parcel = Parcel::read(&frame, 1, None).unwrap();
        let Header { flow, ip_len, .. } = *parcel.header();
        assert_eq!((flow.src_port, flow.dst_port, ip_len), (5001, 49152, 48));
        parcel.header_mut().dscp = Dscp(0b10_1110);
        assert_eq!(parcel.finished()[ETHERNET..ETHERNET + 2], [0x6b, 0x8a], "the flow label stays");
    }

    #[test]
    fn only_whole_ip_packets_are_read() {
        let whole = frame();
        assert!(read_header(&whole).is_some());
        for cut in 0..whole.len() {
            assert!(read_header(&whole[..cut]).is_none(), "{cut} B");
        }
        let mut arp = whole;
        arp[13] = 6;
        assert!(read_header(&arp).is_none());
    }

    #[test]
    fn a_later_fragment_has_no_ports() {
        let mut frame = frame();
        assert_eq!(read_header(&frame).unwrap().flow.src_port, 5001);
        frame[ETHERNET + 7] = 1;
        assert_eq!(read_header(&frame).unwrap().flow.src_port, 0);
    }

    #[test]
    fn memory_is_taken_again() {
        let first = Parcel::read(&frame(), 1, None).unwrap();
        let at = first.packet().as_ptr();
        let second = Parcel::read(&frame(), 2, Some(first)).unwrap();
        assert_eq!((second.packet().as_ptr(), second.number()), (at, 2));
    }
}
