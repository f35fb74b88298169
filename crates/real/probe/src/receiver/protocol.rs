//! What a probe and a receiver say to each other once they have greeted each other, in frames of the control protocol.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use super::MOST_BYTES;

/// What a receiver is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum ReceiverRequest {
    /// Answer at once.
    Ping,
    /// Take datagrams for at most so long, until told that all were sent; keep the first bytes of each.
    Receive { lasts_ms: u64, keep: u16 },
    /// All was sent; tell what came.
    Sent,
    /// Take what comes over so many connections, and throw it away.
    Sink { connections: u16, lasts_ms: u64 },
}

/// What a receiver answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum ReceiverReply {
    /// To a ping.
    Pong,
    /// The socket stands, at this port.
    Ready { port: u16 },
    /// So many datagrams came and follow, each as [`write_arrival`] writes it; so many more found no room in the socket. The
    /// wall clock, which stamps them, was stepped by so much meanwhile, if it was.
    Came { datagrams: u32, dropped: u32, stepped_ns: Option<u64> },
    /// So many bytes came over all connections.
    Sunk { bytes: u64 },
    /// It cannot be done.
    Error { why: String },
}

/// A datagram that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedDatagram {
    /// When the kernel received it, ns of the receiver's `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// Its length, however much of it was kept.
    pub len: u32,
    /// Its first bytes.
    pub head: Vec<u8>,
}

impl ReceivedDatagram {
    /// What each side may take to keep it, bytes.
    pub(super) fn cost(&self) -> usize {
        size_of::<Self>() + self.head.len()
    }
}

/// Arrivals that wait to be told, as [`write_arrival`] writes them. Each takes less than its [`ReceivedDatagram::cost`].
#[derive(Debug, Default)]
pub(super) struct ArrivalLog {
    count: u32,
    /// Of [`PIECE`] bytes each, all but the last full: one that grew would be copied, or have room for twice as much.
    pieces: Vec<Vec<u8>>,
}

/// Bytes of a piece of an [`ArrivalLog`].
const PIECE: usize = 64 << 10;

impl ArrivalLog {
    /// Keeps one more.
    ///
    /// # Errors
    /// If more of it was kept than can be told.
    pub fn push(&mut self, arrival: &ReceivedDatagram) -> io::Result<()> {
        write_arrival(self, arrival)?;
        self.count += 1;
        Ok(())
    }

    /// How many there are.
    pub const fn len(&self) -> u32 {
        self.count
    }

    /// Tells all of them.
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

/// Time, length, bytes that were kept: eight, four and two bytes, big-endian, and the bytes.
pub(super) fn write_arrival(stream: &mut impl Write, arrival: &ReceivedDatagram) -> io::Result<()> {
    let kept = u16::try_from(arrival.head.len()).map_err(io::Error::other)?;
    stream.write_all(&arrival.at_ns.to_be_bytes())?;
    stream.write_all(&arrival.len.to_be_bytes())?;
    stream.write_all(&kept.to_be_bytes())?;
    stream.write_all(&arrival.head)
}

/// Reads so many of them.
///
/// # Errors
/// If the stream breaks, or they are more than a receiver keeps.
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
            return Err(io::Error::other("the receiver tells of more than it may keep"));
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
            // Of long ones a few do.
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
