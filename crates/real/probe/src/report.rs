//! What a probe tells: numbers with their unit, interval and n, and whether they can be trusted.

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

/// The confidence of all intervals.
pub const CONFIDENCE: f64 = 0.95;

/// One number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measure {
    /// What it is.
    #[serde(skip)]
    pub name: &'static str,
    /// Its unit; `1` of shares and plain numbers.
    pub unit: &'static str,
    /// The number; nothing if it is undefined.
    pub value: Option<f64>,
    /// The lower end of its interval.
    pub low: Option<f64>,
    /// The upper end of its interval.
    pub high: Option<f64>,
    /// Packets, pairs or periods behind it.
    pub n: usize,
    /// Why it is undefined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undefined: Option<String>,
}

impl Measure {
    /// A number without an interval; undefined if there is none, because too little arrived.
    pub fn exact(name: &'static str, unit: &'static str, value: Option<f64>, n: usize) -> Self {
        let undefined = value.is_none().then(|| "too little arrived".to_owned());
        Self { name, unit, value, low: None, high: None, n, undefined }
    }

    /// A number with its interval.
    pub fn interval(name: &'static str, unit: &'static str, interval: &Interval) -> Self {
        Self {
            low: interval.low,
            high: interval.high,
            ..Self::exact(name, unit, Some(interval.estimate), interval.n)
        }
    }

    /// A quantile with its interval, of `n` packets.
    pub fn quantile(name: &'static str, unit: &'static str, quantile: &Quantile, n: usize) -> Self {
        let why = "so many packets were lost that it is infinite".to_owned();
        Self {
            low: quantile.low,
            high: quantile.high,
            undefined: quantile.value.is_none().then_some(why),
            ..Self::exact(name, unit, quantile.value, n)
        }
    }

    /// The rate at which so many bits for each byte take what a byte takes, s; where that may be nothing, only what the rate is
    /// at least.
    pub fn rate(name: &'static str, bits: f64, per_byte: &Interval) -> Self {
        let of = |seconds: f64| (seconds > 0.0).then(|| bits / seconds);
        let value = of(per_byte.estimate);
        let (low, high) = (per_byte.high.and_then(of), per_byte.low.and_then(of));
        let why = match (value, low) {
            (Some(_), _) if high.is_some() || per_byte.low.is_none() => None,
            (_, Some(_)) => {
                Some("longer packets do not take so much longer that it can be told: it is this or faster")
            }
            _ => Some("longer packets take no longer: it cannot be told"),
        };
        let value = value.filter(|_| why.is_none());
        Self { low, high, undefined: why.map(str::to_owned), ..Self::exact(name, "bit/s", value, per_byte.n) }
    }

    /// A number that is not defined.
    pub fn undefined(name: &'static str, unit: &'static str, why: impl Into<String>) -> Self {
        Self { undefined: Some(why.into()), ..Self::exact(name, unit, None, 0) }
    }
}

/// Numbers about one thing.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// What they are about.
    pub name: Cow<'static, str>,
    /// The numbers, in the order in which they are shown.
    pub measures: Vec<Measure>,
}

impl Section {
    /// About `name` nothing yet.
    pub const fn new(name: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), measures: Vec::new() }
    }

    /// One more number.
    pub fn push(&mut self, measure: Measure) {
        self.measures.push(measure);
    }
}

/// How well this end kept its schedule.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Punctuality {
    /// Packets per second between the first and the last.
    pub rate: Option<f64>,
    /// Half of the packets were late by no more than this, s.
    pub late_p50: f64,
    /// 99 of 100 packets were late by no more than this, s.
    pub late_p99: f64,
    /// The longest that one was late, s.
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

/// Who stamped the packets: of how many the kernel did, of all that could be stamped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stamps {
    /// Packets sent.
    pub sent: usize,
    /// Of them stamped by the kernel when they went to the device; the others by this program before it gave them to the
    /// kernel.
    pub sent_by_kernel: usize,
    /// Packets received.
    pub received: usize,
    /// Of them stamped by the kernel when they came from the device; the others by this program when it read them.
    pub received_by_kernel: usize,
}

/// What a probe measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProbeReport {
    /// Which.
    pub probe: &'static str,
    /// Of the way to whom.
    pub target: String,
    /// Of all intervals.
    pub confidence: f64,
    /// The numbers can be trusted: neither end was the limit.
    pub valid: bool,
    /// Why they cannot.
    pub faults: Vec<String>,
    /// Somebody ended it before its time; what was measured until then is told.
    pub interrupted: bool,
    /// What there was to see, by what it is about.
    #[serde(serialize_with = "as_maps")]
    pub sections: Vec<Section>,
    /// What hosts on the way, and the target, said of packets by ICMP.
    pub icmp_errors: IcmpErrors,
    /// What else is worth knowing.
    pub notes: Vec<String>,
    /// How well the sending end kept its schedule.
    pub source: Punctuality,
    /// Who stamped the packets.
    pub stamps: Stamps,
}

/// Numbers as an object by name, in their order.
pub(crate) fn as_map<S: Serializer>(measures: &[Measure], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(measures.iter().map(|measure| (measure.name, measure)))
}

/// Sections as objects by name, in their order.
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
    /// What is told of every exchange.
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

    /// Whether anything came back.
    pub const fn is_answered(&self) -> bool {
        self.stamps.received > 0
    }

    /// What became of TTL and code point on the way.
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

    /// What TTL and code point packets of one direction arrived with.
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

    /// What is known of the clocks.
    pub(crate) fn offset(&mut self, offset: &ClockOffset) {
        self.notes.push(match offset {
            ClockOffset::Same => "clocks: both ends read one clock".into(),
            ClockOffset::Bounded { ahead, bound } => format!(
                "clocks: the far one is ahead by {:.3} µs ± {:.3} µs (half of the least round trip); one-way delays may be \
                 wrong by as much",
                ahead * 1e6,
                bound * 1e6
            ),
            other => format!("clocks: {}", other.correction().err().unwrap_or_default()),
        });
    }

    /// Why the numbers cannot be trusted.
    pub(crate) fn fault(&mut self, why: impl Into<String>) {
        self.faults.push(why.into());
        self.valid = false;
    }
}

/// `46`, or `46 (12 times), 0 (3 times)`: the most frequent first.
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
