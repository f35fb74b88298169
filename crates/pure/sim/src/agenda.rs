//! The event queue of the simulation.

use netrig_core::Instant;

use crate::actor::{Actor, PacketHolder};

/// An event, and its link in the list of a slot.
#[derive(Clone, Copy, Debug)]
struct AgendaEntry {
    at: Instant,
    /// The time of the event that caused this entry.
    since: Instant,
    actor: Actor,
    /// The next entry of its slot, or the next free entry.
    next: u32,
}

/// Number of bits of a time value for each level of the wheel. 64 bits therefore need eleven levels.
const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
const LEVELS: usize = u64::BITS.div_ceil(BITS) as usize;
/// Index that means "no entry".
const NONE: u32 = u32::MAX;

/// First and last entry of a slot.
#[derive(Clone, Copy, Debug)]
struct WheelSlot {
    first: u32,
    last: u32,
}

/// The position of each line in the order of the links, indexed by the number of the line among the lines of its kind.
#[derive(Debug, Default)]
pub(crate) struct LineOrder {
    pub fifos: Vec<u32>,
    pub wires: Vec<u32>,
}

impl LineOrder {
    /// The rank of an actor among entries whose causes have the same time: first all other actors, then lines in the
    /// order of the links.
    fn rank(&self, actor: Actor) -> u32 {
        let position = match actor {
            Actor::FifoLine(number) => self.fifos.get(number as usize),
            Actor::Network(PacketHolder::Wire(number)) => self.wires.get(number as usize),
            _ => None,
        };
        position.map_or(0, |position| position + 1)
    }
}

/// Events in the order of time. Of several events at the same time, the one with the earliest cause is first. If the
/// causes also have the same time, lines are last, in the order of the links, and all other actors are in the order of
/// entry. One event may be marked to follow all others at its time ([`Agenda::enter_last`]).
///
/// It is a hierarchical timing wheel (Varghese and Lauck 1987) over the base-64 digits of a time. The level of an entry
/// is the highest digit in which it differs from `base`; the slot is the value of this digit. When `base` reaches a
/// slot with several entries, they move to lower levels. Entries with the same time are always in the same slot, so
/// they keep their order.
pub(crate) struct Agenda {
    entries: Vec<AgendaEntry>,
    free: u32,
    slots: Box<[[WheelSlot; SLOTS]; LEVELS]>,
    /// For each level, a bit for each slot that has entries.
    occupied: [u64; LEVELS],
    /// A bit for each level that has entries.
    levels: u32,
    /// A lower bound for all entries, nanoseconds.
    base: u64,
    /// The time of the last entry that was taken.
    now: Instant,
    /// The entry that follows all others at its time.
    last: Option<(Instant, Actor)>,
    handled: u64,
    pub lines: LineOrder,
}

impl Default for Agenda {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            free: NONE,
            slots: Box::new([[WheelSlot { first: NONE, last: NONE }; SLOTS]; LEVELS]),
            occupied: [0; LEVELS],
            levels: 0,
            base: 0,
            now: Instant::ZERO,
            last: None,
            handled: 0,
            lines: LineOrder::default(),
        }
    }
}

impl Agenda {
    /// Wakes `actor` at `at`. An entry cannot be removed: if it is obsolete, the actor ignores it.
    #[inline(always)]
    pub fn enter(&mut self, at: Instant, actor: Actor) {
        self.enter_since(at, self.now, actor);
    }

    /// Wakes `actor` at `at`. The cause of this entry is an event at `since`, which may be in the future. Of several
    /// entries at the same time, the entry with the earlier cause is taken first, independently of the order in which
    /// they were made.
    #[inline(always)]
    pub fn enter_since(&mut self, at: Instant, since: Instant, actor: Actor) {
        let entry = AgendaEntry { at, since, actor, next: NONE };
        let number = self.free;
        if let Some(place) = self.entries.get_mut(number as usize) {
            self.free = place.next;
            *place = entry;
            self.put(number, at);
        } else {
            self.entries.push(entry);
            self.put(self.entries.len() as u32 - 1, at);
        }
    }

    /// Wakes `actor` at `at`, after all other entries at this time. The end of a sampling interval uses it, because an
    /// event at exactly that time belongs to the interval. Only one such entry may exist at a time.
    pub fn enter_last(&mut self, at: Instant, actor: Actor) {
        debug_assert!(self.last.is_none(), "the last entry of a moment is made twice");
        self.last = Some((at, actor));
    }

