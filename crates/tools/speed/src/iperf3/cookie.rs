//! The cookie, which is the first message on each connection and assigns the connection to a test.

use std::fmt;

/// Length of a cookie on the wire, bytes: 36 characters and a NUL.
pub const COOKIE_LEN: usize = 37;

const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// A random value that a client chooses for each test and sends first on each connection of the test.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cookie([u8; COOKIE_LEN - 1]);

impl Cookie {
    /// Creates a cookie from random bytes. Five bits of each byte are used.
    pub fn new(random: [u8; COOKIE_LEN - 1]) -> Self {
        Self(random.map(|byte| ALPHABET[usize::from(byte) % ALPHABET.len()]))
    }

    /// The cookie at the start of these bytes, if there is one.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (letters, rest) = bytes.split_first_chunk()?;
        (Self::may_begin(letters) && rest.first() == Some(&0)).then_some(Self(*letters))
    }

    /// Whether these bytes can be the start of a cookie.
    pub fn may_begin(bytes: &[u8]) -> bool {
        let (letters, end) = bytes.split_at(bytes.len().min(COOKIE_LEN - 1));
        letters.iter().all(|byte| ALPHABET.contains(byte)) && end.first().is_none_or(|end| *end == 0)
    }

    /// The bytes of the cookie on the wire.
    pub fn bytes(&self) -> [u8; COOKIE_LEN] {
        let mut bytes = [0; COOKIE_LEN];
        bytes[..COOKIE_LEN - 1].copy_from_slice(&self.0);
        bytes
    }
}

impl fmt::Display for Cookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{}", char::from(*byte)))
    }
}

impl fmt::Debug for Cookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cookie({self})")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_iperf3_sends_is_a_cookie() {
        let bytes = b"d57xwezucxw5jsnf3diwjkllriowrey32cp4\0";
        let cookie = Cookie::read(bytes).unwrap();
        assert_eq!(cookie.bytes(), *bytes);
        assert_eq!(cookie.to_string(), "d57xwezucxw5jsnf3diwjkllriowrey32cp4");
        for len in 0..bytes.len() {
            assert!(Cookie::may_begin(&bytes[..len]) && Cookie::read(&bytes[..len]).is_none(), "{len}");
        }
        assert_eq!(Cookie::read(b"d57xwezucxw5jsnf3diwjkllriowrey32cp4\0\t"), Some(cookie));
    }

    #[test]
    fn other_protocols_are_told_at_their_first_byte() {
        for other in [&b"\x16"[..], b"GET ", b"OPTIONS ", b"0", b"\0", b"netrig-"] {
            assert!(!Cookie::may_begin(other), "{other:?}");
        }
        assert!(!Cookie::may_begin(&[b'a'; COOKIE_LEN]));
    }

    proptest! {
        #[test]
        fn any_cookie_is_read_as_it_was_written(random in any::<[u8; COOKIE_LEN - 1]>()) {
            let cookie = Cookie::new(random);
            prop_assert_eq!(Cookie::read(&cookie.bytes()), Some(cookie));
        }
    }
}
