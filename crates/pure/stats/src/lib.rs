//! The statistics of a network performance laboratory: intervals, quantiles, warm-up, stopping rules,
//! comparisons, goodness of fit and theory curves.
//!
//! It turns numbers into numbers. It never does I/O, never asks the clock, never draws from a random source
//! that was not seeded by its caller, and never uses the platform's libm: the same input gives the same bytes
//! on every machine.
//!
//! Start from [`Interval`]: every estimate is one, with its two ends, its n, its confidence and how it was
//! made. [`interval::student`] makes one from the values of replications, [`compare::paired`] from two
//! systems under the same seeds, and [`theory::curve`] draws what it should have been.

#![forbid(unsafe_code)]

pub mod batch;
pub mod compare;
pub mod distribution;
mod error;
pub mod fairness;
pub mod fit;
pub mod interval;
pub mod multiple;
pub mod path;
pub mod playout;
pub mod power;
pub mod quantile;
mod random;
pub mod sequential;
pub mod special;
pub mod stopping;
pub mod summary;
pub mod theory;
pub mod warmup;

pub use error::StatsError;
pub use interval::Interval;
