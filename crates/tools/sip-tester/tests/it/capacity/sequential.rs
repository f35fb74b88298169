//! The estimate from all steps, for servers of known capacity.

use netrig_core::Seeds;
use netrig_sip_tester::capacity::{
    CallCounts, CapacitySearch, CapacityVerdict, DriverOrder, LoadStep, SearchEntry, SearchSettings,
    StepDecision, StepObservation, StepOutcome, StepPurpose, StepReason,
};

use super::server::Server;
use super::{capacity, holds, settings, with};

#[test]
fn a_known_capacity_lies_in_a_narrow_interval() {
    for known in [101.0, 137.0, 460.0, 1000.0, 5_555.0, 26_000.0] {
        let mut search = CapacitySearch::new(settings()).unwrap();
        let verdict = Server::of(known).drive(&mut search);
        holds(&verdict, known);
        let capacity = capacity(&verdict);
        assert!(
            capacity.most.unwrap().value <= capacity.half.unwrap().value && capacity.held.is_some(),
            "{capacity:?}"
        );
        // The held rate is close to the capacity and not above it.
        let held = capacity.held.unwrap();
        assert!(held.rate <= known * 1.001 && held.rate >= known / 1.3, "{known}: {held:?}");
    }
}

/// One of 20 steps fails by chance. The intervals of at least 92 of 100 servers contain the capacity, and each search ends in time.
#[test]
fn unlucky_steps_neither_halve_the_answer_nor_are_told() {
    let (mut held, mut narrow) = (0, 0);
    for seed in 0..100 {
        let known = 200.0 * (1.0 + seed as f64 / 13.0);
        let server = Server { mischance: 0.05, is_poisson: true, answers_again_s: 2.0, ..Server::of(known) };
        let mut server = server.seeded(seed);
        let mut search = CapacitySearch::new(SearchSettings::sequential("calls", 100.0, Vec::new())).unwrap();
        let verdict = server.drive(&mut search);
        assert!(server.state.now_s < 180.0, "{} s", server.state.now_s);
        let found = capacity(&verdict);
        held += u32::from(found.low <= known && known <= found.high);
        narrow += u32::from(found.high <= 1.3 * found.low);
    }
    assert!(held >= 92 && narrow >= 92, "{held} hold the capacity, {narrow} are narrow");
}

/// One step contradicts all others, at each position in the search.
#[test]
fn one_unlucky_step_moves_the_answer_by_little() {
    let searched = |unlucky: usize| {
        let mut search = CapacitySearch::new(SearchSettings::sequential("calls", 100.0, Vec::new())).unwrap();
        let mut steps = 0;
        loop {
            match search.next() {
                DriverOrder::Step(step) => {
                    let is_probe = step.purpose == StepPurpose::Recovery;
                    let passes = is_probe || (step.rate <= 1000.0) != (steps == unlucky);
                    steps += usize::from(!is_probe);
                    end(&mut search, &step, passes);
                }
                DriverOrder::Drain(_) => search.drained(),
                DriverOrder::Finished(verdict) => break (verdict, steps),
            }
        }
    };
    let (verdict, steps) = searched(usize::MAX);
    holds(&verdict, 1000.0);
    for unlucky in 0..steps {
        let (verdict, _) = searched(unlucky);
        let found = capacity(&verdict);
        let sentence = verdict.sentence("calls");
        assert!((700.0..1300.0).contains(&found.rate), "step {unlucky}: {} in {sentence}", found.rate);
        assert!(found.low <= 1000.0 && 1000.0 <= found.high, "step {unlucky}: {sentence}");
    }
}

/// Ends a step. A pass has the number of calls that the test needs; a failure comes after 3 s.
fn end(search: &mut CapacitySearch, step: &LoadStep, passed: bool) {
    let span_s = if passed { (3400.0 / step.rate).clamp(step.least_s, step.at_most_s) } else { 3.0 };
    let begun = (step.rate * span_s).ceil() as u64;
    let failed = if passed { 0 } else { begun / 2 };
    let counts = CallCounts { begun, failed, succeeded: begun - failed, ..CallCounts::default() };
    search.end(&StepObservation { span_s, counts, took_s: span_s + 1.0, ..StepObservation::default() });
}

