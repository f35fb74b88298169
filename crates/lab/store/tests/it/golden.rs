//! A store of an earlier version can be opened, and its contents are unchanged.
//!
//! `tests/golden/store-<form>.db` was written once, by the first version of netrig with that form (schema version),
//! with `cargo test -p netrig-store golden:: -- --ignored`. Add a file for each new form. Never change an existing
//! file.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;

use netrig_core::{Duration, Instant};
use netrig_experiment::{Cut, MeasuredValue, RunOutcome, RunRemark};
use netrig_store::{ExperimentId, NoteLine, ProvenanceId, RunEnd, RunEntry, Store, StoreError, TimeSeries};

use crate::it::common::{entry, outcome, point, provenance, responses};

const FILE: &str = "format = 1\nname = \"link-down\"\n";

fn golden(form: u32) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../../tests/golden/store-{form}.db"))
}

/// One run of each kind, with every value that this form can store.
fn entries(form: u32, experiment: ExperimentId, provenance: ProvenanceId) -> [RunEntry; 3] {
    let mut whole = entry(experiment, provenance, "aa");
    let lasted = (form >= 2).then(|| Duration::from_millis(51_200));
    // Older forms do not have this value.
    let deterministic = form >= 3;
    let remark = RunRemark {
        text: "its server fails 1 rule".to_owned(),
        details: vec!["FAIL REG-BIND-01".to_owned()],
    };
    let remarks = if form >= 4 { vec![remark] } else { Vec::new() };
    whole.end = RunEnd::Finished(RunOutcome { lasted, deterministic, remarks, ..outcome() });
    whole.seed = u64::MAX;
    let cut = Some(Cut { discarded: 15, too_short: true });
    whole.responses = responses(&[
        ("throughput", "B/s", MeasuredValue::from(54012.25)),
        ("delay", "s", MeasuredValue::Value { value: 0.1, warm_up: cut }),
        ("recovery", "s", MeasuredValue::not("nothing arrived after the outage")),
    ]);
    whole.series = vec![TimeSeries {
        subject: "flow/web".to_owned(),
        quantity: "cwnd".to_owned(),
        unit: "B".to_owned(),
        samples: (1..=100).map(|i| (Instant::from_nanos(i * 100_000_000), 1500.0 * i as f64)).collect(),
    }];
    let text = "T3-rtx on primary: cwnd 1500 B, error count 1 of 5".to_owned();
    whole.notes =
        vec![NoteLine { at: Instant::from_nanos(51_110_000_000), subject: "flow/web".to_owned(), text }];
    let mut invalid = entry(experiment, provenance, "bb");
    invalid.replication = 2;
    invalid.end = RunEnd::Finished(RunOutcome {
        invalid: Some("the sender was late".to_owned()),
        deterministic,
        ..outcome()
    });
    let mut failed = entry(experiment, provenance, "cc");
    failed.point = point(&[("transport", "sctp-multihomed"), ("down_for", "0 s")]);
    failed.substrate = "vm".to_owned();
    failed.end = RunEnd::Failed("the guest did not answer".to_owned());
    failed.responses.clear();
    [whole, invalid, failed]
}

fn holds_what_was_put_in(store: &Store, form: u32) {
    let experiments = store.experiments().unwrap();
    assert_eq!(experiments.len(), 1);
    assert_eq!((experiments[0].name.as_str(), experiments[0].runs), ("link-down", 3));
    assert_eq!(store.experiment_file(experiments[0].id).unwrap(), FILE);
    for replication in store.replications(experiments[0].id).unwrap() {
        let run = &replication.run;
        let put_in = entries(form, experiments[0].id, run.provenance);
        let put_in = put_in.iter().find(|entry| entry.identity == run.identity).unwrap();
        assert_eq!((&replication.point, replication.number), (&put_in.point, put_in.replication));
        assert_eq!((&run.substrate, run.seed, run.took), (&put_in.substrate, put_in.seed, put_in.took));
        assert_eq!((&run.end, &run.responses), (&put_in.end, &put_in.responses));
        assert_eq!(store.provenance(run.provenance).unwrap(), provenance());
        assert_eq!(store.series(&run.identity).unwrap(), put_in.series);
        assert_eq!(store.notes(&run.identity).unwrap(), put_in.notes);
    }
}

fn opens(form: u32) {
    // Uses a copy, because opening for writing may upgrade the store.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("netrig.db");
    std::fs::copy(golden(form), &path).unwrap();
    match Store::open_read_only(&path) {
        Ok(store) => holds_what_was_put_in(&store, form),
        Err(error) => assert!(matches!(error, StoreError::Older { theirs, .. } if theirs == form), "{error}"),
    }
    holds_what_was_put_in(&Store::open(&path).unwrap(), form);
}

#[test]
fn a_store_of_form_1_opens() {
    opens(1);
}

#[test]
fn a_store_of_form_2_opens() {
    opens(2);
}

#[test]
fn a_store_of_form_3_opens() {
    opens(3);
}

#[test]
fn a_store_of_form_4_opens() {
    opens(4);
}

#[test]
#[ignore = "writes the golden file of a form that has none yet"]
fn write_golden() {
    const FORM: u32 = 4;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("netrig.db");
    let mut store = Store::open(&path).unwrap();
    let experiment = store.add_experiment("link-down", FILE).unwrap();
    let provenance = store.add_provenance(&provenance()).unwrap();
    for entry in entries(FORM, experiment, provenance) {
        store.record(&entry).unwrap();
    }
    holds_what_was_put_in(&store, FORM);
    drop(store);
    assert!(!golden(FORM).exists(), "a golden file never changes");
    std::fs::copy(&path, golden(FORM)).unwrap();
}
