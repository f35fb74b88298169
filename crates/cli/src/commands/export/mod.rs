//! `netrig export`.

mod capture;
mod delivery;
mod drawn;
mod events;
mod playback;
mod run_figure;
mod sequence;
mod video;

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use netrig_report::Coverage;
use netrig_report::chart::Theme;
use netrig_runner::provenance;
use netrig_store::{ReplicationTable, Store, StoreError};

use crate::arguments::{Export, ExportFormat, Exported, Which};
use crate::build::BUILD;
use crate::commands::report::{Stored, of, stored};
use crate::commands::version;
use crate::coverage::may_replace;
use crate::failure::Failure;
use crate::output::{Outgoing, replace, tell};
use crate::request::ExperimentRequest;

use capture::capture;
use events::events;
use run_figure::run_figure;

/// Writes runs as CSV or Parquet, figures as SVG, or one run's packets as a capture or a figure.
pub fn export(arguments: &Export) -> Result<ExitCode, Failure> {
    let exported = arguments.form.exported();
    if exported != Exported::Format(ExportFormat::Events) && !arguments.capture.link.is_empty() {
        return Err(Failure::request("--link is for events; captures take --node"));
    }
    let format = match (exported, &arguments.capture.run) {
        (Exported::Format(ExportFormat::Pcapng), Some(run)) => return capture(arguments, run),
        (Exported::Format(ExportFormat::Events), Some(run)) => return events(arguments, run),
        (Exported::Figure(figure), Some(run)) => return run_figure(arguments, figure, run),
        (Exported::Format(ExportFormat::Pcapng | ExportFormat::Events) | Exported::Figure(_), None) => {
            return Err(Failure::request(
                "--pcapng, --figure and --format events are for one run: give --run ID instead of an experiment; \
                 `netrig list` prints the runs",
            ));
        }
        (Exported::Format(format), _) => format,
    };
    let experiment = arguments.experiment.as_ref().ok_or_else(|| {
        Failure::request(
            "--run is for --pcapng, --figure and --format events; csv, parquet and svg take an experiment",
        )
    })?;
    let request = ExperimentRequest::new(&Which {
        experiment: experiment.clone(),
        changes: arguments.changes.clone(),
    })?;
    if format == ExportFormat::Svg {
        figures(arguments, &request)?
    } else {
        runs(arguments, format, &request)?
    }
    Ok(ExitCode::SUCCESS)
}

fn runs(arguments: &Export, format: ExportFormat, request: &ExperimentRequest) -> Result<(), Failure> {
    let store = Store::open_read_only(&arguments.place.store).map_err(Failure::request)?;
    // The rows are read twice. The snapshot hides rows that other processes add in between.
    let _snapshot = store.snapshot().map_err(Failure::failed)?;
    let version = version::latest(&store, request)?.id;
    let table = ReplicationTable::of(&store, version, |run| request.wants(run)).map_err(Failure::failed)?;
    if table.rows() == 0 {
        return Err(Failure::request(format!(
            "the store {} has no runs of `{}` at the levels, replications, seeds and substrates that the command names; \
             `netrig run` with the same options makes them",
            store.path().display(),
            request.experiment.design.name
        )));
    }
    let made = Coverage::of_table(&request.experiment.design.name, request.is_part, &table);
    if !arguments.force {
        may_replace(&made, &arguments.out)?;
    }
    let mut file = Outgoing::open(&arguments.out)?;
    let written = match format {
        ExportFormat::Parquet => table.write_parquet(&store, file.writer(), &[("coverage", &made.stamp())]),
        _ => table.write_csv(&store, file.writer()),
    };
    written.map_err(|error| match error {
        StoreError::Output(error) => file.lost(&error),
        other => Failure::failed(other),
    })?;
    file.finish()?;
    tell(&arguments.out, &format!("{} runs: {}", table.rows(), arguments.out.display()))
}

fn figures(arguments: &Export, request: &ExperimentRequest) -> Result<(), Failure> {
    let Stored { store, results, is_complete } = stored(request, &arguments.place.store)?;
    let provenance = [provenance(&BUILD, &[])];
    let report = of(request, &results, &provenance, &store, &AtomicBool::new(false))?;
    let made = Coverage::of(&results, request.is_part || !is_complete);
    let file = |name: &str, ending: &str| arguments.out.join(format!("{}-{name}.{ending}", request.stem));
    let drawings: Vec<_> = report
        .figures_svg(Theme::Light)
        .into_iter()
        .map(|(name, svg)| (file(&name, "svg"), svg + &made.comment()))
        .collect();
    let pictures: Vec<_> =
        report.pictures_png().map(|(name, picture)| (file(&name, "png"), picture)).collect();
    // All files are checked before the first is written: a folder with figures of the whole experiment and of a part
    // would look like one set.
    if !arguments.force {
        drawings.iter().try_for_each(|(path, _)| may_replace(&made, path))?;
        // A PNG file has no stamp. The file name of a part's picture contains the changes.
        if !is_complete {
            pictures.iter().try_for_each(|(path, _)| may_replace(&made, path))?;
        }
    }
    for (path, svg) in &drawings {
        replace(path, svg.as_bytes())?;
        tell(path, &format!("figure: {}", path.display()))?;
    }
    for (path, picture) in &pictures {
        replace(path, &picture.png)?;
        tell(path, &format!("{}: {}: {}", picture.title(), picture.says, path.display()))?;
    }
    Ok(())
}
