//! The search for a baseline, with testers of known limits.

use netrig_sip_tester::capacity::{Baseline, BaselineSearch, CallCounts, StepObservation, TesterSeen};

const SPAN_S: f64 = BaselineSearch::SPAN_S;

/// The observation of a sustained rate.
fn carried(rate: f64) -> StepObservation {
    let begun = (rate * SPAN_S).round() as u64;
    let counts = CallCounts { begun, succeeded: begun, ..CallCounts::default() };
    StepObservation { span_s: SPAN_S, counts, ..StepObservation::default() }
}

/// The observation of a sustained rate, with counts that `change` has changed.
fn with(rate: f64, change: impl FnOnce(&mut CallCounts)) -> StepObservation {
    let mut seen = carried(rate);
    change(&mut seen.counts);
    seen
}

/// The baseline of a tester, and all rates that were offered.
fn found(
    start: f64,
    bounds: (f64, f64),
    mut tester: impl FnMut(f64, usize) -> StepObservation,
) -> (Baseline, Vec<f64>) {
    let mut search = BaselineSearch::new(start, bounds);
    let mut offered = Vec::new();
    while let Some(rate) = search.next() {
        assert_eq!(search.next(), Some(rate), "it stays the same until an observation");
        offered.push(rate);
        assert!(offered.len() < 100, "the search ends: {offered:?}");
        search.observe(&tester(rate, offered.len()));
    }
    // Further observations have no effect.
    let end = search.found();
    search.observe(&carried(1.0));
    assert_eq!(search.found(), end);
    (end, offered)
}

/// The observations of a tester with this limit, 1/s.
fn up_to(limit: f64) -> impl FnMut(f64, usize) -> StepObservation {
    move |rate, _| if rate <= limit { carried(rate) } else { with(rate, |counts| counts.failed = 7) }
}

#[test]
fn what_a_tester_carries_is_found_to_a_fifth() {
    for limit in [1.0, 7.0, 130.0, 2499.0, 2500.0, 6100.0, 9000.0, 333_333.0] {
        let (found, offered) = found(100.0, (1.0, 1e6), up_to(limit));
        let (carried, not) = (found.carried.unwrap(), found.not_carried.unwrap());
        assert!(carried <= limit && limit < not, "{limit}: {found:?}");
        // Two bisections reduce a factor of two to its fourth root. Rounding to a call per second adds a little.
        assert!(not <= carried * 1.1893 + 1.5, "{limit}: {found:?}");
        assert!(offered.iter().all(|rate| (1.0..=1e6).contains(rate)), "{offered:?}");
        assert!(found.why.unwrap().contains("7 of "));
    }
}

#[test]
fn no_rate_is_offered_that_the_search_may_not_offer() {
    let (all, offered) = found(100.0, (1.0, 4000.0), up_to(f64::INFINITY));
    assert_eq!((all.carried, all.not_carried, &*offered), (Some(4000.0), None, &[2500.0, 4000.0][..]));
    assert!(all.refuses(4000.0).is_none());
    assert!(all.sentence("calls").ends_with("the highest allowed rate"));
    let (low, offered) = found(100.0, (1.0, 200.0), up_to(f64::INFINITY));
    assert_eq!((low.carried, &*offered), (Some(200.0), &[200.0][..]));
    let (none, offered) = found(100.0, (50.0, 1e6), up_to(20.0));
    assert_eq!((none.carried, none.not_carried), (None, Some(50.0)));
    assert_eq!(offered.last(), Some(&50.0));
    assert!(none.refuses(50.0).is_some());
    // A search that starts high does not offer lower rates.
    assert_eq!(found(40_000.0, (1.0, 1e6), up_to(50_000.0)).1[0], 40_000.0);
}

#[test]
fn who_is_disturbed_once_is_asked_again() {
    let disturbed =
        |rate, nth| if nth == 2 { with(rate, |counts| counts.again = 1000) } else { carried(rate) };
    let (all, offered) = found(100.0, (1.0, 10_000.0), disturbed);
    assert_eq!((all.carried, all.not_carried), (Some(10_000.0), None));
    assert_eq!(offered, [2500.0, 5000.0, 5000.0, 10_000.0]);
    // At each rate, the tester is disturbed in the first observation, but not in the second.
    let (all, _) = found(100.0, (1.0, 10_000.0), |rate, nth| {
        if nth % 2 == 1 { with(rate, |counts| counts.failed = 1) } else { carried(rate) }
    });
    assert_eq!(all.carried, Some(10_000.0));
}

/// Why a tester did not sustain its only rate.
fn why(rate: f64, seen: &StepObservation) -> Option<String> {
    found(rate, (rate, rate), |_, _| seen.clone()).0.why
}

#[test]
fn what_is_left_to_chance_is_no_fault() {
    // 20,000 calls are intended in 2 s. Four standard deviations of a Poisson process are 566, more than 2 %.
    assert_eq!(why(10_000.0, &with(10_000.0, |counts| counts.begun = 19_440)), None);
    let few = why(10_000.0, &with(10_000.0, |counts| counts.begun = 19_400));
    assert_eq!(few.as_deref(), Some("19400 of about 20000 were started"));
    // For 200,000 calls, 2 % is the larger tolerance.
    assert_eq!(why(1e5, &with(1e5, |counts| counts.begun = 196_000)), None);
    assert!(why(1e5, &with(1e5, |counts| counts.begun = 195_999)).is_some());
    // One request in a thousand may be retransmitted, and no call may fail.
    assert_eq!(why(10_000.0, &with(10_000.0, |counts| counts.again = 20)), None);
    let again = why(10_000.0, &with(10_000.0, |counts| counts.again = 21));
    assert_eq!(again.as_deref(), Some("0 of 20000 failed, 21 requests were retransmitted"));
    let failed = why(10_000.0, &with(10_000.0, |counts| counts.failed = 1));
    assert_eq!(failed.as_deref(), Some("1 of 20000 failed, 0 requests were retransmitted"));
    // If the counts are all zero, the rate was not sustained.
    let none = StepObservation { span_s: SPAN_S, ..StepObservation::default() };
    assert_eq!(why(10_000.0, &none).as_deref(), Some("0 of about 20000 were started"));
}

#[test]
fn what_the_tester_says_of_itself_comes_first() {
    let tester = TesterSeen { faults: vec!["late".into(), "full".into()], ..TesterSeen::default() };
    assert_eq!(why(5000.0, &StepObservation { tester, ..carried(5000.0) }).as_deref(), Some("late"));
    let unprepared = Some("its users were not registered".to_owned());
    let seen = StepObservation { unprepared, ..StepObservation::default() };
    assert_eq!(why(5000.0, &seen).as_deref(), Some("its users were not registered"));
}

#[test]
fn a_rate_above_what_the_tester_carries_is_not_the_servers_to_fail() {
    let baseline = Baseline { carried: Some(5000.0), not_carried: Some(6000.0), why: Some("late".into()) };
    assert!(baseline.refuses(5000.0).is_none());
    let seen = baseline.refuses(5001.0).unwrap();
    assert_eq!(seen.tester.faults, ["the tester alone sustained 5000/s, but not 6000/s: late"]);
    assert!(Baseline { carried: None, ..baseline.clone() }.refuses(1.0).is_some());
    assert!(Baseline { not_carried: None, ..baseline }.refuses(1e6).is_none());
}
