//! The journal file of a search.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use super::{Baseline, CapacitySearch, ResumeError, SearchJournal, SearchSettings, SearchSettingsError};
use netrig_host::user_file;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the file format. It rises if a search that resumes from an older file would order other steps.
const FORM: u64 = 2;

/// Why the journal of a search cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A setting is outside its range.
    #[error(transparent)]
    Settings(#[from] SearchSettingsError),
    /// The search cannot resume from the file.
    #[error("the journal {}: {why}; another file starts a new search", file.display())]
    Refused {
        /// The journal.
        file: PathBuf,
        /// The reason.
        why: String,
    },
    /// The file cannot be written.
    #[error("cannot write the journal {}: {source}", file.display())]
    Write {
        /// The journal.
        file: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
}

/// The contents of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct JournalText {
    /// The version of the file format: [`FORM`].
    form: u64,
    /// The version of the program that wrote it.
    version: String,
    /// All settings of the loads as text. A step is valid for these only.
    asked: String,
    /// The tester limit, measured after the first step.
    baseline: Option<Baseline>,
    journal: SearchJournal,
}

/// A new search, or a search resumed from the end of its journal together with the stored tester limit.
///
/// # Errors
/// If a setting is outside its range, or the journal belongs to another search.
pub fn begun(
    file: Option<&Path>,
    asked: &str,
    settings: SearchSettings,
) -> Result<(CapacitySearch, Option<Baseline>), JournalError> {
    let Some(file) = file.filter(|file| file.exists()) else {
        return Ok((CapacitySearch::new(settings)?, None));
    };
    let refuse = |why: &dyn Display| JournalError::Refused { file: file.to_owned(), why: why.to_string() };
    let text = user_file::read_text(file, user_file::LONGEST_DATA).map_err(|error| refuse(&error))?;
    let value: Value = serde_json::from_str(&text).map_err(|error| refuse(&error))?;
    // Files of the first version have no `form` field.
    let form = value.get("form").map_or(Some(1), Value::as_u64);
    if form != Some(FORM) {
        let form = form.map_or_else(|| "an unknown form".to_owned(), |form| format!("form {form}"));
        return Err(refuse(&format!("it has {form}, and this netrig resumes from form {FORM} only")));
    }
    let JournalText { version, asked: before, baseline, journal, .. } =
        serde_json::from_value(value).map_err(|error| refuse(&error))?;
    if version != env!("CARGO_PKG_VERSION") {
        return Err(refuse(&format!("netrig {version} wrote it")));
    }
    if before != asked {
        return Err(refuse(&"it belongs to another server or another load"));
    }
    let search = CapacitySearch::resume(settings, journal).map_err(|error| match error {
        ResumeError::Settings(error) => error.into(),
        error => refuse(&error),
    })?;
    Ok((search, baseline))
}

/// Replaces the whole journal file. If the program is killed meanwhile, the previous file stays.
///
/// # Errors
/// If the file cannot be written.
pub fn write(
    file: &Path,
    asked: &str,
    baseline: Option<&Baseline>,
    journal: SearchJournal,
) -> Result<(), JournalError> {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let kept =
        JournalText { form: FORM, version, asked: asked.to_owned(), baseline: baseline.cloned(), journal };
    let mut beside = file.as_os_str().to_owned();
    beside.push(".new");
    serde_json::to_string_pretty(&kept)
        .map_err(std::io::Error::from)
        .and_then(|text| std::fs::write(&beside, text))
        .and_then(|()| std::fs::rename(&beside, file))
        .map_err(|source| JournalError::Write { file: file.to_owned(), source })
}
