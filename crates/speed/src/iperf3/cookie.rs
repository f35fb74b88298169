//! The cookie: what a connection begins with, and what tells to which test it belongs.

use std::fmt;

/// Bytes of a cookie on the wire: 36 characters and a NUL.
pub const COOKIE_LEN: usize = 37;

const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// What a client draws for each test, and sends first on each of its connections.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cookie([u8; COOKIE_LEN - 1]);

/// What the first bytes of a connection may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// They are a cookie; what follows it is not.
    Cookie(Cookie),
    /// They may become one.
    Unfinished,
    /// They are something else.
    Other,
}

impl Cookie {
    /// Of random bytes, five bits of each.
    pub fn new(random: [u8; COOKIE_LEN - 1]) -> Self {
        Self(random.map(|byte| ALPHABET[usize::from(byte) % ALPHABET.len()]))
    }

    /// Whether a connection that begins with these bytes is one of iperf3's.
    pub fn open(bytes: &[u8]) -> Opening {
        let letters = &bytes[..bytes.len().min(COOKIE_LEN - 1)];
        if !letters.iter().all(|byte| ALPHABET.contains(byte)) {
            return Opening::Other;
        }
        match (letters.first_chunk(), bytes.get(COOKIE_LEN - 1)) {
            (Some(letters), Some(0)) => Opening::Cookie(Self(*letters)),
            (Some(_), Some(_)) => Opening::Other,
            _ => Opening::Unfinished,
        }
    }

    /// As it stands on the wire.
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
        let Opening::Cookie(cookie) = Cookie::open(bytes) else { panic!() };
        assert_eq!(cookie.bytes(), *bytes);
        assert_eq!(cookie.to_string(), "d57xwezucxw5jsnf3diwjkllriowrey32cp4");
        for len in 0..bytes.len() {
            assert_eq!(Cookie::open(&bytes[..len]), Opening::Unfinished, "{len}");
        }
        assert_eq!(Cookie::open(b"d57xwezucxw5jsnf3diwjkllriowrey32cp4\0\t"), Opening::Cookie(cookie));
    }

    #[test]
    fn other_protocols_are_told_at_their_first_byte() {
        for other in [&b"\x16"[..], b"GET ", b"OPTIONS ", b"0", b"\0", b"netrig-"] {
            assert_eq!(Cookie::open(other), Opening::Other, "{other:?}");
        }
        assert_eq!(Cookie::open(&[b'a'; COOKIE_LEN]), Opening::Other);
    }

    proptest! {
        #[test]
        fn any_cookie_is_read_as_it_was_written(random in any::<[u8; COOKIE_LEN - 1]>()) {
            let cookie = Cookie::new(random);
            prop_assert_eq!(Cookie::open(&cookie.bytes()), Opening::Cookie(cookie));
        }
    }
}
