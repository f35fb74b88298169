//! `netrig report`, and the report that `netrig run` writes.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use netrig_experiment::Results;
use netrig_report::{Coverage, Report};
use netrig_runner::{found, provenance};
use netrig_store::{Provenance, Store};

use super::traced::traced;
use super::watched::watched;
use crate::arguments;
use crate::build::BUILD;
use crate::coverage::may_replace;
use crate::failure::{Failure, print};
use crate::output;
use crate::request::ExperimentRequest;

/// Writes the report of the runs in the store. No run is made, except that simulated runs are repeated if a figure
/// shows them over time.
pub fn report(arguments: &arguments::Report) -> Result<ExitCode, Failure> {
    let request = ExperimentRequest::new(&arguments.which)?;
    let out = arguments.out.as_deref().map(|out| Ok((out, Form::of(out)?))).transpose()?;
    let Stored { store, results, is_complete } = stored(&request, &arguments.place.store)?;
    let provenance = [provenance(&BUILD, &[])];
    let report = of(&request, &results, &provenance, &store, &AtomicBool::new(false))?;
    match out {
        Some((out, form)) => {
            let made = Coverage::of(&results, request.is_part || !is_complete);
            if !arguments.force {
                may_replace(&made, out)?;
            }
            form.write(&report, &made, out)?;
            output::tell(out, &format!("report: {}", out.display()))?;
        }
        None => print(report.terminal(100).trim_end())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// An experiment's runs in a store.
pub struct Stored {
    pub store: Store,
    /// The results, with the verdicts on the claims.
    pub results: Results,
    /// Whether the store has every requested run.
    pub is_complete: bool,
}

/// Opens the store, and judges the requested runs of an experiment in it. Makes no run.
pub fn stored(request: &ExperimentRequest, path: &Path) -> Result<Stored, Failure> {
    if !path.exists() {
        return Err(Failure::request(format!(
            "there is no store {}; `netrig run` creates one",
            path.display()
        )));
    }
    let store = Store::open_read_only(path).map_err(Failure::request)?;
    let ended = found(&request.experiment, &request.substrates, &BUILD, &store).map_err(Failure::failed)?;
    if ended.found == 0 {
        let name = &request.experiment.design.name;
        return Err(Failure::request(format!(
            "the store {} has no runs of `{name}` made by this netrig; `netrig run` makes them",
            path.display()
        )));
    }
    let results = Results::judge(&request.experiment.design, &ended.points, &BUILD);
    Ok(Stored { store, results, is_complete: !ended.interrupted })
}

/// The report of results, with figures of single runs.
pub fn of<'a>(
    request: &'a ExperimentRequest,
    results: &'a Results,
    provenance: &'a [Provenance],
    store: &Store,
    cancel: &AtomicBool,
) -> Result<Report<'a>, Failure> {
    let mut report =
        Report::new(&request.experiment, request.experiment.text(), results).with_provenance(provenance);
    if let Some(readme) = &request.readme {
        report = report.with_readme(readme);
    }
    for (id, spec) in &request.experiment.design.figures {
        if spec.is_trace() {
            report = report.with_figure(traced((request, results, store), (id, spec), cancel)?);
        } else if spec.is_watched() {
            report = watched(report, (request, results, store), (id, spec))?;
        }
    }
    Ok(report)
}

/// The format of a report, by the ending of its file.
#[derive(Clone, Copy)]
pub enum Form {
    Html,
    Markdown,
    Csv,
    Json,
}

impl Form {
    /// The format of this file.
    pub fn of(out: &Path) -> Result<Self, Failure> {
        match out.extension().and_then(|ending| ending.to_str()) {
            Some("html" | "htm") => Ok(Self::Html),
            Some("md") => Ok(Self::Markdown),
            Some("csv") => Ok(Self::Csv),
            Some("json") => Ok(Self::Json),
            _ => Err(Failure::request(format!(
                "cannot tell what to write from the name {}; use .html, .md, .csv or .json",
                out.display()
            ))),
        }
    }

    /// Writes the report in this format.
    pub fn write(self, report: &Report<'_>, made: &Coverage, out: &Path) -> Result<(), Failure> {
        let text = match self {
            Self::Html => report.html() + &made.comment(),
            Self::Markdown => format!("{}\n{}", report.markdown(), made.comment()),
            Self::Csv => report.csv(),
            Self::Json => report.json(true),
        };
        output::replace(out, text.as_bytes())
    }
}
