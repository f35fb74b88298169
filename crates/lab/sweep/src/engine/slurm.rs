//! Slurm, by `sbatch`, `squeue` and `scancel`.
//!
//! Slurm starts a task again while a first attempt still runs, gives an id twice after a crash of its controller, and prints an empty
//! queue for jobs that it forgot. So jobs are known by a name of the sweep, and an empty queue is no proof that a task ended.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::program::{ProgramError, Programs};
use super::{Engine, EngineError, EngineTasks, MOST_NAMED, TaskNeeds, command_line, ranges};
use crate::task::{BASE, COUNT};
use crate::{SweepError, SweepFolder};

/// The default of `MaxArraySize`. Indices of tasks are below it.
const USUAL_ARRAY: u32 = 1001;

/// Reasons why a pending task is never started by itself: Slurm failed to start it, or started it too often. A task that
/// a user or an administrator holds has other reasons, and waits.
const HELD: [&str; 3] = ["launch failed requeued held", "launch_failed_requeued_held", "JobHoldMaxRequeue"];

/// Reasons why a pending task is never started, because it asks for too much. By default Slurm accepts such a task.
const TOO_LARGE: [&str; 5] = [
    "PartitionTimeLimit",
    "BadConstraints",
    "AssocMaxWallDurationPerJobLimit",
    "QOSMaxWallDurationPerJobLimit",
    "QOSMaxMemoryPerJob",
];

/// Reasons of a pending task that pass by themselves.
const ORDINARY: [&str; 7] =
    ["", "None", "Resources", "Priority", "BeginTime", "JobArrayTaskLimit", "ReqNodeNotAvail"];

/// Slurm takes about a second to start a task. A task makes several short chunks, one after the other, until it has this work, s.
const TASK_WORK_S: f64 = 20.0;

/// The fewest tasks of a submission, and for each slot if the slots are known, if there are as many chunks.
const FEWEST_TASKS: u32 = 8;
const TASKS_PER_SLOT: u32 = 4;

/// Number and interval of polls for the end of cancelled tasks.
const CANCELS: u32 = 20;
const CANCEL_STEP: Duration = Duration::from_millis(500);

/// Options of `sbatch` that netrig sets, or with which it cannot find its tasks again: the long name, and the letter if there is one.
const OWN_OPTIONS: [(&str, Option<char>); 7] = [
    ("array", Some('a')),
    ("job-name", Some('J')),
    ("quiet", Some('Q')),
    ("test-only", None),
    ("usage", None),
    ("wait", Some('W')),
    ("wrap", None),
];

/// The option for the names of clusters.
const CLUSTERS: (&str, Option<char>) = ("clusters", Some('M'));

/// Slurm.
#[derive(Debug)]
pub struct Slurm {
    /// Options for `sbatch`.
    options: Vec<String>,
    programs: Programs,
    /// Indices of tasks are below this. `None` until Slurm was asked.
    array: Option<u32>,
}

/// An array of tasks: the task with index K − base makes chunks K to K + each − 1.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TaskArray {
    base: u32,
    indices: Vec<u32>,
    each: u32,
}

/// An option for `sbatch` that is not passed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} is not for you to set: netrig finds its tasks by the options that it gives to sbatch (--array, --job-name), and needs the answer of sbatch at once"
)]
pub struct SlurmOptionError(String);

impl Slurm {
    /// With options that are passed to `sbatch`. If `interrupted` is set, a program that runs is killed.
    ///
    /// # Errors
    /// If an option would replace one of netrig's own.
    pub fn new(options: Vec<String>, interrupted: Arc<AtomicBool>) -> Result<Self, SlurmOptionError> {
        let is_own = |option: &&String| OWN_OPTIONS.iter().any(|own| value_of(option, *own).is_some());
        match options.iter().find(is_own) {
            Some(own) => Err(SlurmOptionError(own.clone())),
            None => Ok(Self { options, programs: Programs::new(interrupted), array: None }),
        }
    }

    /// The option that names the clusters, for Slurm's other programs.
    fn clusters(&self) -> Option<String> {
        let next = self.options.iter().skip(1).map(String::as_str).chain([""]);
        let named = self.options.iter().zip(next).find_map(|(option, next)| {
            value_of(option, CLUSTERS).map(|value| if value.is_empty() { next } else { value })
        });
        named.map(|names| format!("--clusters={names}"))
    }

