//! Any bytes as a capture or message log with SIP.
#![no_main]

#[path = "../../crates/tools/sip-tester/tests/it/any_trace/mod.rs"]
mod any_trace;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| any_trace::check(bytes));
