//! Ramp and bisection.

use netrig_runner::capacity::{Decision, Entry, Order, Outcome, Purpose, Reason, Search, Verdict};

use super::server::Server;
use super::{rate, settings, with};

#[test]
fn a_known_capacity_is_found_to_within_two_per_cent() {
    for capacity in [101.0, 137.0, 460.0, 1000.0, 5_555.0, 26_000.0] {
        let mut search = Search::new(settings()).unwrap();
        let verdict = Server::of(capacity).drive(&mut search);
        let found = rate(&verdict);
        // A little more than the capacity passes where the buffer takes the rest for as long as the step lasts.
        assert!(found <= capacity * 1.001 && found >= capacity / 1.02, "{found} of {capacity}");
        let Verdict::Capacity(capacity) = verdict else { unreachable!() };
        let found = capacity.found[0];
        assert!(
            found.failed.unwrap() <= found.passed * 1.02 && capacity.contradictions.is_empty(),
            "{capacity:?}"
        );
    }
}

#[test]
fn one_search_takes_less_than_five_minutes() {
    let mut all = settings();
    all.start = 1000.0;
    // A REGISTER is sent again after T2 at most, which is 4 s.
    let mut server = Server { answers_again_s: 4.0, ..Server::of(17_000.0) };
    let mut search = Search::new(all).unwrap();
    let found = rate(&server.drive(&mut search));
    assert!((16_600.0..=17_017.0).contains(&found), "{found}");
    assert!(server.state.now_s < 300.0, "{} s", server.state.now_s);
}

#[test]
fn repeats_begin_elsewhere_and_give_an_interval() {
    let mut search = Search::new(with(settings(), |sequential| sequential.repeats = 3)).unwrap();
    let verdict = Server::of(1000.0).drive(&mut search);
    let Verdict::Capacity(capacity) = &verdict else { panic!("{verdict:?}") };
    assert_eq!(capacity.found.len(), 3);
    let rates: Vec<_> = capacity.found.iter().map(|found| found.passed).collect();
    assert!(rates.iter().all(|rate| (980.0..=1001.0).contains(rate)), "{rates:?}");
    assert!(rates[0] != rates[1] && rates[1] != rates[2], "on one grid: {rates:?}");
    // Student's t with two degrees of freedom, by hand.
    let mean = rates.iter().sum::<f64>() / 3.0;
    let sd = (rates.iter().map(|rate| (rate - mean) * (rate - mean)).sum::<f64>() / 2.0).sqrt();
    let half = 4.302_653 * sd / 3.0_f64.sqrt();
    assert!((capacity.low.unwrap() - (mean - half)).abs() < 1e-3, "{capacity:?}");
    assert!(verdict.sentence("calls").contains("95 % interval"), "{}", verdict.sentence("calls"));
    assert_eq!(search.journal().steps().last().unwrap().repeat, 3);
}

/// Around the knee calls fail with a known probability: the good share below 1000 per second, ever more above.
fn knee(seed: u64) -> Server {
    let refuses = |rate: f64| 0.000_1 + (rate / 1000.0 - 1.0).max(0.0);
    Server { refuses: Box::new(refuses), ..Server::of(10_000.0) }.seeded(seed)
}

#[test]
fn failures_left_to_chance_around_the_knee_do_not_move_it() {
    let found: Vec<_> =
        (0..20).map(|seed| rate(&knee(seed).drive(&mut Search::new(settings()).unwrap()))).collect();
    // At 1000.9 per second 0.1 % fail: what passes there is right or wrong by the risks of the test.
    assert!(found.iter().all(|rate| (980.0..=1010.0).contains(rate)), "{found:?}");
}

#[test]
fn poisson_arrivals_are_no_fault_of_the_tester_and_no_backlog() {
    for seed in 0..10 {
        let mut search = Search::new(settings()).unwrap();
        let mut server = Server { is_poisson: true, ..knee(seed) };
        let found = rate(&server.drive(&mut search));
        assert!((980.0..=1010.0).contains(&found), "{found}");
        for step in search.journal().steps() {
            let Decision { outcome, reason } = &step.decision;
            assert!(*outcome != Outcome::Invalid && !matches!(reason, Reason::Backlog { .. }), "{step:?}");
        }
    }
}

