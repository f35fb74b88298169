//! The plain calls of an answering machine.

use std::net::IpAddr;

use netrig_core::{Duration, Instant, Stream};

use super::SecretHasher;
use super::queue::DeadlineQueue;
use super::request::PlainRequest;
use crate::header::Transport;
use crate::server::Source;
use crate::slab::{Key, Slab};
use crate::slab_index::SlabIndex;
use crate::transaction::{BranchKey, Timing};
use crate::wheel::Wheel;

/// Resolution of the longest duration of calls.
const RESOLUTION: Duration = Duration::from_micros(100);

/// Resolution of the removal of ended transactions. No response depends on it.
const REMOVAL: Duration = Duration::from_millis(10);

/// Most response tails that are kept. The session descriptions of one peer are mostly the same.
const MOST_TAILS: usize = 16;

/// Number of plain transactions with the memory of one transaction of the strict model.
const PER_TRANSACTION: usize = 8;

/// Most empty journals that are kept for new calls.
const MOST_SPARE: usize = 1024;

/// A call with only plain messages.
#[derive(Debug)]
pub(super) struct PlainCall {
    /// Hash of the Call-ID.
    call_id: u128,
    /// Hash of the transaction of the INVITE.
    pub invite: u128,
    /// Hash of the transaction of the BYE. `None` before the BYE is received.
    pub bye: Option<u128>,
    /// Hash of the tag of `From`.
    pub remote_tag: u128,
    /// The tag of `To`, the tag of this side.
    pub tag: u64,
    /// `CSeq` of the INVITE.
    pub sequence: u32,
    pub phase: PlainPhase,
    began: Instant,
    /// End of the transaction of the INVITE (timer L). `None` after the end.
    invite_until: Option<Instant>,
    /// End of the transaction of the BYE (timer J). `None` without this transaction, and after its end.
    bye_until: Option<Instant>,
    /// The INVITE and the ACK, concatenated; empty once the call has ended.
    journal: Vec<u8>,
    entries: [Option<JournalEntry>; 2],
}

/// A message of a journal.
#[derive(Clone, Copy, Debug)]
struct JournalEntry {
    at: Instant,
    from: Source,
    /// End of the message in the journal, bytes.
    end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlainPhase {
    /// The 2xx waits for its ACK.
    Accepted,
    /// The ACK was received.
    Confirmed,
    /// A BYE was received.
    Terminated,
}

/// The end of responses to INVITEs with one offer from one host: all fields after the copied ones, and the body.
#[derive(Debug)]
pub(super) struct ResponseTail {
    pub transport: Transport,
    pub ip: IpAddr,
    pub offer: Box<[u8]>,
    /// The tail of provisional responses.
    pub provisional: Box<[u8]>,
    /// The tail of the 200.
    pub ok: Box<[u8]>,
}

/// All plain calls of a server. The owner limits their number.
#[derive(Debug)]
pub(in crate::server) struct PlainCalls {
    hasher: SecretHasher,
    pub(super) calls: Slab<PlainCall>,
    by_call_id: SlabIndex,
    by_invite: SlabIndex,
    /// Calls whose 2xx may be unacknowledged. The 2xx of the first entry is unacknowledged. Later entries may be stale.
    unconfirmed: DeadlineQueue,
    /// Ends of the transactions of INVITEs.
    invites: DeadlineQueue,
    /// Ends of the transactions of BYEs.
    byes: DeadlineQueue,
    /// The longest duration of confirmed calls. In a queue, entries of ended calls would stay until `longest` is over.
    wheel: Wheel,
    /// A lower bound for the deadlines of the wheel. After the end of a call it may be too early.
    next_longest: Option<Instant>,
    timing: Timing,
    /// Longest duration of a call.
    longest: Duration,
    tails: Vec<ResponseTail>,
    spare: Vec<Vec<u8>>,
    /// Transactions that have not ended.
    transactions: usize,
    /// Calls that have not ended.
    pub active: usize,
}

impl PlainCalls {
    pub fn new(timing: Timing, longest: Duration, random: &mut Stream) -> Self {
        Self {
            hasher: SecretHasher::new(random),
            calls: Slab::new(u32::MAX),
            // The hashes are keyed already.
            by_call_id: SlabIndex::new([0; 16]),
            by_invite: SlabIndex::new([0; 16]),
            unconfirmed: DeadlineQueue::new(timing.t1.min(longest)),
            invites: DeadlineQueue::new(timing.patience()),
            byes: DeadlineQueue::new(timing.patience()),
            wheel: Wheel::new(RESOLUTION),
            next_longest: None,
            timing,
            longest,
            tails: Vec::new(),
            spare: Vec::new(),
            transactions: 0,
            active: 0,
        }
    }