    /// Appends an entry to the list of its slot.
    #[inline(always)]
    fn put(&mut self, number: u32, at: Instant) {
        // An entry for a past time is due now.
        let key = at.as_nanos().max(self.base);
        let level = (63 - ((key ^ self.base) | 1).leading_zeros()) / BITS;
        let digit = (key >> (level * BITS)) as usize % SLOTS;
        let slot = &mut self.slots[level as usize][digit];
        if slot.first == NONE {
            *slot = WheelSlot { first: number, last: number };
            self.occupied[level as usize] |= 1 << digit;
            self.levels |= 1 << level;
        } else {
            let before = std::mem::replace(&mut slot.last, number);
            self.entries[before as usize].next = number;
        }
    }

    /// Takes the next entry, if its time is `end` or earlier.
    #[inline]
    pub fn next(&mut self, end: Instant) -> Option<(Instant, Actor)> {
        loop {
            // Entries of a lower level are earlier than those of a higher level, because they share more high digits
            // with `base`.
            let level = self.levels.trailing_zeros() as usize;
            let Some(occupied) = self.occupied.get(level) else { return self.next_last(end) };
            let digit = occupied.trailing_zeros() as usize % SLOTS;
            let WheelSlot { first, last } = self.slots[level][digit];
            if first != last && level > 0 {
                if let Err(other) = self.spread(end, level, digit) {
                    return other;
                }
                continue;
            }
            let entry = &mut self.entries[first as usize];
            let AgendaEntry { at, actor, next, .. } = *entry;
            if at > end || self.last.is_some_and(|(last, _)| last < at) {
                return self.next_last(end);
            }
            self.base = self.base.max(at.as_nanos());
            self.now = at;
            self.handled += 1;
            if next != NONE {
                return Some((at, self.take_first_cause(digit)));
            }
            entry.next = self.free;
            self.free = first;
            self.slots[level][digit].first = NONE;
            self.vacate(level, digit);
            return Some((at, actor));
        }
    }

    /// Takes the entry with the earliest cause from a slot of the lowest level. All entries of such a slot have the
    /// same time.
    #[inline(never)]
    fn take_first_cause(&mut self, digit: usize) -> Actor {
        let WheelSlot { first, last } = self.slots[0][digit];
        let order = |place: u32| {
            let AgendaEntry { since, actor, .. } = self.entries[place as usize];
            (since, self.lines.rank(actor))
        };
        let (mut before, mut best) = (NONE, first);
        let mut place = first;
        while let AgendaEntry { next, .. } = self.entries[place as usize]
            && next != NONE
        {
            if order(next) < order(best) {
                (before, best) = (place, next);
            }
            place = next;
        }
        let AgendaEntry { actor, next, .. } = self.entries[best as usize];
        if before == NONE {
            self.slots[0][digit].first = next;
        } else {
            self.entries[before as usize].next = next;
        }
        if best == last {
            self.slots[0][digit].last = before;
        }
        self.entries[best as usize].next = self.free;
        self.free = best;
        actor
    }

    /// Marks a slot as empty.
    #[inline]
    fn vacate(&mut self, level: usize, digit: usize) {
        self.occupied[level] &= !(1 << digit);
        if self.occupied[level] == 0 {
            self.levels &= !(1 << level);
        }
    }

    /// Takes the entry of [`Agenda::enter_last`], if its time is `end` or earlier. The caller has checked that all
    /// other entries are later.
    fn next_last(&mut self, end: Instant) -> Option<(Instant, Actor)> {
        let last = self.last.take_if(|(at, _)| *at <= end);
        self.now = last.map_or(self.now, |(at, _)| at);
        self.handled += u64::from(last.is_some());
        last
    }

    /// Moves `base` to the start of a slot, and the entries of the slot to lower levels. If `last` is before the slot,
    /// or the slot begins after `end`, returns the result of [`Agenda::next`] as an error.
    fn spread(&mut self, end: Instant, level: usize, digit: usize) -> Result<(), Option<(Instant, Actor)>> {
        let shift = level as u32 * BITS;
        let above = u64::MAX.checked_shl(shift + BITS).unwrap_or(0);
        let begin = Instant::from_nanos(self.base & above | (digit as u64) << shift);
        if begin > end || self.last.is_some_and(|(last, _)| last < begin) {
            return Err(self.next_last(end));
        }
        let first = self.slots[level][digit].first;
        self.base = begin.as_nanos();
        self.slots[level][digit].first = NONE;
        self.vacate(level, digit);
        let mut number = first;
        while number != NONE {
            let AgendaEntry { at, next, .. } = self.entries[number as usize];
            self.entries[number as usize].next = NONE;
            self.put(number, at);
            number = next;
        }
        Ok(())
    }

