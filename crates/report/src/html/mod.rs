//! The report as one page.

mod claims;
mod design;
mod figures;
mod points;
mod readme;
mod tables;
mod warnings;

use crate::Report;
use crate::chart::{Palette, Theme};
use crate::markup::Markup;
use crate::number::percent;
use crate::sheet::{tally, words};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// The whole page.
pub(crate) fn page(report: &Report<'_>) -> String {
    let mut m = Markup::default();
    m.raw("<!DOCTYPE html>\n");
    m.inside("html", &[("xmlns", "http://www.w3.org/1999/xhtml"), ("lang", "en")], |m| {
        m.inside("head", &[], |m| head(m, report));
        m.inside("body", &[], |m| body(m, report));
    });
    m.finish()
}

fn head(m: &mut Markup, report: &Report<'_>) {
    m.empty("meta", &[("charset", "utf-8")]);
    m.empty("meta", &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")]);
    m.empty("meta", &[("name", "color-scheme"), ("content", "light dark")]);
    m.element("title", &[], format!("{}: netrig report", report.results.experiment));
    // Characters that XML would take for markup are hidden from it, and the lines that hide them from HTML.
    m.inside("style", &[], |m| m.raw(&format!("/*<![CDATA[*/\n{}{STYLE}/*]]>*/", colours())));
}

/// The colours of both themes as variables: the page's and the charts' come from the same place.
fn colours() -> String {
    let of = |theme: Theme| {
        let Palette { background, raised, text, muted, axis, grid, span, verdicts, series } = theme.palette();
        let [supported, refuted, inconclusive, untested] = verdicts;
        let series: String =
            series.iter().enumerate().map(|(n, colour)| format!("--s{n}:{colour};")).collect();
        format!(
            "--bg:{background};--raised:{raised};--text:{text};--muted:{muted};--axis:{axis};--grid:{grid};--span:{span};\
             --supported:{supported};--refuted:{refuted};--inconclusive:{inconclusive};--not-tested:{untested};{series}"
        )
    };
    let (light, dark) = (of(Theme::Light), of(Theme::Dark));
    let hues: String = (0..Theme::Light.palette().series.len())
        .map(|n| {
            format!(
                ".chart .s{n}{{stroke:var(--s{n})}}.chart .mark.s{n}{{fill:var(--s{n})}}.chart .mark.cross.s{n}{{fill:none}}\n"
            )
        })
        .collect();
    format!(
        ":root{{{light}}}\n\
         @media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}color-scheme:dark}}}}\n\
         @media screen{{:root[data-theme=dark]{{{dark}color-scheme:dark}}:root[data-theme=light]{{color-scheme:light}}}}\n{hues}"
    )
}

fn body(m: &mut Markup, report: &Report<'_>) {
    m.inside("header", &[], |m| header(m, report));
    let sections = sections(report);
    m.inside("nav", &[("aria-label", "Sections")], |m| {
        m.inside("ul", &[], |m| {
            for Section { id, title, .. } in &sections {
                m.inside("li", &[], |m| m.element("a", &[("href", &format!("#{id}"))], title));
            }
        });
    });
    m.inside("main", &[], |m| {
        for Section { id, title, write } in sections {
            m.inside("section", &[("id", id), ("aria-labelledby", &format!("{id}-title"))], |m| {
                m.element("h2", &[("id", &format!("{id}-title"))], title);
                write(m, report);
            });
        }
    });
    m.inside("div", &[("id", "tip"), ("role", "status"), ("hidden", "hidden")], |_| {});
    m.inside("script", &[], |m| m.raw(&format!("/*<![CDATA[*/\n{SCRIPT}/*]]>*/")));
}

struct Section {
    id: &'static str,
    title: &'static str,
    write: fn(&mut Markup, &Report<'_>),
}

/// What the report has something to say about, the most important first.
fn sections(report: &Report<'_>) -> Vec<Section> {
    let results = report.results;
    let mut sections = Vec::new();
    let mut add = |wanted: bool, id, title, write: fn(&mut Markup, &Report<'_>)| {
        if wanted {
            sections.push(Section { id, title, write });
        }
    };
    add(!results.claims.is_empty(), "claims", "Verdicts", claims::section);
    add(warnings::are_there(report), "warnings", "Warnings", warnings::section);
    add(!results.tables.is_empty(), "tables", "Tables", tables::section);
    add(!report.figures.is_empty(), "figures", "Figures", figures::section);
    add(!results.agreement.is_empty(), "agreement", "Agreement of substrates", points::agreement);
    add(true, "responses", "Every response at every point", points::section);
    add(true, "definitions", "What was measured", design::definitions);
    add(true, "design", "Design", design::design);
    add(true, "made", "How it was made", design::made);
    add(!report.readme.is_empty(), "readme", "About the study", about);
    sections
}

fn header(m: &mut Markup, report: &Report<'_>) {
    let results = report.results;
    m.inside("p", &[("class", "kind")], |m| {
        m.text("netrig report");
        // The script shows it; without the script the page follows the reader's system.
        m.element("button", &[("id", "theme"), ("type", "button"), ("hidden", "hidden")], "Dark");
    });
    m.element("h1", &[], &results.experiment);
    if !report.experiment.question.is_empty() {
        m.element("p", &[("class", "question")], &report.experiment.question);
    }
    let tally = tally(report);
    if !tally.is_empty() {
        m.inside("p", &[("class", "tally")], |m| {
            m.text("Of ");
            m.text(results.claims.len());
            m.text(if results.claims.len() == 1 { " claim: " } else { " claims: " });
            m.element("strong", &[], tally);
            m.text(".");
        });
    }
    m.element("p", &[("class", "muted")], facts(report));
}

/// What one must know to judge the numbers, in a line.
fn facts(report: &Report<'_>) -> String {
    let results = report.results;
    let points = results.points.len();
    let runs: usize = results
        .points
        .iter()
        .map(|point| point.responses.values().map(|response| response.runs.len()).max().unwrap_or(0))
        .sum();
    format!(
        "{points} {}, {runs} {} on {}; intervals hold with {} confidence; netrig {}",
        if points == 1 { "point" } else { "points" },
        if runs == 1 { "run" } else { "runs" },
        substrates(report).join(" and "),
        percent(results.confidence),
        results.build,
    )
}

/// The substrates, each once, in the order of the results.
fn substrates<'a>(report: &'a Report<'_>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for point in &report.results.points {
        if !names.contains(&point.substrate.as_str()) {
            names.push(&point.substrate);
        }
    }
    names
}

