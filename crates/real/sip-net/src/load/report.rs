//! What a load says: the rows of its report.

use std::borrow::Cow;

use netrig_core::Duration;
use netrig_sip::index::{Bound, Delay, Histogram, Tally, ThresholdVerdict, Thresholds};
use netrig_sip::load::{Failure, What};
use netrig_sip::location::Hop;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::control::Intervention;
use super::kind::{FailureKind, TimeLimit, attempt_name};
use super::offered::Offered;
use super::order::LoadOrder;
use super::tester::TesterSecond;
use crate::dns::DnsCounts;
use crate::tap::{KeptMessages, KeptRecords};

/// What became of things of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OutcomeRow {
    /// Of what: `call`, `register`; `renew` is a registration that was kept alive, `answer` and `notify` are calls and
    /// subscriptions as the tester's callee saw them.
    pub what: &'static str,
    /// That were begun.
    pub begun: u64,
    /// That went as they should.
    pub succeeded: u64,
    /// That did not.
    pub failed: u64,
    /// That found no server to ask: they say nothing of one.
    pub unlocated: u64,
    /// That had not come to an end when the load was over.
    pub open: u64,
}

/// A delay, in µs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DelayRow {
    /// Which.
    pub name: Cow<'static, str>,
    /// Its name in RFC 6076, if it has one.
    pub rfc6076: Option<Cow<'static, str>>,
    /// How many there were.
    pub n: u64,
    /// The shortest, exactly.
    pub min_us: f64,
    /// The mean.
    pub mean_us: f64,
    /// Half are no longer.
    pub p50_us: f64,
    /// 95 % are no longer.
    pub p95_us: f64,
    /// 99 % are no longer.
    pub p99_us: f64,
    /// 99.9 % are no longer.
    pub p999_us: f64,
    /// The longest, exactly.
    pub max_us: f64,
}

/// A threshold, and whether it was kept.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ThresholdRow {
    /// Of which delay, or of the success of what.
    pub name: String,
    /// What is held against it: `mean`, `p95`, `max` or `success`.
    pub statistic: &'static str,
    /// The unit: `us`, or `1` of a share.
    pub unit: &'static str,
    /// What it was.
    pub was: f64,
    /// The most that it may be; of a share the least.
    pub bound: f64,
    /// Whether it was kept.
    pub kept: bool,
}

/// The ratios of RFC 6076, 0 to 1; of what there was none of, nothing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Ratios {
    /// Session establishment ratio.
    pub ser: Option<f64>,
    /// Session establishment effectiveness ratio.
    pub seer: Option<f64>,
    /// Ineffective session attempts.
    pub isa: Option<f64>,
    /// Session completion ratio.
    pub scr: Option<f64>,
    /// Ineffective registration attempts.
    pub ira: Option<f64>,
}

/// Failures of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FailureRow {
    /// What failed.
    pub what: &'static str,
    /// Of what kind.
    pub kind: FailureKind,
    /// Why, in words.
    pub why: String,
    /// The time of the order that has decided it: `t1` (after 64 of it), `longest-ringing` or `patience`; absent if none has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<TimeLimit>,
    /// How many.
    pub count: u64,
}

/// Requests of the other side within dialogs that no scenario waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UnrequestedRow {
    /// The method; `other` for one of no RFC that netrig knows.
    pub method: &'static str,
    /// The status of the answer.
    pub status: u16,
    /// How many.
    pub count: u64,
}

/// A second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SecondRow {
    /// Counted from the beginning of the load.
    pub second: u64,
    /// What was to begin in it by the plan of an open loop, on average: its rate, 1/s.
    pub intended: Option<f64>,
    /// What began in it.
    pub begun: u64,
    /// What ended well in it.
    pub succeeded: u64,
    /// What failed in it.
    pub failed: u64,
    /// What found no server to ask in it.
    pub unlocated: u64,
    /// The last moment until its end at which something was to begin and did, s from the beginning of the load.
    pub until: f64,
    /// What is open at its end.
    pub open: u64,
    /// Of that, what has been for longer than it lasts by itself and the order's patience, to a second.
    pub overdue: u64,
    /// Requests that were sent again in what ended in it.
    pub retransmissions: u64,
    /// The delays of what ended in it.
    pub delays: Vec<DelayRow>,
    /// Its thread's time on cores, s.
    pub tester_cpu: f64,
    /// Why it must not be put down to the server.
    pub faults: Vec<String>,
}

