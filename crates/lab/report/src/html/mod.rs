//! The report as one page.

mod agreement;
mod board;
mod claims;
mod design;
mod figures;
mod interval;
mod points;
mod tables;
mod warnings;

use netrig_experiment::ClaimVerdict;

use crate::Report;
use crate::chart::{Palette, Theme};
use crate::number::percent;
use crate::prose;
use crate::sheet::{counted, counts, sign, unit_words, words};
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
    m.inside("nav", &[("aria-label", "Contents")], |m| contents(m, report, &sections));
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

/// The sections, and the tables and figures in them.
fn contents(m: &mut Markup, report: &Report<'_>, sections: &[Section]) {
    m.inside("ul", &[], |m| {
        for Section { id, title, .. } in sections {
            let parts: Vec<&str> = match *id {
                "tables" => report.results.tables.iter().map(|table| table.title.as_str()).collect(),
                "figures" => report.figures.iter().map(|figure| figure.title.as_str()).collect(),
                _ => Vec::new(),
            };
            m.inside("li", &[], |m| {
                m.element("a", &[("href", &format!("#{id}"))], title);
                if !parts.is_empty() {
                    m.inside("ul", &[], |m| {
                        for (n, part) in parts.iter().enumerate() {
                            let place = format!("#{}-{}", id.trim_end_matches('s'), n + 1);
                            m.inside("li", &[], |m| m.element("a", &[("href", &place)], part));
                        }
                    });
                }
            });
        }
    });
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
        // The script shows it; without the script the page follows the reader's system.
        m.element("button", &[("id", "theme"), ("type", "button"), ("hidden", "hidden")], "Dark");
    });
    m.element("h1", &[], &results.experiment);
    if !report.experiment.question.is_empty() {
        m.element("p", &[("class", "question")], &report.experiment.question);
    }
    tally(m, report);
    m.element("p", &[("class", "muted")], facts(report));
}

/// How many claims have which verdict, as a number and a word each.
fn tally(m: &mut Markup, report: &Report<'_>) {
    let claims = report.results.claims.len();
    if claims == 0 {
        return;
    }
    let label = format!("Of {}", counted(claims, "claim"));
    m.inside("ul", &[("class", "tally"), ("aria-label", &label)], |m| {
        m.element("li", &[], format!("{label}:"));
        for (count, verdict) in counts(report) {
            m.inside("li", &[("class", &verdict_class(verdict))], |m| {
                m.element("strong", &[], count);
                m.text(" ");
                self::verdict(m, "span", verdict);
            });
        }
    });
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
        "{}, {} on {}; intervals hold with {} confidence; netrig {}",
        counted(points, "point"),
        counted(runs, "run"),
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
    m.inside("div", &[("class", "readme")], |m| m.raw(&prose::markup(report.readme)));
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

/// What a study says under a figure or a table, in Markdown.
fn note(m: &mut Markup, note: Option<&str>) {
    if let Some(note) = note {
        m.inside("div", &[("class", "note")], |m| m.raw(&prose::markup(note)));
    }
}

/// A verdict as a sign and a word; its colour comes from the class.
fn verdict(m: &mut Markup, tag: &str, verdict: ClaimVerdict) {
    judged(m, tag, &verdict_class(verdict), sign(verdict), verdict.name());
}

/// A sign and a word in the colour of a class of verdicts.
fn judged(m: &mut Markup, tag: &str, class: &str, sign: &str, word: &str) {
    m.inside(tag, &[("class", &format!("verdict {class}"))], |m| {
        m.element("span", &[("aria-hidden", "true")], sign);
        m.text(format!(" {word}"));
    });
}

/// The class that gives something the colour of a verdict.
fn verdict_class(verdict: ClaimVerdict) -> String {
    verdict.name().replace(' ', "-")
}

/// The definitions of `responses`, each once, and of further `terms`, in the margin of where they are used.
fn aside<'a>(
    m: &mut Markup,
    report: &Report<'_>,
    responses: impl IntoIterator<Item = &'a str>,
    terms: &[(String, String)],
) {
    let mut said: Vec<(String, String)> = Vec::new();
    for name in responses {
        let Some(spec) = report.experiment.design.response(name) else { continue };
        let definition =
            format!("{} ({} of {}, {})", spec.definition(), spec.metric, spec.of, unit_words(spec.unit()));
        if said.iter().all(|(known, _)| *known != words(name)) {
            said.push((words(name), definition));
        }
    }
    if said.is_empty() && terms.is_empty() {
        return;
    }
    m.inside("aside", &[("aria-label", "Definitions")], |m| {
        m.inside("dl", &[], |m| {
            for (term, definition) in terms.iter().chain(&said) {
                m.element("dt", &[], term);
                m.element("dd", &[], definition);
            }
        });
    });
}

/// Headings of factors as words.
fn factor_heading(name: &str) -> String {
    words(name)
}
