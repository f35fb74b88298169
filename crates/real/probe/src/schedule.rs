//! Schedules: the absolute sending times of packets, fixed before the first packet.

use netrig_core::{Duration, Instant, Seeds, Stream, choices};

use netrig_host::{RequestedGaps, SourceReport};

choices! {
    /// The distribution of the gaps between packets.
    pub enum GapsKind {
        /// Exponential: samples at random times (RFC 2330).
        Poisson = "poisson",
        /// Constant (RFC 3432).
        Periodic = "periodic",
    }
}

/// The gaps between packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gaps {
    /// Constant: a periodic stream (RFC 3432). It may synchronise with periodic behaviour of the path.
    Periodic(Duration),
    /// Exponential with this mean: a Poisson stream, which observes the path at random times (RFC 2330 section 11.1.1).
    Poisson(Duration),
}

impl Gaps {
    /// The mean gap.
    pub const fn mean(self) -> Duration {
        match self {
            Self::Periodic(gap) | Self::Poisson(gap) => gap,
        }
    }

    /// The gaps in the form that [`SourceMeter`](netrig_host::SourceMeter) needs.
    pub(crate) const fn asked(self) -> RequestedGaps {
        match self {
            Self::Periodic(_) => RequestedGaps::Schedule,
            Self::Poisson(mean) => RequestedGaps::Exponential { mean_ns: mean.as_nanos() as f64 },
        }
    }
}

/// With at most this number of packets, a single late packet would exceed the tolerated share of wrong gaps.
const FEW: u64 = 100;

/// Why the source limited the measurement: its gaps differ from the requested ones ([`SourceReport::fault`]). With at
/// most [`FEW`] packets, the criterion is instead that half of the packets were late by a large part of the gap.
pub(crate) fn source_fault(source: &SourceReport, gaps: Gaps) -> Option<String> {
    if source.sent > FEW {
        return source.fault();
    }
    let gap = gaps.mean().as_secs_f64();
    (source.late_p50 > 0.3 * gap).then(|| {
        let late = source.late_p50;
        format!("half of the packets were late by more than {late:.6} s, with {gap:.6} s between them")
    })
}

/// The sending times of a stream. A periodic stream begins at time 0, a Poisson stream after its first gap.
#[derive(Debug)]
pub struct Schedule {
    gaps: Gaps,
    draws: Stream,
    next: Instant,
    left: u32,
}

impl Schedule {
    /// The sending times of `count` packets. They depend only on the arguments.
    pub fn new(gaps: Gaps, count: u32, seed: u64) -> Self {
        let mut schedule =
            Self { gaps, draws: Seeds::new(seed).stream("probe/schedule"), next: Instant::ZERO, left: count };
        if matches!(gaps, Gaps::Poisson(_)) {
            schedule.next = schedule.following();
        }
        schedule
    }

    fn following(&mut self) -> Instant {
        self.next
            + match self.gaps {
                Gaps::Periodic(gap) => gap,
                Gaps::Poisson(mean) => self.draws.exponential_duration(mean),
            }
    }
}

impl Iterator for Schedule {
    type Item = Instant;

    fn next(&mut self) -> Option<Instant> {
        self.left = self.left.checked_sub(1)?;
        let at = self.next;
        self.next = self.following();
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use netrig_stats::fit::kolmogorov_smirnov;

    use super::*;

    #[test]
    fn a_periodic_stream_begins_at_once_and_keeps_its_gap() {
        let gap = Duration::from_millis(10);
        let moments: Vec<_> = Schedule::new(Gaps::Periodic(gap), 3, 1).map(|at| at.as_nanos()).collect();
        assert_eq!(moments, [0, 10_000_000, 20_000_000]);
    }

    #[test]
    fn a_poisson_stream_has_exponential_gaps_from_its_first_on() {
        let moments: Vec<_> = Schedule::new(Gaps::Poisson(Duration::from_millis(1)), 5_000, 1).collect();
        let mut gaps = vec![moments[0].as_secs_f64()];
        gaps.extend(moments.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()));
        let test = kolmogorov_smirnov(&gaps, |gap| 1.0 - libm::exp(-1000.0 * gap)).unwrap();
        assert!(test.p_value > 0.01, "{test:?}");
        let again: Vec<_> = Schedule::new(Gaps::Poisson(Duration::from_millis(1)), 5_000, 1).collect();
        assert_eq!(moments, again);
    }
}
