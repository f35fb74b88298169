//! Resource usage of programs, from the kernel's lists of processes and sockets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::control_group::{Hierarchy, throttled_in};
use crate::proc::{self, SocketLine, ThreadTimes};

/// Processes that are watched together: a program with all its descendants, or a list of processes.
#[derive(Debug)]
pub struct ProcessFamily {
    roots: Vec<i32>,
    /// Whether children are included.
    has_children: bool,
    /// Times of each thread at the last reading.
    had: BTreeMap<i32, ThreadTimes>,
}

/// Resource usage of a family since the last reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Identifiers of the family's processes.
    pub processes: Vec<i32>,
    /// Processor time of all threads since the last reading, ns.
    pub ran: u64,
    /// Time for which the threads have waited for a processor since the last reading, ns.
    pub waited: u64,
    /// The times of the thread that has run the longest since the last reading.
    pub busiest: ThreadTimes,
    /// Sum of the private memory of all processes plus the largest shared memory of a single process, bytes.
    pub memory: u64,
}

impl Usage {
    /// Adds the usage of another family, except for its list of processes.
    pub fn add(&mut self, other: &Self) {
        self.ran += other.ran;
        self.waited += other.waited;
        self.memory += other.memory;
        self.busiest = self.busiest.max(other.busiest);
    }
}

impl ProcessFamily {
    /// A family of the process `root` and its descendants.
    pub fn of(root: u32) -> Self {
        Self { roots: vec![root.cast_signed()], has_children: true, had: BTreeMap::new() }
    }

    /// A family of these processes without their children.
    pub const fn of_processes(processes: Vec<i32>) -> Self {
        Self { roots: processes, has_children: false, had: BTreeMap::new() }
    }

    /// Reads the usage since the last call. Threads that started and ended in between are not included.
    pub fn look(&mut self) -> Usage {
        let (mut usage, mut had, mut shared) = (Usage::default(), BTreeMap::new(), 0);
        let mut left = self.roots.clone();
        while let Some(pid) = left.pop() {
            for thread in numbers_in(format!("/proc/{pid}/task")) {
                let of = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/{file}"));
                if self.has_children {
                    left.extend(of("children").iter().flat_map(|list| numbers(list)));
                }
                let Some(now) = of("schedstat").ok().and_then(|words| ThreadTimes::read(&words)) else {
                    continue;
                };
                // If the running time has decreased, the identifier now belongs to a new thread.
                let before = self.had.get(&thread).filter(|before| before.ran <= now.ran);
                let before = before.copied().unwrap_or_default();
                let own = ThreadTimes {
                    ran: now.ran - before.ran,
                    waited: now.waited.saturating_sub(before.waited),
                };
                usage.ran += own.ran;
                usage.waited += own.waited;
                usage.busiest = usage.busiest.max(own);
                had.insert(thread, now);
            }
            let status = proc::text(format!("/proc/{pid}/status"));
            let held = |name| proc::number(&status, name).unwrap_or(0) * 1024;
            usage.memory += held("RssAnon");
            shared = shared.max(held("RssFile") + held("RssShmem"));
            usage.processes.push(pid);
        }
        usage.memory += shared;
        self.had = had;
        usage
    }
}

/// The UDP sockets of the programs of a node. They are found among all sockets of the node's network namespace.
#[derive(Debug, Default)]
pub struct ProgramSockets {
    /// For the inode of each socket of the namespace: the number of dropped datagrams at the last reading; `None` if
    /// the socket does not belong to a program.
    known: BTreeMap<u64, Option<u64>>,
}

impl ProgramSockets {
    /// Bytes in the receive buffers of the sockets of `processes`, and the number of datagrams that these sockets
    /// dropped since the last call. The first process must be in the node's network namespace.
    pub fn look(&mut self, processes: &[i32]) -> (u64, u64) {
        let Some(first) = processes.first() else { return (0, 0) };
        let lists = ["udp", "udp6"].map(|list| proc::text(format!("/proc/{first}/net/{list}")));
        let lines: Vec<_> = lists.iter().flat_map(|list| SocketLine::all(list)).collect();
        // The owner of a socket does not change, so owners are looked up only if there is a new socket.
        if lines.iter().any(|line| !self.known.contains_key(&line.inode)) {
            let theirs = sockets_of(processes);
            for line in &lines {
                let own = theirs.contains(&line.inode).then_some(0);
                self.known.entry(line.inode).or_insert(own);
            }
        }
        let (mut waiting, mut dropped) = (0, 0);
        for line in &lines {
            if let Some(Some(before)) = self.known.get_mut(&line.inode) {
                waiting += line.waiting;
                dropped += line.dropped.saturating_sub(*before);
                *before = line.dropped;
            }
        }
        (waiting, dropped)
    }
}

/// The processes of this machine that have at least one of these sockets open. Processes that the caller may not
/// inspect are missing.
pub fn owners_of(inodes: &[u32]) -> Vec<i32> {
    if inodes.is_empty() {
        return Vec::new();
    }
    let has_one = |pid: &i32| {
        sockets_of(&[*pid]).iter().any(|own| inodes.iter().any(|inode| u64::from(*inode) == *own))
    };
    let mut owners = numbers_in("/proc");
    owners.retain(has_one);
    owners.sort_unstable();
    owners
}

