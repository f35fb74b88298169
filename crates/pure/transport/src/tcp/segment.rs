//! A TCP segment as a structure (RFC 9293 section 3.1).

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

use netrig_core::Data;

use crate::Serial;

/// Length of the TCP header without options, bytes.
pub const HEADER_LEN: u32 = 20;

/// The control bits of a segment.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// No bit set.
    pub const NONE: Self = Self(0);
    /// The sender has no more data.
    pub const FIN: Self = Self(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// Deliver the data to the user immediately.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgement number is valid.
    pub const ACK: Self = Self(0x10);
    /// ECN echo (RFC 3168 section 6.1).
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced (RFC 3168 section 6.1).
    pub const CWR: Self = Self(0x80);

    const NAMES: [(Self, &'static str); 7] = [
        (Self::SYN, "SYN"),
        (Self::FIN, "FIN"),
        (Self::RST, "RST"),
        (Self::PSH, "PSH"),
        (Self::ACK, "ACK"),
        (Self::ECE, "ECE"),
        (Self::CWR, "CWR"),
    ];

    /// Whether every bit of `other` is set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The fourteenth byte of the header.
    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    /// Whether any bit of `other` is set.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Flags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = Self::NAMES.iter().filter(|(bit, _)| self.contains(*bit));
        f.write_str(&set.map(|(_, name)| *name).collect::<Vec<_>>().join("|"))
    }
}

/// The timestamps option (RFC 7323 section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamps {
    /// TSval: the sender's clock, milliseconds.
    pub value: u32,
    /// TSecr: the peer's TSval, echoed.
    pub echo: u32,
}

/// The blocks of a SACK option (RFC 2018 section 3), at most four. They are boxed because few segments have blocks: a
/// segment without blocks is half as large.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SackBlocks(Option<Box<Blocks>>);

#[derive(Clone, Default, PartialEq, Eq)]
struct Blocks {
    blocks: [(Serial, Serial); SackBlocks::MAX],
    len: u8,
}

impl SackBlocks {
    /// The largest number of blocks that fits 40 bytes of options.
    pub const MAX: usize = 4;

    /// No blocks. The segment then has no SACK option.
    pub const fn none() -> Self {
        Self(None)
    }

    /// Adds the block from `left` up to, not including, `right`. A fifth block is dropped.
    pub fn push(&mut self, left: Serial, right: Serial) {
        let Blocks { blocks, len } = &mut **self.0.get_or_insert_default();
        if let Some(block) = blocks.get_mut(usize::from(*len)) {
            *block = (left, right);
            *len += 1;
        }
    }

    /// The blocks in the order of the option.
    #[inline]
    pub fn as_slice(&self) -> &[(Serial, Serial)] {
        self.0.as_ref().map_or(&[], |kept| &kept.blocks[..usize::from(kept.len)])
    }

    /// Whether there is no block.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Length of an option with `blocks` blocks, including the two no-operation options that align it, bytes.
    pub(crate) const fn option_len(blocks: usize) -> u32 {
        if blocks == 0 { 0 } else { 4 + 8 * blocks as u32 }
    }
}

impl fmt::Debug for SackBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.as_slice().iter().map(|(l, r)| l.0..r.0)).finish()
    }
}

/// Length of the timestamps option, including two no-operation options (RFC 7323 appendix A), bytes.
pub(crate) const TIMESTAMPS_LEN: u32 = 12;

/// A TCP segment with the fields of the wire format. [`Packet::encode`](crate::Packet::encode) writes it.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Sequence number of the first byte, or of SYN.
    pub seq: Serial,
    /// Next expected sequence number. It is valid if [`Flags::ACK`] is set.
    pub ack: Serial,
    /// Control bits.
    pub flags: Flags,
    /// Window field. The window is this value shifted left by the negotiated scale; on a SYN it is not shifted.
    pub window: u16,
    /// Maximum segment size option (RFC 9293 section 3.7.1), bytes.
    pub mss: Option<u16>,
    /// Window scale option (RFC 7323 section 2).
    pub window_scale: Option<u8>,
    /// SACK-permitted option (RFC 2018 section 2).
    pub sack_permitted: bool,
    /// Timestamps option.
    pub timestamps: Option<Timestamps>,
    /// SACK option.
    pub sack: SackBlocks,
    /// User data.
    pub data: Data,
}

impl Segment {
    /// Whether it contains user data.
    pub fn carries_data(&self) -> bool {
        self.data.size() > 0
    }

    /// Length of the options with their padding, bytes. As in common stacks, each option is aligned to four bytes (RFC
    /// 7323 appendix A). If SACK-permitted and timestamps are both present, SACK-permitted replaces the padding of the
    /// timestamps.
    #[inline]
    pub fn options_len(&self) -> u32 {
        let mss = if self.mss.is_some() { 4 } else { 0 };
        let scale = if self.window_scale.is_some() { 4 } else { 0 };
        let timestamps = if self.timestamps.is_some() { TIMESTAMPS_LEN } else { 0 };
        let permitted = if self.sack_permitted && self.timestamps.is_none() { 4 } else { 0 };
        mss + scale + timestamps + permitted + SackBlocks::option_len(self.sack.as_slice().len())
    }

    /// Number of sequence numbers that the segment occupies: one for each data byte, and one each for SYN and FIN.
    #[inline]
    pub fn sequence_len(&self) -> u64 {
        let controls =
            u64::from(self.flags.contains(Flags::SYN)) + u64::from(self.flags.contains(Flags::FIN));
        self.data.size() + controls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bare() -> Segment {
        Segment {
            seq: Serial(0),
            ack: Serial(0),
            flags: Flags::ACK,
            window: 0,
            mss: None,
            window_scale: None,
            sack_permitted: false,
            timestamps: None,
            sack: SackBlocks::none(),
            data: Data::Fill(0),
        }
    }

    #[test]
    fn a_segment_is_small() {
        assert!(size_of::<Segment>() <= 64, "{} bytes", size_of::<Segment>());
    }

    /// Captures of Linux hosts over IPv4 show SYNs of 60 bytes (52 without timestamps) and ACKs of 52 to 80 bytes.
    /// Without 20 bytes of IP header and 20 of TCP header, the rest is options.
    #[test]
    fn options_are_as_long_as_on_the_wire() {
        let timestamps = Some(Timestamps { value: 1, echo: 2 });
        let syn = Segment { mss: Some(1460), window_scale: Some(7), sack_permitted: true, ..bare() };
        assert_eq!(syn.options_len(), 12);
        assert_eq!(Segment { timestamps, ..syn }.options_len(), 20);
        let mut sack = SackBlocks::none();
        sack.push(Serial(1), Serial(2));
        assert_eq!(Segment { timestamps, sack: sack.clone(), ..bare() }.options_len(), 24);
        sack.push(Serial(3), Serial(4));
        sack.push(Serial(5), Serial(6));
        assert_eq!(Segment { timestamps, sack: sack.clone(), ..bare() }.options_len(), 40);
        sack.push(Serial(7), Serial(8));
        assert_eq!(Segment { sack, ..bare() }.options_len(), 36);
    }

    #[test]
    fn a_fifth_block_is_left_out() {
        let mut sack = SackBlocks::none();
        (0..5).for_each(|n| sack.push(Serial(2 * n), Serial(2 * n + 1)));
        assert_eq!(sack.as_slice().len(), 4);
    }
}
