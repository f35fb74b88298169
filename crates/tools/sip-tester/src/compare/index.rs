//! A figure that two results have, such as the mean delay, with the verdict on its change.

use netrig_stats::multiple::holm;
use serde::Serialize;

use super::error::ComparisonError;

/// The verdict on the change of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum IndexVerdict {
    /// The later value is significantly worse.
    Worse,
    /// The later value is significantly better.
    Better,
    /// The difference may be due to chance, or is within the margin.
    NoDifference,
    /// The change cannot be tested.
    NotTested,
}

/// A figure that two results have, with the verdict on its change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedIndex {
    /// The name, such as `success of call` or `connection, mean`.
    pub name: String,
    /// Unit: `us`, `1` for a share, `1/s`.
    pub unit: &'static str,
    /// The value in the earlier result; `None` if it has none.
    pub before: Option<f64>,
    /// The value in the later result; `None` if it has none.
    pub now: Option<f64>,
    /// The later value minus the earlier one.
    pub difference: Option<f64>,
    /// The lower end of the difference's interval.
    pub low: Option<f64>,
    /// The upper end of the difference's interval.
    pub high: Option<f64>,
    /// The p-value of the test of this figure alone.
    pub p: Option<f64>,
    /// The p-value, adjusted by Holm's method for the number of tested figures.
    pub p_holm: Option<f64>,
    /// The verdict.
    pub verdict: IndexVerdict,
    /// The test used, or why the change cannot be tested.
    pub how: String,
    /// Whether a higher value is better.
    #[serde(skip)]
    pub more_is_better: bool,
}

impl ComparedIndex {
    /// An index that cannot be tested.
    pub(super) fn untested(
        name: String,
        unit: &'static str,
        values: [Option<f64>; 2],
        why: impl Into<String>,
    ) -> Self {
        let [before, now] = values;
        let difference = before.zip(now).map(|(before, now)| now - before);
        Self {
            name,
            unit,
            before,
            now,
            difference,
            low: None,
            high: None,
            p: None,
            p_holm: None,
            verdict: IndexVerdict::NotTested,
            how: why.into(),
            more_is_better: false,
        }
    }

    /// Whether the index cannot be tested and is worse than before by more than a factor of 2 (or of 1 plus the margin,
    /// if this is more). A comparison with such an index does not pass.
    pub(super) fn is_open(&self, settings: ComparisonSettings) -> bool {
        let (Some(before), Some(now)) = (self.before, self.now) else { return false };
        let [less, more] = if self.more_is_better { [now, before] } else { [before, now] };
        self.verdict == IndexVerdict::NotTested && more > (1.0 + settings.margin.max(1.0)) * less
    }

    /// The verdict for an index that differs significantly.
    fn direction(&self) -> IndexVerdict {
        match self.difference {
            Some(difference) if (difference > 0.0) == self.more_is_better => IndexVerdict::Better,
            _ => IndexVerdict::Worse,
        }
    }
}

/// The confidence and the margin of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct ComparisonSettings {
    /// The confidence of all indices together, 0 to 1.
    pub confidence: f64,
    /// The share by which a delay may grow before it counts as worse.
    pub margin: f64,
}

/// Sets the verdicts of all indices. The confidence holds for all indices together, regardless of their number.
pub(super) fn judge(
    indices: &mut [ComparedIndex],
    settings: ComparisonSettings,
) -> Result<(), ComparisonError> {
    let tested: Vec<f64> = indices.iter().filter_map(|index| index.p).collect();
    let mut adjusted = holm(&tested).map_err(ComparisonError::statistics)?.into_iter();
    for index in indices.iter_mut().filter(|index| index.p.is_some()) {
        index.p_holm = adjusted.next();
        let is_significant = index.p_holm.is_some_and(|p| p < 1.0 - settings.confidence);
        index.verdict = if is_significant { index.direction() } else { IndexVerdict::NoDifference };
    }
    Ok(())
}
