//! The figures, each with a table of its numbers.

use data_encoding::BASE64;
use netrig_experiment::{FigureData, FigureSpec, quantities};

use super::elements::{aside, details, headings, rows, table};
use crate::chart::{Chart, Marks};
use crate::figure;
use crate::wording::level_in_words;
use crate::{Picture, Report};
use netrig_core::text::words;
use netrig_core::xml::Markup;

/// The width of the drawing for a narrow page, pixels. The style sheet selects it if the page is narrower than a limit.
const NARROW: f64 = 440.0;

pub(super) fn section(m: &mut Markup, report: &Report<'_>) {
    for (n, data) in report.figures.iter().enumerate() {
        let id = format!("figure-{}", n + 1);
        if figure::is_empty(data) {
            m.inside("p", &[("class", "muted"), ("id", &id)], |m| {
                m.element("strong", &[], &data.title);
                m.text(": nothing was measured at the points of this figure.");
            });
            continue;
        }
        let spec = report.experiment.design.figure(&data.id);
        m.inside("div", &[("class", "beside"), ("id", &id)], |m| {
            one(m, report, data, &format!("{id}-title"), spec.and_then(|spec| spec.note.as_deref()));
            let (responses, traced): (Vec<&str>, Vec<_>) = match spec {
                Some(spec) if spec.is_of_runs() => (Vec::new(), traced(spec)),
                Some(spec) => (spec.y.0.iter().map(String::as_str).collect(), Vec::new()),
                None => (Vec::new(), Vec::new()),
            };
            aside(m, report, responses, &traced);
        });
    }
}

fn one(m: &mut Markup, report: &Report<'_>, data: &FigureData, heading: &str, note: Option<&str>) {
    let chart = figure::chart(report, data);
    m.inside("figure", &[("aria-labelledby", heading)], |m| {
        m.element("h3", &[("id", heading)], &chart.title);
        let drawn = |m: &mut Markup, class: &str, plot: &str| {
            let label = ("aria-label", chart.title.as_str());
            m.inside("div", &[("class", class), ("tabindex", "0"), ("role", "region"), label], |m| {
                m.raw(plot)
            });
        };
        let plot = chart.plot(figure::width(&chart), true);
        if is_trace(&chart) {
            // A narrow trace is not readable, and a second drawing would double the size of the page. So the trace
            // scrolls.
            drawn(m, "scroll", &plot);
        } else {
            drawn(m, "scroll wide", &plot);
            // The wide drawing has the same marks. The script takes the texts of the marks from it.
            drawn(m, "scroll narrow", &chart.plot(NARROW, false));
        }
        m.element("figcaption", &[], &chart.caption);
        pictures(m, report.pictures.get(&data.id).map_or(&[], Vec::as_slice));
        super::elements::note(m, note);
        let sources = sources(data);
        if !sources.is_empty() {
            m.element("p", &[("class", "muted")], sources);
        }
        numbers(m, &chart);
    });
}

/// Pictures side by side, each with its text below it.
fn pictures(m: &mut Markup, pictures: &[Picture]) {
    if pictures.is_empty() {
        return;
    }
    m.inside("div", &[("class", "pictures")], |m| {
        for picture in pictures {
            m.inside("figure", &[], |m| {
                let source = format!("data:image/png;base64,{}", BASE64.encode(&picture.png));
                let title = picture.title();
                m.empty("img", &[("src", &source), ("alt", &title)]);
                m.inside("figcaption", &[], |m| {
                    m.element("strong", &[], title);
                    m.text(format!(": {}", picture.says));
                });
            });
        }
    });
}

fn is_trace(chart: &Chart) -> bool {
    let mut layers = chart.panels.iter().flat_map(|panel| &panel.layers);
    layers.any(|layer| matches!(layer.marks, Marks::Trace | Marks::Events))
}

/// The quantities that a figure traces, with their definitions.
fn traced(spec: &FigureSpec) -> Vec<(String, String)> {
    let known = quantities().filter(|quantity| spec.y.contains(quantity.name));
    known.map(|quantity| (words(quantity.name), quantity.doc.to_owned())).collect()
}

/// The sources of the dashed lines.
fn sources(data: &FigureData) -> String {
    let mut said: Vec<String> = Vec::new();
    for line in data.panels.iter().flat_map(|panel| &panel.theory) {
        let of = line.of.iter().flat_map(|of| {
            let levels = of.levels.iter().map(|(factor, level)| level_in_words(factor, level));
            levels.chain(of.substrate.clone())
        });
        let name: Vec<String> = std::iter::once(line.label.clone()).chain(of).collect();
        let source = format!("Dashed: {}, {}.", name.join(", "), line.source);
        if !said.contains(&source) {
            said.push(source);
        }
    }
    said.join(" ")
}

/// Largest number of points for which a figure gets a table of its numbers.
const LISTED: usize = 2000;

/// All marks of a figure as a table, for readers who cannot see the figure or want the numbers.
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
            headings(m, columns.iter().filter(|(wanted, _)| *wanted).map(|(_, name)| *name));
            let marks =
                layers().flat_map(|(panel, layer)| layer.points.iter().map(move |mark| (panel, layer, mark)));
            rows(m, marks, |m, (panel, layer, mark)| {
                if panels {
                    m.element("td", &[], &panel.title);
                }
                if series {
                    m.element("td", &[], layer.series.map_or("", |n| &chart.series[n]));
                }
                m.element("td", &[], &mark.says);
            });
        });
    });
}
