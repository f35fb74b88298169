//! SCTP packets over a raw IP socket or a UDP socket (RFC 6951).

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netrig_core::{Data, Dscp, Ecn, FiveTuple, Header, protocol};
use netrig_transport::sctp::packet::Chunk;
use netrig_transport::sctp::wire::{self, Checksum};
use netrig_transport::sctp::{self, Encapsulation, PathAddresses};
use netrig_transport::{Packet, Payload};
use rustix::io::Errno;
use rustix::net::{SendFlags, SocketType, ipproto};

use netrig_host::socket::{SocketBuilder, SocketError, TimestampMode, is_loss, refused};
use netrig_host::sys::{MESSAGES, ReceiveBatch};

/// Size of the receive buffer, bytes, including the kernel's overhead. The buffer holds packets that arrive while the
/// thread is descheduled.
const ROOM: usize = 8 << 20;

/// Length of the two ports, bytes.
const PORTS: usize = 4;

/// Sends and receives the SCTP packets between two addresses. The kernel writes the IP header and the UDP header.
///
/// A raw socket gets a copy of every SCTP packet between its addresses, even if other raw sockets are open. While it is
/// open, the kernel does not answer SCTP packets with ICMP "protocol unreachable".
pub struct PathSocket {
    socket: OwnedFd,
    addresses: PathAddresses,
    encapsulation: Encapsulation,
    checksum: Checksum,
}

/// A received packet with the kernel's time stamp.
pub struct ReceivedPacket {
    /// Nanoseconds of `CLOCK_REALTIME`, if the kernel gave a time stamp.
    pub stamp: Option<u64>,
    /// The packet.
    pub packet: Packet,
}

/// Result of sending a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketOutcome {
    /// The kernel accepted the packet.
    Given,
    /// The packet was not sent, and counts as lost on the path: there is no route, the interface is down, or the packet
    /// is longer than the MTU.
    Lost,
    /// The send buffer was full.
    NoRoom,
}

impl PathSocket {
    /// Opens a socket that is bound to the local address and connected to the remote address.
    pub fn open(addresses: PathAddresses, config: &sctp::Config, dscp: u8) -> Result<Self, SocketError> {
        let encapsulation = config.encapsulation;
        let (kind, protocol, port) = match encapsulation {
            Encapsulation::Ip => (SocketType::RAW, ipproto::SCTP, 0),
            Encapsulation::Udp => (SocketType::DGRAM, ipproto::UDP, Encapsulation::UDP_PORT),
        };
        let [local, remote] = [addresses.local, addresses.remote].map(|ip| SocketAddr::new(ip, port));
        let making = SocketBuilder::open(kind, Some(protocol), local)?;
        making.dscp(dscp)?;
        making.stamped(TimestampMode::Received)?;
        making.receive_at_least(ROOM)?;
        // "PMTU discovery ... the DF bit" (RFC 9260 section 7.3): the transport chooses the packet length, and packets are not
        // fragmented.
        if local.is_ipv4() {
            let probe = libc::IP_PMTUDISC_PROBE;
            making.number("IP_MTU_DISCOVER", libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, probe)?;
        } else {
            let probe = libc::IPV6_PMTUDISC_PROBE;
            making.number("IPV6_MTU_DISCOVER", libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, probe)?;
        }
        let socket = making.bound()?;
        rustix::net::connect(&socket, &remote).map_err(|error| refused("connect", local, error))?;
        Ok(Self { socket, addresses, encapsulation, checksum: config.checksum })
    }

    /// Uses a connected UDP socket, which may have any ports.
    pub fn over(socket: UdpSocket, config: &sctp::Config) -> io::Result<Self> {
        let addresses = PathAddresses { local: socket.local_addr()?.ip(), remote: socket.peer_addr()?.ip() };
        let (level, name, probe) = if addresses.local.is_ipv4() {
            (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)
        } else {
            (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)
        };
        netrig_host::sys::set_option_int(&socket, level, name, probe)?;
        let (encapsulation, checksum) = (Encapsulation::Udp, config.checksum);
        Ok(Self { socket: socket.into(), addresses, encapsulation, checksum })
    }

