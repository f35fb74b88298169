//! Whatever an engine does to its tasks, a sweep has each run once, with the results of one process.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use netrig_store::Store;
use netrig_sweep::{DriveEvent, DriveOutcome, SweepClock as _};

use crate::it::common::{AttemptFate, Events, Quick, SweepLab};

/// A rule that asks for more replications until the interval is narrow.
const RULE: &str = "min = 10\nmax = 40\nuntil = { response = \"goodput\", half_width = \"4 %\" }";

/// Drives a sweep whose engine has these faults; the store must then have what one process makes.
fn sweep(replications: &str, away: u32, fates: &[(u32, &[AttemptFate])]) -> Events {
    let lab = SweepLab::new(replications);
    let substrate = Quick::default();
    let mut store = Store::open(lab.store.path()).unwrap();
    let mut engine = lab.engine(&substrate, fates);
    engine.away = away;
    let mut events = Events::default();
    assert_eq!(lab.drive(&mut engine, &mut store, &mut events), DriveOutcome::Complete);
    let (alone, swept) = (lab.alone(&substrate), lab.outcome(&substrate));
    assert_eq!(alone.points, swept.points);
    // With a rule, one process may decide before a round is complete.
    assert!(alone.ran == swept.found || replications == RULE, "each run once");
    assert_eq!((events.last.done, events.last.left_s), (events.last.chunks, 0.0));
    events
}

#[test]
fn a_sweep_has_the_results_of_one_process() {
    let events = sweep("min = 3\nmax = 3", 0, &[]);
    let submitted = events.all.iter().filter(|event| matches!(event, DriveEvent::Submitted(..))).count();
    assert_eq!((submitted, events.last.chunks), (1, 6), "12 runs in chunks of two");
}

#[test]
fn the_stopping_rule_is_judged_in_rounds() {
    let events = sweep(RULE, 0, &[]);
    let submitted = events.all.iter().filter(|event| matches!(event, DriveEvent::Submitted(..))).count();
    assert!(submitted > 1, "{submitted}");
}

