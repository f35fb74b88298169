//! The runs of other stores are merged once, and no run is lost.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use netrig_core::Instant;
use netrig_experiment::MeasuredValue;
use netrig_store::{
    MergeError, MergeOutcome, NoteLine, RunDifference, RunEnd, RunEntry, Store, StoreError, TimeSeries,
};

use crate::it::common::{entry, outcome, point, responses, store};

fn repeats(substrate: &str) -> bool {
    substrate == "sim"
}

/// A closed store with one run for each identity. `change` modifies each entry before it is recorded.
fn shard(identities: &[&str], change: impl Fn(&mut RunEntry)) -> tempfile::TempDir {
    let (folder, mut store, experiment, provenance) = store();
    for identity in identities {
        let mut run = entry(experiment, provenance, identity);
        change(&mut run);
        store.record(&run).unwrap();
    }
    store.close().unwrap();
    folder
}

/// Merges a store that no process changes.
fn merge_sealed(into: &mut Store, path: &Path) -> Result<MergeOutcome, MergeError> {
    into.merge(&Store::open_sealed(path).map_err(MergeError::There)?, repeats)
}

fn merge(into: &mut Store, shard: &tempfile::TempDir) -> MergeOutcome {
    merge_sealed(into, &shard.path().join("netrig.db")).unwrap()
}

#[test]
fn runs_of_shards_come_out_as_they_went_in_and_twice_changes_nothing() {
    let (_folder, mut all, experiment, provenance) = store();
    all.record(&entry(experiment, provenance, "aa")).unwrap();
    let trace = TimeSeries {
        subject: "flow/web".to_owned(),
        quantity: "queue_length".to_owned(),
        unit: "packets".to_owned(),
        samples: vec![(Instant::ZERO, 1.5)],
    };
    let note = NoteLine { at: Instant::ZERO, subject: "run".to_owned(), text: "began".to_owned() };
    let shard = shard(&["bb", "cc"], |run| {
        run.point = point(&[("transport", "sctp")]);
        run.series = vec![trace.clone()];
        run.notes = vec![note.clone()];
    });
    assert_eq!(merge(&mut all, &shard), MergeOutcome { added: 2, ..MergeOutcome::default() });
    assert_eq!(merge(&mut all, &shard), MergeOutcome { equal: 2, ..MergeOutcome::default() });
    let theirs = Store::open_read_only(&shard.path().join("netrig.db")).unwrap();
    assert_eq!(all.run("bb").unwrap(), theirs.run("bb").unwrap());
    assert_eq!((all.series("cc").unwrap(), all.notes("cc").unwrap()), (vec![trace], vec![note]));
    // The experiment file and the machine are the same, so their keys are the keys of this store.
    let runs = all.replications(experiment).unwrap();
    let found: Vec<_> = runs.iter().map(|run| (run.run.identity.as_str(), run.point.clone())).collect();
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found.contains(&("cc", point(&[("transport", "sctp")]))), "{found:?}");
    assert_eq!(all.experiments().unwrap().len(), 1);
}

#[test]
fn keys_of_the_other_store_mean_nothing_here() {
    let (_folder, mut all, _, _) = store();
    let (folder, mut other, _, _) = store();
    let second = other.add_experiment("mm1", "format = 1\n").unwrap();
    let machine = netrig_store::Provenance { host: "node7".to_owned(), ..crate::it::common::provenance() };
    let machine = other.add_provenance(&machine).unwrap();
    other.record(&entry(second, machine, "dd")).unwrap();
    other.close().unwrap();
    all.add_experiment("another", "format = 1\n").unwrap();
    merge(&mut all, &folder);
    let (experiment, run) = all.replication("dd").unwrap();
    let named = all.experiments().unwrap().into_iter().find(|entry| entry.id == experiment).unwrap();
    assert_eq!((named.name.as_str(), named.runs), ("mm1", 1));
    assert_eq!(all.provenance(run.run.provenance).unwrap().host, "node7");
}

