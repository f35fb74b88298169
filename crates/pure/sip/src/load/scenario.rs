//! The scenarios of the users of a load.

use netrig_core::Duration;

use crate::record::{CalleeAction, What};

/// An attempt of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Each user registers once.
    Register,
    /// All users are registered beforehand, and register again.
    ReRegister,
    /// All users are registered beforehand, and each unregisters once.
    Unregister,
    /// Each user calls its peer, or sends it another request.
    Call(Scenario),
}

impl Work {
    /// The kind of attempt in its records.
    pub const fn what(self) -> What {
        match self {
            Self::Register | Self::ReRegister => What::Register,
            Self::Unregister => What::Unregister,
            Self::Call(scenario) => scenario.what(),
        }
    }

    /// Whether each user makes this attempt only once.
    pub const fn is_once(self) -> bool {
        matches!(self, Self::Register | Self::Unregister)
    }

    /// Whether the attempt adds or removes a registration.
    pub const fn registers(self) -> bool {
        !matches!(self, Self::Call(_))
    }
}

/// A scenario of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// A call that is answered, held and hung up.
    Call {
        /// Time from the ACK to the BYE.
        hold: Duration,
    },
    /// A call with early media: a 183 has a session description.
    EarlyMedia {
        /// Time from the ACK to the BYE.
        hold: Duration,
    },
    /// A call whose INVITE has no offer: the 2xx has the offer, and the ACK the answer (RFC 3261 section 13.2.1).
    DelayedOffer {
        /// Time from the ACK to the BYE.
        hold: Duration,
    },
    /// A call that is put on hold after a third of its time, and resumed after two thirds.
    Reinvite {
        /// Time from the ACK to the BYE.
        hold: Duration,
    },
    /// A call whose provisional responses are acknowledged by PRACK (RFC 3262).
    Prack {
        /// Time from the ACK to the BYE.
        hold: Duration,
    },
    /// A call to a callee with several contacts, two of which answer. Each 2xx is acknowledged, and all dialogs but
    /// the first are hung up at once (RFC 3261 section 13.2.2.4).
    Fork {
        /// Time from the ACK to the BYE.
        hold: Duration,
    },
    /// A call that is cancelled some time after the first provisional response.
    Cancel {
        /// Time from the provisional response to the CANCEL.
        after: Duration,
    },
    /// A call that the callee refuses.
    Busy,
    /// A call that is not answered and is cancelled after some time of ringing.
    NoAnswer {
        /// Time from the first provisional response other than 100 to the CANCEL.
        patience: Duration,
    },
    /// A call that the server redirects with a 3xx, which the caller does not follow. The scenario tests a redirect
    /// server.
    Redirect,
    /// OPTIONS.
    Options,
    /// MESSAGE.
    Message,
    /// A subscription to the presence of the peer: notified, renewed in time and terminated (RFC 6665).
    Subscribe {
        /// Time from the 2xx to the SUBSCRIBE that terminates it.
        hold: Duration,
        /// The requested duration, s.
        expires: u32,
    },
}

impl Scenario {
    /// The action of a callee of the same load in this scenario.
    pub const fn callee_action(self) -> CalleeAction {
        match self {
            Self::Busy => CalleeAction::Refuse,
            Self::Cancel { .. } | Self::NoAnswer { .. } => CalleeAction::Ring,
            Self::EarlyMedia { .. } => CalleeAction::Progress,
            Self::Prack { .. } => CalleeAction::Reliable,
            Self::Fork { .. } => CalleeAction::Both,
            Self::Call { .. }
            | Self::DelayedOffer { .. }
            | Self::Reinvite { .. }
            | Self::Redirect
            | Self::Options
            | Self::Message
            | Self::Subscribe { .. } => CalleeAction::Answer,
        }
    }

    /// The kind of attempt in its record.
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

    /// Hold time of a call that should be answered, or of a subscription. `None` for any other scenario.
    pub const fn hold(mut self) -> Option<Duration> {
        match self.hold_mut() {
            Some(hold) => Some(*hold),
            None => None,
        }
    }

    const fn hold_mut(&mut self) -> Option<&mut Duration> {
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

    /// A third of the hold time. A call of [`Scenario::Reinvite`] lasts this long before, during and after the time on
    /// hold.
    pub(super) const fn third(self) -> Duration {
        match self.hold() {
            Some(hold) => Duration::from_nanos(hold.as_nanos() / 3),
            None => Duration::ZERO,
        }
    }

    /// The same scenario with another hold time. Unchanged if the scenario has no hold time.
    #[must_use]
    pub const fn held_for(mut self, span: Duration) -> Self {
        if let Some(hold) = self.hold_mut() {
            *hold = span;
        }
        self
    }

    /// Whether a measured delay of the scenario contains a request that the caller sends because of a received message.
    /// A callee may withhold the final response until PRACK (RFC 3262 section 3), and a cancelled call gets its final
    /// response only after CANCEL. No measured delay contains a request after the final response (ACK, BYE, INVITE
    /// within the dialog).
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

    /// Whether the scenario needs a session description.
    pub const fn needs_description(self) -> bool {
        matches!(self, Self::EarlyMedia { .. } | Self::DelayedOffer { .. } | Self::Reinvite { .. })
    }
}