#[test]
fn a_capacity_below_the_first_rate_is_found_from_above() {
    let mut search = Search::new(settings()).unwrap();
    let verdict = Server::of(13.0).drive(&mut search);
    assert!((12.7..=13.1).contains(&rate(&verdict)), "{verdict:?}");
    let rates: Vec<_> = search.journal().steps().take(4).map(|record| record.rate).collect();
    assert_eq!(rates, [100.0, 50.0, 25.0, 12.5]);
    // So few calls cannot show 99.9 % within the longest step, and the journal says so.
    assert!(search.journal().by_share() > 0);
}

#[test]
fn what_cannot_be_carried_at_all_is_less_than_the_lowest_rate() {
    let mut all = settings();
    all.lowest = 20.0;
    let mut search = Search::new(all).unwrap();
    let verdict = Server::of(5.0).drive(&mut search);
    assert_eq!(verdict, Verdict::LessThan { rate: 20.0 });
    assert_eq!(verdict.rate(), None);
    assert_eq!(verdict.sentence("calls"), "less than 20 calls/s: no rate that was allowed passed");
}

#[test]
fn what_nothing_exceeds_is_more_than_the_highest_rate_and_no_number() {
    let mut all = settings();
    all.highest = 1500.0;
    let mut search = Search::new(all).unwrap();
    let verdict = Server::of(50_000.0).drive(&mut search);
    assert_eq!(verdict, Verdict::MoreThan { rate: 1500.0 });
    assert_eq!(verdict.rate(), None);
    assert_eq!(verdict.sentence("calls"), "more than 1500 calls/s: no rate that was allowed failed");
    let journal = search.journal();
    assert_eq!(journal.steps().last().unwrap().purpose, Purpose::Confirmation, "it held for long");
}

#[test]
fn an_overloaded_server_is_left_alone_until_it_has_recovered() {
    let mut search = Search::new(settings()).unwrap();
    // For 40 s after its last loss it answers nobody: longer than lost calls are waited for.
    let mut server = Server { recovery_s: 40.0, ..Server::of(1000.0) };
    let found = rate(&server.drive(&mut search));
    assert!((980.0..=1001.0).contains(&found), "{found}");
    let journal = search.journal();
    let spans: Vec<_> = journal
        .entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Drain(drain) => Some(drain.span_s),
            Entry::Step(_) => None,
        })
        .collect();
    assert!(spans.iter().any(|span| *span > 1.0), "it was left alone longer and longer: {spans:?}");
    let below = journal.steps().filter(|step| step.rate < 980.0 && !step.purpose.is_probe());
    assert!(
        below.into_iter().all(|step| step.decision.outcome == Outcome::Passed),
        "none failed for the one before"
    );
}

#[test]
fn a_server_that_does_not_recover_is_told_so() {
    let mut search = Search::new(settings()).unwrap();
    let verdict = Server { recovery_s: 1e9, ..Server::of(1000.0) }.drive(&mut search);
    let Verdict::NotRecovered { after, waited_s } = verdict else { panic!("{verdict:?}") };
    assert_eq!(after, 1600.0);
    assert!(waited_s <= 300.0 && waited_s > 100.0, "{waited_s}");
}

#[test]
fn a_fault_of_the_tester_is_tried_once_more() {
    let mut search = Search::new(settings()).unwrap();
    let tester = |_, step| if step == 3 { vec!["late".to_owned()] } else { Vec::new() };
    let found = rate(&Server { tester: Box::new(tester), ..Server::of(1000.0) }.drive(&mut search));
    assert!((980.0..=1001.0).contains(&found), "{found}");
    let journal = search.journal();
    let steps: Vec<_> = journal.steps().collect();
    assert_eq!((steps[2].decision.outcome, steps[2].again, steps[2].rate), (Outcome::Invalid, false, 400.0));
    assert_eq!((steps[3].decision.outcome, steps[3].again, steps[3].rate), (Outcome::Passed, true, 400.0));
    assert!(!steps[4].again);
}

