//! Any bytes on the control connection of iperf3, at client and server.
#![no_main]

#[path = "../../crates/tools/speed/tests/it/any_iperf3/mod.rs"]
mod any_iperf3;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| any_iperf3::check(bytes));
