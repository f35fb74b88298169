//! The overview of claims: each with its verdict, the deciding comparison, the points at which the claim fails, and the
//! figure or table that shows it.

use netrig_experiment::{ClaimPoint, ClaimResult, ClaimVerdict, Exhibit, Level};

use crate::Report;
use crate::columns::in_order;
use crate::estimate;
use crate::wording::level_in_words;
use netrig_core::number::{Unit, as_given, p_value};

/// Largest number of points that are named. Further points are counted.
const NAMED: usize = 4;

/// The row of a claim in the overview.
pub(crate) struct ClaimLine<'a> {
    /// The result of the claim.
    pub claim: &'a ClaimResult,
    /// The substrate of the claim, if the results have several.
    pub substrate: Option<&'a str>,
    /// The comparison that decides the verdict. `None` if nothing was compared.
    pub decided: Option<DecidingComparison<'a>>,
    /// `fails at 2 of 3 places: down for 5 s, down for 10 s`. Empty if the claim has only one point.
    pub places: String,
    /// The part of the report that shows the claim.
    pub exhibit: ClaimExhibit<'a>,
}

/// A comparison as text.
pub(crate) struct DecidingComparison<'a> {
    pub point: &'a ClaimPoint,
    /// The compared levels: `sctp / tcp`; empty for a single value.
    pub what: String,
    /// The estimate with its interval and unit: `0.98 ± 0.01`.
    pub estimate: String,
    /// The range that the claim states: `> 0.99`.
    pub claimed: String,
}

/// The part of the report that shows a claim, with its index among the figures or tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimExhibit<'a> {
    Figure(usize, &'a str),
    Table(usize, &'a str),
    /// The list of all responses.
    Responses,
}

impl ClaimExhibit<'_> {
    /// The name of the figure, table or list.
    pub fn name(&self) -> &str {
        match self {
            Self::Figure(_, name) | Self::Table(_, name) => name,
            Self::Responses => "responses",
        }
    }
}

impl<'a> ClaimLine<'a> {
    /// Every claim of a report, in the order of the results.
    pub fn all(report: &'a Report<'_>) -> Vec<Self> {
        report.results.claims.iter().map(|claim| Self::new(report, claim)).collect()
    }

    fn new(report: &'a Report<'_>, claim: &'a ClaimResult) -> Self {
        let unit = claim_unit(claim);
        let decided = claim.decided_by.as_ref().map(|point| DecidingComparison {
            point,
            what: point.compared.as_ref().map_or_else(String::new, |levels| contrast(levels, claim.relative)),
            estimate: estimate::of_claim(point)
                .map_or_else(|| "–".to_owned(), |estimate| unit.behind(&estimate.written(&unit).to_string())),
            claimed: point.claimed.map_or_else(String::new, |ends| range(ends, &unit)),
        });
        Self {
            claim,
            substrate: report.has_several_substrates().then_some(claim.substrate.as_str()),
            decided,
            places: places(report, claim),
            exhibit: exhibit(report, claim),
        }
    }

    /// The adjusted p-value, if a test applies.
    pub fn p(&self) -> Option<String> {
        self.claim.p_holm.map(p_value)
    }
}

/// A contrast of two levels: `sctp − tcp`, `sctp / tcp`.
pub(crate) fn contrast([first, second]: &[Level; 2], ratio: bool) -> String {
    format!("{first} {} {second}", if ratio { "/" } else { "−" })
}

/// The unit in which the numbers of a claim are written.
pub(crate) fn claim_unit(claim: &ClaimResult) -> Unit {
    let numbers = claim.points.iter().flat_map(|point| [Some(point.estimate), point.low, point.high]);
    Unit::fitting(&claim.unit, numbers.flatten())
}

/// A range as text: `> 0`, `0.99 to 1.01`.
fn range(ends: [Option<f64>; 2], unit: &Unit) -> String {
    let number = |value: f64| as_given(unit.convert(value));
    let end = |value: f64| if value == 0.0 { number(value) } else { unit.behind(&number(value)) };
    match ends {
        [Some(low), Some(high)] => unit.behind(&format!("{} to {}", number(low), number(high))),
        [Some(low), None] => format!("> {}", end(low)),
        [None, Some(high)] => format!("< {}", end(high)),
        [None, None] => String::new(),
    }
}

/// The number and names of the points at which a claim is refuted or inconclusive. For a supported claim, its weakest
/// point.
fn places(report: &Report<'_>, claim: &ClaimResult) -> String {
    let all = in_order(report, claim);
    let varied = varied(report, &all);
    if all.len() < 2 {
        return String::new();
    }
    let count = |verdict| all.iter().filter(|point| point.verdict == verdict).count();
    let named = |verdict: ClaimVerdict| {
        let found = all.iter().filter(|point| point.verdict == verdict);
        let names: Vec<String> = found.take(NAMED).map(|point| place(point, &varied)).collect();
        let more = count(verdict).saturating_sub(NAMED);
        names.join("; ") + &if more > 0 { format!("; and {more} more") } else { String::new() }
    };
    let of = |word: &str, verdict| match count(verdict) {
        0 => None,
        n => Some(format!("{word} {n} of {} places: {}", all.len(), named(verdict))),
    };
    let weakest = || {
        let point = claim.decided_by.as_ref()?;
        Some(format!("weakest of {} places: {}", all.len(), place(point, &varied)))
    };
    let failing = of("fails at", ClaimVerdict::Refuted);
    failing.or_else(|| of("inconclusive at", ClaimVerdict::Inconclusive)).or_else(weakest).unwrap_or_default()
}

/// The factors whose levels differ between the points of a claim, in the order of the file.
fn varied<'a>(report: &'a Report<'_>, points: &[&ClaimPoint]) -> Vec<&'a str> {
    let factors = report.experiment.design.factors.iter().map(|factor| factor.name.as_str());
    let differs =
        |name: &&str| points.iter().any(|point| point.factors.get(*name) != points[0].factors.get(*name));
    factors.filter(differs).collect()
}

fn place(point: &ClaimPoint, varied: &[&str]) -> String {
    let level = |name: &&str| point.factors.get(*name).map(|level| level_in_words(name, level));
    varied.iter().filter_map(level).collect::<Vec<_>>().join(", ")
}

/// The part of this report that shows a claim.
fn exhibit<'a>(report: &'a Report<'_>, claim: &ClaimResult) -> ClaimExhibit<'a> {
    let design = &report.experiment.design;
    let found = match design.claim(&claim.id).and_then(|spec| design.exhibit(spec)) {
        Some(Exhibit::Figure(name)) => {
            let place = report.figures.iter().position(|figure| figure.id == name);
            place.map(|place| ClaimExhibit::Figure(place, &report.figures[place].id))
        }
        Some(Exhibit::Table(name)) => {
            let tables = &report.results.tables;
            let place = tables.iter().position(|t| t.id == name && t.substrate == claim.substrate);
            place.map(|place| ClaimExhibit::Table(place, &tables[place].id))
        }
        None => None,
    };
    found.unwrap_or(ClaimExhibit::Responses)
}
