//! Random draws for resampling, from an explicit seed. They are the same on every machine.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A stream of random indices.
pub(crate) struct Draws {
    rng: ChaCha8Rng,
}

impl Draws {
    /// The seed is the first 8 bytes of ChaCha's key, so that the result does not depend on the seeding method of a
    /// library.
    pub(crate) fn new(seed: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        Self { rng: ChaCha8Rng::from_seed(key) }
    }

    /// An index in `0..n`, uniform with a bias below n / 2^64. `n` must not be 0.
    pub(crate) fn index(&mut self, n: usize) -> usize {
        ((u128::from(self.rng.next_u64()) * n as u128) >> 64) as usize
    }

    /// Fills `sample` with `rows.len()` elements of `rows`, drawn with replacement.
    pub(crate) fn resample<T: Clone>(&mut self, rows: &[T], sample: &mut Vec<T>) {
        sample.clear();
        sample.extend((0..rows.len()).map(|_| rows[self.index(rows.len())].clone()));
    }
}
