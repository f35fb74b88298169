//! A program that will run on a node, and its executable on this machine.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use netrig_core::text::hex;
use netrig_experiment::{Program, RunError, Scenario, Unsupported};
use netrig_host::user_file::{UserFileError, open_regular};
use sha2::{Digest, Sha256};

use crate::error::unsupported;

/// Folders that are searched after `PATH`. On Debian, only root's `PATH` contains the folders of servers.
const FOLDERS: [&str; 4] = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin"];

/// A program that will run on a node.
#[derive(Clone, Debug)]
pub(crate) struct PlannedProgram {
    /// Index of the node.
    pub node: usize,
    /// The path of the executable.
    pub executable: PathBuf,
    /// The program as in the experiment file.
    pub program: Program,
    /// Folders to create in the program's folder.
    pub folders: Vec<&'static str>,
    /// Files to create that contain only zeros, with their lengths in bytes.
    pub zeros: Vec<(String, u64)>,
    /// The flow whose data the program sends, and the user bytes of a full segment.
    pub sends: Option<(u32, u64)>,
}

impl PlannedProgram {
    /// Finds the executable.
    ///
    /// # Errors
    /// If an executable is not on this machine. The message names the executable and the packages that contain it.
    pub fn new(scenario: &Scenario, node: usize, program: Program) -> Result<Self, Unsupported> {
        let missing = |name: &str| {
            let packages = program.packages.join(" ");
            let mends = match packages.is_empty() {
                true => String::new(),
                false => format!("; on Debian: apt-get install {packages}"),
            };
            unsupported(format!(
                "node `{}` runs `{name}`, which is not on this machine{mends}",
                scenario.nodes[node].name
            ))
        };
        let counters = program.counters.as_ref().map(|counters| &counters.command);
        let beside = program.before.iter().chain(counters).filter_map(|words| words.first());
        // A name with a placeholder refers to one of the program's own files, which are written later.
        if let Some(name) = beside.filter(|name| !name.contains('{')).find(|name| find(name).is_none()) {
            return missing(name);
        }
        let Some(executable) = find(program.name()) else { return missing(program.name()) };
        Ok(Self { node, executable, program, folders: Vec::new(), zeros: Vec::new(), sends: None })
    }

    /// The versions of the program's packages, the path of the executable, and a hash of it.
    pub fn version(&self) -> Result<String, RunError> {
        let hash = hash(&self.executable).map_err(|error| {
            RunError::Failed(format!("cannot read {}: {error}", self.executable.display()))
        })?;
        let hash = hex(&hash[..8]);
        let packages: String = packages(&self.program.packages).into_iter().map(|one| one + ", ").collect();
        Ok(format!("{packages}{} (SHA-256 {hash}…)", self.executable.display()))
    }
}

/// The longest executable that is hashed, bytes.
const LONGEST_PROGRAM: u64 = 1 << 32;

/// SHA-256 of a file. The file is read in pieces.
fn hash(path: &Path) -> Result<[u8; 32], UserFileError> {
    let (file, _) = open_regular(path, "a regular file")?;
    let mut hash = Sha256::new();
    let mut rest = BufReader::with_capacity(1 << 20, file.take(LONGEST_PROGRAM + 1));
    let mut len = 0;
    loop {
        let piece = rest.fill_buf()?;
        if piece.is_empty() {
            return Ok(hash.finalize().into());
        }
        hash.update(piece);
        let taken = piece.len();
        len += taken as u64;
        rest.consume(taken);
        if len > LONGEST_PROGRAM {
            return Err(UserFileError::TooLong { limit: LONGEST_PROGRAM });
        }
    }
}

/// The path of an executable with this name; `None` if there is none.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let runs = |path: &PathBuf| {
        std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(runs);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(FOLDERS.map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(runs)
}

/// Those of these Debian packages that are installed, with their versions.
fn packages(names: &[String]) -> Vec<String> {
    let list = std::fs::read_to_string("/var/lib/dpkg/status").unwrap_or_default();
    let field = |paragraph: &str, name: &str| {
        paragraph.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).map(str::to_owned)
    };
    let version = |name: &String| {
        let mut paragraphs = list.split("\n\n");
        let own = paragraphs.find(|paragraph| field(paragraph, "Package").as_ref() == Some(name))?;
        Some(format!("{name} {}", field(own, "Version")?))
    };
    names.iter().filter_map(version).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_or_not() {
        assert!(find("sh").is_some_and(|path| path.is_absolute()));
        assert_eq!(find("/bin/sh"), Some("/bin/sh".into()));
        assert_eq!((find("no-such-program"), find("/etc/passwd")), (None, None));
    }
}
