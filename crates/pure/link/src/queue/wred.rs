//! Weighted random early detection: [`red`](super::red) with a curve for each drop precedence over one average queue, as
//! assured forwarding needs it (RFC 2597 section 4).

use netrig_core::{
    Backlog, Dequeue, DropReason, Dscp, Fraction, Instant, Observer, PacketMeta, QueueDiscipline, Size,
    Stream,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::buffer::{Buffer, Limit};
use super::context::QueueContext;
use super::red::{Average, Slope, Thresholds, admit};
use crate::SettingsError;
use crate::conditioning::DscpSet;
use crate::error::ensure;

/// Weighted random early detection. At least one limit must be given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wred {
    /// So many packets may wait, at least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// So many bytes of IP packets may wait, at least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Size>,
    /// Which packets are dropped at which average: the first curve that names a packet's code point is its own; the last
    /// one names none, and is for the rest. All thresholds are in packets, or all in bytes.
    pub curves: Vec<Curve>,
    /// Weight of the newest queue length in the average, above 0 and at most 1: 0.002 if not given.
    #[serde(default = "default_weight")]
    pub weight: f64,
    /// Beyond `max` the probability grows on to 1 at twice `max`, instead of at once. False if not given.
    #[serde(default)]
    pub gentle: bool,
    /// ECN-capable packets are marked rather than dropped, up to the average beyond which everything is dropped (RFC
    /// 3168). False if not given.
    #[serde(default)]
    pub ecn: bool,
    /// A typical packet, as of `red`. 500 B if not given.
    #[serde(default = "default_mean_packet")]
    pub mean_packet: Size,
}

/// How some packets are dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// The code points of these packets; those of no other curve if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<DscpSet>,
    /// Where early dropping starts and where it is at its height.
    pub thresholds: Thresholds,
    /// Probability as the average reaches `max`: 2 % if not given.
    #[serde(default = "default_max_p")]
    pub max_p: Fraction,
}

fn default_max_p() -> Fraction {
    // 1/50 is a share.
    Fraction::new(0.02).unwrap_or_default()
}

fn default_weight() -> f64 {
    0.002
}

fn default_mean_packet() -> Size {
    Size::from_bytes(500)
}

impl Wred {
    /// Whether such a queue can be.
    ///
    /// # Errors
    /// Names the field that is out of range.
    pub fn check(&self) -> Result<(), SettingsError> {
        Limit::check(self.packets, self.bytes)?;
        ensure(self.packets.is_some() || self.bytes.is_some(), "packets", "or `bytes` must be given")?;
        let curves = (1..=64).contains(&self.curves.len());
        ensure(curves, "curves", "must be from 1 to 64")?;
        for (n, curve) in self.curves.iter().enumerate() {
            let is_last = n + 1 == self.curves.len();
            self.check_curve(curve, is_last).map_err(|e| e.within(&format!("curves.{n}")))?;
        }
        ensure(self.weight > 0.0 && self.weight <= 1.0, "weight", "must be above 0 and at most 1")?;
        ensure(self.mean_packet > Size::default(), "mean_packet", "must be above zero")
    }

    fn check_curve(&self, curve: &Curve, is_last: bool) -> Result<(), SettingsError> {
        let why = "must be given, but not in the last curve, which is for the rest";
        ensure(curve.dscp.is_none() == is_last, "dscp", why)?;
        curve.thresholds.check().map_err(|e| e.within("thresholds"))?;
        let alike = curve.thresholds.is_like(self.curves[0].thresholds);
        ensure(alike, "thresholds", "must be in the unit of the first curve's: there is one average")?;
        ensure(curve.max_p.get() > 0.0, "max_p", "must be above zero")
    }
}

/// A WRED queue at work.
#[derive(Clone, Debug)]
pub struct WredQueue<P> {
    buffer: Buffer<P>,
    detector: Box<Detector>,
}

#[derive(Clone, Debug)]
struct Detector {
    average: Average,
    slopes: Vec<Slope>,
    /// The place of each code point's slope.
    by_dscp: [u8; 64],
    ecn: bool,
    luck: Stream,
}

impl<P: PacketMeta> WredQueue<P> {
    /// An empty queue, whose chances are the stream `link/<line>/red`.
    pub fn new(settings: &Wred, context: &QueueContext<'_>) -> Self {
        let curves = &settings.curves;
        let slope =
            |curve: &Curve| Slope::new(curve.thresholds, curve.max_p, settings.gentle, settings.mean_packet);
        let has = |curve: &Curve, dscp| curve.dscp.is_none_or(|set| set.contains(dscp));
        let slope_of = |value| {
            let place = curves.iter().position(|curve| has(curve, Dscp(value as u8)));
            // At most 64 curves, of which the last has all.
            place.unwrap_or_default() as u8
        };
        let packet_time = context.packet_time(settings.mean_packet);
        let detector = Detector {
            average: Average::new(curves[0].thresholds, settings.weight, packet_time),
            slopes: curves.iter().map(slope).collect(),
            by_dscp: std::array::from_fn(slope_of),
            ecn: settings.ecn,
            luck: context.stream("red"),
        };
        let buffer = Buffer::new(Limit::new(settings.packets, settings.bytes));
        Self { buffer, detector: Box::new(detector) }
    }
}

impl<P: PacketMeta> QueueDiscipline<P> for WredQueue<P> {
    fn enqueue(&mut self, now: Instant, packet: P, obs: &mut impl Observer<P>) {
        let Detector { average, slopes, by_dscp, ecn, luck } = &mut *self.detector;
        average.update(now, self.buffer.backlog());
        let header = packet.header();
        let slope = &mut slopes[usize::from(by_dscp[usize::from(header.dscp.0 & 63)])];
        // One draw per arrival, used or not: the luck of the n-th arrival depends on nothing else.
        let verdict = slope.judge(average.get(), luck.uniform(), header.ip_len);
        admit(&mut self.buffer, now, packet, verdict, *ecn, obs);
    }

    fn dequeue(&mut self, now: Instant, _obs: &mut impl Observer<P>) -> Dequeue<P> {
        let next = self.buffer.pop();
        if matches!(next, Dequeue::Packet(..)) && self.buffer.backlog().packets == 0 {
            self.detector.average.ran_empty(now);
        }
        next
    }

    fn clear(&mut self, now: Instant, why: DropReason, obs: &mut impl Observer<P>) {
        if self.buffer.backlog().packets > 0 {
            self.buffer.clear(now, why, obs);
            self.detector.average.ran_empty(now);
        }
    }

    fn backlog(&self) -> Backlog {
        self.buffer.backlog()
    }
}
