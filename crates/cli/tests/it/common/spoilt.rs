//! Distinguishes real-time runs that a busy machine made invalid from failures of netrig.

use std::io::Write as _;
use std::path::Path;

use serde_json::Value;

use super::{netrig, text};

/// Maximum number of executions of an experiment until it has no invalid run.
const ATTEMPTS: usize = 4;

/// Parts of the messages about a busy machine: lateness or a full buffer. Any other reason for an invalid run is an
/// error of netrig. In virtual time, any reason is an error.
const OF_THE_MACHINE: [&str; 11] = [
    " late;",
    " late,",
    " late by",
    "after their turn",
    "come in time",
    "than punctual packets",
    "for the endpoint",
    "no room",
    "did not take",
    "the source's gaps",
    "processor",
];

/// Runs netrig until its output has no invalid runs; each further call repeats the invalid ones. `None` if every call
/// had invalid runs. The reason is then printed directly to stderr.
pub fn valid(folder: &Path, arguments: &[&str]) -> Option<Value> {
    let mut why = String::new();
    for _ in 0..ATTEMPTS {
        let ended = netrig(folder, arguments);
        let (out, err) = (text(&ended.stdout), text(&ended.stderr));
        let document: Value =
            serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
        let spoilt = invalid(&document);
        if spoilt.is_empty() {
            return Some(document);
        }
        for (substrate, told) in spoilt {
            let of_the_machine = OF_THE_MACHINE.iter().any(|words| told.contains(words));
            assert!(of_the_machine && substrate == "netns", "{told} (on {substrate})");
            told.clone_into(&mut why);
        }
    }
    let _ = writeln!(std::io::stderr(), "skipped: {ATTEMPTS} times the machine spoilt a run: {why}");
    None
}

/// The substrate of each invalid run, and the reason.
fn invalid(document: &Value) -> Vec<(&str, &str)> {
    let points = document["points"].as_array().expect("there are points");
    let mut spoilt = Vec::new();
    for point in points {
        let substrate = point["substrate"].as_str().unwrap_or_default();
        let responses = point["responses"].as_object().into_iter().flatten();
        let runs = responses.filter_map(|(_, of)| of["runs"].as_array()).flatten();
        let invalid = runs.filter(|run| run["valid"] == false);
        spoilt.extend(invalid.map(|run| (substrate, run["why"].as_str().unwrap_or("no reason was given"))));
    }
    spoilt
}
