//! Reads scenarios, injection files and addresses of processes from files.

use std::path::{Path, PathBuf};

use netrig_host::user_file::{self, UserFileError};

use super::{
    CallScript, InjectionError, InjectionFile, LinkOrder, ScenarioError, ScenarioFormError, ScenarioWarning,
    ScriptWords, read_scenario_form, read_sipp_scenario,
};

/// The longest scenario, bytes: sixteen times the limit of SIPp.
const LONGEST_SCENARIO: u64 = 1 << 20;

/// Why a file of a scenario cannot be used. Each error contains the path.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioFileError {
    /// The file cannot be read.
    #[error("cannot read {}: {}", .0.display(), .1)]
    File(PathBuf, UserFileError),
    /// The SIPp scenario is invalid.
    #[error("{}: {}", .0.display(), .1)]
    Sipp(PathBuf, ScenarioError),
    /// The scenario in netrig's own form is invalid.
    #[error("{}: {}", .0.display(), .1)]
    Form(PathBuf, ScenarioFormError),
    /// The injection file is invalid.
    #[error("{}: {}", .0.display(), .1)]
    Injection(PathBuf, InjectionError),
    /// A line of a file of processes is invalid; the number of the line, from 1.
    #[error("{}: line {}: expected NAME;IP:PORT", .0.display(), .1)]
    Process(PathBuf, usize),
    /// A file of processes does not contain this process, which has this name.
    #[error("{}: there is no process `{}`", .0.display(), .1)]
    NoProcess(PathBuf, String),
}

/// Reads a scenario file. If its name ends with `.toml`, it is in netrig's own form, otherwise a SIPp scenario.
///
/// # Errors
/// If the file cannot be read or is not a scenario.
pub fn read_scenario(
    path: &Path,
    keys: &[(String, String)],
) -> Result<(CallScript, Vec<ScenarioWarning>), ScenarioFileError> {
    let bytes = user_file::read(path, LONGEST_SCENARIO)
        .map_err(|error| ScenarioFileError::File(path.to_owned(), error))?;
    // Files that are not UTF-8 are read as ISO 8859-1, SIPp's encoding, in which each byte is a character.
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
    /// If the file cannot be read or is not an injection file.
    pub fn read(path: &Path) -> Result<Self, ScenarioFileError> {
        let text = user_file::read_text(path, user_file::LONGEST_DATA)
            .map_err(|error| ScenarioFileError::File(path.to_owned(), error))?;
        Self::parse(&text).map_err(|error| ScenarioFileError::Injection(path.to_owned(), error))
    }
}

impl LinkOrder {
    /// Reads the addresses of the processes of a test. `own` is the name of this process.
    ///
    /// # Errors
    /// If the file cannot be read, has an invalid line, or does not contain the name of this process.
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
