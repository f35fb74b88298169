//! The stamp in the first bytes of a datagram.

use std::sync::Arc;

use netrig_core::{Data, DatagramId, Duration, Instant};

/// Length of the stamp, bytes.
pub const STAMP_LEN: usize = 28;

/// Length of the short stamp, for datagrams without room for the full stamp, bytes. It is also the length of the
/// shortest datagram that can be sent, in an IPv4 packet of 40 bytes.
pub const SHORT_LEN: usize = 12;

/// First bytes of a full stamp. The last byte is the version of the format.
const MAGIC: [u8; 3] = [0x6E, 0x72, 1];

/// First bytes of a short stamp.
const SHORT_MAGIC: [u8; 3] = [0x6E, 0x72, 0x81];

/// The stamp at the beginning of every datagram, in network byte order.
///
/// | bytes | what |
/// |---|---|
/// | 0–2 | `n`, `r`, the format's version: 1 |
/// | 3 | 0 if the rest is fill without meaning, 1 if it is content, 2 if it is an answer |
/// | 4–7 | the flow's number |
/// | 8–15 | the datagram's number in its flow, from 0 |
/// | 16–23 | the time at which it was passed to the kernel, ns since the start of the run |
/// | 24–27 | its delay after the intended send time, ns, at most 4.29 s |
///
/// In an answer, 16 bytes follow the stamp: the number and the send time of the answered datagram.
///
/// A datagram that is shorter than the stamp has a short stamp instead, which contains only the lowest bits of each
/// value: bytes 0–2 are `n`, `r`, 0x81; byte 3 is the flow's number; bytes 4–7 are the datagram's number; bytes 8–11
/// are the send time. The values are unambiguous if the transit time is below 2.1 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramStamp {
    /// The flow's number.
    pub flow: u32,
    /// The datagram's number in the flow, from 0.
    pub number: u64,
    /// When the datagram was passed to the kernel.
    pub sent: Instant,
    /// Delay of `sent` after the send time that the application intended.
    pub late: Duration,
    /// Kind of the bytes after the stamp.
    pub rest: PayloadKind,
}

/// Kind of the bytes after a stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PayloadKind {
    /// Fill: bytes without meaning.
    Fill = 0,
    /// Content for the receiving application.
    Content = 1,
    /// The identifier of the answered datagram, then fill.
    Answer = 2,
}

impl PayloadKind {
    const fn of(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Fill),
            1 => Some(Self::Content),
            2 => Some(Self::Answer),
            _ => None,
        }
    }
}

impl DatagramStamp {
    /// Encodes the full stamp.
    pub fn encode(&self) -> [u8; STAMP_LEN] {
        let late = u32::try_from(self.late.as_nanos()).unwrap_or(u32::MAX);
        let mut bytes = [0; STAMP_LEN];
        bytes[..3].copy_from_slice(&MAGIC);
        bytes[3] = self.rest as u8;
        bytes[4..8].copy_from_slice(&self.flow.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.number.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.sent.as_nanos().to_be_bytes());
        bytes[24..].copy_from_slice(&late.to_be_bytes());
        bytes
    }