    /// All own tasks, one on each line: the job's id, its name, the index of the task, the state, the reason of the state, and the id
    /// of the array.
    fn queue(&self) -> Result<String, ProgramError> {
        let words = ["--noheader", "--array", "--me", "--states=all", "--format=%A|%j|%K|%t|%r|%F"]
            .map(str::to_owned);
        self.programs.call("squeue", &words.into_iter().chain(self.clusters()).collect::<Vec<_>>())
    }

    /// Cancels tasks of these chunks that ask for more than there is: smaller ones follow.
    fn cancel_too_large(&self, sweep: &SweepFolder, chunks: &[u32]) -> Result<(), ProgramError> {
        let (queue, prefix) = (self.queue()?, prefix(sweep));
        let is_replaced = |line: &QueueLine<'_>| {
            line.is_too_large() && line.chunks.clone().all(|chunk| chunks.binary_search(&chunk).is_ok())
        };
        let replaced: Vec<String> =
            lines(&queue, &prefix).filter(is_replaced).map(|line| line.task).collect();
        for tasks in replaced.chunks(MOST_NAMED) {
            self.programs.call(
                "scancel",
                &self.clusters().into_iter().chain(tasks.iter().cloned()).collect::<Vec<_>>(),
            )?;
        }
        Ok(())
    }

    /// The limit of indices that Slurm has; `None` if it does not answer.
    fn configured_array(&self) -> Option<u32> {
        let words = ["show".to_owned(), "config".to_owned()];
        let words: Vec<_> = words.into_iter().chain(self.clusters()).collect();
        largest_array(&self.programs.call("scontrol", &words).ok()?)
    }

    /// The arguments of `sbatch` for an array.
    fn arguments(&self, sweep: &SweepFolder, array: &TaskArray, needs: &TaskNeeds) -> Vec<String> {
        let TaskArray { base, indices, each } = array;
        let minutes = needs.time(*each).as_secs().div_ceil(60).max(1);
        let megabytes = needs.memory().div_ceil(1 << 20).max(1);
        let mut words = vec![
            "--parsable".to_owned(),
            format!("--job-name={}{base}x{each}", prefix(sweep)),
            format!("--array={}", ranges(indices)),
            "--requeue".to_owned(),
            "--open-mode=append".to_owned(),
            "--ntasks=1".to_owned(),
            "--cpus-per-task=1".to_owned(),
            format!("--time={minutes}"),
            // `%` begins a placeholder of Slurm.
            format!("--output={}/slurm-%A_%a.out", sweep.path().display().to_string().replace('%', "%%")),
        ];
        // Slurm refuses it beside `--mem-per-cpu` and `--mem-per-gpu`.
        if !self.options.iter().any(|option| option.starts_with("--mem-per-")) {
            words.push(format!("--mem={megabytes}M"));
        }
        // Options of the user come last: they override.
        words.extend(self.options.iter().cloned());
        words.push(sweep.path().join("slurm.sh").display().to_string());
        // Arguments, and not variables: `--export` of the user would replace those.
        words.extend([base.to_string(), each.to_string()]);
        words
    }
}

