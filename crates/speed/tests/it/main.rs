//! Tests of the crate by its public interface.

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
mod working;