/// The steps of these servers pass with the probability of a known curve. Slopes and shares of random failures are drawn from the
/// estimate's prior, capacities over a range of 1 to 40.
#[test]
fn the_interval_holds_the_rates_of_known_curves_as_often_as_it_says() {
    let (mut half, mut most, mut lucky, mut narrow, mut longest_s) = (0, 0, 0, 0, 0.0_f64);
    let mut random = Seeds::new(3).stream("test/capacity/curves");
    let all = 200;
    for _ in 0..all {
        let middle = 150.0 * 40_f64.powf(random.uniform());
        let slope = 120.0 * 2.2_f64.powf(random.normal(0.0, 1.0).clamp(-2.5, 2.5));
        let lapse = [0.01, 0.01, 0.01, 0.01, 0.01, 0.05, 0.05, 0.05, 0.15, 0.15][random.below(10) as usize];
        let mut search = CapacitySearch::new(SearchSettings::sequential("calls", 100.0, Vec::new())).unwrap();
        let mut spent_s = 0.0;
        let verdict = loop {
            match search.next() {
                DriverOrder::Step(step) => {
                    let share = 1.0 / (1.0 + (step.rate / middle).powf(slope));
                    let passes =
                        step.purpose == StepPurpose::Recovery || random.chance(0.01 + (0.99 - lapse) * share);
                    end(&mut search, &step, passes);
                    spent_s += search.journal().steps().last().unwrap().took_s;
                }
                DriverOrder::Drain(drain) => {
                    spent_s += drain.span_s;
                    search.drained();
                }
                DriverOrder::Finished(verdict) => break verdict,
            }
        };
        longest_s = longest_s.max(spent_s);
        let CapacityVerdict::Capacity(found) = &verdict else { continue };
        let holds = |rate: f64| u32::from(found.low <= rate && rate <= found.high);
        half += holds(middle);
        most += holds(middle / 19_f64.powf(1.0 / slope));
        let is_lucky = lapse < 0.02;
        lucky += u32::from(is_lucky);
        narrow += u32::from(is_lucky && found.high <= 1.3 * found.low);
    }
    // 95 % of the intervals contain the rate, within three standard deviations.
    assert!(half >= 181 && most >= 181, "half: {half}, 95 %: {most} of {all}");
    assert!(narrow * 10 >= lucky * 9, "{narrow} of {lucky} are narrow");
    assert!(longest_s < 180.0, "{longest_s} s");
}

#[test]
fn a_step_that_a_stall_spoilt_is_offered_again() {
    for seed in 0..20 {
        let mut server = Server { stalls: 0.3, ..Server::of(1000.0) }.seeded(seed);
        let mut search = CapacitySearch::new(settings()).unwrap();
        let verdict = server.drive(&mut search);
        if !matches!(verdict, CapacityVerdict::TesterLimit { .. }) {
            holds(&verdict, 1000.0);
        }
        let journal = search.journal();
        let failed = journal.steps().filter(|step| step.decision.outcome == StepOutcome::Failed);
        assert!(failed.into_iter().all(|step| step.stalls.count == 0), "none was judged");
        let stalled = |step: &&_| matches!(step, StepReason::Stalled { .. });
        assert!(journal.steps().map(|step| &step.decision.reason).any(|reason| stalled(&reason)));
    }
}

/// A server refuses calls at some rates below its limit. If a step is at such a rate, the capacity that is found is
/// below all of them.
#[test]
fn what_passes_above_a_gap_that_was_met_is_no_capacity() {
    // The server fails from 300 to 420 per second, and from 900 on.
    let refuses = |rate: f64| if (300.0..420.0).contains(&rate) || rate >= 900.0 { 0.1 } else { 0.0 };
    let mut server = Server { refuses: Box::new(refuses), ..Server::of(1e6) };
    holds(&server.drive(&mut CapacitySearch::new(settings()).unwrap()), 300.0);
}

