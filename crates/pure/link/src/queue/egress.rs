//! The way of packets to a line: a queue, perhaps with conditioning, classes and a transmit ring.

use netrig_core::{Backlog, Dequeue, DropReason, Instant, Observer, PacketMeta, QueueDiscipline, Seeds};

use super::class::ClassContext;
use super::context::QueueContext;
use super::discipline::{Discipline, Queue, any_of};
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

any_of!(Egress: Fifo, Queue, Port);
