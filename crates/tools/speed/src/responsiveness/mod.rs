//! Responsiveness under working conditions: round trips per minute of an application on a loaded path
//! (draft-ietf-ippm-responsiveness-09). The input is times and the output is numbers: this module does not measure.
//!
//! | the draft's | here |
//! |---|---|
//! | `tcp_f`, `tls_f`, `http_f`: new connections beside the load | [`ForeignProbe`]: opening a connection, its TLS handshake (one round trip: TLS 1.3), and a request of the speed protocol with its answer |
//! | `http_l`: on the connections that carry the load | the round-trip time of each of these connections in the sender's kernel (`tcpi_rtt`), which the draft allows if requests cannot be sent on these connections |
//! | load | the connections of the phase, all of them from its beginning; the draft adds one connection in each interval |
//! | the last intervals before the load is stable | all intervals after the warm-up |
//!
//! A probe that did not finish counts as infinitely long, which the draft does not define. If such probes were omitted,
//! the path with the most loss could have the best result.

use schemars::JsonSchema;
use serde::Serialize;

use crate::meter::Delays;
use crate::protocol::ConnectionCounts;

/// The version of the draft that is implemented.
pub const DRAFT: &str = "draft-ietf-ippm-responsiveness-09";

/// Trimmed mean percentile (TMP): the mean covers this share of the times, the shortest ones.
const TRIMMED: f64 = 0.95;

/// Seconds of a minute.
const MINUTE: f64 = 60.0;

/// The result of a probe on a separate connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignProbe {
    /// Start, ns of `CLOCK_MONOTONIC`.
    pub begun: u64,
    /// Durations of the TCP handshake, the TLS handshake and the request, ns. `None` if the probe did not finish.
    pub parts_ns: Option<[u64; 3]>,
}

/// Times of one part of the probes.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct ProbeTimes {
    /// The distribution of the times.
    pub delays: Delays,
    /// The mean of the shortest 95 %, s. Absent if one of these is infinite.
    pub trimmed_mean_s: Option<f64>,
}

impl ProbeTimes {
    /// Summarises times in seconds; an infinite time is `None`. Returns `None` if there are no times.
    pub fn of(times: impl Iterator<Item = Option<f64>>) -> Option<Self> {
        let all: Vec<_> = times.collect();
        let delays = Delays::of_times(all.iter().copied())?;
        let mut ended: Vec<_> = all.into_iter().flatten().collect();
        ended.sort_by(f64::total_cmp);
        // The factor keeps rounding errors from raising the count.
        let kept = (TRIMMED * delays.sent as f64 * (1.0 - f64::EPSILON)).ceil() as usize;
        let kept = ended.get(..kept).map(|kept| kept.iter().sum::<f64>() / kept.len() as f64);
        Some(Self { delays, trimmed_mean_s: kept })
    }
}

/// Round trips per minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct RoundTripsPerMinute {
    /// On new connections.
    pub foreign: Option<f64>,
    /// On the connections that carry the load.
    pub loaded: Option<f64>,
    /// The mean of both.
    pub both: Option<f64>,
}

impl RoundTripsPerMinute {
    /// Computes the rates from the times of the three parts on new connections, and from the round-trip time on the
    /// loading connections, s.
    fn of(parts: [Option<f64>; 3], loaded: Option<f64>) -> Self {
        let per_minute = |seconds: f64| (seconds > 0.0).then(|| MINUTE / seconds);
        let [connect, secure, answer] = parts;
        let mean = connect.zip(secure).zip(answer).map(|((a, b), c)| (a + b + c) / 3.0);
        let (foreign, loaded) = (mean.and_then(per_minute), loaded.and_then(per_minute));
        let both = foreign.zip(loaded).map(|(foreign, loaded)| f64::midpoint(foreign, loaded));
        Self { foreign, loaded, both }
    }
}