#[test]
fn the_testers_limit_is_no_failure_of_the_server() {
    let limited_at = |limit: f64, capacity: f64| {
        let mut search = Search::new(settings()).unwrap();
        let tester = move |rate, _| if rate >= limit { vec!["late".to_owned()] } else { Vec::new() };
        let verdict = Server { tester: Box::new(tester), ..Server::of(capacity) }.drive(&mut search);
        let failed = search.journal().steps().filter(|step| step.decision.outcome == Outcome::Failed).count();
        (verdict, failed)
    };
    let (verdict, failed) = limited_at(500.0, 1000.0);
    let Verdict::TesterLimit { rate: limit, carried: Some(carried), why } = &verdict else {
        panic!("{verdict:?}")
    };
    assert!((500.0..=510.0).contains(limit) && *carried < 500.0 && *carried >= limit / 1.02, "{verdict:?}");
    assert_eq!(*why, Reason::Tester(vec!["late".to_owned()]));
    assert_eq!(failed, 0);
    assert!(verdict.sentence("calls").starts_with("invalid: the tester's limit at "));
    // Where nothing at all is valid there is nothing that the server carried.
    let (verdict, _) = limited_at(0.0, 1000.0);
    assert!(matches!(verdict, Verdict::TesterLimit { rate: 1.0, carried: None, .. }), "{verdict:?}");
    // A limit above the server's does not hide it.
    let (verdict, failed) = limited_at(1500.0, 1000.0);
    assert!((980.0..=1001.0).contains(&rate(&verdict)) && failed > 0, "{verdict:?}");
}

#[test]
fn a_tester_that_offers_less_than_it_is_asked_for_is_the_limit() {
    let mut search = Search::new(settings()).unwrap();
    let verdict = Server { offered: 0.7, ..Server::of(1000.0) }.drive(&mut search);
    let Verdict::TesterLimit { why: Reason::Tester(faults), .. } = &verdict else { panic!("{verdict:?}") };
    assert!(faults[0].contains("were offered"), "{faults:?}");
}

#[test]
fn a_rate_that_failed_by_mischance_is_asked_again() {
    let mut search = Search::new(settings()).unwrap();
    let mut glitch = 0;
    let Order::Step(first) = search.next() else { panic!() };
    assert_eq!(first.rate, 100.0);
    // Only the first step at 400 fails.
    let mut server = Server::of(1000.0);
    let verdict = loop {
        match search.next() {
            Order::Step(step) => {
                let is_glitch = step.rate == 400.0 && glitch == 0;
                glitch += u32::from(step.rate == 400.0);
                server.refuses = Box::new(move |_| if is_glitch { 0.5 } else { 0.0 });
                server.step(&mut search, &step);
            }
            Order::Drain(_) => search.drained(),
            Order::Finished(verdict) => break verdict,
        }
    };
    assert!((980.0..=1001.0).contains(&rate(&verdict)), "{verdict:?}");
    let Verdict::Capacity(capacity) = &verdict else { unreachable!() };
    assert_eq!(capacity.contradictions[0].failed, 400.0);
    assert!(verdict.sentence("calls").contains("passed although 400 failed"));
}

#[test]
fn what_passes_above_a_rate_that_fails_is_no_capacity() {
    // It fails from 300 to 380 per second, and from 900 on.
    let refuses = |rate: f64| if (300.0..380.0).contains(&rate) || rate >= 900.0 { 0.1 } else { 0.0 };
    let server = || Server { refuses: Box::new(refuses), ..Server::of(1e6) };
    let mut search = Search::new(with(settings(), |sequential| sequential.factor = 1.5)).unwrap();
    // 100, 150, 225, 338: into the gap.
    let found = rate(&server().drive(&mut search));
    assert!((294.0..300.0).contains(&found), "{found}");
    // 100, 200, 400: over it. What no step has met is not seen.
    let found = rate(&server().drive(&mut Search::new(settings()).unwrap()));
    assert!((882.0..900.0).contains(&found), "{found}");
}

