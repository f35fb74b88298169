//! Distributions of durations in experiment files: `{ exponential = "45 ms" }`.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Duration, Stream};

/// Distribution of a duration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum SpanDistribution {
    /// Always the same duration.
    Constant(Duration),
    /// Exponential with this mean: the gaps of a Poisson process.
    Exponential(Duration),
    /// Uniform between two durations.
    Uniform {
        /// The shortest.
        min: Duration,
        /// The longest.
        max: Duration,
    },
    /// Pareto: P(X > x) = (k/x)^shape with k = mean (shape − 1) / shape.
    Pareto {
        /// The mean.
        mean: Duration,
        /// The shape, above 1, because otherwise the mean is infinite. Up to 2 the variance is infinite.
        shape: f64,
    },
    /// Lognormal: the logarithm is normally distributed, approximately as for holding times of calls.
    Lognormal {
        /// The mean of the duration itself.
        mean: Duration,
        /// The standard deviation of its natural logarithm, 0 to 8.
        sigma: f64,
    },
}

/// The parameters of a distribution are invalid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DistributionError {
    /// The least value is above the greatest.
    #[error("`min` is larger than `max`")]
    Reversed,
    /// The mean is zero.
    #[error("its mean must be above zero")]
    NoMean,
    /// A Pareto distribution of this shape has no mean.
    #[error("a Pareto distribution has a mean only if its shape is above 1, not {0}")]
    Shape(f64),
    /// The standard deviation of the logarithm is out of range.
    #[error("`sigma`, the standard deviation of the logarithm, must be from 0 to 8, not {0}")]
    Sigma(f64),
}

/// The text is not a distribution of durations.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ParseDistributionError {
    /// The form is unknown.
    #[error(
        "`{0}` is neither a time such as 30s nor a distribution such as exponential:30s, uniform:10s..50s, \
         pareto:30s,1.5 or lognormal:90s,1"
    )]
    Form(String),
    /// The parameters are invalid.
    #[error("`{0}`: {1}")]
    Value(String, #[source] DistributionError),
}

/// The form of the command line: a time, `30s`, or a distribution with its parameters: `exponential:30s` (the mean),
/// `uniform:10s..50s`, `pareto:30s,1.5` (the mean and the shape), `lognormal:90s,1` (the mean and the standard deviation of
/// the logarithm).
impl FromStr for SpanDistribution {
    type Err = ParseDistributionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseDistributionError::Form(text.to_owned());
        let span = |text: &str| text.trim().parse::<Duration>().map_err(|_| wrong());
        let with_number = |text: &str| {
            let (mean, number) = text.split_once(',').ok_or_else(wrong)?;
            Ok::<_, Self::Err>((span(mean)?, number.trim().parse::<f64>().map_err(|_| wrong())?))
        };
        let Some((law, parameters)) = text.split_once(':') else { return span(text).map(Self::Constant) };
        let distribution = match law.trim() {
            "exponential" => Self::Exponential(span(parameters)?),
            "uniform" => {
                let (min, max) = parameters.split_once("..").ok_or_else(wrong)?;
                Self::Uniform { min: span(min)?, max: span(max)? }
            }
            "pareto" => with_number(parameters).map(|(mean, shape)| Self::Pareto { mean, shape })?,
            "lognormal" => with_number(parameters).map(|(mean, sigma)| Self::Lognormal { mean, sigma })?,
            _ => return Err(wrong()),
        };
        distribution.check().map_err(|why| ParseDistributionError::Value(text.to_owned(), why))?;
        Ok(distribution)
    }
}

/// The form of the command line: `30 s`, `exponential:30 s`.
impl fmt::Display for SpanDistribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(span) => write!(f, "{span}"),
            Self::Exponential(mean) => write!(f, "exponential:{mean}"),
            Self::Uniform { min, max } => write!(f, "uniform:{min}..{max}"),
            Self::Pareto { mean, shape } => write!(f, "pareto:{mean},{shape}"),
            Self::Lognormal { mean, sigma } => write!(f, "lognormal:{mean},{sigma}"),
        }
    }
}

impl SpanDistribution {
    /// Draws one duration.
    pub fn draw(&self, stream: &mut Stream) -> Duration {
        match self {
            Self::Constant(span) => *span,
            Self::Exponential(mean) => stream.exponential_duration(*mean),
            Self::Uniform { min, max } => {
                let [min, max] = [min, max].map(|span| span.as_secs_f64());
                Duration::from_secs_f64(min + (max - min) * stream.uniform())
            }
            Self::Pareto { mean, shape } => {
                let scale = mean.as_secs_f64() * (shape - 1.0) / shape;
                Duration::from_secs_f64(stream.pareto(scale, *shape))
            }
            Self::Lognormal { mean, sigma } => {
                // E[exp(N(m, s²))] = exp(m + s²/2).
                let exponent = stream.normal(-sigma * sigma / 2.0, *sigma);
                Duration::from_secs_f64(mean.as_secs_f64() * libm::exp(exponent))
            }
        }
    }

