//! The times at which attempts start, decided before the first one.

use std::fmt;
use std::str::FromStr;

use netrig_core::setting::{SettingField, SettingForm, SettingForms, SettingWordError};
use netrig_core::{Duration, Instant, Seeds, SpanDistribution, Stream, setting_texts};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Distribution of the gaps between arrivals, for any mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Gaps {
    /// Exponential: a Poisson process.
    #[default]
    Poisson,
    /// All gaps are the same.
    Constant,
    /// Uniform between zero and twice the mean.
    Uniform,
    /// Bursts of this number of simultaneous arrivals. The interval between bursts is this number times the mean gap.
    Burst(u32),
}

impl FromStr for Gaps {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let gaps = match text {
            "poisson" => Some(Self::Poisson),
            "constant" => Some(Self::Constant),
            "uniform" => Some(Self::Uniform),
            _ => {
                let size = text.strip_prefix("burst:").and_then(|size| size.parse().ok());
                size.filter(|size| *size > 0).map(Self::Burst)
            }
        };
        gaps.ok_or_else(|| "expected poisson, constant, uniform or burst:N".to_owned())
    }
}

impl fmt::Display for Gaps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Poisson => f.write_str("poisson"),
            Self::Constant => f.write_str("constant"),
            Self::Uniform => f.write_str("uniform"),
            Self::Burst(size) => write!(f, "burst:{size}"),
        }
    }
}

setting_texts! {
    Gaps = "KIND", "`poisson`, `constant`, `uniform`, or `burst:10` for ten at once";
}

/// A rate of arrivals, 1/s. On a command line with its unit: `1000/s`, `60/min`, `36000/h`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct ArrivalRate(pub f64);

impl FromStr for ArrivalRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "expected a rate such as 1000/s, 60/min or 36000/h".to_owned();
        let (number, unit) = text.split_once('/').ok_or_else(wrong)?;
        let seconds = match unit.trim() {
            "s" => 1.0,
            "min" => 60.0,
            "h" => 3600.0,
            _ => return Err(wrong()),
        };
        let number: f64 = number.trim().parse().map_err(|_| wrong())?;
        if number.is_finite() && number >= 0.0 { Ok(Self(number / seconds)) } else { Err(wrong()) }
    }
}

impl fmt::Display for ArrivalRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", self.0)
    }
}

setting_texts! {
    ArrivalRate = "RATE", "`1000/s`, `60/min` or `36000/h`";
}

/// A setting whose value is a rate as a number, 1/s. It is written like an [`ArrivalRate`].
#[derive(Clone, Copy, Debug)]
pub struct PerSecond;

impl SettingForms<f64> for PerSecond {
    fn form() -> SettingForm {
        <ArrivalRate as SettingField>::form()
    }

    fn read(words: &[&str]) -> Result<f64, SettingWordError> {
        <ArrivalRate as SettingField>::read(words).map(|rate| rate.0)
    }

    fn words(value: &f64) -> Vec<String> {
        ArrivalRate(*value).words()
    }
}

/// A period in which the rate changes linearly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateStage {
    /// Rate at the start, 1/s.
    pub from: f64,
    /// Rate at the end, 1/s.
    pub to: f64,
    /// Duration of the stage.
    pub lasts: Duration,
}

/// The arrivals of an open loop.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// Arrivals with a rate.
    Rate {
        /// Distribution of the gaps around their mean.
        gaps: Gaps,
        /// Consecutive stages. After the last stage, its final rate continues.
        stages: Vec<RateStage>,
    },
    /// Arrivals at these times, counted from the start.
    Trace(Vec<Duration>),
}

/// Why a text is not a trace of times.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A line is not a valid time.
    #[error("line {line}: {why}")]
    Line {
        /// Line number, from 1.
        line: usize,
        /// The error in the line.
        why: &'static str,
    },
    /// The trace has no times.
    #[error("it has no times")]
    Empty,
}

