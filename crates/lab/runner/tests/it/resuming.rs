//! Stored runs are not repeated, and they stay in the store in all cases.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and some of these wait for threads and processes"
)]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use netrig_experiment::{Point, Status};
use netrig_runner::{ProgressListener, RunEvent, RunTally, RunnerError};
use netrig_store::{OriginFact, Provenances};

use crate::it::common::{Act, Fake, Lab, experiment, file, rate, stored};

const FIXED: &str = "min = 6\nmax = 6";

/// Sets the cancel flag after this number of runs.
struct CancelAfter<'a>(u64, &'a AtomicBool);

impl ProgressListener for CancelAfter<'_> {
    fn event(&mut self, _: &RunEvent<'_>, tally: &RunTally) {
        if tally.ran >= self.0 {
            self.1.store(true, Ordering::Relaxed);
        }
    }
}

#[test]
fn a_second_time_runs_nothing_and_says_the_same() {
    let lab = Lab::new();
    let first = lab.run(&file(FIXED), &Fake::measuring());
    let again = Fake::measuring();
    let second = lab.run(&file(FIXED), &again);
    assert!(again.began().is_empty());
    assert_eq!(first.points, second.points);
    assert_eq!(((first.found, first.ran), (second.found, second.ran)), ((0, 18), (18, 0)));
}

#[test]
fn more_replications_add_to_what_is_there() {
    let lab = Lab::new();
    lab.run(&file(FIXED), &Fake::measuring());
    let again = Fake::measuring();
    let ended = lab.run(&file("min = 8\nmax = 8"), &again);
    assert!(again.began().iter().all(|(_, n)| *n > 6));
    assert_eq!((ended.found, ended.ran), (18, 6));
    assert!(ended.points.iter().all(|p| p.runs.len() == 8));
}

#[test]
fn claims_and_margins_may_change_but_not_a_response_or_the_build() {
    let mut lab = Lab::new();
    let text = file(FIXED);
    lab.run(&text, &Fake::measuring());
    let claim = "[claim.more]\nsays = \"More is more\"\nresponse = \"goodput\"\nexpect = \"increasing\"\nover = \"rate\"\n";
    let same = lab.run(&format!("{text}{claim}"), &Fake::measuring());
    assert_eq!(same.ran, 0);
    let margin = "metric = \"goodput\"\nagreement = { within = \"5 %\" }";
    assert_eq!(lab.run(&text.replace("metric = \"goodput\"", margin), &Fake::measuring()).ran, 0);
    let other = lab.run(
        &text.replace("metric = \"goodput\"", "metric = \"goodput\"\nafter = \"1 s\""),
        &Fake::measuring(),
    );
    assert_eq!(other.found, 0);
    lab.provenance.build = "0.1.0+def5678".to_owned();
    assert_eq!(lab.run(&text, &Fake::measuring()).found, 0);
    // No run was executed for the second file, but all its replications are listed under it in the store.
    let store = lab.store();
    let runs: Vec<_> = store.experiments().unwrap().iter().map(|e| e.runs).collect();
    assert_eq!(runs, [36, 18, 18, 18]);
}

#[test]
fn cancelling_keeps_what_ended_and_running_again_does_the_rest() {
    let lab = Lab::new();
    let first = Fake::measuring();
    let ended = lab.try_run(&file(FIXED), &[&first], &mut CancelAfter(5, &lab.cancel)).unwrap();
    assert!(ended.interrupted);
    let kept = stored(&lab.path()).len();
    assert!((5..18).contains(&kept) && kept as u64 == ended.ran);
    assert!(ended.points.iter().all(|p| p.status == Status::Ok && !p.runs.is_empty() && p.runs.len() < 6));

    lab.cancel.store(false, Ordering::Relaxed);
    let second = Fake::measuring();
    let whole = lab.run(&file(FIXED), &second);
    assert_eq!((whole.found as usize, second.began().len()), (kept, 18 - kept));
    assert_eq!(whole.points, Lab::new().run(&file(FIXED), &Fake::measuring()).points);
}

#[test]
fn cancelling_reaches_runs_that_go_on() {
    let fake = Fake::new(|run| if rate(run) == "3 Mbit/s" { Act::Hang } else { Act::Measure(1.0) });
    let lab = Lab::new();
    let ended = lab.try_run(&file("min = 1\nmax = 1"), &[&fake], &mut CancelAfter(2, &lab.cancel)).unwrap();
    assert!(ended.interrupted);
    let statuses: Vec<_> = ended.points.iter().map(|p| (p.status, p.why.as_deref())).collect();
    let not_run = (Status::Failed, Some("no run has ended"));
    assert_eq!(statuses, [(Status::Ok, None), (Status::Ok, None), not_run]);
    assert_eq!(stored(&lab.path()).len(), 2);
}

