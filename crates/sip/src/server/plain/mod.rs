//! The usual way of a server: requests that are written as most are, answered without a model of them.
//!
//! A [`PlainRequest`] is read where it stands, and its response is written from its own bytes. What a server keeps of a plain call
//! is what it has been sent: as soon as something comes that is not plain, the strict model is handed all of that with its times,
//! and goes on ([`AnsweringMachine::give_up_plain`](super::AnsweringMachine)). So the plain way knows only what happens when nothing
//! is unusual, and both give the same responses, byte for byte.

mod answering;
#[cfg(test)]
mod answering_tests;
mod calls;
mod request;

use std::hash::{DefaultHasher, Hasher as _};

use netrig_core::Stream;

pub(super) use answering::are_plain;
pub(super) use calls::PlainCalls;

use super::Source;

/// Texts as 128 bits that nobody finds another text for who does not know the secret, and that are taken for the text.
#[derive(Debug)]
pub(super) struct Fingerprints([DefaultHasher; 2]);

impl Fingerprints {
    pub(super) fn new(random: &mut Stream) -> Self {
        Self([(); 2].map(|()| {
            let mut hasher = DefaultHasher::new();
            hasher.write_u64(random.bits());
            hasher.write_u64(random.bits());
            hasher
        }))
    }

    pub(super) fn of(&self, text: &str) -> u128 {
        self.hash(|hasher| hasher.write(text.as_bytes()))
    }

    /// Of a text without its case, and of a few bytes.
    pub(super) fn of_folded(&self, text: &str, more: &[u8]) -> u128 {
        self.hash(|hasher| {
            hasher.write(more);
            for piece in text.as_bytes().chunks(32) {
                let mut folded = [0; 32];
                folded[..piece.len()].copy_from_slice(piece);
                folded.make_ascii_lowercase();
                hasher.write(&folded[..piece.len()]);
            }
        })
    }

    fn hash(&self, write: impl Fn(&mut DefaultHasher)) -> u128 {
        let [high, low] = [&self.0[0], &self.0[1]].map(|secret| {
            let mut hasher = secret.clone();
            write(&mut hasher);
            u128::from(hasher.finish())
        });
        high << 64 | low
    }
}

/// Responses to a plain request. Cleared and used again, it allocates nothing.
#[derive(Debug, Default)]
pub struct PlainReplies {
    bytes: Vec<u8>,
    replies: Vec<Place>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    end: usize,
    to: Source,
    status: u16,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct PlainReply<'a> {
    /// Where it goes.
    pub to: Source,
    /// Its status code.
    pub status: u16,
    /// All of it.
    pub bytes: &'a [u8],
}

impl PlainReplies {
    /// In their order.
    pub fn iter(&self) -> impl Iterator<Item = PlainReply<'_>> {
        let starts = std::iter::once(0).chain(self.replies.iter().map(|place| place.end));
        starts.zip(&self.replies).map(|(start, place)| PlainReply {
            to: place.to,
            status: place.status,
            bytes: &self.bytes[start..place.end],
        })
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.replies.clear();
    }

    /// One more, of what `write` puts behind the others.
    fn push(&mut self, to: Source, status: u16, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.replies.push(Place { end: self.bytes.len(), to, status });
    }
}
