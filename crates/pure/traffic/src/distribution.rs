//! Distributions of sizes as an experiment file writes them: `{ pareto = { mean = "10 KB", shape = 1.5 } }`.

use netrig_core::{Size, Stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Genome, Imix, SettingsError};

/// A distribution of sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum SizeDistribution {
    /// A constant size.
    Constant(Size),
    /// Exponential with this mean, rounded to whole bytes.
    Exponential(Size),
    /// Uniform between two sizes.
    Uniform {
        /// The smallest.
        min: Size,
        /// The largest.
        max: Size,
    },
    /// Pareto: P(X > x) = (k/x)^shape with k = mean (shape − 1) / shape.
    Pareto {
        /// The mean without truncation.
        mean: Size,
        /// Above 1, because otherwise the mean is infinite. Up to 2 the variance is infinite.
        shape: f64,
        /// Largest size; larger values are replaced by it. If absent, the tail is unbounded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<Size>,
    },
    /// Payloads of datagrams whose IP packets form a named mix, drawn by its shares.
    Imix(Imix),
    /// Payloads of datagrams by the letters of a genome (RFC 6985), in order.
    Genome(Genome),
}

impl SizeDistribution {
    /// The sizes that the file names: means and limits.
    pub(crate) fn named(&self) -> Vec<Size> {
        match *self {
            Self::Constant(size) | Self::Exponential(size) => vec![size],
            Self::Uniform { min, max } => vec![min, max],
            Self::Pareto { mean, max, .. } => std::iter::once(mean).chain(max).collect(),
            Self::Imix(_) => vec![],
            Self::Genome(ref genome) => genome.sizes.values().copied().collect(),
        }
    }

    /// The largest size, bytes. If it is unbounded, the mean.
    pub fn largest(&self) -> u64 {
        match self {
            Self::Constant(size) | Self::Uniform { max: size, .. } | Self::Pareto { max: Some(size), .. } => {
                size.bytes()
            }
            Self::Exponential(mean) | Self::Pareto { mean, max: None, .. } => mean.bytes(),
            Self::Imix(mix) => mix.payloads().into_iter().map(|(payload, _)| payload).max().unwrap_or(0),
            Self::Genome(genome) => genome.payloads().max().unwrap_or(0),
        }
    }

    /// Size number `n`, counted from 0. A genome gives its sizes in order; sizes of all other distributions are drawn.
    pub fn draw_nth(&self, n: u64, stream: &mut Stream) -> u64 {
        match self {
            Self::Genome(genome) => genome.payload(n),
            drawn => drawn.draw(stream),
        }
    }

    /// Draws one size, at least one byte.
    pub fn draw(&self, stream: &mut Stream) -> u64 {
        let bytes = match self {
            Self::Imix(mix) => {
                let payloads = mix.payloads();
                let mut place = stream.below(payloads.iter().map(|(_, count)| count).sum());
                let drawn = payloads.iter().find(|(_, count)| {
                    let found = place < *count;
                    place = place.saturating_sub(*count);
                    found
                });
                return drawn.map_or(1, |(payload, _)| *payload);
            }
            Self::Genome(genome) => return genome.payload(stream.below(genome.sequence.len() as u64)),
            Self::Constant(size) => return size.bytes().max(1),
            Self::Exponential(mean) => stream.exponential(mean.bytes() as f64),
            Self::Uniform { min, max } => uniform(stream, min.bytes() as f64, max.bytes() as f64),
            Self::Pareto { mean, shape, max } => {
                let bytes = stream.pareto(pareto_scale(mean.bytes() as f64, *shape), *shape);
                max.map_or(bytes, |max| bytes.min(max.bytes() as f64))
            }
        };
        // `as` saturates, so the result is defined for the whole Pareto tail.
        (bytes.round() as u64).max(1)
    }

    /// The mean, bytes, after truncation.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Constant(size) | Self::Exponential(size) => size.bytes() as f64,
            Self::Uniform { min, max } => (min.bytes() as f64 + max.bytes() as f64) / 2.0,
            Self::Imix(mix) => {
                let total = |of: fn(&(u64, u64)) -> u64| mix.payloads().iter().map(of).sum::<u64>() as f64;
                total(|(payload, count)| payload * count) / total(|(_, count)| *count)
            }
            Self::Genome(genome) => genome.payloads().sum::<u64>() as f64 / genome.sequence.len() as f64,
            Self::Pareto { mean, shape, max } => {
                let (mean, shape) = (mean.bytes() as f64, *shape);
                let k = pareto_scale(mean, shape);
                // E[min(X, m)] = mean − ∫ₘ^∞ (k/x)^shape dx
                let tail = |m: f64| k * libm::pow(k / m, shape - 1.0) / (shape - 1.0);
                max.map_or(mean, |max| mean - tail((max.bytes() as f64).max(k)))
            }
        }
    }

    /// Whether the variance is infinite, so that sample means converge too slowly to be reliable.
    pub fn has_infinite_variance(&self) -> bool {
        matches!(self, Self::Pareto { shape, max: None, .. } if *shape <= 2.0)
    }

    /// Returns an error for a distribution with invalid parameters. `field` is its key, for the error.
    ///
    /// # Errors
    /// Names the value that is out of range.
    pub fn check(&self, field: &'static str) -> Result<(), SettingsError> {
        if let Self::Genome(genome) = self {
            return genome.check(field);
        }
        check_range(field, self.mean() <= 0.0, matches!(self, Self::Uniform { min, max } if min > max))?;
        if let Self::Pareto { shape, .. } = self { check_shape(field, *shape) } else { Ok(()) }
    }
}