    /// The socket.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The local and the remote address.
    pub const fn addresses(&self) -> PathAddresses {
        self.addresses
    }

    /// Sends a packet.
    pub fn send(&self, packet: &sctp::Packet) -> io::Result<PacketOutcome> {
        let bytes = wire::encode_with(packet, self.checksum);
        loop {
            match rustix::net::send(&self.socket, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(_) => return Ok(PacketOutcome::Given),
                Err(Errno::AGAIN | Errno::NOBUFS) => return Ok(PacketOutcome::NoRoom),
                Err(Errno::INTR) => {}
                Err(Errno::MSGSIZE) => return Ok(PacketOutcome::Lost),
                Err(error) if is_loss(&error.into()) => return Ok(PacketOutcome::Lost),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Receives at most one batch. Passes each complete packet to `each` if `wanted` returns true for its source port
    /// and destination port. Returns whether more packets may wait.
    pub fn receive(
        &self,
        batch: &mut ReceiveBatch,
        wanted: impl Fn(u16, u16) -> bool,
        mut each: impl FnMut(ReceivedPacket),
    ) -> io::Result<bool> {
        let count = match batch.receive(&self.socket) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted || is_loss(&error) => return Ok(true),
            Err(error) => return Err(error),
        };
        for at in 0..count {
            let Some(incoming) = batch.get(at) else { continue };
            for (head, len) in incoming.datagrams() {
                if let Some(packet) = self.packet(head, len, &wanted) {
                    each(ReceivedPacket { stamp: incoming.stamp, packet });
                }
            }
        }
        Ok(count == MESSAGES)
    }

    /// The SCTP packet in a datagram of `len` bytes. `head` contains the part of the datagram that fitted into the
    /// buffer. `None` if the packet is incomplete or its ports are not wanted.
    fn packet(&self, head: &[u8], len: usize, wanted: &impl Fn(u16, u16) -> bool) -> Option<Packet> {
        let bytes = self.body(head, len)?;
        let [a, b, c, d] = bytes.first_chunk::<PORTS>()?;
        if !wanted(u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])) {
            return None;
        }
        // "the receiver SHOULD silently discard" a packet with a wrong checksum (RFC 9260 section 6.8).
        let packet = wire::decode_with(bytes, self.checksum).ok()?;
        let header = self.header(&packet, bytes.len());
        Some(Packet { header, payload: Payload::Sctp(Box::new(with_fill(packet))) })
    }

    /// The SCTP packet in the received bytes, without the IP header that a raw IPv4 socket includes (raw(7)).
    fn body<'a>(&self, head: &'a [u8], len: usize) -> Option<&'a [u8]> {
        if len > head.len() {
            return None;
        }
        let has_header = self.encapsulation == Encapsulation::Ip && self.addresses.local.is_ipv4();
        let skipped = if has_header { usize::from(*head.first()? & 0x0f) * 4 } else { 0 };
        head.get(skipped..)
    }

    /// The network header of a received SCTP packet of `len` bytes.
    fn header(&self, packet: &sctp::Packet, len: usize) -> Header {
        let PathAddresses { local: dst, remote: src } = self.addresses;
        let (protocol, src_port, dst_port) = match self.encapsulation {
            Encapsulation::Ip => (protocol::SCTP, packet.src_port, packet.dst_port),
            Encapsulation::Udp => (protocol::UDP, Encapsulation::UDP_PORT, Encapsulation::UDP_PORT),
        };
        let flow = FiveTuple { src, dst, src_port, dst_port, protocol };
        // At most 65,535.
        let ip_len = flow.ip_header_len() + self.encapsulation.header_len() + len as u32;
        Header { flow, ip_len, dscp: Dscp::BE, ecn: Ecn::NotEct }
    }
}

/// Replaces user data that consists of zeros by [`Data::Fill`], which takes no memory.
fn with_fill(mut packet: sctp::Packet) -> sctp::Packet {
    for chunk in &mut packet.chunks {
        if let Chunk::Data(piece) = chunk
            && let Data::Bytes(bytes) = &piece.data
            && bytes.iter().all(|byte| *byte == 0)
        {
            piece.data = Data::Fill(bytes.len() as u64);
        }
    }
    packet
}
