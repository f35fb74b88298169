//! Many datagrams with one system call: `recvmmsg(2)` and `sendmmsg(2)`.
//!
//! The kernel overwrites the lengths in the headers that it is given, so they are made anew for each call, on the stack;
//! what it writes into the buffers is read as bytes.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd};

/// Datagrams that one call takes or gives.
const BATCH: usize = 32;
/// Bytes kept of a socket address: as long as the longest, `sockaddr_in6`.
const NAME: usize = size_of::<libc::sockaddr_in6>();
/// Bytes for control messages: three time stamps need 64 of them, TTL and traffic class 48, an error report 64.
const CONTROL: usize = 192;

/// A socket address as the kernel has it.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Name([u8; NAME]);

/// Space for control messages, aligned as their headers are.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// One datagram that was received.
#[derive(Debug)]
pub(crate) struct Incoming<'a> {
    /// Its sender.
    pub from: SocketAddr,
    /// Its first bytes, as many as were kept.
    pub head: &'a [u8],
    /// Its length, however much of it was kept.
    pub len: usize,
    /// When the kernel received it, nanoseconds of `CLOCK_REALTIME`.
    pub stamp: Option<u64>,
    /// Its TTL or hop limit, if the socket was asked to tell (`IP_RECVTTL`, `IPV6_RECVHOPLIMIT`).
    pub ttl: Option<u8>,
    /// Its DSCP and ECN, if the socket was asked to tell (`IP_RECVTOS`, `IPV6_RECVTCLASS`).
    pub class: Option<u8>,
}

/// When a datagram was given to the network's device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TransmitStamp {
    /// How many datagrams the socket had sent before it (`SOF_TIMESTAMPING_OPT_ID`), modulo 2³².
    pub number: u32,
    /// Nanoseconds of `CLOCK_REALTIME`.
    pub at: u64,
}

/// Buffers for receiving.
pub(crate) struct ReceiveBatch {
    keep: usize,
    buffers: Vec<u8>,
    names: [Name; BATCH],
    controls: [Control; BATCH],
    /// Of each datagram of the last call, its length and that of its control messages.
    lengths: [(usize, usize); BATCH],
}

impl ReceiveBatch {
    /// Buffers that keep the first `keep` bytes of each datagram.
    pub fn new(keep: usize) -> Self {
        let controls = [Control([0; CONTROL]); BATCH];
        Self {
            keep,
            buffers: vec![0; keep * BATCH],
            names: [Name([0; NAME]); BATCH],
            controls,
            lengths: [(0, 0); BATCH],
        }
    }

    /// Takes what waits in `socket`, as many as one call can; how many.
    pub fn receive(&mut self, socket: impl AsFd) -> io::Result<usize> {
        self.take(socket, 0)
    }

    /// Takes what waits in the error queue of `socket`, where transmit stamps come; how many.
    pub fn receive_errors(&mut self, socket: impl AsFd) -> io::Result<usize> {
        self.take(socket, libc::MSG_ERRQUEUE)
    }

    #[expect(unsafe_code, reason = "no safe wrapper resets the lengths that the kernel overwrites")]
    fn take(&mut self, socket: impl AsFd, queue: i32) -> io::Result<usize> {
        let mut vectors: [libc::iovec; BATCH] = std::array::from_fn(|at| libc::iovec {
            iov_base: self.buffers[at * self.keep..].as_mut_ptr().cast(),
            iov_len: self.keep,
        });
        // SAFETY: all zeros is a valid `mmsghdr`: null pointers and lengths of zero.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        for (at, header) in headers.iter_mut().enumerate() {
            let header = &mut header.msg_hdr;
            header.msg_name = self.names[at].0.as_mut_ptr().cast();
            header.msg_namelen = NAME as libc::socklen_t;
            header.msg_iov = &raw mut vectors[at];
            header.msg_iovlen = 1;
            header.msg_control = self.controls[at].0.as_mut_ptr().cast();
            header.msg_controllen = CONTROL;
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC | queue;
        let fd = socket.as_fd().as_raw_fd();
        // SAFETY: the descriptor is borrowed; each of the `BATCH` headers points to a name, a vector with one buffer of
        // `keep` bytes and space for control messages, with their lengths, all of which outlive the call; no time-out.
        let received =
            unsafe { libc::recvmmsg(fd, headers.as_mut_ptr(), BATCH as _, flags as _, std::ptr::null_mut()) };
        let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        for (lengths, header) in self.lengths.iter_mut().zip(&headers[..received]) {
            *lengths = (header.msg_len as usize, header.msg_hdr.msg_controllen.min(CONTROL));
        }
        Ok(received)
    }

