//! Splits the missing runs of an experiment into chunks.

use std::collections::BTreeSet;

use netrig_experiment::{Experiment, Substrate};
use netrig_runner::{EarlierRuns, missing};
use netrig_store::Store;

use crate::{ChunkSize, SweepChunk, SweepError, SweepFolder, cut};

/// The result of [`add_missing`].
#[derive(Clone, Debug, PartialEq)]
pub struct AddedChunks {
    /// The number of runs that the store lacks.
    pub missing: usize,
    /// The new chunks.
    pub chunks: Vec<SweepChunk>,
}

/// Adds chunks to the folder for the runs that the store lacks. A run that has a chunk already stays in it. The caller has the lock of
/// the folder. `work_s` is the work of a run at a point, s.
///
/// # Errors
/// If the folder or the store fails.
pub fn add_missing(
    folder: &SweepFolder,
    experiment: &Experiment,
    substrate: &dyn Substrate,
    store: &Store,
    work_s: impl Fn(usize) -> f64,
    size: ChunkSize,
) -> Result<AddedChunks, SweepError> {
    let known = folder.sound_chunks(experiment)?;
    let planned: BTreeSet<_> = known.iter().flat_map(SweepChunk::planned).collect();
    let mut runs = missing(experiment, substrate, &folder.manifest().build, EarlierRuns::TriedAgain, store)?;
    let missing = runs.len();
    runs.retain(|run| !planned.contains(run));
    let chunks = cut(&runs, work_s, size, known.len() as u32 + 1);
    folder.add_chunks(&chunks)?;
    Ok(AddedChunks { missing, chunks })
}
