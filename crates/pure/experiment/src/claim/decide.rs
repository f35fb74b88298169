//! Computes the verdicts of claims from their comparisons.

use netrig_stats::multiple;

use super::comparisons::{Comparisons, Context, Made};
use super::effect::{Region, passes};
use super::sample::{Cell, MissingSample};
use super::spec::ClaimSpec;
use crate::judge::Design;
use crate::{ClaimPoint, ClaimResult, ClaimVerdict, Status};

/// A claim with its comparisons, before the verdict. The verdict needs the p-values of all claims.
pub(super) struct Draft<'a> {
    id: &'a str,
    pub(super) spec: &'a ClaimSpec,
    pub(super) comparisons: Comparisons,
    pub(super) relative: bool,
    pub(super) unit: String,
    /// p-value of the test that the claim holds at every place: the largest of all comparisons (intersection–union).
    /// `None` if there is no comparison, or if one has no test.
    pub(super) p: Option<f64>,
    /// p-value of the test that the claim fails at some place, corrected for the number of comparisons.
    p_against: Option<f64>,
}

/// The verdicts on all claims of an experiment on one substrate. `cells` returns the cells of a claim.
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
            let context = Context { spec, design, claims };
            let comparisons = context.compare(&cells(spec));
            Draft::new(id, spec, comparisons, &context)
        })
        .collect();
    let tested: Vec<f64> = drafts.iter().filter_map(|draft| draft.p).collect();
    let count = tested.len();
    // `holm` refuses only values outside 0 to 1, and p-values lie inside.
    let mut adjusted = multiple::holm(&tested).unwrap_or(tested).into_iter();
    drafts
        .into_iter()
        .map(|draft| {
            let p_holm = draft.p.and_then(|_| adjusted.next());
            draft.result(design, substrate, p_holm, count)
        })
        .collect()
}

impl<'a> Draft<'a> {
    fn new(id: &'a str, spec: &'a ClaimSpec, comparisons: Comparisons, context: &Context<'_>) -> Self {
        let made: Vec<&Made> = comparisons.places.iter().flatten().collect();
        let all: Option<Vec<f64>> = made.iter().map(|made| made.finding.p).collect();
        let p = all.filter(|all| !all.is_empty()).map(|all| all.into_iter().fold(0.0, f64::max));
        let against = made.iter().filter_map(|made| made.finding.p_against);
        // Bonferroni's correction, because with several intervals it is more probable that one misses its true value.
        let p_against = against.reduce(f64::min).map(|least| (least * made.len() as f64).min(1.0));
        Self { id, spec, relative: context.is_relative(), unit: context.unit(), p, p_against, comparisons }
    }

    pub(super) fn made(&self) -> impl Iterator<Item = &Made> {
        self.comparisons.places.iter().flatten()
    }

    /// A point that the substrate supports but that has no values.
    fn broken(&self) -> Option<&MissingSample> {
        self.comparisons.missing.iter().find(|missing| missing.status != Status::Unsupported)
    }

    fn result(self, design: &Design, substrate: &str, p_holm: Option<f64>, tested: usize) -> ClaimResult {
        let level = 1.0 - design.confidence;
        let verdict = if self.made().next().is_none() {
            ClaimVerdict::NotTested
        } else if passes(self.p_against, level) {
            ClaimVerdict::Refuted
        } else if passes(p_holm, level) && self.broken().is_none() {
            ClaimVerdict::Supported
        } else {
            ClaimVerdict::Inconclusive
        };
        let open = verdict == ClaimVerdict::Inconclusive;
        let needs = if open { self.needs(level / design.claims.len() as f64) } else { None };
        let ruling = Ruling { verdict, p_holm, tested, needs, level };
        let points = self.comparisons.places.iter().map(|made| point(deciding(made), level));
        ClaimResult {
            id: self.id.to_owned(),
            says: self.spec.says.clone(),
            substrate: substrate.to_owned(),
            verdict,
            p_holm,
            why: self.why(&ruling),
            needs,
            unit: self.unit.clone(),
            decided_by: self.decided_by(level).map(|made| point(made, level)),
            points: points.collect(),
            relative: self.relative,
        }
    }

    /// The number of replications that would decide all open comparisons.
    fn needs(&self, level: f64) -> Option<u32> {
        if self.made().any(|made| made.interval.n < 2) {
            return Some(2);
        }
        let open = self.made().filter(|made| made.finding.p.is_none_or(|p| p > level));
        let most = open.map(|made| made.needs).collect::<Option<Vec<usize>>>()?.into_iter().max()?;
        Some(u32::try_from(most).unwrap_or(u32::MAX))
    }
}

/// The verdict with its numbers, for the sentence that explains it.
pub(super) struct Ruling {
    pub verdict: ClaimVerdict,
    pub p_holm: Option<f64>,
    /// Number of claims that share the error rate.
    pub tested: usize,
    pub needs: Option<u32>,
    /// 1 − confidence.
    pub level: f64,
}

/// The comparison that decides at one place: the one with the largest p-value for the claim. If several have it, the
/// one with the smallest p-value against the claim.
fn deciding(made: &[Made]) -> &Made {
    let doubt = |made: &Made| (made.finding.p.unwrap_or(2.0), -made.finding.p_against.unwrap_or(1.0));
    let worse =
        |a: &Made, b: &Made| doubt(b).0 > doubt(a).0 || doubt(b).0 == doubt(a).0 && doubt(b).1 > doubt(a).1;
    let first = &made[0];
    made[1..].iter().fold(first, |worst, next| if worse(worst, next) { next } else { worst })
}

fn point(made: &Made, level: f64) -> ClaimPoint {
    ClaimPoint {
        factors: made.factors.clone(),
        compared: made.compared.clone(),
        estimate: made.interval.estimate,
        low: made.interval.low,
        high: made.interval.high,
        claimed: made.region.map(Region::ends),
        n: u32::try_from(made.interval.n).unwrap_or(u32::MAX),
        verdict: made.finding.verdict(level),
    }
}