impl Engine for Slurm {
    fn name(&self) -> &'static str {
        "slurm"
    }

    fn program(&self) -> Option<&str> {
        Some("sbatch")
    }

    fn is_local(&self) -> bool {
        false
    }

    fn submit(&mut self, sweep: &SweepFolder, chunks: &[u32], needs: &TaskNeeds) -> Result<(), EngineError> {
        self.array = self.array.or_else(|| self.configured_array());
        let limit = self.array.unwrap_or(USUAL_ARRAY);
        write_script(sweep)?;
        if needs.is_retry {
            self.cancel_too_large(sweep, chunks)?;
        }
        for array in arrays(chunks, limit, each(chunks, needs)) {
            let printed = self.programs.call("sbatch", &self.arguments(sweep, &array, needs))?;
            if !is_job(&printed) {
                return Err(EngineError::Words {
                    program: "sbatch".to_owned(),
                    text: printed,
                    expected: "the number of a job",
                });
            }
        }
        Ok(())
    }

    fn tasks(&mut self, sweep: &SweepFolder) -> Result<EngineTasks, EngineError> {
        Ok(tasks(&self.queue()?, &prefix(sweep)))
    }

    fn outputs(&self) -> Option<&str> {
        Some("slurm-*.out")
    }

    fn cancel(&mut self, sweep: &SweepFolder) -> Result<(), EngineError> {
        // Repeats the cancellation: a restarted controller restores cancelled arrays.
        let mut left = BTreeMap::new();
        for _ in 0..CANCELS {
            left = jobs(&self.queue()?, &prefix(sweep));
            if left.is_empty() {
                return Ok(());
            }
            self.programs.call(
                "scancel",
                &self.clusters().into_iter().chain(left.keys().cloned()).collect::<Vec<_>>(),
            )?;
            std::thread::sleep(CANCEL_STEP);
        }
        let left: Vec<_> = left.iter().map(|(id, state)| format!("job {id} ({state})")).collect();
        Err(EngineError::Left(left.join(", ")))
    }

    fn commands(&self, sweep: &SweepFolder, chunks: &[u32], needs: &TaskNeeds) -> Vec<String> {
        let of = |array: TaskArray| {
            let words = ["sbatch".to_owned()].into_iter().chain(self.arguments(sweep, &array, needs));
            command_line(&words.collect::<Vec<_>>())
        };
        let limit = self.array.or_else(|| self.configured_array()).unwrap_or(USUAL_ARRAY);
        let arrays = arrays(chunks, limit, each(chunks, needs));
        arrays.into_iter().map(of).collect()
    }
}

/// The script of a task. `exec`: a signal must reach netrig once, and not also through the shell.
fn write_script(sweep: &SweepFolder) -> Result<(), SweepError> {
    let [executable, folder] =
        [sweep.executable(), sweep.path().to_owned()].map(|path| path.display().to_string());
    let task = command_line(&[executable, "chunk".to_owned(), folder]);
    let script = format!("#!/bin/sh\nexport {BASE}=\"$1\" {COUNT}=\"$2\"\nexec {task}\n");
    sweep.write("slurm.sh", script.as_bytes())
}

/// The first part of the names of a sweep's jobs. The base of the array follows, and behind an `x` the chunks of each task.
fn prefix(sweep: &SweepFolder) -> String {
    format!("{}-", sweep.job())
}

/// The number of chunks that each task makes. A chunk that was tried before has a task of its own, and so has each of a list with gaps:
/// another task may make those in between.
fn each(chunks: &[u32], needs: &TaskNeeds) -> u32 {
    let has_gaps = chunks.windows(2).any(|pair| pair[1] != pair[0] + 1);
    if needs.is_retry || has_gaps {
        return 1;
    }
    let tasks = needs.slots.map_or(FEWEST_TASKS, |slots| slots.saturating_mul(TASKS_PER_SLOT));
    let most = chunks.len() as u32 / tasks.max(1);
    ((TASK_WORK_S / needs.work_s.max(0.001)) as u32).clamp(1, most.max(1))
}

/// Chunks as arrays whose indices are from 1 and below `size`, with tasks of `each` chunks.
fn arrays(chunks: &[u32], size: u32, each: u32) -> Vec<TaskArray> {
    let indices = size.saturating_sub(1).max(1);
    let mut arrays: Vec<TaskArray> = Vec::new();
    // The last chunk of the last task.
    let mut last = 0;
    for chunk in chunks {
        if *chunk <= last {
            continue;
        }
        last = chunk.saturating_add(each - 1);
        let base = chunk.saturating_sub(1) / indices * indices;
        match arrays.last_mut() {
            Some(array) if array.base == base => array.indices.push(chunk - base),
            _ => arrays.push(TaskArray { base, indices: vec![chunk - base], each }),
        }
    }
    arrays
}

/// The value of an option if it is this one, in the long form, also shortened, or as a letter; empty if the value is the next word.
fn value_of<'a>(option: &'a str, (name, letter): (&str, Option<char>)) -> Option<&'a str> {
    if let Some(long) = option.strip_prefix("--") {
        let (typed, value) = long.split_once('=').unwrap_or((long, ""));
        // GNU programs take the beginning of a name. A shorter one could be that of another option.
        let shortest = name.len().min(3);
        return (typed.len() >= shortest && name.starts_with(typed)).then_some(value);
    }
    option.strip_prefix('-')?.strip_prefix(letter?)
}

/// `MaxArraySize` of `scontrol show config`.
fn largest_array(config: &str) -> Option<u32> {
    let value =
        |line: &str| line.strip_prefix("MaxArraySize")?.trim_start().strip_prefix('=')?.trim().parse().ok();
    config.lines().find_map(value)
}

