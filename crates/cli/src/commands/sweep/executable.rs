//! The executable that a sweep takes along.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::build::BUILD;

/// Copies this executable, without its symbols if `strip` of binutils is there. What it calls itself decides the identity of runs, so a
/// copy that says anything else is not used.
pub fn put(place: &Path) -> io::Result<()> {
    let copy = |place: &Path| {
        fs::copy("/proc/self/exe", place)?;
        fs::set_permissions(place, fs::Permissions::from_mode(0o755))
    };
    copy(place)?;
    let stripped = Command::new("strip").arg(place).stdin(Stdio::null()).stderr(Stdio::null()).status();
    if !stripped.is_ok_and(|status| status.success()) || version(place).as_deref() != Some(BUILD.as_str()) {
        fs::remove_file(place)?;
        copy(place)?;
    }
    match version(place) {
        Some(version) if version == *BUILD => Ok(()),
        found => Err(io::Error::other(format!(
            "the copy says that it is netrig {}, and this is {}",
            found.as_deref().unwrap_or("nothing"),
            *BUILD
        ))),
    }
}

/// The build of an executable.
fn version(executable: &Path) -> Option<String> {
    let output = Command::new(executable).arg("--version").stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.trim().strip_prefix("netrig ").map(str::to_owned)
}
