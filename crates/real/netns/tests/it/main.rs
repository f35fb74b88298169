//! Testbeds on the kernel of this machine, examined with programs other than netrig. The tests need root.
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
