//! What a line spends on a packet beyond the packet.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a line wraps IP packets. A line's rate counts everything that it sends, so framing makes each packet
/// take longer; limits and counters count IP packets only, on every line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Framing {
    /// Nothing is added: the rate is a rate of IP packets.
    #[default]
    None,
    /// Ethernet II (IEEE 802.3): header 14 B, payload padded to 46 B, frame check 4 B, preamble and start
    /// delimiter 8 B, gap of 12 B: 38 B more than the packet, at least 84 B.
    Ethernet,
    /// PPP in HDLC-like framing (RFC 1662 section 3.1): one flag (shared between neighbours), address,
    /// control, protocol 2 B, frame check 2 B: 7 B. Octet stuffing, which depends on the content, is not counted.
    Ppp,
    /// ATM with AAL5, VC-multiplexed (RFC 2684 section 6): an 8 B trailer, padded to cells of 48 B, each
    /// sent as 53 B.
    Atm,
    /// ATM with AAL5 and LLC/SNAP encapsulation (RFC 2684 section 5): 8 B more before the trailer.
    AtmLlc,
    /// PPP over Ethernet (RFC 2516) on Ethernet: its header 6 B and PPP's protocol 2 B, in a frame as of `ethernet`.
    Pppoe,
    /// PPP over Ethernet on ADSL: 8 B as above and an Ethernet header of 14 B, bridged over AAL5 with LLC/SNAP 8 B and a pad
    /// of 2 B, without the frame check (RFC 2684 section 5.2), in cells.
    PppoeAtm,
    /// PPP over Ethernet on VDSL2 in packet transfer mode: 8 B as above in an Ethernet frame of header 14 B and frame check
    /// 4 B, padded to 64 B, with a first octet, a last one and a check of 2 B, of which each 64 octets are sent as 65 (ITU-T
    /// G.993.2 annex K, G.992.3 annex N).
    PppoePtm,
    /// DOCSIS, whose rates count a frame of Ethernet from its addresses to its check (MULPI, Maximum Sustained Traffic Rate):
    /// header 14 B, payload padded to 46 B, frame check 4 B.
    Docsis,
    /// GPON: such a frame of Ethernet behind a GEM header of 5 B (ITU-T G.984.3 clause 8.3). Frames that are cut into
    /// several, which repeats that header, are not counted.
    Gpon,
}

/// The shortest payload of a frame of Ethernet, bytes, and its header and check.
const MIN_PAYLOAD: u64 = 46;
const HEADER: u64 = 14;
const CHECK: u64 = 4;
/// What is between two frames on a cable: a gap, and before a frame its preamble and start delimiter.
const GAP: u64 = 12;
const PREAMBLE: u64 = 8;
/// LLC and SNAP headers of a packet in AAL5.
const LLC_SNAP: u64 = 8;
/// What PPP over Ethernet adds to an IP packet: its own header and PPP's protocol field.
const PPPOE: u64 = 6 + 2;

impl Framing {
    /// Its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Ethernet => "ethernet",
            Self::Ppp => "ppp",
            Self::Atm => "atm",
            Self::AtmLlc => "atm-llc",
            Self::Pppoe => "pppoe",
            Self::PppoeAtm => "pppoe-atm",
            Self::PppoePtm => "pppoe-ptm",
            Self::Docsis => "docsis",
            Self::Gpon => "gpon",
        }
    }

    /// Bytes that the line spends on an IP packet of `ip_len` bytes.
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

/// A frame of Ethernet with such a payload, from its addresses to its check.
const fn frame(payload: u64) -> u64 {
    HEADER + (if payload < MIN_PAYLOAD { MIN_PAYLOAD } else { payload }) + CHECK
}

/// Line bytes of an AAL5 payload: with its trailer, in whole cells (ITU-T I.363.5).
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
        // IEEE 802.3: 64 B frame, 8 B preamble, 12 B gap; the longest standard one takes 1538.
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
        // The default MTU of RFC 1626: 9180 B with LLC/SNAP and trailer fill 191.58 cells.
        assert_eq!(Framing::AtmLlc.line_bytes(9180), 192 * 53);
        // A bare 40 B ACK fits one cell without LLC/SNAP, and needs two with it.
        assert_eq!(Framing::Atm.line_bytes(40), 53);
        assert_eq!(Framing::Atm.line_bytes(41), 106);
        assert_eq!(Framing::AtmLlc.line_bytes(40), 106);
    }

    /// RFC 2516 section 7: the largest PPP payload, so that with 8 B before it a frame carries 1500 B.
    #[test]
    fn ppp_over_ethernet_fills_a_frame_with_1492_bytes() {
        assert_eq!(Framing::Pppoe.line_bytes(1492), Framing::Ethernet.line_bytes(1500));
        assert_eq!(Framing::Pppoe.line_bytes(38), 84);
        assert_eq!(Framing::Pppoe.line_bytes(39), 85);
    }

    /// What a shaper in front of a modem is told to count for each of these lines (tc-cake(8): `pppoe-llcsnap` 40 B in cells,
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

    /// 1492 B and 40 B before and behind them fill 31.92 cells, an acknowledgement of 40 B two.
    #[test]
    fn an_acknowledgement_on_adsl_takes_two_cells() {
        assert_eq!(Framing::PppoeAtm.line_bytes(1492), 32 * 53);
        assert_eq!(Framing::PppoeAtm.line_bytes(40), 2 * 53);
        assert_eq!(Framing::PppoeAtm.line_bytes(56), 2 * 53);
        assert_eq!(Framing::PppoeAtm.line_bytes(57), 3 * 53);
    }
}
