//! Offered load of each direction of each link.

use std::collections::BTreeMap;

use netrig_core::Direction;
use netrig_link::wifi::Aggregation;
use netrig_link::{LinkSettings, WifiSettings};
use netrig_traffic::UDP_IPV4_HEADERS;

use crate::{Carrier, Flow, Scenario};

/// Offered load of one direction of one link.
#[derive(Default)]
pub(super) struct Offer<'s> {
    /// Offered application bytes per second.
    pub bytes_per_s: f64,
    /// Least share of time that the link needs to carry them, in seconds per second. From 1 on, the link is always
    /// busy.
    pub load: f64,
    pub flows: Vec<&'s Flow>,
}

impl Offer<'_> {
    /// Greatest rate at which the link can carry these application bytes, bytes per second.
    pub fn capacity(&self) -> f64 {
        self.bytes_per_s / self.load
    }
}

/// The load that open-loop sources, whose rate does not adapt, offer to each direction of each link.
pub(super) fn offers(scenario: &Scenario) -> BTreeMap<(usize, Direction), Offer<'_>> {
    let mut offers: BTreeMap<(usize, Direction), Offer<'_>> = BTreeMap::new();
    for flow in &scenario.flows {
        let Some(bytes_per_s) = flow.application.offered_load().filter(|load| load.is_finite()) else {
            continue;
        };
        for (link, direction) in travelled(flow) {
            let offer = offers.entry((link, direction)).or_default();
            offer.bytes_per_s += bytes_per_s;
            offer.load += bytes_per_s * seconds_per_byte(scenario.links[link].towards(direction), flow);
            offer.flows.push(flow);
        }
    }
    offers
}

/// The directions of links that carry most data of a flow: along its primary path, or against it if the application
/// sends answers.
pub(super) fn travelled(flow: &Flow) -> Vec<(usize, Direction)> {
    let back = flow.application.answers();
    let hops = flow.paths.first().map_or(&[][..], |path| &path.hops).iter();
    hops.map(|hop| match (hop.direction, back) {
        (Direction::Forward, false) | (Direction::Backward, true) => (hop.link, Direction::Forward),
        (Direction::Backward, false) | (Direction::Forward, true) => (hop.link, Direction::Backward),
    })
    .collect()
}

/// Time that a link needs for one byte of application data, s: from the rate of a line, or from the duration of a frame
/// exchange on WiFi.
fn seconds_per_byte(link: &LinkSettings, flow: &Flow) -> f64 {
    match link {
        LinkSettings::Line(line) => 8.0 / line.rate.bits_per_s() as f64,
        LinkSettings::Wifi(wifi) => {
            let headers = match flow.carrier {
                Carrier::Udp { headers: true } => f64::from(UDP_IPV4_HEADERS),
                _ => 0.0,
            };
            // Connections send full packets.
            let payload = flow.application.datagram().unwrap_or(wifi.mtu.bytes() as f64);
            packet_time(wifi, (payload + headers) as u64) / payload.max(1.0)
        }
        LinkSettings::Direct(_) => 0.0,
    }
}

/// Time for one packet of `bytes` bytes, s, if only this station sends and always has packets. The sum of the
/// interframe space, half the least contention window, the frame and its acknowledgement (IEEE Std 802.11-2016 clause
/// 10.3) is divided by the number of packets in the frame.
fn packet_time(wifi: &WifiSettings, bytes: u64) -> f64 {
    let WifiSettings { standard, rate, cw_min, aggregation, .. } = wifi;
    let mpdu = bytes + standard.overhead();
    let fits = |packets: &u64, limits: &Aggregation| {
        let bytes = packets * subframe(mpdu);
        bytes <= limits.bytes.bytes() && standard.airtime(bytes, *rate) <= limits.time
    };
    let together = aggregation.and_then(|limits| {
        (2..=u64::from(limits.packets)).take_while(|packets| fits(packets, &limits)).last()
    });
    let frame = standard.airtime(together.map_or(mpdu, |packets| packets * subframe(mpdu)), *rate);
    let acknowledged = standard.sifs() + standard.response_airtime(*rate, together.is_some());
    let backoff = standard.slot().as_secs_f64() * f64::from(*cw_min) / 2.0;
    ((standard.idle() + frame + acknowledged).as_secs_f64() + backoff) / together.unwrap_or(1) as f64
}

/// Bytes that an MPDU of length `mpdu` adds to an aggregate: a delimiter of 4 B, and padding to a multiple of
/// four (clause 9.7.1).
fn subframe(mpdu: u64) -> u64 {
    4 + mpdu.next_multiple_of(4)
}
