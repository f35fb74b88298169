//! The journal of a testbed. Each object is recorded before it is made. If this process ends early, another
//! process can remove exactly the recorded objects.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use crate::error::{ErrorContext, TestbedError};
use crate::namespace::NamespaceId;
use crate::process::ProcessId;

/// The first line of every journal.
const HEAD: &str = "netrig-testbed 1";
/// Maximum length of a journal, bytes.
const LONGEST_JOURNAL: u64 = 16 << 20;

/// An object of a testbed that was made or is about to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TestbedEntry {
    /// The process that makes all other objects.
    Owner(ProcessId),
    /// A namespace that is bound by name.
    Namespace { name: String, inode: NamespaceId },
    /// An interface in one of the testbed's namespaces.
    Interface { namespace: String, name: String },
    /// A process in one of the testbed's namespaces.
    Process(ProcessId),
    /// A folder for the files of programs.
    Folder(PathBuf),
    /// The folder of a control group that limits a node.
    Group(PathBuf),
}

/// Prefix of the names of program folders and control groups.
pub(crate) const FOLDER: &str = "netrig-";

impl fmt::Display for TestbedEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner(ProcessId { pid, start }) => write!(f, "owner {pid} {start}"),
            Self::Namespace { name, inode: NamespaceId { device, number } } => {
                write!(f, "namespace {name} {device} {number}")
            }
            Self::Interface { namespace, name } => write!(f, "interface {namespace} {name}"),
            Self::Process(ProcessId { pid, start }) => write!(f, "process {pid} {start}"),
            Self::Folder(path) => write!(f, "folder {}", path.display()),
            Self::Group(path) => write!(f, "group {}", path.display()),
        }
    }
}

impl TestbedEntry {
    fn read(line: &str) -> Option<Self> {
        let words: Vec<_> = line.split(' ').collect();
        // netrig never writes a name with a slash, which could lead out of its folder.
        let name = |name: &str| (!name.is_empty() && !name.contains('/')).then(|| name.to_owned());
        Some(match *words.as_slice() {
            ["owner", pid, start] => Self::Owner(ProcessId::read(pid, start)?),
            ["folder", ref path @ ..] => Self::Folder(folder(&path.join(" "))?),
            ["group", ref path @ ..] => Self::Group(folder(&path.join(" "))?),
            ["process", pid, start] => Self::Process(ProcessId::read(pid, start)?),
            ["interface", namespace, interface] => {
                Self::Interface { namespace: name(namespace)?, name: name(interface)? }
            }
            ["namespace", namespace, device, number] => {
                let inode = NamespaceId { device: device.parse().ok()?, number: number.parse().ok()? };
                Self::Namespace { name: name(namespace)?, inode }
            }
            _ => return None,
        })
    }
}

/// Parses the path of a program folder or a control group. Other paths are refused, so they are never removed.
fn folder(path: &str) -> Option<PathBuf> {
    let path = PathBuf::from(path);
    let named = path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(FOLDER));
    let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    (path.is_absolute() && plain && named).then_some(path)
}

/// The folder of journals. It contains one journal for each testbed that is in use or was left behind.
#[derive(Clone, Debug)]
pub struct Journals {
    folder: PathBuf,
}

impl Default for Journals {
    /// The journals in `/run/netrig`.
    fn default() -> Self {
        Self::at("/run/netrig")
    }
}

impl Journals {
    /// The journals in another folder. [`left_behind`](crate::left_behind) finds only testbeds of this folder.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The folder that contains the journals.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Opens and locks the folder. The lock is held while a journal is made or the folder is searched.
    fn lock(&self) -> Result<File, TestbedError> {
        let mut made = std::fs::DirBuilder::new();
        made.recursive(true)
            .mode(0o700)
            .create(&self.folder)
            .path_context(&self.folder, "make the folder")?;
        let folder = File::open(&self.folder).path_context(&self.folder, "open the folder")?;
        folder.lock().path_context(&self.folder, "lock the folder")?;
        Ok(folder)
    }

