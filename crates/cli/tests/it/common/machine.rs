//! Common parts of tests in network namespaces.

use std::io::Write as _;

use netrig_netns::missing_requirements;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Whether this machine can build a testbed and has these programs or files. Missing requirements are printed directly
/// to stderr, because the harness hides the output of passed tests.
pub fn can(needs: &[&str]) -> bool {
    let mut lacking: Vec<_> = missing_requirements().iter().map(ToString::to_string).collect();
    lacking.extend(needs.iter().filter(|name| !is_there(name)).map(ToString::to_string));
    lacking.first().into_iter().for_each(|lack| skipped(lack));
    lacking.is_empty()
}

fn is_there(name: &str) -> bool {
    // A name with a path is looked up at that path.
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).exists())
}

/// Whether this machine has this program. If not, a message is printed.
pub fn has(program: &str) -> bool {
    let has = is_there(program);
    if !has {
        skipped(program);
    }
    has
}

/// Lets this process open as many files as the system allows. If these are fewer than `files`, a message is printed.
pub fn can_open(files: u64) -> bool {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).expect("it is allowed");
    let can = limit.maximum.is_none_or(|most| most >= files);
    if !can {
        skipped(&format!("{files} open files"));
    }
    can
}

/// Prints directly to stderr that a test was skipped and what it needs, because the harness hides the output of passed
/// tests.
pub fn skipped(needs: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: needs {needs}");
}

/// A temporary folder with an experiment in `NAME.toml`.
pub fn folder(name: &str, experiment: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder for the test");
    std::fs::write(folder.path().join(format!("{name}.toml")), experiment)
        .expect("the folder can be written");
    folder
}
