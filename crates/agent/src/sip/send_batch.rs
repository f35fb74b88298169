//! How datagrams that wait together leave.
//!
//! A datagram passes through the kernel at once, up to the socket of its receiver if that is on this host, and most of its cost is that
//! way. Datagrams of one length to one address may pass it in one piece, which the kernel cuts at its end (`UDP_SEGMENT`, udp(7)). To
//! make such pieces datagrams pass others, but none of its own series.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::AsFd;

use smallvec::SmallVec;

use crate::sys::{MESSAGES, Outgoing, send_many};

/// Datagrams that leave in one piece, at least. Fewer are hardly cheaper so.
const LEAST_TOGETHER: usize = 4;

/// The longest that leave in one piece, bytes: the kernel refuses those that do not fit into the MTU, which is 1280 bytes or more with IPv6
/// (RFC 8200 section 5), headers of 48 bytes included.
const LONGEST_TOGETHER: usize = 1232;

/// A datagram that is to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutgoingDatagram<'a> {
    pub to: SocketAddr,
    pub bytes: &'a [u8],
    /// Datagrams with the same number leave in their order. One without a number passes none, and none passes it.
    pub series: Option<u64>,
}

/// Datagrams that are being sent, at most [`MESSAGES`]: those that have not left, in pieces.
pub(super) struct Departures<'a> {
    datagrams: &'a [OutgoingDatagram<'a>],
    /// Places of the datagrams in the order in which they leave.
    order: [u8; MESSAGES],
    /// Where each piece ends in that order.
    ends: [u8; MESSAGES],
    pieces: usize,
    /// Pieces that have left, and the datagrams in them.
    gone: usize,
    gone_datagrams: usize,
    /// The kernel has refused a piece of several.
    pub is_refused: bool,
}

impl<'a> Departures<'a> {
    /// Each datagram in a piece of its own.
    pub fn one_by_one(datagrams: &'a [OutgoingDatagram<'a>]) -> Self {
        let order: [u8; MESSAGES] = std::array::from_fn(|at| at as u8);
        let ends = order.map(|at| at + 1);
        let pieces = datagrams.len().min(MESSAGES);
        Self { datagrams, order, ends, pieces, gone: 0, gone_datagrams: 0, is_refused: false }
    }

    /// In as few pieces as may be.
    pub fn together(datagrams: &'a [OutgoingDatagram<'a>]) -> Self {
        let mut departures = Self::one_by_one(datagrams);
        let (groups, count) = grouped(departures.datagrams);
        let (mut at, mut pieces) = (0, 0);
        for group in 0..count {
            let start = at;
            for (place, _) in (0..).zip(groups).take(departures.pieces).filter(|(_, own)| *own == group) {
                departures.order[at] = place;
                at += 1;
            }
            let step = if at - start < LEAST_TOGETHER { 1 } else { at - start };
            for end in (start + step..=at).step_by(step) {
                departures.ends[pieces] = end as u8;
                pieces += 1;
            }
        }
        departures.pieces = pieces;
        departures
    }

    /// Places of the datagrams of the next pieces, so many at most; none if all have left.
    pub fn next(&self, most: usize) -> &[u8] {
        let last = (self.gone + most).min(self.pieces);
        let end = last.checked_sub(1).map_or(0, |last| usize::from(self.ends[last]));
        &self.order[self.gone_datagrams..end.max(self.gone_datagrams)]
    }

    /// Gives the kernel the next pieces, so many at most, with one call. Returns how many datagrams it took, also none. An error is that of
    /// the first datagram: it may be what the network has said of an earlier one.
    pub fn send(&mut self, socket: impl AsFd, most: usize) -> io::Result<usize> {
        let bytes = |place: &u8| IoSlice::new(self.datagrams[usize::from(*place)].bytes);
        let slices: SmallVec<[_; MESSAGES]> = self.next(most).iter().map(bytes).collect();
        let first = |piece: usize| if piece == 0 { 0 } else { usize::from(self.ends[piece - 1]) };
        let message = |piece: usize| {
            let (start, end) = (first(piece), usize::from(self.ends[piece]));
            let datagram = self.datagrams[usize::from(self.order[start])];
            Outgoing {
                to: Some(datagram.to),
                pieces: &slices[start - self.gone_datagrams..end - self.gone_datagrams],
                // No longer than `LONGEST_TOGETHER`.
                segment: (end - start > 1).then_some(datagram.bytes.len() as u16),
            }
        };
        let last = (self.gone + most).min(self.pieces);
        let messages: SmallVec<[_; MESSAGES]> = (self.gone..last).map(message).collect();
        let is_several = messages.first().is_some_and(|message| message.segment.is_some());
        match send_many(&socket, &messages) {
            Ok(sent) => {
                let before = self.gone_datagrams;
                self.gone += sent;
                self.gone_datagrams = first(self.gone);
                Ok(self.gone_datagrams - before)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            // Which of them is at fault, and whether one is, each says by itself.
            Err(error) if is_several => {
                self.is_refused |= matches!(
                    error.raw_os_error(),
                    Some(libc::EINVAL | libc::EIO | libc::EMSGSIZE | libc::EOPNOTSUPP)
                );
                self.take_apart();
                Ok(0)
            }
            Err(error) => Err(error),
        }
    }

    /// Makes a piece of each datagram of the first piece.
    fn take_apart(&mut self) {
        let end = usize::from(self.ends[self.gone]);
        let more = end - self.gone_datagrams - 1;
        self.ends.copy_within(self.gone + 1..self.pieces, self.gone + 1 + more);
        self.pieces += more;
        for (at, own) in (self.gone_datagrams + 1..=end).zip(&mut self.ends[self.gone..]) {
            *own = at as u8;
        }
    }

    /// Gives up the first datagram. Returns its place.
    pub fn give_up(&mut self) -> Option<usize> {
        let place = self.next(1).first().copied();
        self.gone += usize::from(place.is_some());
        self.gone_datagrams += usize::from(place.is_some());
        place.map(usize::from)
    }
}

