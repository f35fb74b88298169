//! What is kept of a call while it lasts, by who calls and by who is called.

use std::net::SocketAddr;

use netrig_core::{Duration, Instant};

use super::output::{Counts, Failure, Stamps, What};
use super::text::Text;
use super::token::{Token, Wish};
use crate::deadline::{Deadline, Repetition, earliest};

/// What a caller does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// Calls, is answered, and hangs up after holding so long.
    Call {
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
}

impl Scenario {
    /// What the other side is to do for it.
    pub const fn wish(self) -> Wish {
        match self {
            Self::Busy => Wish::Refuse,
            Self::Cancel { .. } | Self::NoAnswer { .. } => Wish::Ring,
            Self::Call { .. } | Self::Redirect | Self::Options | Self::Message => Wish::Answer,
        }
    }

    /// What its record says that was done.
    pub const fn what(self) -> What {
        match self {
            Self::Call { .. } => What::Call,
            Self::Cancel { .. } => What::Cancel,
            Self::Busy => What::Busy,
            Self::NoAnswer { .. } => What::NoAnswer,
            Self::Redirect => What::Redirect,
            Self::Options => What::Options,
            Self::Message => What::Message,
        }
    }
}

/// How far a caller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// INVITE sent, nothing heard.
    Calling,
    /// A provisional response has come.
    Proceeding,
    /// CANCEL sent.
    Cancelling,
    /// A 2xx has come and is acknowledged.
    Holding,
    /// BYE sent.
    Ending,
    /// OPTIONS or MESSAGE sent.
    Asking,
    /// Another final response has come: it is acknowledged as often as it comes again, for the time of timer D.
    Refused,
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
    pub(super) counts: Counts,
    pub(super) clock: Clock,
    pub(super) stamps: Stamps,
    /// The other side's tag, in its whole `To`.
    pub(super) remote: Text<78>,
    /// Where the other side is found.
    pub(super) target: Text<46>,
    /// The route set, as lines.
    pub(super) routes: Text<78>,
    /// The credentials of the last request, as a line.
    pub(super) authorization: Option<Box<[u8]>>,
    /// Where requests within the dialog go.
    pub(super) next_hop: SocketAddr,
}

/// How far one who is called is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answering {
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

/// A call of one who is called.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// What names it in the record: the caller's, or its own.
    pub(super) token: Token,
    pub(super) phase: Answering,
    pub(super) failure: Option<Failure>,
    pub(super) wish: Wish,
    /// The last final response.
    pub(super) status: u16,
    /// Of the INVITE.
    pub(super) cseq: u32,
    pub(super) counts: Counts,
    pub(super) clock: Clock,
    pub(super) stamps: Stamps,
    /// Of the Call-ID.
    pub(super) hash: u64,
    pub(super) call_id: Text<62>,
    /// Where the INVITE has come from and its responses go.
    pub(super) from: SocketAddr,
    /// What its responses repeat of it, as lines.
    pub(super) copied: Text<0>,
}

// What a million of them may take.
const _: () = assert!(size_of::<Call>() < 512, "an active call takes less than 512 bytes");
const _: () = assert!(size_of::<Answer>() < 512, "an active call takes less than 512 bytes");
