//! Tests of the public interface of the crate.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "these tests open sockets, start programs and read files, and what cannot go on has failed"
)]

mod any_iperf3;
mod any_iperf3_datagram;
mod any_speed_control;
mod any_websocket;
mod common;
mod corpora;
mod iperf3;
mod loopback;
mod ndt7;
mod patience;
mod robust;
mod strangers;
mod working;
