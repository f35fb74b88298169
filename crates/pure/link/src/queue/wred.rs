//! Weighted random early detection: [`red`](super::red) with one average queue and a curve for each drop precedence, as
//! assured forwarding requires (RFC 2597 section 4).

use netrig_core::{
    Backlog, Dequeue, DropReason, Dscp, Fraction, Instant, Observer, PacketMeta, QueueDiscipline, Size,
    Stream,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::buffer::{Buffer, QueueLimit};
use super::context::QueueContext;
use super::red::{self, Average, Red, Slope, Thresholds, admit};
use crate::SettingsError;
use crate::conditioning::DscpSet;
use crate::error::ensure;

/// Weighted random early detection. At least one limit must be given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wred {
    /// Largest number of waiting packets, at least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// Largest number of waiting bytes of IP packets, at least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Size>,
    /// The drop curves. The first curve that names a packet's code point applies. The last curve names none and applies to all
    /// other packets. All thresholds are in packets, or all in bytes.
    pub curves: Vec<DropCurve>,
    /// Weight of the newest queue length in the average, above 0 and at most 1. 0.002 if not given.
    #[serde(default = "red::default_weight")]
    pub weight: f64,
    /// Whether the probability rises gradually to 1 between `max` and twice `max`, instead of at once at `max`. False
    /// if not given.
    #[serde(default)]
    pub gentle: bool,
    /// Whether ECN-capable packets are marked rather than dropped, up to the average from which all packets are dropped (RFC
    /// 3168). False if not given.
    #[serde(default)]
    pub ecn: bool,
    /// The size of a typical packet, as in `red`. 500 B if not given.
    #[serde(default = "red::default_mean_packet")]
    pub mean_packet: Size,
}

/// The drop curve of some packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Curve")]
pub struct DropCurve {
    /// The code points of these packets. If not given, all code points without a curve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<DscpSet>,
    /// The averages at which early dropping starts and reaches its maximum.
    pub thresholds: Thresholds,
    /// Probability as the average reaches `max`. 2 % if not given.
    #[serde(default = "red::default_max_p")]
    pub max_p: Fraction,
}

/// RED is WRED with one curve.
impl From<&Red> for Wred {
    fn from(red: &Red) -> Self {
        let &Red { packets, bytes, thresholds, max_p, weight, gentle, mean_packet, ecn } = red;
        let curves = vec![DropCurve { dscp: None, thresholds, max_p }];
        Self { packets, bytes, curves, weight, gentle, mean_packet, ecn }
    }
}

impl From<&Self> for Wred {
    fn from(wred: &Self) -> Self {
        wred.clone()
    }
}

impl Wred {
    /// Checks the settings.
    ///
    /// # Errors
    /// If a field is out of range. The error names it.
    pub fn check(&self) -> Result<(), SettingsError> {
        QueueLimit::check(self.packets, self.bytes)?;
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

    fn check_curve(&self, curve: &DropCurve, is_last: bool) -> Result<(), SettingsError> {
        let why = "must be given, except in the last curve, which applies to all other packets";
        ensure(curve.dscp.is_none() == is_last, "dscp", why)?;
        curve.thresholds.check().map_err(|e| e.within("thresholds"))?;
        let alike = curve.thresholds.is_like(self.curves[0].thresholds);
        ensure(
            alike,
            "thresholds",
            "must have the unit of the first curve, because all curves share one average",
        )?;
        ensure(curve.max_p.get() > 0.0, "max_p", "must be above zero")
    }
}

/// A queue with random early detection, weighted or not.
#[derive(Clone, Debug)]
pub struct RedQueue<P> {
    buffer: Buffer<P>,
    /// Boxed, because every queue of a simulation takes the space of the largest discipline.
    detector: Box<Detector>,
}

/// Computes the average queue and decides about each packet.
#[derive(Clone, Debug)]
struct Detector {
    average: Average,
    slopes: Vec<Slope>,
    /// The index of the slope for each code point.
    by_dscp: [u8; 64],
    ecn: bool,
    luck: Stream,
}

impl<P: PacketMeta> RedQueue<P> {
    /// An empty queue. Its random stream is `link/<line>/red`.
    pub fn new<'s, S>(settings: &'s S, context: &QueueContext<'_>) -> Self
    where
        Wred: From<&'s S>,
    {
        let settings = Wred::from(settings);
        let curves = &settings.curves;
        let slope = |curve: &DropCurve| {
            Slope::new(curve.thresholds, curve.max_p, settings.gentle, settings.mean_packet)
        };
        let has = |curve: &DropCurve, dscp| curve.dscp.is_none_or(|set| set.contains(dscp));
        let slope_of = |value| {
            let place = curves.iter().position(|curve| has(curve, Dscp(value as u8)));
            // There are at most 64 curves. The last one matches every code point.
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
        let buffer = Buffer::new(QueueLimit::new(settings.packets, settings.bytes));
        Self { buffer, detector: Box::new(detector) }
    }

    /// The average queue at the last arrival, in the unit of the thresholds.
    pub fn average(&self) -> f64 {
        self.detector.average.get()
    }
}

impl<P: PacketMeta> QueueDiscipline<P> for RedQueue<P> {
    fn enqueue(&mut self, now: Instant, packet: P, obs: &mut impl Observer<P>) {
        let Detector { average, slopes, by_dscp, ecn, luck } = &mut *self.detector;
        average.update(now, self.buffer.backlog());
        let header = packet.header();
        let slope = &mut slopes[usize::from(by_dscp[usize::from(header.dscp.0 & 63)])];
        // One draw per arrival, even if it is not used. So the random number of the n-th arrival does not depend on
        // other events.
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
