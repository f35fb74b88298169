//! HyperQueue, by `hq`. Task K of a job is chunk K. Exit codes of `hq submit --wait` do not report failures, so states are read.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::Deserialize;

use super::program::Programs;
use super::{Engine, EngineError, EngineTasks, MOST_NAMED, TaskNeeds, command_line, ranges};
use crate::SweepFolder;

/// The most restarts by HyperQueue of a task whose worker was lost.
const CRASHES: u32 = 5;

/// HyperQueue.
#[derive(Debug)]
pub struct HyperQueue {
    /// Options for `hq submit`.
    options: Vec<String>,
    programs: Programs,
}

/// A job in `hq job list --output-mode json`. Other fields are ignored.
#[derive(Debug, Deserialize)]
struct ListedJob {
    id: u64,
    name: String,
    task_stats: TaskStatistics,
}

/// The numbers of a job's tasks by state.
#[derive(Debug, Deserialize)]
struct TaskStatistics {
    running: u64,
    waiting: u64,
}

impl HyperQueue {
    /// With options that are passed to `hq submit`. If `interrupted` is set, a program that runs is killed.
    pub const fn new(options: Vec<String>, interrupted: Arc<AtomicBool>) -> Self {
        Self { options, programs: Programs::new(interrupted) }
    }

    fn arguments(&self, sweep: &SweepFolder, chunks: &[u32], needs: &TaskNeeds) -> Vec<String> {
        let own = [
            "submit".to_owned(),
            format!("--name={}", name(sweep)),
            format!("--array={}", ranges(chunks)),
            format!("--crash-limit={CRASHES}"),
            format!("--time-limit={}s", needs.time(1).as_secs()),
            "--stdout=none".to_owned(),
            "--stderr=none".to_owned(),
            "--output-mode=json".to_owned(),
        ];
        let [executable, folder] =
            [sweep.executable(), sweep.path().to_owned()].map(|path| path.display().to_string());
        let task = ["--".to_owned(), executable, "chunk".to_owned(), folder];
        own.into_iter().chain(self.options.iter().cloned()).chain(task).collect()
    }

    /// The jobs of the sweep with tasks that wait or run.
    fn jobs(&self, sweep: &SweepFolder) -> Result<Vec<ListedJob>, EngineError> {
        let printed =
            self.programs.call("hq", &["job", "list", "--all", "--output-mode=json"].map(str::to_owned))?;
        open_jobs(&printed, &name(sweep))
    }
}

impl Engine for HyperQueue {
    fn name(&self) -> &'static str {
        "hq"
    }

    fn program(&self) -> Option<&str> {
        Some("hq")
    }

    fn is_local(&self) -> bool {
        false
    }

    fn submit(&mut self, sweep: &SweepFolder, chunks: &[u32], needs: &TaskNeeds) -> Result<(), EngineError> {
        for chunks in chunks.chunks(MOST_NAMED) {
            self.programs.call("hq", &self.arguments(sweep, chunks, needs))?;
        }
        Ok(())
    }

    fn tasks(&mut self, sweep: &SweepFolder) -> Result<EngineTasks, EngineError> {
        let mut tasks = EngineTasks::default();
        for job in self.jobs(sweep)? {
            for (state, list) in [("running", &mut tasks.running), ("waiting", &mut tasks.waiting)] {
                let words =
                    ["job", "task-ids", &job.id.to_string(), &format!("--filter={state}")].map(str::to_owned);
                list.extend(numbers(&self.programs.call("hq", &words)?)?);
            }
        }
        Ok(tasks)
    }

    fn cancel(&mut self, sweep: &SweepFolder) -> Result<(), EngineError> {
        for job in self.jobs(sweep)? {
            self.programs.call("hq", &["job", "cancel", &job.id.to_string()].map(str::to_owned))?;
        }
        let left: Vec<_> = self.jobs(sweep)?.iter().map(|job| format!("job {}", job.id)).collect();
        if left.is_empty() { Ok(()) } else { Err(EngineError::Left(left.join(", "))) }
    }

    fn commands(&self, sweep: &SweepFolder, chunks: &[u32], needs: &TaskNeeds) -> Vec<String> {
        let of = |chunks: &[u32]| {
            let words = ["hq".to_owned()].into_iter().chain(self.arguments(sweep, chunks, needs));
            command_line(&words.collect::<Vec<_>>())
        };
        chunks.chunks(MOST_NAMED).map(of).collect()
    }
}

/// The name of a sweep's jobs.
fn name(sweep: &SweepFolder) -> String {
    sweep.job().to_owned()
}

fn open_jobs(printed: &str, name: &str) -> Result<Vec<ListedJob>, EngineError> {
    let jobs: Vec<ListedJob> = serde_json::from_str(printed).map_err(|_| EngineError::Words {
        program: "hq job list".to_owned(),
        text: printed.chars().take(200).collect(),
        expected: "a list of jobs as JSON",
    })?;
    let is_open = |job: &ListedJob| job.name == name && job.task_stats.running + job.task_stats.waiting > 0;
    Ok(jobs.into_iter().filter(is_open).collect())
}

/// Numbers of tasks: `1-3,7`, with the job before a colon if several were asked for.
fn numbers(printed: &str) -> Result<Vec<u32>, EngineError> {
    let wrong = || EngineError::Words {
        program: "hq job task-ids".to_owned(),
        text: printed.to_owned(),
        expected: "numbers of tasks",
    };
    let mut numbers = Vec::new();
    for line in printed.lines() {
        let list = line.rsplit(':').next().unwrap_or(line);
        for range in list.split(',').map(str::trim).filter(|range| !range.is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let first: u32 = first.trim().parse().map_err(|_| wrong())?;
            let last: u32 = last.trim().parse().map_err(|_| wrong())?;
            numbers.extend(first..=last);
        }
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_jobs_of_the_sweep_are_read() {
        let job = |id: u64, name: &str, running: u64, waiting: u64| {
            format!(
                r#"{{"id":{id},"name":"{name}","task_count":9,"task_stats":{{"canceled":0,"failed":1,"finished":2,"running":{running},"waiting":{waiting}}}}}"#
            )
        };
        let list = [job(1, "netrig-abc", 1, 2), job(2, "netrig-abc", 0, 0), job(3, "other", 1, 1)].join(",");
        let open = open_jobs(&format!("[{list}]"), "netrig-abc").unwrap();
        assert_eq!(open.iter().map(|job| job.id).collect::<Vec<_>>(), [1]);
        assert!(open_jobs("[]", "netrig-abc").unwrap().is_empty());
        for away in ["", "server not found", r#"{"error":"no server"}"#] {
            assert!(
                open_jobs(away, "netrig-abc").is_err(),
                "{away:?}: an answer that is no list is not an empty list"
            );
        }
    }

    #[test]
    fn numbers_of_tasks_are_read() {
        assert_eq!(numbers("1-3,7\n").unwrap(), [1, 2, 3, 7]);
        assert_eq!(numbers("12: 4,5\n").unwrap(), [4, 5]);
        assert_eq!(numbers("\n").unwrap(), [0u32; 0]);
        assert!(numbers("all").is_err());
    }
}
