//! The contracts of queues and lines, and of those who watch them.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Colour, Duration, Instant};

/// Which way along a link: from the first node that the file names to the second, or back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the first named node to the second.
    Forward,
    /// From the second named node to the first.
    Backward,
}

impl Direction {
    /// Its word in files, stores and the names of random streams: `forward` or `backward`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a packet was dropped. Every drop has exactly one reason, so that packets can be balanced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DropReason {
    /// The queue had no room.
    QueueFull,
    /// Active queue management dropped it early (RED and its kin).
    Early,
    /// Random or periodic loss on the line.
    Loss,
    /// An explicit list named this packet.
    Listed,
    /// Bits were flipped; the far end's frame check threw it away.
    Corrupted,
    /// The link was down.
    LinkDown,
    /// No link leads to its destination, or it is longer than the link carries.
    Undeliverable,
    /// The link layer had sent it as often as it does, and it was never acknowledged.
    RetryLimit,
    /// A policer found its stream out of profile.
    Policed,
}

impl DropReason {
    /// All reasons, in the order of [`DropReason::index`].
    pub const ALL: [Self; 9] = [
        Self::QueueFull,
        Self::Early,
        Self::Loss,
        Self::Listed,
        Self::Corrupted,
        Self::LinkDown,
        Self::Undeliverable,
        Self::RetryLimit,
        Self::Policed,
    ];

    /// Its place in [`DropReason::ALL`], for tables of counters.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The word for it in tables and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue-full",
            Self::Early => "early",
            Self::Loss => "loss",
            Self::Listed => "listed",
            Self::Corrupted => "corrupted",
            Self::LinkDown => "link-down",
            Self::Undeliverable => "undeliverable",
            Self::RetryLimit => "retry-limit",
            Self::Policed => "policed",
        }
    }
}

/// What a model tells the measuring side.
///
/// A type parameter wherever it is passed, never `dyn`: an observer that ignores an event must cost
/// nothing. Tuples compose. Moments may lie before the caller's `now`, for a line that is polled late
/// does what was due at the time it was due.
pub trait Observer<P> {
    /// The packet arrived at the near end at `at`. It will be delivered, dropped, or be inside.
    fn offered(&mut self, at: Instant, packet: &P) {
        let _ = (at, packet);
    }
    /// The traffic conditioner's rule number `rule`, from 0, held for the packet, whose stream its meter found so. A
    /// packet that goes on has its new code point already; one that does not is dropped next.
    fn conditioned(&mut self, at: Instant, packet: &P, rule: usize, colour: Colour) {
        let _ = (at, packet, rule, colour);
    }
    /// The packet belongs to the class number `class`, from 0, of those that the line knows, and comes to its queue.
    fn classified(&mut self, at: Instant, packet: &P, class: usize) {
        let _ = (at, packet, class);
    }
    /// From `at` on the queue holds `backlog`. These moments never run backwards; several may be told of one
    /// moment, and the last one holds.
    fn queued(&mut self, at: Instant, backlog: Backlog) {
        let _ = (at, backlog);
    }
    /// The queue set the packet's ECN field to "congestion experienced" at `at` instead of dropping it.
    fn marked(&mut self, at: Instant, packet: &P) {
        let _ = (at, packet);
    }
    /// The packet left the queue for the line at `at`, after having waited for `waited`.
    fn served(&mut self, at: Instant, packet: &P, waited: Duration) {
        let _ = (at, packet, waited);
    }
    /// The packet came out of the far end at `at`.
    fn delivered(&mut self, at: Instant, packet: &P) {
        let _ = (at, packet);
    }
    /// The last that anybody sees of this packet: here a router gives the frame's slot back.
    fn dropped(&mut self, at: Instant, packet: &P, why: DropReason) {
        let _ = (at, packet, why);
    }
    /// The line made one more of this packet, which will be delivered or dropped on its own.
    fn duplicated(&mut self, at: Instant, packet: &P) {
        let _ = (at, packet);
    }
    /// The link layer sends the packet once more, from `at` on, for nobody has acknowledged it.
    fn repeated(&mut self, at: Instant, packet: &P) {
        let _ = (at, packet);
    }
}

impl<P> Observer<P> for () {}

