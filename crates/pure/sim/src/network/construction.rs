//! The construction of a network from a scenario.

use std::collections::BTreeSet;

use netrig_core::{
    Direction, Duration, HOP_LIMIT, InFlight, Instant, Lane, LinkEvent, Seeds, Sink, Waiting, quantity,
};
use netrig_experiment::{Hop, LinkSettings, LinkSpec, Route, RunError, Scenario, channels};
use netrig_link::wire::Events;
use netrig_link::{FifoLine, LineSettings, Wire, WireId, WireMeters};

use super::{ExpiringNode, LinkPassage, Network, ScheduledFifo, ScheduledWire, Stop};
use crate::actor::EndId;
use crate::agenda::{Agenda, Appointment};
use crate::air::Air;
use crate::cables::Cables;
use crate::host::ReceivingHost;
use crate::tap::Tap;

/// The events of a scenario that change one direction of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineChanges {
    None,
    /// Only outages that drop all packets inside the line.
    Outages,
    Others,
}

impl LineChanges {
    /// The changes of direction `towards` of link `number`.
    fn new(scenario: &Scenario, number: usize, towards: Direction) -> Self {
        const LOSES_ALL: LinkEvent = LinkEvent::Down { queue: Waiting::Drop, in_flight: InFlight::Lose };
        let mut changes = Self::None;
        for change in scenario.events.iter().filter_map(|event| event.change_of(number, towards)) {
            if change != LOSES_ALL && change != LinkEvent::Up {
                return Self::Others;
            }
            changes = Self::Outages;
        }
        changes
    }
}

const fn opposite(direction: Direction) -> Direction {
    match direction {
        Direction::Forward => Direction::Backward,
        Direction::Backward => Direction::Forward,
    }
}

impl Network {
    /// The links of the scenario, without packets. The caller adds the ways afterwards.
    ///
    /// # Errors
    /// If the settings of a link are invalid. That is a defect, because the experiment was checked before.
    pub fn new(scenario: &Scenario, seeds: &Seeds, sink: &dyn Sink) -> Result<Self, RunError> {
        let mut network = Self {
            agenda: Agenda::default(),
            wires: Vec::new(),
            fifos: Vec::new(),
            merges: Vec::new(),
            meters: Vec::with_capacity(2 * scenario.links.len()),
            reporting: Vec::new(),
            airs: Vec::new(),
            cables: Cables::default(),
            hosts: Vec::new(),
            links: vec![[LinkPassage::Wire(u32::MAX); 2]; scenario.links.len()],
            stops: Vec::new(),
            beginnings: BTreeSet::new(),
            expiring: Vec::new(),
            names: scenario.nodes.iter().map(|node| node.name.clone()).collect(),
            ends: scenario.links.iter().map(|link| link.ends).collect(),
            tap: Tap::new(scenario, sink),
            events: Events::default(),
            sent: 0,
            pool: Vec::new(),
        };
        for (number, link) in scenario.links.iter().enumerate() {
            for direction in [Direction::Forward, Direction::Backward] {
                match link.towards(direction) {
                    LinkSettings::Line(settings) => {
                        let changes = LineChanges::new(scenario, number, direction);
                        network.add_line((number, link, direction), settings, changes, seeds, sink)?;
                    }
                    LinkSettings::Direct(_) => {
                        network.links[number][direction as usize] = LinkPassage::Cable;
                    }
                    // Added below, together with their channels.
                    LinkSettings::Wifi(_) => {}
                }
            }
        }
        for (node, number) in scenario.nodes.iter().zip(0..) {
            network
                .hosts
                .extend(node.receive.map(|receive| ReceivingHost::new(number, &node.name, receive.queue)));
        }
        for (channel, lanes) in channels(&scenario.links) {
            let index = network.airs.len() as u32;
            for (lane, number) in lanes.iter().zip(0..) {
                network.links[lane.link][lane.direction as usize] = LinkPassage::Air(index, Lane(number));
            }
            let air = Air::new(&lanes, &scenario.links, seeds, &network.events, sink);
            let failed = |error| RunError::Failed(format!("channel `{channel}`: {error}"));
            network.airs.push(air.map_err(failed)?);
        }
        Ok(network)
    }

