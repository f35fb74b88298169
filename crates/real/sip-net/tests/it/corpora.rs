//! Replays the fuzz corpus of DNS messages.

use netrig_test_support::corpus::replay;

use crate::it::any_dns_answer;

#[test]
fn dns_answers_are_survived() {
    replay("dns_answer", 20, 20_000, any_dns_answer::check);
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_survived_as_dns_messages(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
        any_dns_answer::check(&bytes);
    }
}