/// Number of processors on which a process may run; 0 if it cannot be read.
pub fn processors_of(pid: i32) -> u32 {
    let status = proc::text(format!("/proc/{pid}/status"));
    let mask = proc::field(&status, "Cpus_allowed").unwrap_or_default();
    mask.chars().filter_map(|digit| digit.to_digit(16)).map(u32::count_ones).sum()
}

/// The control groups that may limit the processor time of a process: its own group and the ancestors of that group
/// (cgroups(7)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessorGroups(Vec<PathBuf>);

impl ProcessorGroups {
    /// The control groups of a process; empty if they cannot be read.
    pub fn of(pid: i32) -> Self {
        Self::find(&proc::text(format!("/proc/{pid}/cgroup")), &proc::text("/proc/self/mountinfo"))
    }

    /// Finds the groups in the texts of `/proc/PID/cgroup` and `/proc/self/mountinfo`.
    fn find(groups: &str, mounts: &str) -> Self {
        let mounted: Vec<_> = Hierarchy::all(mounts).collect();
        let chain = |line: &str| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            let top = match controllers {
                "" => mounted.iter().find(|one| one.is_unified())?,
                _ if controllers.split(',').any(|one| one == "cpu") => {
                    mounted.iter().find(|one| one.has("cpu"))?
                }
                _ => return None,
            };
            let top = &top.folder;
            let own = top.join(path.trim_start_matches('/'));
            Some(own.ancestors().take_while(|folder| folder.starts_with(top)).map(PathBuf::from).collect())
        };
        Self(groups.lines().filter_map(chain).collect::<Vec<Vec<_>>>().concat())
    }

    /// Time for which all groups together have throttled their processes, ns.
    pub fn throttled(&self) -> u64 {
        self.0.iter().filter_map(|folder| throttled_in(folder)).sum()
    }
}

/// The inodes of all sockets that these processes have open.
fn sockets_of(processes: &[i32]) -> Vec<u64> {
    let open = processes.iter().flat_map(|pid| {
        let links = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        links.filter_map(|link| {
            let target = std::fs::read_link(link.path()).ok()?;
            target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
        })
    });
    open.collect()
}

fn numbers(list: &str) -> Vec<i32> {
    list.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()
}

fn numbers_in(folder: impl AsRef<Path>) -> Vec<i32> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::net::UdpSocket;
    use std::process::{Child, Command, Stdio};

    use super::*;

    #[test]
    fn the_control_groups_of_a_process_are_found_in_both_versions() {
        let folders = |groups, mounts| {
            ProcessorGroups::find(groups, mounts)
                .0
                .iter()
                .map(|folder| folder.display().to_string())
                .collect()
        };
        let one: Vec<String> = folders(
            "9:name=systemd:/\n2:cpu,cpuacct:/limits/x\n0::/\n",
            "30 23 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n",
        );
        let top = "/sys/fs/cgroup/cpu";
        assert_eq!(one, [&*format!("{top}/limits/x"), &*format!("{top}/limits"), top]);
        let two: Vec<String> =
            folders("0::/a.slice/b\n", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        assert_eq!(two, ["/sys/fs/cgroup/a.slice/b", "/sys/fs/cgroup/a.slice", "/sys/fs/cgroup"]);
        assert_eq!(ProcessorGroups::find("0::/\n", "").throttled(), 0);
    }

    #[test]
    fn the_processes_that_have_a_socket_are_found() {
        use std::os::unix::fs::MetadataExt as _;
        let own = UdpSocket::bind("127.0.0.1:0").unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&own);
        let inode = std::fs::metadata(format!("/proc/self/fd/{fd}")).unwrap().ino();
        let me = std::process::id().cast_signed();
        assert!(owners_of(&[inode as u32]).contains(&me));
        assert!(owners_of(&[]).is_empty());
        assert!(processors_of(me) >= 1);
    }

    struct Shell(Child);

    impl Drop for Shell {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// A grandchild process runs a loop long enough to use a measurable processor time, reports its end, and waits.
    #[test]
    fn what_children_do_is_their_familys() {
        // A background process of a shell reads no input unless it is redirected.
        let counts = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo done; read wait <&3";
        let script = format!("exec 3<&0; sh -c '{counts}' & wait");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = Shell(shell.spawn().unwrap());
        let mut family = ProcessFamily::of(shell.0.id());
        let mut said = String::new();
        BufReader::new(shell.0.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let usage = family.look();
        assert!(usage.ran > 1_000_000 && usage.memory > 10_000, "{usage:?}");
        assert_eq!(usage.processes[0], shell.0.id().cast_signed());
        assert!(usage.busiest.ran > 0 && usage.busiest.ran <= usage.ran, "{usage:?}");
        // The shell itself only waits.
        let alone = ProcessFamily::of_processes(vec![shell.0.id().cast_signed()]).look();
        assert_eq!(alone.processes, [shell.0.id().cast_signed()]);
        assert_eq!(ProcessFamily::of(u32::MAX >> 1).look().ran, 0, "nobody has that number");
    }

    #[test]
    fn only_sockets_of_the_program_count() {
        let own = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let me = std::process::id().cast_signed();
        let mut sockets = ProgramSockets::default();
        sockets.look(&[me]);
        sender.send_to(&[0; 1000], own.local_addr().unwrap()).unwrap();
        // Other tests of this process have sockets too.
        assert!(sockets.look(&[me]).0 >= 1000);
        assert_eq!(ProgramSockets::default().look(&[]), (0, 0));
    }
}
