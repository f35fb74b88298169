//! Limits the programs of a node with control groups of version 1 or 2 (cgroups(7)).

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use netrig_core::named;
use netrig_experiment::Node;
use netrig_host::control_group::{self, throttled_in};
use netrig_host::proc;

use crate::error::{ErrorContext, TestbedError};
use crate::journal::FOLDER as PREFIX;

/// Period of a processor quota, µs, unless the quota would be below [`LEAST_QUOTA`]. It is short compared with the
/// timers of transport protocols, so a node is slow but does not stall.
const PERIOD: u64 = 10_000;
/// "The minimum quota allowed [...] is 1ms" (sched-bwc.rst), as is the minimum period. In µs.
const LEAST_QUOTA: u64 = 1_000;
/// Maximum period, µs (sched-bwc.rst: 1 s).
const LONGEST_PERIOD: u64 = 1_000_000;
/// Size of a page, bytes. Memory limits are multiples of it.
const PAGE: u64 = 4096;

/// Limits of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct NodeLimits {
    /// Number of processors that the programs may use, on average over a period.
    pub quota: Option<f64>,
    /// Memory that the programs may use, bytes.
    pub memory: Option<u64>,
}

impl NodeLimits {
    /// The limits in the description of a node's host.
    pub fn of(node: &Node) -> Self {
        let quota = node.host.quota.map(|share| share.get() * node.cpus.len() as f64);
        Self { quota, memory: node.host.memory.map(|size| size.bytes() / PAGE * PAGE) }
    }

    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    fn controllers(&self) -> impl Iterator<Item = CgroupController> {
        let cpu = self.quota.map(|_| CgroupController::Cpu);
        cpu.into_iter().chain(self.memory.map(|_| CgroupController::Memory))
    }
}

named! {
    /// A controller of control groups.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum CgroupController {
        Cpu = "cpu",
        Memory = "memory",
    }
}

/// The mounted hierarchy of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ControllerMount {
    version: CgroupVersion,
    folder: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CgroupVersion {
    One,
    Two,
}

/// The quota per period, and the period, for this number of processors, µs.
fn quota(processors: f64) -> (u64, u64) {
    let of = |period: u64| (processors * period as f64).round() as u64;
    let period = if of(PERIOD) >= LEAST_QUOTA {
        PERIOD
    } else {
        ((LEAST_QUOTA as f64 / processors).ceil() as u64).min(LONGEST_PERIOD)
    };
    (of(period), period)
}

/// Checks that this machine can set these limits. The error is a message for users.
pub(crate) fn check(limits: &NodeLimits) -> Result<(), String> {
    if limits.quota.is_some_and(|processors| quota(processors).0 < LEAST_QUOTA) {
        return Err("its `quota` is less than 1 ms in a second, the minimum of the kernel".into());
    }
    let mounts = proc::text("/proc/self/mountinfo");
    limits.controllers().try_for_each(|controller| ControllerMount::find(&mounts, controller).map(drop))
}

impl ControllerMount {
    /// Finds a controller in the text of `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
    fn find(mounts: &str, controller: CgroupController) -> Result<Self, String> {
        let name = controller.name();
        let mut disabled = None;
        for mounted in control_group::Hierarchy::all(mounts) {
            if mounted.has(name) {
                return Ok(Self { version: CgroupVersion::One, folder: mounted.folder });
            }
            let is_unified = mounted.is_unified();
            let folder = mounted.folder;
            let lists = |file: &str| {
                let text = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
                text.split_whitespace().any(|word| word == name)
            };
            if is_unified && lists("cgroup.subtree_control") {
                return Ok(Self { version: CgroupVersion::Two, folder });
            }
            if is_unified && lists("cgroup.controllers") {
                disabled = Some(folder);
            }
        }
        Err(match disabled {
            Some(folder) => format!(
                "the controller `{name}` of control groups is not enabled: `echo +{name} > {}`",
                folder.join("cgroup.subtree_control").display()
            ),
            None => format!("this machine has no controller `{name}` of control groups (cgroups(7))"),
        })
    }
}

/// The control groups of a node, one per hierarchy. Their folders are recorded in the journal and removed with the
/// testbed.
#[derive(Debug)]
pub(crate) struct ControlGroup {
    cpu: Option<(CgroupVersion, PathBuf)>,
    memory: Option<(CgroupVersion, PathBuf)>,
    limits: NodeLimits,
}

