//! Runs in real time that the machine spoilt are told from wrong ones.

use std::io::Write as _;
use std::path::Path;

use serde_json::Value;

use super::common::{netrig, text};

/// How often an experiment is run until no run of it is invalid.
const ATTEMPTS: usize = 4;

/// Words of the reasons that a busy machine gives: something came late, or found no room. Whatever else makes a run invalid
/// is a mistake of netrig's, and so is whatever does in virtual time.
const OF_THE_MACHINE: [&str; 11] = [
    " late;",
    " late,",
    " late by",
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
            Some((substrate, told)) => {
                let of_the_machine = OF_THE_MACHINE.iter().any(|words| told.contains(words));
                assert!(of_the_machine && substrate == "netns", "{told} (on {substrate})");
                why = told;
            }
            None => return Some(document),
        }
    }
    let _ = writeln!(std::io::stderr(), "skipped: {ATTEMPTS} times the machine spoilt a run: {why}");
    None
}

/// On which substrate a run of these is invalid, and why, if one is.
fn invalid(document: &Value) -> Option<(String, String)> {
    let points = document["points"].as_array().expect("there are points");
    let spoilt = |point: &Value| {
        let responses = point["responses"].as_object()?;
        let mut runs = responses.values().filter_map(|of| of["runs"].as_array()).flatten();
        let why = runs.find(|run| run["valid"] == false)?["why"].as_str().unwrap_or("no reason was given");
        Some((point["substrate"].as_str().unwrap_or_default().to_owned(), why.to_owned()))
    };
    points.iter().find_map(spoilt)
}
