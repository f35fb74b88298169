//! The figures, each with its numbers.

use netrig_experiment::FigureData;

use super::{details, headings, table};
use crate::Report;
use crate::chart::{Chart, Marks, Theme};
use crate::figure;
use crate::markup::Markup;

pub(super) fn section(m: &mut Markup, report: &Report<'_>) {
    for (n, data) in report.figures.iter().enumerate() {
        if figure::is_empty(data) {
            m.inside("p", &[("class", "muted")], |m| {
                m.element("strong", &[], &data.title);
                m.text(": nothing was measured at the points that it shows.");
            });
            continue;
        }
        let chart = report.chart(data);
        let heading = format!("figure-{}-title", n + 1);
        m.inside("figure", &[("id", &format!("figure-{}", n + 1)), ("aria-labelledby", &heading)], |m| {
            m.element("h3", &[("id", &heading)], &chart.title);
            // Drawn once, in the light theme's colours; the style gives it those of the reader's.
            m.inside(
                "div",
                &[("class", "scroll"), ("tabindex", "0"), ("role", "region"), ("aria-label", &chart.title)],
                |m| {
                    m.raw(&chart.plot(figure::width(&chart), Theme::Light));
                },
            );
            m.element("figcaption", &[], &chart.caption);
            let sources = sources(data);
            if !sources.is_empty() {
                m.element("p", &[("class", "muted")], sources);
            }
            numbers(m, &chart);
        });
    }
}

/// Where the dashed lines come from.
fn sources(data: &FigureData) -> String {
    let mut said: Vec<String> = Vec::new();
    for line in data.panels.iter().flat_map(|panel| &panel.theory) {
        let source = format!("Dashed: {}, {}.", line.name, line.source);
        if !said.contains(&source) {
            said.push(source);
        }
    }
    said.join(" ")
}

/// Traces have too many points to be listed.
const LISTED: usize = 2000;

/// Everything that one can point at in the figure, as a table: for those who do not see it, or do not believe it.
fn numbers(m: &mut Markup, chart: &Chart) {
    let listed = [Marks::Measured, Marks::Paper, Marks::PaperLevel];
    let layers = || {
        let panels =
            chart.panels.iter().flat_map(|panel| panel.layers.iter().map(move |layer| (panel, layer)));
        panels.filter(|(_, layer)| listed.contains(&layer.marks))
    };
    let count: usize = layers().map(|(_, layer)| layer.points.len()).sum();
    if count == 0 || count > LISTED {
        return;
    }
    let panels = chart.panels.iter().any(|panel| !panel.title.is_empty());
    let series = chart.series.len() > 1;
    details(m, "The numbers of this figure", false, |m| {
        table(m, "numbers", &format!("{}: the numbers", chart.title), |m| {
            let columns = [(panels, "panel"), (series, "series"), (true, "point")];
            headings(m, columns.into_iter().filter(|(wanted, _)| *wanted).map(|(_, name)| name.to_owned()));
            m.inside("tbody", &[], |m| {
                for (panel, layer) in layers() {
                    for mark in &layer.points {
                        m.inside("tr", &[], |m| {
                            if panels {
                                m.element("td", &[], &panel.title);
                            }
                            if series {
                                m.element("td", &[], layer.series.map_or("", |n| &chart.series[n]));
                            }
                            m.element("td", &[], &mark.says);
                        });
                    }
                }
            });
        });
    });
}
