//! Comparison with published tables, worked examples and independent computations (mpmath with 40 digits,
//! SciPy 1.17).

mod compare;
mod coverage;
mod distribution;
mod e_model;
mod fit;
mod interval;
mod pass_curve;
mod playout;
mod properties;
mod sequential;
mod series;
mod theory;

/// Fails if the relative difference between `actual` and `expected` exceeds `tolerance`.
#[track_caller]
fn close(actual: f64, expected: f64, tolerance: f64) {
    let apart = (actual - expected).abs();
    let allowed = tolerance * expected.abs();
    assert!(apart <= allowed, "{actual} is not within {tolerance} of {expected}");
}

/// Fails if the difference between `actual` and `expected` exceeds `tolerance`, in the same unit.
#[track_caller]
fn near(actual: f64, expected: f64, tolerance: f64) {
    assert!((actual - expected).abs() <= tolerance, "{actual} is not within {tolerance} of {expected}");
}

/// Random numbers for tests: SplitMix64 (Steele, Lea and Flood 2014), which the crate itself does not use.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in (0, 1).
    fn uniform(&mut self) -> f64 {
        ((self.bits() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }

    /// Exponential with mean 1.
    fn exponential(&mut self) -> f64 {
        -libm::log(self.uniform())
    }

    /// Standard normal, by Box and Muller.
    fn normal(&mut self) -> f64 {
        (2.0 * self.exponential()).sqrt() * libm::cos(std::f64::consts::TAU * self.uniform())
    }
}
