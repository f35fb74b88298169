//! Queue disciplines: one file each, behind the trait [`QueueDiscipline`].
//!
//! A discipline decides what waits, what is dropped and who goes next. It knows neither rate nor delay; what
//! it needs to know of its surroundings when it is made, it takes from [`Place`]. Disciplines of classes take from there
//! which [`Class`]es the line has.

mod bands;
pub(crate) mod buffer;
pub mod class;
pub mod class_wfq;
pub mod codel;
pub mod drr;
pub mod fifo;
mod flows;
mod fluid;
pub mod fq_codel;
pub mod port;
pub mod priority;
pub mod red;
pub mod shaped;
pub mod wfq;
pub mod wred;

use std::borrow::Cow;

use netrig_core::{
    Backlog, Dequeue, DropReason, Duration, Instant, Observer, PacketMeta, QueueDiscipline, Rate, Seeds,
    Size, Stream,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ensure;
use crate::{Framing, LineSettings, SettingsError};
use buffer::Limit;

pub use class::{Class, Phb};
pub use port::Port;

/// Where a discipline stands, for those that depend on it.
#[derive(Clone, Debug)]
pub struct Place<'a> {
    seeds: &'a Seeds,
    line: Cow<'a, str>,
    rate: Rate,
    framing: Framing,
    /// At which rate what leaves the queue goes on, and what that rate counts.
    drain: (Rate, Framing),
    classes: &'a [Class],
}

impl<'a> Place<'a> {
    /// In front of the line called `line`, with this rate and framing, and without classes.
    pub fn new(seeds: &'a Seeds, line: &'a str, rate: Rate, framing: Framing) -> Self {
        Self { seeds, line: line.into(), rate, framing, drain: (rate, framing), classes: &[] }
    }

    /// The same with these classes, which must have passed the line's check.
    #[must_use]
    pub fn with_classes(self, classes: &'a [Class]) -> Self {
        Self { classes, ..self }
    }

    /// The same behind something slower than the line, whose rate counts a packet as `framing` does.
    #[must_use]
    fn drained_at(&self, rate: Rate, framing: Framing) -> Self {
        Self { drain: (rate, framing), line: self.line.clone(), ..*self }
    }

    /// At which rate what waits leaves, at the start, and how that counts a packet.
    fn drain(&self) -> (Rate, Framing) {
        self.drain
    }

    /// The random stream `link/<line>/<what>`; within a class `link/<line>/class/<class>/<what>`.
    pub fn stream(&self, what: &str) -> Stream {
        self.seeds.stream(&format!("link/{}/{what}", self.line))
    }

    /// Time that an IP packet of this size takes on the line.
    pub fn packet_time(&self, size: Size) -> Duration {
        let ip_len = u32::try_from(size.bytes()).unwrap_or(u32::MAX);
        self.rate.time_for(self.framing.line_bytes(ip_len))
    }

    /// The line's rate at the start.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// The line's framing.
    pub fn framing(&self) -> Framing {
        self.framing
    }

    /// The line's classes.
    pub fn classes(&self) -> &'a [Class] {
        self.classes
    }

    /// One of the line's classes, and the place within it.
    fn of_class(&self, number: usize) -> (&'a Class, Self) {
        let class = &self.classes[number];
        let line = format!("{}/class/{}", self.line, class.name()).into();
        (class, Self { line, classes: &[], ..*self })
    }
}

/// The room of each class in a discipline of classes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PerClass {
    /// So many packets may wait in each class that has no `queue` of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// So many bytes of IP packets may wait in each class that has no `queue` of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Size>,
}

impl PerClass {
    /// Whether there can be such room.
    ///
    /// # Errors
    /// Names the field that is out of range.
    pub fn check(&self) -> Result<(), SettingsError> {
        Limit::check(self.packets, self.bytes)
    }
}

