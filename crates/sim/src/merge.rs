//! Lines that lead to one and the same line.

use std::collections::VecDeque;

use netrig_core::{Duration, Instant};

use crate::agenda::{Actor, Agenda, Appointment};
use crate::parcel::Parcel;

/// A packet that a line has decided on, and that goes on through a merge.
pub(crate) struct Inbound {
    /// It comes out of the line.
    pub at: Instant,
    /// When what this follows from happened: it was offered to the line, or the packet before it came out, whichever is later.
    pub since: Instant,
    pub parcel: Parcel,
    /// The place of the line among the stops.
    pub stop: u32,
    pub ip_len: u32,
}

impl Inbound {
    fn is_before(&self, other: &Self) -> bool {
        (self.at, self.since) <= (other.at, other.since)
    }
}

/// Where the packets of several lines go on to one line, the target.
///
/// Nothing that comes to the target at a moment comes out of it before that moment and its delay. So the packets need not go on one by
/// one, each by an entry of the agenda: those of a whole delay go on together, just before the first of them can come out, in the
/// order in which single entries would have come. At that moment all that came before it is known, for the lines that lead here
/// were offered it before.
pub(crate) struct Merge {
    /// The line to which it leads, and those that lead to it.
    pub target: u32,
    pub feeders: Vec<u32>,
    /// In the order of the moments and then of their causes.
    inbound: VecDeque<Inbound>,
    /// The target's delay less one nanosecond.
    patience: Duration,
    appointment: Appointment,
}

impl Merge {
    /// Of a target. With less, a packet could come out before the merge looks.
    pub const LEAST_DELAY: Duration = Duration::from_nanos(2);

    /// A merge to this line, whose delay is at least [`Merge::LEAST_DELAY`].
    pub fn new(target: u32, delay: Duration) -> Self {
        let patience = Duration::from_nanos(delay.as_nanos() - 1);
        Self {
            target,
            feeders: Vec::new(),
            inbound: VecDeque::new(),
            patience,
            appointment: Appointment::default(),
        }
    }

    /// A packet is to go on. Most are the last so far.
    #[inline(always)]
    pub fn take(&mut self, packet: Inbound) {
        if self.inbound.back().is_none_or(|last| last.is_before(&packet)) {
            self.inbound.push_back(packet);
        } else {
            self.insert(packet);
        }
    }

    #[inline(never)]
    fn insert(&mut self, packet: Inbound) {
        let place = self.inbound.partition_point(|other| other.is_before(&packet));
        self.inbound.insert(place, packet);
    }

    /// Takes the first packet away if it comes before `until`.
    #[inline(always)]
    pub fn next_before(&mut self, until: Instant) -> Option<Inbound> {
        self.inbound.pop_front_if(|first| first.at < until)
    }

    /// An entry of the agenda came at `at`; false if it is obsolete.
    pub fn met(&mut self, at: Instant) -> bool {
        self.appointment.met(at)
    }

    /// Makes the entry of the agenda at which the packets go on. The merge has this number.
    #[inline(always)]
    pub fn reappoint(&mut self, number: u32, agenda: &mut Agenda) {
        let deadline = self.inbound.front().map(|first| first.at + self.patience);
        self.appointment.keep(deadline, Actor::Merge(number), agenda);
    }

    /// Memory of its packets' records, bytes.
    pub fn bytes(&self) -> usize {
        self.inbound.len() * size_of::<Inbound>()
    }
}
