//! Servers: registrar, redirect server, proxies, and a user agent that answers calls by itself.
//!
//! Each is a [`Server`]: messages with their [`Source`] and time go in, messages with their [`Destination`] come out. Start
//! from [`Registrar`], [`Redirect`], [`StatelessProxy`], [`Proxy`] or [`AnsweringMachine`]. The first four have a [`Registry`]
//! of the users of a [`Domain`] and their contacts.

mod answering;
mod answering_policy;
#[cfg(test)]
mod answering_tests;
mod authentication;
mod bindings;
mod delay;
mod destination;
mod element;
mod forward;
mod hop;
#[cfg(test)]
mod hop_tests;
mod incoming_call;
mod offers;
mod order;
mod partition;
mod plain;
mod proxy;
mod redirect;
mod refreshing;
#[cfg(test)]
mod refreshing_tests;
mod registrar;
mod registry;
mod reply;
#[cfg(test)]
mod rules_tests;
mod stateless;
#[cfg(test)]
mod tests;
mod transactions;
mod unreadable;

pub use answering::AnsweringMachine;
pub use answering_policy::{Answer, AnsweringPolicy, ProgressResponse};
pub(crate) use authentication::UsedNonces;
pub use authentication::{Authenticator, CredentialsVerdict, NONCE_LIFE};
pub use bindings::{Binding, Bindings, LONGEST_BINDING, MOST_BINDINGS, TargetChange};
pub use delay::DelayedResponses;
pub(crate) use destination::transport_of;
pub use destination::{Destination, Source, on_link_of};
pub use element::Server;
pub use hop::LONGEST_OVER_UDP;
pub(crate) use order::PartitionShare;
pub use order::{Role, RoleError, ServerOrder, User};
pub(crate) use partition::Partition;
pub use plain::{PlainRequestInfo, PlainResponse, PlainResponses};
pub use proxy::{Proxy, TIMER_C};
pub use redirect::Redirect;
pub use registrar::Registrar;
#[cfg(test)]
pub(crate) use registry::user_of;
pub use registry::{Domain, DomainUsers, RegistrarPolicy, Registry};
pub use reply::has_computed_tag;
#[cfg(test)]
pub(crate) use reply::stamp;
pub use stateless::StatelessProxy;
pub use unreadable::refuse_unreadable;
