//! The contracts of queues, links and their observers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Colour, Duration, Instant};

crate::named! {
    /// A direction of a link: from the first node that the file names to the second, or back.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Direction {
        /// From the first named node to the second.
        Forward = "forward",
        /// From the second named node to the first.
        Backward = "backward",
    }
}

crate::named! {
    /// The reason for a drop. Every drop has exactly one reason, so that the counts of packets balance.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[non_exhaustive]
    pub enum DropReason {
        /// The queue had no room.
        QueueFull = "queue-full",
        /// Active queue management dropped it early (RED and similar disciplines).
        Early = "early",
        /// Random or periodic loss on the line.
        Loss = "loss",
        /// The packet is on an explicit list of packets to lose.
        Listed = "listed",
        /// Bits were flipped; the far end's frame check dropped the packet.
        Corrupted = "corrupted",
        /// The link was down.
        LinkDown = "link-down",
        /// The packet has no route, or is longer than the link's MTU.
        Undeliverable = "undeliverable",
        /// The link layer reached its limit of transmissions without an acknowledgement.
        RetryLimit = "retry-limit",
        /// A policer dropped the packet because its stream was out of profile.
        Policed = "policed",
    }
}

impl DropReason {
    /// The index in [`DropReason::ALL`], for tables of counters.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// Declares the trait of observers, and implements it for references, options and pairs of observers.
macro_rules! observer {
    (
        $(#[doc = $about:literal])+
        trait $observer:ident {
            $($(#[doc = $doc:literal])+ fn $event:ident($($argument:ident: $type:ty),+);)+
        }
    ) => {
        $(#[doc = $about])+
        pub trait $observer<P> {
            $($(#[doc = $doc])+
            fn $event(&mut self, at: Instant, $($argument: $type),+) {
                let _ = (at, $($argument),+);
            })+
        }

        impl<P> $observer<P> for () {}

        impl<P, O: $observer<P>> $observer<P> for &mut O {
            $(fn $event(&mut self, at: Instant, $($argument: $type),+) {
                (**self).$event(at, $($argument),+);
            })+
        }

        /// An observer that may be absent.
        impl<P, O: $observer<P>> $observer<P> for Option<O> {
            $(fn $event(&mut self, at: Instant, $($argument: $type),+) {
                if let Some(observer) = self {
                    observer.$event(at, $($argument),+);
                }
            })+
        }

        impl<P, A: $observer<P>, B: $observer<P>> $observer<P> for (A, B) {
            $(fn $event(&mut self, at: Instant, $($argument: $type),+) {
                self.0.$event(at, $($argument),+);
                self.1.$event(at, $($argument),+);
            })+
        }
    };
}

observer! {
    /// Receives the events of a model for measurements.
    ///
    /// It is always a type parameter, never `dyn`, so that an ignored event costs nothing. A tuple of observers is an
    /// observer. Times may lie before the caller's `now`: a line that is polled late handles each event at the time at which
    /// it was due.
    trait Observer {
        /// The packet arrived at the near end at `at`. It counts as inside the link until it is delivered or dropped.
        fn offered(packet: &P);
        /// Rule number `rule` of the traffic conditioner, from 0, matched the packet. `colour` is the result of its meter. The
        /// packet has its new code point already. If the rule drops it, `dropped` is the next event.
        fn conditioned(packet: &P, rule: usize, colour: Colour);
        /// The packet was assigned to the line's class number `class`, from 0, and arrives at its queue.
        fn classified(packet: &P, class: usize);
        /// From `at` on, the queue contains `backlog`. These times never decrease. If several events have the same
        /// time, the last one counts.
        fn queued(backlog: Backlog);
        /// The queue set the packet's ECN field to "congestion experienced" at `at` instead of dropping it.
        fn marked(packet: &P);
        /// The packet left the queue for the line at `at`, after `waited` in the queue.
        fn served(packet: &P, waited: Duration);
        /// The packet left the far end at `at`.
        fn delivered(packet: &P);
        /// The packet was dropped. This is its last event, so a router frees the frame's slot here.
        fn dropped(packet: &P, why: DropReason);
        /// The line duplicated the packet. The copy is delivered or dropped independently of the original.
        fn duplicated(packet: &P);
        /// The link layer starts to retransmit the packet at `at`, because it was not acknowledged.
        fn repeated(packet: &P);
    }
}

/// The answer of a queue discipline to a request for the next packet.
#[derive(Debug, PartialEq, Eq)]
pub enum Dequeue<P> {
    /// The next packet, and the time since which it has waited.
    Packet(P, Instant),
    /// Packets wait, but none may leave before this time, which is later than now. The next `enqueue` makes it invalid,
    /// because a packet of another class may leave immediately.
    NotBefore(Instant),
    /// The queue is empty.
    Empty,
}

/// The packets in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Queued packets, without the packet on the line.
    pub packets: usize,
    /// Sum of their IP lengths, bytes.
    pub bytes: u64,
}

/// Order and drop policy of a queue. It has no access to the rate or delay of the line. It may drop at either end of
/// the queue.
///
/// It is not dyn-safe on purpose: the disciplines that a file can choose and nest are a closed set.
pub trait QueueDiscipline<P> {
    /// Queues or drops an arriving packet.
    fn enqueue(&mut self, now: Instant, packet: P, obs: &mut impl Observer<P>);
    /// Returns the next packet for the line, which is free at `now`.
    fn dequeue(&mut self, now: Instant, obs: &mut impl Observer<P>) -> Dequeue<P>;
    /// Handles a packet that arrives while the queue is empty and the line is free. It is equivalent to
    /// [`QueueDiscipline::enqueue`] and then [`QueueDiscipline::dequeue`]; a discipline may implement it faster.
    fn pass(&mut self, now: Instant, packet: P, obs: &mut impl Observer<P>) -> Dequeue<P> {
        self.enqueue(now, packet, obs);
        self.dequeue(now, obs)
    }
    /// Drops all queued packets. A loop over `dequeue` would not work: a shaper would hold packets back, and an AQM
    /// would change its state.
    fn clear(&mut self, now: Instant, why: DropReason, obs: &mut impl Observer<P>);
    /// The queued packets.
    fn backlog(&self) -> Backlog;
}

/// Effect of an outage on queued packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Waiting {
    /// They wait until the link is up. Packets offered during the outage also wait if the queue has room.
    Keep,
    /// They are dropped, as are packets offered during the outage.
    Drop,
}

/// Effect of an outage on packets on the line, including the packet that is being sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InFlight {
    /// They are delivered.
    Deliver,
    /// They are lost.
    Lose,
}

/// A change of a line during a run. A packet that is already on the line keeps its rate and delay. A second `Down` or
/// `Up` has no effect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LinkEvent {
    /// The link goes down.
    Down {
        /// Effect on queued packets.
        queue: Waiting,
        /// Effect on packets on the line.
        in_flight: InFlight,
    },
    /// The link comes up.
    Up,
    /// The rate changes. The rate counts the bits of IP packets and of their framing.
    Rate {
        /// Bits per second, above zero.
        bits_per_s: u64,
    },
    /// The propagation delay changes.
    Delay(Duration),
    /// Independent random loss with this probability replaces the previous random loss.
    Loss {
        /// Between 0 and 1.
        probability: f64,
    },
}

/// The number of a lane. A lane leads through a link from the port where packets enter to the port where they leave.
///
/// A line, which is one direction of a cable, has one lane. A shared medium has one lane for each pair of
/// communicating stations in each direction. A transmission on one lane takes air time from all lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(pub u32);

impl Lane {
    /// The only lane of a link with one lane.
    pub const ONLY: Self = Self(0);
}

/// Provides an observer for each lane of a link. A plain [`Observer`] serves all lanes.
pub trait LinkObserver<P> {
    /// The observer of this lane.
    fn lane(&mut self, lane: Lane) -> &mut impl Observer<P>;
}

impl<P, O: Observer<P>> LinkObserver<P> for O {
    #[inline]
    fn lane(&mut self, _lane: Lane) -> &mut impl Observer<P> {
        self
    }
}

/// A packet that left a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery<P> {
    /// Time of the delivery.
    pub at: Instant,
    /// The lane.
    pub lane: Lane,
    /// The packet.
    pub packet: P,
}

/// Carries packets: one direction of a cable, or a medium that several stations share.
///
/// `now` never decreases. Each call first handles the events that are due by `now`, each at its own time, and then
/// takes effect. Therefore a late poll does not change the results. A line serves from the time at which it became
/// free, not from `now`, so a driver that wakes late does not slow it.
pub trait Link<P> {
    /// Offers a packet at the near end of a lane.
    fn offer(&mut self, now: Instant, lane: Lane, packet: P, obs: &mut impl LinkObserver<P>);
    /// Applies an event to a lane.
    fn apply(&mut self, now: Instant, lane: Lane, event: LinkEvent, obs: &mut impl LinkObserver<P>);
    /// The time at which to call [`Link::poll_deliver`] next. Any call that takes `&mut self` makes it stale.
    #[must_use]
    fn poll_timeout(&self) -> Option<Instant>;
    /// The next packet that has arrived by `now`. Its time is before `now` if the driver is late.
    #[must_use]
    fn poll_deliver(&mut self, now: Instant, obs: &mut impl LinkObserver<P>) -> Option<Delivery<P>>;
    /// Number of packets of a lane that are queued or on the line: offered + duplicated = delivered + dropped + inside.
    fn inside(&self, lane: Lane) -> usize;
}
