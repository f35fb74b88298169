//! Settings of datagram applications: Poisson, constant rate, on and off, and traces.

use netrig_core::{Duration, Rate, Size, SpanDistribution};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::application_settings::{ApplicationSettings, PacedDatagrams, check_spans};
use crate::pattern::{LARGEST, Pattern, pattern_ends};
use crate::{Ends, FlowContext, SettingsError, SizeDistribution, Trace};

/// Datagrams as a Poisson process (MGEN's `POISSON`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Poisson {
    /// Mean gap between datagrams. Either this or `rate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interarrival: Option<Duration>,
    /// Mean rate of IP packets. Either this or `interarrival`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Payload of a datagram.
    pub size: SizeDistribution,
}

/// Datagrams at a constant rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cbr {
    /// Gap between datagrams. Either this or `rate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Duration>,
    /// Rate of IP packets. Either this or `interval`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Payload of a datagram.
    pub size: Size,
}

/// Datagrams at a constant rate during on periods, none during off periods. The durations are drawn from distributions
/// (exponential, Pareto).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnOff {
    /// Duration of an on period.
    pub on: SpanDistribution,
    /// Duration of an off period.
    pub off: SpanDistribution,
    /// Rate of IP packets during an on period.
    pub rate: Rate,
    /// Payload of a datagram.
    pub size: Size,
}

impl ApplicationSettings for Poisson {
    fn check(&self) -> Result<(), SettingsError> {
        one_of("interarrival", self.interarrival.map(Duration::is_zero), self.rate)?;
        self.size.check("size")?;
        fits(self.size.named())
    }

    fn ends(&self, flow: &FlowContext) -> Ends {
        let mean = self.interarrival.unwrap_or_else(|| gap_at(self.rate, self.size.mean(), flow));
        pattern_ends(Pattern::drawn(SpanDistribution::Exponential(mean), self.size.clone(), flow), flow)
    }

    fn paced(&self) -> Option<PacedDatagrams> {
        Some(PacedDatagrams { gap: self.interarrival, rate: self.rate, payload: self.size.mean() })
    }

    fn largest_datagram(&self) -> Option<u64> {
        Some(self.size.largest())
    }

    fn has_infinite_variance(&self) -> bool {
        self.size.has_infinite_variance()
    }
}

impl ApplicationSettings for Cbr {
    fn check(&self) -> Result<(), SettingsError> {
        one_of("interval", self.interval.map(Duration::is_zero), self.rate)?;
        fits([self.size])
    }

    fn ends(&self, flow: &FlowContext) -> Ends {
        let gap = self.interval.unwrap_or_else(|| gap_at(self.rate, self.size.bytes() as f64, flow));
        let size = SizeDistribution::Constant(self.size);
        pattern_ends(Pattern::drawn(SpanDistribution::Constant(gap), size, flow), flow)
    }

    fn paced(&self) -> Option<PacedDatagrams> {
        Some(PacedDatagrams { gap: self.interval, rate: self.rate, payload: self.size.bytes() as f64 })
    }
}

impl ApplicationSettings for OnOff {
    fn check(&self) -> Result<(), SettingsError> {
        check_spans("on", &self.on)?;
        check_spans("off", &self.off)?;
        one_of("rate", None, Some(self.rate))?;
        fits([self.size])
    }

    fn ends(&self, flow: &FlowContext) -> Ends {
        let gap = gap_at(Some(self.rate), self.size.bytes() as f64, flow);
        pattern_ends(Pattern::in_bursts(gap, (&self.on, &self.off), self.size, flow), flow)
    }

    fn paced(&self) -> Option<PacedDatagrams> {
        Some(PacedDatagrams { gap: None, rate: Some(self.rate), payload: self.size.bytes() as f64 })
    }

    fn offered_load(&self) -> Option<f64> {
        let (on, off) = (self.on.mean().as_secs_f64(), self.off.mean().as_secs_f64());
        self.paced()?.offered_load().map(|load| load * on / (on + off))
    }
}

