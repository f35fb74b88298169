//! Warnings about token buckets that are smaller than the packets of a flow. A policer or shaper with such a bucket
//! never passes these packets.

use std::collections::BTreeMap;

use netrig_core::{CLIENT_PORT, Direction, Ecn, FiveTuple, Header, protocol};
use netrig_link::conditioning::DscpSet;
use netrig_link::{ShallowBucket, Shortfall};
use netrig_traffic::Settings;
use netrig_transport::sctp::{self, Encapsulation};

use super::conditioned::ClassPath;
use super::definition::Definition;
use super::diagnostic::Diagnostic;
use crate::{Carrier, Flow, Hop, Route, Scenario};

/// Bytes of the headers of TCP and IPv4. Over IPv6, a packet has the same length, because the segment is shortened by
/// the additional bytes of the header.
const TCP_IPV4_HEADERS: u64 = 40;
/// Bytes of the header of UDP (RFC 768).
const UDP_HEADER: u64 = 8;

/// Examines points and reports the buckets that are too shallow. A bucket that is too shallow at several points is
/// reported for the first of them.
#[derive(Default)]
pub(super) struct Buckets {
    /// The shallow buckets, by the position of the depth in the file.
    found: BTreeMap<Vec<String>, Shallow>,
}

/// A shallow bucket, and the longest packet that arrives at it.
struct Shallow {
    bucket: ShallowBucket,
    /// The group of the packet's flow.
    group: String,
    /// Length of the packet, bytes.
    packet: u32,
}

impl Buckets {
    pub(super) fn look_at(&mut self, scenario: &Scenario, definition: &Definition) {
        let mut here: BTreeMap<Vec<String>, Shallow> = BTreeMap::new();
        for (number, flow) in (0..).zip(&scenario.flows) {
            for (path, back) in ways(flow) {
                let Some(header) = largest_packet(scenario, flow, number, path, back) else { continue };
                let mut sent: DscpSet = [header.dscp].into_iter().collect();
                for Hop { link, direction } in hops(path, back) {
                    let way = ClassPath { definition, link: &scenario.links[link], direction };
                    let mut gone_on: Vec<_> = Vec::new();
                    for dscp in sent.iter() {
                        let prospect = way.settings().prospect(&Header { dscp, ..header });
                        gone_on.extend(prospect.code_points.iter());
                        for bucket in prospect.shallow {
                            let place = way.place(&bucket.field);
                            let packet = header.ip_len;
                            if here.get(&place).is_none_or(|known| known.packet < packet) {
                                here.insert(place, Shallow { bucket, group: flow.group.clone(), packet });
                            }
                        }
                    }
                    sent = gone_on.into_iter().collect();
                }
            }
        }
        for (place, shallow) in here {
            self.found.entry(place).or_insert(shallow);
        }
    }

    /// A warning for every bucket that is too shallow, at the position of its depth.
    pub(super) fn finish(self, definition: &Definition) -> impl Iterator<Item = Diagnostic> {
        self.found.into_iter().map(|(place, shallow)| {
            let Shallow { bucket: ShallowBucket { depth, counted, shortfall, .. }, group, packet } = shallow;
            let framed = match counted == u64::from(packet) {
                true => String::new(),
                false => format!(", which are {counted} B with the line's framing,"),
            };
            let shortfall = match shortfall {
                Shortfall::NeverGreen => "the meter finds none of them green",
                Shortfall::NeverYellow => "the meter finds none of them yellow",
                Shortfall::Red => "the meter finds each of them red",
                Shortfall::Dropped => "each of them is dropped",
            };
            let message =
                format!("packets of {packet} B of flow `{group}`{framed} do not fit the bucket of {depth}: {shortfall}");
            let help = match place.last().is_some_and(|field| field == "reserve") {
                true => format!(
                    "a class of low latency may send 200 ms of its reservation at once; `burst = \"{counted} B\"` lets such a \
                     packet pass"
                ),
                false => format!("{counted} B are the least with which such a packet passes"),
            };
            let place: Vec<&str> = place.iter().map(String::as_str).collect();
            Diagnostic::warning(definition.root.at(&place).span.clone(), message).help(help)
        })
    }
}

/// The paths that carry most data of a flow. The second value is true for the direction from the second end to the
/// first.
fn ways(flow: &Flow) -> impl Iterator<Item = (&Route, bool)> {
    let paths = match flow.carrier {
        Carrier::Sctp(_) | Carrier::Mptcp(_) => &flow.paths[..],
        Carrier::Tcp(_) | Carrier::Udp { .. } => flow.paths.get(..1).unwrap_or_default(),
    };
    let directions: &[bool] = match &flow.application {
        // The request and its answer have the same length.
        Settings::Ping(_) => &[false, true],
        application if application.answers() => &[true],
        _ => &[false],
    };
    paths.iter().flat_map(move |path| directions.iter().map(move |back| (path, *back)))
}

/// The links of a path in the order in which a packet passes them; `back` is the reverse direction.
fn hops(path: &Route, back: bool) -> Vec<Hop> {
    let turned = |hop: &Hop| {
        let direction = match hop.direction {
            Direction::Forward => Direction::Backward,
            Direction::Backward => Direction::Forward,
        };
        Hop { direction, ..*hop }
    };
    if back { path.hops.iter().rev().map(turned).collect() } else { path.hops.clone() }
}

/// The header of the longest packets that a flow sends on a path. Connections send full packets.
fn largest_packet(scenario: &Scenario, flow: &Flow, number: u32, path: &Route, back: bool) -> Option<Header> {
    let ports = (CLIENT_PORT, flow.server_port(number));
    let (protocol, (src_port, dst_port)) = match &flow.carrier {
        Carrier::Tcp(_) | Carrier::Mptcp(_) => (protocol::TCP, ports),
        Carrier::Udp { .. } => (protocol::UDP, ports),
        Carrier::Sctp(config) => match config.encapsulation {
            Encapsulation::Ip => (protocol::SCTP, ports),
            Encapsulation::Udp => (protocol::UDP, (Encapsulation::UDP_PORT, Encapsulation::UDP_PORT)),
        },
    };
    let there = FiveTuple {
        src: scenario.address(flow.from, path.hops.first()?.link)?,
        dst: scenario.address(flow.to, path.hops.last()?.link)?,
        src_port,
        dst_port,
        protocol,
    };
    let length = match &flow.carrier {
        Carrier::Tcp(config) => config.mss.bytes() + TCP_IPV4_HEADERS,
        Carrier::Mptcp(mptcp) => mptcp.tcp.mss.bytes() + TCP_IPV4_HEADERS,
        Carrier::Sctp(config) => largest_of_sctp(config),
        Carrier::Udp { headers: false } => flow.application.largest_datagram()?,
        Carrier::Udp { headers: true } => {
            flow.application.largest_datagram()? + u64::from(there.ip_header_len()) + UDP_HEADER
        }
    };
    Some(Header {
        flow: if back { there.reversed() } else { there },
        ip_len: u32::try_from(length).ok()?,
        dscp: flow.code_points()[usize::from(back)],
        ecn: Ecn::NotEct,
    })
}

/// Length of the longest packet of an association, bytes: its MTU, if several chunks may be bundled.
fn largest_of_sctp(config: &sctp::Config) -> u64 {
    let (mtu, room) = (config.mtu, config.room_of_a_packet());
    let unused = room.bytes() - room.min(config.max_chunk).bytes();
    if config.bundling { mtu.bytes() } else { mtu.bytes() - unused }
}
