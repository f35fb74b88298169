//! Whether two ends read one clock.

use netrig_agent::probe::control::boot;
use netrig_agent::probe::stamp::Key;

use super::Token;

/// What tells this boot of this machine from all others, to who knows the session's token and runs on it: two ends that tell the
/// same read one clock, and who tells something else learns nothing of the machine. Nothing where the system does not know.
pub fn clock_mark(token: Token) -> Option<[u8; 32]> {
    mark(token, &boot()?)
}

fn mark(token: Token, boot: &str) -> Option<[u8; 32]> {
    Some(Key::new(&token.0)?.digest(&[b"netrig speed clock", boot.as_bytes()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_boot_tells_one_mark_in_one_session() {
        let [one, other] = [1, 2].map(|octet| Token([octet; 16]));
        assert!(mark(one, "a").is_some());
        assert_eq!(mark(one, "a"), mark(one, "a"));
        assert_ne!(mark(one, "a"), mark(one, "b"));
        assert_ne!(mark(one, "a"), mark(other, "a"), "nobody is known again by it");
    }
}
