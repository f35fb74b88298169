//! A frame inside the router.

use std::net::IpAddr;

use netrig_core::{Dscp, Ecn, FiveTuple, Header, IpHeader, PacketMeta, internet_checksum, protocol};
use netrig_link::wire::NumberedPacket;

/// Length of an Ethernet header, bytes.
pub(crate) const ETHERNET: usize = 14;
/// EtherTypes (IANA).
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

/// A frame, with a parsed header that links may change. The contents are on the heap, because queues and links move
/// the value several times.
#[derive(Clone, Debug)]
pub(crate) struct Parcel(Box<ParcelContent>);

#[derive(Clone, Debug)]
struct ParcelContent {
    header: Header,
    /// The header on arrival.
    ip: IpHeader,
    /// The DSCP and the ECN field that `bytes` contains.
    written: (Dscp, Ecn),
    /// The number of the packet in the run.
    number: u32,
    /// The frame, from the first byte of the Ethernet header.
    bytes: Vec<u8>,
}

impl Parcel {
    /// Parses a frame. `number` is its number in the run. `room` is an unused parcel whose memory is reused. `None` if
    /// the frame contains no complete IP packet.
    pub fn read(bytes: &[u8], number: u32, room: Option<Self>) -> Option<Self> {
        let ip = read_ip(bytes)?;
        let (header, written) = (header(&ip, bytes), (ip.dscp, ip.ecn));
        let Some(Self(mut content)) = room else {
            return Some(Self(Box::new(ParcelContent {
                header,
                ip,
                written,
                number,
                bytes: bytes.to_vec(),
            })));
        };
        (content.header, content.ip, content.written, content.number) = (header, ip, written, number);
        content.bytes.clear();
        content.bytes.extend_from_slice(bytes);
        Some(Self(content))
    }

    /// Writes the header changes of the links into the frame, and returns the frame for sending.
    pub fn finished(&mut self) -> &[u8] {
        let ParcelContent { header, written, bytes, .. } = &mut *self.0;
        if (header.dscp, header.ecn) != *written {
            *written = (header.dscp, header.ecn);
            write_class(&mut bytes[ETHERNET..], *header);
        }
        bytes
    }

    /// The bytes of the IP packet, with the header changes that have been written so far.
    pub fn packet(&self) -> &[u8] {
        &self.0.bytes[ETHERNET..]
    }

    /// The packet's header on arrival.
    pub fn ip(&self) -> &IpHeader {
        &self.0.ip
    }

    /// The bytes after the IP header, including the padding of a short frame.
    pub fn payload(&self) -> &[u8] {
        &self.packet()[self.0.ip.header_len as usize..]
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

impl NumberedPacket for Parcel {
    #[inline]
    fn number(&self) -> u32 {
        self.0.number
    }
}

/// The header of the IP packet in an Ethernet frame. `None` if the frame contains no IP packet, or the packet is
/// truncated.
fn read_ip(frame: &[u8]) -> Option<IpHeader> {
    let kind = u16::from_be_bytes(*frame.get(12..)?.first_chunk()?);
    let packet = frame.get(ETHERNET..)?;
    let ip = IpHeader::read(packet)?;
    let kind_of = if ip.src.is_ipv4() { IPV4 } else { IPV6 };
    (kind == kind_of && ip.len as usize <= packet.len()).then_some(ip)
}

/// The header that links use. Extension headers of IPv6 are not parsed: the type of the first extension header counts
/// as the protocol, and the ports are 0.
fn header(ip: &IpHeader, frame: &[u8]) -> Header {
    let IpHeader { src, dst, next, len, dscp, ecn, .. } = *ip;
    // Only the first fragment has ports.
    let first = frame.get(ETHERNET + ip.header_len as usize..).filter(|_| ip.is_first());
    let (src_port, dst_port) = first.map_or((0, 0), |transport| ports(next, transport));
    let flow = FiveTuple { src, dst, src_port, dst_port, protocol: next };
    Header { flow, ip_len: len, dscp, ecn }
}

/// Source and destination address of the IP packet in an Ethernet frame, even if the packet is truncated or altered.
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

/// Source and destination port, which are the first fields of the TCP, UDP and SCTP headers.
fn ports(number: u8, transport: &[u8]) -> (u16, u16) {
    match transport.first_chunk() {
        Some([a, b, c, d]) if [protocol::TCP, protocol::UDP, protocol::SCTP].contains(&number) => {
            (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]))
        }
        _ => (0, 0),
    }
}

/// Writes the DSCP and the ECN field into an IP packet that has been parsed before.
fn write_class(packet: &mut [u8], header: Header) {
    let class = header.traffic_class();
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

    /// An IP packet of 115 B with UDP from 192.168.0.1 to 192.168.0.199. The checksum 0xb861 was computed by hand.
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
        let ip = read_ip(frame).unwrap();
        (ip.dscp, ip.ecn)
    }

    #[test]
    fn what_a_link_marks_leaves_with_the_frame_and_its_checksum_holds() {
        let mut parcel = Parcel::read(&frame(), 1, None).unwrap();
        assert_eq!(parcel.finished(), frame(), "nothing was changed");
        parcel.header_mut().dscp = Dscp(46);
        parcel.header_mut().ecn = Ecn::Ce;
        let out = parcel.finished().to_vec();
        assert_eq!(class_of(&out), (Dscp(46), Ecn::Ce));
        // The sum over a valid header, including its checksum, has all bits set (RFC 1071 section 1).
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
        assert!(read_ip(&whole).is_some());
        for cut in 0..whole.len() {
            assert!(read_ip(&whole[..cut]).is_none(), "{cut} B");
        }
        for other in [[0x08, 0x06], IPV6.to_be_bytes()] {
            let mut frame = whole.clone();
            frame[12..14].copy_from_slice(&other);
            assert!(read_ip(&frame).is_none(), "{other:?}");
        }
    }

    #[test]
    fn a_later_fragment_has_no_ports() {
        let mut frame = frame();
        let port = |frame: &[u8]| Parcel::read(frame, 1, None).unwrap().header().flow.src_port;
        assert_eq!(port(&frame), 5001);
        frame[ETHERNET + 7] = 1;
        assert_eq!(port(&frame), 0);
    }

    #[test]
    fn memory_is_taken_again() {
        let first = Parcel::read(&frame(), 1, None).unwrap();
        let at = first.packet().as_ptr();
        let second = Parcel::read(&frame(), 2, Some(first)).unwrap();
        assert_eq!((second.packet().as_ptr(), second.number()), (at, 2));
    }
}
