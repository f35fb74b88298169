//! The report of a probe: numbers with their unit, interval and sample size, and whether they are valid.

use std::borrow::Cow;
use std::collections::BTreeMap;

use netrig_stats::Interval;
use netrig_stats::path::Quantile;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::icmp_error::IcmpErrors;
use super::offset::ClockOffset;
use super::two_way::{NoAnswer, ProbeCourse};
use netrig_host::SourceReport;

/// Confidence level of all intervals.
pub const CONFIDENCE: f64 = 0.95;

/// A measured number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measure {
    /// Name of the quantity.
    #[serde(skip)]
    pub name: &'static str,
    /// Unit; `1` if the number is a share or has no unit.
    pub unit: &'static str,
    /// Value; `None` if it is undefined.
    pub value: Option<f64>,
    /// Lower end of its interval.
    pub low: Option<f64>,
    /// Upper end of its interval.
    pub high: Option<f64>,
    /// Sample size: packets, pairs or periods.
    pub n: usize,
    /// Why the value is undefined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undefined: Option<String>,
}

impl Measure {
    /// A number without an interval. If `value` is `None`, it is undefined because too few packets arrived.
    pub fn exact(name: &'static str, unit: &'static str, value: Option<f64>, n: usize) -> Self {
        let undefined = value.is_none().then(|| "too little arrived".to_owned());
        Self { name, unit, value, low: None, high: None, n, undefined }
    }

    /// A number with its confidence interval.
    pub fn interval(name: &'static str, unit: &'static str, interval: &Interval) -> Self {
        Self {
            low: interval.low,
            high: interval.high,
            ..Self::exact(name, unit, Some(interval.estimate), interval.n)
        }
    }

    /// A quantile of `n` packets with its confidence interval.
    pub fn quantile(name: &'static str, unit: &'static str, quantile: &Quantile, n: usize) -> Self {
        let why = "too many packets were lost: the quantile is infinite".to_owned();
        Self {
            low: quantile.low,
            high: quantile.high,
            undefined: quantile.value.is_none().then_some(why),
            ..Self::exact(name, unit, quantile.value, n)
        }
    }

    /// A rate in bit/s, computed from the time per byte, s: `bits` are transmitted per byte. If the interval of that
    /// time includes zero, only a lower bound of the rate is given.
    pub fn rate(name: &'static str, bits: f64, per_byte: &Interval) -> Self {
        let of = |seconds: f64| (seconds > 0.0).then(|| bits / seconds);
        let value = of(per_byte.estimate);
        let (low, high) = (per_byte.high.and_then(of), per_byte.low.and_then(of));
        let why = match (value, low) {
            (Some(_), _) if high.is_some() || per_byte.low.is_none() => None,
            (_, Some(_)) => {
                Some("longer packets do not take measurably longer: the rate is at least the lower bound")
            }
            _ => Some("longer packets take no longer: the rate cannot be determined"),
        };
        let value = value.filter(|_| why.is_none());
        Self { low, high, undefined: why.map(str::to_owned), ..Self::exact(name, "bit/s", value, per_byte.n) }
    }

    /// An undefined number.
    pub fn undefined(name: &'static str, unit: &'static str, why: impl Into<String>) -> Self {
        Self { undefined: Some(why.into()), ..Self::exact(name, unit, None, 0) }
    }
}

/// A named group of numbers in a report.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// Name of the section.
    pub name: Cow<'static, str>,
    /// Numbers in the order of display.
    pub measures: Vec<Measure>,
}

impl Section {
    /// An empty section.
    pub const fn new(name: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), measures: Vec::new() }
    }

    /// Adds a number.
    pub fn push(&mut self, measure: Measure) {
        self.measures.push(measure);
    }
}

/// How well this end kept its schedule.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Punctuality {
    /// Packets per second between the first packet and the last.
    pub rate: Option<f64>,
    /// Median lateness of the packets, s.
    pub late_p50: f64,
    /// 99 % quantile of the lateness, s.
    pub late_p99: f64,
    /// Maximum lateness, s.
    pub late_max: f64,
}

