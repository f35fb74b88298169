//! Retransmission of sent messages, and recognition of received retransmissions.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use bytes::Bytes;
use netrig_core::{Duration, Instant};

use super::ReceivedText;

/// A message that is retransmitted until it is answered.
#[derive(Clone, Debug)]
pub(super) struct Repetition {
    pub bytes: Bytes,
    pub step: usize,
    /// The method whose message ends the retransmission: `ACK` for a response, else the method in the CSeq of the
    /// response.
    pub method: String,
    pub due: Instant,
    pub pause: Duration,
    pub gives_up: Instant,
}

/// Retransmission stops after this many times its first pause (RFC 3261 section 17.1, timers B, F and H).
const PAUSES_TO_GIVING_UP: u64 = 64;

/// The first pause before the retransmission of messages that end a call (T1 of RFC 3261).
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(500);

impl Repetition {
    pub fn new(bytes: Bytes, step: usize, method: String, pause: Duration, now: Instant) -> Self {
        let gives_up = now + pause.saturating_mul(PAUSES_TO_GIVING_UP);
        Self { bytes, step, method, due: now + pause, pause, gives_up }
    }
}

/// A received message, and the answer to its retransmissions.
#[derive(Clone, Debug)]
pub(super) struct KnownMessage {
    /// Hash of the message.
    pub hash: u64,
    /// Identifies a final response, which may arrive again with other bytes (RFC 3261 section 13.2.2.4).
    pub response: Option<FinalResponse>,
    /// The step that received it.
    pub step: Option<usize>,
    pub answer: Option<Bytes>,
    /// The step that sent the answer.
    pub answered_by: Option<usize>,
}

/// Status, value of CSeq, and tag of To.
pub(super) type FinalResponse = (u16, String, Option<String>);

pub(super) fn final_response(message: &ReceivedText) -> Option<FinalResponse> {
    let status = message.status().filter(|status| *status >= 200)?;
    Some((status, message.value_of("CSeq")?.to_owned(), message.tag_of("To").map(str::to_owned)))
}

pub(super) fn hash_of(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
