//! A socket that stamps: what it sends and what it receives.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{Protocol, SocketType};

use super::icmp::IcmpVersion;
use super::icmp_error::{IcmpError, IcmpErrors};
use netrig_host::socket::{LONGEST_DATAGRAM, Making, SocketError, Stamped, class_of, class_option, drops};
use netrig_host::sys::{
    ExtendedError, Incoming, MESSAGES, Objection, Origin, Outgoing, ReceiveBatch, TransmitStamp, option_int,
    send_one, set_option_int,
};

/// The receive buffer that is asked for, bytes: as much of it as the system grants. What it has no room for is counted, so
/// that less than was asked for costs a run and never a wrong number.
const RECEIVE_BUFFER: usize = 4 << 20;

/// Octets that are kept of what a message of ICMP repeats of a packet: as many as fit into the longest that is sent without need
/// (RFC 4443 section 3), extensions included, and more.
const REPEATED: usize = 2048;

/// Octets that are kept of what a message of ICMP repeats of a packet where only the packet's sender is of interest.
const QUOTED: usize = 64;

/// How often a datagram is sent again that the kernel kept back to tell of an earlier one.
const AGAIN: usize = 3;

/// Options that the C library does not know yet (include/uapi/linux/in.h, in6.h).
const IP_RECVERR_RFC4884: i32 = 26;
const IPV6_RECVERR_RFC4884: i32 = 31;

/// What the kernel charges a buffer for a datagram at least, bytes.
const LEAST_CHARGE: usize = 512;

