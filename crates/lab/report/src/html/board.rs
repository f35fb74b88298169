//! The overview of claims.

use netrig_experiment::ClaimPoint;

use super::elements::{aside, headings, table, verdict, verdict_class};
use super::interval::IntervalScale;
use crate::Report;
use crate::board::{ClaimExhibit, ClaimLine, DecidingComparison};
use netrig_core::xml::Markup;

/// The width of an interval drawing, pixels.
const DRAWN: f64 = 110.0;

pub(super) fn section(m: &mut Markup, report: &Report<'_>) {
    let lines = ClaimLine::all(report);
    m.inside("div", &[("class", "beside")], |m| {
        table(m, "board", "Every claim, the comparison that decided it, and where to see it", |m| {
            headings(m, ["verdict", "claim", "estimate", "claimed", "n", "adjusted p", "see"]);
            m.inside("tbody", &[], |m| {
                for (n, line) in lines.iter().enumerate() {
                    m.inside("tr", &[("class", &verdict_class(line.claim.verdict))], |m| row(m, n, line));
                }
            });
        });
        let claims = report.experiment.design.claims.iter();
        aside(m, report, claims.map(|(_, claim)| claim.response.as_str()), &[]);
    });
}

fn row(m: &mut Markup, n: usize, line: &ClaimLine<'_>) {
    m.inside("td", &[], |m| {
        m.inside("span", &[("class", "badge")], |m| verdict(m, "span", line.claim.verdict));
    });
    m.inside("th", &[("scope", "row")], |m| {
        m.element("a", &[("href", &format!("#claim-{}", n + 1))], &line.claim.says);
        if let Some(substrate) = line.substrate {
            m.text(format!(" on {substrate}"));
        }
        if !line.places.is_empty() {
            m.element("small", &[], &line.places);
        }
    });
    match &line.decided {
        Some(decided) => numbers(m, decided),
        None => m.element("td", &[("colspan", "3"), ("class", "muted")], &line.claim.why),
    }
    m.element("td", &[("class", "n"), ("data-is", "adjusted:")], line.p().unwrap_or_else(|| "–".into()));
    m.inside("td", &[("data-is", "see:")], |m| {
        let (kind, place) = match line.exhibit {
            ClaimExhibit::Figure(place, _) => ("figure", place),
            ClaimExhibit::Table(place, _) => ("table", place),
            ClaimExhibit::Responses => return m.element("a", &[("href", "#responses")], line.exhibit.name()),
        };
        m.element("a", &[("href", &format!("#{kind}-{}", place + 1))], line.exhibit.name());
    });
}

fn numbers(m: &mut Markup, decided: &DecidingComparison<'_>) {
    let point: &ClaimPoint = decided.point;
    m.inside("td", &[("class", "n")], |m| {
        if !decided.what.is_empty() {
            m.element("small", &[], &decided.what);
        }
        m.text(&decided.estimate);
    });
    m.inside("td", &[("data-is", "claimed:")], |m| {
        m.text(&decided.claimed);
        IntervalScale::new(&[point], DRAWN).draw(m, point);
    });
    m.element("td", &[("class", "n"), ("data-is", "n =")], point.n);
}
