//! Calls that somebody else has begun, found by the name that he gave them.

use std::hash::{DefaultHasher, Hasher};

use hashbrown::HashTable;

/// Places of a slab by Call-ID.
///
/// Who sends calls can choose their Call-IDs, but not where they come to lie: each is hashed by SipHash behind sixteen
/// secret bytes, so that nobody who does not know them finds Call-IDs that meet, and the table does not become a list.
/// It has no bound of its own: what it points to has one.
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
