//! Datagrams that are sent in groups.
//!
//! Most of the cost of a datagram is its path through the kernel. If sender and receiver are on one host, this path ends
//! at the socket of the receiver.
//! `UDP_SEGMENT` (udp(7)) sends several datagrams of equal length and destination along that path in one pass. To form
//! such groups, a datagram may overtake others, but never one with the same order key. Here, a *send* is one message of
//! sendmmsg(2): a datagram or a group.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::AsFd;

use smallvec::SmallVec;

use netrig_host::socket::is_segmentation_refused;
use netrig_host::sys::{MESSAGES, Outgoing, send_many};

/// Smallest group of datagrams that is sent with `UDP_SEGMENT`. Smaller groups save little.
const MIN_SEGMENTS: usize = 4;

/// Longest datagram that is sent with `UDP_SEGMENT`, bytes: the kernel refuses segments that exceed the MTU. With IPv6
/// the MTU is at least 1280 bytes (RFC 8200 section 5), of which 48 are headers.
const LONGEST_SEGMENT: usize = 1232;

/// A datagram to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutgoingDatagram<'a> {
    pub to: SocketAddr,
    pub bytes: &'a [u8],
    /// Datagrams with the same key keep their order. A datagram without a key keeps its place in the order of all
    /// datagrams.
    pub order_key: Option<u64>,
}

/// Result of a system call that sends datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendOutcome {
    /// The number of datagrams that the kernel took.
    Taken(usize),
    /// The kernel refused a group that was sent with `UDP_SEGMENT`. Each datagram of the group
    /// is then a send of its own.
    Split,
    /// As `Split`. The error suggests that the kernel cannot segment for this socket or this route.
    SegmentRefused,
}

impl SendOutcome {
    /// Number of datagrams that the kernel took.
    pub const fn count(self) -> usize {
        match self {
            Self::Taken(count) => count,
            Self::Split | Self::SegmentRefused => 0,
        }
    }
}

/// Datagrams that are being sent, at most [`MESSAGES`].
pub(super) struct SendBatch<'a> {
    datagrams: &'a [OutgoingDatagram<'a>],
    /// Indices into `datagrams` in the order of sending.
    order: [u8; MESSAGES],
    /// For each send, the index in `order` after its last datagram.
    ends: [u8; MESSAGES],
    sends: usize,
    /// Number of sends that the kernel has taken or refused. `sent_datagrams` is the number of datagrams in them.
    sent: usize,
    sent_datagrams: usize,
}

