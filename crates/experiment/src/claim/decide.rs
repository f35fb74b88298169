//! From comparisons to verdicts.

use std::collections::BTreeSet;

use netrig_stats::multiple;

use super::comparisons::{Comparisons, Context, Made};
use super::sample::{Cell, Missing};
use super::spec::{ClaimSpec, Expect};
use crate::judge::{Design, seed_of, words};
use crate::{ClaimPoint, ClaimResult, Status, Verdict};

/// A claim whose comparisons are made but whose verdict waits for the others' p-values.
struct Draft<'a> {
    id: &'a str,
    spec: &'a ClaimSpec,
    comparisons: Comparisons,
    relative: bool,
    unit: String,
    /// Of the test that it holds at every place (intersection–union: the largest); `None` where no test applies.
    p: Option<f64>,
    /// Of the test that it fails at some place, corrected for their number.
    p_against: Option<f64>,
}

/// The verdicts on all claims of a study on one substrate. `cells` gives the places that a claim may be about.
pub(crate) fn decide(
    design: &Design,
    substrate: &str,
    cells: &dyn Fn(&ClaimSpec) -> Vec<Cell>,
) -> Vec<ClaimResult> {
    let claims = design.claims.len();
    let drafts: Vec<Draft<'_>> = design
        .claims
        .iter()
        .map(|(id, spec)| {
            let context = Context { spec, design, seed: seed_of(id), claims };
            let comparisons = context.compare(&cells(spec));
            Draft::new(id, spec, comparisons, &context)
        })
        .collect();
    let tested: Vec<f64> = drafts.iter().filter_map(|draft| draft.p).collect();
    // Values from tests lie between 0 and 1, which is all that can be refused.
    let mut adjusted = multiple::holm(&tested).unwrap_or(tested).into_iter();
    drafts
        .into_iter()
        .map(|draft| {
            let p_holm = draft.p.and_then(|_| adjusted.next());
            draft.result(design, substrate, p_holm)
        })
        .collect()
}

impl<'a> Draft<'a> {
    fn new(id: &'a str, spec: &'a ClaimSpec, comparisons: Comparisons, context: &Context<'_>) -> Self {
        let made: Vec<&Made> = comparisons.places.iter().flatten().collect();
        let all: Option<Vec<f64>> = made.iter().map(|made| made.finding.p).collect();
        let p = all.filter(|all| !all.is_empty()).map(|all| all.into_iter().fold(0.0, f64::max));
        let against = made.iter().filter_map(|made| made.finding.p_against);
        // Bonferroni: one of many intervals misses the truth sooner than one alone.
        let p_against = against.reduce(f64::min).map(|least| (least * made.len() as f64).min(1.0));
        Self { id, spec, relative: context.is_relative(), unit: context.unit(), p, p_against, comparisons }
    }

    fn made(&self) -> impl Iterator<Item = &Made> {
        self.comparisons.places.iter().flatten()
    }

    /// A point that ought to have been measured and was not.
    fn broken(&self) -> Option<&Missing> {
        self.comparisons.missing.iter().find(|missing| missing.status != Status::Unsupported)
    }

    fn result(self, design: &Design, substrate: &str, p_holm: Option<f64>) -> ClaimResult {
        let passes = |p: Option<f64>| p.is_some_and(|p| p <= 1.0 - design.confidence + 1e-12);
        let verdict = if self.made().next().is_none() {
            Verdict::NotTested
        } else if passes(self.p_against) {
            Verdict::Refuted
        } else if passes(p_holm) && self.broken().is_none() {
            Verdict::Supported
        } else {
            Verdict::Inconclusive
        };
        let level = (1.0 - design.confidence) / design.claims.len() as f64;
        let needs = if verdict == Verdict::Inconclusive { self.needs(level) } else { None };
        ClaimResult {
            id: self.id.to_owned(),
            says: self.spec.says.clone(),
            substrate: substrate.to_owned(),
            verdict,
            p_holm,
            why: self.why(verdict, p_holm, design, needs),
            needs,
            unit: self.unit.clone(),
            points: self
                .comparisons
                .places
                .iter()
                .map(|made| point(deciding(made), design.confidence))
                .collect(),
        }
    }

    /// Replications after which the least decided comparison would be decided.
    fn needs(&self, level: f64) -> Option<u32> {
        if self.made().any(|made| made.interval.n < 2) {
            return Some(2);
        }
        let open = self.made().filter(|made| made.finding.p.is_none_or(|p| p > level));
        let most = open.map(|made| made.needs).collect::<Option<Vec<usize>>>()?.into_iter().max()?;
        Some(u32::try_from(most).unwrap_or(u32::MAX))
    }

