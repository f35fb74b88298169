//! The plain calls of a user agent that answers by itself.

use netrig_core::{Duration, Instant, Stream};

use super::super::Source;
use super::Fingerprints;
use super::request::PlainRequest;
use crate::header::Transport;
use crate::slab::{Key, Slab};
use crate::table::Table;
use crate::transaction::Timing;
use crate::wheel::Wheel;

/// What deadlines of plain calls are rounded up to.
const RESOLUTION: Duration = Duration::from_millis(1);

/// Offers whose answers are remembered. Those of one peer are mostly the same.
const MOST_ANSWERS: usize = 16;

/// Journals that are kept for the next calls.
const MOST_SPARE: usize = 1024;

/// A call of which everything was plain so far.
#[derive(Debug)]
pub(in super::super) struct PlainCall {
    /// Of its Call-ID.
    pub call_id: u128,
    /// Of the transaction of its INVITE, and that of its BYE.
    pub invite: u128,
    pub bye: u128,
    /// Of the tag of `From`.
    pub remote_tag: u128,
    /// The own tag.
    pub tag: u64,
    /// The `CSeq` of the INVITE.
    pub sequence: u32,
    pub phase: PlainPhase,
    pub began: Instant,
    /// Until when the transactions of its INVITE and its BYE last.
    pub invite_until: Instant,
    pub bye_until: Instant,
    /// What it was sent, as long as it is not over.
    pub journal: Vec<u8>,
    pub entries: [Option<JournalEntry>; 2],
}

/// A message of a journal.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct JournalEntry {
    pub at: Instant,
    pub from: Source,
    /// Where it ends in the journal, bytes.
    pub end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum PlainPhase {
    /// The 2xx waits for its ACK.
    Accepted,
    /// It was acknowledged.
    Talking,
    /// A BYE has ended it.
    Over,
}

/// The end of responses to INVITEs that were sent over one transport to one host with one offer: what stands behind what they repeat.
#[derive(Debug)]
pub(in super::super) struct PlainAnswer {
    pub transport: Transport,
    pub ip: std::net::IpAddr,
    pub offer: Box<[u8]>,
    /// Of a provisional response.
    pub ringing: Box<[u8]>,
    /// Of the 200, behind `Record-Route`.
    pub accepting: Box<[u8]>,
}

#[derive(Debug)]
pub(in super::super) struct PlainCalls {
    pub fingerprints: Fingerprints,
    calls: Slab<PlainCall>,
    /// By their Call-IDs, and by the transactions of their INVITEs.
    by_call_id: Table,
    by_invite: Table,
    wheel: Wheel,
    /// When something is due.
    next: Option<Instant>,
    timing: Timing,
    /// How long a call may last.
    longest: Duration,
    answers: Vec<PlainAnswer>,
    spare: Vec<Vec<u8>>,
    /// Transactions that last.
    pub transactions: usize,
    /// Calls that are not over.
    pub active: usize,
}

impl PlainCalls {
    pub(in super::super) fn new(timing: Timing, longest: Duration, random: &mut Stream) -> Self {
        Self {
            fingerprints: Fingerprints::new(random),
            // What they count as is bounded by who has them.
            calls: Slab::new(u32::MAX),
            // Fingerprints are places already.
            by_call_id: Table::new([0; 16]),
            by_invite: Table::new([0; 16]),
            wheel: Wheel::new(RESOLUTION),
            next: None,
            timing,
            longest,
            answers: Vec::new(),
            spare: Vec::new(),
            transactions: 0,
            active: 0,
        }
    }

    /// The call with this Call-ID.
    pub(in super::super) fn find(&self, call_id: u128) -> Option<Key> {
        let is_it = |place| self.at(place).is_some_and(|own| own.call_id == call_id);
        self.by_call_id.find(place_of(call_id), is_it).and_then(|place| self.calls.key_at(place))
    }

    /// The call whose INVITE has this transaction, as long as that lasts.
    pub(in super::super) fn find_invite(&self, now: Instant, transaction: u128) -> Option<Key> {
        let is_it =
            |place| self.at(place).is_some_and(|own| own.invite == transaction && now < own.invite_until);
        self.by_invite.find(place_of(transaction), is_it).and_then(|place| self.calls.key_at(place))
    }

    fn at(&self, place: u32) -> Option<&PlainCall> {
        self.calls.key_at(place).and_then(|key| self.calls.get(key))
    }

    pub(in super::super) fn get(&self, key: Key) -> Option<&PlainCall> {
        self.calls.get(key)
    }