impl<'a> SendBatch<'a> {
    /// A batch that sends each datagram separately.
    pub fn unsegmented(datagrams: &'a [OutgoingDatagram<'a>]) -> Self {
        let order: [u8; MESSAGES] = std::array::from_fn(|at| at as u8);
        let ends = order.map(|at| at + 1);
        let sends = datagrams.len().min(MESSAGES);
        Self { datagrams, order, ends, sends, sent: 0, sent_datagrams: 0 }
    }

    /// A batch that sends datagrams of equal length and destination in groups where the order keys permit it. A group of
    /// fewer than [`MIN_SEGMENTS`] is sent one by one.
    pub fn segmented(datagrams: &'a [OutgoingDatagram<'a>]) -> Self {
        let mut batch = Self::unsegmented(datagrams);
        let (groups, count) = grouped(batch.datagrams);
        let (mut at, mut sends) = (0, 0);
        for group in 0..count {
            let start = at;
            for (place, _) in (0..).zip(groups).take(batch.sends).filter(|(_, own)| *own == group) {
                batch.order[at] = place;
                at += 1;
            }
            let step = if at - start < MIN_SEGMENTS { 1 } else { at - start };
            for end in (start + step..=at).step_by(step) {
                batch.ends[sends] = end as u8;
                sends += 1;
            }
        }
        batch.sends = sends;
        batch
    }

    /// Indices of the datagrams of the next `most` sends; empty if all have been sent.
    pub fn next(&self, most: usize) -> &[u8] {
        &self.order[self.sent_datagrams..self.start_of((self.sent + most).min(self.sends))]
    }

    /// The index in `order` of the first datagram of a send.
    const fn start_of(&self, send: usize) -> usize {
        if send == 0 { 0 } else { self.ends[send - 1] as usize }
    }

    /// Passes the next `most` sends to the kernel with one system call.
    ///
    /// # Errors
    /// The error of the first datagram, or ICMP's report on an earlier one.
    pub fn send(&mut self, socket: impl AsFd, most: usize) -> io::Result<SendOutcome> {
        let bytes = |place: &u8| IoSlice::new(self.datagrams[usize::from(*place)].bytes);
        let slices: SmallVec<[_; MESSAGES]> = self.next(most).iter().map(bytes).collect();
        let message = |send: usize| {
            let (start, end) = (self.start_of(send), self.start_of(send + 1));
            let first = self.datagrams[usize::from(self.order[start])];
            Outgoing {
                to: Some(first.to),
                pieces: &slices[start - self.sent_datagrams..end - self.sent_datagrams],
                // At most `LONGEST_SEGMENT`.
                segment: (end - start > 1).then_some(first.bytes.len() as u16),
            }
        };
        let last = (self.sent + most).min(self.sends);
        let messages: SmallVec<[_; MESSAGES]> = (self.sent..last).map(message).collect();
        let is_segmented = messages.first().is_some_and(|message| message.segment.is_some());
        match send_many(&socket, &messages) {
            Ok(sent) => {
                let before = self.sent_datagrams;
                self.sent += sent;
                self.sent_datagrams = self.start_of(self.sent);
                Ok(SendOutcome::Taken(self.sent_datagrams - before))
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(SendOutcome::Taken(0)),
            // Sending the datagrams one by one shows which of them causes the error, if any does.
            Err(error) if is_segmented => {
                self.split_first();
                Ok(if is_segmentation_refused(&error) {
                    SendOutcome::SegmentRefused
                } else {
                    SendOutcome::Split
                })
            }
            Err(error) => Err(error),
        }
    }

    /// Splits the next send into one send for each datagram.
    fn split_first(&mut self) {
        let end = self.start_of(self.sent + 1);
        let more = end - self.sent_datagrams - 1;
        self.ends.copy_within(self.sent + 1..self.sends, self.sent + 1 + more);
        self.sends += more;
        for (at, own) in (self.sent_datagrams + 1..=end).zip(&mut self.ends[self.sent..]) {
            *own = at as u8;
        }
    }

    /// Skips the next datagram, which has a send of its own. Returns its index.
    pub fn skip(&mut self) -> Option<usize> {
        let place = self.next(1).first().copied();
        self.sent += usize::from(place.is_some());
        self.sent_datagrams = self.start_of(self.sent);
        place.map(usize::from)
    }
}

