//! The wires between the hosts.

use netrig_core::{Delivery, Direction, Duration, Heading, Instant, Lane, LinkEvent, Seeds, Sink, Timeline};
use netrig_experiment::{Balance, Hop, LinkSettings, LinkSpec, Route, RunError, Scenario, channels};
use netrig_link::wire::Events;
use netrig_link::{LineSettings, Wire, WireId, WireMeters};
use netrig_transport::Packet;

use crate::agenda::{Actor, Agenda, Appointment};
use crate::air::Air;
use crate::cables::Cables;
use crate::flow_end::EndId;
use crate::host::Host;
use crate::parcel::{Carriage, Parcel};
use crate::tap::Tap;

/// One direction of a line, and when it is looked at next.
struct Passing {
    wire: Wire<Parcel>,
    appointment: Appointment,
}

/// What holds packets until their moment has come, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// One direction of a line.
    Wire(u32),
    /// The air of a channel.
    Air(u32),
    /// A host that takes time to receive.
    Host(u32),
    /// The cables.
    Cables,
}

/// One direction of a link, as packets take it.
#[derive(Clone, Copy)]
enum Passage {
    /// Over this wire.
    Wire(u32),
    /// Over a lane of the air at this place.
    Air(u32, Lane),
    /// Along a cable.
    Cable,
}

/// A stop on a way through the network; the next one stands behind it.
#[derive(Clone, Copy)]
enum Stop {
    /// Over a link.
    Over(Passage),
    /// Through the host at this place, which needs so long for it.
    Host(u32, Duration),
    /// To this end of a flow.
    End(EndId),
}

/// All wires and channels of a run, the ways over them, and the packets on them.
pub(crate) struct Network {
    pub agenda: Agenda,
    wires: Vec<Passing>,
    /// One for each wire; not beside it, for they are looked at once per tick and the wires once per packet.
    meters: Vec<WireMeters>,
    airs: Vec<Air>,
    /// All cables as one: a packet comes out of it when it went in, and what differs is where it goes.
    cables: Cables,
    /// Nodes that need time for what they receive, and their places in the scenario.
    hosts: Vec<Host>,
    /// Where packets go on each link, forward and backward.
    links: Vec<[Passage; 2]>,
    stops: Vec<Stop>,
    tap: Option<Box<Tap>>,
    /// What happened to packets on the links whose packets are wanted.
    events: Events,
    /// Packets that hosts have sent.
    sent: u32,
}

const fn opposite(direction: Direction) -> Direction {
    match direction {
        Direction::Forward => Direction::Backward,
        Direction::Backward => Direction::Forward,
    }
}

impl Network {
    /// The scenario's links, at rest.
    ///
    /// # Errors
    /// If a link's settings cannot be: a defect, for the experiment has checked them.
    pub fn new(scenario: &Scenario, seeds: &Seeds, sink: &dyn Sink) -> Result<Self, RunError> {
        let mut network = Self {
            agenda: Agenda::default(),
            wires: Vec::with_capacity(2 * scenario.links.len()),
            meters: Vec::with_capacity(2 * scenario.links.len()),
            airs: Vec::new(),
            cables: Cables::default(),
            hosts: Vec::new(),
            links: vec![[Passage::Wire(u32::MAX); 2]; scenario.links.len()],
            stops: Vec::new(),
            tap: Tap::new(scenario, sink),
            events: Events::default(),
            sent: 0,
        };
        for (number, link) in scenario.links.iter().enumerate() {
            for direction in [Direction::Forward, Direction::Backward] {
                match link.towards(direction) {
                    LinkSettings::Line(settings) => {
                        network.add_wire(number, link, direction, settings, seeds, sink)?;
                    }
                    LinkSettings::Direct(_) => {
                        network.links[number][direction as usize] = Passage::Cable;
                    }
                    // By their channels, below.
                    LinkSettings::Wifi(_) => {}
                }
            }
        }
        for (node, number) in scenario.nodes.iter().zip(0..) {
            network.hosts.extend(node.receive.map(|receive| Host::new(number, &node.name, receive.queue)));
        }
        for (channel, lanes) in channels(&scenario.links) {
            let place = network.airs.len() as u32;
            for (lane, number) in lanes.iter().zip(0..) {
                network.links[lane.link][lane.direction as usize] = Passage::Air(place, Lane(number));
            }
            let air = Air::new(&lanes, &scenario.links, seeds, &network.events, sink);
            let failed = |error| RunError::Failed(format!("channel `{channel}`: {error}"));
            network.airs.push(air.map_err(failed)?);
        }
        Ok(network)
    }

