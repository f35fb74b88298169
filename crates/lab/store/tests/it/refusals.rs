//! An unusable store is refused with one sentence and is not changed.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a test of a file needs files")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use netrig_store::{Store, StoreError};
use rusqlite::Connection;

use crate::it::common;

fn refusal(path: &Path) -> StoreError {
    let error = Store::open(path).unwrap_err();
    let sentence = error.to_string();
    assert!(!sentence.contains('\n') && !sentence.ends_with('.'), "{sentence}");
    assert!(sentence.contains(&path.display().to_string()), "{sentence}");
    error
}

#[test]
fn no_database_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    let text =
        "this is a text, long enough to have a header of a hundred bytes if it were a database ".repeat(3);
    std::fs::write(&path, &text).unwrap();
    assert!(matches!(refusal(&path), StoreError::NotAStore(_)));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn the_database_of_another_program() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.db");
    Connection::open(&path)
        .unwrap()
        .execute_batch("CREATE TABLE mine (x); PRAGMA user_version = 7;")
        .unwrap();
    let before = std::fs::read(&path).unwrap();
    assert!(matches!(refusal(&path), StoreError::NotAStore(_)));
    assert!(matches!(Store::open_read_only(&path), Err(StoreError::NotAStore(_))));
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_store_of_a_later_version() {
    let (_folder, store, ..) = common::store();
    let path = store.path().to_owned();
    drop(store);
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = refusal(&path);
    assert!(matches!(error, StoreError::Newer { theirs: 99, ours: 4, .. }));
    let sentence = error.to_string();
    assert!(sentence.contains("99") && sentence.contains("use the netrig that wrote it"), "{sentence}");
}

#[test]
fn a_damaged_store() {
    let (_folder, mut store, experiment, provenance) = common::store();
    let path = store.path().to_owned();
    for n in 0..200 {
        store.record(&common::entry(experiment, provenance, &n.to_string())).unwrap();
    }
    drop(store);
    // All bytes except the header page are overwritten.
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[4096..].fill(0x55);
    std::fs::write(&path, bytes).unwrap();
    let found = Store::open(&path).and_then(|store| store.replications(experiment).map(drop));
    assert!(matches!(found, Err(StoreError::Damaged { .. })), "{found:?}");
}

#[test]
fn a_truncated_store() {
    let (_folder, store, ..) = common::store();
    let path = store.path().to_owned();
    drop(store);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let found = Store::open(&path).and_then(|mut store| store.add_experiment("e", "").map(drop));
    assert!(matches!(found, Err(StoreError::Damaged { .. })), "{found:?}");
}

#[test]
fn no_place_for_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    for (path, reason) in [
        (file.join("netrig.db"), "not a folder"),
        (folder.path().join("absent/netrig.db"), "does not exist"),
        (folder.path().to_owned(), "is a folder"),
    ] {
        let error = refusal(&path);
        assert!(matches!(error, StoreError::CannotOpen { .. }), "{error:?}");
        let sentence = error.to_string().to_lowercase();
        assert!(sentence.contains(reason), "{sentence}");
    }
}

/// Opening a pipe without a writer would block forever.
#[test]
fn a_store_is_a_regular_file() {
    let folder = tempfile::tempdir().unwrap();
    let [pipe, socket] = ["pipe", "socket"].map(|name| folder.path().join(name));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let null = std::path::PathBuf::from("/dev/null");
    for (path, kind) in [(pipe, "a pipe"), (socket, "a socket"), (null, "a device")] {
        for error in [Store::open(&path).unwrap_err(), Store::open_read_only(&path).unwrap_err()] {
            let message = error.to_string();
            assert!(message.contains(&format!("it is {kind}, and a store is a regular file")), "{message}");
        }
    }
}

#[test]
fn nothing_to_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("netrig.db");
    assert!(matches!(Store::open_read_only(&path), Err(StoreError::Missing(_))));
    assert!(!path.exists(), "reading makes no file");
}

/// If the first start was killed, it may leave an empty file.
#[test]
fn an_empty_file_becomes_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("netrig.db");
    std::fs::write(&path, "").unwrap();
    assert!(Store::open(&path).unwrap().experiments().unwrap().is_empty());
}
