//! `netrig export`.

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use netrig_report::chart::Theme;
use netrig_runner::provenance;
use netrig_store::{Store, Table};

use crate::arguments::{Export, ExportFormat, Which};
use crate::build::BUILD;
use crate::commands::capture::capture;
use crate::commands::delivery::delivery;
use crate::commands::events::events;
use crate::commands::report::{of, stored};
use crate::commands::sequence::sequence;
use crate::commands::version;
use crate::failure::Failure;
use crate::output::{replace, tell};
use crate::request::Request;

/// Writes runs as CSV or Parquet, figures as SVG, or what one run sent as a capture or a figure.
pub fn export(arguments: &Export) -> Result<ExitCode, Failure> {
    if arguments.format != ExportFormat::Events && !arguments.capture.link.is_empty() {
        return Err(Failure::request("--link is for events; packets are captured at a --node"));
    }
    match (arguments.format, &arguments.experiment, &arguments.capture.run) {
        (ExportFormat::Pcapng, _, Some(run)) => return capture(arguments, run),
        (ExportFormat::Sequence, _, Some(run)) => return sequence(arguments, run),
        (ExportFormat::Csv | ExportFormat::Parquet, Some(experiment), _) => {
            runs(arguments, &request(arguments, experiment)?)?;
        }
        (ExportFormat::Svg, Some(experiment), _) => figures(arguments, &request(arguments, experiment)?)?,
        (ExportFormat::Delivery, _, Some(run)) => return delivery(arguments, run),
        (ExportFormat::Events, _, Some(run)) => return events(arguments, run),
        (
            ExportFormat::Pcapng | ExportFormat::Sequence | ExportFormat::Delivery | ExportFormat::Events,
            _,
            None,
        ) => {
            return Err(Failure::request(
                "pcapng, sequence, delivery and events are of one run: --run ID in the place of an experiment; `netrig list` prints \
                 what there is",
            ));
        }
        (_, None, _) => {
            return Err(Failure::request(
                "--run is for pcapng, sequence, delivery and events; csv, parquet and svg are of an experiment",
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn request(arguments: &Export, experiment: &str) -> Result<Request, Failure> {
    Request::new(&Which { experiment: experiment.to_owned(), changes: arguments.changes.clone() })
}

fn runs(arguments: &Export, request: &Request) -> Result<(), Failure> {
    let store = Store::open_read_only(&arguments.place.store).map_err(Failure::request)?;
    let table = Table::of(&store, version::latest(&store, request)?.id).map_err(Failure::failed)?;
    let mut bytes = Vec::new();
    match arguments.format {
        ExportFormat::Parquet => table.write_parquet(&mut bytes),
        _ => table.write_csv(&mut bytes),
    }
    .map_err(Failure::failed)?;
    replace(&arguments.out, &bytes)?;
    tell(&arguments.out, &format!("{} runs: {}", table.rows(), arguments.out.display()))
}

fn figures(arguments: &Export, request: &Request) -> Result<(), Failure> {
    let results = stored(request, &arguments.place.store)?;
    let provenance = [provenance(&BUILD, &[])];
    let report = of(request, &results, &provenance, &AtomicBool::new(false))?;
    for (name, svg) in report.figures_svg(Theme::Light) {
        let path = arguments.out.join(format!("{name}.svg"));
        replace(&path, svg.as_bytes())?;
        tell(&path, &format!("figure: {}", path.display()))?;
    }
    Ok(())
}
