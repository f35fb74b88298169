//! Kubernetes: an Indexed Job for each submission, applied by `kubectl`. Without `kubectl`, the manifest is only written.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::json;

use super::program::{ProgramError, Programs};
use super::{Engine, EngineError, EngineTasks, MOST_NAMED, TaskNeeds, command_line};
use crate::task::LIST;
use crate::{SweepError, SweepFolder};

/// The most restarts of a failed task by Kubernetes.
const RETRIES: u32 = 3;

/// The number of concurrent tasks if `--slots` is not given.
const USUAL_SLOTS: u32 = 50;

/// The program that submits jobs.
const KUBECTL: &str = "kubectl";

/// The image if no option names one.
const IMAGE: &str = "netrig:sweep";

/// Kubernetes.
#[derive(Debug)]
pub struct Kubernetes {
    /// Options: `--image=NAME` and `--claim=NAME` are ours, all others are passed to `kubectl`.
    options: Vec<String>,
    slots: Option<u32>,
    program: &'static str,
    programs: Programs,
    /// Chunks whose manifests the user has to submit, because there is no `kubectl`, each with the number of its failed attempts then.
    by_hand: BTreeMap<u32, usize>,
}

/// What `kubectl get jobs -o json` prints. Other fields are ignored.
#[derive(Debug, Deserialize)]
struct JobList {
    items: Vec<KubernetesJob>,
}

#[derive(Debug, Deserialize)]
struct KubernetesJob {
    metadata: Metadata,
    #[serde(default)]
    status: JobStatus,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct JobStatus {
    completed_indexes: String,
    failed_indexes: String,
    conditions: Vec<JobCondition>,
}

#[derive(Debug, Deserialize)]
struct JobCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

/// The annotation with the chunks of a job, separated by commas.
const CHUNKS: &str = "netrig/chunks";

impl Kubernetes {
    /// An engine with these options and this limit of concurrent tasks. If `interrupted` is set, a program that runs is killed.
    pub const fn new(options: Vec<String>, slots: Option<u32>, interrupted: Arc<AtomicBool>) -> Self {
        let programs = Programs::new(interrupted);
        Self { options, slots, program: KUBECTL, programs, by_hand: BTreeMap::new() }
    }

    fn own(&self, option: &str) -> Option<&str> {
        self.options.iter().find_map(|given| given.strip_prefix(option))
    }

    /// Options for `kubectl`.
    fn passed(&self) -> Vec<String> {
        let is_own = |option: &&String| option.starts_with("--image=") || option.starts_with("--claim=");
        self.options.iter().filter(|option| !is_own(option)).cloned().collect()
    }

    /// The manifests of jobs for these chunks, as one stream of documents.
    fn manifests(&self, sweep: &SweepFolder, chunks: &[u32], needs: &TaskNeeds) -> String {
        let of = |chunks: &[u32]| {
            let manifest = serde_json::to_string_pretty(&self.manifest(sweep, chunks, needs));
            manifest.expect("strings and numbers always have a JSON form") + "\n"
        };
        chunks.chunks(MOST_NAMED).map(of).collect::<Vec<_>>().join("---\n")
    }

