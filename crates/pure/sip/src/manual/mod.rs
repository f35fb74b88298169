//! One user agent client in the hands of a person: each request is composed, shown, changed if wanted, and sent when the
//! person says so; what comes is told with the rules that it breaks.
//!
//! Start from [`ManualClient`]: [`ManualClient::compose`] makes a request, [`ManualClient::send`] begins its transaction with the bytes that are to be
//! sent, right or wrong, [`ManualClient::handle`] takes what came, and [`ManualClient::poll`] gives what is to be sent and told. Transactions
//! repeat what is not answered (RFC 3261 section 17) and acknowledge what is no 2xx; the ACK of a 2xx is the person's to send.

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
