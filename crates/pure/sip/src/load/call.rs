//! What is kept of a call while it lasts, by who calls and by who is called.

use std::net::SocketAddr;
use std::sync::Arc;

use netrig_core::{Duration, Instant};

use super::authorize::Proof;
use super::lookup::Located;
use super::refresh::{CalleeRefresh, CallerRefresh, FarSide};
use super::session::Session;
use super::setup::Setup;
use super::text::Text;
use crate::deadline::{Deadline, Repetition, earliest};
use crate::record::{CalleeAction, Counts, Failure, Stamps, Token, What};

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
    pub const fn wish(self) -> CalleeAction {
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

/// How far a caller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// INVITE sent, nothing heard.
    Calling,
    /// A provisional response has come.
    Proceeding,
    /// Refused with `Retry-After`: it is asked again when that time is over.
    Waiting,
    /// CANCEL sent.
    Cancelling,
    /// A 2xx has come and is acknowledged, or a subscription lasts.
    Holding,
    /// An INVITE sent within the dialog, or a SUBSCRIBE.
    Changing,
    /// BYE sent, or the SUBSCRIBE that takes a subscription back.
    Ending,
    /// OPTIONS, MESSAGE or the first SUBSCRIBE sent.
    Asking,
    /// Another final response has come: it is acknowledged as often as it comes again, for the time of timer D.
    Refused,
    /// All of its own is done, and another 2xx may come, for 64·T1 after the first.
    Forked {
        /// Whether the record is out; it waits for what another 2xx brings otherwise.
        is_told: bool,
    },
    /// One of several dialogs that a call came to: it is over, and its 2xx may come again.
    Released,
}

/// When something is to be done without being asked.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    /// The last request, or final response, is sent again: timers A, E, G.
    pub(super) again: Repetition,
    /// It is given up: timers B, F, H; or forgotten: D, I.
    pub(super) end: Deadline,
    /// The scenario goes on: hangs up, answers, gives up ringing.
    pub(super) act: Deadline,
}

impl Clock {
    pub(super) fn next(&self) -> Instant {
        earliest([self.again.at(), self.end.at(), self.act.at()]).unwrap_or(Instant::NEVER)
    }
}

/// A call of a caller.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) token: Token,
    pub(super) scenario: Scenario,
    pub(super) phase: Phase,
    pub(super) failure: Option<Failure>,
    pub(super) user: u32,
    pub(super) peer: u32,
    /// Of the last request.
    pub(super) cseq: u32,
    /// Of the last INVITE.
    pub(super) invite: u32,
    /// The final response to it.
    pub(super) status: u16,
    /// Which of the servers is asked.
    pub(super) server: u8,
    /// How often the session, or the subscription, was changed or kept alive.
    pub(super) step: u8,
    /// Other dialogs of a forked call that are not ended.
    pub(super) branches: u8,
    /// Whether the scenario's own condition has been met: early media, a reliable response, a NOTIFY, a second answer.
    pub(super) is_met: bool,
    /// Whether its CANCEL was answered with a 2xx: the final response to the INVITE is to come.
    pub(super) is_cancel_answered: bool,
    /// Whether its last request went over TCP because of its length, and whether its last INVITE did.
    pub(super) is_over_tcp: bool,
    pub(super) is_invite_over_tcp: bool,
    /// Whether the way of its dialog names TCP, beside the datagrams of the load.
    pub(super) is_dialog_over_tcp: bool,
    /// Whether the server took no connection: its requests go in datagrams, whatever their length.
    pub(super) stays_on_udp: bool,
    /// Whether a provisional response other than 100 has come to an INVITE within the dialog.
    pub(super) is_change_rung: bool,
    /// `CSeq` of the PRACK that is not answered; 0 for none.
    pub(super) prack: u32,
    /// `RSeq` of the last response that was acknowledged; 0 for none.
    pub(super) rseq: u32,
    /// The session interval that its INVITE asks for, s; 0 for none.
    pub(super) interval: u32,
    pub(super) counts: Counts,
    pub(super) clock: Clock,
    pub(super) stamps: Stamps,
    /// Its session timer, if it is answered and has one.
    pub(super) refresh: Option<Box<CallerRefresh>>,
    /// The other side's tag, in its whole `To`.
    pub(super) remote: Text<78>,
    /// Where the other side is found.
    pub(super) target: Text<46>,
    /// The route set, as lines.
    pub(super) routes: Text<70>,
    /// The credentials of the last request, if it has any.
    pub(super) proof: Option<Box<Proof>>,
    /// Where requests within the dialog go.
    pub(super) next_hop: SocketAddr,
    /// Its servers, if they were looked for.
    pub(super) located: Option<Arc<Located>>,
}

