//! `netrig check`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use netrig_experiment::{Plan, Substrate};

use crate::arguments::Check;
use crate::failure::{Failure, print};
use crate::request::ExperimentRequest;

/// Checks the file at every point, and lists what each substrate cannot run.
pub fn check(arguments: &Check) -> Result<ExitCode, Failure> {
    let request = ExperimentRequest::new(&arguments.which)?;
    request.check_scenarios()?;
    let plan = request.experiment.plan();
    let warnings = request.experiment.warnings();
    if !warnings.is_empty() {
        print(warnings.to_string().trim_end())?;
    }
    for substrate in &request.substrates {
        print(verdict(&plan, *substrate)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Lines with the number of points that the substrate can run, and with each reason why it cannot run other points.
fn verdict(plan: &Plan, substrate: &dyn Substrate) -> Result<String, Failure> {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for place in 0..plan.len() {
        let run = plan.run(place, 1).map_err(Failure::request)?;
        if let Err(reason) = substrate.check(&run) {
            *reasons.entry(reason.to_string()).or_default() += 1;
        }
    }
    let name = substrate.name();
    let can = plan.len() - reasons.values().sum::<usize>();
    let mut lines = vec![format!("{name}: can run {can} of {} points", plan.len())];
    lines.extend(
        reasons.iter().map(|(reason, points)| format!("{name}: {points} points unsupported: {reason}")),
    );
    Ok(lines.join("\n"))
}
