//! The messages that load a path.

use super::frame::{self, Opcode};

/// Length of the first message, bytes.
const FIRST: u64 = 1 << 13;

/// Length of the longest, bytes: what M-Lab's own ends agreed on, though 2²⁴ are allowed.
const LONGEST: u64 = 1 << 20;

/// A message is as long as a sixteenth of what was sent before it.
const SHARE: u64 = 16;

/// A message that loads the path: what stands before it, and how many bytes of whatever follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadMessage {
    /// The frame's head.
    pub head: Vec<u8>,
    /// Bytes of the message.
    pub len: u64,
    /// What a client's bytes are masked with, beginning with the first: zeros become this, over and over.
    pub key: Option<[u8; 4]>,
}

/// How long messages become: short ones at first, so that slow paths are measured too, and longer ones on fast paths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loading {
    len: u64,
    /// Bytes of all messages but the last.
    sent: u64,
    /// Bytes of the last one.
    last: u64,
}

impl Loading {
    pub const fn new() -> Self {
        Self { len: FIRST, sent: 0, last: 0 }
    }

    /// The next message. The one before it has been sent.
    pub fn next(&mut self, key: Option<[u8; 4]>) -> LoadMessage {
        self.sent += self.last;
        if self.len < LONGEST && self.len <= self.sent / SHARE {
            self.len *= 2;
        }
        self.last = self.len;
        LoadMessage { head: frame::head(Opcode::Binary, self.len, key), len: self.len, key }
    }

    /// Bytes of all messages that are known to have been sent.
    pub const fn sent(&self) -> u64 {
        self.sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_become_longer_as_more_is_sent() {
        let mut loading = Loading::new();
        let lens: Vec<_> = (0..40).map(|_| loading.next(None).len).collect();
        assert!(lens[..16].iter().all(|len| *len == FIRST), "{lens:?}");
        assert_eq!((lens[16], lens[24], lens[32]), (2 * FIRST, 4 * FIRST, 8 * FIRST));
        assert_eq!(loading.sent(), lens[..39].iter().sum::<u64>());
        let longest = std::iter::repeat_with(|| loading.next(None).len).take(1000).last();
        assert_eq!(longest, Some(LONGEST));
    }
}
