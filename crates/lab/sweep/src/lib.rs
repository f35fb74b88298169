//! A sweep on many machines: a plan is split into chunks, each chunk is made by a task of an engine that exists, and the shards that
//! come back are merged into one store.
//!
//! A run is named by everything that decides it, so the missing runs are the whole state of a sweep. Engines may start a task
//! twice, lose it, or forget it: results are found by identity, and a state that an engine reports is never believed.
//!
//! Start from [`SweepFolder`], [`cut`] and [`make_chunk`].
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a sweep is files in a folder that machines share, and programs of engines"
)]

mod check;
mod chunk;
mod drive;
pub mod engine;
mod error;
mod estimate;
mod folder;
mod split;
mod state;
mod task;
mod work;

pub use check::ShardCheck;
pub use chunk::{ChunkSize, RunRange, SweepChunk, USUAL_CHUNK_S, cut};
pub use drive::{
    DriveEvent, DriveListener, DriveOutcome, DriveRequest, SweepClock, SweepProgress, drive, dry_run,
};
pub use error::SweepError;
pub use estimate::WorkEstimate;
pub use folder::{EngineRecord, FailureLog, Shard, SubmitterLock, SweepFolder, SweepManifest};
pub use split::{AddedChunks, add_missing};
pub use state::SweepState;
pub use task::{TaskError, chunks_of_task, task_variables};
pub use work::{ChunkOutcome, ChunkRequest, make_chunk, not_made};

// The tests of the public interface, in one test binary with the unit tests.
#[cfg(test)]
extern crate self as netrig_sweep;
#[cfg(test)]
#[path = "../tests/it/main.rs"]
mod it;
