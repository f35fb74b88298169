//! Statistics of the observations of one run, and of the members of a group.

use std::fmt;
use std::str::FromStr;

use netrig_core::{written, written_as_text};
use netrig_stats::{StatsError, quantile, summary::Summary};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A statistic of the observations of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Statistic {
    /// The arithmetic mean.
    #[default]
    Mean,
    /// The quantile of this probability, 0 to 1: `p95` is 0.95.
    Quantile(f64),
    /// The largest.
    Max,
    /// The smallest.
    Min,
    /// The standard deviation (divisor n − 1).
    Sd,
}

impl Statistic {
    /// Whether a running summary suffices, so that single observations need not be stored.
    pub(crate) const fn streams(self) -> bool {
        !matches!(self, Self::Quantile(_))
    }

    /// The statistic of a summary. `None` if there are too few observations, or for a quantile.
    pub(crate) fn of_summary(self, summary: &Summary) -> Option<f64> {
        match self {
            Self::Mean => summary.mean(),
            Self::Max => summary.max(),
            Self::Min => summary.min(),
            Self::Sd => summary.sd(),
            Self::Quantile(_) => None,
        }
    }

    /// The statistic of all observations. `None` if there are too few.
    ///
    /// # Errors
    /// An observation that is not finite.
    pub(crate) fn of(self, values: &[f64]) -> Result<Option<f64>, StatsError> {
        match self {
            _ if values.is_empty() => Ok(None),
            Self::Quantile(p) => quantile::quantile(values, p).map(Some),
            _ => Ok(self.of_summary(&Summary::of(values)?)),
        }
    }
}

/// The text does not name a statistic.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no statistic: expected mean, min, max, sd, median or a quantile such as p95 or p99.9")]
pub struct StatisticError(String);

impl FromStr for Statistic {
    type Err = StatisticError;

    fn from_str(text: &str) -> Result<Self, StatisticError> {
        let error = || StatisticError(text.to_owned());
        match text {
            "mean" => Ok(Self::Mean),
            "max" => Ok(Self::Max),
            "min" => Ok(Self::Min),
            "sd" => Ok(Self::Sd),
            "median" => Ok(Self::Quantile(0.5)),
            _ => {
                let percent: f64 = text.strip_prefix('p').ok_or_else(error)?.parse().map_err(|_| error())?;
                if percent > 0.0 && percent < 100.0 {
                    Ok(Self::Quantile(percent / 100.0))
                } else {
                    Err(error())
                }
            }
        }
    }
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mean => f.write_str("mean"),
            Self::Max => f.write_str("max"),
            Self::Min => f.write_str("min"),
            Self::Sd => f.write_str("sd"),
            // Rounds to 8 decimals: 0.999 * 100 would print as 99.90000000000001.
            Self::Quantile(p) => write!(f, "p{}", (p * 1e10).round() / 1e8),
        }
    }
}

written_as_text!(Statistic, written::text, "a statistic such as `mean` or `p95`", "Statistic", {
    "type": "string",
    "pattern": "^(mean|median|max|min|sd|p[0-9]+(\\.[0-9]+)?)$",
    "description": "Statistic of the observations of one run.",
    "examples": ["mean", "p95", "p99.9"]
});

/// How the members of a group become one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Per {
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
    /// The largest.
    Max,
    /// The smallest.
    Min,
    /// Jain's fairness index: 1 if all are equal, 1/n if one member has everything.
    Jain,
    /// Their observations or counts joined as if they came from one member.
    Pooled,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statistic_reads_what_it_writes() {
        for text in ["mean", "min", "max", "sd", "p50", "p95", "p99.9", "p99.99"] {
            assert_eq!(text.parse::<Statistic>().unwrap().to_string(), text);
        }
        assert_eq!("median".parse(), Ok(Statistic::Quantile(0.5)));
        for wrong in ["p0", "p100", "p", "average", "95"] {
            assert!(wrong.parse::<Statistic>().is_err(), "{wrong}");
        }
    }

    /// Ten delays of 11 to 20 ms, in any order. Type 7 interpolates at position 1 + 9 p, as R and NumPy do by default.
    #[test]
    fn quantiles_of_a_run_are_of_type_seven() {
        let delays = [14.0, 20.0, 11.0, 17.0, 13.0, 19.0, 12.0, 16.0, 15.0, 18.0];
        for (text, expected) in
            [("p25", 13.25), ("median", 15.5), ("p90", 19.1), ("p95", 19.55), ("p99.9", 19.991)]
        {
            let got = text.parse::<Statistic>().unwrap().of(&delays).unwrap().unwrap();
            assert!((got - expected).abs() < 1e-12, "{text}: {got}");
        }
    }

    /// The values 1, 2, 3, 10 have the mean 16/4 and sd² = (9 + 4 + 1 + 36)/3. The median is halfway between 2 and 3.
    #[test]
    fn of_four_values() {
        let of = |text: &str| text.parse::<Statistic>().unwrap().of(&[3.0, 1.0, 10.0, 2.0]).unwrap().unwrap();
        assert!((of("mean") - 4.0).abs() < 1e-12);
        assert_eq!((of("min"), of("max"), of("p50")), (1.0, 10.0, 2.5));
        assert!((of("sd") * of("sd") - 50.0 / 3.0).abs() < 1e-12);
        assert_eq!(Statistic::Sd.of(&[1.0]), Ok(None));
        assert_eq!(Statistic::Mean.of(&[]), Ok(None));
    }
}
