//! `netrig compare`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use netrig_core::Fraction;
use netrig_experiment::{Agreement, Point, PointRuns, Results};
use netrig_runner::{Kept, recorded};
use netrig_store::Store;

use crate::arguments::{Compare, STORE};
use crate::build::BUILD;
use crate::commands::origin::{Change, Makers, Origin};
use crate::commands::version::{self, Version};
use crate::failure::{Failure, print};
use crate::request::Request;

/// Says how far two stores' results of an experiment agree: ratio of means with its interval, point by point; and what
/// was not the same when their runs were made.
pub fn compare(arguments: &Compare) -> Result<ExitCode, Failure> {
    let request = Request::new(&arguments.which)?;
    let wanted = (!arguments.which.set.is_empty()).then(|| points(&request));
    let place = Place::of(&arguments.store, Path::new(STORE));
    let first = Side::new(&request, wanted.as_ref(), &place, "first")?;
    let second = Side::new(&request, wanted.as_ref(), &Place::of(&arguments.with, &place.store), "second")?;
    let both: Vec<PointRuns> = first.kept.points.iter().chain(&second.kept.points).cloned().collect();
    let results = Results::judge(&request.experiment.design, &both, &BUILD);
    let margin = arguments.margin;
    if arguments.json {
        let entries: Result<Vec<_>, _> =
            results.agreement.iter().map(|entry| document(entry, margin, [&first, &second])).collect();
        let entries = entries.map_err(Failure::failed)?;
        print(serde_json::to_string_pretty(&entries).map_err(Failure::failed)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let names = [&arguments.store, &arguments.with].map(|path| path.display());
    print(format!(
        "first: {}, second: {}; second / first agrees if its whole interval lies within 1 ± {margin}",
        names[0], names[1]
    ))?;
    print(differences(&first.origin(None), &second.origin(None)))?;
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

/// A store, and the version in it: `netrig.db`, `netrig.db@1a2b3c4d`, or `@1a2b3c4d` in a store that goes without
/// saying.
struct Place {
    store: PathBuf,
    version: Option<String>,
}

impl Place {
    fn of(typed: &Path, unnamed: &Path) -> Self {
        // A file may have the sign in its name.
        let parts = typed.to_str().filter(|_| !typed.exists()).and_then(|text| text.rsplit_once('@'));
        let Some((store, version)) = parts else { return Self { store: typed.to_owned(), version: None } };
        let store = if store.is_empty() { unnamed.to_owned() } else { store.into() };
        Self { store, version: Some(version.to_owned()) }
    }
}

/// One of the two that are compared.
struct Side {
    kept: Kept,
    makers: Makers,
    digest: String,
}

impl Side {
    /// What a store has of the experiment, at the points that are `wanted` if not all are, as if `name` were its
    /// substrate.
    fn new(
        request: &Request,
        wanted: Option<&BTreeSet<Point>>,
        place: &Place,
        name: &str,
    ) -> Result<Self, Failure> {
        let path = place.store.display();
        if !place.store.exists() {
            return Err(Failure::request(format!("there is no store {path}")));
        }
        let store = Store::open_read_only(&place.store).map_err(Failure::request)?;
        let version = match &place.version {
            Some(named) => version::named(&store, request, named)?,
            None => Version { file: version::latest(&store, request)?, build: None },
        };
        let (design, build) = (&request.experiment.design, version.build.as_deref());
        let mut kept = recorded(&store, design, version.file.id, build).map_err(Failure::failed)?;
        kept.points.retain(|point| wanted.is_none_or(|wanted| wanted.contains(&point.point)));
        kept.runs.retain(|run| wanted.is_none_or(|wanted| wanted.contains(&run.point)));
        if kept.points.is_empty() {
            return Err(Failure::request(format!(
                "the store {path} has no runs of `{}` at the levels that --set asks for",
                design.name
            )));
        }
        for point in &mut kept.points {
            name.clone_into(&mut point.substrate);
        }
        let makers = Makers::of(&store, &kept.runs).map_err(Failure::failed)?;
        Ok(Self { kept, makers, digest: version.file.digest })
    }

    /// Where, when and with what its runs were made, at one point or at all.
    fn origin(&self, point: Option<&Point>) -> Origin {
        let here = self.kept.runs.iter().filter(|run| point.is_none_or(|point| run.point == *point));
        self.makers.origin(&self.digest, here)
    }
}

/// What was not the same when the runs were made, and what was.
fn differences(first: &Origin, second: &Origin) -> String {
    let changes = first.changes(second);
    let mut out = String::new();
    if changes.is_empty() {
        out += "nothing was different when they were made";
    } else {
        out += "what was different when they were made:";
        let widest = |of: fn(&Change) -> &String| {
            changes.iter().map(|change| of(change).chars().count()).max().unwrap_or(0)
        };
        let (what, value) = (widest(|change| &change.what), widest(|change| &change.first));
        for change in &changes {
            out += &format!("\n  {:<what$}  {:<value$}  {}", change.what, change.first, change.second);
        }
    }
    let common = first.common(second);
    if common.is_empty() { out } else { format!("{out}\nthe same: {}", common.join("; ")) }
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

/// The entry of a report's document, with the verdict, and with what was not the same when its runs were made; over all
/// points also with all that is known of their making.
fn document(
    agreement: &Agreement,
    margin: Fraction,
    sides: [&Side; 2],
) -> serde_json::Result<serde_json::Value> {
    let mut entry = serde_json::to_value(agreement)?;
    entry["margin"] = margin.get().into();
    entry["verdict"] = verdict(agreement, margin).into();
    let all = agreement.factors.0.is_empty();
    let [first, second] = sides.map(|side| side.origin((!all).then_some(&agreement.factors)));
    entry["changed"] = serde_json::to_value(first.changes(&second))?;
    if all {
        entry["made"] = serde_json::to_value([first, second])?;
    }
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
