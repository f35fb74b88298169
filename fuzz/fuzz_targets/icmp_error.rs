//! Any bytes as an ICMP error about a sent packet, for a trace and a search for the MTU.
#![no_main]

#[path = "../../crates/real/probe/tests/it/any_icmp_error/mod.rs"]
mod any_icmp_error;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| any_icmp_error::check(bytes));