    /// Memory of the wheel and of the entries, bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.slots) + size_of_val(&self.entries[..])
    }

    /// Number of entries that have been taken.
    pub const fn handled(&self) -> u64 {
        self.handled
    }
}

/// The pending wake-up of an actor whose deadline moves often, for example a retransmission timer that every
/// acknowledgement restarts.
///
/// Only an earlier deadline makes a new entry. If the deadline has moved back, the old entry stays; when it is due, the
/// actor makes an entry for its current deadline. So a timer costs about one entry per time-out instead of one per
/// packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Appointment(Instant);

impl Default for Appointment {
    fn default() -> Self {
        Self(Instant::NEVER)
    }
}

impl Appointment {
    /// Makes an entry if `deadline` is earlier than the pending entry.
    #[inline]
    pub fn keep(&mut self, deadline: Option<Instant>, actor: Actor, agenda: &mut Agenda) {
        if let Some(at) = deadline
            && at < self.0
        {
            self.0 = at;
            agenda.enter(at, actor);
        }
    }

    /// An entry for `at` is due. Returns false if an earlier entry has replaced it.
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
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares the agenda with a stable sort by time. New entries, near and far, are made while others are taken.
        /// One entry is made with [`Agenda::enter_last`].
        #[test]
        fn entries_come_in_the_order_of_their_moments(
            steps in prop::collection::vec((prop_oneof![0u64..4, 0u64..300, 0u64..1 << 40], any::<bool>()), 1..300),
            tick in 1u64..1000,
        ) {
            let (mut agenda, mut model, mut now) = (Agenda::default(), Vec::new(), 0);
            agenda.enter_last(Instant::from_nanos(tick), Actor::Tick);
            model.push((tick, u32::MAX));
            for (number, (ahead, take)) in (0..).zip(steps) {
                agenda.enter(Instant::from_nanos(now + ahead), Actor::Timer(number));
                model.push((now + ahead, number));
                if take {
                    model.sort();
                    let (at, number) = model.remove(0);
                    let actor = if number == u32::MAX { Actor::Tick } else { Actor::Timer(number) };
                    if at > now {
                        prop_assert_eq!(agenda.next(Instant::from_nanos(at - 1)), None);
                    }
                    prop_assert_eq!(agenda.next(Instant::NEVER), Some((Instant::from_nanos(at), actor)));
                    now = at;
                }
            }
        }
    }

    fn wire(number: u32) -> Actor {
        Actor::Network(PacketHolder::Wire(number))
    }

    #[test]
    fn ties_happen_in_the_order_of_entry() {
        let mut agenda = Agenda::default();
        let at = Instant::from_nanos(5);
        agenda.enter(at, wire(9));
        agenda.enter(at, wire(1));
        agenda.enter(Instant::from_nanos(4), Actor::Tick);
        let order: Vec<_> = std::iter::from_fn(|| agenda.next(at)).map(|(_, actor)| actor).collect();
        assert_eq!(order, [Actor::Tick, wire(9), wire(1)]);
    }

    #[test]
    fn what_follows_from_something_earlier_comes_first_however_late_it_is_entered() {
        let mut agenda = Agenda::default();
        let at = Instant::from_nanos;
        agenda.enter_since(at(9), at(6), wire(6));
        agenda.enter_since(at(9), at(3), wire(3));
        agenda.enter_since(at(9), at(8), wire(8));
        agenda.enter_since(at(9), at(3), wire(4));
        let order: Vec<_> = std::iter::from_fn(|| agenda.next(at(9))).map(|(_, actor)| actor).collect();
        assert_eq!(order, [wire(3), wire(4), wire(6), wire(8)]);
    }

    #[test]
    fn a_tick_counts_what_happens_at_its_moment() {
        let mut agenda = Agenda::default();
        let at = Instant::from_nanos(5);
        agenda.enter_last(at, Actor::Tick);
        agenda.enter(at, wire(1));
        let order: Vec<_> = std::iter::from_fn(|| agenda.next(at)).map(|(_, actor)| actor).collect();
        assert_eq!(order, [wire(1), Actor::Tick]);
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
