//! Statistics of a source's intended and actual send times, in bounded memory.

use netrig_core::{Histogram, Instant};
use netrig_stats::fit::{
    AndersonDarling, DistanceFrom, RunningMoments, WindowCounts, anderson_darling_exponential,
};
use serde::{Deserialize, Serialize};

/// A histogram of lateness, with a resolution of 1/16 of each value.
pub type Lateness = Histogram<16>;

/// The requested gaps of a source.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequestedGaps {
    /// Exponentially distributed gaps, as in a Poisson process.
    Exponential {
        /// Mean gap, ns.
        mean_ns: f64,
    },
    /// A schedule with other gaps (constant, on-off). Each actual gap is compared with the gap in the schedule.
    Schedule,
}

/// Number of gaps for the Anderson-Darling statistic (RFC 2330 section 11.1.2 asks for samples of moderate size).
const ANDERSON_DARLING_GAPS: usize = 1000;

/// Number of intervals of equal probability in which gaps are counted. The error of the Kolmogorov-Smirnov distance is
/// at most half an interval.
const PARTS: usize = 1 << 13;

/// Length of a window for the index of dispersion, in mean gaps.
const GAPS_PER_WINDOW: f64 = 100.0;

/// A gap is off schedule if it differs from the scheduled gap by more than this share of the scheduled gap.
const TOLERANCE: f64 = 0.3;

/// Pairs of a rate (packets/s) and the largest distance that gaps may have from the requested gaps up to this rate.
const LIMITS: [(f64, f64); 2] = [(10_000.0, 0.02), (50_000.0, 0.08)];

/// Limit of the 99th percentile of lateness, as a share of the schedule's duration.
const RATE_TOLERANCE: f64 = 0.01;

/// Collects statistics of a source from its send times, in the order of sending.
#[derive(Clone, Debug)]
pub struct SourceMeter {
    asked: RequestedGaps,
    first: Option<(Instant, Instant)>,
    last: Option<(Instant, Instant)>,
    sent: u64,
    /// Distributions of the actual and of the intended gaps.
    actual: DistanceFrom,
    intended: DistanceFrom,
    off_schedule: u64,
    moments: RunningMoments,
    first_gaps: Vec<f64>,
    windows: WindowCounts,
    lateness: Lateness,
}

impl SourceMeter {
    /// A meter for a source with these requested gaps.
    pub fn new(asked: RequestedGaps) -> Self {
        let (parts, window) = match asked {
            RequestedGaps::Exponential { mean_ns } => (PARTS, mean_ns * GAPS_PER_WINDOW),
            RequestedGaps::Schedule => (1, f64::INFINITY),
        };
        Self {
            asked,
            first: None,
            last: None,
            sent: 0,
            actual: DistanceFrom::in_parts(parts),
            intended: DistanceFrom::in_parts(parts),
            off_schedule: 0,
            moments: RunningMoments::default(),
            first_gaps: Vec::new(),
            windows: WindowCounts::of_length(window),
            lateness: Lateness::default(),
        }
    }

    /// Records a packet that was due at `intended` and was passed to the kernel at `actual`.
    pub fn sent(&mut self, intended: Instant, actual: Instant) {
        self.sent += 1;
        self.lateness.record(actual - intended);
        self.first.get_or_insert((intended, actual));
        self.windows.add(actual.as_nanos() as f64);
        let Some((last_intended, last_actual)) = self.last.replace((intended, actual)) else { return };
        let wanted = (intended - last_intended).as_nanos() as f64;
        let gap = (actual - last_actual).as_nanos() as f64;
        if let RequestedGaps::Exponential { mean_ns } = self.asked {
            self.intended.add(-libm::expm1(-wanted / mean_ns));
            self.actual.add(-libm::expm1(-gap / mean_ns));
        }
        // Packets that are due at the same time have no scheduled gap. They leave one after the other, which counts
        // only as lateness.
        self.off_schedule += u64::from(wanted > 0.0 && (gap - wanted).abs() > TOLERANCE * wanted);
        self.moments.add(gap);
        if self.first_gaps.len() < ANDERSON_DARLING_GAPS {
            // If two packets leave together, their gap is below the clock's resolution.
            self.first_gaps.push(gap.max(0.5));
        }
    }

    /// Histogram of the lateness of packets.
    pub const fn lateness(&self) -> &Lateness {
        &self.lateness
    }

