//! A datagram socket with kernel time stamps of sent and received packets.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{Protocol, SocketType};

use super::icmp::IcmpVersion;
use super::icmp_error::{IcmpError, IcmpErrors};
use netrig_host::socket::{
    LONGEST_DATAGRAM, SocketBuilder, SocketError, TimestampMode, class_of, class_option, drops,
};
use netrig_host::sys::{
    ErrorOrigin, ExtendedError, Incoming, MESSAGES, Outgoing, QueuedError, ReceiveBatch, TransmitStamp,
    option_int, send_one, set_option_int,
};

/// Requested size of the receive buffer, bytes. The system may grant less. Drops are counted: with a smaller buffer a
/// run may become invalid, but its numbers are never wrong.
const RECEIVE_BUFFER: usize = 4 << 20;

/// Octets that are kept of a packet quoted in an ICMP error. This is more than the longest error message that is sent
/// without fragmentation (RFC 4443 section 3), including extensions.
const REPEATED: usize = 2048;

/// Octets of a quoted packet that are kept if they serve only to identify the packet.
const QUOTED: usize = 64;

/// Maximum number of times that a datagram is sent again because a pending error about an earlier datagram made the
/// send fail.
const AGAIN: usize = 3;

/// Socket options that the C library does not define yet (include/uapi/linux/in.h, in6.h).
const IP_RECVERR_RFC4884: i32 = 26;
const IPV6_RECVERR_RFC4884: i32 = 31;

/// Minimum memory that the kernel counts for a datagram in a receive buffer, bytes.
const LEAST_CHARGE: usize = 512;

/// A datagram socket with kernel time stamps, which also gives TTL, DSCP and ECN of received packets.
pub(crate) struct ProbeSocket {
    socket: OwnedFd,
    v4: bool,
    dscp: u8,
    ttl: Option<u8>,
    received: ReceiveBatch,
    errors: ReceiveBatch,
    batches: usize,
}

impl ProbeSocket {
    /// A bound UDP socket with this DSCP. It does not queue ICMP errors. It is for far ends, which answer many hosts
    /// and do not measure.
    pub fn udp(local: SocketAddr, dscp: u8) -> Result<Self, SocketError> {
        let making = SocketBuilder::open(SocketType::DGRAM, Some(rustix::net::ipproto::UDP), local)?;
        Self::made(making, local, dscp, 1)
    }

    /// A bound UDP socket of a probe. It queues the ICMP errors about its packets ([`ProbeSocket::errors`]).
    pub fn asking(local: SocketAddr, dscp: u8) -> Result<Self, SocketError> {
        Self::open(SocketType::DGRAM, rustix::net::ipproto::UDP, local, dscp)
    }

    /// A bound socket of a probe for any protocol.
    pub fn open(
        kind: SocketType,
        protocol: Protocol,
        local: SocketAddr,
        dscp: u8,
    ) -> Result<Self, SocketError> {
        let making = SocketBuilder::open(kind, Some(protocol), local)?;
        making.report_errors()?;
        Self::made(making, local, dscp, QUOTED)
    }

    /// A bound socket of a probe whose packets are never fragmented. It ignores the kernel's estimate of the path MTU.
    pub fn searching(
        kind: SocketType,
        protocol: Protocol,
        local: SocketAddr,
        dscp: u8,
    ) -> Result<Self, SocketError> {
        let making = SocketBuilder::open(kind, Some(protocol), local)?;
        making.report_errors()?;
        if local.is_ipv4() {
            making.number(
                "IP_MTU_DISCOVER",
                libc::IPPROTO_IP,
                libc::IP_MTU_DISCOVER,
                libc::IP_PMTUDISC_PROBE,
            )?;
            making.number("IP_RECVERR_RFC4884", libc::IPPROTO_IP, IP_RECVERR_RFC4884, 1)?;
        } else {
            let (level, probe) = (libc::IPPROTO_IPV6, libc::IPV6_PMTUDISC_PROBE);
            making.number("IPV6_MTU_DISCOVER", level, libc::IPV6_MTU_DISCOVER, probe)?;
            making.number("IPV6_RECVERR_RFC4884", level, IPV6_RECVERR_RFC4884, 1)?;
        }
        Self::made(making, local, dscp, REPEATED)
    }

