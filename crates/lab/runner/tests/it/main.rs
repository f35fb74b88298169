//! Tests of the crate through its public interface.

mod common;
mod kill;
mod results;
mod resuming;
