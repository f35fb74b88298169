//! How a user agent that answers calls by itself behaves.

use std::net::SocketAddr;

use netrig_core::Duration;

use crate::Status;

/// How a machine behaves.
#[derive(Clone, Debug)]
pub struct AnsweringPolicy {
    /// What it says before its answer, in the order of their times.
    pub progress: Vec<ProgressResponse>,
    /// How it answers.
    pub answer: Answer,
    /// How long after the ACK it hangs up; `None` leaves that to the caller.
    pub hold: Option<Duration>,
    /// How long a call may last, from its INVITE: then it hangs up or, if it rings still, refuses with 480. A caller that is gone
    /// without a word would keep its call for ever.
    pub longest: Duration,
    /// Whether provisional responses are sent reliably to who supports it (RFC 3262).
    pub reliable: bool,
    /// Where it receives media; session descriptions say so.
    pub media: SocketAddr,
}

/// A provisional response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgressResponse {
    /// So long after the INVITE.
    pub after: Duration,
    /// 101 to 199.
    pub status: Status,
    /// With a session description: early media.
    pub media: bool,
}

impl ProgressResponse {
    /// At once, with a session description: 183.
    pub const fn early_media() -> Self {
        Self { after: Duration::ZERO, status: Status::SESSION_PROGRESS, media: true }
    }
}

/// How a machine answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// With 200 so long after the INVITE.
    Accept(Duration),
    /// With this, 300 to 699, so long after the INVITE: busy, decline.
    Refuse(Duration, Status),
    /// Not at all: it rings until the caller gives up, or for as long as a call may last.
    Never,
}

impl AnsweringPolicy {
    /// It rings at once, answers at once, and waits an hour for the BYE.
    pub fn new(media: SocketAddr) -> Self {
        Self {
            progress: vec![ProgressResponse { after: Duration::ZERO, status: Status::RINGING, media: false }],
            answer: Answer::Accept(Duration::ZERO),
            hold: None,
            longest: Duration::from_secs(3600),
            reliable: false,
            media,
        }
    }

    /// Whether the user agent sends all responses as soon as an INVITE arrives.
    pub(super) fn answers_at_once(&self) -> bool {
        let is_at_once = |own: &ProgressResponse| own.after == Duration::ZERO && !own.media;
        self.answer == Answer::Accept(Duration::ZERO)
            && self.progress.iter().all(is_at_once)
            && self.hold.is_none()
            && !self.longest.is_zero()
            && !self.reliable
    }
}
