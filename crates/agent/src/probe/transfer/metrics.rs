//! The framework for TCP throughput testing (RFC 6349): what a path could carry, and three numbers of how well TCP used it.

use netrig_core::Duration;

/// What must be known of a path before (RFC 6349 section 3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path {
    /// Baseline round-trip time: of the idle path (section 3.2).
    pub round_trip: Duration,
    /// Bottleneck bandwidth: bits of IP packets per second that the path carries at most (section 3.1).
    pub bottleneck_bits_per_s: f64,
    /// TCP payload of a full segment, bytes.
    pub segment: u32,
    /// IP and TCP headers of it, bytes.
    pub headers: u32,
}

impl Path {
    /// Bandwidth-delay product, bytes: what must be on the way to fill the path (section 3.3.1).
    pub fn bandwidth_delay_bytes(&self) -> f64 {
        self.bottleneck_bits_per_s * self.round_trip.as_secs_f64() / 8.0
    }

    /// The most that TCP could carry, payload bytes per second (section 4.1.1): full segments, back to back.
    pub fn ideal_bytes_per_s(&self) -> f64 {
        let share = f64::from(self.segment) / f64::from(self.segment + self.headers);
        self.bottleneck_bits_per_s / 8.0 * share
    }

    /// How long so many bytes would take at that rate, s (section 4.1.1).
    pub fn ideal_transfer_s(&self, bytes: u64) -> f64 {
        bytes as f64 / self.ideal_bytes_per_s()
    }
}

/// No transfer takes less than the ideal time. A ratio below this is no rounding of the bottleneck that was stated: it is
/// not the path's.
const POSSIBLE: f64 = 0.95;

/// The three metrics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Framework {
    /// TCP transfer time ratio: the time that it took over the ideal one (section 4.1.1). 1 is the best. None if nobody knows
    /// what the path carries at most: TCP's own estimates of it spike.
    pub transfer_time_ratio: Option<f64>,
    /// TCP efficiency: the share of the bytes sent that were not sent again, 0 to 1 (section 4.1.2).
    pub efficiency: f64,
    /// Buffer delay: by what share of the baseline the round trip was longer during the transfer (section 4.1.3); none if no
    /// round trip was measured.
    pub buffer_delay: Option<f64>,
}

impl Framework {
    /// Of a transfer of so many bytes that took so long, with so many of them sent again, and this mean round-trip time over
    /// a path that was so quick when it was idle. Nothing if no time passed, or nothing was sent.
    pub fn of(
        path: Option<&Path>,
        bytes: u64,
        took_s: f64,
        sent_again: u64,
        [mean_s, idle_s]: [Option<f64>; 2],
    ) -> Option<Self> {
        if bytes == 0 || took_s <= 0.0 {
            return None;
        }
        let sent = bytes + sent_again;
        let buffer_delay = mean_s.zip(idle_s.filter(|idle_s| *idle_s > 0.0));
        Some(Self {
            transfer_time_ratio: path.map(|path| took_s / path.ideal_transfer_s(bytes)),
            efficiency: bytes as f64 / sent as f64,
            buffer_delay: buffer_delay.map(|(mean_s, idle_s)| (mean_s - idle_s) / idle_s),
        })
    }

    /// Why they say nothing of the path: its bottleneck is another than the one that was stated.
    pub(super) fn fault(&self) -> Option<String> {
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

    /// RFC 6349 section 3.3.1: a T3 of 44.21 Mbit/s at 25 ms has a bandwidth-delay product of 138,156 bytes; Table 3.3.1 has
    /// others in bits. (The product of the first is 1,105,000 bits, which its text rounds.)
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
            let path = Path {
                round_trip: Duration::from_millis(ms),
                bottleneck_bits_per_s: mbit_per_s * 1e6,
                segment: 1460,
                headers: 40,
            };
            near(path.bandwidth_delay_bytes() * 8.0, bits, 1e-6);
        }
    }

    /// RFC 6349 section 4.1.2: 102,000 bytes of which 2,000 were sent again: 98.03 %; and section 4.1.3: 25 ms that become
    /// 32: 28 %.
    #[test]
    fn efficiency_and_buffer_delay_of_the_rfc() {
        let path = Path {
            round_trip: Duration::from_millis(25),
            bottleneck_bits_per_s: 12e6,
            segment: 1460,
            headers: 40,
        };
        let metrics = Framework::of(Some(&path), 100_000, 0.1, 2_000, [Some(0.032), Some(0.025)]).unwrap();
        near(metrics.efficiency, 0.9803, 1e-4);
        near(metrics.buffer_delay.unwrap(), 0.28, 1e-9);
        // 1460 of 1500 bytes of 12 Mbit/s are payload: 1.46 MB/s, and 100 KB take 68.5 ms.
        near(metrics.transfer_time_ratio.unwrap(), 0.1 * 1.46e6 / 1e5, 1e-9);
        assert_eq!(Framework::of(Some(&path), 0, 0.1, 0, [None, None]), None);
    }

    /// Faster than the bottleneck is no path with that bottleneck; what its last digit was rounded by is no fault.
    #[test]
    fn a_bottleneck_that_cannot_be_is_said_to_be_none() {
        let path = Path {
            round_trip: Duration::from_millis(25),
            bottleneck_bits_per_s: 12e6,
            segment: 1460,
            headers: 40,
        };
        let fault = |share: f64, path: Option<&Path>| {
            let took_s = share * 1e5 / 1.46e6;
            Framework::of(path, 100_000, took_s, 0, [None; 2]).unwrap().fault()
        };
        assert_eq!([0.951, 1.0, 3.0].map(|share| fault(share, Some(&path))), [None, None, None]);
        let told = fault(0.006, Some(&path)).unwrap();
        assert!(
            told.starts_with("it took 0.006 of the least time that the stated bottleneck allows"),
            "{told}"
        );
        assert_eq!(fault(0.006, None), None, "nobody stated one");
    }
}
