//! The output port of a line that conditions traffic: rules, classes in a queue, and a transmit ring.

use netrig_core::{Backlog, Dequeue, DropReason, Header, Instant, Observer, PacketMeta, QueueDiscipline};

use super::buffer::{Buffer, QueueLimit};
use super::class::{ClassContext, Classifier};
use super::discipline::Discipline;
use crate::conditioning::{Conditioned, Conditioner};
use crate::{LineCounters, LineSettings};

/// The output port of a line that conditions traffic.
///
/// It keeps counters for each class, as routers do. For a class, *offered* counts packets that arrived at its queue,
/// *served* and *delivered* count packets that started onto the line, and *dropped* counts packets that the queue
/// dropped. Packets that a rule drops are counted by the rule.
#[derive(Clone, Debug)]
pub struct Port<P> {
    conditioner: Conditioner,
    queue: Discipline<P>,
    classes: Classes,
    ring: Option<Ring<P>>,
}

/// The classifier and the counters of the classes of a port. They do not depend on the queue.
#[derive(Clone, Debug)]
struct Classes {
    classifier: Classifier,
    accounts: Vec<ClassAccount>,
}

#[derive(Clone, Debug, Default)]
struct ClassAccount {
    counters: LineCounters,
    backlog: Backlog,
}

/// The transmit ring of an interface: a FIFO between the scheduler and the line. A packet in it is never overtaken.
#[derive(Clone, Debug)]
struct Ring<P> {
    slots: usize,
    packets: Buffer<P>,
    /// A shaper holds all waiting packets until this time.
    held_until: Instant,
}

impl<P: PacketMeta> Port<P> {
    /// The port of the line that `settings` describe.
    pub(super) fn new(settings: &LineSettings, context: &ClassContext<'_>) -> Self {
        let slots = settings.ring as usize;
        let ring =
            || Ring { slots, packets: Buffer::new(QueueLimit::new(None, None)), held_until: Instant::ZERO };
        Self {
            conditioner: Conditioner::new(&settings.condition, settings.framing),
            queue: Discipline::new(&settings.queue, context),
            classes: Classes {
                classifier: Classifier::new(&settings.classes),
                accounts: vec![ClassAccount::default(); settings.classes.len()],
            },
            ring: (slots > 0).then(ring),
        }
    }

    /// The counters of each rule, in the order of the rules.
    pub fn rules(&self) -> impl Iterator<Item = &Conditioned> {
        self.conditioner.accounts()
    }

    /// The counters of each class, in the order of the classes.
    pub fn classes(&self) -> impl Iterator<Item = &LineCounters> {
        self.classes.accounts.iter().map(|account| &account.counters)
    }

    /// Moves packets from the queue into the ring, as far as the ring has room and the queue releases them.
    fn fill_ring(&mut self, now: Instant, obs: &mut impl Observer<P>) {
        let Self { queue, classes, ring: Some(ring), .. } = self else { return };
        while ring.has_room() && queue.backlog().packets > 0 && ring.held_until <= now {
            match queue.dequeue(now, &mut ClassObserver { obs: &mut *obs, classes: &mut *classes }) {
                Dequeue::Packet(packet, since) => ring.packets.push_since(since, packet),
                Dequeue::NotBefore(moment) => ring.held_until = moment,
                Dequeue::Empty => return,
            }
        }
    }

    /// The next packet of the ring, or the time at which a shaper releases one. `None` if the port has no ring.
    fn next_of_ring(&mut self, now: Instant, obs: &mut impl Observer<P>) -> Option<Dequeue<P>> {
        self.fill_ring(now, obs);
        let ring = self.ring.as_mut()?;
        let next = match ring.packets.pop() {
            Dequeue::Empty if self.queue.backlog().packets > 0 => Dequeue::NotBefore(ring.held_until),
            next => next,
        };
        self.fill_ring(now, obs);
        Some(next)
    }
}

impl<P: PacketMeta> Ring<P> {
    fn has_room(&self) -> bool {
        self.packets.backlog().packets < self.slots
    }
}

