//! `netrig compare`.

use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use netrig_core::Fraction;
use netrig_experiment::{Agreement, Design, Point, constant_level, differing_constants};
use netrig_report::{agreement_line, differences};
use netrig_runner::{StoredResults, recorded};
use netrig_store::{Provenances, RunOrigin, RunSources, Store};

use crate::arguments::{Compare, STORE};
use crate::commands::version::{self, Version};
use crate::failure::{Failure, print, print_json};
use crate::request::ExperimentRequest;

/// Compares the results of an experiment in two stores. Prints, for each point, the ratio of means with its interval
/// and the differences between the conditions of the runs.
pub fn compare(arguments: &Compare) -> Result<ExitCode, Failure> {
    let request = ExperimentRequest::new(&arguments.which)?;
    let place = StoreVersion::of(&arguments.store, Path::new(STORE));
    let with = StoreVersion::of(&arguments.with, &place.store);
    // Both stores are read at the same time, because each may have a million runs.
    let (first, second) = std::thread::scope(|scope| {
        let second = scope.spawn(|| Side::new(&request, &with, "second"));
        (Side::new(&request, &place, "first"), second.join())
    });
    let (mut first, mut second) = (first?, second.unwrap_or_else(|panic| resume_unwind(panic))?);
    let constants = other_constants(&request, &first, &second);
    for side in [&mut first, &mut second] {
        side.set_aside(&constants);
        if !request.set.is_empty() {
            side.narrow(&request, &constants)?;
        }
    }
    let mut both = std::mem::take(&mut first.kept.points);
    both.append(&mut second.kept.points);
    let design = &request.experiment.design;
    let mut agreement = Agreement::of_substrates(design, &both);
    drop(both);
    let margin = Margin::new(arguments.margin)?;
    agreement.iter_mut().for_each(|entry| margin.ask(entry, design));
    if arguments.json {
        let entries: Result<Vec<_>, _> =
            agreement.iter().map(|entry| document(entry, [&first, &second])).collect();
        let entries = entries.map_err(Failure::failed)?;
        print_json(&entries)?;
        return Ok(ExitCode::SUCCESS);
    }
    let names = [&arguments.store, &arguments.with].map(|path| path.display());
    print(format!("first: {}, second: {}; {}", names[0], names[1], margin.says(design)))?;
    print(differences(&first.origin(None), &second.origin(None)))?;
    if agreement.is_empty() {
        print("the two stores have no point in common")?;
    }
    for entry in &agreement {
        print(agreement_line(entry))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The margin within which two results count as equal.
struct Margin {
    /// The margin of the command line. It applies to every response.
    asked: Option<Fraction>,
    /// Without `asked`, the margin of responses for which the file has none.
    usual: Fraction,
}

impl Margin {
    fn new(asked: Option<Fraction>) -> Result<Self, Failure> {
        Ok(Self { asked, usual: Fraction::new(0.05).map_err(Failure::failed)? })
    }

    /// Applies the margin of the command line, or the default margin if the file has none for this response.
    fn ask(&self, entry: &mut Agreement, design: &Design) {
        let silent = || design.response(&entry.response).is_none_or(|spec| spec.agreement.is_none());
        if let Some(margin) = self.asked.or_else(|| silent().then_some(self.usual)) {
            entry.ask(margin.into());
        }
    }

    /// A sentence that states when two results agree.
    fn says(&self, design: &Design) -> String {
        let silent = design.responses.iter().all(|(_, spec)| spec.agreement.is_none());
        let margin = self.asked.unwrap_or(self.usual);
        if silent || self.asked.is_some() {
            format!("second / first agrees if its whole interval lies within 1 ± {margin}")
        } else {
            format!(
                "they agree by the margins of the file; a response without one agrees if the whole interval of second / first \
                 lies within 1 ± {margin}"
            )
        }
    }
}

/// Factors that have a single level in each of the two stores, but different levels, and that have one level in the
/// file or are no longer in it. Points are compared as if they did not have these factors; the factors are listed among
/// the differences.
fn other_constants(request: &ExperimentRequest, first: &Side, second: &Side) -> BTreeSet<String> {
    let may_differ = |name: &String| {
        let levels = request.experiment.design.factor(name).map_or(1, |factor| factor.levels.len());
        levels == 1 && !request.set.contains(name)
    };
    differing_constants(&first.kept.points, &second.kept.points).into_iter().filter(may_differ).collect()
}

/// A point without some factors.
fn without(point: &Point, factors: &BTreeSet<String>) -> Point {
    point.only(|factor| !factors.contains(factor))
}

/// A store, and the version of the file or build if one is given: `netrig.db`, `netrig.db@1a2b3c4d`, or `@1a2b3c4d` for
/// the default store.
struct StoreVersion {
    store: PathBuf,
    version: Option<String>,
}

impl StoreVersion {
    fn of(typed: &Path, unnamed: &Path) -> Self {
        // A file name may contain an `@`.
        let parts = typed.to_str().filter(|_| !typed.exists()).and_then(|text| text.rsplit_once('@'));
        let Some((store, version)) = parts else { return Self { store: typed.to_owned(), version: None } };
        let store = if store.is_empty() { unnamed.to_owned() } else { store.into() };
        Self { store, version: Some(version.to_owned()) }
    }
}

/// One of the two sides of a comparison.
struct Side {
    store: PathBuf,
    kept: StoredResults,
    provenances: Provenances,
    /// Digest of the version of the file.
    digest: String,
    /// The factors that were removed from the points, with their levels.
    constants: Point,
}

impl Side {
    /// Reads the runs of the experiment from a store. All of them get the substrate name `name`.
    fn new(request: &ExperimentRequest, place: &StoreVersion, name: &str) -> Result<Self, Failure> {
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
        let mut kept =
            recorded(&store, design, version.file.id, build, |run| request.wants_whatever_level(run))
                .map_err(Failure::failed)?;
        for point in &mut kept.points {
            name.clone_into(&mut point.substrate);
        }
        let provenances = Provenances::of(&store, kept.sources.values()).map_err(Failure::failed)?;
        Ok(Self {
            store: place.store.clone(),
            kept,
            provenances,
            digest: version.file.digest,
            constants: Point::default(),
        })
    }

    /// Moves these factors from the points to `constants`.
    fn set_aside(&mut self, factors: &BTreeSet<String>) {
        let levels = factors
            .iter()
            .filter_map(|name| Some((name.clone(), constant_level(&self.kept.points, name)??.clone())));
        self.constants = levels.collect();
        if factors.is_empty() {
            return;
        }
        self.kept.points.iter_mut().for_each(|point| point.point = without(&point.point, factors));
        let sources = std::mem::take(&mut self.kept.sources).into_iter();
        self.kept.sources = sources.map(|(point, of)| (without(&point, factors), of)).collect();
    }

    /// Keeps only the points with the levels of `--set`.
    fn narrow(&mut self, request: &ExperimentRequest, constants: &BTreeSet<String>) -> Result<(), Failure> {
        let plan = request.experiment.plan();
        let wanted: BTreeSet<Point> =
            (0..plan.len()).map(|place| without(&plan.point(place), constants)).collect();
        self.kept.points.retain(|point| wanted.contains(&point.point));
        self.kept.sources.retain(|point, _| wanted.contains(point));
        if self.kept.points.is_empty() {
            return Err(Failure::request(format!(
                "the store {} has no runs of `{}` at the levels that --set asks for",
                self.store.display(),
                request.experiment.design.name
            )));
        }
        Ok(())
    }

    /// Where, when and with which build the runs of one point were made; with `None`, those of all points.
    fn origin(&self, point: Option<&Point>) -> RunOrigin {
        let sources = &self.kept.sources;
        let origin = |of: &mut dyn Iterator<Item = &RunSources>| {
            self.provenances.origin(&self.digest, &self.constants, of)
        };
        match point {
            Some(point) => origin(&mut sources.get(point).into_iter()),
            None => origin(&mut sources.values()),
        }
    }
}

/// The entry in the JSON document, with the differences between the origins of the runs. The entry for all points also
/// has both origins.
fn document(agreement: &Agreement, sides: [&Side; 2]) -> serde_json::Result<serde_json::Value> {
    let mut entry = serde_json::to_value(agreement)?;
    let all = agreement.factors.levels().is_empty();
    let [first, second] = sides.map(|side| side.origin((!all).then_some(&agreement.factors)));
    entry["changed"] = serde_json::to_value(first.changes(&second))?;
    if all {
        entry["made"] = serde_json::to_value([first, second])?;
    }
    Ok(entry)
}
