//! The file in which the steps of a search are kept.

use std::fmt::Display;
use std::path::Path;

use netrig_agent::user_file;
use netrig_runner::capacity::{Baseline, CapacitySearch, ResumeError, SearchJournal, SearchSettings};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::arguments::{Capacity, typed_name};
use crate::failure::Failure;

/// The form of the file: another when a search that goes on from an older one would do something else.
const FORM: u64 = 2;

/// What stands in the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    /// The form of the file.
    form: u64,
    /// The program that wrote it.
    version: String,
    /// What was offered to whom: a step answers for nothing else.
    asked: String,
    /// What the tester carries against itself; it is looked for after the first step.
    baseline: Option<Baseline>,
    journal: SearchJournal,
}

/// A search from its beginning, or from where its journal ends, with what the tester carries against itself.
pub fn begun(
    typed: &Capacity,
    settings: SearchSettings,
) -> Result<(CapacitySearch, Option<Baseline>), Failure> {
    let Some(file) = typed.journal.as_deref().filter(|file| file.exists()) else {
        let search =
            CapacitySearch::new(settings).map_err(|error| Failure::request(error.sentence(typed_name)))?;
        return Ok((search, None));
    };
    let refuse = |why: &dyn Display| {
        Failure::request(format!("the journal {}: {why}; another file begins anew", file.display()))
    };
    let text = user_file::read_text(file, user_file::LONGEST_DATA).map_err(|error| refuse(&error))?;
    let value: Value = serde_json::from_str(&text).map_err(|error| refuse(&error))?;
    // The first files had no form.
    let form = value.get("form").map_or(Some(1), Value::as_u64);
    if form != Some(FORM) {
        let form = form.map_or_else(|| "an unknown form".to_owned(), |form| format!("form {form}"));
        return Err(refuse(&format!("it is of {form}, and this netrig goes on from form {FORM} only")));
    }
    let Kept { version, asked: before, baseline, journal, .. } =
        serde_json::from_value(value).map_err(|error| refuse(&error))?;
    if version != env!("CARGO_PKG_VERSION") {
        return Err(refuse(&format!("netrig {version} wrote it")));
    }
    if before != asked(typed) {
        return Err(refuse(&"it is of another server, or of another load"));
    }
    let steps = journal.steps().count();
    let search = CapacitySearch::resume(settings, journal).map_err(|error| match error {
        ResumeError::Settings(error) => Failure::request(error.sentence(typed_name)),
        error => refuse(&error),
    })?;
    eprintln!("{steps} steps are in {}: the search goes on from there", file.display());
    Ok((search, baseline))
}

/// Writes a journal as a whole: who is killed leaves the one before.
pub fn write(
    typed: &Capacity,
    file: &Path,
    baseline: Option<&Baseline>,
    journal: SearchJournal,
) -> Result<(), Failure> {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let kept = Kept { form: FORM, version, asked: asked(typed), baseline: baseline.cloned(), journal };
    let text = serde_json::to_string_pretty(&kept).map_err(Failure::failed)?;
    let mut beside = file.as_os_str().to_owned();
    beside.push(".new");
    std::fs::write(&beside, text)
        .and_then(|()| std::fs::rename(&beside, file))
        .map_err(|error| Failure::failed(format!("cannot write the journal {}: {error}", file.display())))
}

/// All that was typed but for the search's own settings, which its journal has.
fn asked(typed: &Capacity) -> String {
    format!("{:?}, arrivals {:?}, seed {}", typed.subject, typed.search.arrivals.0, typed.search.seed)
}
