//! Deadlines of millions of objects: a hierarchical timing wheel (Varghese and Lauck 1987).
//!
//! Each object has an index and at most one deadline. An object with several deadlines keeps them itself and sets the next.
//! Setting and cancelling take constant time. Once the wheel has seen the highest index, it allocates nothing. Deadlines are
//! rounded up to a resolution: none expires early, and all expire less than one resolution late.

use netrig_core::{Duration, Instant};

/// Slots per level.
const SLOTS: usize = 64;
const BITS: u32 = 6;
/// Enough levels for any tick of 64 bits.
const LEVELS: usize = 11;
const NONE: u32 = u32::MAX;
/// The tick of an object without a deadline.
const UNSET: u64 = u64::MAX;

/// A hierarchical timing wheel.
#[derive(Clone, Debug)]
pub struct Wheel {
    resolution: u64,
    /// The tick up to which all deadlines have expired.
    now: u64,
    /// Nodes by the index of their object.
    nodes: Vec<WheelNode>,
    levels: Box<[WheelLevel; LEVELS]>,
    len: usize,
}

/// An element of the linked list of a slot.
#[derive(Clone, Copy, Debug)]
struct WheelNode {
    tick: u64,
    before: u32,
    next: u32,
}

impl WheelNode {
    const EMPTY: Self = Self { tick: UNSET, before: NONE, next: NONE };
}

#[derive(Clone, Copy, Debug)]
struct WheelLevel {
    /// A bit for each slot that is not empty.
    occupied: u64,
    /// Head of the list of each slot.
    first: [u32; SLOTS],
    /// The earliest tick of each slot; [`UNSET`] if it must be searched for.
    earliest: [u64; SLOTS],
}

impl WheelLevel {
    const EMPTY: Self = Self { occupied: 0, first: [NONE; SLOTS], earliest: [UNSET; SLOTS] };
}

impl Wheel {
    /// An empty wheel at time 0. Deadlines are rounded up to `resolution`, at least 1 ns.
    pub fn new(resolution: Duration) -> Self {
        Self {
            resolution: resolution.as_nanos().max(1),
            now: 0,
            nodes: Vec::new(),
            levels: Box::new([WheelLevel::EMPTY; LEVELS]),
            len: 0,
        }
    }

    /// Allocates memory for this number of objects.
    #[must_use]
    pub fn with_room_for(mut self, objects: usize) -> Self {
        self.nodes.resize(objects, WheelNode::EMPTY);
        self
    }

    /// Number of deadlines.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether no deadline is set.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sets or replaces the deadline of an object. [`Instant::NEVER`] cancels it. A deadline in the past expires at once.
    pub fn set(&mut self, index: u32, at: Instant) {
        self.cancel(index);
        if at == Instant::NEVER {
            return;
        }
        let place = index as usize;
        if place >= self.nodes.len() {
            self.nodes.resize(place + 1, WheelNode::EMPTY);
        }
        // The highest tick means "not set".
        let tick = at.as_nanos().div_ceil(self.resolution).min(UNSET - 1).max(self.now);
        self.nodes[place].tick = tick;
        self.link(index, tick);
        self.len += 1;
    }

    /// Cancels the deadline of an object, if it has one.
    pub fn cancel(&mut self, index: u32) {
        if let Some(node) = self.nodes.get(index as usize)
            && node.tick != UNSET
        {
            self.unlink(index);
            self.nodes[index as usize] = WheelNode::EMPTY;
            self.len -= 1;
        }
    }

    /// Removes an expired deadline and returns its object. The caller repeats this until `None`. Deadlines expire in the
    /// order of their ticks; the order within a tick is unspecified but reproducible. `now` must not decrease.
    pub fn pop(&mut self, now: Instant) -> Option<u32> {
        let limit = (now.as_nanos() / self.resolution).min(UNSET - 1).max(self.now);
        loop {
            let Some((level, slot)) = self.first_slot() else {
                self.now = limit;
                return None;
            };
            let start = self.start_of(level, slot);
            if start > limit {
                // `limit` is before all deadlines: no node changes its slot.
                self.now = limit;
                return None;
            }
            self.now = start;
            if level == 0 {
                let index = self.levels[0].first[slot];
                self.cancel(index);
                return Some(index);
            }
            self.spread(level, slot);
        }
    }

    /// The earliest deadline, rounded up to the resolution.
    pub fn next_deadline(&mut self) -> Option<Instant> {
        let (level, slot) = self.first_slot()?;
        let mut tick = self.levels[level].earliest[slot];
        if tick == UNSET {
            let mut index = self.levels[level].first[slot];
            while let Some(node) = self.nodes.get(index as usize) {
                tick = tick.min(node.tick);
                index = node.next;
            }
            self.levels[level].earliest[slot] = tick;
        }
        Some(Instant::from_nanos(tick.saturating_mul(self.resolution)))
    }

    /// The level and slot of the earliest deadline. The level of a slot is the highest digit (of six bits) in which its ticks
    /// differ from `now`. Lower levels expire first, and within a level lower slots.
    fn first_slot(&self) -> Option<(usize, usize)> {
        let level = self.levels.iter().position(|level| level.occupied != 0)?;
        Some((level, self.levels[level].occupied.trailing_zeros() as usize))
    }

