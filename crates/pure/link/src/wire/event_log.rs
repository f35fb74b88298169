//! What happens to each packet on a link, for those who want to know.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use netrig_core::{
    Backlog, Colour, Direction, DropReason, Duration, Instant, Observer, PacketEvent, PacketMeta, Sink, Step,
};

/// A packet that can be told from all others of a run.
pub trait Numbered: PacketMeta {
    /// How many packets hosts had sent in the run when this one was sent, itself included.
    fn number(&self) -> u32;
}

/// The events of all links since they were last told, as they were noticed: a line notices late what it does while nobody
/// asks.
#[derive(Clone, Default)]
pub struct Events(Arc<Mutex<Vec<PacketEvent>>>);

impl Events {
    /// Tells all of them in the order of time. All links must have caught up with the present.
    pub fn tell(&self, sink: &mut dyn Sink) {
        let mut events = self.noted();
        // Stable: what happens at the same moment stays in the order in which one thing led to another.
        events.sort_by_key(|event| event.at);
        events.drain(..).for_each(|event| sink.packet(&event));
    }

    /// Memory that they take, bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.noted()[..])
    }

    /// Shared by the links of one thread, so it is never waited for.
    fn noted(&self) -> MutexGuard<'_, Vec<PacketEvent>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Watches one direction of a link.
pub struct EventLog {
    link: u32,
    direction: Direction,
    /// The last that happened to a packet of which it is not yet known whether it waits.
    arriving: Option<PacketEvent>,
    events: Events,
}

impl EventLog {
    /// The log of one direction of the link of this number; none if `sink` does not want it.
    pub fn new(link: u32, direction: Direction, events: &Events, sink: &dyn Sink) -> Option<Self> {
        let log = || Self { link, direction, arriving: None, events: events.clone() };
        sink.wants_packets(link, direction).then(log)
    }

    fn note<P: Numbered>(&mut self, at: Instant, packet: &P, step: Step) -> PacketEvent {
        let Self { link, direction, .. } = *self;
        let event =
            PacketEvent { at, link, direction, packet: packet.number(), header: *packet.header(), step };
        self.events.noted().push(event);
        event
    }

    /// What has left or is gone does not wait.
    fn has_gone<P: Numbered>(&mut self, packet: &P) {
        self.arriving.take_if(|arriving| arriving.packet == packet.number());
    }
}

impl<P: Numbered> Observer<P> for EventLog {
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
