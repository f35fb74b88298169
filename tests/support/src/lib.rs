//! Common parts of the tests of several crates.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a corpus is a folder of files, a stranger has a socket, and what cannot go on has failed"
)]

pub mod corpus;
mod experiment_text;
pub mod stranger_table;

pub use experiment_text::ExperimentText;

/// Ends a test as passed if a condition is false.
#[macro_export]
macro_rules! skip_unless {
    ($holds:expr) => {
        if !$holds {
            return;
        }
    };
}
