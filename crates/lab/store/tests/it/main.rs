//! Tests of the crate by its public interface.

mod common;
mod export;
mod golden;
mod read_only;
mod refusals;
mod runs;
mod sharing;
