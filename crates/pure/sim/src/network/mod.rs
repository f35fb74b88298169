//! The links between the hosts, and the ways over them. A way is the list of stops of a packet from one end of a flow
//! to the other.

mod accounting;
mod chains;
mod construction;

use std::collections::BTreeSet;

use netrig_core::{Delivery, Direction, Duration, Heading, Instant, Lane, LinkEvent, Sink};
use netrig_link::wire::Events;
use netrig_link::{FifoDelivery, FifoLine, Wire, WireMeters};

use crate::actor::{Actor, EndId, PacketHolder};
use crate::agenda::{Agenda, Appointment};
use crate::air::Air;
use crate::cables::Cables;
use crate::host::ReceivingHost;
use crate::merge::{Merge, MergingPacket};
use crate::parcel::{Carriage, Parcel};
use crate::tap::Tap;

/// One direction of a line, and its next entry in the agenda.
struct ScheduledWire {
    wire: Wire<Parcel>,
    appointment: Appointment,
}

/// One direction of a line with a closed form: it computes the delivery time of a packet when the packet is offered.
/// The fields that each packet needs are in the first cache lines.
#[repr(C, align(64))]
struct ScheduledFifo {
    /// The time of the agenda's entry for the next packet, or [`Instant::NEVER`]. Packets do not overtake each other,
    /// so one entry at a time is enough. After an outage, the agenda may still contain an entry for a packet that was
    /// lost. That entry is ignored, because `entry_at` is then later or [`Instant::NEVER`].
    entry_at: Instant,
    line: FifoLine<Parcel>,
    /// Whether it has outages. If so, it receives no packets ahead of time, and forwards none ahead of time.
    has_outages: bool,
    /// The lines that only this line feeds. They receive its packets ahead of time.
    fed: Vec<u32>,
}

/// The passage of packets over one direction of a link.
#[derive(Clone, Copy)]
enum LinkPassage {
    /// Over this wire.
    Wire(u32),
    /// Over this line with a closed form.
    Fifo(u32),
    /// Over this line with a closed form, which forwards packets to the next line ahead of time.
    Ahead(u32),
    /// Over this line with a closed form, whose packets a merge forwards to the next line.
    Merging { line: u32, merge: u32 },
    /// Over a lane of the WiFi channel with this number.
    Air(u32, Lane),
    /// Along a cable.
    Cable,
}

/// One step of a way through the network. The next step of the way is the next in the list.
#[derive(Clone, Copy)]
enum Stop {
    /// Passes a link.
    Over(LinkPassage),
    /// Passes the host with this number, which needs this service time.
    Host(u32, Duration),
    /// Arrives at this end of a flow.
    End(EndId),
    /// Is dropped by the router with this number because the hop limit expires.
    Expires(u32),
}

/// A router at which the hop limit of packets expires.
struct ExpiringNode {
    node: u32,
    /// Number of packets dropped because their hop limit expired.
    dropped: u64,
    /// The value of `dropped` at the last tick, and the time of this tick.
    before: u64,
    ticked: Instant,
}

/// All wires and channels of a run, the ways over them, and the packets on them.
pub(crate) struct Network {
    pub agenda: Agenda,
    wires: Vec<ScheduledWire>,
    fifos: Vec<ScheduledFifo>,
    merges: Vec<Merge>,
    /// The meters of each line, in the order of the links. They are not part of the lines, because a line is used for
    /// each packet and the meters once per tick.
    meters: Vec<(LinkPassage, WireMeters)>,
    /// Indices in `meters` of the lines with reports that the sink wants.
    reporting: Vec<usize>,
    airs: Vec<Air>,
    /// All cables together. A packet leaves a cable when it enters it, and its stop decides where it goes next.
    cables: Cables,
    /// Nodes that need time to receive.
    hosts: Vec<ReceivingHost>,
    /// For each link, how packets pass it forward and backward.
    links: Vec<[LinkPassage; 2]>,
    stops: Vec<Stop>,
    /// Indices in `stops` of the first stop of each way.
    beginnings: BTreeSet<usize>,
    expiring: Vec<ExpiringNode>,
    /// The name of each node.
    names: Vec<String>,
    /// The two nodes of each link.
    ends: Vec<[usize; 2]>,
    tap: Option<Box<Tap>>,
    /// The events of packets on the links whose packets the sink wants.
    events: Events,
    /// Number of packets that hosts have sent.
    sent: u32,
    /// Memory of packets that have arrived, for reuse.
    pool: Vec<Parcel>,
}

