//! The names of tests are unique, because documents refer to tests by name, and a filter of the test runner is a part
//! of a name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Adds all Rust files below a folder to `found`.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// The names of the test functions of a source: each follows the next `fn` after a line `#[test]`.
fn tests_of(source: &str) -> impl Iterator<Item = &str> {
    let attributes = source.match_indices("#[test]").filter(|(at, attribute)| {
        let before = source[..*at].rsplit('\n').next().unwrap_or_default();
        let after = source[at + attribute.len()..].split('\n').next().unwrap_or_default();
        before.trim().is_empty() && (after.trim().is_empty() || after.trim_start().starts_with("fn "))
    });
    attributes.map(|(at, _)| {
        let (_, name) = source[at..].split_once("fn ").expect("a test is a function");
        name.split(|c: char| c != '_' && !c.is_ascii_alphanumeric()).next().expect("a function has a name")
    })
}

/// The names of all test functions of the workspace, each with the files that have a test of this name.
pub(crate) fn test_names() -> BTreeMap<String, Vec<PathBuf>> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    sources(&top.join("crates"), &mut files);
    sources(&top.join("tests"), &mut files);
    let mut names: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for file in files {
        let source = std::fs::read_to_string(&file).expect("a source is text");
        for name in tests_of(&source) {
            names.entry(name.to_owned()).or_default().push(file.clone());
        }
    }
    assert!(names.len() > 2000, "{} names", names.len());
    names
}

#[test]
fn each_test_has_a_name_of_its_own() {
    let mut names = test_names();
    names.retain(|_, files| files.len() > 1);
    assert!(names.is_empty(), "names of several tests: {names:#?}");
}