fn uniform(stream: &mut Stream, min: f64, max: f64) -> f64 {
    min + (max - min) * stream.uniform()
}

fn pareto_scale(mean: f64, shape: f64) -> f64 {
    mean * (shape - 1.0) / shape
}

fn check_range(field: &'static str, no_mean: bool, reversed: bool) -> Result<(), SettingsError> {
    if reversed {
        return Err(SettingsError::new(field, "`min` is larger than `max`"));
    }
    if no_mean {
        return Err(SettingsError::new(field, "its mean must be above zero"));
    }
    Ok(())
}

fn check_shape(field: &'static str, shape: f64) -> Result<(), SettingsError> {
    if shape > 1.0 && shape.is_finite() {
        return Ok(());
    }
    Err(SettingsError::new(
        field,
        format!("a Pareto distribution has a mean only if its shape is above 1, not {shape}"),
    ))
}

#[cfg(test)]
mod tests {
    use netrig_core::Seeds;

    use super::*;

    fn mean_of(d: &SizeDistribution, n: u32) -> f64 {
        let mut stream = Seeds::new(5).stream("test");
        (0..n).map(|_| d.draw(&mut stream) as f64).sum::<f64>() / f64::from(n)
    }

    #[test]
    fn sample_means_are_the_means() {
        let kb = Size::from_bytes(10_000);
        // The tolerance is five standard errors: σ = mean for the exponential, range/√12 for the uniform.
        let n = 100_000;
        assert!((mean_of(&SizeDistribution::Exponential(kb), n) - 1e4).abs() < 5.0 * 1e4 / 316.2);
        let uniform = SizeDistribution::Uniform { min: Size::from_bytes(0), max: kb };
        assert!((mean_of(&uniform, n) - 5e3).abs() < 5.0 * 1e4 / 12f64.sqrt() / 316.2);
        // The variance of a truncated Pareto is finite: σ² ≤ max·mean.
        let pareto =
            SizeDistribution::Pareto { mean: kb, shape: 1.5, max: Some(Size::from_bytes(1_000_000)) };
        assert!((mean_of(&pareto, n) - pareto.mean()).abs() < 5.0 * (1e6 * 1e4f64).sqrt() / 316.2);
        // k = 3333 B, tail beyond 1 MB: 3333·(3333/10⁶)^½/0.5 = 384.9 B.
        assert!((pareto.mean() - (1e4 - 384.9)).abs() < 0.1);
    }

    #[test]
    fn the_largest_size_is_drawn_and_nothing_beyond_it() {
        let (kb, two) = (Size::from_bytes(1000), Size::from_bytes(2000));
        for bounded in [
            SizeDistribution::Constant(kb),
            SizeDistribution::Uniform { min: kb, max: two },
            SizeDistribution::Pareto { mean: kb, shape: 1.2, max: Some(two) },
            SizeDistribution::Imix(Imix::Simple),
            SizeDistribution::Genome(Genome { sequence: "ag".into(), sizes: [].into() }),
        ] {
            let mut stream = Seeds::new(3).stream("sizes");
            let largest = (0..10_000).map(|n| bounded.draw_nth(n, &mut stream)).max();
            assert_eq!(largest, Some(bounded.largest()), "{bounded:?}");
        }
        assert_eq!(SizeDistribution::Exponential(kb).largest(), 1000);
    }

    /// (7·40 + 4·576 + 1500)/12 = 340.33 bytes per IP packet, 28 of which are headers.
    #[test]
    fn the_simple_mix_has_its_mean_and_only_its_sizes() {
        let simple = SizeDistribution::Imix(Imix::Simple);
        assert!((simple.mean() - (4084.0 / 12.0 - 28.0)).abs() < 1e-9);
        let mut stream = Seeds::new(7).stream("sizes");
        let n = 120_000_u32;
        let mut counts = std::collections::BTreeMap::new();
        (0..n).for_each(|_| *counts.entry(simple.draw(&mut stream)).or_insert(0_u32) += 1);
        assert_eq!(counts.keys().copied().collect::<Vec<_>>(), [12, 548, 1472]);
        for (size, share) in [(12, 7.0), (548, 4.0), (1472, 1.0_f64)] {
            let (expected, count) = (f64::from(n) * share / 12.0, f64::from(counts[&size]));
            // Five standard deviations of a binomial count.
            assert!(
                (count - expected).abs() < 5.0 * (expected * (1.0 - share / 12.0)).sqrt(),
                "{size}: {count}"
            );
        }
    }

    #[test]
    fn a_pareto_is_never_below_its_scale() {
        let d = SizeDistribution::Pareto { mean: Size::from_bytes(10_000), shape: 1.5, max: None };
        let mut stream = Seeds::new(1).stream("test");
        assert!((0..10_000).all(|_| d.draw(&mut stream) >= 3333));
        assert!(d.has_infinite_variance());
    }

    #[test]
    fn a_distribution_of_sizes_of_nonsense_is_refused() {
        let pareto = SizeDistribution::Pareto { mean: Size::from_bytes(10), shape: 1.0, max: None };
        assert!(pareto.check("size").unwrap_err().to_string().contains("shape is above 1"));
        let [one, two] = [1000, 2000].map(Size::from_bytes);
        assert!(SizeDistribution::Uniform { min: two, max: one }.check("size").is_err());
    }
}
