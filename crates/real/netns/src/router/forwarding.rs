//! Moves frames of nodes through the links of the scenario.
//!
//! A frame enters a link at the kernel's time stamp of its arrival, even if the router reads it later. It is sent when
//! the link delivers it, never earlier. Links advance only to the time of the next due event, so they are in the right
//! state for frames that are still in the ring.

use std::collections::VecDeque;
use std::sync::OnceLock;

use netrig_core::{
    Delivery, Direction, Duration, Frame, Heading, Instant, LinkEvent, PacketMeta, Sample, Seeds, Sink,
    Subject, Timeline, quantity,
};
use netrig_experiment::{Action, LinkSettings, Run, RunError, Scenario};
use netrig_host::{Clock, CpuLatencyLimit, RealtimeOffset, become_real_time};
use netrig_link::wire::{Events, words};
use netrig_link::{Wire, WireId, WireMeters};

use super::displacement::{Displacement, NodeTransit, difference};
use super::observations::{FULL, ObservationBatch};
use super::parcel::{Parcel, addresses};
use super::passage::{Passages, SETTLING};
use super::recognition::Recognition;
use super::report::RouterReport;
use crate::interfaces::DownInterfaces;
use crate::port::{PerPort, PortId};
use crate::ring::{FrameSender, ReceiveRing};
use crate::testbed::Testbed;

/// Number of slots of the ring, for more than 100 ms at 100,000 frames/s.
const SLOTS: usize = 16_384;
/// Maximum number of frames per read. Due frames are sent between two reads.
const BATCH: usize = 64;
/// Maximum duration of a wait. After each wait, the router checks whether the run has ended.
const LONGEST_WAIT: Duration = Duration::from_millis(20);
/// Maximum number of consecutive reads before other work. They can empty the whole ring. Without this limit, a fast
/// sender could prevent the router from ending.
const TURNS: usize = SLOTS / BATCH;
/// Interval at which the router checks for steps of the wall clock, from which frames get their time stamps.
const CLOCK_CHECK: Duration = Duration::from_secs(1);
/// Maximum number of unused parcels that are kept for reuse.
const SPARE: usize = 4096;

/// The router: the links of a scenario, which carry the frames of a testbed.
pub(crate) struct Router {
    ring: ReceiveRing,
    /// The senders, by the port at which a frame leaves.
    senders: PerPort<FrameSender>,
    /// The directions of the links (wires), by the port at which a frame arrives.
    wires: PerPort<Wire<Parcel>>,
    meters: PerPort<WireMeters>,
    /// The latest time to which each wire has advanced.
    advanced_to: PerPort<Instant>,
    /// Frames that have left a wire and are to be sent, in time order.
    departing: Vec<DepartingFrame>,
    spare: Vec<Parcel>,
    changes: VecDeque<WireChange>,
    next_tick: Instant,
    sample_every: Duration,
    end: Instant,
    recognition: Recognition,
    passages: Passages,
    /// For each node, the packets that it has received and must forward.
    underway: Vec<NodeTransit>,
    displaced: PerPort<Displacement>,
    down_interfaces: DownInterfaces,
    tap: FrameTap,
    timeline: Timeline,
    events: Events,
    observations: ObservationBatch,
    /// Whether the sink wants the lateness of each frame.
    wants_lateness: bool,
    emit: Box<dyn FnMut(ObservationBatch) + Send>,
    /// Number of frames with an IP packet that have arrived.
    arrivals: u32,
    /// When the last frame arrived or left.
    last: Instant,
    drained: bool,
    report: RouterReport,
}

/// Signals to the router that the run is over.
#[derive(Debug, Default)]
pub(crate) struct StopSignal(OnceLock<Instant>);

impl StopSignal {
    pub fn set(&self, end: Instant) {
        // If a value has already been set, it is kept.
        let _ = self.0.set(end);
    }

    /// When the run ended, if it has.
    pub fn get(&self) -> Option<Instant> {
        self.0.get().copied()
    }
}

/// A frame that has left a wire, and the port at which it is sent.
struct DepartingFrame {
    at: Instant,
    to: PortId,
    packet: Parcel,
}

/// A change of a wire during the run.
struct WireChange {
    at: Instant,
    wire: PortId,
    event: LinkEvent,
    words: String,
}

/// The nodes whose frames the sink captures, and the ports of the nodes.
struct FrameTap {
    /// For each node, whether its frames are captured.
    wanted: Vec<bool>,
    /// For each port, the node at the other end of the veth pair.
    nodes: PerPort<usize>,
}

