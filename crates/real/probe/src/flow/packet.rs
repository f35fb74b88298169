//! Packets that load balancers see as one flow. The responses to them can still be distinguished.
//!
//! All packets have the same ports, addresses and protocol. ICMP packets also have the same checksum. The checksum is
//! at the position of the ports in UDP and TCP, and some routers choose a route by it (Augustin and others 2006). A
//! balancing word in the data compensates the part of the packet that varies.
//!
//! | octets of the data | what |
//! |---|---|
//! | 0–7 | the flow's token |
//! | 8–11 | the packet's number |
//! | 12–13 | the balancing word, which gives all packets the same checksum |
//!
//! A TCP packet has no data. The packet's number is added to the TCP sequence number.

use std::net::{IpAddr, SocketAddr};

use netrig_core::{choices, internet_checksum};

use super::super::icmp::{HEADER as ICMP_HEADER, IcmpEcho, IcmpVersion};

/// Minimum number of octets of data in a UDP or ICMP packet.
pub const MARK: usize = 14;

/// Octets of the UDP header.
const UDP_HEADER: usize = 8;

/// Octets of the header of a SYN with the MSS option (RFC 9293 section 3.2).
const SYN: usize = 24;

/// MSS that a SYN announces, bytes.
const SEGMENT: u16 = 1460;

choices! {
    /// Type of the packets of a flow.
    pub enum FlowMethod {
        /// Datagrams to a port where no service should listen (33434); needs no rights.
        Udp = "udp",
        /// Echoes.
        Icmp = "icmp",
        /// TCP SYNs to port 80, without completing a connection; needs CAP_NET_RAW.
        Tcp = "tcp",
    }
}

/// Type of an answer from the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerKind {
    /// An echo reply.
    Echo,
    /// A datagram.
    Datagram,
    /// A segment with SYN and ACK: the port is open.
    Open,
    /// A segment with RST: the port is closed.
    Closed,
}

/// The packet that an ICMP error quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quote {
    /// The packet of this flow with this number.
    Of(u32),
    /// The quote is too short to identify the packet.
    Unnamed,
    /// A packet of another flow.
    Foreign,
}

/// Properties that all packets of a flow share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeFlow {
    /// Type of the packets.
    pub method: FlowMethod,
    /// Source of the packets. The port is ignored for ICMP.
    pub source: SocketAddr,
    /// Destination of the packets. The port is ignored for ICMP.
    pub target: SocketAddr,
    /// Token that distinguishes the packets of this flow from those of other flows.
    pub token: u64,
}

impl ProbeFlow {
    /// IP version of the flow.
    pub const fn version(&self) -> IcmpVersion {
        if self.target.is_ipv4() { IcmpVersion::V4 } else { IcmpVersion::V6 }
    }

    /// Octets of the IP header, without options.
    pub const fn ip_header(&self) -> usize {
        if self.target.is_ipv4() { 20 } else { 40 }
    }

    /// Length of the shortest packet, octets of IP.
    pub const fn shortest(&self) -> usize {
        self.ip_header()
            + match self.method {
                FlowMethod::Udp => UDP_HEADER + MARK,
                FlowMethod::Icmp => ICMP_HEADER + MARK,
                FlowMethod::Tcp => SYN,
            }
    }

    /// Octets of a quoted packet that the kernel does not pass on: the IP header, and for UDP also the UDP header.
    pub const fn unrepeated(&self) -> usize {
        match self.method {
            FlowMethod::Udp => self.ip_header() + UDP_HEADER,
            FlowMethod::Icmp | FlowMethod::Tcp => self.ip_header(),
        }
    }

