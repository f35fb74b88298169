//! Recorded runs are read back unchanged, and each only once.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use netrig_core::Instant;
use netrig_experiment::{Cut, MeasuredValue, RunOutcome};
use netrig_store::{Enrolment, NoteLine, RecordOutcome, RunEnd, Store, StoreError, TimeSeries};
use proptest::prelude::*;

use crate::it::common;
use crate::it::common::{entry, outcome, point, responses, store};

#[test]
fn a_run_comes_out_as_it_went_in() {
    let (_folder, mut store, experiment, provenance) = store();
    let went_in = entry(experiment, provenance, "aa");
    assert_eq!(store.record(&went_in).unwrap(), RecordOutcome::Stored);
    let run = store.run("aa").unwrap().unwrap();
    assert_eq!((&run.substrate, run.seed, &run.end), (&went_in.substrate, went_in.seed, &went_in.end));
    assert_eq!((&run.responses, run.took, run.provenance), (&went_in.responses, 0.125, provenance));
    assert_eq!(run.finished.len(), "2026-11-21T08:00:00Z".len());
    assert_eq!(store.provenance(provenance).unwrap(), common::provenance());
    assert_eq!(store.run("bb").unwrap(), None);
}

#[test]
fn a_run_survives_its_process_and_is_found_in_bulk() {
    let (_folder, mut store, experiment, provenance) = store();
    for identity in ["aa", "bb", "cc"] {
        store.record(&entry(experiment, provenance, identity)).unwrap();
    }
    let path = store.path().to_owned();
    drop(store);
    let store = Store::open(&path).unwrap();
    let found = ["cc", "aa", "zz"].map(|identity| store.run(identity).unwrap().is_some());
    assert_eq!(found, [true, true, false]);
}

#[test]
fn a_run_is_found_by_the_beginning_of_its_identity() {
    let (_folder, mut store, first, provenance) = store();
    for identity in ["a1b2", "a1c3", "%b"] {
        store.record(&entry(first, provenance, identity)).unwrap();
    }
    let (experiment, found) = store.replication("a1b").unwrap();
    assert_eq!((experiment, found.run.identity.as_str(), found.number), (first, "a1b2", 1));
    assert_eq!(store.replication("%").unwrap().1.run.identity, "%b");
    // If the run belongs to several experiments, the last one counts.
    let second = store.add_experiment("link-down", "format = 1\nquestion = \"?\"\n").unwrap();
    let member = Enrolment { point: point(&[("a", "1")]), replication: 3, identity: "a1b2" };
    store.enrol(second, [member]).unwrap();
    let (experiment, found) = store.replication("a1b2").unwrap();
    assert_eq!((experiment, found.point, found.number), (second, point(&[("a", "1")]), 3));
    assert!(matches!(store.replication("a1"), Err(StoreError::SeveralRuns(asked)) if asked == "a1"));
    assert!(matches!(store.replication("zz"), Err(StoreError::NoSuchRun(asked)) if asked == "zz"));
}

#[test]
fn a_valid_run_stays() {
    let (_folder, mut store, experiment, provenance) = store();
    store.record(&entry(experiment, provenance, "aa")).unwrap();
    let mut second = entry(experiment, provenance, "aa");
    second.responses = responses(&[("throughput", "B/s", MeasuredValue::from(1.0))]);
    assert_eq!(store.record(&second).unwrap(), RecordOutcome::AlreadyThere);
    let run = store.run("aa").unwrap().unwrap();
    assert_eq!(run.responses["throughput"].measured.value(), Some(54012.25));
    assert_eq!(store.replications(experiment).unwrap().len(), 1);
}

#[test]
fn a_failed_or_invalid_run_gives_way_with_all_that_belongs_to_it() {
    let (_folder, mut store, experiment, provenance) = store();
    let mut failed = entry(experiment, provenance, "aa");
    failed.end = RunEnd::Failed("the guest did not answer".to_owned());
    failed.responses.clear();
    failed.notes = vec![NoteLine { at: Instant::ZERO, subject: "run".to_owned(), text: "began".to_owned() }];
    let mut invalid = entry(experiment, provenance, "aa");
    invalid.end =
        RunEnd::Finished(RunOutcome { invalid: Some("the sender was late".to_owned()), ..outcome() });
    invalid.responses = responses(&[("old", "1", MeasuredValue::from(1.0))]);

    for attempt in [&failed, &invalid, &entry(experiment, provenance, "aa")] {
        assert_eq!(store.record(attempt).unwrap(), RecordOutcome::Stored);
        let run = store.run("aa").unwrap().unwrap();
        assert_eq!((&run.end, &run.responses), (&attempt.end, &attempt.responses));
        assert_eq!(store.notes("aa").unwrap(), attempt.notes);
    }
    assert_eq!(store.replications(experiment).unwrap().len(), 1);
}

#[test]
fn one_run_may_serve_two_experiments_and_two_points() {
    let (_folder, mut store, first, provenance) = store();
    store.record(&entry(first, provenance, "aa")).unwrap();
    let second = store.add_experiment("link-down", "format = 1\nquestion = \"?\"\n").unwrap();
    assert_ne!(first, second);
    let (here, there) = (point(&[("a", "1")]), point(&[("a", "2")]));
    let member = |point: &netrig_experiment::Point, identity| Enrolment {
        point: point.clone(),
        replication: 3,
        identity,
    };
    for _ in 0..2 {
        store.enrol(second, [member(&here, "aa"), member(&there, "aa"), member(&there, "zz")]).unwrap();
    }
    let list = store.replications(second).unwrap();
    let points: Vec<_> = list.iter().map(|r| (&r.point, r.number, r.run.identity.as_str())).collect();
    assert_eq!(points, [(&here, 3, "aa"), (&there, 3, "aa")]);
    let runs: Vec<_> = store.experiments().unwrap().iter().map(|e| (e.name.clone(), e.runs)).collect();
    assert_eq!(runs, [("link-down".to_owned(), 1), ("link-down".to_owned(), 2)]);
    assert_eq!(store.experiment_file(first).unwrap(), "format = 1\n");
}

