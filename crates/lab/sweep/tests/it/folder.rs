//! The folder of a sweep says what is wrong with it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use netrig_store::Provenance;
use netrig_sweep::engine::{Engine as _, HyperQueue, Kubernetes, TaskNeeds};
use netrig_sweep::{
    ChunkRequest, RunRange, ShardCheck, SweepChunk, SweepError, SweepFolder, SweepManifest, SweepState,
    add_missing, make_chunk,
};

use crate::it::common::{BUILD, Events, Quick, SweepLab, folder, manifest};

fn chunk(number: u32, first: usize, last: usize) -> SweepChunk {
    SweepChunk { chunk: number, runs: vec![RunRange { replication: 1, first, last }], work_s: 1.0 }
}

fn make(lab: &SweepLab, number: u32, attempt: &str) -> Result<netrig_sweep::ChunkOutcome, SweepError> {
    let request = ChunkRequest {
        folder: &lab.folder,
        chunk: number,
        attempt,
        experiment: &lab.experiment,
        substrate: &Quick::default(),
        provenance: &Provenance { build: BUILD.to_owned(), ..Provenance::default() },
        jobs: NonZeroUsize::MIN,
        scratch: lab.place.path(),
        memory: || 40 << 20,
        cancel: &AtomicBool::new(false),
    };
    make_chunk(&request, &mut ())
}

#[test]
fn the_same_sweep_opens_its_folder_and_another_is_refused() {
    let lab = SweepLab::new("min = 1\nmax = 1");
    let path = lab.folder.path();
    assert_eq!(folder(path, &lab.experiment).manifest(), lab.folder.manifest());
    let never = |_: &std::path::Path| panic!("the executable is there");
    for other in [
        SweepManifest { seed: Some(7), ..manifest(&lab.experiment) },
        SweepManifest { set: vec!["rate=1Mbit/s".to_owned()], ..manifest(&lab.experiment) },
        SweepManifest { build: "0.1.0+other".to_owned(), ..manifest(&lab.experiment) },
    ] {
        let refused = SweepFolder::create(path, other, lab.experiment.text(), never);
        assert!(matches!(refused, Err(SweepError::OtherSweep { .. })), "{refused:?}");
    }
    assert!(lab.folder.check_build(BUILD).is_ok());
    let refused = lab.folder.check_build("0.2.0").unwrap_err().to_string();
    assert!(refused.contains("split by netrig 0.1.0+abc1234, and this is netrig 0.2.0"), "{refused}");
}

#[test]
fn a_folder_that_another_process_creates_is_refused_and_keeps_its_name_of_jobs() {
    let lab = SweepLab::new("min = 1\nmax = 1");
    let path = lab.place.path().join("new");
    let text = lab.experiment.text();
    // The executable is written while the first process creates the folder.
    let first = SweepFolder::create(&path, manifest(&lab.experiment), text, |place| {
        let second =
            SweepFolder::create(&path, manifest(&lab.experiment), text, |_| panic!("a second executable"));
        assert!(matches!(second, Err(SweepError::Busy(_))), "{second:?}");
        fs::write(place, "netrig")
    });
    assert_eq!(fs::read_to_string(path.join("job")).unwrap(), first.unwrap().job());
}

#[test]
fn a_list_with_points_that_the_experiment_lacks_is_refused_at_once() {
    let lab = SweepLab::new("min = 1\nmax = 1");
    lab.folder.add_chunks(&[chunk(1, 0, 1_000_000_000_000_000_000)]).unwrap();
    let store = netrig_store::Store::open(lab.store.path()).unwrap();
    let size = netrig_sweep::ChunkSize { work_s: None, slots: None };
    let split = add_missing(&lab.folder, &lab.experiment, &Quick::default(), &store, |_| 1.0, size);
    assert!(split.unwrap_err().to_string().contains("the experiment has 4"));
    assert_eq!(SweepState::read(&lab.folder, None, None).unwrap().missing, 1);
}

