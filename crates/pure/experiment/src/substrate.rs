//! The contract of a substrate: something that executes runs.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use netrig_core::{Duration, Sink};
use serde::{Deserialize, Serialize};

use crate::Run;

/// Why a substrate cannot run a point. This is no failure: the report lists the point with the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unsupported(pub String);

/// Packets over all links of a run, and over all nodes whose reception takes time: offered + duplicated =
/// delivered + dropped + inside.
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
    /// Packets that were queued or on a line when the run ended.
    pub inside: u64,
}

impl Balance {
    /// Whether the balance is even: no packet disappeared.
    pub const fn holds(&self) -> bool {
        self.offered + self.duplicated == self.delivered + self.dropped + self.inside
    }
}

/// The result of a run besides its samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunOutcome {
    /// The packet balance.
    pub balance: Balance,
    /// Events handled (simulator) or packets forwarded (router), a measure of cost.
    pub events: u64,
    /// How long the run lasted, if its flows were done before the scenario's duration.
    pub lasted: Option<Duration>,
    /// Greatest lateness of the driver; zero in virtual time.
    pub lateness: Duration,
    /// Why the tester itself was the bottleneck. The run is then invalid.
    pub invalid: Option<String>,
    /// Why the times of packets are not those of the network alone. If a response is about such times, the run is
    /// invalid ([`Reduction::asks_for_times`](crate::Reduction::asks_for_times)).
    pub moved: Option<String>,
    /// Remarks that stand beside the figures of a valid run, such as a server that breaks the rules of its
    /// protocol.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<RunRemark>,
    /// Whether another seed would give the same result: time was virtual, and the run drew no random number on
    /// which its behaviour may depend.
    #[serde(default)]
    pub deterministic: bool,
}

/// A remark that stands beside the figures of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RunRemark {
    /// A sentence. Runs with the same observation have the same sentence.
    pub text: String,
    /// The observations, one on a line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
}

/// Why a run did not end successfully.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RunError {
    /// The caller cancelled it.
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
    /// A failure caused by `source`, which is kept.
    pub fn because(source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Because(Arc::new(source))
    }
}

impl PartialEq for RunError {
    /// Whether both have the same text.
    fn eq(&self, other: &Self) -> bool {
        let is_cancelled = |error: &Self| matches!(error, Self::Cancelled);
        is_cancelled(self) == is_cancelled(other) && self.to_string() == other.to_string()
    }
}

impl Eq for RunError {}

/// Something that executes runs: a simulator, a guest kernel, namespaces, hosts.
///
/// `Send + Sync`: the runner calls [`Substrate::run`] from up to [`Substrate::parallelism`] threads.
pub trait Substrate: Send + Sync {
    /// Its name after `--on`.
    fn name(&self) -> &'static str;

    /// Whether it can execute this run.
    ///
    /// # Errors
    ///
    /// The reason why not, as a sentence for the report.
    fn check(&self, run: &Run) -> Result<(), Unsupported>;

    /// Everything besides the run's description and netrig's build that decides its result (kernel, guest
    /// image, options). It is known before the run, because the store looks the run up by it.
    ///
    /// # Errors
    /// If the substrate cannot determine it.
    fn identity(&self, run: &Run) -> Result<String, RunError>;

    /// Whether a repetition of the same run gives the same samples to the bit. A substrate in real time does
    /// not repeat: data that were not recorded during the run are lost.
    fn repeats(&self) -> bool {
        true
    }

    /// How many runs may execute at the same time.
    fn parallelism(&self) -> NonZeroUsize;

    /// Executes the run. `cancel` is a flag and not a channel, because pure crates can read it without a
    /// runtime.
    ///
    /// # Errors
    /// [`RunError::Cancelled`] soon after `cancel` was set, otherwise the failure.
    fn run(&self, run: &Run, sink: &mut dyn Sink, cancel: &AtomicBool) -> Result<RunOutcome, RunError>;
}