#[test]
fn cancelled_before_it_began() {
    let lab = Lab::new();
    lab.cancel.store(true, Ordering::Relaxed);
    let fake = Fake::measuring();
    let ended = lab.run(&file(FIXED), &fake);
    assert!(ended.interrupted && fake.began().is_empty() && ended.points.len() == 3);
}

#[test]
fn failed_and_invalid_runs_are_tried_again() {
    let lab = Lab::new();
    let bad = |run: &_| if rate(run) == "1 Mbit/s" { Act::Fail } else { Act::Invalid };
    lab.run(&file("min = 1\nmax = 1"), &Fake::new(bad));
    let ended = lab.run(&file("min = 1\nmax = 1"), &Fake::measuring());
    assert_eq!((ended.found, ended.ran), (0, 3));
    assert!(ended.points.iter().all(|p| p.status == Status::Ok));
    assert_eq!(stored(&lab.path()).len(), 3);
}

/// An outage of 0 s is not an event, so its start time has no effect on the run.
#[test]
fn points_that_differ_in_nothing_share_their_runs() {
    let text = file("min = 3\nmax = 3")
        .replace("[replications]", "at = [\"2 s\", \"4 s\"]\ndown = [\"0 s\", \"1 s\"]\n[replications]")
        + "[[event]]\nat = \"${at}\"\nlink = \"ab\"\ndo = { down_for = \"${down}\" }\n";
    assert_eq!(experiment(&text).plan().len(), 12);
    let lab = Lab { jobs: 4, ..Lab::new() };
    let fake = Fake::measuring();
    let ended = lab.run(&text, &fake);
    assert_eq!(fake.began().len(), 3 * 3 * 3);
    assert!(ended.points.iter().all(|p| p.status == Status::Ok && p.runs.len() == 3));
    let filed = stored(&lab.path());
    let runs: BTreeSet<_> = filed.iter().map(|r| &r.run.identity).collect();
    assert_eq!((filed.len(), runs.len()), (12 * 3, 27));
}

/// A run gives different values every time, as on a real-time substrate, but both processes report the same stored
/// values.
#[test]
fn two_at_once_on_one_store_agree() {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let lab = Lab::new();
    lab.store();
    let carry = || {
        let takes = |_: &_| std::time::Duration::from_millis(1);
        let fake = Fake::new(|_| Act::Measure(COUNT.fetch_add(1, Ordering::Relaxed) as f64));
        lab.run(&file("min = 20\nmax = 20"), &Fake { takes, ..fake })
    };
    let (one, two) = std::thread::scope(|scope| {
        let other = scope.spawn(carry);
        (carry(), other.join().unwrap())
    });
    assert_eq!(one.points, two.points);
    let filed = stored(&lab.path());
    let runs: BTreeSet<_> = filed.iter().map(|r| r.run.identity.clone()).collect();
    assert_eq!((filed.len(), runs.len()), (60, 60));
}

#[test]
fn a_store_that_fails_ends_it_with_all_that_was_kept() {
    let lab = Lab::new();
    drop(lab.store());
    let rule = "CREATE TRIGGER full BEFORE INSERT ON run WHEN (SELECT count(*) FROM run) >= 5
                BEGIN SELECT RAISE(ABORT, 'no more'); END";
    rusqlite::Connection::open(lab.path()).unwrap().execute_batch(rule).unwrap();
    // Runs in progress are cancelled when the store fails. Otherwise this test would not end.
    let fake = Fake::new(|run| if run.replication > 2 { Act::Hang } else { Act::Measure(1.0) });
    let error = lab.try_run(&file(FIXED), &[&fake], &mut ()).unwrap_err();
    assert!(matches!(error, RunnerError::Store(_)), "{error:?}");
    assert!(error.to_string().contains("no more"), "{error}");
    assert_eq!(stored(&lab.path()).len(), 5);
}

#[test]
fn traces_are_kept_if_they_are_asked_for() {
    for traced in [false, true] {
        let lab = Lab { traced, ..Lab::new() };
        lab.run(&file("min = 1\nmax = 1"), &Fake::measuring());
        let replication = &stored(&lab.path())[0];
        let store = lab.store();
        let (series, notes) = (
            store.series(&replication.run.identity).unwrap(),
            store.notes(&replication.run.identity).unwrap(),
        );
        assert_eq!((series.len(), notes.len()), if traced { (1, 1) } else { (0, 0) });
        if let ([series], [note]) = (&*series, &*notes) {
            assert_eq!((series.subject.as_str(), series.quantity.as_str()), ("flow/file", "received_bytes"));
            assert_eq!((note.subject.as_str(), note.text.as_str()), ("flow/file", "done"));
        }
    }
}

