//! Computes results from the counts of both ends: rates after the warm-up, their steadiness, delays and losses.

mod course;
mod delays;
mod loaded;
mod series;

pub use course::{ArrivalCourse, Throughput};
pub use delays::{Delays, EchoRound, OneWay, clocks};
pub use loaded::{AddedDelay, RoundTrips, TooShort};
pub use series::{ConnectionSeries, DatagramSeries, Series};
