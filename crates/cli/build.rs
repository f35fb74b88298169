//! Tells the program which commit it was built from.
#![allow(clippy::disallowed_types, reason = "a build script asks git")]

use std::path::Path;
use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    // Other programs may hold the locks of the repository; nothing here needs them.
    let mut command = Command::new("git");
    let output = command.arg("--no-optional-locks").args(arguments).output().ok()?;
    if !output.status.success() {
        return None;
    }
    String::from_utf8(output.stdout).ok().map(|text| text.trim().to_owned())
}

fn main() {
    // Outside a repository (a released archive) there is no commit to tell.
    let commit = git(&["rev-parse", "--short=7", "HEAD"]).unwrap_or_else(|| "release".into());
    // `:/` counts from the top of the repository, wherever this runs.
    let built_from = [":/crates", ":/studies", ":/Cargo.toml", ":/Cargo.lock"];
    let status = [&["status", "--porcelain", "--"], &built_from[..]].concat();
    let dirty = git(&status).is_some_and(|changes| !changes.is_empty());
    println!("cargo::rustc-env=NETRIG_COMMIT={commit}");
    println!("cargo::rustc-env=NETRIG_DIRTY={dirty}");
    // Changes with every commit, and not, as the index does, with every look at the status.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists()) {
        println!("cargo::rerun-if-changed={log}");
    }
    println!("cargo::rerun-if-changed=../../crates");
    println!("cargo::rerun-if-changed=../../studies");
    println!("cargo::rerun-if-changed=../../Cargo.toml");
    println!("cargo::rerun-if-changed=../../Cargo.lock");
}
