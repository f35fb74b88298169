//! The file in which the steps of a search are kept.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use super::{Baseline, CapacitySearch, ResumeError, SearchJournal, SearchSettings, SearchSettingsError};
use netrig_host::user_file;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The form of the file: another when a search that goes on from an older one would do something else.
const FORM: u64 = 2;

/// Why a search has no journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The settings of the search cannot be.
    #[error(transparent)]
    Settings(#[from] SearchSettingsError),
    /// The search cannot go on from the file.
    #[error("the journal {}: {why}; another file begins anew", file.display())]
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
    /// The form of the file.
    form: u64,
    /// The program that wrote it.
    version: String,
    /// All settings of the loads as text. A step is valid for these only.
    asked: String,
    /// The limit of the tester, measured after the first step.
    baseline: Option<Baseline>,
    journal: SearchJournal,
}

/// A search from its beginning, or from where its journal ends, with the limit of the tester.
///
/// # Errors
/// If the settings cannot be, or the journal is of another search.
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
    // The first files had no form.
    let form = value.get("form").map_or(Some(1), Value::as_u64);
    if form != Some(FORM) {
        let form = form.map_or_else(|| "an unknown form".to_owned(), |form| format!("form {form}"));
        return Err(refuse(&format!("it is of {form}, and this netrig goes on from form {FORM} only")));
    }
    let JournalText { version, asked: before, baseline, journal, .. } =
        serde_json::from_value(value).map_err(|error| refuse(&error))?;
    if version != env!("CARGO_PKG_VERSION") {
        return Err(refuse(&format!("netrig {version} wrote it")));
    }
    if before != asked {
        return Err(refuse(&"it is of another server, or of another load"));
    }
    let search = CapacitySearch::resume(settings, journal).map_err(|error| match error {
        ResumeError::Settings(error) => error.into(),
        error => refuse(&error),
    })?;
    Ok((search, baseline))
}

/// Writes a journal as a whole: a program that is killed leaves the previous one.
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
