//! What tests in network namespaces share.

use std::io::Write as _;

use netrig_netns::missing_requirements;

/// Whether the machine can hold a testbed and has these programs or files; says what is missing, past the harness, which keeps
/// what a passed test prints to itself.
pub fn can(needs: &[&str]) -> bool {
    let mut lacking: Vec<_> = missing_requirements().iter().map(ToString::to_string).collect();
    let there = |name: &str| {
        // What has a place of its own is looked for there.
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(name).exists())
    };
    lacking.extend(needs.iter().filter(|name| !there(name)).map(ToString::to_string));
    lacking.first().into_iter().for_each(|lack| skipped(lack));
    lacking.is_empty()
}

/// Says that a test was skipped and what it needs, past the harness, which keeps what a passed test prints to itself.
pub fn skipped(needs: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: needs {needs}");
}

/// A folder with an experiment, `NAME.toml`.
pub fn folder(name: &str, experiment: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder for the test");
    std::fs::write(folder.path().join(format!("{name}.toml")), experiment)
        .expect("the folder can be written");
    folder
}
