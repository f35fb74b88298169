//! Converts a rate to the rates at every layer.

use schemars::JsonSchema;
use serde::Serialize;

/// Ethernet overhead of an IP packet on the line, bytes: header 14, check sequence 4, preamble and delimiter 8, gap 12
/// (IEEE 802.3).
const ETHERNET: f64 = 38.0;

/// The shortest IP packet that Ethernet does not pad, bytes (IEEE 802.3: 64 bytes minus header and check sequence).
const SHORTEST: f64 = 46.0;

/// Headers of IP, bytes (RFC 791, RFC 8200).
const IPV4: u32 = 20;
const IPV6: u32 = 40;

/// Header of UDP, bytes (RFC 768).
const UDP: u32 = 8;

/// Header of TCP (RFC 9293) and its option for time stamps (RFC 7323), bytes.
const TCP: u32 = 20;
const TIMESTAMPS: u32 = 12;

/// Headers of an SCTP packet and of a DATA chunk, bytes (RFC 9260 sections 3.1, 3.3.1).
const SCTP: u32 = 12;
const DATA: u32 = 16;

/// The sizes of a full packet of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PacketShape {
    /// Payload, bytes.
    pub payload: u32,
    /// Header of the transport protocol, bytes.
    pub transport: u32,
    /// Header of IP, bytes.
    pub ip: u32,
}

/// One rate at every layer, bits per second.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Layers {
    /// Payload, as the application receives it.
    pub payload: f64,
    /// With the headers of TCP, UDP or SCTP over UDP.
    pub transport: f64,
    /// With the IP header: the IP-layer capacity of RFC 9097 and RFC 5136.
    pub ip: f64,
    /// With the overhead of Ethernet.
    pub ethernet: f64,
}

impl PacketShape {
    /// A UDP datagram. `v4` selects IPv4.
    pub const fn datagram(payload: u32, v4: bool) -> Self {
        Self { payload, transport: UDP, ip: ip(v4) }
    }

    /// A full packet of SCTP over UDP (RFC 6951) with one DATA chunk.
    pub const fn chunk(payload: u32, v4: bool) -> Self {
        Self { payload, transport: UDP + SCTP + DATA, ip: ip(v4) }
    }

    /// A full TCP segment, with or without time stamps (RFC 7323).
    pub const fn segment(payload: u32, timestamps: bool, v4: bool) -> Self {
        let options = if timestamps { TIMESTAMPS } else { 0 };
        Self { payload, transport: TCP + options, ip: ip(v4) }
    }

    /// The rates of all layers for a payload rate in full packets.
    pub fn layers(&self, payload_bits_per_s: f64) -> Layers {
        self.at(payload_bits_per_s / (8.0 * f64::from(self.payload.max(1))))
    }

    /// The rates of all layers for a number of packets per second.
    pub fn at(&self, per_s: f64) -> Layers {
        let transport = f64::from(self.payload) + f64::from(self.transport);
        let ip = transport + f64::from(self.ip);
        Layers {
            payload: per_s * 8.0 * f64::from(self.payload),
            transport: per_s * 8.0 * transport,
            ip: per_s * 8.0 * ip,
            ethernet: per_s * 8.0 * (ip.max(SHORTEST) + ETHERNET),
        }
    }
}

const fn ip(v4: bool) -> u32 {
    if v4 { IPV4 } else { IPV6 }
}

impl std::ops::Add for Layers {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            payload: self.payload + other.payload,
            transport: self.transport + other.transport,
            ip: self.ip + other.ip,
            ethernet: self.ethernet + other.ethernet,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On 1 Gbit/s Ethernet, TCP carries 941 Mbit/s with time stamps and 949 Mbit/s without.
    #[test]
    fn a_gigabit_is_941_megabits_of_payload() {
        let packet = PacketShape::segment(1448, true, true);
        assert_eq!((packet.transport, packet.ip), (32, 20));
        let layers = packet.layers(941.48e6);
        assert!((layers.ethernet / 1e9 - 1.0).abs() < 1e-4, "{layers:?}");
        assert!((layers.ip / 975.29e6 - 1.0).abs() < 1e-4, "{layers:?}");
        let without = PacketShape::segment(1460, false, true).layers(949.28e6);
        assert!((without.ethernet / 1e9 - 1.0).abs() < 1e-4, "{without:?}");
        // The relation holds for any segment size of the peer.
        let short = PacketShape::segment(488, true, true).layers(1.0);
        assert!((short.ip - 540.0 / 488.0).abs() < 1e-12, "{short:?}");
    }

    #[test]
    fn short_packets_are_padded_on_ethernet() {
        let layers = PacketShape::datagram(12, true).layers(96.0);
        assert_eq!((layers.transport, layers.ip, layers.ethernet), (160.0, 320.0, 672.0));
        let acknowledgement = PacketShape::segment(0, true, true).at(10.0);
        assert_eq!((acknowledgement.payload, acknowledgement.ip), (0.0, 4160.0));
        assert_eq!(PacketShape::datagram(1452, false).layers(1452.0 * 8.0).ip, 1500.0 * 8.0);
    }
}
