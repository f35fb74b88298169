//! What a search for the path's MTU is to do, and its plan.

use std::net::SocketAddr;

use netrig_core::Duration;

use super::super::error::ProbeError;
use super::super::flow::packet::ProbeFlow;
use super::super::stamp::HmacKey;
use super::search::PathMtuPlan;

/// What a search is to do.
#[derive(Clone, Debug)]
pub struct PathMtuOrder {
    /// Whom; of echoes the port means nothing.
    pub target: SocketAddr,
    /// Who answers.
    pub responder: MtuResponder,
    /// What every path should carry, octets of IP; the usual if not given.
    pub base: Option<usize>,
    /// More is not tried, octets of IP; what IP can have if not given.
    pub most: Option<usize>,
    /// Packets of one size that must be lost before it counts as too long.
    pub probes: u32,
    /// What takes longer is lost.
    pub wait: Duration,
    /// Code point that packets are sent with.
    pub dscp: u8,
    /// Find where packets vanish, by a trace.
    pub locate: bool,
}

/// Who answers.
#[derive(Clone, Debug)]
pub enum MtuResponder {
    /// Whoever answers echoes. How long TCP's segments may be is seen at this port, if one is given.
    Echo(Option<u16>),
    /// [`FarEnd`](crate::FarEnd), with its key if it has one.
    FarEnd(Option<HmacKey>),
}

/// Every path carries so much of IPv4 (RFC 791 section 3.2) and of IPv6 (RFC 8200 section 5).
const LEAST: [usize; 2] = [68, 1280];

/// What most paths carry (RFC 8899 section 5.1.2: 1200 octets; of IPv6 the least).
const BASE: [usize; 2] = [1200, 1280];

/// The longest packet of IP.
const MOST: usize = 65_535;

impl PathMtuOrder {
    pub(super) fn plan(&self, flow: &ProbeFlow) -> Result<PathMtuPlan, ProbeError> {
        let at = usize::from(self.target.is_ipv6());
        let least = LEAST[at].max(flow.shortest());
        let most = self.most.unwrap_or(MOST);
        let base = self.base.unwrap_or_else(|| BASE[at].min(most));
        let sound = most <= MOST && self.wait <= Duration::from_secs(60);
        PathMtuPlan::new(least, base, most, self.probes, self.wait).filter(|_| sound).ok_or_else(|| {
            ProbeError::Request(format!(
                "packets of {base} B to {most} B, {} of each, waited for {} s: expected {least} B to {MOST} B with headers, one \
                 of each at least, and 60 s at most",
                self.probes,
                self.wait.as_secs_f64()
            ))
        })
    }
}
