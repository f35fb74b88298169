//! Any bytes as datagrams of iperf3's streams.
#![no_main]

#[path = "../../crates/tools/speed/tests/it/any_iperf3_datagram/mod.rs"]
mod any_iperf3_datagram;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| any_iperf3_datagram::check(bytes));