#[test]
fn lost_doubled_late_and_cut_chunks_are_made_again_or_once() {
    use AttemptFate::{Cut, Fails, Late, Lost, OtherBuild, Twice};
    let fates: &[(u32, &[AttemptFate])] = &[
        (1, &[Lost, Lost]),
        (2, &[Twice]),
        (3, &[Late]),
        (4, &[Cut]),
        (5, &[OtherBuild]),
        (6, &[Fails, Lost]),
    ];
    let events = sweep("min = 3\nmax = 3", 0, fates);
    let refused: Vec<_> = events
        .all
        .iter()
        .filter_map(|event| match event {
            DriveEvent::BadShard(path, why) => {
                Some((path.file_name().unwrap().to_str().unwrap().to_owned(), why.clone()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(refused.len(), 2, "{refused:?}");
    assert!(
        refused
            .iter()
            .any(|(name, why)| name.starts_with("4.host-1-40MiB.") && why.contains("changed or cut")),
        "{refused:?}"
    );
    assert!(
        refused
            .iter()
            .any(|(name, why)| name.starts_with("5.host-1-40MiB.")
                && why.contains("netrig 0.1.0+other made it")),
        "{refused:?}"
    );
    assert!(
        events.all.contains(&DriveEvent::Failed(6, "node7: no space is left".to_owned())),
        "{:?}",
        events.all
    );
    let merged = |chunk| {
        let of_chunk =
            |event: &&DriveEvent| matches!(event, DriveEvent::Merged(shard, _) if shard.chunk == chunk);
        events.all.iter().filter(of_chunk).count()
    };
    // A shard that is listed late is waited for: its chunk is not made a second time.
    assert_eq!((merged(2), merged(3)), (2, 1));
}

#[test]
fn an_engine_that_is_away_is_asked_again() {
    let events = sweep("min = 1\nmax = 1", 7, &[]);
    let away = events.all.iter().filter(|event| matches!(event, DriveEvent::EngineAway(_))).count();
    assert_eq!(away, 7);
}

#[test]
fn chunks_that_an_engine_does_not_list_for_a_while_are_not_given_up() {
    let fates: &[AttemptFate] = &[AttemptFate::Unlisted; 3];
    let events = sweep("min = 1\nmax = 1", 0, &[(1, fates), (2, fates)]);
    let submitted = events.all.iter().filter_map(|event| match event {
        DriveEvent::Submitted(count, _) => Some(*count),
        _ => None,
    });
    // The first attempt counts as lost after 5 s, the second after 10 s more, when the first has its shard.
    assert_eq!(submitted.sum::<usize>(), 4);
}

#[test]
fn a_chunk_that_leaves_a_log_is_submitted_again_at_once() {
    let lab = SweepLab::new("min = 1\nmax = 1");
    let substrate = Quick::default();
    let mut store = Store::open(lab.store.path()).unwrap();
    let mut engine = lab.engine(&substrate, &[(1, &[AttemptFate::Fails; 2])]);
    assert_eq!(lab.drive(&mut engine, &mut store, &mut Events::default()), DriveOutcome::Complete);
    assert_eq!(engine.attempts[&1], 3);
    assert!(lab.clock.now() < std::time::Duration::from_secs(5), "{:?}", lab.clock.now());
}

#[test]
fn a_chunk_that_is_held_for_ever_is_submitted_a_second_time() {
    let events = sweep("min = 1\nmax = 1", 0, &[(2, &[AttemptFate::Held])]);
    assert!(events.all.contains(&DriveEvent::Overdue(2)), "{:?}", events.all);
}

#[test]
fn a_chunk_that_is_held_at_each_attempt_ends_the_sweep() {
    let lab = SweepLab::new("min = 1\nmax = 1");
    let substrate = Quick::default();
    let mut store = Store::open(lab.store.path()).unwrap();
    let mut engine = lab.engine(&substrate, &[(2, &[AttemptFate::Held; 9])]);
    let ended = lab.drive(&mut engine, &mut store, &mut Events::default());
    let DriveOutcome::GaveUp(chunks) = ended else { panic!("{ended:?}") };
    assert!(chunks[&2].contains("it still runs, far longer than expected"), "{chunks:?}");
    assert_eq!((chunks.len(), engine.attempts[&2]), (1, 3));
}

#[test]
fn a_second_attempt_that_waits_is_not_followed_by_a_third() {
    let lab = SweepLab::new("min = 1\nmax = 1");
    let substrate = Quick::default();
    let mut store = Store::open(lab.store.path()).unwrap();
    let mut engine = lab.engine(&substrate, &[(2, &[AttemptFate::Held, AttemptFate::Queued])]);
    assert_eq!(lab.drive(&mut engine, &mut store, &mut Events::default()), DriveOutcome::Complete);
    assert_eq!(engine.attempts[&2], 2);
}

#[test]
fn a_task_that_is_taken_and_never_starts_for_its_size_is_followed_by_a_smaller_one() {
    let lab = SweepLab::new("min = 1\nmax = 1");
    let substrate = Quick::default();
    let mut store = Store::open(lab.store.path()).unwrap();
    let mut engine = lab.engine(&substrate, &[(1, &[AttemptFate::Lost])]);
    engine.most_doublings = 0;
    assert_eq!(lab.drive(&mut engine, &mut store, &mut Events::default()), DriveOutcome::Complete);
    assert_eq!(engine.attempts[&1], 3);
    let doublings: Vec<u32> = engine.needs.iter().map(|needs| needs.doublings).collect();
    assert_eq!(doublings, [0, 1, 0]);
}

#[test]
fn a_folder_that_cannot_be_read_for_a_while_does_not_end_the_sweep() {
    let lab = SweepLab::new("min = 1\nmax = 1");
    let substrate = Quick::default();
    let mut store = Store::open(lab.store.path()).unwrap();
    let mut engine = lab.engine(&substrate, &[(1, &[AttemptFate::Lost])]);
    /// Takes the folder of shards away after the first turn, and brings it back after the third.
    struct TakesAway<'a>(&'a SweepLab, u32);
    impl netrig_sweep::SweepClock for TakesAway<'_> {
        fn now(&self) -> std::time::Duration {
            self.0.clock.now()
        }
        fn pause(&mut self, time: std::time::Duration) {
            let [shards, away] = ["shards", "away"].map(|name| self.0.folder.path().join(name));
            self.1 += 1;
            match self.1 {
                1 => std::fs::rename(shards, away).unwrap(),
                3 => std::fs::rename(away, shards).unwrap(),
                _ => {}
            }
            self.0.clock.clone().pause(time);
        }
    }
    let request = netrig_sweep::DriveRequest {
        folder: &lab.folder,
        experiment: &lab.experiment,
        substrate: &substrate,
        work_s: &|_| 1.0,
        size: netrig_sweep::ChunkSize { work_s: Some(2.0), slots: None },
        memory: 1,
        attempts: 3,
        cancel: &std::sync::atomic::AtomicBool::new(false),
    };
    let mut events = Events::default();
    let ended =
        netrig_sweep::drive(&request, &mut engine, &mut store, &mut TakesAway(&lab, 0), &mut events).unwrap();
    assert_eq!(ended, DriveOutcome::Complete);
    let away = events.all.iter().filter(|event| matches!(event, DriveEvent::FolderAway(_))).count();
    assert_eq!(away, 2, "{:?}", events.all);
}

#[test]
fn an_engine_that_has_no_machine_with_twice_the_memory_gets_a_task_with_less() {
    let lab = SweepLab::new("min = 1\nmax = 1");
    let substrate = Quick::default();
    let mut store = Store::open(lab.store.path()).unwrap();
    let mut engine = lab.engine(&substrate, &[(1, &[AttemptFate::Lost, AttemptFate::Fails])]);
    engine.memory = 600 << 20;
    assert_eq!(lab.drive(&mut engine, &mut store, &mut Events::default()), DriveOutcome::Complete);
    let memory: Vec<u64> = engine.needs.iter().map(|needs| needs.memory() >> 20).collect();
    // First with room beyond the 1 MiB of the trials, then beyond the 40 MiB that the first shards tell.
    // A first refusal may have another reason, and is no reason to ask for less.
    assert_eq!(memory, [129, 376, 752, 752, 376], "MiB of each attempt");
}

#[test]
fn an_engine_that_answers_and_takes_nothing_ends_the_sweep_with_its_words() {
    let lab = SweepLab::new("min = 1\nmax = 1");
    let substrate = Quick::default();
    let mut store = Store::open(lab.store.path()).unwrap();
    let mut engine = lab.engine(&substrate, &[]);
    engine.memory = 0;
    let ended = lab.drive(&mut engine, &mut store, &mut Events::default());
    assert_eq!(ended, DriveOutcome::Refused("submit failed: no machine has this memory".to_owned()));
    // The same command again, when it takes them.
    engine.memory = u64::MAX;
    assert_eq!(lab.drive(&mut engine, &mut store, &mut Events::default()), DriveOutcome::Complete);
}

#[test]
fn chunks_of_a_submission_that_was_taken_and_not_answered_are_not_submitted_twice() {
    let lab = SweepLab::new("min = 1\nmax = 1");
    let substrate = Quick::default();
    let mut store = Store::open(lab.store.path()).unwrap();
    let mut engine = lab.engine(&substrate, &[(1, &[AttemptFate::Late]), (2, &[AttemptFate::Late])]);
    engine.hangs = 1;
    assert_eq!(lab.drive(&mut engine, &mut store, &mut Events::default()), DriveOutcome::Complete);
    assert_eq!((engine.attempts[&1], engine.attempts[&2]), (1, 1));
}

#[test]
fn an_engine_that_takes_nothing_and_does_not_answer_ends_the_sweep() {
    let lab = SweepLab::new("min = 1\nmax = 1");
    let substrate = Quick::default();
    let mut store = Store::open(lab.store.path()).unwrap();
    let lost: &[AttemptFate] = &[AttemptFate::Lost; 99];
    let mut engine = lab.engine(&substrate, &[(1, lost), (2, lost)]);
    engine.hangs = u32::MAX;
    let ended = lab.drive(&mut engine, &mut store, &mut Events::default());
    assert_eq!(ended, DriveOutcome::Refused("submit did not answer within 60 s".to_owned()));
}

#[test]
fn an_engine_that_never_answers_ends_the_sweep_with_its_words() {
    let lab = SweepLab::new("min = 1\nmax = 1");
    let substrate = Quick::default();
    let mut store = Store::open(lab.store.path()).unwrap();
    let mut engine = lab.engine(&substrate, &[]);
    engine.away = u32::MAX;
    let ended = lab.drive(&mut engine, &mut store, &mut Events::default());
    assert_eq!(ended, DriveOutcome::NoAnswer("submit failed: the controller is away".to_owned()));
    assert!(lab.clock.now() > std::time::Duration::from_mins(2), "{:?}", lab.clock.now());
    assert!(engine.attempts.is_empty());
}

#[test]
fn an_engine_that_goes_away_for_ever_ends_the_sweep_after_an_hour() {
    let lab = SweepLab::new("min = 1\nmax = 1");
    let substrate = Quick::default();
    let mut store = Store::open(lab.store.path()).unwrap();
    let mut engine = lab.engine(&substrate, &[(1, &[AttemptFate::Lost])]);
    engine.answers = 1;
    let ended = lab.drive(&mut engine, &mut store, &mut Events::default());
    assert_eq!(ended, DriveOutcome::NoAnswer("submit failed: the controller is away".to_owned()));
    assert!(lab.clock.now() > std::time::Duration::from_hours(1), "{:?}", lab.clock.now());
}

#[test]
fn a_chunk_that_fails_each_time_ends_the_sweep_with_its_log_and_the_others_results() {
    let lab = SweepLab::new("min = 2\nmax = 2");
    let substrate = Quick::default();
    let mut store = Store::open(lab.store.path()).unwrap();
    let mut engine = lab.engine(&substrate, &[(2, &[AttemptFate::Fails; 9]), (3, &[AttemptFate::Lost; 9])]);
    let mut events = Events::default();
    let ended = lab.drive(&mut engine, &mut store, &mut events);
    let DriveOutcome::GaveUp(chunks) = ended else { panic!("{ended:?}") };
    assert_eq!(chunks.keys().copied().collect::<Vec<_>>(), [2, 3]);
    assert_eq!(chunks[&2], "node7: no space is left");
    assert!(chunks[&3].starts_with("no attempt left a log"), "{}", chunks[&3]);
    assert_eq!((engine.attempts[&2], engine.attempts[&3], engine.attempts[&1]), (3, 3, 1));
    let memory: Vec<u64> = engine.needs.iter().map(|needs| needs.memory() >> 20).collect();
    // A chunk that leaves a log is submitted again at once, and a lost one later.
    assert_eq!(memory, [129, 376, 752, 376, 752], "MiB of each attempt");
    assert_eq!(store.experiments().unwrap()[0].runs, 4, "two of four chunks");
    // The same command again begins where it was.
    engine.fates.clear();
    assert_eq!(lab.drive(&mut engine, &mut store, &mut events), DriveOutcome::Complete);
    assert_eq!((engine.attempts[&1], engine.attempts[&2]), (1, 4));
    assert_eq!(lab.alone(&substrate).points, lab.outcome(&substrate).points);
}

#[test]
fn a_failed_run_is_a_result_and_is_tried_again_by_the_next_sweep() {
    let lab = SweepLab::new("min = 2\nmax = 2");
    let failing = Quick { fails: |seed| seed == 2, ..Quick::default() };
    let mut store = Store::open(lab.store.path()).unwrap();
    let mut events = Events::default();
    let mut engine = lab.engine(&failing, &[]);
    assert_eq!(lab.drive(&mut engine, &mut store, &mut events), DriveOutcome::Complete);
    let chunks = events.last.chunks;
    assert_eq!(engine.attempts.values().sum::<usize>(), chunks, "once each");
    assert_eq!(lab.alone(&failing).points, lab.outcome(&failing).points);
    // The reason of the failures is gone: the next sweep makes the chunks that have them, and no others.
    let mended = Quick::default();
    let mut engine = lab.engine(&mended, &[]);
    assert_eq!(lab.drive(&mut engine, &mut store, &mut events), DriveOutcome::Complete);
    let again = engine.attempts.values().sum::<usize>();
    assert!(again > 0 && again < chunks, "{again} of {chunks}");
    let runs = lab.outcome(&mended).points.into_iter().flat_map(|point| point.runs);
    assert!(runs.into_iter().all(|run| run.is_valid()));
}

#[test]
fn machines_that_disagree_are_an_error() {
    let lab = SweepLab::new("min = 2\nmax = 2");
    let (one, other) = (Quick::default(), Quick { moved: 1.0, ..Quick::default() });
    let mut store = Store::open(lab.store.path()).unwrap();
    let mut events = Events::default();
    assert_eq!(lab.drive(&mut lab.engine(&one, &[]), &mut store, &mut events), DriveOutcome::Complete);
    lab.engine(&other, &[]).publish(&lab.folder, 2, "otherhost-1", crate::it::common::BUILD);
    let ended = lab.drive(&mut lab.engine(&one, &[]), &mut store, &mut events);
    let DriveOutcome::Different(shard, different) = ended else { panic!("{ended:?}") };
    assert!(shard.display().to_string().contains("/2.otherhost-1-40MiB."), "{}", shard.display());
    assert!(different.iter().all(|run| run.what == "goodput"), "{different:?}");
}

#[test]
fn a_submitter_that_was_killed_begins_where_it_was() {
    let lab = SweepLab::new("min = 3\nmax = 3");
    let substrate = Quick::default();
    let mut store = Store::open(lab.store.path()).unwrap();
    let mut engine = lab.engine(&substrate, &[(1, &[AttemptFate::Lost]), (2, &[AttemptFate::Lost])]);
    // The first submitter is killed after its first look: chunks 3 to 6 are there, 1 and 2 lost.
    let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        struct Dies;
        impl netrig_sweep::SweepClock for Dies {
            fn now(&self) -> std::time::Duration {
                std::time::Duration::ZERO
            }
            fn pause(&mut self, _: std::time::Duration) {
                std::panic::resume_unwind(Box::new("killed"));
            }
        }
        let request = netrig_sweep::DriveRequest {
            folder: &lab.folder,
            experiment: &lab.experiment,
            substrate: &substrate,
            work_s: &|_| 1.0,
            size: netrig_sweep::ChunkSize { work_s: Some(2.0), slots: None },
            memory: 1,
            attempts: 3,
            cancel: &std::sync::atomic::AtomicBool::new(false),
        };
        netrig_sweep::drive(&request, &mut engine, &mut store, &mut Dies, &mut Events::default())
    }));
    assert!(killed.is_err());
    let chunks = lab.folder.chunks().unwrap();
    assert_eq!(chunks.len(), 6);
    let mut events = Events::default();
    assert_eq!(lab.drive(&mut engine, &mut store, &mut events), DriveOutcome::Complete);
    assert_eq!(lab.folder.chunks().unwrap(), chunks, "the same chunks");
    assert_eq!((engine.attempts[&1], engine.attempts[&3]), (2, 1));
    assert_eq!(lab.alone(&substrate).points, lab.outcome(&substrate).points);
}

