//! Any bytes as an SCTP packet that arrives at an association, in each of its states.
#![no_main]

#[path = "../../crates/pure/transport/tests/it/sctp/any_packet.rs"]
mod any_packet;
#[allow(dead_code, reason = "the tests need more of it")]
#[path = "../../crates/pure/transport/tests/it/sctp/pair.rs"]
mod pair;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| any_packet::check(bytes));
