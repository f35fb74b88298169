//! The settings of a trace, and its plan.

use netrig_core::{Dscp, Duration, Size, settings};

use super::super::error::{ProbeError, ProbeResult};
use super::super::flow::packet::{FlowMethod, ProbeFlow};
use super::super::two_way::PACKETS;
use super::course::{MOST_PACKETS, TracePlan};
use super::speed::{LEAST_LENGTHS, SHORTEST_V4, SHORTEST_V6, SpeedPlan};

/// Default target ports: the first port of traceroute, and the port of HTTP.
const UDP_PORT: u16 = 33434;
const TCP_PORT: u16 = 80;

/// Heading of the settings of link rates in help texts.
const SPEED: &str = "Speed";

settings! {
    /// The settings of a trace.
    #[derive(Clone, Debug)]
    pub struct TraceSettings with defaults {
        /// Kind of packets.
        method: FlowMethod { value_name: "METHOD" } = FlowMethod::Udp;
        /// The first TTL.
        first: u8 { heading: PACKETS, value_name: "TTL" } = 1;
        /// The last TTL.
        hops: u8 { heading: PACKETS, value_name: "TTL" } = 30;
        /// Packets to each hop.
        count: u32 { heading: PACKETS } = 3;
        /// Length of each packet with the IP header, by default 60 B. Packets are never fragmented.
        size: Option<Size> { heading: PACKETS };
        /// Time after which a packet counts as lost.
        wait: Duration { heading: PACKETS } = Duration::from_secs(2);
        /// Minimum time between two packets.
        gap: Duration { heading: PACKETS } = Duration::from_millis(10);
        /// Maximum number of packets in flight.
        in_flight: usize { heading: PACKETS } = 16;
        /// Code point to send with: `ef`, `af11`, `cs5` or 0 to 63.
        dscp: Dscp { heading: PACKETS } = Dscp::BE;
        /// Estimate the speed of every link from how the delay grows with the length of the packets.
        speed: bool { heading: SPEED };
        /// Number of packet lengths for the speed, at least 5.
        lengths: usize { heading: SPEED, requires: &["speed"] } = 8;
        /// Packets of each of these lengths to each hop; only the shortest round-trip time of each length is used.
        each: u32 { heading: SPEED, requires: &["speed"] } = 8;
    }
}

impl TraceSettings {
    /// Port of a target that is given without a port.
    pub const fn port(&self) -> u16 {
        match self.method {
            FlowMethod::Udp => UDP_PORT,
            FlowMethod::Icmp => 0,
            FlowMethod::Tcp => TCP_PORT,
        }
    }

    /// Checks the settings.
    pub(super) fn check(&self) -> ProbeResult {
        let wrong = |why: String| Err(ProbeError::Request(why));
        if self.first == 0 || self.first > self.hops {
            return wrong(format!(
                "a TTL from {} to {}: expected 1 or more, not above the last",
                self.first, self.hops
            ));
        }
        if self.count == 0 || self.in_flight == 0 {
            return wrong("no packets: expected at least one with each TTL, and one in flight".into());
        }
        if self.wait.is_zero() || self.wait > Duration::from_secs(60) {
            return wrong("a waiting time: expected more than 0 s, at most 60 s".into());
        }
        let hops = usize::from(self.hops - self.first) + 1;
        let way = hops.saturating_mul(self.count as usize);
        let of_a_hop = if self.speed { self.lengths.saturating_mul(self.each as usize) } else { 0 };
        let speed = hops.saturating_mul(of_a_hop);
        if way.saturating_add(speed) > MOST_PACKETS {
            return wrong(format!("{} packets: expected at most {MOST_PACKETS}", way.saturating_add(speed)));
        }
        if self.speed && self.method == FlowMethod::Tcp {
            return wrong("SYNs have only one length, so they give no speed: use udp or icmp".into());
        }
        if self.speed && (self.lengths < LEAST_LENGTHS || self.each == 0) {
            return wrong(format!(
                "{} lengths, {} packets of each: expected {LEAST_LENGTHS} lengths and one packet at least",
                self.lengths, self.each
            ));
        }
        Ok(())
    }

    /// The plan of the trace for a flow, on a path with an estimated MTU of `mtu` octets.
    pub(super) fn plan(&self, flow: &ProbeFlow, mtu: usize) -> ProbeResult<TracePlan> {
        let shortest = flow.shortest();
        let length = self.size.map_or_else(|| LENGTH.max(shortest), Size::to_usize);
        if !(shortest..=usize::from(u16::MAX)).contains(&length) {
            return Err(ProbeError::Request(format!(
                "packets of {length} B: expected {shortest} B to {} B with headers",
                u16::MAX
            )));
        }
        let least = if flow.target.is_ipv4() { SHORTEST_V4 } else { SHORTEST_V6 };
        let speed = self.speed.then(|| {
            SpeedPlan::new(least, mtu.min(LONGEST), self.lengths, self.each).ok_or_else(|| {
                ProbeError::Request(format!(
                    "speed needs {} lengths from {least} B, and this path carries only {mtu} B",
                    self.lengths
                ))
            })
        });
        Ok(TracePlan {
            first: self.first,
            last: self.hops,
            each: self.count,
            length,
            wait: self.wait,
            gap: self.gap,
            in_flight: self.in_flight,
            speed: speed.transpose()?,
        })
    }
}

/// Default length of a packet, octets of IP.
const LENGTH: usize = 60;

/// The longest packet for the estimation of rates, octets of IP. Longer packets do not fit into an Ethernet frame.
const LONGEST: usize = 1500;
