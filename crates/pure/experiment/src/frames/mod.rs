//! What the frames of a run tell: figures of single connections, made of bytes at the nodes.
//!
//! Frames are bytes, so it does not matter which substrate they come from, and nothing here knows how netrig's own
//! endpoints work. Start from [`SequenceReader`] (sequence numbers against time, at one node) and
//! [`DeliveryReader`] (what became of each message, at two nodes).

mod delivery;
mod reading;
mod sequence;
#[cfg(test)]
mod tests;
mod unwrapped;

pub use delivery::{DeliveryReader, MessageDelivery};
pub use sequence::{Numbered, Numbers, Sequence, SequenceReader};
