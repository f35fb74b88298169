//! The wires between the hosts.

use std::collections::{BTreeMap, BTreeSet};

use netrig_core::{
    Delivery, Direction, Duration, HOP_LIMIT, Heading, InFlight, Instant, Lane, LinkEvent, Sample, Seeds,
    Sink, Subject, Timeline, Waiting, quantity,
};
use netrig_experiment::{Balance, Hop, LinkSettings, LinkSpec, Route, RunError, Scenario, channels};
use netrig_link::wire::{Events, words};
use netrig_link::{
    Counters, FifoDelivery, FifoLine, FifoReading, Imbalance, LineSettings, Wire, WireId, WireMeters,
};

use crate::agenda::{Actor, Agenda, Appointment};
use crate::air::Air;
use crate::cables::Cables;
use crate::flow_end::EndId;
#[cfg(test)]
use crate::flow_end::Side;
use crate::host::Host;
use crate::merge::{Merge, MergingPacket};
use crate::parcel::{Carriage, Parcel};
use crate::tap::Tap;

/// One direction of a line, and when it is looked at next.
struct Passing {
    wire: Wire<Parcel>,
    appointment: Appointment,
}

/// One direction of a line with a closed form. What each packet needs is in the first cache lines.
#[repr(C, align(64))]
struct FifoPassing {
    /// The moment of the agenda's entry for its next packet; never if there is none. No packet overtakes another, so one entry
    /// at a time is enough. An outage may leave an entry behind that has no packet; it is earlier or no longer expected.
    entry_at: Instant,
    line: FifoLine<Parcel>,
    /// It has outages: it is not offered packets ahead of time, and offers none.
    has_outages: bool,
    /// The lines that only this one feeds: they are offered its packets ahead of time.
    fed: Vec<u32>,
}

/// What the events of a scenario do to one direction of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineChanges {
    None,
    /// Outages that drop all packets inside.
    Outages,
    Others,
}

impl LineChanges {
    /// Of this direction of link `number`.
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
    /// Over this line with a closed form.
    Fifo(u32),
    /// Over this line with a closed form, and ahead of time to the next one.
    Ahead(u32),
    /// Over this line with a closed form, and through a merge to the next one.
    Merging { line: u32, merge: u32 },
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
    /// To a router that drops it, for its hop limit runs out there.
    Expires(u32),
}

/// A router at which hop limits run out.
struct ExpiringNode {
    node: u32,
    /// Packets that it has dropped for that.
    dropped: u64,
    /// How many at the last tick, and when that was.
    before: u64,
    ticked: Instant,
}

impl ExpiringNode {
    /// Reports what it dropped since the last tick; nothing as long as it has dropped none.
    fn tick(&mut self, name: &str, now: Instant, timeline: &Timeline, sink: &mut dyn Sink) {
        let (subject, dropped) = (Subject::Node(self.node), self.dropped - self.before);
        if self.dropped > 0 {
            let quantity = &quantity::HOP_LIMIT_DROPS;
            sink.sample(subject, Sample { at: now, quantity, value: dropped as f64 });
        }
        if dropped > 0 {
            let why = format!("their hop limit of {HOP_LIMIT} ran out");
            timeline.note(now, subject, || words::drops(name, dropped, &why, self.ticked), sink);
        }
        (self.before, self.ticked) = (self.dropped, now);
    }
}

