//! What else ran on the processors that are a node's alone: a server that had to share them was slowed by this machine, and
//! is not to be blamed.

use std::path::PathBuf;

use netrig_experiment::Scenario;
use netrig_host::control_group::Hierarchy;

/// Of the time of its processors others may have had this share: what the kernel itself does, and what is badly counted.
const ALLOWED: f64 = 0.05;

/// But not of so little time, which may be counted in hundredths of a second.
const UNNOTICED: f64 = 0.1;

/// The unit of /proc/stat, s (`USER_HZ`, which is 100 on every Linux).
const TICK: f64 = 0.01;

/// The processors of a node with programs, which no other node has.
#[derive(Debug)]
pub(crate) struct OwnProcessors {
    node: String,
    cpus: Vec<u32>,
    source: CpuTimeSource,
    /// For how long anything ran there before the run, s.
    before: f64,
    /// For how long anything had run there when the node's programs were looked at last, s.
    until: f64,
    /// For how long the node's programs have run between the two, s.
    own: f64,
}

impl OwnProcessors {
    /// Those of the node at this place; nothing if it has none or shares them.
    pub fn of(scenario: &Scenario, node: usize) -> Option<Self> {
        let cpus = scenario.nodes[node].cpus.clone();
        let others = scenario.nodes.iter().enumerate().filter(|(place, _)| *place != node);
        let shares = others.flat_map(|(_, other)| &other.cpus).any(|cpu| cpus.contains(cpu));
        let name = scenario.nodes[node].name.clone();
        (!cpus.is_empty() && !shares).then(|| Self::new(name, cpus))
    }

    fn new(node: String, cpus: Vec<u32>) -> Self {
        let source = CpuTimeSource::find(&cpus);
        Self { node, cpus, source, before: 0.0, until: 0.0, own: 0.0 }
    }

    /// From now on it is counted.
    pub fn begin(&mut self) {
        self.before = self.busy();
        (self.until, self.own) = (self.before, 0.0);
    }

    /// The node's programs have run for so long more until now, ns.
    pub fn add(&mut self, ran: u64) {
        self.own += ran as f64 / 1e9;
        self.until = self.busy();
    }

    /// Why what was measured of the programs in the `span`, s, that they were looked at must not be trusted, if others ran there
    /// too long.
    pub fn fault(&self, span: f64) -> Option<String> {
        self.verdict(self.until - self.before - self.own, span)
    }

    fn verdict(&self, others: f64, span: f64) -> Option<String> {
        let share = others / (span * self.cpus.len() as f64);
        (others > UNNOTICED && share > ALLOWED).then(|| {
            let numbers: Vec<String> = self.cpus.iter().map(ToString::to_string).collect();
            format!(
                "what is not of node `{}` had {:.0} % of its processor {}; {:.0} % are allowed",
                self.node,
                share * 100.0,
                numbers.join(", "),
                ALLOWED * 100.0
            )
        })
    }

    fn busy(&self) -> f64 {
        self.source.ran(&self.cpus)
    }
}

/// Who tells for how long programs ran on a processor.
#[derive(Debug)]
enum CpuTimeSource {
    /// The control group of all processes, ns (cgroup-v1/cpuacct.rst), which has the threads too in which the kernel serves the
    /// network that the node is sent to: they are taken off.
    Group { usage: PathBuf, servants: Vec<PathBuf> },
    /// The kernel's ticks, each of which is counted whole for whoever it meets (proc_stat(5)): a load that comes and goes with
    /// the ticks is counted for up to a tenth more or less than it is. Interrupts, in which the network is served, stand apart.
    Ticks,
}

impl CpuTimeSource {
    /// The most exact one that this machine has.
    fn find(cpus: &[u32]) -> Self {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        // Only the group above all others has everybody, and only it can say who is told when one is empty.
        let is_of_all = |file: &PathBuf| file.exists() && file.with_file_name("release_agent").exists();
        match usage(&mounts).filter(is_of_all) {
            Some(usage) => {
                Self::Group { usage, servants: cpus.iter().filter_map(|cpu| servant(*cpu)).collect() }
            }
            None => Self::Ticks,
        }
    }

