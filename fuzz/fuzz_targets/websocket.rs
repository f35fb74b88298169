//! Any bytes as a WebSocket handshake (request or response) or as frames, at client and server.
#![no_main]

#[path = "../../crates/tools/speed/tests/it/any_websocket/mod.rs"]
mod any_websocket;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| any_websocket::check(bytes));