/// All wires and channels of a run, the ways over them, and the packets on them.
pub(crate) struct Network {
    pub agenda: Agenda,
    wires: Vec<Passing>,
    fifos: Vec<FifoPassing>,
    merges: Vec<Merge>,
    /// One for each line, in the order of the links; not beside it, for they are looked at once per tick and the lines once
    /// per packet.
    meters: Vec<(Passage, WireMeters)>,
    /// Indices in `meters` of the lines that have something to report.
    reporting: Vec<usize>,
    airs: Vec<Air>,
    /// All cables as one: a packet comes out of it when it went in, and what differs is where it goes.
    cables: Cables,
    /// Nodes that need time for what they receive, and their places in the scenario.
    hosts: Vec<Host>,
    /// Where packets go on each link, forward and backward.
    links: Vec<[Passage; 2]>,
    stops: Vec<Stop>,
    /// The stops at which a way begins.
    beginnings: BTreeSet<usize>,
    expiring: Vec<ExpiringNode>,
    /// The name of each node.
    names: Vec<String>,
    /// The two nodes of each link.
    ends: Vec<[usize; 2]>,
    tap: Option<Box<Tap>>,
    /// What happened to packets on the links whose packets are wanted.
    events: Events,
    /// Packets that hosts have sent.
    sent: u32,
    /// Memory of packets that have arrived, for reuse.
    pool: Vec<Parcel>,
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
            wires: Vec::new(),
            fifos: Vec::new(),
            merges: Vec::new(),
            meters: Vec::with_capacity(2 * scenario.links.len()),
            reporting: Vec::new(),
            airs: Vec::new(),
            cables: Cables::default(),
            hosts: Vec::new(),
            links: vec![[Passage::Wire(u32::MAX); 2]; scenario.links.len()],
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
        // A line that an event changes, or whose packets are logged, cannot decide a packet ahead of time. An outage takes back
        // what was decided, but not the waits that were noted.
        let has_outages = changes == LineChanges::Outages;
        let closed = if changes == LineChanges::Others
            || has_outages && sink.wants(&quantity::WAITING_TIME)
            || sink.wants_packets(id.link, direction)
        {
            None
        } else {
            FifoLine::new(id, settings, seeds, sink).map_err(failed)?
        };
        let place = 2 * number as u32 + direction as u32;
        let passage = if let Some(line) = closed {
            self.agenda.lines.fifos.push(place);
            let (entry_at, fed) = (Instant::NEVER, Vec::new());
            self.fifos.push(FifoPassing { line, entry_at, has_outages, fed });
            Passage::Fifo(self.fifos.len() as u32 - 1)
        } else {
            let wire = Wire::new(id, settings, seeds, &self.events, sink).map_err(failed)?;
            self.agenda.lines.wires.push(place);
            self.wires.push(Passing { wire, appointment: Appointment::default() });
            Passage::Wire(self.wires.len() as u32 - 1)
        };
        self.links[number][direction as usize] = passage;
        let meters = WireMeters::new(id, settings, sink);
        if !meters.is_unwanted() {
            self.reporting.push(self.meters.len());
        }
        self.meters.push((passage, meters));
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
            let place = self.expiring_at(node);
            self.stops.push(Stop::Expires(place));
            if let Some(tap) = &mut self.tap {
                tap.add_way(route, back, self.stops.len());
            }
            return first as u32;
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

    /// The node at which the hop limit of packets along `route`, or back along it, runs out.
    fn expires_at(&self, route: &Route, back: bool) -> Option<usize> {
        if route.hops.len() <= HOP_LIMIT {
            return None;
        }
        let place = if back { route.hops.len() - HOP_LIMIT } else { HOP_LIMIT - 1 };
        let hop = &route.hops[place];
        let [first, second] = self.ends[hop.link];
        Some(if (hop.direction == Direction::Forward) != back { second } else { first })
    }

    /// The place of a router among those at which hop limits run out.
    fn expiring_at(&mut self, node: usize) -> u32 {
        let node = node as u32;
        let known = self.expiring.iter().position(|own| own.node == node);
        known.unwrap_or_else(|| {
            self.expiring.push(ExpiringNode { node, dropped: 0, before: 0, ticked: Instant::ZERO });
            self.expiring.len() - 1
        }) as u32
    }

    /// Finds the lines that are offered packets ahead of time. Call it once all ways have been added. Such a line has a closed
    /// form, and a single other line with a closed form feeds it; the node between the two is not captured.
    pub fn chain(&mut self) {
        #[derive(Clone, Copy, PartialEq)]
        enum Feeder {
            None,
            Line(u32),
            Several,
        }
        let fifo_at = |place: usize| match self.stops.get(place) {
            Some(Stop::Over(Passage::Fifo(line))) if !self.fifos[*line as usize].has_outages => Some(*line),
            _ => None,
        };
        let mut feeders = vec![Feeder::None; self.fifos.len()];
        for place in 0..self.stops.len() {
            let Some(line) = fifo_at(place) else { continue };
            let before = place.checked_sub(1).filter(|_| !self.beginnings.contains(&place));
            let feeder = match before.and_then(|before| Some((before, fifo_at(before)?))) {
                Some((before, line)) if !self.is_tapped(before) => Feeder::Line(line),
                _ => Feeder::Several,
            };
            let known = &mut feeders[line as usize];
            *known = if *known == Feeder::None || *known == feeder { feeder } else { Feeder::Several };
        }
        let chained = |place: usize| {
            let (Some(line), Some(next)) = (fifo_at(place), fifo_at(place + 1)) else { return false };
            !self.beginnings.contains(&(place + 1)) && feeders[next as usize] == Feeder::Line(line)
        };
        let chained: Vec<_> = (0..self.stops.len()).filter(|place| chained(*place)).collect();
        for place in chained {
            if let Stop::Over(Passage::Fifo(line)) = self.stops[place] {
                self.stops[place] = Stop::Over(Passage::Ahead(line));
            }
        }
        for (line, feeder) in (0..).zip(feeders) {
            if let Feeder::Line(feeder) = feeder {
                self.fifos[feeder as usize].fed.push(line);
            }
        }
        self.find_merges();
    }

