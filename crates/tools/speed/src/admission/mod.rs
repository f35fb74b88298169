//! Who may measure now, who waits, and who is turned away.
//!
//! A server that serves everybody at once measures itself. [`Admission`] lets in as many as its [`AdmissionLimits`] allow, keeps the
//! others in the order in which they came, tells each its place, and forgets whoever leaves. It knows no socket and asks no
//! clock; its memory is bounded by the limits, whoever asks.

mod visitor;

use std::collections::VecDeque;

use netrig_core::{Duration, Instant, Rate};
use serde::{Deserialize, Serialize};

pub use visitor::{HOUSEHOLDS_OF_A_SITE, Household, Site, Visitor};

/// What a server allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdmissionLimits {
    /// Sessions that measure at the same time, at least 1.
    pub sessions: usize,
    /// Sessions that wait, beside those that measure.
    pub queue: usize,
    /// Sessions of one [`Household`] that measure at the same time, at least 1.
    pub per_household: usize,
    /// Sessions of one household that wait.
    pub queue_per_household: usize,
    /// Sessions with one key that measure at the same time; as many as there may be if not given.
    pub per_key: Option<usize>,
    /// What all sessions together may carry in one direction: who says how much it needs waits until there is room, and who
    /// does not say is taken to need an equal part.
    pub rate: Option<Rate>,
    /// How long a session may take from when it was let in.
    pub lasts: Duration,
    /// What a session may carry in all, bytes of both directions.
    pub bytes: u64,
}

impl Default for AdmissionLimits {
    /// For a server on its own line: few at once, since each changes what the others measure.
    fn default() -> Self {
        Self {
            sessions: 4,
            queue: 64,
            per_household: 1,
            queue_per_household: 4,
            per_key: None,
            rate: None,
            lasts: Duration::from_secs(120),
            bytes: 1_000_000_000_000,
        }
    }
}

/// What names a session at its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// What somebody who asks is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionAnswer {
    /// It may begin.
    Admitted(Ticket),
    /// It waits until it is told [until when](Admission::until) it may stay.
    Waits(Ticket),
    /// It is turned away.
    Refused(AdmissionRefusal),
}

/// Why somebody is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdmissionRefusal {
    /// As many wait as may.
    #[error("the server is full, and as many wait as may; try again in a minute")]
    Full,
    /// Of this household as many wait as may.
    #[error(
        "as many sessions from your address are served or wait as may; end one of them, or try again when it is over"
    )]
    TooManyFromThere,
    /// It would have to wait, which cannot be told by what it speaks.
    #[error("the server is busy, and those who speak this protocol do not wait; try again in a minute")]
    Busy,
    /// It asks for more than the server ever gives.
    #[error("the server never gives so much: ask for a lower rate")]
    TooMuch,
}

impl AdmissionRefusal {
    /// In a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::TooManyFromThere => "address",
            Self::Busy => "busy",
            Self::TooMuch => "rate",
        }
    }
}

/// Whether one more of a household is not too many beside others, where so many may be of one, and so many times that of its site.
pub fn fits(household: Household, others: impl Iterator<Item = Household>, most: usize) -> bool {
    let (mut own, mut near) = (0, 0);
    for other in others {
        own += usize::from(other == household);
        near += usize::from(other.site() == household.site());
    }
    own < most && near < most.saturating_mul(HOUSEHOLDS_OF_A_SITE)
}

/// Lets sessions in.
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
    visitor: Visitor,
    /// Bits per second in its busier direction.
    needs: Rate,
    /// It was let in for that, and no more.
    is_held: bool,
    /// When it must be over, once it was let in.
    until: Instant,
}

impl Admission {
    /// Lets in what `limits` allow.
    pub fn new(limits: AdmissionLimits) -> Self {
        let [sessions, per_household] = [limits.sessions, limits.per_household].map(|count| count.max(1));
        let limits = AdmissionLimits { sessions, per_household, ..limits };
        Self { limits, next: 0, served: Vec::new(), waiting: VecDeque::new() }
    }

