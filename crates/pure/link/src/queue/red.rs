//! Random early detection: S. Floyd and V. Jacobson, "Random Early Detection Gateways for Congestion
//! Avoidance", IEEE/ACM Transactions on Networking 1(4), 1993; called "the paper" here.
//!
//! The average queue and the probability follow the algorithm of the paper (figure 2), with two later options: `gentle` (Floyd
//! 2000) and marking of ECN-capable packets (RFC 3168).

use netrig_core::{Backlog, DropReason, Duration, Ecn, Fraction, Instant, Observer, PacketMeta, Size};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::buffer::{Buffer, QueueLimit};
use crate::SettingsError;
use crate::error::ensure;

/// Random early detection. At least one limit must be given, because the average follows bursts too slowly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Red {
    /// Largest number of waiting packets, at least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// Largest number of waiting bytes of IP packets, at least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Size>,
    /// The averages at which early dropping starts and reaches its maximum, in packets or in bytes. In bytes, the probability
    /// of a packet is also proportional to its length.
    pub thresholds: Thresholds,
    /// Probability as the average reaches `max`. 2 % (1/50 in the paper) if not given.
    #[serde(default = "default_max_p")]
    pub max_p: Fraction,
    /// Weight of the newest queue length in the average, above 0 and at most 1. 0.002 (as in the paper) if not given.
    #[serde(default = "default_weight")]
    pub weight: f64,
    /// Whether the probability rises gradually to 1 between `max` and twice `max`, instead of at once at `max` (Floyd
    /// 2000). False, as in the paper, if not given.
    #[serde(default)]
    pub gentle: bool,
    /// Whether ECN-capable packets are marked rather than dropped, up to the average from which all packets are dropped (RFC
    /// 3168). False if not given.
    #[serde(default)]
    pub ecn: bool,
    /// The size of a typical packet. During an idle time the average decays once per sending time of this packet. With
    /// thresholds in bytes, the curve gives the probability of this packet. 500 B if not given.
    #[serde(default = "default_mean_packet")]
    pub mean_packet: Size,
}

/// Thresholds of the average queue.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Thresholds {
    /// In packets.
    Packets {
        /// Below this average no packet is dropped early.
        min: f64,
        /// From this average on all packets are dropped, or with `gentle` from twice this average.
        max: f64,
    },
    /// In bytes of IP packets.
    Bytes {
        /// Below this average no packet is dropped early.
        min: Size,
        /// From this average on all packets are dropped, or with `gentle` from twice this average.
        max: Size,
    },
}

pub(super) fn default_max_p() -> Fraction {
    // 1/50 is a valid share.
    Fraction::new(0.02).unwrap_or_default()
}

pub(super) fn default_weight() -> f64 {
    0.002
}

pub(super) fn default_mean_packet() -> Size {
    Size::from_bytes(500)
}

impl Thresholds {
    /// Lower and upper threshold, in packets or bytes.
    fn range(self) -> (f64, f64) {
        match self {
            Self::Packets { min, max } => (min, max),
            Self::Bytes { min, max } => (min.bytes() as f64, max.bytes() as f64),
        }
    }

    /// Checks their order and range.
    pub(super) fn check(self) -> Result<(), SettingsError> {
        let (min, max) = self.range();
        ensure(min >= 0.0, "min", "must not be negative")?;
        ensure(min < max && max.is_finite(), "max", "must be above `min`")
    }

    /// Whether both thresholds have the same unit, packets or bytes.
    pub(super) fn is_like(self, other: Self) -> bool {
        matches!(self, Self::Bytes { .. }) == matches!(other, Self::Bytes { .. })
    }
}

impl Red {
    /// Checks the settings.
    ///
    /// # Errors
    /// If a field is out of range. The error names it.
    pub fn check(&self) -> Result<(), SettingsError> {
        QueueLimit::check(self.packets, self.bytes)?;
        ensure(self.packets.is_some() || self.bytes.is_some(), "packets", "or `bytes` must be given")?;
        self.thresholds.check().map_err(|e| e.within("thresholds"))?;
        ensure(self.max_p.get() > 0.0, "max_p", "must be above zero")?;
        ensure(self.weight > 0.0 && self.weight <= 1.0, "weight", "must be above 0 and at most 1")?;
        ensure(self.mean_packet > Size::default(), "mean_packet", "must be above zero")
    }
}

/// The average queue length (EWMA).
#[derive(Clone, Debug)]
pub(super) struct Average {
    in_bytes: bool,
    weight: f64,
    /// s of the paper: the sending time of a typical packet at the initial rate of the line.
    packet_time: Duration,
    /// avg of the paper, in the unit of the thresholds.
    average: f64,
    /// q_time of the paper: when the queue became empty.
    empty_since: Instant,
}