    /// Finds the merges: see [`Merge`]. Call it after the chains are known. Lines whose packets go on through one have closed forms and
    /// lead to one line only, which has a closed form and a delay, and to which no others lead; the node between is not captured.
    fn find_merges(&mut self) {
        let without_outages = |line: u32| (!self.fifos[line as usize].has_outages).then_some(line);
        let fifo_at = |place: usize| match self.stops.get(place) {
            Some(Stop::Over(Passage::Fifo(line))) => without_outages(*line),
            _ => None,
        };
        let target_at = |place: usize| match self.stops.get(place) {
            Some(Stop::Over(Passage::Fifo(line) | Passage::Ahead(line))) => without_outages(*line)
                .filter(|line| self.fifos[*line as usize].line.delay() >= Merge::LEAST_DELAY),
            _ => None,
        };
        // For each line the one to which it leads; none if that is more than one, or not a line that can be a target.
        let mut leads_to: BTreeMap<u32, Option<u32>> = BTreeMap::new();
        for place in 0..self.stops.len() {
            let Some(line) = fifo_at(place) else { continue };
            let FifoPassing { line: fifo, fed, .. } = &self.fifos[line as usize];
            let may_merge = fed.is_empty() && fifo.takes_time();
            let next = target_at(place + 1)
                .filter(|_| may_merge)
                .filter(|_| !self.is_tapped(place) && !self.beginnings.contains(&(place + 1)));
            leads_to
                .entry(line)
                .and_modify(|known| *known = known.filter(|known| Some(*known) == next))
                .or_insert(next);
        }
        let leads = |place: usize| fifo_at(place).and_then(|line| leads_to[&line]);
        let refused: BTreeSet<u32> = (0..self.stops.len())
            .filter(|place| {
                let before = place.checked_sub(1).filter(|_| !self.beginnings.contains(place));
                target_at(*place).is_some() && before.and_then(leads) != target_at(*place)
            })
            .filter_map(target_at)
            .collect();
        let (mut merges, mut merge_of) = (BTreeMap::new(), BTreeMap::new());
        for (line, target) in leads_to {
            let Some(target) = target.filter(|target| !refused.contains(target)) else { continue };
            let merge = *merges.entry(target).or_insert_with(|| {
                self.merges.push(Merge::new(target, self.fifos[target as usize].line.delay()));
                self.merges.len() as u32 - 1
            });
            self.merges[merge as usize].feeders.push(line);
            merge_of.insert(line, merge);
        }
        for stop in &mut self.stops {
            if let Stop::Over(Passage::Fifo(line)) = *stop
                && let Some(&merge) = merge_of.get(&line)
            {
                *stop = Stop::Over(Passage::Merging { line, merge });
            }
        }
    }

    /// Whether the frames at the node behind this stop are captured.
    fn is_tapped(&self, stop: usize) -> bool {
        self.tap.as_ref().is_some_and(|tap| tap.is_behind(stop))
    }