impl Router {
    /// A router with the links of `run`, without frames. `emit` gets the observations that `sink` wants.
    ///
    /// # Errors
    /// If the kernel refuses the ring or a sending socket.
    pub fn new(
        testbed: &Testbed,
        run: &Run,
        sink: &dyn Sink,
        emit: Box<dyn FnMut(ObservationBatch) + Send>,
    ) -> Result<Self, RunError> {
        let scenario = &*run.scenario;
        let ends = || testbed.wiring().links.iter().flat_map(|wire| &wire.ends);
        // The router has no port on a direct link.
        let ports = || ends().map(|end| end.router_interface.as_ref().map(|_| end));
        let senders = ports().map(|end| end.map(|end| FrameSender::open(testbed, end.index)).transpose());
        let events = Events::default();
        let (wires, meters) = wires(scenario, &Seeds::new(run.seed), &events, sink)?;
        Ok(Self {
            senders: senders.collect::<Result<_, _>>()?,
            advanced_to: ports().map(|end| end.map(|_| Instant::ZERO)).collect(),
            departing: Vec::new(),
            wires,
            meters,
            spare: Vec::new(),
            changes: changes(scenario),
            next_tick: Instant::ZERO + scenario.sample_every,
            sample_every: scenario.sample_every,
            end: Instant::ZERO + scenario.duration,
            recognition: Recognition::new(scenario),
            passages: Passages::new(scenario, testbed.wiring()),
            underway: scenario.nodes.iter().map(|_| NodeTransit::default()).collect(),
            displaced: ports().map(|end| end.map(|_| Displacement::default())).collect(),
            down_interfaces: DownInterfaces::none(ends().count()),
            tap: FrameTap {
                wanted: (0..scenario.nodes.len() as u32).map(|node| sink.wants_frames(node)).collect(),
                nodes: ends().map(|end| Some(end.node)).collect(),
            },
            timeline: Timeline::new(sink),
            events,
            observations: ObservationBatch::default(),
            wants_lateness: sink.wants(&quantity::FORWARDING_LATENESS),
            emit,
            arrivals: 0,
            last: Instant::ZERO,
            drained: false,
            report: RouterReport::default(),
            // The ring is opened last, because all frames from now on belong to the run.
            ring: ReceiveRing::open(testbed, SLOTS)?,
        })
    }

    /// The states of the nodes' interfaces, which are shared with the thread that changes them.
    pub fn down_interfaces(&self) -> DownInterfaces {
        self.down_interfaces.clone()
    }

    /// Moves frames until `stop` is set. The epoch of `clock` is the start of the run.
    ///
    /// # Errors
    /// If a system call fails, or the packet counts do not balance (a defect of a link).
    pub fn run(mut self, clock: Clock, stop: &StopSignal) -> Result<RouterReport, RunError> {
        self.report.no_priority = become_real_time().err().map(|error| error.to_string());
        let _awake = CpuLatencyLimit::keep();
        let mut offset = RealtimeOffset::measure();
        let ended = self.forward(&clock, &mut offset, stop);
        if ended.is_err() {
            // No more frames are forwarded, so the nodes need not continue.
            (self.emit)(ObservationBatch::drained());
        }
        let end = ended?;
        self.heed_wall_clock(&mut offset);
        (0..TURNS).all(|_| self.read(&clock, &offset));
        self.end = end;
        if self.next_tick < Instant::NEVER {
            self.next_tick = self.next_tick.min(end);
        }
        self.advance(clock.now().max(end));
        self.depart(&clock);
        self.finish(clock.now())
    }

    /// Moves frames until `stop` is set, and returns the end of the run.
    fn forward(
        &mut self,
        clock: &Clock,
        offset: &mut RealtimeOffset,
        stop: &StopSignal,
    ) -> Result<Instant, RunError> {
        let mut checked = clock.now();
        loop {
            if let Some(end) = stop.get() {
                return Ok(end);
            }
            if clock.now() - checked >= CLOCK_CHECK {
                checked = clock.now();
                self.heed_wall_clock(offset);
            }
            for _ in 0..TURNS {
                if !self.read(clock, offset) {
                    break;
                }
                self.depart(clock);
                self.relieve();
            }
            self.advance(clock.now());
            self.depart(clock);
            self.relieve();
            self.settle(clock.now());
            let wait = clock.left_until(self.next()).min(LONGEST_WAIT);
            let wait = std::time::Duration::from_nanos(wait.as_nanos());
            self.ring
                .wait(wait)
                .map_err(|error| RunError::Failed(format!("the router cannot wait: {error}")))?;
        }
    }

