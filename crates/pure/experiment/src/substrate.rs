//! The contract of a substrate, which executes runs.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use netrig_core::{Duration, Sink};
use serde::{Deserialize, Serialize};

use crate::Run;

/// The reason why a substrate cannot run a point. This is not a failure: the report lists the point with the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unsupported(pub String);

/// Counts of packets, summed over all links of a run and over all nodes whose reception takes time: offered +
/// duplicated = delivered + dropped + inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Balance {
    /// Packets that arrived at a link or a node.
    pub offered: u64,
    /// Packets that a link duplicated.
    pub duplicated: u64,
    /// Packets that left a link or a node.
    pub delivered: u64,
    /// Packets that a link or a node dropped, for any reason.
    pub dropped: u64,
    /// Packets that were queued or on a line at the end of the run.
    pub inside: u64,
}

impl Balance {
    /// Whether the counts balance, so that every packet is accounted for.
    pub const fn holds(&self) -> bool {
        self.offered + self.duplicated == self.delivered + self.dropped + self.inside
    }
}

/// The result of a run in addition to its samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunOutcome {
    /// The packet balance.
    pub balance: Balance,
    /// Events handled (simulator) or packets forwarded (router), a measure of cost.
    pub events: u64,
    /// Length of the run, if its flows were done before the scenario's duration.
    pub lasted: Option<Duration>,
    /// Greatest lateness of the driver; zero in virtual time.
    pub lateness: Duration,
    /// The reason, if the tester itself was the bottleneck. The run is then invalid.
    pub invalid: Option<String>,
    /// The reason, if the tester changed the times of packets. If a response depends on such times, the run is invalid
    /// ([`Reduction::asks_for_times`](crate::Reduction::asks_for_times)).
    pub moved: Option<String>,
    /// Remarks that a report shows with the results of a valid run, such as a server that violates its protocol.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<RunRemark>,
    /// Whether another seed would give the same result. This is so if time was virtual and the run drew no random
    /// number on which its behaviour may depend.
    #[serde(default)]
    pub deterministic: bool,
}

/// A remark that a report shows with the results of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RunRemark {
    /// The remark, as a sentence. Runs with the same observation have the same sentence.
    pub text: String,
    /// The observations, one on a line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
}

/// The reason why a run did not end successfully.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RunError {
    /// The caller cancelled the run.
    #[error("the run was cancelled")]
    Cancelled,
    /// The reason, as a sentence.
    #[error("{0}")]
    Failed(String),
    /// An error of a part of the substrate.
    #[error(transparent)]
    Because(Arc<dyn std::error::Error + Send + Sync>),
}

impl RunError {
    /// A failure with the error `source` as its cause.
    pub fn because(source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Because(Arc::new(source))
    }
}

impl PartialEq for RunError {
    /// Compares the texts of the errors.
    fn eq(&self, other: &Self) -> bool {
        let is_cancelled = |error: &Self| matches!(error, Self::Cancelled);
        is_cancelled(self) == is_cancelled(other) && self.to_string() == other.to_string()
    }
}

impl Eq for RunError {}

/// A substrate executes runs: a simulator, a guest kernel, network namespaces, or hosts.
///
/// `Send + Sync`: the runner calls [`Substrate::run`] from up to [`Substrate::parallelism`] threads.
pub trait Substrate: Send + Sync {
    /// The name of the substrate, which follows `--on`.
    fn name(&self) -> &'static str;

    /// Checks that the substrate can execute this run.
    ///
    /// # Errors
    ///
    /// The reason why it cannot, as a sentence for the report.
    fn check(&self, run: &Run) -> Result<(), Unsupported>;

    /// A text with everything that affects the result of the run (kernel, guest image, options), except the run's
    /// description and netrig's build. It is available before the run, because the store uses it to look up the run.
    ///
    /// # Errors
    /// If the substrate cannot determine its identity.
    fn identity(&self, run: &Run) -> Result<String, RunError>;

    /// Whether a repetition of the same run gives exactly the same samples. For a substrate in real time it does not,
    /// so data that were not recorded during the run are lost.
    fn repeats(&self) -> bool {
        true
    }

    /// The number of runs that may execute at the same time.
    fn parallelism(&self) -> NonZeroUsize;

    /// Executes the run. `cancel` is a flag instead of a channel, so that pure crates can read it without a runtime.
    ///
    /// # Errors
    /// [`RunError::Cancelled`] soon after `cancel` was set, otherwise the failure.
    fn run(&self, run: &Run, sink: &mut dyn Sink, cancel: &AtomicBool) -> Result<RunOutcome, RunError>;
}
