//! The report of a load and its rows.

use std::borrow::Cow;

use netrig_core::{Duration, Histogram};
use netrig_sip::index::{
    Bound, Delay, Outcomes, Ratios, Repetitions, Tally, ThresholdVerdict, Thresholds, ToleratedEvents,
};
use netrig_sip::load::{Failure, What};
use netrig_sip::location::Hop;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::control::Intervention;
use super::kind::{FailureKind, TimeLimit};
use super::offered::Offered;
use super::order::LoadOrder;
use super::tester::TesterSecond;
use crate::dns::DnsCounts;
use crate::tap::{KeptMessages, KeptRecords};

/// Outcomes of attempts of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OutcomeRow {
    /// The kind: `call`, `register`; `renew` is a registration that was refreshed, `answer` and `notify` are calls and
    /// subscriptions as seen by the tester's callee.
    pub what: &'static str,
    /// Their outcomes.
    #[serde(flatten)]
    pub counts: Outcomes,
    /// Attempts that were pending at the end of the load.
    pub open: u64,
}

/// A delay, in µs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DelayRow {
    /// Its name.
    pub name: Cow<'static, str>,
    /// Its name in RFC 6076, if it has one.
    pub rfc6076: Option<Cow<'static, str>>,
    /// Number of values.
    pub n: u64,
    /// The shortest value, exactly.
    pub min_us: f64,
    /// The mean.
    pub mean_us: f64,
    /// The median.
    pub p50_us: f64,
    /// The 95th percentile.
    pub p95_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The 99.9th percentile.
    pub p999_us: f64,
    /// The longest value, exactly.
    pub max_us: f64,
}

/// A threshold and its result.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ThresholdRow {
    /// The delay, or the attempt whose success is judged.
    pub name: String,
    /// The statistic: `mean`, `p95`, `max` or `success`.
    pub statistic: &'static str,
    /// The unit: `us`, or `1` for a share.
    pub unit: &'static str,
    /// The measured value.
    pub was: f64,
    /// The limit: the greatest allowed value, or the smallest allowed share.
    pub bound: f64,
    /// Whether the limit was kept.
    pub kept: bool,
}

/// Failures of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FailureRow {
    /// The kind of attempt.
    pub what: &'static str,
    /// The kind of failure.
    pub kind: FailureKind,
    /// The reason, as text.
    pub why: String,
    /// The time limit of the settings that was decisive: `t1` (after 64 × T1), `longest-ringing` or `patience`; absent
    /// if none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<TimeLimit>,
    /// Number of failures.
    pub count: u64,
}

/// Requests of the peer within dialogs that no scenario expects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UnrequestedRow {
    /// The method; `other` for an unknown method.
    pub method: &'static str,
    /// The status of the response.
    pub status: u16,
    /// Number of requests.
    pub count: u64,
}

/// A second of a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SecondRow {
    /// Its number, from the start of the load.
    pub second: u64,
    /// Planned mean rate of starts of an open loop, 1/s.
    pub intended: Option<f64>,
    /// Attempts started.
    pub begun: u64,
    /// Attempts that ended successfully.
    pub succeeded: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Attempts whose DNS lookup found no server.
    pub unlocated: u64,
    /// Scheduled time of the latest start up to the end of the second, s since the start of the load.
    pub until: f64,
    /// Attempts pending at its end.
    pub open: u64,
    /// Pending attempts that have lasted longer than the own duration of an attempt plus the patience, to a second.
    pub overdue: u64,
    /// Requests retransmitted by attempts that ended in the second.
    pub retransmissions: u64,
    /// Delays of attempts that ended in the second.
    pub delays: Vec<DelayRow>,
    /// Processor time of the threads, s.
    pub tester_cpu: f64,
    /// Why the results of the second must not be attributed to the server.
    pub faults: Vec<String>,
}

/// The tester's record of itself over the whole load.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TesterReport {
    /// Lateness of starts.
    pub lateness: Option<DelayRow>,
    /// Time from the arrival of a message until it was handled. No delay includes it.
    pub own_time: Option<DelayRow>,
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams received.
    pub received: u64,
    /// Received datagrams of another test, or of no known test.
    pub foreign: u64,
    /// Received datagrams of this test that match no pending attempt: duplicates, late messages, or messages of another
    /// dialog.
    pub strays: u64,
    /// Datagrams that could not be sent.
    pub unsent: u64,
    /// How often the kernel had no room to send.
    pub without_room: u64,
    /// Datagrams that the sockets had no room for.
    pub dropped: u64,
    /// Attempts that could not start.
    pub omitted: u64,
    /// Counts of DNS queries during the load.
    pub dns: DnsCounts,
    /// Processor time of the threads, s.
    pub cpu: f64,
    /// How often the kernel preempted a thread.
    pub switches: u64,
    /// Number of threads.
    pub threads: u16,
}