#[test]
fn a_folder_that_is_none_or_was_changed_is_refused() {
    let lab = SweepLab::new("min = 1\nmax = 1");
    let none = SweepFolder::open(lab.place.path()).unwrap_err().to_string();
    assert!(none.contains("is not the folder of a sweep (it has no sweep.json)"), "{none}");
    let text = lab.folder.path().join("experiment.toml");
    fs::write(&text, lab.experiment.text().replace("10 s", "20 s")).unwrap();
    let changed = lab.folder.experiment_text().unwrap_err().to_string();
    assert!(changed.contains("was changed after the split"), "{changed}");
    let path = lab.folder.path().join("sweep.json");
    let newer = fs::read_to_string(&path).unwrap().replace("\"form\": 1", "\"form\": 2");
    fs::write(&path, newer).unwrap();
    assert!(SweepFolder::open(lab.folder.path()).unwrap_err().to_string().contains("a newer netrig made it"));
    fs::write(&path, "{").unwrap();
    assert!(SweepFolder::open(lab.folder.path()).unwrap_err().to_string().contains("sweep.json: EOF"));
}

#[test]
fn a_chunk_is_published_whole_and_only_its_own_files_count() {
    let lab = SweepLab::new("min = 1\nmax = 1");
    lab.folder.add_chunks(&[chunk(1, 0, 1), chunk(2, 2, 3)]).unwrap();
    let made = make(&lab, 2, "node1-aa").unwrap();
    assert_eq!((made.runs, made.made, made.interrupted), (2, 2, false));
    fs::write(lab.folder.path().join("shards/.1.x.new"), "half").unwrap();
    fs::write(lab.folder.path().join("shards/README"), "mine").unwrap();
    let shards = lab.folder.shards().unwrap();
    assert_eq!(shards.len(), 1);
    assert!(shards[0].chunk == 2 && shards[0].is_whole);
    let name = format!("shards/2.node1-aa-40MiB.{}.db", shards[0].digest);
    assert_eq!(shards[0].memory(), Some(40 << 20));
    assert!(shards[0].path.ends_with(&name), "{}", shards[0].path.display());
    let files: Vec<_> =
        fs::read_dir(lab.place.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(!files.iter().any(|file| file.to_str().unwrap().starts_with("netrig-chunk")), "{files:?}");
    let state = SweepState::read(&lab.folder, None, None).unwrap();
    assert_eq!((state.chunks, state.done, state.missing, state.running), (2, 1, 1, None));
    lab.folder.add_failure(1, "node2-bb", "node2: no memory\n").unwrap();
    lab.folder.add_failure(2, "node2-bb", "node2: a failure that no longer counts\n").unwrap();
    let state = SweepState::read(&lab.folder, None, None).unwrap();
    assert_eq!(state.failed.into_iter().collect::<Vec<_>>(), [(1, "node2: no memory".to_owned())]);
}

#[test]
fn an_interrupted_chunk_publishes_a_part_and_the_next_attempt_takes_it() {
    let lab = SweepLab::new("min = 1\nmax = 1");
    lab.folder.add_chunks(&[chunk(1, 0, 3)]).unwrap();
    let cancel = AtomicBool::new(false);
    struct Stops<'a>(&'a AtomicBool);
    impl netrig_runner::ProgressListener for Stops<'_> {
        fn event(&mut self, event: &netrig_runner::RunEvent<'_>, tally: &netrig_runner::RunTally) {
            if matches!(event, netrig_runner::RunEvent::Ended { .. }) && tally.ran == 2 {
                self.0.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        }
    }
    let request = ChunkRequest {
        folder: &lab.folder,
        chunk: 1,
        attempt: "node1-aa",
        experiment: &lab.experiment,
        substrate: &Quick::default(),
        provenance: &Provenance { build: BUILD.to_owned(), ..Provenance::default() },
        jobs: NonZeroUsize::MIN,
        scratch: lab.place.path(),
        memory: || 40 << 20,
        cancel: &cancel,
    };
    let stopped = make_chunk(&request, &mut Stops(&cancel)).unwrap();
    assert!(stopped.interrupted && stopped.made == 2, "{stopped:?}");
    let part = stopped.shard.unwrap().display().to_string();
    assert!(part.contains("/parts/1.node1-aa-40MiB."), "{part}");
    assert_eq!(SweepState::read(&lab.folder, None, None).unwrap().partial, 1);
    let rest = make(&lab, 1, "node2-bb").unwrap();
    assert_eq!((rest.runs, rest.made, rest.interrupted), (4, 2, false));
    assert_eq!(lab.folder.shards().unwrap().len(), 2);
    // A part that was changed after it was published is not taken, though it is a store still.
    let changed = changed_rows(&part, "UPDATE response SET value = value + 1");
    assert_eq!(changed, 2);
    let again = make(&lab, 1, "node3-cc").unwrap();
    assert_eq!((again.runs, again.made), (4, 4));
}