    fn add_wire(
        &mut self,
        number: usize,
        link: &LinkSpec,
        direction: Direction,
        settings: &LineSettings,
        seeds: &Seeds,
        sink: &dyn Sink,
    ) -> Result<(), RunError> {
        let id = WireId { link: number as u32, name: &link.name, direction };
        let wire = Wire::new(id, settings, seeds, &self.events, sink)
            .map_err(|error| RunError::Failed(format!("link `{}/{direction}`: {error}", link.name)))?;
        self.links[number][direction as usize] = Passage::Wire(self.wires.len() as u32);
        self.wires.push(Passing { wire, appointment: Appointment::default() });
        self.meters.push(WireMeters::new(id, settings, sink));
        Ok(())
    }

    /// Adds the way along `route` (or back along it) to a flow's end, at a node that needs so long for each packet of it
    /// if it needs any time, and returns the way's first stop.
    pub fn add_way(
        &mut self,
        route: &Route,
        back: bool,
        to: EndId,
        service: Option<(usize, Duration)>,
    ) -> u32 {
        let first = self.stops.len();
        let along = |hop: &Hop| {
            let direction = if back { opposite(hop.direction) } else { hop.direction };
            Stop::Over(self.links[hop.link][direction as usize])
        };
        self.stops.extend(route.hops.iter().map(along));
        if back {
            self.stops[first..].reverse();
        }
        let host = service.and_then(|(node, takes)| {
            let place = self.hosts.iter().position(|host| host.is_node(node))?;
            Some(Stop::Host(place as u32, takes))
        });
        self.stops.extend(host);
        self.stops.push(Stop::End(to));
        if let Some(tap) = &mut self.tap {
            tap.add_way(route, back, self.stops.len());
        }
        first as u32
    }

    /// A host sends a packet on the way that begins at `stop`.
    pub fn send(&mut self, now: Instant, packet: Packet, conn: Option<u32>, stop: u32, sink: &mut dyn Sink) {
        if let Some(tap) = &mut self.tap {
            tap.show(now, stop, Heading::Outbound, &packet, sink);
        }
        self.sent = self.sent.wrapping_add(1);
        let number = self.sent;
        let parcel = || Parcel(Box::new(Carriage { packet, conn, number, stop }));
        match self.stops[stop as usize] {
            Stop::Over(passage) => self.pass(now, passage, parcel()),
            // A way begins with a hop.
            Stop::Host(..) | Stop::End(_) => {}
        }
    }

    /// The next packet that has come out of `place` by `now` and is at the end of its way, and at whose end. Packets
    /// that have further to go go on.
    pub fn arrived(
        &mut self,
        now: Instant,
        place: Place,
        sink: &mut dyn Sink,
    ) -> Option<(EndId, Box<Carriage>)> {
        loop {
            // A place is polled at its deadline, so `at` is `now`.
            let (at, parcel) = match place {
                Place::Wire(wire) => {
                    let Delivery { at, packet, .. } = self.wires[wire as usize].wire.poll_deliver(now)?;
                    (at, packet)
                }
                Place::Air(air) => self.airs[air as usize].arrived(now)?,
                Place::Host(host) => self.hosts[host as usize].served(now)?,
                Place::Cables => self.cables.passed()?,
            };
            if let Some(arrived) = self.go_on(at, parcel, sink) {
                return Some(arrived);
            }
        }
    }

    /// Sends a packet on from where it is at `at`, or hands it over if this was the end of its way.
    #[inline]
    fn go_on(
        &mut self,
        at: Instant,
        mut parcel: Parcel,
        sink: &mut dyn Sink,
    ) -> Option<(EndId, Box<Carriage>)> {
        parcel.0.stop += 1;
        if let Some(tap) = &mut self.tap {
            let Carriage { packet, stop, .. } = &*parcel.0;
            tap.show(at, stop - 1, Heading::Inbound, packet, sink);
            tap.show(at, *stop, Heading::Outbound, packet, sink);
        }
        match self.stops[parcel.0.stop as usize] {
            Stop::Over(passage) => self.pass(at, passage, parcel),
            Stop::Host(next, takes) => {
                let host = &mut self.hosts[next as usize];
                host.take(at, takes, parcel);
                self.reappoint(Place::Host(next));
            }
            Stop::End(end) => return Some((end, parcel.0)),
        }
        None
    }