/// A socket for datagrams with kernel stamps, which tells TTL, DSCP and ECN of what it receives.
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
    /// A bound UDP socket that sends with this code point. The kernel keeps no ICMP errors for it: it is for far ends, which
    /// answer many hosts and measure none.
    pub fn udp(local: SocketAddr, dscp: u8) -> Result<Self, SocketError> {
        let making = Making::open(SocketType::DGRAM, Some(rustix::net::ipproto::UDP), local)?;
        Self::made(making, local, dscp, 1)
    }

    /// A bound UDP socket of a probe, which tells which hosts refuse its packets ([`ProbeSocket::errors`]).
    pub fn asking(local: SocketAddr, dscp: u8) -> Result<Self, SocketError> {
        Self::open(SocketType::DGRAM, rustix::net::ipproto::UDP, local, dscp)
    }

    /// The same of another protocol.
    pub fn open(
        kind: SocketType,
        protocol: Protocol,
        local: SocketAddr,
        dscp: u8,
    ) -> Result<Self, SocketError> {
        let making = Making::open(kind, Some(protocol), local)?;
        making.told_of_errors()?;
        Self::made(making, local, dscp, QUOTED)
    }

    /// The same, whose packets leave whole or not at all, however short the kernel takes the path for.
    pub fn searching(
        kind: SocketType,
        protocol: Protocol,
        local: SocketAddr,
        dscp: u8,
    ) -> Result<Self, SocketError> {
        let making = Making::open(kind, Some(protocol), local)?;
        making.told_of_errors()?;
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

    fn made(making: Making, local: SocketAddr, dscp: u8, repeated: usize) -> Result<Self, SocketError> {
        making.dscp(dscp)?;
        making.stamped(Stamped::Both)?;
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

    /// Sends to one address only, and hears from it only: also that nobody listens there.
    pub fn connect(&self, to: SocketAddr) -> io::Result<()> {
        Ok(rustix::net::connect(&self.socket, &to)?)
    }

    /// The address that it is bound to.
    pub fn local(&self) -> io::Result<SocketAddr> {
        Ok(rustix::net::getsockname(&self.socket)?.try_into()?)
    }

    /// The descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends what follows with this code point.
    pub fn set_dscp(&mut self, dscp: u8) -> io::Result<()> {
        if dscp != self.dscp {
            let (_, level, name) = class_option(self.v4);
            set_option_int(&self.socket, level, name, class_of(dscp))?;
            self.dscp = dscp;
        }
        Ok(())
    }

    /// Sends what follows with this TTL or hop limit.
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

    /// What the kernel takes the path of a connected socket to carry, octets of IP.
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

    /// Sends one datagram; whether there was room for it. What the kernel tells of an earlier one keeps this one back: it
    /// is sent again.
    pub fn offer(&self, to: SocketAddr, bytes: &[u8]) -> io::Result<bool> {
        for _ in 0..AGAIN {
            match self.send(to, bytes) {
                Err(error) if is_of_earlier(&error) => {}
                given => return had_room(given),
            }
        }
        had_room(self.send(to, bytes))
    }

    /// Takes what has arrived, at most one batch; whether there may be more. What the kernel tells of an earlier datagram
    /// is none that arrived: [`ProbeSocket::errors`] has it.
    pub fn receive(&mut self, mut each: impl FnMut(&Incoming<'_>)) -> io::Result<bool> {
        let count = match self.received.receive(&self.socket) {
            Err(error) if is_of_earlier(&error) => return Ok(true),
            received => received?,
        };
        (0..count).filter_map(|at| self.received.get(at)).for_each(|incoming| each(&incoming));
        Ok(count == MESSAGES)
    }

    /// Batches in which a full buffer is emptied. Who takes so many has all that had arrived before, however fast more
    /// comes.
    pub const fn full_buffer(&self) -> usize {
        self.batches
    }

    /// Takes all transmit stamps that have come. There is an end of them: each is of a datagram that was sent before, and
    /// nothing else comes to this queue.
    pub fn transmit_stamps(&mut self, mut each: impl FnMut(TransmitStamp)) -> io::Result<()> {
        loop {
            let count = self.errors.receive_errors(&self.socket)?;
            if count == 0 {
                return Ok(());
            }
            (0..count).filter_map(|at| self.errors.transmit_stamp(at)).for_each(&mut each);
        }
    }

    /// The same, and counts the ICMP errors about datagrams whose repeated octets are `ours`.
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

    /// Takes all that has come about what was sent: stamps, and what was said of it.
    pub fn errors(
        &mut self,
        mut left: impl FnMut(TransmitStamp),
        mut reported: impl FnMut(&Objection<'_>),
    ) -> io::Result<()> {
        loop {
            let count = self.errors.receive_errors(&self.socket)?;
            if count == 0 {
                return Ok(());
            }
            for at in 0..count {
                match self.errors.transmit_stamp(at) {
                    Some(stamp) => left(stamp),
                    None => self.errors.objection(at).iter().for_each(&mut reported),
                }
            }
        }
    }

    /// Datagrams that reached the host and that the socket had no room for.
    pub fn drops(&self) -> io::Result<u32> {
        drops(&self.socket)
    }
}

/// The host that says something by ICMP, and what it says.
pub(super) fn icmp(error: &ExtendedError) -> Option<(IpAddr, IcmpError)> {
    let version = match error.origin {
        Origin::Icmp => IcmpVersion::V4,
        Origin::Icmp6 => IcmpVersion::V6,
        _ => return None,
    };
    Some((error.offender?, IcmpError::of(version, error.kind, error.code, error.info)))
}

/// Whether a socket tells of what was said of an earlier datagram (net/ipv4/icmp.c, net/ipv6/icmp.c). Some of these are
/// also said of the datagram that is sent: what is said twice is.
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

/// Whether there is no way for a datagram.
pub(super) fn is_refusal(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
    matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable)
}

/// Whether a socket was refused because it needs rights that the program has not.
pub(super) fn may_not(error: &SocketError) -> bool {
    matches!(error, SocketError::Refused { what: "open", source, .. }
        if matches!(source.raw_os_error(), Some(libc::EACCES | libc::EPERM | libc::EPROTONOSUPPORT)))
}

/// Whether there was room, in the socket and at the interface, for a datagram that was given to the kernel.
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

    /// Whoever sends faster than we take cannot keep us from looking at anything else.
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

    /// What this host has no room for is its own fault, and no loss of the path's.
    #[test]
    fn no_room_is_told_apart_from_what_finds_no_way() {
        let given = |errno| had_room(Err(io::Error::from_raw_os_error(errno)));
        assert!(had_room(Ok(())).unwrap());
        assert!([libc::EAGAIN, libc::ENOBUFS].iter().all(|errno| !given(*errno).unwrap()));
        let no_way = [libc::ENETUNREACH, libc::EHOSTUNREACH, libc::ECONNREFUSED];
        assert!(no_way.iter().all(|errno| given(*errno).is_err_and(|error| is_refusal(&error))));
        assert!([libc::EPERM, libc::EMSGSIZE].iter().all(|errno| !is_refusal(&given(*errno).unwrap_err())));
    }

    /// The kernel reports that a port is closed when the next datagram is sent. That datagram leaves all the same, and each ICMP
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
