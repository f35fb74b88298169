//! The events of each packet on a link, for sinks that request them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use netrig_core::{
    Backlog, Colour, Direction, DropReason, Duration, Instant, Observer, PacketEvent, PacketMeta, Sink, Step,
};

/// A packet with a number that is unique in the run.
pub trait NumberedPacket: PacketMeta {
    /// The ordinal of the packet among all packets that hosts send in the run, from 1.
    fn number(&self) -> u32;
}

/// The events of all links since the last [`Events::flush`], in the order in which they were recorded. If a line is
/// polled late, its events are recorded late.
#[derive(Clone, Default)]
pub struct Events(Arc<Mutex<Vec<PacketEvent>>>);

impl Events {
    /// Passes all events to `sink` in the order of time. All links must have been polled up to now.
    pub fn flush(&self, sink: &mut dyn Sink) {
        let mut events = self.noted();
        // The sort is stable: events of the same moment stay in the order of cause and effect.
        events.sort_by_key(|event| event.at);
        events.drain(..).for_each(|event| sink.packet(&event));
    }

    /// Memory that the events use, bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.noted()[..])
    }

    /// Only the links of one thread share the events, so the lock never blocks.
    fn noted(&self) -> MutexGuard<'_, Vec<PacketEvent>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Records the events of one direction of a link.
pub struct EventLog {
    link: u32,
    direction: Direction,
    /// The last event of the packet that is arriving, until it is known whether this packet waits.
    arriving: Option<PacketEvent>,
    events: Events,
}

impl EventLog {
    /// A log of one direction of the link with this number. `None` if `sink` requests no packet events of it.
    pub fn new(link: u32, direction: Direction, events: &Events, sink: &dyn Sink) -> Option<Self> {
        let log = || Self { link, direction, arriving: None, events: events.clone() };
        sink.wants_packets(link, direction).then(log)
    }

    fn note<P: NumberedPacket>(&mut self, at: Instant, packet: &P, step: Step) -> PacketEvent {
        let Self { link, direction, .. } = *self;
        let event =
            PacketEvent { at, link, direction, packet: packet.number(), header: *packet.header(), step };
        self.events.noted().push(event);
        event
    }

    /// Records that this packet has left or was dropped, and thus does not wait.
    fn has_gone<P: NumberedPacket>(&mut self, packet: &P) {
        self.arriving.take_if(|arriving| arriving.packet == packet.number());
    }
}

impl<P: NumberedPacket> Observer<P> for EventLog {
    fn offered(&mut self, at: Instant, packet: &P) {
        self.arriving = Some(self.note(at, packet, Step::Arrived));
    }

    fn conditioned(&mut self, at: Instant, packet: &P, rule: usize, colour: Colour) {
        self.arriving = Some(self.note(at, packet, Step::Conditioned { rule, colour }));
    }

    fn classified(&mut self, at: Instant, packet: &P, class: usize) {
        self.note(at, packet, Step::Classified { class });
    }

    fn queued(&mut self, at: Instant, backlog: Backlog) {
        if let Some(event) = self.arriving.take() {
            self.events.noted().push(PacketEvent { at, step: Step::Queued(backlog), ..event });
        }
    }

    fn marked(&mut self, at: Instant, packet: &P) {
        self.note(at, packet, Step::Marked);
    }

    fn served(&mut self, at: Instant, packet: &P, waited: Duration) {
        self.has_gone(packet);
        self.note(at, packet, Step::Sent { waited });
    }

    fn delivered(&mut self, at: Instant, packet: &P) {
        self.note(at, packet, Step::Delivered);
    }

    fn dropped(&mut self, at: Instant, packet: &P, why: DropReason) {
        self.has_gone(packet);
        self.note(at, packet, Step::Dropped(why));
    }

    fn duplicated(&mut self, at: Instant, packet: &P) {
        self.note(at, packet, Step::Duplicated);
    }

    fn repeated(&mut self, at: Instant, packet: &P) {
        self.note(at, packet, Step::Repeated);
    }
}