impl<P, O: Observer<P>> Observer<P> for &mut O {
    fn offered(&mut self, at: Instant, packet: &P) {
        (**self).offered(at, packet);
    }
    fn conditioned(&mut self, at: Instant, packet: &P, rule: usize, colour: Colour) {
        (**self).conditioned(at, packet, rule, colour);
    }
    fn classified(&mut self, at: Instant, packet: &P, class: usize) {
        (**self).classified(at, packet, class);
    }
    fn queued(&mut self, at: Instant, backlog: Backlog) {
        (**self).queued(at, backlog);
    }
    fn marked(&mut self, at: Instant, packet: &P) {
        (**self).marked(at, packet);
    }
    fn served(&mut self, at: Instant, packet: &P, waited: Duration) {
        (**self).served(at, packet, waited);
    }
    fn delivered(&mut self, at: Instant, packet: &P) {
        (**self).delivered(at, packet);
    }
    fn dropped(&mut self, at: Instant, packet: &P, why: DropReason) {
        (**self).dropped(at, packet, why);
    }
    fn duplicated(&mut self, at: Instant, packet: &P) {
        (**self).duplicated(at, packet);
    }
    fn repeated(&mut self, at: Instant, packet: &P) {
        (**self).repeated(at, packet);
    }
}

/// An observer that may be absent.
impl<P, O: Observer<P>> Observer<P> for Option<O> {
    fn offered(&mut self, at: Instant, packet: &P) {
        if let Some(observer) = self {
            observer.offered(at, packet);
        }
    }
    fn conditioned(&mut self, at: Instant, packet: &P, rule: usize, colour: Colour) {
        if let Some(observer) = self {
            observer.conditioned(at, packet, rule, colour);
        }
    }
    fn classified(&mut self, at: Instant, packet: &P, class: usize) {
        if let Some(observer) = self {
            observer.classified(at, packet, class);
        }
    }
    fn queued(&mut self, at: Instant, backlog: Backlog) {
        if let Some(observer) = self {
            observer.queued(at, backlog);
        }
    }
    fn marked(&mut self, at: Instant, packet: &P) {
        if let Some(observer) = self {
            observer.marked(at, packet);
        }
    }
    fn served(&mut self, at: Instant, packet: &P, waited: Duration) {
        if let Some(observer) = self {
            observer.served(at, packet, waited);
        }
    }
    fn delivered(&mut self, at: Instant, packet: &P) {
        if let Some(observer) = self {
            observer.delivered(at, packet);
        }
    }
    fn dropped(&mut self, at: Instant, packet: &P, why: DropReason) {
        if let Some(observer) = self {
            observer.dropped(at, packet, why);
        }
    }
    fn duplicated(&mut self, at: Instant, packet: &P) {
        if let Some(observer) = self {
            observer.duplicated(at, packet);
        }
    }
    fn repeated(&mut self, at: Instant, packet: &P) {
        if let Some(observer) = self {
            observer.repeated(at, packet);
        }
    }
}

impl<P, A: Observer<P>, B: Observer<P>> Observer<P> for (A, B) {
    fn offered(&mut self, at: Instant, packet: &P) {
        self.0.offered(at, packet);
        self.1.offered(at, packet);
    }
    fn conditioned(&mut self, at: Instant, packet: &P, rule: usize, colour: Colour) {
        self.0.conditioned(at, packet, rule, colour);
        self.1.conditioned(at, packet, rule, colour);
    }
    fn classified(&mut self, at: Instant, packet: &P, class: usize) {
        self.0.classified(at, packet, class);
        self.1.classified(at, packet, class);
    }
    fn queued(&mut self, at: Instant, backlog: Backlog) {
        self.0.queued(at, backlog);
        self.1.queued(at, backlog);
    }
    fn marked(&mut self, at: Instant, packet: &P) {
        self.0.marked(at, packet);
        self.1.marked(at, packet);
    }
    fn served(&mut self, at: Instant, packet: &P, waited: Duration) {
        self.0.served(at, packet, waited);
        self.1.served(at, packet, waited);
    }
    fn delivered(&mut self, at: Instant, packet: &P) {
        self.0.delivered(at, packet);
        self.1.delivered(at, packet);
    }
    fn dropped(&mut self, at: Instant, packet: &P, why: DropReason) {
        self.0.dropped(at, packet, why);
        self.1.dropped(at, packet, why);
    }
    fn duplicated(&mut self, at: Instant, packet: &P) {
        self.0.duplicated(at, packet);
        self.1.duplicated(at, packet);
    }
    fn repeated(&mut self, at: Instant, packet: &P) {
        self.0.repeated(at, packet);
        self.1.repeated(at, packet);
    }
}

