//! The connections of an end. Sockets and timers refer to a connection by its index (`place`), the application refers
//! to it by its identifier ([`Named::name`]).

use std::collections::{BTreeMap, VecDeque};

/// A connection with an identifier.
pub(crate) trait Named {
    type Name: Copy + Ord;

    /// The identifier, which is unique and constant.
    fn name(&self) -> Self::Name;
}

/// Members by index (`place`) and by identifier (`name`). Indices start at 0 and are never reused.
pub(crate) struct Roster<T: Named> {
    members: BTreeMap<u32, T>,
    places: BTreeMap<T::Name, u32>,
    made: u32,
    /// Queue of the members to be processed, by index. The same index may occur more than once.
    turns: VecDeque<u32>,
}

impl<T: Named> Default for Roster<T> {
    fn default() -> Self {
        Self { members: BTreeMap::new(), places: BTreeMap::new(), made: 0, turns: VecDeque::new() }
    }
}

impl<T: Named> Roster<T> {
    /// Adds a member, queues a turn for it, and returns its index.
    pub fn enrol(&mut self, member: T) -> u32 {
        let place = self.made;
        self.made += 1;
        self.places.insert(member.name(), place);
        self.members.insert(place, member);
        self.queue_turn(place);
        place
    }

    /// Removes the member with this index.
    pub fn remove(&mut self, place: u32) -> Option<T> {
        let member = self.members.remove(&place)?;
        self.places.remove(&member.name());
        Some(member)
    }

    /// The member with this index, if it still exists.
    pub fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        self.members.get_mut(&place)
    }

    /// The index of the member with this identifier, if it still exists.
    pub fn place_of(&self, name: T::Name) -> Option<u32> {
        self.places.get(&name).copied()
    }

    /// All members, the oldest first.
    pub fn members(&self) -> impl Iterator<Item = &T> {
        self.members.values()
    }

    /// All members, the oldest first.
    pub fn members_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.members.values_mut()
    }

    /// All members with their indices, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.members.iter().map(|(place, member)| (*place, member))
    }

    /// All members with their indices, the oldest first.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.members.iter_mut().map(|(place, member)| (*place, member))
    }

    /// Whether at least one member has been added and all members have been removed.
    pub fn is_over(&self) -> bool {
        self.made > 0 && self.members.is_empty()
    }

    /// Puts the member with this index at the end of the queue for turns, unless it is the last entry already.
    pub fn queue_turn(&mut self, place: u32) {
        if self.turns.back() != Some(&place) {
            self.turns.push_back(place);
        }
    }

    /// Removes and returns the first index of the queue for turns.
    pub fn next_turn(&mut self) -> Option<u32> {
        self.turns.pop_front()
    }

    /// Whether a member waits for a turn.
    pub fn has_turns(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Number of members ever added.
    pub const fn made(&self) -> u32 {
        self.made
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::cmp::Ordering;

    use super::*;

    thread_local! {
        static COMPARED: Cell<u32> = const { Cell::new(0) };
    }

    /// A name that counts how often names are compared.
    #[derive(Clone, Copy, Debug)]
    struct Name(u32);

    impl Ord for Name {
        fn cmp(&self, other: &Self) -> Ordering {
            COMPARED.set(COMPARED.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    impl PartialOrd for Name {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    impl PartialEq for Name {
        fn eq(&self, other: &Self) -> bool {
            self.cmp(other).is_eq()
        }
    }

    impl Eq for Name {}

    struct Member(Name);

    impl Named for Member {
        type Name = Name;

        fn name(&self) -> Name {
            self.0
        }
    }

    #[test]
    fn a_place_is_given_once_and_a_name_leads_to_it_as_long_as_its_owner_is_there() {
        let mut roster = Roster::default();
        assert_eq!([7, 3].map(|name| roster.enrol(Member(Name(name)))), [0, 1]);
        assert_eq!((roster.place_of(Name(3)), roster.place_of(Name(5))), (Some(1), None));
        assert!(roster.remove(1).is_some() && roster.remove(1).is_none());
        assert_eq!((roster.place_of(Name(3)), roster.enrol(Member(Name(3)))), (None, 2));
        assert_eq!(roster.place_of(Name(3)), Some(2));
        assert_eq!(
            roster.iter().map(|(place, member)| (place, member.0.0)).collect::<Vec<_>>(),
            [(0, 7), (2, 3)]
        );
        assert_eq!((roster.made(), roster.is_over()), (3, false));
    }

    /// A node of the B-tree has up to 11 keys and, except the root, at least six children. With `2^n` members, a
    /// look-up needs at most `12 n` comparisons, which is far less than one comparison per member.
    #[test]
    fn to_find_one_of_many_takes_a_few_comparisons() {
        for doublings in [4, 10, 16] {
            let mut roster = Roster::default();
            for name in 0..1 << doublings {
                roster.enrol(Member(Name(name)));
            }
            let most = (0..1 << doublings).map(|name| {
                COMPARED.set(0);
                assert_eq!(roster.place_of(Name(name)), Some(name));
                COMPARED.get()
            });
            assert!(most.max() <= Some(12 * doublings), "2^{doublings} members");
        }
    }
}
