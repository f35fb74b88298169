//! Comparison of two results: loads and searches index by index, conformance purpose by purpose.

mod capacities;
mod conformance;
mod document;
mod loads;
mod text;

use netrig_stats::multiple::holm;
use serde::Serialize;

pub use conformance::text as conformance_text;
pub use document::ResultDocument;
pub use text::table as text;

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
    fn statistics(error: impl std::fmt::Display) -> Self {
        Self::Statistics(error.to_string())
    }
}

/// What is said of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum IndexVerdict {
    /// Worse, and not by chance.
    Worse,
    /// Better, and not by chance.
    Better,
    /// What there is may be chance, or within the margin.
    NoDifference,
    /// Nothing can be said.
    NotTested,
}

/// An index in both results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedIndex {
    /// `success of call`, `connection, mean`.
    pub name: String,
    /// `us`, `1` of a share, `1/s`.
    pub unit: &'static str,
    /// As it was.
    pub before: Option<f64>,
    /// As it is.
    pub now: Option<f64>,
    /// By how much it is more than it was.
    pub difference: Option<f64>,
    /// The lower end of its interval.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
    /// The probability of such a difference by chance.
    pub p: Option<f64>,
    /// The same for all indices together, after Holm.
    pub p_holm: Option<f64>,
    /// What is said of it.
    pub verdict: IndexVerdict,
    /// What made it so, or why nothing can be said.
    pub how: String,
    /// Whether more of it is better.
    #[serde(skip)]
    pub more_is_better: bool,
}

impl ComparedIndex {
    /// One of which nothing can be said.
    fn untested(name: String, unit: &'static str, values: [Option<f64>; 2], why: impl Into<String>) -> Self {
        let [before, now] = values;
        let difference = before.zip(now).map(|(before, now)| now - before);
        Self {
            name,
            unit,
            before,
            now,
            difference,
            low: None,
            high: None,
            p: None,
            p_holm: None,
            verdict: IndexVerdict::NotTested,
            how: why.into(),
            more_is_better: false,
        }
    }

    /// Whether it is more than twice as bad as it was, beyond the margin, and cannot be tested: that is no pass.
    fn is_open(&self, settings: ComparisonSettings) -> bool {
        let (Some(before), Some(now)) = (self.before, self.now) else { return false };
        let [less, more] = if self.more_is_better { [now, before] } else { [before, now] };
        self.verdict == IndexVerdict::NotTested && more > (1.0 + settings.margin.max(1.0)) * less
    }

    /// Whether it differs for the worse, if it differs.
    fn direction(&self) -> IndexVerdict {
        match self.difference {
            Some(difference) if (difference > 0.0) == self.more_is_better => IndexVerdict::Better,
            _ => IndexVerdict::Worse,
        }
    }
}

/// What the comparison says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResultComparison {
    /// What was tested before.
    pub before: String,
    /// What was tested now.
    pub now: String,
    /// The confidence of all indices together, from 0 to 1.
    pub confidence: f64,
    /// Whether any index is worse.
    pub worse: bool,
    /// What is more than twice as bad and cannot be tested.
    pub open: Vec<String>,
    /// All indices, in the order of the results.
    pub indices: Vec<ComparedIndex>,
    /// What a reader has to know.
    pub notes: Vec<String>,
}

/// Compares two loads, or two searches. If `anyway` is set, results of different conditions are compared, too, and the differences
/// are among the notes.
///
/// # Errors
/// If they have nothing to say about each other.
pub fn compare(
    before: &ResultDocument,
    now: &ResultDocument,
    settings: ComparisonSettings,
    anyway: bool,
) -> Result<ResultComparison, ComparisonError> {
    let mut notes = vec![
        "what varies within each run is in the intervals; what differs between two runs of the same server is not: \
         repeat them"
            .to_owned(),
    ];
    let differ = before.differences(now);
    if !differ.is_empty() && !anyway {
        return Err(ComparisonError::Differ(differ));
    }
    notes.extend(differ);
    let mut indices = match (before, now) {
        (ResultDocument::Load(before), ResultDocument::Load(now)) => loads::indices(before, now, settings)?,
        (ResultDocument::Capacity(before), ResultDocument::Capacity(now)) => {
            vec![capacities::index(before, now)]
        }
        (before, now) => return Err(ComparisonError::Kinds { before: before.kind(), now: now.kind() }),
    };
    judge(&mut indices, settings)?;
    if indices.iter().all(|index| index.verdict == IndexVerdict::NotTested) {
        let why = indices.iter().map(|index| format!("{}: {}", index.name, index.how));
        return Err(ComparisonError::Untested(why.collect()));
    }
    let worse = indices.iter().any(|index| index.verdict == IndexVerdict::Worse);
    let open = indices.iter().filter(|index| index.is_open(settings));
    let open: Vec<_> = open.map(|index| index.name.clone()).collect();
    let [before, now] = [before, now].map(|document| document.target().to_owned());
    Ok(ResultComparison { before, now, confidence: settings.confidence, worse, open, indices, notes })
}

/// How sure, and beyond what.
#[derive(Clone, Copy, Debug)]
pub struct ComparisonSettings {
    /// The confidence of all indices together, from 0 to 1.
    pub confidence: f64,
    /// The share by which a delay may grow before it counts as worse.
    pub margin: f64,
}

/// Judges all indices together: one of them errs with the risk that was allowed, however many there are.
fn judge(indices: &mut [ComparedIndex], settings: ComparisonSettings) -> Result<(), ComparisonError> {
    let tested: Vec<f64> = indices.iter().filter_map(|index| index.p).collect();
    let mut adjusted = holm(&tested).map_err(ComparisonError::statistics)?.into_iter();
    for index in indices.iter_mut().filter(|index| index.p.is_some()) {
        index.p_holm = adjusted.next();
        let is_significant = index.p_holm.is_some_and(|p| p < 1.0 - settings.confidence);
        index.verdict = if is_significant { index.direction() } else { IndexVerdict::NoDifference };
    }
    Ok(())
}