/// The group of each datagram, and how many groups there are. Groups in their order, and the datagrams of each in theirs, keep the order
/// of each series.
fn grouped(datagrams: &[OutgoingDatagram<'_>]) -> ([u8; MESSAGES], u8) {
    let (mut groups, mut count) = ([0; MESSAGES], 0_u8);
    let mut firsts = [0; MESSAGES];
    // None goes into an earlier group than this.
    let mut barrier = 0;
    for (at, own) in datagrams.iter().enumerate().take(MESSAGES) {
        let same = || datagrams[..at].iter().rposition(|other| other.series == own.series);
        let earliest = match own.series {
            None => count.saturating_sub(1),
            Some(_) => same().map_or(0, |other| groups[other]),
        };
        let fits = |group: &u8| {
            let first: &OutgoingDatagram<'_> = &datagrams[firsts[usize::from(*group)]];
            first.to == own.to && first.bytes.len() == own.bytes.len() && own.bytes.len() <= LONGEST_TOGETHER
        };
        let group = (earliest.max(barrier)..count).rev().find(fits).unwrap_or_else(|| {
            firsts[usize::from(count)] = at;
            count += 1;
            count - 1
        });
        groups[at] = group;
        if own.series.is_none() {
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
        /// Each datagram arrives once and whole, and those of a series in their order, however few the kernel takes with a call.
        #[test]
        fn every_datagram_leaves_and_none_passes_its_series(
            drawn in proptest::collection::vec((0_usize..2, 1_usize..4, proptest::option::of(0_u64..3)), 0..MESSAGES),
            most in 1_usize..8,
        ) {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let peers = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
            let texts: Vec<Vec<u8>> = drawn.iter().zip(0..).map(|((_, len, _), at)| vec![at; *len]).collect();
            let datagrams: Vec<_> = drawn
                .iter()
                .zip(&texts)
                .map(|((peer, _, series), bytes)| OutgoingDatagram {
                    to: peers[*peer].local_addr().unwrap(),
                    bytes,
                    series: *series,
                })
                .collect();
            let mut departures = Departures::together(&datagrams);
            let mut left = Vec::new();
            while !departures.next(most).is_empty() {
                let next: Vec<usize> = departures.next(most).iter().map(|place| usize::from(*place)).collect();
                let taken = departures.send(&socket, most).unwrap();
                left.extend_from_slice(&next[..taken]);
            }
            let ordered = |series: Option<u64>| left.iter().filter(|at| drawn[**at].2 == series).is_sorted();
            prop_assert!((0..3).map(Some).chain([None]).all(ordered), "{left:?}");
            // Whoever has no series passes none and is passed by none.
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
    fn datagrams_of_one_length_leave_in_one_piece() {
        let to = "127.0.0.1:9".parse().unwrap();
        let [short, long] = [&b"ab"[..], b"abc"];
        let batch: Vec<_> = (0..8)
            .map(|at| OutgoingDatagram { to, bytes: [short, long][at % 2], series: Some(at as u64 / 2) })
            .collect();
        let departures = Departures::together(&batch);
        assert_eq!(
            (departures.next(1), departures.next(2)),
            (&[0, 2, 4, 6][..], &[0, 2, 4, 6, 1, 3, 5, 7][..])
        );
        assert_eq!(Departures::one_by_one(&batch).next(3), [0, 1, 2]);
    }

    /// `SO_NO_CHECK` of `asm-generic/socket.h`.
    const SO_NO_CHECK: i32 = 11;

    #[test]
    fn what_is_refused_in_one_piece_is_sent_one_by_one() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        // The kernel cuts nothing for a socket that sends without checksums.
        crate::sys::set_option_int(&socket, libc::SOL_SOCKET, SO_NO_CHECK, 1).unwrap();
        let batch = [OutgoingDatagram { to: peer.local_addr().unwrap(), bytes: b"four", series: Some(1) }; 4];
        let mut departures = Departures::together(&batch);
        assert_eq!((departures.send(&socket, 4).unwrap(), departures.is_refused), (0, true));
        assert_eq!(departures.next(3).len(), 3);
        assert_eq!(departures.send(&socket, 3).unwrap(), 3);
        assert_eq!((departures.give_up(), departures.give_up()), (Some(3), None));
        let mut buffer = [0; 8];
        assert!((0..3).all(|_| peer.recv(&mut buffer).unwrap() == 4));
    }
}
