//! Errors of the runner.

use netrig_stats::StatsError;
use netrig_store::StoreError;

/// Why a plan could not be executed. A failed run is not an error of the runner.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunnerError {
    /// The store could not be read or written. Runs that were recorded before are kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The experiment's `replications` do not define a valid stopping rule.
    #[error("invalid stopping rule: {0}")]
    Stopping(#[from] StatsError),
    /// The system could not start a thread.
    #[error("cannot start a worker thread: {0}")]
    Worker(std::io::Error),
}
