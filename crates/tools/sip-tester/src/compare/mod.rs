//! Comparison of two results: loads and searches index by index, conformance purpose by purpose.

mod capacities;
mod conformance;
mod document;
mod error;
mod index;
mod loads;
mod text;

use serde::Serialize;

use self::index::judge;

pub use conformance::text as conformance_text;
pub use document::ResultDocument;
pub use error::ComparisonError;
pub use index::{ComparedIndex, ComparisonSettings, IndexVerdict};
pub use text::table as text;

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResultComparison {
    /// The target of the earlier result.
    pub before: String,
    /// The target of the later result.
    pub now: String,
    /// The confidence of all indices together, 0 to 1.
    pub confidence: f64,
    /// Whether any index is worse.
    pub worse: bool,
    /// Indices that are more than twice as bad and cannot be tested.
    pub open: Vec<String>,
    /// All indices, in the order of the results.
    pub indices: Vec<ComparedIndex>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// Compares two loads, or two searches. If `anyway` is set, results of different conditions are compared as well, and
/// the different conditions are listed in the notes.
///
/// # Errors
/// If they cannot be compared.
pub fn compare(
    before: &ResultDocument,
    now: &ResultDocument,
    settings: ComparisonSettings,
    anyway: bool,
) -> Result<ResultComparison, ComparisonError> {
    let mut notes = vec![
        "the intervals include the variation within each run, but not the variation between two runs against the same \
         server: repeat the runs"
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
