//! The store: a SQLite catalogue of experiments, their runs, what was measured, and where.
//!
//! A run is recorded once, in its own transaction, under its identity: a hash of all inputs that determine its result.
//! So a killed program loses at most the runs in progress, and a second start executes only the missing runs. Results
//! of two identities are never mixed. The store only keeps data: it does not execute runs, reduce samples or judge
//! claims.
//!
//! Start from [`Store::open`], [`Store::record`] and [`Store::find`]; [`RunEntry`] is a run to record, [`StoredRun`] is
//! a recorded run, and [`ReplicationTable`] writes CSV and Parquet.
//!
//! A process may end at any time without loss of recorded runs. A loss of *power* does no damage, but the last
//! transactions may be missing (write-ahead log, `synchronous = NORMAL`). The next start executes their runs again.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    reason = "the store is a file that processes share: once in its life one may wait for the other"
)]

mod arrow_schema;
mod column;
mod entry;
mod error;
mod export;
mod merge;
mod origin;
mod parquet_file;
mod provenance;
mod read;
mod schema;
mod store;
#[cfg(test)]
mod tests;
mod write;

pub use entry::{ExperimentId, NoteLine, RunEnd, RunEntry, StoredResponse, StoredRun, TimeSeries};
pub use error::StoreError;
pub use export::ReplicationTable;
pub use merge::{MergeError, MergeOutcome, RunDifference};
pub use origin::{OriginChange, OriginFact, Provenances, RunOrigin, RunSources};
pub use provenance::{Provenance, ProvenanceId};
pub use read::{ExperimentEntry, Replication, StoreSnapshot};
pub use store::Store;
pub use write::{Enrolment, RecordOutcome};

// The tests of the public interface are in the same test binary as the unit tests.
#[cfg(test)]
extern crate self as netrig_store;
#[cfg(test)]
#[path = "../tests/it/main.rs"]
mod it;
