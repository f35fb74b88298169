//! Any text as an experiment file.
#![no_main]

#[path = "../../crates/pure/experiment/tests/it/any_text/mod.rs"]
mod any_text;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| any_text::check(bytes));
