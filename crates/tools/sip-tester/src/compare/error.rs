//! Why two results were not compared.

/// Why two results were not compared.
#[derive(Debug, thiserror::Error)]
pub enum ComparisonError {
    /// The text is no result.
    #[error(
        "it is no result of `netrig sip load`, `netrig sip capacity` or `netrig sip conform` with --json: {0}"
    )]
    NoResult(String),
    /// They are results of different things.
    #[error("one is of {before}, the other of {now}")]
    Kinds {
        /// What the first is a result of.
        before: &'static str,
        /// What the second is a result of.
        now: &'static str,
    },
    /// They were measured under different conditions; a sentence each.
    #[error("they cannot be compared (--anyway does it nevertheless):\n  {}", .0.join("\n  "))]
    Differ(Vec<String>),
    /// No index can be tested; the reason of each.
    #[error("nothing can be said:\n  {}", .0.join("\n  "))]
    Untested(Vec<String>),
    /// A statistic cannot be computed.
    #[error("{0}")]
    Statistics(String),
}

impl ComparisonError {
    pub(super) fn statistics(error: impl std::fmt::Display) -> Self {
        Self::Statistics(error.to_string())
    }
}
