//! Sends and receives many datagrams with one system call: `recvmmsg(2)` and `sendmmsg(2)`, with segmentation by the
//! kernel (`UDP_SEGMENT`, `UDP_GRO`: udp(7)).
//!
//! The kernel overwrites the lengths in the message headers, so the headers are built again for each call, on the
//! stack. Addresses and control messages are read as bytes.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

use super::extended_error::ExtendedError;
use super::socket_name::{NAME, decode_name};

/// Maximum messages of one call.
const BATCH: usize = 32;

/// Bytes for control messages: 64 for three time stamps, 48 for TTL and traffic class, 64 for an error, 24 for the segment length
/// and 24 for the count of drops.
const CONTROL: usize = 232;

/// A socket address in the kernel's format.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct AddressBytes([u8; NAME]);

/// Space for control messages, with the alignment of their headers.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct BatchControl([u8; CONTROL]);

/// A received message: a datagram, or several datagrams of one sender that the kernel coalesced (`UDP_GRO`).
#[derive(Debug)]
pub struct Incoming<'a> {
    /// The sender.
    pub from: SocketAddr,
    /// The first bytes of the message, as many as are kept.
    pub head: &'a [u8],
    /// The full length of the message, bytes.
    pub len: usize,
    /// The length of each datagram, bytes. The last datagram may be shorter.
    segment: usize,
    /// When the kernel received the message, ns of `CLOCK_REALTIME`.
    pub stamp: Option<u64>,
    /// TTL or hop limit, if the socket reports it (`IP_RECVTTL`, `IPV6_RECVHOPLIMIT`).
    pub ttl: Option<u8>,
    /// DSCP and ECN, if the socket reports them (`IP_RECVTOS`, `IPV6_RECVTCLASS`).
    pub class: Option<u8>,
    /// Number of datagrams that the socket dropped before this message. `None` if the socket does not report it or
    /// dropped none (`SO_RXQ_OVFL`).
    pub dropped: Option<u32>,
}

/// When a datagram was passed to the network device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransmitStamp {
    /// Number of datagrams that the socket had sent before (`SOF_TIMESTAMPING_OPT_ID`), modulo 2³².
    pub number: u32,
    /// Nanoseconds of `CLOCK_REALTIME`.
    pub at: u64,
}

/// An error about a sent datagram, from ICMP or from this host.
#[derive(Debug)]
pub struct QueuedError<'a> {
    /// The error and its origin.
    pub error: ExtendedError,
    /// The first bytes of the quoted part of the datagram, as many as are kept. For UDP, the quoted part starts with
    /// the payload. For ICMP and raw sockets, it starts with the header after the IP header.
    pub head: &'a [u8],
    /// Full length of the quoted part, bytes.
    pub len: usize,
    /// When the kernel received the error, ns of `CLOCK_REALTIME`.
    pub stamp: Option<u64>,
    /// TTL or hop limit of the ICMP packet, if the socket reports it.
    pub ttl: Option<u8>,
}

impl<'a> Incoming<'a> {
    /// The kept bytes and the full length of each datagram.
    pub fn datagrams(&self) -> impl Iterator<Item = (&'a [u8], usize)> {
        let (head, len, segment) = (self.head, self.len, self.segment.max(1));
        // An empty message is one empty datagram.
        (0..len.max(1)).step_by(segment).map(move |start| {
            let end = len.min(start + segment);
            (&head[start.min(head.len())..end.min(head.len())], end - start)
        })
    }
}

/// Buffers for a batch of received messages.
pub struct ReceiveBatch {
    keep: usize,
    buffers: Vec<u8>,
    names: [AddressBytes; BATCH],
    controls: [BatchControl; BATCH],
    /// For each message of the last call, its length and the length of its control messages.
    lengths: [(usize, usize); BATCH],
}

impl ReceiveBatch {
    /// Buffers that keep the first `keep` bytes of each message. `keep` must be at least 1.
    pub fn new(keep: usize) -> Self {
        assert!(keep > 0, "buffers of no bytes");
        let controls = [BatchControl([0; CONTROL]); BATCH];
        Self {
            keep,
            buffers: vec![0; keep * BATCH],
            names: [AddressBytes([0; NAME]); BATCH],
            controls,
            lengths: [(0, 0); BATCH],
        }
    }

    /// Receives the messages that wait in `socket`, up to a full batch. Returns their number, which may be zero.
    pub fn receive(&mut self, socket: impl AsFd) -> io::Result<usize> {
        self.take(BATCH, socket, 0)
    }

