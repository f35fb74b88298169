//! Results depend only on the experiment and the substrate.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and some of these wait for threads and processes"
)]

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use netrig_experiment::{PointRuns, Run, Status};
use netrig_runner::{first_that_count, found};
use netrig_stats::stopping::{Precision, StoppingDecision, StoppingRule};

use crate::it::common;
use crate::it::common::{Act, Fake, Lab, experiment, file, later_is_sooner, stored, value};

const FIXED: &str = "min = 6\nmax = 6";
const UNTIL: &str = "min = 10\nmax = 40\nuntil = { response = \"goodput\", half_width = \"4 %\" }";

fn goodputs(point: &PointRuns) -> Vec<f64> {
    point.runs.iter().map(|run| run.value("goodput").unwrap()).collect()
}

#[test]
fn any_number_of_workers_gives_the_same_results() {
    for replications in [FIXED, UNTIL] {
        let results = [1, 2, 8].map(|jobs| {
            let fake = Fake { takes: later_is_sooner, ..Fake::measuring() };
            let lab = Lab { jobs, ..Lab::new() };
            let ended = lab.run(&file(replications), &fake);
            assert!(!ended.interrupted);
            ended.points
        });
        assert_eq!(results[0], results[1]);
        assert_eq!(results[0], results[2]);
        assert_eq!(results[0].len(), 3);
    }
}

/// The expected number of runs comes from the stopping rule of the statistics crate, applied to the values of the
/// substrate.
#[test]
fn the_stopping_rule_looks_at_replications_in_their_order() {
    let fake = Fake { takes: later_is_sooner, ..Fake::measuring() };
    let ended = Lab { jobs: 8, ..Lab::new() }.run(&file(UNTIL), &fake);
    let plan = experiment(&file(UNTIL)).plan();
    let rule = StoppingRule::new(Precision::Relative(0.04), 0.95, 10, 40).unwrap();
    let mut counts = BTreeSet::new();
    for (place, point) in ended.points.iter().enumerate() {
        let values: Vec<f64> = (1..=40).map(|n| value(&plan.run(place, n).unwrap())).collect();
        let n = match rule.judge(&values).unwrap() {
            StoppingDecision::Enough { n, .. } | StoppingDecision::GaveUp { n, .. } => n,
            StoppingDecision::Continue { .. } => unreachable!("it was given all that it may ask for"),
        };
        assert_eq!(goodputs(point), values[..n]);
        counts.insert(n);
    }
    assert!(counts.len() > 1, "points that need different numbers show more: {counts:?}");
}

#[test]
fn every_point_has_its_first_replication_before_any_has_its_second() {
    let fake = Fake::measuring();
    Lab { jobs: 1, ..Lab::new() }.run(&file("min = 2\nmax = 2"), &fake);
    let order: Vec<_> = fake.began().iter().map(|(rate, n)| format!("{n}: {rate}")).collect();
    let rates = ["1 Mbit/s", "2 Mbit/s", "3 Mbit/s"];
    let expected: Vec<_> = (1..=2).flat_map(|n| rates.map(|rate| format!("{n}: {rate}"))).collect();
    assert_eq!(order, expected);
}

#[test]
fn no_more_runs_at_once_than_were_allowed() {
    for (jobs, parallelism, most) in [(4, 64, 4), (4, 1, 1)] {
        let takes = |_: &_| std::time::Duration::from_millis(10);
        let fake = Fake { parallelism, takes, ..Fake::measuring() };
        Lab { jobs, ..Lab::new() }.run(&file(FIXED), &fake);
        assert_eq!(fake.most_at_once.load(Ordering::SeqCst), most);
    }
}

#[test]
fn substrates_take_their_turns() {
    let (first, second) =
        (Fake::measuring(), Fake { name: "other", refuses: "3 Mbit/s", ..Fake::measuring() });
    let lab = Lab::new();
    let ended = lab.try_run(&file(FIXED), &[&first, &second], &mut ()).unwrap();
    let substrates: Vec<_> = ended.points.iter().map(|p| (p.substrate.as_str(), p.status)).collect();
    let ok = Status::Ok;
    let unsupported = Status::Unsupported;
    assert_eq!(
        substrates,
        [("fake", ok), ("fake", ok), ("fake", ok), ("other", ok), ("other", ok), ("other", unsupported)]
    );
    assert_eq!(ended.points[5].why.as_deref(), Some("it is too fast"));
    assert!(ended.points[5].runs.is_empty() && second.began().len() == 12);
    assert_eq!(stored(&lab.path()).len(), 18 + 12);
}