    fn add_line(
        &mut self,
        (number, link, direction): (usize, &LinkSpec, Direction),
        settings: &LineSettings,
        changes: LineChanges,
        seeds: &Seeds,
        sink: &dyn Sink,
    ) -> Result<(), RunError> {
        let id = WireId { link: number as u32, name: &link.name, direction };
        let failed = |error| RunError::Failed(format!("link `{}/{direction}`: {error}", link.name));
        // A line with a closed form decides about each packet when it is offered. That is impossible if an event may
        // change the line or if its packets are logged. An outage is an exception: the line can revoke its decisions,
        // but not recorded waiting times.
        let has_outages = changes == LineChanges::Outages;
        let closed = if changes == LineChanges::Others
            || has_outages && sink.wants(&quantity::WAITING_TIME)
            || sink.wants_packets(id.link, direction)
        {
            None
        } else {
            FifoLine::new(id, settings, seeds, sink).map_err(failed)?
        };
        let position = 2 * number as u32 + direction as u32;
        let passage = if let Some(line) = closed {
            self.agenda.lines.fifos.push(position);
            let (entry_at, fed) = (Instant::NEVER, Vec::new());
            self.fifos.push(ScheduledFifo { line, entry_at, has_outages, fed });
            LinkPassage::Fifo(self.fifos.len() as u32 - 1)
        } else {
            let wire = Wire::new(id, settings, seeds, &self.events, sink).map_err(failed)?;
            self.agenda.lines.wires.push(position);
            self.wires.push(ScheduledWire { wire, appointment: Appointment::default() });
            LinkPassage::Wire(self.wires.len() as u32 - 1)
        };
        self.links[number][direction as usize] = passage;
        let meters = WireMeters::new(id, settings, sink);
        if !meters.is_unwanted() {
            self.reporting.push(self.meters.len());
        }
        self.meters.push((passage, meters));
        Ok(())
    }

    /// Adds a way to the end `to` of a flow: the stops along `route`, or in reverse if `back` is true. Returns its
    /// first stop. `service` is the receiving node and its service time for each packet, if it has one.
    pub fn add_way(
        &mut self,
        route: &Route,
        back: bool,
        to: EndId,
        service: Option<(usize, Duration)>,
    ) -> u32 {
        let first = self.stops.len();
        self.beginnings.insert(first);
        let along = |hop: &Hop| {
            let direction = if back { opposite(hop.direction) } else { hop.direction };
            Stop::Over(self.links[hop.link][direction as usize])
        };
        self.stops.extend(route.hops.iter().map(along));
        if back {
            self.stops[first..].reverse();
        }
        if let Some(node) = self.expires_at(route, back) {
            self.stops.truncate(first + HOP_LIMIT);
            let router = self.expiring_at(node);
            self.stops.push(Stop::Expires(router));
            if let Some(tap) = &mut self.tap {
                tap.add_way(route, back, self.stops.len());
            }
            return first as u32;
        }
        let host = service.and_then(|(node, takes)| {
            let index = self.hosts.iter().position(|host| host.is_node(node))?;
            Some(Stop::Host(index as u32, takes))
        });
        self.stops.extend(host);
        self.stops.push(Stop::End(to));
        if let Some(tap) = &mut self.tap {
            tap.add_way(route, back, self.stops.len());
        }
        first as u32
    }

    /// The node at which the hop limit of packets expires that travel along `route`, or in reverse if `back` is true.
    /// `None` if the route is short enough.
    fn expires_at(&self, route: &Route, back: bool) -> Option<usize> {
        if route.hops.len() <= HOP_LIMIT {
            return None;
        }
        let index = if back { route.hops.len() - HOP_LIMIT } else { HOP_LIMIT - 1 };
        let hop = &route.hops[index];
        let [first, second] = self.ends[hop.link];
        Some(if (hop.direction == Direction::Forward) != back { second } else { first })
    }

    /// The index of a router in `expiring`. Adds the router if it is not in the list.
    fn expiring_at(&mut self, node: usize) -> u32 {
        let node = node as u32;
        let known = self.expiring.iter().position(|own| own.node == node);
        known.unwrap_or_else(|| {
            self.expiring.push(ExpiringNode { node, dropped: 0, before: 0, ticked: Instant::ZERO });
            self.expiring.len() - 1
        }) as u32
    }
}
