//! What happens to single packets on a link.

use crate::{Backlog, Colour, Direction, DropReason, Duration, Header, Instant};

/// Something that happened to one packet on one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PacketEvent {
    /// When.
    pub at: Instant,
    /// The link, by its place in the scenario.
    pub link: u32,
    /// Which way.
    pub direction: Direction,
    /// The packet: how many hosts had sent in the run when this one was sent, itself included. It keeps its number from
    /// link to link; a copy that a line makes has the same.
    pub packet: u32,
    /// The packet's header, as it is then.
    pub header: Header,
    /// What happened.
    pub step: Step,
}

/// What may happen to a packet on a link, in the order in which it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It came to the near end.
    Arrived,
    /// A rule of the traffic conditioner held for it, and has given it its code point if it gives one.
    Conditioned {
        /// The rule's place among those of the line, from 0.
        rule: usize,
        /// What the rule's meter found.
        colour: Colour,
    },
    /// It belongs to a class.
    Classified {
        /// The class's place among those of the line, from 0.
        class: usize,
    },
    /// It waits, and so much waits in all, this packet included. Not told of one that the line takes at once.
    Queued(Backlog),
    /// The queue set its ECN field to "congestion experienced".
    Marked,
    /// It left the queue for the line.
    Sent {
        /// So long it had waited.
        waited: Duration,
    },
    /// The link layer sends it once more.
    Repeated,
    /// The line made one more of it.
    Duplicated,
    /// It came out of the far end.
    Delivered,
    /// It is gone.
    Dropped(DropReason),
}

impl Step {
    /// The word for it in tables and files.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Arrived => "arrived",
            Self::Conditioned { .. } => "conditioned",
            Self::Classified { .. } => "classified",
            Self::Queued(_) => "queued",
            Self::Marked => "marked",
            Self::Sent { .. } => "sent",
            Self::Repeated => "repeated",
            Self::Duplicated => "duplicated",
            Self::Delivered => "delivered",
            Self::Dropped(_) => "dropped",
        }
    }
}