    /// A call begins with this INVITE, which is accepted at once.
    pub(in super::super) fn begin(
        &mut self,
        now: Instant,
        (request, [call_id, invite]): (&PlainRequest<'_>, [u128; 2]),
        (datagram, from): (&[u8], Source),
        tag: u64,
    ) {
        let mut journal = self.spare.pop().unwrap_or_default();
        journal.extend_from_slice(datagram);
        let entry = JournalEntry { at: now, from, end: journal.len() };
        let made = self.calls.insert(|_| PlainCall {
            call_id,
            invite,
            bye: 0,
            remote_tag: self.fingerprints.of(request.from_tag),
            tag,
            sequence: request.sequence,
            phase: PlainPhase::Accepted,
            began: now,
            // Timer L.
            invite_until: now + self.timing.patience(),
            bye_until: Instant::ZERO,
            journal,
            entries: [Some(entry), None],
        });
        if let Some(key) = made {
            self.by_call_id.insert(place_of(call_id), key.index);
            self.by_invite.insert(place_of(invite), key.index);
            self.transactions += 1;
            self.active += 1;
            self.rest(key);
        }
    }

    /// Its ACK has come.
    pub(in super::super) fn acknowledge(&mut self, now: Instant, key: Key, datagram: &[u8], from: Source) {
        let Some(call) = self.calls.get_mut(key).filter(|call| call.phase == PlainPhase::Accepted) else {
            return;
        };
        call.phase = PlainPhase::Talking;
        call.journal.extend_from_slice(datagram);
        call.entries[1] = Some(JournalEntry { at: now, from, end: call.journal.len() });
        self.rest(key);
    }

    /// A BYE has come, over a transport that is `reliable` or not.
    pub(in super::super) fn end(&mut self, now: Instant, key: Key, bye: u128, reliable: bool) {
        let Some(call) = self.calls.get_mut(key) else { return };
        call.phase = PlainPhase::Over;
        call.bye = bye;
        self.active -= 1;
        if !reliable {
            // Timer J.
            call.bye_until = now + self.timing.patience();
            self.transactions += 1;
        }
        let mut journal = std::mem::take(&mut call.journal);
        if self.spare.len() < MOST_SPARE {
            journal.clear();
            self.spare.push(journal);
        }
        self.rest(key);
    }

    /// Takes a call out, to be gone on with elsewhere.
    pub(in super::super) fn take(&mut self, key: Key) -> Option<PlainCall> {
        let call = self.calls.remove(key)?;
        self.by_call_id.remove(place_of(call.call_id), key.index);
        self.by_invite.remove(place_of(call.invite), key.index);
        self.wheel.cancel(key.index);
        self.transactions -= usize::from(call.invite_until != Instant::ZERO);
        self.transactions -= usize::from(call.bye_until != Instant::ZERO);
        self.active -= usize::from(call.phase != PlainPhase::Over);
        self.next = self.wheel.next_deadline();
        Some(call)
    }

    /// Keeps when something is due of it next.
    fn rest(&mut self, key: Key) {
        let Some(call) = self.calls.get(key) else { return };
        let transactions =
            [call.invite_until, call.bye_until].into_iter().filter(|until| *until != Instant::ZERO);
        let own = match call.phase {
            PlainPhase::Accepted => call.began + self.timing.t1.min(self.longest),
            PlainPhase::Talking => call.began + self.longest,
            PlainPhase::Over => Instant::NEVER,
        };
        let next = transactions.chain([own]).min().unwrap_or(Instant::NEVER);
        self.wheel.set(key.index, next);
        self.next = self.wheel.next_deadline();
    }

    /// When something is due.
    pub(in super::super) const fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }

    /// Does what is due. A call is given that does not go on as plain ones do: nobody acknowledges it, or it lasts too long.
    pub(in super::super) fn handle_timeout(&mut self, now: Instant) -> Option<Key> {
        while let Some(index) = self.wheel.pop(now) {
            let Some(key) = self.calls.key_at(index) else { continue };
            let Some(call) = self.calls.get_mut(key) else { continue };
            for until in [&mut call.invite_until, &mut call.bye_until] {
                if *until != Instant::ZERO && *until <= now {
                    *until = Instant::ZERO;
                    self.transactions -= 1;
                }
            }
            let is_unusual = match call.phase {
                PlainPhase::Accepted => call.began + self.timing.t1.min(self.longest) <= now,
                PlainPhase::Talking => call.began + self.longest <= now,
                PlainPhase::Over => false,
            };
            let is_gone = call.phase == PlainPhase::Over
                && [call.invite_until, call.bye_until] == [Instant::ZERO, Instant::ZERO];
            if is_unusual {
                self.next = Some(now);
                return Some(key);
            } else if is_gone {
                self.take(key);
            } else {
                self.rest(key);
            }
        }
        self.next = self.wheel.next_deadline();
        None
    }

    /// The rest of the responses to such an INVITE.
    pub(in super::super) fn answer(&self, to: Source, offer: &[u8]) -> Option<&PlainAnswer> {
        self.answers
            .iter()
            .find(|own| own.transport == to.transport && own.ip == to.address.ip() && *own.offer == *offer)
    }

    /// Remembers it, in the place of the oldest.
    pub(in super::super) fn learn(&mut self, answer: PlainAnswer) {
        if self.answers.len() >= MOST_ANSWERS {
            self.answers.remove(0);
        }
        self.answers.push(answer);
    }
}

/// Where a fingerprint lies in a table.
const fn place_of(fingerprint: u128) -> u64 {
    fingerprint as u64
}

impl PlainCall {
    /// What it was sent, in its order.
    pub(in super::super) fn heard(&self) -> impl Iterator<Item = (Instant, Source, &[u8])> {
        let mut start = 0;
        self.entries.iter().flatten().map(move |entry| {
            let bytes = &self.journal[start..entry.end];
            start = entry.end;
            (entry.at, entry.from, bytes)
        })
    }
}
