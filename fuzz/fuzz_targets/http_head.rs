//! Any bytes as an HTTP response or request.
#![no_main]

#[path = "../../crates/real/probe/tests/it/any_http/mod.rs"]
mod any_http;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| any_http::check(bytes));
