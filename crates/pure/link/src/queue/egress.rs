//! The path of packets to a line: a queue, perhaps with conditioning, classes and a transmit ring.

use netrig_core::{Backlog, Dequeue, DropReason, Instant, Observer, PacketMeta, QueueDiscipline, Seeds};

use super::class::ClassContext;
use super::context::QueueContext;
use super::discipline::{Discipline, Queue, any_of};
use super::fifo;
use super::port::Port;
use crate::LineSettings;

/// The path of packets to a line: a queue alone, or a queue with conditioning, classes and a transmit ring.
///
/// Every packet passes here. For speed, the most common queue has its own small variant, outside the choice among all
/// disciplines.
#[derive(Clone, Debug)]
pub enum Egress<P> {
    /// Only a FIFO queue.
    Fifo(fifo::FifoQueue<P>),
    /// Only a queue of another discipline.
    Queue(Box<Discipline<P>>),
    /// A queue with conditioning, classes or a transmit ring.
    Port(Box<Port<P>>),
}

impl<P: PacketMeta> Egress<P> {
    /// The path to the line that `settings` describe. They must have passed [`LineSettings::check`].
    pub fn new(settings: &LineSettings, seeds: &Seeds, line: &str) -> Self {
        let context = QueueContext::new(seeds, line, settings.rate, settings.framing);
        let context = ClassContext::new(context, &settings.classes);
        match &settings.queue {
            _ if settings.is_conditioned() => Self::Port(Box::new(Port::new(settings, &context))),
            Queue::Fifo(fifo) => Self::Fifo(fifo::FifoQueue::new(fifo, context.line())),
            queue => Self::Queue(Box::new(Discipline::new(queue, &context))),
        }
    }

    /// The port; `None` if there is only a queue.
    pub fn port(&self) -> Option<&Port<P>> {
        match self {
            Self::Fifo(_) | Self::Queue(_) => None,
            Self::Port(port) => Some(port),
        }
    }
}

any_of!(Egress: Fifo, Queue, Port);
