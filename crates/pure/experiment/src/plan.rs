//! Runs, and the plan of all runs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use netrig_core::text::hex;
use sha2::{Digest, Sha256};

use crate::file::Definition;
use crate::file::diagnostic::Diagnostics;
use crate::file::document::Value;
use crate::points::Points;
use crate::{Point, Replications, Scenario, resolve};

/// Upper limit on the total number of parts of the resolved points that a plan caches.
const KEPT: usize = 200_000;

/// All runs of an experiment: its points and their replications.
#[derive(Debug)]
pub struct Plan {
    definition: Arc<Definition>,
    points: Arc<Points>,
    replications: Replications,
    seed: u64,
    /// The cached scenarios, by index of the point.
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

    /// Number of points. The index of a point counts from 0, in the order of the file.
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// Always false: an experiment has at least one point.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether nodes run external programs at some point. This resolves no point.
    pub fn has_programs(&self) -> bool {
        let nodes = self.definition.root.table().and_then(|root| root.get("node")).and_then(Value::table);
        let mut nodes = nodes.into_iter().flat_map(|nodes| &nodes.entries);
        nodes.any(|node| node.value.table().is_some_and(|node| node.get("application").is_some()))
    }

    /// The number of runs of each point.
    pub fn replications(&self) -> &Replications {
        &self.replications
    }

    /// Number of runs if each point has the maximum of replications.
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
        factors.iter().zip(levels).map(|(f, level)| (f.name.clone(), f.levels[level].0.clone())).collect()
    }

    /// The label of the `[[points]]` block that contains the `i`-th point.
    pub fn label(&self, i: usize) -> Option<&str> {
        self.points.label(i)
    }

    /// The scenario of the `i`-th point.
    ///
    /// # Errors
    /// The faults of the file at this point. Reading a file checks every point of a small plan, but only some
    /// points of a very large one.
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

    /// The seed of the `n`-th replication, from 1, of every point: the experiment's seed plus n − 1.
    pub fn seed(&self, n: u32) -> u64 {
        self.seed.wrapping_add(u64::from(n.saturating_sub(1)))
    }

    /// The `n`-th replication, from 1, of the `i`-th point, with the seed [`Plan::seed`].
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

/// One replication of one point: the unit that a substrate runs.
#[derive(Clone, Debug)]
pub struct Run {
    /// The levels.
    pub point: Point,
    /// The scenario of the point. All replications of the point share it.
    pub scenario: Arc<Scenario>,
    /// Number of the replication, from 1. The n-th replications of all points have the same seed: common random
    /// numbers.
    pub replication: u32,
    /// The seed of the run's random streams.
    pub seed: u64,
}

impl Run {
    /// Everything that decides the behaviour of this run and its reduction, as JSON without white space. Keys are in
    /// the order in which [`Scenario`] declares them, so the bytes are the same on any machine. `reduction` describes
    /// how its samples are reduced.
    ///
    /// It does not contain the names of factors, so two files that resolve to the same scenario describe the same run.
    pub fn description(&self, reduction: &str) -> String {
        PointIdentity::new(&self.scenario, reduction).description(self.seed)
    }

    /// The identity of the run in a store. See [`PointIdentity::of_run`].
    pub fn identity(
        &self,
        reduction: &str,
        substrate: &str,
        substrate_identity: &str,
        build: &str,
    ) -> String {
        PointIdentity::new(&self.scenario, reduction).of_run(self.seed, substrate, substrate_identity, build)
    }
}

/// Computes the identities of the runs of a point. They differ only in the seed, so the hash of the part before the
/// seed is computed once.
#[derive(Clone, Debug)]
pub struct PointIdentity {
    /// The description of a run before the seed and after it.
    around: [String; 2],
    /// The state of the hash before the seed, by the number of digits of the seed.
    begun: [Option<Sha256>; 21],
}

impl PointIdentity {
    /// The identities of the runs of a scenario with this description of the reduction.
    pub fn new(scenario: &Scenario, reduction: &str) -> Self {
        let json = |text: serde_json::Result<String>| {
            text.expect("writing into memory cannot fail, and the keys of a scenario are all texts")
        };
        let before = format!("{{\"scenario\":{},\"seed\":", json(serde_json::to_string(scenario)));
        let behind = format!(",\"reduction\":{}}}", json(serde_json::to_string(reduction)));
        Self { around: [before, behind], begun: [const { None }; 21] }
    }

    fn description(&self, seed: u64) -> String {
        let [before, behind] = &self.around;
        format!("{before}{seed}{behind}")
    }

    /// The identity of the run with this seed in a store: SHA-256, as 64 hexadecimal digits, over its description, the substrate with
    /// its own identity ([`Substrate::identity`](crate::Substrate::identity)), and netrig's build.
    pub fn of_run(&mut self, seed: u64, substrate: &str, substrate_identity: &str, build: &str) -> String {
        let seed = seed.to_string();
        let [before, behind] = &self.around;
        let begun = self.begun[seed.len()].get_or_insert_with(|| {
            let mut hash = Sha256::new();
            hash.update(length(before.len() + seed.len() + behind.len()));
            hash.update(before);
            hash
        });
        let mut hash = begun.clone();
        hash.update(&seed);
        hash.update(behind);
        for part in [substrate, substrate_identity, build] {
            hash.update(length(part.len()));
            hash.update(part);
        }
        hex(&hash.finalize())
    }
}

/// The length of a part of an identity. It precedes each part, so that different lists of parts have different bytes.
fn length(bytes: usize) -> [u8; 8] {
    (bytes as u64).to_le_bytes()
}