    /// Receives at most `most` messages that wait in `socket`. Returns their number, which may be zero.
    pub fn receive_up_to(&mut self, most: usize, socket: impl AsFd) -> io::Result<usize> {
        self.take(most.min(BATCH), socket, 0)
    }

    /// Receives the messages that wait in the error queue of `socket`, which include transmit time stamps. Returns their number.
    pub fn receive_errors(&mut self, socket: impl AsFd) -> io::Result<usize> {
        self.take(BATCH, socket, libc::MSG_ERRQUEUE)
    }

    #[expect(unsafe_code, reason = "no safe wrapper resets the lengths that the kernel overwrites")]
    fn take(&mut self, most: usize, socket: impl AsFd, queue: i32) -> io::Result<usize> {
        // One mutable borrow is split into the buffers. A new borrow of the whole vector for each buffer would
        // invalidate the earlier pointers.
        let mut buffers = self.buffers.chunks_exact_mut(self.keep);
        let mut vectors: [libc::iovec; BATCH] = std::array::from_fn(|_| {
            let buffer = buffers.next().unwrap_or_default();
            libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() }
        });
        // SAFETY: all zeros is a valid `mmsghdr`: null pointers and lengths of zero.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        let places = self.names.iter_mut().zip(&mut self.controls).zip(&mut vectors);
        for (header, ((name, control), vector)) in headers.iter_mut().zip(places) {
            let header = &mut header.msg_hdr;
            header.msg_name = name.0.as_mut_ptr().cast();
            header.msg_namelen = NAME as libc::socklen_t;
            header.msg_iov = vector;
            header.msg_iovlen = 1;
            header.msg_control = control.0.as_mut_ptr().cast();
            header.msg_controllen = CONTROL;
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC | queue;
        let fd = socket.as_fd().as_raw_fd();
        // SAFETY: the descriptor is borrowed; `most` is at most `BATCH`; each of the `BATCH` headers points to a name,
        // a vector with one buffer, as long as it says, and space for control messages, with their lengths, all of
        // which outlive the call; no time-out.
        let received =
            unsafe { libc::recvmmsg(fd, headers.as_mut_ptr(), most as _, flags as _, std::ptr::null_mut()) };
        let received = match usize::try_from(received) {
            Ok(received) => received,
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => 0,
                error => return Err(error),
            },
        };
        for (lengths, header) in self.lengths.iter_mut().zip(&headers[..received]) {
            *lengths = (header.msg_len as usize, header.msg_hdr.msg_controllen.min(CONTROL));
        }
        Ok(received)
    }

    /// The message with index `at` of the last call; `None` if its sender has no Internet address.
    pub fn get(&self, at: usize) -> Option<Incoming<'_>> {
        let len = self.lengths[at].0;
        let (from, head) = (decode_name(&self.names[at].0)?, self.head(at));
        let mut incoming =
            Incoming { from, head, len, segment: len, stamp: None, ttl: None, class: None, dropped: None };
        for (level, kind, content) in self.control_messages(at) {
            match (level, kind) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => incoming.stamp = stamp(content),
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                    incoming.dropped = content.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
                }
                (libc::SOL_UDP, libc::UDP_GRO) => incoming.segment = segment(content).unwrap_or(len),
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

    /// If the error with index `at` of the last call reports that a datagram could not be delivered: the destination
    /// and the first bytes of that datagram.
    pub fn undelivered(&self, at: usize) -> Option<(SocketAddr, &[u8])> {
        let error = self.extended_error(at).filter(ExtendedError::says_unreachable);
        let to = decode_name(&self.names[at].0).filter(|_| error.is_some())?;
        Some((to, self.head(at)))
    }

    /// The error with index `at` of the last call, if it is a transmit time stamp.
    pub fn transmit_stamp(&self, at: usize) -> Option<TransmitStamp> {
        let number = self.extended_error(at)?.stamped()?;
        Some(TransmitStamp { number, at: self.stamp(at)? })
    }

    /// The error with index `at` of the last call, if it is not a transmit time stamp.
    pub fn queued_error(&self, at: usize) -> Option<QueuedError<'_>> {
        let error = self.extended_error(at).filter(|error| error.stamped().is_none())?;
        let ttl = self.control_messages(at).find_map(|message| match message {
            (libc::IPPROTO_IP, libc::IP_TTL, content)
            | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, content) => small_number(content),
            _ => None,
        });
        let (len, head) = (self.lengths[at].0, self.head(at));
        Some(QueuedError { error, head, len, stamp: self.stamp(at), ttl })
    }

    fn control_messages(&self, at: usize) -> impl Iterator<Item = (i32, i32, &[u8])> {
        control_messages(&self.controls[at].0[..self.lengths[at].1])
    }

    fn extended_error(&self, at: usize) -> Option<ExtendedError> {
        self.control_messages(at).find_map(|message| match message {
            (libc::IPPROTO_IP, libc::IP_RECVERR, content)
            | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR, content) => ExtendedError::parse(content),
            _ => None,
        })
    }

    fn stamp(&self, at: usize) -> Option<u64> {
        self.control_messages(at).find_map(|message| match message {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, content) => stamp(content),
            _ => None,
        })
    }

    /// The kept bytes of the message with index `at` of the last call.
    fn head(&self, at: usize) -> &[u8] {
        &self.buffers[at * self.keep..][..self.lengths[at].0.min(self.keep)]
    }
}