    /// If the wall clock was stepped, uses the new offset and records the step, which makes the run invalid.
    fn heed_wall_clock(&mut self, offset: &mut RealtimeOffset) {
        let again = RealtimeOffset::measure();
        if let Some(step) = again.stepped_since(offset) {
            self.report.stepped = self.report.stepped.max(step);
            *offset = again;
        }
    }

    /// Reads frames that have arrived. Before each frame, handles the events that were due before its arrival. Returns
    /// whether there were frames.
    fn read(&mut self, clock: &Clock, offset: &RealtimeOffset) -> bool {
        // The slots of the ring are borrowed during the read, so the frames are first copied into this array.
        let mut arrived: [Option<(Instant, u32, Option<Parcel>)>; BATCH] = [const { None }; BATCH];
        let Self { ring, spare, arrivals, passages, report, .. } = self;
        let count = ring.read(BATCH, |frames| {
            // All these frames have arrived, so a time stamp after `now` means that the clock was stepped. The clock is
            // read after the ring. An earlier value would shorten the waiting time of frames that arrived in between.
            let now = clock.now();
            for (frame, place) in frames.iter().zip(&mut arrived) {
                let stamp = u64::try_from(frame.at.as_nanos()).unwrap_or(u64::MAX);
                let at = clock.instant(offset.monotonic(stamp)).min(now);
                let parcel = Parcel::read(frame.bytes, arrivals.wrapping_add(1), spare.pop());
                let parcel = parcel.filter(|_| frame.whole);
                if parcel.is_none() {
                    let ours =
                        addresses(frame.bytes).is_some_and(|ends| ends.iter().any(|end| passages.knows(end)));
                    *(if ours { &mut report.unreadable } else { &mut report.foreign }) += 1;
                }
                *arrivals = arrivals.wrapping_add(parcel.is_some().into());
                *place = Some((at, frame.interface, parcel));
            }
            frames.len()
        });
        for (at, interface, parcel) in arrived.into_iter().flatten() {
            // The interface may have been made in the router's namespace by another program.
            let from = PortId::of_interface(interface).filter(|from| self.wires.get(*from).is_some());
            match (from, parcel) {
                (Some(from), Some(parcel)) => self.offer(at, from, parcel),
                (None, Some(_)) => self.report.foreign += 1,
                (_, None) => {}
            }
        }
        count > 0
    }

    /// Passes a frame that arrived at the port `from` to its wire.
    fn offer(&mut self, at: Instant, from: PortId, parcel: Parcel) {
        self.advance(at);
        self.last = at;
        let advanced_to = &mut self.advanced_to[from];
        self.report.overtaken.record(*advanced_to - at);
        *advanced_to = at.max(*advanced_to);
        let now = *advanced_to;
        self.show(now, from, Heading::Outbound, &parcel);
        self.account(now, from, &parcel);
        let clear = self.wires[from].clear_at();
        self.wires[from].offer(now, parcel);
        if now <= self.end && clear != Instant::NEVER {
            self.displaced[from].is_sent(difference(self.wires[from].clear_at(), clear.max(now)));
        }
    }

    /// Counts the packet of a node, and records the effect of its lateness on the waiting time at the link.
    fn account(&mut self, now: Instant, from: PortId, parcel: &Parcel) {
        let node = self.tap.nodes[from];
        let due = if self.passages.offered(node, parcel) {
            self.underway[node].leaves(parcel.ip())
        } else {
            self.passages.intended(node, parcel)
        };
        if now <= self.end {
            let late = due.map(|due| difference(now, due));
            self.displaced[from].arrives(now, self.wires[from].clear_at(), late);
        }
    }

    /// When the next event of a link, change of a link or sampling tick is due.
    fn next(&self) -> Instant {
        let wires = self.wires.iter().filter_map(Wire::poll_timeout).min();
        let change = self.changes.front().map(|change| change.at);
        [wires, change, Some(self.next_tick)].into_iter().flatten().fold(Instant::NEVER, Instant::min)
    }

    /// Handles all events that are due by `now`, in time order. If `now` is earlier than in a previous call, nothing is
    /// done.
    fn advance(&mut self, now: Instant) {
        loop {
            let at = self.next();
            if at > now {
                return;
            }
            for wire in self.wires.ends() {
                let due = self.wires.get(wire).and_then(Wire::poll_timeout);
                if due.is_some_and(|due| due <= at) {
                    self.advanced_to[wire] = self.advanced_to[wire].max(at);
                    self.deliver(at, wire);
                }
            }
            while let Some(change) = self.changes.pop_front_if(|change| change.at <= at) {
                self.change(change);
            }
            if self.next_tick <= at {
                self.tick();
            }
        }
    }