/// Reads the times of a trace: a time in seconds on each line, in ascending order. Empty lines, lines that begin with
/// `#`, and a byte order mark are ignored.
///
/// # Errors
/// A line is wrong (the first one is returned), or the trace is empty.
pub fn moments_of(text: &str) -> Result<Vec<Duration>, TraceError> {
    let mut moments: Vec<Duration> = Vec::new();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (line, text) in (1..).zip(text.lines()) {
        if text.trim().is_empty() || text.starts_with('#') {
            continue;
        }
        let wrong = |why| TraceError::Line { line, why };
        let seconds: f64 = text.trim().parse().map_err(|_| wrong("expected a time in seconds"))?;
        if !seconds.is_finite() || seconds < 0.0 {
            return Err(wrong("expected a time of zero or more"));
        }
        let at = Duration::from_secs_f64(seconds);
        if moments.last().is_some_and(|last| *last > at) {
            return Err(wrong("it is before the one above it"));
        }
        moments.push(at);
    }
    if moments.is_empty() { Err(TraceError::Empty) } else { Ok(moments) }
}

impl Arrivals {
    /// Arrivals at a constant rate, 1/s.
    pub fn at(rate: f64, gaps: Gaps) -> Self {
        Self::Rate { gaps, stages: vec![RateStage { from: rate, to: rate, lasts: Duration::MAX }] }
    }

    /// The times of the arrivals, which depend on the seed.
    pub fn schedule(&self, seed: u64) -> Schedule {
        let draws = Seeds::new(seed).stream("sip/arrivals");
        Schedule { arrivals: self.clone(), draws, at: 0.0, stage: 0, within: 0.0, number: 0 }
    }

    /// Duration of all stages, or of a trace up to the first whole second after its last arrival. `None` for a constant
    /// rate and for an empty trace.
    pub fn lasts(&self) -> Option<Duration> {
        match self {
            Self::Rate { stages, .. } => {
                let all = stages.iter().fold(Duration::ZERO, |all, stage| all + stage.lasts);
                (all < Duration::MAX).then_some(all)
            }
            Self::Trace(moments) => {
                let last = moments.last()?;
                Some(Duration::from_secs(last.as_nanos() / Duration::from_secs(1).as_nanos() + 1))
            }
        }
    }

    /// Expected number of arrivals within a duration.
    pub fn expected(&self, within: Duration) -> f64 {
        match self {
            Self::Trace(moments) => moments.iter().filter(|at| **at < within).count() as f64,
            Self::Rate { stages, .. } => {
                let mut left = within.as_secs_f64();
                let mut count = 0.0;
                for (place, RateStage { from, to, lasts }) in stages.iter().enumerate() {
                    let all = lasts.as_secs_f64();
                    let span = left.min(all);
                    let slope = if all > 0.0 { (to - from) / all } else { 0.0 };
                    count += from * span + slope * span * span / 2.0;
                    left -= span;
                    if place + 1 == stages.len() {
                        count += to * left;
                    }
                }
                count
            }
        }
    }

    /// The highest rate, 1/s. For a trace, the mean rate.
    pub fn peak(&self) -> f64 {
        match self {
            Self::Rate { stages, .. } => {
                stages.iter().fold(0.0, |most, stage| most.max(stage.from).max(stage.to))
            }
            Self::Trace(moments) => {
                let span = moments.last().map_or(0.0, |last| last.as_secs_f64());
                moments.len() as f64 / span.max(1.0)
            }
        }
    }
}

/// Iterator over the times of arrivals.
#[derive(Debug)]
pub struct Schedule {
    arrivals: Arrivals,
    draws: Stream,
    /// Time of the last arrival, s.
    at: f64,
    stage: usize,
    /// Time since the start of the stage, s.
    within: f64,
    number: usize,
}

impl Iterator for Schedule {
    type Item = Instant;

