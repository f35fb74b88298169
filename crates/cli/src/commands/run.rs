//! `netrig run`.

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use netrig_experiment::{ClaimVerdict, Results, Status};
use netrig_report::Coverage;
use netrig_runner::{EarlierRuns, PlanOutcome, PlanRequest, carry_out, found, provenance};
use netrig_store::{Provenance, Store};

use crate::arguments::Run;
use crate::build::BUILD;
use crate::commands::kept_messages;
use crate::commands::report::{Form, of};
use crate::commands::sweep::{ViaEnd, carry_via};
use crate::coverage::may_replace;
use crate::failure::{FAILED, Failure, INTERRUPTED, print};
use crate::interruption::{until_interrupted, until_taken_down};
use crate::output::{tell, terminal_width};
use crate::progress::ProgressLine;
use crate::request::{ExperimentRequest, allow_programs, not_allowed};
use crate::studies::is_shipped;

/// Makes the runs that the store lacks, prints responses and verdicts, and writes the report.
pub fn run(arguments: &Run) -> Result<ExitCode, Failure> {
    let request = ExperimentRequest::new(&arguments.which)?;
    for warning in request.experiment.warnings().all() {
        eprintln!("warning: {}", warning.message);
    }
    request.check_scenarios()?;
    permit(&request, arguments.allow_programs || is_shipped(request.experiment.text()))?;
    let beside = || arguments.place.store.with_file_name(format!("{}.html", request.stem));
    let out = arguments.out.clone().unwrap_or_else(beside);
    let form = Form::of(&out)?;
    if !arguments.force {
        let planned = Coverage::planned(&request.experiment, &request.substrates, request.is_part);
        may_replace(&planned, &out)?;
    }
    kept_messages::begin(&arguments.keep, &request)?;
    let provenance = [provenance(&BUILD, &[])];
    let mut store = Store::open(&arguments.place.store).map_err(Failure::request)?;
    // Repeatable runs exist in memory only. Other runs build testbeds that must be removed at the end.
    let in_memory = request.substrates.iter().all(|substrate| substrate.repeats());
    let cancel = if in_memory { until_interrupted()? } else { until_taken_down()? };
    let ended = match arguments.via.via.as_deref() {
        None => carry(arguments, &request, EarlierRuns::TriedAgain, &provenance[0], &mut store, &cancel)?,
        Some(via) => match carry_via(via, arguments, &request, &mut store, &cancel)? {
            // All runs are in the store. This call makes none, and records them under this experiment.
            ViaEnd::Complete => {
                carry(arguments, &request, EarlierRuns::Stands, &provenance[0], &mut store, &cancel)?
            }
            ViaEnd::Interrupted => {
                let found = found(&request.experiment, &request.substrates, &BUILD, &store);
                PlanOutcome { interrupted: true, ..found.map_err(Failure::failed)? }
            }
            ViaEnd::Over(code) => return Ok(code),
        },
    };
    let kept = kept_messages::lines(&arguments.keep, ended.ran);
    let results = Results::judge(&request.experiment.design, &ended.points, &BUILD);
    let report = of(&request, &results, &provenance, &store, &cancel)?;
    if arguments.json {
        print(report.json(true).trim_end())?;
    } else {
        print(report.terminal(terminal_width()).trim_end())?;
    }
    if !arguments.json {
        print(format!(
            "\n{} runs made, {} found in {}",
            ended.ran,
            ended.found,
            arguments.place.store.display()
        ))?;
    }
    for line in kept {
        if arguments.json {
            eprintln!("{line}");
        } else {
            print(line)?;
        }
    }
    let made = Coverage::of(&results, request.is_part || ended.interrupted);
    let measure = if ended.interrupted && !arguments.force { may_replace(&made, &out) } else { Ok(()) };
    match measure {
        Ok(()) => {
            form.write(&report, &made, &out)?;
            if !arguments.json {
                tell(&out, &format!("report: {}", out.display()))?;
            }
        }
        Err(Failure::Request(why)) => eprintln!("no report was written: {why}"),
        Err(other) => return Err(other),
    }
    if ended.interrupted {
        eprintln!("interrupted: finished runs are kept; the same command continues with the others");
        return Ok(ExitCode::from(INTERRUPTED));
    }
    Ok(code(&results, arguments.require_claims))
}

/// If `allowed`, allows the programs of the experiment. Otherwise returns an error if a point would run a program.
fn permit(request: &ExperimentRequest, allowed: bool) -> Result<(), Failure> {
    if allowed {
        allow_programs();
        return Ok(());
    }
    let plan = request.experiment.plan();
    if !plan.has_programs() {
        return Ok(());
    }
    for place in 0..plan.len() {
        // Errors of a point are reported when it is run.
        let Ok(run) = plan.run(place, 1) else { continue };
        if run.scenario.first_program().is_none() {
            continue;
        }
        let on = request.substrates.iter().find(|on| on.check(&run).is_ok());
        if let Some(refusal) = on.and_then(|on| not_allowed(&run.scenario, on.name())) {
            return Err(refusal);
        }
    }
    Ok(())
}

fn carry(
    arguments: &Run,
    request: &ExperimentRequest,
    earlier: EarlierRuns,
    provenance: &Provenance,
    store: &mut Store,
    cancel: &AtomicBool,
) -> Result<PlanOutcome, Failure> {
    let asked = PlanRequest {
        experiment: &request.experiment,
        substrates: &request.substrates,
        provenance,
        jobs: arguments.jobs,
        earlier,
        chosen: None,
        traced: arguments.traces,
        cancel,
    };
    carry_out(&asked, store, &mut ProgressLine::new()).map_err(Failure::failed)
}

fn code(results: &Results, require_claims: bool) -> ExitCode {
    let failed = results.points.iter().any(|point| point.status == Status::Failed);
    let open = require_claims && results.claims.iter().any(|claim| claim.verdict != ClaimVerdict::Supported);
    if failed || open { ExitCode::from(FAILED) } else { ExitCode::SUCCESS }
}
