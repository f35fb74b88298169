//! Any bytes as a media packet (RTP or RTCP).
#![no_main]

#[path = "../../crates/tools/sip-tester/tests/it/any_media/mod.rs"]
mod any_media;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| any_media::check(bytes));
