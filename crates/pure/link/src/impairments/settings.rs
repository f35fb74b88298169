//! The impairments of a line as an experiment file describes them.

use netrig_core::{Duration, Fraction, Stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SettingsError;
use crate::error::ensure;

/// A delay that differs from packet to packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Jitter {
    /// How it is spread around the line's `delay`.
    pub spread: Spread,
    /// Whether packets still arrive in the order in which they were sent: one that would overtake arrives
    /// together with the one before it. True if not given.
    #[serde(default = "yes")]
    pub keep_order: bool,
}

fn yes() -> bool {
    true
}

/// How delays are spread. A delay never falls below zero.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// Evenly, from so much less than `delay` to so much more.
    Uniform(Duration),
    /// Normal around `delay` with this standard deviation.
    Normal(Duration),
    /// `delay` and an exponential time with this mean.
    Exponential(Duration),
    /// `delay` and a Pareto time.
    Pareto(Pareto),
}

/// A Pareto time: never below mean·(shape − 1)/shape, and beyond it P(X > x) falls as x^−shape.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pareto {
    /// Mean.
    pub mean: Duration,
    /// Shape, above 1; up to 2 the variance is infinite.
    pub shape: f64,
}

/// Some packets take another time than the others, out of the order that jitter may keep.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reorder {
    /// Share of packets that are shifted.
    pub probability: Fraction,
    /// By how much; a delay never falls below zero.
    pub by: Duration,
    /// Which way; later if not given.
    #[serde(default)]
    pub shift: Shift,
}

/// Which way reordered packets are shifted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Shift {
    /// They arrive earlier than the others.
    Earlier,
    /// They arrive later than the others.
    #[default]
    Later,
}

/// Flipped bits. A corrupted packet takes its time on the line like any other and is thrown away at the far
/// end, when it arrives.
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
    /// Whether such a jitter can be on a line with this delay.
    ///
    /// # Errors
    /// Names the field that is out of range.
    pub fn check(&self, delay: Duration) -> Result<(), SettingsError> {
        match &self.spread {
            Spread::Uniform(around) => ensure(*around <= delay, "spread", "must not be wider than `delay`"),
            Spread::Normal(_) | Spread::Exponential(_) => Ok(()),
            Spread::Pareto(pareto) => ensure(
                pareto.shape > 1.0 && pareto.shape.is_finite(),
                "spread.shape",
                "must be above 1, or there is no mean",
            ),
        }
    }
}

impl Spread {
    /// The shortest delay that may come out around `delay`.
    pub(super) fn least(&self, delay: Duration) -> Duration {
        match self {
            Self::Uniform(around) => delay.saturating_sub(*around),
            Self::Normal(_) => Duration::ZERO,
            Self::Exponential(_) | Self::Pareto(_) => delay,
        }
    }

    /// The next packet's distance from the line's delay, nanoseconds.
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
            // 1 − (1 − b)^m without cancellation, for b may be 1e-12.
            Self::Bits(share) => -libm::expm1(8.0 * f64::from(ip_len) * libm::log1p(-share.get())),
        }
    }
}
