//! What a link, a router and a queue may know of a packet.

use std::net::IpAddr;

/// IP protocol numbers (IANA) that netrig's models speak.
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

/// The ECN field of the IP header (RFC 3168 section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// The sender does not understand ECN.
    #[default]
    NotEct,
    /// ECN-capable, codepoint 10.
    Ect0,
    /// ECN-capable, codepoint 01.
    Ect1,
    /// Congestion experienced.
    Ce,
}

impl Ecn {
    /// By the two bits that end the traffic class; those before them say nothing of it.
    pub const fn from_bits(class: u8) -> Self {
        match class & 0b11 {
            0b00 => Self::NotEct,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// The two bits.
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotEct => 0b00,
            Self::Ect1 => 0b01,
            Self::Ect0 => 0b10,
            Self::Ce => 0b11,
        }
    }
}

/// Addresses, ports and protocol: which conversation a packet belongs to.
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

    /// Length of the IP header without options, bytes: 20 (RFC 791) or 40 (RFC 8200). Beside an IPv6 address an
    /// IPv4 one is mapped (RFC 4291 section 2.5.5.2).
    pub const fn ip_header_len(&self) -> u32 {
        match (self.src, self.dst) {
            (IpAddr::V4(_), IpAddr::V4(_)) => 20,
            _ => 40,
        }
    }
}

/// All that a link, meter, marker or queue discipline may know of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Which conversation.
    pub flow: FiveTuple,
    /// Length of the IP packet, bytes, its header included. What a line adds by framing is the line's affair.
    pub ip_len: u32,
    /// DiffServ code point.
    pub dscp: Dscp,
    /// ECN field.
    pub ecn: Ecn,
}

impl Header {
    /// Code point and ECN field as the octet in which they stand (RFC 2474 section 3, RFC 3168 section 5): IPv4's type of
    /// service, IPv6's traffic class.
    pub const fn traffic_class(&self) -> u8 {
        self.dscp.0 << 2 | self.ecn.bits()
    }
}

/// Links that a packet passes at most: the hop limit that hosts give to packets (RFC 791 section 3.2, RFC 8200 section 3), as
/// Linux does by default. A router that would lower it to zero drops the packet.
pub const HOP_LIMIT: usize = 64;

/// The first of the ports that a flow's first end may have: RFC 6335's dynamic ports, of which there are 16,384. A kernel
/// gives its own.
pub const CLIENT_PORT: u16 = 49_152;

/// A packet that carries its header with it, be its body a structure or an index into a ring of frames.
///
/// Models never follow the body, so a real frame costs a model no more than a simulated packet.
pub trait PacketMeta {
    /// The header.
    fn header(&self) -> &Header;
    /// The header, to be marked.
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
