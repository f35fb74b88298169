//! `netrig agent`.

use std::process::ExitCode;

use netrig_agent::Agent;

use crate::failure::Failure;

/// Serves the controller that speaks on standard input, until it has nothing more to say.
pub fn agent() -> Result<ExitCode, Failure> {
    Agent.serve(std::io::stdin(), std::io::stdout()).map_err(Failure::failed)?;
    Ok(ExitCode::SUCCESS)
}
