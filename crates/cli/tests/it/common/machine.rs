//! Common parts of tests in network namespaces.

use netrig_netns::missing_requirements;
pub use netrig_test_support::{has, skipped};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Whether this machine can build a testbed and has these programs or files. If not, a message is printed.
pub fn can(needs: &[&str]) -> bool {
    let lacking = missing_requirements();
    lacking.first().into_iter().for_each(|lack| skipped(&lack.to_string()));
    lacking.is_empty() && needs.iter().all(|name| has(name))
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

/// A temporary folder with an experiment in `NAME.toml`.
pub fn folder(name: &str, experiment: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder for the test");
    std::fs::write(folder.path().join(format!("{name}.toml")), experiment)
        .expect("the folder can be written");
    folder
}