    /// The report. With fewer than three packets, most values are absent.
    pub fn report(&self) -> SourceReport {
        let gaps = self.moments.count();
        let ends = self.first.zip(self.last);
        let intended_span = ends.map_or(0.0, |(first, last)| (last.0 - first.0).as_secs_f64());
        let actual_span = ends.map_or(0.0, |(first, last)| (last.1 - first.1).as_secs_f64());
        let per_s = |span: f64| (span > 0.0).then(|| gaps as f64 / span);
        let mean_rate = match self.asked {
            RequestedGaps::Exponential { mean_ns } => Some(1e9 / mean_ns),
            RequestedGaps::Schedule => None,
        };
        SourceReport {
            sent: self.sent,
            asked_rate: mean_rate.or_else(|| per_s(intended_span)),
            rate: per_s(actual_span),
            rate_z: mean_rate.filter(|_| gaps > 0).map(|rate| {
                let expected = rate * actual_span;
                (gaps as f64 - expected) / expected.sqrt()
            }),
            gap_variation: self.moments.variation(),
            distance: self.actual.distance(),
            schedule_distance: self.intended.distance(),
            off_schedule: (gaps > 0).then(|| self.off_schedule as f64 / gaps as f64),
            anderson_darling: mean_rate
                .and_then(|_| anderson_darling_exponential(&self.first_gaps).ok())
                .map(|test: AndersonDarling| test.modified()),
            lag1_correlation: self.moments.lag1_correlation(),
            dispersion_index: self.windows.dispersion(),
            late_p50: self.lateness.quantile_at_most(0.5).as_secs_f64(),
            late_p99: self.lateness.quantile_at_most(0.99).as_secs_f64(),
            late_max: self.lateness.max().unwrap_or_default().as_secs_f64(),
            lateness: self.lateness.clone(),
        }
    }
}

/// Report about a source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceReport {
    /// Packets sent.
    pub sent: u64,
    /// Requested packets per second, from the distribution or from the schedule.
    pub asked_rate: Option<f64>,
    /// Actual packets per second, from the first to the last packet.
    pub rate: Option<f64>,
    /// Difference between the number of packets sent and the requested number, in standard deviations of a Poisson
    /// count.
    pub rate_z: Option<f64>,
    /// Coefficient of variation of the gaps: 1 for exponential gaps, 0 for constant gaps.
    pub gap_variation: Option<f64>,
    /// Kolmogorov-Smirnov distance of the actual gaps from the requested distribution (0 to 1), with a resolution of
    /// 1/8192; absent for a schedule without a distribution.
    pub distance: Option<f64>,
    /// The same distance for the intended gaps, which were drawn at random. No source can be better: about 0.87/√n.
    pub schedule_distance: Option<f64>,
    /// Share of the gaps that differ by more than 30 % from the scheduled gaps.
    pub off_schedule: Option<f64>,
    /// Anderson-Darling statistic A²(1 + 0.6/n) of the first 1,000 gaps against an exponential distribution of their own mean;
    /// one in twenty exponential samples exceeds 1.321 (D'Agostino and Stephens 1986, table 4.14).
    pub anderson_darling: Option<f64>,
    /// Correlation of consecutive gaps: 0 if they are independent.
    pub lag1_correlation: Option<f64>,
    /// Index of dispersion of counts: variance over mean of the packets in windows of 100 mean gaps, 1 for a Poisson process;
    /// absent for other schedules.
    pub dispersion_index: Option<f64>,
    /// Median lateness, s.
    pub late_p50: f64,
    /// 99th percentile of lateness, s.
    pub late_p99: f64,
    /// Maximum lateness, s.
    pub late_max: f64,
    /// Histogram of lateness.
    pub lateness: Lateness,
}

impl SourceReport {
    /// Why the run is not valid, if the source did not offer the requested load; `None` if it did.
    ///
    /// For a requested distribution, the Kolmogorov-Smirnov distance of the actual gaps may exceed that of the intended
    /// gaps by 0.02 up to 10,000 packets/s, and by 0.08 up to 50,000 packets/s. For a schedule without a distribution,
    /// these shares of the gaps may differ by more than 30 % from the scheduled gaps. Gaps of faster sources are not
    /// assessed. At any rate, 99 of 100 packets must leave on time. The limits apply to the distance and not to the
    /// result of a statistical test, because every source fails such a test in a long run.
    pub fn fault(&self) -> Option<String> {
        let asked = self.asked_rate?;
        self.gap_fault(asked).or_else(|| self.rate_fault(asked))
    }

