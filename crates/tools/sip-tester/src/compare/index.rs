//! An index in both results, and what is said of it.

use netrig_stats::multiple::holm;
use serde::Serialize;

use super::error::ComparisonError;

/// What is said of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum IndexVerdict {
    /// Worse, and not by chance.
    Worse,
    /// Better, and not by chance.
    Better,
    /// What there is may be chance, or within the margin.
    NoDifference,
    /// Nothing can be said.
    NotTested,
}

/// An index in both results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedIndex {
    /// `success of call`, `connection, mean`.
    pub name: String,
    /// `us`, `1` of a share, `1/s`.
    pub unit: &'static str,
    /// As it was.
    pub before: Option<f64>,
    /// As it is.
    pub now: Option<f64>,
    /// By how much it is more than it was.
    pub difference: Option<f64>,
    /// The lower end of its interval.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
    /// The probability of such a difference by chance.
    pub p: Option<f64>,
    /// The same for all indices together, after Holm.
    pub p_holm: Option<f64>,
    /// What is said of it.
    pub verdict: IndexVerdict,
    /// What made it so, or why nothing can be said.
    pub how: String,
    /// Whether more of it is better.
    #[serde(skip)]
    pub more_is_better: bool,
}

impl ComparedIndex {
    /// One of which nothing can be said.
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

    /// Whether it is more than twice as bad as it was, beyond the margin, and cannot be tested: that is no pass.
    pub(super) fn is_open(&self, settings: ComparisonSettings) -> bool {
        let (Some(before), Some(now)) = (self.before, self.now) else { return false };
        let [less, more] = if self.more_is_better { [now, before] } else { [before, now] };
        self.verdict == IndexVerdict::NotTested && more > (1.0 + settings.margin.max(1.0)) * less
    }

    /// Whether it differs for the worse, if it differs.
    fn direction(&self) -> IndexVerdict {
        match self.difference {
            Some(difference) if (difference > 0.0) == self.more_is_better => IndexVerdict::Better,
            _ => IndexVerdict::Worse,
        }
    }
}

/// How sure, and beyond what.
#[derive(Clone, Copy, Debug)]
pub struct ComparisonSettings {
    /// The confidence of all indices together, from 0 to 1.
    pub confidence: f64,
    /// The share by which a delay may grow before it counts as worse.
    pub margin: f64,
}

/// Judges all indices together: one of them errs with the risk that was allowed, however many there are.
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
