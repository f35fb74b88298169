//! Transactions: a request with its responses on one hop (RFC 3261 section 17, with RFC 6026's repair of INVITE).
//!
//! Start from [`InviteClientTransaction`] and [`ClientTransaction`] for what one asks, [`InviteServerTransaction`] and [`ServerTransaction`] for what one is asked. Each
//! is an [`Endpoint`](netrig_core::Endpoint): messages and time go in, messages and [`TransactionEvent`]s come out. They know neither
//! dialogs nor where a message goes, and a message that is not theirs must not be given to them: [`ClientKey`] and
//! [`ServerKey`] say whose it is.

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

/// RFC 3261 table 4. All other timers follow from these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The estimate of a round trip: 500 ms where nothing is known.
    pub t1: Duration,
    /// The longest pause between retransmissions of what is no INVITE: 4 s.
    pub t2: Duration,
    /// How long a message may stay in the network: 5 s.
    pub t4: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self { t1: Duration::from_millis(500), t2: Duration::from_secs(4), t4: Duration::from_secs(5) }
    }
}

impl Timing {
    /// These; without a T2 that of RFC 3261, or T1 where that is more.
    pub fn of(t1: Duration, t2: Option<Duration>, t4: Duration) -> Self {
        Self { t1, t2: t2.unwrap_or_else(|| Self::default().t2.max(t1)), t4 }
    }

    /// After which a transaction gives up: 64·T1, 32 s by default.
    pub const fn patience(self) -> Duration {
        self.t1.saturating_mul(64)
    }

    /// Timer D: "at least 32 seconds for unreliable transports", and no less than timer H of a server with the same T1: it is
    /// "the amount of time that the server transaction can remain in the "Completed" state".
    pub(crate) fn timer_d(self) -> Duration {
        self.patience().max(Duration::from_secs(32))
    }

    /// After which timer E has doubled up to T2: 3.5 s by default.
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
    /// INVITE is sent again.
    A,
    /// INVITE has waited for any response: 64·T1.
    B,
    /// Responses to INVITE may come again: 64·T1, 32 s at least.
    D,
    /// Another request is sent again.
    E,
    /// Another request has waited for its final response: 64·T1.
    F,
    /// The response to INVITE is sent again.
    G,
    /// The response to INVITE has waited for its ACK: 64·T1.
    H,
    /// ACKs may come again: T4.
    I,
    /// Another request may come again: 64·T1.
    J,
    /// Responses to another request may come again: T4.
    K,
    /// INVITEs may come again after their 2xx: 64·T1 (RFC 6026).
    L,
    /// 2xx to INVITE may come again: 64·T1 (RFC 6026).
    M,
    /// SUBSCRIBE has waited for its NOTIFY: 64·T1 (RFC 6665).
    N,
}

/// What a transaction tells its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionEvent {
    /// A response that the user has not seen: to an INVITE also each repetition of its 2xx, which is to be acknowledged again.
    Response(Response),
    /// A request of the transaction that is the user's affair: the ACK for a 2xx that came on the same branch.
    Request(Request),
    /// Nobody has answered in time: to be taken as 408 (RFC 3261 section 8.1.3.1), or for a server as the end of its call.
    TimedOut(Timer),
    /// The network has refused a message: to be taken as 503 (RFC 3261 section 8.1.3.1).
    TransportFailed,
    /// It is over and may be forgotten. The last event.
    Ended,
}
