//! Datagrams: Poisson, at a constant rate, on and off.

use std::net::SocketAddr;

use netrig_core::{Data, Duration, Instant, Rate, Sample, Size, Stream, quantity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::settings::Description;
use crate::{
    AppAction, AppEvent, Application, Ends, FlowContext, SettingsError, SizeDistribution, SpanDistribution,
};

/// What UDP and IPv4 add to a payload (RFC 768, RFC 791), bytes: a `rate` counts IP packets.
pub const UDP_IPV4_HEADERS: u32 = 28;

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

/// Datagrams at a constant rate while on; spans of on and off as given (exponential, Pareto).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnOff {
    /// How long it is on.
    pub on: SpanDistribution,
    /// How long it is off.
    pub off: SpanDistribution,
    /// Rate of IP packets while on.
    pub rate: Rate,
    /// Payload of a datagram.
    pub size: Size,
}

impl Description for Poisson {
    fn check(&self) -> Result<(), SettingsError> {
        one_of("interarrival", self.interarrival.map(Duration::is_zero), self.rate)?;
        self.size.check("size")?;
        fits(self.size.named())
    }

    fn ends(&self, flow: &FlowContext) -> Ends {
        ends(Pattern::poisson(self, flow), flow)
    }

    fn datagram(&self) -> Option<f64> {
        Some(self.size.mean())
    }

    fn offered_load(&self) -> Option<f64> {
        offered(self.interarrival, self.rate, self.size.mean())
    }

    fn has_infinite_variance(&self) -> bool {
        self.size.has_infinite_variance()
    }
}

impl Description for Cbr {
    fn check(&self) -> Result<(), SettingsError> {
        one_of("interval", self.interval.map(Duration::is_zero), self.rate)?;
        fits([self.size])
    }

    fn ends(&self, flow: &FlowContext) -> Ends {
        ends(Pattern::cbr(self, flow), flow)
    }

    fn datagram(&self) -> Option<f64> {
        Some(self.size.bytes() as f64)
    }

    fn offered_load(&self) -> Option<f64> {
        offered(self.interval, self.rate, self.size.bytes() as f64)
    }
}

impl Description for OnOff {
    fn check(&self) -> Result<(), SettingsError> {
        self.on.check("on")?;
        self.off.check("off")?;
        one_of("rate", None, Some(self.rate))?;
        fits([self.size])
    }

    fn ends(&self, flow: &FlowContext) -> Ends {
        ends(Pattern::on_off(self, flow), flow)
    }

    fn datagram(&self) -> Option<f64> {
        Some(self.size.bytes() as f64)
    }

    fn offered_load(&self) -> Option<f64> {
        let (on, off) = (self.on.mean().as_secs_f64(), self.off.mean().as_secs_f64());
        offered(None, Some(self.rate), self.size.bytes() as f64).map(|load| load * on / (on + off))
    }
}

/// Payload bytes per second of datagrams that carry so much on average.
fn offered(gap: Option<Duration>, rate: Option<Rate>, payload: f64) -> Option<f64> {
    match (gap, rate) {
        (Some(gap), _) => Some(payload / gap.as_secs_f64()),
        (None, Some(rate)) => {
            Some(rate.bits_per_s() as f64 / 8.0 * payload / (payload + f64::from(UDP_IPV4_HEADERS)))
        }
        (None, None) => None,
    }
}

/// The largest payload of a model's datagram: lengths of packets have 32 bits, and headers need some of that.
const LARGEST: Size = Size::from_bytes(4_000_000_000);

/// None of the sizes that the file names is above the largest.
fn fits(sizes: impl IntoIterator<Item = Size>) -> Result<(), SettingsError> {
    match sizes.into_iter().find(|size| *size > LARGEST) {
        Some(size) => Err(SettingsError::new(
            "size",
            format!("a datagram of {size} cannot be: give at most {LARGEST} (over IP it would be 65507 B)"),
        )),
        None => Ok(()),
    }
}

/// Exactly one of a gap and a rate, and not zero.
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

/// When the next datagram leaves, and how large it is.
struct Pattern {
    gap: SpanDistribution,
    size: SizeDistribution,
    gaps: Stream,
    sizes: Stream,
    bursts: Option<Bursts>,
}

/// Spans of on and off.
struct Bursts {
    on: SpanDistribution,
    off: SpanDistribution,
    spans: Stream,
    /// When the present span of on ends.
    until: Instant,
}

impl Pattern {
    fn new(gap: SpanDistribution, size: SizeDistribution, flow: &FlowContext) -> Self {
        Self { gap, size, gaps: flow.stream("gaps"), sizes: flow.stream("sizes"), bursts: None }
    }

    fn poisson(settings: &Poisson, flow: &FlowContext) -> Self {
        let mean = settings.interarrival.unwrap_or_else(|| gap_at(settings.rate, settings.size.mean(), flow));
        Self::new(SpanDistribution::Exponential(mean), settings.size.clone(), flow)
    }

