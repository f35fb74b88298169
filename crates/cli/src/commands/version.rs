//! Versions of an experiment's file in a store.

use netrig_store::{ExperimentEntry, Store};

use crate::failure::Failure;
use crate::request::ExperimentRequest;

/// A selection of runs: those of a version of the file, and of one build or of the latest build.
pub struct Version {
    /// The version of the file.
    pub file: ExperimentEntry,
    /// The build, if one was named.
    pub build: Option<String>,
}

/// Minimum number of characters that select a version.
const FEWEST: usize = 4;

/// The latest version of the file with runs in `store`. If this is not the requested file, a warning is printed on
/// stderr.
pub fn latest(store: &Store, request: &ExperimentRequest) -> Result<ExperimentEntry, Failure> {
    let (name, place) = (&request.experiment.design.name, store.path().display());
    let version = versions(store, request)?
        .pop()
        .ok_or_else(|| Failure::request(format!("the store {place} has no runs of `{name}`")))?;
    if store.experiment_file(version.id).map_err(Failure::failed)? != request.experiment.text() {
        eprintln!(
            "warning: the runs of `{name}` in {place} belong to another version of its file, {:.8} of {}",
            version.digest, version.added
        );
    }
    Ok(version)
}

/// The only version that begins with `named`, which is compared with the digest of the file, the build of netrig, and
/// the commit of the build.
pub fn named(store: &Store, request: &ExperimentRequest, named: &str) -> Result<Version, Failure> {
    let refuse = |why: &str| {
        let (name, place) = (&request.experiment.design.name, store.path().display());
        Err(Failure::request(format!(
            "@{named}: {why}; `netrig list --store {place}` shows the versions of `{name}`"
        )))
    };
    if named.len() < FEWEST {
        return refuse("a version needs at least four characters");
    }
    let mut found: Vec<Version> = Vec::new();
    for file in versions(store, request)? {
        let builds = store.builds(file.id).map_err(Failure::failed)?;
        for build in builds.into_iter().filter(|build| is_build(build, named)) {
            // If a build ran several versions of the file, the latest one is selected.
            found.retain(|known| known.build.as_ref() != Some(&build));
            found.push(Version { file: file.clone(), build: Some(build) });
        }
        if file.digest.starts_with(named) {
            found.push(Version { file, build: None });
        }
    }
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => Ok(only),
        (Some(_), false) => refuse("more than one version begins with it"),
        (None, _) => refuse("no version of the file and no build begins with it"),
    }
}

fn is_build(build: &str, named: &str) -> bool {
    build.starts_with(named) || build.split_once('+').is_some_and(|(_, commit)| commit.starts_with(named))
}

/// The versions of the file that have runs, oldest first.
fn versions(store: &Store, request: &ExperimentRequest) -> Result<Vec<ExperimentEntry>, Failure> {
    let mut versions = store.experiments().map_err(Failure::failed)?;
    versions.retain(|version| version.name == request.experiment.design.name && version.runs > 0);
    Ok(versions)
}
