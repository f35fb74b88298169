//! `netrig agent`.

use std::io::{Read as _, Write as _};
use std::process::ExitCode;

use netrig_agent::Agent;
use netrig_host::load_processors;
use netrig_sip_tester::ExperimentTester;

use crate::arguments::{self, InsteadOfAnAgent};
use crate::failure::Failure;

/// Executes the controller's orders from standard input, or loads processors, until standard input ends.
pub fn agent(arguments: &arguments::Agent) -> Result<ExitCode, Failure> {
    match &arguments.instead {
        None => Agent::with_tester(&ExperimentTester)
            .serve(std::io::stdin(), std::io::stdout())
            .map_err(Failure::failed)?,
        Some(InsteadOfAnAgent::Load { share, processors }) => {
            let until = || {
                // Errors are ignored: a controller that has closed the pipe does not need this line, and an input that
                // cannot be read has ended.
                let _ = writeln!(std::io::stdout(), "begun");
                let _ = std::io::stdin().read_to_end(&mut Vec::new());
            };
            load_processors(share.get(), processors, until).map_err(Failure::failed)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
