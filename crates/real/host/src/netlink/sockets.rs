//! Lists the sockets of a network namespace (sock_diag(7)).

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use netlink_packet_core::{
    DefaultNla, NLM_F_DUMP, NetlinkDeserializable, NetlinkHeader, NetlinkSerializable, Nla,
};
use netlink_sys::constants::NETLINK_SOCK_DIAG;

use super::{NetlinkError, NetlinkSocket, attributes, value};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// INET_DIAG_SKMEMINFO of Linux's `inet_diag.h`: memory of a socket.
const SKMEMINFO: u16 = 7;
/// SK_MEMINFO_RCVBUF and SK_MEMINFO_DROPS of Linux's `sock_diag.h`.
const RCVBUF: usize = 1;
const DROPS: usize = 8;
/// Lengths of an `inet_diag_req_v2` and of an `inet_diag_msg`, bytes.
const QUESTION: usize = 56;
const ANSWER: usize = 72;
/// TCP_LISTEN of Linux's `tcp_states.h`.
const LISTEN: u8 = 10;

/// A UDP socket, or a TCP socket that listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundSocket {
    /// The address to which the socket is bound.
    pub local: SocketAddr,
    /// The inode of the socket, as in `/proc/PID/fd`.
    pub inode: u32,
    /// For a UDP socket, the received datagrams that wait to be read, bytes including the kernel's overhead. For a
    /// listening socket, the number of connections that wait to be accepted.
    pub waiting: u32,
    /// The size of the receive buffer, bytes, as the kernel counts it: twice the requested size (socket(7)).
    pub receive_buffer: u32,
    /// Number of datagrams that were dropped because the receive buffer was full, since the socket was opened.
    pub dropped: u32,
}

/// Lists the sockets of a network namespace.
#[derive(Debug)]
pub struct SocketList(NetlinkSocket);

/// An `inet_diag_req_v2`, or the kernel's answer.
#[derive(Debug)]
struct DiagMessage(Vec<u8>);

impl NetlinkSerializable for DiagMessage {
    fn message_type(&self) -> u16 {
        SOCK_DIAG_BY_FAMILY
    }

    fn buffer_len(&self) -> usize {
        self.0.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        buffer[..self.0.len()].copy_from_slice(&self.0);
    }
}

impl NetlinkDeserializable for DiagMessage {
    type Error = Infallible;

    fn deserialize(_: &NetlinkHeader, payload: &[u8]) -> Result<Self, Infallible> {
        Ok(Self(payload.to_vec()))
    }
}

impl SocketList {
    /// Opens a netlink socket in the namespace of the calling thread.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn open() -> Result<Self, NetlinkError> {
        NetlinkSocket::open(NETLINK_SOCK_DIAG).map(Self)
    }

    /// The sockets that are bound to a port, with any IPv4 or IPv6 address: TCP sockets that listen if `tcp` is set,
    /// UDP sockets otherwise.
    ///
    /// # Errors
    /// The error of the kernel, for example if it was built without `inet_diag`.
    pub fn bound_to(&mut self, port: u16, tcp: bool) -> Result<Vec<BoundSocket>, NetlinkError> {
        let protocol = if tcp { libc::IPPROTO_TCP } else { libc::IPPROTO_UDP };
        let states: u32 = if tcp { 1 << LISTEN } else { u32::MAX };
        let mut all = Vec::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            // Both numbers are below 256.
            let mut question = vec![family as u8, protocol as u8, 1 << (SKMEMINFO - 1), 0];
            question.extend(states.to_ne_bytes());
            question.extend(port.to_be_bytes());
            question.resize(QUESTION, 0);
            let answers = self.0.ask(DiagMessage(question), NLM_F_DUMP)?;
            let sockets = answers.iter().filter_map(|answer| BoundSocket::read(&answer.0));
            all.extend(sockets.filter(|socket| socket.local.port() == port));
        }
        Ok(all)
    }
}

impl BoundSocket {
    /// Parses an `inet_diag_msg` and its attributes.
    fn read(answer: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_ne_bytes(answer.get(at..at + 4)?.try_into().ok()?));
        let port = u16::from_be_bytes(answer.get(4..6)?.try_into().ok()?);
        let address: [u8; 16] = answer.get(8..24)?.try_into().ok()?;
        let ip = match i32::from(*answer.first()?) {
            libc::AF_INET => IpAddr::from(<[u8; 4]>::try_from(&address[..4]).map(Ipv4Addr::from).ok()?),
            _ => IpAddr::from(Ipv6Addr::from(address)),
        };
        let (waiting, inode) = (word(56)?, word(68)?);
        let memory = attributes(answer.get(ANSWER..)?);
        let memory = memory.iter().find(|attribute: &&DefaultNla| attribute.kind() == SKMEMINFO).map(value);
        let of = |place: usize| {
            let bytes = memory.as_ref()?.get(4 * place..4 * place + 4)?;
            Some(u32::from_ne_bytes(bytes.try_into().ok()?))
        };
        Some(Self {
            local: SocketAddr::new(ip, port),
            inode,
            waiting,
            receive_buffer: of(RCVBUF).unwrap_or(0),
            dropped: of(DROPS).unwrap_or(0),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;

    #[test]
    fn a_bound_socket_is_listed_with_what_waits_in_it() {
        let (own, sender) =
            (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let at = own.local_addr().unwrap();
        sender.send_to(&[0; 1000], at).unwrap();
        let mut list = SocketList::open().unwrap();
        let mut found = || {
            let all = list.bound_to(at.port(), false).unwrap();
            *all.iter().find(|socket| socket.local == at).unwrap()
        };
        let first = found();
        assert!(first.waiting >= 1000 && first.receive_buffer >= 4096 && first.dropped == 0, "{first:?}");
        while found().dropped == 0 {
            sender.send_to(&[0; 60_000], at).unwrap();
        }
        let listener = TcpListener::bind("[::1]:0").unwrap();
        let at = listener.local_addr().unwrap();
        let listening = list.bound_to(at.port(), true).unwrap();
        assert!(listening.iter().any(|socket| socket.local == at && socket.inode > 0));
        assert_eq!(BoundSocket::read(&[2, 7, 0]), None);
    }
}
