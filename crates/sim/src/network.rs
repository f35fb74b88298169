//! The wires between the hosts.

use netrig_core::{Direction, Instant, Link, LinkEvent, Seeds, Sink, quantity};
use netrig_experiment::{Balance, Hop, Route, RunError, Scenario};
use netrig_link::{Counters, Line};
use netrig_transport::Packet;

use crate::agenda::{Actor, Agenda, Appointment};
use crate::parcel::{Contents, Depot, Parcel};
use crate::wire_meter::{Waits, WireMeter};

/// One direction of a link, with what watches it.
struct Wire {
    line: Line<Parcel>,
    counters: Counters,
    waits: Waits,
    meter: WireMeter,
    appointment: Appointment,
}

/// A route in one direction: the wires to pass, and who is at the end.
struct Way {
    wires: Box<[u32]>,
    /// Place of the flow's end in the world's list.
    to: u32,
}

/// All wires and ways of a run, and the packets on them.
pub(crate) struct Network {
    pub agenda: Agenda,
    depot: Depot,
    wires: Vec<Wire>,
    ways: Vec<Way>,
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
        for (link, number) in scenario.links.iter().zip(0..) {
            for (direction, settings, word) in [
                (Direction::Forward, &link.forward, "forward"),
                (Direction::Backward, &link.backward, "backward"),
            ] {
                let name = format!("{}/{word}", link.name);
                let line = Line::new(settings, seeds, &name)
                    .map_err(|error| RunError::Failed(format!("link `{name}`: {error}")))?;
                wires.push(Wire {
                    line,
                    counters: Counters::default(),
                    waits: Waits::new(waits_wanted),
                    meter: WireMeter::new(number, direction),
                    appointment: Appointment::default(),
                });
            }
        }
        Ok(Self { agenda: Agenda::default(), depot: Depot::default(), wires, ways: Vec::new() })
    }

    /// Adds the way along `route` (or back along it) to a flow's end, and returns its place.
    pub fn add_way(&mut self, route: &Route, back: bool, to: u32) -> u32 {
        let along = |hop: &Hop| {
            let direction = if back { opposite(hop.direction) } else { hop.direction };
            wire_of(hop.link, direction) as u32
        };
        let mut wires: Vec<u32> = route.hops.iter().map(along).collect();
        if back {
            wires.reverse();
        }
        self.ways.push(Way { wires: wires.into(), to });
        (self.ways.len() - 1) as u32
    }

    /// A host sends a packet on a way.
    pub fn send(&mut self, now: Instant, packet: Packet, conn: Option<u32>, way: u32) {
        let parcel = self.depot.send(packet.header, Contents { payload: packet.payload, conn }, way);
        self.forward(now, parcel);
    }

    /// The next parcel that has arrived at the end of its way over `wire` by `now`. Parcels that have
    /// further to go go on.
    pub fn arrived(&mut self, now: Instant, wire: u32) -> Option<Parcel> {
        loop {
            let Wire { line, counters, waits, .. } = &mut self.wires[wire as usize];
            // A simulated line is polled at its deadline, so `at` is `now`.
            let (at, mut parcel) = line.poll_deliver(now, &mut (counters, (waits, &mut self.depot)))?;
            parcel.hop += 1;
            if parcel.hop as usize == self.ways[parcel.way as usize].wires.len() {
                return Some(parcel);
            }
            self.forward(at, parcel);
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

    /// Takes the contents of a parcel that has arrived, and says at whose end.
    pub fn collect(&mut self, parcel: &Parcel) -> Option<(u32, Contents)> {
        let contents = self.depot.collect(parcel)?;
        Some((self.ways[parcel.way as usize].to, contents))
    }

    /// A wire changes.
    pub fn apply(&mut self, now: Instant, wire: usize, event: LinkEvent) {
        let Wire { line, counters, waits, .. } = &mut self.wires[wire];
        line.apply(now, event, &mut (counters, (waits, &mut self.depot)));
        self.reappoint(wire as u32);
    }

    fn forward(&mut self, now: Instant, parcel: Parcel) {
        let wire = self.ways[parcel.way as usize].wires[parcel.hop as usize];
        let Wire { line, counters, waits, appointment, .. } = &mut self.wires[wire as usize];
        line.offer(now, parcel, &mut (counters, (waits, &mut self.depot)));
        appointment.keep(line.poll_timeout(), Actor::Line(wire), &mut self.agenda);
    }

    /// Reports what the wires counted since the last tick.
    pub fn tick(&mut self, now: Instant, sink: &mut dyn Sink) {
        for Wire { line, counters, waits, meter, .. } in &mut self.wires {
            line.catch_up(now, &mut (&mut *counters, (&mut *waits, &mut self.depot)));
            meter.tick(now, counters, line.busy(now), sink);
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
