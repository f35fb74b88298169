//! What happens next: the event queue.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use netrig_core::Instant;

use crate::flow_end::EndId;
use crate::network::Place;

/// Who is to be woken. The numbers are places in the world's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Actor {
    /// A wire, a channel or a host may have something to deliver.
    Network(Place),
    /// A connection's timer.
    Timer(u32),
    /// The timer of the application at an end of a flow.
    Application(EndId),
    /// A flow starts.
    FlowStarts(u32),
    /// A flow stops.
    FlowStops(u32),
    /// The next event of the scenario.
    Event(u32),
    /// The end of a sampling interval.
    Tick,
}

/// An actor's call.
#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Instant,
    sequence: u64,
    actor: Actor,
}

impl Entry {
    /// (moment, sequence) as one number: a single comparison without a branch.
    #[inline]
    fn key(&self) -> u128 {
        u128::from(self.at.as_nanos()) << 64 | u128::from(self.sequence)
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// Reversed: the heap gives its greatest, and the earliest is wanted.
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

/// Events in the order of (moment, sequence): ties happen in the order in which they were entered, but for those that were
/// to be last.
#[derive(Default)]
pub(crate) struct Agenda {
    heap: BinaryHeap<Entry>,
    sequence: u64,
    handled: u64,
    /// The first entry has been taken and still stands: most actors enter their next call, and to put that in
    /// its place costs half of taking one out and putting another in.
    taken: bool,
}

impl Agenda {
    /// Wakes `actor` at `at`. An entry cannot be taken back: who has changed its mind ignores the call.
    #[inline]
    pub fn enter(&mut self, at: Instant, actor: Actor) {
        self.sequence += 1;
        self.put(Entry { at, sequence: self.sequence, actor });
    }

    /// Wakes `actor` at `at`, after all others of that moment: what happens at the end of an interval is part of it.
    pub fn enter_last(&mut self, at: Instant, actor: Actor) {
        self.put(Entry { at, sequence: u64::MAX, actor });
    }

    #[inline]
    fn put(&mut self, entry: Entry) {
        if std::mem::take(&mut self.taken)
            && let Some(mut first) = self.heap.peek_mut()
        {
            *first = entry;
        } else {
            self.heap.push(entry);
        }
    }

    /// The next entry not later than `end`.
    #[inline]
    pub fn next(&mut self, end: Instant) -> Option<(Instant, Actor)> {
        let mut first = self.heap.peek_mut()?;
        if std::mem::take(&mut self.taken) {
            PeekMut::pop(first);
            first = self.heap.peek_mut()?;
        }
        let Entry { at, actor, .. } = *first;
        if at > end {
            return None;
        }
        self.taken = true;
        self.handled += 1;
        Some((at, actor))
    }

    /// Entries taken so far.
    pub const fn handled(&self) -> u64 {
        self.handled
    }
}

/// The one standing appointment of an actor whose deadline moves often, such as a retransmission timer that
/// is pushed back by every acknowledgement.
///
/// Only an earlier deadline makes a new entry. An entry that comes too early asks the actor for its true
/// deadline and makes the next one, so a timer costs one entry per time-out and not one per packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Appointment(Instant);

impl Default for Appointment {
    fn default() -> Self {
        Self(Instant::NEVER)
    }
}

impl Appointment {
    /// The actor's deadline may have changed.
    #[inline]
    pub fn keep(&mut self, deadline: Option<Instant>, actor: Actor, agenda: &mut Agenda) {
        if let Some(at) = deadline
            && at < self.0
        {
            self.0 = at;
            agenda.enter(at, actor);
        }
    }

    /// An entry came at `at`. False if it is one that an earlier entry has replaced.
    #[inline]
    pub fn met(&mut self, at: Instant) -> bool {
        let due = self.0 == at;
        if due {
            self.0 = Instant::NEVER;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u32) -> Actor {
        Actor::Network(Place::Wire(number))
    }

    #[test]
    fn ties_happen_in_the_order_of_entry() {
        let mut agenda = Agenda::default();
        let at = Instant::from_nanos(5);
        agenda.enter(at, line(9));
        agenda.enter(at, line(1));
        agenda.enter(Instant::from_nanos(4), Actor::Tick);
        let order: Vec<_> = std::iter::from_fn(|| agenda.next(at)).map(|(_, actor)| actor).collect();
        assert_eq!(order, [Actor::Tick, line(9), line(1)]);
    }

    #[test]
    fn a_tick_counts_what_happens_at_its_moment() {
        let mut agenda = Agenda::default();
        let at = Instant::from_nanos(5);
        agenda.enter_last(at, Actor::Tick);
        agenda.enter(at, line(1));
        let order: Vec<_> = std::iter::from_fn(|| agenda.next(at)).map(|(_, actor)| actor).collect();
        assert_eq!(order, [line(1), Actor::Tick]);
    }

    #[test]
    fn a_deadline_that_moves_back_costs_one_entry() {
        let (mut agenda, mut appointment) = (Agenda::default(), Appointment::default());
        let at = Instant::from_nanos;
        for deadline in [10, 20, 30] {
            appointment.keep(Some(at(deadline)), Actor::Timer(0), &mut agenda);
        }
        assert_eq!(agenda.next(Instant::NEVER), Some((at(10), Actor::Timer(0))));
        assert!(appointment.met(at(10)));
        appointment.keep(Some(at(30)), Actor::Timer(0), &mut agenda);
        assert_eq!(agenda.next(Instant::NEVER), Some((at(30), Actor::Timer(0))));
        assert_eq!(agenda.next(Instant::NEVER), None);
    }

    #[test]
    fn a_replaced_entry_is_not_met() {
        let (mut agenda, mut appointment) = (Agenda::default(), Appointment::default());
        appointment.keep(Some(Instant::from_nanos(10)), Actor::Timer(0), &mut agenda);
        appointment.keep(Some(Instant::from_nanos(5)), Actor::Timer(0), &mut agenda);
        assert!(appointment.met(Instant::from_nanos(5)));
        assert!(!appointment.met(Instant::from_nanos(10)));
    }
}
