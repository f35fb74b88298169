//! The algorithm of RFC 7502, section 4.10, compared with its pseudo-code executed by hand.

use netrig_sip_tester::capacity::{
    CapacitySearch, CapacityVerdict, DriverOrder, Mode, Rfc7502, SearchSettings, StepOutcome, StepPurpose,
};

use super::server::Server;

/// Settings from 100 sessions per second, with this increase.
fn settings(increase: f64) -> SearchSettings {
    let mut settings = SearchSettings::rfc7502("calls", 100.0);
    settings.mode = Mode::Rfc7502(Rfc7502 { sessions: 2000, increase });
    settings
}

/// The rates that a search offers to a server with this capacity, and its verdict.
fn rates(settings: SearchSettings, capacity: f64) -> (Vec<f64>, CapacityVerdict) {
    let mut search = CapacitySearch::new(settings).unwrap();
    let mut server = Server { buffer: 0.0, ..Server::of(capacity) };
    let verdict = server.drive(&mut search);
    let journal = search.journal();
    assert!(journal.steps().all(|step| step.purpose == StepPurpose::Traffic));
    (journal.steps().map(|step| step.rate).collect(), verdict)
}

/// Appendix A: the result for a device that handles 460 sessions per second is 458.
#[test]
fn the_appendix_s_example_is_found_by_its_steps() {
    let (rates, verdict) = rates(settings(0.10), 460.0);
    // r := floor(r + 0.1 r) until a step fails, then floor(r - 0.1 r), and up again. Successes without a new highest
    // rate are counted; the tenth of them ends the search. The highest rate that succeeds, 458, occurs once.
    let by_hand = [
        100.0, 110.0, 121.0, 133.0, 146.0, 160.0, 176.0, 193.0, 212.0, 233.0, 256.0, 281.0, 309.0, 339.0,
        372.0, 409.0, 449.0, 493.0, // fails
        443.0, 487.0, // counted 1, fails
        438.0, 481.0, // 2
        432.0, 475.0, // 3
        427.0, 469.0, // 4
        422.0, 464.0, // 5
        417.0, 458.0, // 6, and a new highest
        503.0, // fails
        452.0, 497.0, // 7
        447.0, 491.0, // 8
        441.0, 485.0, // 9
        436.0, // 10: converged
    ];
    assert_eq!(rates, by_hand);
    assert_eq!(verdict.rate(), Some(458.0));
    let CapacityVerdict::Capacity(capacity) = verdict else { unreachable!() };
    assert_eq!(capacity.high, 464.0);
}

#[test]
fn both_weights_halve_after_a_failure_and_not_below_a_tenth() {
    // w = 0.5, d = 0.25. 505 fails: 378, d = 0.125, w = 0.25. 472 fails: 413, d = 0.1, w = 0.125. 464 fails: 417, w =
    // 0.1.
    let (rates, verdict) = rates(settings(0.5), 460.0);
    let by_hand = [100.0, 150.0, 225.0, 337.0, 505.0, 378.0, 472.0, 413.0, 464.0, 417.0, 458.0, 503.0, 452.0];
    assert_eq!(rates[..by_hand.len()], by_hand);
    assert_eq!(verdict.rate(), Some(458.0));
}

#[test]
fn a_step_is_so_many_sessions_and_one_failure_decides_it() {
    let mut search = CapacitySearch::new(settings(0.10)).unwrap();
    let DriverOrder::Step(step) = search.next() else { panic!() };
    assert_eq!((step.calls, step.rate), (Some(2000), 100.0));
    let mut server = Server { buffer: 0.0, ..Server::of(150.0) };
    server.drive(&mut search);
    for step in search.journal().steps() {
        match step.decision.outcome {
            StepOutcome::Passed => assert_eq!((step.counts.begun, step.counts.succeeded), (2000, 2000)),
            _ => assert!(step.counts.failed > 0 || step.counts.open() > 0),
        }
    }
}

#[test]
fn where_the_pseudo_code_would_not_end_there_is_no_number() {
    // No rate succeeds: r falls below the lowest rate.
    let mut all = settings(0.10);
    all.lowest = 50.0;
    let (rates, verdict) = rates(all, 10.0);
    assert_eq!(rates, [100.0, 90.0, 81.0, 72.0, 64.0, 57.0, 51.0]);
    assert_eq!(verdict, CapacityVerdict::LessThan { rate: 51.0 });
    // Every rate succeeds: r rises above the highest rate.
    let mut all = settings(0.10);
    all.highest = 150.0;
    let (rates, verdict) = self::rates(all, 1e6);
    assert_eq!(rates, [100.0, 110.0, 121.0, 133.0, 146.0]);
    assert_eq!(verdict, CapacityVerdict::MoreThan { rate: 146.0 });
}

#[test]
fn a_rate_that_the_weight_cannot_raise_is_refused() {
    // floor(9 + 0.9) is 9.
    let mut all = settings(0.10);
    all.start = 9.0;
    assert!(CapacitySearch::new(all.clone()).unwrap_err().to_string().contains("raises it by at least 1"));
    all.start = 10.0;
    assert!(CapacitySearch::new(all).is_ok());
}

#[test]
fn the_testers_limit_ends_it() {
    let mut search = CapacitySearch::new(settings(0.10)).unwrap();
    let tester = |rate, _| if rate > 200.0 { vec!["late".to_owned()] } else { Vec::new() };
    let verdict = Server { tester: Box::new(tester), ..Server::of(460.0) }.drive(&mut search);
    assert!(
        matches!(verdict, CapacityVerdict::TesterLimit { rate: 212.0, carried: Some(193.0), .. }),
        "{verdict:?}"
    );
}
