//! The queues of the classes of a line, for disciplines that schedule classes.

use std::collections::VecDeque;

use netrig_core::{Backlog, Dequeue, DropReason, Instant, Observer, PacketMeta, QueueDiscipline};

use super::class::{ClassContext, Classifier, PerClass};
use super::discipline::Discipline;

/// A queue for each class. The scheduler keeps a note about each waiting packet, such as its tag or its length.
#[derive(Clone, Debug)]
pub(super) struct Bands<P, N> {
    classifier: Classifier,
    bands: Vec<Band<P, N>>,
    backlog: Backlog,
}

#[derive(Clone, Debug)]
struct Band<P, N> {
    queue: Discipline<P>,
    /// The notes of the waiting packets, oldest packet first.
    notes: VecDeque<N>,
}

impl<P: PacketMeta, N> Bands<P, N> {
    /// Empty queues for the classes of this line. `room` sets the queue of each class that has none of its own.
    pub(super) fn new(room: &PerClass, context: &ClassContext<'_>) -> Self {
        let band = |class| {
            let (class, inner) = context.of_class(class);
            Band { queue: Discipline::new(&class.queue(room), &inner), notes: VecDeque::new() }
        };
        Self {
            classifier: Classifier::new(context.classes()),
            bands: (0..context.classes().len()).map(band).collect(),
            backlog: Backlog::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.bands.len()
    }

    #[inline]
    pub(super) fn class_of(&self, packet: &P) -> usize {
        self.classifier.class_of(packet.header())
    }

    #[inline]
    pub(super) fn backlog(&self) -> Backlog {
        self.backlog
    }

    #[inline]
    pub(super) fn is_empty(&self, class: usize) -> bool {
        self.bands[class].queue.backlog().packets == 0
    }

    /// The note of a class's oldest packet.
    #[inline]
    pub(super) fn first(&self, class: usize) -> Option<&N> {
        self.bands[class].notes.front()
    }

    /// Changes the queue of a class, and updates the backlog and the notes.
    #[inline]
    fn within<T>(&mut self, class: usize, change: impl FnOnce(&mut Discipline<P>) -> T) -> T {
        let band = &mut self.bands[class];
        let before = band.queue.backlog();
        let result = change(&mut band.queue);
        let after = band.queue.backlog();
        self.backlog.packets = self.backlog.packets + after.packets - before.packets;
        self.backlog.bytes = self.backlog.bytes + after.bytes - before.bytes;
        // Packets leave at the front of the queue.
        let gone = band.notes.len().saturating_sub(after.packets);
        band.notes.drain(..gone);
        result
    }

    /// Adds a packet to the queue of its class. If the packet now waits there, stores the result of `note` and returns
    /// true.
    #[inline]
    pub(super) fn push(
        &mut self,
        class: usize,
        now: Instant,
        packet: P,
        obs: &mut impl Observer<P>,
        note: impl FnOnce() -> N,
    ) -> bool {
        self.within(class, |queue| queue.enqueue(now, packet, obs));
        let band = &mut self.bands[class];
        let waits = band.queue.backlog().packets > band.notes.len();
        if waits {
            band.notes.push_back(note());
        }
        waits
    }

    /// The next packet of a class.
    #[inline]
    pub(super) fn pop(&mut self, class: usize, now: Instant, obs: &mut impl Observer<P>) -> Dequeue<P> {
        self.within(class, |queue| queue.dequeue(now, obs))
    }

    pub(super) fn clear(&mut self, now: Instant, why: DropReason, obs: &mut impl Observer<P>) {
        for class in 0..self.bands.len() {
            self.within(class, |queue| queue.clear(now, why, obs));
        }
    }
}