/// Parses an `int`; `None` if it does not fit into eight bits.
fn small_number(content: &[u8]) -> Option<u8> {
    u8::try_from(i32::from_ne_bytes(*content.first_chunk()?)).ok()
}

/// The control messages in `bytes`, each with its level, its type and its content (cmsg(3)).
pub(super) fn control_messages(mut bytes: &[u8]) -> impl Iterator<Item = (i32, i32, &[u8])> {
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

/// The software time stamp in `SCM_TIMESTAMPING`, ns: the first of three `timespec`s. `None` if it is zero, which means
/// that there is no time stamp.
pub(super) fn stamp(content: &[u8]) -> Option<u64> {
    let seconds = u64::from_ne_bytes(*content.first_chunk()?);
    let nanos = u64::from_ne_bytes(*content.get(size_of::<u64>()..)?.first_chunk()?);
    let at = seconds.checked_mul(1_000_000_000)?.checked_add(nanos)?;
    (at > 0).then_some(at)
}

/// Parses the length of each coalesced datagram, which is an `int`.
fn segment(content: &[u8]) -> Option<usize> {
    usize::try_from(i32::from_ne_bytes(*content.first_chunk()?)).ok()
}

/// An address in the kernel's format, and its length.
fn encode_name(to: SocketAddr) -> (AddressBytes, libc::socklen_t) {
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
    (AddressBytes(name), len as libc::socklen_t)
}

/// A message to one address: one datagram, or several datagrams of one length, into which the kernel splits the bytes
/// (`UDP_SEGMENT`, udp(7)).
pub struct Outgoing<'a> {
    /// The destination; `None` if the socket is connected to it.
    pub to: Option<SocketAddr>,
    /// The bytes, in any number of pieces.
    pub pieces: &'a [IoSlice<'a>],
    /// Payload of each datagram except the last, if there are several, bytes.
    pub segment: Option<u16>,
}

/// Maximum number of messages in one call of [`send_many`].
pub const MESSAGES: usize = BATCH;

/// Sends one message. Returns the error if the kernel did not accept the message.
pub fn send_one(socket: impl AsFd, message: &Outgoing) -> io::Result<()> {
    send_up_to::<1>(socket, std::slice::from_ref(message)).map(drop)
}

/// Sends at most [`MESSAGES`] messages. Returns how many messages the kernel accepted, at least one. The kernel stops
/// when the send buffer is full.
pub fn send_many(socket: impl AsFd, messages: &[Outgoing]) -> io::Result<usize> {
    // If a call has few messages, clearing the space of many headers would delay it.
    if messages.len() <= FEW {
        send_up_to::<FEW>(socket, messages)
    } else {
        send_up_to::<MESSAGES>(socket, messages)
    }
}

/// Usual maximum number of messages that are due within a few microseconds.
const FEW: usize = 4;