#[test]
fn a_valid_run_stays_and_a_failed_one_gives_way() {
    let (_folder, mut all, experiment, provenance) = store();
    let mut failed = entry(experiment, provenance, "aa");
    failed.end = RunEnd::Failed("the disk was full".to_owned());
    failed.responses = responses(&[("old", "1", MeasuredValue::from(1.0))]);
    all.record(&failed).unwrap();
    all.record(&entry(experiment, provenance, "bb")).unwrap();
    let fails = shard(&["aa", "bb", "cc"], |run| run.end = RunEnd::Failed("no memory".to_owned()));
    assert_eq!(merge(&mut all, &fails), MergeOutcome { added: 1, ignored: 2, ..MergeOutcome::default() });
    assert_eq!(all.run("aa").unwrap().unwrap().end.why(), Some("the disk was full"));
    let valid = shard(&["aa", "bb", "cc"], |_| {});
    let expected = MergeOutcome { replaced: 2, equal: 1, ..MergeOutcome::default() };
    assert_eq!(merge(&mut all, &valid), expected);
    let replaced = all.run("aa").unwrap().unwrap();
    assert!(replaced.end.is_valid() && !replaced.responses.contains_key("old"), "{replaced:?}");
    assert_eq!(merge(&mut all, &fails), MergeOutcome { ignored: 3, ..MergeOutcome::default() });
    assert_eq!(merge(&mut all, &valid), MergeOutcome { equal: 3, ..MergeOutcome::default() });
}

#[test]
fn runs_that_should_be_equal_and_differ_are_a_loud_difference() {
    let (_folder, mut all, experiment, provenance) = store();
    all.record(&entry(experiment, provenance, "aa")).unwrap();
    let value = responses(&[
        ("throughput", "B/s", MeasuredValue::from(54_012.250_000_000_01)),
        ("delay", "s", MeasuredValue::not("nothing arrived")),
    ]);
    let other = shard(&["aa", "bb"], |run| run.responses = value.clone());
    let found = merge(&mut all, &other);
    let expected = RunDifference {
        identity: "aa".to_owned(),
        what: "throughput".to_owned(),
        here: "54012.25".to_owned(),
        there: "54012.25000000001".to_owned(),
    };
    assert_eq!(found, MergeOutcome { different: vec![expected], ..MergeOutcome::default() });
    assert_eq!(all.run("bb").unwrap(), None, "nothing of such a shard is merged");
    let longer = shard(&["aa"], |run| {
        let mut outcome = outcome();
        outcome.events += 1;
        run.end = RunEnd::Finished(outcome);
        run.took = 99.0;
    });
    assert_eq!(merge(&mut all, &longer).different[0].what, "events");
    let fewer = shard(&["aa"], |run| drop(run.responses.remove("delay")));
    assert_eq!(merge(&mut all, &fewer).different[0].there, "not there");
    // The time that a run takes may differ. A run in real time may differ in all values.
    let slower = shard(&["aa"], |run| run.took = 99.0);
    assert_eq!(merge(&mut all, &slower).equal, 1);
    let mut real = entry(experiment, provenance, "rr");
    "netns".clone_into(&mut real.substrate);
    all.record(&real).unwrap();
    let again = shard(&["rr"], |run| {
        "netns".clone_into(&mut run.substrate);
        run.responses = value.clone();
    });
    let outcome = merge(&mut all, &again);
    assert_eq!((outcome.kept, outcome.equal), (1, 0), "they were not compared");
}