impl Call {
    /// Which of these servers is asked by it.
    pub(super) fn asked(&self, setup: &Setup) -> SocketAddr {
        setup.current(self.located.as_deref(), self.server)
    }

    /// Whether it begins with an INVITE.
    pub(super) const fn is_inviting(&self) -> bool {
        !matches!(self.scenario, Scenario::Options | Scenario::Message | Scenario::Subscribe { .. })
    }
}

/// How far one who is called is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answering {
    /// Subscribed to.
    Notifying,
    /// 180 sent.
    Ringing,
    /// 200 sent.
    Accepted,
    /// Its ACK has come.
    Confirmed,
    /// Another final response sent.
    Refusing,
    /// It is over; what comes again is known for the time that a message may stay in the network.
    Over,
}

/// What one who is called has answered last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// A provisional response, or nothing yet.
    Ringing,
    /// 200.
    Ok,
    /// 480: nobody has answered.
    Unavailable,
    /// 486.
    Busy,
    /// 487: the caller has taken it back.
    Terminated,
    /// 504: nobody has acknowledged a provisional response.
    Unacknowledged,
}

impl Said {
    /// The status of the final response; zero without one.
    pub(super) const fn status(self) -> u16 {
        match self {
            Self::Ringing => 0,
            Self::Ok => 200,
            Self::Unavailable => 480,
            Self::Busy => 486,
            Self::Terminated => 487,
            Self::Unacknowledged => 504,
        }
    }
}

/// A call of one who is called.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// What names it in the record: the caller's, or its own.
    pub(super) token: Token,
    pub(super) phase: Answering,
    pub(super) failure: Option<Failure>,
    pub(super) wish: CalleeAction,
    pub(super) said: Said,
    /// Of the INVITE.
    pub(super) cseq: u32,
    pub(super) counts: Counts,
    pub(super) clock: Clock,
    pub(super) stamps: Stamps,
    /// Of the Call-ID.
    pub(super) hash: u64,
    pub(super) call_id: Text<62>,
    /// Of the branch of its INVITE.
    pub(super) branch: u64,
    /// When it is to be answered.
    pub(super) answers: Instant,
    /// How many provisional responses are to come before that.
    pub(super) provisionals: u16,
    /// What the last final response says of the session.
    pub(super) session: Session,
    /// `RSeq` of the last reliable response; 0 for none.
    pub(super) rseq: u32,
    /// Whether that waits for its PRACK.
    pub(super) is_unacknowledged: bool,
    /// Whether its ACK is to bring the answer to an offer of this side.
    pub(super) has_offered: bool,
    /// Its session timer, if it has one.
    pub(super) refresh: Option<Box<CalleeRefresh>>,
    /// Of one who is subscribed to.
    pub(super) subscription: Option<Box<Subscription>>,
    /// Whether the INVITE has come over TCP.
    pub(super) came_over_tcp: bool,
    /// Where the INVITE has come from and its responses go.
    pub(super) from: SocketAddr,
    /// What its responses repeat of it, as lines.
    pub(super) copied: Text<0>,
}

/// What is kept of a subscription by the one who notifies.
#[derive(Clone, Debug)]
pub(super) struct Subscription {
    /// The subscriber.
    pub(super) far: FarSide,
    /// `Event`.
    pub(super) event: Box<[u8]>,
    /// When it is over.
    pub(super) until: Instant,
    /// Of the last NOTIFY.
    pub(super) cseq: u32,
    /// Whether that is not answered.
    pub(super) is_open: bool,
    /// Whether another is to follow when it is.
    pub(super) is_due: bool,
}

// What a million of them may take.
const _: () = assert!(size_of::<Call>() < 512, "an active call takes less than 512 bytes");
const _: () = assert!(size_of::<Answer>() < 512, "an active call takes less than 512 bytes");
