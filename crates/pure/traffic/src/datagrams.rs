//! Datagrams: Poisson, at a constant rate, on and off; and what sends them, those of a trace too.

use std::net::SocketAddr;

use netrig_core::{Data, Duration, Instant, Rate, Sample, Size, SpanDistribution, Stream, quantity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::settings::{Description, check_spans};
use crate::{
    AppAction, AppEvent, Application, Ends, FlowContext, SettingsError, SizeDistribution, Trace,
    TracedDatagram,
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
        pattern_ends(Pattern::poisson(self, flow), flow)
    }

    fn datagram(&self) -> Option<f64> {
        Some(self.size.mean())
    }

    fn largest_datagram(&self) -> Option<u64> {
        Some(self.size.largest())
    }

    fn pace(&self, headers: u32) -> Option<f64> {
        pace(self.interarrival, self.rate, self.size.mean(), headers)
    }

    fn is_one_way(&self) -> bool {
        true
    }

    fn sends_fill_only(&self) -> bool {
        true
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
        pattern_ends(Pattern::cbr(self, flow), flow)
    }

    fn datagram(&self) -> Option<f64> {
        Some(self.size.bytes() as f64)
    }

    fn pace(&self, headers: u32) -> Option<f64> {
        pace(self.interval, self.rate, self.size.bytes() as f64, headers)
    }

    fn is_one_way(&self) -> bool {
        true
    }

    fn sends_fill_only(&self) -> bool {
        true
    }

    fn offered_load(&self) -> Option<f64> {
        offered(self.interval, self.rate, self.size.bytes() as f64)
    }
}

impl Description for OnOff {
    fn check(&self) -> Result<(), SettingsError> {
        check_spans("on", &self.on)?;
        check_spans("off", &self.off)?;
        one_of("rate", None, Some(self.rate))?;
        fits([self.size])
    }

    fn ends(&self, flow: &FlowContext) -> Ends {
        pattern_ends(Pattern::on_off(self, flow), flow)
    }

    fn datagram(&self) -> Option<f64> {
        Some(self.size.bytes() as f64)
    }

    fn pace(&self, headers: u32) -> Option<f64> {
        pace(None, Some(self.rate), self.size.bytes() as f64, headers)
    }

    fn is_one_way(&self) -> bool {
        true
    }

    fn sends_fill_only(&self) -> bool {
        true
    }

    fn offered_load(&self) -> Option<f64> {
        let (on, off) = (self.on.mean().as_secs_f64(), self.off.mean().as_secs_f64());
        offered(None, Some(self.rate), self.size.bytes() as f64).map(|load| load * on / (on + off))
    }
}