    /// Starts the journal of testbed `id`.
    pub(crate) fn start(&self, id: &str) -> Result<TestbedJournal, TestbedError> {
        let _alone = self.lock()?;
        let path = self.folder.join(format!("{id}.journal"));
        let opened = OpenOptions::new().append(true).read(true).create_new(true).mode(0o600).open(&path);
        let file = opened.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => TestbedError::Collision(path.clone()),
            _ => TestbedError::Refused {
                action: "start a journal".into(),
                place: path.display().to_string(),
                source: error,
            },
        })?;
        // The lock proves that the owner is alive. The kernel releases it when the process ends for any reason.
        // A later process with the same process ID does not hold the lock.
        file.lock().path_context(&path, "lock the journal")?;
        let journal = TestbedJournal { path, file, id: id.to_owned(), entries: Vec::new(), damage: None };
        journal.write(&format!("{HEAD}\n"))?;
        Ok(journal)
    }

    /// The journals whose owner has ended. They are now locked by this process.
    pub(crate) fn orphans(&self) -> Result<Vec<TestbedJournal>, TestbedError> {
        if !self.folder.exists() {
            return Ok(Vec::new());
        }
        let _alone = self.lock()?;
        let mut orphans = Vec::new();
        let files = std::fs::read_dir(&self.folder).path_context(&self.folder, "list the folder")?;
        for file in files {
            let path = file.path_context(&self.folder, "list the folder")?.path();
            if path.extension().is_some_and(|extension| extension == "journal") {
                orphans.extend(orphan(path)?);
            }
        }
        orphans.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(orphans)
    }
}

/// The journal at `path`, locked by this process. `None` if its owner is alive or another process is removing
/// its testbed.
fn orphan(path: PathBuf) -> Result<Option<TestbedJournal>, TestbedError> {
    let mut file = match OpenOptions::new().read(true).append(true).open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.path_context(&path, "open the journal")?,
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error).path_context(&path, "lock the journal"),
    }
    let metadata = file.metadata().path_context(&path, "read the metadata of the journal")?;
    if metadata.nlink() == 0 {
        return Ok(None);
    }
    let mut text = String::new();
    let read = match metadata.is_file() && metadata.len() <= LONGEST_JOURNAL {
        true => file.read_to_string(&mut text).map_err(|error| error.to_string()),
        false => Err(format!("it is not a regular file of at most {LONGEST_JOURNAL} B")),
    };
    // Processes are killed and file systems are unmounted according to the journal, so it must belong to this
    // user.
    let own = metadata.uid() == rustix::process::geteuid().as_raw();
    let entries = match read {
        Ok(_) if own => read_entries(&text),
        Ok(_) => Err("it belongs to another user".into()),
        Err(why) => Err(why),
    };
    let id = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
    let (entries, damage) = match entries {
        Ok(entries) => (entries, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    Ok(Some(TestbedJournal { path, file, id, entries, damage }))
}

/// The entries of a journal, or why it is invalid.
fn read_entries(text: &str) -> Result<Vec<TestbedEntry>, String> {
    // If the last line has no newline, it was not completely written, so its object was not made.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let mut lines = whole.lines();
    if lines.next().is_some_and(|head| head != HEAD) {
        return Err("its first line is not that of a journal".into());
    }
    lines
        .map(|line| TestbedEntry::read(line).ok_or_else(|| format!("the line `{line}` is unknown")))
        .collect()
}

/// The journal of one testbed.
#[derive(Debug)]
pub(crate) struct TestbedJournal {
    path: PathBuf,
    file: File,
    id: String,
    entries: Vec<TestbedEntry>,
    /// Why the journal is invalid, if it is.
    damage: Option<String>,
}

impl TestbedJournal {
    /// Records objects that are about to be made. The entries are on disk when this returns.
    pub(crate) fn record(
        &mut self,
        entries: impl IntoIterator<Item = TestbedEntry>,
    ) -> Result<(), TestbedError> {
        let first = self.entries.len();
        self.entries.extend(entries);
        let lines: String = self.entries[first..].iter().map(|entry| format!("{entry}\n")).collect();
        self.write(&lines)
    }

    fn write(&self, lines: &str) -> Result<(), TestbedError> {
        let written = (&self.file).write_all(lines.as_bytes()).and_then(|()| self.file.sync_data());
        written.path_context(&self.path, "write the journal")
    }

    /// The testbed's identity.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Returns an error if the journal is invalid. In that case, no object that it names may be removed.
    pub(crate) fn check(&self) -> Result<(), TestbedError> {
        match &self.damage {
            None => Ok(()),
            Some(why) => Err(TestbedError::Journal { path: self.path.clone(), why: why.clone() }),
        }
    }

    /// The entries in order.
    pub(crate) fn entries(&self) -> &[TestbedEntry] {
        &self.entries
    }

    /// The path of the file `name` in the folder of the journals.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.path.with_file_name(name)
    }

    /// Removes the journal. All objects that it names must have been removed before.
    pub(crate) fn close(&self) -> Result<(), TestbedError> {
        std::fs::remove_file(&self.path).path_context(&self.path, "remove the journal")
    }
}

#[cfg(test)]
mod tests;
