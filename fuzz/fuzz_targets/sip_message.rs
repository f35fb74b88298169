//! Any bytes as a SIP message, for the scanner and the strict parser.
#![no_main]

#[path = "../../crates/pure/sip/tests/it/any_message/mod.rs"]
mod any_message;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| any_message::check(bytes));
