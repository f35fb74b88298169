//! `netrig compare`.

use std::path::Path;
use std::process::ExitCode;

use netrig_experiment::{Agreement, PointRuns, Results};
use netrig_store::Store;

use crate::arguments::Compare;
use crate::build::BUILD;
use crate::failure::{Failure, print};
use crate::request::Request;

/// Says how far the results in two stores agree: ratio of means with its interval, point by point.
pub fn compare(arguments: &Compare) -> Result<ExitCode, Failure> {
    let request = Request::new(&arguments.which)?;
    let mut points = runs(&request, &arguments.store, "first")?;
    points.extend(runs(&request, &arguments.with, "second")?);
    let results = Results::judge(&request.experiment.design, &points, &BUILD);
    if arguments.json {
        print(serde_json::to_string_pretty(&results.agreement).map_err(Failure::failed)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    print(format!("first: {}, second: {}", arguments.store.display(), arguments.with.display()))?;
    if results.agreement.is_empty() {
        print("the two stores have no point in common")?;
    }
    for agreement in &results.agreement {
        print(line(agreement))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// All that a store has of the experiment, of whatever build, as if `name` were its substrate.
fn runs(request: &Request, path: &Path, name: &str) -> Result<Vec<PointRuns>, Failure> {
    if !path.exists() {
        return Err(Failure::request(format!("there is no store {}", path.display())));
    }
    let store = Store::open_read_only(path).map_err(Failure::request)?;
    let design = &request.experiment.design;
    let mut points = netrig_runner::recorded(&store, design).map_err(Failure::failed)?;
    if points.is_empty() {
        return Err(Failure::request(format!(
            "the store {} has no runs of `{}`",
            path.display(),
            design.name
        )));
    }
    for point in &mut points {
        name.clone_into(&mut point.substrate);
    }
    Ok(points)
}

fn line(agreement: &Agreement) -> String {
    let at =
        if agreement.factors.0.is_empty() { "all points".to_owned() } else { agreement.factors.to_string() };
    let interval = match (agreement.low, agreement.high) {
        (Some(low), Some(high)) if low <= 1.0 && 1.0 <= high => format!("[{low:.4}, {high:.4}]  agrees"),
        (Some(low), Some(high)) => format!("[{low:.4}, {high:.4}]  differs"),
        _ => "[no interval]".to_owned(),
    };
    format!("{:<20} {:.4} {interval}  {at}", agreement.response, agreement.ratio)
}
