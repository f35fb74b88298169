//! Slurm, by `sbatch`, `squeue` and `scancel`.
//!
//! Slurm starts a task again while a first attempt still runs, gives an id twice after a crash of its controller, and prints an empty
//! queue for jobs that it forgot. So jobs are known by a name of the sweep, and an empty queue is no proof that a task ended.

use std::collections::BTreeMap;
use std::time::Duration;

use super::program::call;
use super::{Engine, EngineError, EngineTasks, TaskNeeds, ranges, typed};
use crate::{SweepError, SweepFolder};

/// The default of `MaxArraySize`. Indices of tasks are below it.
const USUAL_ARRAY: u32 = 1001;

/// Reasons why a pending task is never started by itself: Slurm failed to start it, or started it too often. A task that
/// a user or an administrator holds has other reasons, and waits.
const HELD: [&str; 3] = ["launch failed requeued held", "launch_failed_requeued_held", "JobHoldMaxRequeue"];

/// Number and interval of polls for the end of cancelled tasks.
const CANCELS: u32 = 20;
const CANCEL_STEP: Duration = Duration::from_millis(500);

/// Slurm.
#[derive(Debug)]
pub struct Slurm {
    /// Options for `sbatch`.
    options: Vec<String>,
    /// Indices of tasks are below this. `None` until Slurm was asked.
    array: Option<u32>,
}

/// An array of tasks: chunk K is the task with the index K − base.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TaskArray {
    base: u32,
    indices: Vec<u32>,
}

impl Slurm {
    /// With options that are passed to `sbatch`.
    pub const fn new(options: Vec<String>) -> Self {
        Self { options, array: None }
    }