    /// A packet of `ip_len` bytes goes on from `stop` at `now`: over lines with a closed form up to the first that does not send
    /// ahead of time, or over another link, or into a host that takes time. Returns it if it is at the end of its way.
    #[inline(always)]
    fn advance(
        &mut self,
        now: Instant,
        mut parcel: Parcel,
        mut stop: u32,
        ip_len: u32,
    ) -> Option<(EndId, Box<Carriage>)> {
        let mut at = now;
        loop {
            match self.stops[stop as usize] {
                Stop::Over(Passage::Ahead(line)) => {
                    let Some(arrives) = self.fifos[line as usize].line.offer(now, at, ip_len, None) else {
                        self.recycle(parcel.0);
                        return None;
                    };
                    at = arrives;
                    stop += 1;
                }
                Stop::Over(Passage::Fifo(number)) => {
                    let FifoPassing { line, entry_at, .. } = &mut self.fifos[number as usize];
                    if let Some(arrives) = line.offer(now, at, ip_len, Some((parcel, stop)))
                        && *entry_at == Instant::NEVER
                    {
                        *entry_at = arrives;
                        // A packet that went on ahead of time may be before it.
                        let since = at.max(line.arrival_before_last());
                        self.agenda.enter_since(arrives, since, Actor::FifoLine(number));
                    }
                    return None;
                }
                Stop::Over(Passage::Merging { line: place, merge: number }) => {
                    let line = &mut self.fifos[place as usize].line;
                    let Some(arrives) = line.offer(now, at, ip_len, None) else {
                        self.recycle(parcel.0);
                        return None;
                    };
                    let merge = &mut self.merges[number as usize];
                    let since = at.max(line.arrival_before_last());
                    merge.enter(MergingPacket { at: arrives, since, parcel, line: place, stop, ip_len });
                    merge.reappoint(number, &mut self.agenda);
                    return None;
                }
                Stop::End(end) => return Some((end, parcel.0)),
                other => {
                    parcel.0.stop = stop;
                    self.enter_place(now, other, parcel);
                    return None;
                }
            }
        }
    }

    /// A packet comes to a link or a host that holds it until it goes on.
    #[inline(never)]
    fn enter_place(&mut self, now: Instant, stop: Stop, parcel: Parcel) {
        match stop {
            Stop::Over(Passage::Wire(wire)) => {
                self.wires[wire as usize].wire.offer(now, parcel);
                self.reappoint(Place::Wire(wire));
            }
            Stop::Over(Passage::Air(air, lane)) => {
                self.airs[air as usize].offer(now, lane, parcel);
                self.reappoint(Place::Air(air));
            }
            Stop::Over(Passage::Cable) => {
                self.cables.take(now, parcel);
                self.reappoint(Place::Cables);
            }
            Stop::Host(host, takes) => {
                self.hosts[host as usize].take(now, takes, parcel);
                self.reappoint(Place::Host(host));
            }
            Stop::Expires(place) => {
                self.expiring[place as usize].dropped += 1;
                self.recycle(parcel.0);
            }
            // These hold no packet, or have taken it already.
            Stop::Over(Passage::Fifo(_) | Passage::Ahead(_) | Passage::Merging { .. }) | Stop::End(_) => {}
        }
    }

    /// The next packet that has come out of a line with a closed form and is at the end of its way, and at whose end. Makes the
    /// line's next entry when all packets that came by `now` have been delivered.
    #[inline]
    pub fn arrived_from_fifo(
        &mut self,
        now: Instant,
        number: u32,
        sink: &mut dyn Sink,
    ) -> Option<(EndId, Box<Carriage>)> {
        loop {
            let FifoPassing { line, entry_at, .. } = &mut self.fifos[number as usize];
            let Some(FifoDelivery { at, packet, ip_len, note }) = line.poll_deliver(now) else {
                if now < *entry_at {
                    return None;
                }
                *entry_at = Instant::NEVER;
                if let Some((arrives, offered)) = line.next_delivery() {
                    *entry_at = arrives;
                    self.agenda.enter_since(arrives, offered.max(now), Actor::FifoLine(number));
                }
                return None;
            };
            // Its place is in the line's record: to look at the packet would cost as much as the rest.
            if let Some(arrived) = self.go_on(at, packet, note, ip_len, sink) {
                return Some(arrived);
            }
        }
    }

    /// An entry of the agenda for a merge came.
    pub fn serve_merge(&mut self, now: Instant, number: u32) {
        self.merges[number as usize].met();
        self.forward_merged(now, number);
        self.merges[number as usize].reappoint(number, &mut self.agenda);
    }

    /// The packets that came out of the lines of a merge before `until` go on, in their order.
    fn forward_merged(&mut self, until: Instant, number: u32) {
        while let Some(MergingPacket { at, parcel, stop, ip_len, .. }) =
            self.merges[number as usize].next_before(until)
        {
            // A line comes next, so it is not at the end of its way.
            self.advance(at, parcel, stop + 1, ip_len);
        }
    }