impl From<&SourceReport> for Punctuality {
    fn from(source: &SourceReport) -> Self {
        Self {
            rate: source.rate,
            late_p50: source.late_p50,
            late_p99: source.late_p99,
            late_max: source.late_max,
        }
    }
}

/// How many packets have time stamps of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stamps {
    /// Packets sent.
    pub sent: usize,
    /// Sent packets that the kernel stamped when it passed them to the device. The other packets have the time at which
    /// this program passed them to the kernel.
    pub sent_by_kernel: usize,
    /// Packets received.
    pub received: usize,
    /// Received packets that the kernel stamped when they came from the device. The other packets have the time at
    /// which this program read them.
    pub received_by_kernel: usize,
}

/// Results of a probe.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProbeReport {
    /// Name of the probe.
    pub probe: &'static str,
    /// The target, as shown to the user.
    pub target: String,
    /// Confidence level of all intervals.
    pub confidence: f64,
    /// Whether the results are valid: neither end limited the measurement.
    pub valid: bool,
    /// Reasons why the results are not valid.
    pub faults: Vec<String>,
    /// Whether the probe was interrupted. The results then cover the time before the interruption.
    pub interrupted: bool,
    /// Sections with the measured numbers.
    #[serde(serialize_with = "as_maps")]
    pub sections: Vec<Section>,
    /// ICMP errors about the packets.
    pub icmp_errors: IcmpErrors,
    /// Further remarks, as sentences.
    pub notes: Vec<String>,
    /// How well the sending end kept its schedule.
    pub source: Punctuality,
    /// How many packets have time stamps of the kernel.
    pub stamps: Stamps,
}

/// Serialises numbers as an object whose keys are their names, in this order.
pub(crate) fn as_map<S: Serializer>(measures: &[Measure], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(measures.iter().map(|measure| (measure.name, measure)))
}

/// Serialises sections as an object whose keys are their names, in this order.
fn as_maps<S: Serializer>(sections: &[Section], serializer: S) -> Result<S::Ok, S::Error> {
    struct Measures<'a>(&'a [Measure]);
    impl Serialize for Measures<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            as_map(self.0, serializer)
        }
    }
    let mut map = serializer.serialize_map(Some(sections.len()))?;
    for section in sections {
        map.serialize_entry(&section.name, &Measures(&section.measures))?;
    }
    map.end()
}

impl ProbeReport {
    /// The part that the reports of all two-way measurements have in common.
    pub(crate) fn of_course(probe: &'static str, target: String, course: &ProbeCourse) -> Self {
        let answers = || course.sent.iter().filter_map(|packet| packet.answer);
        let stamps = Stamps {
            sent: course.sent.len(),
            sent_by_kernel: course.sent.iter().filter(|packet| packet.stamped.is_some()).count(),
            received: answers().count(),
            received_by_kernel: answers().filter(|answer| answer.stamped).count(),
        };
        let mut report = Self {
            probe,
            target,
            confidence: CONFIDENCE,
            valid: course.faults.is_empty(),
            faults: course.faults.clone(),
            interrupted: course.interrupted,
            sections: Vec::new(),
            icmp_errors: course.icmp_errors.clone(),
            notes: Vec::new(),
            source: Punctuality::from(&course.source),
            stamps,
        };
        report.notes = course.icmp_errors.sentences();
        if course.icmp_errors.is_empty()
            && stamps.received == 0
            && stamps.sent > 0
            && course.foreign.keys().all(|why| *why == NoAnswer::Foreign)
        {
            report.notes.push(format!(
                "there was no answer from {}, and no ICMP error: either no program listens there, or a firewall or the far \
                 end's list of allowed addresses drops the packets",
                report.target
            ));
        }
        report
    }

    /// Whether any answer arrived.
    pub const fn is_answered(&self) -> bool {
        self.stamps.received > 0
    }

