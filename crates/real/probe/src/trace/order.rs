//! The order of a trace, and its packets.

use std::net::SocketAddr;

use netrig_core::Duration;

use super::super::error::ProbeError;
use super::super::flow::packet::{FlowMethod, ProbeFlow};
use super::course::{MOST_PACKETS, TracePlan};
use super::speed::{LEAST_LENGTHS, SHORTEST_V4, SHORTEST_V6, SpeedPlan};

/// Settings of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceOrder {
    /// The target. The port is ignored for ICMP.
    pub target: SocketAddr,
    /// Type of the packets.
    pub method: FlowMethod,
    /// The first TTL, at least 1.
    pub first: u8,
    /// The last TTL.
    pub last: u8,
    /// Packets with each TTL.
    pub each: u32,
    /// Length of the packets, octets of IP; the default length if absent.
    pub length: Option<usize>,
    /// A packet without a response after this time is lost.
    pub wait: Duration,
    /// Minimum gap between two packets.
    pub gap: Duration,
    /// Maximum number of packets in flight.
    pub in_flight: usize,
    /// DSCP of the packets.
    pub dscp: u8,
    /// Parameters of the estimation of link rates, if wanted.
    pub speed: Option<SpeedOrder>,
}

/// Parameters of the estimation of link rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpeedOrder {
    /// Number of packet lengths, at least 5.
    pub lengths: usize,
    /// Packets of each length to each hop.
    pub each: u32,
}

/// Default length of a packet, octets of IP.
const LENGTH: usize = 60;

impl TraceOrder {
    /// Checks the order.
    pub(super) fn check(&self) -> Result<(), ProbeError> {
        let wrong = |why: String| Err(ProbeError::Request(why));
        if self.first == 0 || self.first > self.last {
            return wrong(format!(
                "a TTL from {} to {}: expected 1 or more, not above the last",
                self.first, self.last
            ));
        }
        if self.each == 0 || self.in_flight == 0 {
            return wrong("no packets: expected at least one with each TTL, and one in flight".into());
        }
        if self.wait.is_zero() || self.wait > Duration::from_secs(60) {
            return wrong("a waiting time: expected more than 0 s, at most 60 s".into());
        }
        let hops = usize::from(self.last - self.first) + 1;
        let way = hops.saturating_mul(self.each as usize);
        let speed = self
            .speed
            .map_or(0, |speed| hops.saturating_mul(speed.lengths).saturating_mul(speed.each as usize));
        if way.saturating_add(speed) > MOST_PACKETS {
            return wrong(format!("{} packets: expected at most {MOST_PACKETS}", way.saturating_add(speed)));
        }
        match self.speed {
            Some(_) if self.method == FlowMethod::Tcp => {
                wrong("SYNs have only one length, so they give no speed: use udp or icmp".into())
            }
            Some(speed) if speed.lengths < LEAST_LENGTHS || speed.each == 0 => wrong(format!(
                "{} lengths, {} packets of each: expected {LEAST_LENGTHS} lengths and one packet at least",
                speed.lengths, speed.each
            )),
            _ => Ok(()),
        }
    }

    /// The plan of this order over a flow, on a path with an estimated MTU of `mtu`.
    pub(super) fn plan(&self, flow: &ProbeFlow, mtu: usize) -> Result<TracePlan, ProbeError> {
        let shortest = flow.shortest();
        let length = self.length.unwrap_or_else(|| LENGTH.max(shortest));
        if !(shortest..=usize::from(u16::MAX)).contains(&length) {
            return Err(ProbeError::Request(format!(
                "packets of {length} B: expected {shortest} B to {} B with headers",
                u16::MAX
            )));
        }
        let least = if flow.target.is_ipv4() { SHORTEST_V4 } else { SHORTEST_V6 };
        let speed = match self.speed {
            None => None,
            Some(speed) => match SpeedPlan::new(least, mtu.min(LONGEST), speed.lengths, speed.each) {
                Some(plan) => Some(plan),
                None => {
                    return Err(ProbeError::Request(format!(
                        "speed needs {} lengths from {least} B, and this path carries only {mtu} B",
                        speed.lengths
                    )));
                }
            },
        };
        Ok(TracePlan {
            first: self.first,
            last: self.last,
            each: self.each,
            length,
            wait: self.wait,
            gap: self.gap,
            in_flight: self.in_flight,
            speed,
        })
    }
}

/// The longest packet for the estimation of rates, octets of IP. An Ethernet path would refuse longer ones.
const LONGEST: usize = 1500;
