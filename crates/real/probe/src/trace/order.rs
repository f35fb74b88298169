//! What a trace is to do, and the packets that follow from it.

use std::net::SocketAddr;

use netrig_core::Duration;

use super::super::error::ProbeError;
use super::super::flow::packet::{FlowMethod, ProbeFlow};
use super::course::{MOST_PACKETS, TracePlan};
use super::speed::{LEAST_LENGTHS, SHORTEST_V4, SHORTEST_V6, SpeedPlan};

/// What a trace is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceOrder {
    /// Whom; of ICMP the port means nothing.
    pub target: SocketAddr,
    /// By which packets.
    pub method: FlowMethod,
    /// The first TTL, 1 at least.
    pub first: u8,
    /// The last TTL.
    pub last: u8,
    /// Packets with each.
    pub each: u32,
    /// Their length, octets of IP; the usual one if not given.
    pub length: Option<usize>,
    /// What takes longer is lost.
    pub wait: Duration,
    /// Between two packets at least.
    pub gap: Duration,
    /// Packets on their way at once, at most.
    pub in_flight: usize,
    /// Code point that they are sent with.
    pub dscp: u8,
    /// Estimate the speed of links.
    pub speed: Option<SpeedOrder>,
}

/// How the speed of links is to be estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpeedOrder {
    /// Different lengths of packets, 5 at least.
    pub lengths: usize,
    /// Packets of each length to each hop.
    pub each: u32,
}

/// The usual length of a packet, octets of IP.
const LENGTH: usize = 60;

impl TraceOrder {
    /// That it can be carried out.
    pub(super) fn check(&self) -> Result<(), ProbeError> {
        let wrong = |why: String| Err(ProbeError::Request(why));
        if self.first == 0 || self.first > self.last {
            return wrong(format!(
                "a TTL from {} to {}: expected 1 or more, and none behind the last",
                self.first, self.last
            ));
        }
        if self.each == 0 || self.in_flight == 0 {
            return wrong("no packets: expected one with each TTL, and one on its way, at least".into());
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
                wrong("a SYN has one length, and tells no speed: use udp or icmp".into())
            }
            Some(speed) if speed.lengths < LEAST_LENGTHS || speed.each == 0 => wrong(format!(
                "{} lengths, {} packets of each: expected {LEAST_LENGTHS} lengths and one packet at least",
                speed.lengths, speed.each
            )),
            _ => Ok(()),
        }
    }

    /// The packets of this order over a flow, on a path that is taken to carry `mtu`.
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
                        "speed is told by {} lengths from {least} B on, and this path carries {mtu} B",
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

/// The longest packet by which speed is estimated, octets of IP: on longer ones a path of Ethernet would have to be told so.
const LONGEST: usize = 1500;
