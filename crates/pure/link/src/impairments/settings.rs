//! The impairments of a line as an experiment file describes them.

use netrig_core::{Duration, Fraction, Stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SettingsError;
use crate::error::ensure;

/// A random delay for each packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Jitter {
    /// The distribution around the line's `delay`.
    pub spread: Spread,
    /// Whether packets arrive in the order of sending: a packet that would overtake arrives together with the previous
    /// packet. True if not given.
    #[serde(default = "yes")]
    pub keep_order: bool,
}

fn yes() -> bool {
    true
}

/// The distribution of delays. A delay is never below zero.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// Uniform between `delay` minus this and `delay` plus this.
    Uniform(Duration),
    /// Normal around `delay` with this standard deviation.
    Normal(Duration),
    /// `delay` plus an exponential time with this mean.
    Exponential(Duration),
    /// `delay` plus a Pareto time.
    Pareto(Pareto),
}

/// A Pareto time: never below mean·(shape − 1)/shape. Above it P(X > x) falls as x^−shape.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pareto {
    /// Mean.
    pub mean: Duration,
    /// Shape, above 1. Up to 2 the variance is infinite.
    pub shape: f64,
}

/// A shift of the delay of some packets. The `keep_order` of jitter does not apply to them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reorder {
    /// Share of packets that are shifted.
    pub probability: Fraction,
    /// The shift. A delay is never below zero.
    pub by: Duration,
    /// The direction of the shift. `later` if not given.
    #[serde(default)]
    pub shift: Shift,
}

/// The direction in which reordered packets are shifted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Shift {
    /// They arrive earlier.
    Earlier,
    /// They arrive later.
    #[default]
    Later,
}

/// Bit errors. A corrupted packet takes the same time on the line as any other and is dropped at the far end when it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Corruption {
    /// This share of packets.
    Packets(Fraction),
    /// This share of bits, independently: an IP packet of n bytes is corrupted with probability
    /// 1 − (1 − share)^(8n).
    Bits(Fraction),
}

impl Jitter {
    /// Checks the settings for a line with this delay.
    ///
    /// # Errors
    /// If a field is out of range. The error names it.
    pub fn check(&self, delay: Duration) -> Result<(), SettingsError> {
        match &self.spread {
            Spread::Uniform(around) => ensure(*around <= delay, "spread", "must not be wider than `delay`"),
            Spread::Normal(_) | Spread::Exponential(_) => Ok(()),
            Spread::Pareto(pareto) => ensure(
                pareto.shape > 1.0 && pareto.shape.is_finite(),
                "spread.shape",
                "must be above 1, otherwise there is no mean",
            ),
        }
    }
}

impl Spread {
    /// The shortest possible delay around `delay`.
    pub(super) fn least(&self, delay: Duration) -> Duration {
        match self {
            Self::Uniform(around) => delay.saturating_sub(*around),
            Self::Normal(_) => Duration::ZERO,
            Self::Exponential(_) | Self::Pareto(_) => delay,
        }
    }

    /// Draws the difference of the next packet's delay from the line's delay, nanoseconds.
    pub(super) fn draw(&self, luck: &mut Stream) -> f64 {
        let nanos = |span: Duration| span.as_nanos() as f64;
        match self {
            Self::Uniform(around) => nanos(*around) * (2.0 * luck.uniform() - 1.0),
            Self::Normal(deviation) => luck.normal(0.0, nanos(*deviation)),
            Self::Exponential(mean) => luck.exponential(nanos(*mean)),
            Self::Pareto(Pareto { mean, shape }) => luck.pareto(nanos(*mean) * (shape - 1.0) / shape, *shape),
        }
    }
}

impl Corruption {
    pub(super) fn probability(self, ip_len: u32) -> f64 {
        match self {
            Self::Packets(share) => share.get(),
            // 1 − (1 − b)^m without cancellation, because b may be 1e-12.
            Self::Bits(share) => -libm::expm1(8.0 * f64::from(ip_len) * libm::log1p(-share.get())),
        }
    }
}
