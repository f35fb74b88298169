//! The simulator's packet: a header that links read, and a payload that only endpoints read.

use std::net::{IpAddr, Ipv4Addr};

use netrig_core::{Data, DatagramId, Dscp, Ecn, FiveTuple, Header, Instant, PacketMeta, protocol};

use crate::{sctp, tcp};

/// A packet between two modelled hosts.
#[derive(Clone, Debug)]
pub struct Packet {
    /// The header, which links and queues read.
    pub header: Header,
    /// The payload, which only endpoints read.
    pub payload: Payload,
}

/// The body of a packet, by protocol.
#[derive(Clone, Debug)]
pub enum Payload {
    /// A TCP segment as a structure.
    Tcp(tcp::Segment),
    /// An SCTP packet: common header and chunks.
    Sctp(Box<sctp::Packet>),
    /// A UDP datagram.
    Udp(Datagram),
}

/// A UDP datagram with the number and time stamp that its carrier adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Counted by the sending end from 0. A missing number is a lost datagram.
    pub number: u64,
    /// Time at which it was sent.
    pub sent: Instant,
    /// The datagram of the other end that this datagram answers, if any.
    pub answers: Option<DatagramId>,
    /// The application's payload.
    pub data: Data,
}

impl Packet {
    /// An empty datagram with unspecified addresses, as an initial value for
    /// [`Connection::transmit_into`](crate::Connection::transmit_into).
    pub const fn empty() -> Self {
        let nowhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let flow =
            FiveTuple { src: nowhere, dst: nowhere, src_port: 0, dst_port: 0, protocol: protocol::UDP };
        let header = Header { flow, ip_len: 0, dscp: Dscp(0), ecn: Ecn::NotEct };
        let datagram = Datagram { number: 0, sent: Instant::ZERO, answers: None, data: Data::Fill(0) };
        Self { header, payload: Payload::Udp(datagram) }
    }

    /// Takes the packet and leaves an empty one.
    pub const fn take(&mut self) -> Self {
        std::mem::replace(self, Self::empty())
    }
}

impl Payload {
    /// Makes this payload an SCTP packet without chunks. If it already was an SCTP packet, reuses its memory.
    pub(crate) fn empty_sctp(&mut self) -> Option<&mut sctp::Packet> {
        if let Self::Sctp(packet) = self {
            packet.chunks.clear();
        } else {
            *self = Self::Sctp(Box::default());
        }
        // Always matches now.
        let Self::Sctp(packet) = self else { return None };
        Some(packet)
    }

    /// Whether it contains user data, new or retransmitted.
    pub fn carries_data(&self) -> bool {
        match self {
            Self::Tcp(segment) => segment.carries_data(),
            Self::Sctp(packet) => packet.carries_data(),
            Self::Udp(_) => true,
        }
    }
}

impl PacketMeta for Packet {
    fn header(&self) -> &Header {
        &self.header
    }
    fn header_mut(&mut self) -> &mut Header {
        &mut self.header
    }
}
