//! The receiving side: which TSNs arrived, messages in the making, and when to acknowledge.

mod acknowledger;
mod arrivals;
mod delivery;
mod inbox;

pub(crate) use acknowledger::Acknowledger;
pub(crate) use arrivals::{TsnArrival, TsnArrivals};
pub(crate) use delivery::Delivery;
pub(crate) use inbox::MessageInbox;