    fn gap_fault(&self, asked: f64) -> Option<String> {
        let (_, limit) = LIMITS.into_iter().find(|(rate, _)| asked.round() <= *rate)?;
        if let (Some(distance), Some(drawn)) = (self.distance, self.schedule_distance) {
            return (distance > drawn + limit).then(|| {
                format!(
                    "the source's gaps are {distance:.4} (Kolmogorov-Smirnov) from the requested distribution, and the \
                     drawn gaps {drawn:.4}; at {asked:.0} packets/s the difference may be {limit}"
                )
            });
        }
        let off = self.off_schedule.filter(|off| *off > limit)?;
        Some(format!(
            "{:.1} % of the source's gaps differ by more than 30 % from the schedule; at {asked:.0} packets/s {:.0} % are \
             allowed",
            off * 100.0,
            limit * 100.0
        ))
    }

    /// Compares the lateness of packets with the schedule's duration. This finds a source that was delayed once and
    /// catches up with slightly short gaps: too many of its packets are late.
    fn rate_fault(&self, asked: f64) -> Option<String> {
        let span = self.sent as f64 / asked;
        let behind = self.late_p99;
        (behind > RATE_TOLERANCE * span && self.sent > 1).then(|| {
            format!(
                "the source could not send {asked:.0} packets/s on time: 1 in 100 packets left more than {behind:.3} s \
                 late, in a schedule of {span:.3} s"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use netrig_core::{Duration, Seeds};

    use super::*;

    const MEAN: Duration = Duration::from_micros(100);

    fn poisson() -> SourceMeter {
        SourceMeter::new(RequestedGaps::Exponential { mean_ns: MEAN.as_nanos() as f64 })
    }

    /// The report for a Poisson schedule with `n` packets. Each packet leaves `late(intended)` after its intended time.
    fn drawn(n: usize, late: impl Fn(Instant) -> Duration) -> SourceReport {
        let mut gaps = Seeds::new(5).stream("gaps");
        let (mut meter, mut at) = (poisson(), Instant::ZERO);
        for _ in 0..n {
            at += gaps.exponential_duration(MEAN);
            meter.sent(at, at + late(at));
        }
        meter.report()
    }

    /// The report for packets that leave on time with these gaps, ns.
    fn gaps(asked: RequestedGaps, gaps_ns: &[u64]) -> SourceReport {
        let mut meter = SourceMeter::new(asked);
        let mut at = Instant::ZERO;
        meter.sent(at, at);
        for gap in gaps_ns {
            at += Duration::from_nanos(*gap);
            meter.sent(at, at);
        }
        meter.report()
    }

    #[test]
    fn a_source_on_time_is_what_it_was_asked_to_be() {
        let report = drawn(100_001, |_| Duration::ZERO);
        let n = 100_000_f64;
        assert!(report.rate_z.unwrap().abs() < 4.0, "{report:?}");
        // Each limit is five standard errors: 1/sqrt(n) for the variation of exponential gaps and for the correlation,
        // sqrt(2/windows) for the index of dispersion. One Kolmogorov-Smirnov statistic in a thousand exceeds 1.95.
        assert!((report.gap_variation.unwrap() - 1.0).abs() < 5.0 / n.sqrt());
        assert!(report.lag1_correlation.unwrap().abs() < 5.0 / n.sqrt());
        assert!((report.dispersion_index.unwrap() - 1.0).abs() < 5.0 * (2.0 / 1000.0_f64).sqrt());
        assert!(report.distance.unwrap() < 1.95 / n.sqrt() + 1.0 / PARTS as f64);
        assert_eq!(report.distance, report.schedule_distance);
        assert_eq!(report.fault(), None);
    }

    /// If each value is in the middle of one of n parts of equal probability, the largest distance is 1/(2n), by
    /// definition. For constant gaps of one mean, it is F(mean) = 1 - 1/e.
    #[test]
    fn the_distance_is_that_of_the_definition() {
        let mean = MEAN.as_nanos() as f64;
        let asked = RequestedGaps::Exponential { mean_ns: mean };
        let at = |k: usize| (-mean * libm::log(1.0 - (k as f64 + 0.5) / 50.0)) as u64;
        let even: Vec<u64> = (0..50).map(at).collect();
        let distance = gaps(asked, &even).distance.unwrap();
        assert!((distance - 0.01).abs() <= 1.0 / PARTS as f64, "{distance}");
        let constant = gaps(asked, &[MEAN.as_nanos(); 100]).distance.unwrap();
        assert!((constant - (1.0 - libm::exp(-1.0))).abs() <= 1.0 / PARTS as f64, "{constant}");
    }

    /// The gaps 1, 3, 1, 3 have the mean 2 and the variance 4/3. Neighbours are on different sides of the mean, so the
    /// correlation is -3/4.
    #[test]
    fn moments_are_those_of_a_calculation_by_hand() {
        let report = gaps(RequestedGaps::Schedule, &[1000, 3000, 1000, 3000]);
        assert!((report.gap_variation.unwrap() - (4.0_f64 / 3.0).sqrt() / 2.0).abs() < 1e-12);
        assert!((report.lag1_correlation.unwrap() + 0.75).abs() < 1e-12);
        assert_eq!((report.rate, report.asked_rate), (Some(500_000.0), Some(500_000.0)));
        assert_eq!((report.distance, report.rate_z, report.anderson_darling), (None, None, None));
    }

    /// The requested rate is twice the rate that the source can send. At this rate its gaps are not assessed, but its
    /// lateness is.
    #[test]
    fn a_source_that_falls_behind_is_at_fault() {
        let mut meter = SourceMeter::new(RequestedGaps::Schedule);
        for n in 0..10_000_u64 {
            meter.sent(Instant::from_nanos(10_000 * n), Instant::from_nanos(20_000 * n));
        }
        let report = meter.report();
        assert!(report.asked_rate.unwrap() > 50_000.0);
        assert!(report.fault().unwrap().contains("could not send 100000 packets/s"), "{:?}", report.fault());
    }

    /// The source is delayed for 95 ms of 2 s and catches up with gaps that are a tenth too short. Only one gap differs
    /// much from its schedule, but the second half exceeds the rate.
    #[test]
    fn a_source_that_was_held_up_and_makes_up_for_it_is_at_fault() {
        let (gap, short) = (Duration::from_micros(133), Duration::from_micros(120));
        let mut meter = SourceMeter::new(RequestedGaps::Schedule);
        let mut at = Instant::ZERO;
        for n in 0..15_000_u64 {
            let due = Instant::ZERO + gap * n;
            at = due.max(at + short);
            if n == 3000 {
                at += Duration::from_millis(95);
            }
            meter.sent(due, at);
        }
        let report = meter.report();
        assert!(report.off_schedule.unwrap() < 0.001, "{report:?}");
        assert!(
            report.fault().unwrap().contains("1 in 100 packets left more than 0.09"),
            "{:?}",
            report.fault()
        );
    }

    /// At rates above those in [`LIMITS`], only the lateness is assessed.
    #[test]
    fn a_fast_source_that_sends_several_at_once_is_none() {
        let mut meter = SourceMeter::new(RequestedGaps::Schedule);
        for n in 0..10_000_u64 {
            meter.sent(Instant::from_nanos(2_000 * n), Instant::from_nanos(2_000 * n.next_multiple_of(8)));
        }
        assert_eq!(meter.report().fault(), None);
    }

    /// A source that wakes up only at whole milliseconds sends about ten packets at a time.
    #[test]
    fn a_source_that_sends_in_bursts_is_at_fault() {
        let tick = Duration::from_millis(1);
        let report = drawn(50_000, |at| (at - Instant::ZERO).round_up(tick) - (at - Instant::ZERO));
        let fault = report.fault().unwrap();
        assert!(fault.contains("Kolmogorov-Smirnov"), "{fault}");
        assert!(report.late_max <= 0.001 && report.late_p50 > 0.0004 && report.late_p50 < 0.0006);
    }

    /// A constant lateness only shifts the schedule.
    #[test]
    fn a_constant_lateness_is_no_fault() {
        let report = drawn(20_000, |_| Duration::from_micros(40));
        assert_eq!((report.distance, report.fault()), (report.schedule_distance, None));
        assert!((report.late_max - 40e-6).abs() < 1e-12);
    }

    #[test]
    fn a_schedule_that_is_not_kept_is_a_fault() {
        let mut meter = SourceMeter::new(RequestedGaps::Schedule);
        for n in 0..1000_u64 {
            let at = Instant::ZERO + MEAN * n;
            // Three in a hundred packets are half a gap late, so six in a hundred gaps are off schedule.
            let late = if n % 33 == 7 { Duration::from_micros(50) } else { Duration::ZERO };
            meter.sent(at, at + late);
        }
        let fault = meter.report().fault().unwrap();
        assert!(fault.starts_with("6."), "{fault}");
    }

    #[test]
    fn of_no_datagrams_no_lateness_is_said() {
        let report = poisson().report();
        assert_eq!(
            (report.rate, report.distance, report.gap_variation, report.fault()),
            (None, None, None, None)
        );
    }
}