/// The tester's record of itself, over all of the load.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TesterReport {
    /// How late began what was to begin.
    pub lateness: Option<DelayRow>,
    /// From the arrival of a message until it was handled, which is in no delay.
    pub own_time: Option<DelayRow>,
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams received.
    pub received: u64,
    /// Of them, those of another test or of nobody.
    pub foreign: u64,
    /// Of them, those of this test that belong to nothing, or to nothing any more: what came twice, too late, or to another
    /// dialog.
    pub strays: u64,
    /// Datagrams that could not be sent.
    pub unsent: u64,
    /// How often the kernel had no room for what was to be sent.
    pub without_room: u64,
    /// Datagrams that the sockets had no room for.
    pub dropped: u64,
    /// What could not begin.
    pub omitted: u64,
    /// What was asked of the DNS while it went on.
    pub dns: DnsCounts,
    /// The threads' time on cores, s.
    pub cpu: f64,
    /// How often another was let run in a thread's place.
    pub switches: u64,
    /// Threads.
    pub threads: u16,
}

/// What a load says.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LoadReport {
    /// The version of the document.
    pub format: u32,
    /// Where it went.
    pub target: String,
    /// How that was found, if it was looked for.
    pub location: Option<LocationRow>,
    /// What was offered.
    pub offered: Offered,
    /// Whether the tester itself was never the limit.
    pub valid: bool,
    /// Why not, in sentences.
    pub faults: Vec<String>,
    /// Whether it was ended before its time.
    pub interrupted: bool,
    /// What a person did to it while it went on: it is not the load that was planned any more.
    pub interventions: Vec<Intervention>,
    /// Whether all thresholds were kept.
    pub kept: bool,
    /// How long users began that were measured, s.
    pub measured: f64,
    /// What ended well, of what began in that time, per second of it.
    pub per_second: f64,
    /// The same in an hour: busy-hour call attempts (BHCA) that it would carry.
    pub per_hour: f64,
    /// The same for each user.
    pub per_user_and_hour: f64,
    /// What began in the warm-up, which is in nothing else here.
    pub warm_up: Vec<OutcomeRow>,
    /// What became of what was begun.
    pub outcomes: Vec<OutcomeRow>,
    /// Delays.
    pub delays: Vec<DelayRow>,
    /// Thresholds.
    pub thresholds: Vec<ThresholdRow>,
    /// Ratios.
    pub ratios: Ratios,
    /// Why what failed.
    pub failures: Vec<FailureRow>,
    /// Requests sent again because nobody answered in time.
    pub requests_again: u64,
    /// Final responses sent again, by the tester's callee, because nobody acknowledged in time.
    pub responses_again: u64,
    /// ACKs sent again because a final response came again.
    pub acknowledgements_again: u64,
    /// Requests that came to the tester's callee again.
    pub received_again: u64,
    /// Responses that came to callers again, beside those that were acknowledged again; absent if there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub responses_received_again: Option<u64>,
    /// INVITEs within a dialog that crossed one of the other side (491) and were sent again later (RFC 3261 section 14.1); absent if
    /// there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_again: Option<u64>,
    /// Requests of the tester that refreshed a session, or were to (RFC 4028); absent if there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refreshes_sent: Option<u64>,
    /// Requests of the other side that refreshed a session, and that the tester answered with 2xx; absent if there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refreshes_answered: Option<u64>,
    /// What the other side asked for of its own within dialogs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unrequested: Vec<UnrequestedRow>,
    /// Provisional responses that came behind those sent after them: tolerated.
    pub reordered: u64,
    /// Challenges that were answered.
    pub challenges: u64,
    /// Dialogs beside the first that forked calls came to: acknowledged and hung up.
    pub surplus: u64,
    /// Servers that were given up for the next.
    pub failed_over: u64,
    /// Contacts of 3xx that were asked; absent if there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirects_followed: Option<u64>,
    /// Requests that were sent again after the time of a `Retry-After`; absent if there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retried: Option<u64>,
    /// Second by second.
    pub seconds: Vec<SecondRow>,
    /// The tester itself.
    pub tester: TesterReport,
    /// What a reader has to know.
    pub notes: Vec<String>,
    /// Messages that were kept, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<KeptMessages>,
    /// Attempts that were written down, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records: Option<KeptRecords>,
}