/// Datagrams per second with such a mean gap, or at such a rate of IP packets with such a mean payload.
fn pace(gap: Option<Duration>, rate: Option<Rate>, payload: f64, headers: u32) -> Option<f64> {
    match (gap, rate) {
        (Some(gap), _) => Some(1.0 / gap.as_secs_f64()),
        (None, Some(rate)) => Some(rate.bits_per_s() as f64 / 8.0 / (payload + f64::from(headers))),
        (None, None) => None,
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
pub(crate) const LARGEST: Size = Size::from_bytes(4_000_000_000);

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
pub(crate) struct Pattern {
    gap: Gap,
    size: SizeDistribution,
    gaps: Stream,
    sizes: Stream,
    /// Datagrams sent so far.
    sent: u64,
}

/// What decides when the next datagram leaves.
enum Gap {
    Drawn(SpanDistribution),
    /// Always the same while on.
    InBursts(Duration, Box<Bursts>),
    /// That of the datagram's place in a trace.
    Traced(Trace),
}

/// Spans of on and off.
struct Bursts {
    on: SpanDistribution,
    off: SpanDistribution,
    spans: Stream,
    /// When the present span of on ends.
    until: Instant,
}

impl Bursts {
    /// When `gap` of on is over after `now`: what was left of it when a span of on ended is spent in the next.
    fn after(&mut self, now: Instant, gap: Duration) -> Instant {
        let mut at = now + gap;
        while at >= self.until {
            let rest = at.since(self.until);
            let resumes = self.until + self.off.draw(&mut self.spans);
            self.until = resumes + self.on.draw(&mut self.spans);
            at = resumes + rest;
        }
        at
    }
}

impl Pattern {
    fn new(gap: Gap, size: SizeDistribution, flow: &FlowContext) -> Self {
        Self { gap, size, gaps: flow.stream("gaps"), sizes: flow.stream("sizes"), sent: 0 }
    }

    fn poisson(settings: &Poisson, flow: &FlowContext) -> Self {
        let mean = settings.interarrival.unwrap_or_else(|| gap_at(settings.rate, settings.size.mean(), flow));
        Self::new(Gap::Drawn(SpanDistribution::Exponential(mean)), settings.size.clone(), flow)
    }

    fn cbr(settings: &Cbr, flow: &FlowContext) -> Self {
        let gap =
            settings.interval.unwrap_or_else(|| gap_at(settings.rate, settings.size.bytes() as f64, flow));
        let size = SizeDistribution::Constant(settings.size);
        Self::new(Gap::Drawn(SpanDistribution::Constant(gap)), size, flow)
    }

    fn on_off(settings: &OnOff, flow: &FlowContext) -> Self {
        let gap = gap_at(Some(settings.rate), settings.size.bytes() as f64, flow);
        let mut spans = flow.stream("bursts");
        let until = flow.start + settings.on.draw(&mut spans);
        let bursts = Bursts { on: settings.on.clone(), off: settings.off.clone(), spans, until };
        Self::new(Gap::InBursts(gap, Box::new(bursts)), SizeDistribution::Constant(settings.size), flow)
    }

    /// A trace has its own sizes.
    pub(crate) fn trace(trace: &Trace, flow: &FlowContext) -> Self {
        Self::new(Gap::Traced(trace.clone()), SizeDistribution::Constant(Size::from_bytes(0)), flow)
    }

    /// When to send after having sent (or started) at `now`; never again if it is over.
    fn next(&mut self, now: Instant) -> Option<Instant> {
        Some(match &mut self.gap {
            Gap::Drawn(gap) => now + gap.draw(&mut self.gaps),
            Gap::InBursts(gap, bursts) => bursts.after(now, *gap),
            Gap::Traced(trace) => now + traced(trace, self.sent)?.0,
        })
    }

    /// The payload of the datagram that leaves now.
    fn size(&mut self) -> u64 {
        let number = self.sent;
        self.sent += 1;
        match &self.gap {
            Gap::Traced(trace) => traced(trace, number).map_or(0, |(_, size)| size.bytes()),
            Gap::Drawn(_) | Gap::InBursts(..) => {
                self.size.draw_nth(number, &mut self.sizes).min(LARGEST.bytes())
            }
        }
    }
}

/// Datagram `number` of a trace, if it has or repeats as many.
fn traced(trace: &Trace, number: u64) -> Option<TracedDatagram> {
    let len = trace.datagrams.len() as u64;
    let place = if trace.repeat { number % len.max(1) } else { number };
    trace.datagrams.get(usize::try_from(place).ok()?).copied()
}

fn gap_at(rate: Option<Rate>, payload: f64, flow: &FlowContext) -> Duration {
    // `check` has made sure that there is a rate where there is no gap.
    let bits_per_s = rate.map_or(1, Rate::bits_per_s) as f64;
    Duration::from_secs_f64((payload + f64::from(flow.datagram_headers)) * 8.0 / bits_per_s)
}

/// A source of such datagrams, and who receives them.
pub(crate) fn pattern_ends(pattern: Pattern, flow: &FlowContext) -> Ends {
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
            AppEvent::Started => self.next = self.pattern.next(now),
            AppEvent::Timeout => {
                // From the time it was due, not from `now`: a carrier that wakes late offers no less.
                let Some(at) = self.next.filter(|at| *at <= now) else { return };
                let data = Data::Fill(self.pattern.size());
                self.due = Some(AppAction::Datagram { to: self.server, data });
                self.next = self.pattern.next(at);
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
    use crate::{Genome, Settings, react};

    fn flow() -> FlowContext {
        FlowContext {
            name: "background".into(),
            seeds: Seeds::new(3),
            server: ([10, 0, 0, 2], 5001).into(),
            start: Instant::ZERO,
            datagram_headers: UDP_IPV4_HEADERS,
            client: ([10, 0, 0, 1], 49_152).into(),
            stop: Instant::NEVER,
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
        // 600 bytes in 15 ms, three datagrams.
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
