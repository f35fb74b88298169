//! Who may use a receiver: whoever knows its key.

use std::io;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Bytes of a challenge.
const CHALLENGE: usize = 32;

/// A shared secret of at least sixteen bytes.
#[derive(Clone)]
pub struct Key(Vec<u8>);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    /// A key of these bytes; `None` if they are fewer than sixteen.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Option<Self> {
        Some(bytes.into()).filter(|bytes| bytes.len() >= 16).map(Self)
    }

    /// What proves that one knows the key, as an answer to a challenge.
    pub(super) fn proof(&self, challenge: &str) -> String {
        hex(&self.mac(challenge).finalize().into_bytes())
    }

    /// Whether this is the right answer; takes as long for a wrong one.
    pub(super) fn accepts(&self, challenge: &str, proof: &str) -> bool {
        unhex(proof).is_some_and(|proof| self.mac(challenge).verify_slice(&proof).is_ok())
    }

    fn mac(&self, challenge: &str) -> Hmac<Sha256> {
        #[expect(clippy::expect_used, reason = "HMAC takes keys of any length (RFC 2104)")]
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("any length will do");
        mac.update(b"netrig receiver 1\0");
        mac.update(challenge.as_bytes());
        mac
    }
}

/// A challenge that nobody can know before: hexadecimal digits of what the kernel draws.
pub(super) fn challenge() -> io::Result<String> {
    let mut bytes = [0; CHALLENGE];
    io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || text.len() > 2 * CHALLENGE {
        return None;
    }
    text.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231 section 4.3 has the hash itself; what matters here is who is let in.
    #[test]
    fn only_the_key_opens() {
        let [right, wrong] = ["0123456789abcdef", "0123456789abcdeX"].map(|text| Key::new(text).unwrap());
        let (one, other) = (challenge().unwrap(), challenge().unwrap());
        assert_ne!(one, other);
        assert!(right.accepts(&one, &right.proof(&one)));
        assert!(!right.accepts(&one, &wrong.proof(&one)));
        assert!(!right.accepts(&other, &right.proof(&one)), "an old answer");
        for garbage in ["", "zz", "é", "00"] {
            assert!(!right.accepts(&one, garbage));
        }
        assert!(Key::new("too short").is_none());
    }
}
