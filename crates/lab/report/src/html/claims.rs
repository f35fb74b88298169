//! All comparisons behind each verdict.

use netrig_experiment::{ClaimPoint, ClaimResult};

use super::elements::{details, headings, table, verdict, verdict_class};
use super::interval::IntervalScale;
use crate::Report;
use crate::board::{claim_unit, contrast};
use crate::columns::{in_order, is_ratio};
use crate::number::{Estimate, Unit, p_value};
use crate::wording::{level_in_words, sentence};
use netrig_core::xml::Markup;

/// Comparisons up to which they stand open.
const OPEN: usize = 4;

/// Comparisons beyond which their table takes more than a sheet of paper.
const LONG: usize = 30;

/// How wide an interval is drawn, pixels.
const DRAWN: f64 = 150.0;

pub(super) fn section(m: &mut Markup, report: &Report<'_>) {
    let several =
        report.results.claims.iter().any(|claim| claim.substrate != report.results.claims[0].substrate);
    for (n, claim) in report.results.claims.iter().enumerate() {
        let class = format!("claim {}", verdict_class(claim.verdict));
        m.inside("article", &[("class", &class), ("id", &format!("claim-{}", n + 1))], |m| {
            m.inside("h3", &[], |m| {
                verdict(m, "span", claim.verdict);
                m.text(" ");
                m.text(&claim.says);
            });
            m.inside("p", &[], |m| {
                m.text(sentence(&claim.why));
                m.text(" ");
                m.element("span", &[("class", "muted")], facts(claim, several));
            });
            if !claim.points.is_empty() {
                comparisons(m, report, claim);
            }
        });
    }
    m.element(
        "p",
        &[("class", "muted")],
        "A claim is supported or refuted only where the intervals leave no doubt at the stated confidence; else it is \
         inconclusive. The p-values are adjusted for the number of claims (Holm). “No chance”: another seed \
         would give the same, so there was nothing to test.",
    );
}

/// How else the claim is known: `Claim multihoming-wins on sim, adjusted p < 0.001.`
fn facts(claim: &ClaimResult, several: bool) -> String {
    let on = if several { format!(" on {}", claim.substrate) } else { String::new() };
    let p = claim.p_holm.map_or(String::new(), |p| format!(", adjusted {}", p_value(p)));
    format!("Claim {}{on}{p}.", claim.id)
}

/// What the data say of one claim: its comparisons as a table.
fn comparisons(m: &mut Markup, report: &Report<'_>, claim: &ClaimResult) {
    let points = in_order(report, claim);
    let shown = ComparisonTable::new(report, claim, &points);
    let summary = match points.len() {
        1 => "What decided it".to_owned(),
        count => format!("The {count} comparisons that decided it"),
    };
    details(m, &summary, points.len() <= OPEN, |m| {
        let class = if points.len() > LONG { "numbers long" } else { "numbers" };
        table(m, class, &format!("What decided claim {}", claim.id), |m| {
            let at = (!shown.factors.is_empty() || shown.compared).then(|| "at".to_owned());
            let rest =
                [shown.heading.clone(), "interval".into(), "drawn".into(), "n".into(), "verdict".into()];
            headings(m, at.into_iter().chain(rest));
            m.inside("tbody", &[], |m| {
                for point in &points {
                    m.inside("tr", &[("class", &verdict_class(point.verdict))], |m| shown.row(m, point));
                }
            });
        });
    });
}

/// How the comparisons of a claim are shown.
struct ComparisonTable<'a> {
    /// Factors whose levels say which comparison it is; those that have one level everywhere say nothing.
    factors: Vec<&'a str>,
    /// What the estimates are of, with their unit.
    heading: String,
    /// Whether each row says which levels it compares.
    compared: bool,
    ratio: bool,
    unit: Unit,
    scale: IntervalScale,
}

impl<'a> ComparisonTable<'a> {
    fn new(report: &'a Report<'_>, claim: &ClaimResult, points: &[&ClaimPoint]) -> Self {
        let ratio = is_ratio(report, claim);
        let unit = claim_unit(claim);
        let factors = report.experiment.design.factors.iter().filter(|factor| factor.levels.len() > 1);
        let factors = factors.map(|factor| factor.name.as_str());
        let factors: Vec<&str> =
            factors.filter(|name| points.iter().any(|p| p.factors.contains_key(*name))).collect();
        let first = points.first().and_then(|point| point.compared.as_ref());
        let same = points.iter().all(|point| point.compared.as_ref() == first);
        let what = match first.filter(|_| same) {
            Some(levels) => contrast(levels, ratio),
            None => "estimate".to_owned(),
        };
        let scale = IntervalScale::new(points, DRAWN);
        Self { factors, heading: unit.heading(&what), compared: !same, ratio, unit, scale }
    }

    fn row(&self, m: &mut Markup, point: &ClaimPoint) {
        let level = |name: &&str| point.factors.get(*name).map(|level| level_in_words(name, level));
        let compared =
            point.compared.as_ref().filter(|_| self.compared).map(|levels| contrast(levels, self.ratio));
        let at: Vec<String> = self.factors.iter().filter_map(level).chain(compared).collect();
        if !self.factors.is_empty() || self.compared {
            m.element("th", &[("scope", "row")], at.join(", "));
        }
        let written = Estimate::of_claim(point).map(|estimate| estimate.written(&self.unit));
        let (value, interval) = written.map_or_else(|| ("–".to_owned(), None), |w| (w.value, w.interval));
        m.element("td", &[("class", "n")], value);
        m.element("td", &[("class", "n")], interval.unwrap_or_default());
        m.inside("td", &[], |m| self.scale.draw(m, point));
        m.element("td", &[("class", "n")], point.n);
        verdict(m, "td", point.verdict);
    }
}