    fn why(&self, verdict: Verdict, p_holm: Option<f64>, design: &Design, needs: Option<u32>) -> String {
        let untested = self.comparisons.missing.len();
        let tail = match self.comparisons.missing.first() {
            Some(missing) if verdict != Verdict::NotTested => {
                format!(
                    "; {} not compared ({})",
                    words::count(untested, "place was", "places were"),
                    missing.why
                )
            }
            _ => String::new(),
        };
        let why = match verdict {
            Verdict::NotTested => match self.comparisons.missing.first() {
                Some(missing) => format!("nothing could be compared: {}", missing.why),
                None => "no point that it is about was run".to_owned(),
            },
            Verdict::Supported => {
                let holds = match self.made().count() {
                    1 => String::new(),
                    n => format!("all {n} comparisons hold; the weakest: "),
                };
                format!(
                    "{holds}{}, p = {}",
                    self.figures(self.weakest()),
                    words::p_value(p_holm, design.claims.len())
                )
            }
            Verdict::Refuted => {
                format!("{}: the interval excludes it", self.figures(self.strongest_against()))
            }
            Verdict::Inconclusive => self.open(p_holm, design, needs),
        };
        why + &tail
    }

    /// Why it is neither supported nor refuted.
    fn open(&self, p_holm: Option<f64>, design: &Design, needs: Option<u32>) -> String {
        let level = 1.0 - design.confidence + 1e-12;
        let figures = self.figures(self.weakest());
        if self.made().any(|made| made.interval.n < 2) {
            return format!("{figures}: one replication has no interval");
        }
        if p_holm.is_some_and(|p| p <= level) {
            return "it holds wherever it could be compared, but not everywhere it should have been"
                .to_owned();
        }
        let more = needs.map_or(String::new(), |n| format!("; about {n} replications would tell"));
        if self.p.is_some_and(|p| p <= level) {
            let p = words::p_value(p_holm, design.claims.len());
            return format!("{figures}: it holds by itself, but p = {p} is not enough{more}");
        }
        format!("{figures}: the interval neither bears it out nor excludes it{more}")
    }

    /// The comparison on which support hangs.
    fn weakest(&self) -> Option<&Made> {
        let doubt = |made: &Made| made.finding.p.unwrap_or(2.0);
        self.made().reduce(|worst, next| if doubt(next) > doubt(worst) { next } else { worst })
    }

    fn strongest_against(&self) -> Option<&Made> {
        let doubt = |made: &Made| made.finding.p_against.unwrap_or(2.0);
        self.made().reduce(|best, next| if doubt(next) < doubt(best) { next } else { best })
    }

    /// The place and the figures of a comparison: `at down_for = 10 s: 9012 [8800, 9224] B/s (n = 10)`.
    fn figures(&self, made: Option<&Made>) -> String {
        let Some(made) = made else { return String::new() };
        let varied: BTreeSet<&String> = self
            .made()
            .flat_map(|other| {
                other.factors.iter().filter(|(factor, level)| made.factors.get(*factor) != Some(*level))
            })
            .map(|(factor, _)| factor)
            .collect();
        let named = made.factors.iter().filter(|(factor, _)| varied.contains(factor));
        let place: Vec<String> = named.map(|(factor, level)| format!("{factor} = {level}")).collect();
        let place = if place.is_empty() { String::new() } else { format!("at {}: ", place.join(", ")) };
        let what = match (&made.compared, self.relative, self.spec.expect) {
            (Some([a, b]), true, _) => format!("{a} / {b} = "),
            (Some([a, b]), false, _) => format!("{a} − {b} = "),
            (None, _, Expect::Knee) => "knee at ".to_owned(),
            (None, ..) => String::new(),
        };
        format!("{place}{what}{}", words::interval(&made.interval, &self.unit))
    }
}

/// Of the comparisons at one place the one that decides: that which is against it, else the weakest.
fn deciding(made: &[Made]) -> &Made {
    let doubt = |made: &Made| (made.finding.p.unwrap_or(2.0), -made.finding.p_against.unwrap_or(1.0));
    let worse =
        |a: &Made, b: &Made| doubt(b).0 > doubt(a).0 || doubt(b).0 == doubt(a).0 && doubt(b).1 > doubt(a).1;
    let first = &made[0];
    made[1..].iter().fold(first, |worst, next| if worse(worst, next) { next } else { worst })
}

fn point(made: &Made, confidence: f64) -> ClaimPoint {
    ClaimPoint {
        factors: made.factors.clone(),
        compared: made.compared.clone(),
        estimate: made.interval.estimate,
        low: made.interval.low,
        high: made.interval.high,
        n: u32::try_from(made.interval.n).unwrap_or(u32::MAX),
        verdict: made.finding.verdict(confidence),
    }
}