impl Classes {
    /// Counts a packet that arrives at its class.
    fn arrives<P: PacketMeta>(&mut self, now: Instant, packet: &P, obs: &mut impl Observer<P>) {
        if self.accounts.is_empty() {
            return;
        }
        let class = self.classifier.class_of(packet.header());
        obs.classified(now, packet, class);
        let account = &mut self.accounts[class];
        account.counters.offered(now, packet);
        account.backlog.packets += 1;
        account.backlog.bytes += u64::from(packet.header().ip_len);
        account.update_backlog(now);
    }

    /// Counts a packet that leaves its class. `count` updates the counters of the class.
    fn leaves<P: PacketMeta>(&mut self, at: Instant, packet: &P, count: impl FnOnce(&mut LineCounters)) {
        if self.accounts.is_empty() {
            return;
        }
        let account = &mut self.accounts[self.classifier.class_of(packet.header())];
        count(&mut account.counters);
        account.backlog.packets -= 1;
        account.backlog.bytes -= u64::from(packet.header().ip_len);
        account.update_backlog(at);
    }
}

impl ClassAccount {
    fn update_backlog(&mut self, at: Instant) {
        Observer::<Header>::queued(&mut self.counters, at, self.backlog);
    }
}

/// Counts the drops and marks of the queue for each class, and passes these events to the next observer.
struct ClassObserver<'a, O> {
    obs: &'a mut O,
    classes: &'a mut Classes,
}

impl<P: PacketMeta, O: Observer<P>> Observer<P> for ClassObserver<'_, O> {
    fn marked(&mut self, at: Instant, packet: &P) {
        if !self.classes.accounts.is_empty() {
            let class = self.classes.classifier.class_of(packet.header());
            self.classes.accounts[class].counters.marked(at, packet);
        }
        self.obs.marked(at, packet);
    }

    fn dropped(&mut self, at: Instant, packet: &P, why: DropReason) {
        self.classes.leaves(at, packet, |counters| counters.dropped(at, packet, why));
        self.obs.dropped(at, packet, why);
    }
}

impl<P: PacketMeta> QueueDiscipline<P> for Port<P> {
    fn enqueue(&mut self, now: Instant, packet: P, obs: &mut impl Observer<P>) {
        let Some(packet) = self.conditioner.treat(now, packet, obs) else { return };
        self.fill_ring(now, obs);
        let Self { queue, classes, ring, .. } = self;
        classes.arrives(now, &packet, obs);
        queue.enqueue(now, packet, &mut ClassObserver { obs: &mut *obs, classes });
        if let Some(ring) = ring {
            // A packet of another class may leave immediately.
            ring.held_until = Instant::ZERO;
        }
        self.fill_ring(now, obs);
    }

    fn dequeue(&mut self, now: Instant, obs: &mut impl Observer<P>) -> Dequeue<P> {
        let next = match self.next_of_ring(now, obs) {
            Some(next) => next,
            None => self.queue.dequeue(now, &mut ClassObserver { obs, classes: &mut self.classes }),
        };
        if let Dequeue::Packet(packet, since) = &next {
            let waited = now.since(*since);
            self.classes.leaves(now, packet, |counters| {
                counters.served(now, packet, waited);
                counters.delivered(now, packet);
            });
        }
        next
    }

    fn clear(&mut self, now: Instant, why: DropReason, obs: &mut impl Observer<P>) {
        let observer = &mut ClassObserver { obs, classes: &mut self.classes };
        if let Some(ring) = &mut self.ring {
            ring.packets.clear(now, why, observer);
            ring.held_until = Instant::ZERO;
        }
        self.queue.clear(now, why, observer);
    }

    fn backlog(&self) -> Backlog {
        let waiting = self.queue.backlog();
        let Some(ring) = &self.ring else { return waiting };
        let ready = ring.packets.backlog();
        Backlog { packets: waiting.packets + ready.packets, bytes: waiting.bytes + ready.bytes }
    }
}