#[test]
fn scratch_folders_of_attempts_that_were_killed_are_removed_and_others_stay() {
    let lab = SweepLab::new("min = 1\nmax = 1");
    lab.folder.add_chunks(&[chunk(1, 0, 0)]).unwrap();
    let names = ["chunk-node1-aa.0000.7", "chunk-node1-bb.0000.8", "chunk-node2-aa.0000.7", "chunks"];
    let folders = names.map(|name| lab.place.path().join(format!("netrig-{name}")));
    for folder in &folders {
        fs::create_dir(folder).unwrap();
        fs::write(folder.join("lock"), "").unwrap();
    }
    let alive = fs::File::open(folders[1].join("lock")).unwrap();
    alive.lock().unwrap();
    make(&lab, 1, "node1-cc").unwrap();
    assert_eq!(folders.map(|folder| folder.exists()), [false, true, true, true]);
    let left = fs::read_dir(lab.place.path()).unwrap().filter_map(Result::ok);
    let scratch = left.filter(|entry| entry.file_name().to_string_lossy().contains("chunk-")).count();
    assert_eq!(scratch, 2, "that of the attempt which is alive, and that of another host");
}

/// Carries out a statement on a store as another program would; returns the number of changed rows.
fn changed_rows(store: &str, statement: &str) -> usize {
    rusqlite::Connection::open(store).unwrap().execute(statement, []).unwrap()
}

#[test]
fn two_submitters_without_locks_do_not_give_a_number_twice() {
    let lab = SweepLab::new("min = 1\nmax = 1");
    lab.folder.add_chunks(&[chunk(1, 0, 1)]).unwrap();
    let twice = lab.folder.add_chunks(&[chunk(1, 0, 0), chunk(2, 1, 1)]).unwrap_err();
    assert!(matches!(twice, SweepError::Busy(_)), "{twice}");
    assert_eq!(lab.folder.chunks().unwrap(), [chunk(1, 0, 1)]);
}

#[test]
fn a_chunk_that_is_not_there_is_named_and_a_half_line_is_no_chunk() {
    let lab = SweepLab::new("min = 1\nmax = 1");
    lab.folder.add_chunks(&[chunk(1, 0, 0)]).unwrap();
    let none = make(&lab, 0, "a").unwrap_err().to_string();
    assert!(none.ends_with("has no chunk 0; it has 1"), "{none}");
    let path = lab.folder.path().join("chunks.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{text}{{\"chunk\":2,\"ru")).unwrap();
    assert_eq!(lab.folder.chunks().unwrap().len(), 1);
    fs::write(&path, format!("{text}{{\"chunk\":2,\"ru\n")).unwrap();
    assert!(lab.folder.chunks().unwrap_err().to_string().contains("chunks.jsonl, line 2"));
    fs::write(&path, "{\"chunk\":1,\"runs\":[{\"replication\":1,\"first\":0,\"last\":4}],\"work_s\":1}\n")
        .unwrap();
    let far = make(&lab, 1, "a").unwrap_err().to_string();
    assert!(far.contains("chunk 1 has point 5, and the experiment has 4"), "{far}");
}

#[test]
fn one_submitter_at_a_time() {
    let lab = SweepLab::new("min = 1\nmax = 1");
    let lock = lab.folder.lock().unwrap();
    assert!(matches!(lab.folder.lock(), Err(SweepError::Busy(_))));
    drop(lock);
    assert!(lab.folder.lock().is_ok());
}

