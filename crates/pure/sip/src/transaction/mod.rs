//! Transactions: a request with its responses on one hop (RFC 3261 section 17, with RFC 6026's repair of INVITE).
//!
//! Start from [`InviteClientTransaction`] and [`ClientTransaction`] for outgoing requests, and from [`InviteServerTransaction`]
//! and [`ServerTransaction`] for incoming ones. Each is an [`Endpoint`](netrig_core::Endpoint): messages and time go in, messages
//! and [`TransactionEvent`]s come out. A transaction has no information about dialogs and destinations. The caller
//! passes it only its own messages, by [`ClientKey`] and [`ServerKey`].

mod client;
mod invite_client;
mod invite_server;
mod key;
mod machine;
mod server;
#[cfg(test)]
mod tests;

use netrig_core::Duration;

use crate::{Request, Response};

pub use client::ClientTransaction;
pub use invite_client::InviteClientTransaction;
pub use invite_server::InviteServerTransaction;
pub(crate) use key::BranchKey;
pub use key::{ClientKey, ServerKey};
pub use machine::Transaction;
pub use server::ServerTransaction;

/// T1, T2 and T4 (RFC 3261 table 4). All other timers are computed from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Estimate of the round-trip time, by default 500 ms.
    pub t1: Duration,
    /// Longest pause between retransmissions of non-INVITE requests and of INVITE responses, by default 4 s.
    pub t2: Duration,
    /// Longest time of a message in the network, by default 5 s.
    pub t4: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self { t1: Duration::from_millis(500), t2: Duration::from_secs(4), t4: Duration::from_secs(5) }
    }
}

impl Timing {
    /// Without `t2`, T2 is that of RFC 3261, or T1 if that is longer.
    pub fn of(t1: Duration, t2: Option<Duration>, t4: Duration) -> Self {
        Self { t1, t2: t2.unwrap_or_else(|| Self::default().t2.max(t1)), t4 }
    }

    /// Timeout of a transaction: 64·T1, by default 32 s.
    pub const fn patience(self) -> Duration {
        self.t1.saturating_mul(64)
    }

    /// Timer D: "at least 32 seconds for unreliable transports". It is at least timer H of a server with the same T1, because it
    /// reflects "the amount of time that the server transaction can remain in the "Completed" state".
    pub(crate) fn timer_d(self) -> Duration {
        self.patience().max(Duration::from_secs(32))
    }

    /// Time after which timer E has doubled up to T2, by default 3.5 s.
    pub(crate) fn until_e_is_t2(self) -> Duration {
        let mut pause = self.t1.max(Duration::from_nanos(1));
        let mut at = pause;
        while pause.saturating_mul(2) < self.t2 {
            pause = pause.saturating_mul(2);
            at += pause;
        }
        at
    }
}

/// The timers of RFC 3261 table 4, of RFC 6026 and of RFC 6665, by their letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Retransmission of an INVITE.
    A,
    /// Timeout of an INVITE without any response: 64·T1.
    B,
    /// Wait for retransmitted responses to an INVITE: 64·T1, at least 32 s.
    D,
    /// Retransmission of a non-INVITE request.
    E,
    /// Timeout of a non-INVITE request without a final response: 64·T1.
    F,
    /// Retransmission of a response to an INVITE.
    G,
    /// Timeout of a response to an INVITE without an ACK: 64·T1.
    H,
    /// Wait for retransmitted ACKs: T4.
    I,
    /// Wait for retransmitted non-INVITE requests: 64·T1.
    J,
    /// Wait for retransmitted responses to a non-INVITE request: T4.
    K,
    /// Wait for retransmitted INVITEs after a 2xx: 64·T1 (RFC 6026).
    L,
    /// Wait for retransmitted 2xx to an INVITE: 64·T1 (RFC 6026).
    M,
    /// Timeout of a SUBSCRIBE without a NOTIFY: 64·T1 (RFC 6665).
    N,
}

/// An event that a transaction reports to its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionEvent {
    /// A new response. Each retransmission of a 2xx to an INVITE counts as new, because the user must acknowledge it.
    Response(Response),
    /// A request of the transaction that the user handles: an ACK for a 2xx with the branch of the INVITE.
    Request(Request),
    /// The transaction timed out. A client treats it as 408 (RFC 3261 section 8.1.3.1), a server as the end of its call.
    TimedOut(Timer),
    /// A message could not be sent. A client treats it as 503 (RFC 3261 section 8.1.3.1).
    TransportFailed,
    /// The transaction has ended and can be dropped. It is the last event.
    Ended,
}