    /// Adds notes on the TTL and the DSCP with which packets and answers arrived.
    pub(crate) fn note_path_fields(&mut self, course: &ProbeCourse, dscp: u8, answer_dscp: Option<u8>) {
        let answers = || course.sent.iter().filter_map(|packet| packet.answer);
        let mut note = |what: &str, values: Vec<u8>| {
            let mut counts = BTreeMap::<u8, usize>::new();
            values.into_iter().for_each(|value| *counts.entry(value).or_default() += 1);
            if !counts.is_empty() {
                self.notes.push(format!("{what}: {}", listed(&counts)));
            }
        };
        note(
            "TTL with which packets arrived there",
            answers().filter_map(|answer| Some(answer.far?.ttl)).collect(),
        );
        note("TTL with which answers arrived here", answers().filter_map(|answer| answer.ttl).collect());
        let class = || answers().filter_map(|answer| answer.far?.class);
        let there = class().map(|class| class.received).collect();
        note(&format!("DSCP with which packets arrived there (sent with {dscp})"), there);
        let asked = answer_dscp.map_or_else(String::new, |asked| format!(" (asked for {asked})"));
        let back = answers().filter_map(|answer| Some(answer.class? >> 2)).collect();
        note(&format!("DSCP with which answers arrived here{asked}"), back);
        if class().any(|class| class.refused) {
            self.notes.push("the reflector's policy refuses the DSCP that was asked for".into());
        }
        if answer_dscp.is_some() && class().next().is_none() && self.stamps.received > 0 {
            self.notes
                .push("the reflector does not understand the extension for the class of service".into());
        }
    }

    /// Adds notes on the TTL and the DSCP with which the packets of one direction arrived.
    pub(crate) fn note_arrival_fields(
        &mut self,
        dscp: u8,
        dscps: &BTreeMap<u8, usize>,
        ttls: &BTreeMap<u8, usize>,
    ) {
        if !ttls.is_empty() {
            self.notes.push(format!("TTL with which packets arrived: {}", listed(ttls)));
        }
        if !dscps.is_empty() {
            self.notes.push(format!("DSCP with which packets arrived (sent with {dscp}): {}", listed(dscps)));
        }
    }

    /// Adds a note on the offset between the clocks.
    pub(crate) fn offset(&mut self, offset: &ClockOffset) {
        self.notes.push(match offset {
            ClockOffset::Same => "clocks: both ends read one clock".into(),
            ClockOffset::Bounded { ahead, bound } => format!(
                "clocks: the far clock is ahead by {:.3} µs ± {:.3} µs (half of the shortest round-trip time); one-way delays may be \
                 wrong by as much",
                ahead * 1e6,
                bound * 1e6
            ),
            other => format!("clocks: {}", other.correction().err().unwrap_or_default()),
        });
    }

    /// Adds a reason why the results are not valid.
    pub(crate) fn fault(&mut self, why: impl Into<String>) {
        self.faults.push(why.into());
        self.valid = false;
    }
}

/// Formats values with their counts: `46`, or `46 (12 times), 0 (3 times)`, the most frequent first.
fn listed(counts: &BTreeMap<u8, usize>) -> String {
    let mut counts: Vec<_> = counts.iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    if let [(value, _)] = counts[..] {
        return value.to_string();
    }
    counts.iter().map(|(value, count)| format!("{value} ({count} times)")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_listed_by_how_often_they_came() {
        assert_eq!(listed(&[(46, 2)].into()), "46");
        assert_eq!(listed(&[(0, 1), (46, 2)].into()), "46 (2 times), 0 (1 times)");
    }

    #[test]
    fn sections_are_objects_by_name_in_their_order() {
        let mut section = Section::new("there");
        section.push(Measure::exact("b", "s", Some(1.0), 3));
        section.push(Measure::undefined("a", "1", "nothing came"));
        let text = serde_json::to_string(&Wrapper { sections: vec![section] }).unwrap();
        let b = r#""b":{"unit":"s","value":1.0,"low":null,"high":null,"n":3}"#;
        let a = r#""a":{"unit":"1","value":null,"low":null,"high":null,"n":0,"undefined":"nothing came"}"#;
        assert_eq!(text, format!(r#"{{"sections":{{"there":{{{b},{a}}}}}}}"#));
    }

    #[derive(Serialize)]
    struct Wrapper {
        #[serde(serialize_with = "as_maps")]
        sections: Vec<Section>,
    }
}
