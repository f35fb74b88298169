//! Packet headers as links, routers and queues see them.

use std::net::IpAddr;

/// IP protocol numbers (IANA) that netrig's models use.
pub mod protocol {
    /// RFC 9293.
    pub const TCP: u8 = 6;
    /// RFC 768.
    pub const UDP: u8 = 17;
    /// RFC 9260.
    pub const SCTP: u8 = 132;
}

/// A DiffServ code point, 0 to 63 (RFC 2474).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dscp(pub u8);

crate::named! {
    /// The ECN field of the IP header (RFC 3168 section 5).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub enum Ecn {
        /// The sender does not understand ECN.
        #[default]
        NotEct = "not-ect",
        /// ECN-capable, codepoint 10.
        Ect0 = "ect0",
        /// ECN-capable, codepoint 01.
        Ect1 = "ect1",
        /// Congestion experienced.
        Ce = "ce",
    }
}

impl Ecn {
    /// Decodes the two lowest bits of the traffic class. The other bits are ignored.
    pub const fn from_bits(class: u8) -> Self {
        match class & 0b11 {
            0b00 => Self::NotEct,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// The two bits of the field.
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotEct => 0b00,
            Self::Ect1 => 0b01,
            Self::Ect0 => 0b10,
            Self::Ce => 0b11,
        }
    }
}

/// Addresses, ports and protocol: the conversation of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FiveTuple {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// IP protocol number, see [`protocol`].
    pub protocol: u8,
}

impl FiveTuple {
    /// The same conversation seen from the other end.
    pub const fn reversed(self) -> Self {
        Self { src: self.dst, dst: self.src, src_port: self.dst_port, dst_port: self.src_port, ..self }
    }

    /// Length of the IP header without options, bytes: 20 (RFC 791) or 40 (RFC 8200). If only one address is IPv6,
    /// the IPv4 address is mapped (RFC 4291 section 2.5.5.2) and the length is 40.
    pub const fn ip_header_len(&self) -> u32 {
        match (self.src, self.dst) {
            (IpAddr::V4(_), IpAddr::V4(_)) => 20,
            _ => 40,
        }
    }
}

/// The properties of a packet that links, meters, markers and queue disciplines may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The conversation.
    pub flow: FiveTuple,
    /// Length of the IP packet, bytes, with its header. The framing of a line is not included.
    pub ip_len: u32,
    /// DiffServ code point.
    pub dscp: Dscp,
    /// ECN field.
    pub ecn: Ecn,
}

impl Header {
    /// Code point and ECN field as one octet (RFC 2474 section 3, RFC 3168 section 5): IPv4's type of service, IPv6's
    /// traffic class.
    pub const fn traffic_class(&self) -> u8 {
        self.dscp.0 << 2 | self.ecn.bits()
    }
}

/// The greatest number of links that a packet passes: the initial hop limit (RFC 791 section 3.2, RFC 8200 section 3),
/// 64 as in Linux by default. If a router would decrement the hop limit to zero, it drops the packet.
pub const HOP_LIMIT: usize = 64;

/// The lowest port of a flow's first end, which is the start of RFC 6335's range of 16,384 dynamic ports. For kernel
/// sockets, the kernel chooses the port.
pub const CLIENT_PORT: u16 = 49_152;

/// A packet with a header. Its body may be a structure or an index into a ring of frames.
///
/// Models never access the body, so a real frame costs a model no more than a simulated packet.
pub trait PacketMeta {
    /// The packet's header.
    fn header(&self) -> &Header;
    /// The packet's header, for markers.
    fn header_mut(&mut self) -> &mut Header;
}

impl PacketMeta for Header {
    fn header(&self) -> &Header {
        self
    }
    fn header_mut(&mut self) -> &mut Header {
        self
    }
}
