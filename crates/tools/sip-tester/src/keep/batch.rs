//! Batches of messages that a thread of the load sends to the keeper.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};

use netrig_core::{Duration, Instant, PackedBytes, fnv1a};
use netrig_sip::header::Transport;
use netrig_sip::load::{Owner, Record, Scan, Side, Token};
use netrig_sip_net::tap::{MessageTap, PassedMessage};

/// A batch of at least this size is sent to the keeper, bytes.
const FULL: usize = 64 << 10;

/// Events of one thread in order, with the bytes of their messages.
pub(super) type Batch = PackedBytes<TapEvent>;

/// An event at a tap.
#[derive(Clone, Copy, Debug)]
pub(super) enum TapEvent {
    Message(MessageEvent),
    Ended(EndedAttempt),
}

/// A message that a thread sent or received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageEvent {
    pub at_ns: u64,
    pub is_sent: bool,
    pub local: SocketAddr,
    pub peer: SocketAddr,
    pub transport: Transport,
    /// The attempt to which the message belongs; `None` if the policy does not need it or the message does not show it.
    pub attempt: Option<AttemptKey>,
}

/// An attempt: the FNV-1a hash (64 bits) of its token, or of the Call-ID of a script's call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AttemptKey(u64);

impl AttemptKey {
    pub fn of_token(token: Token) -> Self {
        Self(fnv1a(token.digits()))
    }

    /// The key of a Call-ID. If the Call-ID contains `///`, only the part after it identifies the call.
    fn of_call_id(call_id: &[u8]) -> Self {
        let place = call_id.windows(3).rposition(|window| window == b"///").map_or(0, |place| place + 3);
        Self(fnv1a(call_id[place..].iter().copied()))
    }

    /// Whether the attempt is in a random sample of this share, 0 to 1.
    pub const fn is_sampled(self, share: f64) -> bool {
        let Self(mut hash) = self;
        hash ^= hash >> 32;
        hash = hash.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        hash ^= hash >> 29;
        (hash >> 11) as f64 / ((1_u64 << 53) as f64) < share
    }
}

/// The end of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EndedAttempt {
    pub attempt: AttemptKey,
    pub has_failed: bool,
    /// From the first request to the final response; [`Duration::MAX`] without one.
    pub answered_in: Duration,
}

/// The tap of one thread, which collects its events in batches.
pub(super) struct Collector {
    needs_attempts: bool,
    batch: Batch,
    batches: SyncSender<Batch>,
    dropped: Arc<AtomicU64>,
}

impl Collector {
    pub fn new(needs_attempts: bool, batches: SyncSender<Batch>, dropped: Arc<AtomicU64>) -> Self {
        Self { needs_attempts, batch: Batch::default(), batches, dropped }
    }
}

impl MessageTap for Collector {
    fn message(&mut self, message: &PassedMessage<'_>) {
        let PassedMessage { at_ns, is_sent, local, peer, transport, is_of_script, bytes } = *message;
        let attempt = match (self.needs_attempts, is_of_script) {
            (false, _) => None,
            (true, false) => attempt_of(bytes),
            (true, true) => Scan::of(bytes).call_id.map(AttemptKey::of_call_id),
        };
        let event = MessageEvent { at_ns, is_sent, local, peer, transport, attempt };
        self.batch.push(TapEvent::Message(event), bytes);
        if self.batch.bytes_len() >= FULL {
            self.hand_on();
        }
    }

    fn ended(&mut self, record: &Record) {
        // If the tester is both caller and callee of a call, the record of the caller's side decides.
        let is_judged = record.side != Side::Callee || record.token.owner == Owner::Callee;
        if !self.needs_attempts || !is_judged {
            return;
        }
        let stamps = &record.stamps;
        let answered_in =
            if stamps.answered == Instant::NEVER { Duration::MAX } else { stamps.answered - stamps.request };
        let (attempt, has_failed) = (AttemptKey::of_token(record.token), record.failure.is_some());
        self.batch.push(TapEvent::Ended(EndedAttempt { attempt, has_failed, answered_in }), &[]);
    }

    fn call_ended(&mut self, _: Side, call_id: &str, failure: Option<&str>, lasted: Duration) {
        let has_failed = failure.is_some();
        if self.needs_attempts {
            let attempt = AttemptKey::of_call_id(call_id.as_bytes());
            let ended = EndedAttempt { attempt, has_failed, answered_in: lasted };
            self.batch.push(TapEvent::Ended(ended), &[]);
        }
    }

    fn hand_on(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        if batch.is_empty() {
            return;
        }
        if let Err(TrySendError::Full(lost) | TrySendError::Disconnected(lost)) = self.batches.try_send(batch)
        {
            let messages = lost.iter().filter(|(event, _)| matches!(event, TapEvent::Message(_))).count();
            self.dropped.fetch_add(messages as u64, Ordering::Relaxed);
        }
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        // The load has ended, so the thread may wait for room in the channel.
        let batch = std::mem::take(&mut self.batch);
        let _ = self.batches.send(batch);
    }
}

/// The attempt to which a message belongs, from the token in its Call-ID, To tag or From tag. `None` if none of them
/// has a token of this test.
fn attempt_of(bytes: &[u8]) -> Option<AttemptKey> {
    let scan = Scan::of(bytes);
    let tags = [scan.call_id, scan.to_tag, scan.from_tag];
    tags.into_iter().flatten().find_map(Token::read).map(AttemptKey::of_token)
}
