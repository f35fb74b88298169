//! TCP without a queue: slow start, and the inverse-square-root law of congestion avoidance.

use super::curve::{CurveParameter, TheoryCurve};
use super::{TheoryError, not_negative, positive};

/// Slow start without loss. Each acknowledgement increases the window by one segment, and the receiver sends one
/// acknowledgement for `segments_per_ack` segments. So the window grows by the factor 1 + 1 / segments_per_ack per round
/// trip.
///
/// Source: Cardwell, Savage and Anderson (2000), *Modeling TCP latency*, section III.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlowStart {
    initial_window_bytes: f64,
    growth: f64,
}

impl SlowStart {
    /// # Errors
    /// A window that is not positive, or fewer than one segment per acknowledgement.
    pub fn new(initial_window_bytes: f64, segments_per_ack: f64) -> Result<Self, TheoryError> {
        let initial_window_bytes = positive("initial_window_bytes", initial_window_bytes)?;
        let growth = 1.0 + 1.0 / segments_per_ack_of(segments_per_ack)?;
        Ok(Self { initial_window_bytes, growth })
    }

    /// The window after `round_trips` round trips, in bytes.
    #[must_use]
    pub fn window_bytes(&self, round_trips: u32) -> f64 {
        self.initial_window_bytes * libm::pow(self.growth, f64::from(round_trips))
    }

    /// Total bytes sent in the first `round_trips` rounds: the geometric series of the windows.
    #[must_use]
    pub fn sent_bytes(&self, round_trips: u32) -> f64 {
        (self.window_bytes(round_trips) - self.initial_window_bytes) / (self.growth - 1.0)
    }

    /// The smallest number of rounds in which `bytes` are sent.
    ///
    /// # Errors
    /// `bytes` negative or not finite.
    pub fn round_trips(&self, bytes: f64) -> Result<u32, TheoryError> {
        let bytes = not_negative("bytes", bytes)?;
        let rounds =
            libm::log1p(bytes * (self.growth - 1.0) / self.initial_window_bytes) / libm::log(self.growth);
        // Because of rounding, the logarithm may differ slightly from an integer, so the sum of the series decides.
        let near = rounds.round() as u32;
        Ok(if self.sent_bytes(near) >= bytes { near.min(rounds.ceil() as u32) } else { near + 1 })
    }
}

/// Checks the number of segments per acknowledgement: at least 1 (2 with delayed acknowledgements).
pub(super) fn segments_per_ack_of(value: f64) -> Result<f64, TheoryError> {
    let parameter = "segments_per_ack";
    if value >= 1.0 && value.is_finite() {
        Ok(value)
    } else {
        Err(TheoryError::OutOfRange { parameter, range: "a number from 1", value })
    }
}

/// The throughput of congestion avoidance under light loss, in bytes per second of segment payload:
/// MSS / RTT × C / sqrt(p) with C = sqrt(3 / (2 b)), b segments per acknowledgement.
///
/// Assumes periodic loss, no timeouts, no limit by the receiver's window. Source: Mathis, Semke, Mahdavi and
/// Ott (1997), *The macroscopic behavior of the TCP congestion avoidance algorithm*, section 2.
///
/// # Errors
/// A segment size or round-trip time that is not positive, a loss probability outside (0, 1], or fewer than
/// one segment per acknowledgement.
pub fn mathis_bytes_per_s(
    segment_bytes: f64,
    rtt_s: f64,
    loss: f64,
    segments_per_ack: f64,
) -> Result<f64, TheoryError> {
    let segment_bytes = positive("segment_bytes", segment_bytes)?;
    let rtt_s = positive("rtt_s", rtt_s)?;
    if !(loss > 0.0 && loss <= 1.0) {
        return Err(TheoryError::OutOfRange { parameter: "loss", range: "above 0, at most 1", value: loss });
    }
    let b = segments_per_ack_of(segments_per_ack)?;
    Ok(segment_bytes / rtt_s * (1.5 / (b * loss)).sqrt())
}

pub(super) const LOSS: CurveParameter =
    CurveParameter::required("loss", "1", "probability that a segment is lost");
pub(super) const SEGMENT: CurveParameter =
    CurveParameter::required("segment_bytes", "B", "payload of a full segment (MSS)");
pub(super) const RTT: CurveParameter = CurveParameter::required("rtt_s", "s", "round-trip time");
pub(super) const PER_ACK: CurveParameter =
    CurveParameter::optional("segments_per_ack", "1", "segments covered by one acknowledgement", 1.0);

/// The largest rate with a window: one window per round trip, but at most `rate`. In bit/s.
///
/// Source: RFC 6349 section 3.3.1, the bandwidth-delay product, solved for the rate.
///
/// # Errors
/// A rate or a round-trip time that is not positive, or a window that is negative.
pub fn window_bound_bit_per_s(rate: f64, window_bytes: f64, rtt_s: f64) -> Result<f64, TheoryError> {
    let rate = positive("rate_bit_per_s", rate)?;
    let window = not_negative("window_bytes", window_bytes)?;
    Ok(rate.min(8.0 * window / positive("rtt_s", rtt_s)?))
}

/// The curves of this model.
pub(super) const CURVES: &[TheoryCurve] = &[
    TheoryCurve {
        name: "window_bound",
        title: "one window per round trip, at most the rate of the path",
        parameters: &[
            CurveParameter::required("window_bytes", "B", "the window"),
            CurveParameter::required("rate_bit_per_s", "bit/s", "rate of the path, for the same bytes"),
            RTT,
        ],
        unit: "bit/s",
        source: "RFC 6349 section 3.3.1",
        formula: |a| {
            window_bound_bit_per_s(a.get("rate_bit_per_s")?, a.get("window_bytes")?, a.get("rtt_s")?)
        },
    },
    TheoryCurve {
        name: "slow_start",
        title: "slow start, bytes sent",
        parameters: &[
            CurveParameter::required("round_trips", "1", "round trips since the first segment"),
            CurveParameter::required("initial_window_bytes", "B", "initial congestion window"),
            PER_ACK,
        ],
        unit: "B",
        source: "Cardwell, Savage and Anderson (2000), section III",
        formula: |a| {
            let start = SlowStart::new(a.get("initial_window_bytes")?, a.get("segments_per_ack")?)?;
            Ok(start.sent_bytes(a.count("round_trips", 0)?))
        },
    },
    TheoryCurve {
        name: "mathis",
        title: "Mathis et al.",
        parameters: &[LOSS, SEGMENT, RTT, PER_ACK],
        unit: "B/s",
        source: "Mathis, Semke, Mahdavi and Ott (1997), section 2",
        formula: |a| {
            mathis_bytes_per_s(
                a.get("segment_bytes")?,
                a.get("rtt_s")?,
                a.get("loss")?,
                a.get("segments_per_ack")?,
            )
        },
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    /// 45 Mbit/s with a round trip of 25 ms need a window of 140,625 B.
    #[test]
    fn a_window_of_the_bandwidth_delay_product_fills_the_path() {
        assert_eq!(window_bound_bit_per_s(45e6, 140_625.0, 0.025), Ok(45e6));
        assert_eq!(window_bound_bit_per_s(45e6, 300_000.0, 0.025), Ok(45e6));
        assert_eq!(window_bound_bit_per_s(45e6, 70_312.5, 0.025), Ok(22.5e6));
        assert!(window_bound_bit_per_s(45e6, 1.0, 0.0).is_err());
    }
}
