//! The state of a call, at its caller and at its callee.

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
use crate::record::{AttemptCounts, CalleeAction, Failure, Stamps, Token};

/// Phase of a call at its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallerPhase {
    /// INVITE sent, no response received.
    Calling,
    /// A provisional response was received.
    Proceeding,
    /// Refused with `Retry-After`: the request is sent again after that time.
    Waiting,
    /// CANCEL sent.
    Cancelling,
    /// A 2xx was received and acknowledged, or a subscription is active.
    Holding,
    /// An INVITE within the dialog was sent, or a SUBSCRIBE that renews the subscription.
    Changing,
    /// BYE sent, or the SUBSCRIBE that terminates a subscription.
    Ending,
    /// OPTIONS, MESSAGE or the first SUBSCRIBE sent.
    Asking,
    /// A final response other than 2xx was received. Retransmissions of it are acknowledged until timer D expires.
    Refused,
    /// The call is over, and another 2xx may arrive until 64·T1 after the first.
    Forked {
        /// Whether the record was written. Otherwise it waits for the dialogs of further 2xx.
        is_told: bool,
    },
    /// A further dialog of a forked call. The dialog is over, but its 2xx may be retransmitted.
    Released,
}

/// Timers of a call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CallTimers {
    /// Next retransmission of the last request or final response: timers A, E, G.
    pub(super) again: Repetition,
    /// The transaction times out (timers B, F, H), or its state is discarded (timers D, I).
    pub(super) end: Deadline,
    /// The next step of the scenario: BYE, answer, CANCEL.
    pub(super) act: Deadline,
}

impl CallTimers {
    pub(super) fn next(&self) -> Instant {
        earliest([self.again.at(), self.end.at(), self.act.at()]).unwrap_or(Instant::NEVER)
    }
}

/// A call at its caller.
#[derive(Clone, Debug)]
pub(super) struct CallerCall {
    pub(super) token: Token,
    pub(super) scenario: Scenario,
    pub(super) phase: CallerPhase,
    pub(super) failure: Option<Failure>,
    pub(super) user: u32,
    pub(super) peer: u32,
    /// `CSeq` of the last request.
    pub(super) cseq: u32,
    /// `CSeq` of the last INVITE.
    pub(super) invite: u32,
    /// Status of the final response to the last INVITE.
    pub(super) status: u16,
    /// Index of the server that requests go to.
    pub(super) server: u8,
    /// How often the session or the subscription was changed or renewed.
    pub(super) step: u8,
    /// Further dialogs of a forked call that are not over.
    pub(super) branches: u8,
    /// Whether the condition of the scenario is met: early media, a reliable response, a NOTIFY, a second answer.
    pub(super) is_met: bool,
    /// Whether its CANCEL was answered with a 2xx. The final response to the INVITE must then follow.
    pub(super) is_cancel_answered: bool,
    /// Whether the last request went over TCP because of its length.
    pub(super) is_over_tcp: bool,
    /// Whether the last INVITE went over TCP because of its length.
    pub(super) is_invite_over_tcp: bool,
    /// Whether the route of its dialog names TCP although the load uses UDP.
    pub(super) is_dialog_over_tcp: bool,
    /// Whether the server refused a connection: requests go over UDP, whatever their length.
    pub(super) stays_on_udp: bool,
    /// Whether a provisional response other than 100 to an INVITE within the dialog was received.
    pub(super) is_change_rung: bool,
    /// `CSeq` of the unanswered PRACK. 0 for none.
    pub(super) prack: u32,
    /// `RSeq` of the last acknowledged response. 0 for none.
    pub(super) rseq: u32,
    /// Requested session interval, s. 0 for none.
    pub(super) interval: u32,
    pub(super) counts: AttemptCounts,
    pub(super) timers: CallTimers,
    pub(super) stamps: Stamps,
    /// The session timer of an answered call.
    pub(super) refresh: Option<Box<CallerRefresh>>,
    /// The whole `To` with the tag of the other side.
    pub(super) remote: InlineText<78>,
    /// The remote target.
    pub(super) target: InlineText<46>,
    /// The route set, as whole lines.
    pub(super) routes: InlineText<70>,
    /// Credentials of the last request.
    pub(super) proof: Option<Box<Proof>>,
    /// Address for requests within the dialog.
    pub(super) next_hop: SocketAddr,
    /// The servers of the call, if it looked them up.
    pub(super) located: Option<Arc<Located>>,
}

