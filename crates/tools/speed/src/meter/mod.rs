//! From what both ends have counted to what is told: rates after the warm-up and at every layer, how steady they were, and what
//! was lost.

mod connections;
mod course;
mod delays;
mod layers;
mod loaded;
mod series;

pub use connections::Connections;
pub use course::{Course, Throughput};
pub use delays::{Delays, OneWay, Round, clocks};
pub use layers::{Layers, Packet};
pub use loaded::{AddedDelay, RoundTrips, TooShort};
pub use series::{ConnectionSeries, DatagramSeries, Series};
