//! How much a far end keeps for its probes.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::MOST_BYTES_TOGETHER;

/// The bytes that all probes of a far end share.
#[derive(Debug)]
pub(in crate::probe) struct Memory {
    left: AtomicUsize,
}

impl Default for Memory {
    fn default() -> Self {
        Self { left: AtomicUsize::new(MOST_BYTES_TOGETHER) }
    }
}

/// There is no room for what a probe would have kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all probes here together keep no more than {MOST_BYTES_TOGETHER} B: send less, or come later")]
pub(in crate::probe) struct NoRoom;

impl Memory {
    /// Room for nothing, which may grow.
    pub const fn none(&self) -> Kept<'_> {
        Kept { memory: self, bytes: 0 }
    }

    /// Room for so many bytes.
    ///
    /// # Errors
    /// If there is none.
    pub fn reserve(&self, bytes: usize) -> Result<Kept<'_>, NoRoom> {
        let mut kept = self.none();
        kept.grow(bytes)?;
        Ok(kept)
    }
}

/// Bytes that one probe keeps; they are others' again when it ends.
#[derive(Debug)]
pub(in crate::probe) struct Kept<'a> {
    memory: &'a Memory,
    bytes: usize,
}

impl Kept<'_> {
    /// Room for so many bytes more.
    ///
    /// # Errors
    /// If there is none; what was kept before still is.
    pub fn grow(&mut self, bytes: usize) -> Result<(), NoRoom> {
        let left = &self.memory.left;
        let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        taken.map_err(|_| NoRoom)?;
        self.bytes += bytes;
        Ok(())
    }

    /// How many there are.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.memory.left.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_share_what_there_is_and_give_it_back() {
        let memory = Memory::default();
        let mut one = memory.reserve(MOST_BYTES_TOGETHER - 10).unwrap();
        let mut other = memory.reserve(4).unwrap();
        assert_eq!(other.grow(7), Err(NoRoom));
        assert_eq!((other.grow(6), other.bytes()), (Ok(()), 10), "a refusal takes nothing");
        assert_eq!(one.grow(1), Err(NoRoom));
        drop(other);
        assert_eq!(one.grow(10), Ok(()));
        assert!(memory.reserve(1).is_err());
        drop(one);
        assert!(memory.reserve(MOST_BYTES_TOGETHER).is_ok());
    }
}
