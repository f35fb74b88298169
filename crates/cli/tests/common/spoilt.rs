//! Runs in real time that the machine spoilt are told from wrong ones.

use std::io::Write as _;
use std::path::Path;

use serde_json::Value;

use super::common::{netrig, text};

/// How often an experiment is run until no run of it is invalid.
const ATTEMPTS: usize = 4;

/// Words of the reasons that a busy machine gives: something came late, or found no room. Whatever else makes a run invalid
/// is a mistake of netrig's.
const OF_THE_MACHINE: [&str; 9] = [
    " late",
    "after their turn",
    "come in time",
    "before it was told",
    "for the endpoint",
    "no room",
    "did not take",
    "the source's gaps",
    "processor",
];

/// What netrig prints of an experiment none of whose runs it calls invalid: those that the machine spoilt, it carries out
/// again when it is called again. Nothing, and the reason past the harness, if every time one was.
pub fn valid(folder: &Path, arguments: &[&str]) -> Option<Value> {
    let mut why = String::new();
    for _ in 0..ATTEMPTS {
        let ended = netrig(folder, arguments);
        let (out, err) = (text(&ended.stdout), text(&ended.stderr));
        let document: Value =
            serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
        match invalid(&document) {
            Some(told) => {
                assert!(OF_THE_MACHINE.iter().any(|words| told.contains(words)), "{told}");
                why = told;
            }
            None => return Some(document),
        }
    }
    let _ = writeln!(std::io::stderr(), "skipped: {ATTEMPTS} times the machine spoilt a run: {why}");
    None
}

/// Why a run of these is invalid, if one is.
fn invalid(document: &Value) -> Option<String> {
    let points = document["points"].as_array().expect("there are points");
    let responses = points.iter().filter_map(|point| point["responses"].as_object());
    let runs = responses.flat_map(|responses| responses.values()).filter_map(|of| of["runs"].as_array());
    let spoilt = runs.flatten().find(|run| run["valid"] == false)?;
    Some(spoilt["why"].as_str().unwrap_or("no reason was given").to_owned())
}
