//! Any bytes as the input of a server that measures access speeds.
#![no_main]

#[path = "../../crates/tools/speed/tests/it/any_speed_control/mod.rs"]
mod any_speed_control;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| any_speed_control::check(bytes));
