//! Tests of the public interface.

mod common;
mod export;
mod golden;
mod read_only;
mod refusals;
mod runs;
mod sharing;
