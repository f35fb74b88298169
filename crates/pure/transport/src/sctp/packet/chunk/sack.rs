//! SACK (RFC 9260 section 3.3.4).

use smallvec::SmallVec;

use crate::Serial;
use crate::sctp::packet::tlv::{DecodeError, FieldReader, TlvWriter};

/// A block of received TSNs beyond the cumulative TSN. Its ends are given as distances from the cumulative TSN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GapBlock {
    /// Distance of the first TSN of the block; at least 2 in a valid SACK.
    pub start: u16,
    /// Distance of the last TSN of the block.
    pub end: u16,
}

/// Selective acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sack {
    /// All TSNs up to and including this one were received.
    pub cumulative_tsn: Serial,
    /// Free space of the receive buffer, bytes.
    pub a_rwnd: u32,
    /// Blocks of TSNs received beyond the cumulative TSN.
    pub gaps: SmallVec<[GapBlock; 4]>,
    /// TSNs that were received more than once since the last SACK.
    pub duplicates: Vec<Serial>,
}

impl Sack {
    /// Length of a SACK without gap blocks and duplicates, header included, bytes.
    pub(crate) const MIN_LEN: u32 = 16;

    pub(super) fn value_len(&self) -> u32 {
        12 + 4 * (self.gaps.len() + self.duplicates.len()) as u32
    }

    pub(super) fn encode(&self, out: &mut TlvWriter) {
        out.u32(self.cumulative_tsn.0);
        out.u32(self.a_rwnd);
        out.u16(self.gaps.len() as u16);
        out.u16(self.duplicates.len() as u16);
        for gap in &self.gaps {
            out.u16(gap.start);
            out.u16(gap.end);
        }
        self.duplicates.iter().for_each(|tsn| out.u32(tsn.0));
    }

    pub(super) fn decode(value: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = FieldReader::new(value, "SACK");
        let (cumulative_tsn, a_rwnd) = (Serial(reader.u32()?), reader.u32()?);
        let (gaps, duplicates) = (reader.u16()?, reader.u16()?);
        Ok(Self {
            cumulative_tsn,
            a_rwnd,
            gaps: (0..gaps)
                .map(|_| Ok(GapBlock { start: reader.u16()?, end: reader.u16()? }))
                .collect::<Result<_, DecodeError>>()?,
            duplicates: (0..duplicates)
                .map(|_| reader.u32().map(Serial))
                .collect::<Result<_, DecodeError>>()?,
        })
    }
}
