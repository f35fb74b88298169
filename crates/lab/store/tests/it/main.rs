//! Tests of the public interface.

mod common;
mod export;
mod golden;
mod merging;
mod read_only;
mod refusals;
mod runs;
mod sharing;
