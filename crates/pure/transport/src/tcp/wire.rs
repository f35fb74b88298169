//! Encoding of a TCP segment (RFC 9293 section 3.1).

use netrig_core::FiveTuple;

use super::segment::{HEADER_LEN, Segment, Timestamps};
use crate::wire::{checksum, write_data};

/// Kinds of options: RFC 9293 section 3.2, RFC 7323 sections 2.2 and 3.2, RFC 2018 sections 2 and 3.
const NO_OPERATION: u8 = 1;
const MAXIMUM_SEGMENT_SIZE: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

impl Segment {
    /// Appends the header, options and user data to `out`. The checksum includes the addresses of `flow`.
    pub(crate) fn encode(&self, flow: &FiveTuple, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&flow.src_port.to_be_bytes());
        out.extend_from_slice(&flow.dst_port.to_be_bytes());
        out.extend_from_slice(&self.seq.0.to_be_bytes());
        out.extend_from_slice(&self.ack.0.to_be_bytes());
        // Data offset: the length of the header in 32-bit words, at most 15.
        let words = (HEADER_LEN + self.options_len()) / 4;
        out.extend_from_slice(&[(words as u8) << 4, self.flags.bits()]);
        out.extend_from_slice(&self.window.to_be_bytes());
        // Checksum and urgent pointer.
        out.extend_from_slice(&[0; 4]);
        self.write_options(out);
        write_data(&self.data, self.data.size() as usize, out);
        let sum = checksum(flow, &out[start..]);
        out[start + 16..start + 18].copy_from_slice(&sum.to_be_bytes());
    }

    /// Writes the options in the order and with the padding that [`Segment::options_len`] counts.
    fn write_options(&self, out: &mut Vec<u8>) {
        const PADDING: [u8; 2] = [NO_OPERATION; 2];
        if let Some(mss) = self.mss {
            out.extend_from_slice(&[MAXIMUM_SEGMENT_SIZE, 4]);
            out.extend_from_slice(&mss.to_be_bytes());
        }
        if self.sack_permitted || self.timestamps.is_some() {
            out.extend_from_slice(if self.sack_permitted { &[SACK_PERMITTED, 2] } else { &PADDING });
            match self.timestamps {
                Some(Timestamps { value, echo }) => {
                    out.extend_from_slice(&[TIMESTAMPS, 10]);
                    out.extend_from_slice(&value.to_be_bytes());
                    out.extend_from_slice(&echo.to_be_bytes());
                }
                None => out.extend_from_slice(&PADDING),
            }
        }
        if let Some(shift) = self.window_scale {
            out.extend_from_slice(&[NO_OPERATION, WINDOW_SCALE, 3, shift]);
        }
        let blocks = self.sack.as_slice();
        if !blocks.is_empty() {
            out.extend_from_slice(&PADDING);
            // The length fits a byte: there are at most four blocks.
            out.extend_from_slice(&[SACK, 2 + 8 * blocks.len() as u8]);
            for (left, right) in blocks {
                out.extend_from_slice(&left.0.to_be_bytes());
                out.extend_from_slice(&right.0.to_be_bytes());
            }
        }
    }
}