#[test]
fn a_shard_that_is_cut_or_missing_or_no_store_changes_nothing() {
    let (folder, mut all, experiment, provenance) = store();
    all.record(&entry(experiment, provenance, "aa")).unwrap();
    let names: Vec<String> = (0..200).map(|n| format!("{n:04}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let whole = shard(&names, |_| {});
    let bytes = std::fs::read(whole.path().join("netrig.db")).unwrap();
    let cut = folder.path().join("cut.db");
    for length in [0, 1, 100, 4096, bytes.len() / 2, bytes.len() - 4096, bytes.len() - 1] {
        std::fs::write(&cut, &bytes[..length]).unwrap();
        let refused = merge_sealed(&mut all, &cut);
        assert!(refused.is_err(), "{length} of {} bytes: {refused:?}", bytes.len());
    }
    std::fs::write(
        &cut,
        "this is no store, but a text that is longer than the head of one would be".repeat(9),
    )
    .unwrap();
    assert!(matches!(merge_sealed(&mut all, &cut), Err(MergeError::There(StoreError::NotAStore(_)))));
    let none = folder.path().join("none.db");
    assert!(matches!(merge_sealed(&mut all, &none), Err(MergeError::There(StoreError::Missing(_)))));
    assert!(!none.exists());
    assert_eq!(all.experiments().unwrap()[0].runs, 1);
    assert_eq!(merge(&mut all, &whole).added, 200);
}

#[test]
fn a_closed_store_has_no_log_beside_it() {
    let (folder, mut open, experiment, provenance) = store();
    open.record(&entry(experiment, provenance, "aa")).unwrap();
    assert!(folder.path().join("netrig.db-wal").exists());
    open.close().unwrap();
    let files: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(files, ["netrig.db"]);
    // If another connection has the store open, it is not closed.
    let path = folder.path().join("netrig.db");
    let (one, other) = (Store::open(&path).unwrap(), Store::open(&path).unwrap());
    let _ = other.run("aa").unwrap();
    assert!(one.close().is_err());
    assert!(other.run("aa").unwrap().is_some());
}

#[test]
fn a_store_that_a_process_writes_can_be_merged() {
    let (_folder, mut all, _, _) = store();
    let (_other, mut live, experiment, provenance) = store();
    live.record(&entry(experiment, provenance, "aa")).unwrap();
    let path = live.path().to_owned();
    let live_now = || Store::open_read_only(&path).unwrap();
    assert_eq!(all.merge(&live_now(), repeats).unwrap().added, 1);
    live.record(&entry(experiment, provenance, "bb")).unwrap();
    assert_eq!(all.merge(&live_now(), repeats).unwrap().added, 1);
}

/// If two stores disagree in all of their runs, the list of differences does not fill the memory.
#[test]
fn a_merge_ends_at_so_many_differences() {
    let names: Vec<String> = (0..50).map(|n| format!("{n:04}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (_folder, mut all, experiment, provenance) = store();
    for name in &names {
        all.record(&entry(experiment, provenance, name)).unwrap();
    }
    let other = shard(&names, |run| {
        let RunEnd::Finished(outcome) = &mut run.end else { panic!("a run that finished") };
        outcome.events += 1;
    });
    let outcome = merge(&mut all, &other);
    assert_eq!((outcome.different.len(), outcome.added), (MergeOutcome::MOST_DIFFERENT, 0));
}

/// A store that violates a constraint of its form (schema version) is refused, and the next store is merged.
#[test]
fn a_store_that_breaks_the_form_is_refused_as_the_other_store() {
    let (_folder, mut all, ..) = store();
    let wrong = shard(&["aa"], |_| {});
    let path = wrong.path().join("netrig.db");
    let edited = rusqlite::Connection::open(&path).unwrap();
    edited
        .execute_batch("PRAGMA ignore_check_constraints = on; PRAGMA foreign_keys = off; UPDATE run SET status = 'perhaps';")
        .unwrap();
    drop(edited);
    let refused = merge_sealed(&mut all, &path);
    assert!(matches!(refused, Err(MergeError::There(StoreError::Damaged { .. }))), "{refused:?}");
    assert_eq!(merge(&mut all, &shard(&["bb"], |_| {})).added, 1);
}
