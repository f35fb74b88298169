//! Any bytes as the response of a DNS server, and as a query to one.
#![no_main]

#[path = "../../crates/real/sip-net/tests/it/any_dns_answer/mod.rs"]
mod any_dns_answer;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| any_dns_answer::check(bytes));
