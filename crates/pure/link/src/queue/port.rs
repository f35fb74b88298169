//! What stands in front of a line that conditions traffic: rules, then classes in a queue, then a transmit ring.

use netrig_core::{Backlog, Dequeue, DropReason, Header, Instant, Observer, PacketMeta, QueueDiscipline};

use super::buffer::{Buffer, Limit};
use super::class::{ClassContext, Classifier};
use super::discipline::Discipline;
use crate::conditioning::{Conditioned, Conditioner};
use crate::{Counters, LineSettings};

/// The way of a packet to a line that conditions traffic.
///
/// It keeps the counters of each class, as routers do: of a class *offered* are the packets that came to its queue,
/// *served* and *delivered* those that went onto the line, *dropped* those that the queue dropped. What the rules
/// before it dropped is in their own account.
#[derive(Clone, Debug)]
pub struct Port<P> {
    conditioner: Conditioner,
    queue: Discipline<P>,
    classes: Classes,
    ring: Option<Ring<P>>,
}

/// The classes of a port, whatever queue they wait in.
#[derive(Clone, Debug)]
struct Classes {
    classifier: Classifier,
    accounts: Vec<Account>,
}

#[derive(Clone, Debug, Default)]
struct Account {
    counters: Counters,
    backlog: Backlog,
}

/// A FIFO between the scheduler and the line, as interfaces have one: what is in it goes, whoever comes.
#[derive(Clone, Debug)]
struct Ring<P> {
    slots: usize,
    packets: Buffer<P>,
    /// Shapers hold all that waits until then.
    held_until: Instant,
}

impl<P: PacketMeta> Port<P> {
    /// The port of the line that `settings` describe.
    pub(super) fn new(settings: &LineSettings, context: &ClassContext<'_>) -> Self {
        let slots = settings.ring as usize;
        let ring = || Ring { slots, packets: Buffer::new(Limit::new(None, None)), held_until: Instant::ZERO };
        Self {
            conditioner: Conditioner::new(&settings.condition, settings.framing),
            queue: Discipline::new(&settings.queue, context),
            classes: Classes {
                classifier: Classifier::new(&settings.classes),
                accounts: vec![Account::default(); settings.classes.len()],
            },
            ring: (slots > 0).then(ring),
        }
    }

    /// What each rule of the conditioner did, in their order.
    pub fn rules(&self) -> impl Iterator<Item = &Conditioned> {
        self.conditioner.accounts()
    }

    /// The counters of each class, in their order.
    pub fn classes(&self) -> impl Iterator<Item = &Counters> {
        self.classes.accounts.iter().map(|account| &account.counters)
    }

    /// Moves packets into the ring as far as there is room and the queue lets them go.
    fn fill_ring(&mut self, now: Instant, obs: &mut impl Observer<P>) {
        let Self { queue, classes, ring: Some(ring), .. } = self else { return };
        while ring.has_room() && queue.backlog().packets > 0 && ring.held_until <= now {
            match queue.dequeue(now, &mut Desk { obs: &mut *obs, classes: &mut *classes }) {
                Dequeue::Packet(packet, since) => ring.packets.push_since(since, packet),
                Dequeue::NotBefore(moment) => ring.held_until = moment,
                Dequeue::Empty => return,
            }
        }
    }

    /// The next packet of the ring; if there is a ring that is empty, why.
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
    /// A packet comes to its class.
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
        account.tell(now);
    }

    /// A packet leaves its class: how it does is told to the class's counters.
    fn leaves<P: PacketMeta>(&mut self, at: Instant, packet: &P, how: impl FnOnce(&mut Counters)) {
        if self.accounts.is_empty() {
            return;
        }
        let account = &mut self.accounts[self.classifier.class_of(packet.header())];
        how(&mut account.counters);
        account.backlog.packets -= 1;
        account.backlog.bytes -= u64::from(packet.header().ip_len);
        account.tell(at);
    }
}

impl Account {
    fn tell(&mut self, at: Instant) {
        Observer::<Header>::queued(&mut self.counters, at, self.backlog);
    }
}

/// Watches what the queue drops and marks, for the accounts of the classes.
struct Desk<'a, O> {
    obs: &'a mut O,
    classes: &'a mut Classes,
}

impl<P: PacketMeta, O: Observer<P>> Observer<P> for Desk<'_, O> {
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
        queue.enqueue(now, packet, &mut Desk { obs: &mut *obs, classes });
        if let Some(ring) = ring {
            // A packet of another class may go at once.
            ring.held_until = Instant::ZERO;
        }
        self.fill_ring(now, obs);
    }

    fn dequeue(&mut self, now: Instant, obs: &mut impl Observer<P>) -> Dequeue<P> {
        let next = match self.next_of_ring(now, obs) {
            Some(next) => next,
            None => self.queue.dequeue(now, &mut Desk { obs, classes: &mut self.classes }),
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
        let desk = &mut Desk { obs, classes: &mut self.classes };
        if let Some(ring) = &mut self.ring {
            ring.packets.clear(now, why, desk);
            ring.held_until = Instant::ZERO;
        }
        self.queue.clear(now, why, desk);
    }

    fn backlog(&self) -> Backlog {
        let waiting = self.queue.backlog();
        let Some(ring) = &self.ring else { return waiting };
        let ready = ring.packets.backlog();
        Backlog { packets: waiting.packets + ready.packets, bytes: waiting.bytes + ready.bytes }
    }
}
