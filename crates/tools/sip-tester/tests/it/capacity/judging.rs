//! The decision of a step: the effect of open calls, of thresholds, and of faults of the tester.

use netrig_sip::index::DelayStatistic;
use netrig_sip_tester::capacity::{
    CallCounts, CapacitySearch, CapacityVerdict, DelaySeen, DriverOrder, LoadStep, MachineStalls,
    SearchSettings, ServerReading, StepObservation, StepOutcome, StepProgress, StepReason, TesterSeen,
    Threshold,
};

use super::{settings, with};

/// A search whose next step is at 1000 per second, takes at least 5 s before a decision and at most 14.95 s.
fn at_1000() -> (CapacitySearch, LoadStep) {
    let mut all = settings();
    all.start = 1000.0;
    let search = CapacitySearch::new(all).unwrap();
    let DriverOrder::Step(step) = search.next() else { panic!() };
    assert_eq!((step.least_s, step.linger_s, step.calls), (5.0, 33.0, None));
    assert!((step.at_most_s - 14.95).abs() < 0.01, "{}", step.at_most_s);
    (search, step)
}

fn seen(span_s: f64, begun: u64, succeeded: u64, failed: u64, overdue: u64) -> StepObservation {
    let counts = CallCounts { begun, succeeded, failed, overdue, ..CallCounts::default() };
    StepObservation { span_s, counts, ..StepObservation::default() }
}

fn enough(progress: StepProgress) -> Option<(StepOutcome, StepReason, f64)> {
    match progress {
        StepProgress::Continue => None,
        StepProgress::Enough { decision, linger_s } => Some((decision.outcome, decision.reason, linger_s)),
    }
}

#[test]
fn about_three_thousand_clean_calls_decide_99_9_per_cent() {
    let mut search = CapacitySearch::new(with(settings(), |sequential| sequential.least_s = 0.0)).unwrap();
    assert_eq!(enough(search.observe(&seen(33.15, 3315, 3315, 0, 0))), None);
    let (outcome, reason, linger_s) = enough(search.observe(&seen(33.16, 3316, 3316, 0, 0))).unwrap();
    assert_eq!((outcome, reason, linger_s), (StepOutcome::Passed, StepReason::Shown, 2.5));
}

#[test]
fn young_calls_are_left_out_and_overdue_ones_count_as_failed() {
    // 100 of 5,000 calls are open. Young calls have no effect.
    let (mut search, _) = at_1000();
    assert_eq!(enough(search.observe(&seen(5.0, 5000, 4900, 0, 0))).unwrap().0, StepOutcome::Passed);
    // Overdue calls may all be lost, so there is no pass. They may all succeed, so there is no failure.
    let (mut search, _) = at_1000();
    assert_eq!(enough(search.observe(&seen(5.0, 5000, 4900, 0, 100))), None);
    // One overdue call needs 2,557 more successes for a pass.
    let (mut search, _) = at_1000();
    assert_eq!(enough(search.observe(&seen(5.0, 5000, 4999, 0, 1))), None);
    assert_eq!(enough(search.observe(&seen(5.9, 5900, 5899, 0, 1))).unwrap().0, StepOutcome::Passed);
}

#[test]
fn what_has_to_be_sent_again_is_not_carried() {
    let again = |again, of: u64| {
        let (mut search, _) = at_1000();
        let mut seen = seen(of as f64 / 1000.0, of, of, 0, 0);
        seen.counts.again = again;
        enough(search.observe(&seen)).map(|(outcome, reason, _)| (outcome, reason))
    };
    assert_eq!(again(5, 5000), Some((StepOutcome::Passed, StepReason::Shown)), "one in a thousand");
    assert_eq!(again(6, 5000), Some((StepOutcome::Failed, StepReason::Again { requests: 6 })));
    // Before the shortest duration, all later calls could still succeed without retransmissions.
    assert_eq!(again(5, 1000), None);
    assert_eq!(again(6, 1000), Some((StepOutcome::Failed, StepReason::Again { requests: 6 })));
    // Retransmissions at the end of a step are also counted.
    let (mut search, _) = at_1000();
    let mut late = seen(5.0, 5000, 5000, 0, 0);
    assert_eq!(enough(search.observe(&late)).unwrap().0, StepOutcome::Passed);
    late.counts.again = 100;
    assert_eq!(search.end(&late).unwrap().decision.reason, StepReason::Again { requests: 100 });
}