#[test]
fn the_time_left_falls_to_nothing_and_ends_the_search() {
    let mut all = settings();
    (all.most_steps, all.start) = (1000, 10.0);
    let mut search = CapacitySearch::new(with(all, |sequential| {
        (sequential.within_s, sequential.most_s, sequential.precision) = (200.0, 10.0, 1e-6);
    }))
    .unwrap();
    assert_eq!(search.left_s(), Some(200.0));
    let mut server = Server::of(700.0);
    let verdict = server.drive(&mut search);
    let found = capacity(&verdict);
    assert!(found.low < 700.0 && 700.0 < found.high * 1.01, "{}", verdict.sentence("calls"));
    assert!((150.0..240.0).contains(&server.state.now_s), "{} s", server.state.now_s);
    assert_eq!(search.left_s(), Some(0.0));
    // Without a failed rate there is no interval.
    let mut all = with(settings(), |sequential| (sequential.within_s, sequential.most_s) = (60.0, 10.0));
    all.start = 1.0;
    let verdict = Server::of(1e6).drive(&mut CapacitySearch::new(all).unwrap());
    let CapacityVerdict::Unsettled { passed: Some(_), failed: None, .. } = &verdict else {
        panic!("{verdict:?}")
    };
    assert!(verdict.sentence("calls").starts_with("at least "), "{}", verdict.sentence("calls"));
}

#[test]
fn what_holds_for_seconds_only_is_found_below_in_long_steps() {
    let mut search = CapacitySearch::new(settings()).unwrap();
    let mut server = Server::of(1e6);
    let verdict = loop {
        match search.next() {
            DriverOrder::Step(step) => {
                // The server sustains 1000 per second for seconds, and 700 in long steps.
                let carried = if step.purpose == StepPurpose::Confirmation { 700.0 } else { 1000.0 };
                server.refuses = Box::new(move |rate| if rate > carried { 0.1 } else { 0.0 });
                server.step(&mut search, &step);
            }
            DriverOrder::Drain(_) => search.drained(),
            DriverOrder::Finished(verdict) => break verdict,
        }
    };
    holds(&verdict, 700.0);
    let journal = search.journal();
    let is_long = |step: &&_| matches!(step, StepPurpose::Confirmation);
    let steps = journal.steps().filter(|step| !step.purpose.is_probe());
    let purposes: Vec<_> = steps.map(|step| &step.purpose).collect();
    let first = purposes.iter().position(is_long).unwrap();
    let short = purposes[first..].iter().filter(|purpose| !is_long(purpose)).count();
    assert!(short <= 6, "after two that did not hold all steps are long: {purposes:?}");
}

/// A server whose calls fail with a known probability: the good share below 1000 per second, and an increasing share
/// above.
fn knee(seed: u64) -> Server {
    let refuses = |rate: f64| 0.000_1 + (rate / 1000.0 - 1.0).max(0.0);
    Server { refuses: Box::new(refuses), ..Server::of(10_000.0) }.seeded(seed)
}

#[test]
fn failures_left_to_chance_around_the_knee_do_not_move_it() {
    // At 1000.9 per second 0.1 % of the calls fail: there, the risks of the test apply.
    (0..20).for_each(|seed| holds(&knee(seed).drive(&mut CapacitySearch::new(settings()).unwrap()), 1000.0));
}

#[test]
fn poisson_arrivals_are_no_fault_of_the_tester_and_no_backlog() {
    for seed in 0..10 {
        let mut search = CapacitySearch::new(settings()).unwrap();
        let mut server = Server { is_poisson: true, ..knee(seed) };
        holds(&server.drive(&mut search), 1000.0);
        for step in search.journal().steps() {
            let StepDecision { outcome, reason } = &step.decision;
            assert!(
                *outcome != StepOutcome::Invalid && !matches!(reason, StepReason::Backlog { .. }),
                "{step:?}"
            );
        }
    }
}

