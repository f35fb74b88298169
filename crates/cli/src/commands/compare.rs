//! `netrig compare`.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use netrig_core::Fraction;
use netrig_experiment::{Agreement, Point, PointRuns, Results};
use netrig_store::Store;

use crate::arguments::Compare;
use crate::build::BUILD;
use crate::commands::version;
use crate::failure::{Failure, print};
use crate::request::Request;

/// Says how far the results in two stores agree: ratio of means with its interval, point by point.
pub fn compare(arguments: &Compare) -> Result<ExitCode, Failure> {
    let request = Request::new(&arguments.which)?;
    let wanted = (!arguments.which.changes.set.is_empty()).then(|| points(&request));
    let mut points = runs(&request, wanted.as_ref(), &arguments.store, "first")?;
    points.extend(runs(&request, wanted.as_ref(), &arguments.with, "second")?);
    let results = Results::judge(&request.experiment.design, &points, &BUILD);
    let margin = arguments.margin;
    if arguments.json {
        let entries: Result<Vec<_>, _> =
            results.agreement.iter().map(|entry| document(entry, margin)).collect();
        let entries = entries.map_err(Failure::failed)?;
        print(serde_json::to_string_pretty(&entries).map_err(Failure::failed)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (first, second) = (arguments.store.display(), arguments.with.display());
    print(format!(
        "first: {first}, second: {second}; second / first agrees if its whole interval lies within 1 ± {margin}"
    ))?;
    if results.agreement.is_empty() {
        print("the two stores have no point in common")?;
    }
    for agreement in &results.agreement {
        print(line(agreement, margin))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The points that the experiment has with the levels that were asked for.
fn points(request: &Request) -> BTreeSet<Point> {
    let plan = request.experiment.plan();
    (0..plan.len()).map(|place| plan.point(place)).collect()
}

/// What a store has of the experiment, at the points that are `wanted` if not all are, of whatever build, as if
/// `name` were its substrate.
fn runs(
    request: &Request,
    wanted: Option<&BTreeSet<Point>>,
    path: &Path,
    name: &str,
) -> Result<Vec<PointRuns>, Failure> {
    if !path.exists() {
        return Err(Failure::request(format!("there is no store {}", path.display())));
    }
    let store = Store::open_read_only(path).map_err(Failure::request)?;
    let design = &request.experiment.design;
    version::latest(&store, request)?;
    let mut points = netrig_runner::recorded(&store, design).map_err(Failure::failed)?;
    points.retain(|point| wanted.is_none_or(|wanted| wanted.contains(&point.point)));
    if points.is_empty() {
        return Err(Failure::request(format!(
            "the store {} has no runs of `{}` at the levels that --set asks for",
            path.display(),
            design.name
        )));
    }
    for point in &mut points {
        name.clone_into(&mut point.substrate);
    }
    Ok(points)
}

/// What the interval of a ratio says about agreement within `margin`.
fn verdict(agreement: &Agreement, margin: Fraction) -> &'static str {
    let (lowest, highest) = (1.0 - margin.get(), 1.0 + margin.get());
    match (agreement.low, agreement.high) {
        (Some(low), Some(high)) if lowest <= low && high <= highest => "agrees",
        // The ratio of two quantities above zero cannot be below it: with so few runs the interval says nothing.
        (Some(low), Some(high)) if low < 0.0 && 0.0 <= high => "inconclusive",
        (Some(low), Some(high)) if high < lowest || highest < low => "differs",
        _ => "inconclusive",
    }
}

fn line(agreement: &Agreement, margin: Fraction) -> String {
    let at =
        if agreement.factors.0.is_empty() { "all points".to_owned() } else { agreement.factors.to_string() };
    let interval = match (agreement.low, agreement.high) {
        (Some(low), Some(high)) => format!("[{low:.4}, {high:.4}]"),
        _ => "[no interval]".to_owned(),
    };
    let Agreement { response, ratio, n: [first, second], pairs, .. } = agreement;
    let verdict = verdict(agreement, margin);
    format!(
        "{response:<20} {ratio:.4} {interval}  {verdict:<12}  n = {first} and {second}, {pairs} pairs  {at}"
    )
}

/// The entry of a report's document, with the verdict.
fn document(agreement: &Agreement, margin: Fraction) -> serde_json::Result<serde_json::Value> {
    let mut entry = serde_json::to_value(agreement)?;
    entry["margin"] = margin.get().into();
    entry["verdict"] = verdict(agreement, margin).into();
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_interval_decides() {
        let told = |low: f64, high: f64, margin: &str| {
            let agreement = Agreement {
                factors: Point::default(),
                response: "goodput".into(),
                ratio: f64::midpoint(low, high),
                low: Some(low),
                high: Some(high),
                n: [3, 3],
                pairs: 3,
                of: ["first".into(), "second".into()],
            };
            verdict(&agreement, margin.parse().expect("a share"))
        };
        assert_eq!(told(0.96, 1.04, "5 %"), "agrees");
        assert_eq!(told(1.01, 1.04, "5 %"), "agrees");
        assert_eq!(told(0.96, 1.04, "2 %"), "inconclusive");
        assert_eq!(told(0.90, 0.96, "5 %"), "inconclusive");
        assert_eq!(told(-0.5, 2.35, "5 %"), "inconclusive");
        assert_eq!(told(-0.5, 0.5, "5 %"), "inconclusive");
        assert_eq!(told(0.5, 0.94, "5 %"), "differs");
        assert_eq!(told(1.06, 1.5, "5 %"), "differs");
        assert_eq!(told(1.0, 1.0, "0 %"), "agrees");
    }
}