    /// For how long anything has run on these processors, s.
    fn ran(&self, cpus: &[u32]) -> f64 {
        let text = |path: &PathBuf| std::fs::read_to_string(path).unwrap_or_default();
        match self {
            Self::Group { usage, servants } => {
                let ran = |text: &str, place| number(text, place).unwrap_or(0) as f64 / 1e9;
                let all = text(usage);
                let all: f64 = cpus.iter().map(|cpu| ran(&all, *cpu as usize)).sum();
                all - servants.iter().map(|file| ran(&text(file), 0)).sum::<f64>()
            }
            Self::Ticks => {
                let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
                cpus.iter().map(|cpu| ticks(&stat, *cpu)).sum::<u64>() as f64 * TICK
            }
        }
    }
}

/// The file that has the time of each processor, by the text of `/proc/self/mountinfo`.
fn usage(mounts: &str) -> Option<PathBuf> {
    let counts = Hierarchy::all(mounts).find(|hierarchy| hierarchy.has("cpuacct"))?;
    Some(counts.folder.join("cpuacct.usage_percpu"))
}

/// The thread in which the kernel serves the network of a processor where interrupts leave too much of it: what tells for how
/// long it ran (sched-stats.rst).
fn servant(cpu: u32) -> Option<PathBuf> {
    let name = format!("ksoftirqd/{cpu}");
    let mut all = std::fs::read_dir("/proc").ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let is_it =
        |path: &PathBuf| std::fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim_end() == name);
    all.find(is_it).map(|path| path.join("schedstat"))
}

/// The number at a place of a line of them.
fn number(text: &str, place: usize) -> Option<u64> {
    text.split_ascii_whitespace().nth(place)?.parse().ok()
}

/// For how long programs and the kernel ran on a processor, in ticks, interrupts apart.
fn ticks(stat: &str, cpu: u32) -> u64 {
    let name = format!("cpu{cpu} ");
    let line = stat.lines().find_map(|line| line.strip_prefix(&name));
    // user, nice, system.
    line.unwrap_or_default()
        .split_ascii_whitespace()
        .take(3)
        .filter_map(|word| word.parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_and_the_kernel_are_counted_and_interrupts_are_not() {
        let stat = "cpu  30 3 30 1000 0 9 9 9 0 0\ncpu0 10 1 20 500 0 9 9 9 0 0\ncpu10 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!([0, 10, 1].map(|cpu| ticks(stat, cpu)), [31, 3, 0]);
    }

    #[test]
    fn the_group_of_all_is_found_where_it_counts() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      31 23 0:27 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct\n";
        let expected = "/sys/fs/cgroup/cpuacct/cpuacct.usage_percpu";
        assert_eq!(usage(mounts), Some(expected.into()));
        assert_eq!(usage("30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"), None);
        assert_eq!((number("17 4 9 \n", 1), number("17", 1)), (Some(4), None));
    }

    #[test]
    fn others_are_told_from_the_node_itself() {
        let own = OwnProcessors::new("server".into(), vec![0, 3]);
        assert_eq!(own.verdict(0.9, 10.0), None);
        assert_eq!(own.verdict(0.09, 0.1), None, "too little to be counted");
        let told = own.verdict(4.0, 10.0).unwrap();
        assert_eq!(told, "what is not of node `server` had 20 % of its processor 0, 3; 5 % are allowed");
    }

    #[test]
    fn who_works_there_beside_the_programs_is_seen() {
        let cpus = rustix::thread::sched_getaffinity(None).unwrap();
        let mine = (0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| cpus.is_set(*cpu)).unwrap();
        let mut own = OwnProcessors::new("n".into(), vec![mine as u32]);
        own.begin();
        std::thread::spawn(move || {
            let set = crate::processors::set(&[mine as u32]).unwrap();
            rustix::thread::sched_setaffinity(None, &set).unwrap();
            // Until the kernel has counted some ticks of this thread.
            let ran = || std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
            while ran().split(' ').next().unwrap().parse::<u64>().unwrap() < 400_000_000 {}
        })
        .join()
        .unwrap();
        own.add(0);
        assert!(own.fault(1.0).is_some(), "{own:?}");
        // Ticks are counted whole, each for the thread that it meets.
        assert!(own.until - own.before >= 0.35, "{own:?}");
        // Of all that ran there nothing is left for others if it was the node's own.
        own.add(((own.until - own.before) * 1e9) as u64);
        assert_eq!(own.fault(1.0), None, "{own:?}");
    }
}