impl ControlGroup {
    /// The control groups for node `node` of testbed `id`. They do not exist yet.
    ///
    /// # Errors
    /// If this machine lacks a controller.
    pub fn planned(id: &str, node: &str, limits: &NodeLimits) -> Result<Self, String> {
        let mounts = proc::text("/proc/self/mountinfo");
        let place = |controller: CgroupController| -> Result<_, String> {
            let ControllerMount { version, folder } = ControllerMount::find(&mounts, controller)?;
            Ok((version, folder.join(format!("{PREFIX}{id}.{node}"))))
        };
        Ok(Self {
            cpu: limits.quota.map(|_| place(CgroupController::Cpu)).transpose()?,
            memory: limits.memory.map(|_| place(CgroupController::Memory)).transpose()?,
            limits: *limits,
        })
    }

    pub fn folders(&self) -> Vec<PathBuf> {
        let mut folders: Vec<_> =
            [&self.cpu, &self.memory].into_iter().flatten().map(|(_, folder)| folder.clone()).collect();
        folders.dedup();
        folders
    }

    /// Makes the groups, and sets and reads back the memory limit.
    pub fn make(&self) -> Result<(), TestbedError> {
        for folder in self.folders() {
            std::fs::create_dir(&folder).path_context(&folder, "make the control group")?;
        }
        if let (Some((version, folder)), Some(bytes)) = (&self.memory, self.limits.memory) {
            let bytes = bytes.to_string();
            // If there is swap, it is limited too. Otherwise a node that needs more memory would only become slow.
            match version {
                CgroupVersion::One => {
                    set(folder, "memory.limit_in_bytes", &bytes)?;
                    set_if_there(folder, "memory.memsw.limit_in_bytes", &bytes)?;
                }
                CgroupVersion::Two => {
                    set(folder, "memory.max", &bytes)?;
                    set_if_there(folder, "memory.swap.max", "0")?;
                }
            }
        }
        Ok(())
    }

    /// Applies the processor quota, and reads it back.
    pub fn hold_to_quota(&self) -> Result<(), TestbedError> {
        self.limits.quota.map_or(Ok(()), |processors| self.ration(Some(quota(processors).0), processors))
    }

    /// Removes the processor quota.
    pub fn lift_quota(&self) -> Result<(), TestbedError> {
        self.limits.quota.map_or(Ok(()), |processors| self.ration(None, processors))
    }

    /// Sets the period for this number of processors, and the quota `ration` per period, µs. `None` removes the quota.
    fn ration(&self, ration: Option<u64>, processors: f64) -> Result<(), TestbedError> {
        let Some((version, folder)) = &self.cpu else { return Ok(()) };
        let (_, period) = quota(processors);
        let quota_text = |all: &str| ration.map_or_else(|| all.to_owned(), |ration| ration.to_string());
        match version {
            CgroupVersion::One => {
                set(folder, "cpu.cfs_period_us", &period.to_string())?;
                set(folder, "cpu.cfs_quota_us", &quota_text("-1"))
            }
            CgroupVersion::Two => set(folder, "cpu.max", &format!("{} {period}", quota_text("max"))),
        }
    }

    /// Opens the files of the groups through which a process joins them.
    pub fn cgroup_files(&self) -> Result<Vec<OwnedFd>, TestbedError> {
        let open = |folder: PathBuf| {
            let door = folder.join("cgroup.procs");
            let file = File::options().write(true).open(&door);
            file.map(OwnedFd::from).path_context(&door, "open the control group")
        };
        self.folders().into_iter().map(open).collect()
    }

    pub fn reader(&self) -> ControlGroupReader {
        ControlGroupReader { cpu: self.cpu.clone(), memory: self.memory.clone() }
    }
}

/// Writes `value` to a file of a group and reads it back.
fn set(folder: &Path, file: &str, value: &str) -> Result<(), TestbedError> {
    let path = folder.join(file);
    let found = netrig_host::sysctl::set_and_read_back(&path, value)
        .path_context(&path, &format!("write {value}"))?;
    match found {
        None => Ok(()),
        Some(found) => Err(TestbedError::NotTaken {
            setting: file.to_owned(),
            place: folder.display().to_string(),
            asked: value.to_owned(),
            found,
        }),
    }
}

fn set_if_there(folder: &Path, file: &str, value: &str) -> Result<(), TestbedError> {
    if folder.join(file).exists() { set(folder, file, value) } else { Ok(()) }
}

/// Reads the limited resources that the programs of a node use.
#[derive(Clone, Debug, Default)]
pub(crate) struct ControlGroupReader {
    cpu: Option<(CgroupVersion, PathBuf)>,
    memory: Option<(CgroupVersion, PathBuf)>,
}

