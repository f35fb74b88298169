//! Scenarios from files.

use std::path::{Path, PathBuf};

use netrig_host::user_file::{self, UserFileError};

use super::{
    CallScript, InjectionError, InjectionFile, LinkOrder, ScenarioError, ScenarioFormError, ScenarioWarning,
    ScriptWords, read_scenario_form, read_sipp_scenario,
};

/// The longest scenario, bytes: sixteen times what SIPp accepts.
const LONGEST_SCENARIO: u64 = 1 << 20;

/// A file of a scenario cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioFileError {
    /// It cannot be read.
    #[error("cannot read {}: {}", .0.display(), .1)]
    File(PathBuf, UserFileError),
    /// It is not a SIPp scenario.
    #[error("{}: {}", .0.display(), .1)]
    Sipp(PathBuf, ScenarioError),
    /// It is not a scenario in netrig's own form.
    #[error("{}: {}", .0.display(), .1)]
    Form(PathBuf, ScenarioFormError),
    /// It is no injection file.
    #[error("{}: {}", .0.display(), .1)]
    Injection(PathBuf, InjectionError),
    /// A line of it names no process.
    #[error("{}: line {}: expected NAME;IP:PORT", .0.display(), .1)]
    Process(PathBuf, usize),
    /// It does not name the own process.
    #[error("{}: there is no process `{}`", .0.display(), .1)]
    NoProcess(PathBuf, String),
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

impl InjectionFile {
    /// Reads an injection file.
    ///
    /// # Errors
    /// If it cannot be read or is none.
    pub fn read(path: &Path) -> Result<Self, ScenarioFileError> {
        let text = user_file::read_text(path, user_file::LONGEST_DATA)
            .map_err(|error| ScenarioFileError::File(path.to_owned(), error))?;
        Self::parse(&text).map_err(|error| ScenarioFileError::Injection(path.to_owned(), error))
    }
}

impl LinkOrder {
    /// Reads the addresses of the processes of a test, of which this one is `own`.
    ///
    /// # Errors
    /// If the file cannot be read, or does not name the process.
    pub fn read(path: &Path, own: &str) -> Result<Self, ScenarioFileError> {
        let text = user_file::read_text(path, user_file::LONGEST_SETTINGS)
            .map_err(|error| ScenarioFileError::File(path.to_owned(), error))?;
        let addresses =
            Self::addresses(&text).map_err(|line| ScenarioFileError::Process(path.to_owned(), line))?;
        if !addresses.contains_key(own) {
            return Err(ScenarioFileError::NoProcess(path.to_owned(), own.to_owned()));
        }
        Ok(Self::Named { own: own.to_owned(), addresses })
    }
}
