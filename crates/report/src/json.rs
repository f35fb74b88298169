//! The results as JSON: the contract that `schema/results.schema.json` writes down.

use netrig_experiment::Results;

/// The document; keys in the order of the types, factors and responses in the order of the alphabet.
pub(crate) fn document(results: &Results, pretty: bool) -> String {
    let text = if pretty { serde_json::to_string_pretty(results) } else { serde_json::to_string(results) };
    // Writing into memory does not fail, and every key is a text; numbers that are not finite become null.
    text.expect("results always have a JSON form") + "\n"
}