#[test]
fn a_server_that_cannot_be_made_ready_has_failed() {
    let (mut search, _) = at_1000();
    let unprepared = StepObservation { unprepared: Some("busy".to_owned()), ..StepObservation::default() };
    let record = search.end(&unprepared).unwrap();
    assert_eq!(record.decision.outcome, StepOutcome::Failed);
    assert_eq!(record.decision.reason, StepReason::Unprepared("busy".to_owned()));
}

#[test]
fn a_pass_is_withdrawn_if_the_young_calls_fail() {
    let after = |succeeded, failed, open: u64| {
        let (mut search, _) = at_1000();
        assert_eq!(enough(search.observe(&seen(5.0, 5000, 4900, 0, 0))).unwrap().0, StepOutcome::Passed);
        let end = seen(5.0, succeeded + failed + open, succeeded, failed, open);
        search.end(&end).unwrap().decision.clone()
    };
    assert_eq!(after(5000, 0, 0).reason, StepReason::Shown);
    // One more failure does not contradict 4,900 successes; a hundred failed or open calls do.
    assert_eq!(after(4999, 1, 0).reason, StepReason::Shown);
    assert_eq!(after(4900, 100, 0).reason, StepReason::Failures);
    assert_eq!(after(4900, 0, 100).reason, StepReason::Failures);
}

#[test]
fn known_failures_fail_a_step_before_its_shortest_span() {
    // Four failures are too many even if all other calls of the 5 s succeed: 4 ln 10 - 4996 × 0.0009 is above ln 95.
    let (mut search, _) = at_1000();
    assert_eq!(enough(search.observe(&seen(1.0, 1000, 997, 3, 0))), None);
    let (outcome, reason, linger_s) = enough(search.observe(&seen(1.5, 1500, 1496, 4, 0))).unwrap();
    assert_eq!((outcome, reason, linger_s), (StepOutcome::Failed, StepReason::Failures, 8.0));
}

#[test]
fn what_is_open_for_too_long_at_once_fails_a_step_before_its_timers() {
    let (mut search, _) = at_1000();
    // The limit of overdue calls is 250: 5 % of the 5,000 calls that start in the shortest duration.
    assert_eq!(enough(search.observe(&seen(3.0, 3000, 2000, 0, 250))), None);
    let overdue = enough(search.observe(&seen(3.5, 3500, 2000, 0, 251))).unwrap();
    assert_eq!(overdue.1, StepReason::Overdue { calls: 251 });
    // The step remains failed if the calls succeed later, because their users have given up.
    let decision = &search.end(&seen(3.5, 3500, 3500, 0, 0)).unwrap().decision;
    assert_eq!(decision.outcome, StepOutcome::Failed);
}

#[test]
fn a_threshold_is_held_against_the_statistic_that_it_names() {
    let delay = DelaySeen { delay: "connection".to_owned(), n: 5000, mean_s: 0.9, p95_s: 1.4, max_s: 7.0 };
    let decide = |statistic, most_s| {
        let threshold = Threshold { delay: "connection".to_owned(), statistic, most_s };
        let mut search =
            CapacitySearch::new(SearchSettings { thresholds: vec![threshold], start: 1000.0, ..settings() })
                .unwrap();
        let seen = StepObservation { delays: vec![delay.clone()], ..seen(5.0, 5000, 5000, 0, 0) };
        enough(search.observe(&seen)).unwrap();
        search.end(&seen).unwrap().clone()
    };
    assert_eq!(decide(DelayStatistic::Mean, 1.0).decision.outcome, StepOutcome::Passed);
    assert_eq!(decide(DelayStatistic::P95, 1.5).decision.outcome, StepOutcome::Passed);
    let record = decide(DelayStatistic::P95, 1.0);
    assert_eq!(record.decision.to_string(), "failed: connection: p95 1.4 s, at most 1 s");
    assert_eq!((record.thresholds[0].was_s, record.thresholds[0].kept), (Some(1.4), false));
    assert_eq!(decide(DelayStatistic::Max, 1.5).decision.outcome, StepOutcome::Failed);
    // NaN is not within any threshold.
    let nan = DelaySeen { mean_s: f64::NAN, ..delay.clone() };
    let (mut search, _) = at_1000();
    let seen = StepObservation { delays: vec![nan], ..seen(5.0, 5000, 5000, 0, 0) };
    assert_eq!(enough(search.observe(&seen)).unwrap().0, StepOutcome::Failed);
}

