//! From what both ends have counted to what is told: rates after the warm-up and at every layer, how steady they were, and what
//! was lost.

mod connections;
mod course;
mod delays;
mod layers;
mod loaded;
mod series;

pub use connections::ConnectionSummary;
pub use course::{ArrivalCourse, Throughput};
pub use delays::{Delays, EchoRound, OneWay, clocks};
pub use layers::{Layers, PacketShape};
pub use loaded::{AddedDelay, RoundTrips, TooShort};
pub use series::{ConnectionSeries, DatagramSeries, Series};