/// The words of the study's README.
fn about(m: &mut Markup, report: &Report<'_>) {
    m.inside("div", &[("class", "readme")], |m| m.raw(&readme::markup(report.readme)));
}

/// The head of a table, a row of headings.
fn headings(m: &mut Markup, names: impl IntoIterator<Item = String>) {
    m.inside("thead", &[], |m| {
        m.inside("tr", &[], |m| {
            for name in names {
                m.element("th", &[("scope", "col")], name);
            }
        });
    });
}

/// A table that scrolls by itself where the page is narrow, with its caption.
fn table(m: &mut Markup, class: &str, caption: &str, rows: impl FnOnce(&mut Markup)) {
    // A region that scrolls must be reachable by keyboard (WCAG 2.1.1), and then it needs a name.
    m.inside(
        "div",
        &[("class", "scroll"), ("tabindex", "0"), ("role", "region"), ("aria-label", caption)],
        |m| {
            m.inside("table", &[("class", class)], |m| {
                m.element("caption", &[], caption);
                rows(m);
            });
        },
    );
}

/// Something that opens when it is wanted.
fn details(m: &mut Markup, summary: &str, open: bool, inner: impl FnOnce(&mut Markup)) {
    let attributes: &[(&str, &str)] = if open { &[("open", "open")] } else { &[] };
    m.inside("details", attributes, |m| {
        m.element("summary", &[], summary);
        inner(m);
    });
}

/// Headings of factors as words.
fn factor_heading(name: &str) -> String {
    words(name)
}
