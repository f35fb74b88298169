//! Queue disciplines: one file each, behind the trait [`QueueDiscipline`].
//!
//! A discipline decides what waits, what is dropped and who goes next. It knows neither rate nor delay; what
//! it needs to know of its surroundings when it is made, it takes from [`Place`].

mod buffer;
pub mod codel;
pub mod fifo;
pub mod red;

use netrig_core::{
    Backlog, Dequeue, DropReason, Duration, Instant, Observer, PacketMeta, QueueDiscipline, Rate, Seeds,
    Size, Stream,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Framing, SettingsError};

/// Where a discipline stands, for those that depend on it.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    seeds: &'a Seeds,
    line: &'a str,
    rate: Rate,
    framing: Framing,
}

impl<'a> Place<'a> {
    /// In front of the line called `line`, with this rate and framing.
    pub fn new(seeds: &'a Seeds, line: &'a str, rate: Rate, framing: Framing) -> Self {
        Self { seeds, line, rate, framing }
    }

    /// The random stream `link/<line>/<what>`.
    pub fn stream(&self, what: &str) -> Stream {
        self.seeds.stream(&format!("link/{}/{what}", self.line))
    }

    /// Time that an IP packet of this size takes on the line.
    pub fn packet_time(&self, size: Size) -> Duration {
        let ip_len = u32::try_from(size.bytes()).unwrap_or(u32::MAX);
        self.rate.time_for(self.framing.line_bytes(ip_len))
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
}
