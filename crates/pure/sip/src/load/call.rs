//! What is kept of a call while it lasts, by who calls and by who is called.

use std::net::SocketAddr;
use std::sync::Arc;

use netrig_core::Instant;

use super::authorize::Proof;
use super::lookup::Located;
use super::refresh::{CalleeRefresh, CallerRefresh, FarSide};
use super::scan::Address;
use super::scenario::Scenario;
use super::session::DescribedSession;
use super::setup::Setup;
use super::text::InlineText;
use crate::deadline::{Deadline, Repetition, earliest};
use crate::record::{AttemptCounts, CalleeBehavior, Failure, Stamps, Token};

/// How far a caller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallerPhase {
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
pub(super) struct CallTimers {
    /// The last request, or final response, is sent again: timers A, E, G.
    pub(super) again: Repetition,
    /// It is given up: timers B, F, H; or forgotten: D, I.
    pub(super) end: Deadline,
    /// The scenario goes on: hangs up, answers, gives up ringing.
    pub(super) act: Deadline,
}

impl CallTimers {
    pub(super) fn next(&self) -> Instant {
        earliest([self.again.at(), self.end.at(), self.act.at()]).unwrap_or(Instant::NEVER)
    }
}

/// A call of a caller.
#[derive(Clone, Debug)]
pub(super) struct CallerCall {
    pub(super) token: Token,
    pub(super) scenario: Scenario,
    pub(super) phase: CallerPhase,
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
    pub(super) counts: AttemptCounts,
    pub(super) timers: CallTimers,
    pub(super) stamps: Stamps,
    /// Its session timer, if it is answered and has one.
    pub(super) refresh: Option<Box<CallerRefresh>>,
    /// The other side's tag, in its whole `To`.
    pub(super) remote: InlineText<78>,
    /// Where the other side is found.
    pub(super) target: InlineText<46>,
    /// The route set, as lines.
    pub(super) routes: InlineText<70>,
    /// The credentials of the last request, if it has any.
    pub(super) proof: Option<Box<Proof>>,
    /// Where requests within the dialog go.
    pub(super) next_hop: SocketAddr,
    /// Its servers, if they were looked for.
    pub(super) located: Option<Arc<Located>>,
}

impl CallerCall {
    /// Which of these servers is asked by it.
    pub(super) fn asked(&self, setup: &Setup) -> SocketAddr {
        setup.current(self.located.as_deref(), self.server)
    }

    /// Whether it begins with an INVITE.
    pub(super) const fn is_inviting(&self) -> bool {
        !matches!(self.scenario, Scenario::Options | Scenario::Message | Scenario::Subscribe { .. })
    }

    /// The tag of the other side, once a response has begun a dialog.
    pub(super) fn remote_tag(&self) -> Option<&[u8]> {
        Address::of(self.remote.as_bytes()).parameter(b"tag")
    }

    /// Whether a call that was answered may come to more dialogs yet.
    pub(super) fn may_fork(&self) -> bool {
        let is_forked = matches!(self.scenario, Scenario::Fork { .. }) || self.counts.surplus > 0;
        is_forked && (200..300).contains(&self.status)
    }
}

/// How far one who is called is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CalleePhase {
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
pub(super) enum LastResponse {
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

impl LastResponse {
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
pub(super) struct CalleeCall {
    /// What names it in the record: the caller's, or its own.
    pub(super) token: Token,
    pub(super) phase: CalleePhase,
    pub(super) failure: Option<Failure>,
    pub(super) behavior: CalleeBehavior,
    pub(super) response: LastResponse,
    /// Of the INVITE.
    pub(super) cseq: u32,
    pub(super) counts: AttemptCounts,
    pub(super) timers: CallTimers,
    pub(super) stamps: Stamps,
    /// Of the Call-ID.
    pub(super) hash: u64,
    pub(super) call_id: InlineText<62>,
    /// Of the branch of its INVITE.
    pub(super) branch: u64,
    /// When it is to be answered.
    pub(super) answers: Instant,
    /// How many provisional responses are to come before that.
    pub(super) provisionals: u16,
    /// What the last final response says of the session.
    pub(super) session: DescribedSession,
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
    pub(super) copied: InlineText<0>,
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
const _: () = assert!(size_of::<CallerCall>() < 512, "an active call takes less than 512 bytes");
const _: () = assert!(size_of::<CalleeCall>() < 512, "an active call takes less than 512 bytes");