/// Whether `sbatch --parsable` printed a job: `17` or `17;cluster`.
fn is_job(printed: &str) -> bool {
    let id = printed.trim().split(';').next().unwrap_or_default();
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit())
}

/// A line of a queue: a task of a job.
#[derive(Debug)]
struct QueueLine<'a> {
    id: &'a str,
    /// The name of the task for `scancel`: the id of its array, and its index.
    task: String,
    chunks: Range<u32>,
    state: &'a str,
    reason: &'a str,
    /// Whether the task waits until an operator releases it: Slurm holds tasks that it could not start.
    is_held: bool,
}

impl QueueLine<'_> {
    /// Whether the task will never start, because it asks for too much.
    fn is_too_large(&self) -> bool {
        self.state == "PD" && TOO_LARGE.contains(&self.reason)
    }
}

/// The lines of a queue whose jobs have names with this prefix.
fn lines<'a>(queue: &'a str, prefix: &'a str) -> impl Iterator<Item = QueueLine<'a>> {
    queue.lines().filter_map(move |line| {
        let mut fields = line.trim().split('|');
        let (id, name, index, state) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let (base, each) = name.strip_prefix(prefix)?.split_once('x')?;
        let first = base.parse::<u32>().ok()?.checked_add(index.parse().ok()?)?;
        let chunks = first..first.checked_add(each.parse().ok()?)?;
        let reason = fields.next().unwrap_or_default();
        let is_held = matches!(state, "RH" | "SE") || HELD.contains(&reason);
        let task = format!("{}_{index}", fields.next().unwrap_or(id));
        Some(QueueLine { id, task, chunks, state, reason, is_held })
    })
}

fn tasks(queue: &str, prefix: &str) -> EngineTasks {
    let mut tasks = EngineTasks::default();
    for line in lines(queue, prefix) {
        let is_too_large = line.is_too_large();
        let QueueLine { chunks, state, reason, is_held, .. } = line;
        match state {
            // The chunks are submitted again. If the task is released later, there are two shards of each chunk.
            _ if is_held => {}
            _ if is_too_large => {
                tasks.too_large.extend(chunks);
                tasks.reasons.insert(reason.to_owned());
            }
            // Pending, about to be pending again, on a node that starts, or suspended for another job.
            "PD" | "RQ" | "RS" | "RD" | "CF" | "S" => {
                tasks.waiting.extend(chunks);
                if !ORDINARY.contains(&reason) {
                    tasks.reasons.insert(reason.to_owned());
                }
            }
            // Running, signalled, stopped, staging out.
            "R" | "SI" | "ST" | "SO" | "RF" => tasks.running.extend(chunks),
            // Ended in some way. A completing task (CG) has published its shard, or its node is dead and the state never changes.
            _ => {}
        }
    }
    tasks
}