impl ControlGroupReader {
    /// Total time for which the processes of the node were throttled because of the quota, ns, since the group was
    /// made. `None` if the node has no quota.
    pub fn throttled(&self) -> Option<u64> {
        throttled_in(&self.cpu.as_ref()?.1)
    }

    /// The memory in use, bytes. `None` if the node has no memory limit.
    pub fn memory(&self) -> Option<u64> {
        let (version, folder) = self.memory.as_ref()?;
        let file = match version {
            CgroupVersion::One => "memory.usage_in_bytes",
            CgroupVersion::Two => "memory.current",
        };
        std::fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok()
    }

    /// Number of processes that the kernel killed because the memory limit was reached.
    pub fn ended_for_memory(&self) -> u64 {
        let Some((version, folder)) = &self.memory else { return 0 };
        let file = match version {
            CgroupVersion::One => "memory.oom_control",
            CgroupVersion::Two => "memory.events",
        };
        proc::number(&proc::text(folder.join(file)), "oom_kill").unwrap_or(0)
    }
}

/// Removes the folder of a group. Its processes have been killed, but may need some time to leave the group.
pub(crate) fn remove(folder: &Path, patience: std::time::Duration) -> io::Result<()> {
    let deadline = std::time::Instant::now() + patience;
    loop {
        match std::fs::remove_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error)
                if error.kind() == io::ErrorKind::ResourceBusy && std::time::Instant::now() < deadline =>
            {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            removed => return removed,
        }
    }
}

/// The IDs of the processes in a group.
pub(crate) fn members(folder: &Path) -> Vec<i32> {
    let text = std::fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_of_a_short_period_as_far_as_a_kernel_gives_it() {
        assert_eq!(quota(0.5), (5_000, 10_000));
        assert_eq!(quota(1.5), (15_000, 10_000));
        assert_eq!(quota(0.1), (1_000, 10_000));
        assert_eq!(quota(0.05), (1_000, 20_000));
        assert_eq!(quota(0.001), (1_000, 1_000_000));
        assert!(check(&NodeLimits { quota: Some(0.0001), memory: None }).unwrap_err().contains("1 ms"));
    }

    #[test]
    fn what_limits_nothing_needs_nothing() {
        assert_eq!(check(&NodeLimits::default()), Ok(()));
        assert_eq!(
            ControlGroup::planned("ab", "client", &NodeLimits::default()).unwrap().folders(),
            Vec::<PathBuf>::new()
        );
    }

    /// Hierarchies of version 1, and a hierarchy of version 2 without controllers, as in systemd's hybrid layout.
    #[test]
    fn a_hierarchy_of_the_first_version_is_found_by_its_options() {
        let mounts = "\
            30 23 0:26 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755\n\
            31 30 0:27 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw\n\
            35 30 0:31 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct\n\
            36 30 0:32 / /sys/fs/cgroup/cpuset rw,nosuid - cgroup cgroup rw,cpuset\n";
        let found = ControllerMount::find(mounts, CgroupController::Cpu).unwrap();
        assert_eq!(
            found,
            ControllerMount { version: CgroupVersion::One, folder: "/sys/fs/cgroup/cpu,cpuacct".into() }
        );
        let why = ControllerMount::find(mounts, CgroupController::Memory).unwrap_err();
        assert!(why.contains("no controller `memory`"), "{why}");
    }

    #[test]
    fn a_hierarchy_of_the_second_version_must_have_the_controller_enabled() {
        let folder = tempfile::tempdir().unwrap();
        let mounts = format!("30 23 0:26 / {} rw - cgroup2 cgroup2 rw\n", folder.path().display());
        std::fs::write(folder.path().join("cgroup.controllers"), "cpuset cpu memory\n").unwrap();
        std::fs::write(folder.path().join("cgroup.subtree_control"), "memory\n").unwrap();
        let found = ControllerMount::find(&mounts, CgroupController::Memory).unwrap();
        assert_eq!(found, ControllerMount { version: CgroupVersion::Two, folder: folder.path().into() });
        let why = ControllerMount::find(&mounts, CgroupController::Cpu).unwrap_err();
        assert!(why.contains("echo +cpu > ") && why.contains("cgroup.subtree_control"), "{why}");
    }

    #[test]
    fn counters_are_read_by_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cpu.stat");
        std::fs::write(&file, "nr_periods 10\nnr_throttled 4\nthrottled_usec 1234\n").unwrap();
        let reader =
            ControlGroupReader { cpu: Some((CgroupVersion::Two, folder.path().into())), memory: None };
        assert_eq!(
            (reader.throttled(), reader.memory(), reader.ended_for_memory()),
            (Some(1_234_000), None, 0)
        );
    }
}
