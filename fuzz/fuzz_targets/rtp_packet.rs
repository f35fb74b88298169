//! Any bytes as RTP packets with H.264 in them.
#![no_main]

#[path = "../../crates/pure/traffic/tests/it/rtp/any_packet.rs"]
mod any_packet;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| any_packet::check(bytes));
