//! The kinds of requests that a person can send.

use std::fmt;
use std::str::FromStr;

use crate::Method;

/// A kind of request that a person can send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// REGISTER of the caller.
    Register,
    /// INVITE that begins a call.
    Invite,
    /// ACK of the 2xx to the last INVITE.
    Ack,
    /// CANCEL of an unanswered INVITE.
    Cancel,
    /// INVITE within the call.
    ReInvite,
    /// BYE.
    Bye,
    /// OPTIONS.
    Options,
    /// MESSAGE.
    Message,
}

impl Step {
    /// All kinds.
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

    /// The name in scripts: `re-invite`.
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

    /// The method of the request.
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
            format!("`{text}` is not a request: expected {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}
