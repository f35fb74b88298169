//! Decides when a SACK is sent (RFC 9260 section 6.2).

use netrig_core::Instant;

use crate::sctp::config::Config;

/// Counts packets with DATA for which no SACK has been sent.
#[derive(Debug)]
pub(crate) struct Acknowledger {
    /// Number of packets with DATA since the last SACK.
    waiting: u32,
    /// Whether a SACK must be sent now.
    due: bool,
    deadline: Instant,
    /// The path for the SACK: the path of the last DATA. RFC 9260 section 6.4 does not specify it.
    to: usize,
    first: bool,
}

impl Acknowledger {
    pub(crate) const fn new() -> Self {
        Self { waiting: 0, due: false, deadline: Instant::NEVER, to: 0, first: true }
    }

    /// Records a received packet with DATA. `at_once` is true if a TSN is or was missing or is a duplicate, or if the
    /// sender requested a SACK.
    pub(crate) fn packet(&mut self, now: Instant, from: usize, at_once: bool, config: &Config) {
        self.to = from;
        self.waiting += 1;
        let first = std::mem::take(&mut self.first) && config.first_sack_at_once;
        if at_once || first || !config.delayed_sack || self.waiting >= config.sack_frequency {
            self.due = true;
        } else if self.waiting == 1 {
            self.deadline = config.timer_wheel.fires(now, config.sack_delay);
        }
    }

    /// Delays a SACK that is due, because another packet replies to the received one.
    pub(crate) fn postpone(&mut self, now: Instant, config: &Config) {
        if std::mem::take(&mut self.due) && self.deadline == Instant::NEVER {
            self.deadline = config.timer_wheel.fires(now, config.sack_delay);
        }
    }

    /// Makes a SACK due, because the user has read enough for the peer to send again.
    pub(crate) const fn window_opened(&mut self) {
        self.due = true;
    }

    pub(crate) const fn timer_expired(&mut self) {
        self.due = true;
        self.deadline = Instant::NEVER;
    }

    pub(crate) const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The path of a SACK that must be sent now. `None` if no SACK is due.
    pub(crate) const fn due(&self) -> Option<usize> {
        if self.due { Some(self.to) } else { None }
    }

    /// Whether a packet over `path` should include a SACK (RFC 9260 section 6.1: "the sender
    /// SHOULD create a SACK chunk and bundle it with the outbound DATA chunk").
    pub(crate) fn useful_on(&self, path: usize) -> bool {
        self.waiting > 0 && self.to == path
    }

    pub(crate) const fn sent(&mut self) {
        self.waiting = 0;
        self.due = false;
        self.deadline = Instant::NEVER;
    }
}