    fn cbr(settings: &Cbr, flow: &FlowContext) -> Self {
        let gap =
            settings.interval.unwrap_or_else(|| gap_at(settings.rate, settings.size.bytes() as f64, flow));
        Self::new(SpanDistribution::Constant(gap), SizeDistribution::Constant(settings.size), flow)
    }

    fn on_off(settings: &OnOff, flow: &FlowContext) -> Self {
        let gap = gap_at(Some(settings.rate), settings.size.bytes() as f64, flow);
        let mut spans = flow.stream("bursts");
        let until = flow.start + settings.on.draw(&mut spans);
        let bursts = Bursts { on: settings.on.clone(), off: settings.off.clone(), spans, until };
        let size = SizeDistribution::Constant(settings.size);
        Self { bursts: Some(bursts), ..Self::new(SpanDistribution::Constant(gap), size, flow) }
    }

    /// When to send after having sent (or started) at `now`.
    fn next(&mut self, now: Instant) -> Instant {
        let mut at = now + self.gap.draw(&mut self.gaps);
        if let Some(bursts) = &mut self.bursts {
            while at >= bursts.until {
                // What was left of the gap is spent in the next span of on.
                let rest = at.since(bursts.until);
                let resumes = bursts.until + bursts.off.draw(&mut bursts.spans);
                bursts.until = resumes + bursts.on.draw(&mut bursts.spans);
                at = resumes + rest;
            }
        }
        at
    }
}

fn gap_at(rate: Option<Rate>, payload: f64, flow: &FlowContext) -> Duration {
    // `check` has made sure that there is a rate where there is no gap.
    let bits_per_s = rate.map_or(1, Rate::bits_per_s) as f64;
    Duration::from_secs_f64((payload + f64::from(flow.datagram_headers)) * 8.0 / bits_per_s)
}

fn ends(pattern: Pattern, flow: &FlowContext) -> Ends {
    let source = Source { server: flow.server, pattern, next: None, due: None };
    Ends { client: Box::new(source), server: Box::new(Sink { pending: [None, None] }) }
}

struct Source {
    server: SocketAddr,
    pattern: Pattern,
    next: Option<Instant>,
    due: Option<AppAction>,
}

impl Application for Source {
    fn handle(&mut self, now: Instant, event: AppEvent) {
        match event {
            AppEvent::Started => self.next = Some(self.pattern.next(now)),
            AppEvent::Timeout => {
                // From the time it was due, not from `now`: a carrier that wakes late offers no less.
                let Some(at) = self.next.filter(|at| *at <= now) else { return };
                let size = self.pattern.size.draw(&mut self.pattern.sizes).min(LARGEST.bytes());
                let data = Data::Fill(size);
                self.due = Some(AppAction::Datagram { to: self.server, data });
                self.next = Some(self.pattern.next(at));
            }
            AppEvent::Stopped => self.next = None,
            _ => {}
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }

    fn poll_action(&mut self, _now: Instant) -> Option<AppAction> {
        self.due.take()
    }
}

/// Tells of each datagram's delay.
struct Sink {
    pending: [Option<Sample>; 2],
}

impl Application for Sink {
    fn handle(&mut self, now: Instant, event: AppEvent) {
        if let AppEvent::Datagram { sent, .. } = event {
            let delay = now.since(sent).as_secs_f64();
            self.pending = [
                Some(Sample { at: now, quantity: &quantity::ONE_WAY_DELAY, value: delay }),
                Some(Sample { at: sent, quantity: &quantity::DATAGRAMS_RECEIVED, value: 1.0 }),
            ];
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn poll_action(&mut self, _now: Instant) -> Option<AppAction> {
        self.pending.iter_mut().find_map(Option::take).map(AppAction::Record)
    }
}

#[cfg(test)]
mod tests {
    use netrig_core::{Seeds, Size};

    use super::*;
    use crate::{Settings, react};

    fn flow() -> FlowContext {
        FlowContext {
            name: "background".into(),
            seeds: Seeds::new(3),
            server: ([10, 0, 0, 2], 5001).into(),
            start: Instant::ZERO,
            datagram_headers: UDP_IPV4_HEADERS,
            streams: 1,
        }
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
        // 972 + 28 bytes at 8 kbit/s: one a second.
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
        // Mean and standard deviation are equal; five standard errors of each.
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
    fn a_gap_and_a_rate_exclude_each_other() {
        let size = Size::from_bytes(100);
        let both = Cbr { interval: Some(Duration::from_secs(1)), rate: Some(Rate::from_bits_per_s(1)), size };
        assert!(both.check().unwrap_err().to_string().contains("not both"));
        assert!(Cbr { interval: None, rate: None, size }.check().is_err());
    }
}
