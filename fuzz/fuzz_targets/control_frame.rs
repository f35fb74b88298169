//! Any bytes as frames of a control connection.
#![no_main]

#[path = "../../crates/real/agent/tests/it/any_control_frame/mod.rs"]
mod any_control_frame;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| any_control_frame::check(bytes));
