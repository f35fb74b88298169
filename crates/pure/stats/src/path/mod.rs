//! Metrics of a path for a stream of packets, from the IETF's *IP Performance Metrics*.
//!
//! | module | metrics |
//! |---|---|
//! | [`delay`] | one-way delay (RFC 7679), round trip (RFC 2681), loss (RFC 7680), two-way loss (RFC 6673): delay and loss in one quantile |
//! | [`variation`] | delay variation (RFC 3393), as IPDV and PDV (RFC 5481) |
//! | [`loss`] | loss distance, loss period, noticeable loss (RFC 3357) |
//! | [`order`] | reordering (RFC 4737) and duplication (RFC 5560) |
//!
//! Start from [`Delays`]: a sample in which a lost packet counts as infinitely late.

pub mod delay;
pub mod loss;
pub mod order;
pub mod variation;

pub use delay::{Delays, Quantile};
pub use loss::LossPattern;
pub use order::{Duplication, Reordering};
pub use variation::Variation;
