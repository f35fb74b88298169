//! Computes figures of single connections from the frames of a run at its nodes.
//!
//! Frames are bytes, so they may come from any substrate. This module does not depend on netrig's own endpoints. Start
//! from [`SequenceReader`] (sequence numbers against time, at one node) and [`DeliveryReader`] (delivery of each
//! message, at two nodes).

mod delivery;
mod reading;
mod sequence;
#[cfg(test)]
mod tests;
mod unwrapped;

pub use delivery::{DeliveryReader, MessageDelivery};
pub use sequence::{Numbered, Numbers, Sequence, SequenceReader};
