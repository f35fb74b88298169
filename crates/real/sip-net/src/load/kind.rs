//! What failures are of.

use netrig_sip::load::{Broken, Failure, What};
use schemars::JsonSchema;
use serde::Serialize;

/// What a failure is of, as tables, documents and metrics name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// A timer of RFC 3261 ran out, or that of a session (RFC 4028).
    Timer,
    /// The status of the answer.
    Status,
    /// It rang for longer than a call may.
    Ringing,
    /// Nobody hung up for as long as a call may last.
    Left,
    /// The credentials were refused, or a challenge cannot be answered.
    Authentication,
    /// The other side hung up.
    Peer,
    /// The other side broke a rule.
    Rule,
    /// What the scenario is about did not come.
    Missing,
    /// A connection is gone, or there was none.
    Connection,
    /// The network has said that it reaches nobody.
    Unreachable,
    /// The DNS named no server: it is no failure of one.
    Dns,
}

impl FailureKind {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Timer,
        Self::Status,
        Self::Ringing,
        Self::Left,
        Self::Authentication,
        Self::Peer,
        Self::Rule,
        Self::Missing,
        Self::Connection,
        Self::Unreachable,
        Self::Dns,
    ];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Timer => "timer",
            Self::Status => "status",
            Self::Ringing => "ringing",
            Self::Left => "left",
            Self::Authentication => "authentication",
            Self::Peer => "peer",
            Self::Rule => "rule",
            Self::Missing => "missing",
            Self::Connection => "connection",
            Self::Unreachable => "unreachable",
            Self::Dns => "dns",
        }
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

/// A time of the order that decides when a failure is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TimeLimit {
    /// T1: a transaction is given up after 64 of it.
    T1,
    /// The longest that a call may ring, or be worked on after a 100.
    LongestRinging,
    /// The time after which a call that rings is given up on purpose.
    Patience,
}

impl TimeLimit {
    /// The limit that has decided that an attempt fails so; `None` if no time has.
    pub(super) const fn of(what: What, failure: Failure) -> Option<Self> {
        match (what, failure) {
            (_, Failure::TimedOut(_) | Failure::NoFinal) => Some(Self::T1),
            (_, Failure::RangTooLong | Failure::OnlyTrying) => Some(Self::LongestRinging),
            // The answer came before the call was given up.
            (What::Cancel | What::NoAnswer, Failure::Status(200..300)) => Some(Self::Patience),
            _ => None,
        }
    }
}

/// What is attempted, as it stands in tables and documents.
pub const fn attempt_name(what: What) -> &'static str {
    match what {
        What::Register => "register",
        What::Renew => "renew",
        What::Unregister => "unregister",
        What::Call => "call",
        What::EarlyMedia => "early-media",
        What::DelayedOffer => "delayed-offer",
        What::Reinvite => "re-invite",
        What::Prack => "prack",
        What::Fork => "fork",
        What::Cancel => "cancel",
        What::Busy => "busy",
        What::NoAnswer => "no-answer",
        What::Redirect => "redirect",
        What::Options => "options",
        What::Message => "message",
        What::Subscribe => "subscribe",
        What::Notify => "notify",
        What::Answer => "answer",
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
