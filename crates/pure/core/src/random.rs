//! Named random streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

use crate::Duration;

/// The seed of one run. Every random stream of the run is derived from it by name.
///
/// Replication n has the same seed at every point of an experiment, so all points have the same arrivals and the same
/// losses: common random numbers.
///
/// Clones share their state: [`were_drawn_from`](Self::were_drawn_from) covers the streams of all clones.
#[derive(Clone, Debug)]
pub struct Seeds {
    seed: u64,
    drawn: Arc<AtomicBool>,
}

impl Seeds {
    /// Seeds derived from `seed`.
    pub fn new(seed: u64) -> Self {
        Self { seed, drawn: Arc::default() }
    }

    /// The stream called `name`, such as `link/ab/loss`. The same seed and name give the same numbers on
    /// any machine. Streams with different names are independent.
    pub fn stream(&self, name: &str) -> Stream {
        let mut hash = Sha256::new();
        hash.update(self.seed.to_le_bytes());
        hash.update(name.as_bytes());
        Stream { numbers: ChaCha8Rng::from_seed(hash.finalize().into()), drawn: self.drawn.clone() }
    }

    /// Whether a stream gave a number on which behaviour may depend. If none did, another seed gives the same run.
    pub fn were_drawn_from(&self) -> bool {
        self.drawn.load(Ordering::Relaxed)
    }
}

/// A named stream of random numbers.
#[derive(Clone, Debug)]
pub struct Stream {
    numbers: ChaCha8Rng,
    drawn: Arc<AtomicBool>,
}

impl Stream {
    /// Sixty-four random bits.
    pub fn bits(&mut self) -> u64 {
        // Loading first avoids a store on every draw, which would move the cache line between processors.
        if !self.drawn.load(Ordering::Relaxed) {
            self.drawn.store(true, Ordering::Relaxed);
        }
        self.label()
    }

    /// Sixty-four random bits for a label on which no behaviour depends, such as an initial sequence number or a
    /// verification tag. They advance the stream as [`bits`](Self::bits) does, but do not count as drawn.
    pub fn label(&mut self) -> u64 {
        self.numbers.next_u64()
    }

    /// The stream called `name`, with this stream's next number as its seed.
    pub fn branch(&mut self, name: &str) -> Self {
        Seeds { seed: self.label(), drawn: self.drawn.clone() }.stream(name)
    }

    /// Uniform in [0, 1), with 53 random bits.
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in (0, 1], so that its logarithm is finite.
    fn above_zero(&mut self) -> f64 {
        1.0 - self.uniform()
    }

    /// Uniform in 0..`n` with negligible bias (below 2⁻³² for n under 2³²); zero if `n` is zero.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// True with probability `p`. It draws one number for any `p`, so a packet that is lost at 1 % is also lost at 2 %
    /// in a sweep over `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        if p > 0.0 && p < 1.0 {
            return self.uniform() < p;
        }
        // The number only advances the stream; the result does not depend on it.
        self.label();
        p >= 1.0
    }

    /// Exponential with the given mean, by inversion.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(self.above_zero())
    }

    /// Exponential duration with the given mean.
    pub fn exponential_duration(&mut self, mean: Duration) -> Duration {
        Duration::from_secs_f64(self.exponential(mean.as_secs_f64()))
    }

    /// Pareto with smallest value `scale` and the given `shape`, by inversion: P(X > x) = (scale/x)^shape.
    pub fn pareto(&mut self, scale: f64, shape: f64) -> f64 {
        scale * libm::pow(self.above_zero(), -1.0 / shape)
    }

    /// Normal with the given mean and standard deviation (Box and Muller 1958). It discards the second number of each
    /// generated pair, so that every call draws the same number of random bits.
    pub fn normal(&mut self, mean: f64, deviation: f64) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(self.above_zero()));
        let angle = 2.0 * std::f64::consts::PI * self.uniform();
        mean + deviation * radius * libm::cos(angle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_stream() {
        let draw = |seed, name| Seeds::new(seed).stream(name).bits();
        assert_eq!(draw(1, "link/ab/loss"), draw(1, "link/ab/loss"));
        assert_ne!(draw(1, "link/ab/loss"), draw(1, "link/ba/loss"));
        assert_ne!(draw(1, "link/ab/loss"), draw(2, "link/ab/loss"));
    }

    /// Pins the numbers: results in stores and papers depend on them.
    #[test]
    fn streams_do_not_change_between_versions() {
        let mut stream = Seeds::new(1).stream("flow/web/arrivals");
        assert_eq!([stream.bits(), stream.bits()], [PINNED[0], PINNED[1]]);
    }
    const PINNED: [u64; 2] = [4_054_497_460_456_889_673, 15_170_450_363_902_292_437];

    #[test]
    fn labels_and_what_is_certain_are_not_drawn() {
        let seeds = Seeds::new(1);
        let mut stream = seeds.clone().stream("flow/web/arrivals");
        assert_eq!(stream.label(), PINNED[0]);
        assert!(!stream.chance(0.0) && stream.chance(1.0) && !seeds.were_drawn_from());
        let (mut one, mut other) = (stream.clone(), stream.clone());
        assert_eq!(one.branch("a").label(), Seeds::new(other.label()).stream("a").label());
        assert!(!seeds.were_drawn_from());
        stream.branch("a").uniform();
        assert!(seeds.were_drawn_from());
    }

    #[test]
    fn means_are_what_they_say() {
        let mut s = Seeds::new(7).stream("test");
        let n = 200_000;
        let mean = |f: &mut dyn FnMut() -> f64| (0..n).map(|_| f()).sum::<f64>() / f64::from(n);
        // Five standard errors: 5 σ/√n = 0.0112 σ.
        assert!((mean(&mut || s.uniform()) - 0.5).abs() < 0.0112 * 0.2887);
        assert!((mean(&mut || s.exponential(3.0)) - 3.0).abs() < 0.0112 * 3.0);
        assert!((mean(&mut || s.normal(1.0, 2.0)) - 1.0).abs() < 0.0112 * 2.0);
        // Shape 3, scale 2: mean 3, variance 3.
        assert!((mean(&mut || s.pareto(2.0, 3.0)) - 3.0).abs() < 0.0112 * 1.7321);
    }

    #[test]
    fn a_likelier_loss_loses_the_same_packets_and_more() {
        let lost = |p| {
            let mut s = Seeds::new(3).stream("loss");
            (0..1000).map(|_| s.chance(p)).collect::<Vec<_>>()
        };
        let (few, many) = (lost(0.01), lost(0.05));
        assert!(few.iter().zip(&many).all(|(f, m)| !f || *m));
        assert!(many.iter().filter(|m| **m).count() > few.iter().filter(|f| **f).count());
    }
}
