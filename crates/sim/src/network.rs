//! The wires between the hosts.

use netrig_core::{Direction, Heading, Instant, Link, LinkEvent, Seeds, Sink, quantity};
use netrig_experiment::{Balance, Hop, Route, RunError, Scenario};
use netrig_link::{Counters, Line};
use netrig_transport::Packet;

use crate::agenda::{Actor, Agenda, Appointment};
use crate::parcel::{Carriage, Parcel};
use crate::tap::Tap;
use crate::wire_meter::{Waits, WireMeter};

/// One direction of a link, with what watches it.
struct Wire {
    line: Line<Parcel>,
    counters: Counters,
    waits: Waits,
    appointment: Appointment,
}

/// A place on a way through the network; the next one stands behind it.
#[derive(Clone, Copy)]
enum Stop {
    /// Over this wire.
    Wire(u32),
    /// To the flow's end at this place in the world's list.
    End(u32),
}

/// All wires of a run, the ways over them, and the packets on them.
pub(crate) struct Network {
    pub agenda: Agenda,
    wires: Vec<Wire>,
    /// One for each wire; not beside it, for they are looked at once per tick and the wires once per packet.
    meters: Vec<WireMeter>,
    stops: Vec<Stop>,
    tap: Option<Box<Tap>>,
}

/// The wire of a link's direction: each link has two, one beside the other.
pub(crate) const fn wire_of(link: usize, direction: Direction) -> usize {
    2 * link + direction as usize
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
        let waits_wanted = sink.wants(&quantity::WAITING_TIME);
        let mut wires = Vec::with_capacity(2 * scenario.links.len());
        let mut meters = Vec::with_capacity(2 * scenario.links.len());
        for (link, number) in scenario.links.iter().zip(0..) {
            for (direction, settings) in
                [(Direction::Forward, &link.forward), (Direction::Backward, &link.backward)]
            {
                let name = format!("{}/{direction}", link.name);
                let line = Line::new(settings, seeds, &name)
                    .map_err(|error| RunError::Failed(format!("link `{name}`: {error}")))?;
                wires.push(Wire {
                    line,
                    counters: Counters::default(),
                    waits: Waits::new(waits_wanted),
                    appointment: Appointment::default(),
                });
                meters.push(WireMeter::new(number, direction, sink));
            }
        }
        let tap = Tap::new(scenario, sink);
        Ok(Self { agenda: Agenda::default(), wires, meters, stops: Vec::new(), tap })
    }

    /// Adds the way along `route` (or back along it) to a flow's end, and returns its first stop.
    pub fn add_way(&mut self, route: &Route, back: bool, to: u32) -> u32 {
        let first = self.stops.len();
        let along = |hop: &Hop| {
            let direction = if back { opposite(hop.direction) } else { hop.direction };
            Stop::Wire(wire_of(hop.link, direction) as u32)
        };
        self.stops.extend(route.hops.iter().map(along));
        if back {
            self.stops[first..].reverse();
        }
        self.stops.push(Stop::End(to));
        first as u32
    }

    /// A host sends a packet on the way that begins at `stop`.
    pub fn send(&mut self, now: Instant, packet: Packet, conn: Option<u32>, stop: u32, sink: &mut dyn Sink) {
        if let Stop::Wire(wire) = self.stops[stop as usize] {
            if let Some(tap) = &mut self.tap {
                tap.show(now, wire, Heading::Outbound, &packet, sink);
            }
            self.forward(now, wire, Parcel(Box::new(Carriage { packet, conn, stop })));
        }
    }

    /// The next packet that has arrived at the end of its way over `wire` by `now`, and at whose end. Packets
    /// that have further to go go on.
    pub fn arrived(&mut self, now: Instant, wire: u32, sink: &mut dyn Sink) -> Option<(u32, Box<Carriage>)> {
        loop {
            let Wire { line, counters, waits, .. } = &mut self.wires[wire as usize];
            // A simulated line is polled at its deadline, so `at` is `now`.
            let (at, mut parcel) = line.poll_deliver(now, &mut (counters, waits))?;
            parcel.0.stop += 1;
            let next = self.stops[parcel.0.stop as usize];
            if let Some(tap) = &mut self.tap {
                tap.show(at, wire, Heading::Inbound, &parcel.0.packet, sink);
                if let Stop::Wire(next) = next {
                    tap.show(at, next, Heading::Outbound, &parcel.0.packet, sink);
                }
            }
            match next {
                Stop::Wire(next) => self.forward(at, next, parcel),
                Stop::End(end) => return Some((end, parcel.0)),
            }
        }
    }

    /// An entry of the agenda for `wire` came; false if it is obsolete.
    pub fn met(&mut self, at: Instant, wire: u32) -> bool {
        self.wires[wire as usize].appointment.met(at)
    }

    /// Makes the next appointment of a wire that has been served.
    pub fn reappoint(&mut self, wire: u32) {
        let Wire { line, appointment, .. } = &mut self.wires[wire as usize];
        appointment.keep(line.poll_timeout(), Actor::Line(wire), &mut self.agenda);
    }

    /// A wire changes.
    pub fn apply(&mut self, now: Instant, wire: usize, event: LinkEvent) {
        let Wire { line, counters, waits, .. } = &mut self.wires[wire];
        line.apply(now, event, &mut (counters, waits));
        self.reappoint(wire as u32);
    }

    fn forward(&mut self, now: Instant, wire: u32, parcel: Parcel) {
        let Wire { line, counters, waits, appointment, .. } = &mut self.wires[wire as usize];
        line.offer(now, parcel, &mut (counters, waits));
        appointment.keep(line.poll_timeout(), Actor::Line(wire), &mut self.agenda);
    }

    /// Reports what the wires counted since the last tick.
    pub fn tick(&mut self, now: Instant, sink: &mut dyn Sink) {
        for (Wire { line, counters, waits, .. }, meter) in self.wires.iter_mut().zip(&mut self.meters) {
            if meter.is_wanted() {
                line.catch_up(now, &mut (&mut *counters, &mut *waits));
                meter.tick(now, counters, line.busy(now), sink);
            }
            meter.report(waits, sink);
        }
    }

    /// Every packet accounted for.
    ///
    /// # Errors
    /// Names the wire whose packets do not balance: a defect of a model.
    pub fn balance(&self) -> Result<Balance, RunError> {
        let mut sum = Balance::default();
        for (place, Wire { line, counters, .. }) in self.wires.iter().enumerate() {
            let inside = line.inside();
            let failed = |error| RunError::Failed(format!("wire {place}: {error}"));
            counters.balance(inside).map_err(failed)?;
            sum.offered += counters.offered.packets;
            sum.duplicated += counters.duplicated.packets;
            sum.delivered += counters.delivered.packets;
            sum.dropped += counters.dropped_in_all().packets;
            sum.inside += inside as u64;
        }
        Ok(sum)
    }
}
