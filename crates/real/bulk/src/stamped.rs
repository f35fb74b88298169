//! A datagram socket that reports the arrival time of each datagram.

use std::io;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;

use netrig_core::Duration;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::SendFlags;

use super::arrival_clock::StampedBatch;
use netrig_host::realtime_nanos;
use netrig_host::socket::is_loss;

/// Maximum number of bytes that are kept of each datagram.
const KEPT: usize = 2048;

/// A received datagram.
#[derive(Clone, Copy, Debug)]
pub struct StampedDatagram<'a> {
    /// The first bytes of the datagram, at most 2048.
    pub bytes: &'a [u8],
    /// Arrival time, ns of `CLOCK_MONOTONIC`: the kernel's time stamp or, if there is none, the time of the read.
    pub at: u64,
    /// The same time as wall-clock time, ns since 1970.
    pub since_1970: u64,
}

/// Receives the datagrams of a [`datagram_socket`](super::datagram_socket) one by one, for low rates.
pub struct StampedSocket {
    socket: OwnedFd,
    batch: StampedBatch,
}

impl StampedSocket {
    /// Takes a connected socket.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn new(socket: UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self { socket: socket.into(), batch: StampedBatch::new(KEPT) })
    }

    /// Sends one datagram. If the buffer is full or the peer refuses it, the datagram is lost.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let lost = |error: &Errno| *error == Errno::AGAIN || is_loss(&(*error).into());
        match rustix::net::send(&self.socket, bytes, SendFlags::DONTWAIT) {
            Err(error) if !lost(&error) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Waits at most `within` for datagrams and passes the datagrams that have arrived to `each`.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn receive(&mut self, within: Duration, mut each: impl FnMut(StampedDatagram<'_>)) -> io::Result<()> {
        let timeout = Timespec::try_from(std::time::Duration::from_nanos(within.as_nanos()));
        let timeout = timeout.map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        self.batch.receive(&self.socket, |message, at, _| {
            let since_1970 = message.stamp.unwrap_or_else(realtime_nanos);
            message.datagrams().for_each(|(bytes, _)| each(StampedDatagram { bytes, at, since_1970 }));
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datagram_socket;
    use netrig_host::monotonic_nanos;
    use netrig_host::socket::Buffers;

    #[test]
    fn a_datagram_comes_with_its_moment() {
        let free = || UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (near, far) = (free(), free());
        let sender = StampedSocket::new(datagram_socket(near, far, Buffers::default()).unwrap()).unwrap();
        let mut receiver =
            StampedSocket::new(datagram_socket(far, near, Buffers::default()).unwrap()).unwrap();
        let mut got = Vec::new();
        receiver.receive(Duration::from_millis(1), |_| panic!("nothing was sent")).unwrap();
        let before = monotonic_nanos();
        sender.send(b"hello").unwrap();
        receiver
            .receive(Duration::from_secs(10), |stamped| got.push((stamped.bytes.to_vec(), stamped.at)))
            .unwrap();
        let [(bytes, at)] = &got[..] else { panic!("{got:?}") };
        // The offset between wall clock and monotonic clock is known with an error of a few microseconds.
        assert!(bytes == b"hello" && *at + 1_000_000 > before && *at < monotonic_nanos() + 1_000_000);
    }
}
