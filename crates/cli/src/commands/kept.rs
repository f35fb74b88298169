//! Which run of a store stands for a point where single runs are shown.

use std::collections::BTreeMap;

use netrig_experiment::Point;
use netrig_store::{Replication, Store};

use crate::build::BUILD;
use crate::failure::Failure;
use crate::request::ExperimentRequest;

/// The first replication that counts of each point that this build has made of an experiment, whatever version of its file.
pub struct Kept(BTreeMap<(String, Point), Replication>);

impl Kept {
    /// What the store has of it.
    pub fn of(request: &ExperimentRequest, store: &Store) -> Result<Self, Failure> {
        let mut first: BTreeMap<_, Replication> = BTreeMap::new();
        for version in store.experiments().map_err(Failure::failed)? {
            if version.name != request.experiment.design.name {
                continue;
            }
            for replication in store.replications(version.id).map_err(Failure::failed)? {
                if !replication.run.end.is_valid() || replication.build != *BUILD {
                    continue;
                }
                let key = (replication.run.substrate.clone(), replication.point.clone());
                // Of what several versions of the file have in common the last one is meant.
                let known = first.get(&key).map_or(u32::MAX, |known| known.number);
                if replication.number <= known {
                    first.insert(key, replication);
                }
            }
        }
        Ok(Self(first))
    }

    /// That of a point on a substrate, if there is one.
    pub fn replication(&self, substrate: &str, point: &Point) -> Option<&Replication> {
        self.0.get(&(substrate.to_owned(), point.clone()))
    }
}
