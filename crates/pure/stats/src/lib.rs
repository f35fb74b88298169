//! The statistics of a network performance laboratory: intervals, quantiles, warm-up, stopping rules,
//! comparisons, goodness of fit and theory curves.
//!
//! All functions compute numbers from numbers. They do no I/O and read no clock. They use only random sources that the
//! caller has seeded, and do not use the platform's libm. So the same input gives the same bytes on every machine.
//!
//! Start from [`Interval`], the type of every estimate. It has two ends, n, the confidence and the method.
//! [`interval::student`] estimates from the values of replications, [`compare::paired`] from two systems under the same
//! seeds. [`theory::curve`] gives the theoretical value.

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
