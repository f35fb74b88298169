//! Removes exactly the objects that a journal names.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Signal, pidfd_send_signal};

use crate::build::GROUP;
use crate::error::{ErrorContext, TestbedError};
use crate::host::group;
use crate::journal::{Journals, TestbedEntry, TestbedJournal};
use crate::namespace::{self, NamespaceBinding, NetworkNamespace};
use crate::netlink::NetlinkError;
use crate::netlink::route::Rtnetlink;
use crate::process::{MARK, ProcessId, ended_within};

/// How long killed processes may take to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// The remains of a testbed whose owner process has ended. This value holds the lock on the journal.
#[derive(Debug)]
pub struct LeftBehind {
    journal: TestbedJournal,
}

/// The remains of testbeds without an owner, in the order of their identities. For an invalid journal,
/// [`LeftBehind::remove`] returns the reason.
///
/// # Errors
/// If the folder of the journals cannot be read.
pub fn left_behind(journals: &Journals) -> Result<Vec<LeftBehind>, TestbedError> {
    Ok(journals.orphans()?.into_iter().map(|journal| LeftBehind { journal }).collect())
}

impl LeftBehind {
    /// The testbed's identity.
    pub fn id(&self) -> &str {
        self.journal.id()
    }

    /// The ID of the process that made the testbed, if the journal names it.
    pub fn owner(&self) -> Option<i32> {
        self.journal.entries().iter().find_map(|entry| match entry {
            TestbedEntry::Owner(owner) => Some(owner.pid),
            _ => None,
        })
    }

    /// Names of the testbed's namespaces that still exist.
    ///
    /// # Errors
    /// If the state of a namespace cannot be read.
    pub fn namespaces(&self) -> Result<Vec<String>, TestbedError> {
        let mut there = Vec::new();
        for (name, inode) in namespaces(&self.journal) {
            if !matches!(namespace::look(name, inode)?, NamespaceBinding::Gone | NamespaceBinding::Other) {
                there.push(name.to_owned());
            }
        }
        Ok(there)
    }

    /// The testbed's interfaces in namespaces that still exist, as pairs of namespace and interface.
    ///
    /// # Errors
    /// If the state of a namespace cannot be read.
    pub fn interfaces(&self) -> Result<Vec<(String, String)>, TestbedError> {
        let there = self.namespaces()?;
        let interfaces = self.journal.entries().iter().filter_map(|entry| match entry {
            TestbedEntry::Interface { namespace, name } => Some((namespace.clone(), name.clone())),
            _ => None,
        });
        Ok(interfaces.filter(|(namespace, _)| there.contains(namespace)).collect())
    }

    /// IDs of the testbed's processes that are still running.
    pub fn processes(&self) -> Vec<i32> {
        living(&self.journal).into_iter().map(|(process, _)| process.pid).collect()
    }

    /// Removes all remains, and then the journal.
    ///
    /// # Errors
    /// The first failure, or why the journal is invalid. In both cases the journal is kept, so that the next
    /// attempt can remove the rest.
    pub fn remove(self) -> Result<(), TestbedError> {
        undo(&self.journal)
    }
}

/// Ends the processes of a journal, and removes its interfaces, its namespaces and the journal. Continues
/// after an error, and returns the first one.
pub(crate) fn undo(journal: &TestbedJournal) -> Result<(), TestbedError> {
    journal.check()?;
    let mut outcome = end_processes(journal);
    for (name, inode) in namespaces(journal) {
        let removed = remove_namespace(name, inode);
        outcome = outcome.and(removed);
    }
    for entry in journal.entries() {
        outcome = outcome.and(match entry {
            TestbedEntry::Folder(path) => remove_folder(path),
            TestbedEntry::Group(path) => {
                group::remove(path, PATIENCE).path_context(path, "remove the control group")
            }
            _ => Ok(()),
        });
    }
    outcome.and_then(|()| journal.close())
}

/// Removes a program folder with its contents. Symbolic links are removed, not followed.
fn remove_folder(path: &Path) -> Result<(), TestbedError> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.path_context(path, "remove the folder"),
    }
}

fn namespaces(journal: &TestbedJournal) -> impl Iterator<Item = (&str, namespace::NamespaceId)> {
    journal.entries().iter().filter_map(|entry| match entry {
        TestbedEntry::Namespace { name, inode } => Some((name.as_str(), *inode)),
        _ => None,
    })
}

