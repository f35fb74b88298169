//! Detects whether foreign processes used the processors of a node. If a server shared its processors with other
//! processes, its results are invalid.

use std::path::PathBuf;

use netrig_experiment::Scenario;
use netrig_host::control_group::Hierarchy;
use netrig_host::proc::{self, TICK_S};

/// Foreign use up to this share of the time is allowed. It may be work of the kernel, or an error of the counters.
const ALLOWED: f64 = 0.05;

/// Foreign use below this time is ignored, s. The kernel may count it in steps of 0.01 s.
const UNNOTICED: f64 = 0.1;

/// The processors of a node that no other node has, and their busy time.
#[derive(Debug)]
pub(crate) struct OwnProcessors {
    node: String,
    cpus: Vec<u32>,
    source: CpuTimeSource,
    /// Busy time before the run, s.
    before: f64,
    /// Busy time when the node's programs were last observed, s.
    until: f64,
    /// Run time of the node's programs between `before` and `until`, s.
    own: f64,
}

impl OwnProcessors {
    /// The processors of a node; `None` if it has no processors of its own, or shares them with another node.
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

    /// Starts counting.
    pub fn begin(&mut self) {
        self.before = self.busy();
        (self.until, self.own) = (self.before, 0.0);
    }

    /// Records that the node's programs have run for another `ran` ns until now.
    pub fn add(&mut self, ran: u64) {
        self.own += ran as f64 / 1e9;
        self.until = self.busy();
    }

    /// Why results of the node are invalid, if foreign use was too high during `span` s of observation.
    pub fn fault(&self, span: f64) -> Option<String> {
        self.verdict(self.until - self.before - self.own, span)
    }

    fn verdict(&self, others: f64, span: f64) -> Option<String> {
        let share = others / (span * self.cpus.len() as f64);
        (others > UNNOTICED && share > ALLOWED).then(|| {
            let numbers: Vec<String> = self.cpus.iter().map(ToString::to_string).collect();
            format!(
                "other processes than those of node `{}` had {:.0} % of its processor {}; at most {:.0} % is allowed",
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

/// The source from which the busy time of a processor is read.
#[derive(Debug)]
enum CpuTimeSource {
    /// The control group of all processes, ns (cgroup-v1/cpuacct.rst). It includes the kernel threads that process the
    /// node's network traffic (`servants`). Their time is subtracted.
    Group { usage: PathBuf, servants: Vec<PathBuf> },
    /// The kernel's ticks. A whole tick is attributed to the process that runs at its end (proc_stat(5)). If a load is
    /// synchronous with the ticks, the error is up to a tenth. Interrupts, which process network traffic, are counted
    /// separately.
    Ticks,
}

impl CpuTimeSource {
    /// The most precise source of this machine.
    fn find(cpus: &[u32]) -> Self {
        let mounts = proc::text("/proc/self/mountinfo");
        // The source needs the root group, which contains all processes. Only the root group has a file
        // `release_agent`.
        let is_of_all = |file: &PathBuf| file.exists() && file.with_file_name("release_agent").exists();
        match usage(&mounts).filter(is_of_all) {
            Some(usage) => {
                Self::Group { usage, servants: cpus.iter().filter_map(|cpu| servant(*cpu)).collect() }
            }
            None => Self::Ticks,
        }
    }

    /// How long these processors were busy, s.
    fn ran(&self, cpus: &[u32]) -> f64 {
        match self {
            Self::Group { usage, servants } => {
                let ran = |text: &str, place| number(text, place).unwrap_or(0) as f64 / 1e9;
                let all = proc::text(usage);
                let all: f64 = cpus.iter().map(|cpu| ran(&all, *cpu as usize)).sum();
                all - servants.iter().map(|file| ran(&proc::text(file), 0)).sum::<f64>()
            }
            Self::Ticks => {
                let stat = proc::text("/proc/stat");
                cpus.iter().map(|cpu| ticks(&stat, *cpu)).sum::<u64>() as f64 * TICK_S
            }
        }
    }
}

/// The path of the file with the time of each processor. It is found in the text of `/proc/self/mountinfo`.
fn usage(mounts: &str) -> Option<PathBuf> {
    let counts = Hierarchy::all(mounts).find(|hierarchy| hierarchy.has("cpuacct"))?;
    Some(counts.folder.join("cpuacct.usage_percpu"))
}

/// The path of the run time file (sched-stats.rst) of the kernel thread `ksoftirqd` of a processor. This thread
/// processes network traffic that exceeds the limit of a softirq.
fn servant(cpu: u32) -> Option<PathBuf> {
    let name = format!("ksoftirqd/{cpu}");
    let mut all = std::fs::read_dir("/proc").ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let is_it =
        |path: &PathBuf| std::fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim_end() == name);
    all.find(is_it).map(|path| path.join("schedstat"))
}

/// The number at an index of a line.
fn number(text: &str, place: usize) -> Option<u64> {
    text.split_ascii_whitespace().nth(place)?.parse().ok()
}

/// Ticks of programs and the kernel on a processor, without interrupts.
fn ticks(stat: &str, cpu: u32) -> u64 {
    let own = proc::processor_ticks(stat).find(|(processor, _)| *processor == Some(cpu));
    own.map_or(0, |(_, [user, nice, system, ..])| user + nice + system)
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
        let fault = own.verdict(4.0, 10.0).unwrap();
        assert_eq!(
            fault,
            "other processes than those of node `server` had 20 % of its processor 0, 3; at most 5 % is allowed"
        );
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
            // This thread runs until the kernel has counted some of its ticks.
            let ran = || std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
            while ran().split(' ').next().unwrap().parse::<u64>().unwrap() < 400_000_000 {}
        })
        .join()
        .unwrap();
        own.add(0);
        assert!(own.fault(1.0).is_some(), "{own:?}");
        // Whole ticks are counted, so the result may be smaller than the run time.
        assert!(own.until - own.before >= 0.35, "{own:?}");
        // If all the busy time is the node's own, there is no foreign use.
        own.add(((own.until - own.before) * 1e9) as u64);
        assert_eq!(own.fault(1.0), None, "{own:?}");
    }
}
