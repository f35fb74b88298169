//! The stored runs that figures of single runs show.

use std::collections::BTreeMap;

use netrig_experiment::{Point, PointResult, Run};
use netrig_runner::first_that_count;
use netrig_store::{Store, StoredRun};

use crate::build::BUILD;
use crate::failure::Failure;
use crate::request::ExperimentRequest;

/// The first valid run of each point of an experiment, by substrate and point.
pub struct Kept(BTreeMap<&'static str, BTreeMap<Point, (Run, StoredRun)>>);

impl Kept {
    /// The runs that the store has.
    pub fn of(request: &ExperimentRequest, store: &Store) -> Result<Self, Failure> {
        let mut kept = BTreeMap::new();
        for on in &request.substrates {
            let runs = first_that_count(&request.experiment, *on, &BUILD, store).map_err(Failure::failed)?;
            let runs = runs.into_iter().flatten();
            kept.insert(on.name(), runs.map(|(run, stored)| (run.point.clone(), (run, stored))).collect());
        }
        Ok(Self(kept))
    }

    /// The run of a point, if there is one.
    pub fn run(&self, point: &PointResult) -> Option<&(Run, StoredRun)> {
        self.0.get(point.substrate.as_str())?.get(&point.factors)
    }
}