impl CallerCall {
    /// Address of the server that its requests go to.
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

    /// Whether an answered call may get further dialogs.
    pub(super) fn may_fork(&self) -> bool {
        let is_forked = matches!(self.scenario, Scenario::Fork { .. }) || self.counts.surplus > 0;
        is_forked && (200..300).contains(&self.status)
    }
}

/// Phase of a call at its callee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CalleePhase {
    /// A subscription is active.
    Notifying,
    /// 180 sent.
    Ringing,
    /// 200 sent.
    Accepted,
    /// The ACK was received.
    Confirmed,
    /// Another final response sent.
    Refusing,
    /// The call is over. Retransmissions are recognised for T4.
    Over,
}

/// The last response of a callee to the INVITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LastResponse {
    /// A provisional response, or none.
    Ringing,
    /// 200.
    Ok,
    /// 480: the callee does not answer.
    Unavailable,
    /// 486.
    Busy,
    /// 487: the caller has cancelled the call.
    Terminated,
    /// 504: a provisional response was not acknowledged.
    Unacknowledged,
}

impl LastResponse {
    /// The status of the final response. 0 for none.
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

/// A call at its callee.
#[derive(Clone, Debug)]
pub(super) struct CalleeCall {
    /// The token of its record: the caller's token, or the call's own token if the caller is not part of this load.
    pub(super) token: Token,
    pub(super) phase: CalleePhase,
    pub(super) failure: Option<Failure>,
    pub(super) action: CalleeAction,
    pub(super) response: LastResponse,
    /// `CSeq` of the INVITE.
    pub(super) cseq: u32,
    pub(super) counts: AttemptCounts,
    pub(super) timers: CallTimers,
    pub(super) stamps: Stamps,
    /// Hash of the Call-ID and the called user.
    pub(super) hash: u64,
    pub(super) call_id: InlineText<62>,
    /// Hash of the branch of its INVITE.
    pub(super) branch: u64,
    /// The scheduled time of its answer.
    pub(super) answers: Instant,
    /// Number of provisional responses still to be sent before the answer.
    pub(super) provisionals: u16,
    /// The session as the last final response describes it.
    pub(super) session: DescribedSession,
    /// `RSeq` of the last reliable response. 0 for none.
    pub(super) rseq: u32,
    /// Whether that response waits for its PRACK.
    pub(super) is_unacknowledged: bool,
    /// Whether the ACK must have the answer to an offer of this side.
    pub(super) has_offered: bool,
    /// Its session timer, if it has one.
    pub(super) refresh: Option<Box<CalleeRefresh>>,
    /// The subscription of a notifier.
    pub(super) subscription: Option<Box<Subscription>>,
    /// Whether the INVITE was received over TCP.
    pub(super) came_over_tcp: bool,
    /// Source of the INVITE and destination of its responses.
    pub(super) from: SocketAddr,
    /// Header fields of the INVITE that the responses copy, as whole lines.
    pub(super) copied: InlineText<0>,
}

/// The state of a subscription at its notifier.
#[derive(Clone, Debug)]
pub(super) struct Subscription {
    /// The subscriber's side of the dialog.
    pub(super) far: FarSide,
    /// The value of `Event`.
    pub(super) event: Box<[u8]>,
    /// When it expires.
    pub(super) until: Instant,
    /// `CSeq` of the last NOTIFY.
    pub(super) cseq: u32,
    /// Whether that NOTIFY is unanswered.
    pub(super) is_open: bool,
    /// Whether another NOTIFY must be sent when the response to that NOTIFY arrives.
    pub(super) is_due: bool,
}

// Bounds the memory of a million calls.
const _: () = assert!(size_of::<CallerCall>() < 512, "an active call takes less than 512 bytes");
const _: () = assert!(size_of::<CalleeCall>() < 512, "an active call takes less than 512 bytes");
