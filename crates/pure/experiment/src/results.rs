//! The results of an experiment: the responses of every point with their intervals, and the verdicts.

use std::collections::BTreeMap;

use netrig_core::named;
use serde::Serialize;

use crate::{Level, Margins, Point, TableResult};

named! {
    /// State of a point after its runs.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Status {
        /// The point has valid runs, and responses from them.
        Ok = "ok",
        /// A run failed.
        Failed = "failed",
        /// The tester itself was the bottleneck.
        Invalid = "invalid",
        /// The substrate cannot run the point.
        Unsupported = "unsupported",
    }
}

/// The content of a report and of `--json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Results {
    /// The experiment's name.
    pub experiment: String,
    /// Confidence level of every interval, between 0 and 1.
    pub confidence: f64,
    /// Version and commit of netrig.
    pub build: String,
    /// The name of the definition of sample quantiles in use; absent if no response is a quantile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantiles: Option<&'static str>,
    /// Points in the order of the plan.
    pub points: Vec<PointResult>,
    /// Agreement of the substrates; empty with one substrate.
    pub agreement: Vec<Agreement>,
    /// Claims in the order of the file, for each substrate.
    pub claims: Vec<ClaimResult>,
    /// Tables in the order of the file, for each substrate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<TableResult>,
}

/// The distinct names, in the order of their first appearance.
pub(crate) fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

impl Results {
    /// The substrates, in the order of the points.
    pub fn substrates(&self) -> Vec<&str> {
        distinct(self.points.iter().map(|point| point.substrate.as_str()))
    }

    /// The smallest number of runs in a comparison of a supported claim about random values, and the greatest
    /// probability of an outcome that may be absent from that many runs. `None` without such a claim.
    pub fn most_unseen(&self) -> Option<(u32, f64)> {
        let by_chance = |claim: &&ClaimResult| {
            claim.verdict == ClaimVerdict::Supported && claim.p_holm.is_some_and(|p| p > 0.0)
        };
        let points = self.claims.iter().filter(by_chance).flat_map(|claim| &claim.points);
        let n = points.map(|point| point.n).min()?;
        let unseen = netrig_stats::interval::most_unseen(n as usize, self.confidence).ok()?;
        Some((n, unseen))
    }
}

/// One point on one substrate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PointResult {
    /// The substrate.
    pub substrate: String,
    /// Every factor with its level.
    #[serde(serialize_with = "crate::level::typed_point")]
    pub factors: Point,
    /// The state after its runs.
    pub status: Status,
    /// Why the state is not `Ok`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Remarks on the results of its valid runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<PointRemark>,
    /// Responses by name.
    pub responses: BTreeMap<String, ResponseResult>,
}

/// A remark that a report shows with the results of a point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PointRemark {
    /// The remark, as a sentence.
    pub text: String,
    /// Number of valid runs to which it applies.
    pub runs: u32,
}

/// One response at one point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResponseResult {
    /// The unit of the response.
    pub unit: String,
    /// Mean over the valid runs; the geometric mean if the interval is over logarithms. Absent without a value.
    pub mean: Option<f64>,
    /// Lower end of the interval. Absent for less than two runs, and if all random runs gave the same value.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
    /// Number of valid runs that measured the response.
    pub n: u32,
    /// Every run, in the order of its replication.
    pub runs: Vec<RunValue>,
}

