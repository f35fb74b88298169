//! Objects that come and go, found by an index that cannot be mistaken for that of an earlier one in the same place.

/// Where an object is, and how many have been there before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlabKey {
    /// Below the capacity of what has them.
    pub index: u32,
    /// Of the place.
    pub generation: u32,
}

/// At most so many objects as it was made for. A place is free for the next as soon as its object is gone; memory grows
/// up to the most that were there at once and is then never allocated again.
#[derive(Clone, Debug)]
pub struct Slab<T> {
    entries: Vec<SlabEntry<T>>,
    /// The first of the free places.
    free: Option<u32>,
    capacity: u32,
    len: u32,
}

#[derive(Clone, Debug)]
struct SlabEntry<T> {
    generation: u32,
    state: SlotState<T>,
}

#[derive(Clone, Debug)]
enum SlotState<T> {
    Occupied(T),
    /// With the next free place.
    Free(Option<u32>),
}

impl<T> Slab<T> {
    /// Empty.
    pub const fn new(capacity: u32) -> Self {
        Self { entries: Vec::new(), free: None, capacity, len: 0 }
    }

    /// How many there are.
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts in what `make` says of the place; `None` if there is no place left.
    pub fn insert(&mut self, make: impl FnOnce(SlabKey) -> T) -> Option<SlabKey> {
        let index = match self.free {
            Some(index) => index,
            None if self.entries.len() < self.capacity as usize => {
                self.entries.push(SlabEntry { generation: 0, state: SlotState::Free(None) });
                self.entries.len() as u32 - 1
            }
            None => return None,
        };
        let entry = &mut self.entries[index as usize];
        let key = SlabKey { index, generation: entry.generation };
        self.free = match &entry.state {
            SlotState::Free(next) => *next,
            SlotState::Occupied(_) => None,
        };
        entry.state = SlotState::Occupied(make(key));
        self.len += 1;
        Some(key)
    }

    /// The object, if it is still there.
    pub fn get(&self, key: SlabKey) -> Option<&T> {
        let entry =
            self.entries.get(key.index as usize).filter(|entry| entry.generation == key.generation)?;
        match &entry.state {
            SlotState::Occupied(value) => Some(value),
            SlotState::Free(_) => None,
        }
    }

    /// The object, if it is still there.
    pub fn get_mut(&mut self, key: SlabKey) -> Option<&mut T> {
        let entry = self.entries.get_mut(key.index as usize)?;
        match &mut entry.state {
            SlotState::Occupied(value) if entry.generation == key.generation => Some(value),
            _ => None,
        }
    }

    /// The key of what is now at an index.
    pub fn key_at(&self, index: u32) -> Option<SlabKey> {
        let entry = self.entries.get(index as usize)?;
        matches!(entry.state, SlotState::Occupied(_))
            .then_some(SlabKey { index, generation: entry.generation })
    }

    /// Of all that are there.
    pub fn keys(&self) -> impl Iterator<Item = SlabKey> {
        let places = (0..).zip(&self.entries);
        places.filter_map(|(index, entry): (u32, &SlabEntry<T>)| {
            matches!(entry.state, SlotState::Occupied(_))
                .then_some(SlabKey { index, generation: entry.generation })
        })
    }

    /// Whether the object was there once and is gone.
    pub fn is_past(&self, key: SlabKey) -> bool {
        self.entries.get(key.index as usize).is_some_and(|entry| key.generation < entry.generation)
    }

    /// Takes the object out.
    pub fn remove(&mut self, key: SlabKey) -> Option<T> {
        self.get(key)?;
        let entry = &mut self.entries[key.index as usize];
        entry.generation = entry.generation.wrapping_add(1);
        let state = std::mem::replace(&mut entry.state, SlotState::Free(self.free));
        self.free = Some(key.index);
        self.len -= 1;
        match state {
            SlotState::Occupied(value) => Some(value),
            SlotState::Free(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_used_again_and_its_old_key_is_not() {
        let mut slab = Slab::new(2);
        let [a, b] = ["a", "b"].map(|text| slab.insert(|_| text).unwrap());
        assert_eq!((slab.insert(|_| "c"), slab.len()), (None, 2));
        assert_eq!((slab.remove(a), slab.remove(a)), (Some("a"), None));
        assert!(slab.is_past(a) && !slab.is_past(b));
        let c = slab.insert(|_| "c").unwrap();
        assert_eq!((c.index, c.generation), (a.index, 1));
        assert_eq!((slab.get(a), slab.get(c)), (None, Some(&"c")));
        assert_eq!(slab.get_mut(b), Some(&mut "b"));
        assert_eq!((slab.key_at(0), slab.key_at(7)), (Some(c), None));
        assert_eq!(slab.get(SlabKey { index: 9, generation: 0 }), None);
        slab.remove(b);
        slab.remove(c);
        assert!(slab.is_empty() && slab.key_at(0).is_none());
    }
}
