//! `netrig split`.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use netrig_core::number::counted;
use netrig_experiment::Substrate;
use netrig_store::Store;
use netrig_sweep::engine::command_line;
use netrig_sweep::{
    AddedChunks, ChunkSize, SweepChunk, SweepFolder, SweepManifest, WorkEstimate, add_missing,
};

use super::arguments::{SizeArguments, SplitArguments};
use super::{executable, failure, repeating};
use crate::build::BUILD;
use crate::failure::{Failure, print};
use crate::progress::words;
use crate::request::ExperimentRequest;

/// Writes the folder of a sweep, with chunks of the runs that the store lacks.
pub fn split(arguments: &SplitArguments) -> Result<ExitCode, Failure> {
    let request = ExperimentRequest::new(&arguments.which)?;
    request.check_scenarios()?;
    let substrate = repeating(&request)?;
    let store = Store::open(&arguments.place.store).map_err(Failure::request)?;
    let folder = folder(&request, manifest(&request, substrate, arguments.traces), &arguments.into)?;
    let lock = folder.lock().map_err(failure)?;
    let work = work(&request, substrate, &store, &AtomicBool::new(false))?;
    let added = add_missing(
        &folder,
        &request.experiment,
        substrate,
        &store,
        |point| work.work_s(point),
        size(arguments.size),
    );
    let AddedChunks { missing, chunks } = added.map_err(failure)?;
    drop(lock);
    let place = arguments.into.display();
    let total: f64 = chunks.iter().map(|chunk| chunk.work_s).sum();
    print(format!(
        "{} missing; {} of them are in {} of {place}, {} of work",
        counted(missing as u64, "run is", "runs are"),
        chunks.iter().map(SweepChunk::count).sum::<usize>(),
        counted(chunks.len() as u64, "new chunk", "new chunks"),
        words(std::time::Duration::from_secs_f64(total))
    ))?;
    if let [first, ..] = &chunks[..] {
        let (first, last) = (first.chunk, first.chunk + chunks.len() as u32 - 1);
        let words =
            |words: &[&str]| command_line(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        let (place, store) = (place.to_string(), arguments.place.store.display().to_string());
        print(format!(
            "each chunk: {} K, with K = {first} to {last}; then: {}",
            words(&[&format!("{place}/netrig"), "chunk", &place]),
            words(&["netrig", "merge", &store, &place])
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The values that determine the runs of this request.
pub fn manifest(request: &ExperimentRequest, substrate: &dyn Substrate, traced: bool) -> SweepManifest {
    SweepManifest {
        form: 0,
        sweep: String::new(),
        experiment: request.experiment.design.name.clone(),
        build: BUILD.clone(),
        substrate: substrate.name().to_owned(),
        set: request.changes().set.clone(),
        replications: request.changes().replications,
        seed: request.changes().seed,
        memory: request.changes().memory.bytes(),
        traced,
    }
}

/// The folder of the sweep of this request.
pub fn folder(
    request: &ExperimentRequest,
    manifest: SweepManifest,
    place: &Path,
) -> Result<SweepFolder, Failure> {
    let place = std::path::absolute(place)
        .map_err(|error| Failure::request(format!("{}: {error}", place.display())))?;
    SweepFolder::create(&place, manifest, request.experiment.text(), executable::put).map_err(failure)
}

/// The work of the runs, from the store or from trials.
pub fn work(
    request: &ExperimentRequest,
    substrate: &dyn Substrate,
    store: &Store,
    interrupted: &AtomicBool,
) -> Result<WorkEstimate, Failure> {
    WorkEstimate::of(&request.experiment, substrate, &BUILD, store, interrupted).map_err(failure)
}

/// The size of chunks.
pub fn size(arguments: SizeArguments) -> ChunkSize {
    ChunkSize { work_s: arguments.chunk.map(netrig_core::Duration::as_secs_f64), slots: arguments.slots }
}
