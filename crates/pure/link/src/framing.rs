//! The bytes that a line adds to each packet.

use netrig_core::named;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

named! {
    /// The framing of IP packets on a line. The rate of a line counts every byte that it sends, so framing makes each packet take
    /// longer. Limits and counters count bytes of IP packets only.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Framing {
        /// No framing: the rate counts IP packets.
        #[default]
        None = "none",
        /// Ethernet II (IEEE 802.3): header 14 B, payload padded to 46 B, frame check 4 B, preamble and start
        /// delimiter 8 B, gap 12 B. In total 38 B more than the packet, at least 84 B.
        Ethernet = "ethernet",
        /// PPP in HDLC-like framing (RFC 1662 section 3.1): one flag (shared between frames), address, control, protocol 2 B,
        /// frame check 2 B. In total 7 B. Octet stuffing depends on the content and is not counted.
        Ppp = "ppp",
        /// ATM with AAL5, VC-multiplexed (RFC 2684 section 6): a trailer of 8 B and padding to cells of 48 B, each sent as 53 B.
        Atm = "atm",
        /// ATM with AAL5 and LLC/SNAP encapsulation (RFC 2684 section 5): 8 B more before the trailer.
        AtmLlc = "atm-llc",
        /// PPP over Ethernet (RFC 2516): its header 6 B and the PPP protocol field 2 B, in a frame as in `ethernet`.
        Pppoe = "pppoe",
        /// PPP over Ethernet on ADSL: 8 B as above and an Ethernet header of 14 B without frame check. The frame is bridged over
        /// AAL5 in cells, with LLC/SNAP 8 B and a pad of 2 B (RFC 2684 section 5.2).
        PppoeAtm = "pppoe-atm",
        /// PPP over Ethernet on VDSL2 in packet transfer mode: 8 B as above in an Ethernet frame, header 14 B and frame check 4 B,
        /// padded to 64 B. A first octet, a last octet and a check of 2 B are added, and each 64 octets are sent as 65 (ITU-T
        /// G.993.2 annex K, G.992.3 annex N).
        PppoePtm = "pppoe-ptm",
        /// DOCSIS: its rates count an Ethernet frame from its addresses to its frame check (MULPI, Maximum Sustained Traffic Rate),
        /// header 14 B, payload padded to 46 B, frame check 4 B.
        Docsis = "docsis",
        /// GPON: an Ethernet frame as in `docsis`, after a GEM header of 5 B (ITU-T G.984.3 clause 8.3). The headers that
        /// fragmentation repeats are not counted.
        Gpon = "gpon",
    }
}

/// The shortest payload, the header and the frame check sequence of an Ethernet frame, bytes.
const MIN_PAYLOAD: u64 = 46;
const HEADER: u64 = 14;
const CHECK: u64 = 4;
/// The interframe gap, and the preamble with the start delimiter, bytes.
const GAP: u64 = 12;
const PREAMBLE: u64 = 8;
/// LLC and SNAP headers of a packet in AAL5.
const LLC_SNAP: u64 = 8;
/// The header of PPP over Ethernet and the PPP protocol field.
const PPPOE: u64 = 6 + 2;

impl Framing {
    /// Bytes that the line sends for an IP packet of `ip_len` bytes.
    pub const fn line_bytes(self, ip_len: u32) -> u64 {
        let ip_len = ip_len as u64;
        match self {
            Self::None => ip_len,
            Self::Ethernet => PREAMBLE + frame(ip_len) + GAP,
            Self::Ppp => ip_len + 1 + 1 + 1 + 2 + 2,
            Self::Atm => aal5(ip_len),
            Self::AtmLlc => aal5(ip_len + LLC_SNAP),
            Self::Pppoe => PREAMBLE + frame(PPPOE + ip_len) + GAP,
            Self::PppoeAtm => aal5(LLC_SNAP + 2 + HEADER + PPPOE + ip_len),
            Self::PppoePtm => ((1 + frame(PPPOE + ip_len) + 1 + 2) * 65).div_ceil(64),
            Self::Docsis => frame(ip_len),
            Self::Gpon => 5 + frame(ip_len),
        }
    }
}

