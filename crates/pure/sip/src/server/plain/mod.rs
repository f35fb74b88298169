//! The fast path of a user agent server: it answers INVITE, ACK and BYE of the usual form from their bytes.
//!
//! A [`PlainRequest`](request::PlainRequest) is read in its receive buffer, and the response is written from its bytes. The server
//! keeps the received messages of a plain call in a journal. If a message of the call is not plain, or if a timer expires, the
//! strict model replays the journal and continues the call ([`AnsweringMachine::give_up_plain`](super::AnsweringMachine)). The fast
//! path has four rules: an INVITE is accepted at once, a retransmitted INVITE is absorbed, an ACK belongs to its INVITE, and a BYE
//! ends the call.
//!
//! A test compares all responses with those of the strict model, byte for byte. They differ in two cases. The response to a
//! retransmitted BYE is made from the retransmission, not from the first BYE. The two are the same unless the peer
//! breaks RFC 3261 section 17.1.2. And more calls have room, because eight plain transactions count as one.

mod answering;
#[cfg(test)]
mod answering_tests;
mod calls;
mod queue;
mod request;

use std::hash::{DefaultHasher, Hasher as _};

use netrig_core::{PackedBytes, Stream};

pub(super) use calls::PlainCalls;

use super::Source;
use crate::message::push_status_line;
use crate::{Method, Status};

/// Keyed 128-bit hashes. Texts with equal hashes are considered equal. Without the key a peer cannot construct a collision.
#[derive(Debug)]
struct SecretHasher([DefaultHasher; 2]);

impl SecretHasher {
    fn new(random: &mut Stream) -> Self {
        Self([(); 2].map(|()| {
            let mut hasher = DefaultHasher::new();
            hasher.write_u64(random.bits());
            hasher.write_u64(random.bits());
            hasher
        }))
    }

    /// The hash of the bytes that `write` writes.
    fn hash(&self, write: impl Fn(&mut DefaultHasher)) -> u128 {
        let [high, low] = [&self.0[0], &self.0[1]].map(|keyed| {
            let mut hasher = keyed.clone();
            write(&mut hasher);
            u128::from(hasher.finish())
        });
        high << 64 | low
    }

    fn text(&self, text: &str) -> u128 {
        self.hash(|hasher| hasher.write(text.as_bytes()))
    }
}

/// Description of a plain request that was handled.
#[derive(Clone, Copy, Debug)]
pub struct PlainRequestInfo<'a> {
    /// The method.
    pub method: &'static Method,
    /// The tag of `To`, if it has one, and the Call-ID.
    pub dialog: Option<(&'a str, &'a str)>,
}

/// Responses to a plain request. After [`PlainResponses::clear`] the memory is reused.
#[derive(Debug, Default)]
pub struct PlainResponses {
    responses: PackedBytes<(Source, Status)>,
    /// The tag of `To` and the Call-ID of all responses, concatenated.
    dialog: String,
    tag_len: usize,
}

/// One of the responses to a plain request.
#[derive(Clone, Copy, Debug)]
pub struct PlainResponse<'a> {
    /// Its destination.
    pub to: Source,
    /// Its status.
    pub status: Status,
    /// The whole message.
    pub bytes: &'a [u8],
}

impl PlainResponses {
    /// The responses in their order.
    pub fn iter(&self) -> impl Iterator<Item = PlainResponse<'_>> {
        self.responses.iter().map(|((to, status), bytes)| PlainResponse { to: *to, status: *status, bytes })
    }

    /// The tag of `To` and the Call-ID of all responses.
    pub fn dialog(&self) -> (&str, &str) {
        self.dialog.split_at(self.tag_len)
    }

    fn set_dialog(&mut self, tag: &[u8; 16], call_id: &str) {
        self.dialog.clear();
        // The tag has only digits.
        self.dialog.push_str(std::str::from_utf8(tag).unwrap_or_default());
        self.tag_len = self.dialog.len();
        self.dialog.push_str(call_id);
    }

    /// Removes all responses.
    pub fn clear(&mut self) {
        self.responses.clear();
    }

    /// Adds a response. `write` appends its bytes after the status line.
    fn push(&mut self, to: Source, status: Status, write: impl FnOnce(&mut Vec<u8>)) {
        self.responses.push_with((to, status), |buffer| {
            push_status_line(status, status.reason(), buffer);
            write(buffer);
        });
    }
}