    /// The mean of the distribution.
    pub fn mean(&self) -> Duration {
        match self {
            Self::Constant(span) => *span,
            Self::Exponential(mean) | Self::Pareto { mean, .. } | Self::Lognormal { mean, .. } => *mean,
            Self::Uniform { min, max } => Duration::from_nanos(min.as_nanos().midpoint(max.as_nanos())),
        }
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// A parameter that is out of range.
    pub fn check(&self) -> Result<(), DistributionError> {
        match self {
            Self::Uniform { min, max } if min > max => Err(DistributionError::Reversed),
            own if own.mean().is_zero() => Err(DistributionError::NoMean),
            Self::Pareto { shape, .. } if !(*shape > 1.0 && shape.is_finite()) => {
                Err(DistributionError::Shape(*shape))
            }
            Self::Lognormal { sigma, .. } if !(0.0..=8.0).contains(sigma) => {
                Err(DistributionError::Sigma(*sigma))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_of_nonsense_is_refused() {
        let second = Duration::from_secs(1);
        let of_none = SpanDistribution::Exponential(Duration::ZERO);
        assert_eq!(of_none.check(), Err(DistributionError::NoMean));
        let reversed = SpanDistribution::Uniform { min: second * 2, max: second };
        assert_eq!(reversed.check(), Err(DistributionError::Reversed));
        for shape in [1.0, f64::NAN, f64::INFINITY] {
            let heavy = SpanDistribution::Pareto { mean: second, shape };
            assert!(matches!(heavy.check(), Err(DistributionError::Shape(_))), "{shape}");
        }
        SpanDistribution::Pareto { mean: second, shape: 1.2 }.check().unwrap();
        for sigma in [-0.1, 8.1, f64::NAN] {
            let wide = SpanDistribution::Lognormal { mean: second, sigma };
            assert!(matches!(wide.check(), Err(DistributionError::Sigma(_))), "{sigma}");
        }
        SpanDistribution::Lognormal { mean: second, sigma: 1.0 }.check().unwrap();
    }

    #[test]
    fn a_law_is_typed_with_what_it_is_told() {
        let seconds = Duration::from_secs;
        for (text, law) in [
            ("0s", SpanDistribution::Constant(Duration::ZERO)),
            ("30 s", SpanDistribution::Constant(seconds(30))),
            ("exponential:30 s", SpanDistribution::Exponential(seconds(30))),
            ("uniform:1s..5s", SpanDistribution::Uniform { min: seconds(1), max: seconds(5) }),
            ("pareto:3s,1.5", SpanDistribution::Pareto { mean: seconds(3), shape: 1.5 }),
            ("lognormal: 90s, 1", SpanDistribution::Lognormal { mean: seconds(90), sigma: 1.0 }),
        ] {
            assert_eq!(text.parse(), Ok(law.clone()), "{text}");
            assert_eq!(law.to_string().parse(), Ok(law));
        }
        for text in ["30", "normal:1s", "exponential 1s", "uniform:1s", "pareto:1s", "lognormal:1s,x"] {
            let error = text.parse::<SpanDistribution>().unwrap_err();
            assert_eq!(error, ParseDistributionError::Form(text.to_owned()));
        }
        let error = "uniform:5s..1s".parse::<SpanDistribution>().unwrap_err();
        assert_eq!(error.to_string(), "`uniform:5s..1s`: `min` is larger than `max`");
    }

    /// The mean is e^{s²/2} times the median. Its relative standard error over n draws is √((e^{s²} − 1) / n). The share
    /// below the median is 1/2, with a standard error of 1 / (2√n).
    #[test]
    fn a_lognormal_span_has_its_mean_and_its_median() {
        let (mean, sigma, n) = (90.0, 1.0, 20_000.0);
        let law = SpanDistribution::Lognormal { mean: Duration::from_secs(90), sigma };
        let mut stream = crate::Seeds::new(1).stream("lognormal");
        let spans: Vec<f64> = (0..20_000).map(|_| law.draw(&mut stream).as_secs_f64()).collect();
        let deviation = mean * ((libm::exp(sigma * sigma) - 1.0) / n).sqrt();
        assert!((spans.iter().sum::<f64>() / n - mean).abs() < 4.0 * deviation);
        let median = mean / libm::exp(sigma * sigma / 2.0);
        let below = spans.iter().filter(|span| **span < median).count() as f64 / n;
        assert!((below - 0.5).abs() < 4.0 / (2.0 * n.sqrt()), "{below}");
    }
}