impl ApplicationSettings for Trace {
    fn check(&self) -> Result<(), SettingsError> {
        let wrong = |why: String| Err(SettingsError::new("datagrams", why));
        if self.capture.is_some() {
            return Err(SettingsError::new(
                "capture",
                "it was not read: name a file, without `datagrams` beside it",
            ));
        }
        if self.datagrams.is_empty() {
            return wrong("at least one is needed".into());
        }
        if self.repeat && self.span().is_zero() {
            return wrong("all are sent at once, so a repetition would never end".into());
        }
        match self.datagrams.iter().find(|(_, size)| *size > LARGEST) {
            Some((_, size)) => wrong(format!("a datagram of {size} is too large: the limit is {LARGEST}")),
            None => Ok(()),
        }
    }

    fn ends(&self, flow: &FlowContext) -> Ends {
        pattern_ends(Pattern::trace(self, flow), flow)
    }

    fn datagram(&self) -> Option<f64> {
        Some(self.payload() / self.datagrams.len() as f64)
    }

    fn largest_datagram(&self) -> Option<u64> {
        self.datagrams.iter().map(|(_, size)| size.bytes()).max()
    }

    fn pace(&self, _headers: u32) -> Option<f64> {
        Some(self.datagrams.len() as f64 / self.span().as_secs_f64()).filter(|rate| rate.is_finite())
    }

    fn is_one_way(&self) -> bool {
        true
    }

    fn sends_fill_only(&self) -> bool {
        true
    }

    fn has_an_end(&self) -> bool {
        !self.repeat
    }

    fn offered_load(&self) -> Option<f64> {
        Some(self.payload() / self.span().as_secs_f64()).filter(|load| self.repeat && load.is_finite())
    }
}

/// Returns an error if a size is above the largest.
fn fits(sizes: impl IntoIterator<Item = Size>) -> Result<(), SettingsError> {
    match sizes.into_iter().find(|size| *size > LARGEST) {
        Some(size) => Err(SettingsError::new(
            "size",
            format!("a datagram of {size} is too large: the limit is {LARGEST} (over IP it is 65507 B)"),
        )),
        None => Ok(()),
    }
}

/// Returns an error unless exactly one of a gap and a rate is set, and it is above zero.
fn one_of(gap: &'static str, gap_is_zero: Option<bool>, rate: Option<Rate>) -> Result<(), SettingsError> {
    match (gap_is_zero, rate) {
        (Some(true), _) => Err(SettingsError::new(gap, "it must be above zero")),
        (Some(_), Some(_)) => {
            Err(SettingsError::new("rate", format!("give either `rate` or `{gap}`, not both")))
        }
        (None, None) => Err(SettingsError::new("rate", format!("either `rate` or `{gap}` is needed"))),
        (None, Some(rate)) if rate.bits_per_s() == 0 => {
            Err(SettingsError::new("rate", "it must be above zero"))
        }
        _ => Ok(()),
    }
}

fn gap_at(rate: Option<Rate>, payload: f64, flow: &FlowContext) -> Duration {
    // `check` ensures that the rate is set if the gap is not.
    let bits_per_s = rate.map_or(1, Rate::bits_per_s) as f64;
    Duration::from_secs_f64((payload + f64::from(flow.datagram_headers)) * 8.0 / bits_per_s)
}

#[cfg(test)]
mod tests {
    use netrig_core::Instant;

    use super::*;
    use crate::{AppAction, AppEvent, Genome, Settings, react};

    fn flow() -> FlowContext {
        FlowContext::of_test("background", 3)
    }

    /// Send times and sizes of the first `n` datagrams.
    fn sent(settings: &Settings, n: usize) -> Vec<(Instant, u64)> {
        let mut source = settings.ends(&flow()).client;
        let mut out = vec![];
        let mut next = react(&mut *source, Instant::ZERO, AppEvent::Started, |_| {});
        while let Some(at) = next.filter(|_| out.len() < n) {
            next = react(&mut *source, at, AppEvent::Timeout, |action| {
                if let AppAction::Datagram { data, .. } = action {
                    out.push((at, data.size()));
                }
            });
        }
        out
    }

    #[test]
    fn a_constant_rate_counts_ip_packets() {
        // 972 + 28 bytes at 8 kbit/s: one datagram per second.
        let cbr =
            Cbr { interval: None, rate: Some(Rate::from_bits_per_s(8000)), size: Size::from_bytes(972) };
        let times: Vec<_> = sent(&Settings::Cbr(cbr), 3).iter().map(|(at, _)| at.as_nanos()).collect();
        assert_eq!(times, [1_000_000_000, 2_000_000_000, 3_000_000_000]);
    }