    fn made(
        making: SocketBuilder,
        local: SocketAddr,
        dscp: u8,
        repeated: usize,
    ) -> Result<Self, SocketError> {
        making.dscp(dscp)?;
        making.stamped(TimestampMode::Both)?;
        if local.is_ipv4() {
            making.number("IP_RECVTTL", libc::IPPROTO_IP, libc::IP_RECVTTL, 1)?;
            making.number("IP_RECVTOS", libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
        } else {
            making.number("IPV6_RECVHOPLIMIT", libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, 1)?;
            making.number("IPV6_RECVTCLASS", libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
        }
        making.receive_at_least(RECEIVE_BUFFER)?;
        Ok(Self {
            batches: making.receive_buffer()? as usize / LEAST_CHARGE / MESSAGES + 1,
            socket: making.bound()?,
            v4: local.is_ipv4(),
            dscp,
            received: ReceiveBatch::new(LONGEST_DATAGRAM),
            errors: ReceiveBatch::new(repeated),
            ttl: None,
        })
    }

    /// Connects the socket. It then exchanges packets with this address only, and gets the errors about closed ports of
    /// this address.
    pub fn connect(&self, to: SocketAddr) -> io::Result<()> {
        Ok(rustix::net::connect(&self.socket, &to)?)
    }

    /// The bound address.
    pub fn local(&self) -> io::Result<SocketAddr> {
        Ok(rustix::net::getsockname(&self.socket)?.try_into()?)
    }

    /// The descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sets the DSCP of the following packets.
    pub fn set_dscp(&mut self, dscp: u8) -> io::Result<()> {
        if dscp != self.dscp {
            let (_, level, name) = class_option(self.v4);
            set_option_int(&self.socket, level, name, class_of(dscp))?;
            self.dscp = dscp;
        }
        Ok(())
    }

    /// Sets the TTL or hop limit of the following packets.
    pub fn set_ttl(&mut self, ttl: u8) -> io::Result<()> {
        if self.ttl != Some(ttl) {
            let (level, name) = match self.v4 {
                true => (libc::IPPROTO_IP, libc::IP_TTL),
                false => (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
            };
            set_option_int(&self.socket, level, name, ttl.into())?;
            self.ttl = Some(ttl);
        }
        Ok(())
    }

    /// The kernel's estimate of the path MTU of a connected socket, octets of IP.
    pub fn mtu(&self) -> io::Result<usize> {
        let (level, name) = match self.v4 {
            true => (libc::IPPROTO_IP, libc::IP_MTU),
            false => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
        };
        option_int(&self.socket, level, name).map(|mtu| usize::try_from(mtu).unwrap_or(0))
    }

    /// Sends one datagram.
    pub fn send(&self, to: SocketAddr, bytes: &[u8]) -> io::Result<()> {
        let pieces = [IoSlice::new(bytes)];
        send_one(&self.socket, &Outgoing { to: Some(to), pieces: &pieces, segment: None })
    }

    /// Sends one datagram. Returns whether there was room for it. If a pending error about an earlier datagram makes
    /// the send fail, the send is repeated.
    pub fn offer(&self, to: SocketAddr, bytes: &[u8]) -> io::Result<bool> {
        for _ in 0..AGAIN {
            match self.send(to, bytes) {
                Err(error) if is_of_earlier(&error) => {}
                given => return had_room(given),
            }
        }
        had_room(self.send(to, bytes))
    }

    /// Receives at most one batch. Returns whether there may be more. Errors about sent datagrams are ignored here;
    /// [`ProbeSocket::errors`] reads them.
    pub fn receive(&mut self, mut each: impl FnMut(&Incoming<'_>)) -> io::Result<bool> {
        let count = match self.received.receive(&self.socket) {
            Err(error) if is_of_earlier(&error) => return Ok(true),
            received => received?,
        };
        (0..count).filter_map(|at| self.received.get(at)).for_each(|incoming| each(&incoming));
        Ok(count == MESSAGES)
    }

    /// Number of batches in a full receive buffer. After this number of calls of [`ProbeSocket::receive`], all
    /// datagrams that had arrived before the first call have been received, even if more keep arriving.
    pub const fn full_buffer(&self) -> usize {
        self.batches
    }

    /// Reads all pending transmit time stamps. The loop ends, because each time stamp belongs to a datagram that was
    /// sent before, and this queue has no other entries.
    pub fn transmit_stamps(&mut self, mut each: impl FnMut(TransmitStamp)) -> io::Result<()> {
        loop {
            let count = self.errors.receive_errors(&self.socket)?;
            if count == 0 {
                return Ok(());
            }
            (0..count).filter_map(|at| self.errors.transmit_stamp(at)).for_each(&mut each);
        }
    }

    /// Reads all pending transmit time stamps, and counts the ICMP errors about datagrams for whose quoted octets
    /// `ours` returns true.
    pub fn stamps_and_errors(
        &mut self,
        left: impl FnMut(TransmitStamp),
        counted: &mut IcmpErrors,
        ours: impl Fn(&[u8]) -> bool,
    ) -> io::Result<()> {
        self.errors(left, |objection| {
            if let Some((from, error)) = icmp(&objection.error).filter(|_| ours(objection.head)) {
                counted.count(from, error);
            }
        })
    }

    /// Reads all pending transmit time stamps and errors about sent datagrams.
    pub fn errors(
        &mut self,
        mut left: impl FnMut(TransmitStamp),
        mut reported: impl FnMut(&QueuedError<'_>),
    ) -> io::Result<()> {
        loop {
            let count = self.errors.receive_errors(&self.socket)?;
            if count == 0 {
                return Ok(());
            }
            for at in 0..count {
                match self.errors.transmit_stamp(at) {
                    Some(stamp) => left(stamp),
                    None => self.errors.queued_error(at).iter().for_each(&mut reported),
                }
            }
        }
    }

    /// Datagrams that reached the host but were dropped by the socket.
    pub fn drops(&self) -> io::Result<u32> {
        drops(&self.socket)
    }
}

/// The sender and the meaning of an ICMP error. `None` if the error is not an ICMP error.
pub(super) fn icmp(error: &ExtendedError) -> Option<(IpAddr, IcmpError)> {
    let version = match error.origin {
        ErrorOrigin::Icmp => IcmpVersion::V4,
        ErrorOrigin::Icmp6 => IcmpVersion::V6,
        _ => return None,
    };
    Some((error.offender?, IcmpError::of(version, error.kind, error.code, error.info)))
}

/// Whether a socket error is an ICMP error about an earlier datagram (net/ipv4/icmp.c, net/ipv6/icmp.c). Some of these
/// errors can also concern the current datagram. They then occur again when the send is repeated.
pub(super) fn is_of_earlier(error: &io::Error) -> bool {
    let of_icmp = [
        libc::ENETUNREACH,
        libc::EHOSTUNREACH,
        libc::ENOPROTOOPT,
        libc::ECONNREFUSED,
        libc::EMSGSIZE,
        libc::EOPNOTSUPP,
        libc::EHOSTDOWN,
        libc::ENONET,
        libc::EACCES,
        libc::EPROTO,
    ];
    error.raw_os_error().is_some_and(|errno| of_icmp.contains(&errno))
}

/// Whether the network or the host refused a datagram.
pub(super) fn is_refusal(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
    matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable)
}

/// Whether a socket was refused for lack of privileges.
pub(super) fn may_not(error: &SocketError) -> bool {
    matches!(error, SocketError::Refused { what: "open", source, .. }
        if matches!(source.raw_os_error(), Some(libc::EACCES | libc::EPERM | libc::EPROTONOSUPPORT)))
}

/// Whether there was room, in the socket and at the interface, for a datagram.
fn had_room(given: io::Result<()>) -> io::Result<bool> {
    match given {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::EAGAIN)) => Ok(false),
        given => given.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use super::super::icmp_error::Unreachable;
    use super::*;

    /// A sender that is faster than this receiver cannot keep the receiver from other work.
    #[test]
    fn one_batch_is_taken_at_a_time() {
        let localhost = "127.0.0.1:0".parse().unwrap();
        let (from, mut to) =
            (ProbeSocket::udp(localhost, 0).unwrap(), ProbeSocket::udp(localhost, 0).unwrap());
        let target = to.local().unwrap();
        (0..2 * MESSAGES + 1).for_each(|number| from.send(target, &[number as u8]).unwrap());
        let mut numbers = Vec::new();
        for (so_many, more) in [(MESSAGES, true), (2 * MESSAGES, true), (2 * MESSAGES + 1, false)] {
            assert_eq!(to.receive(|incoming| numbers.push(incoming.head[0])).unwrap(), more);
            assert_eq!(numbers.len(), so_many);
        }
        assert!(numbers.iter().enumerate().all(|(place, number)| place == usize::from(*number)));
        assert!(!to.receive(|_| panic!("nothing is left")).unwrap());
    }

    /// A datagram for which this host has no room does not count as lost on the path.
    #[test]
    fn no_room_is_told_apart_from_what_finds_no_way() {
        let given = |errno| had_room(Err(io::Error::from_raw_os_error(errno)));
        assert!(had_room(Ok(())).unwrap());
        assert!([libc::EAGAIN, libc::ENOBUFS].iter().all(|errno| !given(*errno).unwrap()));
        let no_way = [libc::ENETUNREACH, libc::EHOSTUNREACH, libc::ECONNREFUSED];
        assert!(no_way.iter().all(|errno| given(*errno).is_err_and(|error| is_refusal(&error))));
        assert!([libc::EPERM, libc::EMSGSIZE].iter().all(|errno| !is_refusal(&given(*errno).unwrap_err())));
    }

    /// The kernel reports a closed port at the next send. The datagram of that send is sent nevertheless, and each ICMP
    /// error is counted with its sender.
    #[test]
    fn what_is_told_of_an_earlier_datagram_keeps_no_other_back() {
        let localhost = "127.0.0.1:0".parse().unwrap();
        let closed = ProbeSocket::udp(localhost, 0).unwrap().local().unwrap();
        let mut socket = ProbeSocket::asking(localhost, 0).unwrap();
        socket.connect(closed).unwrap();
        for _ in 0..3 {
            assert!(socket.offer(closed, &[1]).unwrap());
        }
        let mut counted = IcmpErrors::default();
        // The first call takes the error that is pending on the socket.
        while socket.receive(|_| panic!("a closed port answers")).unwrap() {}
        socket.stamps_and_errors(|_| {}, &mut counted, |quoted| quoted == [1]).unwrap();
        let mut expected = IcmpErrors::default();
        let port = IcmpError::Unreachable(Unreachable::Port);
        (0..3).for_each(|_| expected.count(closed.ip(), port));
        assert_eq!(counted, expected);
    }
}