/// The drop probability as a function of the average.
#[derive(Clone, Debug)]
pub(super) struct Slope {
    /// The lower and upper threshold.
    range: (f64, f64),
    max_p: f64,
    gentle: bool,
    /// The mean packet length, for which the curve gives the probability. Only with thresholds in bytes.
    mean_packet: Option<f64>,
    /// Packets since the last one that was marked or dropped early while the average was between the thresholds. −1
    /// before the first.
    count: i64,
}

/// The decision about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RedVerdict {
    Pass,
    /// Mark the packet if possible, otherwise drop it.
    Notify,
    Drop,
}

impl Average {
    /// The average of an empty queue, in the unit of these thresholds.
    pub(super) fn new(thresholds: Thresholds, weight: f64, packet_time: Duration) -> Self {
        let in_bytes = matches!(thresholds, Thresholds::Bytes { .. });
        Self { in_bytes, weight, packet_time, average: 0.0, empty_since: Instant::ZERO }
    }

    pub(super) fn get(&self) -> f64 {
        self.average
    }

    /// Updates the average as in the paper. Each arrival moves the average towards the current queue. After an idle
    /// time, an arrival at the empty queue lets the average decay as if m small packets had arrived at an empty queue
    /// since `empty_since`.
    pub(super) fn update(&mut self, now: Instant, backlog: Backlog) {
        if backlog.packets == 0 {
            let idle = now.since(self.empty_since).as_nanos() as f64;
            let m = idle / (self.packet_time.as_nanos() as f64).max(1.0);
            self.average *= libm::pow(1.0 - self.weight, m);
            // If this arrival is dropped, the queue stays empty. The idle time up to now must not count again.
            self.empty_since = now;
        } else {
            let queue = if self.in_bytes { backlog.bytes as f64 } else { backlog.packets as f64 };
            self.average += self.weight * (queue - self.average);
        }
    }

    /// The queue ran empty.
    pub(super) fn ran_empty(&mut self, now: Instant) {
        self.empty_since = now;
    }
}

impl Slope {
    pub(super) fn new(thresholds: Thresholds, max_p: Fraction, gentle: bool, mean_packet: Size) -> Self {
        let in_bytes = matches!(thresholds, Thresholds::Bytes { .. });
        let mean_packet = in_bytes.then_some(mean_packet.bytes() as f64);
        Self { range: thresholds.range(), max_p: max_p.get(), gentle, mean_packet, count: -1 }
    }

    /// p_b of the paper: the probability at this average. `None` if all packets are dropped.
    fn base_probability(&self, average: f64) -> Option<f64> {
        let (min, max) = self.range;
        let max_p = self.max_p;
        if average < max {
            Some(max_p * (average - min) / (max - min))
        } else if self.gentle && average < 2.0 * max {
            Some(max_p + (1.0 - max_p) * (average - max) / max)
        } else {
            None
        }
    }

    /// Decides about a packet. `draw` is a random number in [0, 1).
    pub(super) fn judge(&mut self, average: f64, draw: f64, ip_len: u32) -> RedVerdict {
        if average < self.range.0 {
            self.count = -1;
            return RedVerdict::Pass;
        }
        let Some(mut p_b) = self.base_probability(average) else {
            self.count = 0;
            return RedVerdict::Drop;
        };
        if let Some(mean_packet) = self.mean_packet {
            p_b *= f64::from(ip_len) / mean_packet;
        }
        self.count += 1;
        if draw < spaced(p_b, self.count) {
            self.count = 0;
            return RedVerdict::Notify;
        }
        RedVerdict::Pass
    }
}

/// p_a of the paper: p_b / (1 − count·p_b), which spaces the drops evenly rather than geometrically.
fn spaced(p_b: f64, count: i64) -> f64 {
    let left = 1.0 - count as f64 * p_b;
    if left <= p_b { 1.0 } else { p_b / left }
}

/// Applies a verdict to a packet: it waits, perhaps marked, or is dropped.
pub(super) fn admit<P: PacketMeta>(
    buffer: &mut Buffer<P>,
    now: Instant,
    mut packet: P,
    verdict: RedVerdict,
    ecn: bool,
    obs: &mut impl Observer<P>,
) {
    // RFC 3168 section 5: a packet that carries ECT or CE belongs to an ECN-capable transport.
    let markable = ecn && packet.header().ecn != Ecn::NotEct;
    if verdict == RedVerdict::Drop || verdict == RedVerdict::Notify && !markable {
        return obs.dropped(now, &packet, DropReason::Early);
    }
    if verdict == RedVerdict::Notify && buffer.has_room_for(&packet) {
        packet.header_mut().ecn = Ecn::Ce;
        obs.marked(now, &packet);
    }
    buffer.push(now, packet, obs);
}
