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
mod tape;

pub use experiment_text::ExperimentText;
pub use tape::{Seen, Tape};

/// Prints directly to stderr that a test was skipped and what it needs, because the harness hides the output of passed
/// tests.
pub fn skipped(needs: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "skipped: needs {needs}");
}

/// Whether this machine has this program, or the file at this path. If not, a message is printed.
pub fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // The path of a file replaces the folder.
    let has = std::env::split_paths(&path).any(|folder| folder.join(program).exists());
    if !has {
        skipped(program);
    }
    has
}

/// Ends a test as passed if a condition is false.
#[macro_export]
macro_rules! skip_unless {
    ($holds:expr) => {
        if !$holds {
            return;
        }
    };
}
