//! A memory budget that the peers of a server share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A number of bytes that all peers of a server share. All clones share the same budget.
#[derive(Clone, Debug)]
pub struct MemoryBudget(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    left: AtomicUsize,
    most: usize,
}

/// The budget does not have enough bytes left for a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the memory for all peers ({most} B) is used up; send less, or try again later")]
pub struct MemoryExhausted {
    /// Total budget, bytes.
    pub most: usize,
}

impl MemoryBudget {
    /// A budget of `most` bytes.
    pub fn of(most: usize) -> Self {
        Self(Arc::new(Pool { left: AtomicUsize::new(most), most }))
    }

    /// An empty reservation.
    pub fn none(&self) -> MemoryReservation {
        MemoryReservation { memory: self.clone(), bytes: 0 }
    }

    /// Reserves bytes.
    ///
    /// # Errors
    /// If the budget does not have enough bytes left.
    pub fn reserve(&self, bytes: usize) -> Result<MemoryReservation, MemoryExhausted> {
        let mut kept = self.none();
        kept.grow(bytes)?;
        Ok(kept)
    }
}

/// Bytes reserved for one peer. Dropping it returns them to the budget.
#[derive(Debug)]
pub struct MemoryReservation {
    memory: MemoryBudget,
    bytes: usize,
}

impl MemoryReservation {
    /// Reserves more bytes.
    ///
    /// # Errors
    /// If the budget does not have enough bytes left. The reservation is then unchanged.
    pub fn grow(&mut self, bytes: usize) -> Result<(), MemoryExhausted> {
        let pool = &self.memory.0;
        let taken =
            pool.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        taken.map_err(|_| MemoryExhausted { most: pool.most })?;
        self.bytes += bytes;
        Ok(())
    }

    /// Grows or shrinks the reservation to `bytes`.
    ///
    /// # Errors
    /// If the budget does not have enough bytes left. The reservation is then unchanged.
    pub fn set(&mut self, bytes: usize) -> Result<(), MemoryExhausted> {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.grow(more),
            None => {
                self.memory.0.left.fetch_add(self.bytes - bytes, Ordering::Relaxed);
                self.bytes = bytes;
                Ok(())
            }
        }
    }

    /// Number of reserved bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        self.memory.0.left.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 1000;

    #[test]
    fn all_share_what_there_is_and_give_it_back() {
        let memory = MemoryBudget::of(MOST);
        let mut one = memory.reserve(MOST - 10).unwrap();
        let mut other = memory.reserve(4).unwrap();
        assert_eq!(other.grow(7), Err(MemoryExhausted { most: MOST }));
        assert_eq!((other.grow(6), other.bytes()), (Ok(()), 10), "a refusal takes nothing");
        assert_eq!(one.grow(1), Err(MemoryExhausted { most: MOST }));
        drop(other);
        assert_eq!(one.grow(10), Ok(()));
        assert!(memory.reserve(1).is_err());
        drop(one);
        assert!(memory.reserve(MOST).is_ok());
    }

    #[test]
    fn what_is_kept_no_more_is_of_others_at_once() {
        let memory = MemoryBudget::of(MOST);
        let mut one = memory.reserve(MOST).unwrap();
        assert_eq!(one.set(MOST + 1), Err(MemoryExhausted { most: MOST }));
        assert_eq!((one.set(MOST / 2), one.bytes()), (Ok(()), MOST / 2));
        let other = memory.reserve(MOST / 2).unwrap();
        assert_eq!(one.set(MOST / 2), Ok(()));
        assert_eq!(one.set(MOST), Err(MemoryExhausted { most: MOST }));
        drop(other);
        assert_eq!((one.set(MOST), one.bytes()), (Ok(()), MOST));
    }
}
