//! Objects that a receiver expects on a stream.

use std::collections::VecDeque;

/// Objects expected on one stream, in order. TCP and ordered SCTP streams deliver bytes in order, so the number of
/// received bytes shows when each object is complete.
#[derive(Debug)]
pub(crate) struct ObjectInbox<T> {
    expected: VecDeque<(T, u64)>,
    /// Received bytes that are not yet assigned to an expected object.
    surplus: u64,
}

impl<T> Default for ObjectInbox<T> {
    fn default() -> Self {
        Self { expected: VecDeque::new(), surplus: 0 }
    }
}

impl<T> ObjectInbox<T> {
    /// Expects an object of `size` bytes after all objects expected before.
    pub fn expect(&mut self, object: T, size: u64) {
        self.expected.push_back((object, size));
    }

    /// Adds `bytes` received bytes.
    pub fn receive(&mut self, bytes: u64) {
        self.surplus += bytes;
    }

    /// Whether bytes were received but no object is expected.
    pub fn wants_more(&self) -> bool {
        self.expected.is_empty() && self.surplus > 0
    }

    /// Removes and returns the first object if it is complete.
    pub fn complete(&mut self) -> Option<T> {
        let (_, left) = self.expected.front_mut()?;
        let taken = self.surplus.min(*left);
        *left -= taken;
        self.surplus -= taken;
        if *left > 0 {
            return None;
        }
        self.expected.pop_front().map(|(object, _)| object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_complete_in_order_whatever_the_pieces() {
        let mut inbox = ObjectInbox::default();
        inbox.receive(3);
        assert!(inbox.wants_more());
        inbox.expect('a', 2);
        inbox.expect('b', 5);
        assert_eq!(inbox.complete(), Some('a'));
        assert_eq!(inbox.complete(), None);
        inbox.receive(4);
        assert_eq!((inbox.complete(), inbox.complete()), (Some('b'), None));
    }
}
