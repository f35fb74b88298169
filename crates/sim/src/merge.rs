//! Lines that lead to one and the same line.

use std::cmp::Ordering;
use std::collections::VecDeque;

use netrig_core::{Duration, Instant};

use crate::agenda::{Actor, Agenda, Appointment};
use crate::parcel::Parcel;

/// A packet that a line has decided on, and that goes on through a merge.
pub(crate) struct MergingPacket {
    /// When it leaves the line.
    pub at: Instant,
    /// The later of its offer and of the arrival of the packet before it: orders ties.
    pub since: Instant,
    pub parcel: Parcel,
    /// The place of the line among the stops.
    pub stop: u32,
    pub ip_len: u32,
}

impl MergingPacket {
    /// Whether it goes on before `other`, or as it does: by its line if all else is equal.
    #[inline(always)]
    fn is_not_after(&self, other: &Self, line_of: impl Fn(u32) -> u32) -> bool {
        match (self.at, self.since).cmp(&(other.at, other.since)) {
            Ordering::Less => true,
            Ordering::Equal => line_of(self.stop) <= line_of(other.stop),
            Ordering::Greater => false,
        }
    }
}

/// Where the packets of several lines go on to one line, the target.
///
/// Nothing that comes to the target at a moment comes out of it before that moment and its delay. So the packets need not go on one by
/// one, each by an entry of the agenda: those of a whole delay go on together, just before the first of them can come out, in the
/// order in which single entries would have come. At that moment all that came before it is known, for the lines that lead here
/// were offered it before.
pub(crate) struct Merge {
    /// The number of the line that it leads to.
    pub target: u32,
    /// The numbers of the lines that lead to it.
    pub feeders: Vec<u32>,
    /// In the order in which single entries of the agenda would come: of the moments, then of their causes, then of the lines.
    packets: VecDeque<MergingPacket>,
    /// The target's delay less one nanosecond.
    holding_time: Duration,
    appointment: Appointment,
}

impl Merge {
    /// Least delay of a target. With 1 ns the agenda's entry would come at the packets' own moment and take none of them.
    pub const LEAST_DELAY: Duration = Duration::from_nanos(2);

    /// A merge to this line, whose delay is at least [`Merge::LEAST_DELAY`].
    pub fn new(target: u32, delay: Duration) -> Self {
        let holding_time = Duration::from_nanos(delay.as_nanos() - 1);
        Self {
            target,
            feeders: Vec::new(),
            packets: VecDeque::new(),
            holding_time,
            appointment: Appointment::default(),
        }
    }

    /// Adds a packet in the order of time; most belong at the end. `line_of` gives the line at a stop.
    #[inline(always)]
    pub fn enter(&mut self, packet: MergingPacket, line_of: impl Fn(u32) -> u32) {
        if self.packets.back().is_none_or(|last| last.is_not_after(&packet, &line_of)) {
            self.packets.push_back(packet);
        } else {
            self.insert(packet, line_of);
        }
    }

    #[inline(never)]
    fn insert(&mut self, packet: MergingPacket, line_of: impl Fn(u32) -> u32) {
        let place = self.packets.partition_point(|other| other.is_not_after(&packet, &line_of));
        self.packets.insert(place, packet);
    }

    /// Takes the first packet away if it comes before `until`.
    #[inline(always)]
    pub fn next_before(&mut self, until: Instant) -> Option<MergingPacket> {
        self.packets.pop_front_if(|first| first.at < until)
    }

    /// An entry of the agenda came at `at`; false if it is obsolete.
    pub fn met(&mut self, at: Instant) -> bool {
        self.appointment.met(at)
    }

    /// Makes the entry of the agenda at which the packets go on. The merge has this number.
    #[inline(always)]
    pub fn reappoint(&mut self, number: u32, agenda: &mut Agenda) {
        let deadline = self.packets.front().map(|first| first.at + self.holding_time);
        self.appointment.keep(deadline, Actor::Merge(number), agenda);
    }

    /// Memory of its packets' records, bytes.
    pub fn bytes(&self) -> usize {
        self.packets.len() * size_of::<MergingPacket>()
    }
}
