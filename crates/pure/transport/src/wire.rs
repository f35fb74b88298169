//! Encoding of packets: the IP header, and the transport header and data after it.
//!
//! Only readers of packets, such as a capture, need bytes: modelled hosts exchange structures. Bulk data is written as
//! zeros. Fields that the models do not have get the usual values of a host: no fragmentation, DF set, and a TTL of 64
//! that no router decrements.

use std::net::IpAddr;

use netrig_core::{Data, FiveTuple, Header, internet_checksum, protocol};

use crate::sctp;
use crate::{Datagram, Packet, Payload};

/// The largest packet length that an IPv4 header can contain, bytes (RFC 791 section 3.1).
const LONGEST: usize = u16::MAX as usize;

/// The default "Initial Time to Live" in the registry of IP parameters (RFC 1700).
const TIME_TO_LIVE: u8 = 64;

/// Length of a UDP header, bytes (RFC 768).
const UDP_HEADER: usize = 8;

impl Packet {
    /// Appends the encoded packet, from the first byte of its IP header, with its checksums. Returns its length in
    /// bytes. A packet is longer than IP allows (65,535 bytes) only if it is a datagram. The excess bytes are then
    /// omitted, but the returned length includes them.
    ///
    /// The length equals [`Header::ip_len`] unless a model counts differently: options without cost, packets that
    /// always count as full (`option_bytes` and `framing` of [`tcp::Config`](crate::tcp::Config)), or datagrams without
    /// headers.
    pub fn encode(&self, out: &mut Vec<u8>) -> u32 {
        let start = out.len();
        write_ip_header(&self.header, out);
        let body = out.len();
        match &self.payload {
            Payload::Tcp(segment) => segment.encode(&self.header.flow, out),
            Payload::Sctp(packet) => {
                let bytes = sctp::wire::encode(packet);
                if self.header.flow.protocol == protocol::UDP {
                    write_datagram(&self.header.flow, bytes.len(), out, |out| out.extend_from_slice(&bytes));
                } else {
                    out.extend_from_slice(&bytes);
                }
            }
            Payload::Udp(datagram) => datagram.encode(&self.header.flow, out),
        }
        let left_out = match &self.payload {
            Payload::Udp(datagram) => datagram.data.size() - (out.len() - body - UDP_HEADER) as u64,
            Payload::Tcp(_) | Payload::Sctp(_) => 0,
        };
        let len = out.len() - start;
        finish_ip_header(&mut out[start..], len);
        u32::try_from(len as u64 + left_out).unwrap_or(u32::MAX)
    }
}

impl Datagram {
    /// Encodes the header and the payload (RFC 768). A payload that is too long for a packet of `flow` is truncated.
    fn encode(&self, flow: &FiveTuple, out: &mut Vec<u8>) {
        let room = LONGEST - flow.ip_header_len() as usize - UDP_HEADER;
        let kept = usize::try_from(self.data.size()).map_or(room, |size| size.min(room));
        write_datagram(flow, kept, out, |out| write_data(&self.data, kept, out));
    }
}

/// Writes a UDP datagram of `flow` (RFC 768). `payload` writes its `len` payload bytes, which must fit an IP packet.
fn write_datagram(flow: &FiveTuple, len: usize, out: &mut Vec<u8>, payload: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&flow.src_port.to_be_bytes());
    out.extend_from_slice(&flow.dst_port.to_be_bytes());
    // At most `LONGEST`, so it fits 16 bits.
    out.extend_from_slice(&((UDP_HEADER + len) as u16).to_be_bytes());
    out.extend_from_slice(&[0; 2]);
    payload(out);
    let sum = checksum(flow, &out[start..]);
    // A checksum field of zero means that there is no checksum (RFC 768), so a sum of zero is sent as all ones.
    let sum = if sum == 0 { u16::MAX } else { sum };
    out[start + 6..start + 8].copy_from_slice(&sum.to_be_bytes());
}

/// Writes the first `len` bytes of user data.
pub(crate) fn write_data(data: &Data, len: usize, out: &mut Vec<u8>) {
    match data {
        Data::Fill(_) => out.resize(out.len() + len, 0),
        Data::Bytes(bytes) => out.extend_from_slice(&bytes[..len]),
    }
}

/// Writes the IP header. Its length and checksum are zero.
fn write_ip_header(header: &Header, out: &mut Vec<u8>) {
    let FiveTuple { src, dst, protocol, .. } = header.flow;
    let traffic_class = header.traffic_class();
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            // Version 4 and a header of five words; DF is set. The identification is 0, because packets are never
            // fragmented (RFC 6864 section 4.1).
            out.extend_from_slice(&[0x45, traffic_class, 0, 0, 0, 0, 0x40, 0, TIME_TO_LIVE, protocol, 0, 0]);
            out.extend_from_slice(&src.octets());
            out.extend_from_slice(&dst.octets());
        }
        (src, dst) => {
            let first = 6 << 28 | u32::from(traffic_class) << 20;
            out.extend_from_slice(&first.to_be_bytes());
            out.extend_from_slice(&[0, 0, protocol, TIME_TO_LIVE]);
            out.extend_from_slice(&octets(src));
            out.extend_from_slice(&octets(dst));
        }
    }
}

/// Fills in the length of a packet of `len` bytes, and the header checksum of IPv4.
fn finish_ip_header(packet: &mut [u8], len: usize) {
    let sixteen = |len: usize| u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes();
    if packet[0] >> 4 == 4 {
        packet[2..4].copy_from_slice(&sixteen(len));
        let sum = internet_checksum(&[&packet[..20]]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    } else {
        // RFC 8200 section 3: the length field does not include the header.
        packet[4..6].copy_from_slice(&sixteen(len - 40));
    }
}

/// An address as 16 bytes. An IPv4 address becomes an IPv4-mapped address (RFC 4291 section 2.5.5.2).
fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// The checksum of a TCP segment or UDP datagram, including its pseudo-header (RFC 9293 section 3.1, RFC 768, RFC 8200
/// section 8.1). The checksum field in `body` must be zero.
pub(crate) fn checksum(flow: &FiveTuple, body: &[u8]) -> u16 {
    // The length of a packet fits 32 bits.
    let rest = [(body.len() as u32).to_be_bytes(), u32::from(flow.protocol).to_be_bytes()];
    match (flow.src, flow.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            internet_checksum(&[&src.octets(), &dst.octets(), rest.as_flattened(), body])
        }
        (src, dst) => internet_checksum(&[&octets(src), &octets(dst), rest.as_flattened(), body]),
    }
}