/// The value of a response in one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunValue {
    /// The run's seed.
    pub seed: u64,
    /// The value; absent if the run could not measure it, for instance because nothing arrived.
    pub value: Option<f64>,
    /// Whether the run is valid.
    pub valid: bool,
    /// Why there is no value, why it does not count, or why it is doubtful.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Agreement of two substrates about a response, over the replications that both measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Agreement {
    /// The point; empty for all points together.
    #[serde(serialize_with = "crate::level::typed_point")]
    pub factors: Point,
    /// The response.
    pub response: String,
    /// The unit of the means and of their difference.
    pub unit: String,
    /// The means on the first and on the second substrate. Over all points, these are means of the points' means.
    /// Absent without pairs.
    pub means: Option<[f64; 2]>,
    /// Mean on the second substrate divided by the mean on the first. Absent without pairs, and if the first
    /// mean is 0.
    pub ratio: Option<f64>,
    /// Lower end of the ratio's interval.
    pub low: Option<f64>,
    /// Upper end of the ratio's interval.
    pub high: Option<f64>,
    /// Mean on the second substrate minus the mean on the first; absent without pairs.
    pub difference: Option<Difference>,
    /// Number of valid runs of each substrate that measured the response. Over all points, this is the sum.
    pub n: [u32; 2],
    /// Number of replications in the estimates: those that both substrates measured. Over all points, only replications
    /// that all points have count.
    pub pairs: u32,
    /// The two substrates.
    pub of: [String; 2],
    /// The margins that the file requires for this agreement, and the verdict. Absent if the file requires none.
    #[serde(flatten)]
    pub asked: Option<AgreementAnswer>,
}

/// The difference of two means of paired values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The estimate of the difference.
    pub estimate: f64,
    /// Lower end of its interval; absent for less than two pairs.
    pub low: Option<f64>,
    /// Upper end of its interval.
    pub high: Option<f64>,
}

/// The required agreement of two means, and the verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AgreementAnswer {
    /// The margins. It suffices if the means agree within one of them.
    #[serde(serialize_with = "crate::response::typed_margins")]
    pub within: Margins,
    /// The verdict, decided by the intervals.
    pub verdict: AgreementVerdict,
}

named! {
    /// Verdict on two means by the intervals of their ratio and difference.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum AgreementVerdict {
        /// The means are equal within a margin.
        Agrees = "agrees",
        /// The means differ by more than every margin.
        Differs = "differs",
        /// The interval is too wide to decide.
        Inconclusive = "inconclusive",
    }
}

named! {
    /// Verdict on a claim.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum ClaimVerdict {
        /// The results support the claim.
        Supported = "supported",
        /// The results refute the claim.
        Refuted = "refuted",
        /// The intervals are too wide to decide.
        Inconclusive = "inconclusive",
        /// There are no valid points.
        NotTested = "not tested",
    }
}

/// The verdict on a claim, and the comparisons that decided it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClaimResult {
    /// Its key in the file.
    pub id: String,
    /// The claimed statement.
    pub says: String,
    /// The substrate that tested it.
    pub substrate: String,
    /// The verdict.
    pub verdict: ClaimVerdict,
    /// p-value, adjusted for the number of claims (Holm). Absent if no test applies; 0 if the deciding values were not
    /// random.
    pub p_holm: Option<f64>,
    /// The reason for the verdict, as a sentence.
    pub why: String,
    /// Number of replications that would decide an inconclusive claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs: Option<u32>,
    /// Unit of the estimates.
    pub unit: String,
    /// The comparison that determines the verdict. If comparisons refute the claim separately, the one with the
    /// strongest evidence against it; otherwise the one with the weakest evidence for it. Absent if nothing was
    /// compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<ClaimPoint>,
    /// All comparisons.
    pub points: Vec<ClaimPoint>,
    /// Whether two means are compared by their ratio, because the margin is a share of one of them.
    #[serde(skip)]
    pub relative: bool,
}

/// One comparison of a claim.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClaimPoint {
    /// The levels that the compared values share.
    #[serde(serialize_with = "crate::level::typed_map")]
    pub factors: BTreeMap<String, Level>,
    /// The two compared levels. The estimate is the first minus the second, or the first divided by the second. Absent
    /// if no two levels were compared.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "crate::level::typed_pair")]
    pub compared: Option<[Level; 2]>,
    /// The estimate: a difference, a ratio or a value, depending on the claim.
    pub estimate: f64,
    /// Lower end of its interval.
    pub low: Option<f64>,
    /// Upper end of its interval.
    pub high: Option<f64>,
    /// The claimed range of the estimate, margin included. An open end is absent. The range is absent for a claim only
    /// that there is a knee.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimed: Option<[Option<f64>; 2]>,
    /// Number of replications in the estimate.
    pub n: u32,
    /// The verdict on this comparison alone.
    pub verdict: ClaimVerdict,
}