#[test]
fn a_capacity_below_the_first_rate_is_found_from_above() {
    let mut search = CapacitySearch::new(settings()).unwrap();
    let verdict = Server::of(13.0).drive(&mut search);
    holds(&verdict, 13.0);
    let rates: Vec<_> = search.journal().steps().take(4).map(|record| record.rate).collect();
    assert_eq!(rates, [100.0, 50.0, 25.0, 12.5]);
    // At these rates, even the longest step has too few calls to show 99.9 %. The journal counts such steps.
    assert!(search.journal().by_share() > 0);
}

#[test]
fn what_cannot_be_carried_at_all_is_less_than_the_lowest_rate() {
    let mut all = settings();
    all.lowest = 20.0;
    let mut search = CapacitySearch::new(all).unwrap();
    let verdict = Server::of(5.0).drive(&mut search);
    assert_eq!(verdict, CapacityVerdict::LessThan { rate: 20.0 });
    assert_eq!(verdict.rate(), None);
    assert_eq!(verdict.sentence("calls"), "less than 20 calls/s: no allowed rate passed");
}

#[test]
fn what_nothing_exceeds_is_more_than_the_highest_rate_and_no_number() {
    let mut all = settings();
    all.highest = 1500.0;
    let mut search = CapacitySearch::new(all).unwrap();
    let verdict = Server::of(50_000.0).drive(&mut search);
    assert_eq!(verdict, CapacityVerdict::MoreThan { rate: 1500.0 });
    assert_eq!(verdict.rate(), None);
    assert_eq!(verdict.sentence("calls"), "more than 1500 calls/s: no allowed rate failed");
    let journal = search.journal();
    assert_eq!(journal.steps().last().unwrap().purpose, StepPurpose::Confirmation, "it held in a long step");
}

#[test]
fn an_overloaded_server_is_left_alone_until_it_has_recovered() {
    let mut search = CapacitySearch::new(settings()).unwrap();
    // The server answers no call for 40 s after its last loss: longer than the wait for lost calls.
    let mut server = Server { recovery_s: 40.0, ..Server::of(1000.0) };
    holds(&server.drive(&mut search), 1000.0);
    let journal = search.journal();
    let spans: Vec<_> = journal
        .entries
        .iter()
        .filter_map(|entry| match entry {
            SearchEntry::Drain(drain) => Some(drain.span_s),
            SearchEntry::Step(_) => None,
        })
        .collect();
    assert!(spans.iter().any(|span| *span > 1.0), "the pauses grow: {spans:?}");
    let below = journal.steps().filter(|step| step.rate < 980.0 && !step.purpose.is_probe());
    assert!(
        below.into_iter().all(|step| step.decision.outcome == StepOutcome::Passed),
        "no step fails because of the previous one"
    );
}

#[test]
fn a_server_that_does_not_recover_is_told_so() {
    let mut search = CapacitySearch::new(settings()).unwrap();
    let verdict = Server { recovery_s: 1e9, ..Server::of(1000.0) }.drive(&mut search);
    let CapacityVerdict::NotRecovered { after, waited_s } = verdict else { panic!("{verdict:?}") };
    assert_eq!(after, 1600.0);
    assert!(waited_s <= 300.0 && waited_s > 100.0, "{waited_s}");
}

#[test]
fn a_step_with_a_fault_of_the_tester_is_tried_again() {
    let mut search = CapacitySearch::new(settings()).unwrap();
    let tester = |_, step| if step == 3 { vec!["late".to_owned()] } else { Vec::new() };
    holds(&Server { tester: Box::new(tester), ..Server::of(1000.0) }.drive(&mut search), 1000.0);
    let journal = search.journal();
    assert!(journal.steps().nth(3).unwrap().purpose.is_probe(), "the server recovers first");
    let steps: Vec<_> = journal.steps().filter(|step| !step.purpose.is_probe()).collect();
    assert_eq!(
        (steps[2].decision.outcome, steps[2].again, steps[2].rate),
        (StepOutcome::Invalid, false, 400.0)
    );
    assert_eq!(
        (steps[3].decision.outcome, steps[3].again, steps[3].rate),
        (StepOutcome::Passed, true, 400.0)
    );
    assert!(!steps[4].again);
}

