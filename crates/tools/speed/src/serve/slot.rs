//! The admission of a session and its budget.

use std::net::SocketAddr;

use netrig_bulk::Bucket;
use netrig_core::{Duration, Instant, Rate};

use super::shared::ServerShared;
use super::tally::{ClientProtocol, ServiceFailure};
use crate::admission::{AdmissionAnswer, AdmissionClient, AdmissionRefusal, Household, Ticket};
use crate::protocol::LONGEST_INTERVAL;

/// Tolerance of the admitted rate, as a factor and in bytes. It is needed because a queue on the path may deliver its
/// data in a burst, and because all data between two readings count at the time of the second reading.
const RATE_SLACK: f64 = 1.25;
const RATE_BURST: u64 = 8 << 20;

/// The part of the budget that a session exceeded. The server then ends the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BudgetExceeded {
    #[error("the session exceeded its time limit")]
    Time,
    #[error("the session exceeded its limit of bytes")]
    Bytes,
    #[error("the client sends faster than its admitted rate")]
    Rate,
}

impl ServiceFailure for BudgetExceeded {
    fn kind(&self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Bytes => "bytes",
            Self::Rate => "rate",
        }
    }
}

/// An admitted or a waiting session. Its slot becomes free when this value is dropped.
pub(super) struct Slot<'a> {
    shared: &'a ServerShared,
    protocol: ClientProtocol,
    ticket: Ticket,
    /// The latest end of the session, once admitted.
    until: Option<Instant>,
    /// The rate limit in each direction, and the token bucket that checks it for received data. `None` means unlimited.
    held_to: Option<Rate>,
    bucket: Option<Bucket>,
    /// Bytes received and sent.
    carried: [u64; 2],
}

impl<'a> Slot<'a> {
    /// Requests admission. The session may have to wait.
    pub fn ask(
        shared: &'a ServerShared,
        protocol: ClientProtocol,
        peer: SocketAddr,
        key: Option<String>,
        rate: Option<Rate>,
    ) -> Result<Self, AdmissionRefusal> {
        let answer = shared.admission().ask(shared.clock.now(), client(peer, key), rate);
        match answer {
            AdmissionAnswer::Refused(refusal) => Err(shared.refuse(protocol, refusal)),
            AdmissionAnswer::Admitted(ticket) | AdmissionAnswer::Waits(ticket) => {
                Ok(Self::of(shared, protocol, ticket))
            }
        }
    }

    /// Requests admission for a client without a key whose protocol cannot wait.
    pub fn ask_at_once(
        shared: &'a ServerShared,
        protocol: ClientProtocol,
        peer: SocketAddr,
        rate: Option<Rate>,
    ) -> Result<Self, AdmissionRefusal> {
        let answer = shared.admission().ask_at_once(shared.clock.now(), client(peer, None), rate);
        let ticket = answer.map_err(|refusal| shared.refuse(protocol, refusal))?;
        Ok(Self::of(shared, protocol, ticket))
    }

    fn of(shared: &'a ServerShared, protocol: ClientProtocol, ticket: Ticket) -> Self {
        let (until, held_to, bucket) = (None, None, None);
        let mut slot = Self { shared, protocol, ticket, until, held_to, bucket, carried: [0; 2] };
        slot.is_admitted();
        slot
    }

    /// Whether the session is admitted. Checks whether its turn has come in the meantime.
    pub fn is_admitted(&mut self) -> bool {
        if self.until.is_none() {
            let admission = self.shared.admission();
            self.until = admission.until(self.ticket);
            self.held_to = admission.held_to(self.ticket);
            drop(admission);
            if self.until.is_some() {
                let now = self.shared.clock.now();
                self.bucket = self.held_to.map(|rate| bucket(now, rate));
                self.shared.tally.admitted(self.protocol);
            }
        }
        self.until.is_some()
    }

    /// Number of sessions before this one in the queue, and length of the queue. `None` if the session does not wait.
    pub fn place(&self) -> Option<(usize, usize)> {
        self.shared.admission().place(self.ticket)
    }

    /// The rate limit in each direction. `None` means unlimited.
    pub const fn held_to(&self) -> Option<Rate> {
        self.held_to
    }

    /// Remaining time of the session.
    pub fn left(&self) -> Duration {
        self.until.map_or(Duration::ZERO, |until| until - self.shared.clock.now())
    }

    /// Updates the total number of bytes received and sent, and checks the budget.
    ///
    /// # Errors
    /// If the session has exceeded its bytes, its rate or its time.
    pub fn spend(&mut self, bytes: [u64; 2]) -> Result<(), BudgetExceeded> {
        let more = [0, 1].map(|which| bytes[which].saturating_sub(self.carried[which]));
        self.shared.tally.carried(self.protocol, more);
        self.carried = [0, 1].map(|which| bytes[which].max(self.carried[which]));
        let Some(until) = self.until else { return Ok(()) };
        let now = self.shared.clock.now();
        let received = self.carried[0];
        if now > until {
            Err(BudgetExceeded::Time)
        } else if self.carried.iter().sum::<u64>() > self.shared.limits.max_size.bytes() {
            Err(BudgetExceeded::Bytes)
        } else if self.bucket.as_mut().is_some_and(|bucket| bucket.left(now, received) < 0.0) {
            Err(BudgetExceeded::Rate)
        } else {
            Ok(())
        }
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.shared.admission().leave(self.shared.clock.now(), self.ticket);
    }
}

/// The token bucket that checks the rate limit of a session.
fn bucket(now: Instant, rate: Rate) -> Bucket {
    Bucket::new(now, rate.bits_per_s() as f64 / 8.0 * RATE_SLACK, RATE_BURST, LONGEST_INTERVAL)
}

fn client(peer: SocketAddr, key: Option<String>) -> AdmissionClient {
    AdmissionClient { household: Household::of(peer.ip()), key }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sender at its rate never exceeds the budget, also after a silent minute. A sender at ten times its rate
    /// exceeds it, even if it was silent for a minute before.
    #[test]
    fn who_rests_may_not_make_up_for_it() {
        const EACH: u64 = 12_500_000;
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let (begin, mut carried) = (bucket(at(0), Rate::from_bits_per_s(100_000_000)), 0);
        let mut steady = begin;
        for second in (1..60).chain(120..180) {
            carried += EACH;
            // The bucket is also checked between readings.
            for ms in (0..=1000).step_by(5) {
                assert!(steady.left(at(1000 * second + ms), carried) >= 0.0, "{second}");
            }
        }
        let mut rested = begin;
        assert!(rested.left(at(60_000), 0) >= 0.0);
        assert!(rested.left(at(61_000), 10 * EACH) < 0.0);
    }
}