/// Bytes of an Ethernet frame with this payload, from its addresses to its frame check sequence.
const fn frame(payload: u64) -> u64 {
    HEADER + (if payload < MIN_PAYLOAD { MIN_PAYLOAD } else { payload }) + CHECK
}

/// Line bytes of an AAL5 payload with its trailer, in whole cells (ITU-T I.363.5).
const fn aal5(payload: u64) -> u64 {
    const TRAILER: u64 = 8;
    const CELL_PAYLOAD: u64 = 48;
    const CELL: u64 = 53;
    (payload + TRAILER).div_ceil(CELL_PAYLOAD) * CELL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_ethernet_frame_takes_84_bytes() {
        // IEEE 802.3: frame 64 B, preamble 8 B, gap 12 B. The longest standard frame takes 1538 B.
        for len in [20, 40, 46] {
            assert_eq!(Framing::Ethernet.line_bytes(len), 84);
        }
        assert_eq!(Framing::Ethernet.line_bytes(47), 85);
        assert_eq!(Framing::Ethernet.line_bytes(1500), 1538);
    }

    #[test]
    fn ppp_adds_seven_bytes() {
        assert_eq!(Framing::Ppp.line_bytes(296), 303);
    }

    #[test]
    fn atm_counts_whole_cells() {
        // 512 B of data, UDP and IP headers, LLC/SNAP and the AAL5 trailer: 556 B, 12 cells.
        assert_eq!(Framing::AtmLlc.line_bytes(512 + 28), 12 * 53);
        // The default MTU of RFC 1626: 9180 B, LLC/SNAP and trailer fill 191.58 cells.
        assert_eq!(Framing::AtmLlc.line_bytes(9180), 192 * 53);
        // A bare ACK of 40 B fits into one cell without LLC/SNAP, and needs two cells with LLC/SNAP.
        assert_eq!(Framing::Atm.line_bytes(40), 53);
        assert_eq!(Framing::Atm.line_bytes(41), 106);
        assert_eq!(Framing::AtmLlc.line_bytes(40), 106);
    }

    /// RFC 2516 section 7: the largest PPP payload is 1492 B. With 8 B of headers it fills a frame of 1500 B.
    #[test]
    fn ppp_over_ethernet_fills_a_frame_with_1492_bytes() {
        assert_eq!(Framing::Pppoe.line_bytes(1492), Framing::Ethernet.line_bytes(1500));
        assert_eq!(Framing::Pppoe.line_bytes(38), 84);
        assert_eq!(Framing::Pppoe.line_bytes(39), 85);
    }

    /// The overheads that shapers in front of a modem use for these lines (tc-cake(8): `pppoe-llcsnap` 40 B in cells,
    /// `pppoe-ptm` 30 B in 64 of 65 octets, `docsis` 18 B and at least 64 B).
    #[test]
    fn lines_of_subscribers_spend_what_shapers_count_for_them() {
        for len in [38, 40, 52, 576, 1000, 1460, 1492, 1500_u32] {
            let bytes = u64::from(len);
            assert_eq!(Framing::PppoeAtm.line_bytes(len), (bytes + 40).div_ceil(48) * 53, "{len}");
            assert_eq!(Framing::PppoePtm.line_bytes(len), ((bytes + 30) * 65).div_ceil(64), "{len}");
            assert_eq!(Framing::Docsis.line_bytes(len), (bytes + 18).max(64), "{len}");
            assert_eq!(Framing::Gpon.line_bytes(len), (bytes + 18).max(64) + 5, "{len}");
        }
    }

    /// 1492 B with 40 B of headers and trailers fill 31.92 cells. An acknowledgement of 40 B fills two cells.
    #[test]
    fn an_acknowledgement_on_adsl_takes_two_cells() {
        assert_eq!(Framing::PppoeAtm.line_bytes(1492), 32 * 53);
        assert_eq!(Framing::PppoeAtm.line_bytes(40), 2 * 53);
        assert_eq!(Framing::PppoeAtm.line_bytes(56), 2 * 53);
        assert_eq!(Framing::PppoeAtm.line_bytes(57), 3 * 53);
    }
}
