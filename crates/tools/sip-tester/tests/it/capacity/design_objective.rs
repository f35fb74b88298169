//! The design objective capacity.

use netrig_sip_tester::capacity::{CapacitySearch, CapacityVerdict, Mode, SearchSettings};

use super::server::Server;

fn settings() -> SearchSettings {
    let mut settings = SearchSettings::design_objective("calls", 100.0, 50.0);
    if let Mode::DesignObjective(objective) = &mut settings.mode {
        objective.step_s = 120.0;
    }
    settings
}

#[test]
fn it_is_the_highest_step_that_met_the_objective() {
    let mut search = CapacitySearch::new(settings()).unwrap();
    let verdict = Server::of(320.0).drive(&mut search);
    assert_eq!(verdict.rate(), Some(300.0));
    let journal = search.journal();
    let rates: Vec<_> = journal.steps().map(|step| step.rate).collect();
    assert_eq!(rates, [100.0, 150.0, 200.0, 250.0, 300.0, 350.0]);
    assert!(journal.steps().all(|step| step.span_s == 120.0), "steps of one duration");
    let CapacityVerdict::Capacity(capacity) = verdict else { unreachable!() };
    assert_eq!(capacity.high, 350.0);
}

#[test]
fn one_in_a_thousand_is_too_many_and_fewer_are_not() {
    let meets = |share: f64| {
        let mut all = settings();
        all.highest = 100.0;
        let refuses = move |_| share;
        Server { refuses: Box::new(refuses), ..Server::of(1e6) }.drive(&mut CapacitySearch::new(all).unwrap())
    };
    assert_eq!(meets(0.0004), CapacityVerdict::MoreThan { rate: 100.0 });
    assert_eq!(meets(0.003), CapacityVerdict::LessThan { rate: 100.0 });
}