    /// The stamp in the first bytes of a datagram; `None` if there is none.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; STAMP_LEN] = bytes.first_chunk()?;
        let number = |at: usize| bytes[at..].first_chunk().map(|chunk| u64::from_be_bytes(*chunk));
        let half = |at: usize| bytes[at..].first_chunk().map(|chunk| u32::from_be_bytes(*chunk));
        if bytes[..3] != MAGIC {
            return None;
        }
        Some(Self {
            flow: half(4)?,
            number: number(8)?,
            sent: Instant::from_nanos(number(16)?),
            late: Duration::from_nanos(half(24)?.into()),
            rest: PayloadKind::of(bytes[3])?,
        })
    }

    /// Encodes the short stamp.
    pub fn encode_short(&self) -> [u8; SHORT_LEN] {
        let mut bytes = [0; SHORT_LEN];
        bytes[..3].copy_from_slice(&SHORT_MAGIC);
        bytes[3] = self.flow as u8;
        bytes[4..8].copy_from_slice(&(self.number as u32).to_be_bytes());
        bytes[8..].copy_from_slice(&(self.sent.as_nanos() as u32).to_be_bytes());
        bytes
    }

    /// The short stamp in the first bytes of a datagram that arrived at `at`. `expected` is the number of the datagram
    /// of `flow` that should arrive next. `None` if there is no short stamp, or it belongs to another flow. `late` is
    /// zero, because a short stamp does not contain it.
    pub fn decode_short(bytes: &[u8], flow: u32, at: Instant, expected: u64) -> Option<Self> {
        let bytes: &[u8; SHORT_LEN] = bytes.first_chunk()?;
        let half = |at: usize| bytes[at..].first_chunk().map(|chunk| u32::from_be_bytes(*chunk));
        if bytes[..3] != SHORT_MAGIC || bytes[3] != flow as u8 {
            return None;
        }
        // The number and the time with these lowest bits that are nearest to the expected values.
        let ahead = half(4)?.wrapping_sub(expected as u32).cast_signed();
        let ago = (at.as_nanos() as u32).wrapping_sub(half(8)?).cast_signed();
        let number = expected.checked_add_signed(ahead.into())?;
        let sent = Instant::from_nanos(at.as_nanos().saturating_add_signed(-i64::from(ago)));
        Some(Self { flow, number, sent, late: Duration::ZERO, rest: PayloadKind::Fill })
    }

    /// When the application intended to send the datagram. Correct if the datagram was less than 4.29 s late.
    pub fn intended(&self) -> Instant {
        Instant::from_nanos(self.sent.as_nanos().saturating_sub(self.late.as_nanos()))
    }
}

/// The part of a datagram after its stamp, for the application's `data`. Fill is shortened by the length of the stamp,
/// so that the datagram has the length of `data`. Content keeps all its bytes, so the datagram is longer than `data` by
/// the stamp.
///
/// `None` if the fill is shorter than a short stamp.
pub fn body(data: Data) -> Option<DatagramBody> {
    match data {
        Data::Fill(size) if size < SHORT_LEN as u64 => None,
        Data::Fill(size) => Some(
            size.checked_sub(STAMP_LEN as u64).map_or(DatagramBody::Short(size as usize), DatagramBody::Fill),
        ),
        Data::Bytes(bytes) => Some(DatagramBody::Content(bytes)),
    }
}

/// Length of the answered datagram's identifier, bytes.
const ANSWERED_LEN: usize = 16;

/// The part after the stamp of an answer of `size` bytes in total; `None` if `size` is too small.
pub fn answer_body(answered: DatagramId, size: u64) -> Option<DatagramBody> {
    let len = usize::try_from(size).ok()?.checked_sub(STAMP_LEN)?;
    let mut bytes = vec![0; len];
    bytes.get_mut(..8)?.copy_from_slice(&answered.number.to_be_bytes());
    bytes.get_mut(8..ANSWERED_LEN)?.copy_from_slice(&answered.sent.as_nanos().to_be_bytes());
    Some(DatagramBody::Content(bytes.into()))
}

/// Parses the identifier of the answered datagram from the bytes of an answer, including its stamp; `None` if the
/// answer is too short.
pub fn answered(bytes: &[u8]) -> Option<DatagramId> {
    let number =
        |at: usize| bytes.get(STAMP_LEN + at..)?.first_chunk().map(|chunk| u64::from_be_bytes(*chunk));
    Some(DatagramId { number: number(0)?, sent: Instant::from_nanos(number(8)?) })
}

