//! Makes the runs of a chunk, and publishes their shard.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use netrig_experiment::{Experiment, Substrate};
use netrig_runner::{EarlierRuns, PlanRequest, PlannedRun, ProgressListener, carry_out};
use netrig_store::{MergeError, Provenance, Store};

use crate::check::repeats;
use crate::folder::has_no_locks;
use crate::{ShardCheck, SweepChunk, SweepError, SweepFolder};

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
    /// The largest memory of this process so far, bytes.
    pub memory: fn() -> u64,
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

/// The lock of a scratch folder: who holds it is alive.
const LOCK: &str = "lock";

/// A folder that is removed at the end.
struct Scratch {
    path: PathBuf,
    /// It is held as long as this lives.
    lock: Option<File>,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Only this process uses it. If it cannot be removed, the next attempt on this machine tries again.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Those of some chunks that a task still has to make. A task that names a range may name chunks that do not exist, and one that an
/// engine starts again has made some of its chunks.
///
/// # Errors
/// If the folder cannot be read.
pub fn not_made(
    folder: &SweepFolder,
    check: &ShardCheck<'_>,
    chunks: &[u32],
) -> Result<Vec<u32>, SweepError> {
    let Some(first) = chunks.first() else { return Ok(Vec::new()) };
    // This waits for a list that comes late.
    folder.chunk(*first)?;
    let all: BTreeMap<u32, SweepChunk> =
        folder.chunks()?.into_iter().map(|chunk| (chunk.chunk, chunk)).collect();
    let mut open: Vec<u32> = chunks.iter().copied().filter(|number| all.contains_key(number)).collect();
    for shard in folder.shards()? {
        let is_asked = open.contains(&shard.chunk);
        if is_asked && all.get(&shard.chunk).is_some_and(|chunk| check.is_final(&shard, chunk)) {
            open.retain(|number| *number != shard.chunk);
        }
    }
    Ok(open)
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
    if let Some(why) = chunk.fault(experiment.plan().len()) {
        return Err(SweepError::NotASweep { path: folder.path().to_owned(), why });
    }
    let chosen: Vec<PlannedRun> = chunk.planned().collect();
    let scratch = scratch(request)?;
    let place = scratch.path.join("shard.db");
    let mut store = Store::open(&place)?;
    take_earlier_parts(request, &chunk, &mut store)?;
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
        .then(|| folder.publish(number, attempt, is_whole, &place, (request.memory)()))
        .transpose()?;
    Ok(ChunkOutcome { runs: chosen.len() as u64, made: outcome.ran, interrupted: outcome.interrupted, shard })
}

/// The beginning of the names of scratch folders.
const PREFIX: &str = "netrig-chunk-";

/// The folder for the store of this attempt. Folders of attempts on this host that were killed are removed, also those of other
/// sweeps: their locks are free. The folders of other hosts stay: on a network file system their locks may be unknown here.
fn scratch(request: &ChunkRequest<'_>) -> Result<Scratch, SweepError> {
    // The name of an attempt is that of its host, and a random number behind the last hyphen.
    let of_attempt = |attempt: &str| attempt.rsplit_once('-').map(|(host, _)| host.to_owned());
    for entry in fs::read_dir(request.scratch).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let attempt = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('.').next());
        let is_ours = attempt.is_some_and(|attempt| of_attempt(attempt) == of_attempt(request.attempt));
        let lock = entry.path().join(LOCK);
        if is_ours && File::open(&lock).is_ok_and(|lock| lock.try_lock().is_ok()) {
            // Another attempt may remove it at the same time.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    let sweep = &request.folder.manifest().sweep;
    let path = request.scratch.join(format!(
        "{PREFIX}{}.{sweep}.{}",
        request.attempt.replace('.', "-"),
        request.chunk
    ));
    fs::create_dir(&path).map_err(SweepError::io("create", &path))?;
    let mut scratch = Scratch { lock: None, path };
    // The file gets its name when it is locked: another attempt may look for it in between.
    let (new, lock) = (scratch.path.join("new"), scratch.path.join(LOCK));
    let file = File::create(&new).map_err(SweepError::io("write", &new))?;
    match file.lock().and_then(|()| fs::rename(&new, &lock)) {
        Ok(()) => {}
        // Then no other attempt gets the lock, either.
        Err(error) if has_no_locks(&error) => {}
        Err(error) => return Err(SweepError::io("lock", &lock)(error)),
    }
    scratch.lock = Some(file);
    Ok(scratch)
}

/// Takes the runs that interrupted attempts at this chunk have published. A part that is not what its name says is left out.
fn take_earlier_parts(
    request: &ChunkRequest<'_>,
    chunk: &SweepChunk,
    store: &mut Store,
) -> Result<(), SweepError> {
    let ChunkRequest { folder, experiment, substrate, .. } = *request;
    let mut parts = folder.parts()?;
    parts.retain(|shard| shard.chunk == chunk.chunk);
    if parts.is_empty() {
        return Ok(());
    }
    let check = ShardCheck::new(folder, experiment, substrate);
    for part in parts.iter().filter(|part| check.fault(part, Some(chunk)).is_none()) {
        // The runs of a part that vanished, cannot be read, or differs from another part are made again.
        let Ok(part) = part.open() else { continue };
        match store.merge(&part, repeats(substrate)) {
            Err(MergeError::Here(error)) => return Err(error.into()),
            Ok(_) | Err(MergeError::There(_)) => {}
        }
    }
    Ok(())
}
