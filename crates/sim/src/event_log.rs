//! What happens to each packet on a link, for those who want to know.

use std::cell::RefCell;
use std::rc::Rc;

use netrig_core::{
    Backlog, Colour, Direction, DropReason, Duration, Instant, Observer, PacketEvent, PacketMeta, Sink, Step,
};

use crate::parcel::Parcel;

/// The events of all links since they were last told, as they were noticed: a line notices late what it does while nobody
/// asks.
#[derive(Clone, Default)]
pub(crate) struct Events(Rc<RefCell<Vec<PacketEvent>>>);

impl Events {
    /// Tells all of them in the order of time. All links must have caught up with the present.
    pub fn tell(&self, sink: &mut dyn Sink) {
        let mut events = self.0.borrow_mut();
        // Stable: what happens at the same moment stays in the order in which one thing led to another.
        events.sort_by_key(|event| event.at);
        events.drain(..).for_each(|event| sink.packet(&event));
    }
}

/// Watches one direction of a link.
pub(crate) struct EventLog {
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

    fn note(&mut self, at: Instant, parcel: &Parcel, step: Step) -> PacketEvent {
        let Self { link, direction, .. } = *self;
        let event =
            PacketEvent { at, link, direction, packet: parcel.0.number, header: *parcel.header(), step };
        self.events.0.borrow_mut().push(event);
        event
    }

    /// What has left or is gone does not wait.
    fn has_gone(&mut self, parcel: &Parcel) {
        self.arriving.take_if(|arriving| arriving.packet == parcel.0.number);
    }
}

impl Observer<Parcel> for EventLog {
    fn offered(&mut self, at: Instant, parcel: &Parcel) {
        self.arriving = Some(self.note(at, parcel, Step::Arrived));
    }

    fn conditioned(&mut self, at: Instant, parcel: &Parcel, rule: usize, colour: Colour) {
        self.arriving = Some(self.note(at, parcel, Step::Conditioned { rule, colour }));
    }

    fn classified(&mut self, at: Instant, parcel: &Parcel, class: usize) {
        self.note(at, parcel, Step::Classified { class });
    }

    fn queued(&mut self, at: Instant, backlog: Backlog) {
        if let Some(event) = self.arriving.take() {
            self.events.0.borrow_mut().push(PacketEvent { at, step: Step::Queued(backlog), ..event });
        }
    }

    fn marked(&mut self, at: Instant, parcel: &Parcel) {
        self.note(at, parcel, Step::Marked);
    }

    fn served(&mut self, at: Instant, parcel: &Parcel, waited: Duration) {
        self.has_gone(parcel);
        self.note(at, parcel, Step::Sent { waited });
    }

    fn delivered(&mut self, at: Instant, parcel: &Parcel) {
        self.note(at, parcel, Step::Delivered);
    }

    fn dropped(&mut self, at: Instant, parcel: &Parcel, why: DropReason) {
        self.has_gone(parcel);
        self.note(at, parcel, Step::Dropped(why));
    }

    fn duplicated(&mut self, at: Instant, parcel: &Parcel) {
        self.note(at, parcel, Step::Duplicated);
    }

    fn repeated(&mut self, at: Instant, parcel: &Parcel) {
        self.note(at, parcel, Step::Repeated);
    }
}
