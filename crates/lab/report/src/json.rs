//! The results as JSON, as defined by `schema/results.schema.json`.

use netrig_experiment::Results;
use serde::Serialize;

use crate::Report;
use crate::warnings::ResultWarning;

/// The results and their warnings.
#[derive(Serialize)]
struct ResultsDocument<'a> {
    #[serde(flatten)]
    results: &'a Results,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<ResultWarning>,
}

/// The document. Keys have the order of the types' fields; factors and responses are sorted by name.
pub(crate) fn document(report: &Report<'_>, pretty: bool) -> String {
    let document = ResultsDocument { results: report.results, warnings: ResultWarning::all(report) };
    let text =
        if pretty { serde_json::to_string_pretty(&document) } else { serde_json::to_string(&document) };
    // Writing into memory does not fail, and every key is a string; numbers that are not finite become null.
    text.expect("results always have a JSON form") + "\n"
}
