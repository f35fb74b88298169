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
    /// The first message for each reason why a pod waits. Later messages of a reason differ in details only.
    waits: BTreeMap<String, String>,
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

impl KubernetesJob {
    /// The numbers of its chunks, by index.
    fn chunks(&self) -> impl Iterator<Item = &str> {
        let list = self.metadata.annotations.get(CHUNKS).map_or("", String::as_str);
        list.split(',').filter(|chunk| !chunk.is_empty())
    }
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

/// What `kubectl get pods -o json` prints.
#[derive(Debug, Deserialize)]
struct PodList {
    items: Vec<Pod>,
}

#[derive(Debug, Deserialize)]
struct Pod {
    #[serde(default)]
    status: PodStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    conditions: Vec<PodCondition>,
    container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Deserialize)]
struct PodCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
}

#[derive(Debug, Deserialize)]
struct ContainerStatus {
    #[serde(default)]
    state: ContainerState,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerState {
    waiting: Option<WaitingContainer>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WaitingContainer {
    reason: String,
    message: String,
}

/// Reasons of a waiting container that pass by themselves.
const ORDINARY: [&str; 3] = ["", "ContainerCreating", "PodInitializing"];

/// The annotation with the chunks of a job, separated by commas.
const CHUNKS: &str = "netrig/chunks";

/// The annotation with the number of logs of failed attempts of each chunk of a job when its manifest was written.
const FAILURES: &str = "netrig/failures";

impl Kubernetes {
    /// An engine with these options and this limit of concurrent tasks. If `interrupted` is set, a program that runs is killed.
    pub const fn new(options: Vec<String>, slots: Option<u32>, interrupted: Arc<AtomicBool>) -> Self {
        let programs = Programs::new(interrupted);
        Self { options, slots, program: KUBECTL, programs, waits: BTreeMap::new() }
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
    fn manifests(
        &self,
        sweep: &SweepFolder,
        chunks: &[u32],
        needs: &TaskNeeds,
        failures: &BTreeMap<u32, usize>,
    ) -> String {
        let of = |chunks: &[u32]| {
            let manifest = serde_json::to_string_pretty(&self.manifest(sweep, chunks, needs, failures));
            manifest.expect("strings and numbers always have a JSON form") + "\n"
        };
        chunks.chunks(MOST_NAMED).map(of).collect::<Vec<_>>().join("---\n")
    }

    /// The manifest of a job for these chunks (batch/v1, Kubernetes 1.33 and later).
    fn manifest(
        &self,
        sweep: &SweepFolder,
        chunks: &[u32],
        needs: &TaskNeeds,
        failures: &BTreeMap<u32, usize>,
    ) -> serde_json::Value {
        // A chunk that is submitted again needs a job of another name.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let list = chunks.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let failures = chunks.iter().map(|chunk| failures.get(chunk).copied().unwrap_or(0).to_string());
        let failures = failures.collect::<Vec<_>>().join(",");
        let megabytes = needs.memory().div_ceil(1 << 20).max(1);
        let resources = json!({ "cpu": "1", "memory": format!("{megabytes}Mi") });
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": format!("{}-{now}-{}", sweep.job(), chunks.first().unwrap_or(&0)),
                "labels": { "app": "netrig", "sweep": sweep.job() },
                "annotations": { CHUNKS: list, FAILURES: failures },
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
        let name = (1u32..).map(manifest_name).find(is_free).unwrap_or_default();
        sweep.write(&name, self.manifests(sweep, chunks, needs, &failures(sweep)?).as_bytes())?;
        // The netrig binary is in the sweep's folder, which is mounted. It needs only the C library.
        sweep.write("Containerfile", b"FROM debian:12-slim\nENV TMPDIR=/tmp\n")?;
        Ok(sweep.path().join(name))
    }

    /// Objects of the sweep, of a kind such as `jobs`, as JSON.
    fn list(&self, sweep: &SweepFolder, kind: &[&str]) -> Result<String, EngineError> {
        let selector = format!("--selector=app=netrig,sweep={}", sweep.job());
        let words = ["get"].iter().chain(kind).map(|word| (*word).to_owned());
        let words = words.chain([selector, "--output=json".to_owned()]).chain(self.passed());
        Ok(self.programs.call(self.program, &words.collect::<Vec<_>>())?)
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
            Err(ProgramError::Start { .. }) => Err(EngineError::ByHand(format!(
                "there is no kubectl on this machine: submit {0} with kubectl create --filename={0} on one that has it",
                manifest.display()
            ))),
            Err(error) => {
                // It is written anew when the engine is asked again.
                let _ = std::fs::remove_file(manifest);
                Err(error.into())
            }
        }
    }

    fn tasks(&mut self, sweep: &SweepFolder) -> Result<EngineTasks, EngineError> {
        match self.list(sweep, &["jobs"]) {
            Ok(printed) => {
                let mut tasks = tasks(&printed)?;
                if !tasks.waiting.is_empty() {
                    let pods = self.list(sweep, &["pods", "--field-selector=status.phase=Pending"])?;
                    for (reason, message) in waits(&pods)? {
                        let first = self.waits.entry(reason.clone()).or_insert(message);
                        tasks.reasons.insert(format!("{reason} ({first})"));
                    }
                }
                Ok(tasks)
            }
            // The user may submit a manifest at any time.
            Err(EngineError::Program(ProgramError::Start { .. })) => by_hand(sweep),
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
        vec![command, self.manifests(sweep, chunks, needs, &BTreeMap::new())]
    }
}

/// The name of a manifest, numbered from 1, in the folder of the sweep.
fn manifest_name(number: u32) -> String {
    format!("job-{number}.json")
}

/// The chunks of the manifests in the folder that have not failed since their manifest was written, as waiting. A manifest whose job
/// ended without shards and logs can be removed by the user.
fn by_hand(sweep: &SweepFolder) -> Result<EngineTasks, EngineError> {
    let (failures, mut tasks, mut before) = (failures(sweep)?, EngineTasks::default(), BTreeMap::new());
    for path in sweep.files()? {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let number = name.strip_prefix("job-").and_then(|name| name.strip_suffix(".json"));
        let Some(number) = number.and_then(|number| number.parse::<u32>().ok()) else { continue };
        let text = std::fs::read_to_string(&path).map_err(SweepError::io("read", &path))?;
        let wrong = || EngineError::Words {
            program: path.display().to_string(),
            text: text.chars().take(200).collect(),
            expected: "manifests of jobs",
        };
        for job in serde_json::Deserializer::from_str(&text.replace("---\n", "")).into_iter() {
            let job: KubernetesJob = job.map_err(|_| wrong())?;
            for (index, chunk) in job.chunks().enumerate() {
                let chunk: u32 = chunk.parse().map_err(|_| wrong())?;
                let failed = job.metadata.annotations.get(FAILURES);
                let failed = failed.and_then(|list| list.split(',').nth(index)?.parse::<usize>().ok());
                let known: &mut (u32, usize) = before.entry(chunk).or_default();
                *known = (*known).max((number, failed.unwrap_or(0)));
            }
        }
    }
    let is_open =
        |(chunk, (_, before)): &(u32, (u32, usize))| failures.get(chunk).is_none_or(|count| count <= before);
    tasks.waiting = before.into_iter().filter(is_open).map(|(chunk, _)| chunk).collect();
    Ok(tasks)
}

/// The reasons for which pods are not started, other than those that pass by themselves, each with a message.
fn waits(printed: &str) -> Result<BTreeMap<String, String>, EngineError> {
    let list: PodList = serde_json::from_str(printed).map_err(|_| EngineError::Words {
        program: "kubectl get pods".to_owned(),
        text: printed.chars().take(200).collect(),
        expected: "a list of pods as JSON",
    })?;
    let mut waits = BTreeMap::new();
    for PodStatus { conditions, container_statuses } in list.items.into_iter().map(|pod| pod.status) {
        let unscheduled = conditions.into_iter().filter(|c| c.kind == "PodScheduled" && c.status == "False");
        let unscheduled = unscheduled.map(|condition| (condition.reason, condition.message));
        let containers = container_statuses.into_iter().filter_map(|container| container.state.waiting);
        for (reason, message) in
            unscheduled.chain(containers.map(|waiting| (waiting.reason, waiting.message)))
        {
            if !ORDINARY.contains(&reason.as_str()) {
                waits.entry(reason).or_insert(message);
            }
        }
    }
    Ok(waits)
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
        for (index, chunk) in (0u32..).zip(job.chunks()) {
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
        // A submitter that is started again knows them from the folder.
        let mut again = Kubernetes {
            program: "netrig-has-no-kubectl",
            ..Kubernetes::new(Vec::new(), None, Arc::default())
        };
        assert_eq!(again.tasks(&lab.folder).unwrap().waiting, [1, 2, 3].into());
        // The user removes the manifest of a job whose pods have left nothing.
        std::fs::remove_file(lab.folder.path().join("job-2.json")).unwrap();
        assert_eq!(again.tasks(&lab.folder).unwrap().waiting, [1, 2].into());
    }

    #[test]
    fn the_reasons_of_pods_that_do_not_start_are_read() {
        let printed = r#"{"apiVersion":"v1","kind":"List","items":[
            {"status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable",
                "message":"0/3 nodes are available: 3 Insufficient memory."}]}},
            {"status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"True"}],
                "containerStatuses":[{"name":"netrig","state":{"waiting":{"reason":"ImagePullBackOff","message":"Back-off pulling image"}}}]}},
            {"status":{"phase":"Pending","containerStatuses":[{"name":"netrig","state":{"waiting":{"reason":"ContainerCreating"}}}]}},
            {"status":{"phase":"Pending"}}]}"#;
        let expected = [
            ("ImagePullBackOff", "Back-off pulling image"),
            ("Unschedulable", "0/3 nodes are available: 3 Insufficient memory."),
        ];
        assert_eq!(
            waits(printed).unwrap(),
            expected.map(|(reason, message)| (reason.to_owned(), message.to_owned())).into()
        );
        assert!(waits("Unable to connect").is_err());
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
