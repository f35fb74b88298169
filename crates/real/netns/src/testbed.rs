//! A testbed. It is built from its plan (the [`Wiring`]) and removed when it is dropped.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use crate::build::build;
use crate::capabilities;
use crate::error::{ErrorContext, TestbedError};
use crate::host::{ControlGroup, ControlGroupReader, NodeLimits};
use crate::journal::{FOLDER, Journals, TestbedEntry, TestbedJournal};
use crate::namespace::{self, NetworkNamespace};
use crate::netlink::NetlinkError;
use crate::process::{Process, ProcessGroup, ProcessId, SpawnLimits};
use crate::processors;
use crate::removal::undo;
use crate::wiring::Wiring;

/// A testbed whose nodes are network namespaces. Each end of a link is a veth pair to the namespace of the
/// router.
///
/// When [`Testbed::build`] returns, all nodes are configured, but no frame is forwarded between them. Frames of
/// nodes arrive at the router's interfaces, and the caller must forward them. Dropping the testbed removes all
/// its objects.
pub struct Testbed {
    wiring: Wiring,
    nodes: Vec<NetworkNamespace>,
    router: NetworkNamespace,
    journal: TestbedJournal,
    /// The folder for the files of programs. `None` until a program needs it.
    folder: Option<PathBuf>,
    /// The control groups of limited nodes, by the index of the node.
    groups: BTreeMap<usize, ControlGroup>,
    removed: bool,
}

/// The identity of a testbed on this machine: up to 16 lower-case letters and digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestbedId(String);

impl TestbedId {
    /// A random identity. Two random identities are equal with probability 2⁻³².
    ///
    /// # Errors
    /// If the kernel gives no random numbers.
    pub fn fresh() -> Result<Self, TestbedError> {
        let mut bytes = [0; 4];
        let drawn = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
        drawn.context("this process", || "draw a random number".into())?;
        Ok(Self(format!("{:08x}", u32::from_ne_bytes(bytes))))
    }

    /// An identity that the caller chose.
    ///
    /// # Errors
    /// If it cannot be part of the names of namespaces.
    pub fn new(id: &str) -> Result<Self, TestbedError> {
        let fine = (1..=16).contains(&id.len());
        let fine = fine && id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        if fine { Ok(Self(id.to_owned())) } else { Err(TestbedError::Id(id.to_owned())) }
    }

    /// The identity as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of a node's namespace. A node's name consists of letters, digits, `_`, `-` and `#`.
    fn namespace(&self, node: &str) -> String {
        format!("netrig-{}-{node}", self.0)
    }

    /// The name of the router's namespace. It contains a `.`, so no node's namespace can have the same name.
    fn router(&self) -> String {
        format!("netrig-{}.router", self.0)
    }
}

impl Testbed {
    /// Builds `wiring` as testbed `id`.
    ///
    /// # Errors
    /// If a requirement is missing, a name is in use, or the kernel refuses. The objects that were made before
    /// the error are removed.
    pub fn build(journals: &Journals, id: &TestbedId, wiring: Wiring) -> Result<Self, TestbedError> {
        let missing_requirements = capabilities::missing_requirements();
        if !missing_requirements.is_empty() {
            return Err(TestbedError::Incapable(missing_requirements));
        }
        let router = NetworkNamespace::unshare(&id.router())?;
        let nodes = wiring.nodes.iter().map(|node| NetworkNamespace::unshare(&id.namespace(&node.name)));
        let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
        for namespace in nodes.iter().chain([&router]) {
            // This must be checked before the journal names the namespace. Otherwise the removal could delete a
            // namespace that does not belong to netrig.
            let path = namespace::path(namespace.name());
            if std::fs::symlink_metadata(&path).is_ok() {
                return Err(TestbedError::Collision(path));
            }
        }
        let journal = journals.start(id.as_str())?;
        // From here on, an early return drops the testbed, which removes the objects made so far.
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

    /// Records the owner, and all namespaces and interfaces that will be made, in the journal.
    fn write_down(&mut self) -> Result<(), TestbedError> {
        let owner = ProcessId::own().context("this process", || "read its identity".into())?;
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

    /// The identity of the testbed.
    pub fn id(&self) -> &str {
        self.journal.id()
    }

    /// The wiring from which the testbed was built.
    pub fn wiring(&self) -> &Wiring {
        &self.wiring
    }

    /// The name of a node's namespace, which is also its name for `ip netns exec`.
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

    /// Runs a job on a thread in the router's namespace. Sockets that it opens belong to that namespace.
    pub fn in_router<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        self.router.run(job)
    }

    /// Runs a job on a thread in a node's namespace.
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

    /// Runs a netlink request in a node's namespace. `action` describes the request in an error.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        node: usize,
        action: impl FnOnce() -> String,
        job: impl FnOnce() -> Result<T, NetlinkError> + Send + 'static,
    ) -> Result<T, TestbedError> {
        self.node(node)?.ask(action, job)
    }

