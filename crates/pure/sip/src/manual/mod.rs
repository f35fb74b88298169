//! One user agent client in the hands of a person: each request is composed, shown, changed if wanted, and sent when the
//! person says so; what comes is told with the rules that it breaks.
//!
//! Start from [`Desk`]: [`Desk::compose`] makes a request, [`Desk::send`] begins its transaction with the bytes that are to be
//! sent, right or wrong, [`Desk::handle`] takes what came, and [`Desk::poll`] gives what is to be sent and told. Transactions
//! repeat what is not answered (RFC 3261 section 17) and acknowledge what is no 2xx; the ACK of a 2xx is the person's to send.

mod change;
mod compose;
mod desk;
mod draft;
mod step;
#[cfg(test)]
mod tests;

pub use change::{Change, ChangeError, Flaw};
pub use desk::{Came, Desk, Told, Why};
pub use draft::{Draft, Party};
pub use step::Step;
