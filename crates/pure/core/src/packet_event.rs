//! Events of single packets on a link.

use crate::{Backlog, Colour, Direction, DropReason, Duration, Header, Instant};

/// Something that happened to one packet on one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PacketEvent {
    /// Time of the event.
    pub at: Instant,
    /// The link, by its index in the scenario.
    pub link: u32,
    /// The direction of the link.
    pub direction: Direction,
    /// The packet's number, counted from 1 over all packets that hosts send in the run. A packet keeps its number from
    /// link to link, and a copy that a line makes has the same number.
    pub packet: u32,
    /// The packet's header at this time.
    pub header: Header,
    /// The event.
    pub step: Step,
}

/// The events of a packet on a link, in the order in which they can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The packet arrived at the near end.
    Arrived,
    /// A rule of the traffic conditioner matched the packet. If the rule sets a code point, the header already has it.
    Conditioned {
        /// The index of the rule among the line's rules, from 0.
        rule: usize,
        /// The result of the rule's meter.
        colour: Colour,
    },
    /// The packet was assigned to a class.
    Classified {
        /// The index of the class among the line's classes, from 0.
        class: usize,
    },
    /// The packet was queued; the backlog includes it. A packet that the line sends immediately has no such event.
    Queued(Backlog),
    /// The queue set the ECN field to "congestion experienced".
    Marked,
    /// The packet left the queue for the line.
    Sent {
        /// Time in the queue.
        waited: Duration,
    },
    /// The link layer retransmits the packet.
    Repeated,
    /// The line duplicated the packet.
    Duplicated,
    /// The packet left the far end.
    Delivered,
    /// The packet was dropped.
    Dropped(DropReason),
}

impl Step {
    /// The name of the event in tables and files.
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
