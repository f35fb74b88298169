//! Detects the protocol of a connection by its first bytes.

use super::{PREAMBLE_LEN, Preamble};
use crate::iperf3::{COOKIE_LEN, Cookie};

/// The first byte of a TLS handshake record (RFC 8446 section 5.1).
const HANDSHAKE: u8 = 22;

/// The first bytes of the HTTP requests that are answered. Some of these methods are refused.
const METHODS: [&[u8]; 3] = [b"GET ", b"HEAD ", b"POST "];

/// The protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionOpening {
    /// The control connection of a session.
    Control,
    /// A data connection, with its preamble.
    Data(Preamble),
    /// The control connection or a data connection of an iperf3 test, with the cookie of the test.
    Iperf3(Cookie),
    /// An HTTP client.
    Http,
    /// More bytes are needed.
    More,
    /// The protocol is not supported.
    Unknown,
}

impl ConnectionOpening {
    /// Detects the protocol from the bytes received so far. At most [`PREAMBLE_LEN`] bytes are needed.
    pub fn of(bytes: &[u8]) -> Self {
        let Some(first) = bytes.first() else { return Self::More };
        if *first == HANDSHAKE {
            return Self::Control;
        }
        if let Some(preamble) = Preamble::decode(bytes) {
            return Self::Data(preamble);
        }
        if let Some(cookie) = Cookie::read(bytes) {
            return Self::Iperf3(cookie);
        }
        let could_be =
            |begin: &[u8]| bytes[..bytes.len().min(begin.len())] == begin[..bytes.len().min(begin.len())];
        if METHODS.iter().any(|method| bytes.starts_with(method)) {
            return Self::Http;
        }
        let undecided = bytes.len() < PREAMBLE_LEN && Preamble::may_begin(bytes)
            || bytes.len() < COOKIE_LEN && Cookie::may_begin(bytes)
            || METHODS.iter().any(|method| could_be(method));
        if undecided { Self::More } else { Self::Unknown }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::protocol::SessionToken;

    const COOKIE: &[u8; COOKIE_LEN] = b"abcdefghijklmnopqrstuvwxyz234567abcd\0";

    #[test]
    fn each_is_told_by_what_it_begins_with() {
        let preamble = Preamble { token: SessionToken([7; 16]), phase: 1, stream: 2 };
        let of: [(&[u8], ConnectionOpening); 5] = [
            (b"\x16\x03\x01", ConnectionOpening::Control),
            (&preamble.encode(), ConnectionOpening::Data(preamble)),
            (COOKIE, ConnectionOpening::Iperf3(Cookie::read(COOKIE).unwrap())),
            (b"GET /ndt/v7/download HTTP/1.1\r\n", ConnectionOpening::Http),
            (b"SSH-2.0-OpenSSH_9.2\r\n", ConnectionOpening::Unknown),
        ];
        for (bytes, opening) in of {
            assert_eq!(ConnectionOpening::of(bytes), opening);
        }
        assert_eq!(ConnectionOpening::of(b""), ConnectionOpening::More);
        assert_eq!(
            ConnectionOpening::of(&[b'a'; COOKIE_LEN]),
            ConnectionOpening::Unknown,
            "a cookie ends with a zero"
        );
    }

    proptest! {
        /// The result does not depend on the pieces in which the bytes arrive. Until enough bytes have arrived, the
        /// result is [`ConnectionOpening::More`].
        #[test]
        fn bytes_may_come_one_by_one(which in 0..4_usize, token: [u8; 16]) {
            let preamble = Preamble { token: SessionToken(token), phase: 9, stream: 9 }.encode();
            let all = [&b"\x16\x03"[..], &preamble, COOKIE, b"GET / HTTP/1.1\r\n"][which];
            let told: Vec<_> = (1..=all.len()).map(|len| ConnectionOpening::of(&all[..len])).collect();
            let last = *told.last().unwrap();
            prop_assert_ne!(last, ConnectionOpening::More);
            prop_assert!(told.iter().all(|opening| *opening == ConnectionOpening::More || *opening == last), "{:?}", told);
        }

        #[test]
        fn any_bytes_are_told_after_a_preambles_length(bytes in proptest::collection::vec(any::<u8>(), PREAMBLE_LEN..60)) {
            prop_assert_ne!(ConnectionOpening::of(&bytes), ConnectionOpening::More);
        }
    }
}
