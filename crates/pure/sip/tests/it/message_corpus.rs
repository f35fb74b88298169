//! Checks the property of the fuzzer for its committed corpus, with any compiler.

use netrig_test_support::corpus::replay;

use crate::any_message;

#[test]
fn whatever_arrives_as_a_message_is_survived() {
    replay("sip_message", 10, 0, any_message::check);
}
