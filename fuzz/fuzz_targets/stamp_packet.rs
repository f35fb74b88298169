//! Any bytes as a STAMP packet, for reflectors of both modes and for the sender that reads their replies.
#![no_main]

#[path = "../../crates/real/probe/tests/it/any_stamp_packet/mod.rs"]
mod any_stamp_packet;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| any_stamp_packet::check(bytes));
