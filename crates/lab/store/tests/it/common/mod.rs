//! Entries that the tests of the store record.

use std::collections::BTreeMap;

use netrig_core::Duration;
use netrig_experiment::{Balance, Level, MeasuredValue, Point, RunOutcome};
use netrig_store::{ExperimentId, Provenance, ProvenanceId, RunEnd, RunEntry, Store, StoredResponse};

pub fn point(levels: &[(&str, &str)]) -> Point {
    levels.iter().map(|(f, l)| ((*f).to_owned(), Level::new(l))).collect()
}

pub fn outcome() -> RunOutcome {
    let balance = Balance { offered: 1000, duplicated: 1, delivered: 960, dropped: 40, inside: 1 };
    RunOutcome {
        balance,
        events: 4242,
        lasted: None,
        lateness: Duration::from_micros(17),
        invalid: None,
        moved: None,
        remarks: Vec::new(),
        deterministic: true,
    }
}

pub fn provenance() -> Provenance {
    Provenance {
        build: "0.1.0+abc1234".to_owned(),
        os: "Debian GNU/Linux 12 (bookworm)".to_owned(),
        kernel: "6.1.0-28-amd64".to_owned(),
        cpu: "Some Processor at 2.00GHz".to_owned(),
        cpus: 2,
        host: "lab".to_owned(),
        settings: BTreeMap::from([("net.ipv4.tcp_congestion_control".to_owned(), "cubic".to_owned())]),
    }
}

pub fn responses(values: &[(&str, &str, MeasuredValue)]) -> BTreeMap<String, StoredResponse> {
    values
        .iter()
        .map(|(n, u, value)| {
            ((*n).to_owned(), StoredResponse { unit: (*u).to_owned(), measured: value.clone() })
        })
        .collect()
}

pub fn entry(experiment: ExperimentId, provenance: ProvenanceId, identity: &str) -> RunEntry {
    RunEntry {
        experiment,
        point: point(&[("transport", "tcp"), ("down_for", "5 s")]),
        replication: 1,
        identity: identity.to_owned(),
        substrate: "sim".to_owned(),
        seed: 1,
        end: RunEnd::Finished(outcome()),
        responses: responses(&[
            ("throughput", "B/s", MeasuredValue::from(54012.25)),
            ("delay", "s", MeasuredValue::not("nothing arrived")),
        ]),
        took: 0.125,
        provenance,
        series: Vec::new(),
        notes: Vec::new(),
    }
}

/// A store in its own folder, with one experiment and one provenance.
pub fn store() -> (tempfile::TempDir, Store, ExperimentId, ProvenanceId) {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(&folder.path().join("netrig.db")).unwrap();
    let experiment = store.add_experiment("link-down", "format = 1\n").unwrap();
    let provenance = store.add_provenance(&provenance()).unwrap();
    (folder, store, experiment, provenance)
}
