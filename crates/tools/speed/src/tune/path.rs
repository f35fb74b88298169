//! The path that a host is tuned for.

use std::net::IpAddr;

use netrig_core::{Duration, Rate};
use schemars::JsonSchema;
use serde::Serialize;

/// Time for which a processor that handles packets may be busy with other work, s. It is at least two ticks of a kernel
/// with 250 Hz or more.
const AWAY: f64 = 0.01;

/// At this rate and above, a current processor needs offloads and the help of other processors, bit/s.
const FAST: f64 = 500e6;

/// The source of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RateFrom {
    /// The user gave it.
    Told,
    /// It was measured with the server.
    Measured,
    /// The speed of the interface, which is an upper bound for the path.
    Interface,
}

/// The known properties of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TunedPath {
    /// The host at the far end of the path.
    pub host: Option<IpAddr>,
    /// The round-trip time of the idle path.
    pub round_trip: Option<Duration>,
    /// The rate and its source.
    pub rate: Option<(Rate, RateFrom)>,
}

impl TunedPath {
    fn bits_per_s(&self) -> Option<f64> {
        self.rate.map(|(rate, _)| rate.bits_per_s() as f64)
    }

    /// Whether the path is so fast that a processor needs offloads and the help of others. `None` if the rate is not
    /// known, or if it is only bounded by a fast interface.
    pub(super) fn is_fast(&self) -> Option<bool> {
        let fast = self.bits_per_s()? >= FAST;
        (!fast || self.is_known()).then_some(fast)
    }

    /// Whether the rate itself is known, not only an upper bound.
    pub(super) const fn is_known(&self) -> bool {
        matches!(self.rate, Some((_, RateFrom::Told | RateFrom::Measured)))
    }

    /// The bandwidth-delay product: rate times round-trip time, bytes.
    pub fn window(&self) -> Option<u64> {
        let (rate, round_trip) = (self.bits_per_s()?, self.round_trip?);
        Some((rate * round_trip.as_secs_f64() / 8.0).ceil() as u64)
    }

    /// Number of bytes that arrive while a processor is busy with other work.
    pub(super) fn meanwhile(&self) -> Option<u64> {
        self.bits_per_s().map(|rate| (rate * AWAY / 8.0).ceil() as u64)
    }
}
