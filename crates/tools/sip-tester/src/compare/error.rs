//! Why two results were not compared.

/// Why two results were not compared.
#[derive(Debug, thiserror::Error)]
pub enum ComparisonError {
    /// The text is not a result.
    #[error(
        "it is not a result of `netrig sip load`, `netrig sip capacity` or `netrig sip conform` with --json: {0}"
    )]
    NoResult(String),
    /// The results are of different kinds.
    #[error("one is the result of {before}, the other of {now}")]
    Kinds {
        /// The kind of the first.
        before: &'static str,
        /// The kind of the second.
        now: &'static str,
    },
    /// They were measured under different conditions; a sentence each.
    #[error("they cannot be compared (--anyway compares them nevertheless):\n  {}", .0.join("\n  "))]
    Differ(Vec<String>),
    /// No index can be tested; the reason of each.
    #[error("no index can be tested:\n  {}", .0.join("\n  "))]
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
