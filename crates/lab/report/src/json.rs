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

/// The JSON document. Keys are in the order of the fields of the types. Factors and responses are sorted by name.
pub(crate) fn document(report: &Report<'_>, pretty: bool) -> String {
    let document = ResultsDocument { results: report.results, warnings: ResultWarning::all(report) };
    let text =
        if pretty { serde_json::to_string_pretty(&document) } else { serde_json::to_string(&document) };
    // Writing to memory does not fail, and every key is a string. Numbers that are not finite become null.
    text.expect("results always have a JSON form") + "\n"
}