/// Declares the disciplines that a file can name: for each the settings that stand in the file and the queue
/// that is made of them. The settings have `check(&self) -> Result<(), SettingsError>`, the queue has
/// `new(&Settings, &Place) -> Self` and implements [`QueueDiscipline`].
macro_rules! disciplines {
    ($($(#[doc = $doc:literal])+ $kind:ident($settings:ty) => $queue:ty;)+) => {
        /// What waits in front of a line, as an experiment file describes it.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "kebab-case")]
        #[schemars(extend("x-tag" = "kind"))]
        pub enum Queue {
            $($(#[doc = $doc])+ $kind($settings),)+
        }

        impl Queue {
            /// Whether such a queue can be.
            ///
            /// # Errors
            /// Names the field that is out of range.
            pub fn check(&self) -> Result<(), SettingsError> {
                match self { $(Self::$kind(settings) => settings.check(),)+ }
            }
        }

        /// A queue at work: any of the disciplines.
        #[derive(Clone, Debug)]
        pub enum Discipline<P> {
            $($(#[doc = $doc])+ $kind($queue),)+
        }

        impl<P: PacketMeta> Discipline<P> {
            /// An empty queue of this description, which must have passed [`Queue::check`].
            pub fn new(queue: &Queue, place: &Place<'_>) -> Self {
                match queue { $(Queue::$kind(settings) => Self::$kind(<$queue>::new(settings, place)),)+ }
            }
        }

        impl<P: PacketMeta> QueueDiscipline<P> for Discipline<P> {
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
                match self { $(Self::$kind(queue) => <$queue as QueueDiscipline<P>>::backlog(queue),)+ }
            }
        }
    };
}

disciplines! {
    /// First in, first out, up to a limit (drop-tail).
    Fifo(fifo::Fifo) => fifo::FifoQueue<P>;
    /// Random early detection (Floyd and Jacobson 1993).
    Red(red::Red) => red::RedQueue<P>;
    /// Controlled delay (CoDel, RFC 8289).
    Codel(codel::Codel) => codel::CodelQueue<P>;
    /// Weighted random early detection: RED with a curve for each drop precedence.
    Wred(wred::Wred) => wred::WredQueue<P>;
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
    /// Whether it schedules the line's classes.
    pub const fn is_of_classes(&self) -> bool {
        self.room().is_some()
    }

    /// How many curves it has, and those within it.
    pub(crate) fn curves(&self) -> usize {
        match self {
            Self::Wred(wred) => wred.curves.len(),
            Self::Shaped(shaped) => shaped.queue.curves(),
            _ => 0,
        }
    }

    /// Of a discipline of classes, the room of each.
    pub(crate) const fn room(&self) -> Option<PerClass> {
        match self {
            Self::Priority(room) | Self::ClassWfq(room) => Some(PerClass { ..*room }),
            Self::Drr(drr) => Some(PerClass { packets: drr.packets, bytes: drr.bytes }),
            _ => None,
        }
    }

    /// Whether a line of this rate can schedule these classes so; they have been checked.
    ///
    /// # Errors
    /// Names the field that is out of range, seen from the line.
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

/// What packets pass on their way to a line: a queue alone, or conditioning, classes and a transmit ring around it.
///
/// What most lines have is kept small, and is not behind the choice among all disciplines: every packet passes here.
#[derive(Clone, Debug)]
pub enum Egress<P> {
    /// First in, first out, alone.
    Fifo(fifo::FifoQueue<P>),
    /// Another queue alone.
    Queue(Box<Discipline<P>>),
    /// With more around it.
    Port(Box<Port<P>>),
}

impl<P: PacketMeta> Egress<P> {
    /// In front of the line that `settings` describe, which must have passed [`LineSettings::check`].
    pub fn new(settings: &LineSettings, seeds: &Seeds, line: &str) -> Self {
        let place = Place::new(seeds, line, settings.rate, settings.framing).with_classes(&settings.classes);
        match &settings.queue {
            _ if settings.is_conditioned() => Self::Port(Box::new(Port::new(settings, &place))),
            Queue::Fifo(fifo) => Self::Fifo(fifo::FifoQueue::new(fifo, &place)),
            queue => Self::Queue(Box::new(Discipline::new(queue, &place))),
        }
    }

    /// The port, if there is more than a queue.
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