    /// Builds packet `number` in the form that its socket expects. `length` is in octets of IP and is raised to
    /// [`ProbeFlow::shortest`] if it is smaller.
    pub fn packet(&self, number: u32, length: usize) -> Vec<u8> {
        let length = length.max(self.shortest());
        match self.method {
            FlowMethod::Udp => {
                let mut data = vec![0; length - self.ip_header() - UDP_HEADER];
                self.mark(&mut data, number, &[]);
                data
            }
            FlowMethod::Icmp => {
                let data = length - self.ip_header() - ICMP_HEADER;
                let mut bytes = IcmpEcho { token: self.token, number }.request(self.version(), data);
                let sequence = number as u16;
                // The ICMPv6 checksum also covers the length, which the kernel adds.
                let length = if self.target.is_ipv4() { 0 } else { bytes.len() as u16 };
                self.mark(&mut bytes[ICMP_HEADER..], number, &[sequence, length]);
                if self.target.is_ipv4() {
                    bytes[2..4].fill(0);
                    let sum = internet_checksum(&[&bytes]);
                    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
                }
                bytes
            }
            FlowMethod::Tcp => self.syn(number),
        }
    }

    /// Writes the token, the number and the balancing word, which compensates the number and `others` in the checksum.
    fn mark(&self, data: &mut [u8], number: u32, others: &[u16]) {
        data[..8].copy_from_slice(&self.token.to_be_bytes());
        data[8..12].copy_from_slice(&number.to_be_bytes());
        let others: Vec<u8> = others.iter().flat_map(|word| word.to_be_bytes()).collect();
        let balance = internet_checksum(&[&number.to_be_bytes(), &others]);
        data[12..MARK].copy_from_slice(&balance.to_be_bytes());
    }

    /// TCP sequence number of packet 0.
    const fn first_sequence(&self) -> u32 {
        (self.token >> 32) as u32
    }