impl Network {
    /// Forwards a packet of `ip_len` bytes from `stop` at `now`. It passes all lines that forward ahead of time, and
    /// stops at the first other line, link or host. Returns the packet if it is at the end of its way.
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
                Stop::Over(LinkPassage::Ahead(line)) => {
                    let Some(arrives) = self.fifos[line as usize].line.offer(now, at, ip_len, None) else {
                        self.recycle(parcel.0);
                        return None;
                    };
                    at = arrives;
                    stop += 1;
                }
                Stop::Over(LinkPassage::Fifo(number)) => {
                    let ScheduledFifo { line, entry_at, .. } = &mut self.fifos[number as usize];
                    if let Some(arrives) = line.offer(now, at, ip_len, Some((parcel, stop)))
                        && *entry_at == Instant::NEVER
                    {
                        *entry_at = arrives;
                        // The preceding packet of this line may have been forwarded ahead of time. The cause is then
                        // the arrival of that packet, if it is later.
                        let since = at.max(line.arrival_before_last());
                        self.agenda.enter_since(arrives, since, Actor::FifoLine(number));
                    }
                    return None;
                }
                Stop::Over(LinkPassage::Merging { line: feeder, merge: number }) => {
                    let line = &mut self.fifos[feeder as usize].line;
                    let Some(arrives) = line.offer(now, at, ip_len, None) else {
                        self.recycle(parcel.0);
                        return None;
                    };
                    let merge = &mut self.merges[number as usize];
                    let since = at.max(line.arrival_before_last());
                    merge.enter(MergingPacket { at: arrives, since, parcel, line: feeder, stop, ip_len });
                    merge.reappoint(number, &mut self.agenda);
                    return None;
                }
                Stop::End(end) => return Some((end, parcel.0)),
                other => {
                    parcel.0.stop = stop;
                    self.enter_holder(now, other, parcel);
                    return None;
                }
            }
        }
    }

    /// A packet enters a link or host that holds it, or is dropped by a router.
    #[inline(never)]
    fn enter_holder(&mut self, now: Instant, stop: Stop, parcel: Parcel) {
        match stop {
            Stop::Over(LinkPassage::Wire(wire)) => {
                self.wires[wire as usize].wire.offer(now, parcel);
                self.reappoint(PacketHolder::Wire(wire));
            }
            Stop::Over(LinkPassage::Air(air, lane)) => {
                self.airs[air as usize].offer(now, lane, parcel);
                self.reappoint(PacketHolder::Air(air));
            }
            Stop::Over(LinkPassage::Cable) => {
                self.cables.take(now, parcel);
                self.reappoint(PacketHolder::Cables);
            }
            Stop::Host(host, takes) => {
                self.hosts[host as usize].take(now, takes, parcel);
                self.reappoint(PacketHolder::Host(host));
            }
            Stop::Expires(router) => {
                self.expiring[router as usize].dropped += 1;
                self.recycle(parcel.0);
            }
            // `advance` has handled these stops.
            Stop::Over(LinkPassage::Fifo(_) | LinkPassage::Ahead(_) | LinkPassage::Merging { .. })
            | Stop::End(_) => {}
        }
    }

    /// The next packet that a line with a closed form has delivered by `now` and that is at the end of its way, with
    /// the flow end that receives it. If there is none, makes the line's next entry in the agenda.
    #[inline]
    pub fn arrived_from_fifo(
        &mut self,
        now: Instant,
        number: u32,
        sink: &mut dyn Sink,
    ) -> Option<(EndId, Box<Carriage>)> {
        loop {
            let ScheduledFifo { line, entry_at, .. } = &mut self.fifos[number as usize];
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
            // The stop is read from the line's record: to read it from the packet would take as long as the rest of
            // this loop.
            if let Some(arrived) = self.pass_on(at, packet, note, ip_len, sink) {
                return Some(arrived);
            }
        }
    }

    /// Handles an entry of the agenda for a merge.
    pub fn serve_merge(&mut self, now: Instant, number: u32) {
        self.merges[number as usize].met();
        self.forward_merged(now, number);
        self.merges[number as usize].reappoint(number, &mut self.agenda);
    }

    /// Forwards the packets that left the feeders of a merge before `until`, in order.
    fn forward_merged(&mut self, until: Instant, number: u32) {
        while let Some(MergingPacket { at, parcel, stop, ip_len, .. }) =
            self.merges[number as usize].next_before(until)
        {
            // A merge leads to a line, so the packet is not at the end of its way.
            self.advance(at, parcel, stop + 1, ip_len);
        }
    }

    /// Keeps the memory of a packet for reuse.
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

    /// A host sends a packet on the way that begins at the packet's stop.
    #[inline]
    pub fn send(&mut self, now: Instant, mut carriage: Box<Carriage>, sink: &mut dyn Sink) {
        let stop = carriage.stop;
        if let Some(tap) = &mut self.tap {
            tap.show(now, stop, Heading::Outbound, &carriage.packet, sink);
        }
        self.sent = self.sent.wrapping_add(1);
        carriage.number = self.sent;
        let ip_len = carriage.packet.header.ip_len;
        // The first stop of a way is a link, so the packet cannot arrive here.
        self.advance(now, Parcel(carriage), stop, ip_len);
    }

    /// The next packet that has left `holder` by `now` and is at the end of its way, with the flow end that receives
    /// it. Packets that are not at the end of their ways are forwarded.
    pub fn arrived(
        &mut self,
        now: Instant,
        holder: PacketHolder,
        sink: &mut dyn Sink,
    ) -> Option<(EndId, Box<Carriage>)> {
        loop {
            // A holder is polled at its deadline, so `at` is `now`.
            let (at, parcel) = match holder {
                PacketHolder::Wire(wire) => {
                    let Delivery { at, packet, .. } = self.wires[wire as usize].wire.poll_deliver(now)?;
                    (at, packet)
                }
                PacketHolder::Air(air) => self.airs[air as usize].arrived(now)?,
                PacketHolder::Host(host) => self.hosts[host as usize].served(now)?,
                PacketHolder::Cables => self.cables.passed()?,
            };
            let (stop, ip_len) = (parcel.0.stop, parcel.0.packet.header.ip_len);
            if let Some(arrived) = self.pass_on(at, parcel, stop, ip_len, sink) {
                return Some(arrived);
            }
        }
    }

    /// Forwards a packet of `ip_len` bytes that has passed `stop` at `at`. Returns it if it is at the end of its way.
    #[inline(always)]
    fn pass_on(
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

    /// Handles an entry of the agenda for `holder`. Returns false if the entry is obsolete.
    pub fn met(&mut self, at: Instant, holder: PacketHolder) -> bool {
        match holder {
            PacketHolder::Wire(wire) => self.wires[wire as usize].appointment.met(at),
            PacketHolder::Air(air) => self.airs[air as usize].appointment.met(at),
            PacketHolder::Host(host) => self.hosts[host as usize].appointment.met(at),
            PacketHolder::Cables => self.cables.appointment.met(at),
        }
    }

    /// Makes the next appointment of a holder after it delivered a packet, or after it received a packet or an event.
    #[inline]
    pub fn reappoint(&mut self, holder: PacketHolder) {
        let (deadline, appointment) = match holder {
            PacketHolder::Wire(wire) => {
                let ScheduledWire { wire, appointment } = &mut self.wires[wire as usize];
                (wire.poll_timeout(), appointment)
            }
            PacketHolder::Air(air) => {
                let air = &mut self.airs[air as usize];
                (air.poll_timeout(), &mut air.appointment)
            }
            PacketHolder::Host(host) => {
                let host = &mut self.hosts[host as usize];
                (host.poll_timeout(), &mut host.appointment)
            }
            PacketHolder::Cables => (self.cables.poll_timeout(), &mut self.cables.appointment),
        };
        appointment.keep(deadline, Actor::Network(holder), &mut self.agenda);
    }

    /// Applies an event to one direction of a link.
    pub fn apply(&mut self, now: Instant, link: usize, direction: Direction, event: LinkEvent) {
        match self.links[link][direction as usize] {
            LinkPassage::Wire(wire) => {
                self.wires[wire as usize].wire.apply(now, event);
                self.reappoint(PacketHolder::Wire(wire));
            }
            LinkPassage::Air(air, lane) => {
                self.airs[air as usize].apply(now, lane, event);
                self.reappoint(PacketHolder::Air(air));
            }
            // The only events of a line with a closed form are outages that drop all packets inside.
            LinkPassage::Fifo(number) => {
                let ScheduledFifo { line, entry_at, .. } = &mut self.fifos[number as usize];
                match event {
                    LinkEvent::Down { .. } if line.go_down(now) => *entry_at = Instant::NEVER,
                    LinkEvent::Up => line.go_up(),
                    _ => {}
                }
            }
            // A cable has no events. The other two kinds occur only in `stops`, never in `links`.
            LinkPassage::Cable | LinkPassage::Ahead(_) | LinkPassage::Merging { .. } => {}
        }
    }
}
