//! The results as JSON: the contract that `schema/results.schema.json` writes down.

use netrig_experiment::Results;
use serde::Serialize;

use crate::Report;
use crate::warnings::ResultWarning;

/// The document: the results, and what to look at before they are trusted.
#[derive(Serialize)]
struct ResultsDocument<'a> {
    #[serde(flatten)]
    results: &'a Results,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<ResultWarning>,
}

/// The document; keys in the order of the types, factors and responses in the order of the alphabet.
pub(crate) fn document(report: &Report<'_>, pretty: bool) -> String {
    let document = ResultsDocument { results: report.results, warnings: ResultWarning::all(report) };
    let text =
        if pretty { serde_json::to_string_pretty(&document) } else { serde_json::to_string(&document) };
    // Writing into memory does not fail, and every key is a text; numbers that are not finite become null.
    text.expect("results always have a JSON form") + "\n"
}