/// Sends at most `N` messages. Their headers are on the stack, so a small `N` needs less space.
#[expect(unsafe_code, reason = "no safe wrapper sends several messages, or says how they are to be cut")]
fn send_up_to<const N: usize>(socket: impl AsFd, messages: &[Outgoing]) -> io::Result<usize> {
    let messages = &messages[..messages.len().min(N)];
    let mut names = [(AddressBytes([0; NAME]), 0); N];
    let mut controls = [SegmentControl([0; SEGMENT]); N];
    // SAFETY: all zeros is a valid `mmsghdr`: null pointers and lengths of zero.
    let mut headers: [libc::mmsghdr; N] = unsafe { std::mem::zeroed() };
    for (at, message) in messages.iter().enumerate() {
        let header = &mut headers[at].msg_hdr;
        if let Some(to) = message.to {
            names[at] = encode_name(to);
            header.msg_name = names[at].0.0.as_mut_ptr().cast();
            header.msg_namelen = names[at].1;
        }
        // An `IoSlice` is an `iovec` (its documentation promises so), which is only read.
        header.msg_iov = message.pieces.as_ptr().cast_mut().cast();
        header.msg_iovlen = message.pieces.len();
        if let Some(segment) = message.segment {
            controls[at] = encode_segment(segment);
            header.msg_control = controls[at].0.as_mut_ptr().cast();
            header.msg_controllen = SEGMENT;
        }
    }
    let fd = socket.as_fd().as_raw_fd();
    let flags = libc::MSG_DONTWAIT;
    // SAFETY: the descriptor is borrowed; each of the first `messages.len()` headers points to borrowed pieces and
    // possibly to a name and a control message, with their lengths, which outlive the call and which the kernel only reads.
    let sent = unsafe { libc::sendmmsg(fd, headers.as_mut_ptr(), messages.len() as _, flags as _) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Bytes of the control message `UDP_SEGMENT`: its header, a 16-bit number, and room up to the next word.
const SEGMENT: usize = size_of::<libc::cmsghdr>() + size_of::<usize>();

/// Space for the control message `UDP_SEGMENT`, with the alignment of its header.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct SegmentControl([u8; SEGMENT]);

fn encode_segment(segment: u16) -> SegmentControl {
    const HEADER: usize = size_of::<libc::cmsghdr>();
    const LEVEL: usize = size_of::<usize>();
    let mut bytes = [0; SEGMENT];
    bytes[..LEVEL].copy_from_slice(&(HEADER + size_of::<u16>()).to_ne_bytes());
    bytes[LEVEL..LEVEL + 4].copy_from_slice(&libc::SOL_UDP.to_ne_bytes());
    bytes[LEVEL + 4..HEADER].copy_from_slice(&libc::UDP_SEGMENT.to_ne_bytes());
    bytes[HEADER..HEADER + 2].copy_from_slice(&segment.to_ne_bytes());
    SegmentControl(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use std::net::{Ipv6Addr, SocketAddrV6};

    use super::*;

    /// Each datagram has its own buffer, in which it is truncated to the kept length.
    #[test]
    fn every_datagram_has_its_buffer() {
        let [near, far] = [(); 2].map(|()| std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
        let mut batch = ReceiveBatch::new(2);
        for round in [0, 100] {
            for number in 0..BATCH as u8 + 1 {
                far.send_to(
                    &[round + number, number, 7][..1 + usize::from(number) % 3],
                    near.local_addr().unwrap(),
                )
                .unwrap();
            }
            assert_eq!(batch.receive(&near).unwrap(), BATCH);
            for number in 0..BATCH {
                let incoming = batch.get(number).unwrap();
                let expected = [round + number as u8, number as u8];
                assert_eq!(
                    (incoming.head, incoming.len),
                    (&expected[..(1 + number % 3).min(2)], 1 + number % 3)
                );
            }
            assert_eq!(batch.receive(&near).unwrap(), 1);
        }
    }

    #[test]
    #[should_panic(expected = "buffers of no bytes")]
    fn buffers_of_no_bytes_are_none() {
        ReceiveBatch::new(0);
    }

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

        /// Coalesced datagrams are split at every segment without loss of bytes, for any kept length.
        #[test]
        fn datagrams_that_were_put_together_come_apart(len in 0_usize..3000, kept in 0_usize..4000, segment in 1_usize..1500) {
            let bytes: Vec<u8> = (0..len).map(|at| at as u8).collect();
            let head = &bytes[..kept.min(len)];
            let from = ([127, 0, 0, 1], 1).into();
            let piece = Incoming { from, head, len, segment, stamp: None, ttl: None, class: None, dropped: None };
            let parts: Vec<_> = piece.datagrams().collect();
            prop_assert_eq!(parts.iter().map(|(_, len)| len).sum::<usize>(), len);
            prop_assert_eq!(parts.iter().flat_map(|(head, _)| head.to_vec()).collect::<Vec<_>>(), head);
            prop_assert!(parts.iter().rev().skip(1).all(|(_, len)| *len == segment));
            prop_assert_eq!(parts.len(), len.div_ceil(segment).max(1));
        }

        #[test]
        fn the_length_of_segments_is_read_as_it_is_written(length: u16) {
            let bytes = encode_segment(length).0;
            let (level, kind, content) = control_messages(&bytes).next().unwrap();
            prop_assert_eq!((level, kind), (libc::SOL_UDP, libc::UDP_SEGMENT));
            prop_assert_eq!(content, length.to_ne_bytes());
        }

        /// Parsing terminates for any bytes.
        #[test]
        fn any_control_bytes_are_read_to_their_end(bytes in proptest::collection::vec(any::<u8>(), 0..CONTROL)) {
            prop_assert!(control_messages(&bytes).count() <= CONTROL);
        }
    }
}