#[test]
fn the_testers_limit_is_no_failure_of_the_server() {
    let limited_at = |limit: f64, capacity: f64| {
        let mut search = CapacitySearch::new(settings()).unwrap();
        let tester = move |rate, _| if rate >= limit { vec!["late".to_owned()] } else { Vec::new() };
        let verdict = Server { tester: Box::new(tester), ..Server::of(capacity) }.drive(&mut search);
        let failed =
            search.journal().steps().filter(|step| step.decision.outcome == StepOutcome::Failed).count();
        (verdict, failed)
    };
    let (verdict, failed) = limited_at(500.0, 1000.0);
    let CapacityVerdict::TesterLimit { rate: limit, carried: Some(carried), why } = &verdict else {
        panic!("{verdict:?}")
    };
    assert!((500.0..=640.0).contains(limit) && *carried < 500.0 && *carried >= limit / 1.3, "{verdict:?}");
    assert!(matches!(why, StepReason::Tester(faults) if faults[0] == "late"), "{why:?}");
    assert_eq!(failed, 0);
    let sentence = verdict.sentence("calls");
    assert!(
        sentence.starts_with(&format!("at least {carried} calls/s; above, the tester is the limit")),
        "{sentence}"
    );
    // If no step is valid, the server has sustained no rate.
    let (verdict, _) = limited_at(0.0, 1000.0);
    assert!(matches!(verdict, CapacityVerdict::TesterLimit { rate: 1.0, carried: None, .. }), "{verdict:?}");
    // A tester limit above the server's capacity does not prevent finding the capacity.
    let (verdict, failed) = limited_at(1500.0, 1000.0);
    holds(&verdict, 1000.0);
    assert!(failed > 0);
}

#[test]
fn a_tester_that_offers_less_than_it_is_asked_for_is_the_limit() {
    let mut search = CapacitySearch::new(settings()).unwrap();
    let verdict = Server { offered: 0.7, ..Server::of(1000.0) }.drive(&mut search);
    let CapacityVerdict::TesterLimit { why: StepReason::Tester(faults), .. } = &verdict else {
        panic!("{verdict:?}")
    };
    assert!(faults[0].contains("were offered"), "{faults:?}");
}

#[test]
fn large_buffers_do_not_pass_for_capacity() {
    let mut search = CapacitySearch::new(settings()).unwrap();
    // The buffer holds four minutes of calls: no call is lost, but delays grow.
    holds(&Server { buffer: 240_000.0, ..Server::of(1000.0) }.drive(&mut search), 1000.0);
    let journal = search.journal();
    let reasons: Vec<_> = journal.steps().map(|step| &step.decision.reason).collect();
    assert!(reasons.iter().any(|reason| matches!(reason, StepReason::Backlog { .. })), "{reasons:?}");
}

#[test]
fn no_step_is_decided_before_its_shortest_span_unless_nothing_could_mend_it() {
    let mut search = CapacitySearch::new(with(settings(), |sequential| {
        (sequential.least_s, sequential.most_s) = (180.0, 180.0);
    }))
    .unwrap();
    holds(&Server::of(1000.0).drive(&mut search), 1000.0);
    let journal = search.journal();
    let passed = journal
        .steps()
        .filter(|step| step.decision.outcome == StepOutcome::Passed && !step.purpose.is_probe());
    assert!(passed.into_iter().all(|step| step.span_s >= 180.0));
    let failed: Vec<_> =
        journal.steps().filter(|step| step.decision.outcome == StepOutcome::Failed).collect();
    assert!(failed.iter().any(|step| step.span_s < 180.0), "twice the capacity is too much long before");
}
