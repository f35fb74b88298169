//! The report as one HTML page.

mod agreement;
mod board;
mod claims;
mod design;
mod elements;
mod figures;
mod interval;
mod points;
mod tables;
mod warnings;

use crate::Report;
use crate::chart::{Palette, Theme};
use crate::prose;
use netrig_core::number::percent;

use crate::wording::{counted, counts};
use netrig_core::xml::Markup;

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
    // The CDATA section hides markup characters from XML. The comments hide the CDATA delimiters from CSS.
    m.inside("style", &[], |m| m.raw(&format!("/*<![CDATA[*/\n{}{STYLE}/*]]>*/", colours())));
}

/// The colours of both themes as CSS variables, shared by the page and its charts.
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
    m.inside("nav", &[("aria-label", "Contents")], |m| contents(m, report, &sections));
    m.inside("main", &[], |m| {
        for PageSection { id, title, write } in sections {
            m.inside("section", &[("id", id), ("aria-labelledby", &format!("{id}-title"))], |m| {
                m.element("h2", &[("id", &format!("{id}-title"))], title);
                write(m, report);
            });
        }
    });
    m.inside("div", &[("id", "tip"), ("role", "status"), ("hidden", "hidden")], |_| {});
    m.inside("script", &[], |m| m.raw(&format!("/*<![CDATA[*/\n{SCRIPT}/*]]>*/")));
}

/// The table of contents: links to the sections, and to their tables and figures.
fn contents(m: &mut Markup, report: &Report<'_>, sections: &[PageSection]) {
    m.inside("ul", &[], |m| {
        for PageSection { id, title, .. } in sections {
            let (kind, parts): (&str, Vec<&str>) = match *id {
                "tables" => {
                    ("table", report.results.tables.iter().map(|table| table.title.as_str()).collect())
                }
                "figures" => ("figure", report.figures.iter().map(|figure| figure.title.as_str()).collect()),
                _ => ("", Vec::new()),
            };
            m.inside("li", &[], |m| {
                m.element("a", &[("href", &format!("#{id}"))], title);
                if !parts.is_empty() {
                    m.inside("ul", &[], |m| {
                        for (n, part) in parts.iter().enumerate() {
                            let place = format!("#{kind}-{}", n + 1);
                            m.inside("li", &[], |m| m.element("a", &[("href", &place)], part));
                        }
                    });
                }
            });
        }
    });
}

struct PageSection {
    id: &'static str,
    title: &'static str,
    write: fn(&mut Markup, &Report<'_>),
}

/// The sections that have content, most important first.
fn sections(report: &Report<'_>) -> Vec<PageSection> {
    let results = report.results;
    let mut sections = Vec::new();
    let mut add = |wanted: bool, id, title, write: fn(&mut Markup, &Report<'_>)| {
        if wanted {
            sections.push(PageSection { id, title, write });
        }
    };
    add(!results.claims.is_empty(), "claims", "Verdicts", board::section);
    add(warnings::are_there(report), "warnings", "Warnings", warnings::section);
    add(!results.tables.is_empty(), "tables", "Tables", tables::section);
    add(!report.figures.is_empty(), "figures", "Figures", figures::section);
    add(!results.agreement.is_empty(), "agreement", "Agreement of substrates", agreement::section);
    add(!results.claims.is_empty(), "evidence", "What decided the claims", claims::section);
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
        // The script shows this button. Without the script, the page follows the theme of the reader's system.
        m.element("button", &[("id", "theme"), ("type", "button"), ("hidden", "hidden")], "Dark");
    });
    m.element("h1", &[], &results.experiment);
    if !report.experiment.question.is_empty() {
        m.element("p", &[("class", "question")], &report.experiment.question);
    }
    tally(m, report);
    m.element("p", &[("class", "muted")], facts(report));
}

/// The number of claims for each verdict.
fn tally(m: &mut Markup, report: &Report<'_>) {
    let claims = report.results.claims.len();
    if claims == 0 {
        return;
    }
    let label = format!("Of {}", counted(claims, "claim"));
    m.inside("ul", &[("class", "tally"), ("aria-label", &label)], |m| {
        m.element("li", &[], format!("{label}:"));
        for (count, verdict) in counts(report) {
            m.inside("li", &[("class", &elements::verdict_class(verdict))], |m| {
                m.element("strong", &[], count);
                m.text(" ");
                elements::verdict(m, "span", verdict);
            });
        }
    });
}

/// One line with the facts that the reader needs to judge the numbers.
fn facts(report: &Report<'_>) -> String {
    let results = report.results;
    let points = results.points.len();
    let runs: usize = results
        .points
        .iter()
        .map(|point| point.responses.values().map(|response| response.runs.len()).max().unwrap_or(0))
        .sum();
    format!(
        "{}, {} on {}; intervals have {} confidence; netrig {}",
        counted(points, "point"),
        counted(runs, "run"),
        results.substrates().join(" and "),
        percent(results.confidence),
        results.build,
    )
}

/// The text of the study's README.
fn about(m: &mut Markup, report: &Report<'_>) {
    m.inside("div", &[("class", "readme")], |m| m.raw(&prose::markup(report.readme)));
}
