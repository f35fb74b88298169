//! Writes reports of synthetic results and their figures into a folder, for inspection.
//!
//! `cargo run -p netrig-report --example example_reports -- FOLDER`
#![allow(clippy::disallowed_methods, reason = "an example writes what it draws")]

#[path = "../tests/it/fixture.rs"]
mod fixture;

use std::path::Path;

use netrig_report::Report;
use netrig_report::chart::Theme;

fn main() -> std::io::Result<()> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| ".".into());
    let folder = Path::new(&folder);
    let (outage, queue, phones) = (fixture::outage(), fixture::queue(), fixture::phones());
    let beside = fixture::beside();
    let readme = "# Outages\n\nWhat happens while a link is *down*.\n\n* first\n* second\n";
    let reports = [
        (
            "outage",
            Report::new(&outage.experiment, &outage.text, &outage.results)
                .with_figure(fixture::window())
                .with_readme(readme),
        ),
        ("queue", Report::new(&queue.experiment, &queue.text, &queue.results)),
        ("phones", Report::new(&phones.experiment, &phones.text, &phones.results)),
        ("beside", Report::new(&beside.experiment, &beside.text, &beside.results)),
    ];
    for (name, report) in reports {
        let file = |ending: &str| folder.join(format!("{name}.{ending}"));
        std::fs::write(file("html"), report.html())?;
        std::fs::write(file("md"), report.markdown())?;
        std::fs::write(file("csv"), report.csv())?;
        std::fs::write(file("json"), report.json(true))?;
        std::fs::write(file("txt"), report.terminal(100))?;
        for (theme, word) in [(Theme::Light, "light"), (Theme::Dark, "dark")] {
            for (figure, svg) in report.figures_svg(theme) {
                std::fs::write(folder.join(format!("{name}-{figure}-{word}.svg")), svg)?;
            }
        }
    }
    Ok(())
}
