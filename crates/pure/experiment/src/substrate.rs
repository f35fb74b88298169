//! The contract of what carries a run out.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use netrig_core::{Duration, Sink};
use serde::{Deserialize, Serialize};

use crate::Run;

/// Why a substrate cannot run a point. No failure: the point is listed with the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unsupported(pub String);

/// Packets over all links of a run, and over all nodes that take time to receive: offered + duplicated = delivered +
/// dropped + inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Balance {
    /// Packets that arrived at a link or a node.
    pub offered: u64,
    /// Packets that a link made more of.
    pub duplicated: u64,
    /// Packets that came out of one.
    pub delivered: u64,
    /// Packets that one dropped, for any reason.
    pub dropped: u64,
    /// Packets that waited or were on a line when the run ended.
    pub inside: u64,
}

impl Balance {
    /// Whether no packet was lost unseen.
    pub const fn holds(&self) -> bool {
        self.offered + self.duplicated == self.delivered + self.dropped + self.inside
    }
}

/// What a run says of itself, besides its samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Every packet accounted for.
    pub balance: Balance,
    /// Events handled (simulator) or packets forwarded (router): what the run cost.
    pub events: u64,
    /// How long it lasted, if its flows were done before the scenario's duration.
    pub lasted: Option<Duration>,
    /// How late the driver was at most; zero in virtual time.
    pub lateness: Duration,
    /// Why the tester itself was the bottleneck, if it was: then the run counts for nothing.
    pub invalid: Option<String>,
    /// Why the times that packets took are not the network's alone, if they are not: then a run counts for nothing that is asked
    /// for such times ([`Reduction::asks_for_times`](crate::Reduction::asks_for_times)).
    pub moved: Option<String>,
    /// What must stand beside its figures, which count nevertheless: a server that breaks the rules of its protocol.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<RunRemark>,
    /// Whether another seed would give the same: virtual time passed, and no number on which behaviour may depend was drawn.
    #[serde(default)]
    pub deterministic: bool,
}

/// Something that must stand beside the figures of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RunRemark {
    /// A sentence, which is the same in each run in which the same happens.
    pub text: String,
    /// What was observed, in lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
}

/// Why a run did not end well.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RunError {
    /// It was told to stop.
    #[error("the run was cancelled")]
    Cancelled,
    /// Something failed.
    #[error("{0}")]
    Failed(String),
    /// What the substrate is made of failed.
    #[error(transparent)]
    Because(Arc<dyn std::error::Error + Send + Sync>),
}

impl RunError {
    /// The run failed because of `source`, which is kept.
    pub fn because(source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Because(Arc::new(source))
    }
}

impl PartialEq for RunError {
    /// Whether both say the same.
    fn eq(&self, other: &Self) -> bool {
        let is_cancelled = |error: &Self| matches!(error, Self::Cancelled);
        is_cancelled(self) == is_cancelled(other) && self.to_string() == other.to_string()
    }
}

impl Eq for RunError {}

/// What carries runs out: a simulator, a guest kernel, namespaces, hosts.
///
/// `Send + Sync`: the runner calls [`Substrate::run`] from as many threads as [`Substrate::parallelism`]
/// says.
pub trait Substrate: Send + Sync {
    /// Its name after `--on`.
    fn name(&self) -> &'static str;

    /// Whether it can run this at all.
    ///
    /// # Errors
    /// The reason why not, as a sentence for the report.
    fn check(&self, run: &Run) -> Result<(), Unsupported>;

    /// What, besides the run's description and netrig's own build, decides its result (kernel, guest image,
    /// options), known before the run: the store must say whether it has this run already.
    ///
    /// # Errors
    /// If the substrate cannot say.
    fn identity(&self, run: &Run) -> Result<String, RunError>;

    /// Whether the same run, made again, is the same to the bit. One in real time is not: what was not recorded while it
    /// lasted cannot be had later.
    fn repeats(&self) -> bool {
        true
    }

    /// How many runs may go on at the same time.
    fn parallelism(&self) -> NonZeroUsize;

    /// Carries the run out. `cancel` is a flag and not a channel: pure crates can look at it without a
    /// runtime.
    ///
    /// # Errors
    /// [`RunError::Cancelled`] soon after `cancel` was set, else what failed.
    fn run(&self, run: &Run, sink: &mut dyn Sink, cancel: &AtomicBool) -> Result<Outcome, RunError>;
}
