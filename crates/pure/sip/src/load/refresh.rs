//! The session timer of a call, and requests that refresh the session (RFC 4028).

use std::net::SocketAddr;

use netrig_core::{Duration, Instant};

use super::scan::{Field, Scan};
use crate::deadline::{Deadline, Repetition, earliest};
use crate::dialog::{IntervalTooSmall, SessionExpires, SessionTimer, TimerGrant};
use crate::digits::decimal;

/// Delay of a refresh while another request of the dialog is pending.
pub(super) const LATER: Duration = Duration::from_secs(1);

/// The session timer that the response to a request grants.
pub(super) fn granted(scan: &Scan<'_>) -> Result<Option<TimerGrant>, IntervalTooSmall> {
    let asked = scan.session_expires.and_then(SessionExpires::read);
    TimerGrant::answer(asked, asked.is_some() && scan.lists(Field::Supported, b"timer"))
}

/// `Min-SE` of a 422, s.
pub(super) fn least_interval(scan: &Scan<'_>) -> Option<u32> {
    let value = scan.all(Field::MinSe).next()?;
    decimal(value.split(|byte| *byte == b';').next()?.trim_ascii())
}

/// The session timer of an answered call, and its refresh requests.
#[derive(Clone, Debug)]
pub(super) struct Refresh {
    pub(super) timer: SessionTimer,
    /// Whether refreshes are UPDATEs, because the other side supports UPDATE. RFC 4028 section 7.4 recommends it,
    /// because it needs no offer.
    pub(super) by_update: bool,
    /// `CSeq` of the pending refresh. 0 for none.
    pub(super) cseq: u32,
    /// `CSeq` of the last refresh.
    pub(super) last: u32,
    /// Whether the last refresh went over TCP because of its length.
    pub(super) is_over_tcp: bool,
    /// Timer A or E of the pending refresh.
    pub(super) again: Repetition,
    /// Timer B or F of the pending refresh.
    pub(super) end: Deadline,
}

impl Refresh {
    pub(super) fn new(timer: SessionTimer, by_update: bool) -> Self {
        let (again, end) = (Repetition::default(), Deadline::default());
        Self { timer, by_update, cseq: 0, last: 0, is_over_tcp: false, again, end }
    }

    /// Notes a pending refresh.
    pub(super) fn ask(&mut self, cseq: u32, again: Repetition, end: Deadline) {
        (self.cseq, self.last, self.again, self.end) = (cseq, cseq, again, end);
        self.is_over_tcp = false;
    }

    /// Notes that the refresh went over TCP because of its length: it is not retransmitted.
    pub(super) fn has_gone_over_tcp(&mut self) {
        self.is_over_tcp = true;
        self.again.stop();
    }

    /// Notes the response to the pending refresh.
    pub(super) fn settle(&mut self) {
        self.cseq = 0;
        self.again.stop();
        self.end.stop();
    }

    /// Whether an INVITE of this side is pending.
    pub(super) const fn is_inviting(&self) -> bool {
        self.cseq != 0 && !self.by_update
    }

    pub(super) fn next(&self) -> Option<Instant> {
        earliest([self.timer.poll_timeout(), self.again.at(), self.end.at()])
    }
}

/// The session timer of a call at its caller, and the 2xx to an INVITE of the callee.
#[derive(Clone, Debug)]
pub(super) struct CallerRefresh {
    pub(super) own: Refresh,
    pub(super) answered: Option<RefreshAnswer>,
}

/// A 2xx to an INVITE of the other side, which is retransmitted until its ACK (RFC 3261 section 13.3.1.4).
#[derive(Clone, Debug)]
pub(super) struct RefreshAnswer {
    pub(super) cseq: u32,
    pub(super) to: SocketAddr,
    pub(super) message: Box<[u8]>,
    pub(super) again: Repetition,
    pub(super) end: Deadline,
}

impl CallerRefresh {
    pub(super) fn next(&self) -> Option<Instant> {
        let answered = self.answered.iter().flat_map(|answered| [answered.again.at(), answered.end.at()]);
        answered.chain([self.own.next()]).flatten().min()
    }
}

/// The session timer of a call at its callee.
#[derive(Clone, Debug)]
pub(super) struct CalleeRefresh {
    /// The granted session timer, as the 2xx has it.
    pub(super) grant: TimerGrant,
    /// The session timer of this side. `None` before the 2xx is sent.
    pub(super) own: Option<Refresh>,
    /// Whether the other side supports UPDATE.
    pub(super) takes_update: bool,
    pub(super) far: FarSide,
    /// `CSeq` of the last request of this side.
    pub(super) cseq: u32,
    /// Whether a BYE of this side is pending.
    pub(super) is_ending: bool,
}

/// The other side of a dialog, for requests of the callee.
#[derive(Clone, Debug)]
pub(super) struct FarSide {
    /// `To`: the caller with its tag.
    pub(super) remote: Box<[u8]>,
    /// `From`: the callee with its own tag.
    pub(super) local: Box<[u8]>,
    /// The remote target.
    pub(super) target: Box<[u8]>,
    /// The route set, as whole lines.
    pub(super) routes: Box<[u8]>,
    pub(super) next_hop: SocketAddr,
}
