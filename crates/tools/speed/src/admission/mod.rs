//! Admission control: decides which sessions measure now, which wait, and which are refused.
//!
//! If a server served all clients at the same time, they would measure the server and not their paths. [`Admission`]
//! admits as many sessions as its [`AdmissionLimits`] allow and keeps the others in a queue in the order of arrival. It
//! uses neither sockets nor a clock. The limits bound its memory.

mod client;

use std::collections::VecDeque;

use netrig_core::setting::{AboveZero, AtLeastOne};
use netrig_core::{Duration, Instant, Rate, Size, settings};
use serde::{Deserialize, Serialize};

pub use client::{AdmissionClient, HOUSEHOLDS_OF_A_SITE, Household, Site};

/// Heading of the limits in help texts.
const LIMITS: &str = "Limits";

settings! {
    /// The limits of a server on the sessions that it admits. An address of IPv6 stands for its /64 ([`Household`]). The
    /// defaults are those of a server on its own line. They admit few sessions at the same time, because each affects
    /// the results of the others.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct AdmissionLimits with defaults {
        /// Sessions that measure at the same time.
        sessions: usize as AtLeastOne { heading: LIMITS } = 4;
        /// Sessions that may wait for their turn.
        queue: usize { heading: LIMITS } = 64;
        /// Sessions of one address (of IPv6: of one /64) that measure at the same time.
        per_address: usize as AtLeastOne { heading: LIMITS } = 1;
        /// Sessions of one address that may wait for their turn.
        queue_per_address: usize { heading: LIMITS } = 4;
        /// Sessions with one key that measure at the same time. By default, no limit per key.
        per_key: Option<usize> as AtLeastOne { heading: LIMITS };
        /// Rate of all sessions together in one direction; a session that does not state its rate is limited to an equal share.
        max_rate: Option<Rate> as AboveZero { heading: LIMITS };
        /// Longest duration of a session.
        max_time: Duration as AboveZero { heading: LIMITS } = Duration::from_secs(120);
        /// Bytes that a session may carry in both directions together.
        max_size: Size as AboveZero { heading: LIMITS } = Size::from_bytes(1_000_000_000_000);
    }
}

/// Identifies a session at its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// The answer to a request for admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionAnswer {
    /// The session may begin.
    Admitted(Ticket),
    /// The session waits. It may begin when [`Admission::until`] returns `Some`.
    Waits(Ticket),
    /// The session is refused.
    Refused(AdmissionRefusal),
}

/// Why a session is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdmissionRefusal {
    /// The queue is full.
    #[error("the server is full, and so is its queue; try again in a minute")]
    Full,
    /// The queue has no room for another session of this household.
    #[error(
        "the limit of sessions from your address is reached; end one of them, or try again when it has ended"
    )]
    TooManyFromThere,
    /// The session would have to wait, and its protocol has no message for that.
    #[error("the server is busy, and this protocol has no queue; try again in a minute")]
    Busy,
    /// The requested rate is above the limit of the server.
    #[error("the rate exceeds the limit of the server: request a lower rate")]
    TooMuch,
}

impl AdmissionRefusal {
    /// Short name of the reason in the server's counters.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::TooManyFromThere => "address",
            Self::Busy => "busy",
            Self::TooMuch => "rate",
        }
    }
}

/// Whether one more session of `household` is within the limits, in addition to the sessions `others`. `most` is the
/// limit of one household. The limit of a site is `most` times [`HOUSEHOLDS_OF_A_SITE`].
pub fn fits(household: Household, others: impl Iterator<Item = Household>, most: usize) -> bool {
    let (mut own, mut near) = (0, 0);
    for other in others {
        own += usize::from(other == household);
        near += usize::from(other.site() == household.site());
    }
    own < most && near < most.saturating_mul(HOUSEHOLDS_OF_A_SITE)
}

/// The admission control of a server.
#[derive(Debug)]
pub struct Admission {
    limits: AdmissionLimits,
    next: u64,
    served: Vec<AdmittedSession>,
    waiting: VecDeque<AdmittedSession>,
}

#[derive(Clone, Debug)]
struct AdmittedSession {
    ticket: Ticket,
    client: AdmissionClient,
    /// The requested or assumed rate of the session, in the direction with the higher rate.
    needs: Rate,
    /// Whether the session is limited to that rate.
    is_held: bool,
    /// The latest end of the session. [`Instant::NEVER`] until it is admitted.
    until: Instant,
}

impl Admission {
    /// Admission control with these limits. `sessions` and `per_address` are raised to at least 1.
    pub fn new(limits: AdmissionLimits) -> Self {
        let [sessions, per_address] = [limits.sessions, limits.per_address].map(|count| count.max(1));
        let limits = AdmissionLimits { sessions, per_address, ..limits };
        Self { limits, next: 0, served: Vec::new(), waiting: VecDeque::new() }
    }

