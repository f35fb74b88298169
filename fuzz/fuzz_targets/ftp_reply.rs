//! Any bytes as the replies of an FTP server.
#![no_main]

#[path = "../../crates/real/probe/tests/it/any_ftp_reply/mod.rs"]
mod any_ftp_reply;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| any_ftp_reply::check(bytes));
