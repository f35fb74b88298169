//! All comparisons of each claim.

use netrig_experiment::{ClaimPoint, ClaimResult};

use super::elements::{details, headings, table, verdict, verdict_class};
use super::interval::IntervalScale;
use crate::Report;
use crate::board::{claim_unit, contrast};
use crate::columns::in_order;
use crate::estimate;
use crate::wording::{level_in_words, sentence};
use netrig_core::number::{Unit, p_value};
use netrig_core::xml::Markup;

/// Largest number of comparisons for which the table is shown expanded.
const OPEN: usize = 4;

/// Number of comparisons above which their table may need more than one printed page.
const LONG: usize = 30;

/// The width of an interval drawing, pixels.
const DRAWN: f64 = 150.0;

pub(super) fn section(m: &mut Markup, report: &Report<'_>) {
    let several = report.has_several_substrates();
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
        "A claim is supported or refuted only if the intervals leave no doubt at the stated confidence; otherwise it is \
         inconclusive. The p-values are adjusted for the number of claims (Holm). “No chance” means that another seed \
         would give the same result, so there was nothing to test.",
    );
}

/// The facts of a claim: `Claim multihoming-wins on sim, adjusted p < 0.001.`
fn facts(claim: &ClaimResult, several: bool) -> String {
    let on = if several { format!(" on {}", claim.substrate) } else { String::new() };
    let p = claim.p_holm.map_or(String::new(), |p| format!(", adjusted {}", p_value(p)));
    format!("Claim {}{on}{p}.", claim.id)
}

/// The comparisons of a claim as a table.
fn comparisons(m: &mut Markup, report: &Report<'_>, claim: &ClaimResult) {
    let points = in_order(report, claim);
    let shown = ComparisonTable::new(report, claim, &points);
    let summary = match points.len() {
        1 => "The comparison that decided it".to_owned(),
        count => format!("The {count} comparisons that decided it"),
    };
    details(m, &summary, points.len() <= OPEN, |m| {
        let class = if points.len() > LONG { "numbers long" } else { "numbers" };
        table(m, class, &format!("Comparisons of claim {}", claim.id), |m| {
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

/// The table of a claim's comparisons.
struct ComparisonTable<'a> {
    /// Factors whose levels identify a comparison. Constant factors are omitted.
    factors: Vec<&'a str>,
    /// The heading of the estimates, with their unit.
    heading: String,
    /// Whether each row names the levels that it compares.
    compared: bool,
    ratio: bool,
    unit: Unit,
    scale: IntervalScale,
}

impl<'a> ComparisonTable<'a> {
    fn new(report: &'a Report<'_>, claim: &ClaimResult, points: &[&ClaimPoint]) -> Self {
        let ratio = claim.relative;
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
        let written = estimate::of_claim(point).map(|estimate| estimate.written(&self.unit));
        let (value, interval) = written.map_or_else(|| ("–".to_owned(), None), |w| (w.value, w.interval));
        m.element("td", &[("class", "n")], value);
        m.element("td", &[("class", "n")], interval.unwrap_or_default());
        m.inside("td", &[], |m| self.scale.draw(m, point));
        m.element("td", &[("class", "n")], point.n);
        verdict(m, "td", point.verdict);
    }
}
