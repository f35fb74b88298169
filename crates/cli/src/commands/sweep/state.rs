//! `netrig sweep`.

use std::process::ExitCode;
use std::sync::Arc;

use netrig_sweep::{ShardCheck, SweepFolder, SweepState};

use super::arguments::SweepArguments;
use super::via::{cancel_tasks, engine};
use super::{failure, repeating};
use crate::build::BUILD;
use crate::failure::{Failure, print_report};
use crate::request::ExperimentRequest;

/// Shows the state of a sweep, or cancels its tasks.
pub fn sweep(arguments: &SweepArguments) -> Result<ExitCode, Failure> {
    let path = std::path::absolute(&arguments.folder).unwrap_or_else(|_| arguments.folder.clone());
    let folder = SweepFolder::open(&path).map_err(failure)?;
    // Ctrl-C ends this program, and the kernel those that it runs.
    let engine_of = |record| engine(&record, Arc::default());
    let engine = folder.engine().map_err(failure)?.map(engine_of).transpose()?;
    if arguments.cancel {
        let Some(mut engine) = engine else {
            return Err(Failure::request(format!("{}: no engine has this sweep", path.display())));
        };
        cancel_tasks(&mut *engine, &folder)?;
        return Ok(ExitCode::SUCCESS);
    }
    let tasks = engine.filter(|engine| !engine.is_local()).map(|mut engine| engine.tasks(&folder));
    let tasks = match tasks {
        Some(Err(error)) => {
            eprintln!("warning: {error}");
            None
        }
        Some(Ok(tasks)) => Some(tasks),
        None => None,
    };
    // Another build cannot tell which runs are those of the sweep.
    let request =
        folder.check_build(&BUILD).is_ok().then(|| ExperimentRequest::of_sweep(&folder)).transpose()?;
    let check = request
        .as_ref()
        .map(|request| Ok::<_, Failure>(ShardCheck::new(&folder, &request.experiment, repeating(request)?)));
    let check = check.transpose()?;
    let state = SweepState::read(&folder, tasks.as_ref(), check.as_ref()).map_err(failure)?;
    print_report(arguments.json, &state, || state.text())?;
    Ok(ExitCode::SUCCESS)
}