#[test]
fn a_store_that_has_all_runs_needs_no_engine() {
    let lab = SweepLab::new("min = 2\nmax = 2");
    let substrate = Quick::default();
    let mut alone = Store::open(&lab.place.path().join("alone.db")).unwrap();
    lab.alone(&substrate);
    let mut engine = lab.engine(&substrate, &[]);
    let mut events = Events::default();
    assert_eq!(lab.drive(&mut engine, &mut alone, &mut events), DriveOutcome::Complete);
    assert!(engine.attempts.is_empty() && lab.folder.chunks().unwrap().is_empty());
}

#[test]
fn a_chunk_that_waits_while_the_engine_is_away_is_not_given_up() {
    let mut lab = SweepLab::new("min = 1\nmax = 1");
    lab.attempts = 1;
    let substrate = Quick::default();
    let mut store = Store::open(lab.store.path()).unwrap();
    let mut engine = lab.engine(&substrate, &[(1, &[AttemptFate::Waits]), (2, &[AttemptFate::Waits])]);
    let mut events = Events::default();
    assert_eq!(lab.drive(&mut engine, &mut store, &mut events), DriveOutcome::Complete);
    assert_eq!((engine.attempts[&1], engine.attempts[&2]), (1, 1));
    assert_eq!(lab.alone(&substrate).points, lab.outcome(&substrate).points);
}