    /// Takes the frames that have left a wire, and queues them for sending.
    fn deliver(&mut self, now: Instant, wire: PortId) {
        while let Some(Delivery { at, packet, .. }) = self.wires[wire].poll_deliver(now) {
            let to = wire.far();
            self.show(at, to, Heading::Inbound, &packet);
            if at <= self.end {
                self.recognition.delivered(at, self.tap.nodes[to], &packet);
            }
            self.departing.push(DepartingFrame { at, to, packet });
        }
    }

    fn change(&mut self, change: WireChange) {
        let WireChange { at, wire, event, words } = change;
        let at = at.max(self.advanced_to[wire]);
        self.advanced_to[wire] = at;
        self.timeline.note(at, wire.subject(), || words, &mut self.observations);
        self.wires[wire].apply(at, event);
    }

    /// Reports the sample interval that ends now. After the end of the run, nothing is reported.
    fn tick(&mut self) {
        let now = self.next_tick;
        self.next_tick = match now {
            now if now >= self.end => Instant::NEVER,
            now => (now + self.sample_every).min(self.end),
        };
        for ((wire, meters), advanced_to) in
            self.wires.iter_mut().zip(self.meters.iter_mut()).zip(self.advanced_to.iter_mut())
        {
            *advanced_to = now.max(*advanced_to);
            meters.tick(*advanced_to, wire, &self.timeline, &mut self.observations);
        }
        self.events.flush(&mut self.observations);
        if self.next_tick == Instant::NEVER {
            self.recognition.finish();
        }
        self.recognition.tick(now, &mut self.observations);
        (self.emit)(std::mem::take(&mut self.observations));
    }

    /// Reports the notes about single packets before the next sampling tick if they take much memory.
    fn relieve(&mut self) {
        let waits: usize = self.wires.iter().map(Wire::noted_bytes).sum();
        let much = self.observations.bytes() + self.events.bytes() + waits >= FULL;
        // After the last sampling tick, nothing is reported.
        if !much || self.next_tick == Instant::NEVER {
            return;
        }
        // All events that were due before have been handled, and the next frame to be read did not arrive much earlier.
        let now = self.advanced_to.iter().copied().fold(Instant::ZERO, Instant::max);
        for ((wire, meters), advanced_to) in
            self.wires.iter_mut().zip(self.meters.iter()).zip(self.advanced_to.iter_mut())
        {
            *advanced_to = now.max(*advanced_to);
            meters.report_waits(*advanced_to, wire, &mut self.observations);
        }
        self.events.flush(&mut self.observations);
        (self.emit)(std::mem::take(&mut self.observations));
    }

    /// Reports once after the end of the run that no frame is in transit.
    fn settle(&mut self, now: Instant) {
        let quiet = now > self.end.max(self.last) + SETTLING;
        if quiet && !self.drained && self.wires.iter().all(|wire| wire.inside() == 0) {
            self.drained = true;
            (self.emit)(ObservationBatch::drained());
        }
    }

    /// Sends the frames that have left the wires, in the order in which they left. A node must not receive a frame
    /// before another frame that left its wire earlier.
    fn depart(&mut self, clock: &Clock) {
        let mut departing = std::mem::take(&mut self.departing);
        for departures in departing.chunk_by_mut(|one, next| one.to == next.to) {
            let now = clock.now();
            self.last = self.last.max(now);
            departures.iter().for_each(|departure| self.note_lateness(departure.at, now));
            let left_out = self.send(departures);
            let node = self.tap.nodes[departures[0].to];
            let handed = departures.iter().enumerate().filter(|(place, _)| !left_out.contains(place));
            for (_, DepartingFrame { at, packet, .. }) in handed {
                if self.passages.handed(now, node, packet) {
                    self.underway[node].enters(packet.ip(), *at, now);
                }
            }
        }
        let room = SPARE.saturating_sub(self.spare.len());
        self.spare.extend(departing.drain(..).map(|departure| departure.packet).take(room));
        // The memory of the list is reused.
        self.departing = departing;
    }

    /// Records how late a frame leaves.
    fn note_lateness(&mut self, at: Instant, now: Instant) {
        let late = now - at;
        self.report.lateness.record(late);
        if self.wants_lateness && at <= self.end {
            let quantity = &quantity::FORWARDING_LATENESS;
            let sample = Sample { at, quantity, value: late.as_secs_f64() };
            self.observations.sample(Subject::Run, sample);
        }
    }

