//! Requests that a person may send.

use std::fmt;
use std::str::FromStr;

use crate::Method;

/// A request that a person may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Registers the caller.
    Register,
    /// Calls.
    Invite,
    /// Acknowledges the 2xx of the last INVITE.
    Ack,
    /// Takes an INVITE back that is not answered.
    Cancel,
    /// An INVITE within the call.
    ReInvite,
    /// Hangs up.
    Bye,
    /// Asks what the other can.
    Options,
    /// Sends a text.
    Message,
}

impl Step {
    /// All that there are.
    pub const ALL: [Self; 8] = [
        Self::Register,
        Self::Invite,
        Self::Ack,
        Self::Cancel,
        Self::ReInvite,
        Self::Bye,
        Self::Options,
        Self::Message,
    ];

    /// As scripts say it: `re-invite`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Register => "register",
            Self::Invite => "invite",
            Self::Ack => "ack",
            Self::Cancel => "cancel",
            Self::ReInvite => "re-invite",
            Self::Bye => "bye",
            Self::Options => "options",
            Self::Message => "message",
        }
    }

    /// Its method.
    pub const fn method(self) -> Method {
        match self {
            Self::Register => Method::Register,
            Self::Invite | Self::ReInvite => Method::Invite,
            Self::Ack => Method::Ack,
            Self::Cancel => Method::Cancel,
            Self::Bye => Method::Bye,
            Self::Options => Method::Options,
            Self::Message => Method::Message,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|step| step.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| {
            format!("`{text}` is no request: expected {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}
