//! The order of a path MTU search, and its plan.

use std::net::SocketAddr;

use netrig_core::Duration;

use super::super::error::ProbeError;
use super::super::flow::packet::ProbeFlow;
use super::super::stamp::HmacKey;
use super::search::PathMtuPlan;

/// Settings of a path MTU search.
#[derive(Clone, Debug)]
pub struct PathMtuOrder {
    /// The target. The port is ignored for echo requests.
    pub target: SocketAddr,
    /// The host that answers.
    pub responder: MtuResponder,
    /// A size that the path should carry, octets of IP; the usual size of its IP version if absent.
    pub base: Option<usize>,
    /// The largest size to try, octets of IP; the maximum of IP if absent.
    pub most: Option<usize>,
    /// Lost packets of one size after which the size counts as too long.
    pub probes: u32,
    /// A packet without a response after this time counts as lost.
    pub wait: Duration,
    /// DSCP of the packets.
    pub dscp: u8,
    /// If packets vanish, find the place with a trace.
    pub locate: bool,
}

/// Who answers.
#[derive(Clone, Debug)]
pub enum MtuResponder {
    /// The target itself, with echo replies. If a port is given, the sizes of TCP segments are read from a connection
    /// to it.
    Echo(Option<u16>),
    /// [`FarEnd`](crate::FarEnd), with its key if it has one.
    FarEnd(Option<HmacKey>),
}

/// The minimum MTU of IPv4 (RFC 791 section 3.2) and of IPv6 (RFC 8200 section 5).
const LEAST: [usize; 2] = [68, 1280];

/// The size that most paths carry (RFC 8899 section 5.1.2: 1200 octets; for IPv6 the minimum MTU).
const BASE: [usize; 2] = [1200, 1280];

/// The longest IP packet.
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
