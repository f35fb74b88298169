//! Tests of the crate by its public interface.

mod common;
mod kill;
mod results;
mod resuming;