    #[test]
    fn poisson_gaps_are_exponential() {
        let gap = Duration::from_millis(10);
        let size = SizeDistribution::Constant(Size::from_bytes(512));
        let sent = sent(&Settings::Poisson(Poisson { interarrival: Some(gap), rate: None, size }), 20_000);
        let gaps: Vec<f64> = sent.windows(2).map(|w| w[1].0.since(w[0].0).as_secs_f64()).collect();
        let n = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / n;
        let variance = gaps.iter().map(|g| (g - mean) * (g - mean)).sum::<f64>() / n;
        // The mean and the standard deviation of an exponential distribution are equal. The bounds are five standard
        // errors of each.
        assert!((mean - 0.01).abs() < 5.0 * 0.01 / n.sqrt(), "{mean}");
        assert!((variance.sqrt() - 0.01).abs() < 5.0 * 0.01 * 2f64.sqrt() / n.sqrt(), "{variance}");
    }

    #[test]
    fn on_and_off_alternate() {
        let second = SpanDistribution::Constant(Duration::from_secs(1));
        let on_off = OnOff {
            on: second.clone(),
            off: second,
            rate: Rate::from_bits_per_s(8000 * 4),
            size: Size::from_bytes(972),
        };
        let millis: Vec<_> =
            sent(&Settings::OnOff(on_off), 5).iter().map(|(at, _)| at.as_nanos() / 1_000_000).collect();
        assert_eq!(millis, [250, 500, 750, 2000, 2250]);
    }

    #[test]
    fn a_trace_is_sent_as_it_was() {
        let datagram = |ms, bytes| (Duration::from_millis(ms), Size::from_bytes(bytes));
        let datagrams = vec![datagram(5, 100), datagram(0, 200), datagram(10, 300)];
        let once = Trace { datagrams: datagrams.clone(), capture: None, repeat: false };
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        assert_eq!(sent(&Settings::Trace(once.clone()), 9), [(at(5), 100), (at(5), 200), (at(15), 300)]);
        assert!(once.has_an_end() && once.offered_load().is_none());
        let again = Trace { datagrams, capture: None, repeat: true };
        let expected = [(at(5), 100), (at(5), 200), (at(15), 300), (at(20), 100), (at(20), 200)];
        assert_eq!(sent(&Settings::Trace(again.clone()), 5), expected);
        // Three datagrams with 600 bytes in 15 ms.
        assert_eq!(
            (again.offered_load(), again.pace(28), again.datagram()),
            (Some(40_000.0), Some(200.0), Some(200.0))
        );
    }

    #[test]
    fn a_trace_that_would_never_end_is_refused() {
        let datagrams = vec![(Duration::ZERO, Size::from_bytes(100))];
        let at_once = Trace { datagrams, capture: None, repeat: true };
        assert!(at_once.check().unwrap_err().to_string().contains("never end"));
        assert!(Trace { repeat: false, ..at_once.clone() }.check().is_ok());
        assert!(Trace { datagrams: vec![], capture: None, repeat: false }.check().is_err());
    }

    #[test]
    fn a_genome_gives_sizes_in_its_order() {
        let genome = Genome { sequence: "aag".into(), sizes: Default::default() };
        let size = SizeDistribution::Genome(genome);
        let poisson = Poisson { interarrival: Some(Duration::from_millis(1)), rate: None, size };
        let sizes: Vec<_> = sent(&Settings::Poisson(poisson), 4).iter().map(|(_, size)| *size).collect();
        assert_eq!(sizes, [18, 18, 1472, 18]);
    }

    #[test]
    fn a_gap_and_a_rate_exclude_each_other() {
        let size = Size::from_bytes(100);
        let both = Cbr { interval: Some(Duration::from_secs(1)), rate: Some(Rate::from_bits_per_s(1)), size };
        assert!(both.check().unwrap_err().to_string().contains("not both"));
        assert!(Cbr { interval: None, rate: None, size }.check().is_err());
    }
}
