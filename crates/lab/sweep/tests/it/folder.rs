//! The folder of a sweep says what is wrong with it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;

use netrig_store::Provenance;
use netrig_sweep::{
    Chunk, ChunkRequest, RunRange, SweepError, SweepFolder, SweepManifest, SweepState, make_chunk,
};

use crate::it::common::{BUILD, Lab, Quick, folder, manifest};

fn chunk(number: u32, first: usize, last: usize) -> Chunk {
    Chunk { chunk: number, runs: vec![RunRange { replication: 1, first, last }], work_s: 1.0 }
}

fn make(lab: &Lab, number: u32, attempt: &str) -> Result<netrig_sweep::ChunkOutcome, SweepError> {
    let request = ChunkRequest {
        folder: &lab.folder,
        chunk: number,
        attempt,
        experiment: &lab.experiment,
        substrate: &Quick::default(),
        provenance: &Provenance { build: BUILD.to_owned(), ..Provenance::default() },
        jobs: NonZeroUsize::MIN,
        scratch: lab.place.path(),
        cancel: &AtomicBool::new(false),
    };
    make_chunk(&request, &mut ())
}

#[test]
fn the_same_sweep_opens_its_folder_and_another_is_refused() {
    let lab = Lab::new("min = 1\nmax = 1");
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
fn a_folder_that_is_none_or_was_changed_is_refused() {
    let lab = Lab::new("min = 1\nmax = 1");
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
    let lab = Lab::new("min = 1\nmax = 1");
    lab.folder.add_chunks(&[chunk(1, 0, 1), chunk(2, 2, 3)]).unwrap();
    let made = make(&lab, 2, "node1-aa").unwrap();
    assert_eq!((made.runs, made.made, made.interrupted), (2, 2, false));
    fs::write(lab.folder.path().join("shards/.1.x.new"), "half").unwrap();
    fs::write(lab.folder.path().join("shards/README"), "mine").unwrap();
    let shards = lab.folder.shards().unwrap();
    assert_eq!(shards.len(), 1);
    assert!(shards[0].chunk == 2 && shards[0].is_whole && shards[0].path.ends_with("shards/2.node1-aa.db"));
    let files: Vec<_> =
        fs::read_dir(lab.place.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(!files.iter().any(|file| file.to_str().unwrap().starts_with("netrig-chunk")), "{files:?}");
    let state = SweepState::read(&lab.folder, None).unwrap();
    assert_eq!((state.chunks, state.done, state.missing, state.running), (2, 1, 1, None));
    lab.folder.add_failure(1, "node2-bb", "node2: no memory\n").unwrap();
    lab.folder.add_failure(2, "node2-bb", "node2: a failure that no longer counts\n").unwrap();
    let state = SweepState::read(&lab.folder, None).unwrap();
    assert_eq!(state.failed.into_iter().collect::<Vec<_>>(), [(1, "node2: no memory".to_owned())]);
}

#[test]
fn an_interrupted_chunk_publishes_a_part_and_the_next_attempt_takes_it() {
    let lab = Lab::new("min = 1\nmax = 1");
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
        cancel: &cancel,
    };
    let stopped = make_chunk(&request, &mut Stops(&cancel)).unwrap();
    assert!(stopped.interrupted && stopped.made == 2, "{stopped:?}");
    assert!(stopped.shard.unwrap().ends_with("1.node1-aa.part.db"));
    assert_eq!(SweepState::read(&lab.folder, None).unwrap().partial, 1);
    let rest = make(&lab, 1, "node2-bb").unwrap();
    assert_eq!((rest.runs, rest.made, rest.interrupted), (4, 2, false));
    assert_eq!(lab.folder.shards().unwrap().len(), 2);
}

#[test]
fn a_chunk_that_is_not_there_is_named_and_a_half_line_is_no_chunk() {
    let lab = Lab::new("min = 1\nmax = 1");
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
    assert!(far.contains("chunk 1 has a point 5, and the experiment has 4"), "{far}");
}

#[test]
fn one_submitter_at_a_time() {
    let lab = Lab::new("min = 1\nmax = 1");
    let lock = lab.folder.lock().unwrap();
    assert!(matches!(lab.folder.lock(), Err(SweepError::Busy(_))));
    drop(lock);
    assert!(lab.folder.lock().is_ok());
}