/// What a queue discipline answers when the line asks for the next packet.
#[derive(Debug, PartialEq, Eq)]
pub enum Dequeue<P> {
    /// This one, which has waited since the given moment.
    Packet(P, Instant),
    /// Packets wait, but none may leave before this moment, which is later than now. Void after the next
    /// `enqueue`: a packet of another class may go at once.
    NotBefore(Instant),
    /// Nothing waits.
    Empty,
}

/// How much waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Packets that wait. The one on the line is not among them.
    pub packets: usize,
    /// Their IP lengths added up, bytes.
    pub bytes: u64,
}

/// Order and drop policy of a queue. Knows nothing of rate or delay; may drop at either end.
///
/// Not dyn-safe on purpose: what a file can choose, and nest, is a closed set of disciplines.
pub trait QueueDiscipline<P> {
    /// A packet arrives to wait, or is dropped.
    fn enqueue(&mut self, now: Instant, packet: P, obs: &mut impl Observer<P>);
    /// The line is free at `now`: the next packet.
    fn dequeue(&mut self, now: Instant, obs: &mut impl Observer<P>) -> Dequeue<P>;
    /// A packet arrives while nothing waits and the line is free. The same as [`QueueDiscipline::enqueue`] and then
    /// [`QueueDiscipline::dequeue`], for disciplines that can do it in less.
    fn pass(&mut self, now: Instant, packet: P, obs: &mut impl Observer<P>) -> Dequeue<P> {
        self.enqueue(now, packet, obs);
        self.dequeue(now, obs)
    }
    /// Drops all that waits. Not a loop over `dequeue`: a shaper would refuse, an AQM would learn from it.
    fn clear(&mut self, now: Instant, why: DropReason, obs: &mut impl Observer<P>);
    /// What waits.
    fn backlog(&self) -> Backlog;
}

/// What an outage does to packets that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Waiting {
    /// They, and what is offered meanwhile as far as there is room, wait until the link is up.
    Keep,
    /// They are dropped, and so is what is offered meanwhile.
    Drop,
}

/// What an outage does to packets on the line, the one being sent included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InFlight {
    /// They still arrive.
    Deliver,
    /// They are lost.
    Lose,
}

/// A change of a line during a run. A packet that is already on the line keeps the rate and delay it
/// started with. `Down` twice is down, `Up` twice is up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LinkEvent {
    /// Nothing passes any more.
    Down {
        /// What becomes of packets that wait.
        queue: Waiting,
        /// What becomes of packets on the line.
        in_flight: InFlight,
    },
    /// Passes again.
    Up,
    /// Another rate, bits of IP packet (and framing) per second.
    Rate {
        /// Bits per second, above zero.
        bits_per_s: u64,
    },
    /// Another propagation delay.
    Delay(Duration),
    /// Independent random loss with this probability takes the place of whatever random loss there was.
    Loss {
        /// Between 0 and 1.
        probability: f64,
    },
}

/// One way through a link, from the port where packets enter it to the port where they leave: its number there.
///
/// A line, which is one direction of a cable, has one. A medium that stations share has one for each pair of stations
/// that talk, in each direction; what is sent on one lane takes its time from all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(pub u32);

impl Lane {
    /// The lane of a link that has only one.
    pub const ONLY: Self = Self(0);
}

/// Who watches a link: an observer for each of its lanes. An [`Observer`] watches all lanes alike.
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

/// What came out of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery<P> {
    /// When.
    pub at: Instant,
    /// Where.
    pub lane: Lane,
    /// What.
    pub packet: P,
}

/// What carries packets: one direction of a line, or a medium that several stations share.
///
/// `now` never runs backwards. What is due by `now` happens first, at its own time, and then the call
/// takes effect: calling late changes nothing. A line serves from the moment it became free, not from
/// `now`, so a driver that wakes late does not slow it.
pub trait Link<P> {
    /// A packet arrives at the near end of a lane.
    fn offer(&mut self, now: Instant, lane: Lane, packet: P, obs: &mut impl LinkObserver<P>);
    /// A lane changes.
    fn apply(&mut self, now: Instant, lane: Lane, event: LinkEvent, obs: &mut impl LinkObserver<P>);
    /// When to call [`Link::poll_deliver`] next. Stale after any call that takes `&mut self`.
    #[must_use]
    fn poll_timeout(&self) -> Option<Instant>;
    /// The next packet that has arrived by `now`, and when it did: before `now` if the driver is late.
    #[must_use]
    fn poll_deliver(&mut self, now: Instant, obs: &mut impl LinkObserver<P>) -> Option<Delivery<P>>;
    /// Packets of a lane that wait or are on their way: offered + duplicated = delivered + dropped + inside.
    fn inside(&self, lane: Lane) -> usize;
}
