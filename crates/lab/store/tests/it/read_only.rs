//! A read-only folder: a store in it can be read, and no store can be created in it.
//!
//! The superuser can write to any folder. So if the test runs as superuser, it starts itself again as an unprivileged
//! user.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test of files and processes")]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use netrig_store::{Store, StoreError};

use crate::it::common;

const FOLDER: &str = "NETRIG_TEST_READ_ONLY_FOLDER";
/// `nobody`.
const UNPRIVILEGED: u32 = 65534;

#[test]
fn a_folder_that_may_not_be_written() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return check(Path::new(&folder));
    }
    let (folder, mut store, experiment, provenance) = common::store();
    store.record(&common::entry(experiment, provenance, "aa")).unwrap();
    drop(store);
    std::fs::set_permissions(folder.path().join("netrig.db"), Permissions::from_mode(0o444)).unwrap();
    // A writable file in a read-only folder: the log of the store cannot be created.
    let open_file = folder.path().join("open.db");
    std::fs::copy(folder.path().join("netrig.db"), &open_file).unwrap();
    std::fs::set_permissions(&open_file, Permissions::from_mode(0o666)).unwrap();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o555)).unwrap();
    if std::fs::write(folder.path().join("probe"), "").is_err() {
        return check(folder.path());
    }
    // A copy of the test program that every user may execute, because other users may have no access to the build
    // folder.
    let open = tempfile::tempdir().unwrap();
    std::fs::set_permissions(open.path(), Permissions::from_mode(0o755)).unwrap();
    let program = open.path().join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let output = Command::new(program)
        .env(FOLDER, folder.path())
        .current_dir("/")
        .uid(UNPRIVILEGED)
        .gid(UNPRIVILEGED)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

fn check(folder: &Path) {
    let path = folder.join("netrig.db");
    assert!(matches!(Store::open(&path), Err(StoreError::ReadOnly(_))));
    for name in ["new.db", "open.db"] {
        let refused = Store::open(&folder.join(name)).unwrap_err();
        assert!(matches!(refused, StoreError::ReadOnly(_)), "{name}: {refused}");
    }
    assert!(Store::open_read_only(&folder.join("open.db")).unwrap().run("aa").unwrap().is_some());
    let store = Store::open_read_only(&path).unwrap();
    assert!(store.run("aa").unwrap().is_some());
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 2 + usize::from(folder.join("probe").exists()));
}