/// The responsiveness of a loaded path.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Responsiveness {
    /// The draft that defines the number.
    pub draft: &'static str,
    /// The number of the draft, from trimmed means.
    pub rpm: RoundTripsPerMinute,
    /// The same from medians.
    pub rpm_p50: RoundTripsPerMinute,
    /// The same from 95th percentiles.
    pub rpm_p95: RoundTripsPerMinute,
    /// The same from 99th percentiles.
    pub rpm_p99: RoundTripsPerMinute,
    /// TCP handshake.
    pub connect: ProbeTimes,
    /// TLS handshake.
    pub secure: ProbeTimes,
    /// A request and its answer.
    pub answer: ProbeTimes,
    /// Round-trip times on the loading connections, if there are any.
    pub loaded: Option<ProbeTimes>,
}

impl Responsiveness {
    /// The responsiveness in a phase, from the probes that started in it and the counts of the sender. `begun` and
    /// `ended` are in ns of `CLOCK_MONOTONIC`. The first `without_s` seconds are omitted.
    pub fn of_phase(
        probes: &[ForeignProbe],
        sender: &[ConnectionCounts],
        [begun, ended]: [u64; 2],
        without_s: f64,
    ) -> Option<Self> {
        let without_ns = (without_s * 1e9) as u64;
        let within = begun + without_ns..=ended;
        let probes = probes.iter().filter(|probe| within.contains(&probe.begun));
        let told = sender.iter().filter(|counted| counted.at_ns >= without_ns && counted.is_under_load());
        Self::of(probes, told.filter_map(|counted| Some(counted.srtt_ns? as f64 * 1e-9)))
    }