    /// Somebody asks to measure, with a rate that it will not exceed if it knows one.
    pub fn ask(&mut self, now: Instant, visitor: Visitor, rate: Option<Rate>) -> AdmissionAnswer {
        let needs = rate.unwrap_or_else(|| self.equal_part());
        if self.limits.rate.is_some_and(|most| needs > most) {
            return AdmissionAnswer::Refused(AdmissionRefusal::TooMuch);
        }
        let ticket = Ticket(self.next);
        let is_held = rate.is_some() || self.limits.rate.is_some();
        let session = AdmittedSession { ticket, visitor, needs, is_held, until: Instant::NEVER };
        // Nobody overtakes those who wait, but for those who wait for their own household or key only.
        let blocked = self.waiting.iter().any(|other| self.has_room_of_its_own(other));
        if !blocked && self.has_room_of_its_own(&session) && self.has_room(&session) {
            self.next += 1;
            self.serve(now, session);
            return AdmissionAnswer::Admitted(ticket);
        }
        let waiting = self.waiting.iter().map(|other| other.visitor.household);
        if !fits(session.visitor.household, waiting, self.limits.queue_per_household) {
            return AdmissionAnswer::Refused(AdmissionRefusal::TooManyFromThere);
        }
        if self.waiting.len() >= self.limits.queue {
            return AdmissionAnswer::Refused(AdmissionRefusal::Full);
        }
        self.next += 1;
        self.waiting.push_back(session);
        AdmissionAnswer::Waits(ticket)
    }

    /// A session is over, or whoever waited has gone.
    pub fn leave(&mut self, now: Instant, ticket: Ticket) {
        self.served.retain(|session| session.ticket != ticket);
        self.waiting.retain(|session| session.ticket != ticket);
        self.let_in(now);
    }

    /// How many stand before it, and how many wait in all; nothing if it does not wait. Stale after the next call of
    /// [`ask`](Self::ask) or [`leave`](Self::leave).
    pub fn place(&self, ticket: Ticket) -> Option<(usize, usize)> {
        let before = self.waiting.iter().position(|session| session.ticket == ticket)?;
        Some((before, self.waiting.len()))
    }

    /// When a session that was let in must be over; nothing of one that waits. Stale after the next call of
    /// [`leave`](Self::leave).
    pub fn until(&self, ticket: Ticket) -> Option<Instant> {
        self.served.iter().find(|session| session.ticket == ticket).map(|session| session.until)
    }

    /// What a session that was let in may carry in each direction; all that the path takes if nothing was said.
    pub fn held_to(&self, ticket: Ticket) -> Option<Rate> {
        let session = self.served.iter().find(|session| session.ticket == ticket)?;
        session.is_held.then_some(session.needs)
    }

    /// The same as [`ask`](Self::ask) for somebody who cannot be told to wait.
    ///
    /// # Errors
    /// If it is not let in at once.
    pub fn ask_at_once(
        &mut self,
        now: Instant,
        visitor: Visitor,
        rate: Option<Rate>,
    ) -> Result<Ticket, AdmissionRefusal> {
        match self.ask(now, visitor, rate) {
            AdmissionAnswer::Admitted(ticket) => Ok(ticket),
            AdmissionAnswer::Refused(refusal) => Err(refusal),
            AdmissionAnswer::Waits(ticket) => {
                self.leave(now, ticket);
                Err(AdmissionRefusal::Busy)
            }
        }
    }

    /// Sessions that measure, and that wait.
    pub fn tally(&self) -> (usize, usize) {
        (self.served.len(), self.waiting.len())
    }

    fn let_in(&mut self, now: Instant) {
        while let Some(at) = self.waiting.iter().position(|session| self.has_room_of_its_own(session)) {
            if !self.has_room(&self.waiting[at]) {
                break;
            }
            let Some(session) = self.waiting.remove(at) else { break };
            self.serve(now, session);
        }
    }

    fn serve(&mut self, now: Instant, session: AdmittedSession) {
        self.served.push(AdmittedSession { until: now + self.limits.lasts, ..session });
    }

    /// Whether it would be one of not too many of its household and of its key.
    fn has_room_of_its_own(&self, session: &AdmittedSession) -> bool {
        let served = self.served.iter().map(|other| other.visitor.household);
        let key = session.visitor.key.as_ref();
        let keyed = self.served.iter().filter(|other| other.visitor.key.as_ref() == key).count();
        fits(session.visitor.household, served, self.limits.per_household)
            && (key.is_none() || self.limits.per_key.is_none_or(|most| keyed < most))
    }

    /// Whether there is room for it beside all others.
    fn has_room(&self, session: &AdmittedSession) -> bool {
        // What somebody asks for is any number.
        let needs = self.served.iter().map(|other| other.needs.bits_per_s());
        let all = needs.fold(session.needs.bits_per_s(), u64::saturating_add);
        let fits = |most: Rate| all <= most.bits_per_s();
        self.served.len() < self.limits.sessions && self.limits.rate.is_none_or(fits)
    }

    /// What somebody is taken to need who does not say.
    fn equal_part(&self) -> Rate {
        let all = self.limits.rate.map_or(0, Rate::bits_per_s);
        Rate::from_bits_per_s(all / self.limits.sessions.max(1) as u64)
    }
}

#[cfg(test)]
mod tests;
