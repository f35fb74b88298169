//! The protocol between a probe and a receiver after the greeting. Its frames are those of the control protocol.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use super::MOST_BYTES;

/// A request to a receiver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum ReceiverRequest {
    /// Asks for an immediate answer.
    Ping,
    /// Asks the receiver to accept datagrams for at most `lasts_ms`, or until [`Self::Sent`], and to keep the first
    /// `keep` bytes of each.
    Receive { lasts_ms: u64, keep: u16 },
    /// States that all datagrams were sent, and asks for the report.
    Sent,
    /// Asks the receiver to accept this number of connections for at most `lasts_ms` and to discard their data.
    Sink { connections: u16, lasts_ms: u64 },
}

/// A reply of a receiver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum ReceiverReply {
    /// The answer to a ping.
    Pong,
    /// The socket is open on this port.
    Ready { port: u16 },
    /// `datagrams` is the number of arrived datagrams. They follow this reply, each in the format of [`write_arrival`].
    /// The socket dropped `dropped` more. `stepped_ns` is the step of the wall clock during the reception, if there was
    /// one. The times of the datagrams are computed from the kernel's time stamps, which are from the wall clock.
    Came { datagrams: u32, dropped: u32, stepped_ns: Option<u64> },
    /// This number of bytes arrived over all connections.
    Sunk { bytes: u64 },
    /// The request failed.
    Error { why: String },
}

/// A datagram that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedDatagram {
    /// Time of reception by the kernel, ns of the receiver's `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// Length of the whole datagram.
    pub len: u32,
    /// The first bytes of the datagram, as many as were kept.
    pub head: Vec<u8>,
}

impl ReceivedDatagram {
    /// Memory that each side accounts for the datagram, bytes.
    pub(super) fn cost(&self) -> usize {
        size_of::<Self>() + self.head.len()
    }
}

/// Encoded arrivals that are to be reported, in the format of [`write_arrival`]. Each takes less memory than its
/// [`ReceivedDatagram::cost`].
#[derive(Debug, Default)]
pub(super) struct ArrivalLog {
    count: u32,
    /// Blocks of [`PIECE`] bytes, all full except the last. A single growing buffer would be copied, or would have
    /// twice the necessary capacity.
    pieces: Vec<Vec<u8>>,
}

/// Bytes of a piece of an [`ArrivalLog`].
const PIECE: usize = 64 << 10;

impl ArrivalLog {
    /// Adds an arrival.
    ///
    /// Fails if more than 65,535 bytes of the datagram were kept.
    pub fn push(&mut self, arrival: &ReceivedDatagram) -> io::Result<()> {
        write_arrival(self, arrival)?;
        self.count += 1;
        Ok(())
    }

    /// Number of arrivals.
    pub const fn len(&self) -> u32 {
        self.count
    }

    /// Writes all arrivals.
    pub fn write_to(&self, stream: &mut impl Write) -> io::Result<()> {
        self.pieces.iter().try_for_each(|piece| stream.write_all(piece))
    }
}

impl Write for ArrivalLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.pieces.last().is_none_or(|piece| piece.len() == PIECE) {
            self.pieces.push(Vec::with_capacity(PIECE));
        }
        let Some(piece) = self.pieces.last_mut() else { return Ok(0) };
        let fits = bytes.len().min(PIECE - piece.len());
        piece.extend_from_slice(&bytes[..fits]);
        Ok(fits)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes the time in eight bytes, the length in four bytes, the number of kept bytes in two bytes, and then the kept
/// bytes. All numbers are big-endian.
pub(super) fn write_arrival(stream: &mut impl Write, arrival: &ReceivedDatagram) -> io::Result<()> {
    let kept = u16::try_from(arrival.head.len()).map_err(io::Error::other)?;
    stream.write_all(&arrival.at_ns.to_be_bytes())?;
    stream.write_all(&arrival.len.to_be_bytes())?;
    stream.write_all(&kept.to_be_bytes())?;
    stream.write_all(&arrival.head)
}

/// Reads `count` arrivals.
///
/// Fails if the connection fails, or if the arrivals take more memory than a receiver may keep.
pub(super) fn read_arrivals(stream: &mut impl Read, count: u32) -> io::Result<Vec<ReceivedDatagram>> {
    let mut arrivals = Vec::new();
    let mut cost = 0;
    for _ in 0..count {
        let mut fixed = [0; 14];
        stream.read_exact(&mut fixed)?;
        let [at, rest] = [&fixed[..8], &fixed[8..]];
        let at_ns = at.try_into().map_or(0, u64::from_be_bytes);
        let len = u32::from_be_bytes([rest[0], rest[1], rest[2], rest[3]]);
        let mut head = vec![0; u16::from_be_bytes([rest[4], rest[5]]).into()];
        stream.read_exact(&mut head)?;
        let arrival = ReceivedDatagram { at_ns, len, head };
        cost += arrival.cost();
        if cost > MOST_BYTES {
            return Err(io::Error::other("the receiver reports more than it may keep"));
        }
        arrivals.push(arrival);
    }
    Ok(arrivals)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn arrivals_survive_the_way(at_ns: u64, len: u32, head in proptest::collection::vec(any::<u8>(), 0..50)) {
            let arrival = ReceivedDatagram { at_ns, len, head };
            let mut bytes = Vec::new();
            write_arrival(&mut bytes, &arrival).unwrap();
            prop_assert_eq!(read_arrivals(&mut &bytes[..], 1).unwrap(), vec![arrival]);
            prop_assert!(read_arrivals(&mut &bytes[..], 2).is_err());
        }

        #[test]
        fn a_log_tells_all_arrivals_and_takes_no_more_than_they_may(
            lens in proptest::collection::vec(prop_oneof![Just(0), 0..50_usize, Just(65_507)], 1..40),
            times in 1..500_usize,
        ) {
            let arrivals: Vec<_> = lens
                .iter()
                .map(|len| ReceivedDatagram { at_ns: *len as u64, len: 7, head: vec![*len as u8; *len] })
                .collect();
            let mut log = ArrivalLog::default();
            // A few long datagrams are enough.
            let times = if lens.contains(&65_507) { 1 } else { times };
            for _ in 0..times {
                arrivals.iter().for_each(|arrival| log.push(arrival).unwrap());
            }
            let may: usize = arrivals.iter().map(ReceivedDatagram::cost).sum::<usize>() * times;
            let takes: usize = log.pieces.iter().map(Vec::capacity).sum();
            prop_assert!(takes <= may + PIECE, "{takes} B of {may} B");
            let mut written = Vec::new();
            log.write_to(&mut written).unwrap();
            let read = read_arrivals(&mut &written[..], log.len()).unwrap();
            prop_assert!(read.iter().eq(arrivals.iter().cycle().take(arrivals.len() * times)));
        }
    }

    #[test]
    fn a_far_end_cannot_make_us_keep_more_than_is_agreed() {
        let endless = io::repeat(0xFF);
        assert!(read_arrivals(&mut { endless }, u32::MAX).is_err());
    }
}
