//! Kinds of failures.

use netrig_core::choices;
use netrig_sip::load::{Broken, Failure, What};
use schemars::JsonSchema;
use serde::Serialize;

choices! {
    /// The kind of a failure, as in tables, documents and metrics.
    pub enum FailureKind {
        /// A timer of RFC 3261 or of a session (RFC 4028) expired.
        Timer = "timer",
        /// The status of the response.
        Status = "status",
        /// The call rang for longer than the limit.
        Ringing = "ringing",
        /// The call was not ended within the limit.
        Left = "left",
        /// The credentials were refused, or a challenge cannot be answered.
        Authentication = "authentication",
        /// The peer ended the call.
        Peer = "peer",
        /// The peer broke a protocol rule.
        Rule = "rule",
        /// The expected message of the scenario did not arrive.
        Missing = "missing",
        /// A connection failed or could not be opened.
        Connection = "connection",
        /// ICMP reported that a message was undeliverable.
        Unreachable = "unreachable",
        /// The DNS lookup found no server. This does not count as a failure of a server.
        Dns = "dns",
    }
}

impl From<Failure> for FailureKind {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::TimedOut(_) | Failure::NoFinal | Failure::Unrefreshed => Self::Timer,
            Failure::Status(_) => Self::Status,
            Failure::RangTooLong | Failure::OnlyTrying => Self::Ringing,
            Failure::LeftAlone => Self::Left,
            Failure::Authentication | Failure::Unanswerable | Failure::TooManyChallenges => {
                Self::Authentication
            }
            Failure::EndedByPeer => Self::Peer,
            Failure::Rule(_) => Self::Rule,
            Failure::Without(_) => Self::Missing,
            Failure::Connection(Broken::Undelivered) => Self::Unreachable,
            Failure::Connection(_) => Self::Connection,
            Failure::Unlocated(_) => Self::Dns,
        }
    }
}

/// A time limit of the load's settings that decides about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TimeLimit {
    /// T1: a transaction times out after 64 × T1.
    T1,
    /// The longest time that a call may ring, or wait after a 100.
    LongestRinging,
    /// The time after which a ringing call is cancelled on purpose.
    Patience,
}

impl TimeLimit {
    /// The limit that caused this failure; `None` if no limit did.
    pub(super) const fn of(what: What, failure: Failure) -> Option<Self> {
        match (what, failure) {
            (_, Failure::TimedOut(_) | Failure::NoFinal) => Some(Self::T1),
            (_, Failure::RangTooLong | Failure::OnlyTrying) => Some(Self::LongestRinging),
            // The response arrived before the call was cancelled.
            (What::Cancel | What::NoAnswer, Failure::Status(200..300)) => Some(Self::Patience),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_one_name() {
        for kind in FailureKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }
}