/// The report of a load.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LoadReport {
    /// The version of the document.
    pub format: u32,
    /// The address of the server.
    pub target: String,
    /// How the server was looked up, if it was.
    pub location: Option<LocationRow>,
    /// The offered load.
    pub offered: Offered,
    /// Whether the results are valid: the tester was never the limit.
    pub valid: bool,
    /// Why the results are not valid, as sentences.
    pub faults: Vec<String>,
    /// Whether the load was interrupted.
    pub interrupted: bool,
    /// Manual changes during the load. The load is then not the planned one.
    pub interventions: Vec<Intervention>,
    /// Whether all thresholds were kept.
    pub kept: bool,
    /// Time during which measured attempts started, s.
    pub measured: f64,
    /// Successful attempts among those that started in that time, 1/s.
    pub per_second: f64,
    /// The same per hour: busy-hour call attempts (BHCA).
    pub per_hour: f64,
    /// The same per hour and user.
    pub per_user_and_hour: f64,
    /// Attempts that started in the warm-up and are counted nowhere else.
    pub warm_up: Vec<OutcomeRow>,
    /// Outcomes by kind of attempt.
    pub outcomes: Vec<OutcomeRow>,
    /// Delays.
    pub delays: Vec<DelayRow>,
    /// Thresholds.
    pub thresholds: Vec<ThresholdRow>,
    /// Ratios.
    pub ratios: Ratios,
    /// Failures by kind.
    pub failures: Vec<FailureRow>,
    /// Messages that were sent or received again.
    #[serde(flatten)]
    pub repetitions: Repetitions,
    /// Unexpected requests of the peer within dialogs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unrequested: Vec<UnrequestedRow>,
    /// Other events that are not failures.
    #[serde(flatten)]
    pub tolerated: ToleratedEvents,
    /// Each second.
    pub seconds: Vec<SecondRow>,
    /// The tester's record of itself.
    pub tester: TesterReport,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// Messages that were kept, if configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<KeptMessages>,
    /// Attempts that were recorded, if configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records: Option<KeptRecords>,
}

impl LoadReport {
    /// The version of the document. It changes if a field is removed or changes its meaning.
    pub const FORMAT: u32 = 1;

    /// The outcomes of a kind of attempt.
    pub fn outcome(&self, what: What) -> Option<&OutcomeRow> {
        self.outcomes.iter().find(|row| row.what == what.name())
    }

    /// A delay, if it has values.
    pub fn delay(&self, delay: Delay) -> Option<&DelayRow> {
        self.delays.iter().find(|row| row.name == delay.name())
    }
}

/// Whether the attempts are those of the tester's callees.
pub(super) const fn is_of_others(what: What) -> bool {
    matches!(what, What::Answer | What::Notify)
}

/// All results since the start of a load, while it is in progress.
#[derive(Clone, Copy, Debug)]
pub struct SoFar<'a> {
    pub(super) measured: &'a Tally,
    pub(super) tester: &'a TesterSecond,
    pub(super) faulty: u64,
}

impl SoFar<'_> {
    /// Its delays.
    pub fn delays(&self) -> Vec<DelayRow> {
        delays(self.measured)
    }

    /// The delays: name, name in RFC 6076 if it has one, and histogram.
    pub fn spans(&self) -> impl Iterator<Item = (&'static str, Option<&'static str>, &Histogram)> {
        Delay::ALL.iter().map(|delay| (delay.name(), delay.rfc_name(), self.measured.delay(*delay)))
    }

    /// The measurements of the tester itself.
    pub const fn tester(&self) -> &TesterSecond {
        self.tester
    }

    /// Number of seconds in which the tester was the limit.
    pub const fn faulty(&self) -> u64 {
        self.faulty
    }

    /// Outcomes by kind of attempt.
    pub fn outcomes(&self) -> Vec<OutcomeRow> {
        outcomes(self.measured)
    }

    /// Failures by kind.
    pub fn failures(&self) -> Vec<FailureRow> {
        failures(self.measured)
    }

    /// The thresholds and their results so far.
    pub fn judged(&self, thresholds: &Thresholds) -> Vec<ThresholdRow> {
        judged(thresholds, self.measured)
    }

    /// Number of delays above their thresholds. A call may have several such delays.
    pub fn late(&self, thresholds: &Thresholds) -> u64 {
        let above = |bound: &Bound| self.measured.delay(bound.delay).above(bound.most);
        thresholds.bounds.iter().map(above).sum()
    }

    /// The 99th percentile of the lateness of starts.
    pub fn lateness_p99(&self) -> Duration {
        self.tester.lateness.quantile(0.99).unwrap_or_default()
    }

    /// Received messages of this load.
    pub const fn received(&self) -> u64 {
        self.tester.received.saturating_sub(self.tester.foreign)
    }

    /// Datagrams dropped because a receive buffer of the tester was full.
    pub const fn dropped(&self) -> u64 {
        self.tester.dropped
    }

    /// Processor time of the tester, s.
    pub const fn cpu(&self) -> f64 {
        self.tester.cpu
    }
}

