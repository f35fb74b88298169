//! A slab: objects by index. A generation distinguishes an object from earlier ones with the same index.

/// The index and generation of an object in a [`Slab`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Below the capacity of the slab.
    pub index: u32,
    /// Number of earlier objects with this index, modulo 2³².
    pub generation: u32,
}

/// Objects up to a fixed capacity. Removal frees an index for the next object. Memory grows with the highest number of
/// objects at once and is then reused.
#[derive(Clone, Debug)]
pub struct Slab<T> {
    entries: Vec<SlabEntry<T>>,
    /// Head of the list of free indices.
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
    /// The next free index.
    Free(Option<u32>),
}

impl<T> Slab<T> {
    /// An empty slab.
    pub const fn new(capacity: u32) -> Self {
        Self { entries: Vec::new(), free: None, capacity, len: 0 }
    }

    /// Number of objects.
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether the slab has no object.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Inserts the object that `make` returns for its key. Returns `None` if the slab is full.
    pub fn insert(&mut self, make: impl FnOnce(Key) -> T) -> Option<Key> {
        let index = match self.free {
            Some(index) => index,
            None if self.entries.len() < self.capacity as usize => {
                self.entries.push(SlabEntry { generation: 0, state: SlotState::Free(None) });
                self.entries.len() as u32 - 1
            }
            None => return None,
        };
        let entry = &mut self.entries[index as usize];
        let key = Key { index, generation: entry.generation };
        self.free = match &entry.state {
            SlotState::Free(next) => *next,
            SlotState::Occupied(_) => None,
        };
        entry.state = SlotState::Occupied(make(key));
        self.len += 1;
        Some(key)
    }

    /// The object; `None` if it was removed.
    pub fn get(&self, key: Key) -> Option<&T> {
        let entry =
            self.entries.get(key.index as usize).filter(|entry| entry.generation == key.generation)?;
        match &entry.state {
            SlotState::Occupied(value) => Some(value),
            SlotState::Free(_) => None,
        }
    }

    /// The object; `None` if it was removed.
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let entry = self.entries.get_mut(key.index as usize)?;
        match &mut entry.state {
            SlotState::Occupied(value) if entry.generation == key.generation => Some(value),
            _ => None,
        }
    }

    /// The key of the present object at an index.
    pub fn key_at(&self, index: u32) -> Option<Key> {
        let entry = self.entries.get(index as usize)?;
        matches!(entry.state, SlotState::Occupied(_)).then_some(Key { index, generation: entry.generation })
    }

    /// The keys of all objects, by index.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        let places = (0..).zip(&self.entries);
        places.filter_map(|(index, entry): (u32, &SlabEntry<T>)| {
            matches!(entry.state, SlotState::Occupied(_))
                .then_some(Key { index, generation: entry.generation })
        })
    }

    /// Whether the object was removed.
    pub fn is_past(&self, key: Key) -> bool {
        self.entries.get(key.index as usize).is_some_and(|entry| key.generation < entry.generation)
    }

    /// Removes an object and returns it.
    pub fn remove(&mut self, key: Key) -> Option<T> {
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
        assert_eq!(slab.get(Key { index: 9, generation: 0 }), None);
        slab.remove(b);
        slab.remove(c);
        assert!(slab.is_empty() && slab.key_at(0).is_none());
    }
}