#[test]
fn replications_in_the_order_of_recording_are_those_of_the_experiment() {
    let (_folder, mut store, first, provenance) = store();
    let second = store.add_experiment("link-down", "format = 1\nquestion = \"?\"\n").unwrap();
    // The runs of the two experiments alternate, and one has no responses.
    for (number, identity) in ["ee", "bb", "dd", "aa", "cc"].into_iter().enumerate() {
        let experiment = if number % 2 == 0 { second } else { first };
        let mut run = entry(experiment, provenance, identity);
        (run.point, run.replication) =
            (point(&[("a", if number < 3 { "2" } else { "1" })]), number as u32 + 1);
        if identity == "dd" {
            run.end = RunEnd::Failed("the guest did not answer".to_owned());
            run.responses.clear();
        }
        store.record(&run).unwrap();
    }
    // Two points share a run.
    let shared = Enrolment { point: point(&[("a", "3")]), replication: 9, identity: "ee" };
    store.enrol(second, [shared]).unwrap();
    let mut recorded = Vec::new();
    store.each_recorded(second, |index, replication| recorded.push((index, replication))).unwrap();
    let seen: Vec<_> =
        recorded.iter().map(|(index, of)| (*index, of.run.identity.as_str(), of.number)).collect();
    assert_eq!(seen, [(0, "ee", 1), (1, "ee", 9), (0, "dd", 3), (2, "cc", 5)]);
    let mut recorded: Vec<_> = recorded.into_iter().map(|(_, replication)| replication).collect();
    recorded.sort_by(|a, b| (&a.point, a.number).cmp(&(&b.point, b.number)));
    assert_eq!(recorded, store.replications(second).unwrap());
    let none = store.add_experiment("empty", "format = 1\n").unwrap();
    store.each_recorded(none, |_, _| panic!("it has no runs")).unwrap();
}

#[test]
fn the_same_file_and_the_same_provenance_stand_there_once() {
    let (_folder, mut store, experiment, provenance) = store();
    assert_eq!(store.add_experiment("link-down", "format = 1\n").unwrap(), experiment);
    assert_eq!(store.add_provenance(&common::provenance()).unwrap(), provenance);
    let mut other = common::provenance();
    other.settings.insert("net.core.rmem_max".to_owned(), "212992".to_owned());
    assert_ne!(store.add_provenance(&other).unwrap(), provenance);
}

#[test]
fn series_and_notes_come_back() {
    let (_folder, mut store, experiment, provenance) = store();
    let mut traced = entry(experiment, provenance, "aa");
    let samples = (0..1000_u64).map(|i| (Instant::from_nanos(i * 1_000_003), i as f64 / 7.0));
    traced.series = vec![
        TimeSeries {
            subject: "flow/web".to_owned(),
            quantity: "window".to_owned(),
            unit: "B".to_owned(),
            samples: samples.collect(),
        },
        TimeSeries {
            subject: "link/primary/forward".to_owned(),
            quantity: "queue".to_owned(),
            unit: "packets".to_owned(),
            samples: vec![],
        },
    ];
    traced.notes = vec![
        NoteLine {
            at: Instant::from_nanos(51_110_000_000),
            subject: "flow/web".to_owned(),
            text: "T3-rtx on primary".to_owned(),
        },
        NoteLine { at: Instant::NEVER, subject: "run".to_owned(), text: "the end, \"at last\"".to_owned() },
    ];
    store.record(&traced).unwrap();
    assert_eq!(store.series("aa").unwrap(), traced.series);
    assert_eq!(store.notes("aa").unwrap(), traced.notes);
    assert!(store.series("bb").unwrap().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Any 64-bit seed, any finite value and any text are stored unchanged.
    #[test]
    fn nothing_is_bent_on_the_way(
        seed: u64, events: u64, replication: u32,
        value in prop::num::f64::NORMAL | prop::num::f64::ZERO | prop::num::f64::SUBNORMAL,
        cut in prop::option::of((0..=usize::MAX >> 1, any::<bool>())),
        level in ".*", why in ".*",
    ) {
        let (_folder, mut store, experiment, provenance) = store();
        let warm_up = cut.map(|(discarded, too_short)| Cut { discarded, too_short });
        let mut run = entry(experiment, provenance, "aa");
        run.seed = seed;
        run.replication = replication;
        run.point = point(&[("factor", &level)]);
        run.responses = responses(&[
            ("r", "1", MeasuredValue::Value { value, warm_up }), ("s", "1", MeasuredValue::not(&*why)),
        ]);
        run.end = RunEnd::Finished(RunOutcome { events, invalid: Some(why), ..outcome() });
        store.record(&run).unwrap();
        let list = store.replications(experiment).unwrap();
        prop_assert_eq!((&list[0].point, list[0].number), (&run.point, replication));
        prop_assert_eq!((list[0].run.seed, &list[0].run.end), (seed, &run.end));
        prop_assert_eq!(&list[0].run.responses, &run.responses);
        prop_assert_eq!(list[0].run.responses["r"].measured.value().map(f64::to_bits), Some(value.to_bits()));
    }
}