impl TesterReport {
    /// The row of a whole load with this number of threads.
    pub fn of(tester: &TesterSecond, threads: u16) -> Self {
        Self {
            lateness: DelayRow::of("lateness", None, &tester.lateness),
            own_time: DelayRow::of("own_time", None, &tester.own_time),
            sent: tester.sent,
            received: tester.received,
            foreign: tester.foreign,
            strays: tester.strays,
            unsent: tester.unsent,
            without_room: tester.without_room,
            dropped: tester.dropped,
            omitted: tester.full + tester.busy,
            dns: tester.dns,
            cpu: tester.cpu,
            switches: tester.switches,
            threads,
        }
    }
}

pub(super) fn outcomes(tally: &Tally) -> Vec<OutcomeRow> {
    let rows = What::ALL.into_iter().map(|what| (what, tally.outcomes(what)));
    rows.filter(|(_, counts)| counts.begun > 0)
        .map(|(what, counts)| OutcomeRow { what: what.name(), counts, open: counts.open() })
        .collect()
}

pub(super) fn failures(tally: &Tally) -> Vec<FailureRow> {
    let row = |(what, failure, count): (What, Failure, _)| FailureRow {
        what: what.name(),
        kind: failure.into(),
        why: failure.to_string(),
        limit: TimeLimit::of(what, failure),
        count,
    };
    tally.failures().map(row).collect()
}

pub(super) fn delays(tally: &Tally) -> Vec<DelayRow> {
    let rows =
        Delay::ALL.iter().map(|delay| DelayRow::of(delay.name(), delay.rfc_name(), tally.delay(*delay)));
    rows.flatten().collect()
}

impl DelayRow {
    /// The row of a delay with this name and this name in RFC 6076; `None` if the histogram is empty.
    pub fn of(
        name: impl Into<Cow<'static, str>>,
        rfc6076: Option<&'static str>,
        spans: &Histogram,
    ) -> Option<Self> {
        let us = |span: Option<Duration>| span.map(micros);
        let quantile = |p| us(spans.quantile(p));
        Some(Self {
            name: name.into(),
            rfc6076: rfc6076.map(Into::into),
            n: spans.count(),
            min_us: us(spans.min())?,
            mean_us: us(spans.mean())?,
            p50_us: quantile(0.5)?,
            p95_us: quantile(0.95)?,
            p99_us: quantile(0.99)?,
            p999_us: quantile(0.999)?,
            max_us: us(spans.max())?,
        })
    }
}

pub(super) fn judged(thresholds: &Thresholds, tally: &Tally) -> Vec<ThresholdRow> {
    let name = thresholds.statistic.name();
    thresholds.judge(tally).iter().map(|verdict| threshold(verdict, name)).collect()
}

fn threshold(verdict: &ThresholdVerdict, statistic: &'static str) -> ThresholdRow {
    let kept = verdict.is_kept();
    match *verdict {
        ThresholdVerdict::Delay { delay, was, most } => {
            let [was, bound] = [was, most].map(micros);
            ThresholdRow { name: delay.name().to_owned(), statistic, unit: "us", was, bound, kept }
        }
        ThresholdVerdict::Success { what, was, least } => ThresholdRow {
            name: what.name().to_owned(),
            statistic: "success",
            unit: "1",
            was,
            bound: least,
            kept,
        },
    }
}

/// The look-up of a load's server.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LocationRow {
    /// The URI.
    pub uri: String,
    /// When it is looked up: `once`, `per-attempt` or `cached`.
    pub lookup: &'static str,
    /// The hops found before the load, in the order of trying.
    pub hops: Vec<String>,
    /// Duration of that look-up, µs.
    pub took_us: Option<f64>,
}

impl LocationRow {
    /// The row of a load; `None` if its server is not looked up.
    pub(super) fn of(order: &LoadOrder) -> Option<Self> {
        let location = order.location.as_ref()?;
        let found = order.located.as_ref();
        let hop = |hop: &Hop| format!("{}:{}", hop.transport.name().to_lowercase(), hop.address);
        Some(Self {
            uri: location.uri.to_string(),
            lookup: location.lookup.name(),
            hops: found.map(|found| found.hops.iter().map(hop).collect()).unwrap_or_default(),
            took_us: found.map(|found| micros(found.took)),
        })
    }
}

pub(super) fn micros(span: Duration) -> f64 {
    span.as_nanos() as f64 / 1e3
}