    fn syn(&self, number: u32) -> Vec<u8> {
        const FLAG_SYN: u8 = 2;
        const KIND_SEGMENT: u8 = 2;
        let mut bytes = vec![0; SYN];
        bytes[..2].copy_from_slice(&self.source.port().to_be_bytes());
        bytes[2..4].copy_from_slice(&self.target.port().to_be_bytes());
        bytes[4..8].copy_from_slice(&self.first_sequence().wrapping_add(number).to_be_bytes());
        bytes[12] = (SYN as u8 / 4) << 4;
        bytes[13] = FLAG_SYN;
        bytes[14..16].copy_from_slice(&u16::MAX.to_be_bytes());
        bytes[20..22].copy_from_slice(&[KIND_SEGMENT, 4]);
        bytes[22..24].copy_from_slice(&SEGMENT.to_be_bytes());
        let length = (SYN as u32).to_be_bytes();
        let protocol = [0, 0, 0, libc::IPPROTO_TCP as u8];
        let sum = internet_checksum(&[
            &octets(self.source.ip()),
            &octets(self.target.ip()),
            &length,
            &protocol,
            &bytes,
        ]);
        bytes[16..18].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    /// Identifies the packet that an ICMP error quotes, from the quoted octets that the kernel passes on.
    pub fn quoted(&self, repeated: &[u8]) -> Quote {
        match self.method {
            FlowMethod::Udp => self.marked(repeated),
            FlowMethod::Icmp => match (repeated.first_chunk::<8>(), repeated.get(ICMP_HEADER..)) {
                (Some(header), Some(data)) => {
                    match self.marked(data) {
                        // The shortest quote contains the ICMP sequence number, which is the low half of the packet's
                        // number.
                        Quote::Unnamed => Quote::Of(u16::from_be_bytes([header[6], header[7]]).into()),
                        other => other,
                    }
                }
                _ => Quote::Unnamed,
            },
            FlowMethod::Tcp => match repeated.first_chunk::<8>() {
                Some(&[a, b, c, d, sequence @ ..]) => {
                    let ports = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
                    let number = u32::from_be_bytes(sequence).wrapping_sub(self.first_sequence());
                    let ours = ports == (self.source.port(), self.target.port());
                    if ours { Quote::Of(number) } else { Quote::Foreign }
                }
                None => Quote::Unnamed,
            },
        }
    }

    /// Identifies a packet by its data.
    fn marked(&self, data: &[u8]) -> Quote {
        match (data.first_chunk::<8>(), data.get(8..12).and_then(|bytes| bytes.first_chunk::<4>())) {
            (Some(token), Some(number)) if u64::from_be_bytes(*token) == self.token => {
                Quote::Of(u32::from_be_bytes(*number))
            }
            (_, None) => Quote::Unnamed,
            _ => Quote::Foreign,
        }
    }

    /// Identifies the packet that a datagram from the target answers, and the type of the answer. A datagram from a raw
    /// IPv4 socket begins with the IP header, which is skipped.
    pub fn answered(&self, bytes: &[u8]) -> Option<(u32, AnswerKind)> {
        match self.method {
            FlowMethod::Udp => match self.marked(bytes) {
                Quote::Of(number) => Some((number, AnswerKind::Datagram)),
                _ => None,
            },
            FlowMethod::Icmp => {
                let echo = IcmpEcho::reply(self.version(), bytes).filter(|echo| echo.token == self.token)?;
                Some((echo.number, AnswerKind::Echo))
            }
            FlowMethod::Tcp => {
                let skip = match self.target {
                    SocketAddr::V4(_) => usize::from(bytes.first()? & 0xF) * 4,
                    SocketAddr::V6(_) => 0,
                };
                self.answered_by_tcp(bytes.get(skip..)?.first_chunk()?)
            }
        }
    }

    fn answered_by_tcp(&self, header: &[u8; 20]) -> Option<(u32, AnswerKind)> {
        const SYN_AND_ACK: u8 = 0x12;
        const RST: u8 = 4;
        let port = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        if (port(0), port(2)) != (self.target.port(), self.source.port()) {
            return None;
        }
        let acknowledged = u32::from_be_bytes(*header[8..].first_chunk()?);
        let number = acknowledged.wrapping_sub(self.first_sequence()).wrapping_sub(1);
        let flags = header[13];
        if flags & RST != 0 {
            Some((number, AnswerKind::Closed))
        } else if flags & SYN_AND_ACK == SYN_AND_ACK {
            Some((number, AnswerKind::Open))
        } else {
            None
        }
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn flow(method: FlowMethod, v4: bool, token: u64) -> ProbeFlow {
        let (source, target) = if v4 {
            ("192.0.2.1:50000", "198.51.100.7:33434")
        } else {
            ("[2001:db8::1]:50000", "[2001:db8:1::7]:33434")
        };
        ProbeFlow { method, source: source.parse().unwrap(), target: target.parse().unwrap(), token }
    }

    /// The checksum as the kernel computes it. For ICMPv6 and UDP it includes a pseudo-header.
    fn checksum(flow: &ProbeFlow, packet: &[u8]) -> u16 {
        let protocol = match flow.method {
            FlowMethod::Udp => 17,
            FlowMethod::Icmp => 58,
            FlowMethod::Tcp => 6,
        };
        let udp: Vec<u8> = [flow.source.port(), flow.target.port(), packet.len() as u16 + 8, 0]
            .iter()
            .flat_map(|word| word.to_be_bytes())
            .collect();
        let header = if flow.method == FlowMethod::Udp { &udp[..] } else { &[] };
        let length = ((packet.len() + header.len()) as u32).to_be_bytes();
        let pseudo =
            [&octets(flow.source.ip())[..], &octets(flow.target.ip()), &length, &[0, 0, 0, protocol]];
        let pseudo =
            if flow.method == FlowMethod::Icmp && flow.target.is_ipv4() { vec![] } else { pseudo.concat() };
        internet_checksum(&[&pseudo, header, packet])
    }

    /// An answer as received from a raw socket. For IPv4 it begins with an IP header.
    fn answer(flow: &ProbeFlow, flags: u8, acknowledged: u32) -> Vec<u8> {
        let mut bytes = if flow.target.is_ipv4() { vec![0x45; 20] } else { vec![] };
        let start = bytes.len();
        bytes.extend([0; 20]);
        bytes[start..start + 2].copy_from_slice(&flow.target.port().to_be_bytes());
        bytes[start + 2..start + 4].copy_from_slice(&flow.source.port().to_be_bytes());
        bytes[start + 8..start + 12].copy_from_slice(&acknowledged.to_be_bytes());
        bytes[start + 13] = flags;
        bytes
    }

    #[test]
    fn tcp_is_answered_by_what_acknowledges_a_syn_of_ours() {
        for v4 in [true, false] {
            let flow = flow(FlowMethod::Tcp, v4, 0xFFFF_FFFF_0000_0000);
            // The TCP sequence numbers of the flow wrap around.
            let acknowledged = 5_u32;
            for (flags, how) in
                [(0x12, Some(AnswerKind::Open)), (0x14, Some(AnswerKind::Closed)), (0x10, None), (2, None)]
            {
                let expected = how.map(|how| (5, how));
                assert_eq!(flow.answered(&answer(&flow, flags, acknowledged)), expected);
            }
            let other = ProbeFlow { source: "192.0.2.1:1".parse().unwrap(), ..flow };
            assert_eq!(other.answered(&answer(&flow, 0x12, acknowledged)), None);
        }
    }

    #[test]
    fn of_echoes_the_least_that_is_repeated_says_which() {
        let flow = flow(FlowMethod::Icmp, true, 7);
        let packet = flow.packet(300, 100);
        assert_eq!(flow.quoted(&packet[..8]), Quote::Of(300));
        assert_eq!(flow.quoted(&packet[..7]), Quote::Unnamed);
        let other = ProbeFlow { token: 8, ..flow };
        assert_eq!(other.quoted(&packet), Quote::Foreign);
        let udp = ProbeFlow { method: FlowMethod::Udp, ..flow };
        assert_eq!(udp.quoted(&udp.packet(300, 100)[..8]), Quote::Unnamed);
    }

    proptest! {
        /// The balancing word compensates the differences between packets of one length. For ICMP, it also compensates
        /// those between packets of different lengths.
        #[test]
        fn all_packets_have_one_checksum(v4: bool, token: u64, one: u32, other: u32, length in 100usize..1400, longer in 0usize..100) {
            for (method, longer) in [(FlowMethod::Udp, 0), (FlowMethod::Icmp, longer)] {
                let flow = flow(method, v4, token);
                let [a, b] = [flow.packet(one, length), flow.packet(other, length + longer)];
                if method == FlowMethod::Icmp && v4 {
                    prop_assert_eq!(&a[..4], &b[..4]);
                    prop_assert_eq!(internet_checksum(&[&a]), 0);
                } else {
                    prop_assert_eq!(checksum(&flow, &a), checksum(&flow, &b));
                }
                prop_assert_eq!(flow.quoted(&a), Quote::Of(one));
            }
        }

        #[test]
        fn a_syn_sums_to_nothing_and_is_known(v4: bool, token: u64, number: u32) {
            let flow = flow(FlowMethod::Tcp, v4, token);
            let packet = flow.packet(number, 0);
            prop_assert_eq!(checksum(&flow, &packet), 0);
            prop_assert_eq!(flow.quoted(&packet), Quote::Of(number));
            prop_assert_eq!(flow.ip_header() + packet.len(), flow.shortest());
        }

        #[test]
        fn any_bytes_are_an_answer_or_not(v4: bool, bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            for method in [FlowMethod::Udp, FlowMethod::Icmp, FlowMethod::Tcp] {
                let flow = flow(method, v4, 7);
                let _ = (flow.answered(&bytes), flow.quoted(&bytes));
            }
        }
    }
}
