//! Reads the UDP and TCP payload of captured IP packets.

use std::net::{IpAddr, SocketAddr};

use etherparse::defrag::IpDefragPool;
use etherparse::{IpNumber, NetSlice, SlicedPacket, TcpSlice, UdpSlice};

/// An incomplete datagram is dropped if no fragment of it is among this number of following fragments.
const MOST_FRAGMENTS: u64 = 256;

/// The payload of one UDP datagram or TCP segment.
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
    incomplete: IpDefragPool<u64>,
    /// Number of fragments so far.
    fragments: u64,
}

impl Reassembly {
    /// The payload of an IP packet, or of the datagram that it completes.
    pub fn push(&mut self, ip: &[u8]) -> Option<Payload> {
        let packet = SlicedPacket::from_ip(ip).ok()?;
        let (from, to): (IpAddr, IpAddr) = match packet.net.as_ref()? {
            NetSlice::Ipv4(ip) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
            NetSlice::Ipv6(ip) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
            NetSlice::Arp(_) => return None,
        };
        let payload = packet.ip_payload()?;
        if !payload.fragmented {
            return transport(from, to, payload.ip_number, payload.payload);
        }
        self.fragments += 1;
        let number = self.fragments;
        self.incomplete.retain(|last| last + MOST_FRAGMENTS > number);
        let whole = self.incomplete.process_sliced_packet(&packet, number, ()).ok()??;
        let payload = transport(from, to, whole.ip_number, &whole.payload);
        self.incomplete.return_buf(whole);
        payload
    }
}

fn transport(from: IpAddr, to: IpAddr, protocol: IpNumber, bytes: &[u8]) -> Option<Payload> {
    let (ports, carried) = match protocol {
        IpNumber::UDP => {
            let udp = UdpSlice::from_slice(bytes).ok()?;
            let carried = CapturedPayload::Datagram(udp.payload().to_vec());
            ((udp.source_port(), udp.destination_port()), carried)
        }
        IpNumber::TCP => {
            let tcp = TcpSlice::from_slice(bytes).ok()?;
            let segment = CapturedSegment {
                sequence: tcp.sequence_number(),
                is_syn: tcp.syn(),
                ends: tcp.fin() || tcp.rst(),
                data: tcp.payload().to_vec(),
            };
            ((tcp.source_port(), tcp.destination_port()), CapturedPayload::Segment(segment))
        }
        _ => return None,
    };
    Some(Payload { from: SocketAddr::new(from, ports.0), to: SocketAddr::new(to, ports.1), carried })
}
