//! The disciplines that an experiment file can name.

use netrig_core::{Backlog, Dequeue, DropReason, Instant, Observer, PacketMeta, QueueDiscipline, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::class::{self, Class, ClassContext, PerClass};
use super::{class_wfq, codel, drr, fifo, fq_codel, priority, red, shaped, wfq, wred};
use crate::SettingsError;
use crate::error::ensure;

/// Implements [`QueueDiscipline`] for an enum of queues: every call goes to the queue of the variant.
macro_rules! any_of {
    ($type:ident: $($kind:ident),+) => {
        impl<P: PacketMeta> QueueDiscipline<P> for $type<P> {
            #[inline]
            fn enqueue(&mut self, now: Instant, packet: P, obs: &mut impl Observer<P>) {
                match self { $(Self::$kind(queue) => queue.enqueue(now, packet, obs),)+ }
            }

            #[inline]
            fn dequeue(&mut self, now: Instant, obs: &mut impl Observer<P>) -> Dequeue<P> {
                match self { $(Self::$kind(queue) => queue.dequeue(now, obs),)+ }
            }

            #[inline]
            fn pass(&mut self, now: Instant, packet: P, obs: &mut impl Observer<P>) -> Dequeue<P> {
                match self { $(Self::$kind(queue) => queue.pass(now, packet, obs),)+ }
            }

            fn clear(&mut self, now: Instant, why: DropReason, obs: &mut impl Observer<P>) {
                match self { $(Self::$kind(queue) => queue.clear(now, why, obs),)+ }
            }

            #[inline]
            fn backlog(&self) -> Backlog {
                match self { $(Self::$kind(queue) => queue.backlog(),)+ }
            }
        }
    };
}
pub(super) use any_of;

/// Declares the disciplines that an experiment file can name: the settings of each in the file, and the queue that is
/// made from them. The settings have `check(&self) -> Result<(), SettingsError>`. The queue implements
/// [`QueueDiscipline`] and has `new(&Settings, &QueueContext) -> Self`. If it schedules classes, `new` takes a
/// `&ClassContext` instead.
macro_rules! disciplines {
    ($($(#[doc = $doc:literal])+ $kind:ident($settings:ty) => $queue:ty;)+) => {
        /// The queue in front of a line.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "kebab-case")]
        #[schemars(extend("x-tag" = "kind"))]
        pub enum Queue {
            $($(#[doc = $doc])+ $kind($settings),)+
        }

        impl Queue {
            /// Checks the settings.
            ///
            /// # Errors
            /// If a field is out of range. The error names it.
            pub fn check(&self) -> Result<(), SettingsError> {
                match self { $(Self::$kind(settings) => settings.check(),)+ }
            }
        }

        /// A queue of any discipline.
        #[derive(Clone, Debug)]
        pub enum Discipline<P> {
            $($(#[doc = $doc])+ $kind($queue),)+
        }

        impl<P: PacketMeta> Discipline<P> {
            /// An empty queue. `queue` must have passed [`Queue::check`].
            pub fn new(queue: &Queue, context: &ClassContext<'_>) -> Self {
                match queue { $(Queue::$kind(settings) => Self::$kind(<$queue>::new(settings, context.as_ref())),)+ }
            }
        }

        any_of!(Discipline: $($kind),+);
    };
}

disciplines! {
    /// First in, first out, up to a limit (drop-tail).
    Fifo(fifo::Fifo) => fifo::FifoQueue<P>;
    /// Random early detection (Floyd and Jacobson 1993).
    Red(red::Red) => wred::RedQueue<P>;
    /// Controlled delay (CoDel, RFC 8289).
    Codel(codel::Codel) => codel::CodelQueue<P>;
    /// Weighted random early detection: RED with a curve for each drop precedence.
    Wred(wred::Wred) => wred::RedQueue<P>;
    /// Weighted fair queueing among conversations.
    Wfq(wfq::Wfq) => wfq::WfqQueue<P>;
    /// Flow queue CoDel (RFC 8290).
    FqCodel(fq_codel::FqCodel) => fq_codel::FqCodelQueue<P>;
    /// A shaper: a token bucket behind another queue.
    Shaped(shaped::Shaped) => shaped::ShapedQueue<P>;
    /// Strict priority among the line's classes, in their order.
    Priority(PerClass) => priority::PriorityQueue<P>;
    /// Class-based weighted fair queueing, with classes of low latency before it (CBWFQ, LLQ).
    ClassWfq(PerClass) => class_wfq::ClassWfqQueue<P>;
    /// Deficit round robin among the line's classes.
    Drr(drr::Drr) => drr::DrrQueue<P>;
}

impl Queue {
    /// Whether the discipline schedules the line's classes.
    pub const fn is_of_classes(&self) -> bool {
        self.room().is_some()
    }

    /// The number of WRED curves, including those of an inner queue.
    pub(crate) fn curves(&self) -> usize {
        match self {
            Self::Wred(wred) => wred.curves.len(),
            Self::Shaped(shaped) => shaped.queue.curves(),
            _ => 0,
        }
    }

    /// The default limits of each class, if the discipline schedules classes.
    pub(crate) const fn room(&self) -> Option<PerClass> {
        match self {
            Self::Priority(room) | Self::ClassWfq(room) => Some(PerClass { ..*room }),
            Self::Drr(drr) => Some(PerClass { packets: drr.packets, bytes: drr.bytes }),
            _ => None,
        }
    }

    /// Checks whether this queue can schedule these classes on a line of this rate. The classes must have been checked.
    ///
    /// # Errors
    /// If a field is out of range. The error names it by its path within the line.
    pub(crate) fn check_classes(&self, classes: &[Class], rate: Rate) -> Result<(), SettingsError> {
        let Some(room) = self.room() else { return Ok(()) };
        ensure(!classes.is_empty(), "classes", "must be given: this `queue` schedules them")?;
        for (n, class) in classes.iter().enumerate() {
            let within = |e: SettingsError| e.within(&format!("classes.{n}"));
            class.queue(&room).check().map_err(|_| {
                let why = "must be given, or `phb`, or the room of each class in the line's `queue`";
                within(SettingsError::new("queue", why))
            })?;
            let is_fast = matches!(self, Self::ClassWfq(_)) && class.is_low_latency();
            let why = "must be given: a class of low latency is policed to it";
            ensure(!is_fast || class.reserve.is_some(), "reserve", why).map_err(within)?;
        }
        match self {
            Self::ClassWfq(_) => class::check_shares(classes, rate, Class::is_low_latency),
            Self::Drr(_) => class::check_shares(classes, rate, |_| false),
            _ => Ok(()),
        }
    }
}