fn remove_namespace(name: &str, inode: namespace::NamespaceId) -> Result<(), TestbedError> {
    match namespace::look(name, inode)? {
        // `Other`: another program has made a namespace with this name later.
        NamespaceBinding::Gone | NamespaceBinding::Other => Ok(()),
        // The owner was killed between the creation of the file and the mount.
        NamespaceBinding::Bare => namespace::remove_bare(name),
        NamespaceBinding::Here(file) => {
            // A user's shell may keep the namespace alive, so the interfaces are removed explicitly.
            let entered = NetworkNamespace::enter(name, file)?;
            entered.ask(
                || "remove the interfaces".into(),
                || match Rtnetlink::open()?.delete_group(GROUP) {
                    Err(NetlinkError::Kernel(error))
                        if error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) =>
                    {
                        Ok(())
                    }
                    removed => removed,
                },
            )?;
            drop(entered);
            namespace::unbind(name)
        }
    }
}

/// Kills the processes of a journal. Repeats this until no process is left, because a process may start
/// another process before it dies.
fn end_processes(journal: &TestbedJournal) -> Result<(), TestbedError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let living = living(journal);
        if living.is_empty() {
            return Ok(());
        }
        for (_, handle) in &living {
            // The kernel refuses only if the process has ended.
            let _ = pidfd_send_signal(handle, Signal::KILL);
        }
        for (process, handle) in &living {
            let left = deadline.saturating_duration_since(Instant::now());
            ended_within(handle, left)
                .context(journal.id(), || format!("wait for process {}", process.pid))?;
        }
        if Instant::now() >= deadline {
            let pids = living.iter().map(|(process, _)| process.pid).collect();
            return Err(TestbedError::Immortal { pids, seconds: PATIENCE.as_secs() });
        }
    }
}

/// The living processes of a testbed: the processes that the journal names; the processes with the testbed's
/// mark, which descendants inherit; and the processes in its namespaces or control groups, which may have
/// removed the mark.
fn living(journal: &TestbedJournal) -> Vec<(ProcessId, OwnedFd)> {
    let named = journal.entries().iter().filter_map(|entry| match entry {
        TestbedEntry::Process(process) => Some(*process),
        _ => None,
    });
    let mark = format!("{MARK}={}", journal.id());
    let own = rustix::process::getpid().as_raw_pid();
    let there = BoundNamespaces::of(journal);
    let found = all_processes()
        .filter(|pid| *pid != own)
        .filter_map(|pid| ProcessId::of(pid).filter(|process| is_marked(pid, &mark) || there.has(*process)));
    let groups = journal.entries().iter().filter_map(|entry| match entry {
        TestbedEntry::Group(path) => Some(group::members(path)),
        _ => None,
    });
    let grouped = groups.flatten().filter_map(ProcessId::of).filter(|process| process.start >= there.since);
    let mut living: Vec<_> = named.chain(found).chain(grouped).collect();
    living.sort_by_key(|process| process.pid);
    living.dedup();
    living.into_iter().filter_map(|process| Some((process, process.handle()?))).collect()
}

/// The namespaces of a journal that are still bound. As long as a namespace is bound, no other namespace gets
/// the same inode.
struct BoundNamespaces {
    bound: Vec<(namespace::NamespaceId, OwnedFd)>,
    /// Start time of the owner process, ticks since boot. No process of the testbed is older.
    since: u64,
}

impl BoundNamespaces {
    fn of(journal: &TestbedJournal) -> Self {
        let bound = namespaces(journal).filter_map(|(name, inode)| match namespace::look(name, inode) {
            Ok(NamespaceBinding::Here(file)) => Some((inode, file.into())),
            _ => None,
        });
        let owner = journal.entries().iter().find_map(|entry| match entry {
            TestbedEntry::Owner(owner) => Some(owner.start),
            _ => None,
        });
        Self { bound: bound.collect(), since: owner.unwrap_or(u64::MAX) }
    }

    fn has(&self, process: ProcessId) -> bool {
        let of = std::fs::metadata(format!("/proc/{}/ns/net", process.pid));
        let inode = of.map(|found| namespace::NamespaceId { device: found.dev(), number: found.ino() });
        process.start >= self.since
            && inode.is_ok_and(|inode| self.bound.iter().any(|(bound, _)| *bound == inode))
    }
}

fn all_processes() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn is_marked(pid: i32, mark: &str) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
}