/// The bytes of a datagram after its stamp.
#[derive(Clone, Debug)]
pub enum DatagramBody {
    /// A short stamp and zeros, with this total length, which is less than that of a full stamp.
    Short(usize),
    /// This number of zeros.
    Fill(u64),
    /// These bytes.
    Content(Arc<[u8]>),
    /// These bytes are the whole datagram, without a stamp.
    Whole(Arc<[u8]>),
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_stamp_survives_the_way(flow: u32, number: u64, sent: u64, late: u32, code in 0u8..3) {
            let (sent, late) = (Instant::from_nanos(sent), Duration::from_nanos(late.into()));
            let rest = PayloadKind::of(code).unwrap();
            let stamp = DatagramStamp { flow, number, sent, late, rest };
            prop_assert_eq!(DatagramStamp::decode(&stamp.encode()), Some(stamp));
        }

        #[test]
        fn any_bytes_are_a_stamp_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Some(stamp) = DatagramStamp::decode(&bytes) {
                prop_assert_eq!(&stamp.encode()[..], &bytes[..STAMP_LEN]);
            }
        }
    }

    #[test]
    fn a_stamp_is_in_network_order() {
        let (sent, late) = (Instant::from_nanos(0x0102), Duration::from_nanos(0x03));
        let bytes =
            DatagramStamp { flow: 0x0A0B, number: 5, sent, late, rest: PayloadKind::Content }.encode();
        assert_eq!(bytes, *b"nr\x01\x01\0\0\x0A\x0B\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\x01\x02\0\0\0\x03");
    }

    proptest! {
        /// Checks times and numbers whose distance from the expected values is within the range of 32 bits.
        #[test]
        fn a_short_stamp_is_completed_by_what_is_near(
            flow: u32,
            number in 0..u64::MAX / 2,
            ahead in -1_000_000_000..1_000_000_000_i64,
            sent in 3_000_000_000..u64::MAX / 2,
            took in -2_000_000_000..2_000_000_000_i64,
        ) {
            let stamp = DatagramStamp {
                flow,
                number,
                sent: Instant::from_nanos(sent),
                late: Duration::ZERO,
                rest: PayloadKind::Fill,
            };
            let (bytes, at) = (stamp.encode_short(), Instant::from_nanos(sent.saturating_add_signed(took)));
            let Some(expected) = number.checked_add_signed(ahead) else { return Ok(()) };
            prop_assert_eq!(DatagramStamp::decode_short(&bytes, flow, at, expected), Some(stamp));
            prop_assert_eq!(DatagramStamp::decode_short(&bytes, flow.wrapping_add(1), at, expected), None);
            prop_assert_eq!(DatagramStamp::decode(&bytes), None);
        }

        #[test]
        fn any_bytes_are_a_short_stamp_or_none(mut bytes in proptest::collection::vec(any::<u8>(), 0..20), expected: u64) {
            bytes.iter_mut().zip(SHORT_MAGIC).for_each(|(byte, magic)| *byte = magic);
            let _ = DatagramStamp::decode_short(&bytes, 7, Instant::ZERO, expected);
        }
    }

    #[test]
    fn an_answer_names_what_it_answers_and_is_as_long_as_that() {
        let asked = DatagramId { number: 7, sent: Instant::from_nanos(9) };
        let Some(DatagramBody::Content(rest)) = answer_body(asked, 64) else { panic!("there is room") };
        let bytes = [&[0; STAMP_LEN][..], &rest].concat();
        assert_eq!((bytes.len(), answered(&bytes)), (64, Some(asked)));
        assert!(answer_body(asked, 43).is_none() && answered(&bytes[..43]).is_none());
    }

    #[test]
    fn fill_has_room_for_its_stamp_or_cannot_be_sent() {
        assert!(body(Data::Fill(11)).is_none());
        assert!(matches!(body(Data::Fill(27)), Some(DatagramBody::Short(27))));
        assert!(matches!(body(Data::Fill(28)), Some(DatagramBody::Fill(0))));
        assert!(
            matches!(body(Data::Bytes([1, 2].into())), Some(DatagramBody::Content(bytes)) if bytes.len() == 2)
        );
    }
}
