//! What happens next: the event queue.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use netrig_core::Instant;

/// Who is to be woken. The numbers are places in the world's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Actor {
    /// A line has something to deliver.
    Line(u32),
    /// A connection's timer.
    Timer(u32),
    /// An application's timer.
    Application(u32),
    /// A flow starts.
    FlowStarts(u32),
    /// A flow stops.
    FlowStops(u32),
    /// The next event of the scenario.
    Event(u32),
    /// The end of a sampling interval.
    Tick,
}

/// Events in the order of (moment, sequence): ties happen in the order in which they were entered.
#[derive(Default)]
pub(crate) struct Agenda {
    heap: BinaryHeap<Reverse<(Instant, u64, Actor)>>,
    sequence: u64,
    handled: u64,
}

impl Agenda {
    /// Wakes `actor` at `at`. An entry cannot be taken back: who has changed its mind ignores the call.
    pub fn enter(&mut self, at: Instant, actor: Actor) {
        self.sequence += 1;
        self.heap.push(Reverse((at, self.sequence, actor)));
    }

    /// The next entry not later than `end`.
    pub fn next(&mut self, end: Instant) -> Option<(Instant, Actor)> {
        if self.heap.peek()?.0.0 > end {
            return None;
        }
        self.handled += 1;
        self.heap.pop().map(|Reverse((at, _, actor))| (at, actor))
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

    #[test]
    fn ties_happen_in_the_order_of_entry() {
        let mut agenda = Agenda::default();
        let at = Instant::from_nanos(5);
        agenda.enter(at, Actor::Line(9));
        agenda.enter(at, Actor::Line(1));
        agenda.enter(Instant::from_nanos(4), Actor::Tick);
        let order: Vec<_> = std::iter::from_fn(|| agenda.next(at)).map(|(_, actor)| actor).collect();
        assert_eq!(order, [Actor::Tick, Actor::Line(9), Actor::Line(1)]);
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
