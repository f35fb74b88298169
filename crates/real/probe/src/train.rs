//! `probe train`: sends trains of echo requests, each with one packet size, and shows how the round-trip time depends
//! on the size.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;

use netrig_core::{Dscp, Duration, Size, setting_texts, settings};
use netrig_stats::fit::line;

use super::error::{ProbeError, ProbeResult};
use super::path_sections;
use super::ping::{self, PingOrder};
use super::report::{CONFIDENCE, Measure, ProbeReport, Punctuality, Section};
use super::schedule::Gaps;
use super::two_way::{PACKETS, ProbePlan};

/// Echo requests of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Train {
    /// Number of packets.
    pub count: u32,
    /// Octets of data in each packet.
    pub size: usize,
}

/// The error for a text that is not a train.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a train: expected COUNTxSIZE, such as 11x100B")]
pub struct TrainError(String);

impl FromStr for Train {
    type Err = TrainError;

    /// Parses a count and a size: `11x100B`.
    fn from_str(text: &str) -> Result<Self, TrainError> {
        let parts = text.split_once('x');
        let train = parts.and_then(|(count, size)| {
            Some(Self { count: count.parse().ok()?, size: size.parse::<Size>().ok()?.to_usize() })
        });
        train.ok_or_else(|| TrainError(text.to_owned()))
    }
}

impl fmt::Display for Train {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.count, Size::from_bytes(self.size as u64))
    }
}

setting_texts! {
    Train = "COUNTxSIZE";
}

settings! {
    /// The settings of trains.
    #[derive(Clone, Debug)]
    pub struct TrainSettings with defaults {
        /// Number of packets and data size of each train, separated by commas.
        trains: Vec<Train> { heading: PACKETS, value_name: "COUNTxSIZE[,..]", is_list: true }
            = vec![Train { count: 11, size: 100 }, Train { count: 10, size: 1000 }];
        /// Time between two packets.
        interval: Duration { heading: PACKETS } = Duration::from_secs(1);
        /// Time after which a packet counts as lost.
        wait: Duration { heading: PACKETS } = Duration::from_secs(2);
        /// Code point to send with: `ef`, `af11`, `cs5` or 0 to 63.
        dscp: Dscp { heading: PACKETS } = Dscp::BE;
    }
}

/// Maximum number of trains.
const MOST_TRAINS: usize = 64;

/// Bits that the path carries per octet of data: the request and the reply together.
const BOTH_WAYS: f64 = 16.0;

/// Sends trains and fits a line to their round-trip times.
///
/// Fails if a setting is invalid. A missing answer is a measurement, not an error.
pub fn train(target: SocketAddr, settings: &TrainSettings, cancel: &AtomicBool) -> ProbeResult<ProbeReport> {
    if settings.trains.is_empty() || settings.trains.len() > MOST_TRAINS {
        let trains = settings.trains.len();
        return Err(ProbeError::Request(format!("{trains} trains: expected 1 to {MOST_TRAINS}")));
    }
    let mut whole: Option<ProbeReport> = None;
    let (mut sizes, mut trips) = (Vec::new(), Vec::new());
    for train in &settings.trains {
        let plan = ProbePlan {
            count: train.count,
            gaps: Gaps::Periodic(settings.interval),
            wait: settings.wait,
            seed: 0,
        };
        let ping = PingOrder { target, plan, size: train.size, dscp: settings.dscp.0 };
        let (course, delays) = ping::exchange(&ping, cancel)?;
        for delay in delays.iter().flatten() {
            sizes.push(train.size as f64);
            trips.push(*delay);
        }
        let mut report = ping::report("train", &ping, &course);
        let [mut section, _] = path_sections::round_trip(&course, &delays)?;
        section.name = format!("{}_B", train.size).into();
        report.sections.push(section);
        whole = Some(match whole {
            None => report,
            Some(before) => joined(before, report),
        });
        if whole.as_ref().is_some_and(|report| report.interrupted) {
            break;
        }
    }
    // There was at least one train, so there is a report unless the probe was interrupted.
    let mut report = whole.ok_or(ProbeError::Interrupted)?;
    report.sections.push(slope(&sizes, &trips)?);
    Ok(report)
}

