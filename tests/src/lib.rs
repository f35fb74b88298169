//! Common parts of the tests that concern more than one crate. The tests are in `tests/it`.
#![forbid(unsafe_code)]

mod tshark;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use netrig_core::{Instant, Sink};
use netrig_experiment::{Experiment, Paper, Plan, Reduction, Run, RunOutcome, Substrate};
use netrig_sim::Simulator;

pub use netrig_test_support::{Seen, Tape};
pub use tshark::dissect;

/// The factors of a point with their levels.
pub type Levels = BTreeMap<String, String>;

/// The results of one run.
pub struct Measured {
    /// The factors with their levels.
    pub levels: Levels,
    /// The number of the replication, from 1.
    pub replication: u32,
    /// The outcome that the run reports.
    pub outcome: RunOutcome,
    /// The values of the responses that have one.
    pub responses: BTreeMap<String, f64>,
}

/// Simulates replications 1 to `n` of each point of an experiment that `wanted` selects.
///
/// # Panics
/// If the file is wrong or a run fails, which makes the test fail.
pub fn simulate(text: &str, paper: Option<&str>, n: u32, wanted: impl Fn(&Levels) -> bool) -> Vec<Measured> {
    let paper =
        paper.map(|paper| Paper::parse(paper).unwrap_or_else(|errors| panic!("paper.toml: {errors:?}")));
    let experiment =
        Experiment::read("test.toml", text, paper, None).unwrap_or_else(|problems| panic!("{problems}"));
    let plan = experiment.plan();
    let mut all = Vec::new();
    for place in 0..plan.len() {
        let levels = levels(&plan, place);
        if !wanted(&levels) {
            continue;
        }
        for replication in 1..=n {
            let run = plan.run(place, replication).unwrap_or_else(|problems| panic!("{problems}"));
            let mut reduction =
                Reduction::new(&experiment.design.responses, experiment.warm_up, &run.scenario);
            let outcome = carry_out(&run, &levels, &mut reduction);
            let end = Instant::ZERO + outcome.lasted.unwrap_or(run.scenario.duration);
            let measured = reduction.finish(&outcome, end);
            let responses = measured.into_iter().filter_map(|(name, m)| Some((name, m.value()?))).collect();
            all.push(Measured { levels: levels.clone(), replication, outcome, responses });
        }
    }
    all
}

/// Simulates the first replication of every point of an experiment. Returns everything that the runs report, including
/// traces of the endpoints and the time line.
///
/// # Panics
/// As [`simulate`].
pub fn record(text: &str) -> Vec<(Levels, Tape)> {
    let experiment = Experiment::parse("test.toml", text).unwrap_or_else(|problems| panic!("{problems}"));
    let plan = experiment.plan();
    let mut all = Vec::new();
    for place in 0..plan.len() {
        let levels = levels(&plan, place);
        let run = plan.run(place, 1).unwrap_or_else(|problems| panic!("{problems}"));
        let mut tape = Tape::default();
        carry_out(&run, &levels, &mut tape);
        all.push((levels, tape));
    }
    all
}

/// Simulates one replication of an experiment with one point. Returns everything that the run reports, and the packets
/// at these nodes.
///
/// # Panics
/// As [`simulate`], and if there is no such node.
pub fn watch(text: &str, replication: u32, nodes: &[&str]) -> (Run, Tape) {
    let experiment = Experiment::parse("test.toml", text).unwrap_or_else(|problems| panic!("{problems}"));
    let plan = experiment.plan();
    let run = plan.run(0, replication).unwrap_or_else(|problems| panic!("{problems}"));
    let place = |name: &&str| {
        let place = run.scenario.nodes.iter().position(|node| node.name == *name);
        place.unwrap_or_else(|| panic!("there is no node {name}")) as u32
    };
    let mut tape = Tape::at(nodes.iter().map(place).collect());
    carry_out(&run, &levels(&plan, 0), &mut tape);
    (run, tape)
}

fn levels(plan: &Plan, place: usize) -> Levels {
    plan.point(place).levels().iter().map(|(factor, level)| (factor.clone(), level.to_string())).collect()
}

fn carry_out(run: &Run, levels: &Levels, sink: &mut dyn Sink) -> RunOutcome {
    let outcome = Simulator::default()
        .run(run, sink, &AtomicBool::new(false))
        .unwrap_or_else(|error| panic!("{levels:?}: {error}"));
    assert!(outcome.balance.holds(), "{levels:?}: {:?}", outcome.balance);
    outcome
}