    /// Computes the responsiveness from these probes and the round-trip times of the loading connections, s. Returns
    /// `None` if there are no probes.
    pub fn of<'a>(
        probes: impl Iterator<Item = &'a ForeignProbe> + Clone,
        loaded: impl Iterator<Item = f64>,
    ) -> Option<Self> {
        let part = |at: usize| {
            ProbeTimes::of(
                probes.clone().map(move |probe| probe.parts_ns.map(|parts| parts[at] as f64 * 1e-9)),
            )
        };
        let (connect, secure, answer) = (part(0)?, part(1)?, part(2)?);
        let loaded = ProbeTimes::of(loaded.map(Some));
        let rate = |of: fn(&ProbeTimes) -> Option<f64>| {
            RoundTripsPerMinute::of([&connect, &secure, &answer].map(of), loaded.as_ref().and_then(of))
        };
        Some(Self {
            draft: DRAFT,
            rpm: rate(|trips| trips.trimmed_mean_s),
            rpm_p50: rate(|trips| trips.delays.p50_s),
            rpm_p95: rate(|trips| trips.delays.p95_s),
            rpm_p99: rate(|trips| trips.delays.p99_s),
            connect,
            secure,
            answer,
            loaded,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    fn probes(parts_ms: &[Option<[u64; 3]>]) -> Vec<ForeignProbe> {
        let probe = |parts: &Option<[u64; 3]>| ForeignProbe {
            begun: 0,
            parts_ns: parts.map(|parts| parts.map(|ms| ms * MS)),
        };
        parts_ms.iter().map(probe).collect()
    }

    fn told(parts_ms: &[Option<[u64; 3]>], loaded_ms: &[f64]) -> Responsiveness {
        let probes = probes(parts_ms);
        Responsiveness::of(probes.iter(), loaded_ms.iter().map(|ms| ms * 1e-3)).unwrap()
    }

    /// Computed by hand: 60000 / ((20 + 30 + 40) / 3) = 2000 on new connections, 60000 / 60 = 1000 on loading ones, and
    /// a mean of 1500.
    #[test]
    fn the_drafts_number_is_the_mean_of_new_and_loaded_connections() {
        let told = told(&[Some([20, 30, 40])], &[60.0]);
        assert_eq!(
            told.rpm,
            RoundTripsPerMinute { foreign: Some(2000.0), loaded: Some(1000.0), both: Some(1500.0) }
        );
        assert_eq!((told.rpm_p50, told.rpm_p99), (told.rpm, told.rpm));
    }

    /// Of 20 times, the 19 shortest are kept; of 21 times, the 20 shortest.
    #[test]
    fn the_longest_five_of_a_hundred_are_left_out() {
        let times = |count: u64| (1..=count).map(|seconds| Some(seconds as f64));
        let mean = |count: u64| ProbeTimes::of(times(count)).unwrap().trimmed_mean_s.unwrap();
        assert!((mean(20) - 10.0).abs() < 1e-12, "1 to 19");
        assert!((mean(21) - 10.5).abs() < 1e-12, "1 to 20");
        assert!((mean(100) - 48.0).abs() < 1e-12, "1 to 95");
        assert!((mean(1) - 1.0).abs() < 1e-12);
        assert_eq!(ProbeTimes::of(std::iter::empty()), None);
    }

    #[test]
    fn what_did_not_come_to_its_end_took_longest() {
        let mut all = vec![Some([10, 10, 10]); 19];
        all.push(None);
        let one = told(&all, &[10.0]);
        assert!(one.rpm.foreign.is_some_and(|rpm| (rpm - 6000.0).abs() < 1e-6), "one of twenty is left out");
        assert_eq!(one.connect.delays.lost, 1);
        assert_eq!(one.rpm_p99.foreign, None);
        all.push(None);
        let two = told(&all, &[10.0]);
        assert_eq!((two.rpm.foreign, two.rpm.both), (None, None), "two are too many");
        assert_eq!(two.rpm.loaded, Some(6000.0));
    }

    #[test]
    fn without_loaded_connections_there_is_no_number() {
        let told = told(&[Some([10, 10, 10])], &[]);
        assert_eq!(told.rpm, RoundTripsPerMinute { foreign: Some(6000.0), loaded: None, both: None });
        assert_eq!(Responsiveness::of([].iter(), [0.1].into_iter()), None);
    }

    #[test]
    fn a_phase_is_told_without_its_warm_up() {
        let at = |begun| ForeignProbe { begun, parts_ns: Some([10 * MS; 3]) };
        let probes = [at(999), at(1000), at(1000 + 500 * MS), at(3000 * MS), at(9000 * MS)];
        let counted = |at_ns, srtt_ms: u64| ConnectionCounts {
            at_ns,
            srtt_ns: Some(srtt_ms * MS),
            ..ConnectionCounts::default()
        };
        let sender = [
            counted(100 * MS, 900),
            counted(600 * MS, 20),
            ConnectionCounts { at_ns: 700 * MS, ..ConnectionCounts::default() },
            ConnectionCounts { acknowledged: Some(0), ..counted(800 * MS, 5) },
        ];
        let told = Responsiveness::of_phase(&probes, &sender, [1000, 5000 * MS], 0.5).unwrap();
        assert_eq!(
            told.connect.delays.sent, 2,
            "those of the warm-up and those behind the end are no part of it"
        );
        assert_eq!(told.loaded.unwrap().delays.most_s, Some(0.02));
    }

    proptest! {
        /// Longer times never give a higher responsiveness, and a higher percentile never gives a better result than a
        /// lower one.
        #[test]
        fn longer_is_not_more(parts in proptest::collection::vec([1u64..5000, 1..5000, 1..5000], 1..50), more in 0u64..1000) {
            let of = |more: u64| {
                let parts: Vec<_> = parts.iter().map(|parts| Some(parts.map(|ms| ms + more))).collect();
                told(&parts, &[1.0])
            };
            let (short, long) = (of(0), of(more));
            prop_assert!(long.rpm.both <= short.rpm.both);
            prop_assert!(short.rpm_p99.both <= short.rpm_p95.both && short.rpm_p95.both <= short.rpm_p50.both);
            prop_assert!(short.rpm_p99.both <= short.rpm.both);
        }
    }
}