/// A change that keeps the file whole is found by the digest in its name, and one under a right digest by its runs.
#[test]
fn a_shard_that_is_not_what_its_name_says_is_refused() {
    let lab = SweepLab::new("min = 2\nmax = 2");
    lab.folder.add_chunks(&[chunk(1, 0, 1), chunk(2, 2, 3)]).unwrap();
    let substrate = Quick::default();
    let check = ShardCheck::new(&lab.folder, &lab.experiment, &substrate);
    let fault = |path: &std::path::Path| {
        let shard = lab.folder.shards().unwrap().into_iter().find(|shard| shard.path == path).unwrap();
        let chunks = lab.folder.chunks().unwrap();
        check.fault(&shard, chunks.iter().find(|chunk| chunk.chunk == shard.chunk))
    };
    let good = make(&lab, 1, "node1-aa").unwrap().shard.unwrap();
    assert_eq!(fault(&good), None);
    let bytes = fs::read(&good).unwrap();
    let mut other = bytes.clone();
    let last = other.len() - 1;
    other[last] ^= 1;
    fs::write(&good, &other).unwrap();
    assert_eq!(fault(&good).as_deref(), Some("it was changed or cut after it was published"));
    fs::write(&good, &bytes).unwrap();
    // The shard of another chunk, and one with a run less, published under names of their own.
    let second = make(&lab, 2, "node1-aa").unwrap().shard.unwrap();
    let wrong = lab.folder.publish(1, "node2-bb", true, &second, 1).unwrap();
    assert!(fault(&wrong).is_some_and(|why| why.contains("is not one of chunk 1")), "{:?}", fault(&wrong));
    let fewer = lab.place.path().join("fewer");
    netrig_store::Store::open(&fewer).unwrap().close().unwrap();
    let lacking = lab.folder.publish(2, "node2-bb", true, &fewer, 1).unwrap();
    assert_eq!(fault(&lacking).as_deref(), Some("it lacks 2 runs of chunk 2"));
    let part = lab.folder.publish(2, "node3-cc", false, &fewer, 1).unwrap();
    assert_eq!(fault(&part), None, "a part may lack runs");
    let stray = lab.folder.publish(99, "node4-dd", true, &fewer, 1).unwrap();
    assert_eq!(fault(&stray).as_deref(), Some("the sweep has no chunk 99"));
}

/// An annotation of Kubernetes has at most 256 KiB, an argument 128 KiB: many chunks are several jobs.
#[test]
fn engines_name_many_chunks_in_several_submissions() {
    let lab = SweepLab::new("min = 1\nmax = 1");
    let chunks: Vec<u32> = (1..=25_000).map(|n| n * 7).collect();
    let needs = TaskNeeds { work_s: 1.0, memory: 1 << 20, doublings: 0, is_retry: false, slots: None };
    let printed =
        Kubernetes::new(Vec::new(), None, Arc::default()).commands(&lab.folder, &chunks, &needs)[1].clone();
    let jobs: Vec<serde_json::Value> =
        printed.split("---\n").map(|job| serde_json::from_str(job).unwrap()).collect();
    let mut named = Vec::new();
    for job in &jobs {
        let list = job["metadata"]["annotations"]["netrig/chunks"].as_str().unwrap();
        assert!(list.len() < 128 << 10, "{}", list.len());
        assert_eq!(job["spec"]["completions"], list.split(',').count());
        named.extend(list.split(',').map(|chunk| chunk.parse::<u32>().unwrap()));
    }
    assert_eq!((jobs.len(), named), (3, chunks.clone()));
    let names: BTreeSet<&str> = jobs.iter().map(|job| job["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 3);
    let commands = HyperQueue::new(Vec::new(), Arc::default()).commands(&lab.folder, &chunks, &needs);
    assert!(commands.len() == 3 && commands.iter().all(|command| command.len() < 128 << 10));
}

/// A list that was edited is refused in words, and nothing is made of it.
#[test]
fn an_edited_list_of_chunks_is_refused_by_all_who_read_it() {
    for (edited, said) in [
        (chunk(1, 0, 99), "chunk 1 has point 100, and the experiment has 4"),
        (chunk(1, 3, 2), "chunk 1 has a range of runs that is none"),
        (SweepChunk { work_s: 1e300, ..chunk(1, 0, 1) }, "and 1e9 s are the most"),
    ] {
        let lab = SweepLab::new("min = 1\nmax = 1");
        lab.folder.add_chunks(&[edited]).unwrap();
        let refused = make(&lab, 1, "node1-aa").unwrap_err().to_string();
        assert!(refused.contains(said), "{refused}");
        let substrate = Quick::default();
        let mut store = netrig_store::Store::open(lab.store.path()).unwrap();
        let driven = lab
            .try_drive(&mut lab.engine(&substrate, &[]), &mut store, &mut Events::default())
            .unwrap_err()
            .to_string();
        assert!(driven.contains(said), "{driven}");
        let empty = lab.place.path().join("empty.db");
        netrig_store::Store::open(&empty).unwrap().close().unwrap();
        lab.folder.publish(1, "node2-bb", true, &empty, 1).unwrap();
        let check = ShardCheck::new(&lab.folder, &lab.experiment, &substrate);
        let faults = check.shards().unwrap();
        assert!(faults[0].1.as_deref().is_some_and(|fault| fault.contains(said)), "{faults:?}");
    }
}
