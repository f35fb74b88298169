//! `netrig export`.

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use netrig_report::chart::Theme;
use netrig_runner::provenance;
use netrig_store::{Store, Table};

use crate::arguments::{Export, ExportFormat};
use crate::build::BUILD;
use crate::commands::report::{of, stored};
use crate::commands::version;
use crate::failure::Failure;
use crate::output::{replace, tell};
use crate::request::Request;

/// Writes runs as CSV or Parquet, or figures as SVG.
pub fn export(arguments: &Export) -> Result<ExitCode, Failure> {
    let request = Request::new(&arguments.which)?;
    match arguments.format {
        ExportFormat::Csv | ExportFormat::Parquet => runs(arguments, &request)?,
        ExportFormat::Svg => figures(arguments, &request)?,
    }
    Ok(ExitCode::SUCCESS)
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