/// Returns the group number of each datagram and the number of groups. Sending the groups in the order of their
/// numbers, each with its datagrams in their original order, keeps the order of the datagrams of each key.
fn grouped(datagrams: &[OutgoingDatagram<'_>]) -> ([u8; MESSAGES], u8) {
    let (mut groups, mut count) = ([0; MESSAGES], 0_u8);
    let mut firsts = [0; MESSAGES];
    // The first group that further datagrams may join.
    let mut barrier = 0;
    for (at, own) in datagrams.iter().enumerate().take(MESSAGES) {
        let same = || datagrams[..at].iter().rposition(|other| other.order_key == own.order_key);
        let earliest = match own.order_key {
            None => count.saturating_sub(1),
            Some(_) => same().map_or(0, |other| groups[other]),
        };
        let fits = |group: &u8| {
            let first: &OutgoingDatagram<'_> = &datagrams[firsts[usize::from(*group)]];
            first.to == own.to && first.bytes.len() == own.bytes.len() && own.bytes.len() <= LONGEST_SEGMENT
        };
        let group = (earliest.max(barrier)..count).rev().find(fits).unwrap_or_else(|| {
            firsts[usize::from(count)] = at;
            count += 1;
            count - 1
        });
        groups[at] = group;
        if own.order_key.is_none() {
            barrier = group;
        }
    }
    (groups, count)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// For any number of sends per call, each datagram arrives once and unchanged, and datagrams with the same key
        /// arrive in their order.
        #[test]
        fn every_datagram_is_sent_and_none_passes_its_order_key(
            drawn in proptest::collection::vec((0_usize..2, 1_usize..4, proptest::option::of(0_u64..3)), 0..MESSAGES),
            most in 1_usize..8,
        ) {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let peers = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
            let texts: Vec<Vec<u8>> = drawn.iter().zip(0..).map(|((_, len, _), at)| vec![at; *len]).collect();
            let datagrams: Vec<_> = drawn
                .iter()
                .zip(&texts)
                .map(|((peer, _, key), bytes)| OutgoingDatagram {
                    to: peers[*peer].local_addr().unwrap(),
                    bytes,
                    order_key: *key,
                })
                .collect();
            let mut batch = SendBatch::segmented(&datagrams);
            let mut left = Vec::new();
            while !batch.next(most).is_empty() {
                let next: Vec<usize> = batch.next(most).iter().map(|place| usize::from(*place)).collect();
                let taken = batch.send(&socket, most).unwrap().count();
                left.extend_from_slice(&next[..taken]);
            }
            let ordered = |key: Option<u64>| left.iter().filter(|at| drawn[**at].2 == key).is_sorted();
            prop_assert!((0..3).map(Some).chain([None]).all(ordered), "{left:?}");
            // A datagram without a key overtakes none and is overtaken by none.
            for (at, place) in left.iter().enumerate().filter(|(_, place)| drawn[**place].2.is_none()) {
                prop_assert!(left[..at].iter().all(|other| other < place), "{left:?}");
            }
            let mut arrived = [Vec::new(), Vec::new()];
            for place in left {
                arrived[drawn[place].0].push(&texts[place]);
            }
            for (peer, expected) in peers.iter().zip(arrived) {
                for bytes in expected {
                    let mut buffer = [0; 8];
                    let len = peer.recv(&mut buffer).unwrap();
                    prop_assert_eq!(&buffer[..len], &bytes[..]);
                }
            }
        }
    }

    #[test]
    fn datagrams_of_one_length_are_one_send() {
        let to = "127.0.0.1:9".parse().unwrap();
        let [short, long] = [&b"ab"[..], b"abc"];
        let batch: Vec<_> = (0..8)
            .map(|at| OutgoingDatagram { to, bytes: [short, long][at % 2], order_key: Some(at as u64 / 2) })
            .collect();
        let segmented = SendBatch::segmented(&batch);
        assert_eq!(
            (segmented.next(1), segmented.next(2)),
            (&[0, 2, 4, 6][..], &[0, 2, 4, 6, 1, 3, 5, 7][..])
        );
        assert_eq!(SendBatch::unsegmented(&batch).next(3), [0, 1, 2]);
    }

    /// `SO_NO_CHECK` of `asm-generic/socket.h`.
    const SO_NO_CHECK: i32 = 11;

    #[test]
    fn what_is_refused_together_is_sent_one_by_one() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        // The kernel does not segment for a socket that sends without checksums.
        netrig_host::sys::set_option_int(&socket, libc::SOL_SOCKET, SO_NO_CHECK, 1).unwrap();
        let batch =
            [OutgoingDatagram { to: peer.local_addr().unwrap(), bytes: b"four", order_key: Some(1) }; 4];
        let mut segmented = SendBatch::segmented(&batch);
        assert_eq!(segmented.send(&socket, 4).unwrap(), SendOutcome::SegmentRefused);
        assert_eq!(segmented.next(3).len(), 3);
        assert_eq!(segmented.send(&socket, 3).unwrap(), SendOutcome::Taken(3));
        assert_eq!((segmented.skip(), segmented.skip()), (Some(3), None));
        let mut buffer = [0; 8];
        assert!((0..3).all(|_| peer.recv(&mut buffer).unwrap() == 4));
    }
}
