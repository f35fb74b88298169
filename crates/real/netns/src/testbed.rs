//! The testbed: built from a wiring, gone when it is dropped.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use crate::build::build;
use crate::capabilities;
use crate::error::{ErrorContext, TestbedError};
use crate::host::{ControlGroup, ControlGroupReader, NodeLimits};
use crate::journal::{FOLDER, Journals, TestbedEntry, TestbedJournal};
use crate::namespace::{self, NetworkNamespace};
use crate::netlink::Refusal;
use crate::process::{Process, ProcessGroup, ProcessId, SpawnLimits};
use crate::processors;
use crate::removal::undo;
use crate::wiring::Wiring;

/// Nodes as network namespaces, each end of each link a veth pair to the namespace of the router.
///
/// Everything is there when [`Testbed::build`] returns, and nothing passes: frames that a node sends arrive at the
/// router's interface, and it is for whoever is there to move them on. Dropping it removes everything.
pub struct Testbed {
    wiring: Wiring,
    nodes: Vec<NetworkNamespace>,
    router: NetworkNamespace,
    journal: TestbedJournal,
    /// For the files of programs, once one is needed.
    folder: Option<PathBuf>,
    /// What limits nodes, by their places.
    groups: BTreeMap<usize, ControlGroup>,
    removed: bool,
}

/// The identity of a testbed on this machine: up to 16 small letters and digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestbedId(String);

impl TestbedId {
    /// One that nobody has, but for a chance of one in 2³².
    ///
    /// # Errors
    /// If the kernel has no random numbers.
    pub fn fresh() -> Result<Self, TestbedError> {
        let mut bytes = [0; 4];
        let drawn = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
        drawn.context("this process", || "draw a random number".into())?;
        Ok(Self(format!("{:08x}", u32::from_ne_bytes(bytes))))
    }

    /// One that was chosen.
    ///
    /// # Errors
    /// If it cannot be part of the names of namespaces.
    pub fn new(id: &str) -> Result<Self, TestbedError> {
        let fine = (1..=16).contains(&id.len());
        let fine = fine && id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        if fine { Ok(Self(id.to_owned())) } else { Err(TestbedError::Id(id.to_owned())) }
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The namespace of a node. A node's name is of letters, digits, `_`, `-` and `#`.
    fn namespace(&self, node: &str) -> String {
        format!("netrig-{}-{node}", self.0)
    }

    /// The namespace of the router; no node's, for the `.`.
    fn router(&self) -> String {
        format!("netrig-{}.router", self.0)
    }
}

impl Testbed {
    /// Builds what `wiring` says, as testbed `id`.
    ///
    /// # Errors
    /// What is missing, in the way, or refused by the kernel. What was made until then is removed.
    pub fn build(journals: &Journals, id: &TestbedId, wiring: Wiring) -> Result<Self, TestbedError> {
        let missing_requirements = capabilities::missing_requirements();
        if !missing_requirements.is_empty() {
            return Err(TestbedError::Incapable(missing_requirements));
        }
        let router = NetworkNamespace::unshare(&id.router())?;
        let nodes = wiring.nodes.iter().map(|node| NetworkNamespace::unshare(&id.namespace(&node.name)));
        let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
        for namespace in nodes.iter().chain([&router]) {
            // Before the journal names it, or what is not ours would be removed on the journal's word.
            let path = namespace::path(namespace.name());
            if std::fs::symlink_metadata(&path).is_ok() {
                return Err(TestbedError::Collision(path));
            }
        }
        let journal = journals.start(id.as_str())?;
        // From here on, dropping it undoes what was done.
        let mut testbed =
            Self { wiring, nodes, router, journal, folder: None, groups: BTreeMap::new(), removed: false };
        testbed.write_down()?;
        for namespace in testbed.namespaces() {
            namespace.bind()?;
        }
        build(&testbed.router, &testbed.nodes, &testbed.wiring)?;
        Ok(testbed)
    }

    fn namespaces(&self) -> impl Iterator<Item = &NetworkNamespace> {
        [&self.router].into_iter().chain(&self.nodes)
    }

    /// Journals the owner and everything that is about to be made.
    fn write_down(&mut self) -> Result<(), TestbedError> {
        let owner = ProcessId::own().context("this process", || "tell it from others".into())?;
        let mut entries = vec![TestbedEntry::Owner(owner)];
        entries.extend(self.namespaces().map(|namespace| TestbedEntry::Namespace {
            name: namespace.name().to_owned(),
            inode: namespace.inode(),
        }));
        let interface = |namespace: &NetworkNamespace, name: &String| TestbedEntry::Interface {
            namespace: namespace.name().to_owned(),
            name: name.clone(),
        };
        for end in self.wiring.links.iter().flat_map(|wire| &wire.ends) {
            entries.extend(end.router_interface.iter().map(|name| interface(&self.router, name)));
            entries.push(interface(&self.nodes[end.node], &end.interface));
        }
        self.journal.record(entries)
    }

    /// Its identity.
    pub fn id(&self) -> &str {
        self.journal.id()
    }

    /// What it was built from.
    pub fn wiring(&self) -> &Wiring {
        &self.wiring
    }

    /// The name of a node's namespace, for `ip netns exec` too.
    ///
    /// # Errors
    /// If there is no such node.
    pub fn namespace(&self, node: usize) -> Result<&str, TestbedError> {
        Ok(self.node(node)?.name())
    }

    /// The name of the router's namespace.
    pub fn router_namespace(&self) -> &str {
        self.router.name()
    }

