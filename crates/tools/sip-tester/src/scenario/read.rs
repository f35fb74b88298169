//! Scenarios from files.

use std::path::{Path, PathBuf};

use netrig_host::user_file::{self, UserFileError};

use super::{
    CallScript, ScenarioError, ScenarioFormError, ScenarioWarning, ScriptWords, read_scenario_form,
    read_sipp_scenario,
};

/// The longest scenario, bytes: sixteen times what SIPp accepts.
const LONGEST_SCENARIO: u64 = 1 << 20;

/// A file is no scenario.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioFileError {
    /// It cannot be read.
    #[error("cannot read {}: {}", .0.display(), .1)]
    File(PathBuf, UserFileError),
    /// It is no scenario of SIPp.
    #[error("{}: {}", .0.display(), .1)]
    Sipp(PathBuf, ScenarioError),
    /// It is no scenario of netrig's own form.
    #[error("{}: {}", .0.display(), .1)]
    Form(PathBuf, ScenarioFormError),
}

/// A scenario from its file, of netrig's own form if its name ends with `.toml`, else of SIPp.
///
/// # Errors
/// If the file cannot be read or is no scenario.
pub fn read_scenario(
    path: &Path,
    keys: &[(String, String)],
) -> Result<(CallScript, Vec<ScenarioWarning>), ScenarioFileError> {
    let bytes = user_file::read(path, LONGEST_SCENARIO)
        .map_err(|error| ScenarioFileError::File(path.to_owned(), error))?;
    // The scenarios of SIPp are ISO 8859-1, in which each byte is a character.
    let text = String::from_utf8(bytes)
        .unwrap_or_else(|error| error.into_bytes().into_iter().map(char::from).collect());
    if path.extension().is_some_and(|ending| ending == "toml") {
        let read = read_scenario_form(&text, ScriptWords { keys });
        return read
            .map(|script| (script, Vec::new()))
            .map_err(|error| ScenarioFileError::Form(path.to_owned(), error));
    }
    read_sipp_scenario(&text, ScriptWords { keys })
        .map_err(|error| ScenarioFileError::Sipp(path.to_owned(), error))
}
