//! The kinds of requests that a person can send.

use std::str::FromStr;

use netrig_core::named;

use crate::Method;

named! {
    /// A kind of request that a person can send.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Step {
        /// REGISTER of the caller.
        Register = "register",
        /// INVITE that begins a call.
        Invite = "invite",
        /// ACK of the 2xx to the last INVITE.
        Ack = "ack",
        /// CANCEL of an unanswered INVITE.
        Cancel = "cancel",
        /// INVITE within the call.
        ReInvite = "re-invite",
        /// BYE.
        Bye = "bye",
        /// OPTIONS.
        Options = "options",
        /// MESSAGE.
        Message = "message",
    }
}

impl Step {
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

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|step| step.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| {
            format!("`{text}` is not a request: expected {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}
