//! Several processes write to one store: every run is stored once, and no run is lost.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::sync::Barrier;

use netrig_store::{RecordOutcome, Store, StoreError};

use crate::it::common;
use crate::it::common::{entry, provenance};

#[test]
fn four_writers_that_also_make_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("netrig.db");
    let start = Barrier::new(4);
    let stored: usize = std::thread::scope(|scope| {
        let writer = |_| {
            scope.spawn(|| {
                start.wait();
                let mut store = Store::open(&path).unwrap();
                let experiment = store.add_experiment("e", "format = 1\n").unwrap();
                let provenance = store.add_provenance(&provenance()).unwrap();
                let recorded = (0..50)
                    .map(|n| store.record(&entry(experiment, provenance, &format!("{n:02}"))).unwrap());
                recorded.filter(|r| *r == RecordOutcome::Stored).count()
            })
        };
        let writers: Vec<_> = (0..4).map(writer).collect();
        writers.into_iter().map(|w| w.join().unwrap()).sum()
    });
    assert_eq!(stored, 50, "each run was stored by exactly one of them");
    let store = Store::open_read_only(&path).unwrap();
    let experiments = store.experiments().unwrap();
    assert_eq!(experiments.len(), 1);
    let runs = store.replications(experiments[0].id).unwrap();
    let identities: BTreeSet<_> = runs.iter().map(|r| r.run.identity.clone()).collect();
    assert_eq!((runs.len(), identities.len()), (50, 50));
}

/// A reader that opens the store while it is being created finds either no store or a complete store.
#[test]
fn a_store_that_is_being_made_is_never_half_a_store() {
    for _ in 0..200 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("netrig.db");
        let start = Barrier::new(3);
        std::thread::scope(|scope| {
            let writer = |_| {
                scope.spawn(|| {
                    start.wait();
                    Store::open(&path).unwrap();
                })
            };
            let writers = [0, 1].map(writer);
            start.wait();
            while !writers.iter().all(|writer| writer.is_finished()) {
                let found = Store::open_read_only(&path);
                assert!(matches!(found, Ok(_) | Err(StoreError::Missing(_))), "{:?}", found.err());
            }
        });
        Store::open_read_only(&path).unwrap();
    }
}

#[test]
fn a_reader_sees_what_a_writer_has_recorded() {
    let (_folder, mut store, experiment, provenance) = common::store();
    let reader = Store::open_read_only(store.path()).unwrap();
    assert!(reader.run("aa").unwrap().is_none());
    store.record(&entry(experiment, provenance, "aa")).unwrap();
    assert!(reader.run("aa").unwrap().is_some());
}
