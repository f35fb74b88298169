//! A call of an answering machine, and the state of its session timer.

use netrig_core::{Instant, Stream};

use super::Destination;
use super::reply::reply;
use crate::dialog::{
    Acceptance, AcceptanceOutcome, Dialog, IntervalTooSmall, LEAST_INTERVAL, ProvisionalSender, RELIABLE,
    Refresher, RequestRefusal, SessionExpires, SessionTimer, TIMER, TimerGrant,
};
use crate::sdp::SessionDescription;
use crate::transaction::ServerKey;
use crate::{Method, Name, Request, Response, Status};

/// A call that has not ended.
#[derive(Debug)]
pub(super) struct IncomingCall {
    pub(super) key: ServerKey,
    pub(super) invite: Request,
    pub(super) began: Instant,
    /// Number of provisional responses of the policy that were sent.
    pub(super) progress_sent: usize,
    /// The final response was sent.
    pub(super) answered: bool,
    pub(super) dialog: Dialog,
    pub(super) session: SessionState,
    pub(super) provisionals: Option<ProvisionalSender>,
    pub(super) acceptance: Option<Acceptance>,
    /// The answer to the caller's offer, or the offer of this side.
    pub(super) description: SessionDescription,
    /// A response with the description was sent.
    pub(super) described: bool,
    /// Time of the next provisional response that extends the INVITE transaction of proxies.
    pub(super) extended: Instant,
    pub(super) way_back: Option<Destination>,
    pub(super) hang_up: Option<Instant>,
    /// End of the invitation by `Expires`.
    pub(super) expires: Option<Instant>,
    /// Time at which the call reaches its longest duration.
    pub(super) end: Instant,
    pub(super) due: Option<Instant>,
    pub(super) weight: usize,
}

impl IncomingCall {
    /// Whether the machine may send a BYE: "the callee's UA MUST NOT send a BYE on a confirmed
    /// dialog until it has received an ACK for its 2xx response or until the server transaction times out" (RFC 3261 section 15).
    pub(super) fn is_talk(&self) -> bool {
        let outcome = self.acceptance.as_ref().and_then(Acceptance::outcome);
        self.answered && outcome.is_some()
    }

    /// Whether the first offer has an answer: the offer of the INVITE, or the offer of this side if the INVITE has
    /// none.
    fn is_settled(&self) -> bool {
        let provisionals = self.provisionals.as_ref().filter(|_| self.described);
        if !self.invite.body.is_empty() {
            return self.answered || provisionals.is_some();
        }
        let outcome = self.acceptance.as_ref().and_then(Acceptance::outcome);
        matches!(outcome, Some(AcceptanceOutcome::Acknowledged(_)))
            || provisionals.is_some_and(|own| !own.holds_2xx_back())
    }

    /// Refuses an offer while another one has no answer (RFC 3311 section 5.2).
    pub(super) fn refuse_crossing_offer(&self, random: &mut Stream) -> Result<(), RequestRefusal> {
        const RULE: &str = "RFC 3311 section 5.2";
        if self.is_settled() {
            return Ok(());
        }
        if self.invite.body.is_empty() {
            return Err(RequestRefusal::new(
                Status::REQUEST_PENDING,
                RULE,
                "an offer of this side has no answer",
            ));
        }
        let refusal =
            RequestRefusal::new(Status::SERVER_INTERNAL_ERROR, RULE, "an earlier offer has no answer");
        Err(refusal.with_retry_after(random))
    }
}

/// The session timer of a call.
#[derive(Debug, Default)]
pub(super) struct SessionState {
    /// The grant for the next 2xx.
    grant: Option<TimerGrant>,
    /// The timer, once a 2xx was sent.
    pub(super) timer: Option<SessionTimer>,
    /// The caller supports UPDATE, which RFC 4028 section 7.4 recommends, because it needs no offer.
    pub(super) takes_update: bool,
    /// A refresh has no final response yet.
    pub(super) is_refreshing: bool,
}

impl SessionState {
    /// The state after the INVITE of a call.
    ///
    /// # Errors
    /// The session interval is too small.
    pub(super) fn of(invite: &Request) -> Result<Self, IntervalTooSmall> {
        let takes_update = invite.headers.has_token(&Name::Allow, Method::Update.as_str());
        Ok(Self { grant: granted(invite)?, takes_update, ..Self::default() })
    }

    /// Starts the timer, and adds the grant to a 2xx that is sent now.
    pub(super) fn accept(&mut self, now: Instant, response: &mut Response) {
        response.headers.push(Name::Supported, format!("{RELIABLE}, {TIMER}"));
        self.timer = self.grant.map(|grant| {
            if grant.is_required {
                response.headers.push(Name::Require, TIMER);
            }
            response.headers.push(Name::SessionExpires, grant.expires());
            SessionTimer::new(now, grant.interval, grant.refresher == Refresher::Uas)
        });
    }

    /// Starts the timer again with a new grant, for a 2xx to a request within the dialog.
    pub(super) fn renew(&mut self, now: Instant, grant: Option<TimerGrant>, response: &mut Response) {
        self.grant = grant;
        self.accept(now, response);
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.timer.and_then(|timer| timer.poll_timeout())
    }
}

/// The grant for the session timer of a request.
pub(super) fn granted(request: &Request) -> Result<Option<TimerGrant>, IntervalTooSmall> {
    let headers = &request.headers;
    let requested =
        headers.get(&Name::SessionExpires).and_then(|value| SessionExpires::read(value.as_bytes()));
    TimerGrant::answer(requested, headers.has_token(&Name::Supported, TIMER))
}

/// A 422 to a request whose session interval is too small.
pub(super) fn too_small(request: &Request) -> Response {
    let mut response = reply(request, Status::SESSION_INTERVAL_TOO_SMALL);
    response.headers.push(Name::MinSe, LEAST_INTERVAL);
    response
}
