//! What tests that concern more than one crate have in common. The tests are under `tests/tests`.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use netrig_core::Instant;
use netrig_experiment::{Experiment, Outcome, Paper, Reduction, Substrate};
use netrig_sim::Simulator;

/// What one run measured.
pub struct Measured {
    /// The factors with their levels.
    pub levels: BTreeMap<String, String>,
    /// From 1.
    pub replication: u32,
    /// What the run says of itself.
    pub outcome: Outcome,
    /// The responses that it could measure.
    pub responses: BTreeMap<String, f64>,
}

/// Simulates replications 1 to `n` of every point of an experiment at which `wanted` holds.
///
/// # Panics
/// If the file is wrong or a run fails: in a test that is the finding.
pub fn simulate(
    text: &str,
    paper: Option<&str>,
    n: u32,
    wanted: impl Fn(&BTreeMap<String, String>) -> bool,
) -> Vec<Measured> {
    let experiment = match paper {
        Some(paper) => {
            let paper = Paper::parse(paper).unwrap_or_else(|errors| panic!("paper.toml: {errors:?}"));
            Experiment::parse_with_paper("test.toml", text, paper)
        }
        None => Experiment::parse("test.toml", text),
    };
    let experiment = experiment.unwrap_or_else(|problems| panic!("{problems}"));
    let plan = experiment.plan();
    let mut all = Vec::new();
    for place in 0..plan.len() {
        let levels: BTreeMap<String, String> =
            plan.point(place).0.into_iter().map(|(factor, level)| (factor, level.0)).collect();
        if !wanted(&levels) {
            continue;
        }
        for replication in 1..=n {
            let run = plan.run(place, replication).unwrap_or_else(|problems| panic!("{problems}"));
            let mut reduction =
                Reduction::new(&experiment.design.responses, experiment.warm_up, &run.scenario);
            let outcome = Simulator
                .run(&run, &mut reduction, &AtomicBool::new(false))
                .unwrap_or_else(|error| panic!("{levels:?}: {error}"));
            let end = Instant::ZERO + run.scenario.duration;
            let measured = reduction.finish(&outcome, end);
            let responses = measured.into_iter().filter_map(|(name, m)| Some((name, m.value()?))).collect();
            all.push(Measured { levels: levels.clone(), replication, outcome, responses });
        }
    }
    all
}