    /// The weight of all plain transactions, in transactions of the strict model.
    pub(super) const fn weight(&self) -> usize {
        self.transactions.div_ceil(PER_TRANSACTION)
    }

    /// Hash of a Call-ID or of a tag.
    pub(super) fn text_hash(&self, text: &str) -> u128 {
        self.hasher.text(text)
    }

    /// Hash of a transaction.
    pub(super) fn transaction_hash(&self, key: BranchKey<'_>) -> u128 {
        self.hasher.hash(|hasher| key.hash(hasher))
    }

    /// The call with a Call-ID of this hash.
    pub(super) fn find(&self, call_id: u128) -> Option<Key> {
        let is_it = |place| self.at(place).is_some_and(|own| own.call_id == call_id);
        self.by_call_id.find(index_hash(call_id), is_it).and_then(|place| self.calls.key_at(place))
    }

    /// The call whose INVITE has a transaction of this hash that has not ended.
    pub(super) fn find_invite(&self, now: Instant, transaction: u128) -> Option<Key> {
        let is_it =
            |place| self.at(place).is_some_and(|own| own.invite == transaction && own.keeps_invite(now));
        self.by_invite.find(index_hash(transaction), is_it).and_then(|place| self.calls.key_at(place))
    }

    fn at(&self, place: u32) -> Option<&PlainCall> {
        self.calls.key_at(place).and_then(|key| self.calls.get(key))
    }

    pub(super) fn get(&self, key: Key) -> Option<&PlainCall> {
        self.calls.get(key)
    }

    /// Inserts a call whose INVITE, with hashes of its Call-ID and of its transaction, is accepted now.
    pub(super) fn insert(
        &mut self,
        now: Instant,
        request: &PlainRequest<'_>,
        [call_id, invite]: [u128; 2],
        (datagram, from): (&[u8], Source),
        tag: u64,
    ) {
        let mut journal = self.spare.pop().unwrap_or_default();
        journal.extend_from_slice(datagram);
        let entry = JournalEntry { at: now, from, end: journal.len() };
        let remote_tag = self.text_hash(request.from_tag);
        let until = now + self.timing.patience();
        let made = self.calls.insert(|_| PlainCall {
            call_id,
            invite,
            bye: None,
            remote_tag,
            tag,
            sequence: request.sequence,
            phase: PlainPhase::Accepted,
            began: now,
            invite_until: Some(until),
            bye_until: None,
            journal,
            entries: [Some(entry), None],
        });
        if let Some(key) = made {
            self.by_call_id.insert(index_hash(call_id), key.index);
            self.by_invite.insert(index_hash(invite), key.index);
            self.transactions += 1;
            self.active += 1;
            self.unconfirmed.push(now, key);
            self.invites.push(now, key);
        }
    }

    /// Handles the ACK of a call.
    pub(super) fn confirm(&mut self, now: Instant, key: Key, datagram: &[u8], from: Source) {
        let Some(call) = self.calls.get_mut(key).filter(|call| call.phase == PlainPhase::Accepted) else {
            return;
        };
        call.phase = PlainPhase::Confirmed;
        call.journal.extend_from_slice(datagram);
        call.entries[1] = Some(JournalEntry { at: now, from, end: call.journal.len() });
        let end = call.began + self.longest;
        self.wheel.set(key.index, end);
        // A search for the earliest deadline at each change could take long, so it waits until a deadline has expired.
        self.next_longest = Some(self.next_longest.map_or(end, |own| own.min(end)));
        self.pass_confirmed();
    }

    /// Handles a BYE with a transaction of this hash, over a transport that is `reliable` or not.
    pub(super) fn terminate(&mut self, now: Instant, key: Key, bye: u128, reliable: bool) {
        let Some(call) = self.calls.get_mut(key) else { return };
        call.phase = PlainPhase::Terminated;
        call.bye = Some(bye);
        self.active -= 1;
        if !reliable {
            call.bye_until = Some(now + self.timing.patience());
            self.transactions += 1;
            self.byes.push(now, key);
        }
        let mut journal = std::mem::take(&mut call.journal);
        call.entries = [None; 2];
        if self.spare.len() < MOST_SPARE {
            journal.clear();
            self.spare.push(journal);
        }
        self.wheel.cancel(key.index);
        self.remove_ended(key);
        self.pass_confirmed();
    }

