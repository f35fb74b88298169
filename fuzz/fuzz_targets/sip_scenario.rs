//! Any bytes as a scenario file of SIPp or netrig, and as an injection file.
#![no_main]

#[path = "../../crates/tools/sip-tester/tests/it/any_scenario/mod.rs"]
mod any_scenario;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| any_scenario::check(bytes));
