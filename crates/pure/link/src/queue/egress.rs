//! The way of packets to a line: a queue, perhaps with conditioning, classes and a transmit ring.

use netrig_core::{Backlog, Dequeue, DropReason, Instant, Observer, PacketMeta, QueueDiscipline, Seeds};

use super::class::ClassContext;
use super::context::QueueContext;
use super::discipline::{Discipline, Queue};
use super::fifo;
use super::port::Port;
use crate::LineSettings;

/// The way of packets to a line: a queue alone, or a queue with conditioning, classes and a transmit ring.
///
/// Every packet passes here. So the most common queue is kept small and stands outside the choice among all disciplines.
#[derive(Clone, Debug)]
pub enum Egress<P> {
    /// A FIFO queue alone.
    Fifo(fifo::FifoQueue<P>),
    /// Another queue alone.
    Queue(Box<Discipline<P>>),
    /// A queue with conditioning, classes or a transmit ring.
    Port(Box<Port<P>>),
}

impl<P: PacketMeta> Egress<P> {
    /// The way to the line that `settings` describe. They must have passed [`LineSettings::check`].
    pub fn new(settings: &LineSettings, seeds: &Seeds, line: &str) -> Self {
        let context = QueueContext::new(seeds, line, settings.rate, settings.framing);
        let context = ClassContext::new(context, &settings.classes);
        match &settings.queue {
            _ if settings.is_conditioned() => Self::Port(Box::new(Port::new(settings, &context))),
            Queue::Fifo(fifo) => Self::Fifo(fifo::FifoQueue::new(fifo, context.line())),
            queue => Self::Queue(Box::new(Discipline::new(queue, &context))),
        }
    }

    /// The port, unless there is only a queue.
    pub fn port(&self) -> Option<&Port<P>> {
        match self {
            Self::Fifo(_) | Self::Queue(_) => None,
            Self::Port(port) => Some(port),
        }
    }
}

impl<P: PacketMeta> QueueDiscipline<P> for Egress<P> {
    #[inline]
    fn enqueue(&mut self, now: Instant, packet: P, obs: &mut impl Observer<P>) {
        match self {
            Self::Fifo(queue) => queue.enqueue(now, packet, obs),
            Self::Queue(queue) => queue.enqueue(now, packet, obs),
            Self::Port(port) => port.enqueue(now, packet, obs),
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Instant, obs: &mut impl Observer<P>) -> Dequeue<P> {
        match self {
            Self::Fifo(queue) => queue.dequeue(now, obs),
            Self::Queue(queue) => queue.dequeue(now, obs),
            Self::Port(port) => port.dequeue(now, obs),
        }
    }

    #[inline]
    fn pass(&mut self, now: Instant, packet: P, obs: &mut impl Observer<P>) -> Dequeue<P> {
        match self {
            Self::Fifo(queue) => queue.pass(now, packet, obs),
            Self::Queue(queue) => queue.pass(now, packet, obs),
            Self::Port(port) => port.pass(now, packet, obs),
        }
    }

    fn clear(&mut self, now: Instant, why: DropReason, obs: &mut impl Observer<P>) {
        match self {
            Self::Fifo(queue) => queue.clear(now, why, obs),
            Self::Queue(queue) => queue.clear(now, why, obs),
            Self::Port(port) => port.clear(now, why, obs),
        }
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        match self {
            Self::Fifo(queue) => queue.backlog(),
            Self::Queue(queue) => queue.backlog(),
            Self::Port(port) => port.backlog(),
        }
    }
}