    /// Removes a call.
    pub(super) fn remove(&mut self, key: Key) -> Option<PlainCall> {
        let call = self.calls.remove(key)?;
        self.by_call_id.remove(index_hash(call.call_id), key.index);
        self.by_invite.remove(index_hash(call.invite), key.index);
        self.wheel.cancel(key.index);
        self.transactions -= [call.invite_until, call.bye_until].iter().flatten().count();
        self.active -= usize::from(call.phase != PlainPhase::Terminated);
        self.pass_confirmed();
        Some(call)
    }

    /// Clears the end of a transaction, which `until` selects, if the call still exists.
    fn end_transaction(&mut self, key: Key, until: impl FnOnce(&mut PlainCall) -> &mut Option<Instant>) {
        if let Some(call) = self.calls.get_mut(key) {
            *until(call) = None;
            self.transactions -= 1;
            self.remove_ended(key);
        }
    }

    /// Removes a call if the call and its transactions have ended.
    fn remove_ended(&mut self, key: Key) {
        let has_ended = |call: &PlainCall| {
            call.phase == PlainPhase::Terminated && [call.invite_until, call.bye_until] == [None, None]
        };
        if self.calls.get(key).is_some_and(has_ended) {
            self.remove(key);
        }
    }

    /// Removes confirmed calls from the front of `unconfirmed`.
    fn pass_confirmed(&mut self) {
        let Self { calls, unconfirmed, .. } = self;
        let is_it = |key| calls.get(key).is_some_and(|call: &PlainCall| call.phase == PlainPhase::Accepted);
        while unconfirmed.first().is_some_and(|(_, key)| !is_it(key)) {
            unconfirmed.pop();
        }
    }

    /// The earliest deadline of all calls.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let ends = [&self.invites, &self.byes].map(DeadlineQueue::first);
        let removals = ends.into_iter().flatten().map(|(at, _)| rounded_up(at));
        let unconfirmed = self.unconfirmed.first().map(|(at, _)| at);
        removals.chain(unconfirmed).chain(self.next_longest).min()
    }

    /// Handles expired deadlines. Returns a call that the strict model must continue: to retransmit a 2xx without an ACK after T1,
    /// or to hang up a call that exceeds `longest`.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> Option<Key> {
        while let Some(key) = self.invites.pop_expired(now) {
            self.end_transaction(key, |call| &mut call.invite_until);
        }
        while let Some(key) = self.byes.pop_expired(now) {
            self.end_transaction(key, |call| &mut call.bye_until);
        }
        if let Some((at, key)) = self.unconfirmed.first()
            && at <= now
        {
            return Some(key);
        }
        if self.next_longest.is_some_and(|at| at <= now) {
            let exceeding = self.wheel.pop(now).and_then(|index| self.calls.key_at(index));
            if exceeding.is_some() {
                return exceeding;
            }
            self.next_longest = self.wheel.next_deadline();
        }
        None
    }

    /// The tail of responses to INVITEs with this offer.
    pub(super) fn tail(&self, to: Source, offer: &[u8]) -> Option<&ResponseTail> {
        let mut tails = self.tails.iter();
        tails.find(|own| own.transport == to.transport && own.ip == to.address.ip() && *own.offer == *offer)
    }

    /// Keeps a tail. If there are too many, it replaces the oldest.
    pub(super) fn keep_tail(&mut self, tail: ResponseTail) {
        if self.tails.len() >= MOST_TAILS {
            self.tails.remove(0);
        }
        self.tails.push(tail);
    }
}

/// Rounds up to a multiple of [`REMOVAL`].
const fn rounded_up(at: Instant) -> Instant {
    let nanos = REMOVAL.as_nanos();
    Instant::from_nanos(at.as_nanos().div_ceil(nanos).saturating_mul(nanos))
}

/// The lower half of a hash, for an index.
const fn index_hash(hash: u128) -> u64 {
    hash as u64
}

impl PlainCall {
    /// Whether the transaction of the INVITE has not ended.
    pub(super) fn keeps_invite(&self, now: Instant) -> bool {
        self.invite_until.is_some_and(|until| now < until)
    }

    /// Whether this is the hash of the BYE's transaction, and that transaction has not ended.
    pub(super) fn keeps_bye(&self, now: Instant, transaction: u128) -> bool {
        self.bye == Some(transaction) && self.bye_until.is_some_and(|until| now < until)
    }

    /// The messages of the journal, with their times and senders.
    pub(super) fn journal(&self) -> impl Iterator<Item = (Instant, Source, &[u8])> {
        let mut start = 0;
        self.entries.iter().flatten().map(move |entry| {
            let bytes = &self.journal[start..entry.end];
            start = entry.end;
            (entry.at, entry.from, bytes)
        })
    }
}
