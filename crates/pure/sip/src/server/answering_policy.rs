//! The policy of an answering machine.

use std::net::SocketAddr;

use netrig_core::Duration;

use crate::Status;

/// The policy by which a machine answers calls.
#[derive(Clone, Debug)]
pub struct AnsweringPolicy {
    /// Provisional responses, by time.
    pub progress: Vec<ProgressResponse>,
    /// The final response.
    pub answer: Answer,
    /// Time from the ACK to the machine's BYE; `None` leaves the BYE to the caller.
    pub hold: Option<Duration>,
    /// Longest duration of a call from its INVITE. Then the machine hangs up, or refuses a ringing call with 480. Without a limit,
    /// a caller that disappears would keep its call for ever.
    pub longest: Duration,
    /// Provisional responses are sent reliably to callers that support it (RFC 3262).
    pub reliable: bool,
    /// Address of received media in session descriptions.
    pub media: SocketAddr,
}

/// A provisional response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgressResponse {
    /// Time after the INVITE.
    pub after: Duration,
    /// Status from 101 to 199.
    pub status: Status,
    /// The response has a session description: early media.
    pub media: bool,
}

impl ProgressResponse {
    /// A 183 with a session description, sent immediately.
    pub const fn early_media() -> Self {
        Self { after: Duration::ZERO, status: Status::SESSION_PROGRESS, media: true }
    }
}

/// The final response of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// 200 this long after the INVITE.
    Accept(Duration),
    /// This status, 300 to 699, this long after the INVITE: busy, decline.
    Refuse(Duration, Status),
    /// None: the call rings until the caller cancels it, or until the longest duration.
    Never,
}

impl AnsweringPolicy {
    /// A policy that rings and answers at once, and waits for the BYE for an hour.
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