    /// Does something in the router's namespace, on a thread that lives there: sockets that are opened belong to it.
    pub fn in_router<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        self.router.run(job)
    }

    /// Does something in a node's namespace, on a thread that lives there.
    ///
    /// # Errors
    /// If there is no such node.
    pub fn in_node<T: Send + 'static>(
        &self,
        node: usize,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, TestbedError> {
        Ok(self.node(node)?.run(job))
    }

    /// Asks the kernel for something in a node's namespace, named by `action` if it is refused.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        node: usize,
        action: impl FnOnce() -> String,
        job: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, TestbedError> {
        self.node(node)?.ask(action, job)
    }

    /// Starts a program on a node, on the processors of the node, in a process group of its own. It ends with the testbed, or with this process,
    /// however that ends. Where its output goes is `command`'s to say.
    ///
    /// # Errors
    /// If there is no such node, or the program cannot be started.
    pub fn spawn(&mut self, node: usize, command: Command) -> Result<Process, TestbedError> {
        self.start(node, ProcessGroup::Own, command)
    }

    /// The same in the process group of this process: for a person's shell, which reads from the terminal.
    ///
    /// # Errors
    /// If there is no such node, or the program cannot be started.
    pub fn spawn_in_foreground(&mut self, node: usize, command: Command) -> Result<Process, TestbedError> {
        self.start(node, ProcessGroup::Ours, command)
    }

    fn start(&mut self, node: usize, group: ProcessGroup, command: Command) -> Result<Process, TestbedError> {
        let namespace = self.node(node)?;
        let processors = processors::set(&self.wiring.nodes[node].cpus);
        let cgroup_files = self.groups.get(&node).map_or(Ok(Vec::new()), ControlGroup::cgroup_files)?;
        let bounds = SpawnLimits { processors, cgroup_files };
        let process = Process::start(namespace, self.journal.id(), group, bounds, command)?;
        // It carries the testbed's mark since its first instruction; this line tells it even if it takes the mark off.
        // One that has ended already needs none.
        let started = i32::try_from(process.id()).ok().and_then(ProcessId::of);
        self.journal.record(started.map(TestbedEntry::Process))?;
        Ok(process)
    }

    /// Limits what all programs that are started on a node from now on have together; their quota of processors once they are held
    /// to it. The limit goes with the testbed.
    ///
    /// # Errors
    /// If this machine has no such limits, or they do not take.
    pub(crate) fn limit(&mut self, node: usize, limits: &NodeLimits) -> Result<(), TestbedError> {
        let name = self.node(node)?.name().to_owned();
        let planned = ControlGroup::planned(self.journal.id(), &self.wiring.nodes[node].name, limits);
        let group = planned.map_err(|why| TestbedError::Unlimited { place: name, why })?;
        for folder in group.folders() {
            // Before the journal names it, or what is not ours would be removed on the journal's word.
            if std::fs::symlink_metadata(&folder).is_ok() {
                return Err(TestbedError::Collision(folder));
            }
        }
        self.journal.record(group.folders().into_iter().map(TestbedEntry::Group))?;
        group.make()?;
        self.groups.insert(node, group);
        Ok(())
    }

    /// Holds the programs of all nodes to their quotas. Until then they start as fast as they can: of a hundredth of a processor a
    /// program has begun after seconds, and nobody measures that.
    ///
    /// # Errors
    /// If one does not take.
    pub(crate) fn hold_to_quotas(&self) -> Result<(), TestbedError> {
        self.groups.values().try_for_each(ControlGroup::hold_to_quota)
    }

    /// Lets them end as fast as they can.
    ///
    /// # Errors
    /// What the kernel answers.
    pub(crate) fn lift_quotas(&self) -> Result<(), TestbedError> {
        self.groups.values().try_for_each(ControlGroup::lift_quota)
    }

    /// Who tells what the programs of a node take of what limits them, if something does.
    pub(crate) fn limited(&self, node: usize) -> Option<ControlGroupReader> {
        self.groups.get(&node).map(ControlGroup::reader)
    }

    /// A folder of its own for the files of programs. It goes with the testbed.
    ///
    /// # Errors
    /// If it is there already, or cannot be made.
    pub(crate) fn folder(&mut self) -> Result<PathBuf, TestbedError> {
        if let Some(folder) = &self.folder {
            return Ok(folder.clone());
        }
        // Nobody but root gets to where it is made, so nobody is in between the look and the making.
        let path = self.journal.beside(&format!("{FOLDER}{}", self.journal.id()));
        if std::fs::symlink_metadata(&path).is_ok() {
            return Err(TestbedError::Collision(path));
        }
        self.journal.record([TestbedEntry::Folder(path.clone())])?;
        std::fs::create_dir(&path).path_context(&path, "make the folder")?;
        self.folder = Some(path.clone());
        Ok(path)
    }

    /// The namespace of a node, for what only this crate does in it.
    pub(crate) fn node(&self, node: usize) -> Result<&NetworkNamespace, TestbedError> {
        self.nodes.get(node).ok_or(TestbedError::NoNode(node))
    }

    /// Removes everything, and tells what could not be removed.
    ///
    /// # Errors
    /// What could not be removed first. It stays in the journal, and [`crate::left_behind`] finds it once this process has
    /// ended.
    pub fn remove(mut self) -> Result<(), TestbedError> {
        self.removed = true;
        undo(&self.journal)
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        if !self.removed {
            // Nobody is here to be told: what stays is in the journal, for the next start.
            let _ = undo(&self.journal);
        }
    }
}
