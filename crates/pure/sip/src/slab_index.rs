//! An index from hashes to objects of a slab.

use std::hash::{DefaultHasher, Hasher};

use hashbrown::HashTable;

/// An index from hashes of Call-IDs to indices of a slab.
///
/// A peer chooses its Call-IDs. SipHash over sixteen secret bytes and the Call-ID ([`SlabIndex::hash`]), or another keyed
/// hash, prevents deliberate collisions. The slab bounds the size of the index.
#[derive(Clone, Debug)]
pub(crate) struct SlabIndex {
    secret: [u8; 16],
    places: HashTable<(u64, u32)>,
}

impl SlabIndex {
    pub(crate) const fn new(secret: [u8; 16]) -> Self {
        Self { secret, places: HashTable::new() }
    }

    /// The hash of a Call-ID and of the called user.
    pub(crate) fn hash(&self, name: &[u8], user: &[u8]) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write(&self.secret);
        hasher.write(name);
        // A separator that no user name contains.
        hasher.write(b"\0");
        hasher.write(user);
        hasher.finish()
    }

    /// The slab index with this hash for which `is` returns true.
    pub(crate) fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        self.places.find(hash, |(own, place)| *own == hash && is(*place)).map(|(_, place)| *place)
    }

    pub(crate) fn insert(&mut self, hash: u64, place: u32) {
        self.places.insert_unique(hash, (hash, place), |(hash, _)| *hash);
    }

    pub(crate) fn remove(&mut self, hash: u64, place: u32) {
        if let Ok(entry) = self.places.find_entry(hash, |entry| *entry == (hash, place)) {
            entry.remove();
        }
    }
}