    /// Number `at` of the last call's datagrams; nothing of one without an Internet address.
    pub fn get(&self, at: usize) -> Option<Incoming<'_>> {
        let (len, control) = self.lengths[at];
        let from = decode_name(&self.names[at].0)?;
        let head = &self.buffers[at * self.keep..][..len.min(self.keep)];
        let mut incoming = Incoming { from, head, len, stamp: None, ttl: None, class: None };
        for (level, kind, content) in control_messages(&self.controls[at].0[..control]) {
            match (level, kind) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => incoming.stamp = stamp(content),
                (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                    incoming.ttl = small_number(content);
                }
                (libc::IPPROTO_IP, libc::IP_TOS) => incoming.class = content.first().copied(),
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => incoming.class = small_number(content),
                _ => {}
            }
        }
        Some(incoming)
    }

    /// The transmit stamp that number `at` of the last call's errors is, if it is one.
    pub fn transmit_stamp(&self, at: usize) -> Option<TransmitStamp> {
        let (mut number, mut when) = (None, None);
        for (level, kind, content) in control_messages(&self.controls[at].0[..self.lengths[at].1]) {
            match (level, kind) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => when = stamp(content),
                (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
                    number = stamped_number(content);
                }
                _ => {}
            }
        }
        Some(TransmitStamp { number: number?, at: when? })
    }
}

/// An `int` that fits into eight bits.
fn small_number(content: &[u8]) -> Option<u8> {
    u8::try_from(i32::from_ne_bytes(*content.first_chunk()?)).ok()
}

/// Which datagram the stamp of a `sock_extended_err` is of (Documentation/networking/timestamping): `ee_origin`, the fifth
/// octet, says that it is about a stamp, `ee_info` at 8 that it was made when the datagram went to the device, `ee_data` at 12
/// which it was.
fn stamped_number(content: &[u8]) -> Option<u32> {
    const ORIGIN_TIMESTAMPING: u8 = 4;
    const STAMPED_WHEN_SENT: u32 = 0;
    let word = |at: usize| Some(u32::from_ne_bytes(*content.get(at..)?.first_chunk()?));
    (*content.get(4)? == ORIGIN_TIMESTAMPING && word(8)? == STAMPED_WHEN_SENT).then(|| word(12))?
}

/// The control messages in `bytes`, each with its level, its type and its content (cmsg(3)).
fn control_messages(mut bytes: &[u8]) -> impl Iterator<Item = (i32, i32, &[u8])> {
    const HEADER: usize = size_of::<libc::cmsghdr>();
    const LEVEL: usize = size_of::<usize>();
    std::iter::from_fn(move || {
        let len = usize::from_ne_bytes(*bytes.first_chunk()?);
        let level = i32::from_ne_bytes(*bytes.get(LEVEL..)?.first_chunk()?);
        let kind = i32::from_ne_bytes(*bytes.get(LEVEL + size_of::<i32>()..)?.first_chunk()?);
        let content = bytes.get(HEADER..len)?;
        bytes = bytes.get(len.next_multiple_of(size_of::<usize>())..).unwrap_or(&[]);
        Some((level, kind, content))
    })
}

/// The software stamp of `SCM_TIMESTAMPING`: the first of three `timespec`s, all zeros if there is none.
fn stamp(content: &[u8]) -> Option<u64> {
    let seconds = u64::from_ne_bytes(*content.first_chunk()?);
    let nanos = u64::from_ne_bytes(*content.get(size_of::<u64>()..)?.first_chunk()?);
    let at = seconds.checked_mul(1_000_000_000)?.checked_add(nanos)?;
    (at > 0).then_some(at)
}

