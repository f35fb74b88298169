//! Runs, and the plan of all runs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::file::Definition;
use crate::file::diagnostic::Diagnostics;
use crate::points::Points;
use crate::{Point, Replications, Scenario, resolve};

/// Parts of resolved points that a plan keeps at most.
const KEPT: usize = 200_000;

/// All runs of an experiment: its points and their replications.
#[derive(Debug)]
pub struct Plan {
    definition: Arc<Definition>,
    points: Arc<Points>,
    replications: Replications,
    seed: u64,
    /// Resolved points, as far as they are kept.
    scenarios: Vec<OnceLock<Arc<Scenario>>>,
    kept: AtomicUsize,
}

impl Plan {
    pub(crate) fn new(
        definition: Arc<Definition>,
        points: Arc<Points>,
        replications: Replications,
        seed: u64,
    ) -> Self {
        let scenarios = (0..points.len()).map(|_| OnceLock::new()).collect();
        Self { definition, points, replications, seed, scenarios, kept: AtomicUsize::new(0) }
    }

    /// How many points there are; they are known by their place, from 0, in the order of the file.
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// Whether there is nothing to run. An experiment has at least one point, so there always is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many runs each point gets.
    pub fn replications(&self) -> &Replications {
        &self.replications
    }

    /// Runs, if each point gets as many as it may.
    pub fn most_runs(&self) -> u64 {
        self.len() as u64 * u64::from(self.replications.max)
    }

    /// The levels of the `i`-th point.
    ///
    /// # Panics
    /// If there is no such point.
    pub fn point(&self, i: usize) -> Point {
        let factors = &self.definition.factors;
        let levels = self.points.levels(i, factors.len());
        Point(
            factors
                .iter()
                .zip(levels)
                .map(|(f, level)| (f.name.clone(), f.levels[level].0.clone()))
                .collect(),
        )
    }

    /// The label of the `[[points]]` block that the `i`-th point comes from.
    pub fn label(&self, i: usize) -> Option<&str> {
        self.points.label(i)
    }

    /// The `i`-th point, resolved.
    ///
    /// # Errors
    /// What is wrong with the file at this point. Every point of a small plan was checked when its file was
    /// read, but of a very large one only some.
    ///
    /// # Panics
    /// If there is no such point.
    pub fn scenario(&self, i: usize) -> Result<Arc<Scenario>, Diagnostics> {
        if let Some(scenario) = self.scenarios[i].get() {
            return Ok(Arc::clone(scenario));
        }
        let levels = self.definition.levels(&self.points.levels(i, self.definition.factors.len()));
        let scenario = resolve::scenario(&self.definition.root, &levels)
            .map(Arc::new)
            .map_err(|problems| self.definition.diagnostics(problems))?;
        if self.kept.fetch_add(scenario.parts(), Ordering::Relaxed) < KEPT {
            return Ok(Arc::clone(self.scenarios[i].get_or_init(|| scenario)));
        }
        Ok(scenario)
    }

    /// The seed of the `n`-th replication, from 1, of every point: the experiment's and n − 1.
    pub fn seed(&self, n: u32) -> u64 {
        self.seed.wrapping_add(u64::from(n.saturating_sub(1)))
    }

    /// The `n`-th replication, from 1, of the `i`-th point, with the seed that [`Plan::seed`] says.
    ///
    /// # Errors
    /// As [`Plan::scenario`].
    ///
    /// # Panics
    /// If there is no such point.
    pub fn run(&self, i: usize, n: u32) -> Result<Run, Diagnostics> {
        Ok(Run { point: self.point(i), scenario: self.scenario(i)?, replication: n, seed: self.seed(n) })
    }
}

/// One replication of one point: what a substrate carries out.
#[derive(Clone, Debug)]
pub struct Run {
    /// The levels.
    pub point: Point,
    /// The point, resolved. Shared by its replications.
    pub scenario: Arc<Scenario>,
    /// From 1. The n-th replications of all points share their seed: common random numbers.
    pub replication: u32,
    /// The seed of its random streams.
    pub seed: u64,
}

impl Run {
    /// All that decides what this run does and what is made of it, as JSON without white space, its keys in the
    /// order in which [`Scenario`] declares them: the same bytes on any machine. `reduction` is the description
    /// of what is made of its samples.
    ///
    /// The names of factors are not in it: two files that resolve to the same scenario describe the same run.
    pub fn description(&self, reduction: &str) -> String {
        #[derive(Serialize)]
        struct Description<'a> {
            scenario: &'a Scenario,
            seed: u64,
            reduction: &'a str,
        }
        let description = Description { scenario: &self.scenario, seed: self.seed, reduction };
        serde_json::to_string(&description)
            .expect("writing into memory cannot fail, and the keys of a scenario are all texts")
    }

    /// What a store knows the run by: SHA-256, as 64 hexadecimal digits, over its description, the substrate
    /// with what decides results there ([`Substrate::identity`](crate::Substrate::identity)), and netrig's
    /// build.
    pub fn identity(
        &self,
        reduction: &str,
        substrate: &str,
        substrate_identity: &str,
        build: &str,
    ) -> String {
        let mut hash = Sha256::new();
        for part in [self.description(reduction).as_str(), substrate, substrate_identity, build] {
            // Each part with its length, so that no two lists of parts have the same bytes.
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