#[test]
fn the_longest_span_decides_by_the_share_and_says_so() {
    let (mut search, _) = at_1000();
    // A share of failures between 0.01 % and 0.1 % neither passes nor fails.
    assert_eq!(enough(search.observe(&seen(14.9, 14_900, 14_894, 6, 0))), None);
    let record = search.end(&seen(14.9, 14_900, 14_894, 6, 0)).unwrap();
    assert_eq!(record.decision.reason, StepReason::FailuresByShare);
    let stand = record.test.unwrap();
    assert!(stand.log_ratio > 0.0 && stand.log_ratio < stand.reject, "{stand:?}");
    let (mut search, _) = at_1000();
    let record = search.end(&seen(14.9, 14_900, 14_895, 5, 0)).unwrap();
    assert_eq!(record.decision.reason, StepReason::ByShare);
    assert_eq!(search.journal().by_share(), 1);
}

#[test]
fn what_is_cut_short_says_nothing() {
    let (mut search, _) = at_1000();
    assert_eq!(enough(search.observe(&seen(2.0, 2000, 2000, 0, 0))), None);
    assert_eq!(search.end(&seen(2.0, 2000, 2000, 0, 0)).unwrap().decision.reason, StepReason::CutShort);
    let DriverOrder::Drain(_) = search.next() else { panic!() };
    search.drained();
    let DriverOrder::Step(step) = search.next() else { panic!() };
    assert!(step.again);
    assert_eq!(search.end(&StepObservation::default()).unwrap().decision.outcome, StepOutcome::Invalid);
}

#[test]
fn a_fault_of_the_tester_beats_every_failure() {
    let (mut search, _) = at_1000();
    let tester = TesterSeen { faults: vec!["no room".to_owned()], ..TesterSeen::default() };
    let bad = StepObservation { tester, ..seen(3.0, 3000, 0, 3000, 0) };
    assert_eq!(enough(search.observe(&bad)).unwrap().0, StepOutcome::Invalid);
    assert_eq!(search.end(&bad).unwrap().decision.outcome, StepOutcome::Invalid);
    // A fault does not matter if the step passes: the server sustained the load.
    let (mut search, _) = at_1000();
    let tester = TesterSeen { faults: vec!["late".to_owned()], ..TesterSeen::default() };
    let good = StepObservation { tester, ..seen(5.0, 5000, 5000, 0, 0) };
    assert_eq!(enough(search.observe(&good)).unwrap().0, StepOutcome::Passed);
    assert_eq!(search.end(&good).unwrap().decision.reason, StepReason::Shown);
    // A fault counts even if it appears at the end of a failed step.
    let (mut search, _) = at_1000();
    assert_eq!(enough(search.observe(&seen(3.0, 3000, 0, 3000, 0))).unwrap().0, StepOutcome::Failed);
    assert_eq!(search.end(&bad).unwrap().decision.outcome, StepOutcome::Invalid);
}

#[test]
fn counts_that_cannot_be_are_no_panic() {
    let (mut search, _) = at_1000();
    for strange in
        [seen(5.0, 0, 7, 9, 3), seen(f64::NAN, 1, 2, 3, 4), seen(-1.0, u64::MAX / 2, 0, 0, u64::MAX / 4)]
    {
        search.observe(&strange);
    }
    search.end(&seen(5.0, 0, 7, 9, 3));
}

/// A stall comes after five seconds with 5000 calls, too few for a decision during the step. The step then ends
/// immediately, because the stall may cause later failures. The five seconds before the stall decide the step.
#[test]
fn what_came_before_a_stall_decides_if_it_was_long_enough() {
    let stalls = MachineStalls { count: 1, longest_s: 0.3, total_s: 0.3, steal: 0.0 };
    let (mut search, _) = at_1000();
    assert_eq!(enough(search.observe(&seen(5.0, 5000, 4979, 0, 1))), None);
    let stalled = StepObservation { stalls, ..seen(6.0, 6000, 5000, 0, 1) };
    assert_eq!(enough(search.observe(&stalled)).unwrap().0, StepOutcome::Passed);
    let record = search.end(&StepObservation { stalls, ..seen(6.0, 6000, 5000, 1000, 0) }).unwrap();
    assert_eq!((record.decision.outcome, record.counts.begun), (StepOutcome::Passed, 4980), "{record:?}");
    assert_eq!(record.stalls.count, 1, "the record contains the stall");
    // Four seconds are shorter than the shortest step.
    let (mut search, _) = at_1000();
    assert_eq!(enough(search.observe(&seen(4.0, 4000, 3979, 0, 1))), None);
    assert_eq!(enough(search.observe(&StepObservation { stalls, ..seen(5.0, 5000, 4500, 0, 1) })), None);
    let record = search.end(&StepObservation { stalls, ..seen(6.0, 6000, 5000, 1000, 0) }).unwrap();
    assert!(matches!(record.decision.reason, StepReason::Stalled { .. }), "{record:?}");
}

