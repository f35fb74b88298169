//! The path that a host is tuned for.

use std::net::IpAddr;

use netrig_core::{Duration, Rate};
use schemars::JsonSchema;
use serde::Serialize;

/// How long a processor that handles packets may be away with something else: some ticks of a kernel of 250 or more in a second.
const AWAY: f64 = 0.01;

/// From this rate on a processor of today has to be helped: fewer, longer packets, and more than one processor.
const FAST: f64 = 500e6;

/// Where a rate comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RateFrom {
    /// Whoever asks has said it.
    Told,
    /// It was measured to the server.
    Measured,
    /// The interface's own speed, which the path does not exceed.
    Interface,
}

/// What is known of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TunedPath {
    /// To whom.
    pub host: Option<IpAddr>,
    /// How long a packet and its answer take while nothing else is underway.
    pub round_trip: Option<Duration>,
    /// What it carries, and how that is known.
    pub rate: Option<(Rate, RateFrom)>,
}

impl TunedPath {
    fn bits_per_s(&self) -> Option<f64> {
        self.rate.map(|(rate, _)| rate.bits_per_s() as f64)
    }

    /// Whether it is so fast that a processor has to be helped; of an interface alone nobody knows.
    pub(super) fn is_fast(&self) -> Option<bool> {
        let fast = self.bits_per_s()? >= FAST;
        (!fast || self.is_known()).then_some(fast)
    }

    /// Whether its rate is more than a bound.
    pub(super) const fn is_known(&self) -> bool {
        matches!(self.rate, Some((_, RateFrom::Told | RateFrom::Measured)))
    }

    /// Bytes that are underway when it is full: its rate times its round trip.
    pub fn window(&self) -> Option<u64> {
        let (rate, round_trip) = (self.bits_per_s()?, self.round_trip?);
        Some((rate * round_trip.as_secs_f64() / 8.0).ceil() as u64)
    }

    /// Bytes that come while a processor is away.
    pub(super) fn meanwhile(&self) -> Option<u64> {
        self.bits_per_s().map(|rate| (rate * AWAY / 8.0).ceil() as u64)
    }
}
