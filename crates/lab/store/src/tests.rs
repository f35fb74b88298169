//! Tests that use private parts of the crate.

use std::time::Duration;

use netrig_experiment::Point;

use crate::{Provenance, RunEnd, RunEntry, Store, StoreError};

fn entry(store: &mut Store, identity: &str) -> RunEntry {
    RunEntry {
        experiment: store.add_experiment("e", "format = 1\n").unwrap(),
        point: Point::default(),
        replication: 1,
        identity: identity.to_owned(),
        substrate: "sim".to_owned(),
        seed: 1,
        end: RunEnd::Failed("because ".repeat(100)),
        responses: Default::default(),
        took: 0.0,
        provenance: store.add_provenance(&Provenance::default()).unwrap(),
        series: Vec::new(),
        notes: Vec::new(),
    }
}

#[test]
fn a_full_disk_loses_nothing_and_is_survived() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(&folder.path().join("netrig.db")).unwrap();
    let mut next = entry(&mut store, "");
    let pages: i64 = store.connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    // With this limit SQLite cannot grow the file, as on a full disk.
    store.connection.pragma_update(None, "max_page_count", pages + 4).unwrap();
    let mut recorded = 0;
    let error = loop {
        next.identity = recorded.to_string();
        match store.record(&next) {
            Ok(_) => recorded += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Full(_)), "{error:?}");
    assert!(error.to_string().contains("finished runs are kept"), "{error}");
    assert!(recorded > 0);
    assert_eq!(store.replications(next.experiment).unwrap().len(), recorded);

    // With more space the same store can record again.
    store.connection.pragma_update(None, "max_page_count", 1_000_000).unwrap();
    store.record(&next).unwrap();
    assert_eq!(store.replications(next.experiment).unwrap().len(), recorded + 1);
}

#[test]
fn a_store_that_another_process_holds_is_waited_for_and_then_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("netrig.db");
    let mut holder = Store::open(&path).unwrap();
    let mut waiter = Store::open_patiently(&path, Duration::from_millis(50)).unwrap();
    let entry = entry(&mut waiter, "aa");
    let held = holder.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    let error = waiter.record(&entry).unwrap_err();
    assert!(matches!(error, StoreError::Locked(_)), "{error:?}");
    drop(held);
    waiter.record(&entry).unwrap();
    assert!(holder.run("aa").unwrap().is_some());
}

/// A recorded run is in the kernel's page cache and not yet on the disk, as `docs/store.md` says.
#[test]
fn the_log_is_written_ahead() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("netrig.db")).unwrap();
    let text: String = store.connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    let level: i64 = store.connection.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
    assert_eq!((text.as_str(), level), ("wal", 1));
}

/// <https://www.sqlite.org/rescode.html>: a full disk has two result codes.
#[test]
fn both_signs_of_a_full_disk_are_known() {
    for code in [rusqlite::ffi::SQLITE_FULL, rusqlite::ffi::SQLITE_IOERR_SHMSIZE] {
        let error = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
        assert!(matches!(StoreError::new("netrig.db".as_ref(), error), StoreError::Full(_)));
    }
}
