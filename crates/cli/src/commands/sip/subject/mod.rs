//! What the verbs that put loads on a server have in common: the server, the users and what they do.

mod arguments;
mod carrier;
mod location;
mod order;
mod typed;

pub use arguments::{ConnectionsName, Subject};
pub use carrier::{client_tls, name_of, target};
pub use order::{Span, address, may_test, order_of, read, scenario, thresholds, work};
