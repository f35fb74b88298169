//! Interactive control of a load in progress.

use netrig_sip_net::load::{Control, SoFar, Steering};

use super::*;

/// A load that runs at the planned rate for one second, pauses for one second, and then runs at twice the rate. It ends
/// after two seconds without the pause, or manually if `ends` is true.
fn steered(ends: bool) -> LoadReport {
    let server = answering(Answer::Accept(Duration::ZERO));
    let order = order(address(&server), Work::Call(Scenario::Call { hold: Duration::ZERO }), 100_000);
    let order = with(order, |plan| {
        plan.pace = Pace::Open(Arrivals::at(100.0, Gaps::Constant));
        plan.duration = Duration::from_secs(if ends { 60 } else { 2 });
    });
    let (stop, control) = (AtomicBool::new(false), Control::default());
    let second = |row: &SecondRow, _: SoFar<'_>| match row.second {
        0 => control.speed(0.0),
        1 => control.speed(2.0),
        2 if ends => control.enough(),
        _ => {}
    };
    run(&order, Steering { control: Some(&control), ..Steering::from(&stop) }, |_| {}, second).unwrap()
}

#[test]
fn a_pause_makes_a_load_longer_and_nothing_late() {
    let report = steered(false);
    let told = &report.interventions;
    let whats: Vec<_> = told.iter().map(|one| (one.what, one.factor)).collect();
    assert_eq!(whats, [("pause", 0.0), ("rate", 2.0)]);
    let (paused, went_on) = (told[0].at, told[1].at);
    // The rate is 100/s until the pause, and 200/s for the rest of the two seconds.
    let planned = 100.0 * paused + 200.0 * (2.0 - paused);
    let calls = report.outcome(What::Call).unwrap();
    assert!(
        (calls.counts.begun as f64 - planned).abs() <= 1.0,
        "{} of {planned}: {told:?}",
        calls.counts.begun
    );
    assert_eq!((calls.counts.succeeded, calls.open), (calls.counts.begun, 0), "{:?}", report.failures);
    // The pause itself does not count as lateness.
    let late = report.tester.lateness.as_ref().unwrap().max_us / 1e6;
    assert!(late < went_on - paused, "{late} s");
    assert!((report.measured - 2.0).abs() < 1.0, "{} s without the pause", report.measured);
    let intended: f64 = report.seconds.iter().filter_map(|second| second.intended).sum();
    assert!((intended - planned).abs() < 1e-6, "{intended} of {planned}");
}

#[test]
fn who_has_enough_lets_begin_no_more_and_waits_for_what_is_open() {
    let report = steered(true);
    let told = &report.interventions;
    assert_eq!((told.last().unwrap().what, report.interrupted), ("end", false));
    let [pause, on, end] = [told[0].at, told[1].at, told[2].at];
    let planned = 100.0 * pause + 200.0 * (end - on);
    let calls = report.outcome(What::Call).unwrap();
    assert!(
        (calls.counts.begun as f64 - planned).abs() <= 1.0,
        "{} of {planned}: {told:?}",
        calls.counts.begun
    );
    assert_eq!((calls.counts.succeeded, calls.open), (calls.counts.begun, 0), "{:?}", report.failures);
}
