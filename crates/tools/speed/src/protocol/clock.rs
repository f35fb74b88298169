//! Detects whether both ends read the same clock.

use netrig_probe::stamp::HmacKey;

use super::SessionToken;

/// A keyed digest of the boot identifier of a machine. The key is the session's token. If both ends have the same
/// digest, they read the same clock. Otherwise, the digest reveals nothing about the machine.
pub fn clock_mark(token: SessionToken, boot: &str) -> Option<[u8; 32]> {
    Some(HmacKey::new(&token.0)?.digest(&[b"netrig speed clock", boot.as_bytes()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_boot_tells_one_mark_in_one_session() {
        let [one, other] = [1, 2].map(|octet| SessionToken([octet; 16]));
        assert!(clock_mark(one, "a").is_some());
        assert_eq!(clock_mark(one, "a"), clock_mark(one, "a"));
        assert_ne!(clock_mark(one, "a"), clock_mark(one, "b"));
        assert_ne!(clock_mark(one, "a"), clock_mark(other, "a"), "nobody is known again by it");
    }
}
