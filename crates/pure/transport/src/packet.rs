//! The simulator's packet: a header that links look at, and a payload that only endpoints look at.

use std::net::{IpAddr, Ipv4Addr};

use netrig_core::{Data, DatagramId, Dscp, Ecn, FiveTuple, Header, Instant, PacketMeta, protocol};

use crate::{sctp, tcp};

/// What travels between two modelled hosts.
#[derive(Clone, Debug)]
pub struct Packet {
    /// What links and queues see.
    pub header: Header,
    /// What the endpoint sees.
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

/// A UDP datagram as its carrier stamped it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Counted by the sending end from 0: what is missing was lost.
    pub number: u64,
    /// When it was given to the network.
    pub sent: Instant,
    /// The datagram of the other end that it answers, if it does.
    pub answers: Option<DatagramId>,
    /// The application's payload.
    pub data: Data,
}

impl Packet {
    /// An empty datagram between no hosts, for a packet to be written into its place.
    pub const fn empty() -> Self {
        let nowhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let flow =
            FiveTuple { src: nowhere, dst: nowhere, src_port: 0, dst_port: 0, protocol: protocol::UDP };
        let header = Header { flow, ip_len: 0, dscp: Dscp(0), ecn: Ecn::NotEct };
        let datagram = Datagram { number: 0, sent: Instant::ZERO, answers: None, data: Data::Fill(0) };
        Self { header, payload: Payload::Udp(datagram) }
    }

    /// Takes the packet, and leaves an empty one in its place.
    pub const fn take(&mut self) -> Self {
        std::mem::replace(self, Self::empty())
    }
}

impl Payload {
    /// An SCTP packet without chunks, written into the place of this payload.
    pub(crate) fn empty_sctp(&mut self) -> Option<&mut sctp::Packet> {
        if let Self::Sctp(packet) = self {
            packet.chunks.clear();
        } else {
            *self = Self::Sctp(Box::default());
        }
        // It is one now.
        let Self::Sctp(packet) = self else { return None };
        Some(packet)
    }

    /// Whether user data is in it, first sent or again.
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
