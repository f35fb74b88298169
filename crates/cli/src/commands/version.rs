//! Which version of an experiment's file a store's runs are of.

use netrig_store::{ExperimentEntry, Store};

use crate::failure::Failure;
use crate::request::Request;

/// The latest version of the file that `store` has runs of. If it is not the one that was asked for, a line on
/// stderr says so.
pub fn latest(store: &Store, request: &Request) -> Result<ExperimentEntry, Failure> {
    let (name, place) = (&request.experiment.design.name, store.path().display());
    let mut versions = store.experiments().map_err(Failure::failed)?.into_iter().rev();
    let Some(version) = versions.find(|version| version.name == *name && version.runs > 0) else {
        return Err(Failure::request(format!("the store {place} has no runs of `{name}`")));
    };
    if store.experiment_file(version.id).map_err(Failure::failed)? != request.text {
        eprintln!(
            "warning: the runs of `{name}` in {place} are of another version of its file, {:.8} of {}",
            version.digest, version.added
        );
    }
    Ok(version)
}