    /// Keeps the memory of a packet that has arrived.
    #[inline]
    pub fn recycle(&mut self, carriage: Box<Carriage>) {
        self.pool.push(Parcel(carriage));
    }

    /// Memory for a packet to be sent.
    #[inline]
    pub fn vacant(&mut self) -> Box<Carriage> {
        match self.pool.pop() {
            Some(parcel) => parcel.0,
            None => Carriage::vacant(),
        }
    }

    /// Packets that are on their way.
    pub fn packets(&self) -> usize {
        let fifos: usize = self.fifos.iter().map(|passing| passing.line.held()).sum();
        let wires: usize = self.wires.iter().map(|passing| passing.wire.inside()).sum();
        let merges: usize = self.merges.iter().map(Merge::len).sum();
        let airs: usize = self.airs.iter().map(Air::inside).sum();
        let hosts: u64 = self.hosts.iter().map(|host| host.balance().inside).sum();
        fifos + wires + merges + airs + hosts as usize + self.cables.underway.len()
    }

    /// Memory of packets, of what lines note of them, and of what is to happen, bytes.
    pub fn bytes(&self) -> usize {
        let lines: usize = self.fifos.iter().map(|passing| passing.line.bytes()).sum();
        let wires: usize = self.wires.iter().map(|passing| passing.wire.noted_bytes()).sum();
        let merges: usize = self.merges.iter().map(Merge::bytes).sum();
        let packets = self.packets() + self.pool.len();
        packets * Carriage::BYTES + lines + merges + wires + self.events.bytes() + self.agenda.bytes()
    }