    /// The manifest of a job for these chunks (batch/v1, Kubernetes 1.33 and later).
    fn manifest(&self, sweep: &SweepFolder, chunks: &[u32], needs: &TaskNeeds) -> serde_json::Value {
        // A chunk that is submitted again needs a job of another name.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let list = chunks.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let megabytes = needs.memory().div_ceil(1 << 20).max(1);
        let resources = json!({ "cpu": "1", "memory": format!("{megabytes}Mi") });
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": format!("{}-{now}-{}", sweep.job(), chunks.first().unwrap_or(&0)),
                "labels": { "app": "netrig", "sweep": sweep.job() },
                "annotations": { CHUNKS: list },
            },
            "spec": {
                "completionMode": "Indexed",
                "completions": chunks.len(),
                "parallelism": self.slots.unwrap_or(USUAL_SLOTS).min(chunks.len() as u32),
                "backoffLimitPerIndex": RETRIES,
                "ttlSecondsAfterFinished": 3600,
                "template": {
                    "metadata": { "labels": { "app": "netrig", "sweep": sweep.job() } },
                    "spec": {
                        "restartPolicy": "Never",
                        "activeDeadlineSeconds": needs.time(1).as_secs(),
                        "containers": [{
                            "name": "netrig",
                            "image": self.own("--image=").unwrap_or(IMAGE),
                            "command": ["/sweep/netrig", "chunk", "/sweep"],
                            "env": [{ "name": LIST, "value": list }],
                            "resources": { "requests": resources, "limits": { "memory": format!("{megabytes}Mi") } },
                            "volumeMounts": [{ "name": "sweep", "mountPath": "/sweep" }],
                        }],
                        "volumes": [{
                            "name": "sweep",
                            "persistentVolumeClaim": { "claimName": self.own("--claim=").unwrap_or("netrig-sweep") },
                        }],
                    },
                },
            },
        })
    }

    /// Writes the manifests, under a name that no earlier submission has, and the container file; returns the path of the manifests.
    fn write(&self, sweep: &SweepFolder, chunks: &[u32], needs: &TaskNeeds) -> Result<PathBuf, SweepError> {
        let is_free = |name: &String| !sweep.path().join(name).exists();
        let name = (1u32..).map(|number| format!("job-{number}.json")).find(is_free).unwrap_or_default();
        sweep.write(&name, self.manifests(sweep, chunks, needs).as_bytes())?;
        // The netrig binary is in the sweep's folder, which is mounted. It needs only the C library.
        sweep.write("Containerfile", b"FROM debian:12-slim\nENV TMPDIR=/tmp\n")?;
        Ok(sweep.path().join(name))
    }

    fn list(&self, sweep: &SweepFolder) -> Result<String, EngineError> {
        let selector = format!("--selector=app=netrig,sweep={}", sweep.job());
        let words = ["get".to_owned(), "jobs".to_owned(), selector, "--output=json".to_owned()];
        Ok(self.programs.call(self.program, &words.into_iter().chain(self.passed()).collect::<Vec<_>>())?)
    }
}

impl Engine for Kubernetes {
    fn name(&self) -> &'static str {
        "kubernetes"
    }

    fn program(&self) -> Option<&str> {
        None
    }

    fn is_local(&self) -> bool {
        false
    }

    fn tells_running(&self) -> bool {
        false
    }

    fn submit(&mut self, sweep: &SweepFolder, chunks: &[u32], needs: &TaskNeeds) -> Result<(), EngineError> {
        let manifest = self.write(sweep, chunks, needs)?;
        let words = ["create".to_owned(), format!("--filename={}", manifest.display())];
        match self.programs.call(self.program, &words.into_iter().chain(self.passed()).collect::<Vec<_>>()) {
            Ok(_) => Ok(()),
            Err(ProgramError::Start { .. }) => {
                let failures = failures(sweep)?;
                self.by_hand
                    .extend(chunks.iter().map(|chunk| (*chunk, failures.get(chunk).copied().unwrap_or(0))));
                Err(EngineError::ByHand(format!(
                    "there is no kubectl on this machine: submit {0} with kubectl create --filename={0} on one that has it",
                    manifest.display()
                )))
            }
            Err(error) => {
                // It is written anew when the engine is asked again.
                let _ = std::fs::remove_file(manifest);
                Err(error.into())
            }
        }
    }

    fn tasks(&mut self, sweep: &SweepFolder) -> Result<EngineTasks, EngineError> {
        match self.list(sweep) {
            Ok(printed) => tasks(&printed),
            // The user may submit one at any time, unless it has failed.
            Err(EngineError::Program(ProgramError::Start { .. })) => {
                let failures = failures(sweep)?;
                self.by_hand.retain(|chunk, before| failures.get(chunk).is_none_or(|count| count <= before));
                Ok(EngineTasks { waiting: self.by_hand.keys().copied().collect(), ..EngineTasks::default() })
            }
            Err(error) => Err(error),
        }
    }

    fn cancel(&mut self, sweep: &SweepFolder) -> Result<(), EngineError> {
        let selector = format!("--selector=app=netrig,sweep={}", sweep.job());
        let words = ["delete".to_owned(), "jobs".to_owned(), selector, "--wait=true".to_owned()];
        self.programs.call(self.program, &words.into_iter().chain(self.passed()).collect::<Vec<_>>())?;
        Ok(())
    }

    fn commands(&self, sweep: &SweepFolder, chunks: &[u32], needs: &TaskNeeds) -> Vec<String> {
        let words = ["kubectl".to_owned(), "create".to_owned(), "--filename=-".to_owned()];
        let command = command_line(&words.into_iter().chain(self.passed()).collect::<Vec<_>>());
        vec![command, self.manifests(sweep, chunks, needs)]
    }
}

