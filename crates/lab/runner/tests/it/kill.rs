//! A sweep is killed and restarted several times. At the end every run is in the store once.
//!
//! The sweep is this test program itself. It is started with the folder of the store in its environment.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test fails by panicking, and some of these wait for threads and processes"
)]

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use netrig_core::Seeds;
use netrig_runner::{EarlierRuns, PlanRequest, carry_out};
use netrig_store::{Provenance, Store};

use crate::it::common;
use crate::it::common::{Fake, experiment, file};

const FOLDER: &str = "NETRIG_TEST_KILL_FOLDER";
const REPLICATIONS: &str = "min = 100\nmax = 100";
const RUNS: usize = 3 * 100;

#[test]
fn killed_ten_times_every_run_is_there_once() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        sweep(Path::new(&folder));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut moments = Seeds::new(1).stream("test/kill");
    let mut counts = Vec::new();
    for round in 0..10 {
        let mut child = start(folder.path());
        // The first three processes may be killed while they create the store. The later ones record runs first.
        let before = counts.last().copied().unwrap_or(0);
        while round >= 3 && kept(folder.path()).len() == before && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(moments.below(40)));
        child.kill().unwrap();
        child.wait().unwrap();
        counts.push(kept(folder.path()).len());
    }
    assert!(counts.is_sorted(), "what was recorded is never lost: {counts:?}");
    assert!((1..RUNS).contains(&counts[9]), "it was killed on its way: {counts:?}");
    assert!(start(folder.path()).wait().unwrap().success());
    let identities = kept(folder.path());
    assert_eq!(identities.len(), RUNS);
    assert_eq!(identities.iter().collect::<BTreeSet<_>>().len(), RUNS);

    // Each recorded run has the same values as in a sweep that is not killed.
    let quiet = tempfile::tempdir().unwrap();
    sweep(quiet.path());
    let measured = |folder: &Path| -> Vec<_> {
        let all = common::stored(&folder.join("netrig.db"));
        all.into_iter().map(|r| (r.point, r.number, r.run.end, r.run.responses)).collect()
    };
    assert_eq!(measured(folder.path()), measured(quiet.path()));
}

fn start(folder: &Path) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "it::kill::killed_ten_times_every_run_is_there_once"])
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn sweep(folder: &Path) {
    let text = file(REPLICATIONS);
    let fake = Fake { takes: |_| Duration::from_millis(5), ..Fake::measuring() };
    let request = PlanRequest {
        experiment: &experiment(&text),
        substrates: &[&fake],
        provenance: &Provenance::default(),
        jobs: NonZeroUsize::new(2),
        earlier: EarlierRuns::TriedAgain,
        chosen: None,
        traced: false,
        cancel: &AtomicBool::new(false),
    };
    let mut store = Store::open(&folder.join("netrig.db")).unwrap();
    carry_out(&request, &mut store, &mut ()).unwrap();
}

/// The identities of the stored runs. Empty if the store does not exist yet.
fn kept(folder: &Path) -> Vec<String> {
    let path = folder.join("netrig.db");
    // The store is opened for writing, as at the next start: it must be intact.
    let store = Store::open(&path).unwrap();
    let experiments = store.experiments().unwrap();
    let all = experiments.iter().flat_map(|e| store.replications(e.id).unwrap());
    all.map(|replication| replication.run.identity).collect()
}
