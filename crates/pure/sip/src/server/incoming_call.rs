//! A call that a user agent answers by itself: its state, and that of its session timer.

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

/// A call that is not over.
#[derive(Debug)]
pub(super) struct IncomingCall {
    pub(super) key: ServerKey,
    pub(super) invite: Request,
    pub(super) began: Instant,
    /// How many of the provisional responses were sent.
    pub(super) said: usize,
    /// Its final response was sent.
    pub(super) answered: bool,
    pub(super) dialog: Dialog,
    pub(super) session: SessionState,
    pub(super) provisionals: Option<ProvisionalSender>,
    pub(super) acceptance: Option<Acceptance>,
    /// The answer to the caller's offer, or an offer of its own.
    pub(super) description: SessionDescription,
    /// A response has said it.
    pub(super) described: bool,
    /// When the caller is told again that it rings.
    pub(super) extended: Instant,
    pub(super) way_back: Option<Destination>,
    pub(super) hang_up: Option<Instant>,
    /// Until when the caller wants an answer.
    pub(super) expires: Option<Instant>,
    /// When it has lasted as long as it may.
    pub(super) end: Instant,
    pub(super) due: Option<Instant>,
    pub(super) weight: usize,
}

impl IncomingCall {
    /// Whether it was answered and acknowledged, so that it may be hung up: "the callee's UA MUST NOT send a BYE on a confirmed
    /// dialog until it has received an ACK for its 2xx response or until the server transaction times out" (RFC 3261 section 15).
    pub(super) fn is_talk(&self) -> bool {
        let outcome = self.acceptance.as_ref().and_then(Acceptance::outcome);
        self.answered && outcome.is_some()
    }

    /// Whether the offer of the INVITE, or that of this side where it has none, is answered.
    fn is_settled(&self) -> bool {
        let provisionals = self.provisionals.as_ref().filter(|_| self.described);
        if !self.invite.body.is_empty() {
            return self.answered || provisionals.is_some();
        }
        let outcome = self.acceptance.as_ref().and_then(Acceptance::outcome);
        matches!(outcome, Some(AcceptanceOutcome::Acknowledged(_)))
            || provisionals.is_some_and(|own| !own.holds_2xx_back())
    }

    /// RFC 3311 section 5.2: an offer while another waits for its answer.
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
            RequestRefusal::new(Status::SERVER_INTERNAL_ERROR, RULE, "an offer before it has no answer");
        Err(refusal.with_retry_after(random))
    }
}

/// What is kept of the session timer of a call.
#[derive(Debug, Default)]
pub(super) struct SessionState {
    /// What the 2xx is to say.
    grant: Option<TimerGrant>,
    /// From the 2xx on.
    pub(super) timer: Option<SessionTimer>,
    /// The caller takes UPDATE: RFC 4028 section 7.4 recommends it, for it needs no offer.
    pub(super) takes_update: bool,
    /// A refresh waits for its response.
    pub(super) is_asking: bool,
}

impl SessionState {
    /// Of the INVITE that begins a call.
    ///
    /// # Errors
    /// The session interval is too small.
    pub(super) fn of(invite: &Request) -> Result<Self, IntervalTooSmall> {
        let takes_update = invite.headers.has_token(&Name::Allow, Method::Update.as_str());
        Ok(Self { grant: granted(invite)?, takes_update, ..Self::default() })
    }

    /// A 2xx is sent now, and says what was granted.
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

    /// The same to a request within the dialog.
    pub(super) fn renew(&mut self, now: Instant, grant: Option<TimerGrant>, response: &mut Response) {
        self.grant = grant;
        self.accept(now, response);
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.timer.and_then(|timer| timer.poll_timeout())
    }
}

/// The answer to what a request asks of session timers.
pub(super) fn granted(request: &Request) -> Result<Option<TimerGrant>, IntervalTooSmall> {
    let headers = &request.headers;
    let asked = headers.get(&Name::SessionExpires).and_then(|value| SessionExpires::read(value.as_bytes()));
    TimerGrant::answer(asked, headers.has_token(&Name::Supported, TIMER))
}

/// 422, to a request whose session interval is too small.
pub(super) fn too_small(request: &Request) -> Response {
    let mut response = reply(request, Status::SESSION_INTERVAL_TOO_SMALL);
    response.headers.push(Name::MinSe, LEAST_INTERVAL);
    response
}
