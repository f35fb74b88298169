//! The runs of a store that represent points where single runs are shown.

use std::collections::BTreeMap;

use netrig_experiment::{Run, Substrate};
use netrig_runner::first_that_count;
use netrig_store::{Store, StoredRun};

use crate::build::BUILD;
use crate::failure::Failure;
use crate::request::ExperimentRequest;

/// The first run of each point that counts, by substrate.
pub struct Kept(BTreeMap<&'static str, Vec<Option<(Run, StoredRun)>>>);

impl Kept {
    /// Reads them from the store.
    pub fn of(request: &ExperimentRequest, store: &Store) -> Result<Self, Failure> {
        let of_substrate = |on: &&'static dyn Substrate| {
            let runs = first_that_count(&request.experiment, *on, &BUILD, store).map_err(Failure::failed)?;
            Ok((on.name(), runs))
        };
        request.substrates.iter().map(of_substrate).collect::<Result<_, _>>().map(Self)
    }

    /// The run of the point at this index of the plan.
    pub fn run(&self, substrate: &str, place: usize) -> Option<&(Run, StoredRun)> {
        self.0.get(substrate)?.get(place)?.as_ref()
    }
}