/// Joins the reports of two trains. Of each property that describes the quality of the measurement, the worse value is
/// kept.
fn joined(mut before: ProbeReport, after: ProbeReport) -> ProbeReport {
    before.valid &= after.valid;
    before.interrupted |= after.interrupted;
    before.sections.extend(after.sections);
    for (all, more) in [(&mut before.faults, after.faults), (&mut before.notes, after.notes)] {
        all.extend(more);
        let mut seen = BTreeSet::new();
        all.retain(|words| seen.insert(words.clone()));
    }
    before.icmp_errors.append(&after.icmp_errors);
    let (a, b) = (before.source, after.source);
    before.source = Punctuality {
        rate: a.rate.or(b.rate),
        late_p50: a.late_p50.max(b.late_p50),
        late_p99: a.late_p99.max(b.late_p99),
        late_max: a.late_max.max(b.late_max),
    };
    before.stamps.sent += after.stamps.sent;
    before.stamps.sent_by_kernel += after.stamps.sent_by_kernel;
    before.stamps.received += after.stamps.received;
    before.stamps.received_by_kernel += after.stamps.received_by_kernel;
    before
}

/// The slope of the round-trip time over the packet size. It is computed from all packets, and from the fastest packet
/// of each size, which waited least in queues.
fn slope(sizes: &[f64], trips: &[f64]) -> ProbeResult<Section> {
    let mut section = Section::new("slope");
    let mut least = BTreeMap::<u64, f64>::new();
    for (size, trip) in sizes.iter().zip(trips) {
        let known = least.entry(*size as u64).or_insert(f64::INFINITY);
        *known = known.min(*trip);
    }
    if least.len() < 2 {
        let why = "only packets of one size were answered";
        section.push(Measure::undefined("time_per_byte", "s/B", why));
        section.push(Measure::undefined("two_way_rate", "bit/s", why));
        return Ok(section);
    }
    let slope = line(sizes, trips, CONFIDENCE)?.slope;
    section.push(Measure::interval("time_per_byte", "s/B", &slope));
    section.push(Measure::rate("two_way_rate", BOTH_WAYS, &slope));
    let (x, y): (Vec<f64>, Vec<f64>) = least.into_iter().map(|(size, trip)| (size as f64, trip)).unzip();
    let fastest = line(&x, &y, CONFIDENCE)?.slope;
    section.push(Measure::interval("time_per_byte_of_fastest", "s/B", &fastest));
    section.push(Measure::rate("two_way_rate_of_fastest", BOTH_WAYS, &fastest));
    Ok(section)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(section: &Section, name: &str) -> Measure {
        section.measures.iter().find(|measure| measure.name == name).cloned().unwrap()
    }

    #[test]
    fn a_train_is_a_count_and_a_size() {
        assert_eq!("11x100B".parse(), Ok(Train { count: 11, size: 100 }));
        assert_eq!("10x1KB".parse(), Ok(Train { count: 10, size: 1000 }));
        for wrong in ["", "11", "x100B", "11x", "11x100B x", "-1x5B"] {
            let error = wrong.parse::<Train>().unwrap_err().to_string();
            assert!(error.contains("COUNTxSIZE"), "{wrong}");
        }
    }

    /// The link has 10 Mbit/s in both directions: an octet takes 0.8 µs in each.
    #[test]
    fn the_rate_of_a_link_comes_back_from_the_times() {
        let sizes: Vec<f64> = (0..21).map(|number| if number < 11 { 100.0 } else { 1000.0 }).collect();
        let waits = |number: usize| (number % 5) as f64 * 1e-6;
        let trips: Vec<f64> =
            sizes.iter().enumerate().map(|(at, size)| 0.03 + 1.6e-6 * size + waits(at)).collect();
        let section = slope(&sizes, &trips).unwrap();
        let rate = value(&section, "two_way_rate");
        assert!((rate.value.unwrap() / 10e6 - 1.0).abs() < 0.01, "{rate:?}");
        assert!(rate.low.unwrap() < 10e6 && 10e6 < rate.high.unwrap(), "{rate:?}");
        assert_eq!(rate.n, 21);
        let fastest = value(&section, "two_way_rate_of_fastest");
        assert!((fastest.value.unwrap() / 10e6 - 1.0).abs() < 1e-6, "{fastest:?}");
        assert_eq!((fastest.low, fastest.high), (None, None), "two points have no interval");
    }

    #[test]
    fn one_size_alone_has_no_slope() {
        let section = slope(&[100.0; 3], &[0.1; 3]).unwrap();
        assert!(section.measures.iter().all(|measure| measure.undefined.is_some()));
    }
}
