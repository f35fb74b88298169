//! The framework for TCP throughput testing (RFC 6349): the capacity of a path for TCP, and three metrics of how well
//! TCP used this capacity.

use netrig_bulk::PacketShape;
use netrig_core::Duration;
use schemars::JsonSchema;
use serde::Serialize;

/// Properties of a path that must be known before a test (RFC 6349 section 3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TcpPath {
    /// Baseline round-trip time: the round-trip time of the idle path (section 3.2).
    pub round_trip: Duration,
    /// Bottleneck bandwidth: the highest rate of IP packets on the path, bit/s (section 3.1).
    pub bottleneck_bits_per_s: f64,
    /// A full segment.
    pub packet: PacketShape,
}

impl TcpPath {
    /// Bandwidth-delay product, bytes: the amount of data in flight that fills the path (section 3.3.1).
    pub fn bandwidth_delay_bytes(&self) -> f64 {
        self.bottleneck_bits_per_s * self.round_trip.as_secs_f64() / 8.0
    }

    /// Maximum TCP throughput, payload bytes per second (section 4.1.1): achieved with full segments sent back to back.
    pub fn ideal_bytes_per_s(&self) -> f64 {
        self.bottleneck_bits_per_s / 8.0 / self.packet.layers(1.0).ip
    }
}

/// Minimum plausible transfer time ratio. No transfer takes less than the ideal time. A ratio below this value is too
/// low to result from rounding of the stated bottleneck: the bottleneck is wrong.
const POSSIBLE: f64 = 0.95;

/// The three metrics, which compare a transfer with an ideal one.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Framework {
    /// Transfer time divided by that of a transfer that always fills the line (section 4.1). 1 is the best value.
    /// Absent if the line's rate is unknown: TCP's own estimates of it have spikes.
    pub transfer_time_ratio: Option<f64>,
    /// Share of the sent bytes that were not retransmissions, 0 to 1 (section 4.2).
    pub efficiency: f64,
    /// Relative increase of the mean round-trip time over that of the idle path (section 4.3). Absent if one of them
    /// was not measured.
    pub buffer_delay: Option<f64>,
}

impl Framework {
    /// The metrics of a transfer with the reached rate, the ideal rate, the share of retransmitted bytes, and the mean
    /// and idle round-trip times, s. Both rates are payload rates in the same unit.
    pub fn of(reached: f64, ideal: Option<f64>, sent_again: f64, [mean_s, idle_s]: [Option<f64>; 2]) -> Self {
        let round_trips = mean_s.zip(idle_s.filter(|idle_s| *idle_s > 0.0));
        Self {
            transfer_time_ratio: ideal.filter(|_| reached > 0.0).map(|ideal| ideal / reached),
            efficiency: 1.0 - sent_again,
            buffer_delay: round_trips.map(|(mean_s, idle_s)| (mean_s - idle_s) / idle_s),
        }
    }

    /// Why the metrics do not apply to the path, if its bottleneck differs from the stated one.
    pub fn fault(&self) -> Option<String> {
        self.transfer_time_ratio.filter(|ratio| *ratio < POSSIBLE).map(|ratio| {
            format!(
                "it took {ratio:.3} of the least time that the stated bottleneck allows: the path carries more, or let more \
                 through for a while, and ratio and bandwidth-delay product are not this path's"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, expected: f64, within: f64) {
        assert!((value - expected).abs() <= within, "{value} for {expected}");
    }

    /// RFC 6349 section 3.3.1: a T3 of 44.21 Mbit/s at 25 ms has a bandwidth-delay product of 138,156 bytes; Table
    /// 3.3.1 has the products of other links in bits. (The exact product of the first link is 1,105,000 bits; the text
    /// of the RFC rounds it.)
    #[test]
    fn bandwidth_delay_products_of_the_rfc() {
        for (mbit_per_s, ms, bits) in [
            (1.536, 20, 30_720.0),
            (1.536, 50, 76_800.0),
            (1.536, 100, 153_600.0),
            (44.21, 10, 442_100.0),
            (44.21, 25, 1_105_250.0),
            (100.0, 1, 100_000.0),
            (1_000.0, 5, 5_000_000.0),
        ] {
            let path = TcpPath {
                round_trip: Duration::from_millis(ms),
                bottleneck_bits_per_s: mbit_per_s * 1e6,
                packet: PacketShape::segment(1460, false, true),
            };
            near(path.bandwidth_delay_bytes() * 8.0, bits, 1e-6);
        }
    }

    /// RFC 6349 section 4.2.1: if 2,000 of 102,000 bytes are retransmissions, the efficiency is 98.03 %. Section 4.3.1:
    /// if the round-trip time rises from 25 ms to 32 ms, the buffer delay is 28 %.
    #[test]
    fn efficiency_and_buffer_delay_of_the_rfc() {
        let metrics = Framework::of(1e6, Some(1.46e6), 2e3 / 102e3, [Some(0.032), Some(0.025)]);
        near(metrics.efficiency, 0.9803, 1e-4);
        near(metrics.buffer_delay.unwrap(), 0.28, 1e-9);
        near(metrics.transfer_time_ratio.unwrap(), 1.46, 1e-9);
        let unknown = Framework::of(0.0, Some(1e6), 0.0, [Some(0.032), Some(0.0)]);
        assert_eq!((unknown.transfer_time_ratio, unknown.buffer_delay), (None, None));
    }

    /// A transfer cannot be faster than its bottleneck; rounding of the stated value is tolerated.
    #[test]
    fn a_bottleneck_that_cannot_be_is_said_to_be_none() {
        let path = TcpPath {
            round_trip: Duration::from_millis(25),
            bottleneck_bits_per_s: 12e6,
            packet: PacketShape::segment(1460, false, true),
        };
        // 1460 of 1500 bytes of 12 Mbit/s are payload.
        near(path.ideal_bytes_per_s(), 1.46e6, 1e-6);
        let fault = |share: f64, path: Option<&TcpPath>| {
            let ideal = path.map(TcpPath::ideal_bytes_per_s);
            Framework::of(1.46e6 / share, ideal, 0.0, [None; 2]).fault()
        };
        assert_eq!([0.951, 1.0, 3.0].map(|share| fault(share, Some(&path))), [None, None, None]);
        let text = fault(0.006, Some(&path)).unwrap();
        assert!(
            text.starts_with("it took 0.006 of the least time that the stated bottleneck allows"),
            "{text}"
        );
        assert_eq!(fault(0.006, None), None, "nobody stated one");
    }
}
