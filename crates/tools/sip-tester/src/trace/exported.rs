//! Exported PDUs of Wireshark: options with the protocol and both ends, then the message (Wireshark's `exported_pdu.h`). A
//! capture contains them for connections whose segments, or TLS keys, are not known.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use netrig_sip::header::Transport;

const END: u16 = 0;
const DISSECTOR: u16 = 12;
const IPV4: [u16; 2] = [20, 21];
const IPV6: [u16; 2] = [22, 23];
const PORT_TYPE: u16 = 24;
const PORTS: [u16; 2] = [25, 26];
const TCP: u32 = 2;
const UDP: u32 = 3;

/// The largest number of bytes before the message.
const HEADING: usize = 96;

/// The exported PDU of a message with its sender and receiver. A message over TLS is exported as TCP, since only the
/// decrypted text is known.
pub fn export([from, to]: [SocketAddr; 2], message: &[u8]) -> Vec<u8> {
    let mut packet = Vec::with_capacity(HEADING + message.len());
    let mut option = |tag: u16, value: &[u8]| {
        packet.extend(tag.to_be_bytes());
        packet.extend((value.len().next_multiple_of(4) as u16).to_be_bytes());
        packet.extend(value);
        packet.resize(packet.len().next_multiple_of(4), 0);
    };
    option(DISSECTOR, b"sip");
    for (end, place) in [from, to].into_iter().zip(0..) {
        match end.ip() {
            IpAddr::V4(ip) => option(IPV4[place], &ip.octets()),
            IpAddr::V6(ip) => option(IPV6[place], &ip.octets()),
        }
    }
    option(PORT_TYPE, &TCP.to_be_bytes());
    for (end, place) in [from, to].into_iter().zip(0..) {
        option(PORTS[place], &u32::from(end.port()).to_be_bytes());
    }
    option(END, &[]);
    packet.extend(message);
    packet
}

/// The sender, the receiver, the transport and the message. `None` if one is missing.
pub fn exported(packet: &[u8]) -> Option<([SocketAddr; 2], Transport, &[u8])> {
    let (mut addresses, mut ports, mut transport) = ([None; 2], [None; 2], Transport::Tcp);
    let mut rest = packet;
    loop {
        let (tag, behind) = rest.split_first_chunk()?;
        let (len, behind) = behind.split_first_chunk()?;
        let (value, behind) = behind.split_at_checked(u16::from_be_bytes(*len).into())?;
        rest = behind;
        let tag = u16::from_be_bytes(*tag);
        let number = || value.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
        let place = |tags: [u16; 2]| tags.iter().position(|known| *known == tag);
        if tag == END {
            break;
        } else if let Some(place) = place(IPV4) {
            addresses[place] = Some(IpAddr::V4(Ipv4Addr::from(*value.first_chunk::<4>()?)));
        } else if let Some(place) = place(IPV6) {
            addresses[place] = Some(IpAddr::V6(Ipv6Addr::from(*value.first_chunk::<16>()?)));
        } else if let Some(place) = place(PORTS) {
            ports[place] = Some(u16::try_from(number()?).ok()?);
        } else if tag == PORT_TYPE && number()? == UDP {
            transport = Transport::Udp;
        }
    }
    let end = |place: usize| Some(SocketAddr::new(addresses[place]?, ports[place]?));
    Some(([end(0)?, end(1)?], transport, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_exported_is_read() {
        for [from, to] in [["192.0.2.1:5060", "192.0.2.2:1"], ["[2001:db8::1]:5061", "[2001:db8::2]:65535"]] {
            let ends: [SocketAddr; 2] = [from.parse().unwrap(), to.parse().unwrap()];
            let packet = export(ends, b"hello");
            assert_eq!(exported(&packet), Some((ends, Transport::Tcp, &b"hello"[..])));
            assert!((0..packet.len() - 5).all(|len| exported(&packet[..len]).is_none()), "{packet:?}");
        }
    }
}
