//! What the verbs that put loads on a server have in common: the server, the users and what they do.

mod arguments;
mod carrier;
mod location;
mod location_arguments;
mod order;
mod typed;

pub use arguments::{ConnectionsName, Subject};
pub use carrier::{client_tls, may_test, name_of, target};
pub use order::{Span, address, order_of, scenario, thresholds, work};