    /// Requests admission. `rate` is the rate that the session will not exceed, if known.
    pub fn ask(&mut self, now: Instant, client: AdmissionClient, rate: Option<Rate>) -> AdmissionAnswer {
        let needs = rate.unwrap_or_else(|| self.equal_part());
        if self.limits.max_rate.is_some_and(|most| needs > most) {
            return AdmissionAnswer::Refused(AdmissionRefusal::TooMuch);
        }
        let ticket = Ticket(self.next);
        let is_held = rate.is_some() || self.limits.max_rate.is_some();
        let session = AdmittedSession { ticket, client, needs, is_held, until: Instant::NEVER };
        // The queue is first in, first out. Sessions that wait only for their own household or key do not block others.
        let blocked = self.waiting.iter().any(|other| self.has_room_of_its_own(other));
        if !blocked && self.has_room_of_its_own(&session) && self.has_room(&session) {
            self.next += 1;
            self.serve(now, session);
            return AdmissionAnswer::Admitted(ticket);
        }
        let waiting = self.waiting.iter().map(|other| other.client.household);
        if !fits(session.client.household, waiting, self.limits.queue_per_address) {
            return AdmissionAnswer::Refused(AdmissionRefusal::TooManyFromThere);
        }
        if self.waiting.len() >= self.limits.queue {
            return AdmissionAnswer::Refused(AdmissionRefusal::Full);
        }
        self.next += 1;
        self.waiting.push_back(session);
        AdmissionAnswer::Waits(ticket)
    }

    /// Removes a session that has ended or has stopped waiting.
    pub fn leave(&mut self, now: Instant, ticket: Ticket) {
        self.served.retain(|session| session.ticket != ticket);
        self.waiting.retain(|session| session.ticket != ticket);
        self.admit_waiting(now);
    }

    /// The number of sessions before this one in the queue, and the length of the queue. `None` if the session does not
    /// wait. The values are valid until the next call of [`ask`](Self::ask) or [`leave`](Self::leave).
    pub fn place(&self, ticket: Ticket) -> Option<(usize, usize)> {
        let before = self.waiting.iter().position(|session| session.ticket == ticket)?;
        Some((before, self.waiting.len()))
    }

    /// The latest end of an admitted session. `None` if the session waits. The value is valid until the next call of
    /// [`leave`](Self::leave).
    pub fn until(&self, ticket: Ticket) -> Option<Instant> {
        self.served.iter().find(|session| session.ticket == ticket).map(|session| session.until)
    }

    /// The highest rate of an admitted session in each direction. `None` means unlimited.
    pub fn held_to(&self, ticket: Ticket) -> Option<Rate> {
        let session = self.served.iter().find(|session| session.ticket == ticket)?;
        session.is_held.then_some(session.needs)
    }

    /// Requests admission like [`ask`](Self::ask) for a session whose protocol cannot wait.
    ///
    /// # Errors
    /// If the session is not admitted immediately.
    pub fn ask_at_once(
        &mut self,
        now: Instant,
        client: AdmissionClient,
        rate: Option<Rate>,
    ) -> Result<Ticket, AdmissionRefusal> {
        match self.ask(now, client, rate) {
            AdmissionAnswer::Admitted(ticket) => Ok(ticket),
            AdmissionAnswer::Refused(refusal) => Err(refusal),
            AdmissionAnswer::Waits(ticket) => {
                self.leave(now, ticket);
                Err(AdmissionRefusal::Busy)
            }
        }
    }

    /// The number of sessions that measure, and the number of sessions that wait.
    pub fn tally(&self) -> (usize, usize) {
        (self.served.len(), self.waiting.len())
    }

    fn admit_waiting(&mut self, now: Instant) {
        while let Some(at) = self.waiting.iter().position(|session| self.has_room_of_its_own(session)) {
            if !self.has_room(&self.waiting[at]) {
                break;
            }
            let Some(session) = self.waiting.remove(at) else { break };
            self.serve(now, session);
        }
    }

    fn serve(&mut self, now: Instant, session: AdmittedSession) {
        self.served.push(AdmittedSession { until: now + self.limits.max_time, ..session });
    }

    /// Whether the limits of the session's household and of its key have room for it.
    fn has_room_of_its_own(&self, session: &AdmittedSession) -> bool {
        let served = self.served.iter().map(|other| other.client.household);
        let key = session.client.key.as_ref();
        let keyed = self.served.iter().filter(|other| other.client.key.as_ref() == key).count();
        fits(session.client.household, served, self.limits.per_address)
            && (key.is_none() || self.limits.per_key.is_none_or(|most| keyed < most))
    }

    /// Whether the limits of the server have room for the session.
    fn has_room(&self, session: &AdmittedSession) -> bool {
        // The requested rate may be any number, so the sum saturates.
        let needs = self.served.iter().map(|other| other.needs.bits_per_s());
        let all = needs.fold(session.needs.bits_per_s(), u64::saturating_add);
        let fits = |most: Rate| all <= most.bits_per_s();
        self.served.len() < self.limits.sessions && self.limits.max_rate.is_none_or(fits)
    }

    /// The rate that is assumed for a session that states no rate.
    fn equal_part(&self) -> Rate {
        let all = self.limits.max_rate.map_or(0, Rate::bits_per_s);
        Rate::from_bits_per_s(all / self.limits.sessions.max(1) as u64)
    }
}

#[cfg(test)]
mod tests;