impl LoadReport {
    /// The version of the document: another when something in it is left out, or means something else.
    pub const FORMAT: u32 = 1;

    /// What became of what the load is of.
    pub fn outcome(&self, what: What) -> Option<&OutcomeRow> {
        self.outcomes.iter().find(|row| row.what == attempt_name(what))
    }

    /// A delay, if there was any.
    pub fn delay(&self, delay: Delay) -> Option<&DelayRow> {
        self.delays.iter().find(|row| row.name == delay.name())
    }
}

/// Whether it is something as who is called sees it.
pub(super) const fn is_of_others(what: What) -> bool {
    matches!(what, What::Answer | What::Notify)
}

/// All that was measured from the beginning of a load.
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

    /// Its delays, span by span: their names, those of RFC 6076, and what was measured.
    pub fn spans(&self) -> impl Iterator<Item = (&'static str, Option<&'static str>, &Histogram)> {
        Delay::ALL.iter().map(|delay| (delay.name(), delay.rfc_name(), self.measured.delay(*delay)))
    }

    /// The tester's record of itself.
    pub const fn tester(&self) -> &TesterSecond {
        self.tester
    }

    /// In how many seconds the tester was the limit.
    pub const fn faulty(&self) -> u64 {
        self.faulty
    }

    /// What became of what was begun.
    pub fn outcomes(&self) -> Vec<OutcomeRow> {
        outcomes(self.measured)
    }

    /// Why what failed.
    pub fn failures(&self) -> Vec<FailureRow> {
        failures(self.measured)
    }

    /// The delays held against thresholds.
    pub fn judged(&self, thresholds: &Thresholds) -> Vec<ThresholdRow> {
        judged(thresholds, self.measured)
    }

    /// How many spans of delays were above their bounds: no fewer than there were calls with such a delay.
    pub fn late(&self, thresholds: &Thresholds) -> u64 {
        let above = |bound: &Bound| self.measured.delay(bound.delay).above(bound.most);
        thresholds.bounds.iter().map(above).sum()
    }

    /// How late the latest percent of what began was.
    pub fn lateness_p99(&self) -> Duration {
        self.tester.lateness.quantile(0.99).unwrap_or_default()
    }

    /// Messages received that belong to this load.
    pub const fn received(&self) -> u64 {
        self.tester.received.saturating_sub(self.tester.foreign)
    }

    /// Datagrams that the tester's sockets had no room for.
    pub const fn dropped(&self) -> u64 {
        self.tester.dropped
    }

    /// The tester's time on cores, s.
    pub const fn cpu(&self) -> f64 {
        self.tester.cpu
    }
}

impl TesterReport {
    /// Of all seconds of a load by so many threads.
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
    rows.filter(|(_, outcomes)| outcomes.begun > 0)
        .map(|(what, outcomes)| OutcomeRow {
            what: attempt_name(what),
            begun: outcomes.begun,
            succeeded: outcomes.succeeded,
            failed: outcomes.failed,
            unlocated: outcomes.unlocated,
            open: outcomes.open(),
        })
        .collect()
}

pub(super) fn failures(tally: &Tally) -> Vec<FailureRow> {
    let row = |(what, failure, count): (What, Failure, _)| FailureRow {
        what: attempt_name(what),
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
    /// The delay with this name, and its name in RFC 6076; `None` where there was none.
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
            name: attempt_name(what).to_owned(),
            statistic: "success",
            unit: "1",
            was,
            bound: least,
            kept,
        },
    }
}

/// How a load's server was looked for.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LocationRow {
    /// What was looked for.
    pub uri: String,
    /// When: `once`, `per-attempt` or `cached`.
    pub lookup: &'static str,
    /// What was found before the load, in the order in which it is tried.
    pub hops: Vec<String>,
    /// How long that took, µs.
    pub took_us: Option<f64>,
}

impl LocationRow {
    /// Of a load, if its server is looked for.
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