    /// Sends frames through one port. Returns the indices of the frames that the node's interface did not accept.
    fn send(&mut self, departures: &mut [DepartingFrame]) -> Vec<usize> {
        let to = departures[0].to;
        let sender = &self.senders[to];
        let frames: Vec<&[u8]> = departures.iter_mut().map(|departure| departure.packet.finished()).collect();
        let (mut rest, mut left_out) = (&frames[..], Vec::new());
        while !rest.is_empty() {
            // If the receive queue of the node's interface is full, the frame is lost, as in a slow host.
            let sent = sender.send(rest).unwrap_or(0);
            self.report.forwarded += sent as u64;
            if sent < rest.len() {
                let lost = if self.down_interfaces.is(to) {
                    &mut self.report.shut_out
                } else {
                    &mut self.report.refused
                };
                *lost += 1;
                left_out.push(frames.len() - rest.len() + sent);
            }
            rest = &rest[(sent + 1).min(rest.len())..];
        }
        left_out
    }

    /// Reports a packet at the node's interface on the veth pair of this port, if the sink captures the node's frames.
    fn show(&mut self, at: Instant, port: PortId, heading: Heading, parcel: &Parcel) {
        let node = self.tap.nodes[port];
        if self.tap.wanted[node] && at <= self.end {
            let (bytes, link) = (parcel.packet(), port.link() as u32);
            let original_len = parcel.header().ip_len;
            let bytes = &bytes[..bytes.len().min(original_len as usize)];
            self.observations.frame(&Frame { at, node: node as u32, link, heading, bytes, original_len });
        }
    }

    /// Returns the counts of the run, and checks that the packet counts balance.
    fn finish(mut self, now: Instant) -> Result<RouterReport, RunError> {
        for (wire, meters) in self.wires.iter().zip(self.meters.iter()) {
            let unbalanced = |error| RunError::Failed(format!("{}: {error}", meters.name()));
            let inside = wire.balance().map_err(unbalanced)? as u64;
            let (counters, sum) = (wire.counters(), &mut self.report.balance);
            sum.offered += counters.offered.packets;
            sum.duplicated += counters.duplicated.packets;
            sum.delivered += counters.delivered.packets;
            sum.dropped += counters.dropped_in_all().packets;
            sum.inside += inside;
        }
        let RouterReport { balance, forwarded, refused, shut_out, .. } = &self.report;
        if balance.delivered != forwarded + refused + shut_out {
            return Err(RunError::Failed(format!(
                "links delivered {} frames to the router, which sent {forwarded}, could not send {refused}, and had \
                 {shut_out} for interfaces that were down",
                balance.delivered
            )));
        }
        self.report.ring = self.ring.counts()?;
        let names = self.meters.iter().map(|meters| format!("link {}", meters.name()));
        self.report.displaced = names.zip(self.displaced.iter().cloned()).collect();
        self.report.passages = self.passages.report(now, self.end);
        Ok(self.report)
    }
}

/// Makes the wires: both directions of every link that is not direct.
fn wires(
    scenario: &Scenario,
    seeds: &Seeds,
    events: &Events,
    sink: &dyn Sink,
) -> Result<(PerPort<Wire<Parcel>>, PerPort<WireMeters>), RunError> {
    let (mut wires, mut meters) = (Vec::new(), Vec::new());
    for (link, number) in scenario.links.iter().zip(0..) {
        for direction in [Direction::Forward, Direction::Backward] {
            let settings = match link.towards(direction) {
                LinkSettings::Line(settings) => settings,
                LinkSettings::Direct(_) => {
                    wires.push(None);
                    meters.push(None);
                    continue;
                }
                LinkSettings::Wifi(_) => {
                    return Err(RunError::Failed(format!("link `{}` is not a line", link.name)));
                }
            };
            let id = WireId { link: number, name: &link.name, direction };
            let wire = Wire::new(id, settings, seeds, events, sink);
            let failed = |error| RunError::Failed(format!("link `{}`: {error}", link.name));
            wires.push(Some(wire.map_err(failed)?));
            meters.push(Some(WireMeters::new(id, settings, sink)));
        }
    }
    Ok((wires.into_iter().collect(), meters.into_iter().collect()))
}

/// The scheduled changes of links, in time order.
fn changes(scenario: &Scenario) -> VecDeque<WireChange> {
    let of_links = scenario.events.iter().filter_map(|happening| match happening.action {
        Action::Link { link, direction, event } => Some(WireChange {
            at: happening.at,
            wire: PortId::of_direction(link, direction),
            event,
            words: words::link_event(&scenario.links[link].name, direction, &event),
        }),
        Action::Interface { .. } | Action::SetPrimary { .. } => None,
    });
    of_links.collect()
}