/// A figure over time shows measured runs, because runs on a real-time substrate cannot be repeated.
#[test]
fn what_figures_draw_of_runs_that_do_not_repeat_is_kept() {
    let figure = "[figure.course]\nx = 'time'\nof = 'flow.file'\ny = 'received_bytes'\nwhere = { rate = '1 Mbit/s' }\n";
    let text = format!("{}{figure}", file("count = 2"));
    for repeats in [true, false] {
        let lab = Lab::new();
        lab.run(&text, &Fake { repeats, ..Fake::measuring() });
        let store = lab.store();
        for replication in stored(&lab.path()) {
            let series = store.series(&replication.run.identity).unwrap();
            let kept: Vec<_> = series.iter().map(|s| (s.subject.as_str(), s.quantity.as_str())).collect();
            let is_shown = replication.point.level("rate").unwrap().to_string() == "1 Mbit/s";
            let drawn: &[_] = if is_shown && !repeats { &[("flow/file", "received_bytes")] } else { &[] };
            assert_eq!(kept, drawn, "{:?}", replication.point);
            assert!(store.notes(&replication.run.identity).unwrap().is_empty());
        }
    }
}

/// The numbers of runs that progress events report are consistent at every event.
#[test]
fn progress_adds_up() {
    #[derive(Default)]
    struct Watch {
        events: Vec<String>,
        tallies: Vec<RunTally>,
    }
    impl ProgressListener for Watch {
        fn event(&mut self, event: &RunEvent<'_>, tally: &RunTally) {
            self.events.push(match event {
                RunEvent::Began { substrate } => format!("began {substrate}"),
                RunEvent::Started { point, replication } => format!("started {point}, {replication}"),
                RunEvent::Ended { point, replication, .. } => format!("ended {point}, {replication}"),
                RunEvent::Tick => return,
            });
            self.tallies.push(*tally);
        }
    }
    let lab = Lab::new();
    lab.run(&file("min = 2\nmax = 2"), &Fake::measuring());
    let mut watch = Watch::default();
    lab.try_run(&file(FIXED), &[&Fake::measuring()], &mut watch).unwrap();
    assert_eq!(watch.events[0], "began fake");
    assert_eq!(watch.events.iter().filter(|e| e.starts_with("ended")).count(), 12);
    assert!(watch.events.contains(&"started rate = 1 Mbit/s, 3".to_owned()));
    assert!(watch.tallies.iter().all(|t| t.total() == 18 && t.found == 6), "{:?}", watch.tallies);
    let last = watch.tallies.last().unwrap();
    assert_eq!((last.ran, last.running, last.waiting), (12, 0, 0));
    assert_eq!(last.left, Some(std::time::Duration::ZERO));
}

/// `compare` also uses runs of other builds, but does not mix them with the runs of this build.
#[test]
fn what_is_recorded_can_be_read_without_knowing_who_made_it() {
    let mut lab = Lab::new();
    let text = file("min = 3\nmax = 3");
    let design = experiment(&text).design;
    let recorded = |lab: &Lab, version: usize, build: Option<&str>| {
        let id = lab.store().experiments().unwrap()[version].id;
        netrig_runner::recorded(&lab.store(), &design, id, build, |_| true).unwrap()
    };
    let fails = |run: &_| if rate(run) == "2 Mbit/s" { Act::Fail } else { Act::Measure(1.0) };
    let ended = lab.run(&text, &Fake::new(fails));
    assert_eq!(recorded(&lab, 0, None).points, ended.points);

    let ours = std::mem::replace(&mut lab.provenance.build, "0.0.9+earlier-by-name".to_owned());
    let again = lab.run(&text, &Fake::measuring());
    let changed = lab.run(&file("min = 2\nmax = 2"), &Fake::measuring());
    let theirs = lab.provenance.build.clone();
    assert_eq!(recorded(&lab, 1, None).points, changed.points);
    assert_eq!(recorded(&lab, 0, Some(&theirs)).points, again.points);
    assert_eq!(recorded(&lab, 0, Some(&ours)).points, ended.points);
    assert_eq!(recorded(&lab, 1, Some(&ours)), netrig_runner::StoredResults::default());
    let sources = recorded(&lab, 0, Some(&theirs)).sources;
    let store = lab.store();
    let made = Provenances::of(&store, sources.values()).unwrap();
    let origin = made.origin("", &Point::default(), sources.values());
    assert_eq!(origin.fact("build"), Some(&OriginFact::Text(theirs)));
}
