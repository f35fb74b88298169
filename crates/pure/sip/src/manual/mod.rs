//! A user agent client that a person controls. It composes each request. The person may change the request and sends
//! it. It reports each received message with the rules that it breaks.
//!
//! Start from [`ManualClient`]. [`ManualClient::compose`] makes a request, and [`ManualClient::send`] starts its
//! transaction with the given bytes, valid or not. [`ManualClient::handle`] takes a received message, and
//! [`ManualClient::poll`] returns events, including messages to be sent. Transactions retransmit requests (RFC 3261
//! section 17) and acknowledge final responses other than 2xx. The person sends the ACK of a 2xx.

mod change;
mod client;
mod compose;
mod draft;
mod step;
#[cfg(test)]
mod tests;

pub use change::{ChangeError, Flaw, MessageChange};
pub use client::{ManualClient, ManualClientEvent, ReceivedMessage, SendReason};
pub use draft::{Draft, ManualClientConfig};
pub use step::Step;
