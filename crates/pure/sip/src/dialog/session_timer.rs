//! Session timers (RFC 4028): the lifetime of a session without a refresh, and the side that refreshes it.
//!
//! A request that begins or refreshes a session asks for a timer with `Session-Expires`. The 2xx grants the timer
//! ([`TimerGrant::answer`]). Then each side has a [`SessionTimer`].

use std::fmt;

use netrig_core::{Duration, Instant, named};

use crate::deadline::{Deadline, earliest};
use crate::digits::decimal;

/// Shortest session interval, s (RFC 4028 section 4).
pub const LEAST_INTERVAL: u32 = 90;

/// The option tag of session timers (RFC 4028 section 3).
pub const TIMER: &str = "timer";

/// A session that is not refreshed is ended this long before the end of its interval. If a third of the interval is
/// shorter, that third is used instead (RFC 4028 section 10).
const MARGIN: Duration = Duration::from_secs(32);

named! {
    /// The side that sends the next refresh, relative to the request that begins or refreshes the session.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Refresher {
        /// The side that sends the request.
        Uac = "uac",
        /// The side that answers it.
        Uas = "uas",
    }
}

impl Refresher {
    fn named(text: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|own| text.eq_ignore_ascii_case(own.name().as_bytes()))
    }
}

/// `Session-Expires: 1800;refresher=uac` (RFC 4028 section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionExpires {
    /// The session interval, s.
    pub interval: u32,
    /// `None` leaves the choice to the side that answers.
    pub refresher: Option<Refresher>,
}

impl SessionExpires {
    /// Reads a value, which may be folded. Returns `None` if the interval is not a number below 2^32.
    pub fn read(value: &[u8]) -> Option<Self> {
        let mut parts = value.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let interval = decimal(parts.next()?)?;
        let refresher = parts.find_map(|part| {
            let (name, value) = part.split_at(memchr::memchr(b'=', part)?);
            let is_refresher = name.trim_ascii().eq_ignore_ascii_case(b"refresher");
            Refresher::named(value[1..].trim_ascii()).filter(|_| is_refresher)
        });
        Some(Self { interval, refresher })
    }
}

impl fmt::Display for SessionExpires {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.interval)?;
        self.refresher.map_or(Ok(()), |refresher| write!(f, ";refresher={}", refresher.name()))
    }
}

/// A request asks for an interval below [`LEAST_INTERVAL`]. It is refused with 422 and `Min-SE` (RFC 4028 section 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the session interval is below {LEAST_INTERVAL} s (RFC 4028 section 4)")]
pub struct IntervalTooSmall;

/// The session timer that a 2xx grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerGrant {
    /// The session interval, s.
    pub interval: u32,
    /// The side that refreshes.
    pub refresher: Refresher,
    /// The 2xx has `Require: timer`, because the other side supports session timers.
    pub is_required: bool,
}

impl TimerGrant {
    /// The grant for a request that asks for a timer (RFC 4028 section 9, table 2). `is_supported` means that its sender supports
    /// session timers (`Supported: timer`). The interval is granted unchanged. If the choice is left to this side, the other side
    /// refreshes. Without a `Session-Expires` there is no timer. If a proxy added the field and the sender does not
    /// support session timers, too small an interval gives no timer instead of an error.
    ///
    /// # Errors
    /// The interval is too small.
    pub fn answer(
        requested: Option<SessionExpires>,
        is_supported: bool,
    ) -> Result<Option<Self>, IntervalTooSmall> {
        let Some(SessionExpires { interval, refresher }) = requested else { return Ok(None) };
        if interval < LEAST_INTERVAL {
            return if is_supported { Err(IntervalTooSmall) } else { Ok(None) };
        }
        let refresher = if is_supported { refresher.unwrap_or(Refresher::Uac) } else { Refresher::Uas };
        Ok(Some(Self { interval, refresher, is_required: is_supported }))
    }

    /// `Session-Expires` of the 2xx.
    pub const fn expires(&self) -> SessionExpires {
        SessionExpires { interval: self.interval, refresher: Some(self.refresher) }
    }

    /// The header fields of the 2xx, as lines.
    pub fn lines(&self) -> String {
        let require = if self.is_required { "Require: timer\r\n" } else { "" };
        format!("{require}Session-Expires: {}\r\n", self.expires())
    }
}

/// A session timer event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerEvent {
    /// This side must refresh the session.
    Refresh,
    /// The session was not refreshed: this side must end it by BYE.
    Expired,
}

/// One side's session timer, since the last 2xx that granted it.
#[derive(Clone, Copy, Debug)]
pub struct SessionTimer {
    /// The session interval, s.
    interval: u32,
    /// This side refreshes.
    is_own: bool,
    refresh: Deadline,
    expiry: Deadline,
}

