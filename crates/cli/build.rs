//! Sets the commit of the source, and whether the source has uncommitted changes, as environment variables of the
//! build.
#![allow(clippy::disallowed_types, reason = "a build script asks git")]

use std::path::Path;
use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    // Another program may hold the locks of the repository. These commands do not need them.
    let mut command = Command::new("git");
    let output = command.arg("--no-optional-locks").args(arguments).output().ok()?;
    if !output.status.success() {
        return None;
    }
    String::from_utf8(output.stdout).ok().map(|text| text.trim().to_owned())
}

fn main() {
    // Outside a repository, for example in a released archive, there is no commit.
    let commit = git(&["rev-parse", "--short=7", "HEAD"]).unwrap_or_else(|| "release".into());
    // `:/` makes a path relative to the top of the repository, independently of the working directory.
    let built_from = [":/crates", ":/studies", ":/Cargo.toml", ":/Cargo.lock"];
    let status = [&["status", "--porcelain", "--"], &built_from[..]].concat();
    let dirty = git(&status).is_some_and(|changes| !changes.is_empty());
    println!("cargo::rustc-env=NETRIG_COMMIT={commit}");
    println!("cargo::rustc-env=NETRIG_DIRTY={dirty}");
    // This file changes with every commit. The index also changes when the status is read.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists()) {
        println!("cargo::rerun-if-changed={log}");
    }
    println!("cargo::rerun-if-changed=../../crates");
    println!("cargo::rerun-if-changed=../../studies");
    println!("cargo::rerun-if-changed=../../Cargo.toml");
    println!("cargo::rerun-if-changed=../../Cargo.lock");
}