    /// An entry of the agenda for `place` came; false if it is obsolete.
    pub fn met(&mut self, at: Instant, place: Place) -> bool {
        match place {
            Place::Wire(wire) => self.wires[wire as usize].appointment.met(at),
            Place::Air(air) => self.airs[air as usize].appointment.met(at),
            Place::Host(host) => self.hosts[host as usize].appointment.met(at),
            Place::Cables => self.cables.appointment.met(at),
        }
    }

    /// Makes the next appointment of a place that has been served, or got something new.
    #[inline]
    pub fn reappoint(&mut self, place: Place) {
        let (deadline, appointment) = match place {
            Place::Wire(wire) => {
                let Passing { wire, appointment } = &mut self.wires[wire as usize];
                (wire.poll_timeout(), appointment)
            }
            Place::Air(air) => {
                let air = &mut self.airs[air as usize];
                (air.poll_timeout(), &mut air.appointment)
            }
            Place::Host(host) => {
                let host = &mut self.hosts[host as usize];
                (host.poll_timeout(), &mut host.appointment)
            }
            Place::Cables => (self.cables.poll_timeout(), &mut self.cables.appointment),
        };
        appointment.keep(deadline, Actor::Network(place), &mut self.agenda);
    }

    /// One direction of a link changes.
    pub fn apply(&mut self, now: Instant, link: usize, direction: Direction, event: LinkEvent) {
        match self.links[link][direction as usize] {
            Passage::Wire(wire) => {
                self.wires[wire as usize].wire.apply(now, event);
                self.reappoint(Place::Wire(wire));
            }
            Passage::Air(air, lane) => {
                self.airs[air as usize].apply(now, lane, event);
                self.reappoint(Place::Air(air));
            }
            // Nothing happens to a cable.
            Passage::Cable => {}
        }
    }

    #[inline]
    fn pass(&mut self, now: Instant, passage: Passage, parcel: Parcel) {
        match passage {
            Passage::Wire(wire) => self.forward(now, wire, parcel),
            Passage::Air(air, lane) => self.radiate(now, air, lane, parcel),
            Passage::Cable => {
                self.cables.take(now, parcel);
                self.reappoint(Place::Cables);
            }
        }
    }

    fn forward(&mut self, now: Instant, wire: u32, parcel: Parcel) {
        let next = &mut self.wires[wire as usize];
        next.wire.offer(now, parcel);
        next.appointment.keep(next.wire.poll_timeout(), Actor::Network(Place::Wire(wire)), &mut self.agenda);
    }

    fn radiate(&mut self, now: Instant, air: u32, lane: Lane, parcel: Parcel) {
        self.airs[air as usize].offer(now, lane, parcel);
        self.reappoint(Place::Air(air));
    }

    /// Reports what the wires counted since the last tick.
    pub fn tick(&mut self, now: Instant, timeline: &Timeline, sink: &mut dyn Sink) {
        for (Passing { wire, .. }, meters) in self.wires.iter_mut().zip(&mut self.meters) {
            meters.tick(now, wire, timeline, sink);
        }
        self.airs.iter_mut().for_each(|air| air.tick(now, timeline, sink));
        self.events.tell(sink);
        self.hosts.iter_mut().for_each(|host| host.tick(now, timeline, sink));
    }

    /// Every packet accounted for.
    ///
    /// # Errors
    /// Names the link or the node whose packets do not balance: a defect of a model.
    pub fn balance(&self) -> Result<Balance, RunError> {
        let mut sum = Balance::default();
        let wires = self.wires.iter().zip(&self.meters);
        let wires =
            wires.map(|(Passing { wire, .. }, meters)| (meters.name(), wire.counters(), wire.balance()));
        for (name, counters, inside) in wires.chain(self.airs.iter().flat_map(Air::account)) {
            let inside = inside.map_err(|error| RunError::Failed(format!("{name}: {error}")))?;
            sum.offered += counters.offered.packets;
            sum.duplicated += counters.duplicated.packets;
            sum.delivered += counters.delivered.packets;
            sum.dropped += counters.dropped_in_all().packets;
            sum.inside += inside as u64;
        }
        sum.offered += self.cables.offered;
        sum.delivered += self.cables.delivered;
        sum.inside += self.cables.underway.len() as u64;
        for host in &self.hosts {
            let own = host.balance();
            if !own.holds() {
                return Err(RunError::Failed(format!(
                    "node {}: packets do not balance: {own:?}",
                    host.name()
                )));
            }
            sum.offered += own.offered;
            sum.delivered += own.delivered;
            sum.dropped += own.dropped;
            sum.inside += own.inside;
        }
        Ok(sum)
    }
}
