//! The order of a path MTU search, and its plan.

use std::net::SocketAddr;

use netrig_core::setting::Within;
use netrig_core::{Dscp, Duration, Size, settings};

use super::super::error::{ProbeError, ProbeResult};
use super::super::flow::packet::ProbeFlow;
use super::super::stamp::HmacKey;
use super::super::two_way::PACKETS;
use super::search::PathMtuPlan;
use crate::control;

settings! {
    /// The settings of a path MTU search.
    #[derive(Clone, Debug)]
    pub struct PathMtuSettings with defaults {
        /// Use `probe reflect` at the target instead of ICMP echo. Only the forward path is measured, and both ends
        /// report TCP segment sizes.
        far_end: bool {};
        /// Also report the sizes of TCP segments on a connection to this port of the target.
        tcp_port: Option<u16> as Within<1, 65535> { value_name: "PORT", excludes: &["far_end"] };
        /// If packets are lost silently, find after which hop.
        locate: bool {};
        /// Size that every path should carry, with the IP header. By default 1200 B, 1280 B for IPv6.
        base: Option<Size> { heading: PACKETS };
        /// Largest packet to try.
        most: Option<Size> { heading: PACKETS };
        /// Packets of one size that must be lost before the size counts as too long.
        count: u32 { heading: PACKETS } = 3;
        /// Time after which a packet counts as lost; shorter once round-trip times are known.
        wait: Duration { heading: PACKETS } = Duration::from_secs(1);
        /// Code point to send with: `ef`, `af11`, `cs5` or 0 to 63.
        dscp: Dscp { heading: PACKETS } = Dscp::BE;
    }
}

impl PathMtuSettings {
    /// Port of a target that is given without a port.
    pub const fn port(&self) -> u16 {
        if self.far_end { control::PORT } else { 0 }
    }

    /// The order for a search on the path to this target. `key` is the key of the far end.
    pub fn order(self, target: SocketAddr, key: Option<HmacKey>) -> PathMtuOrder {
        let echo = MtuResponder::Echo(self.tcp_port);
        let responder = if self.far_end { MtuResponder::FarEnd(key) } else { echo };
        PathMtuOrder { target, responder, settings: self }
    }
}

/// The order of a path MTU search.
#[derive(Clone, Debug)]
pub struct PathMtuOrder {
    /// The target. The port is ignored for echo requests.
    pub target: SocketAddr,
    /// The host that answers the packets of the search.
    pub responder: MtuResponder,
    /// The settings.
    pub settings: PathMtuSettings,
}

/// The host that answers the packets of the search, and how.
#[derive(Clone, Debug)]
pub enum MtuResponder {
    /// The target itself answers with echo replies. If a port is given, the sizes of TCP segments are read from a
    /// connection to this port.
    Echo(Option<u16>),
    /// [`FarEnd`](crate::FarEnd) at the target answers. The value is its key, if it has one.
    FarEnd(Option<HmacKey>),
}

/// The minimum MTU of IPv4 (RFC 791 section 3.2) and of IPv6 (RFC 8200 section 5).
const LEAST: [usize; 2] = [68, 1280];

/// Default of the base size, which most paths carry (RFC 8899 section 5.1.2: 1200 octets; for IPv6 the minimum MTU).
const BASE: [usize; 2] = [1200, 1280];

/// Length of the longest IP packet, octets.
const MOST: usize = 65_535;

impl PathMtuOrder {
    pub(super) fn plan(&self, flow: &ProbeFlow) -> ProbeResult<PathMtuPlan> {
        let at = usize::from(self.target.is_ipv6());
        let least = LEAST[at].max(flow.shortest());
        let PathMtuSettings { count, wait, .. } = self.settings;
        let most = self.settings.most.map_or(MOST, Size::to_usize);
        let base = self.settings.base.map_or_else(|| BASE[at].min(most), Size::to_usize);
        let sound = most <= MOST && wait <= Duration::from_secs(60);
        PathMtuPlan::new(least, base, most, count, wait).filter(|_| sound).ok_or_else(|| {
            ProbeError::Request(format!(
                "packets of {base} B to {most} B, {count} of each, waited for {} s: expected {least} B to {MOST} B with headers, one \
                 of each at least, and 60 s at most",
                wait.as_secs_f64()
            ))
        })
    }
}
