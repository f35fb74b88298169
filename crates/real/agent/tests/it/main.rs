//! Tests of the crate through its public interface.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "these tests open sockets, start programs and read files, and what cannot go on has failed"
)]

mod any_control_frame;
pub mod common;
mod control;
mod corpora;
mod loopback;
mod sctp;
