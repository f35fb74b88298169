//! Control groups of this machine and their counters (cgroups(7)).

use std::path::{Path, PathBuf};

use crate::proc::number;

/// A hierarchy of control groups of version 1 or 2, from `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy<'a> {
    /// The mount point.
    pub folder: PathBuf,
    /// For version 1: the mount options, separated by commas, which include the controllers. `None` for version 2.
    options: Option<&'a str>,
}

impl<'a> Hierarchy<'a> {
    /// All hierarchies in the text of `/proc/self/mountinfo`, in the order of its lines.
    pub fn all(mounts: &'a str) -> impl Iterator<Item = Self> {
        mounts.lines().filter_map(|line| {
            let (place, system) = line.split_once(" - ")?;
            let folder = place.split(' ').nth(4)?.into();
            let mut system = system.split(' ');
            let kind = system.next()?;
            let options = system.nth(1).unwrap_or_default();
            match kind {
                "cgroup" => Some(Self { folder, options: Some(options) }),
                "cgroup2" => Some(Self { folder, options: None }),
                _ => None,
            }
        })
    }

    /// Whether this is a hierarchy of version 1 with this controller.
    pub fn has(&self, controller: &str) -> bool {
        self.options.is_some_and(|options| options.split(',').any(|option| option == controller))
    }

    /// Whether this is the hierarchy of version 2, which has all controllers that no hierarchy of version 1 has.
    pub const fn is_unified(&self) -> bool {
        self.options.is_none()
    }
}

/// How long the processes of a control group were throttled because they had used up their quota, ns. Works for both
/// versions. `None` if the group has no such counter.
pub fn throttled_in(folder: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(folder.join("cpu.stat")).ok()?;
    number(&text, "throttled_time").or_else(|| Some(number(&text, "throttled_usec")? * 1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_of_both_versions_are_found_among_other_mounts() {
        let mounts = "\
            30 23 0:26 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755\n\
            31 30 0:27 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw\n\
            35 30 0:31 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct\n\
            cut off\n";
        let all: Vec<_> = Hierarchy::all(mounts).collect();
        let [unified, cpu] = &all[..] else { panic!("{all:?}") };
        assert!(unified.is_unified() && !unified.has("cpu"));
        assert_eq!(unified.folder, Path::new("/sys/fs/cgroup/unified"));
        assert!(!cpu.is_unified() && cpu.has("cpuacct") && cpu.has("cpu") && !cpu.has("cpus"));
        assert_eq!(cpu.folder, Path::new("/sys/fs/cgroup/cpu,cpuacct"));
    }

    #[test]
    fn throttled_time_is_read_in_the_unit_of_each_version() {
        let folder = tempfile::tempdir().unwrap();
        let of = |text: &str| {
            std::fs::write(folder.path().join("cpu.stat"), text).unwrap();
            throttled_in(folder.path())
        };
        assert_eq!(of("nr_periods 10\nnr_throttled 4\nthrottled_usec 1234\n"), Some(1_234_000));
        assert_eq!(of("nr_periods 10\nnr_throttled 4\nthrottled_time 1234\n"), Some(1234));
        assert_eq!(of("usage_usec 7\n"), None);
    }
}
