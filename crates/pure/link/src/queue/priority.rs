//! Strict priority: a class is served only if the queues of all classes before it are empty. A packet that is being
//! sent is never interrupted.

use netrig_core::{Backlog, Dequeue, DropReason, Instant, Observer, PacketMeta, QueueDiscipline};

use super::bands::Bands;
use super::class::{ClassContext, PerClass};

/// A queue with strict priority among the line's classes, in their order.
#[derive(Clone, Debug)]
pub struct PriorityQueue<P>(Box<Bands<P, ()>>);

impl<P: PacketMeta> PriorityQueue<P> {
    /// Empty queues for the classes of this line.
    pub fn new(settings: &PerClass, context: &ClassContext<'_>) -> Self {
        Self(Box::new(Bands::new(settings, context)))
    }
}

impl<P: PacketMeta> QueueDiscipline<P> for PriorityQueue<P> {
    fn enqueue(&mut self, now: Instant, packet: P, obs: &mut impl Observer<P>) {
        let class = self.0.class_of(&packet);
        self.0.push(class, now, packet, obs, || ());
    }

    fn dequeue(&mut self, now: Instant, obs: &mut impl Observer<P>) -> Dequeue<P> {
        let mut soonest = Instant::NEVER;
        for class in 0..self.0.len() {
            if self.0.is_empty(class) {
                continue;
            }
            match self.0.pop(class, now, obs) {
                Dequeue::NotBefore(moment) => soonest = soonest.min(moment),
                Dequeue::Empty => {}
                packet => return packet,
            }
        }
        if soonest < Instant::NEVER { Dequeue::NotBefore(soonest) } else { Dequeue::Empty }
    }

    fn clear(&mut self, now: Instant, why: DropReason, obs: &mut impl Observer<P>) {
        self.0.clear(now, why, obs);
    }

    fn backlog(&self) -> Backlog {
        self.0.backlog()
    }
}
