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
}

impl Framing {
    /// Bytes that the line spends on an IP packet of `ip_len` bytes.
    pub const fn line_bytes(self, ip_len: u32) -> u64 {
        let ip_len = ip_len as u64;
        match self {
            Self::None => ip_len,
            Self::Ethernet => {
                const MIN_PAYLOAD: u64 = 46;
                const OVERHEAD: u64 = 14 + 4 + 8 + 12;
                (if ip_len < MIN_PAYLOAD { MIN_PAYLOAD } else { ip_len }) + OVERHEAD
            }
            Self::Ppp => ip_len + 1 + 1 + 1 + 2 + 2,
            Self::Atm => aal5(ip_len),
            Self::AtmLlc => aal5(ip_len + 8),
        }
    }
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
}
