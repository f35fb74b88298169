//! Makes the runs of a chunk, and publishes their shard.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use netrig_experiment::{Experiment, Substrate};
use netrig_runner::{EarlierRuns, PlanRequest, PlannedRun, ProgressListener, carry_out};
use netrig_store::{Provenance, Store};

use crate::{SweepError, SweepFolder};

/// The order to make the runs of a chunk.
#[derive(Clone, Copy)]
pub struct ChunkRequest<'a> {
    /// The folder of the sweep.
    pub folder: &'a SweepFolder,
    /// The chunk.
    pub chunk: u32,
    /// A name that no other attempt has.
    pub attempt: &'a str,
    /// The experiment of the folder, with what the manifest sets.
    pub experiment: &'a Experiment,
    /// The substrate of the manifest.
    pub substrate: &'a dyn Substrate,
    /// This machine and build.
    pub provenance: &'a Provenance,
    /// Number of runs at the same time.
    pub jobs: NonZeroUsize,
    /// A folder on a local disk: SQLite must not write on a network file system.
    pub scratch: &'a Path,
    /// Set by another thread to stop. The finished runs are published.
    pub cancel: &'a AtomicBool,
}

/// The result of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkOutcome {
    /// Runs of the chunk.
    pub runs: u64,
    /// Runs that this attempt made.
    pub made: u64,
    /// Whether the attempt was interrupted: the shard has some of the runs.
    pub interrupted: bool,
    /// The shard; `None` if an interrupted attempt has made no run.
    pub shard: Option<PathBuf>,
}

/// A folder that is removed at the end.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // Only this process uses it. If it cannot be removed, the next attempt on this machine tries again.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Makes the runs of a chunk that no earlier attempt has published, and publishes them.
///
/// # Errors
/// If the folder, the local store or a thread fails. Nothing was published then.
pub fn make_chunk(
    request: &ChunkRequest<'_>,
    progress: &mut dyn ProgressListener,
) -> Result<ChunkOutcome, SweepError> {
    let ChunkRequest { folder, chunk: number, attempt, experiment, substrate, .. } = *request;
    let chunk = folder.chunk(number)?;
    let chosen: Vec<PlannedRun> = chunk.planned().collect();
    let points = experiment.plan().len();
    if let Some(run) = chosen.iter().find(|run| run.point >= points) {
        let why = format!("chunk {number} has a point {}, and the experiment has {points}", run.point + 1);
        return Err(SweepError::NotASweep { path: folder.path().to_owned(), why });
    }
    let scratch = scratch(request)?;
    let place = scratch.0.join("shard.db");
    let mut store = Store::open(&place)?;
    take_earlier_parts(request, &mut store)?;
    let substrates = [substrate];
    let plan = PlanRequest {
        experiment,
        substrates: &substrates,
        provenance: request.provenance,
        jobs: Some(request.jobs),
        earlier: EarlierRuns::TriedAgain,
        chosen: Some(&chosen),
        traced: folder.manifest().traced,
        cancel: request.cancel,
    };
    let outcome = carry_out(&plan, &mut store, progress)?;
    store.close()?;
    let is_whole = !outcome.interrupted;
    let shard = (is_whole || outcome.ran > 0)
        .then(|| folder.publish(number, attempt, is_whole, &place))
        .transpose()?;
    Ok(ChunkOutcome { runs: chosen.len() as u64, made: outcome.ran, interrupted: outcome.interrupted, shard })
}

/// The folder for the store of this attempt. Folders that killed attempts left on this machine are removed.
fn scratch(request: &ChunkRequest<'_>) -> Result<Scratch, SweepError> {
    let prefix = format!("netrig-chunk-{}-", request.folder.manifest().sweep);
    for entry in fs::read_dir(request.scratch).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid =
            name.to_str().and_then(|name| name.strip_prefix(&prefix)).and_then(|pid| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            // Another attempt may remove it at the same time.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    let path = request.scratch.join(format!("{prefix}{}", std::process::id()));
    fs::create_dir(&path).map_err(SweepError::io("create", &path))?;
    Ok(Scratch(path))
}

/// Takes the runs that interrupted attempts at this chunk have published. A part that cannot be read is left out.
fn take_earlier_parts(request: &ChunkRequest<'_>, store: &mut Store) -> Result<(), SweepError> {
    for shard in request.folder.shards()? {
        if shard.chunk == request.chunk && !shard.is_whole {
            let _ = store
                .merge(&shard.path, |name| name == request.substrate.name() && request.substrate.repeats());
        }
    }
    Ok(())
}
