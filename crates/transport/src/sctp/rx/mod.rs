//! The receiving side: which TSNs arrived, messages in the making, and when to acknowledge.

mod acknowledger;
mod arrivals;
mod inbox;

pub(crate) use acknowledger::Acknowledger;
pub(crate) use arrivals::{Arrival, Arrivals};
pub(crate) use inbox::Inbox;
