//! A place in the server: asked for, waited for, spent, left.

use std::net::SocketAddr;
use std::sync::{MutexGuard, PoisonError};

use netrig_core::{Duration, Instant, Rate};

use super::Shared;
use super::tally::{Failure, Protocol};
use crate::admission::{Admission, Answer, Household, Refusal, Ticket, Visitor};

/// A session may be ahead of the rate that it was let in for by so much of it, and by so many bytes: what was underway
/// through queues comes at once.
const RATE_SLACK: f64 = 1.25;
const RATE_BURST: u64 = 8 << 20;

/// Why a session is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Overrun {
    #[error("it took longer than a session may")]
    Time,
    #[error("it carried more than a session may")]
    Bytes,
    #[error("it sends faster than it was let in for")]
    Rate,
}

impl Failure for Overrun {
    fn kind(&self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Bytes => "bytes",
            Self::Rate => "rate",
        }
    }
}

/// A place, or one in the queue. It is left when this is dropped.
pub(super) struct Slot<'a> {
    shared: &'a Shared,
    protocol: Protocol,
    ticket: Ticket,
    /// When it was let in, and until when it may stay.
    span: Option<[Instant; 2]>,
    /// What it may carry in each direction.
    held_to: Option<Rate>,
    /// Bytes received and sent.
    carried: [u64; 2],
}

impl<'a> Slot<'a> {
    /// Asks for a place, which may have to be waited for.
    pub fn ask(
        shared: &'a Shared,
        protocol: Protocol,
        peer: SocketAddr,
        key: Option<String>,
        rate: Option<Rate>,
    ) -> Result<Self, Refusal> {
        let answer = shared.admission().ask(shared.clock.now(), visitor(peer, key), rate);
        match answer {
            Answer::Refused(refusal) => Err(shared.refuse(protocol, refusal)),
            Answer::Admitted(ticket) | Answer::Waits(ticket) => Ok(Self::of(shared, protocol, ticket)),
        }
    }

    /// Asks for a place for somebody who has no key and cannot be told to wait.
    pub fn ask_at_once(
        shared: &'a Shared,
        protocol: Protocol,
        peer: SocketAddr,
        rate: Option<Rate>,
    ) -> Result<Self, Refusal> {
        let answer = shared.admission().ask_at_once(shared.clock.now(), visitor(peer, None), rate);
        let ticket = answer.map_err(|refusal| shared.refuse(protocol, refusal))?;
        Ok(Self::of(shared, protocol, ticket))
    }

    fn of(shared: &'a Shared, protocol: Protocol, ticket: Ticket) -> Self {
        let mut slot = Self { shared, protocol, ticket, span: None, held_to: None, carried: [0; 2] };
        slot.is_let_in();
        slot
    }

    /// Whether it is its turn.
    pub fn is_let_in(&mut self) -> bool {
        if self.span.is_none() {
            let admission = self.shared.admission();
            let until = admission.until(self.ticket);
            let held_to = admission.held_to(self.ticket);
            drop(admission);
            if let Some(until) = until {
                (self.span, self.held_to) = (Some([self.shared.clock.now(), until]), held_to);
                self.shared.tally.let_in(self.protocol);
            }
        }
        self.span.is_some()
    }

    /// How many stand before it, and how many wait.
    pub fn place(&self) -> Option<(usize, usize)> {
        self.shared.admission().place(self.ticket)
    }

    /// What it may carry in each direction; all that the path takes if nothing was said.
    pub const fn held_to(&self) -> Option<Rate> {
        self.held_to
    }

    /// How long it may still stay.
    pub fn left(&self) -> Duration {
        self.span.map_or(Duration::ZERO, |[_, until]| until - self.shared.clock.now())
    }

    /// It has received and sent so many bytes in all.
    ///
    /// # Errors
    /// If that is more than it may, or its time is over.
    pub fn spend(&mut self, bytes: [u64; 2]) -> Result<(), Overrun> {
        let more = [0, 1].map(|which| bytes[which].saturating_sub(self.carried[which]));
        self.shared.tally.carried(self.protocol, more);
        self.carried = [0, 1].map(|which| bytes[which].max(self.carried[which]));
        let Some([begun, until]) = self.span else { return Ok(()) };
        let now = self.shared.clock.now();
        let lasted = now.since(begun);
        let most = |rate: Rate| rate.bits_per_s() as f64 / 8.0 * lasted.as_secs_f64() * RATE_SLACK;
        if now > until {
            Err(Overrun::Time)
        } else if self.carried.iter().sum::<u64>() > self.shared.limits.bytes {
            Err(Overrun::Bytes)
        } else if self.held_to.is_some_and(|rate| self.carried[0] > most(rate) as u64 + RATE_BURST) {
            Err(Overrun::Rate)
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

impl Shared {
    pub(super) fn admission(&self) -> MutexGuard<'_, Admission> {
        // A thread that panicked has left it whole: nothing in it is half done between two calls.
        self.admission.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refuse(&self, protocol: Protocol, refusal: Refusal) -> Refusal {
        self.tally.refused(protocol, refusal);
        refusal
    }
}

fn visitor(peer: SocketAddr, key: Option<String>) -> Visitor {
    Visitor { household: Household::of(peer.ip()), key }
}
