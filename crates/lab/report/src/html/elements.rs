//! Elements from which the sections of a page are built: tables, details, notes, verdicts, definitions.

use std::fmt::Display;

use netrig_core::xml::Markup;
use netrig_experiment::ClaimVerdict;

use crate::wording::{sign, unit_words};
use crate::{Report, prose};
use netrig_core::text::words;

/// The head of a table: a row of headings.
pub(super) fn headings(m: &mut Markup, names: impl IntoIterator<Item = impl Display>) {
    m.inside("thead", &[], |m| {
        m.inside("tr", &[], |m| {
            for name in names {
                m.element("th", &[("scope", "col")], name);
            }
        });
    });
}

/// The body of a table: a row for each item.
pub(super) fn rows<T>(m: &mut Markup, items: impl IntoIterator<Item = T>, row: impl Fn(&mut Markup, T)) {
    m.inside("tbody", &[], |m| {
        for item in items {
            m.inside("tr", &[], |m| row(m, item));
        }
    });
}

/// A list of terms, each with its definition.
pub(super) fn terms(m: &mut Markup, terms: impl IntoIterator<Item = (impl Display, impl Display)>) {
    m.inside("dl", &[], |m| {
        for (term, text) in terms {
            m.element("dt", &[], term);
            m.element("dd", &[], text);
        }
    });
}

/// A table with its caption, which scrolls horizontally on a narrow page.
pub(super) fn table(m: &mut Markup, class: &str, caption: &str, rows: impl FnOnce(&mut Markup)) {
    // A scrolling region must be reachable by keyboard (WCAG 2.1.1), and therefore needs a name.
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

/// A collapsible part of the page.
pub(super) fn details(m: &mut Markup, summary: &str, open: bool, inner: impl FnOnce(&mut Markup)) {
    let attributes: &[(&str, &str)] = if open { &[("open", "open")] } else { &[] };
    m.inside("details", attributes, |m| {
        m.element("summary", &[], summary);
        inner(m);
    });
}

/// The note of a study under a figure or a table, in Markdown.
pub(super) fn note(m: &mut Markup, note: Option<&str>) {
    if let Some(note) = note {
        m.inside("div", &[("class", "note")], |m| m.raw(&prose::markup(note)));
    }
}

/// A verdict as a symbol and a word. Its class sets its colour.
pub(super) fn verdict(m: &mut Markup, tag: &str, verdict: ClaimVerdict) {
    judged(m, tag, &verdict_class(verdict), sign(verdict), verdict.name());
}

/// A symbol and a word in the colour of a verdict's class.
pub(super) fn judged(m: &mut Markup, tag: &str, class: &str, sign: &str, word: &str) {
    m.inside(tag, &[("class", &format!("verdict {class}"))], |m| {
        m.element("span", &[("aria-hidden", "true")], sign);
        m.text(format!(" {word}"));
    });
}

/// The class that has the colour of a verdict.
pub(super) fn verdict_class(verdict: ClaimVerdict) -> String {
    verdict.name().replace(' ', "-")
}

/// The definitions of `responses` (each once) and of further `terms`, in the margin.
pub(super) fn aside<'a>(
    m: &mut Markup,
    report: &Report<'_>,
    responses: impl IntoIterator<Item = &'a str>,
    terms: &[(String, String)],
) {
    let mut definitions: Vec<(String, String)> = Vec::new();
    for name in responses {
        let Some(spec) = report.experiment.design.response(name) else { continue };
        let definition =
            format!("{} ({} of {}, {})", spec.definition(), spec.metric, spec.of, unit_words(spec.unit()));
        if definitions.iter().all(|(known, _)| *known != words(name)) {
            definitions.push((words(name), definition));
        }
    }
    if definitions.is_empty() && terms.is_empty() {
        return;
    }
    m.inside("aside", &[("aria-label", "Definitions")], |m| {
        self::terms(m, terms.iter().chain(&definitions).map(|(term, definition)| (term, definition)));
    });
}
