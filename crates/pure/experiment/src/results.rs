//! What came out of an experiment: every point's responses with their intervals, and the verdicts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Level, Margins, Point, TableResult};

/// How a point ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Valid runs, and responses from them.
    Ok,
    /// A run failed.
    Failed,
    /// The tester itself was the bottleneck.
    Invalid,
    /// The substrate cannot run it.
    Unsupported,
}

/// Everything that a report shows and `--json` prints.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Results {
    /// The experiment's name.
    pub experiment: String,
    /// Of every interval.
    pub confidence: f64,
    /// Version and commit of netrig.
    pub build: String,
    /// The definition of the responses that are quantiles; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantiles: Option<&'static str>,
    /// In the order of the plan.
    pub points: Vec<PointResult>,
    /// How far substrates agree; empty with one substrate.
    pub agreement: Vec<Agreement>,
    /// In the order of the file, for each substrate.
    pub claims: Vec<ClaimResult>,
    /// In the order of the file, for each substrate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<TableResult>,
}

impl Results {
    /// The fewest runs behind a comparison of a claim that is supported although chance had a part in it, and the probability below
    /// which an outcome may be in none of so many. `None` without such a claim.
    pub fn most_unseen(&self) -> Option<(u32, f64)> {
        let by_chance = |claim: &&ClaimResult| {
            claim.verdict == Verdict::Supported && claim.p_holm.is_some_and(|p| p > 0.0)
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
    /// How it ended.
    pub status: Status,
    /// Why it is not ok.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What must stand beside the figures of its valid runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<PointRemark>,
    /// By the response's name.
    pub responses: BTreeMap<String, ResponseResult>,
}

/// Something that must stand beside the figures of a point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PointRemark {
    /// A sentence.
    pub text: String,
    /// Valid runs in which it was so.
    pub runs: u32,
}

/// One response at one point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResponseResult {
    /// Its unit.
    pub unit: String,
    /// Mean over the valid runs (the geometric one where the response asks for an interval over logarithms);
    /// absent if there is none.
    pub mean: Option<f64>,
    /// Lower end of the interval; absent below two runs, and where all are alike although chance had a part in them.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
    /// Valid runs that measured it.
    pub n: u32,
    /// Every run, in the order of its replication.
    pub runs: Vec<RunValue>,
}

/// One run's value of a response.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunValue {
    /// The run's seed.
    pub seed: u64,
    /// The value; absent if the run could not measure it (nothing arrived).
    pub value: Option<f64>,
    /// Whether it counts.
    pub valid: bool,
    /// Why there is no value, why it does not count, or why to doubt it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// How far two substrates agree about a response, over the replications that both have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Agreement {
    /// The point; empty for all points together.
    #[serde(serialize_with = "crate::level::typed_point")]
    pub factors: Point,
    /// The response.
    pub response: String,
    /// The unit of the means and of their difference.
    pub unit: String,
    /// The mean on the first and on the second substrate, over all points together the mean of theirs; absent without
    /// pairs.
    pub means: Option<[f64; 2]>,
    /// Mean on the second substrate divided by the mean on the first; absent without pairs and where the first is 0.
    pub ratio: Option<f64>,
    /// Lower end of its interval.
    pub low: Option<f64>,
    /// Upper end of its interval.
    pub high: Option<f64>,
    /// Mean on the second substrate less the mean on the first; absent without pairs.
    pub difference: Option<Difference>,
    /// Valid runs of each substrate that measured it, over all points together their sum.
    pub n: [u32; 2],
    /// Replications that both substrates have, and all points if it is of all: what the rest is made of.
    pub pairs: u32,
    /// The two substrates.
    pub of: [String; 2],
    /// What was asked here, and what came of it; absent where nothing was.
    #[serde(flatten)]
    pub asked: Option<Asked>,
}

/// The difference of two means, of paired values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Its estimate.
    pub estimate: f64,
    /// Lower end of its interval; absent below two pairs.
    pub low: Option<f64>,
    /// Upper end of its interval.
    pub high: Option<f64>,
}

/// How near two means were asked to be, and whether they are.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Asked {
    /// One of these suffices.
    #[serde(serialize_with = "crate::response::typed_margins")]
    pub within: Margins,
    /// What the intervals say of it.
    pub verdict: Accord,
}

/// What the intervals of their ratio and difference say about two means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Accord {
    /// They are the same within the margin.
    Agrees,
    /// They are further apart than the margin.
    Differs,
    /// The interval is too wide to tell.
    Inconclusive,
}

impl Accord {
    /// In a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::Differs => "differs",
            Self::Inconclusive => "inconclusive",
        }
    }
}

/// What the evidence says of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The evidence is for it.
    Supported,
    /// The evidence is against it.
    Refuted,
    /// The intervals are too wide to tell.
    Inconclusive,
    /// There are no valid points.
    NotTested,
}

impl Verdict {
    /// The word for it in tables and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Supported => "supported",
            Self::Refuted => "refuted",
            Self::Inconclusive => "inconclusive",
            Self::NotTested => "not tested",
        }
    }
}

/// A claim's verdict and what decided it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClaimResult {
    /// Its key in the file.
    pub id: String,
    /// The sentence.
    pub says: String,
    /// Where it was tested.
    pub substrate: String,
    /// The verdict.
    pub verdict: Verdict,
    /// Adjusted over the study's claims (Holm); absent where no test applies, and 0 where chance had no part in what decided it.
    pub p_holm: Option<f64>,
    /// The verdict's reason in a sentence.
    pub why: String,
    /// Replications that it would need, if it is inconclusive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs: Option<u32>,
    /// Unit of the estimates.
    pub unit: String,
    /// The comparison on which the verdict hangs: the one that is most against it if one by itself excludes it, else
    /// the weakest; absent if nothing was compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<ClaimPoint>,
    /// What it was decided on.
    pub points: Vec<ClaimPoint>,
}

/// One comparison that a claim rests on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClaimPoint {
    /// The levels that are common to what was compared.
    #[serde(serialize_with = "crate::level::typed_map")]
    pub factors: BTreeMap<String, Level>,
    /// The levels that were compared, if two were: the estimate is of the first against the second.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "crate::level::typed_pair")]
    pub compared: Option<[Level; 2]>,
    /// The estimate: a difference, a ratio, a value, as the claim says.
    pub estimate: f64,
    /// Lower end of its interval.
    pub low: Option<f64>,
    /// Upper end of its interval.
    pub high: Option<f64>,
    /// From where to where the claim says that it lies, margin included; an end that is open is absent. Absent for a
    /// bend that may be anywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claimed: Option<[Option<f64>; 2]>,
    /// Replications behind it.
    pub n: u32,
    /// This comparison's own verdict.
    pub verdict: Verdict,
}
