//! Raw IPv4 sockets for SCTP.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netrig_core::{Dscp, Ecn, FiveTuple, Header, protocol};
use netrig_transport::sctp::wire::{self, DecodeError};
use netrig_transport::{Packet, Payload};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, sockopt};

/// A raw socket that sends and receives the SCTP packets of one local address. The kernel writes the IP header.
#[derive(Debug)]
pub struct RawSocket {
    fd: OwnedFd,
}

/// Received bytes.
pub enum Received {
    /// An SCTP packet.
    Packet(Packet),
    /// Bytes that are not an SCTP packet.
    Undecodable(DecodeError),
}

impl RawSocket {
    /// Opens a socket in the namespace of the calling thread.
    pub fn open(local: Ipv4Addr) -> io::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = rustix::net::socket_with(AddressFamily::INET, SocketType::RAW, flags, Some(ipproto::SCTP))?;
        sockopt::set_socket_recv_buffer_size(&fd, 4 << 20)?;
        rustix::net::bind(&fd, &SocketAddr::from((local, 0)))?;
        Ok(Self { fd })
    }

    /// The descriptor, to be polled.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Sends `packet`. Returns false if the kernel has no route or no buffer space; the packet is then lost.
    pub fn send(&self, packet: &Packet) -> io::Result<bool> {
        let Payload::Sctp(sctp) = &packet.payload else { return Ok(false) };
        let IpAddr::V4(to) = packet.header.flow.dst else { return Ok(false) };
        let bytes = wire::encode(sctp);
        match rustix::net::sendto(&self.fd, &bytes, SendFlags::empty(), &SocketAddrV4::new(to, 0)) {
            Ok(_) => Ok(true),
            Err(Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::NETDOWN | Errno::NOBUFS | Errno::AGAIN) => {
                Ok(false)
            }
            Err(other) => Err(other.into()),
        }
    }

    /// The next waiting packet; `None` if there is none.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        loop {
            match rustix::net::recv(&self.fd, &mut *buffer, RecvFlags::empty()) {
                Ok((len, _)) => return Ok(Some(parse(&buffer[..len]))),
                Err(Errno::AGAIN) => return Ok(None),
                // An ICMP error, or an interruption by a signal. The next packet is read.
                Err(Errno::INTR | Errno::CONNREFUSED | Errno::NETUNREACH | Errno::HOSTUNREACH) => {}
                Err(other) => return Err(other.into()),
            }
        }
    }
}

/// Parses an IPv4 packet from a raw socket. It has its IP header, is reassembled, and the kernel has verified it (RFC
/// 791).
fn parse(ip: &[u8]) -> Received {
    let header_len = usize::from(ip[0] & 0x0F) * 4;
    let address = |at: usize| Ipv4Addr::new(ip[at], ip[at + 1], ip[at + 2], ip[at + 3]);
    let sctp = match wire::decode(&ip[header_len..]) {
        Ok(sctp) => sctp,
        Err(error) => return Received::Undecodable(error),
    };
    let flow = FiveTuple {
        src: address(12).into(),
        dst: address(16).into(),
        src_port: sctp.src_port,
        dst_port: sctp.dst_port,
        protocol: protocol::SCTP,
    };
    let ecn = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][usize::from(ip[1] & 3)];
    let ip_len = u32::try_from(ip.len()).unwrap_or(u32::MAX);
    let header = Header { flow, ip_len, dscp: Dscp(ip[1] >> 2), ecn };
    Received::Packet(Packet { header, payload: Payload::Sctp(Box::new(sctp)) })
}
