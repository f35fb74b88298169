//! Writes captures for Wireshark: blocks of pcapng (draft-ietf-opsawg-pcapng, section 3).
//!
//! Each function appends one block to a buffer, which the caller writes. A file is one [`section`], one [`interface`]
//! for each captured interface, then [`packet`]s. Times are nanoseconds since the start of the run, so a reader shows
//! the start as the beginning of 1970. All numbers are little-endian on any machine.

use crate::{Frame, Heading};

/// Block types (sections 4.1 to 4.3).
const SECTION_HEADER: u32 = 0x0A0D_0D0A;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

/// The value from which a reader determines the byte order (section 4.1).
const BYTE_ORDER_MAGIC: u32 = 0x1A2B_3C4D;

/// The link type of an interface (the registry of tcpdump.org).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    /// Packets begin with an IP header of version 4 or 6 (`LINKTYPE_RAW`).
    RawIp = 101,
    /// Messages in Wireshark's export form, after options that name the protocol (`LINKTYPE_WIRESHARK_UPPER_PDU`).
    ExportedPdu = 252,
}

/// Option codes (sections 3.5, 4.1, 4.2 and 4.3).
const COMMENT: u16 = 1;
const USER_APPLICATION: u16 = 4;
const INTERFACE_NAME: u16 = 2;
const INTERFACE_DESCRIPTION_TEXT: u16 = 3;
const TIME_RESOLUTION: u16 = 9;
const PACKET_FLAGS: u16 = 2;

/// The value of [`TIME_RESOLUTION`] for 10⁻⁹ s.
const NANOSECONDS: u8 = 9;

/// Appends the first block of a file, with the name of the writing program and a comment.
pub fn section(out: &mut Vec<u8>, program: &str, comment: &str) {
    block(out, SECTION_HEADER, |out| {
        word(out, BYTE_ORDER_MAGIC);
        half(out, 1);
        half(out, 0);
        // The length of the section is not known before its end.
        out.extend_from_slice(&u64::MAX.to_le_bytes());
        option(out, COMMENT, comment.as_bytes());
        option(out, USER_APPLICATION, program.as_bytes());
        end_of_options(out);
    });
}

/// Appends the next interface. Interfaces are numbered from 0 in the order of the file. `snap` is the greatest number
/// of kept bytes per packet, 0 for all.
pub fn interface(out: &mut Vec<u8>, link_type: LinkType, (name, description): (&str, &str), snap: u32) {
    block(out, INTERFACE_DESCRIPTION, |out| {
        half(out, link_type as u16);
        half(out, 0);
        word(out, snap);
        option(out, INTERFACE_NAME, name.as_bytes());
        option(out, INTERFACE_DESCRIPTION_TEXT, description.as_bytes());
        option(out, TIME_RESOLUTION, &[NANOSECONDS]);
        end_of_options(out);
    });
}

/// Appends a packet of the interface with this number. At most `snap` bytes are kept, 0 for all.
pub fn packet(out: &mut Vec<u8>, interface: u32, snap: u32, frame: &Frame<'_>) {
    let most = if snap == 0 { usize::MAX } else { snap as usize };
    let kept = &frame.bytes[..frame.bytes.len().min(most)];
    let at = frame.at.as_nanos();
    block(out, ENHANCED_PACKET, |out| {
        word(out, interface);
        word(out, (at >> 32) as u32);
        word(out, at as u32);
        word(out, kept.len() as u32);
        word(out, frame.original_len);
        out.extend_from_slice(kept);
        pad(out);
        let direction: u32 = match frame.heading {
            Heading::Inbound => 1,
            Heading::Outbound => 2,
        };
        option(out, PACKET_FLAGS, &direction.to_le_bytes());
        end_of_options(out);
    });
}

/// A block: type, length, body, and the length again (section 3.1).
fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    word(out, kind);
    word(out, 0);
    body(out);
    let len = (out.len() + 4 - start) as u32;
    out[start + 4..start + 8].copy_from_slice(&len.to_le_bytes());
    word(out, len);
}

/// An option (section 3.5). A value longer than 65,535 bytes is truncated.
fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    half(out, code);
    half(out, value.len() as u16);
    out.extend_from_slice(value);
    pad(out);
}

fn end_of_options(out: &mut Vec<u8>) {
    option(out, 0, &[]);
}

/// Pads to a multiple of four bytes. Every block has such a length, so the length of the buffer gives the padding.
fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}

fn half(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn word(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Instant;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<_> = text.chars().filter(|c| !c.is_whitespace()).collect();
        digits.chunks(2).map(|two| u8::from_str_radix(&two.iter().collect::<String>(), 16).unwrap()).collect()
    }

    /// Figure 9 of the draft: type, length, byte-order magic, version 1.0, section length unknown, options.
    #[test]
    fn a_section_header_byte_by_byte() {
        let mut out = Vec::new();
        section(&mut out, "netrig", "a run");
        let wanted = "0a0d0d0a 38000000 4d3c2b1a 0100 0000 ffffffffffffffff
            0100 0500 612072756e 000000  0400 0600 6e6574726967 0000  0000 0000  38000000";
        assert_eq!(out, hex(wanted));
    }

    /// Figure 10: link type, reserved, snap length, options with the resolution of 10⁻⁹ s.
    #[test]
    fn an_interface_description_byte_by_byte() {
        let mut out = Vec::new();
        interface(&mut out, LinkType::RawIp, ("eth", "to b"), 96);
        let wanted = "01000000 30000000 6500 0000 60000000
            0200 0300 657468 00  0300 0400 746f2062  0900 0100 09 000000  0000 0000  30000000";
        assert_eq!(out, hex(wanted));
    }

    /// Figure 11: interface, the time's upper and lower half, both lengths, data with padding, flags.
    #[test]
    fn a_packet_byte_by_byte() {
        let frame = Frame {
            at: Instant::from_nanos(0x0000_0001_0000_0002),
            node: 7,
            link: 8,
            heading: Heading::Outbound,
            bytes: &[0x45, 1, 2, 3, 4],
            original_len: 9,
        };
        let mut out = Vec::new();
        packet(&mut out, 3, 0, &frame);
        let wanted = "06000000 34000000 03000000 01000000 02000000 05000000 09000000
            4501020304 000000  0200 0400 02000000  0000 0000  34000000";
        assert_eq!(out, hex(wanted));
        // After another block, truncated, and in the other direction.
        out.clear();
        section(&mut out, "x", "y");
        let before = out.len();
        packet(&mut out, 0, 4, &Frame { heading: Heading::Inbound, ..frame });
        let wanted = "06000000 30000000 00000000 01000000 02000000 04000000 09000000
            45010203  0200 0400 01000000  0000 0000  30000000";
        assert_eq!(out[before..], hex(wanted));
    }
}