    /// A host sends a packet on the way that begins at its stop.
    #[inline]
    pub fn send(&mut self, now: Instant, mut carriage: Box<Carriage>, sink: &mut dyn Sink) {
        let stop = carriage.stop;
        if let Some(tap) = &mut self.tap {
            tap.show(now, stop, Heading::Outbound, &carriage.packet, sink);
        }
        self.sent = self.sent.wrapping_add(1);
        carriage.number = self.sent;
        let ip_len = carriage.packet.header.ip_len;
        // A way begins with a hop, so nothing has arrived.
        self.advance(now, Parcel(carriage), stop, ip_len);
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
            let (stop, ip_len) = (parcel.0.stop, parcel.0.packet.header.ip_len);
            if let Some(arrived) = self.go_on(at, parcel, stop, ip_len, sink) {
                return Some(arrived);
            }
        }
    }

    /// Sends a packet of `ip_len` bytes, which has come over `stop`, on at `at`, or hands it over if this was the end of its way.
    #[inline(always)]
    fn go_on(
        &mut self,
        at: Instant,
        parcel: Parcel,
        stop: u32,
        ip_len: u32,
        sink: &mut dyn Sink,
    ) -> Option<(EndId, Box<Carriage>)> {
        if let Some(tap) = &mut self.tap {
            let packet = &parcel.0.packet;
            tap.show(at, stop, Heading::Inbound, packet, sink);
            tap.show(at, stop + 1, Heading::Outbound, packet, sink);
        }
        self.advance(at, parcel, stop + 1, ip_len)
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
            // Of the events of lines, only outages that drop all packets inside happen to a line with a closed form.
            Passage::Fifo(number) => {
                let FifoPassing { line, entry_at, .. } = &mut self.fifos[number as usize];
                match event {
                    LinkEvent::Down { .. } if line.go_down(now) => *entry_at = Instant::NEVER,
                    LinkEvent::Up => line.go_up(),
                    _ => {}
                }
            }
            // A cable has no events. The other two occur in stops only, not in links.
            Passage::Cable | Passage::Ahead(_) | Passage::Merging { .. } => {}
        }
    }

    /// Reports what the wires counted since the last tick.
    pub fn tick(&mut self, now: Instant, timeline: &Timeline, sink: &mut dyn Sink) {
        // What the merges still hold is offered up to now, so that readings are complete.
        for number in 0..self.merges.len() as u32 {
            self.forward_merged(now + Duration::from_nanos(1), number);
        }
        for place in &self.reporting {
            let (passage, meters) = &mut self.meters[*place];
            match *passage {
                Passage::Wire(wire) => meters.tick(now, &mut self.wires[wire as usize].wire, timeline, sink),
                Passage::Fifo(line) => {
                    meters.tick_fifo(now, &mut self.fifos[line as usize].line, timeline, sink);
                }
                Passage::Air(..) | Passage::Ahead(_) | Passage::Merging { .. } | Passage::Cable => {}
            }
        }
        self.airs.iter_mut().for_each(|air| air.tick(now, timeline, sink));
        self.events.tell(sink);
        self.hosts.iter_mut().for_each(|host| host.tick(now, timeline, sink));
        for own in &mut self.expiring {
            own.tick(&self.names[own.node as usize], now, timeline, sink);
        }
    }

    /// Every packet accounted for at `now`.
    ///
    /// # Errors
    /// Names the link or the node whose packets do not balance: a defect of a model.
    pub fn balance(&self, now: Instant) -> Result<Balance, RunError> {
        let mut sum = Balance::default();
        let mut add = |counters: &Counters, inside: usize| {
            sum.offered += counters.offered.packets;
            sum.duplicated += counters.duplicated.packets;
            sum.delivered += counters.delivered.packets;
            sum.dropped += counters.dropped_in_all().packets;
            sum.inside += inside as u64;
        };
        for (passage, meters) in &self.meters {
            let failed = |error| RunError::Failed(format!("{}: {error}", meters.name()));
            match *passage {
                Passage::Wire(wire) => {
                    let wire = &self.wires[wire as usize].wire;
                    add(wire.counters(), wire.balance().map_err(failed)?);
                }
                Passage::Fifo(line) => {
                    let (counters, inside) = self.account(now, line).map_err(failed)?;
                    add(&counters, inside);
                }
                Passage::Air(..) | Passage::Ahead(_) | Passage::Merging { .. } | Passage::Cable => {}
            }
        }
        for merge in &self.merges {
            let counters = |line: &u32| self.fifos[*line as usize].line.read(now).counters;
            let delivered = merge.feeders.iter().map(|line| counters(line).delivered.packets).sum::<u64>();
            let offered = counters(&merge.target).offered.packets;
            if delivered != offered {
                let is_target = |(passage, _): &&(Passage, WireMeters)| matches!(*passage, Passage::Fifo(line) if line == merge.target);
                // Every line has meters.
                let name = self.meters.iter().find(is_target).map_or("", |(_, meters)| meters.name());
                return Err(RunError::Failed(format!(
                    "{name}: packets do not balance: {delivered} came from the lines that lead to it, and {offered} were offered to it"
                )));
            }
        }
        for (name, counters, inside) in self.airs.iter().flat_map(Air::account) {
            add(counters, inside.map_err(|error| RunError::Failed(format!("{name}: {error}")))?);
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

    /// The counters of a line with a closed form at `now`, and the number of packets inside. `delivered` is not the line's own
    /// count: it is the packets that came out of it, and those offered to the lines that it feeds. What leads to a merge is compared as a whole.
    fn account(&self, now: Instant, number: u32) -> Result<(Counters, usize), Imbalance> {
        let FifoPassing { line, fed, .. } = &self.fifos[number as usize];
        let FifoReading { mut counters, inside, .. } = line.read(now);
        let offered = |line: &u32| self.fifos[*line as usize].line.read(now).counters.offered.packets;
        if !self.merges.iter().any(|merge| merge.feeders.contains(&number)) {
            counters.delivered.packets = line.delivered() + fed.iter().map(offered).sum::<u64>();
        }
        counters.balance(inside).map(|()| (counters, inside))
    }
}

#[cfg(test)]
impl Network {
    /// Makes every packet vanish behind the first line whose packets go on ahead of time. Returns whether there is one.
    pub fn break_chain(&mut self) -> bool {
        self.break_behind(|passage| matches!(passage, Passage::Ahead(_)))
    }

    /// Makes every packet vanish behind the first line whose packets go on through a merge. Returns whether there is one.
    pub fn break_merge(&mut self) -> bool {
        self.break_behind(|passage| matches!(passage, Passage::Merging { .. }))
    }

    fn break_behind(&mut self, is_broken: impl Fn(&Passage) -> bool) -> bool {
        let is_broken = |stop: &Stop| matches!(stop, Stop::Over(passage) if is_broken(passage));
        let Some(place) = self.stops.iter().position(is_broken) else { return false };
        self.stops[place + 1] = Stop::End(EndId::of(0, Side::Server));
        true
    }
}
