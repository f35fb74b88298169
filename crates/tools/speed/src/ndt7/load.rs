//! Load messages.

use super::frame::{self, Opcode};

/// Length of the first message, bytes.
const FIRST: u64 = 1 << 13;

/// Maximum length of a message, bytes. M-Lab's own implementations use the same, although 2²⁴ are allowed.
const LONGEST: u64 = 1 << 20;

/// The length is doubled when it is at most the number of bytes sent before, divided by this number.
const SHARE: u64 = 16;

/// A load message: its head, and the number of payload bytes that follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadMessage {
    /// The head of the frame.
    pub head: Vec<u8>,
    /// Length of the payload, bytes.
    pub len: u64,
}

/// Determines the lengths of load messages. They are short at first, so that slow paths are measured too, and become
/// longer on fast paths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loading {
    len: u64,
    /// Number of bytes of all messages before the last one.
    sent: u64,
    /// Number of bytes of the last message.
    last: u64,
}

impl Loading {
    pub const fn new() -> Self {
        Self { len: FIRST, sent: 0, last: 0 }
    }

    /// The next message. The previous one must have been sent.
    pub fn next(&mut self) -> LoadMessage {
        self.sent += self.last;
        if self.len < LONGEST && self.len <= self.sent / SHARE {
            self.len *= 2;
        }
        self.last = self.len;
        LoadMessage { head: frame::head(Opcode::Binary, self.len, None), len: self.len }
    }

    /// Number of bytes of all messages that have been sent completely.
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
        let lens: Vec<_> = (0..40).map(|_| loading.next().len).collect();
        assert!(lens[..16].iter().all(|len| *len == FIRST), "{lens:?}");
        assert_eq!((lens[16], lens[24], lens[32]), (2 * FIRST, 4 * FIRST, 8 * FIRST));
        assert_eq!(loading.sent(), lens[..39].iter().sum::<u64>());
        let longest = std::iter::repeat_with(|| loading.next().len).take(1000).last();
        assert_eq!(longest, Some(LONGEST));
    }
}
