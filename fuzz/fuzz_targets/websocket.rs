//! Any bytes as a request for a WebSocket, its answer, or its frames, at both ends.
#![no_main]

#[path = "../../crates/tools/speed/tests/it/any_websocket/mod.rs"]
mod any_websocket;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| any_websocket::check(bytes));
