//! The receiving side: received TSNs, reassembly of messages, delivery, and acknowledgements.

mod acknowledger;
mod arrivals;
mod delivery;
mod inbox;

pub(crate) use acknowledger::Acknowledger;
pub(crate) use arrivals::{TsnArrival, TsnArrivals};
pub(crate) use delivery::Delivery;
pub(crate) use inbox::MessageInbox;