    fn next(&mut self) -> Option<Instant> {
        let number = self.number;
        self.number += 1;
        let (gaps, stages) = match &self.arrivals {
            Arrivals::Trace(moments) => return moments.get(number).map(|at| Instant::ZERO + *at),
            Arrivals::Rate { gaps, stages } => (*gaps, stages),
        };
        let unit = Duration::from_secs(1);
        let arrivals = match gaps {
            Gaps::Poisson => SpanDistribution::Exponential(unit).draw(&mut self.draws).as_secs_f64(),
            Gaps::Uniform => {
                let span = SpanDistribution::Uniform { min: Duration::ZERO, max: unit * 2 };
                span.draw(&mut self.draws).as_secs_f64()
            }
            // The first attempt starts at time 0.
            Gaps::Constant if number == 0 => 0.0,
            Gaps::Constant => 1.0,
            Gaps::Burst(size) if number > 0 && number.is_multiple_of(size.max(1) as usize) => f64::from(size),
            Gaps::Burst(_) => 0.0,
        };
        let (stage, within, passed) = after(stages, (self.stage, self.within), arrivals)?;
        (self.stage, self.within) = (stage, within);
        self.at += passed;
        Some(Instant::ZERO + Duration::from_secs_f64(self.at))
    }
}

/// The position after `left` more arrivals: the stage, the time within it, and the time that has passed, s. `None` if
/// they never arrive.
fn after(
    stages: &[RateStage],
    (mut place, mut within): (usize, f64),
    mut left: f64,
) -> Option<(usize, f64, f64)> {
    let mut passed = 0.0;
    loop {
        let stage = stages.get(place.min(stages.len().checked_sub(1)?))?;
        let all = stage.lasts.as_secs_f64();
        let is_behind = place >= stages.len();
        let slope = if is_behind || all <= 0.0 { 0.0 } else { (stage.to - stage.from) / all };
        let rate = if is_behind { stage.to } else { stage.from + slope * within };
        let rest = if is_behind { f64::INFINITY } else { all - within };
        let takes = if slope == 0.0 {
            if left == 0.0 { 0.0 } else { left / rate }
        } else {
            // rate·t + slope·t²/2 = left
            let root = (rate * rate + 2.0 * slope * left).sqrt();
            (root - rate) / slope
        };
        if takes <= rest {
            return takes.is_finite().then_some((place, within + takes, passed + takes));
        }
        if is_behind {
            return None;
        }
        left = (left - (rate * rest + slope * rest * rest / 2.0)).max(0.0);
        passed += rest;
        (place, within) = (place + 1, 0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(schedule: Schedule, count: usize) -> Vec<u64> {
        schedule.take(count).map(|at| (at.as_secs_f64() * 1e3).round() as u64).collect()
    }

    #[test]
    fn arrivals_have_the_gaps_that_were_asked_for() {
        let of = |gaps| Arrivals::at(10.0, gaps).schedule(1);
        assert_eq!(millis(of(Gaps::Constant), 4), [0, 100, 200, 300]);
        assert_eq!(millis(of(Gaps::Burst(3)), 7), [0, 0, 0, 300, 300, 300, 600]);
        let uniform = millis(of(Gaps::Uniform), 1000);
        assert!(uniform.windows(2).all(|pair| pair[1] - pair[0] <= 201));
        let trace = Arrivals::Trace(vec![Duration::from_millis(5), Duration::from_millis(7)]);
        assert_eq!(millis(trace.schedule(1), 9), [5, 7]);
        assert_eq!(trace.expected(Duration::from_millis(6)), 1.0);
    }

    #[test]
    fn stages_and_traces_last_as_long_as_they_say() {
        let stage = |seconds| RateStage { from: 1.0, to: 2.0, lasts: Duration::from_secs(seconds) };
        let stages = Arrivals::Rate { gaps: Gaps::Constant, stages: vec![stage(30), stage(60)] };
        assert_eq!(stages.lasts(), Some(Duration::from_secs(90)));
        assert_eq!(Arrivals::at(100.0, Gaps::Constant).lasts(), None);
        let trace = |millis: &[u64]| {
            Arrivals::Trace(millis.iter().copied().map(Duration::from_millis).collect()).lasts()
        };
        assert_eq!([trace(&[]), trace(&[0, 0])], [None, Some(Duration::from_secs(1))]);
        assert_eq!(trace(&[500, 12_000]), Some(Duration::from_secs(13)), "the last is one of them");
    }

    #[test]
    fn rates_have_their_unit() {
        for (text, rate) in
            [("1000/s", 1000.0), ("3.3/s", 3.3), ("60/min", 1.0), ("36000 / h", 10.0), ("0/s", 0.0)]
        {
            assert_eq!(text.parse(), Ok(ArrivalRate(rate)), "{text}");
        }
        for wrong in ["1000", "1000/d", "x/s", "-1/s", "inf/s", "/s"] {
            assert!(wrong.parse::<ArrivalRate>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn arrivals_have_names() {
        assert_eq!("burst:10".parse(), Ok(Gaps::Burst(10)));
        assert_eq!("poisson".parse(), Ok(Gaps::Poisson));
        assert!("burst:0".parse::<Gaps>().is_err() && "random".parse::<Gaps>().is_err());
    }

    #[test]
    fn a_trace_is_a_moment_on_each_line() {
        assert_eq!(
            moments_of("\u{feff}0.5\n\n 1 \n# a remark\n1\n").unwrap(),
            [500, 1000, 1000].map(Duration::from_millis)
        );
        let wrong = |text: &str| moments_of(text).unwrap_err().to_string();
        assert_eq!(wrong("1\n0.5\n"), "line 2: it is before the one above it");
        assert_eq!(wrong("soon"), "line 1: expected a time in seconds");
        assert_eq!(wrong("\n-1"), "line 2: expected a time of zero or more");
        assert_eq!(wrong("\n"), "it has no times");
    }

    /// The share of 5000 gaps that are longer than t has the mean e^-t and the standard error √(e^-t (1 − e^-t) /
    /// 5000). The standard error of the mean gap is 1/√5000 of it.
    #[test]
    fn a_poisson_process_has_exponential_gaps_and_its_seed_is_its_own() {
        let of = |seed| Arrivals::at(1000.0, Gaps::Poisson).schedule(seed).take(5001).collect::<Vec<_>>();
        let gaps: Vec<_> = of(1).windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64() * 1000.0).collect();
        let count = gaps.len() as f64;
        for t in [0.1, 0.5, 1.0, 2.0, 4.0] {
            let (share, expected) =
                (gaps.iter().filter(|gap| **gap > t).count() as f64 / count, libm::exp(-t));
            assert!(
                (share - expected).abs() < 4.0 * (expected * (1.0 - expected) / count).sqrt(),
                "{t}: {share}"
            );
        }
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }

    /// From 0 to 100/s in 10 s: the n-th arrival is at √(n/5) s, 500 in all. Then there is one arrival every 10 ms.
    #[test]
    fn a_ramp_rises_evenly_and_its_end_stays() {
        let stage = RateStage { from: 0.0, to: 100.0, lasts: Duration::from_secs(10) };
        let ramp = Arrivals::Rate { gaps: Gaps::Constant, stages: vec![stage] };
        let at: Vec<f64> = ramp.schedule(1).take(511).map(|at| at.as_secs_f64()).collect();
        for n in [1_u32, 5, 125, 500] {
            assert!((at[n as usize] - (f64::from(n) / 5.0).sqrt()).abs() < 1e-6, "{n}");
        }
        assert!((at[510] - 10.1).abs() < 1e-6);
        assert_eq!(ramp.expected(Duration::from_secs(12)), 700.0);
        let none = RateStage { from: 1.0, to: 0.0, lasts: Duration::from_secs(2) };
        let dying = Arrivals::Rate { gaps: Gaps::Constant, stages: vec![none] };
        assert_eq!(dying.schedule(1).count(), 2, "nobody comes after its end");
    }
}