/// The jobs that wait or run, by id, each with a state.
fn jobs(queue: &str, prefix: &str) -> BTreeMap<String, String> {
    let is_over =
        |state: &str| matches!(state, "CA" | "CD" | "CG" | "F" | "TO" | "NF" | "OOM" | "PR" | "DL" | "BF");
    lines(queue, prefix)
        .filter(|line| !is_over(line.state))
        .map(|line| (line.id.to_owned(), line.state.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_arrays_that_slurm_takes() {
        assert_eq!(arrays(&[1, 2, 4], 1001, 1), [TaskArray { base: 0, indices: vec![1, 2, 4], each: 1 }]);
        let several = arrays(&[1, 2, 3, 4, 5, 9, 10], 1001, 3);
        assert_eq!(several, [TaskArray { base: 0, indices: vec![1, 4, 9], each: 3 }]);
        let small = arrays(&[1, 9, 10, 11, 25], 11, 1);
        let expected = [(0, vec![1, 9, 10]), (10, vec![1]), (20, vec![5])];
        assert_eq!(small.len(), 3);
        for (array, (base, indices)) in small.into_iter().zip(expected) {
            assert_eq!(array, TaskArray { base, indices, each: 1 });
        }
        assert_eq!(
            largest_array("Foo = 1\nMaxArraySize            = 100001\nMaxDBDMsgs = 20012\n"),
            Some(100_001)
        );
        assert_eq!(largest_array(""), None);
    }

    #[test]
    fn a_task_makes_several_short_chunks_unless_they_were_tried_before() {
        let needs = TaskNeeds { work_s: 2.0, memory: 1, doublings: 0, is_retry: false, slots: None };
        let all: Vec<u32> = (1..=100).collect();
        assert_eq!(each(&all, &needs), 10);
        assert_eq!(each(&all[..20], &needs), 2, "at least eight tasks");
        assert_eq!(each(&all[..7], &needs), 1);
        assert_eq!(each(&all, &TaskNeeds { slots: Some(5), ..needs }), 5, "four tasks for each slot");
        assert_eq!(each(&all, &TaskNeeds { is_retry: true, ..needs }), 1);
        assert_eq!(each(&[1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 17], &needs), 1, "a gap");
        assert_eq!(each(&all, &TaskNeeds { work_s: 45.0, ..needs }), 1);
        assert_eq!((needs.time(1).as_secs(), needs.time(10).as_secs()), (308, 380));
    }

    #[test]
    fn options_that_netrig_needs_are_refused_and_clusters_are_known() {
        let new = |options: &[&str]| {
            Slurm::new(options.iter().map(|option| (*option).to_owned()).collect(), Arc::default())
        };
        for own in [
            "--array=1-3",
            "--arr=1",
            "-a1",
            "-J",
            "-Jname",
            "--job-name",
            "--job",
            "--wrap=true",
            "--wait",
            "-W",
            "-Q",
        ] {
            assert_eq!(new(&["--partition=x", own]).unwrap_err(), SlurmOptionError(own.to_owned()));
        }
        for passed in ["--wait-all-nodes=1", "-w", "--account=lab", "-A", "--qos=x", "--export=ALL"] {
            assert!(new(&[passed]).is_ok(), "{passed}");
        }
        for (options, clusters) in [
            (&["--clusters=a,b"][..], Some("--clusters=a,b")),
            (&["--clusters", "a"], Some("--clusters=a")),
            (&["-p", "x", "-Ma"], Some("--clusters=a")),
            (&["-M", "a"], Some("--clusters=a")),
            (&["-p", "x"], None),
        ] {
            assert_eq!(new(options).unwrap().clusters().as_deref(), clusters, "{options:?}");
        }
    }

    #[test]
    fn a_job_is_a_number() {
        for (printed, expected) in [
            ("17\n", true),
            ("17;site\n", true),
            ("", false),
            ("\n", false),
            ("Submitted batch job 17", false),
        ] {
            assert_eq!(is_job(printed), expected, "{printed:?}");
        }
    }

    #[test]
    fn a_queue_is_read_by_the_names_of_jobs_and_never_by_their_ids() {
        let queue = "17|netrig-abc-0x1|1|R\n17|netrig-abc-0x1|2|PD\n18|netrig-abc-1000x1|3|CG\n18|netrig-abc-1000x1|4|R\n17|other|9|R\n\
                     19|netrig-abd-0x1|4|R\n20|netrig-abc-0x1|5|CD\n20|netrig-abc-0x1|6|NF\n21|netrig-abc-0x1|N/A|PD\nslurm: ?\n\
                     24|netrig-abc-0x1|30|PD|PartitionTimeLimit\n24|netrig-abc-0x1|31|CF|None\n\
                     22|netrig-abc-0x1|7|PD|launch failed requeued held\n22|netrig-abc-0x1|8|PD|JobHeldUser\n22|netrig-abc-0x1|9|RH|None\n23|netrig-abc-20x3|5|PD|None\n";
        let found = tasks(queue, "netrig-abc-");
        assert_eq!(found.reasons, ["JobHeldUser", "PartitionTimeLimit"].map(str::to_owned).into());
        assert_eq!((found.waiting, found.running), ([2, 8, 25, 26, 27, 31].into(), [1, 1004].into()));
        assert_eq!(found.too_large, [30].into());
        let named: Vec<String> =
            lines("9|n-0x1|4|PD|None|7\n9|n-0x1|5|PD", "n-").map(|line| line.task).collect();
        assert_eq!(named, ["7_4", "9_5"]);
        assert_eq!(
            jobs(queue, "netrig-abc-").into_keys().collect::<Vec<_>>(),
            ["17", "18", "22", "23", "24"]
        );
        assert_eq!(tasks("", "netrig-abc-"), EngineTasks::default());
    }
}