#[test]
fn what_fails_costs_itself_and_nothing_else() {
    for (fault, words) in [
        ((|| Act::Panic) as fn() -> Act, "index out of bounds"),
        (|| Act::Fail, "the guest did not answer"),
        (|| Act::Leak, "100 offered + 0 duplicated, but 83 delivered + 10 dropped + 0 still inside"),
    ] {
        let fails = move |run: &_| common::rate(run) == "2 Mbit/s";
        let fake = Fake::new(move |run| match (fails(run), run.replication) {
            (true, 4) => fault(),
            _ => Act::Measure(value(run)),
        });
        let ended = Lab::new().run(&file(FIXED), &fake);
        let statuses: Vec<_> = ended.points.iter().map(|p| (p.status, p.runs.len())).collect();
        assert_eq!(statuses, [(Status::Ok, 6), (Status::Failed, 6), (Status::Ok, 6)]);
        let why = ended.points[1].why.as_deref().unwrap();
        assert!(why.starts_with("replication 4 (seed 4): ") && why.contains(words), "{why}");
        let valid: Vec<_> = ended.points[1].runs.iter().map(|run| run.is_valid()).collect();
        assert_eq!(valid, [true, true, true, false, true, true]);
    }
}

#[test]
fn what_fails_at_once_is_not_tried_six_times() {
    let results = [1, 8].map(|jobs| {
        let fake = Fake::new(|_| Act::Fail);
        let ended = Lab { jobs, ..Lab::new() }.run(&file(FIXED), &fake);
        assert!(jobs > 1 || fake.began().len() == 3);
        ended.points
    });
    assert_eq!(results[0], results[1]);
    assert_eq!(results[0].len(), 3);
    assert!(results[0].iter().all(|p| p.status == Status::Failed && p.runs.len() == 1));
}

#[test]
fn a_point_is_invalid_if_no_run_counts() {
    let fake = Fake::new(|run| match (common::rate(run).as_str(), run.replication) {
        ("1 Mbit/s", _) | ("2 Mbit/s", 2) => Act::Invalid,
        _ => Act::Measure(1.0),
    });
    let ended = Lab::new().run(&file(FIXED), &fake);
    let statuses: Vec<_> = ended.points.iter().map(|p| (p.status, p.why.as_deref())).collect();
    assert_eq!(
        statuses,
        [(Status::Invalid, Some("the sender was late")), (Status::Ok, None), (Status::Ok, None)]
    );
    assert_eq!(ended.points[1].runs.iter().filter(|run| run.is_valid()).count(), 5);
}

/// Reading the store later gives the same results: an invalid run does not hide the runs after it.
#[test]
fn what_is_found_is_what_came_out() {
    let acts = |run: &Run| match (common::rate(run).as_str(), run.replication) {
        ("1 Mbit/s", _) | ("2 Mbit/s", 1 | 2) => Act::Invalid,
        ("3 Mbit/s", 3) => Act::Fail,
        _ => Act::Measure(value(run)),
    };
    let (lab, fake, text) = (Lab::new(), Fake::new(acts), file(FIXED));
    let ended = lab.run(&text, &fake);
    let found = found(&experiment(&text), &[&fake], &lab.provenance.build, &lab.store()).unwrap();
    assert!(found.points == ended.points && !found.interrupted);
    assert_eq!((found.found, found.ran), (ended.ran, 0));
    // In figures of single runs, the first valid run represents its point.
    let first = first_that_count(&experiment(&text), &fake, &lab.provenance.build, &lab.store()).unwrap();
    let shown: Vec<_> = first.iter().map(|run| run.as_ref().map(|(run, _)| run.replication)).collect();
    assert_eq!(shown, [None, Some(3), Some(1)]);
    // Invalid runs are still executed again by the next start.
    let again = lab.run(&text, &Fake::measuring());
    assert_eq!((again.ran, again.found), (9, 9));
}
