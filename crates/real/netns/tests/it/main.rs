//! Tests of testbeds on the kernel of this machine, which are checked with programs other than netrig. The tests need
//! root.
#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests of what is made on this machine start programs and look at it"
)]

mod built;
mod collisions;
mod common;
mod forwarded;
mod killed;
mod lacks;
mod passed;
mod programs;
