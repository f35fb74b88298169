//! `netrig schema`.

use std::process::ExitCode;

use crate::failure::{Failure, print};

/// Prints the JSON schema of experiment files.
pub fn schema() -> Result<ExitCode, Failure> {
    let schema = serde_json::to_string_pretty(&netrig_experiment::schema()).map_err(Failure::failed)?;
    print(schema)?;
    Ok(ExitCode::SUCCESS)
}
