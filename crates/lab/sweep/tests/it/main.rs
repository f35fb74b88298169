//! Tests of the public interface.

mod common;
mod driving;
mod folder;
