//! Findings about this machine.

use std::path::{Path, PathBuf};

/// One finding.
pub struct Finding {
    pub what: &'static str,
    /// What was found.
    pub is: String,
    /// What to do about it, if it would spoil a measurement.
    pub mend: Option<String>,
}

pub fn fine(what: &'static str, is: impl Into<String>) -> Finding {
    Finding { what, is: is.into(), mend: None }
}

pub fn proc(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The path of a program. Servers are often in folders outside the user's PATH.
pub fn found(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin"].map(|at| Path::new(at).to_owned()));
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}
