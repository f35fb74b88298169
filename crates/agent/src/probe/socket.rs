//! A socket that stamps: what it sends and what it receives.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{Protocol, SocketType, sockopt};

use crate::socket::{Making, SocketError};
use crate::sys::{
    Incoming, MESSAGES, Outgoing, ReceiveBatch, TransmitStamp, option_bytes, send_one, set_option_int,
};

/// The longest payload of UDP over IPv4.
pub(crate) const LONGEST: usize = 65_507;

/// Software stamps of what is received and, by number and without the bytes, of what is sent
/// (Documentation/networking/timestamping).
const STAMPS: i32 = (libc::SOF_TIMESTAMPING_RX_SOFTWARE
    | libc::SOF_TIMESTAMPING_TX_SOFTWARE
    | libc::SOF_TIMESTAMPING_SOFTWARE
    | libc::SOF_TIMESTAMPING_OPT_ID
    | libc::SOF_TIMESTAMPING_OPT_TSONLY) as i32;

/// Where SO_MEMINFO has the count of drops, bytes: the ninth of its 32-bit words (include/uapi/linux/sock_diag.h).
const SK_MEMINFO_DROPS: usize = 32;

/// The receive buffer that is asked for, bytes: as much of it as the system grants.
const RECEIVE_BUFFER: usize = 4 << 20;

/// Batches in which a full buffer is emptied: the kernel doubles what is asked for, and charges at least 512 bytes for a
/// datagram. Who takes so many has all that had arrived before, however fast more comes.
pub(crate) const FULL_BUFFER: usize = 2 * RECEIVE_BUFFER / 512 / MESSAGES;

/// A socket for datagrams with kernel stamps, which tells TTL, DSCP and ECN of what it receives.
pub(crate) struct ProbeSocket {
    socket: OwnedFd,
    v4: bool,
    dscp: u8,
    received: ReceiveBatch,
    errors: ReceiveBatch,
}

impl ProbeSocket {
    /// A bound UDP socket that sends with this code point.
    pub fn udp(local: SocketAddr, dscp: u8) -> Result<Self, SocketError> {
        Self::open(SocketType::DGRAM, rustix::net::ipproto::UDP, local, dscp)
    }

    /// A bound socket of another protocol.
    pub fn open(
        kind: SocketType,
        protocol: Protocol,
        local: SocketAddr,
        dscp: u8,
    ) -> Result<Self, SocketError> {
        let making = Making::open(kind, Some(protocol), local)?;
        making.dscp(dscp)?;
        making.number("SO_TIMESTAMPING", libc::SOL_SOCKET, libc::SO_TIMESTAMPING, STAMPS)?;
        if local.is_ipv4() {
            making.number("IP_RECVTTL", libc::IPPROTO_IP, libc::IP_RECVTTL, 1)?;
            making.number("IP_RECVTOS", libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
        } else {
            making.number("IPV6_RECVHOPLIMIT", libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, 1)?;
            making.number("IPV6_RECVTCLASS", libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
        }
        // What it has no room for is counted, so that less than was asked for costs a run and never a wrong number.
        let _ = sockopt::set_socket_recv_buffer_size_force(&making, RECEIVE_BUFFER)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(&making, RECEIVE_BUFFER));
        Ok(Self {
            socket: making.bound()?,
            v4: local.is_ipv4(),
            dscp,
            received: ReceiveBatch::new(LONGEST),
            errors: ReceiveBatch::new(1),
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
            let (level, name) = if self.v4 {
                (libc::IPPROTO_IP, libc::IP_TOS)
            } else {
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS)
            };
            set_option_int(&self.socket, level, name, i32::from(dscp) << 2)?;
            self.dscp = dscp;
        }
        Ok(())
    }

    /// Sends one datagram.
    pub fn send(&self, to: SocketAddr, bytes: &[u8]) -> io::Result<()> {
        let pieces = [IoSlice::new(bytes)];
        send_one(&self.socket, &Outgoing { to: Some(to), pieces: &pieces, segment: None })
    }

    /// Takes what has arrived, at most one batch; whether there may be more.
    pub fn receive(&mut self, mut each: impl FnMut(&Incoming<'_>)) -> io::Result<bool> {
        let count = match self.received.receive(&self.socket) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            other => other?,
        };
        (0..count).filter_map(|at| self.received.get(at)).for_each(|incoming| each(&incoming));
        Ok(count == MESSAGES)
    }

    /// Takes all transmit stamps that have come. There is an end of them: each is of a datagram that was sent before, and
    /// nothing else comes to this queue.
    pub fn transmit_stamps(&mut self, mut each: impl FnMut(TransmitStamp)) -> io::Result<()> {
        loop {
            let count = match self.errors.receive_errors(&self.socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                other => other?,
            };
            (0..count).filter_map(|at| self.errors.transmit_stamp(at)).for_each(&mut each);
        }
    }

    /// Datagrams that reached the host and that the socket had no room for.
    pub fn drops(&self) -> io::Result<u32> {
        let mut words = [0; SK_MEMINFO_DROPS + size_of::<u32>()];
        let len = option_bytes(&self.socket, libc::SOL_SOCKET, libc::SO_MEMINFO, &mut words)?;
        let drops = words[..len].get(SK_MEMINFO_DROPS..).and_then(|word| word.first_chunk());
        Ok(drops.copied().map_or(0, u32::from_ne_bytes))
    }
}

#[cfg(test)]
mod tests {
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
}
