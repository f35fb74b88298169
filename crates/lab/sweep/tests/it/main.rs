//! Tests of the public interface.

pub(crate) mod common;
mod driving;
mod estimate;
mod folder;