/// The number of failed attempts at each chunk that failed.
fn failures(sweep: &SweepFolder) -> Result<BTreeMap<u32, usize>, SweepError> {
    let mut failures = BTreeMap::new();
    for log in sweep.failure_logs()? {
        *failures.entry(log.chunk).or_default() += 1;
    }
    Ok(failures)
}

/// The chunks of the jobs that are not over, without those whose index is completed or failed. Only a list of all pods would tell
/// which of these chunks run, so all of them count as waiting.
fn tasks(printed: &str) -> Result<EngineTasks, EngineError> {
    let wrong = || EngineError::Words {
        program: "kubectl get jobs".to_owned(),
        text: printed.chars().take(200).collect(),
        expected: "a list of jobs as JSON",
    };
    let list: JobList = serde_json::from_str(printed).map_err(|_| wrong())?;
    let mut tasks = EngineTasks::default();
    for job in list.items {
        let is_over = |condition: &JobCondition| {
            matches!(condition.kind.as_str(), "Complete" | "Failed") && condition.status == "True"
        };
        if job.status.conditions.iter().any(is_over) {
            continue;
        }
        let chunks = job.metadata.annotations.get(CHUNKS).map_or("", String::as_str);
        for (index, chunk) in (0u32..).zip(chunks.split(',').filter(|chunk| !chunk.is_empty())) {
            let is_in = |list: &str| indices(list).any(|(first, last)| (first..=last).contains(&index));
            if !is_in(&job.status.completed_indexes) && !is_in(&job.status.failed_indexes) {
                tasks.waiting.insert(chunk.parse().map_err(|_| wrong())?);
            }
        }
    }
    Ok(tasks)
}

/// Ranges of indices: `1,3-5`.
fn indices(list: &str) -> impl Iterator<Item = (u32, u32)> {
    list.split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_kubectl_the_manifests_are_written_and_their_chunks_wait_for_the_user() {
        let lab = crate::it::common::SweepLab::new("min = 1\nmax = 1");
        let mut engine = Kubernetes {
            program: "netrig-has-no-kubectl",
            ..Kubernetes::new(Vec::new(), None, Arc::default())
        };
        let needs = TaskNeeds { work_s: 1.0, memory: 1 << 20, doublings: 0, is_retry: false, slots: None };
        let submit = |engine: &mut Kubernetes, chunks: &[u32]| {
            engine.submit(&lab.folder, chunks, &needs).unwrap_err().to_string()
        };
        let first = submit(&mut engine, &[1, 2]);
        assert!(first.contains("job-1.json with kubectl create --filename="), "{first}");
        assert!(submit(&mut engine, &[3]).contains("job-2.json"));
        assert!(["job-1.json", "job-2.json"].iter().all(|name| lab.folder.path().join(name).exists()));
        let tasks = engine.tasks(&lab.folder).unwrap();
        assert_eq!((tasks.waiting, tasks.running.len()), ([1, 2, 3].into(), 0));
        lab.folder.add_failure(2, "pod-7", "no memory").unwrap();
        assert_eq!(engine.tasks(&lab.folder).unwrap().waiting, [1, 3].into());
        submit(&mut engine, &[2]);
        assert_eq!(engine.tasks(&lab.folder).unwrap().waiting, [1, 2, 3].into());
    }

    #[test]
    fn chunks_of_open_jobs_are_read() {
        let printed = r#"{"apiVersion":"v1","items":[
            {"metadata":{"annotations":{"netrig/chunks":"4,8,15,16"}},"status":{"active":2,"completedIndexes":"0,2","failedIndexes":""}},
            {"metadata":{"annotations":{"netrig/chunks":"23,42"}},"status":{"conditions":[{"type":"Complete","status":"True"}]}},
            {"metadata":{"annotations":{"netrig/chunks":"7"}},"status":{}}]}"#;
        let found = tasks(printed).unwrap();
        assert_eq!((found.waiting, found.running.len()), ([7, 8, 16].into(), 0));
        assert!(tasks("").is_err() && tasks("error: no server").is_err());
        assert_eq!(tasks(r#"{"items":[]}"#).unwrap(), EngineTasks::default());
    }
}
