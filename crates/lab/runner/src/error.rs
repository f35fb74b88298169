//! Why a plan could not be carried out.

use netrig_stats::StatsError;
use netrig_store::StoreError;

/// Why a plan could not be carried out at all. A run that fails is no such reason.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunnerError {
    /// The store could not be read or written. What was recorded before is kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The replications of the experiment make no rule.
    #[error("cannot tell when to stop: {0}")]
    Stopping(#[from] StatsError),
    /// The system gave us no threads.
    #[error("cannot start a worker: {0}")]
    Worker(std::io::Error),
}