/// A `sockaddr_in` or `sockaddr_in6` (ip(7), ipv6(7)).
fn decode_name(name: &[u8; NAME]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes([name[0], name[1]]));
    let port = u16::from_be_bytes([name[2], name[3]]);
    match family {
        libc::AF_INET => {
            let address: [u8; 4] = *name[4..].first_chunk()?;
            Some((Ipv4Addr::from(address), port).into())
        }
        libc::AF_INET6 => {
            let address: [u8; 16] = *name[8..].first_chunk()?;
            let scope = u32::from_ne_bytes(*name[24..].first_chunk()?);
            Some(SocketAddrV6::new(Ipv6Addr::from(address), port, 0, scope).into())
        }
        _ => None,
    }
}

/// The bytes of an address as the kernel wants it, and how many count.
fn encode_name(to: SocketAddr) -> (Name, libc::socklen_t) {
    let mut name = [0; NAME];
    let family = if to.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    name[..2].copy_from_slice(&(family as libc::sa_family_t).to_ne_bytes());
    name[2..4].copy_from_slice(&to.port().to_be_bytes());
    let len = match to {
        SocketAddr::V4(to) => {
            name[4..8].copy_from_slice(&to.ip().octets());
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(to) => {
            name[8..24].copy_from_slice(&to.ip().octets());
            name[24..28].copy_from_slice(&to.scope_id().to_ne_bytes());
            size_of::<libc::sockaddr_in6>()
        }
    };
    (Name(name), len as libc::socklen_t)
}

/// Datagrams to be sent: each a head of its own and a body, which may be shared.
pub(crate) struct SendBatch;

impl SendBatch {
    /// As many as one call takes.
    pub const LIMIT: usize = BATCH;

    /// Sends datagrams, at most [`SendBatch::LIMIT`] of them; how many the kernel took before there was no room, at least
    /// one.
    #[expect(unsafe_code, reason = "one call for datagrams to several addresses")]
    pub fn send(socket: impl AsFd, datagrams: &[(SocketAddr, &[u8], &[u8])]) -> io::Result<usize> {
        let datagrams = &datagrams[..datagrams.len().min(BATCH)];
        let mut names = [(Name([0; NAME]), 0); BATCH];
        let empty = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let mut vectors = [[empty; 2]; BATCH];
        // SAFETY: all zeros is a valid `mmsghdr`: null pointers and lengths of zero.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        for (at, (to, head, body)) in datagrams.iter().enumerate() {
            names[at] = encode_name(*to);
            vectors[at] = [head, body]
                .map(|part| libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() });
            let header = &mut headers[at].msg_hdr;
            header.msg_name = names[at].0.0.as_mut_ptr().cast();
            header.msg_namelen = names[at].1;
            header.msg_iov = vectors[at].as_mut_ptr();
            header.msg_iovlen = 2;
        }
        let fd = socket.as_fd().as_raw_fd();
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: the descriptor is borrowed; each of the first `datagrams.len()` headers points to a name and two vectors
        // over borrowed bytes, which outlive the call and which the kernel only reads.
        let sent = unsafe { libc::sendmmsg(fd, headers.as_mut_ptr(), datagrams.len() as _, flags as _) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_address_survives_the_kernels_form(v4: bool, octets: [u8; 16], port: u16, scope: u32) {
            let to = if v4 {
                let [a, b, c, d, ..] = octets;
                SocketAddr::from(([a, b, c, d], port))
            } else {
                SocketAddrV6::new(Ipv6Addr::from(octets), port, 0, scope).into()
            };
            prop_assert_eq!(decode_name(&encode_name(to).0.0), Some(to));
        }

        /// Whatever stands there, reading ends.
        #[test]
        fn any_control_bytes_are_read_to_their_end(bytes in proptest::collection::vec(any::<u8>(), 0..CONTROL)) {
            prop_assert!(control_messages(&bytes).count() <= CONTROL);
        }
    }
}