#[test]
fn a_server_that_never_gives_the_same_answer_is_unsettled() {
    let mut all = settings();
    all.most_steps = 25;
    let mut search = Search::new(all).unwrap();
    let mut server = Server::of(1e6);
    let mut n = 0;
    let verdict = loop {
        match search.next() {
            Order::Step(step) => {
                n += u32::from(!step.purpose.is_probe());
                // Whatever was asked before is answered the other way round.
                let bad = match step.purpose {
                    Purpose::Recovery | Purpose::Recheck => false,
                    Purpose::Confirmation => true,
                    _ => n % 2 == 0,
                };
                server.refuses = Box::new(move |_| if bad { 0.5 } else { 0.0 });
                server.step(&mut search, &step);
            }
            Order::Drain(_) => search.drained(),
            Order::Finished(verdict) => break verdict,
        }
    };
    assert!(matches!(verdict, Verdict::Unsettled { steps: 25, .. }), "{verdict:?}");
}

#[test]
fn what_holds_for_seconds_only_is_found_below_in_few_long_steps() {
    let mut search = Search::new(settings()).unwrap();
    let mut server = Server::of(1e6);
    let verdict = loop {
        match search.next() {
            Order::Step(step) => {
                // For seconds it carries 1000 per second, and for long 880.
                let carried = if step.purpose == Purpose::Confirmation { 880.0 } else { 1000.0 };
                server.refuses = Box::new(move |rate| if rate > carried { 0.1 } else { 0.0 });
                server.step(&mut search, &step);
            }
            Order::Drain(_) => search.drained(),
            Order::Finished(verdict) => break verdict,
        }
    };
    assert!((862.0..=880.0).contains(&rate(&verdict)), "{verdict:?}");
    let journal = search.journal();
    let steps: Vec<_> = journal.steps().filter(|step| !step.purpose.is_probe()).collect();
    let first = steps.iter().position(|step| step.purpose == Purpose::Confirmation).unwrap();
    assert!(steps[first..].iter().all(|step| step.purpose == Purpose::Confirmation), "none for seconds");
    assert!(steps[first..].len() <= 8, "{}", steps[first..].len());
    let held = steps.last().unwrap();
    assert!(
        steps.iter().any(|step| step.decision.outcome == Outcome::Passed && step.span_s >= 60.0),
        "{held:?}"
    );
}

#[test]
fn large_buffers_do_not_pass_for_capacity() {
    let mut search = Search::new(settings()).unwrap();
    // Four minutes of calls may wait: no call is ever lost, each is only later.
    let found = rate(&Server { buffer: 240_000.0, ..Server::of(1000.0) }.drive(&mut search));
    assert!((980.0..=1010.0).contains(&found), "{found}");
    let journal = search.journal();
    let reasons: Vec<_> = journal.steps().map(|step| &step.decision.reason).collect();
    assert!(reasons.iter().any(|reason| matches!(reason, Reason::Backlog { .. })), "{reasons:?}");
}

#[test]
fn no_step_is_decided_before_its_shortest_span_unless_nothing_could_mend_it() {
    let mut search = Search::new(with(settings(), |sequential| {
        (sequential.least_s, sequential.most_s) = (180.0, 180.0);
    }))
    .unwrap();
    let found = rate(&Server::of(1000.0).drive(&mut search));
    assert!((980.0..=1001.0).contains(&found), "{found}");
    let journal = search.journal();
    let passed =
        journal.steps().filter(|step| step.decision.outcome == Outcome::Passed && !step.purpose.is_probe());
    assert!(passed.into_iter().all(|step| step.span_s >= 180.0));
    let failed: Vec<_> = journal.steps().filter(|step| step.decision.outcome == Outcome::Failed).collect();
    assert!(failed.iter().any(|step| step.span_s < 180.0), "twice the capacity is too much long before");
}
