//! What users of a load do.

use netrig_core::Duration;

use crate::record::{CalleeBehavior, What};

/// What users do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Each registers, once.
    Register,
    /// All are registered beforehand, and register again.
    ReRegister,
    /// All are registered beforehand, and take that back, once each.
    Unregister,
    /// Each calls its peer, or asks it something.
    Call(Scenario),
}

impl Work {
    /// What its records say that was done.
    pub const fn what(self) -> What {
        match self {
            Self::Register | Self::ReRegister => What::Register,
            Self::Unregister => What::Unregister,
            Self::Call(scenario) => scenario.what(),
        }
    }

    /// Whether each user does it once only.
    pub const fn is_once(self) -> bool {
        matches!(self, Self::Register | Self::Unregister)
    }

    /// Whether it is of registrations.
    pub const fn registers(self) -> bool {
        !matches!(self, Self::Call(_))
    }
}

/// What a caller does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// Calls, is answered, and hangs up after holding so long.
    Call {
        /// From the ACK to the BYE.
        hold: Duration,
    },
    /// The same, and hears before the answer what is played to it: a session description in a 183.
    EarlyMedia {
        /// From the ACK to the BYE.
        hold: Duration,
    },
    /// The same with an INVITE that has no offer: the 2xx brings it, and the ACK answers it (RFC 3261 section 13.2.1).
    DelayedOffer {
        /// From the ACK to the BYE.
        hold: Duration,
    },
    /// The same, puts the other side on hold after a third of the time, and takes the call up again after two.
    Reinvite {
        /// From the ACK to the BYE.
        hold: Duration,
    },
    /// The same with provisional responses that are acknowledged (RFC 3262).
    Prack {
        /// From the ACK to the BYE.
        hold: Duration,
    },
    /// The same to one who is reached at several places and answers at two: each 2xx is acknowledged, and all but the
    /// first are hung up at once (RFC 3261 section 13.2.2.4).
    Fork {
        /// From the ACK to the BYE.
        hold: Duration,
    },
    /// Calls, and takes it back so long after the first provisional response.
    Cancel {
        /// From the provisional response to the CANCEL.
        after: Duration,
    },
    /// Calls one who refuses.
    Busy,
    /// Calls one who does not answer, and gives up after ringing so long.
    NoAnswer {
        /// From the first provisional response other than 100 to the CANCEL.
        patience: Duration,
    },
    /// Calls, and is sent elsewhere with a 3xx, which it does not follow: what a redirect server is tested with.
    Redirect,
    /// Asks what the other can (OPTIONS).
    Options,
    /// Sends a text (MESSAGE).
    Message,
    /// Subscribes to the other's presence, is notified, renews that in time and takes it back (RFC 6665).
    Subscribe {
        /// From the 2xx until it is taken back.
        hold: Duration,
        /// What is asked for, s.
        expires: u32,
    },
}

impl Scenario {
    /// What the other side is to do for it.
    pub const fn callee_behavior(self) -> CalleeBehavior {
        match self {
            Self::Busy => CalleeBehavior::Refuse,
            Self::Cancel { .. } | Self::NoAnswer { .. } => CalleeBehavior::Ring,
            Self::EarlyMedia { .. } => CalleeBehavior::Progress,
            Self::Prack { .. } => CalleeBehavior::Reliable,
            Self::Fork { .. } => CalleeBehavior::Both,
            Self::Call { .. }
            | Self::DelayedOffer { .. }
            | Self::Reinvite { .. }
            | Self::Redirect
            | Self::Options
            | Self::Message
            | Self::Subscribe { .. } => CalleeBehavior::Answer,
        }
    }

    /// What its record says that was done.
    pub const fn what(self) -> What {
        match self {
            Self::Call { .. } => What::Call,
            Self::EarlyMedia { .. } => What::EarlyMedia,
            Self::DelayedOffer { .. } => What::DelayedOffer,
            Self::Reinvite { .. } => What::Reinvite,
            Self::Prack { .. } => What::Prack,
            Self::Fork { .. } => What::Fork,
            Self::Cancel { .. } => What::Cancel,
            Self::Busy => What::Busy,
            Self::NoAnswer { .. } => What::NoAnswer,
            Self::Redirect => What::Redirect,
            Self::Options => What::Options,
            Self::Message => What::Message,
            Self::Subscribe { .. } => What::Subscribe,
        }
    }

    /// How long it is held, if it is answered at all.
    pub const fn hold(self) -> Option<Duration> {
        match self {
            Self::Call { hold }
            | Self::EarlyMedia { hold }
            | Self::DelayedOffer { hold }
            | Self::Reinvite { hold }
            | Self::Prack { hold }
            | Self::Fork { hold }
            | Self::Subscribe { hold, .. } => Some(hold),
            _ => None,
        }
    }

    /// A third of that: how long a call goes on before it is put on hold, is on hold, and goes on after it.
    pub(super) const fn third(self) -> Duration {
        match self.hold() {
            Some(hold) => Duration::from_nanos(hold.as_nanos() / 3),
            None => Duration::ZERO,
        }
    }

    /// The same, held for so long if it is held at all.
    #[must_use]
    pub const fn held_for(mut self, span: Duration) -> Self {
        match &mut self {
            Self::Call { hold }
            | Self::EarlyMedia { hold }
            | Self::DelayedOffer { hold }
            | Self::Reinvite { hold }
            | Self::Prack { hold }
            | Self::Fork { hold }
            | Self::Subscribe { hold, .. } => *hold = span,
            _ => {}
        }
        self
    }

    /// Whether one of its delays reaches over something that its caller sends only because of what has come: who is called may
    /// keep the final response back until PRACK (RFC 3262 section 3), and what is taken back has it only after CANCEL. What
    /// follows the final response (ACK, BYE, INVITE within the dialog) is in none.
    pub(super) const fn answers_in_a_delay(self) -> bool {
        match self {
            Self::Prack { .. } | Self::Cancel { .. } | Self::NoAnswer { .. } => true,
            Self::Call { .. }
            | Self::EarlyMedia { .. }
            | Self::DelayedOffer { .. }
            | Self::Reinvite { .. }
            | Self::Fork { .. }
            | Self::Busy
            | Self::Redirect
            | Self::Options
            | Self::Message
            | Self::Subscribe { .. } => false,
        }
    }

    /// Whether it cannot be without a session description.
    pub const fn needs_description(self) -> bool {
        matches!(self, Self::EarlyMedia { .. } | Self::DelayedOffer { .. } | Self::Reinvite { .. })
    }
}
