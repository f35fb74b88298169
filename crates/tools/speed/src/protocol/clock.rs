//! Whether two ends read one clock.

use netrig_probe::stamp::Key;

use super::SessionToken;

/// What tells a boot of a machine, by what names it there, from all others, to who knows the session's token and runs on it: two
/// ends that tell the same read one clock, and who tells something else learns nothing of the machine.
pub fn clock_mark(token: SessionToken, boot: &str) -> Option<[u8; 32]> {
    Some(Key::new(&token.0)?.digest(&[b"netrig speed clock", boot.as_bytes()]))
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
