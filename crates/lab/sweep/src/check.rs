//! Checks that a shard is what its name says: the runs of its chunk, of this sweep, whole and unchanged.

use std::collections::{BTreeMap, BTreeSet};

use netrig_core::number::counted;
use netrig_experiment::{Experiment, Plan, Substrate};
use netrig_runner::{PlannedRun, identities};
use netrig_store::{Store, StoreError};

use crate::folder::digest_of;
use crate::{Shard, SweepChunk, SweepError, SweepFolder};

/// A shard whose digest is not that of its name.
pub(crate) const CHANGED: &str = "it was changed or cut after it was published";

/// Whether runs of the substrate with a name are compared when they come twice: those of this substrate, if it repeats.
pub(crate) fn repeats(substrate: &dyn Substrate) -> impl Fn(&str) -> bool {
    |name| name == substrate.name() && substrate.repeats()
}

/// Checks that a shard holds only runs of its sweep.
pub struct ShardCheck<'a> {
    folder: &'a SweepFolder,
    experiment: &'a Experiment,
    substrate: &'a dyn Substrate,
    plan: Plan,
}

impl<'a> ShardCheck<'a> {
    /// For the experiment of the folder, with what its manifest sets.
    pub fn new(folder: &'a SweepFolder, experiment: &'a Experiment, substrate: &'a dyn Substrate) -> Self {
        Self { folder, experiment, substrate, plan: experiment.plan() }
    }

    /// The shards of the folder, each with its fault if it cannot be used.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn shards(&self) -> Result<Vec<(Shard, Option<String>)>, SweepError> {
        let chunks: BTreeMap<u32, SweepChunk> =
            self.folder.chunks()?.into_iter().map(|chunk| (chunk.chunk, chunk)).collect();
        let checked = |shard: Shard| {
            let fault = self.fault(&shard, chunks.get(&shard.chunk));
            (shard, fault)
        };
        Ok(self.folder.shards()?.into_iter().map(checked).collect())
    }

    /// Why a shard cannot be used, as a sentence; `None` if it can. `chunk` is the chunk that it names, if the sweep has it.
    pub fn fault(&self, shard: &Shard, chunk: Option<&SweepChunk>) -> Option<String> {
        let Some(chunk) = chunk else { return Some(format!("the sweep has no chunk {}", shard.chunk)) };
        if let Some(fault) = chunk.fault(self.plan.len()) {
            return Some(fault);
        }
        let runs: Vec<PlannedRun> = chunk.planned().collect();
        self.check(shard, &runs).err()
    }

    /// Whether a shard has a valid run for each run of its chunk.
    pub fn is_final(&self, shard: &Shard, chunk: &SweepChunk) -> bool {
        let all_valid = |store: Store| -> Result<bool, StoreError> {
            let mut all = true;
            for experiment in store.experiments()? {
                store.each_recorded(experiment.id, |_, made| all &= made.run.end.is_valid())?;
            }
            Ok(all)
        };
        shard.is_whole
            && self.fault(shard, Some(chunk)).is_none()
            && shard.open().and_then(all_valid).unwrap_or(false)
    }

    fn check(&self, shard: &Shard, runs: &[PlannedRun]) -> Result<(), String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        if digest_of(&shard.path).map_err(|error| text(&error))? != shard.digest {
            return Err(CHANGED.to_owned());
        }
        let manifest = self.folder.manifest();
        let store = shard.open().map_err(|error| error.fault())?;
        let plan = &self.plan;
        let named = identities(self.experiment, self.substrate, &manifest.build, runs);
        let named = named.map_err(|error| text(&error))?;
        let planned: BTreeMap<&str, Vec<PlannedRun>> =
            named.iter().zip(runs).fold(BTreeMap::new(), |mut all, (identity, run)| {
                if let Some(identity) = identity {
                    all.entry(identity.as_str()).or_insert_with(Vec::new).push(*run);
                }
                all
            });
        let mut found = BTreeSet::new();
        for experiment in store.experiments().map_err(|error| text(&error))? {
            if store.experiment_file(experiment.id).map_err(|error| text(&error))? != self.experiment.text() {
                return Err(format!("it has runs of another experiment, {}", experiment.name));
            }
            for replication in store.replications(experiment.id).map_err(|error| text(&error))? {
                if replication.build != manifest.build {
                    return Err(format!(
                        "netrig {} made it, and the sweep is of {}",
                        replication.build, manifest.build
                    ));
                }
                let (run, number) = (&replication.run, replication.number);
                let planned = planned.get(run.identity.as_str()).into_iter().flatten();
                let is_planned = planned.filter(|planned| planned.replication == number).any(|planned| {
                    plan.point(planned.point) == replication.point && plan.seed(number) == run.seed
                });
                if !is_planned {
                    let identity = run.identity.get(..12).unwrap_or(&run.identity);
                    return Err(format!("its run {identity} is not one of chunk {}", shard.chunk));
                }
                found.insert(run.identity.clone());
            }
        }
        match planned.keys().filter(|identity| !found.contains(**identity)).count() {
            0 => Ok(()),
            _ if !shard.is_whole => Ok(()),
            missing => {
                let runs = counted(missing as u64, "run", "runs");
                Err(format!("it lacks {runs} of chunk {}", shard.chunk))
            }
        }
    }
}