    /// Starts a program on a node, on the processors of the node and in a new process group. The program is
    /// killed when the testbed is removed or this process ends. `command` defines where its output goes.
    ///
    /// # Errors
    /// If there is no such node, or the program cannot be started.
    pub fn spawn(&mut self, node: usize, command: Command) -> Result<Process, TestbedError> {
        self.start(node, ProcessGroup::Own, command)
    }

    /// Starts a program in the process group of this process, for a shell that reads from the terminal.
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
        // The program has the testbed's mark from the start. It is also recorded in the journal, in case it removes
        // the mark. A program that has already ended needs no entry.
        let started = i32::try_from(process.id()).ok().and_then(ProcessId::of);
        self.journal.record(started.map(TestbedEntry::Process))?;
        Ok(process)
    }

    /// Limits the total resources of all programs that start on a node from now on. The processor quota takes
    /// effect only when [`Self::hold_to_quotas`] is called. The limits are removed with the testbed.
    ///
    /// # Errors
    /// If this machine does not support such limits, or they do not take effect.
    pub(crate) fn limit(&mut self, node: usize, limits: &NodeLimits) -> Result<(), TestbedError> {
        let name = self.node(node)?.name().to_owned();
        let planned = ControlGroup::planned(self.journal.id(), &self.wiring.nodes[node].name, limits);
        let group = planned.map_err(|why| TestbedError::Unlimited { place: name, why })?;
        for folder in group.folders() {
            // This must be checked before the journal names the folder. Otherwise the removal could delete a folder
            // that does not belong to netrig.
            if std::fs::symlink_metadata(&folder).is_ok() {
                return Err(TestbedError::Collision(folder));
            }
        }
        self.journal.record(group.folders().into_iter().map(TestbedEntry::Group))?;
        group.make()?;
        self.groups.insert(node, group);
        Ok(())
    }

    /// Applies the processor quotas of all nodes. Programs are started before, without a quota: with 1 % of a
    /// processor, a start would take seconds, and the start is not part of the measurement.
    ///
    /// # Errors
    /// If a quota does not take effect.
    pub(crate) fn hold_to_quotas(&self) -> Result<(), TestbedError> {
        self.groups.values().try_for_each(ControlGroup::hold_to_quota)
    }

    /// Removes the processor quotas, so that programs can end quickly.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn lift_quotas(&self) -> Result<(), TestbedError> {
        self.groups.values().try_for_each(ControlGroup::lift_quota)
    }

    /// A reader of the resources that the programs of a node use. `None` if the node has no limits.
    pub(crate) fn limited(&self, node: usize) -> Option<ControlGroupReader> {
        self.groups.get(&node).map(ControlGroup::reader)
    }

    /// The folder for the files of programs, which is created by the first call. It is removed with the testbed.
    ///
    /// # Errors
    /// If the folder exists already or cannot be created.
    pub(crate) fn folder(&mut self) -> Result<PathBuf, TestbedError> {
        if let Some(folder) = &self.folder {
            return Ok(folder.clone());
        }
        // Only root can write to the parent folder, so no other user can create the folder between the check and
        // the creation.
        let path = self.journal.beside(&format!("{FOLDER}{}", self.journal.id()));
        if std::fs::symlink_metadata(&path).is_ok() {
            return Err(TestbedError::Collision(path));
        }
        self.journal.record([TestbedEntry::Folder(path.clone())])?;
        std::fs::create_dir(&path).path_context(&path, "make the folder")?;
        self.folder = Some(path.clone());
        Ok(path)
    }

    pub(crate) fn node(&self, node: usize) -> Result<&NetworkNamespace, TestbedError> {
        self.nodes.get(node).ok_or(TestbedError::NoNode(node))
    }

    /// Removes all objects of the testbed and returns the first error.
    ///
    /// # Errors
    /// If an object cannot be removed. It stays in the journal, and [`crate::left_behind`] finds it after this
    /// process has ended.
    pub fn remove(mut self) -> Result<(), TestbedError> {
        self.removed = true;
        undo(&self.journal)
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        if !self.removed {
            // The error is ignored, but the remaining objects stay in the journal and are removed at the next start.
            let _ = undo(&self.journal);
        }
    }
}
