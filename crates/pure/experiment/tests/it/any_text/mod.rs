//! Properties that any bytes must have as an experiment file; `fuzz/` searches for counterexamples. The bytes are also
//! parsed as a file of a paper's values.

use netrig_experiment::{Diagnostics, Experiment, Paper, Plan};

/// The name of the file in messages.
const FILE: &str = "any.toml";

/// Greatest number of planned points. All points of a smaller plan were resolved when the file was read.
const PLANNED: usize = 40;

/// A file is either refused with existing positions, or it can be planned.
pub fn check(bytes: &[u8]) {
    match Experiment::parse(FILE, bytes) {
        Ok(experiment) => {
            told(experiment.warnings(), bytes);
            planned(&experiment.plan());
        }
        Err(diagnostics) => {
            assert!(!diagnostics.is_empty());
            told(&diagnostics, bytes);
        }
    }
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Err(errors) = Paper::parse(text)
    {
        assert!(!errors.is_empty());
        for error in errors {
            assert!(!error.why.is_empty() && text.get(error.span).is_some());
        }
    }
}

/// Every message has a position within the text, and is printed with this position and without terminal control
/// characters.
fn told(diagnostics: &Diagnostics, bytes: &[u8]) {
    let shown = diagnostics.to_string();
    assert!(shown.chars().all(|c| c == '\n' || !c.is_control()));
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.split('\n').collect();
    for diagnostic in diagnostics.all() {
        assert!(!diagnostic.message.is_empty());
        let line = lines[diagnostic.line - 1];
        assert!((1..=line.chars().count() + 1).contains(&diagnostic.column));
        assert!(shown.contains(&format!("{FILE}:{}:{}", diagnostic.line, diagnostic.column)));
    }
}

/// Every point has a run with its own description.
fn planned(plan: &Plan) {
    assert!(!plan.is_empty() && plan.most_runs() >= plan.len() as u64);
    let step = plan.len().div_ceil(PLANNED);
    for i in (0..plan.len()).step_by(step) {
        match plan.run(i, 1) {
            Ok(run) => {
                assert_eq!(run.seed, plan.seed(1));
                assert!(!run.scenario.flows.is_empty());
                assert!(serde_json::from_str::<serde_json::Value>(&run.description("")).is_ok());
            }
            Err(diagnostics) => {
                assert!(plan.len() > PLANNED, "{diagnostics}");
                assert!(!diagnostics.is_empty());
            }
        }
    }
}