impl SessionTimer {
    /// The timer of a 2xx that is sent or received now, with an interval in s. If `is_own`, this side refreshes after half of the
    /// interval.
    pub fn new(now: Instant, interval: u32, is_own: bool) -> Self {
        let whole = Duration::from_secs(interval.into());
        let [half, third] = [2, 3].map(|part| Duration::from_nanos(whole.as_nanos() / part));
        let refresh = if is_own { Deadline::after(now, half) } else { Deadline::default() };
        Self { interval, is_own, refresh, expiry: Deadline::after(now, whole - third.min(MARGIN)) }
    }

    /// The session interval, s.
    pub const fn interval(&self) -> u32 {
        self.interval
    }

    /// Sets the interval of the next refresh, s, as a 422 requires.
    pub const fn lengthen(&mut self, interval: u32) {
        self.interval = interval;
    }

    /// Whether this side refreshes.
    pub const fn is_own(&self) -> bool {
        self.is_own
    }

    /// `Session-Expires` of this side's next refresh. The refresher stays the same (RFC 4028 section 7.4).
    pub const fn expires(&self) -> SessionExpires {
        let refresher = if self.is_own { Refresher::Uac } else { Refresher::Uas };
        SessionExpires { interval: self.interval, refresher: Some(refresher) }
    }

    /// Postpones the refresh by `pause`, because the refresh is impossible now or was refused.
    pub fn postpone(&mut self, now: Instant, pause: Duration) {
        self.refresh = Deadline::after(now, pause);
    }

    /// The time of the next call of [`SessionTimer::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        earliest([self.refresh.at(), self.expiry.at()])
    }

    /// Handles expired deadlines, and returns the event.
    pub fn handle_timeout(&mut self, now: Instant) -> Option<TimerEvent> {
        if self.expiry.has_come(now) {
            return Some(TimerEvent::Expired);
        }
        self.refresh.has_come(now).then_some(TimerEvent::Refresh)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UAC: Option<Refresher> = Some(Refresher::Uac);
    const UAS: Option<Refresher> = Some(Refresher::Uas);

    #[test]
    fn a_session_interval_is_read_with_its_refresher() {
        let read =
            |text: &str| SessionExpires::read(text.as_bytes()).map(|own| (own.interval, own.refresher));
        for (text, expected) in [
            ("1800", Some((1800, None))),
            ("90;refresher=uas", Some((90, UAS))),
            ("90 ;x;y=uac;\r\n\tRefresher = UAC ;z", Some((90, UAC))),
            ("90;refresher=both", Some((90, None))),
            ("4294967296", None),
            ("-1", None),
            ("", None),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        assert_eq!(SessionExpires { interval: 90, refresher: UAS }.to_string(), "90;refresher=uas");
    }

    /// RFC 4028 section 9, table 2.
    #[test]
    fn a_session_timer_is_granted_as_the_table_says() {
        for (supports, requested, granted) in [
            (false, None, Refresher::Uas),
            (true, None, Refresher::Uac),
            (true, UAC, Refresher::Uac),
            (true, UAS, Refresher::Uas),
        ] {
            let requested = SessionExpires { interval: 90, refresher: requested };
            let grant = TimerGrant::answer(Some(requested), supports).unwrap().unwrap();
            assert_eq!((grant.interval, grant.refresher, grant.is_required), (90, granted, supports));
        }
        let brief = Some(SessionExpires { interval: 89, refresher: None });
        assert_eq!(TimerGrant::answer(brief, true), Err(IntervalTooSmall));
        assert_eq!(TimerGrant::answer(brief, false), Ok(None));
        assert_eq!(TimerGrant::answer(None, true), Ok(None));
    }

    /// RFC 4028 section 10: the refresh after half of the interval, the BYE 32 s or a third before the end.
    #[test]
    fn a_session_is_refreshed_at_half_time_and_ended_before_its_time() {
        let at = |seconds: u64| Instant::ZERO + Duration::from_secs(seconds);
        for (interval, refresh, end) in [(90, 45, 60), (1800, 900, 1768)] {
            let mut own = SessionTimer::new(at(0), interval, true);
            assert_eq!(own.poll_timeout(), Some(at(refresh)));
            assert_eq!(own.handle_timeout(at(refresh)), Some(TimerEvent::Refresh));
            assert_eq!((own.handle_timeout(at(refresh)), own.poll_timeout()), (None, Some(at(end))));
            assert_eq!(own.handle_timeout(at(end)), Some(TimerEvent::Expired));
            let other = SessionTimer::new(at(0), interval, false);
            assert_eq!(other.poll_timeout(), Some(at(end)));
        }
        let longest = SessionTimer::new(at(0), u32::MAX, true);
        assert!(longest.poll_timeout() > Some(at(1 << 30)));
    }
}