#[test]
fn a_step_that_a_stall_of_the_machine_spoilt_is_not_judged() {
    let stalls = MachineStalls { count: 2, longest_s: 0.3, total_s: 0.5, steal: 0.0 };
    let (mut search, _) = at_1000();
    let bad = StepObservation { stalls, ..seen(3.0, 3000, 2000, 1000, 0) };
    let decision = &search.end(&bad).unwrap().decision;
    assert_eq!(decision.to_string(), "invalid: the machine stalled 2 times, for up to 300 ms");
    // A stall of 60 ms delays the 600 calls that arrive until a busy server has caught up. It does not explain a
    // thousand failures.
    let (mut search, _) = at_1000();
    let short = MachineStalls { count: 1, longest_s: 0.06, total_s: 0.06, steal: 0.0 };
    let bad = StepObservation { stalls: short, ..seen(3.0, 3000, 2000, 1000, 0) };
    assert_eq!(search.end(&bad).unwrap().decision.reason, StepReason::Failures);
    // If a stall prevents calls from starting, the rate was not offered.
    let (mut search, _) = at_1000();
    let missing = StepObservation { stalls, ..seen(5.0, 4000, 4000, 0, 0) };
    assert_eq!(enough(search.observe(&missing)).unwrap().0, StepOutcome::Passed);
    assert_eq!(search.end(&missing).unwrap().decision.outcome, StepOutcome::Invalid);
    // A step that passes despite a stall is valid, even if the tester was late.
    let (mut search, _) = at_1000();
    let tester = TesterSeen { faults: vec!["late".to_owned()], ..TesterSeen::default() };
    let good = StepObservation { stalls, tester, ..seen(5.0, 5000, 5000, 0, 0) };
    assert_eq!(enough(search.observe(&good)).unwrap().0, StepOutcome::Passed);
    assert_eq!(search.end(&good).unwrap().decision.reason, StepReason::Shown);
}

#[test]
fn a_server_that_does_not_answer_ends_the_search_at_its_first_step() {
    let nothing = |failed, overdue, why: Option<&str>| StepObservation {
        received: Some(0),
        failed_mostly: why.map(str::to_owned),
        ..seen(3.5, 3500, 0, failed, overdue)
    };
    for (unanswered, words) in [
        (nothing(3500, 0, Some("ICMP")), "no answer: none of 3500 calls had a response (ICMP)"),
        (nothing(0, 1000, None), "(no response, and no error from the network)"),
    ] {
        let (mut search, _) = at_1000();
        assert_eq!(
            enough(search.observe(&unanswered)).unwrap().2,
            0.0,
            "there is no wait for the open calls"
        );
        search.end(&unanswered);
        let DriverOrder::Finished(verdict) = search.next() else { panic!() };
        assert!(matches!(verdict, CapacityVerdict::Unanswered { calls: 3500, .. }), "{verdict:?}");
        assert!(verdict.sentence("calls").contains(words), "{}", verdict.sentence("calls"));
    }
    // Users could not be registered because the server did not answer.
    let (mut search, _) = at_1000();
    let unprepared = Some("user u: time-out".to_owned());
    search.end(&StepObservation { unprepared, received: Some(0), ..StepObservation::default() });
    let DriverOrder::Finished(verdict) = search.next() else { panic!() };
    assert_eq!(verdict.sentence("calls"), "no answer: user u: time-out");
    // Stalls that are shorter than the step, and a late tester, do not explain the silence.
    let (mut search, _) = at_1000();
    let stalls = MachineStalls { count: 1, longest_s: 0.3, total_s: 0.3, steal: 0.0 };
    let tester = TesterSeen { faults: vec!["late".to_owned()], ..TesterSeen::default() };
    search.end(&StepObservation { stalls, tester, ..nothing(0, 1000, None) });
    assert!(matches!(search.next(), DriverOrder::Finished(CapacityVerdict::Unanswered { .. })));
    // A server at work answers later.
    let (mut search, _) = at_1000();
    let server = Some(ServerReading { span_s: 3.5, busiest_s: 1.2, ..ServerReading::default() });
    search.end(&StepObservation { server, ..nothing(0, 1000, None) });
    assert!(!matches!(search.next(), DriverOrder::Finished(_)));
    // Refusals are answers.
    let (mut search, _) = at_1000();
    search.end(&StepObservation { received: Some(3500), ..nothing(3500, 0, None) });
    assert!(!matches!(search.next(), DriverOrder::Finished(_)));
}
