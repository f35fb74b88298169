//! Index from hashes to places of a slab.

use std::hash::{DefaultHasher, Hasher};

use hashbrown::HashTable;

/// Index from hashes of Call-IDs to places of a slab.
///
/// A peer chooses its Call-IDs. SipHash behind sixteen secret bytes ([`Table::hash`]), or a hash that is keyed elsewhere, keeps it from
/// choosing Call-IDs whose hashes collide. What the index points to bounds its size.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    secret: [u8; 16],
    places: HashTable<(u64, u32)>,
}

impl Table {
    pub(crate) const fn new(secret: [u8; 16]) -> Self {
        Self { secret, places: HashTable::new() }
    }

    /// Of a Call-ID and of who is called.
    pub(crate) fn hash(&self, name: &[u8], user: &[u8]) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write(&self.secret);
        hasher.write(name);
        // No user has it: where the one ends and the other begins is plain.
        hasher.write(b"\0");
        hasher.write(user);
        hasher.finish()
    }

    /// The place with this hash that `is` says is the one.
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