    /// The first tick of a slot.
    const fn start_of(&self, level: usize, slot: usize) -> u64 {
        let shift = BITS * level as u32;
        let above = match u64::MAX.checked_shl(shift + BITS) {
            Some(mask) => self.now & mask,
            None => 0,
        };
        above | (slot as u64) << shift
    }

    /// The level and slot of a tick. They do not change while `now` advances, because `now` never passes the start of an
    /// occupied slot without emptying it.
    const fn place_of(&self, tick: u64) -> (usize, usize) {
        let digit = 63 - ((tick ^ self.now) | (SLOTS as u64 - 1)).leading_zeros();
        let level = digit / BITS;
        (level as usize, (tick >> (level * BITS)) as usize & (SLOTS - 1))
    }

    fn link(&mut self, index: u32, tick: u64) {
        let (level, slot) = self.place_of(tick);
        let level = &mut self.levels[level];
        let next = level.first[slot];
        // If the earliest tick of the slot is unknown, it stays unknown.
        if next == NONE || level.earliest[slot] != UNSET {
            level.earliest[slot] = level.earliest[slot].min(tick);
        }
        level.occupied |= 1 << slot;
        level.first[slot] = index;
        self.nodes[index as usize] = WheelNode { tick, before: NONE, next };
        if let Some(next) = self.nodes.get_mut(next as usize) {
            next.before = index;
        }
    }

    fn unlink(&mut self, index: u32) {
        let WheelNode { tick, before, next } = self.nodes[index as usize];
        let (level, slot) = self.place_of(tick);
        if let Some(next) = self.nodes.get_mut(next as usize) {
            next.before = before;
        }
        let level = &mut self.levels[level];
        match self.nodes.get_mut(before as usize) {
            Some(before) => before.next = next,
            None => level.first[slot] = next,
        }
        if level.first[slot] == NONE {
            level.occupied &= !(1 << slot);
        }
        if level.earliest[slot] == tick || level.first[slot] == NONE {
            level.earliest[slot] = UNSET;
        }
    }

    /// Moves the nodes of a slot to lower levels, once `now` has reached the start of the slot.
    fn spread(&mut self, level: usize, slot: usize) {
        let mut index = std::mem::replace(&mut self.levels[level].first[slot], NONE);
        self.levels[level].occupied &= !(1 << slot);
        self.levels[level].earliest[slot] = UNSET;
        while let Some(WheelNode { tick, next, .. }) = self.nodes.get(index as usize).copied() {
            self.link(index, tick);
            index = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const RESOLUTION: u64 = 100;

    #[derive(Clone, Debug)]
    enum Action {
        Set(u32, u64),
        Cancel(u32),
        Advance(u64),
    }

    fn action() -> impl Strategy<Value = Action> {
        // Spans of the size of every level.
        let span = || (0..40u32, any::<u64>()).prop_map(|(bits, number)| number & ((1 << bits) - 1));
        prop_oneof![
            5 => (0..50u32, span()).prop_map(|(index, span)| Action::Set(index, span)),
            2 => (0..50u32).prop_map(Action::Cancel),
            3 => span().prop_map(Action::Advance),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        /// The wheel is compared with a map of deadlines.
        #[test]
        fn all_comes_when_it_should(actions in prop::collection::vec(action(), 1..200)) {
            let mut wheel = Wheel::new(Duration::from_nanos(RESOLUTION));
            let mut model = BTreeMap::new();
            let mut now = 0;
            for action in actions {
                match action {
                    Action::Set(index, span) => {
                        wheel.set(index, Instant::from_nanos(now + span));
                        model.insert(index, (now + span).div_ceil(RESOLUTION));
                    }
                    Action::Cancel(index) => {
                        wheel.cancel(index);
                        model.remove(&index);
                    }
                    Action::Advance(span) => {
                        now += span;
                        let mut last = 0;
                        while let Some(index) = wheel.pop(Instant::from_nanos(now)) {
                            let tick = model.remove(&index).expect("it is set");
                            prop_assert!(last <= tick && tick * RESOLUTION <= now);
                            last = tick;
                        }
                        prop_assert!(model.values().all(|tick| tick * RESOLUTION > now), "none was forgotten");
                    }
                }
                let next = model.values().min().map(|tick| Instant::from_nanos(tick * RESOLUTION));
                prop_assert_eq!(wheel.next_deadline(), next);
                prop_assert_eq!(wheel.len(), model.len());
            }
        }
    }

    #[test]
    fn what_never_comes_and_what_has_passed() {
        let mut wheel = Wheel::new(Duration::from_micros(100)).with_room_for(2);
        wheel.set(0, Instant::NEVER);
        assert!(wheel.is_empty() && wheel.next_deadline().is_none());
        let late = Instant::from_nanos(u64::MAX - 1);
        wheel.set(0, late);
        assert_eq!(wheel.pop(Instant::from_nanos(1 << 60)), None);
        wheel.set(1, Instant::ZERO);
        assert_eq!(wheel.pop(Instant::from_nanos(1 << 60)), Some(1));
        assert_eq!((wheel.pop(Instant::NEVER), wheel.len()), (None, 1));
        wheel.cancel(0);
        wheel.cancel(7);
        assert!(wheel.is_empty());
    }
}
