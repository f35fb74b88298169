//! Which crate may import which. The permitted imports are those in the table of ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cargo_metadata::{DependencyKind, MetadataCommand};

/// The crates in ARCHITECTURE.md, each with the crates of this workspace that it imports.
fn table() -> BTreeMap<String, BTreeSet<String>> {
    let page = include_str!("../../ARCHITECTURE.md");
    let rows = page.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.strip_suffix(" |")?.split(" | ");
        let name = cells.next()?.strip_suffix('`')?;
        // The table of crates has four columns.
        let imports = cells.nth(2)?;
        let imports = imports.split(", ").filter(|import| *import != "–").map(str::to_owned);
        Some((name.to_owned(), imports.collect()))
    });
    rows.collect()
}

/// Crates on which no pure crate may depend, directly or indirectly: runtimes, sockets, databases, HTTP, clocks,
/// unnamed random sources.
const IMPURE: &[&str] = &[
    "tokio",
    "mio",
    "socket2",
    "rusqlite",
    "libsqlite3-sys",
    "hyper",
    "axum",
    "reqwest",
    "nix",
    "rustix",
    "libc",
    "chrono",
    "time",
    "getrandom",
    "rand",
    "rand_distr",
    "tempfile",
];

/// The normal dependencies of each package of the workspace, by name.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = MetadataCommand::new().no_deps().exec().expect("cargo metadata runs");
    let normal = |package: &cargo_metadata::Package| {
        let normal = package.dependencies.iter().filter(|d| d.kind == DependencyKind::Normal);
        normal.map(|d| d.name.clone()).collect()
    };
    metadata.packages.iter().map(|package| (package.name.to_string(), normal(package))).collect()
}

fn package(name: &str) -> String {
    format!("netrig-{name}")
}

#[test]
fn crates_import_only_whom_they_may() {
    let dependencies = dependencies();
    for (name, imports) in table() {
        let ours = dependencies[&package(&name)].iter().filter_map(|d| d.strip_prefix("netrig-"));
        assert_eq!(ours.map(str::to_owned).collect::<BTreeSet<_>>(), imports, "{name}");
    }
}

#[test]
fn the_table_knows_every_crate() {
    let mut known: BTreeSet<_> = table().keys().map(|name| package(name)).collect();
    // The binary may import every crate. The crates of tests are not part of the product.
    known.extend(["netrig", "netrig-tests", "netrig-interop", "netrig-test-support"].map(str::to_owned));
    assert_eq!(dependencies().into_keys().collect::<BTreeSet<_>>(), known);
}

/// The names of the crates in `crates/pure`.
fn pure() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/pure");
    let crates = std::fs::read_dir(folder).expect("the folder of the pure crates").flatten();
    let names: Vec<_> = crates.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    assert!(names.len() >= 8, "{names:?}");
    names
}

/// The resolved dependency graph is searched, so that indirect dependencies are found too.
#[test]
fn pure_crates_reach_nothing_impure() {
    let platform = ["--filter-platform".to_owned(), "x86_64-unknown-linux-gnu".to_owned()];
    let metadata = MetadataCommand::new().other_options(platform).exec().expect("cargo metadata runs");
    let resolve = metadata.resolve.as_ref().expect("the graph is resolved");
    let names: BTreeMap<_, _> = metadata.packages.iter().map(|p| (&p.id, p.name.to_string())).collect();
    for name in pure() {
        let root = names
            .iter()
            .find(|(_, n)| **n == package(&name))
            .map(|(id, _)| *id)
            .expect("a pure crate exists");
        let (mut seen, mut open) = (BTreeSet::new(), vec![root]);
        while let Some(id) = open.pop() {
            if !seen.insert(id) {
                continue;
            }
            let node = resolve.nodes.iter().find(|node| node.id == *id).expect("every package is a node");
            let normal =
                node.deps.iter().filter(|d| d.dep_kinds.iter().any(|k| k.kind == DependencyKind::Normal));
            open.extend(normal.map(|d| &d.pkg).filter(|id| !is_proc_macro(&metadata, id)));
        }
        let impure: Vec<_> =
            seen.iter().map(|id| &names[*id]).filter(|n| IMPURE.contains(&n.as_str())).collect();
        assert!(impure.is_empty(), "{name} reaches {impure:?}");
    }
}

/// Whether a package is a procedural macro. Its dependencies run in the compiler and not in the product.
fn is_proc_macro(metadata: &cargo_metadata::Metadata, id: &cargo_metadata::PackageId) -> bool {
    metadata[id].targets.iter().any(|target| target.is_proc_macro())
}

/// Whether an attribute in this text, which has no white space, permits unsafe code. The lint may be anywhere in the
/// attribute's list.
fn permits_unsafe_code(text: &str) -> bool {
    let levels = [("allow(", true), ("expect(", true), ("warn(", true), ("deny(", false), ("forbid(", false)];
    text.match_indices("unsafe_code").any(|(at, _)| {
        let before = &text[..at];
        let level = levels.iter().filter_map(|(level, permits)| Some((before.rfind(level)?, permits))).max();
        level.is_some_and(|(_, permits)| *permits)
    })
}

/// Only crates that make system calls have unsafe code, each in one module.
#[test]
fn unsafe_code_is_where_system_calls_are() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut files = Vec::new();
    let mut folders = vec![crates];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of sources").flatten() {
            let path = entry.path();
            match path.extension() {
                _ if path.is_dir() => folders.push(path),
                Some(end) if end == "rs" => files.push(path),
                _ => {}
            }
        }
    }
    assert!(files.len() > 100, "{files:?}");
    for file in files {
        let mut text = std::fs::read_to_string(&file).expect("a source is text");
        text.retain(|c| !c.is_whitespace());
        let system = file.components().any(|part| part.as_os_str() == "sys");
        assert!(system || !permits_unsafe_code(&text), "{} has unsafe code", file.display());
    }
}

#[test]
fn a_lint_is_found_anywhere_in_the_list_of_an_attribute() {
    assert!(permits_unsafe_code("#![allow(clippy::disallowed_types,unsafe_code,reason=\"\")]"));
    assert!(permits_unsafe_code("#![deny(unsafe_code)]#[expect(unsafe_code,reason=\"\")]"));
    assert!(!permits_unsafe_code("#[allow(clippy::disallowed_types)]#![forbid(unsafe_code)]"));
}