    /// The arguments of `sbatch` for an array.
    fn arguments(&self, sweep: &SweepFolder, array: &TaskArray, needs: &TaskNeeds) -> Vec<String> {
        let minutes = needs.time.as_secs().div_ceil(60).max(1);
        let megabytes = needs.memory.div_ceil(1 << 20).max(1);
        let mut words = vec![
            "--parsable".to_owned(),
            format!("--job-name={}{}", prefix(sweep), array.base),
            format!("--array={}", ranges(&array.indices)),
            "--requeue".to_owned(),
            "--open-mode=append".to_owned(),
            "--ntasks=1".to_owned(),
            "--cpus-per-task=1".to_owned(),
            format!("--time={minutes}"),
            format!("--mem={megabytes}M"),
            format!("--output={}", sweep.path().join("slurm-%A_%a.out").display()),
            // The environment of the submitter, and the base of the array.
            format!("--export=ALL,NETRIG_CHUNK_BASE={}", array.base),
        ];
        // Options of the user come last: they override.
        words.extend(self.options.iter().cloned());
        words.push(sweep.path().join("slurm.sh").display().to_string());
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
        if self.array.is_none() {
            let config = call("scontrol", &["show".to_owned(), "config".to_owned()])?;
            self.array = Some(largest_array(&config).unwrap_or(USUAL_ARRAY));
        }
        write_script(sweep)?;
        for array in arrays(chunks, self.array.unwrap_or(USUAL_ARRAY)) {
            let printed = call("sbatch", &self.arguments(sweep, &array, needs))?;
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
        let queue = call("squeue", &queue_arguments())?;
        Ok(tasks(&queue, &prefix(sweep)))
    }

    fn cancel(&mut self, sweep: &SweepFolder) -> Result<(), EngineError> {
        // Repeats the cancellation: a restarted controller restores cancelled arrays.
        let mut left = BTreeMap::new();
        for _ in 0..CANCELS {
            left = jobs(&call("squeue", &queue_arguments())?, &prefix(sweep));
            if left.is_empty() {
                return Ok(());
            }
            call("scancel", &left.keys().cloned().collect::<Vec<_>>())?;
            std::thread::sleep(CANCEL_STEP);
        }
        let left: Vec<_> = left.iter().map(|(id, state)| format!("job {id} ({state})")).collect();
        Err(EngineError::Left(left.join(", ")))
    }

    fn commands(&self, sweep: &SweepFolder, chunks: &[u32], needs: &TaskNeeds) -> Vec<String> {
        let of = |array: TaskArray| {
            let words = ["sbatch".to_owned()].into_iter().chain(self.arguments(sweep, &array, needs));
            typed(&words.collect::<Vec<_>>())
        };
        arrays(chunks, self.array.unwrap_or(USUAL_ARRAY)).into_iter().map(of).collect()
    }
}

/// The script of a task. `exec`: a signal must reach netrig once, and not also through the shell.
fn write_script(sweep: &SweepFolder) -> Result<(), SweepError> {
    let [executable, folder] = [sweep.executable(), sweep.path().to_owned()].map(|path| {
        let path = path.display().to_string();
        format!("'{}'", path.replace('\'', r"'\''"))
    });
    sweep.write("slurm.sh", format!("#!/bin/sh\nexec {executable} chunk {folder}\n").as_bytes())
}

/// The first part of the names of a sweep's jobs. The base of the array follows.
fn prefix(sweep: &SweepFolder) -> String {
    format!("netrig-{}-", sweep.manifest().sweep)
}

/// All own tasks, one on each line: the job's id, its name, the index of the task, the state, and the reason of the state.
fn queue_arguments() -> Vec<String> {
    ["--noheader", "--array", "--me", "--states=all", "--format=%A|%j|%K|%t|%r"].map(str::to_owned).to_vec()
}

/// Chunks as arrays whose indices are from 1 and below `size`.
fn arrays(chunks: &[u32], size: u32) -> Vec<TaskArray> {
    let each = size.saturating_sub(1).max(1);
    let mut arrays: Vec<TaskArray> = Vec::new();
    for chunk in chunks {
        let base = chunk.saturating_sub(1) / each * each;
        match arrays.last_mut() {
            Some(array) if array.base == base => array.indices.push(chunk - base),
            _ => arrays.push(TaskArray { base, indices: vec![chunk - base] }),
        }
    }
    arrays
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
    chunk: u32,
    state: &'a str,
    /// Whether the task waits until an operator releases it: Slurm holds tasks that it could not start.
    is_held: bool,
}

/// The lines of a queue whose jobs have names with this prefix.
fn lines<'a>(queue: &'a str, prefix: &'a str) -> impl Iterator<Item = QueueLine<'a>> {
    queue.lines().filter_map(move |line| {
        let mut fields = line.trim().split('|');
        let (id, name, index, state) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let base: u32 = name.strip_prefix(prefix)?.parse().ok()?;
        let reason = fields.next().unwrap_or_default();
        let is_held = matches!(state, "RH" | "SE") || HELD.contains(&reason);
        Some(QueueLine { id, chunk: base + index.parse::<u32>().ok()?, state, is_held })
    })
}

fn tasks(queue: &str, prefix: &str) -> EngineTasks {
    let mut tasks = EngineTasks::default();
    for QueueLine { chunk, state, is_held, .. } in lines(queue, prefix) {
        match state {
            // The chunk is submitted again. If the task is released later, there are two shards of the chunk.
            _ if is_held => false,
            // Pending, and states in which a task is about to be pending again.
            "PD" | "RQ" | "RS" | "RD" => tasks.waiting.insert(chunk),
            // Running, configuring, signalled, suspended, stopped, staging out.
            "R" | "CF" | "SI" | "S" | "ST" | "SO" | "RF" => tasks.running.insert(chunk),
            // Ended in some way. A completing task (CG) has published its shard, or its node is dead and the state never changes.
            _ => false,
        };
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
        assert_eq!(arrays(&[1, 2, 4], 1001), [TaskArray { base: 0, indices: vec![1, 2, 4] }]);
        let small = arrays(&[1, 9, 10, 11, 25], 11);
        let expected = [(0, vec![1, 9, 10]), (10, vec![1]), (20, vec![5])];
        assert_eq!(small.len(), 3);
        for (array, (base, indices)) in small.into_iter().zip(expected) {
            assert_eq!(array, TaskArray { base, indices });
        }
        assert_eq!(
            largest_array("Foo = 1\nMaxArraySize            = 100001\nMaxDBDMsgs = 20012\n"),
            Some(100_001)
        );
        assert_eq!(largest_array(""), None);
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
        let queue = "17|netrig-abc-0|1|R\n17|netrig-abc-0|2|PD\n18|netrig-abc-1000|3|CG\n18|netrig-abc-1000|4|R\n17|other|9|R\n\
                     19|netrig-abd-0|4|R\n20|netrig-abc-0|5|CD\n20|netrig-abc-0|6|NF\n21|netrig-abc-0|N/A|PD\nslurm: ?\n\
                     22|netrig-abc-0|7|PD|launch failed requeued held\n22|netrig-abc-0|8|PD|JobHeldUser\n22|netrig-abc-0|9|RH|None\n";
        let found = tasks(queue, "netrig-abc-");
        assert_eq!((found.waiting, found.running), ([2, 8].into(), [1, 1004].into()));
        assert_eq!(jobs(queue, "netrig-abc-").into_keys().collect::<Vec<_>>(), ["17", "18", "22"]);
        assert_eq!(tasks("", "netrig-abc-"), EngineTasks::default());
    }
}
